//! Rows to Parquet bytes, handed out while encoding goes on.
//!
//! Owns the life of one file: row groups, the choice of dictionaries, `INT96`. Names, rolling and
//! uploads belong to the writer.
//!
//! The Parquet library cannot make `INT96` columns from Arrow. Their values are plain twelve bytes,
//! exactly as a fixed-length column of twelve bytes stores them, so such columns are encoded as that
//! and declared `INT96` when the row group is put together.

use crate::dictionary;
use crate::error::{Error, Result};
use crate::int96;
use crate::keyed::{KeyCollector, KeyedMeta};
use crate::plan::{FilePlan, Inner};
use crate::stats::Collector;
use arrow::array::{Array, ArrayRef};
use arrow::datatypes::DataType as Arrow;
use arrow::record_batch::RecordBatch;
use bytes::Bytes;
use parquet::arrow::arrow_writer::{ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves};
use parquet::basic::Type as PhysicalType;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnPath, SchemaDescriptor};
use std::sync::Arc;
use tidegate_model::SimpleStats;

/// Rows looked at before it is decided which columns get a dictionary.
const SAMPLE_ROWS: usize = 8192;

/// Bytes of rows held at most for that decision.
const SAMPLE_BYTES: usize = 4 << 20;

/// Larger batches are encoded in slices, and in slices of this part of a row group, so that a row group
/// cannot grow far beyond its size.
const SLICE_ROWS: usize = 32_768;
const SLICES_PER_GROUP: usize = 8;

/// What a finished file is.
#[derive(Clone, Debug)]
pub struct EncodedFile {
    /// Bytes not yet taken; the end of the file.
    pub last_bytes: Bytes,
    /// Exact length of the whole file.
    pub size: u64,
    /// Rows.
    pub row_count: u64,
    /// Statistics of the columns in `value_stats_cols`, or of all \[F-4.4].
    pub value_stats: SimpleStats,
    /// Covered columns; `None` = all.
    pub value_stats_cols: Option<Vec<String>>,
    /// Of a key-value file: what its entry says of its keys.
    pub keyed: Option<KeyedMeta>,
}

/// Encodes one Parquet data file.
///
/// ```
/// use tidegate_datafile::{FileEncoder, FilePlan, normalise};
/// use tidegate_model::{DataField, DataType, FieldId, LogicalType, Options};
/// # use arrow::array::Int64Array;
/// # use arrow::record_batch::RecordBatch;
/// # use std::sync::Arc;
/// let fields = [DataField {
///     id: FieldId(0),
///     name: "id".into(),
///     data_type: DataType { logical: LogicalType::BigInt, nullable: false },
///     description: None,
///     default_value: None,
/// }];
/// let plan = FilePlan::of_fields(&fields, &Options::new())?;
/// let rows = RecordBatch::try_from_iter([("id", Arc::new(Int64Array::from(vec![1, 2, 3])) as _)])?;
///
/// let mut encoder = FileEncoder::new(&plan)?;
/// encoder.write(&normalise(&rows, &fields)?)?;
/// let file = encoder.finish()?;
/// assert_eq!((file.row_count, file.size), (3, file.last_bytes.len() as u64));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct FileEncoder {
    plan: FilePlan,
    writer: SerializedFileWriter<Vec<u8>>,
    state: State,
    stats: Collector,
    keys: Option<KeyCollector>,
    row_count: u64,
    /// Bytes given away by `take_bytes`.
    taken: u64,
}

/// Which columns get a dictionary, chosen once for many files of a plan.
#[derive(Clone, Debug)]
pub struct Dictionaries(Arc<[ColumnPath]>);

impl Dictionaries {
    /// Judges by the first of these rows; columns that hold one value per file, as partition columns
    /// do, always get one. Options that forbid dictionaries hold.
    pub fn choose(plan: &FilePlan, rows: &[RecordBatch], constant: &[String]) -> Self {
        let inner = plan.inner();
        let schema = SchemaDescriptor::new(inner.encoding_schema.clone());
        let in_file: Vec<RecordBatch>;
        let rows = match &inner.keyed {
            Some(keyed) => {
                let batches = rows.iter();
                let batches = batches.filter_map(|b| keyed.to_file(b, &inner.file_rows).ok());
                in_file = batches.collect();
                &in_file
            }
            None => rows,
        };
        let mut columns = dictionary::choose(&schema, rows, &inner.dictionary);
        for column in schema.columns() {
            let path = column.path();
            let wanted = constant.contains(&path.string())
                && column.physical_type() != parquet::basic::Type::BOOLEAN
                && inner.dictionary.allowed(&path.string());
            if wanted && !columns.contains(path) {
                columns.push(path.clone());
            }
        }
        Self(columns.into())
    }
}

