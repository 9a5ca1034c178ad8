//! The writer of tables without primary key.
//!
//! Owns the life between two barriers: taking batches, when what is flushed, handing files over,
//! giving up. The work itself is done by [`Core`] on a thread of its own, while this half goes on
//! taking batches.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use arrow::record_batch::RecordBatch;
use futures::stream::{FuturesUnordered, StreamExt};
use tidegate_datafile::{FilePlan, Normaliser};
use tidegate_model::layout::DataFileName;
use tidegate_model::options::{TableOptions, unsupported_for_write};
use tidegate_model::{
    CommitMessage, CompactIncrement, DataFileMeta, DataIncrement, TableSchema, WritePlan,
};
use tidegate_sink::{BoxFuture, RowKind, Rows};
use tidegate_storage::Store;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::budget::{BudgetShare, MemoryBudget, Reservation};
use crate::core::{Core, Drain, Flushed, Group, WriterMetrics};
use crate::directories::{Directories, next_sequence};
use crate::error::{Result, WriterError};
use crate::files::Files;
use crate::generation::{Arranged, Generation};
use crate::route::{GroupId, GroupKey, Router};
use crate::settings::WriterOptions;
use crate::standing::{Summary, Touched};
use crate::uploads::{Uploads, part_bytes};
use crate::views::BucketViews;
use crate::worker::Worker;

/// Rows of a group worth a flush while everything goes straight into encoders: a page of the
/// library's default, so that an open encoder keeps next to nothing that is not compressed yet.
const ROWS_PER_GROUP: usize = 20_480;

/// The same for a single group, whose batches go straight through.
const ROWS_OF_ONE_GROUP: usize = 16_384;

/// Most bytes of such a flush. More would be walked through memory that the processor's caches do not
/// hold and that is touched for the first time: at 64 MiB the same rows took some 7 % more CPU.
const FLUSH_BYTES: usize = 16 << 20;

/// Groups remembered between barriers by a writer that needs to remember none.
const REMEMBERED: usize = 16_384;

/// Memory of a group's bookkeeping, about.
const GROUP_BYTES: usize = 256;

/// Writes record batches to data files, partition by partition and bucket by bucket.
///
/// See the crate's documentation for an example. Cancellation \[R-18]: a dropped `write` may have
/// taken the batch or not; a dropped `prepare` leaves only [`AppendWriter::abort`].
pub struct AppendWriter {
    schema: Arc<TableSchema>,
    normaliser: Normaliser,
    router: Router,
    directories: Directories,
    views: Option<Arc<dyn BucketViews>>,
    share: Arc<BudgetShare>,
    store: Store,
    files: Arc<Files>,
    options: WriterOptions,
    uploads: Uploads,
    runtime: Handle,
    worker: Worker,
    state: State,

    /// Where buckets stand after the last prepare; fixed buckets only.
    counters: HashMap<GroupKey, Counter>,
    /// Groups that have their place in the core, or in `newcomers`.
    known: usize,
    newcomers: Vec<Group>,
    overhead: Reservation,

    generation: Generation,
    touched: Touched,
    work: Work,
    /// Everything is being handed over, before or at a barrier.
    drain: Option<Draining>,
    pending: FuturesUnordered<BoxFuture<'static, Result<(GroupId, DataFileMeta)>>>,
    durable: Vec<(GroupId, DataFileMeta)>,
    summary: Summary,
    metrics: WriterMetrics,
    prepares: u64,
}

