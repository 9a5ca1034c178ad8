//! A job from memory into a directory, put together anew for every start, and a plain reader.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{Int64Type, SchemaRef};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use tidegate_files::{FilesTarget, Format};
use tidegate_recovery::{CheckpointStore, Registry};
use tidegate_runtime::source::*;
use tidegate_runtime::*;
use tidegate_sink::*;
use tidegate_storage::{Faults, RetryPolicy, Scheme, Store};

pub const MS: fn(u64) -> Duration = Duration::from_millis;

pub fn batch(ids: std::ops::Range<i64>) -> RecordBatch {
    let names = StringArray::from_iter(
        ids.clone()
            .map(|id| (id % 3 > 0).then(|| format!("n,\"{id}"))),
    );
    let ids = Arc::new(Int64Array::from_iter_values(ids));
    RecordBatch::try_from_iter_with_nullable([
        ("id", ids as _, false),
        ("name", Arc::new(names) as _, true),
    ])
    .unwrap()
}

/// Batches of 5 rows each; takes its time before every batch, so that checkpoints come between.
#[derive(Clone)]
pub struct Paced(MemorySource);

pub fn rows_in_splits(splits: i64, batches: i64) -> Paced {
    let split = |s: i64| {
        let first = s * batches * 5;
        let batch = |b: i64| batch(first + b * 5..first + b * 5 + 5);
        (format!("split-{s}"), (0..batches).map(batch).collect())
    };
    Paced(MemorySource::new((0..splits).map(split)).unwrap())
}

impl Source for Paced {
    fn name(&self) -> String {
        self.0.name()
    }
    fn identity(&self) -> String {
        self.0.identity()
    }
    fn schema(&self) -> SchemaRef {
        self.0.schema()
    }
    fn boundedness(&self) -> Boundedness {
        self.0.boundedness()
    }
    fn max_open_splits(&self) -> usize {
        2
    }
    fn enumerator<'a>(
        &'a self,
        state: &'a SourceState,
    ) -> BoxFuture<'a, Result<Box<dyn SplitEnumerator>, SourceError>> {
        self.0.enumerator(state)
    }
    fn reader<'a>(
        &'a self,
        split: &'a Split,
    ) -> BoxFuture<'a, Result<Box<dyn SplitReader>, SourceError>> {
        Box::pin(async move {
            let inner = self.0.reader(split).await?;
            Ok(Box::new(PacedReader(inner)) as Box<_>)
        })
    }
}

struct PacedReader(Box<dyn SplitReader>);

impl SplitReader for PacedReader {
    fn next<'a>(&'a mut self) -> BoxFuture<'a, Result<Read, SourceError>> {
        Box::pin(async move {
            tokio::time::sleep(MS(10)).await;
            self.0.next().await
        })
    }
}

/// A place of its own on the S3 server of this process.
pub fn s3() -> Store {
    let server = tidegate_test_services::S3Server::shared().unwrap();
    let prefix = uuid::Uuid::new_v4().simple().to_string();
    Store::open(&server.url(&prefix), &server.options()).unwrap()
}

/// What outlives a process.
pub struct Rig {
    pub store: Store,
    pub format: Format,
    pub source: Paced,
    pub parallelism: usize,
    _dir: Option<tempfile::TempDir>,
}

impl Rig {
    pub fn memory(format: Format, source: Paced) -> Self {
        let store = Store::open("memory://", &BTreeMap::new()).unwrap();
        Self {
            store,
            format,
            source,
            parallelism: 1,
            _dir: None,
        }
    }

