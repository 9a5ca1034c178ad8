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
use tidegate_lsm::{Action, CompactionOptions, Pick, Section, SortedRun, plan};
use tidegate_merge::{Changelog, Deletes, MergeOptions, MergeSpec, Merger, Step};
use tidegate_model::{DataFileMeta, KeyOrder, Level};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::budget::{BudgetShare, MemoryBudget};
use crate::error::{Result, WriterError};
use crate::files::Files;
use crate::keyed::core::merging;
use crate::keyed::inputs::{Inputs, Rows};
use crate::keyed::output::Output;
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
    /// Files of the changelog that a compaction to the top level makes \[W-52], where the table wants one.
    pub(crate) changelog: Option<Arc<Files>>,
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

/// What a compaction did.
#[derive(Debug, Default)]
pub(crate) struct Compacted {
    pub(crate) before: Vec<DataFileMeta>,
    pub(crate) after: Vec<DataFileMeta>,
    pub(crate) changelog: Vec<DataFileMeta>,
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
        directory: String,
        pick: Pick,
        top: Level,
    ) -> Result<oneshot::Receiver<Result<Compacted>>> {
        let shop = Arc::clone(self);
        let worker = Arc::clone(&self.compactor.worker);
        worker.run(move || shop.compact(&directory, &pick, top))
    }

    fn compact(&self, directory: &str, pick: &Pick, top: Level) -> Result<Compacted> {
        let levels = |source: tidegate_lsm::Error| WriterError::Levels {
            bucket: directory.to_owned(),
            source: Box::new(source),
        };
        // Rows of record-level expiry are not looked for.
        let never = |_: &DataFileMeta| false;
        let actions = plan(pick, &self.options, &self.order, top, never).map_err(levels)?;
        let mut done = Compacted::default();
        let told = self.changelog.as_ref().filter(|_| pick.output == top);
        let mut log = told.map(|files| self.output(files, directory).of_level(pick.output));
        for action in actions {
            match action {
                Action::Lift(file) => {
                    if let Some(log) = &mut log {
                        // Its rows are new to the top level although nothing is written anew.
                        let section = Section {
                            runs: vec![SortedRun {
                                files: vec![(*file).clone()],
                            }],
                        };
                        self.merge(directory, &section, pick, None, Some(log))?;
                    }
                    let lifted = DataFileMeta {
                        level: pick.output,
                        ..(*file).clone()
                    };
                    done.before.push(*file);
                    done.after.push(lifted);
                }
                Action::Rewrite(sections) => {
                    let after = self.rewrite(directory, pick, &sections, log.as_mut())?;
                    done.after.extend(after);
                    let files = sections.into_iter().flat_map(|s| s.runs);
                    done.before.extend(files.flat_map(|run| run.files));
                }
            }
        }
        if let Some(log) = log {
            done.changelog = self.confirmed(log)?;
        }
        Ok(done)
    }

    fn output<'a>(&'a self, files: &'a Files, directory: &'a str) -> Output<'a> {
        Output::new(files, &self.uploads, directory, GroupId(0), None)
    }

    fn rewrite(
        &self,
        directory: &str,
        pick: &Pick,
        sections: &[Section],
        mut log: Option<&mut Output<'_>>,
    ) -> Result<Vec<DataFileMeta>> {
        let mut out = self
            .output(&self.files, directory)
            .of_compaction(pick.output);
        for section in sections {
            self.merge(directory, section, pick, Some(&mut out), log.as_deref_mut())?;
        }
        self.confirmed(out)
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

    fn merge(
        &self,
        directory: &str,
        section: &Section,
        pick: &Pick,
        mut out: Option<&mut Output<'_>>,
        mut log: Option<&mut Output<'_>>,
    ) -> Result<()> {
        let options = MergeOptions {
            batch_rows: BATCH_ROWS,
            deletes: match pick.drop_deletes {
                true => Deletes::Drop,
                false => Deletes::Keep,
            },
            changelog: match log {
                Some(_) => Changelog::FullCompaction { top: pick.output },
                None => Changelog::None,
            },
        };
        let runs = section.runs.len();
        let mut merger =
            Merger::new(&self.spec, self.schema.clone(), runs, options).map_err(merging)?;
        let mut open: Vec<Run<'_>> = section.runs.iter().map(|run| Run::of(&run.files)).collect();
        loop {
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
            match merger.step().map_err(merging)? {
                Step::Needs(run) => {
                    let next = match open.get_mut(run) {
                        Some(rows) => rows.next(self, directory)?,
                        None => None,
                    };
                    match next {
                        Some((batch, level)) => {
                            merger.push_at(run, batch, level).map_err(merging)?;
                        }
                        None => merger.end(run).map_err(merging)?,
                    }
                }
                Step::Batch(batch) => {
                    if let Some(out) = &mut out {
                        out.write(&batch)?;
                    }
                }
                Step::Changelog(batch) => {
                    if let Some(log) = &mut log {
                        log.write(&batch)?;
                    }
                }
                Step::Done => return Ok(()),
            }
        }
    }
}

/// The files of a sorted run, read one after the other.
struct Run<'a> {
    files: std::slice::Iter<'a, DataFileMeta>,
    open: Option<(Rows, Level)>,
}

impl<'a> Run<'a> {
    fn of(files: &'a [DataFileMeta]) -> Self {
        Self {
            files: files.iter(),
            open: None,
        }
    }

    fn next(&mut self, shop: &Shop, directory: &str) -> Result<Option<(RecordBatch, Level)>> {
        loop {
            if let Some((rows, level)) = &mut self.open {
                match shop.runtime.block_on(rows.batches.next()) {
                    Some(batch) => return Ok(Some((batch?, *level))),
                    None => self.open = None,
                }
            }
            let Some(file) = self.files.next() else {
                return Ok(None);
            };
            let share = &shop.compactor.share;
            let rows = shop.inputs.open(directory, file, share);
            self.open = Some((shop.runtime.block_on(rows)?, file.level));
        }
    }
}