/// Sequence number of a bucket and when it last got files.
#[derive(Clone, Copy, Debug)]
struct Counter {
    next: i64,
    last_prepare: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Ready,
    Unusable(&'static str),
}

enum Work {
    Idle(Box<Core>),
    Busy(oneshot::Receiver<(Box<Core>, Result<Outcome>)>),
    Lost,
}

enum Outcome {
    Flushed(Flushed),
    Drained(Option<Drain>),
}

enum Draining {
    Next(Generation),
    Under(Drain),
}

impl AppendWriter {
    /// Opens a writer below the root of `store`, which is the table's folder. Must be called inside
    /// a Tokio runtime, which sends the files; encoding has a thread of its own. `views` may be absent only for tables
    /// without buckets.
    ///
    /// # Errors
    /// [`WriterError::Config`] where schema or options are none that this writer can serve.
    pub fn open(
        plan: &WritePlan,
        store: Store,
        views: Option<Arc<dyn BucketViews>>,
        budget: &MemoryBudget,
        options: WriterOptions,
    ) -> Result<Self> {
        let schema = Arc::clone(&plan.schema);
        if !schema.is_append() {
            return Err(WriterError::Config(
                "a table with a primary key is written by KeyedWriter".to_owned(),
            ));
        }
        if let Some(why) = unsupported_for_write(&schema) {
            return Err(WriterError::Config(why));
        }
        let config = |e: tidegate_datafile::Error| WriterError::Config(e.to_string());
        let file_plan = FilePlan::new(&schema).map_err(config)?;
        let normaliser = Normaliser::new(&schema.fields).map_err(config)?;
        let router = Router::new(&schema)?;
        if router.total_buckets() > 0 && views.is_none() {
            return Err(WriterError::Config(
                "a writer of fixed buckets needs bucket views: sequence numbers go on where the \
                 table stands"
                    .to_owned(),
            ));
        }
        let options_of_table = TableOptions::of(&schema);
        let table = options_of_table
            .map_err(|e| WriterError::Config(e.to_string()))?
            .data_file;
        let runtime = Handle::try_current().map_err(|e| WriterError::Task {
            what: "opening a writer outside of a Tokio runtime",
            reason: e.to_string(),
        })?;
        let share = Arc::new(budget.join());
        let names = DataFileName::new(
            &plan.file_prefix,
            &options.uuid.to_string(),
            &table.format,
            &table.compression,
            table.suffix_includes_compression,
        );
        let directories = Directories::new(&schema, &table)?;
        let files = Arc::new(Files {
            plan: file_plan,
            schema_id: schema.id,
            partition_keys: schema.partition_keys.clone(),
            names,
            next: AtomicU64::new(0),
            table,
            share: Arc::clone(&share),
            clock: Arc::clone(&options.clock),
            encoder_bytes: options.encoder_bytes,
            part_bytes: part_bytes(&store, share.allowance()),
        });
        let part_bytes = files.part_bytes;
        let uploads = Uploads::new(store.clone(), runtime.clone(), options.requests, part_bytes);
        let mut writer = Self {
            overhead: share.take(0),
            work: Work::Lost,
            schema,
            normaliser,
            router,
            directories,
            views,
            share,
            store,
            files,
            options,
            uploads,
            runtime,
            worker: Worker::new()?,
            state: State::Ready,
            counters: HashMap::new(),
            known: 0,
            newcomers: Vec::new(),
            generation: Generation::default(),
            touched: Touched::default(),
            drain: None,
            pending: FuturesUnordered::new(),
            durable: Vec::new(),
            summary: Summary::default(),
            metrics: WriterMetrics::default(),
            prepares: 0,
        };
        writer.new_core();
        Ok(writer)
    }

    fn new_core(&mut self) {
        let core = Core::new(
            Arc::clone(&self.files),
            self.uploads.clone(),
            self.options.spill_directory.clone(),
            self.options.spill_limit,
        );
        self.summary = Summary {
            most_open: core.most_open(),
            ..Summary::default()
        };
        self.work = Work::Idle(Box::new(core));
    }

    /// The schema that rows must have; columns are matched by name.
    pub fn schema(&self) -> &TableSchema {
        &self.schema
    }

    /// Numbers for an operator.
    pub fn metrics(&self) -> WriterMetrics {
        self.metrics
    }

    /// Takes rows with their kinds; an append table knows only additions \[W-10].
    ///
    /// # Errors
    /// As [`AppendWriter::write`]; [`WriterError::Rows`] for a kind that removes or replaces.
    pub async fn write_rows(&mut self, rows: Rows<RecordBatch>) -> Result<()> {
        let removes = |kind: &RowKind| matches!(kind, RowKind::UpdateBefore | RowKind::Delete);
        if let Some(row) = rows.kinds.iter().flatten().position(removes) {
            return Err(WriterError::Rows(format!(
                "row {row} takes a row back, and a table without primary key can only add rows"
            )));
        }
        self.write(&rows.batch).await
    }

