//! A Paimon table as a target of an engine: writers and committer behind the contract of
//! `tidegate-sink`.
//!
//! Owns the border between typed values and bytes: writers hand over commit messages, an engine
//! carries their bytes.

use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use futures::stream::{self, StreamExt};
use tidegate_commit::{LiveView, LostCompactions, PaimonCommitter};
use tidegate_model::schema::BucketMode;
use tidegate_model::{
    BinaryRow, BucketView, SchemaId, SnapshotId, TableOptions, TableSchema, WritePlan,
};
use tidegate_scan::TableReader;
use tidegate_sink::{
    BoxFuture, CleanReport, CommitUser, Committable, Committer, ErrorKind, Message, Rows, Run,
    RunPrefix, SinkError, Target, Writer, WriterMemory, WriterSet,
};
use tidegate_storage::Store;
use tidegate_writer::{
    AppendWriter, BucketRows, ChannelRouter, Compactor, GroupKey, KeyedWriter, MemoryBudget,
    PostponeWriter, PostponeWriterId, WriterError, WriterOptions,
};

use crate::error::{Error, Result};
use crate::table::Table;

/// What writers of a run share and where they may spill.
#[derive(Clone, Debug)]
pub struct TargetOptions {
    /// Memory of all writers.
    pub budget: MemoryBudget,
    /// Folder for rows that do not fit; the system's temporary folder by default.
    pub spill_directory: Option<PathBuf>,
    /// Bytes spilled at most.
    pub spill_limit: Option<u64>,
}

impl Default for TargetOptions {
    fn default() -> Self {
        Self {
            budget: MemoryBudget::new(256 << 20),
            spill_directory: None,
            spill_limit: None,
        }
    }
}

/// A table that rows can be carried into.
#[derive(Clone, Debug)]
pub struct TableTarget {
    table: Table,
    options: TargetOptions,
    arrow: SchemaRef,
    memory: WriterMemory,
    /// The compaction thread of its writers; only where they compact.
    compactor: Option<Compactor>,
    /// What its committers tell its writers.
    lost: Arc<LostCompactions>,
}

/// What writers of a table remember; an error where this build cannot write it rightly, naming the
/// option.
pub(crate) fn writer_memory(schema: &TableSchema, name: &str) -> Result<WriterMemory> {
    if !schema.is_append() {
        KeyedWriter::check_schema(schema).map_err(|e| {
            let why = match e {
                WriterError::Config(why) => why,
                other => other.to_string(),
            };
            Error::Config(format!("table `{name}` cannot be written: {why}"))
        })?;
    } else if let Some(why) = tidegate_model::options::unsupported_for_write(schema) {
        return Err(Error::Config(format!(
            "table `{name}` cannot be written: {why}"
        )));
    }
    match schema.bucket_mode()? {
        BucketMode::Unaware | BucketMode::Postpone => Ok(WriterMemory::Nothing),
        BucketMode::Fixed(_) | BucketMode::Dynamic | BucketMode::CrossPartition => {
            Ok(WriterMemory::BucketState)
        }
    }
}

impl TableTarget {
    pub(crate) fn new(table: Table, options: TargetOptions) -> Result<Self> {
        let schema = table.schema();
        let memory = writer_memory(schema, table.name())?;
        let arrow = tidegate_datafile::arrow_schema(&schema.fields)
            .map_err(|e| Error::Config(format!("table `{}`: {e}", table.name())))?;
        let compacts = !schema.is_append()
            && schema.bucket_mode()? != BucketMode::Postpone
            && !TableOptions::of(schema)?.write_only;
        let compactor = match compacts {
            false => None,
            true => Some(Compactor::new(&options.budget).map_err(SinkError::from)?),
        };
        Ok(Self {
            table,
            options,
            arrow: Arc::new(arrow),
            memory,
            compactor,
            lost: Arc::default(),
        })
    }

    /// The table.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Schema of the batches that its writers take as they are; others are converted where nothing
    /// is lost.
    pub fn arrow_schema(&self) -> &SchemaRef {
        &self.arrow
    }

    /// Opens the committer of a run; it tells the writers of buckets whose compaction was left out.
    pub(crate) async fn open_committer(&self, run: &Run) -> Result<PaimonCommitter, SinkError> {
        let store = self.table.store().clone();
        let mut committer = PaimonCommitter::open(store, run.clone()).await?;
        committer.tell_lost(Arc::clone(&self.lost));
        Ok(committer)
    }

