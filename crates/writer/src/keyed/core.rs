//! The working half of a keyed writer: sorts, spills and encodes, on the thread of [`crate::worker`], one
//! job at a time.
//!
//! Owns what becomes of a generation: it is sorted bucket by bucket and waits as a run ([`super::runs`]); at
//! the barrier runs and the last generation are merged into level-0 files, one per bucket unless it is
//! large, and into the changelog of `changelog-producer = input` \[W-22], \[W-23].

use std::path::PathBuf;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use tidegate_datafile::Dictionaries;
use tidegate_merge::{MergeSpec, SortBuffer, Sorted, Step};

use crate::budget::Reservation;
use crate::error::{Result, WriterError};
use crate::files::{Files, Finished};
use crate::generation::Generation;
use crate::keyed::output::Output;
use crate::keyed::runs::{Cursors, Rows, Runs};
use crate::route::GroupId;
use crate::taking::{Core, Drain, Of, Put, SpillMetrics, Standing};
use crate::uploads::Uploads;

/// Rows of a merged batch.
pub(crate) const BATCH_ROWS: usize = 8192;

/// Rows looked at to choose dictionaries.
const SAMPLE_ROWS: usize = 8192;

/// Held rows are sorted at so many bytes: what then is left to do at a barrier is little, and sorting stays
/// in the processor's caches.
const SORTED_AT: usize = 32 << 20;

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
    runs: Runs,
    dictionaries: Option<Dictionaries>,
}

/// Rows that are sorted, and when a generation follows them.
#[derive(Debug)]
pub(crate) struct KeyedStanding {
    sorted: bool,
    /// Bytes of a generation at most.
    buffer_bytes: usize,
}

impl KeyedStanding {
    pub(crate) fn new(buffer_bytes: usize) -> Self {
        Self {
            sorted: false,
            buffer_bytes,
        }
    }
}

impl Standing<KeyedCore> for KeyedStanding {
    fn held(&mut self, _: impl Iterator<Item = GroupId>) {}

    fn sent(&mut self) {}

    fn learn(&mut self, core: &KeyedCore) {
        self.sorted = !core.runs.is_empty();
    }

    fn forget(&mut self) {
        self.sorted = false;
    }

    fn waits(&self) -> bool {
        self.sorted
    }

    /// Two generations at a time, and sorting one takes its keys beside.
    fn due(&self, generation: &Generation, allowance: usize, _: usize) -> bool {
        let most = (allowance / 8).min(self.buffer_bytes).min(SORTED_AT);
        generation.bytes() >= most.max(1)
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
            runs: Runs::new(
                spec.clone(),
                schema.clone(),
                changelog.is_some(),
                Arc::clone(&files.share),
                spill_directory,
                spill_limit,
            ),
            files,
            changelog,
            uploads,
            spec,
            schema,
            directories: Vec::new(),
            finished: Vec::new(),
            dictionaries: None,
        }
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
    fn as_run<'a>(&self, sorted: &'a Sorted) -> Rows<'a> {
        match self.changelog {
            Some(_) => Box::new(sorted.unmerged(BATCH_ROWS).map(|b| b.map_err(merging))),
            None => Box::new(sorted.merged(BATCH_ROWS).map(|b| b.map_err(merging))),
        }
    }

    /// Writes what there is of one bucket: level-0 files, and the changelog.
    fn write_bucket(&mut self, drain: &mut Drain<Cursors>, group: GroupId) -> Result<usize> {
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
        let mut waiting = self.runs.rows_of(&mut drain.cursors, group);
        match &newest {
            Some((sorted, _)) if waiting.is_empty() => {
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
                waiting.extend(newest.as_ref().map(|(sorted, _)| self.as_run(sorted)));
                let input = log.is_some();
                self.runs.merge(waiting, input, |step| match step {
                    Step::Batch(batch) => rows.write(&batch),
                    Step::Changelog(batch) => log.as_mut().map_or(Ok(()), |log| log.write(&batch)),
                    _ => Ok(()),
                })?;
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
    type Cursors = Cursors;
    type Standing = KeyedStanding;

    fn admit(&mut self, directories: &mut Vec<String>) {
        self.directories.append(directories);
    }

    fn finished(&mut self) -> Vec<(Of, Finished)> {
        std::mem::take(&mut self.finished)
    }

    fn spilled(&self) -> SpillMetrics {
        self.runs.spilled()
    }

    /// A generation is sorted and waits as a run.
    fn put(&mut self, mut generation: Generation) -> Result<Put> {
        generation.sort();
        self.choose_dictionaries(&generation);
        let mut rows = Vec::new();
        for (group, _) in generation.groups() {
            if let Some((sorted, _charge)) = self.sorted(&generation, group)? {
                rows.extend(self.as_run(&sorted).map(|b| b.map(|b| (group, b))));
            }
        }
        drop(generation);
        Ok(match self.runs.push(rows.into_iter())? {
            true => Put::Done,
            false => Put::Full(Generation::default()),
        })
    }

    fn begin_drain(&mut self, mut generation: Generation) -> Drain<Cursors> {
        generation.sort();
        self.choose_dictionaries(&generation);
        let mut order: Vec<GroupId> = generation.groups().map(|(id, _)| id).collect();
        order.extend(self.runs.groups());
        order.sort();
        order.dedup();
        Drain {
            generation,
            order,
            next: 0,
            cursors: self.runs.cursors(),
            _blocks: self.files.share.take(self.runs.reading_bytes()),
        }
    }

    fn drain(&mut self, drain: &mut Drain<Cursors>, bytes: usize, most: usize) -> Result<bool> {
        let (mut done_bytes, mut done) = (0, 0);
        while done_bytes < bytes && done < most && (done == 0 || self.files.has_room()) {
            let Some(group) = drain.order.get(drain.next).copied() else {
                self.runs.clear();
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
