//! The layout of key-value files \[F-6.2]: which columns a file of a keyed table has beside the table's,
//! and what its entry says of its keys.
//!
//! In memory a key-value batch is `[_SEQUENCE_NUMBER, _VALUE_KIND, value columns…]`; a file that is not
//! thin repeats the key columns in front, as references to the same arrays.

use crate::error::{Error, Result};
use crate::types::arrow_schema;
use crate::value::value_at;
use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{Int8Type, Int64Type, SchemaRef};
use std::sync::Arc;
use tidegate_model::{
    BinaryRow, DataField, DataType, FieldId, LogicalType, SimpleStats, TableSchema,
};

/// Name of the column of sequence numbers.
pub const SEQUENCE_NUMBER: &str = "_SEQUENCE_NUMBER";

/// Name of the column of row kinds: 0 `+I`, 1 `-U`, 2 `+U`, 3 `-D`.
pub const VALUE_KIND: &str = "_VALUE_KIND";

/// What a key column's name starts with.
pub const KEY_PREFIX: &str = "_KEY_";

/// The id of a key column is the column's id above this one, `Integer.MAX_VALUE / 2`.
const KEY_ID_BASE: i32 = 1_073_741_823;
const SEQUENCE_ID: FieldId = FieldId(2_147_483_646);
const KIND_ID: FieldId = FieldId(2_147_483_645);

/// System columns in front of the value columns of a key-value batch.
pub const SYSTEM_COLUMNS: usize = 2;

/// The two system columns.
fn system_fields() -> [DataField; SYSTEM_COLUMNS] {
    let field = |name: &str, id, logical| DataField {
        id,
        ..DataField::new(name, DataType::not_null(logical))
    };
    [
        field(SEQUENCE_NUMBER, SEQUENCE_ID, LogicalType::BigInt),
        field(VALUE_KIND, KIND_ID, LogicalType::TinyInt),
    ]
}

/// The columns of a key-value batch over these value columns.
pub fn key_value_fields(values: &[DataField]) -> Vec<DataField> {
    system_fields()
        .into_iter()
        .chain(values.iter().cloned())
        .collect()
}

/// The Arrow schema of a key-value batch over these value columns.
///
/// # Errors
/// As [`arrow_schema`].
///
/// ```
/// use tidegate_datafile::key_value_schema;
/// use tidegate_model::DataField;
///
/// let schema = key_value_schema(&[DataField::new("id", "BIGINT NOT NULL".parse()?)])?;
/// let names: Vec<_> = schema.fields().iter().map(|f| f.name().as_str()).collect();
/// assert_eq!(names, ["_SEQUENCE_NUMBER", "_VALUE_KIND", "id"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn key_value_schema(values: &[DataField]) -> Result<SchemaRef> {
    Ok(Arc::new(arrow_schema(&key_value_fields(values))?))
}

/// Where the parts of a key-value file stand.
#[derive(Clone, Debug)]
pub(crate) struct KeyLayout {
    /// Columns of the file in front of the value columns.
    pub(crate) before_values: usize,
    /// The trimmed primary key.
    keys: Vec<KeyColumn>,
}

#[derive(Clone, Debug)]
struct KeyColumn {
    logical: LogicalType,
    /// Its place in a key-value batch.
    in_batch: usize,
    /// Its place in the file: the `_KEY_` column, or the value column where the file is thin.
    in_file: usize,
}

impl KeyLayout {
    /// Layout and columns of the files of a keyed table.
    pub(crate) fn of(schema: &TableSchema, thin: bool) -> Result<(Self, Vec<DataField>)> {
        let names = schema.trimmed_primary_keys();
        let mut keys = Vec::with_capacity(names.len());
        let mut columns = Vec::new();
        let before_values = SYSTEM_COLUMNS + if thin { 0 } else { names.len() };
        for (place, name) in names.iter().enumerate() {
            let Some(at) = schema.index_of(name) else {
                return Err(Error::Misuse("a primary key that is no column"));
            };
            let Some(field) = schema.fields.get(at) else {
                return Err(Error::Misuse("a primary key that is no column"));
            };
            keys.push(KeyColumn {
                logical: field.data_type.logical.clone(),
                in_batch: SYSTEM_COLUMNS + at,
                in_file: if thin { before_values + at } else { place },
            });
            if !thin {
                columns.push(DataField {
                    id: FieldId(KEY_ID_BASE.wrapping_add(field.id.0)),
                    name: format!("{KEY_PREFIX}{name}"),
                    data_type: field.data_type.clone(),
                    description: None,
                    default_value: None,
                });
            }
        }
        columns.extend(system_fields());
        columns.extend(schema.fields.iter().cloned());
        let layout = Self {
            before_values,
            keys,
        };
        Ok((layout, columns))
    }

