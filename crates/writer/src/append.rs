//! The writer of tables without primary key.
//!
//! Owns which groups there are and where their sequence numbers stand, and what a message of theirs holds.
//! The life between two barriers is [`Taking`]'s, the work itself is done by [`AppendCore`].

pub(crate) mod core;
pub(crate) mod standing;

use std::collections::HashMap;
use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use tidegate_datafile::{FilePlan, Normaliser};
use tidegate_model::options::{TableOptions, unsupported_for_write};
use tidegate_model::{CommitMessage, CompactIncrement, TableSchema, WritePlan};
use tidegate_sink::{RowKind, Rows};
use tidegate_storage::Store;

use self::core::{AppendCore, Group};
use self::standing::AppendStanding;
use crate::budget::MemoryBudget;
use crate::directories::next_sequence;
use crate::error::{Result, WriterError};
use crate::generation::Arranged;
use crate::route::{GroupKey, Router};
use crate::settings::WriterOptions;
use crate::taking::{Means, Taking, WriterMetrics};
use crate::views::BucketViews;

/// Groups remembered between barriers by a writer that needs to remember none.
const REMEMBERED: usize = 16_384;

/// Memory of a group's bookkeeping, about.
const GROUP_BYTES: usize = 256;

/// Writes record batches to data files, partition by partition and bucket by bucket.
///
/// See the crate's documentation for an example. Cancellation \[R-18]: a dropped `write` may have
/// taken the batch or not; a dropped `prepare` leaves only [`AppendWriter::abort`].
#[derive(Debug)]
pub struct AppendWriter {
    taking: Taking<AppendCore>,
    normaliser: Normaliser,
    views: Option<Views>,
    /// Where buckets stand after the last prepare; fixed buckets only.
    counters: HashMap<GroupKey, Counter>,
}

struct Views(Arc<dyn BucketViews>);

impl std::fmt::Debug for Views {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Views")
    }
}

