//! Tables with a primary key: what level-0 files, changelogs and messages hold.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex};

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{Int8Type, Int64Type};
use proptest::prelude::*;
use tidegate_model::{
    BinaryRow, BucketView, CommitMessage, DataField, DataFileMeta, Datum, FileSource,
    IndexFileMeta, KeyOrder, Level, LogicalType, Options, TableSchema,
};
use tidegate_sink::{BoxFuture, RowKind, Rows, SinkError};
use tidegate_writer::{BucketViews, GroupKey, KeyedWriter, WriterError};
use uuid::Uuid;

use crate::support::Table;

use RowKind::{Delete as D, Insert as I, UpdateAfter as Ua, UpdateBefore as Ub};

/// `(k BIGINT, v STRING, kind STRING)`, primary key k, `bucket` buckets.
pub(crate) fn keyed(options: &[(&str, &str)]) -> Table {
    let columns = [("k", "BIGINT"), ("v", "STRING"), ("kind", "STRING")];
    let columns = columns.map(|(name, of)| DataField::new(name, of.parse().unwrap()));
    let mut all: Options = [("bucket", "2")].into_iter().collect();
    options.iter().for_each(|(k, v)| all.set(*k, *v));
    let schema =
        TableSchema::create(columns.to_vec(), vec![], vec!["k".into()], all, None, 0).unwrap();
    Table::of(schema)
}

pub(crate) fn writer(table: &Table, views: Arc<dyn BucketViews>) -> KeyedWriter {
    let options = tidegate_writer::WriterOptions {
        uuid: Uuid::new_v4(),
        ..table.options.clone()
    };
    KeyedWriter::open(
        &table.plan,
        table.store.clone(),
        views,
        &table.budget,
        options,
    )
    .unwrap()
}

pub(crate) fn rows(rows: &[(RowKind, i64, &str)]) -> Rows<RecordBatch> {
    let text = |kind: &RowKind| match kind {
        I => "+I",
        Ub => "-U",
        Ua => "+U",
        D => "-D",
    };
    let columns: [(&str, ArrayRef, bool); 3] = [
        (
            "k",
            Arc::new(Int64Array::from_iter_values(rows.iter().map(|r| r.1))),
            false,
        ),
        (
            "v",
            Arc::new(StringArray::from_iter_values(rows.iter().map(|r| r.2))),
            true,
        ),
        (
            "kind",
            Arc::new(StringArray::from_iter_values(
                rows.iter().map(|r| text(&r.0)),
            )),
            true,
        ),
    ];
    Rows {
        batch: RecordBatch::try_from_iter_with_nullable(columns).unwrap(),
        kinds: Some(rows.iter().map(|r| r.0).collect()),
    }
}

/// A row of a key-value file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kv {
    pub(crate) sequence: i64,
    pub(crate) kind: i8,
    pub(crate) k: i64,
    pub(crate) v: String,
}

pub(crate) async fn contents(
    table: &Table,
    message: &CommitMessage,
    file: &DataFileMeta,
) -> Vec<Kv> {
    let path = table.path(message, file);
    let mut out = Vec::new();
    for batch in table.read(&path, file).await {
        assert_eq!(batch["_KEY_k"].as_ref(), batch["k"].as_ref());
        for row in 0..batch.num_rows() {
            out.push(Kv {
                sequence: batch["_SEQUENCE_NUMBER"]
                    .as_primitive::<Int64Type>()
                    .value(row),
                kind: batch["_VALUE_KIND"].as_primitive::<Int8Type>().value(row),
                k: batch["k"].as_primitive::<Int64Type>().value(row),
                v: batch["v"].as_string::<i32>().value(row).to_owned(),
            });
        }
    }
    // What the entry says is what the file holds.
    let key =
        |k| BinaryRow::from_datums(&[Some(Datum::BigInt(k))], &[LogicalType::BigInt]).unwrap();
    assert_eq!(out.len() as i64, file.row_count);
    assert_eq!(file.min_key, key(out[0].k));
    assert_eq!(file.max_key, key(out.last().unwrap().k));
    let sequences = || out.iter().map(|r| r.sequence);
    assert_eq!(Some(file.min_sequence_number), sequences().min());
    assert_eq!(Some(file.max_sequence_number), sequences().max());
    let deletes = out.iter().filter(|r| r.kind % 2 == 1).count();
    assert_eq!(file.delete_row_count, Some(deletes as i64));
    assert!(out.is_sorted_by_key(|r| r.k), "{out:?}");
    out
}

