//! The writer of tables with a primary key and fixed buckets.
//!
//! Owns the life between two barriers, as [`crate::AppendWriter`] does for tables without key: taking rows
//! with their kinds, numbering them per bucket, handing level-0 files, changelogs and finished compactions
//! over, giving up. Sorting and encoding is done by [`core::KeyedCore`] on a thread of its own.

mod compaction;
mod core;
mod hashes;
mod inputs;
mod intake;
mod output;
mod producer;
mod tree;
mod upkeep;

pub use compaction::Compactor;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use arrow::array::{ArrayRef, Int64Array};
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use futures::stream::{FuturesUnordered, StreamExt};
use tidegate_datafile::{FilePlan, key_value_schema};
use tidegate_lsm::CompactionOptions;
use tidegate_merge::{MergeEngine, MergeSpec};
use tidegate_model::layout::DataFileName;
use tidegate_model::options::{DataFileOptions, TableOptions, unsupported_for_write};
use tidegate_model::{
    BinaryRow, BucketId, CommitMessage, DataFileMeta, DataIncrement, IndexFileMeta, KeyOrder,
    TableSchema, WritePlan,
};
use tidegate_sink::{BoxFuture, Rows};
use tidegate_storage::Store;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use self::compaction::{Compacted, Shop};
use self::core::{Drain, KeyedCore, Of, Spilled};
use self::intake::Intake;
use self::producer::{Producer, producer};
use self::tree::Tree;
use crate::budget::{BudgetShare, MemoryBudget, Reservation};
use crate::core::WriterMetrics;
use crate::directories::{Directories, next_sequence};
use crate::error::{Result, WriterError};
use crate::files::Files;
use crate::generation::{Arranged, Generation};
use crate::route::{GroupId, GroupKey, RoutedGroup, Router};
use crate::settings::WriterOptions;
use crate::uploads::{Uploads, part_bytes};
use crate::views::BucketViews;
use crate::worker::Worker;

/// Memory of a bucket's bookkeeping, about.
const BUCKET_BYTES: usize = 320;

/// Writes rows of a keyed table bucket by bucket: sorted and merged level-0 files, and their changelog.
///
/// One writer per (partition, bucket): sequence numbers go on where the bucket view stands \[F-6.2].
/// Cancellation \[R-18]: a dropped `write` may have taken the batch or not; a dropped `prepare` leaves
/// only [`KeyedWriter::abort`].
pub struct KeyedWriter {
    schema: Arc<TableSchema>,
    /// Of key-value batches.
    batches: SchemaRef,
    spec: MergeSpec,
    intake: Intake,
    router: Router,
    directories: Directories,
    views: Arc<dyn BucketViews>,
    share: Arc<BudgetShare>,
    store: Store,
    files: Arc<Files>,
    changelog: Option<Arc<Files>>,
    options: WriterOptions,
    /// What names of data files start with.
    prefix: String,
    buffer_bytes: usize,
    uploads: Uploads,
    runtime: Handle,
    worker: Worker,
    state: State,

    buckets: HashMap<GroupKey, Bucket>,
    /// Next sequence numbers of the groups that are admitted.
    next: Vec<i64>,
    /// Folders that the core does not know yet.
    newcomers: Vec<String>,
    overhead: Reservation,

    generation: Generation,
    spilled: bool,
    work: Work,
    drain: Option<Draining>,
    pending: FuturesUnordered<BoxFuture<'static, Result<Durable>>>,
    durable: Vec<Durable>,
    metrics: WriterMetrics,
    prepares: u64,

    /// What compactions need; none where the table is `write-only`.
    shop: Option<Arc<Shop>>,
    compacting: CompactionOptions,
    /// Files of the changelog that full compactions make.
    told: Option<Arc<Files>>,
    /// `first-row`: readers see no level 0 and do not merge, so that every barrier lifts everything.
    lifts_all: bool,
    order: KeyOrder,
    running: FuturesUnordered<BoxFuture<'static, (GroupKey, Result<Compacted>)>>,
    /// `full-compaction.delta-commits`
    full_every: Option<u64>,
    /// Buckets with files since the last full compaction, where one is due now and then.
    owed: HashSet<GroupKey>,
    /// `commit.force-compact`: barriers wait for compactions.
    waits: bool,
    /// The next barrier is the last one.
    ended: bool,
}