    /// Takes rows. They are durable only after the next [`AppendWriter::prepare`].
    ///
    /// # Errors
    /// [`WriterError::Rows`], [`WriterError::Partition`], [`WriterError::BucketCount`] and
    /// [`WriterError::Views`] refuse this batch and leave the writer as it was; all others leave
    /// only [`AppendWriter::abort`].
    pub async fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.check()?;
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let batch = self
            .normaliser
            .normalise(batch)
            .map_err(|e| WriterError::Rows(e.to_string()))?;
        self.router.truncate(self.known);
        let routed = self.router.route(&batch)?;
        self.admit().await?;
        let result = match Arranged::new(batch, routed) {
            Ok(arranged) => self.take(arranged).await,
            Err(error) => Err(error),
        };
        self.fail_on_error(result)
    }

    fn check(&self) -> Result<()> {
        match self.state {
            State::Ready => Ok(()),
            State::Unusable(why) => Err(WriterError::Unusable(why)),
        }
    }

    fn fail_on_error<T>(&mut self, result: Result<T>) -> Result<T> {
        if result.is_err() {
            self.state = State::Unusable("a failure");
        }
        result
    }

    /// Gives groups that were never met before their directory and sequence number.
    async fn admit(&mut self) -> Result<()> {
        let new: Vec<GroupKey> = (self.known as u32..self.router.len() as u32)
            .filter_map(|id| self.router.key(GroupId(id)).cloned())
            .collect();
        if new.is_empty() {
            return Ok(());
        }
        let directories = new
            .iter()
            .map(|key| self.directories.of(key))
            .collect::<Result<Vec<_>>>()?;
        let starts = self.starts(&new).await?;
        self.newcomers.extend(
            directories
                .into_iter()
                .zip(starts)
                .map(|(d, s)| Group::new(d, s)),
        );
        self.known = self.router.len();
        self.overhead
            .resize(self.known * GROUP_BYTES + self.router.memory());
        Ok(())
    }

    /// First sequence numbers of buckets \[F-6.3].
    async fn starts(&mut self, keys: &[GroupKey]) -> Result<Vec<i64>> {
        let Some(views) = self
            .views
            .as_ref()
            .filter(|_| self.router.total_buckets() > 0)
        else {
            return Ok(vec![0; keys.len()]);
        };
        let unknown: Vec<GroupKey> = keys
            .iter()
            .filter(|key| !self.counters.contains_key(*key))
            .cloned()
            .collect();
        if !unknown.is_empty() {
            let count = unknown.len();
            let found = views.views(&unknown).await;
            let found = found.map_err(|source| WriterError::Views { count, source })?;
            let mut found = found.into_iter();
            let mut counters = Vec::with_capacity(count);
            for key in unknown {
                let view = found.next();
                let wanted = self.router.total_buckets();
                let view = self.directories.checked(&key, view, wanted)?;
                let next = next_sequence(&view);
                counters.push((
                    key,
                    Counter {
                        next,
                        last_prepare: None,
                    },
                ));
            }
            self.counters.extend(counters);
        }
        Ok(keys
            .iter()
            .map(|key| self.counters.get(key).map_or(0, |c| c.next))
            .collect())
    }

