//! Merging sorted runs, without I/O: the caller reads files and feeds batches, the machine says what it
//! needs next.
//!
//! Runs are sorted by key and versions; a loser tree finds the next row. Groups of one key go to the
//! merge function a batch at a time. Where one run is alone up to the next key of all others, its rows
//! go through by slices, neither compared nor copied: a row without other versions is not merged
//! \[W-22].

use crate::engine::{self, Groups, How, RowRef, changelog};
use crate::error::{Error, Result};
use crate::kind;
use crate::layout::Layout;
use crate::loser_tree::LoserTree;
use crate::sort_key::{Keyed, Origin, SortKeys};
use crate::spec::{MergeEngine, MergeSpec};
use arrow::array::{BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::SchemaRef;
use std::cmp::Ordering;
use std::collections::VecDeque;
use tidegate_model::Level;

/// Rows that are alone for at least so long go through by a slice; shorter stretches are copied, so
/// that batches do not become tiny.
const SLICE_ROWS: usize = 512;

/// So many rows of one run in a row, and it is worth looking how far it is alone.
const STREAK: usize = 8;

/// What to do with rows that end as -U or -D.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Deletes {
    /// They stay: a compaction below the top.
    #[default]
    Keep,
    /// They go: reading, and compaction to the top \[W-45].
    Drop,
}

/// Which changelog a merge makes beside its rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Changelog {
    /// None.
    #[default]
    None,
    /// Every row as it came, in merge order \[W-51]: for runs that a write buffer spilled.
    Input,
    /// What changed against the records of the top level, to which everything is merged \[W-52];
    /// deletes go whatever [`MergeOptions::deletes`] says. Batches come by
    /// [`push_at`](Merger::push_at).
    FullCompaction {
        /// The top level.
        top: Level,
    },
    /// What level 0 changed against the records above it \[W-53], \[W-54]. Batches come by
    /// [`push_at`](Merger::push_at), and by [`push_old`](Merger::push_old) those from above the output
    /// level that hold keys of level 0.
    Lookup,
}

/// How to merge.
#[derive(Clone, Copy, Debug)]
pub struct MergeOptions {
    /// At most so many keys per merged batch.
    pub batch_rows: usize,
    /// Whether rows that end deleted stay.
    pub deletes: Deletes,
    /// Which changelog to make.
    pub changelog: Changelog,
}

impl Default for MergeOptions {
    /// 4096 keys per batch, deletes stay, no changelog.
    fn default() -> Self {
        Self {
            batch_rows: 4096,
            deletes: Deletes::Keep,
            changelog: Changelog::None,
        }
    }
}

/// What a merge says when it is asked for more.
#[derive(Clone, Debug)]
pub enum Step {
    /// It goes on once this run got its next batch, or its end.
    Needs(usize),
    /// Merged rows, in key order, never none.
    Batch(RecordBatch),
    /// Rows of the changelog, never none.
    Changelog(RecordBatch),
    /// All runs are merged.
    Done,
}

/// Where a run stands.
#[derive(Clone, Copy, Debug)]
enum Cursor {
    /// Its next batch has not come.
    Waiting,
    /// At a row of a batch.
    At { batch: u32, row: usize },
    /// Nothing more comes.
    Ended,
}

