//! The writer of tables with a primary key, whose buckets are fixed or dynamic; those of postponed ones are
//! [`crate::postpone`]'s.
//!
//! Owns what rows go through on their way in, where the numbers and files of each bucket stand, and what a
//! message of it holds. The life between two barriers is [`Taking`]'s; sorting and encoding is done by
//! [`core::KeyedCore`] on a thread of its own.

mod compaction;
mod core;
mod declared;
mod hashes;
mod inputs;
pub(crate) mod intake;
mod key_index;
mod lookup;
mod moves;
mod output;
mod producer;
mod runs;
mod tree;
mod upkeep;
mod vectors;

pub use compaction::Compactor;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array};
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use futures::stream::{FuturesUnordered, StreamExt};
use tidegate_datafile::key_value_schema;
use tidegate_lsm::CompactionOptions;
use tidegate_merge::MergeSpec;
use tidegate_model::deletion_vector::Form;
use tidegate_model::schema::BucketMode;
use tidegate_model::{
    BinaryRow, BucketId, CommitMessage, DataFileMeta, DataIncrement, IndexFileMeta, KeyOrder,
    TableSchema, WritePlan,
};
use tidegate_sink::{BoxFuture, Rows};
use tidegate_storage::Store;

use self::compaction::{Compacted, Shop};
use self::core::{KeyedCore, KeyedStanding};
use self::declared::{Declared, LooksUp};
use self::intake::{Intake, Taken};
use self::moves::Moves;
use self::producer::Producer;
use self::tree::Tree;
use crate::assign::DynamicBuckets;
use crate::budget::MemoryBudget;
use crate::directories::next_sequence;
use crate::error::{Result, WriterError};
use crate::files::Files;
use crate::generation::Arranged;
use crate::route::{GroupId, GroupKey, Routed, RoutedGroup};
use crate::settings::WriterOptions;
use crate::taking::{Means, Taking, WriterMetrics};
use crate::views::BucketViews;

/// Memory of a bucket's bookkeeping, about.
const BUCKET_BYTES: usize = 320;

/// Writes rows of a keyed table bucket by bucket: sorted and merged level-0 files, and their changelog.
///
/// One writer per (partition, bucket): sequence numbers go on where the bucket view stands \[F-6.2].
/// Cancellation \[R-18]: a dropped `write` may have taken the batch or not; a dropped `prepare` leaves
/// only [`KeyedWriter::abort`].
pub struct KeyedWriter {
    taking: Taking<KeyedCore>,
    /// Of key-value batches.
    batches: SchemaRef,
    spec: MergeSpec,
    intake: Intake,
    /// Where each key is, where keys may change their partition.
    moves: Option<Moves>,
    views: Arc<dyn BucketViews>,
    /// What names of data files start with.
    prefix: String,

    buckets: HashMap<GroupKey, Bucket>,
    /// Next sequence numbers of the groups that are admitted.
    next: Vec<i64>,

