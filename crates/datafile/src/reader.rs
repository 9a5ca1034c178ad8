//! Parquet bytes to record batches of a table's columns.
//!
//! A file is decoded with the schema that it was written under: columns are found by the *names* of
//! that schema and matched to the wanted ones by field *id* \[F-2.5]. What other writers do
//! differently and \[F-6.4] tolerates is tolerated here too.

mod evolve;
mod physical;
mod source;

pub use source::{ReadAt, ranges};

use crate::error::{Error, Result};
use crate::types::{Use, arrow_fields};
use arrow::array::{Array, ArrayRef, new_null_array};
use arrow::datatypes::{Field, Schema, SchemaRef};
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use bytes::Bytes;
use futures::FutureExt;
use futures::stream::{BoxStream, StreamExt};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder, RowSelection,
    RowSelector,
};
use parquet::arrow::async_reader::ParquetRecordBatchStreamBuilder;
use parquet::basic::Type as Physical;
use parquet::errors::ParquetError;
use parquet::file::metadata::PageIndexPolicy;
use parquet::schema::types::{SchemaDescriptor, Type as PqType, TypePtr};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use tidegate_model::DataField;

/// Rows in a batch unless asked otherwise.
const BATCH_ROWS: usize = 8192;

/// Which columns are wanted of files that were written under one schema.
///
/// ```
/// use tidegate_datafile::{FileEncoder, FilePlan, ReadPlan, normalise, read_parquet};
/// use tidegate_model::{DataField, DataType, LogicalType, Options};
/// # use arrow::array::{Array, AsArray, Int32Array};
/// # use arrow::record_batch::RecordBatch;
/// # use std::sync::Arc;
/// // Written as `n INT`, read after the column was renamed and widened.
/// let old = [DataField::new("n", DataType::nullable(LogicalType::Int))];
/// let new = [DataField::new("number", DataType::nullable(LogicalType::BigInt))];
/// let rows = RecordBatch::try_from_iter([("n", Arc::new(Int32Array::from(vec![7])) as _)])?;
/// let mut encoder = FileEncoder::new(&FilePlan::of_fields(&old, &Options::new())?)?;
/// encoder.write(&normalise(&rows, &old)?)?;
/// let file = encoder.finish()?.last_bytes;
///
/// let plan = ReadPlan::new(&old, &new)?;
/// let batch = read_parquet("data-1.parquet", file, &plan)?.next().ok_or("no batch")??;
/// assert_eq!(batch.schema().field(0).name(), "number");
/// assert_eq!(batch.column(0).as_primitive::<arrow::datatypes::Int64Type>().value(0), 7);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ReadPlan {
    schema: SchemaRef,
    columns: Arc<[Wanted]>,
    batch_rows: usize,
}

#[derive(Clone, Debug)]
struct Wanted {
    field: DataField,
    target: Field,
    /// The same column in the schema of the file.
    written: Option<DataField>,
}

impl ReadPlan {
    /// Plans to read `wanted` columns, in that order, from files written under `written`.
    ///
    /// # Errors
    /// [`Error::UnsupportedType`] for a wanted type that this build cannot hold, [`Error::NoCast`]
    /// where a column's type changed in a way without a cast.
    pub fn new(written: &[DataField], wanted: &[DataField]) -> Result<Self> {
        let targets = arrow_fields(wanted, "", Use::Rows)?;
        let columns = wanted
            .iter()
            .zip(&targets)
            .map(|(field, target)| {
                let written = written.iter().find(|w| w.id == field.id).cloned();
                if let Some(written) = &written {
                    evolve::check(&written.data_type, &field.data_type, &field.name)?;
                }
                Ok(Wanted {
                    field: field.clone(),
                    target: target.as_ref().clone(),
                    written,
                })
            })
            .collect::<Result<Vec<_>>>()?;
        Ok(Self {
            schema: Arc::new(Schema::new(targets)),
            columns: columns.into(),
            batch_rows: BATCH_ROWS,
        })
    }

