//! Rows as `$binlog` shows them: one row per change, each column an array of one value, or of the value
//! before and the one after an update.

use crate::error::{Error, Result};
use crate::kinds::KindedRows;
use arrow::array::{Array, ArrayRef, ListArray, RecordBatch, RecordBatchOptions, StringArray};
use arrow::buffer::OffsetBuffer;
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType as Arrow, Field, Schema};
use std::sync::Arc;
use tidegate_merge::kind;
use tidegate_model::{DataField, DataType, LogicalType};

/// Name of the column of row kinds.
const ROW_KIND: &str = "rowkind";

/// Puts `-U` and the `+U` that follows it into one row. Keeps a `-U` at the end of a batch for the next
/// one.
///
/// ```
/// # use std::sync::Arc;
/// use arrow::array::{ArrayRef, Int32Array, Int8Array, RecordBatch};
/// use tidegate_model::DataField;
/// use tidegate_scan::canonical::{Times, rows};
/// use tidegate_scan::{Binlog, KindedRows, kind};
///
/// let columns = [DataField::new("id", "INT".parse()?)];
/// let ids: ArrayRef = Arc::new(Int32Array::from(vec![7, 8, 9]));
/// let changes = KindedRows {
///     kinds: Int8Array::from(vec![kind::INSERT, kind::UPDATE_BEFORE, kind::UPDATE_AFTER]),
///     rows: RecordBatch::try_from_iter([("id", ids)])?,
/// };
/// let mut binlog = Binlog::new(&columns);
/// let packed = binlog.pack(changes)?;
/// let lines = rows(binlog.columns(), &packed, Times::Full)?;
/// assert_eq!(lines, [r#"{"rowkind":"+I","id":[7]}"#, r#"{"rowkind":"+U","id":[8,9]}"#]);
/// assert!(binlog.finish()?.is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Binlog {
    columns: Vec<DataField>,
    /// A `-U` whose `+U` may come.
    open: Option<RecordBatch>,
}

impl Binlog {
    /// For rows of these columns.
    pub fn new(columns: &[DataField]) -> Self {
        let text = DataField::new(ROW_KIND, DataType::nullable(LogicalType::STRING));
        let packed = columns.iter().map(|column| DataField {
            data_type: DataType::nullable(LogicalType::Array(Box::new(column.data_type.clone()))),
            ..column.clone()
        });
        Self {
            columns: std::iter::once(text).chain(packed).collect(),
            open: None,
        }
    }

    /// The columns of packed rows.
    pub fn columns(&self) -> &[DataField] {
        &self.columns
    }

    /// The changes of a batch, packed.
    ///
    /// # Errors
    /// Where the batch does not have these columns.
    pub fn pack(&mut self, changes: KindedRows) -> Result<RecordBatch> {
        let mut kinds = changes.kinds.values().to_vec();
        let mut rows = changes.rows;
        if let Some(open) = self.open.take() {
            let schema = rows.schema();
            let open = RecordBatch::try_new(schema.clone(), open.columns().to_vec());
            let open = open.map_err(arrow)?;
            rows = concat_batches(&schema, [&open, &rows]).map_err(arrow)?;
            kinds.insert(0, kind::UPDATE_BEFORE);
        }
        if kinds.last() == Some(&kind::UPDATE_BEFORE) {
            kinds.pop();
            let last = rows.num_rows().saturating_sub(1);
            self.open = Some(rows.slice(last, 1));
            rows = rows.slice(0, last);
        }
        self.packed(&kinds, &rows)
    }

    /// A `-U` that nothing followed.
    ///
    /// # Errors
    /// As [`pack`](Self::pack).
    pub fn finish(&mut self) -> Result<Option<RecordBatch>> {
        match self.open.take() {
            Some(open) => self.packed(&[kind::UPDATE_BEFORE], &open).map(Some),
            None => Ok(None),
        }
    }

    fn packed(&self, kinds: &[i8], rows: &RecordBatch) -> Result<RecordBatch> {
        let (mut texts, mut lengths) = (Vec::new(), Vec::new());
        let mut rest = kinds;
        while let [first, after @ ..] = rest {
            let updated =
                *first == kind::UPDATE_BEFORE && after.first() == Some(&kind::UPDATE_AFTER);
            let taken = if updated { 2 } else { 1 };
            texts.push(kind::short(if updated {
                kind::UPDATE_AFTER
            } else {
                *first
            }));
            lengths.push(taken);
            rest = rest.get(taken..).unwrap_or_default();
        }
        let offsets = OffsetBuffer::from_lengths(lengths.iter().copied());
        let mut columns: Vec<ArrayRef> = vec![Arc::new(StringArray::from(texts))];
        let mut fields = vec![Field::new(ROW_KIND, Arrow::Utf8, true)];
        for (column, values) in self.columns.iter().skip(1).zip(rows.columns()) {
            let element = Arc::new(Field::new("element", values.data_type().clone(), true));
            let array = ListArray::try_new(element, offsets.clone(), values.clone(), None);
            let array = array.map_err(arrow)?;
            fields.push(Field::new(&column.name, array.data_type().clone(), true));
            columns.push(Arc::new(array));
        }
        let options = RecordBatchOptions::new().with_row_count(Some(lengths.len()));
        RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)
            .map_err(arrow)
    }
}

fn arrow(e: arrow::error::ArrowError) -> Error {
    tidegate_datafile::Error::from(e).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canonical::{Times, rows};
    use arrow::array::{Int8Array, Int32Array};

    fn changes(rows: &[(i8, i32)]) -> KindedRows {
        let ids: ArrayRef = Arc::new(Int32Array::from_iter_values(rows.iter().map(|r| r.1)));
        KindedRows {
            kinds: Int8Array::from_iter_values(rows.iter().map(|r| r.0)),
            rows: RecordBatch::try_from_iter([("id", ids)]).unwrap(),
        }
    }

    #[test]
    fn an_update_over_the_end_of_a_batch_is_one_row() {
        let columns = [DataField::new("id", "INT".parse().unwrap())];
        let mut binlog = Binlog::new(&columns);
        let mut lines = Vec::new();
        for batch in [
            changes(&[(kind::UPDATE_BEFORE, 1)]),
            changes(&[]),
            changes(&[
                (kind::UPDATE_AFTER, 2),
                (kind::UPDATE_BEFORE, 3),
                (kind::DELETE, 4),
            ]),
            changes(&[(kind::UPDATE_BEFORE, 5)]),
        ] {
            let packed = binlog.pack(batch).unwrap();
            lines.extend(rows(binlog.columns(), &packed, Times::Full).unwrap());
        }
        let last = binlog.finish().unwrap().unwrap();
        lines.extend(rows(binlog.columns(), &last, Times::Full).unwrap());
        assert_eq!(
            lines,
            [
                r#"{"rowkind":"+U","id":[1,2]}"#,
                r#"{"rowkind":"-U","id":[3]}"#,
                r#"{"rowkind":"-D","id":[4]}"#,
                r#"{"rowkind":"-U","id":[5]}"#,
            ]
        );
    }
}
