//! The working half of a keyed writer: sorts, spills and encodes, on the thread of [`crate::worker`], one
//! job at a time.
//!
//! Owns the spilled runs and what becomes of a generation. A generation that is full is sorted bucket by
//! bucket and goes to local disk as one run; at the barrier runs and the last generation are merged into
//! level-0 files, one per bucket unless it is large, and into the changelog of `changelog-producer =
//! input` \[W-22], \[W-23].

use std::path::PathBuf;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use tidegate_datafile::{Dictionaries, slice_bytes};
use tidegate_merge::{
    Changelog, Deletes, MergeOptions, MergeSpec, Merger, SortBuffer, Sorted, Step,
};

use crate::budget::Reservation;
use crate::error::{Result, WriterError};
use crate::files::{Files, Finished};
use crate::generation::Generation;
use crate::keyed::output::Output;
use crate::route::GroupId;
use crate::spill::{Cursor, Run, RunWriter};
use crate::taking::{Core, Drain, Of, Put, SpillMetrics, Standing};
use crate::uploads::Uploads;

/// Rows of a merged batch.
const BATCH_ROWS: usize = 8192;

/// Rows looked at to choose dictionaries.
const SAMPLE_ROWS: usize = 8192;

/// Runs that are merged at once: each holds a block in memory.
const MOST_RUNS: usize = 64;

/// State of a keyed writer that its jobs work on.
#[derive(Debug)]
pub(crate) struct KeyedCore {
    files: Arc<Files>,
    /// Files of the input changelog, where the table wants one.
    changelog: Option<Arc<Files>>,
    uploads: Uploads,
    spec: MergeSpec,
    /// Of key-value batches.
    schema: SchemaRef,
    /// Folders of buckets, by group.
    directories: Vec<String>,
    finished: Vec<(Of, Finished)>,
    spilled: SpillMetrics,
    spill_directory: PathBuf,
    spill_limit: u64,
    runs: Vec<Run>,
    runs_charge: Reservation,
    dictionaries: Option<Dictionaries>,
}

/// Rows on local disk, and when a generation follows them.
#[derive(Debug)]
pub(crate) struct KeyedStanding {
    spilled: bool,
    /// Bytes of a generation at most.
    buffer_bytes: usize,
}

impl KeyedStanding {
    pub(crate) fn new(buffer_bytes: usize) -> Self {
        Self {
            spilled: false,
            buffer_bytes,
        }
    }
}

impl Standing<KeyedCore> for KeyedStanding {
    fn held(&mut self, _: impl Iterator<Item = GroupId>) {}

    fn sent(&mut self) {}

    fn learn(&mut self, core: &KeyedCore) {
        self.spilled = core.has_spilled();
    }

    fn forget(&mut self) {
        self.spilled = false;
    }

    fn waits(&self) -> bool {
        self.spilled
    }

    /// Two generations at a time, and sorting one takes its keys beside.
    fn due(&self, generation: &Generation, allowance: usize, _: usize) -> bool {
        generation.bytes() >= (allowance / 4).min(self.buffer_bytes).max(1)
    }
}

pub(crate) fn merging(source: tidegate_merge::Error) -> WriterError {
    WriterError::Merge(Box::new(source))
}

impl KeyedCore {
    #[allow(clippy::too_many_arguments, reason = "called once")]
    pub(crate) fn new(
        files: Arc<Files>,
        changelog: Option<Arc<Files>>,
        uploads: Uploads,
        spec: MergeSpec,
        schema: SchemaRef,
        spill_directory: PathBuf,
        spill_limit: u64,
    ) -> Self {
        Self {
            runs_charge: files.share.take(0),
            files,
            changelog,
            uploads,
            spec,
            schema,
            directories: Vec::new(),
            finished: Vec::new(),
            spilled: SpillMetrics::default(),
            spill_directory,
            spill_limit,
            runs: Vec::new(),
            dictionaries: None,
        }
    }

    /// True where rows lie on local disk.
    pub(crate) fn has_spilled(&self) -> bool {
        !self.runs.is_empty()
    }