/// Sequence number of a bucket and when it last got files.
#[derive(Clone, Copy, Debug)]
struct Counter {
    next: i64,
    last_prepare: Option<u64>,
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
        let schema = &plan.schema;
        if !schema.is_append() {
            return Err(WriterError::Config(
                "a table with a primary key is written by KeyedWriter".to_owned(),
            ));
        }
        if let Some(why) = unsupported_for_write(schema) {
            return Err(WriterError::Config(why));
        }
        let config = |e: tidegate_datafile::Error| WriterError::Config(e.to_string());
        let file_plan = FilePlan::new(schema).map_err(config)?;
        let normaliser = Normaliser::new(&schema.fields).map_err(config)?;
        let router = Router::new(schema)?;
        if router.total_buckets() > 0 && views.is_none() {
            return Err(WriterError::Config(
                "a writer of fixed buckets needs bucket views: sequence numbers go on where the \
                 table stands"
                    .to_owned(),
            ));
        }
        let of_table = TableOptions::of(schema).map_err(|e| WriterError::Config(e.to_string()))?;
        let means = Means::new(plan, store, budget, options)?;
        let files = means.files(file_plan, of_table.data_file, &plan.file_prefix);
        let standing = AppendStanding::new(means.options.encoder_bytes);
        let (of_core, directory) = (Arc::clone(&files), means.options.spill_directory.clone());
        let limit = means.options.spill_limit;
        let taking = Taking::new(means, router, files, standing, move |uploads| {
            AppendCore::new(Arc::clone(&of_core), uploads, directory.clone(), limit)
        })?;
        Ok(Self {
            taking,
            normaliser,
            views: views.map(Views),
            counters: HashMap::new(),
        })
    }

    /// The schema that rows must have; columns are matched by name.
    pub fn schema(&self) -> &TableSchema {
        &self.taking.schema
    }

    /// Numbers for an operator.
    pub fn metrics(&self) -> WriterMetrics {
        self.taking.metrics
    }

    /// Takes rows with their kinds; an append table knows only additions \[W-10].
    ///
    /// # Errors
    /// As [`AppendWriter::write`]; [`WriterError::Row`] for a kind that removes or replaces.
    pub async fn write_rows(&mut self, rows: Rows<RecordBatch>) -> Result<()> {
        let removes = |kind: &RowKind| matches!(kind, RowKind::UpdateBefore | RowKind::Delete);
        if let Some(row) = rows.kinds.iter().flatten().position(removes) {
            return Err(WriterError::Row {
                row,
                why: "it takes a row back, and a table without primary key can only add rows"
                    .to_owned(),
            });
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
        self.taking.check()?;
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let batch = self
            .normaliser
            .normalise(batch)
            .map_err(|e| WriterError::Rows(e.to_string()))?;
        self.taking.forget_refused();
        let routed = self.taking.router.route(&batch)?;
        self.admit().await?;
        let result = match Arranged::new(batch, routed) {
            Ok(arranged) => self.taking.hold(arranged).await,
            Err(error) => Err(error),
        };
        self.taking.fail_on_error(result)
    }

    /// Gives groups that were never met before their directory and sequence number.
    async fn admit(&mut self) -> Result<()> {
        let new = self.taking.unknown();
        if new.is_empty() {
            return Ok(());
        }
        let directories = &self.taking.directories;
        let directories = new.iter().map(|key| directories.of(key));
        let directories = directories.collect::<Result<Vec<_>>>()?;
        let starts = self.starts(&new).await?;
        let groups = directories.into_iter().zip(starts);
        let groups = groups.map(|(directory, start)| Group::new(directory, start));
        self.taking.admit(groups, GROUP_BYTES);
        Ok(())
    }

    /// First sequence numbers of buckets \[F-6.3].
    async fn starts(&mut self, keys: &[GroupKey]) -> Result<Vec<i64>> {
        let total = self.taking.router.total_buckets();
        let Some(Views(views)) = self.views.as_ref().filter(|_| total > 0) else {
            return Ok(vec![0; keys.len()]);
        };
        let known = |key: &&GroupKey| self.counters.contains_key(*key);
        let unknown: Vec<GroupKey> = keys.iter().filter(|k| !known(k)).cloned().collect();
        let directories = &self.taking.directories;
        let views = directories.views(views.as_ref(), &unknown, total).await?;
        for (key, view) in unknown.into_iter().zip(views) {
            let counter = Counter {
                next: next_sequence(&view),
                last_prepare: None,
            };
            self.counters.insert(key, counter);
        }
        let next = |key| self.counters.get(key).map_or(0, |c| c.next);
        Ok(keys.iter().map(next).collect())
    }

    /// Closes all files before the barrier and hands them over: every file named in the messages is
    /// durable with the size that the store confirmed. One file per partition and bucket, unless one
    /// had its target size. Empty without rows.
    ///
    /// # Errors
    /// Any failure since the last prepare; the writer is then good for [`AppendWriter::abort`] only,
    /// as it is where the future is dropped before it is done \[R-18].
    pub async fn prepare(&mut self) -> Result<Vec<CommitMessage>> {
        self.taking.check()?;
        let cancelled = "a prepare that failed or was cancelled";
        self.taking.unusable(cancelled);
        self.taking.come_to_rest().await?;
        self.taking.hand_over().await?;
        self.taking.prepares += 1;
        let messages = self.messages();
        self.taking.uploads.handed_over();
        self.start_anew();
        self.taking.ready();
        Ok(messages)
    }

    /// One message per partition and bucket with new files, in the order of partition and bucket,
    /// files in the order of their rows.
    fn messages(&mut self) -> Vec<CommitMessage> {
        let total = self.taking.router.total_buckets();
        let by_group = self.taking.handed_over();
        let mut messages = Vec::with_capacity(by_group.len());
        for (group, mut data) in by_group {
            let Some(key) = self.taking.router.key(group) else {
                continue;
            };
            data.new_files.sort_by_key(|file| file.min_sequence_number);
            if total > 0 {
                let last = data.new_files.last();
                let counter = Counter {
                    next: last.map_or(0, |file| file.max_sequence_number + 1),
                    last_prepare: Some(self.taking.prepares),
                };
                self.counters.insert(key.clone(), counter);
            }
            messages.push(CommitMessage {
                partition: key.partition.clone(),
                bucket: key.bucket,
                total_buckets: Some(total),
                data,
                compact: CompactIncrement::default(),
            });
        }
        messages.sort_by(|a, b| (&a.partition, a.bucket).cmp(&(&b.partition, b.bucket)));
        messages
    }

    fn start_anew(&mut self) {
        if self.taking.router.total_buckets() > 0 {
            return;
        }
        let too_many = self.taking.groups() > REMEMBERED;
        let Some(core) = self.taking.idle_core() else {
            return;
        };
        // Without buckets nothing is remembered: numbers begin at 0 in every checkpoint.
        core.number_anew();
        if too_many {
            core.forget_groups();
            self.taking.forget_groups();
        }
    }

    /// How often files were handed over or could have been: the number of successful prepares.
    pub fn prepares(&self) -> u64 {
        self.taking.prepares
    }

    /// Tells a writer of fixed buckets that everything up to and including the `prepares`-th prepare
    /// is visible in the table. It then forgets buckets that got no files since \[W-4]; those ask
    /// for their view again. Without being told, it remembers a counter per bucket for good.
    ///
    /// Does nothing while rows wait for a barrier.
    pub fn settled(&mut self, prepares: u64) {
        if self.taking.router.total_buckets() < 0 || !self.taking.is_empty() {
            return;
        }
        // Strictly older: of one checkpoint only the first of two snapshots may be visible.
        self.counters
            .retain(|_, c| c.last_prepare.is_some_and(|last| last >= prepares));
        if let Some(core) = self.taking.idle_core() {
            core.forget_groups();
        }
        self.taking.forget_groups();
    }

    /// Gives up: deletes what was written since the last prepare, finished or not, and is as a
    /// writer without rows again. What was handed over stays.
    ///
    /// # Errors
    /// [`WriterError::Abort`] where files stay behind; the writer can go on nevertheless.
    pub async fn abort(&mut self) -> Result<()> {
        let result = self.taking.abort().await;
        self.taking.ready();
        result
    }
}
