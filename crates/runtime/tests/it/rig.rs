//! A job on a lake in memory, put together anew for every start.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{Int64Array, RecordBatch};
use arrow::datatypes::SchemaRef;
use tidegate_recovery::{CheckpointRecord, CheckpointStore, Registry};
use tidegate_runtime::source::*;
use tidegate_runtime::*;
use tidegate_sink::*;
use tidegate_storage::Store;

use crate::lake::Lake;

pub const MS: fn(u64) -> Duration = Duration::from_millis;

pub fn batch(ids: std::ops::Range<i64>) -> RecordBatch {
    let ids = Arc::new(Int64Array::from_iter_values(ids));
    RecordBatch::try_from_iter([("id", ids as _)]).unwrap()
}

/// Batches of 5 rows each, `batches` per split.
pub fn rows_in_splits(splits: i64, batches: i64) -> MemorySource {
    let split = |s: i64| {
        let first = s * batches * 5;
        let batch = |b: i64| batch(first + b * 5..first + b * 5 + 5);
        (format!("split-{s}"), (0..batches).map(batch).collect())
    };
    MemorySource::new((0..splits).map(split)).unwrap()
}

/// A source that takes its time before every batch, and can break.
#[derive(Clone)]
pub struct Paced {
    pub inner: MemorySource,
    pub pace: Duration,
    pub open_splits: usize,
    /// Errors to give, one per batch.
    pub errors: Arc<std::sync::Mutex<Vec<SourceError>>>,
}

impl Paced {
    pub fn new(inner: MemorySource) -> Self {
        Self {
            inner,
            pace: MS(10),
            open_splits: 2,
            errors: Arc::default(),
        }
    }
}

impl Source for Paced {
    fn name(&self) -> String {
        self.inner.name()
    }
    fn identity(&self) -> String {
        self.inner.identity()
    }
    fn schema(&self) -> SchemaRef {
        self.inner.schema()
    }
    fn boundedness(&self) -> Boundedness {
        self.inner.boundedness()
    }
    fn max_open_splits(&self) -> usize {
        self.open_splits
    }
    fn discovery_interval(&self) -> Duration {
        MS(50)
    }
    fn poll_interval(&self) -> Duration {
        MS(20)
    }
    fn enumerator<'a>(
        &'a self,
        state: &'a SourceState,
    ) -> BoxFuture<'a, Result<Box<dyn SplitEnumerator>, SourceError>> {
        self.inner.enumerator(state)
    }
    fn reader<'a>(
        &'a self,
        split: &'a Split,
    ) -> BoxFuture<'a, Result<Box<dyn SplitReader>, SourceError>> {
        Box::pin(async move {
            let inner = self.inner.reader(split).await?;
            Ok(Box::new(PacedReader {
                inner,
                paced: self.clone(),
            }) as Box<_>)
        })
    }
}

struct PacedReader {
    inner: Box<dyn SplitReader>,
    paced: Paced,
}

impl SplitReader for PacedReader {
    fn next<'a>(&'a mut self) -> BoxFuture<'a, Result<Read, SourceError>> {
        Box::pin(async move {
            tokio::time::sleep(self.paced.pace).await;
            let error = self.paced.errors.lock().unwrap().pop();
            match error {
                Some(error) => Err(error),
                None => self.inner.next().await,
            }
        })
    }
}

/// What outlives a process.
pub struct Rig {
    pub lake: Lake,
    pub store: Store,
    pub source: Paced,
    pub settings: Settings,
}

pub fn job() -> JobName {
    JobName::new("orders").unwrap()
}

impl Rig {
    pub fn new(source: MemorySource) -> Self {
        let mut settings = Settings::default();
        settings.checkpoints.interval = Some(MS(35));
        Self {
            lake: Lake::default(),
            store: Store::open("memory://", &BTreeMap::new()).unwrap(),
            source: Paced::new(source),
            settings,
        }
    }

    pub fn parallel(mut self, parallelism: usize) -> Self {
        self.settings.parallelism = parallelism;
        self
    }

    pub fn checkpoints(&self) -> CheckpointStore {
        CheckpointStore::new(self.store.child("checkpoints"))
    }

    pub fn registry(&self) -> Registry {
        Registry::new(self.store.child("table"))
    }

    pub fn job_named(&self, name: &str, settings: Settings) -> Job {
        Job::builder(JobName::new(name).unwrap())
            .source(self.source.clone())
            .target(Arc::new(self.lake.clone()))
            .checkpoints(self.checkpoints())
            .registry(self.registry())
            .settings(settings)
            .build()
            .unwrap()
    }

    pub fn job(&self) -> Job {
        self.job_named("orders", self.settings.clone())
    }

    pub async fn run(&self) -> Result<JobEnd, RuntimeError> {
        self.job().run(StopSignal::never()).await
    }

    pub async fn run_with(
        &self,
        change: impl FnOnce(&mut Settings),
    ) -> Result<JobEnd, RuntimeError> {
        let mut settings = self.settings.clone();
        change(&mut settings);
        self.job_named("orders", settings)
            .run(StopSignal::never())
            .await
    }

    pub async fn finish(&self) -> Summary {
        match self.run().await {
            Ok(JobEnd::Finished(summary)) => summary,
            other => panic!("{other:?}"),
        }
    }

    /// Runs for a while, then the process is gone.
    pub async fn killed_after(&self, time: Duration) {
        let _ = tokio::time::timeout(time, self.run()).await;
    }

    pub async fn user(&self) -> CommitUser {
        self.registry().job(&job()).await.unwrap().user().unwrap()
    }

    pub async fn records(&self) -> Vec<CheckpointRecord> {
        let mut records = self.checkpoints().job(&job(), &self.user().await);
        records.load().await.unwrap();
        let mut all = Vec::new();
        for listed in records.list() {
            all.push(records.read(listed.id).await.unwrap());
        }
        all
    }

    pub fn assert_exactly_once(&self, rows: i64) {
        assert_eq!(self.lake.rows(), (0..rows).collect::<Vec<_>>());
        assert_eq!(self.lake.orphans(), Vec::<String>::new());
        let ids = self.lake.identifiers();
        assert!(
            ids.windows(2).all(|w| w[0] < w[1]),
            "identifiers grow: {ids:?}"
        );
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

/// Runs on a runtime of its own with paused time until the place is passed the nth time; `true` if
/// it was.
pub fn crash_at(rig: &Rig, place: &'static str, nth: u32) -> bool {
    probe::set(Some(hook));
    CRASH.set(Some((place, nth)));
    let crashed = catch_unwind(AssertUnwindSafe(|| block_on(rig.run())));
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