    /// What compactions need; none where the table is `write-only`.
    shop: Option<Arc<Shop>>,
    compacting: CompactionOptions,
    /// Files of the changelog that full compactions make.
    told: Option<Arc<Files>>,
    /// Where compactions look old rows up.
    looks_up: Option<LooksUp>,
    /// The form of deletion vectors, where the table keeps them.
    vectors: Option<Form>,
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

impl KeyedWriter {
    /// Whether tables of this schema can be written at all, asked before one is made.
    ///
    /// # Errors
    /// [`WriterError::Config`] names option or column, value and way out.
    pub fn check_schema(schema: &TableSchema) -> Result<()> {
        Declared::read(schema).map(drop)
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
        let schema = &plan.schema;
        if schema.is_append() {
            return Err(config(
                "a table without primary key is written by AppendWriter".to_owned(),
            ));
        }
        let declared = Declared::read(schema)?;
        let batches = key_value_schema(&schema.fields).map_err(|e| config(e.to_string()))?;
        let means = Means::new(plan, store, budget, options)?;
        let table = declared.table.data_file;
        let made = declared.changelog.map(|(log_plan, of_log)| {
            // The run's prefix stands behind that of the table's data files.
            let run = plan.file_prefix.strip_prefix(&table.prefix);
            let run = run.unwrap_or(&plan.file_prefix);
            let prefix = format!("{}{run}", of_log.prefix);
            means.files(log_plan, of_log, &prefix)
        });
        let (changelog, told) = match declared.producer {
            Producer::FullCompaction | Producer::Lookup => (None, made),
            _ => (made, None),
        };
        let files = means.files(declared.plan, table, &plan.file_prefix);
        let buffer = usize::try_from(declared.table.write_buffer_size).unwrap_or(usize::MAX);
        let compactor = match (declared.table.write_only, &means.options.compactor) {
            (true, _) => None,
            (false, Some(shared)) => Some(shared.clone()),
            (false, None) => Some(Compactor::new(budget)?),
        };
        let moves = match schema.bucket_mode().map_err(|e| config(e.to_string()))? {
            BucketMode::CrossPartition => Some(Moves::new(
                schema,
                &declared.spec,
                DynamicBuckets::of(schema)?,
                means.options.spill_directory.clone(),
                Arc::clone(&means.share),
            )?),
            _ => None,
        };
        let standing = KeyedStanding::new(buffer);
        let (of_core, spec, schema) = (Arc::clone(&files), declared.spec.clone(), batches.clone());
        let directory = means.options.spill_directory.clone();
        let limit = means.options.spill_limit;
        let taking = Taking::new(means, declared.router, files, standing, move |uploads| {
            KeyedCore::new(
                Arc::clone(&of_core),
                changelog.clone(),
                uploads,
                spec.clone(),
                schema.clone(),
                directory.clone(),
                limit,
            )
        })?;
        let mut writer = Self {
            taking,
            batches,
            intake: declared.intake,
            moves,
            views,
            prefix: plan.file_prefix.clone(),
            buckets: HashMap::new(),
            next: Vec::new(),
            shop: None,
            compacting: declared.compacting,
            told,
            looks_up: declared.looks_up,
            vectors: declared.vectors,
            spec: declared.spec,
            order: declared.order,
            running: FuturesUnordered::new(),
            full_every: declared.full_every,
            owed: HashSet::new(),
            waits: declared.waits,
            ended: false,
        };
        writer.shop = compactor.map(|compactor| writer.new_shop(compactor));
        Ok(writer)
    }

    /// The schema that rows must have; columns are matched by name.
    pub fn schema(&self) -> &TableSchema {
        &self.taking.schema
    }

    /// Numbers for an operator.
    pub fn metrics(&self) -> WriterMetrics {
        self.taking.metrics
    }

    /// How often files were handed over or could have been: the number of successful prepares.
    pub fn prepares(&self) -> u64 {
        self.taking.prepares
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
        self.taking.check()?;
        let Some(taken) = self.intake.take(rows)? else {
            return Ok(());
        };
        self.taking.forget_refused();
        let Some((taken, routed)) = self.route(taken).await? else {
            return Ok(());
        };
        self.admit().await?;
        if let Some(moves) = &mut self.moves {
            let kept = moves.keep();
            self.taking.fail_on_error(kept)?;
        }
        let arranged = intake::unnumbered(taken, &self.batches)
            .and_then(|batch| Arranged::new(batch, routed))
            .and_then(|rows| rows.rebuilt(|batch, groups| self.number(batch, groups)));
        let result = match arranged {
            Ok(arranged) => self.taking.hold(arranged).await,
            Err(error) => Err(error),
        };
        self.taking.fail_on_error(result)
    }

    /// Finds partition and bucket of each row; where keys may change their partition other rows come out.
    async fn route(&mut self, taken: Taken) -> Result<Option<(Taken, Routed)>> {
        if self.moves.is_none() {
            self.read_hashes(&taken.values).await?;
            let routed = self.taking.router.route(&taken.values)?;
            return Ok(Some((taken, routed)));
        }
        self.learn_keys().await?;
        let Some(moves) = &mut self.moves else {
            return Ok(None);
        };
        let placed = moves.place(taken)?;
        if placed.places.is_empty() {
            return Ok(None);
        }
        let routed = self.taking.router.placed(moves.places(), &placed.places)?;
        Ok(Some((placed.taken, routed)))
    }

    /// Learns where the table's keys are, when the first row comes \[W-72].
    async fn learn_keys(&mut self) -> Result<()> {
        let Some(moves) = self.moves.as_mut().filter(|moves| moves.is_new()) else {
            return Ok(());
        };
        let views = |source| WriterError::Views { count: 1, source };
        let mut rows = self.views.keys(moves.columns()).await.map_err(views)?;
        while let Some(found) = rows.next().await {
            let (bucket, rows) = found.map_err(views)?;
            moves.learn(&bucket, &rows)?;
        }
        moves.is_complete();
        Ok(())
    }

