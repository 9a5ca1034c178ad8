//! Sorted runs that wait for the barrier.
//!
//! Owns where they are: in memory while they are few and small, on local disk beyond that. In both places four
//! of a size become one as long as that makes them fewer rows. So little is left to merge at the barrier,
//! however long ago the last one was. What a run holds of a bucket is merged, or whole where the changelog
//! needs every row.

use std::path::PathBuf;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use tidegate_datafile::slice_bytes;
use tidegate_merge::{Changelog, Deletes, MergeOptions, MergeSpec, Merger, Step};

use super::core::{BATCH_ROWS, merging};
use crate::budget::{BudgetShare, Reservation};
use crate::error::{Result, WriterError};
use crate::route::GroupId;
use crate::spill::{Cursor, Run, RunWriter};
use crate::taking::SpillMetrics;

/// So many runs of about one size become one.
const RUNS_OF_A_SIZE: usize = 4;

/// Runs on disk that are merged at once: each holds a block in memory.
const MOST_RUNS: usize = 64;

/// Rows of one bucket in one run, in order.
pub(crate) type Rows<'a> = Box<dyn Iterator<Item = Result<RecordBatch>> + 'a>;

/// Sorted runs, oldest first: those on disk, then those in memory.
#[derive(Debug)]
pub(crate) struct Runs {
    spec: MergeSpec,
    /// Of key-value batches.
    schema: SchemaRef,
    /// Every row is kept, not only the newest of each key.
    whole: bool,
    /// The last merge left at most four of five rows: keys come again soon.
    shrinks: bool,
    share: Arc<BudgetShare>,
    directory: PathBuf,
    /// Bytes on disk at most.
    limit: u64,
    disk: Vec<Spilled>,
    disk_charge: Reservation,
    held: Vec<Held>,
    spilled: SpillMetrics,
}

/// A run in memory.
#[derive(Debug)]
struct Held {
    /// In order, none without rows.
    groups: Vec<(GroupId, Vec<RecordBatch>)>,
    rows: usize,
    /// How often its rows were merged in memory.
    merges: u32,
    charge: Reservation,
}

/// A run on disk.
#[derive(Debug)]
struct Spilled {
    run: Run,
    rows: usize,
    /// How often its rows were merged on disk.
    merges: u32,
}

/// Where reading of all runs stands.
#[derive(Debug, Default)]
pub(crate) struct Cursors(Vec<Cursor>);

impl Held {
    fn new(share: &BudgetShare, merges: u32) -> Self {
        Self {
            groups: Vec::new(),
            rows: 0,
            merges,
            charge: share.take(0),
        }
    }

    /// Appends rows of a group that is none before the last one.
    fn push(&mut self, group: GroupId, batch: RecordBatch) {
        let bytes = slice_bytes(&batch) + size_of::<RecordBatch>();
        self.charge.resize(self.charge.bytes() + bytes);
        self.rows += batch.num_rows();
        match self.groups.last_mut() {
            Some((last, batches)) if *last == group => batches.push(batch),
            _ => self.groups.push((group, vec![batch])),
        }
    }

    fn of(&self, group: GroupId) -> Option<&[RecordBatch]> {
        let at = self.groups.binary_search_by_key(&group, |(g, _)| *g).ok()?;
        self.groups.get(at).map(|(_, batches)| batches.as_slice())
    }
}