/// A table that is what its messages made of it: views come from what was "committed".
#[derive(Default)]
pub(crate) struct Committed {
    pub(crate) files: Mutex<HashMap<GroupKey, Vec<DataFileMeta>>>,
    /// Of deletion vectors: one per bucket at most.
    pub(crate) vectors: Mutex<HashMap<GroupKey, IndexFileMeta>>,
    lost: Mutex<Vec<GroupKey>>,
}

impl Committed {
    pub(crate) fn commit(&self, messages: &[CommitMessage]) {
        let mut files = self.files.lock().unwrap();
        let mut vectors = self.vectors.lock().unwrap();
        for message in messages {
            let key = GroupKey {
                partition: message.partition.clone(),
                bucket: message.bucket,
            };
            let live = files.entry(key.clone()).or_default();
            live.extend(message.data.new_files.iter().cloned());
            for gone in &message.compact.compact_before {
                let same =
                    |f: &DataFileMeta| (&f.file_name, f.level) == (&gone.file_name, gone.level);
                let at = live.iter().position(same);
                live.remove(at.unwrap_or_else(|| panic!("{} is not live", gone.file_name)));
            }
            live.extend(message.compact.compact_after.iter().cloned());
            // What is replaced is what was there, and a vector is of a file that is there.
            let gone = &message.compact.deleted_index_files;
            let new = &message.compact.new_index_files;
            assert!(gone.len() <= 1 && new.len() <= 1, "{message:?}");
            if !gone.is_empty() || !new.is_empty() {
                assert_eq!(vectors.remove(&key).as_ref(), gone.first());
            }
            if let Some(index) = new.first() {
                let ranges = index.dv_ranges.iter().flatten().flatten();
                for range in ranges {
                    let of = |f: &&DataFileMeta| f.file_name == range.data_file;
                    assert!(live.iter().any(|f| of(&f)), "{range:?}");
                }
                vectors.insert(key.clone(), index.clone());
            }
            // Levels above 0 never overlap.
            let order = KeyOrder::new(vec![LogicalType::BigInt]);
            tidegate_lsm::Levels::new(live.clone(), order, 6).unwrap();
        }
    }
}

impl BucketViews for Committed {
    fn views<'a>(
        &'a self,
        buckets: &'a [GroupKey],
    ) -> BoxFuture<'a, Result<Vec<BucketView>, SinkError>> {
        let all = self.files.lock().unwrap();
        let vectors = self.vectors.lock().unwrap();
        let views = buckets.iter().map(|key| {
            let files = all.get(key).cloned().unwrap_or_default();
            BucketView {
                base: None,
                partition: key.partition.clone(),
                bucket: key.bucket,
                total_buckets: None,
                max_sequence_number: files.iter().map(|f| f.max_sequence_number).max(),
                files,
                index_files: vectors.get(key).cloned().into_iter().collect(),
                newest_committed: None,
            }
        });
        let views = views.collect();
        Box::pin(async move { Ok(views) })
    }

    fn take_lost(&self, mine: &dyn Fn(&GroupKey) -> bool) -> Vec<GroupKey> {
        let mut lost = self.lost.lock().unwrap();
        let (taken, left) = lost.drain(..).partition(mine);
        *lost = left;
        taken
    }
}

