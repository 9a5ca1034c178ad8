//! `partial-update` and `aggregation`: versions of a key become steps per lane \[W-62..W-64].
//!
//! Java's answers are kept where its readers merge our files: after a delete inside one merge the row
//! holds what was deleted, and what follows is added on top of it \[W-63]a; a leading retract fills the
//! row even where retracts are ignored \[W-63]b.

use super::steps::{Op, Steps};
use super::{Groups, How, RowRef};
use crate::error::{Error, Result};
use crate::kind;
use crate::layout::Layout;
use crate::sort_key::comparable;
use crate::spec::rules::Rules;
use crate::spec::{MergeEngine, MergeSpec, NO_RETRACTS};
use arrow::array::Array;
use arrow::compute::SortOptions;
use arrow::row::{RowConverter, Rows, SortField};

/// What the groups of one batch become, but for the values.
#[derive(Debug, Default)]
pub(super) struct Versions {
    /// One per lane; a lane without columns here is empty.
    pub(super) lanes: Vec<Steps>,
    pub(super) sequences: Vec<i64>,
    pub(super) kinds: Vec<i8>,
    /// Which group each row is of.
    pub(super) groups: Vec<u32>,
}

/// How the records of one sequence group compare.
struct Ordering {
    lane: usize,
    removes: bool,
    /// By batch.
    rows: Vec<Rows>,
    /// By batch and row: all ordering columns are null.
    empty: Vec<Vec<bool>>,
    /// The record whose ordering columns the row has; `None` = all null.
    stored: Option<RowRef>,
}

impl Ordering {
    fn is_empty(&self, row: RowRef) -> bool {
        let batch = self.empty.get(row.batch as usize);
        batch
            .and_then(|b| b.get(row.row()))
            .copied()
            .unwrap_or(true)
    }

    /// The record is at least as new as what is stored.
    fn is_newer(&self, row: RowRef) -> bool {
        let bytes = |row: RowRef| Some(self.rows.get(row.batch as usize)?.row(row.row()));
        match self.stored {
            None => true,
            Some(stored) => bytes(row) >= bytes(stored),
        }
    }
}

/// Works out the steps of all groups; those that end deleted are left out where deletes go.
pub(super) fn versions(
    spec: &MergeSpec,
    layout: &Layout,
    groups: Groups<'_>,
    how: How,
) -> Result<Versions> {
    let rules = spec.rules();
    let mut out = Versions {
        lanes: vec![Steps::default(); rules.groups.len() + 1],
        ..Versions::default()
    };
    let mut orderings = orderings(rules, layout, groups)?;
    for (rows, place) in groups.iter().zip(0u32..) {
        let (row_kind, last) = match rows {
            // A row that is alone is not merged at all [W-22].
            [single] if !how.singles_too => {
                out.lanes
                    .iter_mut()
                    .for_each(|lane| lane.push(Op::Set, *single));
                (groups.kind(*single), Some(*single))
            }
            _ if spec.engine() == MergeEngine::Aggregation => {
                aggregation(rules, groups, rows, &mut out.lanes)
            }
            _ => {
                orderings.iter_mut().for_each(|o| o.stored = None);
                let mut merge = PartialUpdate {
                    spec,
                    layout,
                    groups,
                    orderings: &mut orderings,
                };
                merge.steps(rows, &mut out.lanes)?
            }
        };
        if how.drop_deletes && kind::is_retract(row_kind) {
            out.lanes.iter_mut().for_each(Steps::drop_group);
            continue;
        }
        out.lanes.iter_mut().for_each(Steps::end_group);
        out.kinds.push(row_kind);
        out.groups.push(place);
        let sequence = last
            .or(rows.last().copied())
            .and_then(|row| groups.batch(row).map(|b| b.sequence_number(row.row())));
        out.sequences.push(sequence.unwrap_or(i64::MIN));
    }
    Ok(out)
}

/// \[W-64]: the kind of the result, and the record whose sequence number it takes.
fn aggregation(
    rules: &Rules,
    groups: Groups<'_>,
    rows: &[RowRef],
    lanes: &mut [Steps],
) -> (i8, Option<RowRef>) {
    let mut removed = false;
    for row in rows {
        let row_kind = groups.kind(*row);
        removed = rules.removes_on_delete && row_kind == kind::DELETE;
        let op = match row_kind {
            _ if removed => Op::Set,
            k if kind::is_retract(k) => Op::Retract,
            _ => Op::Add,
        };
        lanes.iter_mut().for_each(|lane| lane.push(op, *row));
    }
    (
        if removed { kind::DELETE } else { kind::INSERT },
        rows.last().copied(),
    )
}

