//! The single-task stream into a real table: exactly once, whatever happens to it.

// Helpers may panic as the tests do.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::large_futures,
    clippy::result_large_err
)]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use arrow::array::{AsArray, Int64Array, RecordBatch};
use arrow::datatypes::Int64Type;
use futures::TryStreamExt;
use tidegate::model::{DataField, Options, TableSchema};
use tidegate::sink::{ErrorKind, probe};
use tidegate::storage::{Fault, Faults, RetryPolicy, Rule, Store};
use tidegate::{Result, Stream, Table};

const ROWS: i64 = 30;

fn batch(ids: std::ops::Range<i64>) -> RecordBatch {
    let ids = Arc::new(Int64Array::from_iter_values(ids));
    RecordBatch::try_from_iter_with_nullable([("id", ids as _, true)]).unwrap()
}

/// What outlives a process: one store for table and checkpoints.
struct Rig {
    store: Store,
    _dir: Option<tempfile::TempDir>,
}

impl Rig {
    async fn new(store: Store, buckets: bool) -> Self {
        let options: &[(&str, &str)] = match buckets {
            true => &[("bucket", "2"), ("bucket-key", "id")],
            false => &[],
        };
        let columns = vec![DataField::new("id", "BIGINT".parse().unwrap())];
        let options: Options = options.iter().copied().collect();
        let schema = TableSchema::create(columns, vec![], vec![], options, None, 0).unwrap();
        tidegate::commit::create_table(&store.child("table"), &schema)
            .await
            .unwrap();
        Self { store, _dir: None }
    }

    async fn memory(buckets: bool) -> Self {
        Self::new(Store::open("memory://", &BTreeMap::new()).unwrap(), buckets).await
    }

    async fn disk() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path().to_str().unwrap(), &BTreeMap::new()).unwrap();
        Self {
            _dir: Some(dir),
            ..Self::new(store, false).await
        }
    }

    async fn open_on(&self, store: &Store, job: &str) -> Result<Stream> {
        let table = Table::on(store.child("table"), "shop.orders".into()).await?;
        table
            .stream(job)?
            .checkpoint_store(store.child("checkpoints"))
            .open()
            .await
    }

    async fn open(&self) -> Result<Stream> {
        self.open_on(&self.store, "orders").await
    }

    /// A program: goes on where it was, 5 rows a batch, a checkpoint every 2 batches.
    async fn program(&self, store: &Store) -> Result<()> {
        let mut stream = self.open_on(store, "orders").await?;
        let mut from = position(&stream);
        let mut batches = 0;
        while from < ROWS {
            write(&mut stream, from).await?;
            from += 5;
            batches += 1;
            if batches % 2 == 0 {
                stream.checkpoint().await?;
            }
        }
        stream.finish().await?;
        Ok(())
    }

    async fn run(&self) -> Result<()> {
        self.program(&self.store).await
    }

    async fn rows(&self) -> Vec<i64> {
        let table = Table::on(self.store.child("table"), "shop.orders".into())
            .await
            .unwrap();
        let plan = table.scan(&Default::default()).await.unwrap();
        let batches: Vec<RecordBatch> = plan.read().unwrap().try_collect().await.unwrap();
        let ids = |b: &RecordBatch| b.column(0).as_primitive::<Int64Type>().values().to_vec();
        let mut ids: Vec<_> = batches.iter().flat_map(ids).collect();
        ids.sort_unstable();
        ids
    }

    async fn assert_exactly_once(&self, what: &str) {
        assert_eq!(self.rows().await, (0..ROWS).collect::<Vec<_>>(), "{what}");
        let table = Table::on(self.store.child("table"), "shop.orders".into())
            .await
            .unwrap();
        let report = tidegate::verify::verify(&table).await.unwrap();
        assert_eq!(report.errors(), 0, "{what}: {report:?}");
    }
}

fn position(stream: &Stream) -> i64 {
    stream
        .position()
        .map_or(0, |p| i64::from_be_bytes(p.try_into().unwrap()))
}