    fn block_bytes(&self) -> usize {
        (self.files.share.allowance() / 1024).clamp(16 << 10, 1 << 20)
    }

    fn choose_dictionaries(&mut self, generation: &Generation) {
        if self.dictionaries.is_none() && !generation.is_empty() {
            let sample = generation.sample(SAMPLE_ROWS);
            let constant = &self.files.partition_keys;
            self.dictionaries = Some(Dictionaries::choose(&self.files.plan, &sample, constant));
        }
    }

    /// The rows of one bucket in a generation, sorted; what they take is charged.
    fn sorted(
        &self,
        generation: &Generation,
        group: GroupId,
    ) -> Result<Option<(Sorted, Reservation)>> {
        let parts = generation.parts_of(group);
        if parts.is_empty() {
            return Ok(None);
        }
        let mut buffer = SortBuffer::new(&self.spec, self.schema.clone()).map_err(merging)?;
        let mut charge = self.files.share.take(0);
        generation.gather(parts, |rows| {
            buffer.push(rows).map_err(merging)?;
            charge.resize(buffer.memory_size());
            Ok(())
        })?;
        Ok(Some((buffer.sort(), charge)))
    }

    /// What a generation holds of a bucket, as a run: merged, or whole where the changelog needs every
    /// row.
    fn as_run<'a>(
        &self,
        sorted: &'a Sorted,
    ) -> Box<dyn Iterator<Item = tidegate_merge::Result<RecordBatch>> + 'a> {
        match self.changelog {
            Some(_) => Box::new(sorted.unmerged(BATCH_ROWS)),
            None => Box::new(sorted.merged(BATCH_ROWS)),
        }
    }

    fn spill_sorted(&self, generation: &Generation) -> Result<Run> {
        let mut run = RunWriter::new(&self.spill_directory, &self.schema, self.block_bytes())?;
        let (mut groups, mut chunks, mut bytes) = (Vec::new(), Vec::new(), 0);
        let ids: Vec<GroupId> = generation.groups().map(|(id, _)| id).collect();
        for group in ids {
            let Some((sorted, _charge)) = self.sorted(generation, group)? else {
                continue;
            };
            for batch in self.as_run(&sorted) {
                let batch = batch.map_err(merging)?;
                if batch.num_rows() == 0 {
                    continue;
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
            }
        }
        run.push(&groups, &chunks)?;
        run.finish()
    }

    /// Writes what there is of one bucket: level-0 files, and the changelog.
    fn write_bucket(&mut self, drain: &mut Drain, group: GroupId) -> Result<usize> {
        let Some(directory) = self.directories.get(group.index()) else {
            return Err(WriterError::Task {
                what: "encoding",
                reason: "a bucket without a folder".to_owned(),
            });
        };
        let newest = self.sorted(&drain.generation, group)?;
        let chosen = self.dictionaries.as_ref();
        let mut rows = Output::new(&self.files, &self.uploads, directory, group, chosen);
        // Their columns are the same, and so are the dictionaries.
        let log = self.changelog.as_deref();
        let mut log = log.map(|files| Output::new(files, &self.uploads, directory, group, chosen));
        let mut involved: Vec<(&Run, &mut Cursor)> = Vec::new();
        for (run, cursor) in self.runs.iter().zip(&mut drain.cursors) {
            if cursor.has(run, group) {
                involved.push((run, cursor));
            }
        }
        match (&newest, involved.is_empty()) {
            (Some((sorted, _)), true) => {
                for batch in sorted.merged(BATCH_ROWS) {
                    rows.write(&batch.map_err(merging)?)?;
                }
                if let Some(log) = &mut log {
                    for batch in sorted.unmerged(BATCH_ROWS) {
                        log.write(&batch.map_err(merging)?)?;
                    }
                }
            }
            _ => {
                let runs = involved.len() + usize::from(newest.is_some());
                let options = MergeOptions {
                    batch_rows: BATCH_ROWS,
                    deletes: Deletes::Keep,
                    changelog: match log {
                        Some(_) => Changelog::Input,
                        None => Changelog::None,
                    },
                };
                let mut merger =
                    Merger::new(&self.spec, self.schema.clone(), runs, options).map_err(merging)?;
                let mut last = newest.as_ref().map(|(sorted, _)| self.as_run(sorted));
                loop {
                    match merger.step().map_err(merging)? {
                        Step::Needs(run) => {
                            let next = match involved.get_mut(run) {
                                Some((run, cursor)) => cursor.next_of(run, group, &self.schema)?,
                                None => match &mut last {
                                    Some(batches) => batches.next().transpose().map_err(merging)?,
                                    None => None,
                                },
                            };
                            match next {
                                Some(batch) => merger.push(run, batch).map_err(merging)?,
                                None => merger.end(run).map_err(merging)?,
                            }
                        }
                        Step::Batch(batch) => rows.write(&batch)?,
                        Step::Changelog(batch) => {
                            if let Some(log) = &mut log {
                                log.write(&batch)?;
                            }
                        }
                        Step::Done => break,
                    }
                }
            }
        }
        let (data, mut bytes) = rows.finish()?;
        let mut finished: Vec<_> = data.into_iter().map(|file| (Of::Data, file)).collect();
        if let Some(log) = log {
            let (files, log_bytes) = log.finish()?;
            bytes += log_bytes;
            finished.extend(files.into_iter().map(|file| (Of::Changelog, file)));
        }
        self.finished.extend(finished);
        Ok(bytes)
    }
}