    /// Places of the key columns in the file.
    pub(crate) fn key_places(&self) -> impl Iterator<Item = usize> {
        self.keys.iter().map(|key| key.in_file)
    }

    pub(crate) fn key_types(&self) -> Vec<LogicalType> {
        self.keys.iter().map(|key| key.logical.clone()).collect()
    }

    /// A key-value batch as the columns of the file.
    pub(crate) fn to_file(&self, batch: &RecordBatch, file: &SchemaRef) -> Result<RecordBatch> {
        let repeated = self.before_values - SYSTEM_COLUMNS;
        if repeated == 0 {
            return Ok(batch.clone());
        }
        let keys = self
            .keys
            .iter()
            .map(|key| batch.columns().get(key.in_batch));
        let keys = keys.collect::<Option<Vec<_>>>();
        let Some(keys) = keys else {
            return Err(Error::Misuse("a key-value batch without its key columns"));
        };
        let columns = keys.into_iter().chain(batch.columns()).cloned().collect();
        Ok(RecordBatch::try_new(file.clone(), columns)?)
    }
}

/// What the entry of a key-value file says of its keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyedMeta {
    /// Key of the first row.
    pub min_key: BinaryRow,
    /// Key of the last row.
    pub max_key: BinaryRow,
    /// Over the trimmed primary key columns, never dense.
    pub key_stats: SimpleStats,
    /// Smallest sequence number.
    pub min_sequence_number: i64,
    /// Largest sequence number.
    pub max_sequence_number: i64,
    /// Rows of kind `-U` or `-D`.
    pub delete_row_count: u64,
}

/// Gathers what [`KeyedMeta`] says while rows are written in key order.
#[derive(Debug)]
pub(crate) struct KeyCollector {
    layout: KeyLayout,
    first: Option<BinaryRow>,
    /// The last row, cut out of its batch: its key is made once, at the end.
    last: Option<RecordBatch>,
    sequences: Option<(i64, i64)>,
    deletes: u64,
}

impl KeyCollector {
    pub(crate) fn new(layout: &KeyLayout) -> Self {
        Self {
            layout: layout.clone(),
            first: None,
            last: None,
            sequences: None,
            deletes: 0,
        }
    }

    /// Takes a key-value batch.
    pub(crate) fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        let system = || Error::Misuse("a key-value batch without its system columns");
        let [sequences, kinds, ..] = batch.columns() else {
            return Err(system());
        };
        let sequences = sequences.as_primitive_opt::<Int64Type>();
        let sequences = sequences.ok_or_else(system)?.values();
        let kinds = kinds.as_primitive_opt::<Int8Type>().ok_or_else(system)?;
        let rows = batch.num_rows();
        if rows == 0 {
            return Ok(());
        }
        let low = sequences.iter().fold(i64::MAX, |low, n| low.min(*n));
        let high = sequences.iter().fold(i64::MIN, |high, n| high.max(*n));
        self.sequences = Some(match self.sequences {
            Some((l, h)) => (l.min(low), h.max(high)),
            None => (low, high),
        });
        // -U is 1 and -D is 3: the odd ones take a row back.
        self.deletes += kinds.values().iter().map(|k| (*k & 1) as u64).sum::<u64>();
        if self.first.is_none() {
            self.first = Some(self.key_at(batch, 0)?);
        }
        // A slice would keep the whole batch in memory.
        let last = arrow::compute::take_record_batch(
            batch,
            &arrow::array::UInt32Array::from(vec![rows as u32 - 1]),
        )?;
        self.last = Some(last);
        Ok(())
    }

    fn key_at(&self, batch: &RecordBatch, row: usize) -> Result<BinaryRow> {
        let mut values = Vec::with_capacity(self.layout.keys.len());
        for key in &self.layout.keys {
            let Some(column) = batch.columns().get(key.in_batch) else {
                return Err(Error::Misuse("a key-value batch without its key columns"));
            };
            values.push(value_at(column, row));
        }
        Ok(BinaryRow::from_datums(&values, &self.layout.key_types())?)
    }

    pub(crate) fn finish(self, key_stats: SimpleStats) -> Result<KeyedMeta> {
        let max_key = match &self.last {
            Some(last) => self.key_at(last, 0)?,
            None => BinaryRow::empty(),
        };
        let (min_sequence_number, max_sequence_number) = self.sequences.unwrap_or((0, 0));
        Ok(KeyedMeta {
            min_key: self.first.unwrap_or_else(BinaryRow::empty),
            max_key,
            key_stats,
            min_sequence_number,
            max_sequence_number,
            delete_row_count: self.deletes,
        })
    }
}