impl Runs {
    pub(crate) fn new(
        spec: MergeSpec,
        schema: SchemaRef,
        whole: bool,
        share: Arc<BudgetShare>,
        directory: PathBuf,
        limit: u64,
    ) -> Self {
        Self {
            spec,
            schema,
            whole,
            shrinks: !whole,
            disk: Vec::new(),
            disk_charge: share.take(0),
            held: Vec::new(),
            share,
            directory,
            limit,
            spilled: SpillMetrics::default(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.disk.is_empty() && self.held.is_empty()
    }

    /// What went to disk so far.
    pub(crate) fn spilled(&self) -> SpillMetrics {
        self.spilled
    }

    /// Takes a run of these groups, in order. False where there is no room for more: everything must be
    /// handed over; what was taken stays.
    pub(crate) fn push(
        &mut self,
        rows: impl Iterator<Item = Result<(GroupId, RecordBatch)>>,
    ) -> Result<bool> {
        let mut run = Held::new(&self.share, 0);
        for row in rows {
            let (group, batch) = row?;
            run.push(group, batch);
        }
        self.held.push(run);
        while self.shrinks
            && let Some(first) = of_a_size(self.held.iter().map(|h| h.merges))
        {
            self.merge_in_memory(first)?;
        }
        let bytes: usize = self.held.iter().map(|h| h.charge.bytes()).sum();
        // Beside it are a generation that fills, one that is sorted and its keys.
        if bytes <= self.share.allowance() / 8 * 3 {
            return Ok(true);
        }
        let on_disk: u64 = self.disk.iter().map(|s| s.run.bytes()).sum();
        if on_disk + bytes as u64 > self.limit || self.disk.len() + 1 >= MOST_RUNS {
            return Ok(false);
        }
        match self.spill() {
            Err(WriterError::Spill { source, .. })
                if source.kind() == std::io::ErrorKind::StorageFull =>
            {
                Ok(false)
            }
            other => other.map(|()| true),
        }
    }

    fn merge_in_memory(&mut self, first: usize) -> Result<()> {
        let runs = self.held.get(first..).unwrap_or_default();
        let before: usize = runs.iter().map(|h| h.rows).sum();
        let mut merged = Held::new(&self.share, 1 + runs.first().map_or(0, |h| h.merges));
        for group in groups_of(runs) {
            self.merge_held(runs, group, &mut |batch| {
                merged.push(group, batch);
                Ok(())
            })?;
        }
        self.learn(before, merged.rows);
        self.held.truncate(first);
        self.held.push(merged);
        Ok(())
    }

    /// Whether merging is worth it, by how a merge went.
    fn learn(&mut self, before: usize, after: usize) {
        self.shrinks = !self.whole && after <= before / 5 * 4;
    }

    fn merge_held(
        &self,
        runs: &[Held],
        group: GroupId,
        each: &mut dyn FnMut(RecordBatch) -> Result<()>,
    ) -> Result<()> {
        let rows = runs.iter().filter_map(|run| run.of(group)).map(in_memory);
        let mut rows: Vec<Rows<'_>> = rows.collect();
        if let [only] = rows.as_mut_slice() {
            return only.try_for_each(|batch| each(batch?));
        }
        self.merge(rows, self.whole, |step| self.of_a_run(step, each))
    }

    /// What of a merge a run is made of.
    fn of_a_run(&self, step: Step, each: &mut dyn FnMut(RecordBatch) -> Result<()>) -> Result<()> {
        match step {
            Step::Batch(batch) if !self.whole => each(batch),
            Step::Changelog(batch) => each(batch),
            _ => Ok(()),
        }
    }

    /// Merges rows of one bucket, oldest first; `input` gives out every row as changelog.
    pub(crate) fn merge(
        &self,
        mut rows: Vec<Rows<'_>>,
        input: bool,
        mut each: impl FnMut(Step) -> Result<()>,
    ) -> Result<()> {
        let options = MergeOptions {
            batch_rows: BATCH_ROWS,
            deletes: Deletes::Keep,
            changelog: match input {
                true => Changelog::Input,
                false => Changelog::None,
            },
        };
        let merger = Merger::new(&self.spec, self.schema.clone(), rows.len(), options);
        let mut merger = merger.map_err(merging)?;
        loop {
            match merger.step().map_err(merging)? {
                Step::Needs(run) => match rows.get_mut(run).and_then(Iterator::next).transpose()? {
                    Some(batch) => merger.push(run, batch).map_err(merging)?,
                    None => merger.end(run).map_err(merging)?,
                },
                Step::Done => return Ok(()),
                step => each(step)?,
            }
        }
    }

    fn block_bytes(&self) -> usize {
        (self.share.allowance() / 1024).clamp(16 << 10, 1 << 20)
    }

    /// Puts what is in memory to disk as one run, and makes one of four there.
    fn spill(&mut self) -> Result<()> {
        let before = self.held.iter().map(|h| h.rows).sum();
        let run = self.write(groups_of(&self.held), 0, |group, each| {
            self.merge_held(&self.held, group, each)
        })?;
        if self.held.len() > 1 {
            self.learn(before, run.rows);
        }
        self.held.clear();
        self.keep(run);
        while self.shrinks
            && let Some(first) = of_a_size(self.disk.iter().map(|s| s.merges))
        {
            let _blocks = self.share.take(self.reading_bytes());
            let runs = self.disk.get(first..).unwrap_or_default();
            let before = runs.iter().map(|s| s.rows).sum();
            let mut groups: Vec<GroupId> = runs.iter().flat_map(|s| s.run.groups()).collect();
            groups.sort();
            groups.dedup();
            let mut cursors: Vec<Cursor> = runs.iter().map(|_| Cursor::default()).collect();
            let merges = 1 + runs.first().map_or(0, |s| s.merges);
            let run = self.write(groups, merges, |group, each| {
                let rows = on_disk(runs, &mut cursors, group, &self.schema);
                self.merge(rows, self.whole, |step| self.of_a_run(step, each))
            })?;
            self.learn(before, run.rows);
            self.disk.truncate(first);
            self.keep(run);
        }
        Ok(())
    }

    fn keep(&mut self, run: Spilled) {
        self.spilled.runs += 1;
        self.spilled.bytes += run.run.bytes();
        self.disk.push(run);
        let index = self.disk.iter().map(|s| s.run.memory()).sum();
        self.disk_charge.resize(index);
    }

    /// Writes a run of these groups, `rows` of each, in order.
    fn write(
        &self,
        of: Vec<GroupId>,
        merges: u32,
        mut rows: impl FnMut(GroupId, &mut dyn FnMut(RecordBatch) -> Result<()>) -> Result<()>,
    ) -> Result<Spilled> {
        let mut run = RunWriter::new(&self.directory, &self.schema, self.block_bytes())?;
        let (mut groups, mut chunks, mut bytes, mut all) = (Vec::new(), Vec::new(), 0, 0);
        for group in of {
            rows(group, &mut |batch| {
                if batch.num_rows() == 0 {
                    return Ok(());
                }
                all += batch.num_rows();
                // Pieces of a block's size, so that reading one back holds no more.
                let row_bytes = (slice_bytes(&batch) / batch.num_rows()).max(1);
                let most = (run.block_bytes() / row_bytes).max(1);
                let mut start = 0;
                while start < batch.num_rows() {
                    let piece = batch.slice(start, most.min(batch.num_rows() - start));
                    start += piece.num_rows();
                    match groups.last_mut() {
                        Some((last, rows)) if *last == group => *rows += piece.num_rows(),
                        _ => groups.push((group, piece.num_rows())),
                    }
                    bytes += piece.num_rows() * row_bytes;
                    chunks.push(piece);
                    if bytes >= run.block_bytes() {
                        run.push(&groups, &chunks)?;
                        groups.clear();
                        chunks.clear();
                        bytes = 0;
                    }
                }
                Ok(())
            })?;
        }
        run.push(&groups, &chunks)?;
        Ok(Spilled {
            run: run.finish()?,
            rows: all,
            merges,
        })
    }

    /// Groups that have rows here, in no order, some more than once.
    pub(crate) fn groups(&self) -> impl Iterator<Item = GroupId> {
        let held = self.held.iter().flat_map(|h| &h.groups);
        let disk = self.disk.iter().flat_map(|s| s.run.groups());
        disk.chain(held.map(|(group, _)| *group))
    }

    /// Cursors that stand before all groups.
    pub(crate) fn cursors(&self) -> Cursors {
        Cursors(self.disk.iter().map(|_| Cursor::default()).collect())
    }

    /// Memory that reading the runs on disk side by side takes.
    pub(crate) fn reading_bytes(&self) -> usize {
        self.disk.len() * 2 * self.block_bytes()
    }

    /// The rows of a group in each run that has any, oldest first. Groups must be asked for in order.
    pub(crate) fn rows_of<'a>(&'a self, cursors: &'a mut Cursors, group: GroupId) -> Vec<Rows<'a>> {
        let mut rows = on_disk(&self.disk, &mut cursors.0, group, &self.schema);
        rows.extend(
            self.held
                .iter()
                .filter_map(|run| run.of(group))
                .map(in_memory),
        );
        rows
    }

    /// Forgets all runs.
    pub(crate) fn clear(&mut self) {
        self.disk.clear();
        self.disk_charge.resize(0);
        self.held.clear();
    }
}

/// Where the newest runs that are to become one begin, by how often each was merged.
fn of_a_size(merges: impl DoubleEndedIterator<Item = u32> + ExactSizeIterator) -> Option<usize> {
    let runs = merges.len();
    let mut newest = merges.rev().peekable();
    let last = *newest.peek()?;
    let same = newest.take_while(|m| *m == last).count();
    (same >= RUNS_OF_A_SIZE).then(|| runs - same)
}

/// The rows of a group in each run that has any.
fn on_disk<'a>(
    runs: &'a [Spilled],
    cursors: &'a mut [Cursor],
    group: GroupId,
    schema: &'a SchemaRef,
) -> Vec<Rows<'a>> {
    let mut rows: Vec<Rows<'a>> = Vec::new();
    for (spilled, cursor) in runs.iter().zip(cursors) {
        let run = &spilled.run;
        if cursor.has(run, group) {
            rows.push(Box::new(std::iter::from_fn(move || {
                cursor.next_of(run, group, schema).transpose()
            })));
        }
    }
    rows
}

