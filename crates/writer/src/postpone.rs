//! The writer of keyed tables whose rows wait for their bucket (`bucket = -2`) \[W-73].
//!
//! Rows go to files of the postpone bucket as they come, with their kinds: unsorted, not merged, without
//! sequence numbers and statistics. Nothing of the table is looked at, so any number of writers may work on it;
//! readers see the rows once a compaction has distributed them. The order of the rows of a key is that of a
//! writer's files, so all rows of a key go to one writer of a run.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array};
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use tidegate_datafile::{FilePlan, key_value_schema};
use tidegate_merge::MergeSpec;
use tidegate_model::options::{TableOptions, unsupported_for_write};
use tidegate_model::{CommitMessage, CompactIncrement, TableSchema, WritePlan};
use tidegate_sink::{CommitUser, Rows};
use tidegate_storage::Store;

use crate::append::core::{AppendCore, Group};
use crate::append::standing::AppendStanding;
use crate::budget::MemoryBudget;
use crate::error::{Result, WriterError};
use crate::generation::Arranged;
use crate::keyed::intake::{Intake, unnumbered};
use crate::route::Router;
use crate::settings::WriterOptions;
use crate::taking::{Means, Taking, WriterMetrics};

/// Memory of a partition's bookkeeping, about.
const GROUP_BYTES: usize = 256;

/// The number of a record that has none yet.
const NO_NUMBER: i64 = -1;

/// Which writer of which job wrote a file: the order of the rows of a key is told by it.
#[derive(Clone, Debug)]
pub struct PostponeWriterId {
    /// The job's commit user.
    pub user: CommitUser,
    /// The writer's number among those of its run.
    pub writer: u32,
}

/// Writes rows of a keyed table that wait for their bucket, partition by partition.
///
/// Cancellation \[R-18]: a dropped `write` may have taken the batch or not; a dropped `prepare` leaves only
/// [`PostponeWriter::abort`].
#[derive(Debug)]
pub struct PostponeWriter {
    taking: Taking<AppendCore>,
    intake: Intake,
    /// Of key-value batches.
    batches: SchemaRef,
}

/// What the schema asks of such a writer.
struct Declared {
    intake: Intake,
    router: Router,
    table: TableOptions,
    plan: FilePlan,
}

impl Declared {
    fn read(schema: &TableSchema) -> Result<Self> {
        let config = |text: String| WriterError::Config(text);
        let spec = MergeSpec::new(schema).map_err(|e| config(e.to_string()))?;
        if let Some(why) = unsupported_for_write(schema) {
            return Err(config(why));
        }
        // Nobody looks for rows by the statistics of files that are not read.
        let mut bare = schema.clone();
        bare.options.set("metadata.stats-mode", "none");
        Ok(Self {
            intake: Intake::new(schema, &spec)?,
            router: Router::new(schema)?,
            table: TableOptions::of(schema).map_err(|e| config(e.to_string()))?,
            plan: FilePlan::key_value(&bare).map_err(|e| config(e.to_string()))?,
        })
    }
}

