//! Sorted runs that wait for the barrier.
//!
//! Owns where they are: in memory while they are few and small, where four of a size become one; on local
//! disk beyond that. So little is left to sort at the barrier, however long ago the last one was, and what
//! goes to disk is merged once before. What a run holds of a bucket is merged, or whole where the changelog
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

/// So many runs of about one size in memory become one.
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
    share: Arc<BudgetShare>,
    directory: PathBuf,
    /// Bytes on disk at most.
    limit: u64,
    disk: Vec<Run>,
    disk_charge: Reservation,
    held: Vec<Held>,
    spilled: SpillMetrics,
}

/// A run in memory.
#[derive(Debug)]
struct Held {
    /// In order, none without rows.
    groups: Vec<(GroupId, Vec<RecordBatch>)>,
    /// How often its rows were merged in memory.
    merges: u32,
    charge: Reservation,
}

/// Where reading of all runs stands.
#[derive(Debug, Default)]
pub(crate) struct Cursors(Vec<Cursor>);

impl Held {
    fn new(share: &BudgetShare, merges: u32, groups: Vec<(GroupId, Vec<RecordBatch>)>) -> Self {
        let batches = groups.iter().flat_map(|(_, batches)| batches);
        let bytes = batches.map(|b| slice_bytes(b) + size_of::<RecordBatch>());
        Self {
            charge: share.take(bytes.sum()),
            groups,
            merges,
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
    pub(crate) fn push(&mut self, groups: Vec<(GroupId, Vec<RecordBatch>)>) -> Result<bool> {
        self.held.push(Held::new(&self.share, 0, groups));
        while let Some(first) = self.of_a_size() {
            let merges = 1 + self.held.get(first).map_or(0, |h| h.merges);
            let groups = self.merged(first)?;
            self.held.truncate(first);
            self.held.push(Held::new(&self.share, merges, groups));
        }
        let bytes: usize = self.held.iter().map(|h| h.charge.bytes()).sum();
        if bytes <= self.share.allowance() / 4 {
            return Ok(true);
        }
        let on_disk: u64 = self.disk.iter().map(Run::bytes).sum();
        if on_disk + bytes as u64 > self.limit || self.disk.len() + 1 >= MOST_RUNS {
            return Ok(false);
        }
        match self.spill() {
            Ok(run) => {
                self.held.clear();
                self.spilled.runs += 1;
                self.spilled.bytes += run.bytes();
                self.disk.push(run);
                let index = self.disk.iter().map(Run::memory).sum();
                self.disk_charge.resize(index);
                Ok(true)
            }
            Err(WriterError::Spill { source, .. })
                if source.kind() == std::io::ErrorKind::StorageFull =>
            {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Where the newest runs that are to become one begin.
    fn of_a_size(&self) -> Option<usize> {
        let merges = self.held.last()?.merges;
        let same = self.held.iter().rev();
        let same = same.take_while(|h| h.merges == merges).count();
        (same >= RUNS_OF_A_SIZE).then(|| self.held.len() - same)
    }

    /// The groups of the runs in memory from this one on, each merged.
    fn merged(&self, first: usize) -> Result<Vec<(GroupId, Vec<RecordBatch>)>> {
        let runs = self.held.get(first..).unwrap_or_default();
        let mut merged = Vec::new();
        for group in groups_of(runs) {
            let mut batches = Vec::new();
            self.merge_held(runs, group, |batch| {
                batches.push(batch);
                Ok(())
            })?;
            merged.push((group, batches));
        }
        Ok(merged)
    }

    fn merge_held(
        &self,
        runs: &[Held],
        group: GroupId,
        mut each: impl FnMut(RecordBatch) -> Result<()>,
    ) -> Result<()> {
        let rows = runs.iter().filter_map(|run| run.of(group)).map(in_memory);
        let mut rows: Vec<Rows<'_>> = rows.collect();
        if let [only] = rows.as_mut_slice() {
            return only.try_for_each(|batch| each(batch?));
        }
        self.merge(rows, self.whole, |step| match step {
            Step::Batch(batch) if !self.whole => each(batch),
            Step::Changelog(batch) => each(batch),
            _ => Ok(()),
        })
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

    /// Writes what is in memory to disk as one run.
    fn spill(&self) -> Result<Run> {
        let mut run = RunWriter::new(&self.directory, &self.schema, self.block_bytes())?;
        let (mut groups, mut chunks, mut bytes) = (Vec::new(), Vec::new(), 0);
        for group in groups_of(&self.held) {
            self.merge_held(&self.held, group, |batch| {
                if batch.num_rows() == 0 {
                    return Ok(());
                }
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
        run.finish()
    }

    /// Groups that have rows here, in no order, some more than once.
    pub(crate) fn groups(&self) -> impl Iterator<Item = GroupId> {
        let held = self.held.iter().flat_map(|h| &h.groups);
        let disk = self.disk.iter().flat_map(Run::groups);
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
        let mut rows: Vec<Rows<'a>> = Vec::new();
        for (run, cursor) in self.disk.iter().zip(&mut cursors.0) {
            if cursor.has(run, group) {
                rows.push(Box::new(std::iter::from_fn(move || {
                    cursor.next_of(run, group, &self.schema).transpose()
                })));
            }
        }
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