fn in_memory(batches: &[RecordBatch]) -> Rows<'_> {
    Box::new(batches.iter().cloned().map(Ok))
}

fn groups_of(runs: &[Held]) -> Vec<GroupId> {
    let all = runs.iter().flat_map(|run| &run.groups);
    let mut groups: Vec<GroupId> = all.map(|(group, _)| *group).collect();
    groups.sort();
    groups.dedup();
    groups
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use arrow::array::{ArrayRef, AsArray, Int8Array, Int64Array};
    use arrow::datatypes::Int64Type;
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};
    use tidegate_datafile::key_value_schema;
    use tidegate_model::{DataField, TableSchema};

    use super::*;
    use crate::budget::MemoryBudget;

    const ROWS: i64 = 512;

    /// Runs of a table `id BIGINT`, and a folder that must stay.
    fn runs(budget: usize, limit: u64, whole: bool) -> (Runs, tempfile::TempDir) {
        let columns = vec![DataField::new("id", "BIGINT NOT NULL".parse().unwrap())];
        let options = [("bucket", "2")].into_iter().collect();
        let table =
            TableSchema::create(columns, vec![], vec!["id".into()], options, None, 0).unwrap();
        let schema = key_value_schema(&table.fields).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let share = Arc::new(MemoryBudget::new(budget).join());
        let spec = MergeSpec::new(&table).unwrap();
        let at = folder.path().to_owned();
        (Runs::new(spec, schema, whole, share, at, limit), folder)
    }

    /// Two groups of sorted rows with these ids, each once, numbered from `first` on.
    fn run(runs: &Runs, first: i64, ids: &[i64]) -> Vec<Result<(GroupId, RecordBatch)>> {
        let mut sorted: Vec<(i64, i64)> = ids.iter().copied().zip(first..).collect();
        sorted.sort_unstable();
        sorted.reverse();
        sorted.dedup_by_key(|(id, _)| *id);
        sorted.reverse();
        let of = |group: i64| {
            let rows = sorted.iter().filter(|(id, _)| id % 2 == group);
            let (ids, numbers): (Vec<i64>, Vec<i64>) = rows.copied().unzip();
            let columns: Vec<ArrayRef> = vec![
                Arc::new(Int64Array::from(numbers)),
                Arc::new(Int8Array::from(vec![0; ids.len()])),
                Arc::new(Int64Array::from(ids)),
            ];
            RecordBatch::try_new(runs.schema.clone(), columns).unwrap()
        };
        vec![Ok((GroupId(0), of(0))), Ok((GroupId(1), of(1)))]
    }

    /// Number of the newest row of each id, and how many rows came out.
    fn newest(runs: &Runs) -> (BTreeMap<i64, i64>, usize) {
        let (mut found, mut rows) = (BTreeMap::new(), 0);
        let mut cursors = runs.cursors();
        for group in [GroupId(0), GroupId(1)] {
            let waiting = runs.rows_of(&mut cursors, group);
            let merged = runs.merge(waiting, runs.whole, |step| {
                let batch = match step {
                    Step::Batch(batch) if !runs.whole => batch,
                    Step::Changelog(batch) => batch,
                    _ => return Ok(()),
                };
                rows += batch.num_rows();
                let of = |at: usize| batch.column(at).as_primitive::<Int64Type>().values();
                found.extend(of(2).iter().copied().zip(of(0).iter().copied()));
                Ok(())
            });
            merged.unwrap();
        }
        (found, rows)
    }

    fn pushed(runs: &mut Runs, pushes: i64, keys: i64) -> (BTreeMap<i64, i64>, usize) {
        let mut random = SmallRng::seed_from_u64(7);
        let (mut expected, mut rows) = (BTreeMap::new(), 0);
        for n in 0..pushes {
            let ids: Vec<i64> = (0..ROWS).map(|_| random.random_range(0..keys)).collect();
            expected.extend(ids.iter().copied().zip(n * ROWS..));
            let made = run(runs, n * ROWS, &ids);
            rows += made.iter().flatten().map(|r| r.1.num_rows()).sum::<usize>();
            assert!(runs.push(made.into_iter()).unwrap());
            let most = |of: Vec<u32>| of.chunk_by(|a, b| a == b).map(<[u32]>::len).max();
            for merges in [
                runs.held.iter().map(|h| h.merges).collect(),
                runs.disk.iter().map(|s| s.merges).collect::<Vec<u32>>(),
            ] {
                assert!(!runs.shrinks || most(merges).unwrap_or(0) < RUNS_OF_A_SIZE);
            }
        }
        (expected, rows)
    }

    #[test]
    fn runs_of_keys_that_come_again_become_few_and_the_newest_row_of_each_key_stays() {
        // In memory alone, then with most of it on disk.
        for budget in [64 << 20, 100 << 10] {
            let (mut runs, _folder) = runs(budget, u64::MAX, false);
            let (expected, _) = pushed(&mut runs, 150, 700);
            assert_eq!(newest(&runs).0, expected);
            assert!(runs.shrinks);
            assert_eq!(runs.disk.is_empty(), budget > 1 << 20);
            let merges = runs.disk.iter().map(|s| s.merges).max();
            assert_eq!(merges.unwrap_or(0) > 0, budget < 1 << 20);
            assert!(
                runs.held.len() + runs.disk.len() <= 3 * 4,
                "{}",
                runs.held.len()
            );
        }
    }

    #[test]
    fn runs_of_keys_that_do_not_come_again_are_not_merged_for_nothing() {
        let (mut runs, _folder) = runs(200 << 10, u64::MAX, false);
        let (expected, _) = pushed(&mut runs, 120, i64::MAX);
        assert_eq!(newest(&runs).0, expected);
        assert!(!runs.shrinks && runs.disk.len() > RUNS_OF_A_SIZE);
        assert!(runs.disk.iter().all(|s| s.merges == 0));
    }

    #[test]
    fn where_the_changelog_needs_every_row_every_row_stays() {
        for budget in [64 << 20, 400 << 10] {
            let (mut runs, _folder) = runs(budget, u64::MAX, true);
            let (expected, rows) = pushed(&mut runs, 30, 300);
            assert_eq!(newest(&runs), (expected, rows));
        }
    }

    #[test]
    fn without_room_on_disk_what_was_taken_stays_and_nothing_more_is_taken() {
        let (mut runs, _folder) = runs(64 << 10, 0, false);
        let made = run(&runs, 0, &(0..3000).collect::<Vec<_>>());
        assert!(!runs.push(made.into_iter()).unwrap());
        assert_eq!(newest(&runs).0.len(), 3000);
        runs.clear();
        assert!(runs.is_empty());
    }
}