    /// Sets how many rows a batch has at most.
    pub fn with_batch_rows(mut self, rows: usize) -> Self {
        self.batch_rows = rows.max(1);
        self
    }

    /// The schema of the batches: the canonical one of the wanted columns.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Columns of the file that are read, by name.
    fn names(&self) -> impl Iterator<Item = &str> {
        self.columns
            .iter()
            .filter_map(|c| c.written.as_ref())
            .map(|w| w.name.as_str())
    }

    /// A batch of the file's columns, found by name, as one of the wanted columns: for files that
    /// somebody else decodes. Any Arrow type is taken that holds the column's values.
    ///
    /// # Errors
    /// [`Error::Corrupt`] where a column is of another kind than it was declared; `file` is for
    /// messages.
    pub fn shape(&self, file: &str, batch: &RecordBatch) -> Result<RecordBatch> {
        let rows = batch.num_rows();
        let columns = self
            .columns
            .iter()
            .map(|column| column.shape(file, batch))
            .collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)
            .map_err(|e| corrupt(file, e))
    }
}

impl Wanted {
    fn shape(&self, file: &str, batch: &RecordBatch) -> Result<ArrayRef> {
        let found = self
            .written
            .as_ref()
            .and_then(|w| batch.column_by_name(&w.name).map(|c| (w, c)));
        let array = match found {
            Some((written, column)) => {
                let at = physical::Place {
                    file,
                    column: &written.name,
                };
                let array = physical::read(column, &written.data_type, &at)?;
                evolve::cast(
                    &array,
                    &written.data_type,
                    &self.field.data_type,
                    self.target.data_type(),
                    &at,
                )?
            }
            None => new_null_array(self.target.data_type(), batch.num_rows()),
        };
        if !self.field.data_type.nullable && array.null_count() > 0 {
            return Err(Error::Corrupt {
                file: file.to_owned(),
                reason: format!("column `{}` is NOT NULL but has nulls", self.field.name),
            });
        }
        Ok(array)
    }
}

pub(crate) fn corrupt(file: &str, reason: impl ToString) -> Error {
    Error::Corrupt {
        file: file.to_owned(),
        reason: reason.to_string(),
    }
}

/// Decodes a whole Parquet file that is in memory.
///
/// # Errors
/// [`Error::Corrupt`] where the bytes are no readable Parquet file; later ones come as items.
pub fn read_parquet(
    name: &str,
    bytes: Bytes,
    plan: &ReadPlan,
) -> Result<impl Iterator<Item = Result<RecordBatch>> + Send + use<>> {
    let file = name.to_owned();
    let (plan, rows) = (plan.clone(), plan.batch_rows);
    let mut reader = guarded(&file, || {
        let metadata = ArrowReaderMetadata::load(&bytes, options(None))?;
        let metadata = match without_int96(metadata.parquet_schema())? {
            None => metadata,
            Some(schema) => ArrowReaderMetadata::load(&bytes, options(Some(schema)))?,
        };
        let mask = mask(metadata.parquet_schema(), &plan);
        ParquetRecordBatchReaderBuilder::new_with_metadata(bytes, metadata)
            .with_batch_size(rows)
            .with_projection(mask)
            .build()
    })?;
    let mut failed = false;
    Ok(std::iter::from_fn(move || {
        if failed {
            return None;
        }
        let next = guarded(&file, || {
            reader.next().transpose().map_err(ParquetError::from)
        })
        .transpose()?;
        let next = next.and_then(|batch| plan.shape(&file, &batch));
        failed = next.is_err();
        Some(next)
    }))
}

/// A Parquet file whose bytes are fetched as needed.
pub struct FileReader {
    file: String,
    builder: ParquetRecordBatchStreamBuilder<source::Source>,
    plan: ReadPlan,
    rows: u64,
}

impl std::fmt::Debug for FileReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileReader")
            .field("file", &self.file)
            .finish_non_exhaustive()
    }
}

