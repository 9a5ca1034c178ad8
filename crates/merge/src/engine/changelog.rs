//! The changelog of a compaction: what a key was before, what it is after.
//!
//! *Full compaction* \[W-52]: before = the record at the top level. *Look-up* \[W-53], \[W-54]: before =
//! the record at the lowest level above 0, among what is merged or, as a reference, above it; told only
//! where level 0 takes part.

use super::{Groups, How, Merged, RowRef, merge};
use crate::error::{Error, Result};
use crate::kind::{self, DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE};
use crate::layout::{Layout, SYSTEM_COLUMNS};
use crate::sort_key::{Origin, one_nan};
use crate::spec::{MergeEngine, MergeSpec};
use arrow::array::{Array, ArrayRef, BooleanArray, Int8Array, RecordBatch};
use arrow::compute::{filter_record_batch, interleave_record_batch};
use arrow::row::{RowConverter, Rows, SortField};
use std::sync::Arc;

/// What a merge gives out.
#[derive(Debug)]
pub(crate) struct Produced {
    pub(crate) rows: RecordBatch,
    pub(crate) changelog: RecordBatch,
}

/// What is known of a group before it is merged.
#[derive(Clone, Copy, Debug)]
struct Before {
    old: Option<RowRef>,
    /// Its change is told.
    told: bool,
}

fn origin(groups: Groups<'_>, row: RowRef) -> Origin {
    groups.batch(row).map_or(
        Origin {
            level: 0,
            reference: false,
        },
        |b| b.origin,
    )
}

/// Everything is merged to the top level, so deletes go.
pub(crate) fn full_compaction(
    spec: &MergeSpec,
    layout: &Layout,
    groups: Groups<'_>,
    top: i32,
) -> Result<Produced> {
    let mut before = Vec::with_capacity(groups.ends.len());
    for group in groups.iter() {
        let mut at_top = group
            .iter()
            .filter(|row| origin(groups, **row).level == top);
        let old = at_top.next().copied();
        if let Some(second) = at_top.next() {
            return Err(Error::Rows {
                key: groups.describe(layout, *second),
                what: format!(
                    "level {top} has two records of it, and a level above 0 has each key once; a file is damaged, or two writers compacted the bucket"
                ),
            });
        }
        // Alone at the top nothing has changed.
        before.push(Before {
            old,
            told: old.is_none() || group.len() > 1,
        });
    }
    let merged = merge(
        spec,
        layout,
        groups,
        How {
            drop_deletes: false,
            singles_too: false,
        },
    )?;
    produce(spec, layout, groups, &before, merged, true)
}

/// Level 0 is lifted: merged are its records and the one above it that counts.
pub(crate) fn lookup(
    spec: &MergeSpec,
    layout: &Layout,
    groups: Groups<'_>,
    drop_deletes: bool,
) -> Result<Produced> {
    let first_row = spec.engine() == MergeEngine::FirstRow;
    let (mut rows, mut ends, mut before) = (
        Vec::with_capacity(groups.rows.len()),
        Vec::new(),
        Vec::new(),
    );
    for group in groups.iter() {
        let of = |row: &RowRef| origin(groups, *row);
        let lowest = |reference: bool| {
            let above = group
                .iter()
                .filter(|r| of(r).level > 0 && of(r).reference == reference);
            above.copied().min_by_key(|r| of(r).level)
        };
        let old = lowest(false).or_else(|| lowest(true));
        let contains_level0 = group.iter().any(|r| of(r).level <= 0);
        if first_row {
            // What lies above wins; where it is not merged there is nothing to write.
            let above = old.map(|row| of(&row).reference);
            if above == Some(true) {
                continue;
            }
            rows.extend(group.iter().filter(|r| !of(r).reference));
            before.push(Before {
                old: None,
                told: above.is_none(),
            });
        } else {
            if group.iter().all(|r| of(r).reference) {
                continue;
            }
            rows.extend(
                group
                    .iter()
                    .filter(|r| of(r).level <= 0 || Some(**r) == old),
            );
            before.push(Before {
                old,
                told: contains_level0,
            });
        }
        ends.push(u32::try_from(rows.len()).unwrap_or(u32::MAX));
    }
    let chosen = Groups {
        batches: groups.batches,
        rows: &rows,
        ends: &ends,
    };
    let merged = merge(
        spec,
        layout,
        chosen,
        How {
            drop_deletes: false,
            singles_too: true,
        },
    )?;
    produce(spec, layout, chosen, &before, merged, drop_deletes)
}

/// Where a row of the changelog comes from.
enum Source {
    Old(RowRef),
    New(usize),
}

