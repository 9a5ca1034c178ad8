//! Stores and disks that fail, futures that are dropped.

use std::time::Duration;

use tidegate_sink::ErrorKind;
use tidegate_storage::{ErrorKind as StoreKind, Fault, Faults, Op, RetryPolicy, Rule};
use tidegate_writer::WriterError;

use crate::support::{Table, orders};

fn quick() -> RetryPolicy {
    RetryPolicy {
        attempts: 3,
        base: Duration::from_millis(1),
        cap: Duration::from_millis(2),
        ..RetryPolicy::default()
    }
}

fn faulty(mut table: Table) -> (Table, Faults) {
    let faults = Faults::new();
    table.store = table.store.with_retry(quick()).with_faults(faults.clone());
    (table, faults)
}

/// Rows that are larger than one part of an upload.
fn large(first: i64) -> arrow::array::RecordBatch {
    let texts: Vec<String> = (0..30_000)
        .map(|i: i64| format!("{}", i.wrapping_mul(0x9e37_79b9_7f4a_7c15u64 as i64)))
        .collect();
    let rows: Vec<_> = (first..)
        .zip(&texts)
        .map(|(id, text)| (id, Some(text.as_str())))
        .collect();
    orders(&rows)
}

#[tokio::test(flavor = "multi_thread")]
async fn b24_a_completing_call_that_fails_once_is_repeated() {
    for op in [Op::CompleteUpload, Op::PutPart] {
        let (table, faults) = faulty(Table::orders(&[], &[("file.compression", "none")]));
        faults.rule(Rule::new(Fault::Before(StoreKind::Transient)).on(op));
        let mut writer = table.writer();
        writer.write(&large(0)).await.unwrap();
        let messages = writer.prepare().await.unwrap();
        assert_eq!(faults.log().len(), 1, "{op} was never asked for");
        assert_eq!(table.ids(&messages[0]).await.len(), 30_000);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b24_a_completing_call_that_fails_for_good_fails_the_checkpoint_and_abort_leaves_nothing() {
    let (table, faults) = faulty(Table::orders(&[], &[("file.compression", "none")]));
    faults.rule(
        Rule::new(Fault::Before(StoreKind::Transient))
            .on(Op::CompleteUpload)
            .always(),
    );
    let mut writer = table.writer();
    writer.write(&large(0)).await.unwrap();
    let error = writer.prepare().await.unwrap_err();
    assert!(matches!(error, WriterError::Upload { .. }), "{error}");
    assert_eq!(error.kind(), ErrorKind::Transient);
    // Nothing can be handed over by this writer now.
    assert!(matches!(
        writer.prepare().await,
        Err(WriterError::Unusable(_))
    ));
    assert!(matches!(
        writer.write(&large(0)).await,
        Err(WriterError::Unusable(_))
    ));
    faults.heal();
    writer.abort().await.unwrap();
    assert_eq!(table.objects().await, Vec::<String>::new());
    assert!(table.store.list_unfinished("").await.unwrap().is_empty());
    // After that it is as new.
    writer.write(&orders(&[(1, None)])).await.unwrap();
    assert_eq!(table.ids(&writer.prepare().await.unwrap()[0]).await, [1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn b24_a_full_store_fails_the_checkpoint_of_many_small_files_and_abort_deletes_those_that_fit()
 {
    let (table, faults) = faulty(Table::orders(&["dt"], &[]));
    let mut writer = table.writer();
    let texts: Vec<String> = (0..500).map(|i| format!("{i}")).collect();
    let rows: Vec<_> = (0..)
        .zip(&texts)
        .map(|(id, dt)| (id, Some(dt.as_str())))
        .collect();
    writer.write(&orders(&rows[..100])).await.unwrap();
    let kept = writer.prepare().await.unwrap();
    faults.rule(
        Rule::new(Fault::Before(StoreKind::Full))
            .path("dt=")
            .nth(200)
            .always(),
    );
    writer.write(&orders(&rows)).await.unwrap();
    let error = writer.prepare().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exhausted, "{error}");
    faults.heal();
    assert!(table.objects().await.len() > 100);
    writer.abort().await.unwrap();
    // What was handed over before stays.
    let mut expected: Vec<String> = kept
        .iter()
        .map(|m| table.path(m, &m.data.new_files[0]))
        .collect();
    expected.sort();
    assert_eq!(table.objects().await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_failed_is_reported_by_a_later_write_already() {
    let options = [
        ("file.compression", "none"),
        ("target-file-row-num", "20000"),
    ];
    let (table, faults) = faulty(Table::orders(&[], &options));
    faults.rule(Rule::new(Fault::Before(StoreKind::PermissionDenied)).always());
    let mut writer = table.writer();
    let mut failed = None;
    for i in 0..1_000 {
        if let Err(error) = writer.write(&large(i * 30_000)).await {
            failed = Some(error);
            break;
        }
    }
    let error = failed.expect("1,000 writes went into a store that refuses everything");
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    writer.abort().await.unwrap_err();
}

#[tokio::test(flavor = "multi_thread")]
async fn r18_a_dropped_prepare_leaves_only_abort_and_no_file() {
    let (table, faults) = faulty(Table::orders(&["dt"], &[]));
    faults.latency(Duration::from_millis(20));
    let mut writer = table.writer();
    let texts: Vec<String> = (0..300).map(|i| format!("{i}")).collect();
    let rows: Vec<_> = (0..)
        .zip(&texts)
        .map(|(id, dt)| (id, Some(dt.as_str())))
        .collect();
    writer.write(&orders(&rows)).await.unwrap();
    let cut = tokio::time::timeout(Duration::from_millis(30), writer.prepare()).await;
    assert!(cut.is_err(), "too quick to be cut off");
    assert!(matches!(
        writer.prepare().await,
        Err(WriterError::Unusable(_))
    ));
    writer.abort().await.unwrap();
    assert_eq!(table.objects().await, Vec::<String>::new());
    assert_eq!(writer.prepare().await.unwrap(), []);
    writer.write(&orders(&rows)).await.unwrap();
    assert_eq!(
        table.rows(&writer.prepare().await.unwrap()).await.len(),
        300
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn r18_dropped_writes_lose_and_double_nothing_but_their_own_batch() {
    let table = Table::orders(&["dt"], &[("file.compression", "none")]).with_budget(256 << 10);
    let mut writer = table.writer();
    let (mut sure, mut maybe) = (Vec::new(), Vec::new());
    for round in 0..200i64 {
        let texts: Vec<String> = (0..100)
            .map(|i| format!("{}", (i * 7 + round) % 150))
            .collect();
        let ids = round * 100..;
        let rows: Vec<_> = ids
            .zip(&texts)
            .map(|(id, dt)| (id, Some(dt.as_str())))
            .collect();
        let batch = orders(&rows);
        // Every fourth is waited for, so that rows between dropped ones are sure; the others are polled a
        // few times only, then dropped.
        let mut write = Box::pin(writer.write(&batch));
        let mut done = round % 4 == 3;
        if done {
            (&mut write).await.unwrap();
        } else {
            for _ in 0..round % 4 {
                if let std::task::Poll::Ready(result) = futures::poll!(&mut write) {
                    result.unwrap();
                    done = true;
                    break;
                }
            }
        }
        drop(write);
        if done { &mut sure } else { &mut maybe }.extend(rows.iter().map(|r| r.0));
    }
    let messages = writer.prepare().await.unwrap();
    let mut ids: Vec<i64> = table
        .rows(&messages)
        .await
        .into_values()
        .flatten()
        .collect();
    ids.sort();
    let count = ids.len();
    ids.dedup();
    assert_eq!(ids.len(), count, "a row twice");
    assert!(
        sure.iter().all(|id| ids.binary_search(id).is_ok()),
        "a row was lost"
    );
    assert!(sure.len() >= 5_000 && maybe.len() >= 5_000);
    assert!(ids.iter().all(|id| sure.contains(id) || maybe.contains(id)));
}

#[tokio::test(flavor = "multi_thread")]
async fn abort_without_anything_written_is_fine_and_repeatable() {
    let table = Table::orders(&[], &[]);
    let mut writer = table.writer();
    writer.abort().await.unwrap();
    writer.abort().await.unwrap();
    writer.write(&orders(&[(1, None)])).await.unwrap();
    writer.abort().await.unwrap();
    assert_eq!(writer.prepare().await.unwrap(), []);
    assert_eq!(table.budget.metrics().used, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn fixed_buckets_keep_their_numbers_over_an_abort() {
    let table = Table::orders(&[], &[("bucket", "1"), ("bucket-key", "id")]);
    let mut writer = table.writer();
    writer
        .write(&orders(&[(1, None), (2, None)]))
        .await
        .unwrap();
    writer.prepare().await.unwrap();
    writer.write(&orders(&[(3, None)])).await.unwrap();
    writer.abort().await.unwrap();
    writer.write(&orders(&[(4, None)])).await.unwrap();
    let messages = writer.prepare().await.unwrap();
    assert_eq!(messages[0].data.new_files[0].min_sequence_number, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_spill_directory_that_cannot_be_made_is_named() {
    let mut table = Table::orders(&["dt"], &[]).with_budget(64 << 10);
    let file = table.spill.path().join("a-file");
    std::fs::write(&file, "").unwrap();
    table.options.spill_directory = file.join("below");
    let mut writer = table.writer();
    let mut failed = None;
    for round in 0..100i64 {
        let texts: Vec<String> = (0..1_000).map(|i| format!("{i}")).collect();
        let rows: Vec<_> = (round * 1_000..)
            .zip(&texts)
            .map(|(id, dt)| (id, Some(dt.as_str())))
            .collect();
        if let Err(error) = writer.write(&orders(&rows)).await {
            failed = Some(error);
            break;
        }
    }
    let error = failed.unwrap();
    assert_eq!(error.kind(), ErrorKind::Exhausted);
    assert!(error.to_string().contains("a-file/below"), "{error}");
    writer.abort().await.unwrap();
}