/// What is known of a bucket between barriers.
#[derive(Debug)]
struct Bucket {
    /// The next row's sequence number.
    next: i64,
    /// Its files, where this writer compacts and knows them.
    tree: Option<Tree>,
    /// A compaction of it was left out: its files are looked up again once the newest file that this
    /// writer handed over is among them.
    lost: Option<LostTree>,
}

/// What shows that a fresh view has all that this writer did.
#[derive(Debug, Default)]
struct LostTree {
    /// The newest file handed over since.
    newest: Option<String>,
    /// A compaction of the files as they were known still runs.
    runs: bool,
}

/// A file that the store has confirmed.
#[derive(Debug)]
struct Durable {
    group: GroupId,
    of: Of,
    meta: DataFileMeta,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Ready,
    Unusable(&'static str),
}

enum Work {
    Idle(Box<KeyedCore>),
    Busy(oneshot::Receiver<(Box<KeyedCore>, Result<Outcome>)>),
    Lost,
}

enum Outcome {
    Spilled(Spilled),
    Drained(Option<Drain>),
}

enum Draining {
    Next(Generation),
    Under(Drain),
}

impl KeyedWriter {
    /// Whether tables of this schema can be written at all, asked before one is made.
    ///
    /// # Errors
    /// [`WriterError::Config`] names option or column, value and way out.
    pub fn check_schema(schema: &TableSchema) -> Result<()> {
        let config = |text: String| WriterError::Config(text);
        // First what a value may be, then what of it is written.
        let spec = MergeSpec::new(schema).map_err(|e| config(e.to_string()))?;
        if let Some(why) = unsupported_for_write(schema) {
            return Err(config(why));
        }
        Intake::new(schema, &spec)?;
        Router::new(schema)?;
        let of_table = TableOptions::of(schema).map_err(|e| config(e.to_string()))?;
        if producer(schema) != Producer::None {
            let of_log = of_table.for_changelog(&schema.options);
            of_log.map_err(|e| config(e.to_string()))?;
        }
        FilePlan::key_value(schema).map_err(|e| config(e.to_string()))?;
        CompactionOptions::of(schema).map_err(|e| config(e.to_string()))?;
        let every = schema.options.positive("full-compaction.delta-commits");
        every.map_err(|e| config(e.to_string()))?;
        let forced = schema.options.bool("commit.force-compact");
        forced.map_err(|e| config(e.to_string()))?;
        Ok(())
    }

