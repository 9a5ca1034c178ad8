//! The taking half of a writer: what every writer does between two barriers, whatever a bucket does with
//! its rows.
//!
//! Owns the held generation, the thread, the jobs on it, handing files over, giving up. What becomes of
//! rows is decided by a [`Core`] on the thread, while this half goes on taking batches; which groups there
//! are and where their numbers stand by the writer around it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use futures::stream::{FuturesUnordered, StreamExt};
use tidegate_datafile::FilePlan;
use tidegate_model::layout::DataFileName;
use tidegate_model::options::DataFileOptions;
use tidegate_model::{DataFileMeta, DataIncrement, TableSchema, WritePlan};
use tidegate_sink::BoxFuture;
use tidegate_storage::Store;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::budget::{BudgetShare, MemoryBudget, Reservation};
use crate::directories::Directories;
use crate::error::{Result, WriterError};
use crate::files::{Files, Finished};
use crate::generation::{Arranged, Generation};
use crate::route::{GroupId, GroupKey, Router};
use crate::settings::WriterOptions;
use crate::uploads::{Uploads, part_bytes};
use crate::worker::Worker;

/// Numbers of one writer since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriterMetrics {
    /// Rows taken.
    pub rows: u64,
    /// Files handed over.
    pub files: u64,
    /// Bytes of these files.
    pub bytes: u64,
    /// Runs written to local disk.
    pub spilled_runs: u64,
    /// Bytes written to local disk.
    pub spilled_bytes: u64,
    /// Compactions that were done.
    pub compactions: u64,
    /// How often a barrier waited for a compaction because a bucket had too many sorted runs.
    pub stalls: u64,
    /// How often everything was closed before the barrier, because the spill disk was full: each
    /// costs one more file per partition and bucket.
    pub early_hand_overs: u64,
}

/// What a writer does with rows on its thread, one job at a time. Does no asynchronous work.
pub(crate) trait Core: Sized + Send + 'static {
    /// What it must know of a partition and bucket.
    type Group: Send + 'static;
    /// Where handing over stands in what was put away.
    type Cursors: Send + 'static;
    /// What the taking half knows of it while it works.
    type Standing: Standing<Self>;

    /// New groups, numbered after those before.
    fn admit(&mut self, groups: &mut Vec<Self::Group>);

    /// Puts a generation into encoders or to local disk.
    fn put(&mut self, generation: Generation) -> Result<Put>;

    /// Begins handing everything over.
    fn begin_drain(&mut self, generation: Generation) -> Drain<Self::Cursors>;

    /// Finishes groups until `bytes` of their files wait to be sent or `most` were finished. True when
    /// nothing is left.
    fn drain(
        &mut self,
        drain: &mut Drain<Self::Cursors>,
        bytes: usize,
        most: usize,
    ) -> Result<bool>;

    /// Files that have all their rows.
    fn finished(&mut self) -> Vec<(Of, Finished)>;

    /// What went to local disk so far.
    fn spilled(&self) -> SpillMetrics;
}

/// What is known of a core while it works.
pub(crate) trait Standing<C>: Send {
    /// A batch of these groups is held.
    fn held(&mut self, groups: impl Iterator<Item = GroupId>);

    /// What was held goes to the core.
    fn sent(&mut self);

    /// The core is idle: this is how it stands.
    fn learn(&mut self, core: &C);

    /// The core's groups are forgotten.
    fn forget(&mut self);

    /// True where rows in the core wait for a barrier.
    fn waits(&self) -> bool;

    /// True where a generation is to be put away before it grows any more.
    fn due(&self, generation: &Generation, allowance: usize, overhead: usize) -> bool;
}

/// Which list a finished file belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Of {
    Data,
    Changelog,
}

/// What became of a generation.
#[derive(Debug)]
pub(crate) enum Put {
    /// Its rows are in encoders or on local disk.
    Done,
    /// There is no room for what is left of it: everything must be handed over early.
    Full(Generation),
}