/// Merges sorted runs; run 0 is the oldest, which decides only between versions that are equal in
/// everything \[W-31].
///
/// ```
/// use tidegate_merge::{MergeOptions, MergeSpec, Merger, Step, key_value_schema};
/// # use arrow::array::{Int64Array, Int8Array, RecordBatch, StringArray};
/// # use arrow::datatypes::{DataType, Field, Schema};
/// # use std::sync::Arc;
/// # use tidegate_model::{DataField, Options, TableSchema};
/// # let columns = vec![DataField::new("id", "BIGINT".parse()?), DataField::new("v", "STRING".parse()?)];
/// # let options: Options = [("bucket", "1")].into_iter().collect();
/// # let table = TableSchema::create(columns, vec![], vec!["id".into()], options, None, 0)?;
/// # let values = Schema::new(vec![Field::new("id", DataType::Int64, false), Field::new("v", DataType::Utf8, true)]);
/// # let schema = key_value_schema(&values);
/// # let batch = |rows: &[(i64, i64, &str)]| RecordBatch::try_new(schema.clone(), vec![
/// #     Arc::new(Int64Array::from_iter_values(rows.iter().map(|r| r.0))) as _,
/// #     Arc::new(Int8Array::from(vec![0; rows.len()])) as _,
/// #     Arc::new(Int64Array::from_iter_values(rows.iter().map(|r| r.1))) as _,
/// #     Arc::new(StringArray::from_iter_values(rows.iter().map(|r| r.2))) as _,
/// # ]);
/// let spec = MergeSpec::new(&table)?;
/// // (sequence number, id, v) of two files
/// let mut files = vec![
///     vec![batch(&[(0, 1, "old"), (1, 4, "old")])?],
///     vec![batch(&[(2, 2, "new"), (3, 4, "new")])?],
/// ];
/// let mut merger = Merger::new(&spec, schema, files.len(), MergeOptions::default())?;
/// let mut ids = Vec::new();
/// loop {
///     match merger.step()? {
///         Step::Needs(run) => match files[run].pop() {
///             Some(batch) => merger.push(run, batch)?,
///             None => merger.end(run)?,
///         },
///         Step::Batch(rows) => ids.extend_from_slice(
///             rows.column(2).as_any().downcast_ref::<Int64Array>().unwrap().values(),
///         ),
///         Step::Changelog(_) => {}
///         Step::Done => break,
///     }
/// }
/// assert_eq!(ids, [1, 2, 4]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Merger {
    spec: MergeSpec,
    keys: SortKeys,
    options: MergeOptions,
    cursors: Vec<Cursor>,
    tree: Option<LoserTree>,
    /// Batches that a cursor stands in, or that a row of `rows` is of.
    batches: Vec<Keyed>,
    /// Rows of groups that are not given out; the last group may grow.
    rows: Vec<RowRef>,
    /// Where whole groups end.
    ends: Vec<u32>,
    ready: VecDeque<Step>,
    last_run: usize,
    streak: usize,
    done: bool,
}

impl Merger {
    /// A merge of so many runs of key-value batches of this schema.
    ///
    /// # Errors
    /// Where the schema lacks a column that merging needs ([`MergeSpec::needs`]).
    pub fn new(
        spec: &MergeSpec,
        schema: SchemaRef,
        runs: usize,
        options: MergeOptions,
    ) -> Result<Self> {
        let options = MergeOptions {
            batch_rows: options.batch_rows.clamp(1, 1 << 20),
            ..options
        };
        Ok(Self {
            spec: spec.clone(),
            keys: SortKeys::new(spec, Layout::new(spec, schema)?)?,
            options,
            cursors: vec![Cursor::Waiting; runs],
            tree: None,
            batches: Vec::new(),
            rows: Vec::new(),
            ends: Vec::new(),
            ready: VecDeque::new(),
            last_run: 0,
            streak: 0,
            done: false,
        })
    }

    /// The next batch of a run that [`step`](Self::step) asked for. Batches without rows are taken and
    /// asked for again.
    ///
    /// # Errors
    /// Where the run was not asked for, or the batch is of another schema, or not in order.
    pub fn push(&mut self, run: usize, batch: RecordBatch) -> Result<()> {
        self.push_at(run, batch, Level(0))
    }

