//! Many partitions under small budgets: B66.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use proptest::prelude::*;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use tidegate_model::CommitMessage;
use tidegate_writer::BudgetMetrics;

use crate::support::{Table, orders};

/// What each partition and bucket must hold, in order.
#[derive(Default)]
struct Expected(BTreeMap<String, Vec<i64>>);

fn random_rows(
    rng: &mut SmallRng,
    rows: usize,
    partitions: usize,
    next: &mut i64,
) -> (RecordBatch, Vec<(i64, String)>) {
    let list: Vec<(i64, String)> = (0..rows)
        .map(|_| {
            *next += 1;
            (*next, format!("p{}", rng.random_range(0..partitions)))
        })
        .collect();
    let rows: Vec<_> = list
        .iter()
        .map(|(id, dt)| (*id, Some(dt.as_str())))
        .collect();
    (orders(&rows), list)
}

async fn assert_rows(table: &Table, messages: &[CommitMessage], expected: &Expected) {
    let mut found: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for ((partition, bucket), ids) in table.rows(messages).await {
        assert!(
            ids.is_sorted(),
            "{partition} bucket {bucket}: rows changed their order"
        );
        found.entry(partition).or_default().extend(ids);
    }
    found.values_mut().for_each(|ids| ids.sort());
    assert_eq!(found, expected.0);
}

