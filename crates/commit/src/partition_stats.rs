//! Statistics of the partition values in one manifest \[F-4.2]: full, never dense, nulls ignored.

use std::cmp::Ordering;

use tidegate_model::data_type::LogicalType;
use tidegate_model::datum::Datum;
use tidegate_model::{BinaryRow, SimpleStats, TableSchema};

use crate::error::{CommitError, Result};

/// The types of the partition columns, in the order of the partition keys.
pub(crate) fn partition_types(schema: &TableSchema) -> Result<Vec<LogicalType>> {
    schema
        .partition_keys
        .iter()
        .map(|key| {
            schema
                .fields
                .iter()
                .find(|field| field.name == *key)
                .map(|field| field.data_type.logical.clone())
                .ok_or_else(|| {
                    CommitError::Config(format!("partition key `{key}` is no column of the table"))
                })
        })
        .collect()
}

/// Collects minimum, maximum and null count per partition column.
#[derive(Debug)]
pub(crate) struct PartitionStats<'a> {
    types: &'a [LogicalType],
    columns: Vec<Column>,
    last: Option<BinaryRow>,
    last_nulls: Vec<bool>,
}

#[derive(Debug, Default)]
struct Column {
    min: Option<Datum>,
    max: Option<Datum>,
    nulls: i64,
}

impl<'a> PartitionStats<'a> {
    pub(crate) fn new(types: &'a [LogicalType]) -> Self {
        let columns = types.iter().map(|_| Column::default()).collect();
        Self { types, columns, last: None, last_nulls: Vec::new() }
    }

    pub(crate) fn add(&mut self, row: &BinaryRow) -> Result<()> {
        // Entries come grouped by partition: most rows equal the one before.
        if self.last.as_ref() != Some(row) {
            self.last_nulls.clear();
            for (i, (column, data_type)) in self.columns.iter_mut().zip(self.types).enumerate() {
                let value = row
                    .get(i, data_type)
                    .map_err(|e| CommitError::corrupt("partition value of an entry", e))?;
                self.last_nulls.push(value.is_none());
                if let Some(value) = value {
                    column.take(value);
                }
            }
            self.last = Some(row.clone());
        }
        for (column, null) in self.columns.iter_mut().zip(&self.last_nulls) {
            column.nulls += i64::from(*null);
        }
        Ok(())
    }

    pub(crate) fn finish(self) -> Result<SimpleStats> {
        let mut min = Vec::with_capacity(self.columns.len());
        let mut max = Vec::with_capacity(self.columns.len());
        let mut null_counts = Vec::with_capacity(self.columns.len());
        for column in self.columns {
            min.push(column.min);
            max.push(column.max);
            null_counts.push(Some(column.nulls));
        }
        let row = |values: &[Option<Datum>]| {
            if values.is_empty() {
                return Ok(BinaryRow::empty());
            }
            BinaryRow::from_datums(values, self.types)
                .map_err(|e| CommitError::corrupt("partition statistics", e))
        };
        Ok(SimpleStats {
            min_values: row(&min)?,
            max_values: row(&max)?,
            null_counts: Some(null_counts),
        })
    }
}

impl Column {
    fn take(&mut self, value: Datum) {
        if self.min.as_ref().is_none_or(|min| compare(&value, min) == Ordering::Less) {
            self.min = Some(value.clone());
        }
        if self.max.as_ref().is_none_or(|max| compare(&value, max) == Ordering::Greater) {
            self.max = Some(value);
        }
    }
}

/// The order of values of one partition column; strings and bytes unsigned bytewise, as Java does.
pub(crate) fn compare(a: &Datum, b: &Datum) -> Ordering {
    match (a, b) {
        (Datum::Boolean(a), Datum::Boolean(b)) => a.cmp(b),
        (Datum::TinyInt(a), Datum::TinyInt(b)) => a.cmp(b),
        (Datum::SmallInt(a), Datum::SmallInt(b)) => a.cmp(b),
        (Datum::Int(a), Datum::Int(b))
        | (Datum::Date(a), Datum::Date(b))
        | (Datum::TimeMillis(a), Datum::TimeMillis(b)) => a.cmp(b),
        (Datum::BigInt(a), Datum::BigInt(b)) => a.cmp(b),
        (Datum::Float(a), Datum::Float(b)) => a.total_cmp(b),
        (Datum::Double(a), Datum::Double(b)) => a.total_cmp(b),
        // One column has one scale.
        (Datum::Decimal { unscaled: a, .. }, Datum::Decimal { unscaled: b, .. }) => a.cmp(b),
        (Datum::String(a), Datum::String(b)) => a.as_bytes().cmp(b.as_bytes()),
        (Datum::Bytes(a), Datum::Bytes(b)) => a.cmp(b),
        (
            Datum::Timestamp { millis: a, nanos_of_milli: an },
            Datum::Timestamp { millis: b, nanos_of_milli: bn },
        ) => (a, an).cmp(&(b, bn)),
        // Values of one column have one kind.
        _ => Ordering::Equal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nulls_are_counted_per_entry_and_never_a_bound() {
        let types = [LogicalType::Int, LogicalType::VarChar(10)];
        let row = |a: Option<i32>, b: Option<&str>| {
            let values = [a.map(Datum::Int), b.map(|s| Datum::String(s.to_owned()))];
            BinaryRow::from_datums(&values, &types).unwrap()
        };
        let mut stats = PartitionStats::new(&types);
        for (a, b) in [(Some(3), Some("b")), (Some(3), Some("b")), (None, Some("ä")), (None, Some("ä")), (Some(-1), None)] {
            stats.add(&row(a, b)).unwrap();
        }
        let stats = stats.finish().unwrap();
        assert_eq!(stats.null_counts, Some(vec![Some(2), Some(1)]));
        assert_eq!(stats.min_values, row(Some(-1), Some("b")));
        assert_eq!(stats.max_values, row(Some(3), Some("ä")));
    }

    #[test]
    fn an_unpartitioned_table_has_empty_rows_and_no_counts() {
        let mut stats = PartitionStats::new(&[]);
        stats.add(&BinaryRow::empty()).unwrap();
        let stats = stats.finish().unwrap();
        assert_eq!((stats.min_values, stats.null_counts), (BinaryRow::empty(), Some(vec![])));
    }
}
