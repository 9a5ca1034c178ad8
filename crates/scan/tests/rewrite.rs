//! Rows of Java's data files, encoded by us: the same Parquet schema and the same statistics.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

use futures::TryStreamExt;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::schema::printer::print_schema;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tidegate_datafile::{FileEncoder, FilePlan};
use tidegate_model::{BinaryRow, DataField, Datum, SimpleStats, TableSchema};
use tidegate_scan::{At, TableReader};
use tidegate_storage::Store;

fn tables() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/golden/tables")
        .canonicalize()
        .unwrap()
}

fn parquet_schema(bytes: bytes::Bytes) -> String {
    let reader = SerializedFileReader::new(bytes).unwrap();
    let mut text = Vec::new();
    print_schema(&mut text, reader.metadata().file_metadata().schema());
    String::from_utf8(text).unwrap()
}

fn values(row: &BinaryRow, fields: &[&DataField]) -> Vec<Option<Datum>> {
    fields
        .iter()
        .enumerate()
        .map(|(i, f)| row.get(i, &f.data_type.logical).unwrap())
        .collect()
}

/// Statistics as text, since NaN is not equal to itself.
fn shown(stats: &SimpleStats, columns: &Option<Vec<String>>, schema: &TableSchema) -> Vec<String> {
    let covered: Vec<&DataField> = match columns {
        None => schema.fields.iter().collect(),
        Some(names) => names
            .iter()
            .map(|n| schema.fields.iter().find(|f| &f.name == n).unwrap())
            .collect(),
    };
    let (min, max) = (
        values(&stats.min_values, &covered),
        values(&stats.max_values, &covered),
    );
    let nulls = stats
        .null_counts
        .clone()
        .unwrap_or_else(|| vec![None; covered.len()]);
    // Older releases drop the bounds of a column whose first value is NaN.
    let nan = |v: &Option<Datum>| matches!(v, Some(Datum::Double(d)) if d.is_nan());
    let old = schema.options.is_empty() && schema.fields.iter().any(|f| f.name == "c6");
    // The encoder's bounds hold both zeros where there is one: wider than Java's, so still bounds.
    let zero = |v: &Option<Datum>| match v {
        Some(Datum::Float(0.0)) => Some(Datum::Float(0.0)),
        other => other.clone(),
    };
    covered
        .iter()
        .enumerate()
        .filter(|(i, f)| !(old && f.name == "c6" && (min[*i].is_none() || nan(&max[*i]))))
        .map(|(i, f)| {
            format!(
                "{}: {:?} {:?} {:?}",
                f.name,
                zero(&min[i]),
                zero(&max[i]),
                nulls[i]
            )
        })
        .collect()
}

#[tokio::test]
async fn java_files_encoded_by_us_have_javas_schema_and_statistics() {
    let (mut wrong, mut compared) = (Vec::new(), 0);
    let (mut java_bytes, mut our_bytes) = (0, 0);
    let mut names: Vec<_> = std::fs::read_dir(tables())
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    names.sort();
    for name in names.iter().map(|n| n.to_str().unwrap()) {
        if !tables().join(name).join("rows.json").exists() || name == "append_external_path" {
            continue;
        }
        let path = tables().join(name).join("warehouse/golden.db").join(name);
        let store = Store::open(path.to_str().unwrap(), &BTreeMap::new()).unwrap();
        let table = TableReader::new(store.clone());
        let Ok(plan) = table.scan(&At::Latest).await else {
            continue;
        };
        // Files of keyed tables have other columns: `datafile` compares those.
        if !plan.schema().primary_keys.is_empty() {
            continue;
        }
        for split in plan.splits().to_vec() {
            let schema = table.schema(split.file.schema_id).await.unwrap();
            let Ok(file_plan) = FilePlan::new(&schema) else {
                continue;
            };
            let mut one = plan.clone();
            one.retain(|s| s.path == split.path);
            let one = one.with_file_columns(&schema);
            let mut encoder = FileEncoder::new(&file_plan).unwrap();
            let batches: Vec<_> = one.read().unwrap().try_collect().await.unwrap();
            batches.iter().for_each(|b| encoder.write(b).unwrap());
            let file = encoder.finish().unwrap();
            compared += 1;
            let java = store.get(&split.path).await.unwrap();
            java_bytes += java.len();
            our_bytes += file.last_bytes.len();
            let (java, ours) = (parquet_schema(java), parquet_schema(file.last_bytes));
            if java != ours {
                wrong.push(format!("{name} {}: Java\n{java}\nours\n{ours}", split.path));
            }
            if split.file.extra_files.is_empty() && !split.file.file_name.is_empty() {
                let java = shown(
                    &split.file.value_stats,
                    &split.file.value_stats_cols,
                    &schema,
                );
                let ours = shown(&file.value_stats, &file.value_stats_cols, &schema);
                if java != ours && split.deletion.is_none() {
                    for (java, ours) in java.iter().zip(&ours).filter(|(a, b)| a != b) {
                        wrong.push(format!(
                            "{name} {}:\n  Java {java}\n  ours {ours}",
                            split.path
                        ));
                    }
                    if java.len() != ours.len() {
                        wrong.push(format!(
                            "{name} {}: Java {java:#?} ours {ours:#?}",
                            split.path
                        ));
                    }
                }
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} differences in {compared} files:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(
        our_bytes <= java_bytes,
        "Java {java_bytes} bytes, ours {our_bytes}"
    );
    assert!(compared > 150, "{compared}");
}
