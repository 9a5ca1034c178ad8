//! Two readers agree: what ours takes, apache-avro and serde_json take too, with the same values.
//!
//! Taken in by the fuzz targets and by the tests of this crate: both readers are no part of it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    unreachable_pub,
    reason = "checks report by a panic"
)]
#![allow(dead_code, reason = "each target runs one of them")]

use apache_avro::types::Value;
use tidegate_format::{consumer, index_manifest, manifest, manifest_list, schema, snapshot, tag};
use tidegate_model::{BinaryRow, IndexManifestEntry, ManifestFile, SimpleStats};

/// A field of a record, unions taken off; `None` for null and for fields that are not there.
fn field<'v>(record: &'v Value, name: &str) -> Option<&'v Value> {
    let Value::Record(fields) = record else {
        panic!("{record:?} is no record")
    };
    let (_, value) = fields.iter().find(|(n, _)| n == name)?;
    match value {
        Value::Union(_, inner) => match &**inner {
            Value::Null => None,
            inner => Some(inner),
        },
        value => Some(value),
    }
}

fn long(value: &Value) -> i64 {
    match value {
        Value::Int(n) => i64::from(*n),
        Value::Long(n) | Value::TimestampMillis(n) => *n,
        Value::Union(_, inner) => long(inner),
        other => panic!("{other:?} is no number"),
    }
}

fn maybe_long(record: &Value, name: &str) -> Option<i64> {
    field(record, name).map(long)
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Union(_, inner) => text(inner),
        other => panic!("{other:?} is no text"),
    }
}

fn texts(record: &Value, name: &str) -> Option<Vec<String>> {
    match field(record, name)? {
        Value::Array(items) => Some(items.iter().map(text).collect()),
        other => panic!("{other:?} is no array"),
    }
}

fn bytes<'v>(record: &'v Value, name: &str) -> Option<&'v [u8]> {
    match field(record, name)? {
        Value::Bytes(bytes) => Some(bytes),
        other => panic!("{other:?} are no bytes"),
    }
}

fn assert_row(record: &Value, name: &str, row: &BinaryRow) {
    assert_eq!(
        bytes(record, name),
        Some(row.to_serialized().as_slice()),
        "{name}"
    );
}

fn assert_stats(record: &Value, name: &str, stats: &SimpleStats) {
    let theirs = field(record, name).unwrap();
    assert_row(theirs, "_MIN_VALUES", &stats.min_values);
    assert_row(theirs, "_MAX_VALUES", &stats.max_values);
    let counts = field(theirs, "_NULL_COUNTS").map(|value| match value {
        Value::Array(items) => items
            .iter()
            .map(|item| match item {
                Value::Union(_, inner) if **inner == Value::Null => None,
                item => Some(long(item)),
            })
            .collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    });
    assert_eq!(counts, stats.null_counts, "{name}");
}

fn records(bytes: &[u8]) -> Vec<Value> {
    apache_avro::Reader::new(bytes)
        .unwrap()
        .map(|record| record.unwrap())
        .collect()
}