impl FileReader {
    /// Reads the footer. `name` is for messages, `size` the exact length of the file.
    ///
    /// # Errors
    /// [`Error::Read`] where bytes cannot be had, [`Error::Corrupt`] where they are no Parquet file.
    pub async fn open(
        name: &str,
        size: u64,
        source: Arc<dyn ReadAt>,
        plan: &ReadPlan,
    ) -> Result<Self> {
        Self::opened(name, size, source, plan, false).await
    }

    /// The same, for [`rows_at`](Self::rows_at): where the file says where its pages lie, those without
    /// a row that is asked for are not fetched.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub async fn open_for_rows(
        name: &str,
        size: u64,
        source: Arc<dyn ReadAt>,
        plan: &ReadPlan,
    ) -> Result<Self> {
        Self::opened(name, size, source, plan, true).await
    }

    async fn opened(
        name: &str,
        size: u64,
        source: Arc<dyn ReadAt>,
        plan: &ReadPlan,
        pages: bool,
    ) -> Result<Self> {
        let options = |schema| {
            let offsets = match pages {
                true => PageIndexPolicy::Optional,
                false => PageIndexPolicy::Skip,
            };
            options(schema).with_offset_index_policy(offsets)
        };
        let mut source = source::Source::new(source, size);
        let opened = async {
            let metadata = ArrowReaderMetadata::load_async(&mut source, options(None)).await?;
            Ok(match without_int96(metadata.parquet_schema())? {
                None => metadata,
                Some(schema) => {
                    ArrowReaderMetadata::load_async(&mut source, options(Some(schema))).await?
                }
            })
        };
        let metadata = AssertUnwindSafe(opened)
            .catch_unwind()
            .await
            .unwrap_or_else(|panic| Err(ParquetError::General(panic_text(panic.as_ref()))))
            .map_err(|e| source::explain(name, e))?;
        let rows = metadata.metadata().file_metadata().num_rows();
        let mask = mask(metadata.parquet_schema(), plan);
        let builder = ParquetRecordBatchStreamBuilder::new_with_metadata(source, metadata)
            .with_batch_size(plan.batch_rows)
            .with_projection(mask);
        Ok(Self {
            file: name.to_owned(),
            builder,
            plan: plan.clone(),
            rows: u64::try_from(rows).map_err(|_| corrupt(name, format!("row count {rows}")))?,
        })
    }

    /// Rows in the file as its footer says.
    pub fn row_count(&self) -> u64 {
        self.rows
    }

    /// The rows in file order, all of them or the first `limit`.
    ///
    /// # Errors
    /// As items: [`Error::Read`], [`Error::Corrupt`]; nothing comes after one.
    pub fn stream(
        mut self,
        limit: Option<usize>,
    ) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        if let Some(limit) = limit {
            self.builder = self.builder.with_limit(limit);
        }
        self.into_stream()
    }

    /// The rows at these positions, which ascend, counted from 0.
    ///
    /// # Errors
    /// [`Error::Corrupt`] where the file has no such row, or positions do not ascend; as items as with
    /// [`stream`](Self::stream).
    pub fn rows_at(mut self, positions: &[u64]) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        let Some(selection) = selection(positions, self.rows) else {
            let reason = format!("rows are asked for that are not among its {}", self.rows);
            return Err(corrupt(&self.file, reason));
        };
        self.builder = self.builder.with_row_selection(selection);
        self.into_stream()
    }

    fn into_stream(self) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        let Self {
            file,
            builder,
            plan,
            ..
        } = self;
        let stream = guarded(&file, || builder.build())?;
        let stream = AssertUnwindSafe(stream)
            .catch_unwind()
            .map(move |item| match item {
                Ok(Ok(batch)) => {
                    std::panic::catch_unwind(AssertUnwindSafe(|| plan.shape(&file, &batch)))
                        .unwrap_or_else(|panic| Err(corrupt(&file, panic_text(panic.as_ref()))))
                }
                Ok(Err(e)) => Err(source::explain(&file, e)),
                Err(panic) => Err(corrupt(&file, panic_text(panic.as_ref()))),
            });
        let ended = stream.scan(false, |failed, item| {
            let item = (!*failed).then_some(item);
            *failed = matches!(item, Some(Err(_)));
            std::future::ready(item)
        });
        Ok(ended.boxed())
    }
}

