//! Two readers agree: other libraries read the same bytes to the same values.

use crate::golden::all_files;
use apache_avro::types::Value;
use tidegate_format::{Codec, index_manifest, manifest, manifest_list, snapshot};
use tidegate_model::{BinaryRow, SimpleStats};

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

fn assert_manifest(path: &str, bytes_of_file: &[u8]) {
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

#[test]
fn apache_avro_reads_the_same_entries_from_javas_manifests_and_from_ours() {
    for file in all_files("manifest-") {
        if file.path.contains("compression_deflate") {
            continue; // the other reader is built without it
        }
        assert_manifest(&file.path, &file.bytes);
    }
    for file in all_files("manifest-").iter().step_by(7) {
        let entries = manifest::decode(&file.bytes).unwrap();
        for codec in [Codec::Null, Codec::Snappy, Codec::default()] {
            let ours = manifest::encode(&entries, codec, *b"0123456789abcdef").unwrap();
            assert_manifest(&file.path, &ours);
        }
    }
}

#[test]
fn apache_avro_reads_the_same_lists() {
    for file in all_files("manifest-list-") {
        if file.path.contains("compression_deflate") {
            continue;
        }
        let manifests = manifest_list::decode(&file.bytes).unwrap();
        let ours = manifest_list::encode(&manifests, Codec::default(), [7; 16]).unwrap();
        for bytes in [&file.bytes, &ours] {
            let theirs = records(bytes);
            assert_eq!(manifests.len(), theirs.len(), "{}", file.path);
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
    }
}

#[test]
fn apache_avro_reads_the_same_index_entries() {
    for file in all_files("index-manifest-") {
        let entries = index_manifest::decode(&file.bytes).unwrap();
        let theirs = records(&file.bytes);
        assert_eq!(entries.len(), theirs.len());
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
}

#[test]
fn serde_json_reads_the_same_snapshots() {
    for file in all_files("snapshot-") {
        let ours = snapshot::decode(&file.bytes).unwrap();
        let theirs: serde_json::Value = serde_json::from_slice(&file.bytes).unwrap();
        let long = |key: &str| theirs[key].as_i64();
        assert_eq!(long("id"), Some(ours.id.0));
        assert_eq!(long("commitIdentifier"), Some(ours.commit_identifier.0));
        assert_eq!(long("timeMillis"), Some(ours.time_millis));
        assert_eq!(long("baseManifestListSize"), ours.base_manifest_list.size);
        assert_eq!(long("totalRecordCount"), ours.total_record_count);
        assert_eq!(long("deltaRecordCount"), ours.delta_record_count);
        assert_eq!(long("watermark"), ours.watermark);
        assert_eq!(long("nextRowId"), ours.next_row_id);
        assert_eq!(theirs["commitUser"], ours.commit_user.as_str());
        assert_eq!(theirs["statistics"].as_str(), ours.statistics.as_deref());
        assert_eq!(
            theirs["indexManifest"].as_str(),
            ours.index_manifest.as_deref()
        );
        let properties = theirs["properties"]
            .as_object()
            .map_or(0, serde_json::Map::len);
        assert_eq!(properties, ours.properties.len());
        for (key, value) in &ours.properties {
            assert_eq!(theirs["properties"][key], value.as_str());
        }
    }
}