/// Runs and bytes on local disk since a core was made.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SpillMetrics {
    pub(crate) runs: u64,
    pub(crate) bytes: u64,
}

/// Handing everything over, step by step.
#[derive(Debug)]
pub(crate) struct Drain<C> {
    pub(crate) generation: Generation,
    pub(crate) order: Vec<GroupId>,
    pub(crate) next: usize,
    pub(crate) cursors: C,
    /// Decoded blocks of the runs.
    pub(crate) _blocks: Reservation,
}

/// A file that the store has confirmed.
#[derive(Debug)]
pub(crate) struct Durable {
    pub(crate) group: GroupId,
    pub(crate) of: Of,
    pub(crate) meta: DataFileMeta,
}

/// What a writer is made of before it has a core.
pub(crate) struct Means {
    pub(crate) schema: Arc<TableSchema>,
    pub(crate) store: Store,
    pub(crate) options: WriterOptions,
    pub(crate) share: Arc<BudgetShare>,
    pub(crate) runtime: Handle,
}

impl Means {
    /// Must be asked for inside a Tokio runtime.
    pub(crate) fn new(
        plan: &WritePlan,
        store: Store,
        budget: &MemoryBudget,
        options: WriterOptions,
    ) -> Result<Self> {
        let runtime = Handle::try_current().map_err(|e| WriterError::Task {
            what: "opening a writer outside of a Tokio runtime",
            reason: e.to_string(),
        })?;
        Ok(Self {
            schema: Arc::clone(&plan.schema),
            store,
            options,
            share: Arc::new(budget.join()),
            runtime,
        })
    }