struct PartialUpdate<'a, 'o> {
    spec: &'a MergeSpec,
    layout: &'a Layout,
    groups: Groups<'a>,
    orderings: &'o mut [Ordering],
}

impl PartialUpdate<'_, '_> {
    fn steps(&mut self, rows: &[RowRef], lanes: &mut [Steps]) -> Result<(i8, Option<RowRef>)> {
        let rules = self.spec.rules();
        let (mut filled, mut met_insert, mut removed) = (false, false, false);
        let mut last = None;
        for row in rows {
            let row_kind = self.groups.kind(*row);
            removed = false;
            if !kind::is_retract(row_kind) {
                last = Some(*row);
                self.add(*row, lanes);
                (filled, met_insert) = (true, true);
                continue;
            }
            if !filled {
                self.set(*row, lanes);
                filled = true;
            }
            if self.spec.ignores_deletes() {
                continue;
            }
            last = Some(*row);
            if !rules.groups.is_empty() {
                removed = self.retract(*row, row_kind, lanes);
            } else if rules.removes_on_delete {
                if row_kind == kind::DELETE {
                    removed = true;
                    self.set(*row, lanes);
                }
            } else {
                return Err(Error::Rows {
                    key: self.groups.describe(self.layout, *row),
                    what: format!("a row of kind {}: {NO_RETRACTS}", kind::short(row_kind)),
                });
            }
        }
        let result = if removed || !met_insert {
            kind::DELETE
        } else {
            kind::INSERT
        };
        Ok((result, last))
    }

    /// The row becomes the record.
    fn set(&mut self, row: RowRef, lanes: &mut [Steps]) {
        lanes.iter_mut().for_each(|lane| lane.push(Op::Set, row));
        self.orderings.iter_mut().for_each(|o| o.stored = Some(row));
    }

    fn add(&mut self, row: RowRef, lanes: &mut [Steps]) {
        if let Some(free) = lanes.first_mut() {
            free.push(Op::Add, row);
        }
        for ordering in self.orderings.iter_mut().filter(|o| !o.is_empty(row)) {
            let Some(lane) = lanes.get_mut(ordering.lane) else {
                continue;
            };
            if ordering.is_newer(row) {
                lane.push(Op::Add, row);
                ordering.stored = Some(row);
            } else {
                lane.push(Op::AddOlder, row);
            }
        }
    }

    /// True where the record removes the row.
    fn retract(&mut self, row: RowRef, row_kind: i8, lanes: &mut [Steps]) -> bool {
        let removes = |o: &Ordering| o.removes && !o.is_empty(row) && o.is_newer(row);
        if row_kind == kind::DELETE && self.orderings.iter().any(removes) {
            self.set(row, lanes);
            return true;
        }
        for ordering in self.orderings.iter_mut().filter(|o| !o.is_empty(row)) {
            let Some(lane) = lanes.get_mut(ordering.lane) else {
                continue;
            };
            if ordering.is_newer(row) {
                lane.push(Op::Retract, row);
                ordering.stored = Some(row);
            } else {
                lane.push(Op::RetractOlder, row);
            }
        }
        false
    }
}

/// Sort keys of the groups whose columns are read; null is the oldest.
fn orderings(rules: &Rules, layout: &Layout, groups: Groups<'_>) -> Result<Vec<Ordering>> {
    let mut out = Vec::new();
    for (group, lane) in rules.groups.iter().zip(1..) {
        let places: Option<Vec<usize>> =
            group.ordering.iter().map(|at| layout.place(*at)).collect();
        // Not read: then no column of the group is, and it removes nothing.
        let Some(places) = places else { continue };
        let options = SortOptions {
            descending: false,
            nulls_first: true,
        };
        let fields = places.iter().filter_map(|i| layout.schema.fields().get(*i));
        let fields = fields.map(|f| SortField::new_with_options(f.data_type().clone(), options));
        let converter = RowConverter::new(fields.collect())?;
        let mut ordering = Ordering {
            lane,
            removes: group.removes,
            rows: Vec::new(),
            empty: Vec::new(),
            stored: None,
        };
        for batch in groups.batches {
            let columns = Layout::pick(&batch.batch, &places);
            let all_null = |row: usize| columns.iter().all(|c| c.is_null(row));
            ordering
                .empty
                .push((0..batch.len()).map(all_null).collect());
            let columns: Vec<_> = columns.iter().cloned().map(comparable).collect();
            ordering.rows.push(converter.convert_columns(&columns)?);
        }
        out.push(ordering);
    }
    Ok(out)
}
