//! What decides how a table's data files are written: types and options, resolved once per table.
//!
//! Options are read here and nowhere else in this crate \[F-6.1]; rolling sizes belong to the writer.

use crate::error::{Error, Result};
use crate::types::{Use, arrow_fields, parquet_schema, type_text};
use arrow::datatypes::{Schema, SchemaRef};
use parquet::basic::{Compression, GzipLevel, ZstdLevel};
use parquet::file::properties::{
    EnabledStatistics, WriterProperties, WriterPropertiesBuilder, WriterVersion,
};
use parquet::schema::types::{ColumnPath, TypePtr};
use std::sync::Arc;
use tidegate_model::{DataField, LogicalType, Options, TableSchema};

/// Row groups end at this many encoded bytes unless `file.block-size` or `parquet.block.size` says
/// otherwise. Java's 128 MiB would keep a whole file in memory until it ends; smaller groups cost
/// nothing measurable and let the upload overlap the encoding.
const ROW_GROUP_BYTES: usize = 32 << 20;

/// Page size of Java's writer.
const PAGE_BYTES: usize = 1 << 20;

/// How much of a column's statistics a file's entry keeps \[F-4.4].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatsMode {
    /// Nothing.
    None,
    /// Only the number of nulls.
    Counts,
    /// Exact minimum and maximum.
    Full,
    /// Minimum and maximum cut to so many characters (text) or bytes (byte strings).
    Truncate(usize),
}

impl StatsMode {
    fn parse(key: &str, value: &str) -> Result<Self> {
        let text = value.trim().to_ascii_lowercase();
        let length = text
            .strip_prefix("truncate(")
            .and_then(|r| r.strip_suffix(')'));
        match (
            text.as_str(),
            length.and_then(|n| n.trim().parse::<usize>().ok()),
        ) {
            ("none", _) => Ok(Self::None),
            ("counts", _) => Ok(Self::Counts),
            ("full", _) => Ok(Self::Full),
            (_, Some(n)) if n > 0 => Ok(Self::Truncate(n)),
            _ => Err(option(
                key,
                value,
                "expected none, counts, full or truncate(n) with n > 0",
            )),
        }
    }
}

/// Everything that a [`FileEncoder`](crate::FileEncoder) needs to know, resolved once and shared by
/// all files of a table.
#[derive(Clone, Debug)]
pub struct FilePlan {
    inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) fields: Vec<DataField>,
    /// Schema of the rows taken.
    pub(crate) rows: SchemaRef,
    /// Schema of the arrays given to the column encoders.
    pub(crate) encoding_arrow: SchemaRef,
    /// Parquet schema of the column encoders: as the file's, but `INT96` is twelve bytes.
    pub(crate) encoding_schema: TypePtr,
    /// Parquet schema of the file.
    pub(crate) file_schema: TypePtr,
    pub(crate) stats_modes: Vec<StatsMode>,
    pub(crate) dense: bool,
    pub(crate) dictionary: Dictionary,
    pub(crate) row_group_bytes: usize,
    compression: Compression,
    page_bytes: usize,
    dictionary_page_bytes: usize,
    page_rows: Option<usize>,
    version: WriterVersion,
    bloom_columns: Vec<String>,
    ignored: Vec<String>,
}

/// Which columns may have dictionaries.
#[derive(Debug)]
pub(crate) struct Dictionary {
    default: bool,
    columns: Vec<(String, bool)>,
}

impl Dictionary {
    /// What the options say of a leaf column, by its dotted path.
    pub(crate) fn allowed(&self, path: &str) -> bool {
        self.columns
            .iter()
            .find(|(c, _)| c == path)
            .map_or(self.default, |(_, on)| *on)
    }
}

impl FilePlan {
    /// Resolves a table's schema and options.
    ///
    /// # Errors
    /// [`Error::UnsupportedType`] names a column that Parquet files of this build cannot hold,
    /// [`Error::Option`] an option whose value means nothing, [`Error::UnsupportedFormat`] a
    /// `file.format` that is not written.
    pub fn new(schema: &TableSchema) -> Result<Self> {
        Self::of_fields(&schema.fields, &schema.options)
    }

