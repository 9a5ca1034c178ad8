//! Changelogs and deltas of tables, snapshot by snapshot.

use super::keyed::refused;
use super::{differ, expected, kinded, names, parsed, reader, sorted};
use futures::TryStreamExt;
use serde_json::Value;
use tidegate_model::SnapshotId;
use tidegate_scan::{Changes, Error, From};

/// Rows with kinds of each snapshot that has any.
async fn all(changes: &mut Changes) -> Result<Vec<(i64, Vec<String>)>, Error> {
    let mut all = Vec::new();
    while let Some(step) = changes.next().await? {
        let batches: Vec<_> = step.read()?.try_collect().await?;
        let mut lines = Vec::new();
        for batch in &batches {
            lines.extend(kinded(step.columns(), batch, "_kind")?);
        }
        if !lines.is_empty() {
            all.push((step.snapshot.id.0, lines));
        }
    }
    Ok(all)
}

#[tokio::test]
async fn the_changes_of_every_keyed_table_are_those_that_java_streams() {
    let (mut wrong, mut compared) = (Vec::new(), 0);
    for name in names(true).iter().filter(|n| refused(n).is_none()) {
        let expected = expected(name);
        let theirs = expected["changelog"].as_array().unwrap().iter();
        let theirs: Vec<(i64, &Vec<Value>)> = theirs
            .map(|s| {
                let id = s["snapshot"].to_string().parse().unwrap();
                (id, s["rows"].as_array().unwrap())
            })
            .filter(|(_, rows)| !rows.is_empty())
            .collect();
        let read = async {
            let mut changes = reader(name).changes(From::Earliest).await?;
            all(&mut changes).await
        };
        let ours = match read.await {
            Ok(ours) => ours,
            Err(e) => {
                wrong.push(format!("{name}: {e}"));
                continue;
            }
        };
        compared += ours.len();
        let ids = |ids: &mut dyn Iterator<Item = i64>| ids.collect::<Vec<_>>();
        let (mine, java) = (
            ids(&mut ours.iter().map(|s| s.0)),
            ids(&mut theirs.iter().map(|s| s.0)),
        );
        if mine != java {
            wrong.push(format!("{name}: changes in {mine:?}, Java's in {java:?}"));
            continue;
        }
        for ((id, ours), (_, theirs)) in ours.iter().zip(&theirs) {
            let what = format!("{name}, snapshot {id}");
            let theirs = sorted(theirs.iter().cloned(), &[]);
            wrong.extend(differ(&what, &sorted(parsed(ours), &[]), &theirs).err());
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {compared}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(compared > 150, "{compared} snapshots compared");
}

/// The rows of a table after changes were applied one after the other.
#[derive(Default)]
struct Fold(std::collections::BTreeMap<String, Value>);

impl Fold {
    fn apply(&mut self, keys: &[String], lines: &[String]) {
        for mut row in parsed(lines) {
            let kind = row.as_object_mut().unwrap().shift_remove("_kind").unwrap();
            let key: Vec<String> = keys.iter().map(|k| row[k].to_string()).collect();
            let key = key.join(",");
            match kind.as_str().unwrap() {
                "+I" | "+U" => drop(self.0.insert(key, row)),
                "-U" | "-D" => drop(self.0.remove(&key)),
                other => panic!("kind {other}"),
            }
        }
    }

    fn rows(&self) -> Vec<String> {
        sorted(self.0.values().cloned(), &[])
    }
}

#[tokio::test]
async fn the_changelog_of_all_snapshots_folds_to_the_rows_of_each() {
    let mut compared = Vec::new();
    for name in names(true).iter().filter(|n| refused(n).is_none()) {
        let table = reader(name);
        let schema = table.latest_schema().await.unwrap();
        let producer = schema
            .options
            .get("changelog-producer")
            .unwrap_or("none")
            .to_owned();
        let first = table.snapshot_ids().await.unwrap().first().map(|id| id.0);
        // A changelog that does not begin with the table folds to a part of it.
        if producer == "none" || first != Some(1) {
            continue;
        }
        let mut changes = table.changes(From::Earliest).await.unwrap();
        let mut fold = Fold::default();
        while let Some(step) = changes.next().await.unwrap() {
            let batches: Vec<_> = step.read().unwrap().try_collect().await.unwrap();
            for batch in &batches {
                let lines = kinded(step.columns(), batch, "_kind").unwrap();
                fold.apply(&schema.primary_keys, &lines);
            }
            // Rows that a compaction has yet to take up are in no changelog but that of the input.
            let complete = step.snapshot.changelog_manifest_list.is_some() || producer == "input";
            if !complete || *name == "pk_ignore_delete" && producer != "input" {
                continue;
            }
            let at = tidegate_scan::At::Snapshot(step.snapshot.id);
            let plan = table.scan(&at).await.unwrap();
            let theirs = sorted(parsed(&super::read(&plan).await.unwrap()), &[]);
            assert_eq!(fold.rows(), theirs, "{name}, snapshot {}", step.snapshot.id);
            compared.push(producer.clone());
        }
    }
    for producer in ["input", "lookup", "full-compaction"] {
        let count = compared.iter().filter(|p| *p == producer).count();
        assert!(count >= 2, "{producer}: {count} snapshots compared");
    }
}

/// A table to be altered.
struct Copy {
    dir: std::path::PathBuf,
    table: tidegate_scan::TableReader,
}

impl Copy {
    fn of(name: &str, test: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("tidegate-{test}-{}", std::process::id()));
        let _absent = std::fs::remove_dir_all(&dir);
        let from = super::tables()
            .join(name)
            .join("warehouse/golden.db")
            .join(name);
        super::copy(&from, &dir);
        let store = tidegate_storage::Store::open(dir.to_str().unwrap(), &Default::default());
        let table = tidegate_scan::TableReader::new(store.unwrap());
        Self { dir, table }
    }

    fn snapshot(&self, id: i64) -> std::path::PathBuf {
        self.dir.join(format!("snapshot/snapshot-{id}"))
    }

    fn hint(&self, name: &str, id: i64) {
        std::fs::write(self.dir.join("snapshot").join(name), id.to_string()).unwrap();
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir_all(&self.dir);
    }
}

async fn refused_to_go_on(changes: &mut Changes) -> String {
    match changes.next().await {
        Err(e @ Error::Gap { .. }) => e.to_string(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn expired_changes_are_a_gap_and_never_left_out() {
    let copy = Copy::of("pk_changelog_input", "expired");
    std::fs::remove_file(copy.snapshot(1)).unwrap();
    copy.hint("EARLIEST", 2);
    let from = From::Snapshot(SnapshotId(1));
    let error = copy.table.changes(from).await.unwrap_err().to_string();
    assert!(
        error.contains("snapshot 1: it has expired") && error.contains("are of snapshot 2"),
        "{error}"
    );
    let from = From::Snapshot(SnapshotId(10));
    let beyond = copy.table.changes(from).await.unwrap_err().to_string();
    assert!(beyond.contains("the newest snapshot is 8"), "{beyond}");
    // From the beginning means from what is left.
    let mut changes = copy.table.changes(From::Earliest).await.unwrap();
    assert_eq!(changes.next().await.unwrap().unwrap().snapshot.id.0, 2);
}

#[tokio::test]
async fn a_rollback_is_noticed_before_and_after_the_table_grew_back() {
    let copy = Copy::of("pk_changelog_input", "rollback");
    let mut changes = copy
        .table
        .changes(From::Snapshot(SnapshotId(6)))
        .await
        .unwrap();
    for id in 6..=8 {
        assert_eq!(changes.next().await.unwrap().unwrap().snapshot.id.0, id);
    }
    assert!(changes.next().await.unwrap().is_none());
    let old = std::fs::read_to_string(copy.snapshot(8)).unwrap();
    for id in [7, 8] {
        std::fs::remove_file(copy.snapshot(id)).unwrap();
    }
    copy.hint("LATEST", 6);
    let error = refused_to_go_on(&mut changes).await;
    assert!(
        error.contains("the newest snapshot is 6") && error.contains("rolled back"),
        "{error}"
    );
    // Written again: another snapshot 8, and a snapshot 9 on it.
    let other = old.replace("\"id\" : 8", "\"id\" : 7");
    assert_ne!(other, old);
    std::fs::write(copy.snapshot(7), other).unwrap();
    let other = old.replace(
        "\"commitIdentifier\"",
        "\"watermark\" : 7,\n  \"commitIdentifier\"",
    );
    assert_ne!(other, old);
    std::fs::write(copy.snapshot(8), &other).unwrap();
    copy.hint("LATEST", 8);
    let error = refused_to_go_on(&mut changes).await;
    assert!(error.contains("snapshot 8 is another one now"), "{error}");
    std::fs::write(copy.snapshot(9), other.replace("\"id\" : 8", "\"id\" : 9")).unwrap();
    let error = refused_to_go_on(&mut changes).await;
    assert!(error.contains("snapshot 8 is another one now"), "{error}");
}

#[tokio::test]
async fn changes_are_waited_for_and_come_once() {
    let copy = Copy::of("pk_changelog_none", "waiting");
    let last = std::fs::read(copy.snapshot(8)).unwrap();
    for id in [7, 8] {
        std::fs::remove_file(copy.snapshot(id)).unwrap();
    }
    copy.hint("LATEST", 6);
    let mut changes = copy.table.changes(From::Latest).await.unwrap();
    assert_eq!(changes.position(), SnapshotId(7));
    assert!(changes.next().await.unwrap().is_none());
    assert!(changes.next().await.unwrap().is_none());
    let text = String::from_utf8(last).unwrap();
    std::fs::write(copy.snapshot(7), text.replace("\"id\" : 8", "\"id\" : 7")).unwrap();
    let step = changes.next().await.unwrap().unwrap();
    assert_eq!(step.snapshot.id, SnapshotId(7));
    assert_eq!(step.skipped(), Some("it changed files, no rows"));
    assert!(changes.next().await.unwrap().is_none());
}

#[tokio::test]
async fn replaced_rows_come_where_the_table_says_so() {
    let copy = Copy::of("pk_overwrite_static", "replaced");
    let schema = copy.dir.join("schema/schema-0");
    let text = std::fs::read_to_string(&schema).unwrap();
    let with = text.replacen(
        "\"options\" : {",
        "\"options\" : {\n    \"streaming-read-overwrite\" : \"true\",",
        1,
    );
    assert_ne!(text, with);
    std::fs::write(&schema, with).unwrap();
    let mut changes = copy.table.changes(From::Earliest).await.unwrap();
    let mut fold = Fold::default();
    while let Some(step) = changes.next().await.unwrap() {
        assert_eq!(step.skipped(), None);
        let batches: Vec<_> = step.read().unwrap().try_collect().await.unwrap();
        for batch in &batches {
            let lines = kinded(step.columns(), batch, "_kind").unwrap();
            fold.apply(&["p".to_owned(), "id".to_owned()], &lines);
        }
    }
    let plan = copy.table.scan(&tidegate_scan::At::Latest).await.unwrap();
    let theirs = sorted(parsed(&super::read(&plan).await.unwrap()), &[]);
    assert_eq!(fold.rows(), theirs);
}

/// With deletion vectors a read leaves level 0 out, unless the table asks for merging on read: then it is all
/// that was ever written.
#[tokio::test]
async fn level_zero_is_merged_with_what_deletion_vectors_leave_where_the_table_says_so() {
    for name in ["pk_deletion_vectors_32", "pk_deletion_vectors_64"] {
        let copy = Copy::of(name, name);
        let hidden = copy.table.scan(&tidegate_scan::At::Latest).await.unwrap();
        let hidden = sorted(parsed(&super::read(&hidden).await.unwrap()), &[]);
        let schema = copy.dir.join("schema/schema-0");
        let text = std::fs::read_to_string(&schema).unwrap();
        let option = "\"options\" : {\n    \"deletion-vectors.merge-on-read\" : \"true\",";
        let with = text.replacen("\"options\" : {", option, 1);
        assert_ne!(text, with);
        std::fs::write(&schema, with).unwrap();
        let mut changes = copy.table.changes(From::Earliest).await.unwrap();
        let mut fold = Fold::default();
        while let Some(step) = changes.next().await.unwrap() {
            let batches: Vec<_> = step.read().unwrap().try_collect().await.unwrap();
            for batch in &batches {
                let lines = kinded(step.columns(), batch, "_kind").unwrap();
                fold.apply(&["k".to_owned()], &lines);
            }
        }
        let plan = copy.table.scan(&tidegate_scan::At::Latest).await.unwrap();
        let merged = sorted(parsed(&super::read(&plan).await.unwrap()), &[]);
        assert_eq!(merged, fold.rows(), "{name}");
        assert_ne!(merged, hidden, "{name}: nothing waits on level 0");
    }
}