pub fn assert_manifest(path: &str, bytes_of_file: &[u8]) {
    let ours = manifest::decode(bytes_of_file).unwrap();
    let theirs = records(bytes_of_file);
    assert_eq!(ours.len(), theirs.len(), "{path}");
    for (entry, record) in ours.iter().zip(&theirs) {
        let (f, file) = (&entry.file, field(record, "_FILE").unwrap());
        assert_eq!(long(field(record, "_KIND").unwrap()), entry.kind as i64);
        assert_row(record, "_PARTITION", &entry.partition);
        assert_eq!(maybe_long(record, "_BUCKET"), Some(entry.bucket.0.into()));
        assert_eq!(
            maybe_long(record, "_TOTAL_BUCKETS"),
            Some(entry.total_buckets.into())
        );
        assert_eq!(text(field(file, "_FILE_NAME").unwrap()), f.file_name);
        assert_eq!(maybe_long(file, "_FILE_SIZE"), Some(f.file_size));
        assert_eq!(maybe_long(file, "_ROW_COUNT"), Some(f.row_count));
        assert_row(file, "_MIN_KEY", &f.min_key);
        assert_row(file, "_MAX_KEY", &f.max_key);
        assert_stats(file, "_KEY_STATS", &f.key_stats);
        assert_stats(file, "_VALUE_STATS", &f.value_stats);
        assert_eq!(
            maybe_long(file, "_MIN_SEQUENCE_NUMBER"),
            Some(f.min_sequence_number)
        );
        assert_eq!(
            maybe_long(file, "_MAX_SEQUENCE_NUMBER"),
            Some(f.max_sequence_number)
        );
        assert_eq!(maybe_long(file, "_SCHEMA_ID"), Some(f.schema_id.0));
        assert_eq!(maybe_long(file, "_LEVEL"), Some(f.level.0.into()));
        assert_eq!(texts(file, "_EXTRA_FILES"), Some(f.extra_files.clone()));
        assert_eq!(maybe_long(file, "_CREATION_TIME"), f.creation_time_millis);
        assert_eq!(maybe_long(file, "_DELETE_ROW_COUNT"), f.delete_row_count);
        assert_eq!(
            bytes(file, "_EMBEDDED_FILE_INDEX"),
            f.embedded_index.as_deref()
        );
        assert_eq!(
            maybe_long(file, "_FILE_SOURCE"),
            f.file_source.map(|s| s as i64)
        );
        assert_eq!(texts(file, "_VALUE_STATS_COLS"), f.value_stats_cols);
        assert_eq!(field(file, "_EXTERNAL_PATH").map(text), f.external_path);
        assert_eq!(maybe_long(file, "_FIRST_ROW_ID"), f.first_row_id);
        assert_eq!(texts(file, "_WRITE_COLS"), f.write_cols);
    }
}

pub fn assert_list(path: &str, bytes_of_file: &[u8]) {
    let manifests: Vec<ManifestFile> = manifest_list::decode(bytes_of_file).unwrap();
    let theirs = records(bytes_of_file);
    assert_eq!(manifests.len(), theirs.len(), "{path}");
    for (m, record) in manifests.iter().zip(&theirs) {
        assert_eq!(text(field(record, "_FILE_NAME").unwrap()), m.file_name);
        assert_eq!(maybe_long(record, "_FILE_SIZE"), Some(m.file_size));
        assert_eq!(
            maybe_long(record, "_NUM_ADDED_FILES"),
            Some(m.num_added_files)
        );
        assert_eq!(
            maybe_long(record, "_NUM_DELETED_FILES"),
            Some(m.num_deleted_files)
        );
        assert_stats(record, "_PARTITION_STATS", &m.partition_stats);
        assert_eq!(maybe_long(record, "_SCHEMA_ID"), Some(m.schema_id.0));
        assert_eq!(
            maybe_long(record, "_MIN_BUCKET"),
            m.min_bucket.map(|b| b.0.into())
        );
        assert_eq!(
            maybe_long(record, "_MAX_BUCKET"),
            m.max_bucket.map(|b| b.0.into())
        );
        assert_eq!(
            maybe_long(record, "_MIN_LEVEL"),
            m.min_level.map(|l| l.0.into())
        );
        assert_eq!(
            maybe_long(record, "_MAX_LEVEL"),
            m.max_level.map(|l| l.0.into())
        );
        assert_eq!(maybe_long(record, "_MIN_ROW_ID"), m.min_row_id);
        assert_eq!(maybe_long(record, "_MAX_ROW_ID"), m.max_row_id);
    }
}