    /// Dynamic buckets have one writing job: two of them would give one key two buckets \[W-71]. Jobs that only
    /// compact, that have ended, and whose process is gone from this host do not count.
    async fn refuse_second_job(&self, run: &Run) -> Result<()> {
        let mode = self.table.schema().bucket_mode()?;
        if !matches!(mode, BucketMode::Dynamic | BucketMode::CrossPartition) {
            return Ok(());
        }
        let host = crate::stream::host();
        for other in self.table.jobs().jobs().await? {
            let Some(newest) = other.newest().filter(|run| run.ended.is_none()) else {
                continue;
            };
            let of = &newest.registration;
            let writes = of.keeps_checkpoints() && of.adopted_by.is_none();
            if other.job == run.job || !writes || of.is_gone(&host) {
                continue;
            }
            let (name, job) = (self.table.name(), &other.job);
            let why = format!(
                "table `{name}` has dynamic buckets (bucket = -1 with a primary key), which only one job may \
                 write, and job `{job}` (run {} on host {}) may still be running: stop it, or where it is dead \
                 say so with `tidegate job retire {name} {job}`",
                of.epoch(),
                of.host,
            );
            return Err(SinkError::new(ErrorKind::Refused, why).into());
        }
        Ok(())
    }

    /// Opens one writer of a run on the table as it is now.
    pub(crate) async fn writer(&self, run: &Run) -> Result<TableWriter> {
        self.refuse_second_job(run).await?;
        let views = self.views(run).await?;
        let views = views.map(|views| views as Arc<dyn tidegate_writer::BucketViews>);
        self.writer_with(run, 0, views)
    }

    /// Opens a keyed writer of a run, and says which snapshot it starts from; `None` for a table without any.
    pub(crate) async fn keyed_writer(
        &self,
        run: &Run,
    ) -> Result<(KeyedWriter, Option<SnapshotId>)> {
        let views = self.views(run).await?;
        let base = views.as_ref().and_then(|views| views.view.base());
        let views = views.map(|views| views as Arc<dyn tidegate_writer::BucketViews>);
        match self.writer_with(run, 0, views)? {
            TableWriter::Keyed(writer) => Ok((*writer, base)),
            _ => Err(Error::Config(format!(
                "table `{}` has no buckets that could be compacted",
                self.table.name()
            ))),
        }
    }

    /// What writers that remember a bucket start from: one look at the table for all of them.
    async fn views(&self, run: &Run) -> Result<Option<Arc<Views>>> {
        Ok(match self.memory {
            WriterMemory::Nothing => None,
            WriterMemory::BucketState => {
                let (store, user) = (self.table.store(), Some(&run.user));
                let dynamic = self.table.schema().bucket_mode()? == BucketMode::Dynamic;
                let view = match self.compactor {
                    // Hash indexes are found by it.
                    None if dynamic => LiveView::open(store, user).await?,
                    None => LiveView::for_append(store, user).await?,
                    Some(_) => LiveView::for_compaction(store, user).await?,
                };
                Some(Arc::new(Views {
                    view,
                    store: store.clone(),
                    user: run.user.clone(),
                    schema: self.table.schema().clone(),
                    lost: Arc::clone(&self.lost),
                }))
            }
        })
    }

    /// The writer of that number of a run.
    fn writer_with(
        &self,
        run: &Run,
        number: usize,
        views: Option<Arc<dyn tidegate_writer::BucketViews>>,
    ) -> Result<TableWriter> {
        let schema = self.table.schema();
        let prefix = schema.options.get("data-file.prefix").unwrap_or("data-");
        let plan = WritePlan {
            schema: schema.clone(),
            file_prefix: format!("{prefix}{}", run.prefix),
        };
        let mut options = WriterOptions {
            compactor: self.compactor.clone(),
            ..WriterOptions::default()
        };
        if let Some(directory) = &self.options.spill_directory {
            options.spill_directory.clone_from(directory);
        }
        if let Some(limit) = self.options.spill_limit {
            options.spill_limit = limit;
        }
        let store = self.table.store().clone().with_tag(&run.prefix.0);
        let budget = &self.options.budget;
        let writer = match (schema.is_append(), views) {
            (true, views) => AppendWriter::open(&plan, store, views, budget, options)
                .map(|writer| TableWriter::Append(Box::new(writer))),
            (false, Some(views)) => KeyedWriter::open(&plan, store, views, budget, options)
                .map(|writer| TableWriter::Keyed(Box::new(writer))),
            (false, None) => {
                let id = PostponeWriterId {
                    user: run.user.clone(),
                    writer: u32::try_from(number).unwrap_or(u32::MAX),
                };
                PostponeWriter::open(&plan, store, &id, budget, options)
                    .map(|writer| TableWriter::Postpone(Box::new(writer)))
            }
        };
        Ok(writer.map_err(SinkError::from)?)
    }
}