#[tokio::test]
async fn w_22_a_level_0_file_holds_the_newest_version_of_each_key() {
    let table = keyed(&[("bucket", "1")]);
    let mut writer = writer(&table, Arc::new(Committed::default()));
    writer
        .write_rows(rows(&[
            (I, 5, "a"),
            (I, 1, "b"),
            (Ub, 5, "a"),
            (Ua, 5, "c"),
            (I, 9, "d"),
            (D, 1, "b"),
        ]))
        .await
        .unwrap();
    writer.write_rows(rows(&[(Ua, 5, "e")])).await.unwrap();
    let messages = writer.prepare().await.unwrap();
    let [message] = messages.as_slice() else {
        panic!("{messages:?}")
    };
    let [file] = message.data.new_files.as_slice() else {
        panic!("one file per bucket and checkpoint")
    };
    assert!(message.data.changelog_files.is_empty() && message.compact.is_empty());
    assert_eq!(
        (file.level, file.file_source),
        (Level(0), Some(FileSource::Append))
    );
    let kv = |sequence, kind, k, v: &str| Kv {
        sequence,
        kind,
        k,
        v: v.to_owned(),
    };
    assert_eq!(
        contents(&table, message, file).await,
        [kv(5, 3, 1, "b"), kv(6, 2, 5, "e"), kv(4, 0, 9, "d")]
    );
    assert!(
        writer.prepare().await.unwrap().is_empty(),
        "no rows, no files"
    );
}

#[tokio::test]
async fn w_23_the_input_changelog_holds_every_row_in_key_then_sequence_order() {
    let table = keyed(&[("bucket", "1"), ("changelog-producer", "input")]);
    let mut writer = writer(&table, Arc::new(Committed::default()));
    writer
        .write_rows(rows(&[
            (I, 5, "a"),
            (I, 1, "b"),
            (Ub, 5, "a"),
            (Ua, 5, "c"),
        ]))
        .await
        .unwrap();
    let messages = writer.prepare().await.unwrap();
    let [log] = messages[0].data.changelog_files.as_slice() else {
        panic!("{messages:?}")
    };
    assert!(
        log.file_name.starts_with("changelog-tg01e1-"),
        "{}",
        log.file_name
    );
    let kv = |sequence, kind, k, v: &str| Kv {
        sequence,
        kind,
        k,
        v: v.to_owned(),
    };
    assert_eq!(
        contents(&table, &messages[0], log).await,
        [
            kv(1, 0, 1, "b"),
            kv(0, 0, 5, "a"),
            kv(2, 1, 5, "a"),
            kv(3, 2, 5, "c")
        ]
    );
    assert_eq!(messages[0].data.new_files[0].row_count, 2);
}

#[tokio::test]
async fn kinds_come_from_the_column_and_ignored_ones_leave_no_trace() {
    for (option, kept) in [(None, vec![3, 2]), (Some("ignore-delete"), vec![0, 2])] {
        let mut options = vec![("bucket", "1"), ("rowkind.field", "kind")];
        options.extend(option.map(|o| (o, "true")));
        let table = keyed(&options);
        let mut writer = writer(&table, Arc::new(Committed::default()));
        let mut batch = rows(&[
            (I, 1, "a"),
            (I, 2, "b"),
            (D, 1, "a"),
            (Ub, 2, "b"),
            (Ua, 2, "c"),
        ]);
        // The column decides, whatever stands beside the rows.
        batch.kinds = None;
        writer.write_rows(batch).await.unwrap();
        let messages = writer.prepare().await.unwrap();
        let found = contents(&table, &messages[0], &messages[0].data.new_files[0]).await;
        assert_eq!(
            found.iter().map(|r| r.kind).collect::<Vec<_>>(),
            kept,
            "{option:?}"
        );
    }
}