enum State {
    /// Rows are gathered to learn which columns want a dictionary.
    Sampling {
        batches: Vec<RecordBatch>,
        rows: usize,
        /// Bytes of these rows alone.
        bytes: usize,
        /// Bytes that the batches keep in memory, which slices of larger batches make more.
        held: usize,
    },
    Encoding {
        factory: ArrowRowGroupWriterFactory,
        group: Option<RowGroup>,
    },
}

/// A row group in the making.
struct RowGroup {
    leaves: Vec<ArrowColumnWriter>,
}

/// Bytes of the rows themselves, whatever buffers they share.
pub fn slice_bytes(batch: &RecordBatch) -> usize {
    let sizes = batch
        .columns()
        .iter()
        .map(|c| c.to_data().get_slice_memory_size());
    sizes.filter_map(Result::ok).sum()
}

impl std::fmt::Debug for FileEncoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileEncoder")
            .field("row_count", &self.row_count)
            .finish_non_exhaustive()
    }
}

impl FileEncoder {
    /// Begins a file.
    ///
    /// # Errors
    /// Where the Parquet library refuses the schema.
    pub fn new(plan: &FilePlan) -> Result<Self> {
        let inner = plan.inner();
        let properties = Arc::new(inner.properties(&[], &[]));
        let writer = SerializedFileWriter::new(Vec::new(), inner.file_schema.clone(), properties)?;
        Ok(Self {
            plan: plan.clone(),
            writer,
            state: State::Sampling {
                batches: Vec::new(),
                rows: 0,
                bytes: 0,
                held: 0,
            },
            stats: Collector::new(inner),
            keys: inner.keyed.as_ref().map(KeyCollector::new),
            row_count: 0,
            taken: 0,
        })
    }

