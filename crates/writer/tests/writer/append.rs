//! The life of an append writer: files, names, numbers, rolling, buckets.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch};
use tidegate_model::{BinaryRow, BucketId, FileSource, Level, LogicalType};
use tidegate_sink::{ErrorKind, RowKind, Rows};
use tidegate_writer::{GroupKey, WriterError};

use crate::support::{STRING, Table, orders, schema};

fn numbered(range: std::ops::Range<i64>, dt: impl Fn(i64) -> String) -> RecordBatch {
    let dts: Vec<String> = range.clone().map(dt).collect();
    let rows: Vec<_> = range
        .zip(&dts)
        .map(|(id, dt)| (id, Some(dt.as_str())))
        .collect();
    orders(&rows)
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_an_unpartitioned_table_become_one_file_with_complete_metadata() {
    let table = Table::orders(&[], &[]);
    let mut writer = table.writer();
    writer
        .write(&numbered(0..100, |_| "d".into()))
        .await
        .unwrap();
    writer
        .write(&numbered(100..250, |_| "d".into()))
        .await
        .unwrap();
    let messages = writer.prepare().await.unwrap();
    assert_eq!(messages.len(), 1);
    let message = &messages[0];
    assert_eq!(message.partition, BinaryRow::empty());
    assert_eq!(
        (message.bucket, message.total_buckets),
        (BucketId(0), Some(-1))
    );
    assert_eq!(message.data.new_files.len(), 1);
    let file = &message.data.new_files[0];
    assert!(
        file.file_name.starts_with("data-tg01e1-"),
        "{}",
        file.file_name
    );
    assert!(file.file_name.ends_with("-0.parquet"), "{}", file.file_name);
    assert_eq!(
        (file.min_sequence_number, file.max_sequence_number),
        (0, 249)
    );
    assert_eq!(
        (file.level, file.file_source),
        (Level(0), Some(FileSource::Append))
    );
    assert_eq!(
        (file.delete_row_count, file.creation_time_millis),
        (Some(0), Some(1_700_000_000_000))
    );
    assert_eq!(
        (&file.min_key, &file.max_key),
        (&BinaryRow::empty(), &BinaryRow::empty())
    );
    assert_eq!(file.value_stats.min_values.arity(), 3);
    assert_eq!(table.ids(message).await, (0..250).collect::<Vec<_>>());
    assert_eq!(
        table.objects().await,
        [format!("bucket-0/{}", file.file_name)]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn b26_batches_without_rows_and_checkpoints_without_batches_make_no_file() {
    let table = Table::orders(&["dt"], &[]);
    let mut writer = table.writer();
    writer.write(&orders(&[])).await.unwrap();
    assert_eq!(writer.prepare().await.unwrap(), []);
    assert_eq!(writer.prepare().await.unwrap(), []);
    assert_eq!(table.objects().await, Vec::<String>::new());
    writer.write(&orders(&[(1, Some("a"))])).await.unwrap();
    assert_eq!(writer.prepare().await.unwrap().len(), 1);
    assert_eq!(writer.prepare().await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_without_buckets_begin_at_zero_in_every_checkpoint() {
    let table = Table::orders(&["dt"], &[]);
    let mut writer = table.writer();
    for _ in 0..2 {
        writer
            .write(&orders(&[(1, Some("a")), (2, Some("a")), (3, Some("b"))]))
            .await
            .unwrap();
        let messages = writer.prepare().await.unwrap();
        let ranges: Vec<_> = messages
            .iter()
            .map(|m| {
                (
                    m.data.new_files[0].min_sequence_number,
                    m.data.new_files[0].max_sequence_number,
                )
            })
            .collect();
        assert_eq!(ranges, [(0, 1), (0, 0)]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn files_roll_at_their_target_rows_exactly() {
    let table = Table::orders(&[], &[("target-file-row-num", "1000")]);
    let mut writer = table.writer();
    writer
        .write(&numbered(0..2_500, |_| "d".into()))
        .await
        .unwrap();
    writer
        .write(&numbered(2_500..3_000, |_| "d".into()))
        .await
        .unwrap();
    let messages = writer.prepare().await.unwrap();
    let counts: Vec<_> = messages[0]
        .data
        .new_files
        .iter()
        .map(|f| f.row_count)
        .collect();
    assert_eq!(counts, [1000, 1000, 1000]);
    assert_eq!(
        table.ids(&messages[0]).await,
        (0..3_000).collect::<Vec<_>>()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn files_roll_near_their_target_size() {
    let table = Table::orders(
        &[],
        &[("target-file-size", "256 kb"), ("file.compression", "none")],
    );
    let mut writer = table.writer();
    for i in 0..40 {
        writer
            .write(&numbered(i * 5_000..(i + 1) * 5_000, |id| format!("{id}")))
            .await
            .unwrap();
    }
    let messages = writer.prepare().await.unwrap();
    let files = &messages[0].data.new_files;
    assert!(files.len() > 5, "{} files", files.len());
    for file in &files[..files.len() - 1] {
        assert!(
            (200 << 10..2 << 20).contains(&file.file_size),
            "{}",
            file.file_size
        );
    }
    assert_eq!(
        table.ids(&messages[0]).await,
        (0..200_000).collect::<Vec<_>>()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn one_large_batch_rolls_as_many_small_ones_do() {
    let options = [("target-file-size", "16 kb"), ("file.compression", "none")];
    let table = Table::orders(&[], &options);
    let mut writer = table.writer();
    let rows = numbered(0..5_000, |id| format!("{id}"));
    writer.write(&rows).await.unwrap();
    let messages = writer.prepare().await.unwrap();
    let files = &messages[0].data.new_files;
    let (_, full) = files.split_last().unwrap();
    assert!(full.len() > 3, "{} files", files.len());
    for file in full {
        let size = file.file_size;
        assert!((12 << 10..24 << 10).contains(&size), "{size}");
    }
    let expected: Vec<_> = (0..5_000).collect();
    assert_eq!(table.ids(&messages[0]).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn names_say_directory_partition_bucket_and_codec() {
    let table = Table::orders(
        &["dt"],
        &[
            ("data-file.path-directory", "data"),
            ("file.suffix.include.compression", "true"),
            ("bucket", "2"),
            ("bucket-key", "id"),
        ],
    );
    let mut writer = table.writer();
    writer
        .write(&orders(&[(1, Some("a/b")), (2, None)]))
        .await
        .unwrap();
    let messages = writer.prepare().await.unwrap();
    assert_eq!(messages.len(), 2);
    let objects = table.objects().await;
    assert!(
        objects
            .iter()
            .all(|o| o.starts_with("data/dt=") && o.ends_with(".zst.parquet"))
    );
    assert!(
        objects
            .iter()
            .any(|o| o.starts_with("data/dt=a%2Fb/bucket-")),
        "{objects:?}"
    );
    assert!(
        objects
            .iter()
            .any(|o| o.starts_with("data/dt=__DEFAULT_PARTITION__/bucket-"))
    );
    assert_eq!(table.rows(&messages).await.values().flatten().count(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn fixed_buckets_continue_the_numbers_of_the_table_and_then_their_own() {
    let table = Table::orders(&[], &[("bucket", "1"), ("bucket-key", "id")]);
    let key = GroupKey {
        partition: BinaryRow::empty(),
        bucket: BucketId(0),
    };
    table.views.known.lock().unwrap().insert(key, (41, 1));
    let mut writer = table.writer();
    let mut ranges = Vec::new();
    for _ in 0..3 {
        writer
            .write(&orders(&[(1, None), (2, None)]))
            .await
            .unwrap();
        let messages = writer.prepare().await.unwrap();
        assert_eq!(messages[0].total_buckets, Some(1));
        let file = &messages[0].data.new_files[0];
        ranges.push((file.min_sequence_number, file.max_sequence_number));
    }
    assert_eq!(ranges, [(42, 43), (44, 45), (46, 47)]);
    assert_eq!(table.views.calls.load(Ordering::Relaxed), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn views_are_asked_once_per_batch_and_only_for_new_buckets() {
    let table = Table::orders(&["dt"], &[("bucket", "8"), ("bucket-key", "id")]);
    let mut writer = table.writer();
    let batch = numbered(0..1000, |id| format!("{}", id % 3));
    writer.write(&batch).await.unwrap();
    writer.write(&batch).await.unwrap();
    writer.prepare().await.unwrap();
    writer.write(&batch).await.unwrap();
    writer.prepare().await.unwrap();
    assert_eq!(table.views.calls.load(Ordering::Relaxed), 1);
    assert_eq!(table.views.asked.load(Ordering::Relaxed), 24);
}

#[tokio::test(flavor = "multi_thread")]
async fn w4_idle_buckets_are_forgotten_once_their_last_files_are_visible() {
    let table = Table::orders(&[], &[("bucket", "1"), ("bucket-key", "id")]);
    let mut writer = table.writer();
    writer.write(&orders(&[(1, None)])).await.unwrap();
    writer.prepare().await.unwrap();
    // Its own files may not be visible yet: it must remember them.
    writer.settled(0);
    writer.settled(1);
    writer.write(&orders(&[(2, None)])).await.unwrap();
    let messages = writer.prepare().await.unwrap();
    assert_eq!(messages[0].data.new_files[0].min_sequence_number, 1);
    assert_eq!(table.views.calls.load(Ordering::Relaxed), 1);
    // An empty checkpoint later both are visible.
    writer.prepare().await.unwrap();
    writer.settled(3);
    let key = GroupKey {
        partition: BinaryRow::empty(),
        bucket: BucketId(0),
    };
    table.views.known.lock().unwrap().insert(key, (1, 1));
    writer.write(&orders(&[(3, None)])).await.unwrap();
    let messages = writer.prepare().await.unwrap();
    assert_eq!(messages[0].data.new_files[0].min_sequence_number, 2);
    assert_eq!(table.views.calls.load(Ordering::Relaxed), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn w2_another_bucket_count_in_the_table_is_refused_with_the_way_out() {
    let table = Table::orders(&["dt"], &[("bucket", "4"), ("bucket-key", "id")]);
    let mut writer = table.writer();
    writer.write(&orders(&[(1, Some("a"))])).await.unwrap();
    let messages = writer.prepare().await.unwrap();
    let key = GroupKey {
        partition: messages[0].partition.clone(),
        bucket: messages[0].bucket,
    };
    table.views.known.lock().unwrap().insert(key, (0, 2));
    let mut other = table.writer();
    let error = other.write(&orders(&[(1, Some("a"))])).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused);
    let text = error.to_string();
    for part in [
        "partition dt=a with a new bucket num 4",
        "previous bucket num is 2",
        "INSERT OVERWRITE",
    ] {
        assert!(text.contains(part), "{text}");
    }
    // The other partitions can go on.
    other.write(&orders(&[(1, Some("b"))])).await.unwrap();
    assert_eq!(other.prepare().await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn fixed_buckets_without_views_are_refused_at_open() {
    let table = Table::orders(&[], &[("bucket", "2"), ("bucket-key", "id")]);
    let opened = tidegate_writer::AppendWriter::open(
        &table.plan,
        table.store.clone(),
        None,
        &table.budget,
        table.options.clone(),
    );
    assert!(matches!(opened, Err(WriterError::Config(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn w10_rows_that_take_rows_back_are_refused() {
    let table = Table::orders(&[], &[]);
    let mut writer = table.writer();
    let rows = |kinds| Rows {
        batch: orders(&[(1, None), (2, None)]),
        kinds: Some(kinds),
    };
    let refused = writer
        .write_rows(rows(vec![RowKind::Insert, RowKind::Delete]))
        .await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Data);
    writer
        .write_rows(rows(vec![RowKind::Insert, RowKind::UpdateAfter]))
        .await
        .unwrap();
    assert_eq!(table.ids(&writer.prepare().await.unwrap()[0]).await, [1, 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_without_the_tables_columns_are_refused_and_the_writer_goes_on() {
    let table = Table::orders(&["dt"], &[]);
    let mut writer = table.writer();
    writer.write(&orders(&[(1, Some("a"))])).await.unwrap();
    let wrong =
        RecordBatch::try_from_iter([("id", Arc::new(Int64Array::from(vec![1])) as ArrayRef)]);
    let error = writer.write(&wrong.unwrap()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Data);
    assert!(error.to_string().contains("name"), "{error}");
    writer.write(&orders(&[(2, Some("a"))])).await.unwrap();
    assert_eq!(table.ids(&writer.prepare().await.unwrap()[0]).await, [1, 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn b51_a_partition_value_too_long_for_a_directory_is_refused_by_column_and_the_job_goes_on() {
    let table = Table::orders(&["dt"], &[]);
    let mut writer = table.writer();
    writer.write(&orders(&[(1, Some("a"))])).await.unwrap();
    for bad in ["x".repeat(5_000), "x".repeat(253), "é/".repeat(100)] {
        let rows = [
            (2, Some("new")),
            (3, Some(bad.as_str())),
            (4, Some("newer")),
        ];
        let error = writer.write(&orders(&rows)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Data);
        assert!(error.to_string().contains("dt"), "{error}");
    }
    let long = "x".repeat(252);
    writer
        .write(&orders(&[
            (5, Some("new")),
            (6, Some(&long)),
            (7, Some("a")),
        ]))
        .await
        .unwrap();
    let rows = table.rows(&writer.prepare().await.unwrap()).await;
    let expected = BTreeMap::from([
        (("dt=a".to_owned(), 0), vec![1, 7]),
        (("dt=new".to_owned(), 0), vec![5]),
        ((format!("dt={long}"), 0), vec![6]),
    ]);
    assert_eq!(rows, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn b50_null_empty_blank_and_default_name_are_different_partitions() {
    let table = Table::orders(&["dt"], &[]);
    let mut writer = table.writer();
    let values = [
        None,
        Some(""),
        Some(" "),
        Some("__DEFAULT_PARTITION__"),
        Some("null"),
    ];
    let rows: Vec<_> = (1..).zip(values).collect();
    writer.write(&orders(&rows)).await.unwrap();
    let messages = writer.prepare().await.unwrap();
    assert_eq!(messages.len(), 5);
    let mut seen: Vec<(i64, Option<String>)> = Vec::new();
    for message in &messages {
        let value = message.partition.get(0, &STRING).unwrap();
        let text = value.map(|v| match v {
            tidegate_model::Datum::String(text) => text,
            other => panic!("{other:?}"),
        });
        seen.push((table.ids(message).await[0], text));
    }
    seen.sort();
    let expected: Vec<_> = rows
        .iter()
        .map(|(id, v)| (*id, v.map(str::to_owned)))
        .collect();
    assert_eq!(seen, expected);
    let default = |o: &&String| o.starts_with("dt=__DEFAULT_PARTITION__/");
    assert_eq!(table.objects().await.iter().filter(default).count(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn zeros_of_both_signs_and_nan_are_partitions_of_their_own() {
    let table = Table::of(schema(
        &[("id", LogicalType::BigInt), ("x", LogicalType::Double)],
        &["x"],
        &[],
    ));
    let mut writer = table.writer();
    let values = vec![0.0, -0.0, f64::NAN, 1.5, -0.0, f64::NAN, f64::NEG_INFINITY];
    let batch = RecordBatch::try_from_iter_with_nullable([
        (
            "id",
            Arc::new(Int64Array::from_iter_values(0..7)) as ArrayRef,
            true,
        ),
        ("x", Arc::new(Float64Array::from(values)) as ArrayRef, true),
    ]);
    writer.write(&batch.unwrap()).await.unwrap();
    let rows = table.rows(&writer.prepare().await.unwrap()).await;
    let expected = BTreeMap::from([
        (("x=-0.0".to_owned(), 0), vec![1, 4]),
        (("x=-Infinity".to_owned(), 0), vec![6]),
        (("x=0.0".to_owned(), 0), vec![0]),
        (("x=1.5".to_owned(), 0), vec![3]),
        (("x=NaN".to_owned(), 0), vec![2, 5]),
    ]);
    assert_eq!(rows, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_with_a_primary_key_is_refused() {
    let mut table = Table::orders(&[], &[]);
    let schema = Arc::make_mut(&mut table.plan.schema);
    schema.primary_keys = vec!["id".to_owned()];
    assert!(matches!(table.try_writer(), Err(WriterError::Config(_))));
}