    /// Gives buckets that were never met before their folder and sequence number.
    async fn admit(&mut self) -> Result<()> {
        let new = self.taking.unknown();
        if new.is_empty() {
            return Ok(());
        }
        let directories = &self.taking.directories;
        let directories = new.iter().map(|key| directories.of(key));
        let directories = directories.collect::<Result<Vec<_>>>()?;
        self.open_buckets(&new).await?;
        let next = |key| self.buckets.get(key).map_or(0, |b| b.next);
        self.next.extend(new.iter().map(next));
        self.taking.admit(directories, BUCKET_BYTES);
        Ok(())
    }

    /// Learns how buckets stand that are not known yet \[W-2].
    async fn open_buckets(&mut self, keys: &[GroupKey]) -> Result<()> {
        let known = |key: &&GroupKey| self.buckets.contains_key(*key);
        let unknown: Vec<GroupKey> = keys.iter().filter(|k| !known(k)).cloned().collect();
        let wanted = self.taking.router.total_buckets();
        let directories = &self.taking.directories;
        let views = directories
            .views(self.views.as_ref(), &unknown, wanted)
            .await?;
        let mut opened = Vec::with_capacity(unknown.len());
        for (key, view) in unknown.into_iter().zip(views) {
            let next = next_sequence(&view);
            let tree = match self.shop {
                None => None,
                Some(_) => {
                    let read = vectors::read(&self.taking.store, self.vectors, &view).await?;
                    Some(self.tree(&key, view, read)?)
                }
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
        self.taking.check()?;
        self.taking
            .unusable("a prepare that failed or was cancelled");
        self.taking.come_to_rest().await?;
        self.wait_where_stalled().await?;
        self.taking.hand_over().await?;
        self.after_flush().await?;
        let hashes = self.write_hashes().await?;
        self.write_vectors().await?;
        self.taking.prepares += 1;
        let messages = self.messages(hashes);
        self.taking.uploads.handed_over();
        self.taking.ready();
        Ok(messages)
    }

    /// One message per bucket with new files or finished compactions, in the order of partition and
    /// bucket.
    fn messages(
        &mut self,
        hashes: Vec<(BinaryRow, BucketId, IndexFileMeta)>,
    ) -> Vec<CommitMessage> {
        let by_group = self.taking.handed_over();
        for (place, next) in self.next.iter().enumerate() {
            let key = self.taking.router.key(GroupId(place as u32));
            if let Some(bucket) = key.and_then(|key| self.buckets.get_mut(key)) {
                bucket.next = *next;
            }
        }
        let mut compacted = self.compacted();
        let mut changed: HashMap<GroupKey, DataIncrement> = HashMap::new();
        for (group, data) in by_group {
            if let Some(key) = self.taking.router.key(group) {
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
        if let Some(assigners) = self.taking.router.assigners() {
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
                total_buckets: Some(self.taking.router.total_buckets()),
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
        let result = self.taking.abort().await;
        // Buckets keep their numbers of the last prepare.
        self.next.clear();
        let compactions = self.give_up_compactions().await;
        match self.moves {
            None => self.taking.ready(),
            // Keys are noted where rows are that are gone, and the views are older than what was handed over.
            Some(_) => self
                .taking
                .unusable("an abort of a table whose keys may change their partition"),
        }
        result.and(compactions)
    }
}

/// By the number at the end of the names of one writer.
pub(crate) fn in_order(a: &DataFileMeta, b: &DataFileMeta) -> std::cmp::Ordering {
    let (a, b) = (&a.file_name, &b.file_name);
    (a.len(), a).cmp(&(b.len(), b))
}

impl Drop for KeyedWriter {
    /// Nothing that is under way shall become a file that nobody knows.
    fn drop(&mut self) {
        let Some(shop) = self.shop.take() else { return };
        shop.give_up();
        let store = self.taking.store.clone();
        // What compactions finished and nobody took; a later run removes what this does not.
        self.taking.runtime.spawn(async move {
            shop.uploads.settled().await;
            let _ = store.delete_many(&shop.uploads.begun()).await;
        });
    }
}

impl std::fmt::Debug for KeyedWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyedWriter")
            .field("taking", &self.taking)
            .field("buckets", &self.buckets.len())
            .finish_non_exhaustive()
    }
}
