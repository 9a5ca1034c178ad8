//! Parquet files as a source: columns by name, values exact or refused.
//!
//! A position counts rows. A Parquet file never grows: one of another size or footer is another file.

use std::ops::Range;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::compute::{CastOptions, cast_with_options, kernels::cmp::not_distinct};
use arrow::datatypes::{DataType, SchemaRef};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use bytes::Bytes;
use futures::future::BoxFuture as FuturesBoxFuture;
use futures::{FutureExt, StreamExt};
use parquet::arrow::ParquetRecordBatchStreamBuilder;
use parquet::arrow::arrow_reader::{ArrowReaderOptions, RowSelection, RowSelector};
use parquet::arrow::async_reader::{AsyncFileReader, ParquetRecordBatchStream};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use tidegate_sink::BoxFuture;
use tidegate_storage::Store;

use super::position::{FilePosition, SAMPLE};
use super::record_reader::File;
use crate::source::{BadRecord, Origin, Read, SourceBatch, SourceError, SplitReader};

const ROWS: usize = 8192;

pub(super) struct ParquetReader {
    shown: String,
    schema: SchemaRef,
    stream: Option<ParquetRecordBatchStream<Ranges>>,
    position: FilePosition,
}

/// Ranged reads of one object.
#[derive(Clone)]
struct Ranges {
    store: Store,
    path: String,
    size: u64,
}

impl AsyncFileReader for Ranges {
    fn get_bytes(
        &mut self,
        range: Range<u64>,
    ) -> FuturesBoxFuture<'_, parquet::errors::Result<Bytes>> {
        async move {
            let bytes = self.store.get_range(&self.path, range).await;
            bytes.map_err(|e| ParquetError::External(Box::new(e)))
        }
        .boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        _options: Option<&'a ArrowReaderOptions>,
    ) -> FuturesBoxFuture<'a, parquet::errors::Result<Arc<ParquetMetaData>>> {
        async move {
            let size = self.size;
            let metadata = ParquetMetaDataReader::new()
                .load_and_finish(self, size)
                .await?;
            Ok(Arc::new(metadata))
        }
        .boxed()
    }
}

impl ParquetReader {
    pub(super) async fn open(
        file: File,
        wanted: FilePosition,
        schema: SchemaRef,
    ) -> Result<Self, SourceError> {
        let shown = file.shown.clone();
        let sample = file.size.min(SAMPLE as u64);
        let footer = file
            .store
            .get_range(&file.path, file.size - sample..file.size)
            .await;
        let footer = footer.map_err(|e| failed(&shown, ParquetError::External(Box::new(e))))?;
        let head = crc32fast::hash(&footer);
        if wanted.offset > 0 && (wanted.size != file.size || wanted.head != head) {
            return Err(SourceError::Changed {
                split: shown,
                what: "its size or footer differs from what was read; a Parquet file never grows: give changed content a new name".into(),
            });
        }
        let ranges = Ranges {
            store: file.store,
            path: file.path,
            size: file.size,
        };
        let builder = guarded(ParquetRecordBatchStreamBuilder::new(ranges))
            .await
            .map_err(|e| failed(&shown, e))?;
        let rows = builder.metadata().file_metadata().num_rows().max(0) as u64;
        for field in builder.schema().fields() {
            if schema.index_of(field.name()).is_err() {
                let known: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).collect();
                return Err(bad(
                    &shown,
                    None,
                    field.name(),
                    &format!(
                        "the file has a column that the table has not; it has {}",
                        known.join(", ")
                    ),
                ));
            }
        }
        let stream = if wanted.offset >= rows {
            None
        } else {
            let skip = usize::try_from(wanted.offset).unwrap_or(usize::MAX);
            let select = usize::try_from(rows - wanted.offset).unwrap_or(usize::MAX);
            let selection =
                RowSelection::from(vec![RowSelector::skip(skip), RowSelector::select(select)]);
            let build = || {
                builder
                    .with_batch_size(ROWS)
                    .with_row_selection(selection)
                    .build()
            };
            let stream = guarded(async { build() }).await;
            Some(stream.map_err(|e| failed(&shown, e))?)
        };
        let position = FilePosition {
            offset: wanted.offset,
            line: wanted.offset,
            head,
            tail: 0,
            size: file.size,
            modified: file.modified,
            open_end: false,
        };
        Ok(Self {
            shown,
            schema,
            stream,
            position,
        })
    }

    fn fit(&self, batch: &RecordBatch) -> Result<RecordBatch, SourceError> {
        let mut arrays = Vec::with_capacity(self.schema.fields().len());
        for field in self.schema.fields() {
            let array = match batch.column_by_name(field.name()) {
                Some(array) => self.convert(array, field.name(), field.data_type())?,
                None => new_null_array(field.data_type(), batch.num_rows()),
            };
            if !field.is_nullable()
                && let Some(row) = array
                    .nulls()
                    .and_then(|n| n.iter().position(|valid| !valid))
            {
                return Err(bad(
                    &self.shown,
                    Some(self.position.offset + row as u64 + 1),
                    field.name(),
                    "null in a column that is NOT NULL",
                ));
            }
            arrays.push(array);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(self.schema.clone(), arrays, &options).map_err(|e| {
            SourceError::Corrupt {
                file: self.shown.clone(),
                what: e.to_string(),
            }
        })
    }

    /// To the table's type, and back to see that nothing was lost.
    fn convert(
        &self,
        array: &ArrayRef,
        name: &str,
        wanted: &DataType,
    ) -> Result<ArrayRef, SourceError> {
        let found = array.data_type();
        if found == wanted {
            return Ok(array.clone());
        }
        if !related(found, wanted) {
            return Err(bad(
                &self.shown,
                None,
                name,
                &format!("{found} in the file cannot become {wanted}"),
            ));
        }
        let strict = CastOptions {
            safe: true,
            ..CastOptions::default()
        };
        let wrong = |e: arrow::error::ArrowError| {
            bad(
                &self.shown,
                None,
                name,
                &format!("{found} in the file cannot become {wanted}: {e}"),
            )
        };
        let converted = cast_with_options(array, wanted, &strict).map_err(wrong)?;
        // Nested values differ in names and nullability only; their leaves are compared by Arrow's cast.
        if !found.is_nested() {
            let back = cast_with_options(&converted, found, &strict).map_err(wrong)?;
            let same = not_distinct(&back, array).map_err(wrong)?;
            if let Some(row) = same.values().iter().position(|same| !same) {
                let shown = ArrayFormatter::try_new(array, &FormatOptions::default())
                    .map(|f| f.value(row).to_string())
                    .unwrap_or_default();
                let mut error = BadRecord {
                    file: self.shown.clone(),
                    line: Some(self.position.offset + row as u64 + 1),
                    column: Some(name.to_owned()),
                    value: Some(shown),
                    why: format!("{found} in the file does not fit {wanted} without loss"),
                    offset: None,
                };
                error.why.shrink_to_fit();
                return Err(error.into());
            }
        }
        Ok(converted)
    }
}

