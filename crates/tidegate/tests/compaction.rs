//! A dedicated compaction beside a writer, each request where a test wants it.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::large_futures)]

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::Int64Type;
use futures::TryStreamExt;
use futures::future::BoxFuture;
use tidegate::model::{DataField, Options, TableSchema};
use tidegate::storage::{Decider, Fault, Faults, Op, Store};
use tidegate::{CompactOptions, Stream, Table};
use tokio::sync::Semaphore;

/// Holds every creation of a snapshot until it may go on.
#[derive(Debug)]
struct Gate {
    reached: Arc<Semaphore>,
    open: Arc<Semaphore>,
}

impl Decider for Gate {
    fn decide(&self, op: Op, path: &str) -> BoxFuture<'static, Option<Fault>> {
        let (reached, open) = (self.reached.clone(), self.open.clone());
        let held = op == Op::Create && path.contains("snapshot/snapshot-");
        Box::pin(async move {
            if held {
                reached.add_permits(1);
                open.acquire().await.unwrap().forget();
            }
            None
        })
    }
}

async fn table(store: &Store) -> Table {
    Table::on(store.child("table"), "t".into()).await.unwrap()
}

async fn stream(store: &Store) -> Stream {
    let stream = table(store).await.stream("job").unwrap();
    let stream = stream.checkpoint_store(store.child("checkpoints"));
    stream.open().await.unwrap()
}

async fn commit(stream: &mut Stream, rows: &[(i64, &str)]) {
    let keys = Int64Array::from_iter_values(rows.iter().map(|r| r.0));
    let values = StringArray::from_iter_values(rows.iter().map(|r| r.1));
    let batch = RecordBatch::try_from_iter_with_nullable([
        ("k", Arc::new(keys) as Arc<dyn Array>, false),
        ("v", Arc::new(values) as _, true),
    ]);
    stream.write(&batch.unwrap(), b"on").await.unwrap();
    stream.checkpoint().await.unwrap();
}

async fn rows(store: &Store) -> BTreeMap<i64, String> {
    let plan = table(store).await.scan(&Default::default()).await.unwrap();
    let batches: Vec<RecordBatch> = plan.read().unwrap().try_collect().await.unwrap();
    let mut found = BTreeMap::new();
    for batch in batches {
        let keys = batch["k"].as_primitive::<Int64Type>();
        let values = batch["v"].as_string::<i32>();
        for row in 0..batch.num_rows() {
            let before = found.insert(keys.value(row), values.value(row).to_owned());
            assert_eq!(before, None, "key {} twice", keys.value(row));
        }
    }
    found
}

/// The compaction has read, and written its files, when it is held; what is committed meanwhile stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn b35_1_a_compaction_held_before_it_publishes_swallows_nothing_that_came_meanwhile() {
    let store = Store::open("memory://", &BTreeMap::new()).unwrap();
    let columns = [("k", "BIGINT"), ("v", "STRING")];
    let columns = columns.map(|(name, of)| DataField::new(name, of.parse().unwrap()));
    let options: Options = [("bucket", "1"), ("write-only", "true")]
        .into_iter()
        .collect();
    let key = vec!["k".to_owned()];
    let schema = TableSchema::create(columns.to_vec(), vec![], key, options, None, 0).unwrap();
    tidegate::commit::create_table(&store.child("table"), &schema)
        .await
        .unwrap();
    let mut writer = stream(&store).await;
    for k in 1..=4 {
        commit(&mut writer, &[(k, "old")]).await;
    }
    let (reached, open) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let gate = Gate {
        reached: reached.clone(),
        open: open.clone(),
    };
    let gated = store
        .clone()
        .with_faults(Faults::decided_by(Arc::new(gate)));
    let compacted = table(&gated).await;
    let compaction = tokio::spawn(async move {
        let options = CompactOptions {
            full: true,
            ..CompactOptions::default()
        };
        compacted.compact("compactor", options).await
    });
    reached.acquire().await.unwrap().forget();
    commit(&mut writer, &[(2, "new"), (666, "new")]).await;
    // For the attempt that is held, and for those after the lost race.
    open.add_permits(10);
    let report = compaction.await.unwrap().unwrap();
    assert_eq!((report.before.0, report.after.0), (4, 1));
    assert_eq!(report.snapshots, [6], "behind the writer's");
    let row = |k: i64, v: &str| (k, v.to_owned());
    let wanted = [
        row(1, "old"),
        row(2, "new"),
        row(3, "old"),
        row(4, "old"),
        row(666, "new"),
    ];
    assert_eq!(rows(&store).await, wanted.into());
    let report = tidegate::verify::verify(&table(&store).await)
        .await
        .unwrap();
    assert_eq!((report.errors(), report.unknown.0), (0, 0), "{report:?}");
}
