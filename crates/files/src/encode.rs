//! Record batches to bytes of a file, in pieces that can be sent while the file grows.
//!
//! Owns the three formats and their settings. Where bytes go is the writer's.

use arrow::array::RecordBatch;
use arrow::csv;
use arrow::datatypes::SchemaRef;
use arrow::json::LineDelimitedWriter;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;

/// Format of the files of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// Parquet with Arrow's type mapping and its schema in the footer, compressed with zstd.
    Parquet,
    /// Comma-separated values with a header line; null is an empty field.
    Csv,
    /// One JSON object per line; a null field is left out.
    JsonLines,
}

impl Format {
    /// How file names end.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Parquet => "parquet",
            Self::Csv => "csv",
            Self::JsonLines => "jsonl",
        }
    }
}

/// A Parquet row group is closed at this size, which bounds the memory of a writer, in bytes.
const ROW_GROUP: usize = 32 << 20;

/// One file being encoded.
pub(crate) enum Encoder {
    Parquet(Box<ArrowWriter<Vec<u8>>>),
    Csv { header: bool },
    JsonLines,
}

impl Encoder {
    pub(crate) fn new(format: Format, schema: &SchemaRef) -> Result<Self, String> {
        Ok(match format {
            Format::Parquet => {
                let properties = WriterProperties::builder()
                    .set_compression(Compression::ZSTD(ZstdLevel::default()))
                    .build();
                let writer = ArrowWriter::try_new(Vec::new(), schema.clone(), Some(properties));
                Self::Parquet(Box::new(writer.map_err(|e| e.to_string())?))
            }
            Format::Csv => Self::Csv { header: true },
            Format::JsonLines => Self::JsonLines,
        })
    }

    /// Takes rows; gives the bytes that are ready.
    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<Vec<u8>, String> {
        match self {
            Self::Parquet(writer) => {
                writer.write(batch).map_err(|e| e.to_string())?;
                if writer.in_progress_size() >= ROW_GROUP {
                    writer.flush().map_err(|e| e.to_string())?;
                }
                // The writer counts its offsets itself, so that the bytes may be taken.
                Ok(std::mem::take(writer.inner_mut()))
            }
            Self::Csv { header } => {
                let builder = csv::WriterBuilder::new().with_header(*header);
                let mut bytes = Vec::new();
                builder
                    .build(&mut bytes)
                    .write(batch)
                    .map_err(|e| e.to_string())?;
                *header = false;
                Ok(bytes)
            }
            Self::JsonLines => {
                let mut bytes = Vec::new();
                let mut writer = LineDelimitedWriter::new(&mut bytes);
                writer
                    .write(batch)
                    .and_then(|()| writer.finish())
                    .map_err(|e| e.to_string())?;
                drop(writer);
                Ok(bytes)
            }
        }
    }

    /// Bytes that are encoded and not given out yet, roughly.
    pub(crate) fn held(&self) -> u64 {
        match self {
            Self::Parquet(writer) => writer.in_progress_size() as u64,
            Self::Csv { .. } | Self::JsonLines => 0,
        }
    }

    /// The last bytes.
    pub(crate) fn finish(self) -> Result<Vec<u8>, String> {
        match self {
            Self::Parquet(writer) => writer.into_inner().map_err(|e| e.to_string()),
            Self::Csv { .. } | Self::JsonLines => Ok(Vec::new()),
        }
    }
}
