//! Statistics of a data file as the table's columns have them now \[F-2.5].
//!
//! Owns the way from the columns of the file's schema to those of the table's: by field id, cast as
//! the rows are. A cast may change the order of values (`'14'` and `'7'` become 14 and 7): what is shown
//! is what was recorded, as Java shows it, and no bound to prune by.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tidegate_datafile::ReadPlan;
use tidegate_model::{BinaryRow, DataField, DataFileMeta, Datum, SchemaId, TableSchema};

use super::texts::datum_text;
use crate::error::{Error, Result};
use crate::values;

/// `{column=value, …}` in the order of names, as Java prints its maps.
pub(super) struct StatTexts {
    pub(super) nulls: String,
    pub(super) min: String,
    pub(super) max: String,
}

impl StatTexts {
    /// `schemas` are those of the files, `table` is the one that columns are shown under.
    pub(super) fn of(
        file: &DataFileMeta,
        schemas: &HashMap<SchemaId, Arc<TableSchema>>,
        table: &TableSchema,
    ) -> Result<Self> {
        let recorded = &file.value_stats;
        let written = match schemas.get(&file.schema_id) {
            Some(schema) => schema.fields.as_slice(),
            None => &[],
        };
        // Which columns there are statistics of, in their order.
        let covered: Vec<&str> = match (&file.value_stats_cols, &file.write_cols) {
            (Some(names), _) | (None, Some(names)) => names.iter().map(String::as_str).collect(),
            (None, None) => written.iter().map(|f| f.name.as_str()).collect(),
        };
        // Java shows columns without statistics as null, but not those that a file does not have.
        let all = file.value_stats_cols.is_some() || file.schema_id != table.id;
        let width = recorded.min_values.arity() as usize;
        let mut shown: BTreeMap<&str, [String; 3]> = BTreeMap::new();
        for column in &table.fields {
            let Some(field) = written.iter().find(|f| f.id == column.id) else {
                // The column is younger than the file: its rows have null there.
                let texts = [Some(file.row_count.to_string()), None, None];
                shown.insert(&column.name, texts.map(or_null));
                continue;
            };
            let at = covered.iter().position(|name| *name == field.name);
            let at = at.filter(|at| *at < width);
            if at.is_none() && !all {
                continue;
            }
            let bound = |row: &BinaryRow| match at {
                Some(at) => evolved(row.get(at, &field.data_type.logical)?, field, column),
                None => Ok(None),
            };
            let counts = recorded.null_counts.as_deref().unwrap_or_default();
            let nulls = at.and_then(|at| counts.get(at).copied().flatten());
            let texts = [
                nulls.map(|n| n.to_string()),
                bound(&recorded.min_values)?.map(|d| datum_text(&d)),
                bound(&recorded.max_values)?.map(|d| datum_text(&d)),
            ];
            shown.insert(&column.name, texts.map(or_null));
        }
        let joined = |which: usize| {
            let parts: Vec<String> = shown
                .iter()
                .filter_map(|(name, texts)| Some(format!("{name}={}", texts.get(which)?)))
                .collect();
            format!("{{{}}}", parts.join(", "))
        };
        Ok(Self {
            nulls: joined(0),
            min: joined(1),
            max: joined(2),
        })
    }
}

fn or_null(text: Option<String>) -> String {
    text.unwrap_or_else(|| "null".to_owned())
}

/// A value as it was written, as the column has it now.
fn evolved(value: Option<Datum>, from: &DataField, to: &DataField) -> Result<Option<Datum>> {
    let Some(value) = value else {
        return Ok(None);
    };
    if from.data_type.logical == to.data_type.logical {
        return Ok(Some(value));
    }
    let nullable = |field: &DataField| {
        let mut field = field.clone();
        field.data_type.nullable = true;
        field
    };
    let (from, to) = (nullable(from), nullable(to));
    let one = values::batch_of(&value, &from)
        .map_err(|e| Error::Config(format!("statistics of column `{}`: {e}", from.name)))?;
    let plan = ReadPlan::new(std::slice::from_ref(&from), std::slice::from_ref(&to));
    let cast = plan.and_then(|p| p.shape("statistics", &one));
    let cast = cast.map_err(tidegate_scan::Error::from)?;
    Ok(cast.columns().first().and_then(|c| values::datum(c, 0)))
}
