//! Merge functions: groups of rows of one key, oldest first, become one row each, or none.

pub(crate) mod changelog;
mod steps;
mod versions;

pub(crate) use steps::{Op, Steps};

use crate::aggregate::Column;
use crate::error::{Error, Result};
use crate::kind;
use crate::layout::{Layout, SYSTEM_COLUMNS};
use crate::sort_key::Keyed;
use crate::spec::{MergeEngine, MergeSpec};
use arrow::array::{ArrayRef, Int8Array, Int64Array, RecordBatch};
use arrow::compute::interleave_record_batch;
use std::sync::Arc;

/// A row of one of the batches at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RowRef {
    pub(crate) batch: u32,
    pub(crate) row: u32,
}

impl RowRef {
    pub(crate) fn row(self) -> usize {
        self.row as usize
    }
}

/// Whole groups: rows of one key lie together, oldest first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Groups<'a> {
    pub(crate) batches: &'a [Keyed],
    pub(crate) rows: &'a [RowRef],
    /// Where each group ends.
    pub(crate) ends: &'a [u32],
}

impl<'a> Groups<'a> {
    pub(crate) fn iter(self) -> impl Iterator<Item = &'a [RowRef]> {
        let mut start = 0;
        self.ends.iter().map(move |end| {
            let end = *end as usize;
            let group = self.rows.get(start..end).unwrap_or_default();
            start = end;
            group
        })
    }

    pub(crate) fn batch(self, row: RowRef) -> Option<&'a Keyed> {
        self.batches.get(row.batch as usize)
    }

    pub(crate) fn kind(self, row: RowRef) -> i8 {
        self.batch(row).map_or(kind::INSERT, |b| b.kind(row.row()))
    }

    pub(crate) fn describe(self, layout: &Layout, row: RowRef) -> String {
        self.batch(row)
            .map_or_else(String::new, |b| layout.describe_key(&b.batch, row.row()))
    }

    /// All rows as they are, in order.
    pub(crate) fn unmerged(self, layout: &Layout) -> Result<RecordBatch> {
        gather(self.batches, self.rows, layout)
    }
}

/// One row per group, or none.
#[derive(Debug)]
pub(crate) struct Merged {
    pub(crate) batch: RecordBatch,
    /// Which group each row is of.
    pub(crate) groups: Vec<u32>,
}

/// How rows are merged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct How {
    /// Rows that end deleted go.
    pub(crate) drop_deletes: bool,
    /// A row that is alone goes through the merge function too, instead of staying as it is
    /// \[W-22]: look-up compactions do that \[W-53].
    pub(crate) singles_too: bool,
}

/// What a merge makes of groups.
pub(crate) fn merge(
    spec: &MergeSpec,
    layout: &Layout,
    groups: Groups<'_>,
    how: How,
) -> Result<Merged> {
    let computes = matches!(
        spec.engine(),
        MergeEngine::PartialUpdate | MergeEngine::Aggregation
    );
    // Where every key has one version there is nothing to merge.
    if computes && (how.singles_too || groups.rows.len() != groups.ends.len()) {
        return compute(spec, layout, groups, how);
    }
    let mut picked = Vec::with_capacity(groups.ends.len());
    let mut places = Vec::with_capacity(groups.ends.len());
    for (group, place) in groups.iter().zip(0u32..) {
        let row = match group {
            [single] if !how.singles_too => Some(*single),
            rows => match spec.engine() {
                MergeEngine::FirstRow => first_row(spec, layout, groups, rows)?,
                _ => deduplicate(spec, groups, rows),
            },
        };
        let drops = |row: &RowRef| how.drop_deletes && kind::is_retract(groups.kind(*row));
        if let Some(row) = row.filter(|row| !drops(row)) {
            picked.push(row);
            places.push(place);
        }
    }
    Ok(Merged {
        batch: gather(groups.batches, &picked, layout)?,
        groups: places,
    })
}

/// Column by column.
fn compute(spec: &MergeSpec, layout: &Layout, groups: Groups<'_>, how: How) -> Result<Merged> {
    let versions = versions::versions(spec, layout, groups, how)?;
    let mut columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(versions.sequences)),
        Arc::new(Int8Array::from(versions.kinds)),
    ];
    for (at, place) in layout.table_columns.iter().zip(SYSTEM_COLUMNS..) {
        let rule = spec.rules().columns.get(*at);
        let Some((rule, steps)) = rule.and_then(|r| Some((r, versions.lanes.get(r.lane)?))) else {
            continue;
        };
        let arrays: Vec<ArrayRef> = groups
            .batches
            .iter()
            .filter_map(|b| b.batch.columns().get(place).cloned())
            .collect();
        let name = spec.column_name(*at);
        columns.push(
            Column {
                name,
                rule,
                steps,
                arrays: &arrays,
                groups,
                layout,
            }
            .merge()?,
        );
    }
    let batch = RecordBatch::try_new(layout.schema.clone(), columns).map_err(|e| {
        Error::Batch(format!(
            "merged rows do not fit the table: {e}; a column that is NOT NULL ended without a value"
        ))
    })?;
    Ok(Merged {
        batch,
        groups: versions.groups,
    })
}

/// The newest \[W-60]; retracts that older versions wrote in spite of `ignore-delete` are skipped.
fn deduplicate(spec: &MergeSpec, groups: Groups<'_>, rows: &[RowRef]) -> Option<RowRef> {
    if !spec.ignores_deletes() {
        return rows.last().copied();
    }
    rows.iter()
        .rfind(|row| !kind::is_retract(groups.kind(**row)))
        .copied()
}

/// The oldest \[W-61].
fn first_row(
    spec: &MergeSpec,
    layout: &Layout,
    groups: Groups<'_>,
    rows: &[RowRef],
) -> Result<Option<RowRef>> {
    let retract = rows.iter().find(|row| kind::is_retract(groups.kind(**row)));
    match retract {
        Some(row) if !spec.ignores_deletes() => Err(Error::Rows {
            key: groups.describe(layout, *row),
            what: format!(
                "a row of kind {} among several versions, and merge-engine = first-row takes inserts \
                 only; set ignore-delete = true to leave such rows out",
                kind::short(groups.kind(*row))
            ),
        }),
        Some(_) => Ok(rows
            .iter()
            .find(|row| !kind::is_retract(groups.kind(**row)))
            .copied()),
        None => Ok(rows.first().copied()),
    }
}

/// Rows by reference as a batch; neighbours of one batch are not copied.
pub(crate) fn gather(batches: &[Keyed], rows: &[RowRef], layout: &Layout) -> Result<RecordBatch> {
    let Some((first, rest)) = rows.split_first() else {
        return Ok(RecordBatch::new_empty(layout.schema.clone()));
    };
    let neighbours = rest
        .iter()
        .zip(first.row..)
        .all(|(row, before)| row.batch == first.batch && row.row.checked_sub(1) == Some(before));
    if let Some(batch) = batches.get(first.batch as usize)
        && neighbours
    {
        return Ok(batch.batch.slice(first.row(), rows.len()));
    }
    let indices: Vec<_> = rows.iter().map(|r| (r.batch as usize, r.row())).collect();
    let batches: Vec<_> = batches.iter().map(|b| &b.batch).collect();
    Ok(interleave_record_batch(&batches, &indices)?)
}

#[cfg(test)]
mod tests;
