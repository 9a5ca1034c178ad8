//! One compaction of a bucket: which rows go into which files of the output level.
//!
//! Owns the process's compaction thread, reading the inputs, merging, and the files that come out. Which
//! files are compacted is decided by `tidegate_lsm`, what becomes of their rows by `tidegate_merge`; when
//! results become part of a checkpoint by [`super`].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use futures::StreamExt;
use tidegate_lsm::{
    Action, CompactionOptions, LookupLift, LookupTable, Pick, Section, SortedRun, lookup_lift, plan,
};
use tidegate_merge::{Changelog, Deletes, MergeOptions, MergeSpec, Merger, Step};
use tidegate_model::DeletionVector;
use tidegate_model::{DataFileMeta, KeyOrder, Level};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::budget::{BudgetShare, MemoryBudget};
use crate::error::{Result, WriterError};
use crate::files::Files;
use crate::keyed::core::merging;
use crate::keyed::inputs::{Inputs, Rows};
use crate::keyed::lookup::{Hits, Lookup, Reading};
use crate::keyed::output::Output;
use crate::keyed::vectors::{Marks, Vectors, without_deleted};
use crate::route::GroupId;
use crate::uploads::Uploads;
use crate::worker::Worker;

/// Rows of a merged batch.
const BATCH_ROWS: usize = 8192;

/// The compaction thread of a process with its share of the memory budget. Clones are the same.
#[derive(Clone, Debug)]
pub struct Compactor {
    worker: Arc<Worker>,
    pub(crate) share: Arc<BudgetShare>,
}

impl Compactor {
    /// Starts the thread.
    ///
    /// # Errors
    /// [`WriterError::Task`] where the system gives none.
    pub fn new(budget: &MemoryBudget) -> Result<Self> {
        Ok(Self {
            worker: Arc::new(Worker::named("tidegate-compact")?),
            share: Arc::new(budget.join()),
        })
    }
}

/// What all compactions of a writer share.
#[derive(Debug)]
pub(crate) struct Shop {
    pub(crate) compactor: Compactor,
    pub(crate) files: Arc<Files>,
    /// Files of the changelog that compactions make, where the table wants one: to the top level
    /// \[W-52], or of level 0 \[W-53] where old rows are looked up.
    pub(crate) changelog: Option<Arc<Files>>,
    /// Where compactions of level 0 look old rows up.
    pub(crate) old_rows: Option<OldRows>,
    pub(crate) inputs: Inputs,
    pub(crate) uploads: Uploads,
    pub(crate) cancelled: AtomicBool,
    pub(crate) spec: MergeSpec,
    /// Of key-value batches.
    pub(crate) schema: SchemaRef,
    pub(crate) order: KeyOrder,
    pub(crate) options: CompactionOptions,
    pub(crate) runtime: Handle,
}

/// How a table's compactions look old rows up.
#[derive(Debug)]
pub(crate) struct OldRows {
    pub(crate) lookup: Lookup,
    pub(crate) table: LookupTable,
    /// Where they lie is enough: nothing of them goes into what is merged or told.
    pub(crate) places_only: bool,
}

/// One compaction to do.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) directory: String,
    pub(crate) pick: Pick,
    pub(crate) top: Level,
    /// The files of levels above its output.
    pub(crate) above: Vec<DataFileMeta>,
    /// Which rows of files are deleted.
    pub(crate) vectors: Vectors,
}

/// What a compaction did.
#[derive(Debug, Default)]
pub(crate) struct Compacted {
    pub(crate) before: Vec<DataFileMeta>,
    pub(crate) after: Vec<DataFileMeta>,
    pub(crate) changelog: Vec<DataFileMeta>,
    /// Rows of files above that are deleted from now on.
    pub(crate) marks: Marks,
}

/// Where the rows of a merge go.
struct Sinks<'o, 'f, 'l> {
    rows: Option<&'o mut Output<'f>>,
    log: Option<&'o mut Output<'l>>,
}

impl Shop {
    /// Nothing more is read or sent.
    pub(crate) fn give_up(&self) {
        self.cancelled.store(true, Ordering::Release);
        self.uploads.give_up();
    }

    /// Compacts on the compaction thread; the answer comes through the receiver, nothing where the job
    /// panicked.
    pub(crate) fn start(
        self: &Arc<Self>,
        job: Job,
    ) -> Result<oneshot::Receiver<Result<Compacted>>> {
        let shop = Arc::clone(self);
        let worker = Arc::clone(&self.compactor.worker);
        worker.run(move || shop.compact(&job))
    }