    pub fn disk(format: Format, source: Paced) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path().to_str().unwrap(), &BTreeMap::new()).unwrap();
        Self {
            store,
            _dir: Some(dir),
            ..Self::memory(format, source)
        }
    }

    pub fn s3(format: Format, source: Paced) -> Self {
        Self {
            store: s3(),
            ..Self::memory(format, source)
        }
    }

    pub fn parallel(mut self, parallelism: usize) -> Self {
        self.parallelism = parallelism;
        self
    }

    /// Time is paused but where a real server answers.
    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        match self.store.capabilities().scheme {
            Scheme::S3 => {
                let mut builder = tokio::runtime::Builder::new_current_thread();
                builder.enable_all().build().unwrap().block_on(future)
            }
            _ => block_on(future),
        }
    }

    pub fn target_on(&self, store: &Store) -> FilesTarget {
        FilesTarget::new(store.child("rows"), self.format).roll_at(200)
    }

    pub fn target(&self) -> FilesTarget {
        self.target_on(&self.store)
    }

    pub fn job_on(&self, store: &Store) -> Job {
        let target = self.target_on(store);
        let mut settings = Settings {
            parallelism: self.parallelism,
            ..Settings::default()
        };
        settings.checkpoints.interval = Some(MS(12));
        settings.restart = RestartStrategy::None;
        settings.commits.give_up_at_end = MS(500);
        Job::builder(JobName::new("orders").unwrap())
            .source(self.source.clone())
            .checkpoints(CheckpointStore::new(store.child("checkpoints")))
            .registry(Registry::new(target.control()))
            .target(Arc::new(target))
            .settings(settings)
            .build()
            .unwrap()
    }

    pub async fn run(&self) -> Result<JobEnd, RuntimeError> {
        self.job_on(&self.store).run(StopSignal::never()).await
    }

    /// A process whose requests meet these faults; each is told at once.
    pub async fn run_with(&self, faults: &Faults) -> Result<JobEnd, RuntimeError> {
        let store = self
            .store
            .clone()
            .with_retry(RetryPolicy::none())
            .with_faults(faults.clone());
        self.job_on(&store).run(StopSignal::never()).await
    }

    pub async fn finish(&self) {
        match self.run().await {
            Ok(JobEnd::Finished(_) | JobEnd::NothingNew) => {}
            other => panic!("{other:?}"),
        }
    }

    /// What somebody sees who knows nothing of us: files by pattern.
    pub async fn plain_rows(&self) -> Vec<i64> {
        let rows = self.store.child("rows");
        let ending = format!(".{}", self.format.extension());
        let mut ids = Vec::new();
        for entry in rows.list_names("").await.unwrap() {
            if entry.name.starts_with('_') || !entry.name.ends_with(&ending) {
                continue;
            }
            let bytes = rows.get(&entry.name).await.unwrap();
            ids.extend(ids_of(self.format, bytes));
        }
        ids.sort_unstable();
        ids
    }

    /// What an exact reader sees.
    pub async fn committed_rows(&self) -> Vec<i64> {
        let rows = self.store.child("rows");
        let mut ids = Vec::new();
        for committed in self.target().committed().await.unwrap() {
            let bytes = rows.get(&committed.path).await.unwrap();
            assert_eq!(bytes.len() as u64, committed.file.bytes);
            ids.extend(ids_of(self.format, bytes));
        }
        ids.sort_unstable();
        ids
    }

    /// More rows come.
    pub fn grow(&self, ids: std::ops::Range<i64>) {
        self.source.0.push("more", batch(ids));
    }

    pub async fn assert_rows(&self, rows: i64, what: &str) {
        let all: Vec<_> = (0..rows).collect();
        assert_eq!(self.plain_rows().await, all, "{what}");
        assert_eq!(self.committed_rows().await, all, "{what}");
    }

    /// Every row once for every reader, nothing left over.
    pub async fn assert_exactly_once(&self, rows: i64, what: &str) {
        self.assert_rows(rows, what).await;
        let pending = self.store.list("rows/_tidegate/pending").await.unwrap();
        assert!(pending.is_empty(), "{what}: {pending:?}");
        if self.store.capabilities().lists_unfinished {
            let left = self.store.list_unfinished("rows").await.unwrap();
            assert!(left.is_empty(), "{what}: {left:?}");
        }
    }
}

pub fn ids_of(format: Format, bytes: bytes::Bytes) -> Vec<i64> {
    let ids = |batch: RecordBatch| {
        batch
            .column(0)
            .as_primitive::<Int64Type>()
            .values()
            .to_vec()
    };
    let schema = batch(0..1).schema();
    match format {
        Format::Parquet => {
            let reader = ParquetRecordBatchReaderBuilder::try_new(bytes)
                .unwrap()
                .build()
                .unwrap();
            reader.flat_map(|batch| ids(batch.unwrap())).collect()
        }
        Format::Csv => {
            let builder = arrow::csv::ReaderBuilder::new(schema).with_header(true);
            let reader = builder.build(&bytes[..]).unwrap();
            reader.flat_map(|batch| ids(batch.unwrap())).collect()
        }
        Format::JsonLines => {
            let reader = arrow::json::ReaderBuilder::new(schema)
                .build(&bytes[..])
                .unwrap();
            reader.flat_map(|batch| ids(batch.unwrap())).collect()
        }
    }
}

thread_local! {
    static CRASH: RefCell<Option<(&'static str, u32)>> = const { RefCell::new(None) };
}

fn hook(name: &'static str) {
    let crash = CRASH.with_borrow_mut(|crash| match crash {
        Some((at, nth)) if *at == name => {
            *nth -= 1;
            *nth == 0
        }
        _ => false,
    });
    if crash {
        CRASH.set(None);
        resume_unwind(Box::new("the process is gone"));
    }
}

/// Runs until the place is passed the nth time; `true` if it was.
pub fn crash_at(rig: &Rig, place: &'static str, nth: u32) -> bool {
    probe::set(Some(hook));
    CRASH.set(Some((place, nth)));
    let crashed = catch_unwind(AssertUnwindSafe(|| rig.block_on(rig.run())));
    CRASH.set(None);
    match crashed {
        Ok(Ok(JobEnd::Finished(_) | JobEnd::NothingNew)) => false,
        Ok(other) => panic!("{other:?}"),
        Err(payload) if payload.is::<&str>() => true,
        Err(payload) => resume_unwind(payload),
    }
}

pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap()
        .block_on(future)
}