    /// Begins a file whose dictionaries were chosen before: no rows are gathered for that.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_dictionaries(plan: &FilePlan, dictionaries: &Dictionaries) -> Result<Self> {
        let mut encoder = Self::new(plan)?;
        encoder.begin(&dictionaries.0)?;
        Ok(encoder)
    }

    /// Appends rows. They must have the plan's Arrow schema, which is what
    /// [`normalise`](crate::normalise()) gives.
    ///
    /// # Errors
    /// [`Error::TypeMismatch`] where they have not; nothing was written then.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.check(batch)?;
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let in_file: RecordBatch;
        let batch = match (&self.plan.inner().keyed, &mut self.keys) {
            (Some(layout), Some(keys)) => {
                keys.add(batch)?;
                in_file = layout.to_file(batch, &self.plan.inner().file_rows)?;
                &in_file
            }
            _ => batch,
        };
        if let State::Sampling {
            batches,
            rows,
            bytes,
            held,
        } = &mut self.state
        {
            *rows += batch.num_rows();
            *held += batch.get_array_memory_size();
            *bytes += slice_bytes(batch);
            batches.push(batch.clone());
            self.row_count += batch.num_rows() as u64;
            let enough = *rows >= SAMPLE_ROWS || *bytes >= SAMPLE_BYTES;
            return if enough { self.decide() } else { Ok(()) };
        }
        self.row_count += batch.num_rows() as u64;
        self.encode(batch)
    }

    /// The finished part of the file that has not been taken yet, for uploading it; row groups
    /// become available one by one.
    ///
    /// # Errors
    /// Never in practice: the sink is memory.
    pub fn take_bytes(&mut self) -> Result<Option<Bytes>> {
        self.writer
            .flush()
            .map_err(parquet::errors::ParquetError::from)?;
        let bytes = std::mem::take(self.writer.inner_mut());
        self.taken += bytes.len() as u64;
        Ok((!bytes.is_empty()).then(|| Bytes::from(bytes)))
    }

    /// Rows written so far.
    pub fn row_count(&self) -> u64 {
        self.row_count
    }

    /// Memory held: encoders, rows waiting for the choice of dictionaries, finished bytes not taken.
    pub fn buffered_bytes(&self) -> usize {
        let finished = self.writer.inner().capacity();
        let open = match &self.state {
            State::Sampling { held, .. } => *held,
            State::Encoding { group, .. } => group
                .iter()
                .flat_map(|g| &g.leaves)
                .map(ArrowColumnWriter::memory_size)
                .sum(),
        };
        finished + open
    }

    /// What the file's length would be about if it ended now: bytes written and an estimate of the
    /// open row group. Good for deciding when to roll.
    pub fn encoded_len(&self) -> u64 {
        let open = match &self.state {
            State::Sampling { bytes, .. } => *bytes,
            State::Encoding { group, .. } => group
                .iter()
                .flat_map(|g| &g.leaves)
                .map(ArrowColumnWriter::get_estimated_total_bytes)
                .sum(),
        };
        self.writer.bytes_written() as u64 + open as u64
    }

    /// Ends the file.
    ///
    /// # Errors
    /// Where the Parquet library fails; the file is unusable then.
    pub fn finish(mut self) -> Result<EncodedFile> {
        self.end_row_group()?;
        self.writer.finish()?;
        let last_bytes = Bytes::from(std::mem::take(self.writer.inner_mut()));
        let stats = self.stats.finish(self.plan.inner())?;
        let keyed = match (self.keys, stats.keys) {
            (Some(keys), Some(key_stats)) => Some(keys.finish(key_stats)?),
            _ => None,
        };
        Ok(EncodedFile {
            size: self.taken + last_bytes.len() as u64,
            last_bytes,
            row_count: self.row_count,
            value_stats: stats.values,
            value_stats_cols: stats.covered,
            keyed,
        })
    }

    fn check(&self, batch: &RecordBatch) -> Result<()> {
        let expected = self.plan.arrow_schema();
        if Arc::ptr_eq(batch.schema_ref(), expected) {
            return Ok(());
        }
        let same = batch.num_columns() == expected.fields().len()
            && batch
                .columns()
                .iter()
                .zip(expected.fields())
                .all(|(c, f)| c.data_type() == f.data_type());
        if same {
            return Ok(());
        }
        let text = |types: &mut dyn Iterator<Item = &Arrow>| {
            types
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(", ")
        };
        Err(Error::TypeMismatch {
            column: "*".to_owned(),
            found: text(&mut batch.columns().iter().map(|c| c.data_type())),
            expected: text(&mut expected.fields().iter().map(|f| f.data_type())),
        })
    }

    /// Chooses dictionaries from the rows gathered and encodes these.
    fn decide(&mut self) -> Result<()> {
        let inner = self.plan.inner();
        let schema = SchemaDescriptor::new(inner.encoding_schema.clone());
        let State::Sampling { batches, .. } = &mut self.state else {
            return Ok(());
        };
        let batches = std::mem::take(batches);
        let dictionaries = dictionary::choose(&schema, &batches, &inner.dictionary);
        self.begin(&dictionaries)?;
        batches.iter().try_for_each(|batch| self.encode(batch))
    }

    /// From now on rows are encoded as they come.
    fn begin(&mut self, dictionaries: &[ColumnPath]) -> Result<()> {
        let inner = self.plan.inner();
        let schema = SchemaDescriptor::new(inner.encoding_schema.clone());
        let no_stats: Vec<ColumnPath> = leaf_is_int96(inner, &schema)
            .zip(schema.columns())
            .filter(|(int96, _)| *int96)
            .map(|(_, column)| column.path().clone())
            .collect();
        let properties = Arc::new(inner.properties(dictionaries, &no_stats));
        // Only carries schema and properties to the factory; nothing is written to it.
        let template =
            SerializedFileWriter::new(std::io::sink(), inner.encoding_schema.clone(), properties)?;
        let factory = ArrowRowGroupWriterFactory::new(&template, inner.encoding_arrow.clone());
        self.state = State::Encoding {
            factory,
            group: None,
        };
        Ok(())
    }

    fn encode(&mut self, batch: &RecordBatch) -> Result<()> {
        let row_bytes = (slice_bytes(batch) / batch.num_rows().max(1)).max(1);
        let slice_bytes = self.plan.inner().row_group_bytes / SLICES_PER_GROUP;
        let most = (slice_bytes / row_bytes).clamp(1, SLICE_ROWS);
        let mut start = 0;
        while start < batch.num_rows() {
            let rows = most.min(batch.num_rows() - start);
            self.encode_slice(&batch.slice(start, rows))?;
            start += rows;
        }
        Ok(())
    }

    fn encode_slice(&mut self, batch: &RecordBatch) -> Result<()> {
        let index = self.writer.flushed_row_groups().len();
        let inner = self.plan.inner();
        let State::Encoding { factory, group } = &mut self.state else {
            return Err(Error::Misuse(
                "rows came to the encoder before it chose dictionaries",
            ));
        };
        if group.is_none() {
            *group = Some(RowGroup {
                leaves: factory.create_column_writers(index)?,
            });
        }
        let Some(open) = group else { return Ok(()) };
        self.stats.add(batch);
        let mut leaves = open.leaves.iter_mut();
        for (field, column) in inner.encoding_arrow.fields().iter().zip(batch.columns()) {
            let array = encodable(column, field.data_type())?;
            for (leaf, writer) in compute_leaves(field, &array)?.iter().zip(leaves.by_ref()) {
                writer.write(leaf)?;
            }
        }
        let size: usize = open
            .leaves
            .iter()
            .map(ArrowColumnWriter::get_estimated_total_bytes)
            .sum();
        if size >= inner.row_group_bytes {
            self.end_row_group()?;
        }
        Ok(())
    }

    /// Ends the open row group, whatever its size, so that its bytes can be taken and the memory of
    /// its encoders is free: for who must hold many files open. Nothing happens where there
    /// are no rows.
    ///
    /// # Errors
    /// Where the Parquet library fails; the file is unusable then.
    pub fn end_row_group(&mut self) -> Result<()> {
        if matches!(&self.state, State::Sampling { rows, .. } if *rows > 0) {
            self.decide()?;
        }
        let State::Encoding { group, .. } = &mut self.state else {
            return Ok(());
        };
        let Some(open) = group.take() else {
            return Ok(());
        };
        let columns = self.writer.schema_descr().columns().to_vec();
        let mut row_group = self.writer.next_row_group()?;
        for (index, (writer, column)) in open.leaves.into_iter().zip(columns).enumerate() {
            let mut chunk = writer.close()?;
            let floating = matches!(
                column.physical_type(),
                PhysicalType::FLOAT | PhysicalType::DOUBLE
            );
            let may_hold_nan = floating && !self.stats.free_of_nan(index);
            if may_hold_nan {
                // Bounds of pages are wrong for the same reason as those of the chunk.
                chunk.close_mut().column_index = None;
            }
            let metadata = &mut chunk.close_mut().metadata;
            self.stats
                .add_chunk(index, metadata.statistics(), metadata.num_values());
            let footer = metadata.statistics().map(if may_hold_nan {
                crate::stats::without_bounds
            } else {
                crate::stats::shorten
            });
            let mut builder = ColumnChunkMetaData::builder(column)
                .set_compression(metadata.compression())
                .set_encodings_mask(*metadata.encodings_mask())
                .set_total_compressed_size(metadata.compressed_size())
                .set_total_uncompressed_size(metadata.uncompressed_size())
                .set_num_values(metadata.num_values())
                .set_data_page_offset(metadata.data_page_offset())
                .set_dictionary_page_offset(metadata.dictionary_page_offset())
                .set_unencoded_byte_array_data_bytes(metadata.unencoded_byte_array_data_bytes())
                .set_repetition_level_histogram(metadata.repetition_level_histogram().cloned())
                .set_definition_level_histogram(metadata.definition_level_histogram().cloned());
            if let Some(stats) = metadata.page_encoding_stats() {
                builder = builder.set_page_encoding_stats(stats.clone());
            }
            if let Some(stats) = footer {
                builder = builder.set_statistics(stats);
            }
            *metadata = builder.build()?;
            chunk.append_to_row_group(&mut row_group)?;
        }
        row_group.close()?;
        Ok(())
    }
}

/// For each leaf column, whether its type in the file is `INT96`.
fn leaf_is_int96<'a>(
    inner: &'a Inner,
    schema: &'a SchemaDescriptor,
) -> impl Iterator<Item = bool> + 'a {
    let file = SchemaDescriptor::new(inner.file_schema.clone());
    (0..schema.num_columns()).map(move |i| file.column(i).physical_type() == PhysicalType::INT96)
}

/// The array with every `INT96` leaf as twelve bytes; unchanged where it has none.
fn encodable(array: &ArrayRef, target: &Arrow) -> Result<ArrayRef> {
    if array.data_type() == target {
        Ok(array.clone())
    } else {
        int96::encode(array, target)
    }
}