    fn compact(&self, job: &Job) -> Result<Compacted> {
        let Job {
            directory,
            pick,
            top,
            ..
        } = job;
        let levels = |source: tidegate_lsm::Error| WriterError::Levels {
            bucket: directory.clone(),
            source: Box::new(source),
        };
        // Rows of record-level expiry are not looked for.
        let never = |_: &DataFileMeta| false;
        let actions = plan(pick, &self.options, &self.order, *top, never).map_err(levels)?;
        let mut done = Compacted::default();
        let told = self.changelog.as_ref();
        let told = told.filter(|_| self.old_rows.is_some() || pick.output == *top);
        let mut log = told.map(|files| self.output(files, directory).of_level(pick.output));
        for action in actions {
            match action {
                Action::Lift(file) => {
                    let section = Section {
                        runs: vec![SortedRun {
                            files: vec![(*file).clone()],
                        }],
                    };
                    let lift = match &self.old_rows {
                        Some(old) => lookup_lift(&file, pick.output, *top, old.table, true),
                        // Its rows are new to the top level although nothing is written anew.
                        None if log.is_some() => LookupLift::Told,
                        None => LookupLift::Entry,
                    };
                    match lift {
                        LookupLift::Rewritten => {
                            self.rewrite(job, vec![section], log.as_mut(), &mut done)?;
                            continue;
                        }
                        LookupLift::Told => {
                            let sinks = Sinks {
                                rows: None,
                                log: log.as_mut(),
                            };
                            self.merge(job, &section, sinks, &mut done.marks)?;
                        }
                        LookupLift::Entry => {}
                    }
                    let lifted = DataFileMeta {
                        level: pick.output,
                        ..(*file).clone()
                    };
                    done.before.push(*file);
                    done.after.push(lifted);
                }
                Action::Rewrite(sections) => {
                    self.rewrite(job, sections, log.as_mut(), &mut done)?;
                }
            }
        }
        if let Some(log) = log {
            done.changelog = self.confirmed(log)?;
        }
        if let Some(old) = &self.old_rows {
            old.lookup.forget(directory, &done.before);
        }
        Ok(done)
    }

    fn output<'a>(&'a self, files: &'a Files, directory: &'a str) -> Output<'a> {
        Output::new(files, &self.uploads, directory, GroupId(0), None)
    }

    fn rewrite(
        &self,
        job: &Job,
        sections: Vec<Section>,
        mut log: Option<&mut Output<'_>>,
        done: &mut Compacted,
    ) -> Result<()> {
        let mut out = self
            .output(&self.files, &job.directory)
            .of_compaction(job.pick.output);
        for section in &sections {
            let sinks = Sinks {
                rows: Some(&mut out),
                log: log.as_deref_mut(),
            };
            self.merge(job, section, sinks, &mut done.marks)?;
        }
        done.after.extend(self.confirmed(out)?);
        let files = sections.into_iter().flat_map(|s| s.runs);
        done.before.extend(files.flat_map(|run| run.files));
        Ok(())
    }

    /// Ends files and waits until the store has them.
    fn confirmed(&self, out: Output<'_>) -> Result<Vec<DataFileMeta>> {
        let (finished, _) = out.finish()?;
        let mut metas = Vec::with_capacity(finished.len());
        for file in finished {
            let size = self.runtime.block_on(file.ended.confirmed())?;
            metas.push(DataFileMeta {
                file_size: size as i64,
                ..file.meta
            });
        }
        Ok(metas)
    }

    /// What of levels above has keys of the section's level 0; by level.
    fn old_rows(&self, job: &Job, section: &Section) -> Result<Vec<Vec<Hits>>> {
        let newer = section.files().filter(|f| f.level <= Level(0));
        let newer: Vec<&DataFileMeta> = newer.collect();
        match &self.old_rows {
            Some(old) if !newer.is_empty() && !job.above.is_empty() => {
                let reading = Reading {
                    inputs: &self.inputs,
                    share: &self.compactor.share,
                    runtime: &self.runtime,
                    directory: &job.directory,
                };
                old.lookup.hits(reading, &newer, &job.above, &job.vectors)
            }
            _ => Ok(Vec::new()),
        }
    }

    fn merge(
        &self,
        job: &Job,
        section: &Section,
        mut sinks: Sinks<'_, '_, '_>,
        marks: &mut Marks,
    ) -> Result<()> {
        let mut old = self.old_rows(job, section)?;
        if self
            .old_rows
            .as_ref()
            .is_some_and(|o| o.table.deletion_vectors)
        {
            for hits in old.iter().flatten() {
                let marked = marks.entry(hits.file.file_name.clone()).or_default();
                marked.extend_from_slice(&hits.positions);
                marked.sort_unstable();
                marked.dedup();
            }
        }
        if self.old_rows.as_ref().is_some_and(|o| o.places_only) {
            old.clear();
        }
        let options = MergeOptions {
            batch_rows: BATCH_ROWS,
            deletes: match job.pick.drop_deletes {
                true => Deletes::Drop,
                false => Deletes::Keep,
            },
            changelog: match (&self.old_rows, &sinks.log) {
                // Of what lies above level 0 the lowest record holds all older ones: it counts alone,
                // whether level 0 takes part or not.
                (Some(_), _) => Changelog::Lookup,
                (None, Some(_)) => Changelog::FullCompaction {
                    top: job.pick.output,
                },
                _ => Changelog::None,
            },
        };
        // The oldest first: what lies above the compaction.
        let mut open: Vec<Run> = old.into_iter().rev().map(Run::of_hits).collect();
        open.extend(section.runs.iter().map(|run| Run::of(&run.files)));
        let mut merger =
            Merger::new(&self.spec, self.schema.clone(), open.len(), options).map_err(merging)?;
        loop {
            self.goes_on()?;
            match merger.step().map_err(merging)? {
                Step::Needs(run) => {
                    let Some(rows) = open.get_mut(run) else {
                        merger.end(run).map_err(merging)?;
                        continue;
                    };
                    match rows.next(self, job)? {
                        Some((batch, level)) if rows.old => merger.push_old(run, batch, level),
                        Some((batch, level)) => merger.push_at(run, batch, level),
                        None => merger.end(run),
                    }
                    .map_err(merging)?;
                }
                Step::Batch(batch) => {
                    if let Some(out) = &mut sinks.rows {
                        out.write(&batch)?;
                    }
                }
                Step::Changelog(batch) => {
                    if let Some(log) = &mut sinks.log {
                        log.write(&batch)?;
                    }
                }
                Step::Done => return Ok(()),
            }
        }
    }

    /// Waits while too much is on its way; an error where nobody wants the result any more.
    fn goes_on(&self) -> Result<()> {
        if self.cancelled.load(Ordering::Acquire) {
            return Err(WriterError::Task {
                what: "a compaction",
                reason: "it was given up".to_owned(),
            });
        }
        // Bytes that are on their way count; who makes more waits.
        while self.uploads.held() > self.compactor.share.allowance() / 4 {
            self.runtime.block_on(self.uploads.progress());
            if let Some(error) = self.uploads.take_failure() {
                return Err(error);
            }
        }
        Ok(())
    }
}