    /// As [`new`](Self::new), of columns and options alone.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn of_fields(fields: &[DataField], options: &Options) -> Result<Self> {
        let format = options.get("file.format").unwrap_or("parquet");
        if !format.eq_ignore_ascii_case("parquet") {
            return Err(option(
                "file.format",
                format,
                "only `parquet` files are written by this build",
            ));
        }
        if let Some(field) = fields.iter().enumerate().find_map(|(i, f)| {
            fields
                .iter()
                .take(i)
                .any(|earlier| earlier.name == f.name)
                .then_some(f)
        }) {
            return Err(Error::UnsupportedType {
                column: field.name.clone(),
                data_type: format!(
                    "{} (a second column of this name)",
                    type_text(&field.data_type)
                ),
            });
        }
        let block = match options.get("parquet.block.size") {
            Some(value) => Some(("parquet.block.size", value)),
            None => options
                .get("file.block-size")
                .map(|value| ("file.block-size", value)),
        };
        let mut plan = Inner {
            rows: Arc::new(Schema::new(arrow_fields(fields, "", Use::Rows)?)),
            encoding_arrow: Arc::new(Schema::new(arrow_fields(fields, "", Use::Encoding)?)),
            encoding_schema: parquet_schema(fields, Use::Encoding)?,
            file_schema: parquet_schema(fields, Use::Rows)?,
            stats_modes: stats_modes(fields, options)?,
            dense: flag(options, "metadata.stats-dense-store", true)?,
            dictionary: Dictionary {
                default: true,
                columns: Vec::new(),
            },
            row_group_bytes: match block {
                Some((key, value)) => size(key, value)?,
                None => ROW_GROUP_BYTES,
            },
            compression: compression(options)?,
            page_bytes: PAGE_BYTES,
            dictionary_page_bytes: PAGE_BYTES,
            page_rows: None,
            version: WriterVersion::PARQUET_1_0,
            bloom_columns: Vec::new(),
            ignored: Vec::new(),
            fields: fields.to_vec(),
        };
        for (key, value) in options.iter() {
            if let Some(name) = key.strip_prefix("parquet.") {
                plan.library_option(key, name, value)?;
            }
        }
        Ok(Self {
            inner: Arc::new(plan),
        })
    }

    /// The columns.
    pub fn fields(&self) -> &[DataField] {
        &self.inner.fields
    }

    /// The Arrow schema that [`FileEncoder::write`](crate::FileEncoder::write) takes.
    pub fn arrow_schema(&self) -> &SchemaRef {
        &self.inner.rows
    }

    /// Extension of the files, with the leading dot.
    pub fn extension(&self) -> &'static str {
        ".parquet"
    }

    /// Short name of the codec as `file.suffix.include.compression` puts it before the extension;
    /// `None` for uncompressed files \[F-1.2].
    pub fn codec_suffix(&self) -> Option<&'static str> {
        match self.inner.compression {
            Compression::ZSTD(_) => Some("zst"),
            Compression::GZIP(_) => Some("gz"),
            Compression::SNAPPY => Some("snappy"),
            Compression::LZ4 | Compression::LZ4_RAW => Some("lz4"),
            _ => None,
        }
    }

    /// `parquet.*` options that are set but that this build's Parquet library has no counterpart for.
    pub fn ignored_options(&self) -> &[String] {
        &self.inner.ignored
    }

    /// Statistics mode of each column.
    pub fn stats_modes(&self) -> &[StatsMode] {
        &self.inner.stats_modes
    }

    /// Encoded bytes at which a row group ends.
    pub fn row_group_bytes(&self) -> usize {
        self.inner.row_group_bytes
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.inner
    }
}

impl Inner {
    fn library_option(&mut self, key: &str, name: &str, value: &str) -> Result<()> {
        let (name, column) = match name.split_once('#') {
            Some((name, column)) => (name, Some(column.to_owned())),
            None => (name, None),
        };
        match (name, column) {
            ("enable.dictionary", None) => self.dictionary.default = boolean(key, value)?,
            ("enable.dictionary", Some(column)) => {
                self.dictionary.columns.push((column, boolean(key, value)?));
            }
            ("page.size", None) => self.page_bytes = size(key, value)?,
            ("dictionary.page.size", None) => self.dictionary_page_bytes = size(key, value)?,
            ("page.row.count.limit", None) => self.page_rows = Some(size(key, value)?),
            ("bloom.filter.enabled", Some(column)) => {
                if boolean(key, value)? {
                    self.bloom_columns.push(column);
                }
            }
            ("writer.version", None) => {
                self.version = match value.to_ascii_lowercase().as_str() {
                    "v1" | "parquet_1_0" => WriterVersion::PARQUET_1_0,
                    "v2" | "parquet_2_0" => WriterVersion::PARQUET_2_0,
                    _ => return Err(option(key, value, "expected v1 or v2")),
                }
            }
            ("block.size" | "compression" | "compression.codec.zstd.level", None) => {}
            _ => self.ignored.push(key.to_owned()),
        }
        Ok(())
    }

    /// Writer properties with a dictionary for exactly the leaf columns named.
    pub(crate) fn properties(
        &self,
        dictionaries: &[ColumnPath],
        no_stats: &[ColumnPath],
    ) -> WriterProperties {
        let mut builder: WriterPropertiesBuilder = WriterProperties::builder()
            .set_writer_version(self.version)
            .set_created_by(concat!("tidegate version ", env!("CARGO_PKG_VERSION")).to_owned())
            .set_compression(self.compression)
            .set_dictionary_enabled(false)
            .set_data_page_size_limit(self.page_bytes)
            .set_dictionary_page_size_limit(self.dictionary_page_bytes)
            .set_statistics_enabled(EnabledStatistics::Page)
            // Exact bounds feed the manifest; the footer's copy is cut when the row group ends.
            .set_statistics_truncate_length(None)
            .set_max_row_group_row_count(None);
        if let Some(rows) = self.page_rows {
            builder = builder.set_data_page_row_count_limit(rows);
        }
        for column in dictionaries {
            builder = builder.set_column_dictionary_enabled(column.clone(), true);
        }
        for column in no_stats {
            builder =
                builder.set_column_statistics_enabled(column.clone(), EnabledStatistics::None);
        }
        for column in &self.bloom_columns {
            let path = ColumnPath::new(column.split('.').map(str::to_owned).collect());
            builder = builder.set_column_bloom_filter_enabled(path, true);
        }
        builder.build()
    }
}