    /// The same, of a file of this level: what changelogs go by.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub fn push_at(&mut self, run: usize, batch: RecordBatch, level: Level) -> Result<()> {
        self.push_from(
            run,
            batch,
            Origin {
                level: level.0,
                reference: false,
            },
        )
    }

    /// Old records from a level that takes no part in the compaction \[W-53]: they are not given out,
    /// but what is merged is merged with them, and the changelog says what was before.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub fn push_old(&mut self, run: usize, batch: RecordBatch, level: Level) -> Result<()> {
        if self.options.changelog != Changelog::Lookup {
            let what = "old records are for look-ups; merge with Changelog::Lookup".to_owned();
            return Err(Error::Run { run, what });
        }
        self.push_from(
            run,
            batch,
            Origin {
                level: level.0,
                reference: true,
            },
        )
    }

    fn push_from(&mut self, run: usize, batch: RecordBatch, origin: Origin) -> Result<()> {
        self.expect_waiting(run)?;
        if batch.num_rows() == 0 {
            return Ok(());
        }
        self.forget();
        let mut keyed = self.keys.encode(batch)?;
        keyed.origin = origin;
        let layout = self.keys.layout();
        if let Some(row) = keyed.first_out_of_order() {
            let key = layout.describe_key(&keyed.batch, row);
            return Err(Error::Unsorted { run, key });
        }
        // The run's last row was the smallest of all runs, and may be that of the group that is open;
        // what comes after it must not be smaller.
        if let Some(last) = self.rows.last()
            && let Some(before) = self.batches.get(last.batch as usize)
            && self.tree.is_some()
            && keyed.compare(0, before, last.row()) == Ordering::Less
        {
            let key = layout.describe_key(&keyed.batch, 0);
            return Err(Error::Unsorted { run, key });
        }
        let batch = u32::try_from(self.batches.len())
            .map_err(|_| Error::Batch("2^32 batches are open in one merge".into()))?;
        u32::try_from(self.rows.len() + keyed.len())
            .map_err(|_| Error::Batch("one key has 2^32 versions".into()))?;
        self.batches.push(keyed);
        self.set(run, Cursor::At { batch, row: 0 });
        self.replay(run);
        Ok(())
    }

    /// A run that [`step`](Self::step) asked for has no more batches.
    ///
    /// # Errors
    /// Where it was not asked for.
    pub fn end(&mut self, run: usize) -> Result<()> {
        self.expect_waiting(run)?;
        self.set(run, Cursor::Ended);
        self.replay(run);
        Ok(())
    }

    fn expect_waiting(&self, run: usize) -> Result<()> {
        let what = match self.cursors.get(run) {
            Some(Cursor::Waiting) => return Ok(()),
            Some(Cursor::At { .. }) => "rows came for it before it asked for any".to_owned(),
            Some(Cursor::Ended) => "it has ended already".to_owned(),
            None => format!("there are {} runs, numbered from 0", self.cursors.len()),
        };
        Err(Error::Run { run, what })
    }

    fn set(&mut self, run: usize, cursor: Cursor) {
        if let Some(at) = self.cursors.get_mut(run) {
            *at = cursor;
        }
    }

    /// Goes on as far as possible. After an error the merge must be dropped.
    ///
    /// # Errors
    /// Where the engine refuses rows of a key.
    pub fn step(&mut self) -> Result<Step> {
        loop {
            if let Some(step) = self.ready.pop_front() {
                return Ok(step);
            }
            if self.done {
                return Ok(Step::Done);
            }
            let Some(run) = self.tree.as_ref().map(LoserTree::winner) else {
                match self
                    .cursors
                    .iter()
                    .position(|c| matches!(c, Cursor::Waiting))
                {
                    Some(run) => return Ok(Step::Needs(run)),
                    None => self.begin(),
                }
                continue;
            };
            match self.cursors.get(run).copied().unwrap_or(Cursor::Ended) {
                Cursor::Waiting => return Ok(Step::Needs(run)),
                Cursor::At { batch, row } => self.advance(run, batch, row)?,
                // The smallest of all: so all have ended.
                Cursor::Ended => {
                    self.close_group();
                    self.flush()?;
                    self.done = true;
                }
            }
        }
    }

    fn begin(&mut self) {
        let tree = LoserTree::new(self.cursors.len(), |a, b| {
            less(&self.cursors, &self.batches, a, b)
        });
        self.tree = Some(tree);
    }

    fn replay(&mut self, run: usize) {
        if let Some(tree) = &mut self.tree
            && tree.winner() == run
        {
            tree.replay(|a, b| less(&self.cursors, &self.batches, a, b));
        }
    }

    /// Takes the smallest row, or more of its run.
    fn advance(&mut self, run: usize, batch: u32, row: usize) -> Result<()> {
        self.streak = if self.last_run == run {
            self.streak + 1
        } else {
            0
        };
        self.last_run = run;
        let Some(keyed) = self.batches.get(batch as usize) else {
            return Ok(());
        };
        let len = keyed.len();
        let mut next = row;
        if self.streak >= STREAK || self.cursors.len() == 1 {
            self.streak = 0;
            next = self.alone_until(keyed, row);
            if next - row > SLICE_ROWS {
                next = self.pass_through(batch, row, next)?;
            } else {
                for row in row..next {
                    self.take(RowRef {
                        batch,
                        row: row as u32,
                    });
                }
            }
        }
        if next == row {
            self.take(RowRef {
                batch,
                row: row as u32,
            });
            next = row + 1;
        }
        let cursor = if next < len {
            Cursor::At { batch, row: next }
        } else {
            Cursor::Waiting
        };
        self.set(run, cursor);
        if next < len {
            self.replay(run);
        }
        if self.ends.len() >= self.options.batch_rows {
            self.flush()?;
        }
        Ok(())
    }

    /// Up to which row of its batch the smallest run is before all others.
    fn alone_until(&self, keyed: &Keyed, row: usize) -> usize {
        let less = |a, b| less(&self.cursors, &self.batches, a, b);
        let challenger = self.tree.as_ref().and_then(|tree| tree.runner_up(less));
        let challenger = challenger.and_then(|run| match self.cursors.get(run) {
            Some(Cursor::At { batch, row }) => Some((self.batches.get(*batch as usize)?, *row)),
            _ => None,
        });
        let Some((other, other_row)) = challenger else {
            return keyed.len();
        };
        let before = |row: usize| keyed.compare_keys(row, other, other_row) == Ordering::Less;
        // Steps that double, then halve: what is near is found quickly.
        let (mut low, mut step) = (row, 1);
        while low + step <= keyed.len() && before(low + step - 1) {
            low += step;
            step *= 2;
        }
        let mut high = (low + step - 1).min(keyed.len());
        while low < high {
            let middle = low.midpoint(high);
            if before(middle) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Gives out rows `row..until` of a batch, which no other run has keys among, and says up to where.
    fn pass_through(&mut self, batch: u32, row: usize, until: usize) -> Result<usize> {
        let mut from = row;
        // A key may have versions before and after within the run: only a run of a write buffer has.
        loop {
            let same = self.continues_group(batch, from);
            if !same || from == until {
                break;
            }
            self.take(RowRef {
                batch,
                row: from as u32,
            });
            from += 1;
        }
        let Some(keyed) = self.batches.get(batch as usize) else {
            return Ok(from);
        };
        // The last row may have more versions in the next batch.
        let end = until.saturating_sub(1);
        // What a look-up compaction lifts goes through the merge function even alone [W-53].
        let merged_alone = self.options.changelog == Changelog::Lookup
            && keyed.origin.level <= 0
            && (self.spec.engine() != MergeEngine::Deduplicate || self.spec.ignores_deletes());
        if end <= from || !keyed.has_distinct_keys() || merged_alone {
            for row in from..until {
                self.take(RowRef {
                    batch,
                    row: row as u32,
                });
            }
            return Ok(until);
        }
        let (slice, origin) = (keyed.batch.slice(from, end - from), keyed.origin);
        self.close_group();
        self.flush()?;
        let deletes = match self.options.changelog {
            Changelog::None => self.options.deletes,
            Changelog::Input => {
                self.ready.push_back(Step::Changelog(slice.clone()));
                self.options.deletes
            }
            Changelog::FullCompaction { top } => {
                if origin.level != top.0 {
                    self.tell_inserts(&slice)?;
                }
                Deletes::Drop
            }
            Changelog::Lookup => {
                if origin.level <= 0 {
                    self.tell_inserts(&slice)?;
                }
                self.options.deletes
            }
        };
        if !origin.reference {
            self.give(without_deletes(slice, deletes)?);
        }
        self.take(RowRef {
            batch,
            row: end as u32,
        });
        Ok(until)
    }

    fn continues_group(&self, batch: u32, row: usize) -> bool {
        let open = self.ends.last().copied().unwrap_or(0) as usize;
        let last = self.rows.get(open..).and_then(<[_]>::last);
        match (last, self.batches.get(batch as usize)) {
            (Some(last), Some(keyed)) => self
                .batches
                .get(last.batch as usize)
                .is_some_and(|b| keyed.compare_keys(row, b, last.row()) == Ordering::Equal),
            _ => false,
        }
    }

    /// Appends a row, to the open group if it has its key.
    fn take(&mut self, row: RowRef) {
        if !self.continues_group(row.batch, row.row()) {
            self.close_group();
        }
        self.rows.push(row);
    }

    fn close_group(&mut self) {
        // Counted when batches were taken: never above u32.
        let end = u32::try_from(self.rows.len()).unwrap_or(u32::MAX);
        if end > self.ends.last().copied().unwrap_or(0) {
            self.ends.push(end);
        }
    }

    /// Rows whose key was not there before.
    fn tell_inserts(&mut self, rows: &RecordBatch) -> Result<()> {
        let adds = without_deletes(rows.clone(), Deletes::Drop)?;
        if adds.num_rows() > 0 {
            let inserts = changelog::with_kinds(&adds, vec![kind::INSERT; adds.num_rows()])?;
            self.ready.push_back(Step::Changelog(inserts));
        }
        Ok(())
    }

    fn give(&mut self, batch: RecordBatch) {
        if batch.num_rows() > 0 {
            self.ready.push_back(Step::Batch(batch));
        }
    }

    /// Merges all whole groups.
    fn flush(&mut self) -> Result<()> {
        let whole = self.ends.last().copied().unwrap_or(0) as usize;
        if whole > 0 {
            let layout = self.keys.layout();
            let rows = self.rows.get(..whole).unwrap_or_default();
            let groups = Groups {
                batches: &self.batches,
                rows,
                ends: &self.ends,
            };
            let drop_deletes = self.options.deletes == Deletes::Drop;
            let (merged, changelog) = match self.options.changelog {
                Changelog::None | Changelog::Input => {
                    let how = How {
                        drop_deletes,
                        singles_too: false,
                    };
                    let merged = engine::merge(&self.spec, layout, groups, how)?.batch;
                    let input = self.options.changelog == Changelog::Input;
                    let changelog = input.then(|| groups.unmerged(layout)).transpose()?;
                    (merged, changelog)
                }
                Changelog::FullCompaction { top } => {
                    let made = changelog::full_compaction(&self.spec, layout, groups, top.0)?;
                    (made.rows, Some(made.changelog))
                }
                Changelog::Lookup => {
                    let made = changelog::lookup(&self.spec, layout, groups, drop_deletes)?;
                    (made.rows, Some(made.changelog))
                }
            };
            let told = changelog.filter(|c| c.num_rows() > 0);
            self.ready.extend(told.map(Step::Changelog));
            self.give(merged);
            self.rows.drain(..whole);
            self.ends.clear();
        }
        Ok(())
    }

    /// Lets go of batches that nothing refers to any more.
    fn forget(&mut self) {
        const GONE: u32 = u32::MAX;
        let mut used = vec![GONE; self.batches.len()];
        let mut mark = |batch: u32| {
            if let Some(slot) = used.get_mut(batch as usize) {
                *slot = 0;
            }
        };
        self.rows.iter().for_each(|row| mark(row.batch));
        for cursor in &self.cursors {
            if let Cursor::At { batch, .. } = cursor {
                mark(*batch);
            }
        }
        let kept = used.iter_mut().filter(|slot| **slot != GONE);
        for (place, slot) in (0u32..).zip(kept) {
            *slot = place;
        }
        let mut at = used.iter();
        self.batches
            .retain(|_| at.next().is_some_and(|slot| *slot != GONE));
        let place = |batch: u32| used.get(batch as usize).copied().unwrap_or(GONE);
        self.rows
            .iter_mut()
            .for_each(|row| row.batch = place(row.batch));
        for cursor in &mut self.cursors {
            if let Cursor::At { batch, .. } = cursor {
                *batch = place(*batch);
            }
        }
    }
}

/// Run `a` goes before run `b`; runs that have ended come last.
fn less(cursors: &[Cursor], batches: &[Keyed], a: usize, b: usize) -> bool {
    let at = |run: usize| match cursors.get(run) {
        Some(Cursor::At { batch, row }) => batches.get(*batch as usize).map(|k| (k, *row)),
        _ => None,
    };
    match (at(a), at(b)) {
        (Some((ka, ra)), Some((kb, rb))) => {
            ka.compare(ra, kb, rb).then(a.cmp(&b)) == Ordering::Less
        }
        (Some(_), None) => true,
        (None, Some(_)) => false,
        (None, None) => a < b,
    }
}

fn without_deletes(batch: RecordBatch, deletes: Deletes) -> Result<RecordBatch> {
    let kinds = Layout::kinds(&batch);
    if deletes == Deletes::Keep || !kinds.iter().any(|k| kind::is_retract(*k)) {
        return Ok(batch);
    }
    let adds: BooleanArray = kinds.iter().map(|k| Some(!kind::is_retract(*k))).collect();
    Ok(filter_record_batch(&batch, &adds)?)
}

#[cfg(test)]
mod tests;
