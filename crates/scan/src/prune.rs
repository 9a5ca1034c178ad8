//! Which files a condition rules out, by what their manifests say of them.
//!
//! Partition and key may rule out any file: all versions of a key lie in one partition, and files that
//! hold none of the wanted keys change nothing. Value statistics may not where versions of a key lie in
//! several files: without the file that overwrote it, an old version would come back \[F-6.8].

use crate::error::Result;
use crate::predicate::{Known, Predicate};
use crate::split::Split;
use std::collections::HashMap;
use std::sync::Arc;
use tidegate_model::{DataField, LogicalType, SchemaId, SimpleStats, TableSchema};

/// What is known of files of one table.
pub(crate) struct Pruner<'p> {
    predicate: &'p Predicate,
    partition_types: Vec<LogicalType>,
    keys: Vec<DataField>,
    schema: &'p TableSchema,
    schemas: &'p HashMap<SchemaId, Arc<TableSchema>>,
}

impl<'p> Pruner<'p> {
    pub(crate) fn new(
        predicate: &'p Predicate,
        schema: &'p TableSchema,
        schemas: &'p HashMap<SchemaId, Arc<TableSchema>>,
    ) -> Self {
        let field = |name: &str| schema.fields.iter().find(|f| f.name == name);
        let types = schema.partition_keys.iter().filter_map(|k| field(k));
        let keys = schema.trimmed_primary_keys();
        Self {
            predicate,
            partition_types: types.map(|f| f.data_type.logical.clone()).collect(),
            keys: keys.iter().filter_map(|k| field(k)).cloned().collect(),
            schema,
            schemas,
        }
    }

    /// Whether the file may matter by its partition and its keys.
    pub(crate) fn may_matter(&self, split: &Split) -> Result<bool> {
        let partition = split.partition.datums(&self.partition_types)?;
        let rows = split.file.row_count;
        let known = |field: &DataField| {
            let names = &self.schema.partition_keys;
            if let Some(at) = names.iter().position(|k| *k == field.name) {
                let value = partition.get(at)?.clone();
                return Some(Known {
                    nulls: Some(if value.is_none() { rows } else { 0 }),
                    min: value.clone(),
                    max: value,
                });
            }
            let at = self.keys.iter().position(|k| k.id == field.id)?;
            self.of_keys(split, at, field)
        };
        Ok(self.predicate.may_hold(rows, known))
    }

    fn of_keys(&self, split: &Split, at: usize, field: &DataField) -> Option<Known> {
        let logical = &field.data_type.logical;
        let stats = &split.file.key_stats;
        if stats.min_values.arity() as usize != self.keys.len() {
            return None;
        }
        known(stats, at, logical)
    }

    /// Whether rows of the file may fulfil the condition by its value statistics: only for files whose
    /// keys no other file has.
    pub(crate) fn may_hold(&self, split: &Split) -> bool {
        let Some(written) = self.schemas.get(&split.file.schema_id) else {
            return true;
        };
        let stats = &split.file.value_stats;
        let covered: Vec<&DataField> = match &split.file.value_stats_cols {
            None => written.fields.iter().collect(),
            Some(names) => {
                let named = |n: &String| written.fields.iter().find(|f| f.name == *n);
                names.iter().filter_map(named).collect()
            }
        };
        if stats.min_values.arity() as usize != covered.len() {
            return true;
        }
        let of_column = |field: &DataField| {
            // Partition columns have the value of the partition, whatever is in the file.
            if self.schema.partition_keys.contains(&field.name) {
                return None;
            }
            let Some(at) = covered.iter().position(|f| f.id == field.id) else {
                // A column that is younger than the file reads as null.
                let older = !written.fields.iter().any(|f| f.id == field.id);
                return older.then(|| Known {
                    nulls: Some(split.file.row_count),
                    ..Known::default()
                });
            };
            let logical = &covered.get(at)?.data_type.logical;
            (*logical == field.data_type.logical)
                .then(|| known(stats, at, logical))
                .flatten()
        };
        self.predicate.may_hold(split.file.row_count, of_column)
    }
}

fn known(stats: &SimpleStats, at: usize, logical: &LogicalType) -> Option<Known> {
    // NaN is in no bound, whatever it compares to.
    if matches!(logical, LogicalType::Float | LogicalType::Double) {
        return None;
    }
    let counts = stats.null_counts.as_deref().unwrap_or_default();
    Some(Known {
        min: stats.min_values.get(at, logical).ok()?,
        max: stats.max_values.get(at, logical).ok()?,
        // Java writes -1 where it did not count.
        nulls: counts.get(at).copied().flatten().filter(|n| *n >= 0),
    })
}