    /// Opens a writer below the root of `store`, which is the table's folder. Must be called inside a
    /// Tokio runtime, which sends the files.
    ///
    /// # Errors
    /// [`WriterError::Config`] where schema or options are none that this writer can serve.
    pub fn open(
        plan: &WritePlan,
        store: Store,
        views: Arc<dyn BucketViews>,
        budget: &MemoryBudget,
        options: WriterOptions,
    ) -> Result<Self> {
        let config = |text: String| WriterError::Config(text);
        let schema = Arc::clone(&plan.schema);
        if schema.is_append() {
            return Err(config(
                "a table without primary key is written by AppendWriter".to_owned(),
            ));
        }
        Self::check_schema(&schema)?;
        let spec = MergeSpec::new(&schema).map_err(|e| config(e.to_string()))?;
        let intake = Intake::new(&schema, &spec)?;
        let router = Router::new(&schema)?;
        let of_table = TableOptions::of(&schema).map_err(|e| config(e.to_string()))?;
        let table = of_table.data_file.clone();
        let runtime = Handle::try_current().map_err(|e| WriterError::Task {
            what: "opening a writer outside of a Tokio runtime",
            reason: e.to_string(),
        })?;
        let share = Arc::new(budget.join());
        let parts = part_bytes(&store, share.allowance());
        let files = |file_plan: FilePlan, table: DataFileOptions, prefix: &str| {
            Arc::new(Files {
                plan: file_plan,
                schema_id: schema.id,
                partition_keys: schema.partition_keys.clone(),
                names: DataFileName::new(
                    prefix,
                    &options.uuid.to_string(),
                    &table.format,
                    &table.compression,
                    table.suffix_includes_compression,
                ),
                next: AtomicU64::new(0),
                table,
                share: Arc::clone(&share),
                clock: Arc::clone(&options.clock),
                encoder_bytes: options.encoder_bytes,
                part_bytes: parts,
            })
        };
        let datafile = |e: tidegate_datafile::Error| config(e.to_string());
        let producer = producer(&schema);
        let made = match producer {
            Producer::None => None,
            Producer::Input | Producer::FullCompaction => {
                let of_log = of_table
                    .clone()
                    .for_changelog(&schema.options)
                    .map_err(|e| config(e.to_string()))?;
                // The run's prefix stands behind that of the table's data files.
                let run = plan.file_prefix.strip_prefix(&table.prefix);
                let prefix = format!(
                    "{}{}",
                    of_log.data_file.prefix,
                    run.unwrap_or(&plan.file_prefix)
                );
                let log_plan = FilePlan::changelog(&schema).map_err(datafile)?;
                Some(files(log_plan, of_log.data_file, &prefix))
            }
        };
        let (changelog, told) = match producer {
            Producer::FullCompaction => (None, made),
            _ => (made, None),
        };
        let file_plan = FilePlan::key_value(&schema).map_err(datafile)?;
        let files = files(file_plan, table.clone(), &plan.file_prefix);
        let uploads = Uploads::new(store.clone(), runtime.clone(), options.requests, parts);
        let lsm = |e: tidegate_lsm::Error| config(e.to_string());
        let compacting = CompactionOptions::of(&schema).map_err(lsm)?;
        let every = schema.options.positive("full-compaction.delta-commits");
        let forced = schema.options.bool("commit.force-compact");
        let mut writer = Self {
            overhead: share.take(0),
            work: Work::Lost,
            shop: None,
            compacting,
            told,
            lifts_all: spec.engine() == MergeEngine::FirstRow,
            order: KeyOrder::of(&schema).map_err(|e| config(e.to_string()))?,
            running: FuturesUnordered::new(),
            full_every: every
                .map_err(|e| config(e.to_string()))?
                // The changelog comes with full compactions [F-13].
                .or((producer == Producer::FullCompaction).then_some(1))
                .or((spec.engine() == MergeEngine::FirstRow).then_some(1)),
            owed: HashSet::new(),
            ended: false,
            waits: forced.map_err(|e| config(e.to_string()))?.unwrap_or(false),
            batches: key_value_schema(&schema.fields).map_err(datafile)?,
            directories: Directories::new(&schema, &table)?,
            schema,
            spec,
            intake,
            router,
            views,
            share,
            store,
            files,
            changelog,
            options,
            prefix: plan.file_prefix.clone(),
            buffer_bytes: usize::try_from(of_table.write_buffer_size).unwrap_or(usize::MAX),
            uploads,
            runtime,
            worker: Worker::new()?,
            state: State::Ready,
            buckets: HashMap::new(),
            next: Vec::new(),
            newcomers: Vec::new(),
            generation: Generation::default(),
            spilled: false,
            drain: None,
            pending: FuturesUnordered::new(),
            durable: Vec::new(),
            metrics: WriterMetrics::default(),
            prepares: 0,
        };
        writer.new_core();
        if !of_table.write_only {
            let compactor = match writer.options.compactor.clone() {
                Some(shared) => shared,
                None => Compactor::new(budget)?,
            };
            writer.shop = Some(writer.new_shop(compactor));
        }
        Ok(writer)
    }

    fn new_core(&mut self) {
        self.work = Work::Idle(Box::new(KeyedCore::new(
            Arc::clone(&self.files),
            self.changelog.clone(),
            self.uploads.clone(),
            self.spec.clone(),
            self.batches.clone(),
            self.options.spill_directory.clone(),
            self.options.spill_limit,
        )));
    }