fn stats_modes(fields: &[DataField], options: &Options) -> Result<Vec<StatsMode>> {
    let key = "metadata.stats-mode";
    let default = match options.get(key) {
        Some(value) => StatsMode::parse(key, value)?,
        None => StatsMode::Truncate(16),
    };
    let first = match options.get("metadata.stats-keep-first-n-columns") {
        None => None,
        Some(text) => match text.trim().parse::<i64>() {
            Ok(n) => usize::try_from(n).ok(),
            Err(_) => {
                return Err(option(
                    "metadata.stats-keep-first-n-columns",
                    text,
                    "expected a number",
                ));
            }
        },
    };
    fields
        .iter()
        .enumerate()
        .map(|(i, field)| {
            let key = format!("fields.{}.stats-mode", field.name);
            Ok(match options.get(&key) {
                _ if !has_stats(&field.data_type.logical) => StatsMode::None,
                Some(value) => StatsMode::parse(&key, value)?,
                None if first.is_some_and(|n| i >= n) => StatsMode::None,
                None => default,
            })
        })
        .collect()
}

/// Columns of other types have no usable statistics \[F-4.4].
pub(crate) fn has_stats(logical: &LogicalType) -> bool {
    use LogicalType as L;
    !matches!(
        logical,
        L::Array(_)
            | L::Map(_, _)
            | L::Multiset(_)
            | L::Row(_)
            | L::Variant
            | L::Blob
            | L::Geometry(_)
            | L::Geography(_)
            | L::Vector { .. }
    )
}

fn compression(options: &Options) -> Result<Compression> {
    let (key, name) = match (
        options.get("parquet.compression"),
        options.get("file.compression"),
    ) {
        (Some(name), _) => ("parquet.compression", name),
        (None, Some(name)) => ("file.compression", name),
        (None, None) => ("file.compression", "zstd"),
    };
    let level_key = match options.get("parquet.compression.codec.zstd.level") {
        Some(_) => "parquet.compression.codec.zstd.level",
        None => "file.compression.zstd-level",
    };
    match name.trim().to_ascii_lowercase().as_str() {
        "zstd" => {
            let text = options.get(level_key).unwrap_or("1");
            let level = text
                .trim()
                .parse::<i32>()
                .ok()
                .and_then(|n| ZstdLevel::try_new(n).ok());
            let level =
                level.ok_or_else(|| option(level_key, text, "expected a level from 1 to 22"))?;
            Ok(Compression::ZSTD(level))
        }
        "none" | "uncompressed" => Ok(Compression::UNCOMPRESSED),
        "snappy" => Ok(Compression::SNAPPY),
        "gzip" => Ok(Compression::GZIP(GzipLevel::default())),
        // Java's LZ4 is Hadoop's framing, deprecated by the format; LZ4_RAW is what all of its
        // releases since 1.13 read.
        "lz4" | "lz4_raw" => Ok(Compression::LZ4_RAW),
        _ => Err(option(
            key,
            name,
            "expected zstd, none, snappy, gzip or lz4",
        )),
    }
}

fn option(key: &str, value: &str, reason: &str) -> Error {
    Error::Option {
        key: key.to_owned(),
        value: value.to_owned(),
        reason: reason.to_owned(),
    }
}

fn boolean(key: &str, value: &str) -> Result<bool> {
    match value.trim().to_ascii_lowercase().as_str() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(option(key, value, "expected true or false")),
    }
}

fn flag(options: &Options, key: &str, default: bool) -> Result<bool> {
    options
        .get(key)
        .map_or(Ok(default), |value| boolean(key, value))
}

/// A size in Paimon's notation: a number and an optional unit, 1024-based.
fn size(key: &str, value: &str) -> Result<usize> {
    let text = value.trim().to_ascii_lowercase();
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at_checked(digits).unwrap_or(("", ""));
    let shift = match unit.trim() {
        "" | "b" | "bytes" => 0,
        "k" | "kb" | "kibibytes" => 10,
        "m" | "mb" | "mebibytes" => 20,
        "g" | "gb" | "gibibytes" => 30,
        "t" | "tb" | "tebibytes" => 40,
        _ => return Err(option(key, value, "expected a size such as `128 mb`")),
    };
    number
        .parse::<usize>()
        .ok()
        .and_then(|n| n.checked_mul(1 << shift))
        .filter(|n| *n > 0)
        .ok_or_else(|| option(key, value, "expected a size such as `128 mb`"))
}
