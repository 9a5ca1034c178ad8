//! Tables that released Java Paimon wrote read to the rows that Java sees in them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

mod append;
mod changes;
mod keyed;
mod pruning;

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
    let expected: Value = serde_json::from_str(&text).unwrap();
    if let Some(root) = expected["externalRoot"].as_str() {
        // The manifests hold this very path.
        copy(&tables().join(name).join("external"), Path::new(root));
    }
    expected
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

/// All names that have rows to compare with, of tables with a key or of those without.
fn names(keyed: bool) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(tables())
        .unwrap()
        .map(|e| e.unwrap())
        .filter(|e| e.path().join("rows.json").exists())
        .filter(|e| is_keyed(&e.path()) == keyed)
        .map(|e| e.file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn is_keyed(table: &Path) -> bool {
    let text = std::fs::read_to_string(table.join("metadata.json")).unwrap();
    let metadata: Value = serde_json::from_str(&text).unwrap();
    let keys = metadata["schema"]["primaryKeys"].as_array();
    keys.is_some_and(|k| !k.is_empty())
}

async fn read(plan: &ScanPlan) -> Result<Vec<String>, Error> {
    let batches: Vec<_> = plan.read()?.try_collect().await?;
    let mut lines = Vec::new();
    for batch in batches {
        lines.extend(rows(plan.columns(), &batch, Times::Full)?);
    }
    Ok(lines)
}

/// Rows with their kinds under a name of the caller's, in front.
async fn read_kinds(plan: &ScanPlan, name: &str) -> Result<Vec<String>, Error> {
    let batches: Vec<_> = plan.read_kinds()?.try_collect().await?;
    let mut lines = Vec::new();
    for batch in batches {
        lines.extend(kinded(plan.columns(), &batch, name)?);
    }
    Ok(lines)
}

fn kinded(
    columns: &[tidegate_model::DataField],
    batch: &tidegate_scan::KindedRows,
    name: &str,
) -> Result<Vec<String>, Error> {
    let lines = rows(columns, &batch.rows, Times::Full)?;
    let kinds = batch.texts();
    let line = |(line, kind): (&String, Option<&str>)| {
        format!("{{\"{name}\":\"{}\",{}", kind.unwrap(), &line[1..])
    };
    Ok(lines.iter().zip(&kinds).map(line).collect())
}

/// Rows as comparable JSON, in any order, without these keys.
fn sorted(rows: impl Iterator<Item = Value>, without: &[&str]) -> Vec<String> {
    let mut rows: Vec<String> = rows
        .map(|mut row| {
            for key in without {
                row.as_object_mut().unwrap().shift_remove(*key);
            }
            row.to_string()
        })
        .collect();
    rows.sort();
    rows
}

fn parsed(lines: &[String]) -> impl Iterator<Item = Value> {
    lines.iter().map(|line| serde_json::from_str(line).unwrap())
}

fn differ(what: &str, ours: &[String], theirs: &[String]) -> Result<(), String> {
    if ours == theirs {
        return Ok(());
    }
    let differ = ours.iter().zip(theirs).find(|(a, b)| a != b);
    Err(format!(
        "{what}: {} rows, Java {}; first difference {differ:#?}",
        ours.len(),
        theirs.len()
    ))
}

async fn compare(name: &str, at: &At, table: &TableReader, expected: &Value) -> Result<(), String> {
    let what = format!("{name} {at:?}");
    let told = |e: Error| format!("{what}: {e}");
    let plan = table.scan(at).await.map_err(told)?;
    let read = read(&plan).await.map_err(told)?;
    if let Some(planned) = plan.row_count()
        && planned != read.len() as u64
    {
        return Err(format!(
            "{what}: {planned} rows planned, {} read",
            read.len()
        ));
    }
    let ours = sorted(parsed(&read).map(|row| unordered(name, row)), &[]);
    // Java's kind is that of the record only where it merged; see `$audit_log`.
    let theirs = expected.as_array().unwrap().iter().cloned();
    let theirs = sorted(theirs.map(|row| unordered(name, row)), &["_kind"]);
    differ(&what, &ours, &theirs)
}

/// `nested_update` gives what it gathered in the order of Java's hash map, which means nothing.
fn unordered(name: &str, mut row: Value) -> Value {
    if name == "pk_aggregation_nested_update"
        && let Some(nested) = row["n1"].as_array_mut()
    {
        nested.sort_by_key(Value::to_string);
    }
    row
}

/// Every version that the collection has rows of.
fn versions(table: &TableReader, expected: &Value) -> Vec<(At, TableReader, Value)> {
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
    versions.retain(|(_, _, rows)| rows.is_array());
    versions
}