pub fn assert_index(path: &str, bytes_of_file: &[u8]) {
    let entries: Vec<IndexManifestEntry> = index_manifest::decode(bytes_of_file).unwrap();
    let theirs = records(bytes_of_file);
    assert_eq!(entries.len(), theirs.len(), "{path}");
    for (entry, record) in entries.iter().zip(&theirs) {
        assert_row(record, "_PARTITION", &entry.partition);
        assert_eq!(
            text(field(record, "_FILE_NAME").unwrap()),
            entry.file.file_name
        );
        assert_eq!(
            text(field(record, "_INDEX_TYPE").unwrap()),
            entry.file.index_type
        );
        assert_eq!(maybe_long(record, "_ROW_COUNT"), Some(entry.file.row_count));
        let ranges = field(record, "_DELETIONS_VECTORS_RANGES").map(|v| match v {
            Value::Array(items) => items
                .iter()
                .map(|item| match item {
                    Value::Union(_, inner) => (**inner).clone(),
                    item => item.clone(),
                })
                .collect::<Vec<_>>(),
            other => panic!("{other:?}"),
        });
        assert_eq!(ranges.is_some(), entry.file.dv_ranges.is_some());
        let theirs = ranges.unwrap_or_default();
        for (ours, theirs) in entry.file.dv_ranges.iter().flatten().zip(&theirs) {
            let ours = ours.as_ref().unwrap();
            assert_eq!(text(field(theirs, "f0").unwrap()), ours.data_file);
            assert_eq!(maybe_long(theirs, "f1"), Some(ours.offset.into()));
            assert_eq!(maybe_long(theirs, "f2"), Some(ours.length.into()));
            assert_eq!(maybe_long(theirs, "_CARDINALITY"), ours.cardinality);
        }
    }
}

/// The kind of file in the first byte. Names in the writer's schema that no reader needs are refused by the other
/// one and not by ours; what both begin to read they read alike.
pub fn avro_agrees(data: &[u8]) {
    let Some((kind, file)) = data.split_first() else {
        return;
    };
    // It panics at some of these names.
    let opened = std::panic::catch_unwind(|| apache_avro::Reader::new(file).is_ok());
    if !matches!(opened, Ok(true)) {
        return;
    }
    match kind % 3 {
        0 if manifest::decode(file).is_ok() => assert_manifest("fuzz", file),
        1 if manifest_list::decode(file).is_ok() => assert_list("fuzz", file),
        2 if index_manifest::decode(file).is_ok() => assert_index("fuzz", file),
        _ => {}
    }
}

/// What means the same as not being there.
fn bare(value: &mut serde_json::Value) {
    use serde_json::Value;
    let empty = |v: &Value| match v {
        Value::Null => true,
        Value::Object(map) => map.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    };
    if let Value::Object(map) = value {
        map.values_mut().for_each(bare);
        map.retain(|_, v| !empty(v));
    }
}

/// The kind of file in the first byte. What is written again has, for serde_json, what was read.
pub fn json_agrees(data: &[u8]) {
    let Some((kind, file)) = data.split_first() else {
        return;
    };
    let ours = match kind % 4 {
        0 => snapshot::decode(file).map(|read| snapshot::encode(&read)),
        1 => tag::decode(file).map(|read| tag::encode(&read)),
        2 => consumer::decode(file).map(|read| consumer::encode(&read)),
        _ => schema::decode(file).map(|read| schema::encode(&read)),
    };
    let Ok(again) = ours else { return };
    let read = |bytes: &[u8]| -> serde_json::Value {
        let mut value = serde_json::from_slice(bytes).expect("what ours took is JSON");
        bare(&mut value);
        value
    };
    let (theirs, again) = (read(file), read(&again));
    // Types inside a schema may be written in another form; a version that is written may be newer, and what
    // an older one lacks is completed.
    let whole = ["fields", "options"];
    for (key, value) in theirs.as_object().expect("ours took an object") {
        if key != "version" && !(kind % 4 == 3 && whole.contains(&key.as_str())) {
            assert_eq!(Some(value), again.get(key), "{key}");
        }
    }
    let names = |value: &serde_json::Value| -> Vec<serde_json::Value> {
        let fields = value.get("fields").and_then(serde_json::Value::as_array);
        fields
            .into_iter()
            .flatten()
            .map(|f| f["name"].clone())
            .collect()
    };
    assert_eq!(names(&theirs), names(&again));
}
