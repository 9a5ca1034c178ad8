//! Tables whose compactions look old rows up: what readers see after every barrier, and what they are told.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use tidegate_model::{CommitMessage, DataFileMeta, DeletionVector, Level, layout};
use tidegate_sink::RowKind;
use tidegate_writer::GroupKey;

use crate::keyed::{Committed, Kv, Op, contents, keyed, ops, rows, writer};
use crate::support::Table;

/// How versions of a key come together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Engine {
    Newest,
    /// By `v` itself, which comes out of order.
    BySequence,
    First,
    Joined,
    Partial,
}

impl Engine {
    fn options(self) -> Vec<(&'static str, &'static str)> {
        match self {
            Self::Newest => vec![],
            Self::BySequence => vec![("sequence.field", "v"), ("ignore-delete", "true")],
            Self::First => vec![("merge-engine", "first-row"), ("ignore-delete", "true")],
            Self::Joined => vec![
                ("merge-engine", "aggregation"),
                ("fields.v.aggregate-function", "listagg"),
                ("fields.kind.aggregate-function", "last_value"),
                ("ignore-delete", "true"),
            ],
            Self::Partial => vec![
                ("merge-engine", "partial-update"),
                ("ignore-delete", "true"),
            ],
        }
    }

    fn apply(self, map: &mut BTreeMap<i64, String>, k: i64, v: Option<&str>) {
        let Some(v) = v else {
            if self == Self::Newest {
                map.remove(&k);
            }
            return;
        };
        let old = map.get(&k).cloned();
        let new = match (self, old) {
            (Self::First, Some(old)) => old,
            (Self::BySequence, Some(old)) if old.as_str() > v => old,
            (Self::Joined, Some(old)) => format!("{old},{v}"),
            _ => v.to_owned(),
        };
        map.insert(k, new);
    }
}

/// The rows of a file that are not deleted.
async fn remaining(
    table: &Table,
    committed: &Committed,
    key: &GroupKey,
    file: &DataFileMeta,
) -> Vec<Kv> {
    let message = CommitMessage {
        partition: key.partition.clone(),
        bucket: key.bucket,
        total_buckets: None,
        data: Default::default(),
        compact: Default::default(),
    };
    let rows = contents(table, &message, file).await;
    let index = committed.vectors.lock().unwrap().get(key).cloned();
    let Some(index) = index else { return rows };
    let bytes = table.store.get(&layout::index_path(&index.file_name)).await;
    let bytes = bytes.unwrap();
    assert_eq!(bytes.len() as i64, index.file_size);
    let ranges = index.dv_ranges.iter().flatten().flatten();
    let mut ranges = ranges.filter(|r| r.data_file == file.file_name);
    let Some(range) = ranges.next() else {
        return rows;
    };
    let of = DeletionVector::decode(&bytes, range.offset, range.length, rows.len() as u64);
    let of = of.unwrap();
    assert_eq!(range.cardinality, Some(of.len() as i64));
    let rows = rows.into_iter().zip(0u64..);
    rows.filter(|(_, at)| !of.contains(*at))
        .map(|(r, _)| r)
        .collect()
}

/// What a reader that merges nothing sees: every row above level 0 that is not deleted.
async fn unmerged(table: &Table, committed: &Committed) -> BTreeMap<i64, String> {
    let all = committed.files.lock().unwrap().clone();
    let mut found = BTreeMap::new();
    for (key, files) in all {
        for file in files.iter().filter(|f| f.level > Level(0)) {
            for row in remaining(table, committed, &key, file).await {
                assert_eq!(
                    row.kind % 2,
                    0,
                    "a retract that nobody merges away: {row:?}"
                );
                let twice = found.insert(row.k, row.v.clone());
                assert_eq!(twice, None, "two rows of one key: {row:?}");
            }
        }
    }
    found
}

/// What a reader that merges sees, where the newest version of a key is all of it.
async fn merged(table: &Table, committed: &Committed) -> BTreeMap<i64, String> {
    let all = committed.files.lock().unwrap().clone();
    let mut newest: BTreeMap<i64, (Level, Kv)> = BTreeMap::new();
    for (key, files) in all {
        for file in &files {
            for row in remaining(table, committed, &key, file).await {
                let lower = newest
                    .get(&row.k)
                    .is_none_or(|(level, _)| file.level < *level);
                if lower {
                    newest.insert(row.k, (file.level, row));
                }
            }
        }
    }
    let rows = newest.into_values().map(|(_, row)| row);
    rows.filter(|r| r.kind % 2 == 0)
        .map(|r| (r.k, r.v))
        .collect()
}