    /// The schema that rows must have; columns are matched by name.
    pub fn schema(&self) -> &TableSchema {
        &self.schema
    }

    /// Numbers for an operator.
    pub fn metrics(&self) -> WriterMetrics {
        self.metrics
    }

    /// How often files were handed over or could have been: the number of successful prepares.
    pub fn prepares(&self) -> u64 {
        self.prepares
    }

    /// Takes rows that are all upserts, unless the option `rowkind.field` names a column that says
    /// otherwise.
    ///
    /// # Errors
    /// As [`KeyedWriter::write_rows`].
    pub async fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.write_rows(Rows::inserts(batch.clone())).await
    }

    /// Takes rows with their kinds. They are durable only after the next [`KeyedWriter::prepare`].
    ///
    /// # Errors
    /// [`WriterError::Rows`], [`WriterError::Partition`], [`WriterError::BucketCount`] and
    /// [`WriterError::Views`] refuse this batch and leave the writer as it was; all others leave only
    /// [`KeyedWriter::abort`].
    pub async fn write_rows(&mut self, rows: Rows<RecordBatch>) -> Result<()> {
        self.check()?;
        let Some(taken) = self.intake.take(rows)? else {
            return Ok(());
        };
        self.router.truncate(self.next.len());
        self.read_hashes(&taken.values).await?;
        let routed = self.router.route(&taken.values)?;
        self.admit().await?;
        let arranged = intake::unnumbered(taken, &self.batches)
            .and_then(|batch| Arranged::new(batch, routed))
            .and_then(|rows| rows.rebuilt(|batch, groups| self.number(batch, groups)));
        let result = match arranged {
            Ok(arranged) => self.hold(arranged).await,
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

    /// Gives buckets that were never met before their folder and sequence number.
    async fn admit(&mut self) -> Result<()> {
        let known = self.next.len();
        let new: Vec<GroupKey> = (known as u32..self.router.len() as u32)
            .filter_map(|id| self.router.key(GroupId(id)).cloned())
            .collect();
        if new.is_empty() {
            return Ok(());
        }
        let directories = new
            .iter()
            .map(|key| self.directories.of(key))
            .collect::<Result<Vec<_>>>()?;
        self.open_buckets(&new).await?;
        for key in &new {
            self.next.push(self.buckets.get(key).map_or(0, |b| b.next));
        }
        self.newcomers.extend(directories);
        self.overhead
            .resize(self.next.len() * BUCKET_BYTES + self.router.memory());
        Ok(())
    }

    /// Learns how buckets stand that are not known yet \[W-2].
    async fn open_buckets(&mut self, keys: &[GroupKey]) -> Result<()> {
        let known = |key: &&GroupKey| self.buckets.contains_key(*key);
        let unknown: Vec<GroupKey> = keys.iter().filter(|k| !known(k)).cloned().collect();
        if unknown.is_empty() {
            return Ok(());
        }
        let count = unknown.len();
        let found = self.views.views(&unknown).await;
        let found = found.map_err(|source| WriterError::Views { count, source })?;
        let wanted = self.router.total_buckets();
        let mut found = found.into_iter();
        let mut opened = Vec::with_capacity(count);
        for key in unknown {
            let view = self.directories.checked(&key, found.next(), wanted)?;
            let next = next_sequence(&view);
            let tree = match self.shop {
                None => None,
                Some(_) => Some(Tree::open(
                    self.directories.of(&key)?,
                    view.files,
                    &self.order,
                    &self.compacting,
                )?),
            };
            let lost = None;
            opened.push((key, Bucket { next, tree, lost }));
        }
        self.buckets.extend(opened);
        Ok(())
    }

    /// Puts sequence numbers in front: each bucket's go on in the order of its rows.
    fn number(&mut self, batch: &RecordBatch, groups: &[RoutedGroup]) -> Result<RecordBatch> {
        let mut numbers: Vec<i64> = Vec::with_capacity(batch.num_rows());
        for group in groups {
            let Some(next) = self.next.get_mut(group.group.index()) else {
                continue;
            };
            let rows = i64::from(group.end - group.start);
            numbers.extend(*next..*next + rows);
            *next += rows;
        }
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(batch.num_columns() + 1);
        columns.push(Arc::new(Int64Array::from(numbers)));
        columns.extend(batch.columns().iter().cloned());
        RecordBatch::try_new(self.batches.clone(), columns)
            .map_err(WriterError::arrow("numbering rows"))
    }

    /// Bytes at which rows in memory are put to local disk: two generations at a time, and sorting one
    /// takes its keys beside.
    fn room(&self) -> usize {
        (self.share.allowance() / 4).min(self.buffer_bytes).max(1)
    }

    /// Holds a batch, making room first.
    async fn hold(&mut self, rows: Arranged) -> Result<()> {
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
                self.spill()?;
            } else if self.uploads.held() > 0 {
                self.uploads.progress().await;
            } else {
                break self.share.take(cost);
            }
        };
        self.metrics.rows += rows.rows() as u64;
        self.generation.push(rows, charge);
        if self.generation.bytes() >= self.room() {
            self.come_to_rest().await?;
            self.spill()?;
        }
        Ok(())
    }