    /// Holds the batch, making room first.
    async fn take(&mut self, rows: Arranged) -> Result<()> {
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
                self.flush()?;
            } else if self.uploads.held() > 0 {
                self.uploads.progress().await;
            } else {
                break self.share.take(cost);
            }
        };
        self.metrics.rows += rows.rows() as u64;
        self.touched.add(rows.groups(), &self.summary);
        self.generation.push(rows, charge);
        self.flush_when_full().await
    }

    async fn flush_when_full(&mut self) -> Result<()> {
        if matches!(&self.work, Work::Busy(job) if !job.is_empty()) {
            self.come_to_rest().await?;
        }
        loop {
            let (wanted, forced) = self.due();
            if !wanted {
                return Ok(());
            }
            if matches!(self.work, Work::Idle(_)) {
                return self.flush();
            }
            if !forced {
                return Ok(());
            }
            self.come_to_rest().await?;
        }
    }

    /// Waits for the job, and for everything that must be handed over early because of it: rows
    /// that came later must not overtake.
    async fn come_to_rest(&mut self) -> Result<()> {
        self.settle().await?;
        self.go_on_draining().await
    }

    /// Whether the generation is worth a flush, and whether it may not grow any more.
    fn due(&self) -> (bool, bool) {
        let (bytes, rows) = (self.generation.bytes(), self.generation.rows());
        let allowance = self.share.allowance();
        let straight = !self.summary.spilled
            && self.summary.open + self.touched.fresh <= self.summary.most_open;
        if straight {
            // Two generations at a time, and the encoders that they need.
            let groups = self.summary.open + self.touched.fresh;
            let encoders = self
                .summary
                .open_bytes
                .max(groups * self.options.encoder_bytes);
            let room = allowance.saturating_sub(encoders) * 3 / 8;
            let full = bytes >= FLUSH_BYTES.min(room.max(allowance / 16));
            let enough = match self.touched.groups.len() {
                0 | 1 => ROWS_OF_ONE_GROUP,
                groups => groups * ROWS_PER_GROUP,
            };
            let due = full || rows >= enough;
            // Encoding is the slower half: waiting for it keeps generations small.
            return (due, due);
        }
        // Two generations at a time: one is written while the next one fills.
        let fixed = self.summary.open_bytes + self.overhead.bytes() + allowance / 4;
        let room = allowance.saturating_sub(fixed) / 2;
        let full = bytes >= room.max(allowance / 16);
        (full, full)
    }

    /// Starts a job with the generation. Only while idle.
    fn flush(&mut self) -> Result<()> {
        let generation = std::mem::take(&mut self.generation);
        self.touched.clear();
        self.start(move |core| core.flush(generation).map(Outcome::Flushed))
    }

    fn start(
        &mut self,
        job: impl FnOnce(&mut Core) -> Result<Outcome> + Send + 'static,
    ) -> Result<()> {
        let Work::Idle(mut core) = std::mem::replace(&mut self.work, Work::Lost) else {
            return Err(WriterError::Unusable("a lost job"));
        };
        core.groups.append(&mut self.newcomers);
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
            what: "encoding",
            reason: "a job panicked".to_owned(),
        })?;
        for file in core.finished.drain(..) {
            let (group, meta) = (file.group, file.meta);
            self.metrics.files += 1;
            self.pending.push(Box::pin(async move {
                let size = file.ended.confirmed().await?;
                Ok((
                    group,
                    DataFileMeta {
                        file_size: size as i64,
                        ..meta
                    },
                ))
            }));
        }
        self.summary.is_open.clear();
        self.summary
            .is_open
            .extend(core.groups.iter().map(Group::takes_rows));
        self.summary.open = core.open();
        self.summary.open_bytes = core.open_bytes();
        self.summary.most_open = core.most_open();
        self.summary.spilled = core.has_spilled();
        self.metrics.spilled_runs = core.metrics.spilled_runs;
        self.metrics.spilled_bytes = core.metrics.spilled_bytes;
        self.work = Work::Idle(core);
        self.touched.count(&self.summary);
        match outcome? {
            Outcome::Flushed(Flushed::Done) | Outcome::Drained(None) => {}
            Outcome::Flushed(Flushed::DiskFull(generation)) => {
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

    /// Closes all files before the barrier and hands them over: every file named in the messages is
    /// durable with the size that the store confirmed. One file per partition and bucket, unless one
    /// had its target size. Empty without rows.
    ///
    /// # Errors
    /// Any failure since the last prepare; the writer is then good for [`AppendWriter::abort`] only,
    /// as it is where the future is dropped before it is done \[R-18].
    pub async fn prepare(&mut self) -> Result<Vec<CommitMessage>> {
        self.check()?;
        self.state = State::Unusable("a prepare that failed or was cancelled");
        self.hand_over().await?;
        self.prepares += 1;
        let messages = self.messages();
        self.uploads.handed_over();
        self.start_anew();
        self.state = State::Ready;
        Ok(messages)
    }

    async fn hand_over(&mut self) -> Result<()> {
        self.come_to_rest().await?;
        if !self.generation.is_empty() || self.summary.open > 0 || self.summary.spilled {
            self.touched.clear();
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

    /// One message per partition and bucket with new files, in the order of partition and bucket,
    /// files in the order of their rows.
    fn messages(&mut self) -> Vec<CommitMessage> {
        let total = self.router.total_buckets();
        let mut by_group: HashMap<GroupId, Vec<DataFileMeta>> = HashMap::new();
        for (group, meta) in self.durable.drain(..) {
            self.metrics.bytes += meta.file_size.unsigned_abs();
            by_group.entry(group).or_default().push(meta);
        }
        let mut messages = Vec::with_capacity(by_group.len());
        for (group, mut files) in by_group {
            let Some(key) = self.router.key(group) else {
                continue;
            };
            files.sort_by_key(|file| file.min_sequence_number);
            if total > 0 {
                let next = files.last().map_or(0, |file| file.max_sequence_number + 1);
                let last_prepare = Some(self.prepares);
                self.counters
                    .insert(key.clone(), Counter { next, last_prepare });
            }
            messages.push(CommitMessage {
                partition: key.partition.clone(),
                bucket: key.bucket,
                total_buckets: Some(total),
                data: DataIncrement {
                    new_files: files,
                    ..DataIncrement::default()
                },
                compact: CompactIncrement::default(),
            });
        }
        messages.sort_by(|a, b| (&a.partition, a.bucket).cmp(&(&b.partition, b.bucket)));
        messages
    }

    fn start_anew(&mut self) {
        if self.router.total_buckets() > 0 {
            return;
        }
        let Work::Idle(core) = &mut self.work else {
            return;
        };
        // Without buckets nothing is remembered: numbers begin at 0 in every checkpoint.
        core.groups
            .iter_mut()
            .for_each(|group| group.next_sequence = 0);
        if self.known > REMEMBERED {
            core.groups.clear();
            self.forget_groups();
        }
    }

    fn forget_groups(&mut self) {
        self.router.clear();
        self.newcomers.clear();
        self.known = 0;
        self.touched = Touched::default();
        self.summary.is_open.clear();
        self.overhead.resize(0);
    }

    /// How often files were handed over or could have been: the number of successful prepares.
    pub fn prepares(&self) -> u64 {
        self.prepares
    }

    /// Tells a writer of fixed buckets that everything up to and including the `prepares`-th prepare
    /// is visible in the table. It then forgets buckets that got no files since \[W-4]; those ask
    /// for their view again. Without being told, it remembers a counter per bucket for good.
    ///
    /// Does nothing while rows wait for a barrier.
    pub fn settled(&mut self, prepares: u64) {
        let idle =
            matches!(&self.work, Work::Idle(core) if core.open() == 0 && !core.has_spilled());
        if self.router.total_buckets() < 0 || !idle || !self.generation.is_empty() {
            return;
        }
        // Strictly older: of one checkpoint only the first of two snapshots may be visible.
        self.counters
            .retain(|_, c| c.last_prepare.is_some_and(|last| last >= prepares));
        if let Work::Idle(core) = &mut self.work {
            core.groups.clear();
        }
        self.forget_groups();
    }

    /// Gives up: deletes what was written since the last prepare, finished or not, and is as a
    /// writer without rows again. What was handed over stays.
    ///
    /// # Errors
    /// [`WriterError::Abort`] where files stay behind; the writer can go on nevertheless.
    pub async fn abort(&mut self) -> Result<()> {
        self.state = State::Unusable("an abort that was cancelled");
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
        let failures = self.store.delete_many(&begun).await;
        let mut failures = failures.into_iter().filter_map(Result::err).peekable();
        let result = match failures.next() {
            Some(source) => {
                let (count, source) = (failures.count() + 1, Box::new(source));
                Err(WriterError::Abort { count, source })
            }
            None => Ok(()),
        };
        self.uploads = Uploads::new(
            self.store.clone(),
            self.runtime.clone(),
            self.options.requests,
            self.files.part_bytes,
        );
        self.new_core();
        self.state = State::Ready;
        result
    }
}

impl Drop for AppendWriter {
    /// Nothing that is under way shall become a file that nobody knows.
    fn drop(&mut self) {
        self.uploads.give_up();
    }
}

impl std::fmt::Debug for AppendWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AppendWriter")
            .field("state", &self.state)
            .field("groups", &self.known)
            .field("metrics", &self.metrics)
            .finish_non_exhaustive()
    }
}