/// Answers writers of fixed buckets out of the snapshot that recovery has just published.
struct Views {
    view: LiveView,
    store: Store,
    user: CommitUser,
    schema: Arc<TableSchema>,
    lost: Arc<LostCompactions>,
}

impl Views {
    /// The hashes of an index file \[F-5.2].
    async fn read_hashes(&self, name: &str) -> Result<Vec<i32>, SinkError> {
        let path = format!("{}/{name}", tidegate_model::layout::INDEX_DIR);
        let bytes = self.store.get(&path).await;
        let bytes = bytes.map_err(|e| sink_error(Error::from(e)))?;
        let (hashes, rest) = bytes.as_chunks::<4>();
        if !rest.is_empty() {
            return Err(SinkError::new(
                ErrorKind::Corrupt,
                format!(
                    "index file {path} has {} bytes, no multiple of 4",
                    bytes.len()
                ),
            ));
        }
        Ok(hashes
            .iter()
            .map(|hash| i32::from_be_bytes(*hash))
            .collect())
    }

    async fn of(view: &LiveView, buckets: &[GroupKey]) -> Result<Vec<BucketView>, SinkError> {
        let mut views = Vec::with_capacity(buckets.len());
        for key in buckets {
            views.push(view.bucket(&key.partition, key.bucket).await?);
        }
        Ok(views)
    }
}

impl tidegate_writer::BucketViews for Views {
    fn views<'a>(
        &'a self,
        buckets: &'a [GroupKey],
    ) -> BoxFuture<'a, Result<Vec<BucketView>, SinkError>> {
        Box::pin(Self::of(&self.view, buckets))
    }

    fn fresh_views<'a>(
        &'a self,
        buckets: &'a [GroupKey],
    ) -> BoxFuture<'a, Result<Vec<BucketView>, SinkError>> {
        Box::pin(async move {
            let view = LiveView::for_compaction(&self.store, Some(&self.user)).await?;
            Self::of(&view, buckets).await
        })
    }

    fn hashes<'a>(
        &'a self,
        partition: &'a BinaryRow,
    ) -> BoxFuture<'a, Result<tidegate_writer::BucketHashes, SinkError>> {
        Box::pin(async move {
            let mut all = Vec::new();
            for (of, bucket) in self.view.all_buckets().await? {
                if of == *partition {
                    all.push(bucket);
                }
            }
            all.sort();
            let mut found = Vec::with_capacity(all.len());
            for bucket in all {
                let view = self.view.bucket(partition, bucket).await?;
                let index = view.index_files.iter().find(|f| f.index_type == "HASH");
                let hashes = match index {
                    Some(index) => self.read_hashes(&index.file_name).await?,
                    None => Vec::new(),
                };
                found.push((bucket, hashes));
            }
            Ok(found)
        })
    }

    fn keys<'a>(&'a self, columns: &'a [String]) -> BoxFuture<'a, Result<BucketRows, SinkError>> {
        Box::pin(async move {
            let Some(base) = self.view.base() else {
                return Ok(stream::empty().boxed());
            };
            let table = TableReader::new(self.store.clone());
            let schema = TableSchema::clone(&self.schema);
            let plans = table.buckets(base, schema).await;
            let plans = plans.map_err(|e| sink_error(e.into()))?;
            let mut opened = Vec::with_capacity(plans.len());
            for (partition, bucket, plan) in plans {
                let rows = plan.with_columns(columns).and_then(|plan| plan.read());
                let key = GroupKey { partition, bucket };
                let rows = rows.map_err(|e| sink_error(e.into()))?;
                opened.push(rows.map(move |batch| match batch {
                    Ok(batch) => Ok((key.clone(), batch)),
                    Err(e) => Err(sink_error(e.into())),
                }));
            }
            Ok(stream::iter(opened).flatten().boxed())
        })
    }

    fn take_lost(&self, mine: &dyn Fn(&GroupKey) -> bool) -> Vec<GroupKey> {
        let key = |partition: &BinaryRow, bucket| GroupKey {
            partition: partition.clone(),
            bucket,
        };
        let taken = self.lost.take(|p, b| mine(&key(p, b)));
        taken.iter().map(|(p, b)| key(p, *b)).collect()
    }

    fn schema(&self, id: SchemaId) -> BoxFuture<'_, Result<Arc<TableSchema>, SinkError>> {
        Box::pin(async move { Ok(Arc::new(self.view.schema(id).await?)) })
    }
}

