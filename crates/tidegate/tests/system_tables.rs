//! `table snapshots|options|partitions|buckets|files` against what released Java's `$` tables show of
//! the golden tables, value by value.

#![allow(missing_docs)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tidegate::storage::Store;
use tidegate::system::{self, Cell, Sheet};
use tidegate::{Error, Table};

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/tables")
}

/// A sheet's rows as sorted texts of the columns that Java has too.
fn ours(sheet: &Sheet, columns: &[String]) -> Vec<String> {
    let mut rows: Vec<String> = sheet
        .rows()
        .iter()
        .map(|row| {
            let cells: BTreeMap<&str, &Cell> = sheet
                .columns()
                .iter()
                .map(String::as_str)
                .zip(row)
                .collect();
            let texts = columns.iter().map(|c| {
                cells
                    .get(c.as_str())
                    .map_or("no such column".into(), |c| c.to_string())
            });
            texts.collect::<Vec<_>>().join(" | ")
        })
        .collect();
    rows.sort();
    rows
}

fn javas(rows: &[Value], columns: &[String]) -> Vec<String> {
    let text = |v: &Value| match v {
        Value::Null => String::new(),
        // Java prints nine digits of a second where the column has three.
        Value::String(s)
            if s.len() == 29 && s.ends_with("000000") && s.as_bytes().get(10) == Some(&b'T') =>
        {
            s.chars().take(23).collect()
        }
        Value::String(s) => s.clone(),
        other => other.to_string(),
    };
    let mut rows: Vec<String> = rows
        .iter()
        .map(|row| {
            columns
                .iter()
                .map(|c| text(&row[c]))
                .collect::<Vec<_>>()
                .join(" | ")
        })
        .collect();
    rows.sort();
    rows
}

/// Columns that Java fills from a catalog, and paths, which name the folder of the golden run.
const NOT_COMPARED: [&str; 9] = [
    "_kind",
    "created_at",
    "created_by",
    "updated_by",
    "options",
    "done",
    "file_path",
    "min_value_stats",
    "max_value_stats",
];

#[tokio::test]
async fn the_columns_and_values_of_java_are_shown() {
    let mut compared = BTreeMap::<&str, u32>::new();
    let mut wrong = Vec::new();
    for entry in std::fs::read_dir(golden()).unwrap() {
        let dir = entry.unwrap().path();
        let name = dir.file_name().unwrap().to_string_lossy().into_owned();
        let Ok(metadata) = std::fs::read(dir.join("metadata.json")) else {
            continue;
        };
        let metadata: Value = serde_json::from_slice(&metadata).unwrap();
        // The judged release; older ones print partitions in other brackets.
        if metadata["paimonVersion"] != "1.4.2" {
            continue;
        }
        let place = dir.join("warehouse/golden.db").join(&name);
        let store = Store::open(place.to_str().unwrap(), &BTreeMap::new()).unwrap();
        let table = Table::on(store, name.clone()).await.unwrap();
        let sheets: [(&str, Result<Sheet, Error>); 5] = [
            ("snapshots", system::snapshots(&table).await),
            ("options", Ok(system::options(&table))),
            ("partitions", system::partitions(&table, None).await),
            ("buckets", system::buckets(&table, None).await),
            ("files", system::files(&table, None).await),
        ];
        for (kind, sheet) in sheets {
            let Some(java) = metadata["systemTables"][kind].as_array() else {
                continue; // Java itself refuses it
            };
            let sheet = match sheet {
                Ok(sheet) => sheet,
                // Keyed tables, data evolution and blobs are refused by name for now.
                Err(e) if e.to_string().contains("cannot be read by this build") => continue,
                Err(e) => panic!("{name} ${kind}: {e}"),
            };
            // Schema evolution: Java maps null counts to the current schema, ours are the file's own.
            if kind == "files"
                && (name.contains("evolution") || name == "append_watermark_properties_statistics")
            {
                continue;
            }
            let first = java.first().and_then(Value::as_object);
            let columns: Vec<String> = first
                .map(|row| {
                    row.keys()
                        .filter(|c| !NOT_COMPARED.contains(&c.as_str()))
                        .cloned()
                        .collect()
                })
                .unwrap_or_default();
            // An unpartitioned table has one partition without a name.
            let (ours, java) = (ours(&sheet, &columns), javas(java, &columns));
            if ours != java {
                wrong.push(format!("{name} ${kind}\n  ours {ours:?}\n  java {java:?}"));
            }
            *compared.entry(kind).or_default() += 1;
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {compared:?} differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(
        compared.len() == 5 && compared.values().all(|n| *n >= 80),
        "{compared:?}"
    );
}
