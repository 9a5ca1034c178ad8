//! The key-value layout in memory: `[_SEQUENCE_NUMBER, _VALUE_KIND, value columns…]`, the value columns
//! in the table's order or a part of them. Key columns are not repeated: they are value columns.

use crate::error::{Error, Result, column};
use crate::kind;
use crate::spec::MergeSpec;
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Field, Int8Type, Int64Type, Schema, SchemaRef};
use arrow::util::display::array_value_to_string;
use std::sync::Arc;

/// Name of the first column of a key-value batch.
pub const SEQUENCE_NUMBER: &str = "_SEQUENCE_NUMBER";
/// Name of the second one.
pub const VALUE_KIND: &str = "_VALUE_KIND";

/// Columns before the value columns.
pub(crate) const SYSTEM_COLUMNS: usize = 2;

/// The schema of key-value batches over these value columns.
///
/// ```
/// use arrow::datatypes::{DataType, Field, Schema};
/// use tidegate_merge::key_value_schema;
///
/// let values = Schema::new(vec![Field::new("id", DataType::Int64, false)]);
/// let schema = key_value_schema(&values);
/// let names: Vec<_> = schema.fields().iter().map(|f| f.name().as_str()).collect();
/// assert_eq!(names, ["_SEQUENCE_NUMBER", "_VALUE_KIND", "id"]);
/// ```
pub fn key_value_schema(values: &Schema) -> SchemaRef {
    let system = [
        Arc::new(Field::new(SEQUENCE_NUMBER, DataType::Int64, false)),
        Arc::new(Field::new(VALUE_KIND, DataType::Int8, false)),
    ];
    let fields: Vec<_> = system
        .into_iter()
        .chain(values.fields().iter().cloned())
        .collect();
    Arc::new(Schema::new_with_metadata(fields, values.metadata().clone()))
}

/// Where the columns that a merge looks at lie in the batches of one schema.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) schema: SchemaRef,
    /// Trimmed primary key, in key order.
    pub(crate) keys: Vec<usize>,
    /// `sequence.field`, in the option's order.
    pub(crate) sequence: Vec<usize>,
    /// Place in the table of each value column.
    pub(crate) table_columns: Vec<usize>,
}

impl Layout {
    /// Finds the columns by name.
    pub(crate) fn new(spec: &MergeSpec, schema: SchemaRef) -> Result<Self> {
        let system = [
            (SEQUENCE_NUMBER, DataType::Int64),
            (VALUE_KIND, DataType::Int8),
        ];
        for (i, (name, data_type)) in system.iter().enumerate() {
            match schema.fields().get(i) {
                Some(f) if f.name() == name && f.data_type() == data_type => {}
                other => {
                    let found = other.map_or("nothing".to_owned(), |f| {
                        format!("'{}' of type {}", f.name(), f.data_type())
                    });
                    let what = format!(
                        "column {i} of a key-value batch must be {name} of type {data_type}, \
                         found {found}"
                    );
                    return Err(Error::Batch(what));
                }
            }
        }
        let mut table_columns = Vec::new();
        for field in schema.fields().iter().skip(SYSTEM_COLUMNS) {
            match spec.column_index(field.name()) {
                Some(at) if table_columns.contains(&at) => {
                    return column(field.name(), "comes twice in a key-value batch");
                }
                Some(at) => table_columns.push(at),
                None => {
                    return column(
                        field.name(),
                        "is in a key-value batch and is no column of the table",
                    );
                }
            }
        }
        let place = |at: usize, role: &str| match table_columns.iter().position(|c| *c == at) {
            Some(i) => Ok(i + SYSTEM_COLUMNS),
            None => column(
                spec.column_name(at),
                format!("is {role} and must be read for a merge, whatever is asked for"),
            ),
        };
        let keys = spec
            .key_columns()
            .iter()
            .map(|at| place(*at, "part of the primary key"));
        let keys: Vec<_> = keys.collect::<Result<_>>()?;
        let sequence = spec
            .sequence_columns()
            .iter()
            .map(|at| place(*at, "a sequence field"));
        let sequence: Vec<_> = sequence.collect::<Result<_>>()?;
        // `needs` is a closure operator: of what is there, everything else must be there too.
        for at in spec.needs(&table_columns) {
            place(at, "needed to merge the columns that are read")?;
        }
        Ok(Self {
            schema,
            keys,
            sequence,
            table_columns,
        })
    }

    /// Where a column of the table lies in the batch; `None` = it is not read.
    pub(crate) fn place(&self, table_column: usize) -> Option<usize> {
        let at = self.table_columns.iter().position(|c| *c == table_column);
        at.map(|i| i + SYSTEM_COLUMNS)
    }

    /// A batch of this schema: types must agree, metadata need not.
    pub(crate) fn adopt(&self, batch: RecordBatch) -> Result<RecordBatch> {
        let ours = self.schema.fields();
        if batch.num_columns() != ours.len() {
            return Err(Error::Batch(format!(
                "it has {} columns, the merge was made for {}",
                batch.num_columns(),
                ours.len()
            )));
        }
        for (field, array) in ours.iter().zip(batch.columns()) {
            if field.data_type() != array.data_type() {
                return column(
                    field.name(),
                    format!(
                        "comes as {}, the merge was made for {}",
                        array.data_type(),
                        field.data_type()
                    ),
                );
            }
        }
        let batch = RecordBatch::try_new(self.schema.clone(), batch.columns().to_vec())?;
        if let Some(kinds) = batch
            .columns()
            .get(1)
            .and_then(|a| a.as_primitive_opt::<Int8Type>())
            && let Some(bad) = kinds
                .values()
                .iter()
                .find(|k| !(kind::INSERT..=kind::DELETE).contains(*k))
        {
            return column(
                VALUE_KIND,
                format!("holds {bad}; row kinds are 0 +I, 1 -U, 2 +U and 3 -D"),
            );
        }
        Ok(batch)
    }

    /// The sequence numbers of an adopted batch.
    pub(crate) fn sequences(batch: &RecordBatch) -> &[i64] {
        let column = batch.columns().first();
        column
            .and_then(|a| a.as_primitive_opt::<Int64Type>())
            .map_or(&[], |a| a.values())
    }

    /// The row kinds of an adopted batch.
    pub(crate) fn kinds(batch: &RecordBatch) -> &[i8] {
        let column = batch.columns().get(1);
        column
            .and_then(|a| a.as_primitive_opt::<Int8Type>())
            .map_or(&[], |a| a.values())
    }

    /// Columns of an adopted batch.
    pub(crate) fn pick(batch: &RecordBatch, at: &[usize]) -> Vec<ArrayRef> {
        at.iter()
            .filter_map(|i| batch.columns().get(*i).cloned())
            .collect()
    }

    /// The key of a row, for messages.
    pub(crate) fn describe_key(&self, batch: &RecordBatch, row: usize) -> String {
        let part = |i: &usize| {
            let name = self.schema.fields().get(*i).map_or("?", |f| f.name());
            let value = batch
                .columns()
                .get(*i)
                .filter(|a| row < a.len())
                .map(|array| {
                    if array.is_null(row) {
                        "NULL".to_owned()
                    } else {
                        array_value_to_string(array, row).unwrap_or_else(|e| e.to_string())
                    }
                });
            format!("{name}={}", value.unwrap_or_default())
        };
        self.keys.iter().map(part).collect::<Vec<_>>().join(", ")
    }
}
