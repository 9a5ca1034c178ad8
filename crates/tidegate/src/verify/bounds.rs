//! Statistics of one data file against its rows: minimum ≤ every value ≤ maximum, nulls counted.

use arrow::array::{Array, RecordBatch};
use tidegate_model::{DataField, DataFileMeta, Datum, FieldId, TableSchema};

use crate::values::datum;

pub(super) struct Bounds {
    columns: Vec<Column>,
    rows: i64,
    unreadable: Option<String>,
}

struct Column {
    /// Place among the columns that are read.
    at: usize,
    name: String,
    min: Option<Datum>,
    max: Option<Datum>,
    nulls: Option<i64>,
    seen_nulls: i64,
    broken: Option<String>,
}

impl Bounds {
    /// Pairs the recorded statistics with the columns that are read, by field id. A file that holds some
    /// columns only has statistics of these.
    pub(super) fn new(file: &DataFileMeta, written: &TableSchema, read: &[DataField]) -> Self {
        let covered: Vec<&DataField> = match &file.value_stats_cols {
            None => match &file.write_cols {
                None => written.fields.iter().collect(),
                Some(held) => held
                    .iter()
                    .filter_map(|n| written.fields.iter().find(|f| f.name == *n))
                    .collect(),
            },
            Some(names) => names
                .iter()
                .filter_map(|n| written.fields.iter().find(|f| f.name == *n))
                .collect(),
        };
        let mut bounds = Self {
            columns: Vec::new(),
            rows: file.row_count,
            unreadable: None,
        };
        let counts = file.value_stats.null_counts.as_deref().unwrap_or_default();
        let place = |id: FieldId| read.iter().position(|f| f.id == id);
        for (i, field) in covered.iter().enumerate() {
            let Some(at) = place(field.id) else { continue };
            let same = read
                .get(at)
                .is_some_and(|r| r.data_type.logical == field.data_type.logical);
            if !same || i >= file.value_stats.min_values.arity() as usize {
                continue;
            }
            let logical = &field.data_type.logical;
            let (min, max) = match (
                file.value_stats.min_values.get(i, logical),
                file.value_stats.max_values.get(i, logical),
            ) {
                (Ok(min), Ok(max)) => (min, max),
                (Err(e), _) | (_, Err(e)) => {
                    bounds.unreadable = Some(format!("statistics of column `{}`: {e}", field.name));
                    continue;
                }
            };
            bounds.columns.push(Column {
                at,
                name: field.name.clone(),
                min,
                max,
                // Java writes -1 where it did not count.
                nulls: counts.get(i).copied().flatten().filter(|n| *n >= 0),
                seen_nulls: 0,
                broken: None,
            });
        }
        bounds
    }

    pub(super) fn look(&mut self, batch: &RecordBatch) {
        for column in &mut self.columns {
            let Some(array) = batch.columns().get(column.at) else {
                continue;
            };
            column.seen_nulls += array.null_count() as i64;
            if column.broken.is_some() || (column.min.is_none() && column.max.is_none()) {
                continue;
            }
            for row in 0..array.len() {
                let Some(value) = datum(array, row) else {
                    continue;
                };
                let below = column
                    .min
                    .as_ref()
                    .is_some_and(|m| value.compare(m).is_some_and(|o| o.is_lt()));
                let above = column
                    .max
                    .as_ref()
                    .is_some_and(|m| value.compare(m).is_some_and(|o| o.is_gt()));
                if below || above {
                    column.broken = Some(format!(
                        "column `{}`: {value:?} lies {} the recorded {}: readers skip this file wrongly",
                        column.name,
                        if below { "below" } else { "above" },
                        if below { "minimum" } else { "maximum" },
                    ));
                    break;
                }
            }
        }
    }

    pub(super) fn findings(self) -> Vec<String> {
        let mut findings = Vec::new();
        if let Some(why) = self.unreadable {
            findings.push(why);
        }
        for column in self.columns {
            if let Some(why) = column.broken {
                findings.push(why);
            }
            if let Some(nulls) = column.nulls
                && nulls != column.seen_nulls
            {
                findings.push(format!(
                    "column `{}`: {nulls} nulls recorded, {} found in {} rows",
                    column.name, column.seen_nulls, self.rows
                ));
            }
        }
        findings
    }
}