/// A writer whose messages are bytes.
pub(crate) enum TableWriter {
    Append(Box<AppendWriter>),
    Keyed(Box<KeyedWriter>),
    Postpone(Box<PostponeWriter>),
}

impl Writer for TableWriter {
    type Batch = RecordBatch;

    fn write<'a>(&'a mut self, rows: Rows<RecordBatch>) -> BoxFuture<'a, Result<(), SinkError>> {
        Box::pin(async move {
            match self {
                Self::Append(writer) => writer.write_rows(rows).await?,
                Self::Keyed(writer) => writer.write_rows(rows).await?,
                Self::Postpone(writer) => writer.write_rows(rows).await?,
            }
            Ok(())
        })
    }

    fn prepare<'a>(&'a mut self) -> BoxFuture<'a, Result<Vec<Message>, SinkError>> {
        Box::pin(async move {
            let messages = match self {
                Self::Append(writer) => writer.prepare().await?,
                Self::Keyed(writer) => writer.prepare().await?,
                Self::Postpone(writer) => writer.prepare().await?,
            };
            let bytes = messages.iter().map(tidegate_commit::committable::message);
            Ok(bytes.collect::<Result<_, _>>()?)
        })
    }

    fn end_of_input(&mut self) {
        match self {
            Self::Append(_) | Self::Postpone(_) => {}
            Self::Keyed(writer) => writer.end_of_input(),
        }
    }

    fn abort<'a>(&'a mut self) -> BoxFuture<'a, Result<(), SinkError>> {
        Box::pin(async move {
            match self {
                Self::Append(writer) => writer.abort().await?,
                Self::Keyed(writer) => writer.abort().await?,
                Self::Postpone(writer) => writer.abort().await?,
            }
            Ok(())
        })
    }
}

fn sink_error(error: Error) -> SinkError {
    match error {
        Error::Sink(error) => error,
        other => SinkError::new(other.kind(), other.to_string()),
    }
}

impl Target for TableTarget {
    type Batch = RecordBatch;

    fn name(&self) -> String {
        self.table.name().to_owned()
    }

    fn writer_memory(&self) -> WriterMemory {
        self.memory
    }

    fn committer<'a>(
        &'a self,
        run: &'a Run,
    ) -> BoxFuture<'a, Result<Box<dyn Committer>, SinkError>> {
        Box::pin(async move {
            let committer = self.open_committer(run).await?;
            Ok(Box::new(committer) as Box<dyn Committer>)
        })
    }

    fn writers<'a>(
        &'a self,
        run: &'a Run,
        count: usize,
    ) -> BoxFuture<'a, Result<WriterSet<RecordBatch>, SinkError>> {
        Box::pin(async move {
            crate::table::remove_leftovers(self.table.store()).await;
            self.refuse_second_job(run).await.map_err(sink_error)?;
            let views = self.views(run).await.map_err(sink_error)?;
            let views = views.map(|views| views as Arc<dyn tidegate_writer::BucketViews>);
            let mut writers = Vec::with_capacity(count);
            for number in 0..count {
                let writer = self.writer_with(run, number, views.clone());
                let writer = writer.map_err(sink_error)?;
                writers.push(Box::new(writer) as Box<dyn Writer<Batch = RecordBatch>>);
            }
            let router = Box::new(ChannelRouter::new(self.table.schema(), count)?);
            Ok(WriterSet { writers, router })
        })
    }

    fn clean<'a>(
        &'a self,
        run: &'a Run,
        earlier: &'a [RunPrefix],
        pending: &'a [Committable],
    ) -> BoxFuture<'a, Result<CleanReport, SinkError>> {
        Box::pin(async move {
            Ok(tidegate_commit::clean(self.table.store(), run, earlier, pending, true).await?)
        })
    }

    fn leftovers<'a>(
        &'a self,
        run: &'a Run,
        earlier: &'a [RunPrefix],
        pending: &'a [Committable],
    ) -> BoxFuture<'a, Result<u64, SinkError>> {
        Box::pin(async move {
            Ok(tidegate_commit::leftovers(self.table.store(), run, earlier, pending).await?)
        })
    }
}