    /// Files of one kind, whose names begin with `prefix`.
    pub(crate) fn files(&self, plan: FilePlan, table: DataFileOptions, prefix: &str) -> Arc<Files> {
        Arc::new(Files {
            plan,
            schema_id: self.schema.id,
            partition_keys: self.schema.partition_keys.clone(),
            names: DataFileName::new(
                prefix,
                &self.options.uuid.to_string(),
                &table.format,
                &table.compression,
                table.suffix_includes_compression,
            ),
            next: AtomicU64::new(0),
            table,
            share: Arc::clone(&self.share),
            clock: Arc::clone(&self.options.clock),
            encoder_bytes: self.options.encoder_bytes,
            part_bytes: part_bytes(&self.store, self.share.allowance()),
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Ready,
    Unusable(&'static str),
}

/// The core comes back from its job, with what came of it.
type Done<C> = (Box<C>, Result<Outcome<<C as Core>::Cursors>>);

enum Work<C: Core> {
    Idle(Box<C>),
    Busy(oneshot::Receiver<Done<C>>),
    Lost,
}

enum Outcome<C> {
    Put(Put),
    Drained(Option<Drain<C>>),
}

enum Draining<C> {
    Next(Generation),
    Under(Drain<C>),
}

type Make<C> = Box<dyn Fn(Uploads) -> C + Send + Sync>;

/// The taking half of a writer.
pub(crate) struct Taking<C: Core> {
    pub(crate) schema: Arc<TableSchema>,
    pub(crate) router: Router,
    pub(crate) directories: Directories,
    pub(crate) share: Arc<BudgetShare>,
    pub(crate) store: Store,
    pub(crate) files: Arc<Files>,
    pub(crate) options: WriterOptions,
    pub(crate) uploads: Uploads,
    pub(crate) runtime: Handle,
    worker: Worker,
    state: State,
    make: Make<C>,

    /// Groups that have their place in the core, or in `newcomers`.
    known: usize,
    newcomers: Vec<C::Group>,
    overhead: Reservation,

    generation: Generation,
    standing: C::Standing,
    work: Work<C>,
    /// Everything is being handed over, before or at a barrier.
    drain: Option<Draining<C::Cursors>>,
    pending: FuturesUnordered<BoxFuture<'static, Result<Durable>>>,
    pub(crate) durable: Vec<Durable>,
    pub(crate) metrics: WriterMetrics,
    pub(crate) prepares: u64,
}

impl<C: Core> Taking<C> {
    /// `make` makes a core, at first and after each abort.
    pub(crate) fn new(
        means: Means,
        router: Router,
        files: Arc<Files>,
        standing: C::Standing,
        make: impl Fn(Uploads) -> C + Send + Sync + 'static,
    ) -> Result<Self> {
        let Means {
            schema,
            store,
            options,
            share,
            runtime,
        } = means;
        let directories = Directories::new(&schema, &files.table)?;
        let uploads = Uploads::new(
            store.clone(),
            runtime.clone(),
            options.requests,
            files.part_bytes,
        );
        let mut taking = Self {
            overhead: share.take(0),
            work: Work::Lost,
            schema,
            router,
            directories,
            share,
            store,
            files,
            options,
            uploads,
            runtime,
            worker: Worker::new()?,
            state: State::Ready,
            make: Box::new(make),
            known: 0,
            newcomers: Vec::new(),
            generation: Generation::default(),
            standing,
            drain: None,
            pending: FuturesUnordered::new(),
            durable: Vec::new(),
            metrics: WriterMetrics::default(),
            prepares: 0,
        };
        taking.new_core();
        Ok(taking)
    }

    fn new_core(&mut self) {
        let core = (self.make)(self.uploads.clone());
        self.standing.learn(&core);
        self.work = Work::Idle(Box::new(core));
    }

    pub(crate) fn check(&self) -> Result<()> {
        match self.state {
            State::Ready => Ok(()),
            State::Unusable(why) => Err(WriterError::Unusable(why)),
        }
    }

    pub(crate) fn unusable(&mut self, why: &'static str) {
        self.state = State::Unusable(why);
    }

    pub(crate) fn ready(&mut self) {
        self.state = State::Ready;
    }

    pub(crate) fn fail_on_error<T>(&mut self, result: Result<T>) -> Result<T> {
        if result.is_err() {
            self.unusable("a failure");
        }
        result
    }

    /// Forgets groups that a batch brought which was refused.
    pub(crate) fn forget_refused(&mut self) {
        self.router.truncate(self.known);
    }

    /// Groups that were never met before.
    pub(crate) fn unknown(&self) -> Vec<GroupKey> {
        let new = self.known as u32..self.router.len() as u32;
        new.filter_map(|id| self.router.key(GroupId(id)).cloned())
            .collect()
    }

    /// They have their place now; a group's bookkeeping takes about `bytes`.
    pub(crate) fn admit(&mut self, groups: impl IntoIterator<Item = C::Group>, bytes: usize) {
        self.newcomers.extend(groups);
        self.known = self.router.len();
        self.overhead
            .resize(self.known * bytes + self.router.memory());
    }

    /// Holds a batch, making room first.
    pub(crate) async fn hold(&mut self, rows: Arranged) -> Result<()> {
        self.go_on_draining().await?;
        let charge = loop {
            if let Some(error) = self.uploads.take_failure() {
                return Err(error);
            }
            let cost = self.generation.cost(&rows);
            if let Some(charge) = self.share.try_take(cost) {
                break charge;
            }
            // Everything of our own goes first; then only what the batch itself is remains.
            if matches!(self.work, Work::Busy(_)) {
                self.come_to_rest().await?;
            } else if !self.generation.is_empty() {
                self.put()?;
            } else if self.uploads.held() > 0 {
                self.uploads.progress().await;
            } else {
                break self.share.take(cost);
            }
        };
        self.metrics.rows += rows.rows() as u64;
        self.standing.held(rows.groups());
        self.generation.push(rows, charge);
        self.put_when_due().await
    }

    async fn put_when_due(&mut self) -> Result<()> {
        if matches!(&self.work, Work::Busy(job) if !job.is_empty()) {
            self.come_to_rest().await?;
        }
        let (allowance, overhead) = (self.share.allowance(), self.overhead.bytes());
        while self.standing.due(&self.generation, allowance, overhead) {
            if matches!(self.work, Work::Idle(_)) {
                return self.put();
            }
            // The thread is the slower half: waiting for it keeps generations small.
            self.come_to_rest().await?;
        }
        Ok(())
    }

    /// Waits for the job, and for everything that must be handed over early because of it: rows
    /// that came later must not overtake.
    pub(crate) async fn come_to_rest(&mut self) -> Result<()> {
        self.settle().await?;
        self.go_on_draining().await
    }

    /// Starts a job with the generation. Only while idle.
    fn put(&mut self) -> Result<()> {
        let generation = std::mem::take(&mut self.generation);
        self.standing.sent();
        self.start(move |core| core.put(generation).map(Outcome::Put))
    }

    fn start(
        &mut self,
        job: impl FnOnce(&mut C) -> Result<Outcome<C::Cursors>> + Send + 'static,
    ) -> Result<()> {
        let Work::Idle(mut core) = std::mem::replace(&mut self.work, Work::Lost) else {
            return Err(WriterError::Unusable("a lost job"));
        };
        core.admit(&mut self.newcomers);
        let answer = self.worker.run(move || {
            let result = job(&mut core);
            (core, result)
        })?;
        self.work = Work::Busy(answer);
        Ok(())
    }

    /// Waits for the job and takes what it made.
    async fn settle(&mut self) -> Result<()> {
        let Work::Busy(job) = &mut self.work else {
            return Ok(());
        };
        let ended = job.await;
        self.work = Work::Lost;
        let (mut core, outcome) = ended.map_err(|_| WriterError::Task {
            what: "sorting and encoding",
            reason: "a job panicked".to_owned(),
        })?;
        for (of, file) in core.finished() {
            let (group, meta) = (file.group, file.meta);
            self.metrics.files += 1;
            self.pending.push(Box::pin(async move {
                let size = file.ended.confirmed().await?;
                let meta = DataFileMeta {
                    file_size: size as i64,
                    ..meta
                };
                Ok(Durable { group, of, meta })
            }));
        }
        self.standing.learn(&core);
        let spilled = core.spilled();
        self.metrics.spilled_runs = spilled.runs;
        self.metrics.spilled_bytes = spilled.bytes;
        self.work = Work::Idle(core);
        match outcome? {
            Outcome::Put(Put::Done) | Outcome::Drained(None) => {}
            Outcome::Put(Put::Full(generation)) => {
                self.metrics.early_hand_overs += 1;
                self.drain = Some(Draining::Next(generation));
            }
            Outcome::Drained(Some(drain)) => self.drain = Some(Draining::Under(drain)),
        }
        Ok(())
    }

    /// Finishes the files of everything in `drain`, if there is anything, with a bounded number of
    /// them on their way at once.
    async fn go_on_draining(&mut self) -> Result<()> {
        loop {
            // A drain that was left by a dropped future is either here or in the job.
            if self.drain.is_none() {
                match &self.work {
                    Work::Busy(job) if !job.is_empty() => self.settle().await?,
                    _ => return Ok(()),
                }
                continue;
            }
            self.settle().await?;
            let most = self.share.allowance() / 8;
            while self.pending.len() > 2 * self.options.requests
                || self.uploads.held() > most
                || (self.uploads.held() > 0 && !self.files.has_room())
            {
                match self.pending.next().await {
                    Some(file) => self.durable.push(file?),
                    None if self.uploads.held() > 0 => {
                        self.uploads.progress().await;
                        if let Some(error) = self.uploads.take_failure() {
                            return Err(error);
                        }
                    }
                    None => break,
                }
            }
            let (bytes, files) = (self.share.allowance() / 16, self.options.requests.max(1));
            let Some(drain) = self.drain.take() else {
                continue;
            };
            self.start(move |core| {
                let mut drain = match drain {
                    Draining::Next(generation) => core.begin_drain(generation),
                    Draining::Under(drain) => drain,
                };
                let done = core.drain(&mut drain, bytes, files)?;
                Ok(Outcome::Drained((!done).then_some(drain)))
            })?;
            self.settle().await?;
        }
    }

    /// Closes all files and waits until the store has them. [`Self::come_to_rest`] comes before.
    pub(crate) async fn hand_over(&mut self) -> Result<()> {
        if !self.generation.is_empty() || self.standing.waits() {
            self.standing.sent();
            self.drain = Some(Draining::Next(std::mem::take(&mut self.generation)));
            self.go_on_draining().await?;
        }
        while let Some(file) = self.pending.next().await {
            self.durable.push(file?);
        }
        match self.uploads.take_failure() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// The files that were closed since the last barrier, by group.
    pub(crate) fn handed_over(&mut self) -> HashMap<GroupId, DataIncrement> {
        let mut by_group: HashMap<GroupId, DataIncrement> = HashMap::new();
        for Durable { group, of, meta } in self.durable.drain(..) {
            self.metrics.bytes += meta.file_size.unsigned_abs();
            let increment = by_group.entry(group).or_default();
            match of {
                Of::Data => increment.new_files.push(meta),
                Of::Changelog => increment.changelog_files.push(meta),
            }
        }
        by_group
    }

    /// The core, where no job is under way.
    pub(crate) fn idle_core(&mut self) -> Option<&mut C> {
        match &mut self.work {
            Work::Idle(core) => Some(core),
            _ => None,
        }
    }

    /// True where no row waits for a barrier and no job is under way.
    pub(crate) fn is_empty(&self) -> bool {
        let idle = matches!(self.work, Work::Idle(_));
        idle && self.generation.is_empty() && !self.standing.waits()
    }

    /// Groups that are known.
    pub(crate) fn groups(&self) -> usize {
        self.known
    }

    /// All groups are new again; the core's are the caller's.
    pub(crate) fn forget_groups(&mut self) {
        self.router.clear();
        self.newcomers.clear();
        self.known = 0;
        self.standing.forget();
        self.overhead.resize(0);
    }

    /// Gives up: deletes what was written since the last prepare, finished or not. The caller says when it
    /// is [ready](Self::ready) again.
    ///
    /// # Errors
    /// [`WriterError::Abort`] where files stay behind; the writer can go on nevertheless.
    pub(crate) async fn abort(&mut self) -> Result<()> {
        self.unusable("an abort that was cancelled");
        self.uploads.give_up();
        if let Work::Busy(job) = &mut self.work {
            // Whatever it did or failed to do is undone below.
            if job.await.is_err() {
                self.worker = Worker::new()?;
            }
        } else if matches!(self.work, Work::Lost) {
            self.worker = Worker::new()?;
        }
        self.work = Work::Lost;
        self.drain = None;
        self.pending = FuturesUnordered::new();
        self.durable.clear();
        self.generation = Generation::default();
        self.forget_groups();
        // No task may make a file appear after it was deleted.
        self.uploads.settled().await;
        let begun = self.uploads.begun();
        let result = delete(&self.store, &begun).await;
        self.uploads = Uploads::new(
            self.store.clone(),
            self.runtime.clone(),
            self.options.requests,
            self.files.part_bytes,
        );
        self.new_core();
        result
    }
}

/// Removes files that nobody will name.
pub(crate) async fn delete(store: &Store, paths: &[String]) -> Result<()> {
    let failures = store.delete_many(paths).await;
    let mut failures = failures.into_iter().filter_map(Result::err).peekable();
    match failures.next() {
        Some(source) => {
            let (count, source) = (failures.count() + 1, Box::new(source));
            Err(WriterError::Abort { count, source })
        }
        None => Ok(()),
    }
}

impl<C: Core> Drop for Taking<C> {
    /// Nothing that is under way shall become a file that nobody knows.
    fn drop(&mut self) {
        self.uploads.give_up();
    }
}

impl<C: Core> std::fmt::Debug for Taking<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Taking")
            .field("state", &self.state)
            .field("groups", &self.known)
            .field("metrics", &self.metrics)
            .finish_non_exhaustive()
    }
}