impl Core for KeyedCore {
    /// Its folder.
    type Group = String;
    type Standing = KeyedStanding;

    fn admit(&mut self, directories: &mut Vec<String>) {
        self.directories.append(directories);
    }

    fn finished(&mut self) -> Vec<(Of, Finished)> {
        std::mem::take(&mut self.finished)
    }

    fn spilled(&self) -> SpillMetrics {
        self.spilled
    }

    /// A generation goes to local disk as one run.
    fn put(&mut self, mut generation: Generation) -> Result<Put> {
        generation.sort();
        self.choose_dictionaries(&generation);
        let on_disk: u64 = self.runs.iter().map(Run::bytes).sum();
        let full = on_disk + generation.bytes() as u64 > self.spill_limit;
        if full || self.runs.len() + 1 >= MOST_RUNS {
            return Ok(Put::Full(generation));
        }
        let run = match self.spill_sorted(&generation) {
            Ok(run) => run,
            Err(WriterError::Spill { source, .. })
                if source.kind() == std::io::ErrorKind::StorageFull =>
            {
                return Ok(Put::Full(generation));
            }
            Err(error) => return Err(error),
        };
        self.spilled.runs += 1;
        self.spilled.bytes += run.bytes();
        self.runs.push(run);
        self.runs_charge
            .resize(self.runs.iter().map(Run::memory).sum());
        Ok(Put::Done)
    }

    fn begin_drain(&mut self, mut generation: Generation) -> Drain {
        generation.sort();
        self.choose_dictionaries(&generation);
        let mut order: Vec<GroupId> = generation.groups().map(|(id, _)| id).collect();
        order.extend(self.runs.iter().flat_map(Run::groups));
        order.sort();
        order.dedup();
        let blocks = self.runs.len() * 2 * self.block_bytes();
        Drain {
            generation,
            order,
            next: 0,
            cursors: self.runs.iter().map(|_| Cursor::default()).collect(),
            _blocks: self.files.share.take(blocks),
        }
    }

    fn drain(&mut self, drain: &mut Drain, bytes: usize, most: usize) -> Result<bool> {
        let (mut done_bytes, mut done) = (0, 0);
        while done_bytes < bytes && done < most && (done == 0 || self.files.has_room()) {
            let Some(group) = drain.order.get(drain.next).copied() else {
                self.runs.clear();
                self.runs_charge.resize(0);
                self.dictionaries = None;
                return Ok(true);
            };
            drain.next += 1;
            done_bytes += self.write_bucket(drain, group)?;
            done += 1;
        }
        Ok(false)
    }
}
