//! Tables that released Java Paimon wrote read to the rows that Java sees in them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

use futures::TryStreamExt;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tidegate_model::SnapshotId;
use tidegate_scan::canonical::{Times, rows};
use tidegate_scan::{At, Error, ScanPlan, TableReader};
use tidegate_storage::Store;

fn tables() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/golden/tables")
        .canonicalize()
        .unwrap()
}

fn reader(name: &str) -> TableReader {
    let path = tables().join(name).join("warehouse/golden.db").join(name);
    TableReader::new(Store::open(path.to_str().unwrap(), &BTreeMap::new()).unwrap())
}

fn expected(name: &str) -> Value {
    let text = std::fs::read_to_string(tables().join(name).join("rows.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// All names that have rows to compare with.
fn names() -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(tables())
        .unwrap()
        .map(|e| e.unwrap())
        .filter(|e| e.path().join("rows.json").exists())
        .map(|e| e.file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

async fn read(plan: &ScanPlan) -> Result<Vec<String>, Error> {
    let batches: Vec<_> = plan.read()?.try_collect().await?;
    let mut lines = Vec::new();
    for batch in batches {
        lines.extend(rows(plan.columns(), &batch, Times::Full)?);
    }
    Ok(lines)
}

/// Rows as comparable JSON, in any order; Java's row kind is left out.
fn sorted(rows: impl Iterator<Item = Value>) -> Vec<String> {
    let mut rows: Vec<String> = rows
        .map(|mut row| {
            row.as_object_mut().unwrap().shift_remove("_kind");
            row.to_string()
        })
        .collect();
    rows.sort();
    rows
}

async fn compare(name: &str, at: &At, table: &TableReader, expected: &Value) -> Result<(), String> {
    let plan = table
        .scan(at)
        .await
        .map_err(|e| format!("{name} {at:?}: {e}"))?;
    let read = read(&plan)
        .await
        .map_err(|e| format!("{name} {at:?}: {e}"))?;
    if plan.row_count() != read.len() as u64 {
        return Err(format!(
            "{name} {at:?}: {} rows planned, {} read",
            plan.row_count(),
            read.len()
        ));
    }
    let ours = sorted(read.iter().map(|line| serde_json::from_str(line).unwrap()));
    let theirs = sorted(expected.as_array().unwrap().iter().cloned());
    if ours == theirs {
        return Ok(());
    }
    let differ = ours.iter().zip(&theirs).find(|(a, b)| a != b);
    Err(format!(
        "{name} {at:?}: {} rows, Java {}; first difference {differ:#?}",
        ours.len(),
        theirs.len()
    ))
}

/// Tables that are refused, and a part of the reason given.
fn refused(name: &str) -> Option<&'static str> {
    match name {
        "append_blob" | "append_data_evolution" => Some("data-evolution"),
        "append_variant" => Some("VARIANT"),
        name if name.contains("_orc") => Some("format `orc`"),
        _ => None,
    }
}

#[tokio::test]
async fn every_snapshot_of_every_append_table_reads_to_javas_rows() {
    let (mut wrong, mut compared) = (Vec::new(), 0);
    for name in names().iter().filter(|n| refused(n).is_none()) {
        let (table, expected) = (reader(name), expected(name));
        if let Some(root) = expected["externalRoot"].as_str() {
            // The manifests hold this very path.
            copy(&tables().join(name).join("external"), Path::new(root));
        }
        let mut versions = vec![(At::Latest, table.clone(), expected["latest"].clone())];
        for snapshot in expected["snapshots"].as_array().unwrap() {
            let at = At::Snapshot(SnapshotId(snapshot["id"].to_string().parse().unwrap()));
            versions.push((at, table.clone(), snapshot["rows"].clone()));
        }
        for (tag, rows) in expected["tags"].as_object().into_iter().flatten() {
            versions.push((At::Tag(tag.clone()), table.clone(), rows.clone()));
        }
        for (branch, rows) in expected["branches"].as_object().into_iter().flatten() {
            versions.push((At::Latest, table.clone().with_branch(branch), rows.clone()));
        }
        for (at, table, rows) in versions.iter().filter(|(_, _, rows)| rows.is_array()) {
            compared += 1;
            if let Err(e) = compare(name, at, table, rows).await {
                wrong.push(e);
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {compared}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(compared > 200, "{compared} versions compared");
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else if !target.exists() {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[tokio::test]
async fn what_cannot_be_read_rightly_is_refused_by_name() {
    for name in names() {
        let Some(reason) = refused(&name) else {
            continue;
        };
        let result = match reader(&name).scan(&At::Latest).await {
            Ok(plan) => read(&plan).await.map(|_| ()),
            Err(e) => Err(e),
        };
        let error = result.expect_err(&name).to_string();
        assert!(error.contains(reason), "{name}: {error}");
    }
    let error = reader("pk_deduplicate")
        .scan(&At::Latest)
        .await
        .expect_err("a primary key")
        .to_string();
    assert!(error.contains("merge-on-read"), "{error}");
}

#[tokio::test]
async fn columns_and_limits_are_honoured() {
    let plan = reader("append_types_nullable_parquet")
        .scan(&At::Latest)
        .await
        .unwrap();
    let plan = plan.with_columns(&["c_ltz6", "id"]).unwrap().with_limit(3);
    let lines = read(&plan).await.unwrap();
    assert_eq!(lines.len(), 3);
    assert_eq!(
        lines[0],
        r#"{"c_ltz6":"1970-01-01T00:00:00.000000000Z","id":0}"#
    );
    let none = reader("append_1_3_1")
        .scan(&At::Latest)
        .await
        .unwrap()
        .with_limit(0);
    assert!(read(&none).await.unwrap().is_empty());
    let error = reader("append_1_3_1")
        .scan(&At::Latest)
        .await
        .unwrap()
        .with_columns(&["ID"])
        .unwrap_err();
    assert!(error.to_string().contains("no column `ID`"), "{error}");
}

#[tokio::test]
async fn times_print_the_digits_of_their_precision() {
    let plan = reader("append_types_nullable_parquet")
        .scan(&At::Latest)
        .await
        .unwrap();
    let plan = plan
        .with_columns(&["c_time", "c_time3", "c_ts0", "c_ts3", "c_ts6", "c_ltz9"])
        .unwrap();
    let batches: Vec<_> = plan.read().unwrap().try_collect().await.unwrap();
    let lines = rows(plan.columns(), &batches[0], Times::Precision).unwrap();
    assert!(
        lines.iter().any(|l| l.contains(r#""c_time3":"23:59:59.999","c_ts0":"1969-12-31T23:59:59","c_ts3":"1969-12-31T23:59:59.999","c_ts6":"1969-12-31T23:59:59.999999","c_ltz9":"1969-12-31T23:59:59.999999999Z""#)),
        "{lines:#?}"
    );
    assert!(
        lines
            .iter()
            .any(|l| l.starts_with(r#"{"c_time":"00:00:00","#)),
        "{lines:#?}"
    );
}

#[tokio::test]
async fn missing_things_are_named() {
    let table = reader("append_expired");
    let error = table
        .scan(&At::Snapshot(SnapshotId(3)))
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("snapshot 3") && error.contains("there are 8 to 8"),
        "{error}"
    );
    let error = table
        .scan(&At::Tag("nope".into()))
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("tag `nope`"), "{error}");
    let error = reader("not_there").scan(&At::Latest).await.unwrap_err();
    assert!(matches!(error, Error::NoTable(_)), "{error}");
}