/// Stretches of rows that are read and passed over; `None` where positions do not ascend below `rows`.
fn selection(positions: &[u64], rows: u64) -> Option<RowSelection> {
    let mut selectors: Vec<RowSelector> = Vec::new();
    let mut next = 0;
    for position in positions {
        let gap = position.checked_sub(next)?;
        if gap > 0 {
            selectors.push(RowSelector::skip(usize::try_from(gap).ok()?));
        }
        match selectors.last_mut() {
            Some(last) if !last.skip => last.row_count += 1,
            _ => selectors.push(RowSelector::select(1)),
        }
        next = position + 1;
    }
    (next <= rows).then(|| RowSelection::from(selectors))
}

/// The embedded Arrow schema is not ours to trust: Paimon's types decide.
fn options(schema: Option<Arc<SchemaDescriptor>>) -> ArrowReaderOptions {
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    match schema {
        Some(schema) => options.with_parquet_schema(schema),
        None => options,
    }
}

fn mask(schema: &SchemaDescriptor, plan: &ReadPlan) -> ProjectionMask {
    let wanted: Vec<&str> = plan.names().collect();
    let roots = schema.root_schema().get_fields().iter().enumerate();
    ProjectionMask::roots(
        schema,
        roots
            .filter(|(_, f)| wanted.contains(&f.name()))
            .map(|(i, _)| i),
    )
}

/// The schema with twelve plain bytes in place of each `INT96`, which are stored alike: the library
/// would make wrapped nanoseconds of values that do not fit. `None` where there is none.
fn without_int96(schema: &SchemaDescriptor) -> Result<Option<Arc<SchemaDescriptor>>, ParquetError> {
    if !schema
        .columns()
        .iter()
        .any(|c| c.physical_type() == Physical::INT96)
    {
        return Ok(None);
    }
    let root = replaced(schema.root_schema(), 0)?;
    Ok(Some(Arc::new(SchemaDescriptor::new(root))))
}

fn replaced(node: &PqType, depth: usize) -> Result<TypePtr, ParquetError> {
    let info = node.get_basic_info();
    let id = info.has_id().then(|| info.id());
    match node {
        PqType::PrimitiveType {
            physical_type: Physical::INT96,
            ..
        } => {
            let builder =
                PqType::primitive_type_builder(node.name(), Physical::FIXED_LEN_BYTE_ARRAY)
                    .with_length(12)
                    .with_id(id)
                    .with_repetition(info.repetition());
            builder.build().map(Arc::new)
        }
        PqType::PrimitiveType { .. } => Ok(Arc::new(node.clone())),
        PqType::GroupType { fields, .. } => {
            let fields = fields
                .iter()
                .map(|f| replaced(f, depth + 1))
                .collect::<Result<Vec<_>, _>>()?;
            let mut builder = PqType::group_type_builder(node.name())
                .with_fields(fields)
                .with_id(id)
                .with_converted_type(info.converted_type())
                .with_logical_type(info.logical_type_ref().cloned());
            if depth > 0 {
                builder = builder.with_repetition(info.repetition());
            }
            builder.build().map(Arc::new)
        }
    }
}

/// Runs library code on bytes that we did not write: a panic is a corrupt file, not a crash.
fn guarded<T>(file: &str, f: impl FnOnce() -> Result<T, ParquetError>) -> Result<T> {
    std::panic::catch_unwind(AssertUnwindSafe(f))
        .unwrap_or_else(|panic| Err(ParquetError::General(panic_text(panic.as_ref()))))
        .map_err(|e| source::explain(file, e))
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    format!(
        "the decoder gave up: {}",
        text.as_deref().unwrap_or("unknown cause")
    )
}
