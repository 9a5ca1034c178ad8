//! A Paimon table as the target of a simulated job: real committer, real clean-up, real metadata; only
//! the data files are small, eight bytes per row, so that thousands of schedules pass in a second.
//!
//! Owns writers and router. Everything behind the messages is the shipped code.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::RecordBatch;
use tidegate_commit::{Env, LiveView, PaimonCommitter, committable};
use tidegate_model::{
    BinaryRow, BucketId, CommitMessage, CompactIncrement, DataFileMeta, DataIncrement, FileSource,
    Level, SchemaId, SimpleStats, layout,
};
use tidegate_sink::{
    BoxFuture, CleanReport, Committable, Committer, ErrorKind, Message, Router, Rows, Run,
    RunPrefix, SinkError, Target, Writer, WriterMemory, WriterSet, mutant,
};
use tidegate_storage::Store;

use crate::env::SimEnv;
use crate::rows;

/// Where rows go and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// `bucket = -1`.
    Unaware,
    /// `bucket = 2`, with sequence numbers that go on per bucket.
    Fixed,
}

pub(crate) const BUCKETS: i64 = 2;

impl Layout {
    fn bucket_of(self, row: i64) -> BucketId {
        match self {
            Self::Unaware => BucketId(-1),
            Self::Fixed => BucketId(row.rem_euclid(BUCKETS) as i32),
        }
    }

    pub(crate) fn total(self) -> i32 {
        match self {
            Self::Unaware => -1,
            Self::Fixed => BUCKETS as i32,
        }
    }
}

/// The table of the simulated world, as one process has it open.
#[derive(Clone, Debug)]
pub(crate) struct SimTarget {
    pub(crate) store: Store,
    pub(crate) env: SimEnv,
    pub(crate) layout: Layout,
    /// Writers compact what they have just written, in the same commit.
    pub(crate) compacts: bool,
    /// A view that was opened too early.
    pub(crate) early: Arc<std::sync::Mutex<Option<LiveView>>>,
}

pub(crate) fn data_file(name: String, rows: &[i64], first_sequence: i64) -> DataFileMeta {
    let count = rows.len() as i64;
    DataFileMeta {
        file_name: name,
        file_size: count * 8,
        row_count: count,
        min_key: BinaryRow::empty(),
        max_key: BinaryRow::empty(),
        key_stats: SimpleStats::empty(),
        value_stats: SimpleStats::empty(),
        min_sequence_number: first_sequence,
        max_sequence_number: first_sequence + count - 1,
        schema_id: SchemaId(0),
        level: Level(0),
        extra_files: Vec::new(),
        creation_time_millis: Some(1_704_067_200_123),
        delete_row_count: Some(0),
        embedded_index: None,
        file_source: Some(FileSource::Append),
        value_stats_cols: Some(Vec::new()),
        external_path: None,
        first_row_id: None,
        write_cols: None,
        write_cols_sequences: None,
    }
}

pub(crate) fn data_path(bucket: BucketId, name: &str) -> String {
    layout::join([layout::bucket_dir(bucket).as_str(), name])
}

impl SimTarget {
    async fn view(&self, run: &Run) -> Result<Option<LiveView>, SinkError> {
        match self.layout {
            Layout::Unaware => Ok(None),
            Layout::Fixed => Ok(Some(
                LiveView::for_append(&self.store, Some(&run.user)).await?,
            )),
        }
    }

    fn early(&self) -> std::sync::MutexGuard<'_, Option<LiveView>> {
        let locked = self.early.lock();
        locked.unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Target for SimTarget {
    type Batch = RecordBatch;

    fn name(&self) -> String {
        "sim.rows".to_owned()
    }

    fn writer_memory(&self) -> WriterMemory {
        match self.layout {
            Layout::Unaware => WriterMemory::Nothing,
            Layout::Fixed => WriterMemory::BucketState,
        }
    }

    fn committer<'a>(
        &'a self,
        run: &'a Run,
    ) -> BoxFuture<'a, Result<Box<dyn Committer>, SinkError>> {
        Box::pin(async move {
            if mutant::on("writers-before-recovery") {
                let view = self.view(run).await?;
                if let Some(view) = &view {
                    // The view reads when it is first asked.
                    view.bucket(&BinaryRow::empty(), BucketId(0)).await?;
                }
                *self.early() = view;
            }
            let env = Arc::new(self.env.clone());
            let committer =
                PaimonCommitter::open_with(self.store.clone(), run.clone(), env).await?;
            Ok(Box::new(committer) as Box<dyn Committer>)
        })
    }

    fn writers<'a>(
        &'a self,
        run: &'a Run,
        count: usize,
    ) -> BoxFuture<'a, Result<WriterSet<RecordBatch>, SinkError>> {
        Box::pin(async move {
            let early = self.early().take();
            let view = match early {
                Some(view) => Some(view),
                None => self.view(run).await?,
            };
            let writer = |_| {
                Box::new(SimWriter {
                    target: self.clone(),
                    prefix: run.prefix.clone(),
                    view: view.clone(),
                    next: BTreeMap::new(),
                    held: BTreeMap::new(),
                    unprepared: Vec::new(),
                }) as Box<dyn Writer<Batch = RecordBatch>>
            };
            let router = SimRouter {
                layout: self.layout,
                writers: count,
            };
            Ok(WriterSet {
                writers: (0..count).map(writer).collect(),
                router: Box::new(router),
            })
        })
    }

    fn clean<'a>(
        &'a self,
        run: &'a Run,
        earlier: &'a [RunPrefix],
        pending: &'a [Committable],
    ) -> BoxFuture<'a, Result<CleanReport, SinkError>> {
        Box::pin(async move {
            Ok(tidegate_commit::clean(&self.store, run, earlier, pending, true).await?)
        })
    }

    fn leftovers<'a>(
        &'a self,
        run: &'a Run,
        earlier: &'a [RunPrefix],
        pending: &'a [Committable],
    ) -> BoxFuture<'a, Result<u64, SinkError>> {
        Box::pin(async move {
            Ok(tidegate_commit::leftovers(&self.store, run, earlier, pending).await?)
        })
    }
}