async fn write(stream: &mut Stream, from: i64) -> Result<()> {
    stream
        .write(&batch(from..from + 5), &(from + 5).to_be_bytes())
        .await
}

/// The process dies at request `nth`; `false` once it has fewer.
async fn dies_at(rig: &Rig, fault: Fault, nth: u32) -> bool {
    let faults = Faults::new();
    faults.rule(Rule::new(fault).nth(nth));
    let store = rig
        .store
        .clone()
        .with_retry(RetryPolicy::none())
        .with_faults(faults.clone());
    let ended = rig.program(&store).await;
    assert!(faults.dead() || ended.is_ok(), "{ended:?}");
    rig.run().await.unwrap();
    rig.assert_exactly_once(&format!("{fault:?} at request {nth}"))
        .await;
    faults.dead()
}

#[tokio::test(start_paused = true)]
async fn killed_at_every_request_every_row_is_there_once_in_memory() {
    for buckets in [false, true] {
        for fault in [Fault::DieBefore, Fault::DieAfter] {
            let mut nth = 1;
            while dies_at(&Rig::memory(buckets).await, fault, nth).await {
                nth += 1;
            }
            assert!(nth > 40, "{nth} requests are few");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn killed_at_many_requests_every_row_is_there_once_on_disk() {
    for nth in (1..).step_by(5) {
        if !dies_at(&Rig::disk().await, Fault::DieAfter, nth).await {
            assert!(nth > 40, "{nth} requests are few");
            return;
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

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().unwrap().block_on(future)
}

#[test]
fn killed_at_every_place_every_row_is_there_once() {
    for place in probe::ALL {
        for nth in 1..=2 {
            let rig = block_on(Rig::memory(false));
            probe::set(Some(hook));
            CRASH.set(Some((place, nth)));
            let crashed = catch_unwind(AssertUnwindSafe(|| block_on(rig.run())));
            CRASH.set(None);
            assert!(crashed.is_err(), "{place} was not passed {nth} times");
            block_on(rig.run()).unwrap();
            block_on(rig.assert_exactly_once(&format!("{place} {nth}")));
        }
    }
}

/// Polls a future so often, then drops it; `true` if it ended before.
async fn poll_times<T>(future: impl Future<Output = T>, times: u32) -> Option<T> {
    let mut future = pin!(future);
    let mut left = times;
    std::future::poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        future.as_mut().poll(context).map(Some)
    })
    .await
}

/// The whole program is dropped at any await: each request to the store is one.
#[tokio::test(start_paused = true)]
async fn a_stream_that_ended_without_rows_is_still_at_the_very_start() {
    let rig = Rig::memory(false).await;
    rig.open().await.unwrap().finish().await.unwrap();
    assert_eq!(rig.open().await.unwrap().position(), None);
    rig.run().await.unwrap();
    rig.assert_exactly_once("after a run without rows").await;
}

#[tokio::test(start_paused = true)]
async fn r_18_dropped_at_any_await_every_row_is_there_once() {
    for polls in 1.. {
        let rig = Rig::memory(false).await;
        let faults = Faults::new();
        faults.latency(Duration::from_millis(1));
        let store = rig.store.clone().with_faults(faults);
        let ended = poll_times(rig.program(&store), polls).await;
        rig.run().await.unwrap();
        rig.assert_exactly_once(&format!("dropped after {polls} polls"))
            .await;
        if ended.is_some() {
            assert!(polls > 40, "{polls} polls are few");
            return;
        }
    }
}

/// Only the call is dropped and the same stream is used on: it goes on rightly, or says that
/// it must be opened again; never with something half-done.
#[tokio::test(start_paused = true)]
async fn r_18_a_dropped_checkpoint_is_settled_by_the_next_one_or_refused() {
    let (mut settled, mut refused) = (0, 0);
    for polls in 1.. {
        let rig = Rig::memory(false).await;
        let faults = Faults::new();
        let store = rig.store.clone().with_faults(faults.clone());
        let mut stream = rig.open_on(&store, "orders").await.unwrap();
        write(&mut stream, 0).await.unwrap();
        faults.latency(Duration::from_millis(1));
        let ended = poll_times(stream.checkpoint(), polls).await;
        faults.heal();
        match stream.checkpoint().await {
            Ok(_) => settled += 1,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
                refused += 1;
            }
        }
        drop(stream);
        rig.run().await.unwrap();
        rig.assert_exactly_once(&format!("dropped after {polls} polls"))
            .await;
        if ended.is_some() {
            assert!(
                settled > 5 && refused > 0,
                "{settled} settled, {refused} refused"
            );
            return;
        }
    }
}

/// One request fails or its answer is lost; the same stream tries again.
#[tokio::test(start_paused = true)]
async fn r_6_a_checkpoint_that_failed_is_settled_by_the_next_one() {
    for fault in [
        Fault::After,
        Fault::Before(tidegate::storage::ErrorKind::Transient),
    ] {
        for nth in 1.. {
            let rig = Rig::memory(false).await;
            let faults = Faults::new();
            let store = rig
                .store
                .clone()
                .with_retry(RetryPolicy::none())
                .with_faults(faults.clone());
            let mut stream = rig.open_on(&store, "orders").await.unwrap();
            write(&mut stream, 0).await.unwrap();
            faults.rule(Rule::new(fault).nth(nth));
            let mut ended = stream.checkpoint().await;
            let struck = !faults.log().is_empty();
            if ended.is_err() {
                ended = stream.checkpoint().await;
            }
            // A data file that may not be whole ends the stream, nothing else does.
            match ended {
                Ok(done) => assert!(done.is_some()),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}"),
            }
            drop(stream);
            rig.run().await.unwrap();
            rig.assert_exactly_once(&format!("{fault:?} at request {nth}"))
                .await;
            if !struck {
                assert!(nth > 5, "{nth} requests are few");
                break;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn it_goes_on_from_the_position_of_its_last_checkpoint() {
    let rig = Rig::memory(false).await;
    let mut stream = rig.open().await.unwrap();
    assert_eq!(stream.position(), None);
    write(&mut stream, 0).await.unwrap();
    stream.checkpoint().await.unwrap();
    write(&mut stream, 5).await.unwrap();
    stream.abort().await.unwrap();
    let stream = rig.open().await.unwrap();
    assert_eq!(position(&stream), 5);
    assert_eq!(rig.rows().await, (0..5).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_checkpoint_without_rows_makes_nothing() {
    let rig = Rig::memory(false).await;
    let mut stream = rig.open().await.unwrap();
    write(&mut stream, 0).await.unwrap();
    let first = stream.checkpoint().await.unwrap();
    let before = rig.store.list("").await.unwrap();
    assert_eq!(stream.checkpoint().await.unwrap(), first);
    assert_eq!(rig.store.list("").await.unwrap(), before);
}

#[tokio::test(start_paused = true)]
async fn it_refuses_to_start_anew_where_the_table_has_its_commits() {
    let rig = Rig::memory(false).await;
    rig.run().await.unwrap();
    for object in rig.store.list("checkpoints").await.unwrap() {
        rig.store.delete(&object.path).await.unwrap();
    }
    let error = rig.open().await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Mismatch, "{error}");
    assert!(error.to_string().contains("orders"), "{error}");
    assert_eq!(rig.rows().await.len(), ROWS as usize, "nothing was touched");
    // Another job is none of its business.
    rig.open_on(&rig.store, "other").await.unwrap();
}

/// An older checkpoint than the table's newest commit: said in words, nothing touched.
#[tokio::test(start_paused = true)]
async fn it_refuses_to_go_on_from_an_older_checkpoint_and_says_what_the_table_has_more() {
    let rig = Rig::memory(false).await;
    rig.run().await.unwrap();
    let mut records = rig.store.list("checkpoints").await.unwrap();
    records.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(records.len() > 1, "{records:?}");
    for newer in &records[1..] {
        rig.store.delete(&newer.path).await.unwrap();
    }
    let error = rig.open().await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Mismatch, "{error}");
    let text = error.to_string();
    assert!(
        text.contains("commits of this job that the checkpoint knows nothing of"),
        "{text}"
    );
    assert!(!text.contains("CommitIdentifier("), "{text}");
    assert_eq!(rig.rows().await.len(), ROWS as usize, "nothing was touched");
}

/// Two streams of one job: the one that publishes first goes on, the other is told.
#[tokio::test(start_paused = true)]
async fn r_5_of_two_streams_of_one_job_the_older_is_fenced_by_the_newer() {
    let rig = Rig::memory(false).await;
    let mut old = rig.open().await.unwrap();
    write(&mut old, 0).await.unwrap();
    old.checkpoint().await.unwrap();
    let mut new = rig.open().await.unwrap();
    assert_eq!(position(&new), 5);
    write(&mut new, 5).await.unwrap();
    new.checkpoint().await.unwrap();
    write(&mut old, 5).await.unwrap();
    let error = old.checkpoint().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Fenced, "{error}");
    write(&mut new, 10).await.unwrap();
    new.finish().await.unwrap();
    rig.run().await.unwrap();
    rig.assert_exactly_once("two streams").await;
}

#[tokio::test]
async fn what_killed_creations_left_beside_schemas_is_removed_by_the_next_run() {
    let rig = Rig::disk().await;
    let schemas = rig._dir.as_ref().unwrap().path().join("table/schema");
    let leave = |name: &str| {
        let path = schemas.join(format!("{name}.0123456789abcdef0123456789abcdef.tmp"));
        std::fs::write(&path, "{").unwrap();
        path
    };
    let gone = leave(".schema-0");
    // Somebody is making it, or was; and not a schema's.
    let stay = [leave(".schema-1"), leave(".notes")];
    rig.run().await.unwrap();
    assert!(!gone.exists());
    assert!(stay.iter().all(|path| path.exists()), "{stay:?}");
    rig.assert_exactly_once("beside temporary files").await;
}

#[tokio::test]
async fn what_a_killed_probe_left_is_removed_by_the_next_run() {
    for rig in [Rig::memory(false).await, Rig::disk().await] {
        let put = async |name: &str| {
            let path = format!("table/{name}");
            rig.store.put(&path, "first".into()).await.unwrap();
            path
        };
        let gone = put(".tidegate-probe-0123456789abcdef0123456789abcdef").await;
        let stay = [
            put(".tidegate-probe-mine").await,
            put("sub/.tidegate-probe-0123456789abcdef0123456789abcdef").await,
        ];
        rig.run().await.unwrap();
        assert_eq!(rig.store.head(&gone).await.unwrap(), None);
        for path in stay {
            assert!(rig.store.head(&path).await.unwrap().is_some(), "{path}");
        }
    }
}

/// What recovery publishes is of the new run, and yet nothing is removed before that has a record of
/// its own: without one an older run might still write its next.
#[test]
fn r_13_left_overs_stay_until_the_stream_has_a_record_of_its_own() {
    let rig = block_on(Rig::memory(false));
    // Recorded, and killed before it was published.
    probe::set(Some(hook));
    CRASH.set(Some((probe::RECORDED, 1)));
    let killed = catch_unwind(AssertUnwindSafe(|| block_on(rig.run())));
    CRASH.set(None);
    assert!(killed.is_err());
    block_on(async {
        let listed = rig.store.list("table/bucket-0").await.unwrap();
        let (folder, name) = listed[0].path.rsplit_once('/').unwrap();
        let left = format!("{folder}/{}", name.replacen("-0.parquet", "-99.parquet", 1));
        assert_ne!(left, listed[0].path);
        rig.store.put(&left, "left behind".into()).await.unwrap();
        let there = async || rig.store.head(&left).await.unwrap().is_some();
        let mut stream = rig.open().await.unwrap();
        let from = position(&stream);
        assert!(from > 0, "published by recovery");
        stream.checkpoint().await.unwrap();
        assert!(there().await, "no record of this run so far");
        write(&mut stream, from).await.unwrap();
        stream.checkpoint().await.unwrap();
        assert!(!there().await);
    });
}