/// Applies changes: each must follow from what was told before.
fn fold(told: &mut BTreeMap<i64, String>, changes: Vec<Kv>) {
    let mut before: Option<i64> = None;
    for row in changes {
        match row.kind {
            0 => {
                let old = told.insert(row.k, row.v.clone());
                assert_eq!(old, None, "+I of a key that is there: {row:?}");
            }
            1 => {
                assert_eq!(told.get(&row.k), Some(&row.v), "-U of another row: {row:?}");
                before = Some(row.k);
                continue;
            }
            2 => {
                assert_eq!(before, Some(row.k), "+U without its -U: {row:?}");
                assert_ne!(
                    told.insert(row.k, row.v.clone()),
                    Some(row.v.clone()),
                    "nothing changed"
                );
            }
            _ => {
                let old = told.remove(&row.k);
                assert_eq!(old.as_ref(), Some(&row.v), "-D of another row: {row:?}");
            }
        }
        assert!(
            row.kind == 2 || before.is_none(),
            "-U without its +U: {row:?}"
        );
        before = None;
    }
    assert_eq!(before, None);
}

async fn plays(ops: Vec<Op>, engine: Engine, vectors: bool, logs: bool, budget: usize, wide: bool) {
    let mut options = engine.options();
    options.push(("changelog-producer.row-deduplicate", "true"));
    if logs {
        options.push(("changelog-producer", "lookup"));
    } else if !vectors && engine != Engine::First {
        options.push(("force-lookup", "true"));
    }
    if vectors {
        options.push(("deletion-vectors.enabled", "true"));
        options.push((
            "deletion-vectors.bitmap64",
            if wide { "true" } else { "false" },
        ));
    }
    let mut table = keyed(&options);
    if budget > 0 {
        table = table.with_budget(budget);
    }
    let committed = Arc::new(Committed::default());
    let mut writer = writer(&table, committed.clone());
    let (mut map, mut told) = (BTreeMap::new(), BTreeMap::new());
    let mut pending: Vec<(i64, Option<String>)> = Vec::new();
    for (n, op) in ops.into_iter().enumerate() {
        match op {
            Op::Rows(list) => {
                // Out of order: what comes later does not compare as later.
                let text = |i: usize| format!("v{}", (n * 7 + i * 5) % 23);
                let texts: Vec<String> = (0..list.len()).map(text).collect();
                let kind = |delete: bool| match delete {
                    true => RowKind::Delete,
                    false => RowKind::Insert,
                };
                let batch = list.iter().zip(&texts);
                let batch: Vec<_> = batch
                    .into_iter()
                    .map(|((k, delete), v)| (kind(*delete), *k, v.as_str()))
                    .collect();
                writer.write_rows(rows(&batch)).await.unwrap();
                for ((k, delete), v) in list.into_iter().zip(texts) {
                    pending.push((k, (!delete).then_some(v)));
                }
            }
            Op::Checkpoint => {
                let mut messages = writer.prepare().await.unwrap();
                committed.commit(&messages);
                if n % 3 == 0 {
                    // A full compaction, of levels that are all told already.
                    let keys: Vec<GroupKey> =
                        committed.files.lock().unwrap().keys().cloned().collect();
                    writer.compact(&keys, true).await.unwrap();
                    let more = writer.prepare().await.unwrap();
                    committed.commit(&more);
                    messages.extend(more);
                }
                for (k, v) in pending.drain(..) {
                    engine.apply(&mut map, k, v.as_deref());
                }
                let mut changes = Vec::new();
                for message in &messages {
                    assert!(message.data.changelog_files.is_empty());
                    for file in &message.compact.changelog_files {
                        changes.extend(contents(&table, message, file).await);
                    }
                }
                let seen = match vectors || engine == Engine::First {
                    true => unmerged(&table, &committed).await,
                    false => merged(&table, &committed).await,
                };
                assert_eq!(seen, map, "{engine:?} at {n}");
                if logs {
                    fold(&mut told, changes);
                    assert_eq!(told, map, "{engine:?} told at {n}");
                } else {
                    assert!(changes.is_empty());
                }
                // A barrier waits for compactions: nothing is left below.
                let all = committed.files.lock().unwrap().clone();
                let mut files = all.values().flatten();
                assert!(files.all(|f| f.level > Level(0)), "{all:?}");
            }
            Op::Abort => {
                writer.abort().await.unwrap();
                pending.clear();
            }
            Op::Crash => {
                writer = crate::keyed::writer(&table, committed.clone());
                pending.clear();
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn w_53_readers_see_the_map_and_are_told_each_change_of_it_once(
        ops in ops(), engine in 0usize..5, vectors in any::<bool>(), logs in any::<bool>(),
        small in any::<bool>(), wide in any::<bool>(),
    ) {
        let engine = [
            Engine::Newest, Engine::BySequence, Engine::First, Engine::Joined, Engine::Partial,
        ][engine];
        let vectors = vectors && engine != Engine::First;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let budget = if small { 1 << 20 } else { 0 };
        runtime.block_on(plays(ops, engine, vectors, logs, budget, wide));
    }
}