fn produce(
    spec: &MergeSpec,
    layout: &Layout,
    groups: Groups<'_>,
    before: &[Before],
    merged: Merged,
    drop_deletes: bool,
) -> Result<Produced> {
    let unchanged = Unchanged::new(spec, layout, groups, &merged)?;
    let kinds = Layout::kinds(&merged.batch);
    let mut told: Vec<(i8, Source)> = Vec::new();
    let mut news = merged.groups.iter().zip(kinds).enumerate().peekable();
    for (place, before) in (0u32..).zip(before) {
        let new = news.next_if(|(_, (group, _))| **group == place);
        if !before.told {
            continue;
        }
        let new = new
            .filter(|(_, (_, k))| !kind::is_retract(**k))
            .map(|(row, _)| row);
        let old = before
            .old
            .filter(|row| !kind::is_retract(groups.kind(*row)));
        match (old, new) {
            (None, None) => {}
            (None, Some(new)) => told.push((INSERT, Source::New(new))),
            (Some(old), None) => told.push((DELETE, Source::Old(old))),
            (Some(old), Some(new)) if unchanged.holds(old, new) => {}
            (Some(old), Some(new)) => {
                told.push((UPDATE_BEFORE, Source::Old(old)));
                told.push((UPDATE_AFTER, Source::New(new)));
            }
        }
    }
    let mut batches: Vec<&RecordBatch> = groups.batches.iter().map(|b| &b.batch).collect();
    let merged_at = batches.len();
    batches.push(&merged.batch);
    let places: Vec<(usize, usize)> = told
        .iter()
        .map(|(_, source)| match source {
            Source::Old(row) => (row.batch as usize, row.row()),
            Source::New(row) => (merged_at, *row),
        })
        .collect();
    let changelog = match places.is_empty() {
        true => RecordBatch::new_empty(layout.schema.clone()),
        false => {
            let rows = interleave_record_batch(&batches, &places)?;
            with_kinds(&rows, told.iter().map(|(k, _)| *k).collect())?
        }
    };
    let rows = match drop_deletes && kinds.iter().any(|k| kind::is_retract(*k)) {
        true => {
            let adds: BooleanArray = kinds.iter().map(|k| Some(!kind::is_retract(*k))).collect();
            filter_record_batch(&merged.batch, &adds)?
        }
        false => merged.batch,
    };
    Ok(Produced { rows, changelog })
}

/// The same rows with other kinds.
pub(crate) fn with_kinds(batch: &RecordBatch, kinds: Vec<i8>) -> Result<RecordBatch> {
    let mut columns = batch.columns().to_vec();
    if let Some(column) = columns.get_mut(1) {
        *column = Arc::new(Int8Array::from(kinds));
    }
    Ok(RecordBatch::try_new(batch.schema(), columns)?)
}

/// Tells updates that change nothing, where the table does not want them.
struct Unchanged {
    /// By batch, the merged rows last; empty: every update is told.
    rows: Vec<Rows>,
    /// Columns without sort keys, by batch: maps.
    others: Vec<Vec<ArrayRef>>,
}

impl Unchanged {
    fn new(spec: &MergeSpec, layout: &Layout, groups: Groups<'_>, merged: &Merged) -> Result<Self> {
        let Some(ignored) = spec.ignored_by_row_deduplicate() else {
            return Ok(Self {
                rows: Vec::new(),
                others: Vec::new(),
            });
        };
        let compared = layout.table_columns.iter().zip(SYSTEM_COLUMNS..);
        let compared = compared
            .filter(|(at, _)| !ignored.contains(at))
            .map(|(_, place)| place);
        let sort = |place: &usize| {
            let field = layout.schema.fields().get(*place)?;
            Some(SortField::new(field.data_type().clone()))
        };
        let (keyed, others): (Vec<usize>, Vec<usize>) = compared
            .partition(|place| sort(place).is_some_and(|f| RowConverter::supports_fields(&[f])));
        let converter = RowConverter::new(keyed.iter().filter_map(sort).collect())?;
        let mut out = Self {
            rows: Vec::new(),
            others: Vec::new(),
        };
        let all = groups
            .batches
            .iter()
            .map(|b| &b.batch)
            .chain([&merged.batch]);
        for batch in all {
            let columns: Vec<_> = Layout::pick(batch, &keyed)
                .into_iter()
                .map(one_nan)
                .collect();
            out.rows.push(converter.convert_columns(&columns)?);
            out.others.push(Layout::pick(batch, &others));
        }
        Ok(out)
    }

    fn holds(&self, old: RowRef, new: usize) -> bool {
        let (Some(old_rows), Some(new_rows)) =
            (self.rows.get(old.batch as usize), self.rows.last())
        else {
            return false;
        };
        // Without a column to compare there are no keys either.
        let keyed = old_rows.num_rows() == 0 || old_rows.row(old.row()) == new_rows.row(new);
        let (Some(a), Some(b)) = (self.others.get(old.batch as usize), self.others.last()) else {
            return keyed;
        };
        keyed
            && a.iter()
                .zip(b)
                .all(|(a, b)| a.slice(old.row(), 1) == b.slice(new, 1))
    }
}

#[cfg(test)]
mod tests;