struct SimRouter {
    layout: Layout,
    writers: usize,
}

impl Router<RecordBatch> for SimRouter {
    fn route(
        &self,
        channel: usize,
        rows: Rows<RecordBatch>,
    ) -> Result<Vec<(usize, Rows<RecordBatch>)>, SinkError> {
        if self.layout == Layout::Unaware || self.writers == 1 {
            return Ok(vec![(channel % self.writers.max(1), rows)]);
        }
        let mut routed = Vec::new();
        let ids = rows::ids(&rows.batch);
        for (at, id) in ids.into_iter().enumerate() {
            let bucket = self.layout.bucket_of(id).0 as usize;
            let row = rows.batch.slice(at, 1);
            routed.push((bucket % self.writers, Rows::inserts(row)));
        }
        Ok(routed)
    }
}

struct SimWriter {
    target: SimTarget,
    prefix: RunPrefix,
    view: Option<LiveView>,
    /// The next sequence number of each bucket.
    next: BTreeMap<BucketId, i64>,
    held: BTreeMap<BucketId, Vec<i64>>,
    /// Files since the last `prepare` that ended well.
    unprepared: Vec<String>,
}

impl SimWriter {
    async fn first_sequence(&mut self, bucket: BucketId) -> Result<i64, SinkError> {
        if let Some(next) = self.next.get(&bucket) {
            return Ok(*next);
        }
        let Some(view) = &self.view else { return Ok(0) };
        let view = view.bucket(&BinaryRow::empty(), bucket).await?;
        Ok(view.max_sequence_number.map_or(0, |max| max + 1))
    }

    async fn file(
        &mut self,
        bucket: BucketId,
        rows: &[i64],
        first: i64,
    ) -> Result<DataFileMeta, SinkError> {
        let (high, low) = (self.target.env.random(), self.target.env.random());
        let name = format!("data-{}{high:016x}{low:016x}-0.parquet", self.prefix);
        let path = data_path(bucket, &name);
        self.unprepared.push(path.clone());
        let written = self
            .target
            .store
            .write_once(&path, rows::encode(rows).into())
            .await;
        written.map_err(|e| {
            let kind = match e.is_transient() {
                true => ErrorKind::Transient,
                false => ErrorKind::Config,
            };
            SinkError::caused(kind, format!("writing {path}"), e)
        })?;
        Ok(data_file(name, rows, first))
    }

    async fn message(&mut self, bucket: BucketId, rows: &[i64]) -> Result<Message, SinkError> {
        let first = self.first_sequence(bucket).await?;
        let added = self.file(bucket, rows, first).await?;
        if self.view.is_some() {
            self.next.insert(bucket, first + rows.len() as i64);
        }
        let compact = if self.target.compacts {
            let mut after = self.file(bucket, rows, first).await?;
            after.file_source = Some(FileSource::Compact);
            CompactIncrement {
                compact_before: vec![added.clone()],
                compact_after: vec![after],
                ..CompactIncrement::default()
            }
        } else {
            CompactIncrement::default()
        };
        let message = CommitMessage {
            partition: BinaryRow::empty(),
            bucket,
            total_buckets: Some(self.target.layout.total()),
            data: DataIncrement {
                new_files: vec![added],
                ..DataIncrement::default()
            },
            compact,
        };
        Ok(committable::message(&message)?)
    }
}

impl Writer for SimWriter {
    type Batch = RecordBatch;

    fn write<'a>(&'a mut self, rows: Rows<RecordBatch>) -> BoxFuture<'a, Result<(), SinkError>> {
        for id in rows::ids(&rows.batch) {
            let bucket = self.target.layout.bucket_of(id);
            self.held.entry(bucket).or_default().push(id);
        }
        Box::pin(async { Ok(()) })
    }

    fn prepare<'a>(&'a mut self) -> BoxFuture<'a, Result<Vec<Message>, SinkError>> {
        Box::pin(async move {
            let mut messages = Vec::new();
            for (bucket, rows) in std::mem::take(&mut self.held) {
                messages.push(self.message(bucket, &rows).await?);
            }
            self.unprepared.clear();
            Ok(messages)
        })
    }

    fn abort<'a>(&'a mut self) -> BoxFuture<'a, Result<(), SinkError>> {
        Box::pin(async move {
            self.held.clear();
            let paths = std::mem::take(&mut self.unprepared);
            for answer in self.target.store.delete_many(&paths).await {
                answer.map_err(|e| {
                    SinkError::caused(ErrorKind::Transient, "giving up what was written", e)
                })?;
            }
            Ok(())
        })
    }
}