/// Checkpoints of random rows; everything is checked after each.
async fn run(
    table: &Table,
    seed: u64,
    checkpoints: usize,
    batches: usize,
    rows: usize,
    partitions: usize,
) {
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut writer = table.writer();
    let mut next = 0;
    for _ in 0..checkpoints {
        let mut expected = Expected::default();
        for _ in 0..batches {
            let rows = rng.random_range(0..=rows);
            let (batch, list) = random_rows(&mut rng, rows, partitions, &mut next);
            for (id, dt) in list {
                expected.0.entry(format!("dt={dt}")).or_default().push(id);
            }
            writer.write(&batch).await.unwrap();
        }
        let messages = writer.prepare().await.unwrap();
        let files: usize = messages.iter().map(|m| m.data.new_files.len()).sum();
        assert_eq!(
            files,
            messages.len(),
            "more than one file per partition and bucket"
        );
        assert_rows(table, &messages, &expected).await;
    }
    assert_eq!(writer.metrics().early_hand_overs, 0);
    drop(writer);
    assert_eq!(
        table.budget.metrics().used,
        0,
        "memory that nobody gave back"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_row_once_in_order_one_file_per_partition_and_bucket_under_any_budget(
        seed: u64,
        budget in prop::sample::select(vec![64usize << 10, 256 << 10, 1 << 20, 16 << 20]),
        partitions in prop::sample::select(vec![1usize, 3, 40, 400]),
        buckets in prop::sample::select(vec![-1, 1, 4]),
        rows in prop::sample::select(vec![1usize, 50, 3_000]),
    ) {
        let count = buckets.to_string();
        let mut options = vec![("file.compression", "none")];
        if buckets > 0 {
            options.extend([("bucket", count.as_str()), ("bucket-key", "id")]);
        }
        let table = Table::orders(&["dt"], &options).with_budget(budget);
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(run(&table, seed, 2, 20, rows, partitions));
    }
}

fn assert_bounded(memory: &BudgetMetrics) {
    assert!(memory.peak <= memory.limit, "{memory:?}");
    assert_eq!(memory.overdrafts, 0, "{memory:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn b66_5000_partitions_in_random_order_stay_within_the_budget_with_one_file_each() {
    let table = Table::orders(&["dt"], &[("file.compression", "none")]).with_budget(6 << 20);
    let mut dts: Vec<usize> = (0..50_000).map(|i| i % 5_000).collect();
    dts.shuffle(&mut SmallRng::seed_from_u64(7));
    let mut writer = table.writer();
    for (chunk, dts) in dts.chunks(1_000).enumerate() {
        let first = (chunk * 1_000) as i64;
        let ids = Int64Array::from_iter_values(first..first + dts.len() as i64);
        let pad = "x".repeat(400);
        let names: StringArray = dts.iter().map(|_| Some(pad.as_str())).collect();
        let dts: StringArray = dts.iter().map(|dt| Some(format!("day-{dt}"))).collect();
        let batch = RecordBatch::try_from_iter_with_nullable([
            ("id", Arc::new(ids) as ArrayRef, true),
            ("name", Arc::new(names) as ArrayRef, true),
            ("dt", Arc::new(dts) as ArrayRef, true),
        ]);
        writer.write(&batch.unwrap()).await.unwrap();
    }
    let messages = writer.prepare().await.unwrap();
    assert_eq!(messages.len(), 5_000);
    let mut ids = Vec::new();
    for message in &messages {
        assert_eq!(message.data.new_files.len(), 1);
        let own = table.ids(message).await;
        assert_eq!(own.len(), 10);
        assert!(own.is_sorted());
        ids.extend(own);
    }
    ids.sort();
    assert_eq!(ids, (0..50_000).collect::<Vec<_>>());
    let metrics = writer.metrics();
    assert!(metrics.spilled_runs > 2, "{metrics:?}");
    let memory = table.budget.metrics();
    assert_bounded(&memory);
    assert_eq!(
        std::fs::read_dir(table.spill.path()).unwrap().count(),
        0,
        "spill files have no names"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn b66_256_buckets_in_20_partitions_interleaved() {
    let table = Table::orders(
        &["dt"],
        &[
            ("bucket", "256"),
            ("bucket-key", "id"),
            ("file.compression", "none"),
        ],
    )
    .with_budget(5 << 20);
    let mut writer = table.writer();
    let mut expected = Expected::default();
    for batch in 0..100i64 {
        let rows: Vec<(i64, String)> = (0..1000)
            .map(|i| (batch * 1000 + i, format!("{}", i % 20)))
            .collect();
        for (id, dt) in &rows {
            expected.0.entry(format!("dt={dt}")).or_default().push(*id);
        }
        let rows: Vec<_> = rows
            .iter()
            .map(|(id, dt)| (*id, Some(dt.as_str())))
            .collect();
        writer.write(&orders(&rows)).await.unwrap();
    }
    let messages = writer.prepare().await.unwrap();
    assert!(messages.len() > 4_900, "{}", messages.len());
    assert!(messages.iter().all(|m| m.data.new_files.len() == 1));
    assert_rows(&table, &messages, &expected).await;
    let memory = table.budget.metrics();
    assert_bounded(&memory);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_spill_disk_makes_more_files_and_loses_nothing() {
    let mut table = Table::orders(&["dt"], &[("file.compression", "none")]).with_budget(512 << 10);
    table.options.spill_limit = 600 << 10;
    let mut rng = SmallRng::seed_from_u64(3);
    let mut writer = table.writer();
    let mut expected = Expected::default();
    let mut next = 0;
    for _ in 0..60 {
        let (batch, list) = random_rows(&mut rng, 1_000, 300, &mut next);
        for (id, dt) in list {
            expected.0.entry(format!("dt={dt}")).or_default().push(id);
        }
        writer.write(&batch).await.unwrap();
    }
    let messages = writer.prepare().await.unwrap();
    assert!(writer.metrics().early_hand_overs > 0);
    assert!(messages.iter().any(|m| m.data.new_files.len() > 1));
    assert_rows(&table, &messages, &expected).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partition_that_reaches_the_target_size_is_written_out_before_the_barrier() {
    let options = [("file.compression", "none"), ("target-file-size", "100 kb")];
    let table = Table::orders(&["dt"], &options).with_budget(512 << 10);
    let mut rng = SmallRng::seed_from_u64(5);
    let mut writer = table.writer();
    let mut expected = Expected::default();
    let mut next = 0;
    for round in 0..60 {
        let (_, mut list) = random_rows(&mut rng, 800, 400, &mut next);
        // One partition gets far more than all others, thinly spread over all batches.
        for (id, dt) in list.iter_mut().filter(|(id, _)| id % 4 == 0 && round > 5) {
            *dt = format!("big{}", *id % 2);
        }
        for (id, dt) in &list {
            expected.0.entry(format!("dt={dt}")).or_default().push(*id);
        }
        let rows: Vec<_> = list
            .iter()
            .map(|(id, dt)| (*id, Some(dt.as_str())))
            .collect();
        writer.write(&orders(&rows)).await.unwrap();
    }
    let before = writer.metrics().files;
    assert!(before > 0, "nothing was written before the barrier");
    let messages = writer.prepare().await.unwrap();
    for message in &messages {
        let big = message.data.new_files.len() > 1;
        let path = table.path(message, &message.data.new_files[0]);
        assert_eq!(big, path.starts_with("dt=big0"), "{path}");
    }
    assert_rows(&table, &messages, &expected).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn slices_of_one_large_batch_are_charged_once() {
    let table = Table::orders(&["dt"], &[]).with_budget(64 << 20);
    let rows: Vec<_> = (0..200_000)
        .map(|id| (id, Some(if id % 2 == 0 { "a" } else { "b" })))
        .collect();
    let whole = orders(&rows);
    let size = whole.get_array_memory_size();
    let mut writer = table.writer();
    for start in (0..200_000).step_by(1_000) {
        writer.write(&whole.slice(start, 1_000)).await.unwrap();
    }
    let messages = writer.prepare().await.unwrap();
    assert_eq!(
        table
            .rows(&messages)
            .await
            .values()
            .map(Vec::len)
            .sum::<usize>(),
        200_000
    );
    let memory = table.budget.metrics();
    assert!(memory.peak < 4 * size + (8 << 20), "{memory:?} for {size}");
    assert_eq!(writer.metrics().spilled_runs, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_writers_share_one_budget() {
    let one = Table::orders(&["dt"], &[("file.compression", "none")]).with_budget(1 << 20);
    let mut two = Table::orders(&["dt"], &[("file.compression", "none")]);
    two.budget = one.budget.clone();
    two.options.encoder_bytes = one.options.encoder_bytes;
    let task = |table: Table, seed| async move { run(&table, seed, 2, 20, 2_000, 300).await };
    let budget = one.budget.clone();
    let mut writers = (one.writer(), two.writer());
    let mut rng = SmallRng::seed_from_u64(1);
    let mut next = 0;
    for _ in 0..40 {
        let (a, _) = random_rows(&mut rng, 1_000, 300, &mut next);
        let (b, _) = random_rows(&mut rng, 1_000, 300, &mut next);
        let (a, b) = tokio::join!(writers.0.write(&a), writers.1.write(&b));
        a.and(b).unwrap();
    }
    let (a, b) = tokio::join!(writers.0.prepare(), writers.1.prepare());
    assert_eq!((a.unwrap().len(), b.unwrap().len()), (300, 300));
    let memory = budget.metrics();
    assert_bounded(&memory);
    drop(writers);
    task(one, 4).await;
}