#[tokio::test]
async fn a_row_kind_that_is_none_is_refused_by_row_and_the_writer_goes_on() {
    let table = keyed(&[("rowkind.field", "v")]);
    let mut writer = writer(&table, Arc::new(Committed::default()));
    let error = writer
        .write_rows(rows(&[(I, 1, "+I"), (I, 2, "x")]))
        .await
        .unwrap_err();
    assert!(matches!(error, WriterError::Row { row: 1, .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("row 1") && text.contains("'x'"), "{text}");
    writer.write_rows(rows(&[(I, 1, "+I")])).await.unwrap();
    assert_eq!(writer.prepare().await.unwrap().len(), 1);
}

#[tokio::test]
async fn an_abort_leaves_no_file_and_never_gives_a_number_twice() {
    let table = keyed(&[("bucket", "1"), ("changelog-producer", "input")]);
    let committed = Arc::new(Committed::default());
    let mut writer = writer(&table, committed.clone());
    writer
        .write_rows(rows(&[(I, 1, "a"), (I, 2, "b")]))
        .await
        .unwrap();
    let first = writer.prepare().await.unwrap();
    committed.commit(&first);
    let before = table.objects().await;
    writer.write_rows(rows(&[(I, 3, "c")])).await.unwrap();
    writer.abort().await.unwrap();
    assert_eq!(table.objects().await, before);
    writer.write_rows(rows(&[(I, 4, "d")])).await.unwrap();
    let second = writer.prepare().await.unwrap();
    let file = &second[0].data.new_files[0];
    assert_eq!(file.min_sequence_number, 2);
}

/// Every checkpoint may be followed by a crash or an abort; what a reader folds out of the files is what
/// a map says, and sequence numbers of a bucket never overlap.
async fn plays(ops: Vec<Op>, budget: usize, input: bool, trigger: usize) {
    let producer = if input { "input" } else { "none" };
    let trigger = trigger.to_string();
    let mut options = vec![
        ("changelog-producer", producer),
        ("num-sorted-run.compaction-trigger", trigger.as_str()),
    ];
    if trigger == "1" {
        options = vec![("changelog-producer", producer), ("write-only", "true")];
    }
    let mut table = keyed(&options);
    if budget > 0 {
        table = table.with_budget(budget);
    }
    let committed = Arc::new(Committed::default());
    let mut writer = writer(&table, committed.clone());
    let mut crashed = false;
    let (mut map, mut pending) = (BTreeMap::new(), BTreeMap::new());
    let mut log: BTreeMap<i64, Vec<(i64, i8, String)>> = BTreeMap::new();
    let mut written: Vec<(CommitMessage, DataFileMeta)> = Vec::new();
    let mut known: BTreeSet<String> = BTreeSet::new();
    for (n, op) in ops.into_iter().enumerate() {
        match op {
            Op::Rows(list) => {
                let texts: Vec<String> = list.iter().map(|_| format!("v{n}")).collect();
                let batch: Vec<_> = list
                    .iter()
                    .zip(&texts)
                    .map(|((k, delete), v)| (if *delete { D } else { I }, *k, v.as_str()))
                    .collect();
                writer.write_rows(rows(&batch)).await.unwrap();
                for (kind, k, v) in batch {
                    pending.insert(k, (kind != D).then(|| v.to_owned()));
                }
            }
            Op::Checkpoint => {
                let messages = writer.prepare().await.unwrap();
                committed.commit(&messages);
                for message in &messages {
                    assert!(message.data.new_files.len() <= 1, "one file per bucket");
                    let after = message.compact.compact_after.iter();
                    known.extend(after.map(|file| table.path(message, file)));
                    for file in &message.data.new_files {
                        known.insert(table.path(message, file));
                        written.push((message.clone(), file.clone()));
                    }
                    for file in &message.data.changelog_files {
                        known.insert(table.path(message, file));
                        for row in contents(&table, message, file).await {
                            log.entry(row.k)
                                .or_default()
                                .push((row.sequence, row.kind, row.v));
                        }
                    }
                }
                for (k, v) in std::mem::take(&mut pending) {
                    match v {
                        Some(v) => map.insert(k, v),
                        None => map.remove(&k),
                    };
                }
            }
            Op::Abort => {
                writer.abort().await.unwrap();
                pending.clear();
                if !crashed {
                    let objects: BTreeSet<String> = table.objects().await.into_iter().collect();
                    assert_eq!(
                        objects, known,
                        "an abort leaves what was handed over and no more"
                    );
                }
            }
            Op::Crash => {
                writer = super::keyed::writer(&table, committed.clone());
                pending.clear();
                crashed = true;
            }
        }
    }
    // What a reader makes of it: per bucket and key the highest sequence number wins.
    let mut ranges: BTreeMap<i32, Vec<(i64, i64)>> = BTreeMap::new();
    let mut newest: BTreeMap<i64, Kv> = BTreeMap::new();
    for (message, file) in &written {
        ranges
            .entry(message.bucket.0)
            .or_default()
            .push((file.min_sequence_number, file.max_sequence_number));
        for row in contents(&table, message, file).await {
            let newer = newest
                .get(&row.k)
                .is_none_or(|old| old.sequence < row.sequence);
            if newer {
                newest.insert(row.k, row);
            }
        }
    }
    for list in ranges.values_mut() {
        list.sort_unstable();
        assert!(
            list.array_windows::<2>().all(|[a, b]| a.1 < b.0),
            "{list:?}"
        );
    }
    let live = newest.into_values().filter(|r| r.kind == 0);
    let live: BTreeMap<i64, String> = live.map(|r| (r.k, r.v)).collect();
    assert_eq!(live, map);
    if input {
        // The fold of the changelog is the content as well.
        let folded = log.into_iter().filter_map(|(k, mut rows)| {
            rows.sort();
            rows.pop()
                .and_then(|(_, kind, v)| (kind == 0).then_some((k, v)))
        });
        assert_eq!(folded.collect::<BTreeMap<_, _>>(), map);
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Op {
    Rows(Vec<(i64, bool)>),
    Checkpoint,
    Abort,
    Crash,
}

pub(crate) fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        6 => prop::collection::vec((0i64..40, prop::bool::weighted(0.2)), 1..30).prop_map(Op::Rows),
        3 => Just(Op::Checkpoint),
        1 => Just(Op::Abort),
        1 => Just(Op::Crash),
    ];
    prop::collection::vec(op, 1..25).prop_map(|mut ops| {
        ops.push(Op::Checkpoint);
        ops
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn content_is_what_a_map_says_after_any_checkpoints_aborts_and_crashes(
        ops in ops(), small in any::<bool>(), input in any::<bool>(), trigger in 1usize..4,
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        // A budget so small that every few rows go to local disk.
        runtime.block_on(plays(ops, if small { 64 << 10 } else { 0 }, input, trigger));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn rows_beyond_the_budget_are_spilled_and_make_one_file_per_bucket() {
    let table = keyed(&[("changelog-producer", "input")]).with_budget(2 << 20);
    let mut writer = writer(&table, Arc::new(Committed::default()));
    for n in 0..60 {
        let texts: Vec<String> = (0..2_000).map(|i| format!("text {n} of {i}")).collect();
        let keys = (0..2_000).map(|i| (i * 7 + n * 83) % 5_000);
        let batch: Vec<_> = keys.zip(&texts).map(|(k, v)| (I, k, v.as_str())).collect();
        writer.write_rows(rows(&batch)).await.unwrap();
    }
    let messages = writer.prepare().await.unwrap();
    assert!(writer.metrics().spilled_runs > 1, "{:?}", writer.metrics());
    assert_eq!(writer.metrics().early_hand_overs, 0);
    let (mut keys, mut logged) = (0, 0);
    for message in &messages {
        assert_eq!(message.data.new_files.len(), 1);
        let found = contents(&table, message, &message.data.new_files[0]).await;
        assert!(
            found.array_windows::<2>().all(|[a, b]| a.k < b.k),
            "each key once"
        );
        keys += found.len();
        for file in &message.data.changelog_files {
            logged += contents(&table, message, file).await.len();
        }
    }
    assert_eq!((keys, logged), (5_000, 120_000));
    assert_eq!(table.budget.metrics().used, writer_overhead(&table));
}

/// What stays charged between barriers: bookkeeping of buckets only.
fn writer_overhead(table: &Table) -> usize {
    let used = table.budget.metrics().used;
    assert!(used < 4096, "{used} bytes are still held");
    used
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn full_compaction_by_delta_commits_leaves_one_sorted_run_without_deletes() {
    let table = keyed(&[("bucket", "1"), ("full-compaction.delta-commits", "2")]);
    let committed = Arc::new(Committed::default());
    let mut writer = writer(&table, committed.clone());
    for (n, batch) in [
        vec![(I, 1, "a"), (I, 2, "b"), (I, 3, "c")],
        vec![(D, 2, "b"), (I, 3, "d")],
        vec![(I, 4, "e")],
    ]
    .into_iter()
    .enumerate()
    {
        writer.write_rows(rows(&batch)).await.unwrap();
        let messages = writer.prepare().await.unwrap();
        committed.commit(&messages);
        let compact = &messages[0].compact;
        assert_eq!(compact.is_empty(), n != 1, "every second checkpoint");
        if n == 1 {
            let [after] = compact.compact_after.as_slice() else {
                panic!("{compact:?}")
            };
            assert_eq!(
                (after.level, after.file_source),
                (Level(5), Some(FileSource::Compact))
            );
            let found = contents(&table, &messages[0], after).await;
            assert_eq!(
                found.iter().map(|r| (r.k, r.kind)).collect::<Vec<_>>(),
                [(1, 0), (3, 0)]
            );
            // The file that was flushed just now is in both halves, APPEND first.
            let names = |files: &[DataFileMeta]| {
                files
                    .iter()
                    .map(|f| f.file_name.clone())
                    .collect::<BTreeSet<_>>()
            };
            assert_eq!(compact.compact_before.len(), 2);
            assert!(
                names(&compact.compact_before).is_superset(&names(&messages[0].data.new_files))
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_dropped_writer_leaves_no_compaction_that_nobody_took() {
    let table = keyed(&[("bucket", "1"), ("num-sorted-run.compaction-trigger", "2")]);
    let committed = Arc::new(Committed::default());
    let mut known = BTreeSet::new();
    let mut writer = writer(&table, committed.clone());
    for n in 0..7 {
        writer.write_rows(rows(&[(I, n, "a")])).await.unwrap();
        let messages = writer.prepare().await.unwrap();
        for message in &messages {
            let files = message
                .data
                .new_files
                .iter()
                .chain(&message.compact.compact_after);
            known.extend(files.map(|f| table.path(message, f)));
        }
        committed.commit(&messages);
    }
    writer.abort().await.unwrap();
    let objects: BTreeSet<String> = table.objects().await.into_iter().collect();
    assert_eq!(objects, known);
}

/// A compaction that the committer left out: the writer does not build on it, and compacts the bucket
/// again once it knows the files (`Committed::commit` refuses inputs that are not live).
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn r_15_after_a_lost_compaction_the_bucket_is_compacted_by_what_the_table_has() {
    let options = [
        ("bucket", "1"),
        ("num-sorted-run.compaction-trigger", "2"),
        ("commit.force-compact", "true"),
    ];
    let table = keyed(&options);
    let committed = Arc::new(Committed::default());
    let mut writer = writer(&table, committed.clone());
    let mut compactions = Vec::new();
    for n in 0..8 {
        writer.write_rows(rows(&[(I, n, "a")])).await.unwrap();
        let mut messages = writer.prepare().await.unwrap();
        compactions.push(!messages[0].compact.is_empty());
        if n == 1 {
            let lost = std::mem::take(&mut messages[0].compact);
            assert!(!lost.is_empty());
            let key = GroupKey {
                partition: messages[0].partition.clone(),
                bucket: messages[0].bucket,
            };
            committed.lost.lock().unwrap().push(key);
            for file in lost.compact_after {
                table
                    .store
                    .delete(&table.path(&messages[0], &file))
                    .await
                    .unwrap();
            }
        }
        committed.commit(&messages);
    }
    assert_eq!(
        compactions[..4],
        [false, true, false, true],
        "{compactions:?}"
    );
    let key = committed
        .files
        .lock()
        .unwrap()
        .keys()
        .next()
        .unwrap()
        .clone();
    let live = committed.files.lock().unwrap()[&key].clone();
    let message = CommitMessage {
        partition: key.partition,
        bucket: key.bucket,
        total_buckets: None,
        data: Default::default(),
        compact: Default::default(),
    };
    let mut found = BTreeSet::new();
    for file in &live {
        found.extend(
            contents(&table, &message, file)
                .await
                .into_iter()
                .map(|r| r.k),
        );
    }
    assert_eq!(found, (0..8).collect());
}

/// \[W-52]: what a compaction to the top level changes, and nothing else, whoever is rewritten or lifted.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn w_52_the_changelog_of_full_compactions_tells_each_change_once() {
    let table = keyed(&[("bucket", "1"), ("changelog-producer", "full-compaction")]);
    let committed = Arc::new(Committed::default());
    let mut writer = writer(&table, committed.clone());
    let mut told = Vec::new();
    for batch in [
        vec![(I, 1, "a"), (I, 2, "b")],
        vec![(I, 2, "c"), (D, 1, "a"), (I, 3, "d"), (D, 9, "x")],
        vec![(I, 7, "e")],
    ] {
        writer.write_rows(rows(&batch)).await.unwrap();
        let messages = writer.prepare().await.unwrap();
        committed.commit(&messages);
        let mut changes = Vec::new();
        for file in &messages[0].compact.changelog_files {
            assert_eq!(file.level, Level(5));
            changes.extend(contents(&table, &messages[0], file).await);
        }
        told.push(
            changes
                .into_iter()
                .map(|r| (r.kind, r.k, r.v))
                .collect::<Vec<_>>(),
        );
    }
    let row = |kind, k, v: &str| (kind, k, v.to_owned());
    assert_eq!(told[0], [row(0, 1, "a"), row(0, 2, "b")]);
    assert_eq!(
        told[1],
        [
            row(3, 1, "a"),
            row(1, 2, "b"),
            row(2, 2, "c"),
            row(0, 3, "d")
        ]
    );
    assert_eq!(told[2], [row(0, 7, "e")]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn w_54_rows_of_first_row_are_above_level_0_at_every_barrier_each_key_once() {
    let table = keyed(&[("bucket", "1"), ("merge-engine", "first-row")]);
    let committed = Arc::new(Committed::default());
    let mut writer = writer(&table, committed.clone());
    for (n, value) in ["a", "b", "c"].into_iter().enumerate() {
        writer
            .write_rows(rows(&[(I, 1, value), (I, n as i64 + 2, value)]))
            .await
            .unwrap();
        let messages = writer.prepare().await.unwrap();
        committed.commit(&messages);
    }
    let error = writer.write_rows(rows(&[(D, 1, "a")])).await.unwrap_err();
    assert!(error.to_string().contains("ignore-delete"), "{error}");
    let all = committed.files.lock().unwrap().clone();
    let (key, live) = all.into_iter().next().unwrap();
    let message = CommitMessage {
        partition: key.partition,
        bucket: key.bucket,
        total_buckets: None,
        data: Default::default(),
        compact: Default::default(),
    };
    let mut found = Vec::new();
    for file in &live {
        assert!(file.level > Level(0), "{file:?}");
        let rows = contents(&table, &message, file).await;
        found.extend(rows.into_iter().map(|r| (r.k, r.v)));
    }
    found.sort();
    let row = |k, v: &str| (k, v.to_owned());
    assert_eq!(found, [row(1, "a"), row(2, "a"), row(3, "b"), row(4, "c")]);
}