    /// Waits for the job, and for everything that must be handed over early because of it.
    async fn come_to_rest(&mut self) -> Result<()> {
        self.settle().await?;
        self.go_on_draining().await
    }

    /// Puts the generation to local disk. Only while idle.
    fn spill(&mut self) -> Result<()> {
        let generation = std::mem::take(&mut self.generation);
        self.start(move |core| core.spill(generation).map(Outcome::Spilled))
    }

    fn start(
        &mut self,
        job: impl FnOnce(&mut KeyedCore) -> Result<Outcome> + Send + 'static,
    ) -> Result<()> {
        let Work::Idle(mut core) = std::mem::replace(&mut self.work, Work::Lost) else {
            return Err(WriterError::Unusable("a lost job"));
        };
        core.directories.append(&mut self.newcomers);
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
        for (of, file) in core.finished.drain(..) {
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
        self.spilled = core.has_spilled();
        self.metrics.spilled_runs = core.metrics.spilled_runs;
        self.metrics.spilled_bytes = core.metrics.spilled_bytes;
        self.work = Work::Idle(core);
        match outcome? {
            Outcome::Spilled(Spilled::Done) | Outcome::Drained(None) => {}
            Outcome::Spilled(Spilled::Full(generation)) => {
                self.metrics.early_hand_overs += 1;
                self.drain = Some(Draining::Next(generation));
            }
            Outcome::Drained(Some(drain)) => self.drain = Some(Draining::Under(drain)),
        }
        Ok(())
    }

    /// Finishes the files of everything in `drain`, if there is anything, with a bounded number of them
    /// on their way at once.
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

    /// No more rows will come: the next [`KeyedWriter::prepare`] waits for compactions that run or are
    /// due, so that their work is not lost.
    pub fn end_of_input(&mut self) {
        self.waits = true;
        self.ended = true;
    }

    /// Closes everything before the barrier and hands it over: level-0 files and changelogs of the rows
    /// since the last one. Every file named in the messages is durable with the size that the store
    /// confirmed; one file per bucket, unless one had its target size. Empty without rows.
    ///
    /// # Errors
    /// Any failure since the last prepare; the writer is then good for [`KeyedWriter::abort`] only, as it
    /// is where the future is dropped before it is done \[R-18].
    pub async fn prepare(&mut self) -> Result<Vec<CommitMessage>> {
        self.check()?;
        self.state = State::Unusable("a prepare that failed or was cancelled");
        self.hand_over().await?;
        let hashes = self.write_hashes().await?;
        self.prepares += 1;
        let messages = self.messages(hashes);
        self.uploads.handed_over();
        self.state = State::Ready;
        Ok(messages)
    }

    async fn hand_over(&mut self) -> Result<()> {
        self.come_to_rest().await?;
        self.wait_where_stalled().await?;
        if !self.generation.is_empty() || self.spilled {
            self.drain = Some(Draining::Next(std::mem::take(&mut self.generation)));
            self.go_on_draining().await?;
        }
        while let Some(file) = self.pending.next().await {
            self.durable.push(file?);
        }
        match self.uploads.take_failure() {
            Some(error) => Err(error),
            None => self.after_flush().await,
        }
    }

    /// One message per bucket with new files or finished compactions, in the order of partition and
    /// bucket.
    fn messages(
        &mut self,
        hashes: Vec<(BinaryRow, BucketId, IndexFileMeta)>,
    ) -> Vec<CommitMessage> {
        let mut by_group: HashMap<GroupId, DataIncrement> = HashMap::new();
        for Durable { group, of, meta } in self.durable.drain(..) {
            self.metrics.bytes += meta.file_size.unsigned_abs();
            let increment = by_group.entry(group).or_default();
            match of {
                Of::Data => increment.new_files.push(meta),
                Of::Changelog => increment.changelog_files.push(meta),
            }
        }
        for (place, next) in self.next.iter().enumerate() {
            let key = self.router.key(GroupId(place as u32));
            if let Some(bucket) = key.and_then(|key| self.buckets.get_mut(key)) {
                bucket.next = *next;
            }
        }
        let mut compacted = self.compacted();
        let mut changed: HashMap<GroupKey, DataIncrement> = HashMap::new();
        for (group, data) in by_group {
            if let Some(key) = self.router.key(group) {
                changed.insert(key.clone(), data);
            }
        }
        for key in compacted.keys() {
            changed.entry(key.clone()).or_default();
        }
        for (partition, bucket, file) in hashes {
            let increment = changed.entry(GroupKey { partition, bucket }).or_default();
            increment.new_index_files.push(file);
        }
        if let Some(assigners) = self.router.assigners() {
            assigners.handed_over();
        }
        let mut messages = Vec::with_capacity(changed.len());
        for (key, mut data) in changed {
            // Files of one merge have disjoint keys; in the order of their keys they were finished.
            data.new_files.sort_by(in_order);
            data.changelog_files.sort_by(in_order);
            messages.push(CommitMessage {
                compact: compacted.remove(&key).unwrap_or_default(),
                partition: key.partition,
                bucket: key.bucket,
                total_buckets: Some(self.router.total_buckets()),
                data,
            });
        }
        messages.sort_by(|a, b| (&a.partition, a.bucket).cmp(&(&b.partition, b.bucket)));
        messages
    }

    /// Gives up: deletes what was written since the last prepare, finished or not, and is as a writer
    /// without rows again. What was handed over stays.
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
        self.spilled = false;
        // Buckets keep their numbers of the last prepare.
        self.router.clear();
        self.next.clear();
        self.newcomers.clear();
        self.overhead.resize(0);
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
        let compactions = self.give_up_compactions().await;
        self.state = State::Ready;
        result.and(compactions)
    }
}

/// By the number at the end of the names of one writer.
fn in_order(a: &DataFileMeta, b: &DataFileMeta) -> std::cmp::Ordering {
    let (a, b) = (&a.file_name, &b.file_name);
    (a.len(), a).cmp(&(b.len(), b))
}

/// Removes files that nobody will name.
async fn delete(store: &Store, paths: &[String]) -> Result<()> {
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

impl Drop for KeyedWriter {
    /// Nothing that is under way shall become a file that nobody knows.
    fn drop(&mut self) {
        self.uploads.give_up();
        let Some(shop) = self.shop.take() else { return };
        shop.give_up();
        let store = self.store.clone();
        // What compactions finished and nobody took; a later run removes what this does not.
        self.runtime.spawn(async move {
            shop.uploads.settled().await;
            let _ = store.delete_many(&shop.uploads.begun()).await;
        });
    }
}

impl std::fmt::Debug for KeyedWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyedWriter")
            .field("state", &self.state)
            .field("buckets", &self.buckets.len())
            .field("metrics", &self.metrics)
            .finish_non_exhaustive()
    }
}
