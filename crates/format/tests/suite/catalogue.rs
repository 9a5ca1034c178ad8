//! What we decode is what Java's system tables show.

use crate::golden::{Table, tables};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashMap};
use tidegate_format::{
    consumer, hint, index_manifest, manifest, manifest_list, schema, snapshot, tag,
};
use tidegate_model::{
    BucketId, EntryKind, FileIdentity, FileSource, ManifestEntry, ManifestFile, Snapshot,
    TableSchema,
};

/// Milliseconds of a UTC wall clock as Java prints them, nine decimals.
fn time(millis: i64) -> String {
    let (days, rest) = (millis.div_euclid(86_400_000), millis.rem_euclid(86_400_000));
    let (seconds, milli) = (rest / 1000, rest % 1000);
    // Days since 0000-03-01, in eras of 400 years.
    let z = days + 719_468;
    let (era, day) = (z.div_euclid(146_097), z.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{milli:03}000000",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    )
}

/// What Java's system tables say, and more of the catalogue.
fn expected(table: &Table) -> Value {
    let path = table.root.join("../../../metadata.json");
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// Rows of a system table; `None` where Java itself fails on it.
fn rows(table: &Table, name: &str) -> Option<Vec<Map<String, Value>>> {
    let rows = expected(table)["systemTables"][name].as_array()?.clone();
    Some(
        rows.into_iter()
            .map(|row| row.as_object().unwrap().clone())
            .collect(),
    )
}

/// Compares every column of `row` that `ours` has.
fn compare(table: &Table, row: &Map<String, Value>, ours: Value) {
    for (key, value) in ours.as_object().unwrap() {
        // Releases differ in columns.
        if let Some(theirs) = row.get(key) {
            assert_eq!(value, theirs, "{} column {key} of {row:?}", table.name);
        }
    }
}

fn snapshots(table: &Table) -> BTreeMap<i64, Snapshot> {
    let folder = format!("{}/snapshot/", table.name);
    let files = table
        .files("snapshot-")
        .into_iter()
        .filter(|f| f.path.starts_with(&folder));
    files
        .map(|f| snapshot::decode(&f.bytes).unwrap())
        .map(|s| (s.id.0, s))
        .collect()
}

fn schemas(table: &Table) -> BTreeMap<i64, TableSchema> {
    let folder = format!("{}/schema/", table.name);
    let files = table
        .files("schema-")
        .into_iter()
        .filter(|f| f.path.starts_with(&folder));
    files
        .map(|f| schema::decode(&f.bytes).unwrap())
        .map(|s| (s.id.0, s))
        .collect()
}

fn metadata(table: &Table, name: &str) -> Vec<u8> {
    std::fs::read(table.root.join("manifest").join(name)).unwrap()
}

fn manifests(table: &Table, snapshot: &Snapshot, changelog: bool) -> Vec<ManifestFile> {
    let changelog = snapshot
        .changelog_manifest_list
        .as_ref()
        .filter(|_| changelog);
    [&snapshot.base_manifest_list, &snapshot.delta_manifest_list]
        .into_iter()
        .chain(changelog)
        .flat_map(|list| {
            let bytes = metadata(table, &list.name);
            assert!(list.size.is_none_or(|size| size == bytes.len() as i64));
            manifest_list::decode(&bytes).unwrap()
        })
        .collect()
}

fn live(table: &Table, snapshot: &Snapshot) -> HashMap<FileIdentity, ManifestEntry> {
    let mut live = HashMap::new();
    for meta in manifests(table, snapshot, false) {
        let bytes = metadata(table, &meta.file_name);
        assert_eq!(bytes.len() as i64, meta.file_size, "{}", meta.file_name);
        let (mut added, mut deleted) = (0, 0);
        for entry in manifest::entries(&bytes).unwrap() {
            let entry = entry.unwrap();
            match entry.kind {
                EntryKind::Add => {
                    added += 1;
                    live.insert(entry.identity(), entry);
                }
                EntryKind::Delete => {
                    deleted += 1;
                    live.remove(&entry.identity());
                }
            }
        }
        assert_eq!(
            (added, deleted),
            (meta.num_added_files, meta.num_deleted_files)
        );
    }
    live
}

#[test]
fn snapshots_are_those_of_java() {
    for table in tables() {
        let ours = snapshots(&table);
        let theirs = rows(&table, "snapshots").unwrap();
        assert_eq!(ours.len(), theirs.len(), "{}", table.name);
        for row in theirs {
            let s = &ours[&row["snapshot_id"].as_i64().unwrap()];
            compare(
                &table,
                &row,
                json!({
                    "schema_id": s.schema_id.0,
                    "commit_user": s.commit_user.as_str(),
                    "commit_identifier": s.commit_identifier.0,
                    "commit_kind": s.commit_kind.to_string(),
                    "commit_time": time(s.time_millis),
                    "base_manifest_list": s.base_manifest_list.name,
                    "delta_manifest_list": s.delta_manifest_list.name,
                    "changelog_manifest_list": s.changelog_manifest_list.as_ref().map(|l| &l.name),
                    "total_record_count": s.total_record_count,
                    "delta_record_count": s.delta_record_count,
                    "changelog_record_count": s.changelog_record_count,
                    "watermark": s.watermark,
                    "next_row_id": s.next_row_id,
                }),
            );
        }
    }
}

#[test]
fn schemas_and_options_are_those_of_java() {
    let mut options_seen = 0;
    for table in tables() {
        let ours = schemas(&table);
        let theirs = rows(&table, "schemas").unwrap();
        assert_eq!(ours.len(), theirs.len(), "{}", table.name);
        for row in theirs {
            let s = &ours[&row["schema_id"].as_i64().unwrap()];
            let inner = |column: &str| -> Value {
                serde_json::from_str(row[column].as_str().unwrap()).unwrap()
            };
            let fields: Vec<Value> = s
                .fields
                .iter()
                .map(|f| {
                    let kind: Value =
                        serde_json::from_slice(&schema::encode_type(&f.data_type)).unwrap();
                    let mut field = json!({ "id": f.id.0, "name": f.name, "type": kind });
                    let more = [
                        ("description", &f.description),
                        ("defaultValue", &f.default_value),
                    ];
                    for (key, text) in more {
                        if let Some(text) = text {
                            field[key] = json!(text);
                        }
                    }
                    field
                })
                .collect();
            assert_eq!(Value::from(fields), inner("fields"), "{}", table.name);
            assert_eq!(json!(s.partition_keys), inner("partition_keys"));
            assert_eq!(json!(s.primary_keys), inner("primary_keys"));
            let options: Map<String, Value> = s
                .options
                .iter()
                .map(|(k, v)| (k.to_owned(), json!(v)))
                .collect();
            assert_eq!(Value::Object(options), inner("options"), "{}", table.name);
            compare(
                &table,
                &row,
                json!({ "comment": s.comment, "update_time": time(s.time_millis) }),
            );
        }
        let (_, latest) = ours.last_key_value().unwrap();
        for row in rows(&table, "options").unwrap() {
            assert_eq!(
                latest.options.get(row["key"].as_str().unwrap()),
                row["value"].as_str()
            );
            options_seen += 1;
        }
    }
    assert!(options_seen > 200, "{options_seen}");
}

#[test]
fn manifests_are_those_of_java() {
    for table in tables() {
        let theirs = rows(&table, "manifests").unwrap();
        let Some((_, latest)) = snapshots(&table).pop_last() else {
            assert!(theirs.is_empty());
            continue;
        };
        let ours: HashMap<_, _> = manifests(&table, &latest, true)
            .into_iter()
            .map(|m| (m.file_name.clone(), m))
            .collect();
        assert_eq!(ours.len(), theirs.len(), "{}", table.name);
        for row in theirs {
            let m = &ours[row["file_name"].as_str().unwrap()];
            compare(
                &table,
                &row,
                json!({
                    "file_size": m.file_size,
                    "num_added_files": m.num_added_files,
                    "num_deleted_files": m.num_deleted_files,
                    "schema_id": m.schema_id.0,
                    "min_row_id": m.min_row_id,
                    "max_row_id": m.max_row_id,
                }),
            );
        }
    }
}

/// Null counts as `$files` prints them, for a file of the newest schema.
fn null_counts(entry: &ManifestEntry, schema: &TableSchema) -> String {
    let stats = &entry.file.value_stats;
    let all: Vec<String> = schema.fields.iter().map(|f| f.name.clone()).collect();
    let written = entry.file.write_cols.clone().unwrap_or_else(|| all.clone());
    let covered = entry.file.value_stats_cols.clone().unwrap_or(written);
    assert_eq!(stats.min_values.arity() as usize, covered.len());
    let counts = stats.null_counts.clone().unwrap_or_default();
    let by_name: HashMap<_, _> = covered.iter().zip(counts).collect();
    let mut names = all;
    names.sort();
    let texts: Vec<_> = names
        .iter()
        .map(|name| match by_name.get(name).copied().flatten() {
            Some(count) => format!("{name}={count}"),
            None => format!("{name}=null"),
        })
        .collect();
    format!("{{{}}}", texts.join(", "))
}

#[test]
fn live_files_are_those_of_java() {
    let (mut files, mut counted) = (0, 0);
    for table in tables() {
        let Some(theirs) = rows(&table, "files") else {
            continue;
        };
        let Some((_, latest)) = snapshots(&table).pop_last() else {
            continue;
        };
        let (_, schema) = schemas(&table).pop_last().unwrap();
        let ours: HashMap<String, ManifestEntry> = live(&table, &latest)
            .into_values()
            .map(|e| (e.file.file_name.clone(), e))
            .collect();
        // Rows of the postpone bucket are invisible to batch readers.
        let visible = ours
            .values()
            .filter(|e| e.bucket != BucketId::POSTPONE)
            .count();
        assert_eq!(visible, theirs.len(), "{}", table.name);
        for row in theirs {
            let path = row["file_path"].as_str().unwrap();
            let entry = &ours[path.rsplit('/').next().unwrap()];
            let f = &entry.file;
            compare(
                &table,
                &row,
                json!({
                    "bucket": entry.bucket.0,
                    "schema_id": f.schema_id.0,
                    "level": f.level.0,
                    "record_count": f.row_count,
                    "file_size_in_bytes": f.file_size,
                    "min_sequence_number": f.min_sequence_number,
                    "max_sequence_number": f.max_sequence_number,
                    "creation_time": f.creation_time_millis.map(time),
                    "deleteRowCount": f.delete_row_count,
                    "file_source": f.file_source.map(|s| match s {
                        FileSource::Append => "APPEND",
                        FileSource::Compact => "COMPACT",
                    }),
                    "first_row_id": f.first_row_id,
                    "write_cols": f.write_cols,
                }),
            );
            if let Some(external) = &f.external_path {
                assert_eq!(path, external, "{}", table.name);
            }
            if f.schema_id == schema.id && f.write_cols.is_none() {
                assert_eq!(
                    null_counts(entry, &schema),
                    row["null_value_counts"],
                    "{} {path}",
                    table.name
                );
                counted += 1;
            }
            files += 1;
        }
        let rows = live(&table, &latest)
            .into_values()
            .map(|e| e.file.row_count)
            .sum::<i64>();
        assert_eq!(Some(rows), latest.total_record_count, "{}", table.name);
    }
    assert!(files > 500 && counted > 400, "{files} {counted}");
}

#[test]
fn index_files_are_those_of_java() {
    let mut seen = 0;
    for table in tables() {
        let theirs = rows(&table, "table_indexes").unwrap();
        let latest = snapshots(&table).pop_last().map(|(_, s)| s);
        let manifest = latest.and_then(|s| s.index_manifest);
        let ours: HashMap<_, _> = manifest
            .map(|name| index_manifest::decode(&metadata(&table, &name)).unwrap())
            .unwrap_or_default()
            .into_iter()
            .map(|e| (e.file.file_name.clone(), e))
            .collect();
        assert_eq!(ours.len(), theirs.len(), "{}", table.name);
        for row in theirs {
            let entry = &ours[row["file_name"].as_str().unwrap()];
            let ranges = entry.file.dv_ranges.as_ref().map(|all| {
                all.iter()
                    .flatten()
                    .map(|r| json!({
                        "f0": r.data_file, "f1": r.offset, "f2": r.length, "_CARDINALITY": r.cardinality,
                    }))
                    .collect::<Vec<_>>()
            });
            compare(
                &table,
                &row,
                json!({
                    "bucket": entry.bucket.0,
                    "index_type": entry.file.index_type,
                    "file_size": entry.file.file_size,
                    "row_count": entry.file.row_count,
                    "dv_ranges": ranges,
                }),
            );
            seen += 1;
        }
    }
    assert!(seen > 15, "{seen}");
}

#[test]
fn tags_consumers_and_hints_are_those_of_java() {
    let (mut tags, mut consumers) = (0, 0);
    for table in tables() {
        for row in rows(&table, "tags").unwrap() {
            let path = table
                .root
                .join(format!("tag/tag-{}", row["tag_name"].as_str().unwrap()));
            let tag = tag::decode(&std::fs::read(path).unwrap()).unwrap();
            compare(
                &table,
                &row,
                json!({
                    "snapshot_id": tag.snapshot.id.0,
                    "schema_id": tag.snapshot.schema_id.0,
                    "commit_time": time(tag.snapshot.time_millis),
                    "record_count": tag.snapshot.total_record_count,
                    "create_time": tag.create_time.map(|t| format!(
                        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:09}",
                        t.year, t.month, t.day, t.hour, t.minute, t.second, t.nanosecond
                    )),
                    "time_retained": tag.time_retained.map(|r| {
                        assert_eq!((r.seconds % 3600, r.nanoseconds), (0, 0));
                        format!("PT{}H", r.seconds / 3600)
                    }),
                }),
            );
            tags += 1;
        }
        for row in rows(&table, "consumers").unwrap() {
            let name = format!("consumer/consumer-{}", row["consumer_id"].as_str().unwrap());
            let consumer =
                consumer::decode(&std::fs::read(table.root.join(name)).unwrap()).unwrap();
            assert_eq!(json!(consumer.next_snapshot.0), row["next_snapshot_id"]);
            consumers += 1;
        }
        if let Some((latest, _)) = snapshots(&table).pop_last() {
            let bytes = std::fs::read(table.root.join("snapshot/LATEST")).unwrap();
            assert_eq!(hint::decode(&bytes).unwrap().0, latest, "{}", table.name);
        }
    }
    assert!(tags > 8 && consumers == 2, "{tags} {consumers}");
}