/// The files of a sorted run, or rows of them, read one after the other.
struct Run {
    files: std::vec::IntoIter<(DataFileMeta, Option<Vec<u64>>)>,
    /// They are looked up and not rewritten.
    old: bool,
    open: Option<Open>,
}

/// A file that is being read.
struct Open {
    rows: Rows,
    level: Level,
    deleted: Option<Arc<DeletionVector>>,
    /// Position of the next row.
    next: u64,
}

impl Run {
    fn of(files: &[DataFileMeta]) -> Self {
        let files: Vec<_> = files.iter().map(|file| (file.clone(), None)).collect();
        Self {
            files: files.into_iter(),
            old: false,
            open: None,
        }
    }

    fn of_hits(hits: Vec<Hits>) -> Self {
        let files = hits.into_iter().map(|hit| (hit.file, Some(hit.positions)));
        let files: Vec<_> = files.collect();
        Self {
            files: files.into_iter(),
            old: true,
            open: None,
        }
    }

    fn next(&mut self, shop: &Shop, job: &Job) -> Result<Option<(RecordBatch, Level)>> {
        loop {
            if let Some(open) = &mut self.open {
                let Some(batch) = shop.runtime.block_on(open.rows.batches.next()) else {
                    self.open = None;
                    continue;
                };
                let mut batch = batch?;
                let first = open.next;
                open.next += batch.num_rows() as u64;
                if let Some(deleted) = &open.deleted {
                    batch = without_deleted(batch, deleted, first)?;
                }
                return Ok(Some((batch, open.level)));
            }
            let Some((file, positions)) = self.files.next() else {
                return Ok(None);
            };
            let (share, directory) = (&shop.compactor.share, &job.directory);
            let rows = match &positions {
                None => shop
                    .runtime
                    .block_on(shop.inputs.open(directory, &file, share)),
                Some(positions) => {
                    let rows = shop.inputs.open_at(directory, &file, positions, share);
                    shop.runtime.block_on(rows)
                }
            };
            // Rows that are looked up are not deleted ones.
            let deleted = match positions {
                None => job.vectors.of(&file.file_name).cloned(),
                Some(_) => None,
            };
            self.open = Some(Open {
                rows: rows?,
                level: file.level,
                deleted,
                next: 0,
            });
        }
    }
}