impl PostponeWriter {
    /// Opens a writer below the root of `store`, which is the table's folder. Must be called inside a
    /// Tokio runtime, which sends the files.
    ///
    /// # Errors
    /// [`WriterError::Config`] where schema or options are none that this writer can serve.
    pub fn open(
        plan: &WritePlan,
        store: Store,
        id: &PostponeWriterId,
        budget: &MemoryBudget,
        options: WriterOptions,
    ) -> Result<Self> {
        let schema = &plan.schema;
        let declared = Declared::read(schema)?;
        if declared.router.total_buckets() != -2 {
            return Err(WriterError::Config(
                "rows wait for their bucket only in a table with a primary key and bucket = -2"
                    .to_owned(),
            ));
        }
        let batches = key_value_schema(&schema.fields);
        let batches = batches.map_err(|e| WriterError::Config(e.to_string()))?;
        let means = Means::new(plan, store, budget, options)?;
        // Java finds the writer's number between `-s-` and the next dash [F-1.2].
        let prefix = format!("{}-u-{}-s-{}-w-", plan.file_prefix, id.user, id.writer);
        let files = means.files(declared.plan, declared.table.data_file, &prefix);
        let standing = AppendStanding::new(means.options.encoder_bytes);
        let (of_core, directory) = (Arc::clone(&files), means.options.spill_directory.clone());
        let limit = means.options.spill_limit;
        let taking = Taking::new(means, declared.router, files, standing, move |uploads| {
            AppendCore::new(Arc::clone(&of_core), uploads, directory.clone(), limit)
        })?;
        Ok(Self {
            taking,
            intake: declared.intake,
            batches,
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

    /// Takes rows with their kinds. They are durable only after the next [`PostponeWriter::prepare`].
    ///
    /// # Errors
    /// [`WriterError::Rows`] and [`WriterError::Partition`] refuse this batch and leave the writer as it was;
    /// all others leave only [`PostponeWriter::abort`].
    pub async fn write_rows(&mut self, rows: Rows<RecordBatch>) -> Result<()> {
        self.taking.check()?;
        let Some(taken) = self.intake.take(rows)? else {
            return Ok(());
        };
        self.taking.forget_refused();
        let routed = self.taking.router.route(&taken.values)?;
        let new = self.taking.unknown();
        if !new.is_empty() {
            let directories = &self.taking.directories;
            let groups = new.iter().map(|key| directories.of(key));
            let groups = groups.map(|directory| Ok(Group::new(directory?, 0)));
            let groups = groups.collect::<Result<Vec<_>>>()?;
            self.taking.admit(groups, GROUP_BYTES);
        }
        let arranged = unnumbered(taken, &self.batches)
            .and_then(|batch| Arranged::new(batch, routed))
            .and_then(|rows| rows.rebuilt(|batch, _| self.without_numbers(batch)));
        let result = match arranged {
            Ok(arranged) => self.taking.hold(arranged).await,
            Err(error) => Err(error),
        };
        self.taking.fail_on_error(result)
    }

    fn without_numbers(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(batch.num_columns() + 1);
        columns.push(Arc::new(Int64Array::from(vec![
            NO_NUMBER;
            batch.num_rows()
        ])));
        columns.extend(batch.columns().iter().cloned());
        RecordBatch::try_new(self.batches.clone(), columns)
            .map_err(WriterError::arrow("joining row kinds and values"))
    }

    /// Closes all files before the barrier and hands them over: every file named in the messages is durable
    /// with the size that the store confirmed. Empty without rows.
    ///
    /// # Errors
    /// Any failure since the last prepare; the writer is then good for [`PostponeWriter::abort`] only, as it is
    /// where the future is dropped before it is done \[R-18].
    pub async fn prepare(&mut self) -> Result<Vec<CommitMessage>> {
        self.taking.check()?;
        self.taking
            .unusable("a prepare that failed or was cancelled");
        self.taking.come_to_rest().await?;
        self.taking.hand_over().await?;
        self.taking.prepares += 1;
        let messages = self.messages();
        self.taking.uploads.handed_over();
        // Nothing is remembered: the next rows of a partition begin anew.
        if let Some(core) = self.taking.idle_core() {
            core.forget_groups();
            self.taking.forget_groups();
        }
        self.taking.ready();
        Ok(messages)
    }

    /// One message per partition with new files, in their order.
    fn messages(&mut self) -> Vec<CommitMessage> {
        let by_group = self.taking.handed_over();
        let mut messages = Vec::with_capacity(by_group.len());
        for (group, mut data) in by_group {
            let Some(key) = self.taking.router.key(group) else {
                continue;
            };
            data.new_files.sort_by(crate::keyed::in_order);
            messages.push(CommitMessage {
                partition: key.partition.clone(),
                bucket: key.bucket,
                total_buckets: Some(self.taking.router.total_buckets()),
                data,
                compact: CompactIncrement::default(),
            });
        }
        messages.sort_by(|a, b| a.partition.cmp(&b.partition));
        messages
    }

    /// Gives up: deletes what was written since the last prepare, finished or not, and is as a writer without
    /// rows again. What was handed over stays.
    ///
    /// # Errors
    /// [`WriterError::Abort`] where files stay behind; the writer can go on nevertheless.
    pub async fn abort(&mut self) -> Result<()> {
        let result = self.taking.abort().await;
        self.taking.ready();
        result
    }
}