/// Types of one family may become each other where no value changes.
fn related(found: &DataType, wanted: &DataType) -> bool {
    use DataType::{
        Binary, BinaryView, Date32, FixedSizeBinary, FixedSizeList, LargeBinary, LargeList,
        LargeUtf8, List, Map, Struct, Time32, Time64, Timestamp, Utf8, Utf8View,
    };
    let number = |t: &DataType| {
        t.is_integer()
            || matches!(
                t,
                DataType::Decimal128(..)
                    | DataType::Decimal256(..)
                    | DataType::Decimal32(..)
                    | DataType::Decimal64(..)
            )
    };
    match (found, wanted) {
        (DataType::Dictionary(_, value), _) => **value == *wanted || related(value, wanted),
        (DataType::Null, _) => true,
        (f, w) if number(f) && number(w) => true,
        (f, w) if f.is_floating() && w.is_floating() => true,
        (f, w) if f.is_integer() && w.is_floating() => true,
        (Utf8 | LargeUtf8 | Utf8View, Utf8)
        | (Binary | LargeBinary | BinaryView | FixedSizeBinary(_), Binary) => true,
        (Date32 | DataType::Date64, Date32) | (Time32(_) | Time64(_), Time32(_)) => true,
        // A wall clock and an instant are different things.
        (Timestamp(_, from), Timestamp(_, to)) => from.is_some() == to.is_some(),
        (List(from) | LargeList(from) | FixedSizeList(from, _), List(to)) => {
            from.data_type() == to.data_type() || related(from.data_type(), to.data_type())
        }
        (Map(from, _), Map(to, _)) => {
            from.data_type() == to.data_type() || related(from.data_type(), to.data_type())
        }
        (Struct(from), Struct(to)) => {
            from.len() == to.len()
                && from.iter().zip(to).all(|(f, t)| {
                    f.data_type() == t.data_type() || related(f.data_type(), t.data_type())
                })
        }
        _ => false,
    }
}

/// Runs library code on bytes that we did not write: a panic there is a corrupt file, not a crash.
async fn guarded<T>(
    work: impl Future<Output = Result<T, ParquetError>>,
) -> Result<T, ParquetError> {
    let done = AssertUnwindSafe(work).catch_unwind().await;
    done.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(ToString::to_string);
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        let text = text.as_deref().unwrap_or("unknown cause");
        Err(ParquetError::General(format!(
            "the decoder gave up: {text}"
        )))
    })
}

fn failed(file: &str, error: ParquetError) -> SourceError {
    if let ParquetError::External(inner) = &error
        && let Some(store) = inner.downcast_ref::<tidegate_storage::StoreError>()
        // A footer that points beyond the end of its file is damage, not trouble with the store.
        && store.kind() != tidegate_storage::ErrorKind::Corrupt
    {
        let kind = if store.is_transient() {
            tidegate_sink::ErrorKind::Transient
        } else {
            tidegate_sink::ErrorKind::Config
        };
        return SourceError::Io {
            what: file.to_owned(),
            kind,
            source: Box::new(error),
        };
    }
    SourceError::Corrupt {
        file: file.to_owned(),
        what: format!("no readable Parquet file: {error}"),
    }
}

fn bad(file: &str, row: Option<u64>, column: &str, why: &str) -> SourceError {
    BadRecord {
        file: file.to_owned(),
        line: row,
        column: Some(column.to_owned()),
        why: why.to_owned(),
        ..BadRecord::default()
    }
    .into()
}

impl SplitReader for ParquetReader {
    fn next<'a>(&'a mut self) -> BoxFuture<'a, Result<Read, SourceError>> {
        Box::pin(async move {
            let Some(stream) = &mut self.stream else {
                return Ok(Read::End(self.position.encode()));
            };
            let next = guarded(async { stream.next().await.transpose() }).await;
            match next.map_err(|e| failed(&self.shown, e))? {
                None => {
                    self.stream = None;
                    Ok(Read::End(self.position.encode()))
                }
                Some(batch) => {
                    let rows = batch.num_rows() as u64;
                    let batch = self.fit(&batch)?;
                    let origin = Origin {
                        file: self.shown.clone(),
                        line: self.position.line + 1,
                        exact: true,
                    };
                    self.position.offset += rows;
                    self.position.line += rows;
                    let batch = SourceBatch::new(batch, self.position.encode());
                    Ok(Read::Rows(batch.from(origin)))
                }
            }
        })
    }
}
