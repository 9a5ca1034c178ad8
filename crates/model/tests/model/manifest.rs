//! How entries combine.

use proptest::prelude::*;
use tidegate_model::manifest::{LiveFiles, delta_record_count, merge_entries};
use tidegate_model::{
    BinaryRow, BucketId, DataFileMeta, Datum, EntryKind, FileSource, Level, LogicalType,
    ManifestEntry, ManifestFile, SchemaId, SimpleStats,
};

fn entry(kind: EntryKind, name: &str, level: i32) -> ManifestEntry {
    ManifestEntry {
        kind,
        partition: BinaryRow::empty(),
        bucket: BucketId(0),
        total_buckets: -1,
        file: DataFileMeta {
            file_name: name.to_owned(),
            file_size: 10,
            row_count: 5,
            min_key: BinaryRow::empty(),
            max_key: BinaryRow::empty(),
            key_stats: SimpleStats::empty(),
            value_stats: SimpleStats::empty(),
            min_sequence_number: 0,
            max_sequence_number: 4,
            schema_id: SchemaId(0),
            level: Level(level),
            extra_files: vec![],
            creation_time_millis: None,
            delete_row_count: Some(0),
            embedded_index: None,
            file_source: Some(FileSource::Append),
            value_stats_cols: None,
            external_path: None,
            first_row_id: None,
            write_cols: None,
            write_cols_sequences: None,
        },
    }
}

fn add(name: &str) -> ManifestEntry {
    entry(EntryKind::Add, name, 0)
}

fn delete(name: &str) -> ManifestEntry {
    entry(EntryKind::Delete, name, 0)
}

/// [0-2]
#[test]
fn merging_cancels_pairs_and_keeps_deletes_of_older_manifests() {
    let merged = merge_entries([add("a"), add("b"), delete("a"), delete("old"), add("c")]).unwrap();
    assert_eq!(merged, [add("b"), delete("old"), add("c")]);
    let error = merge_entries([add("a"), add("a")]).unwrap_err().to_string();
    assert!(error.contains("file a in bucket 0, level 0"), "{error}");
    assert!(merge_entries([delete("old"), add("old")]).is_err());
    // A deleted file's tombstone is never cancelled by repeating it.
    assert_eq!(
        merge_entries([delete("old"), delete("old")]).unwrap(),
        [delete("old")]
    );
}

#[test]
fn level_companions_index_and_external_path_are_part_of_the_identity() {
    let upgrade = [
        entry(EntryKind::Add, "a", 0),
        entry(EntryKind::Delete, "a", 0),
        entry(EntryKind::Add, "a", 5),
    ];
    assert_eq!(
        merge_entries(upgrade).unwrap(),
        [entry(EntryKind::Add, "a", 5)]
    );
    let changes: [fn(&mut DataFileMeta); 3] = [
        |f| f.extra_files.push("a.index".into()),
        |f| f.embedded_index = Some(vec![1]),
        |f| f.external_path = Some("s3://x/a".into()),
    ];
    for change in changes {
        let mut other = delete("a");
        change(&mut other.file);
        assert_eq!(merge_entries([add("a"), other]).unwrap().len(), 2);
    }
}

/// [0-3]
#[test]
fn a_snapshot_holds_what_no_manifest_deletes_in_any_order() {
    let mut live = LiveFiles::new();
    live.extend([delete("a"), add("b"), add("a"), add("c"), delete("c")]);
    assert_eq!(live.finish(), [add("b")]);
}

/// [C-40]
#[test]
fn record_counts_add_up() {
    assert_eq!(
        delta_record_count(&[add("a"), add("b"), delete("c")]).unwrap(),
        5
    );
    assert_eq!(delta_record_count(&[]).unwrap(), 0);
    let mut huge = add("huge");
    huge.file.row_count = i64::MAX;
    assert!(delta_record_count(&[huge.clone(), huge]).is_err());
}

/// [F-4.2]
#[test]
fn a_list_says_of_a_manifest_what_its_entries_say() {
    let types = vec![LogicalType::Int];
    let partition = |n: Option<i32>| BinaryRow::from_datums(&[n.map(Datum::Int)], &types).unwrap();
    let of = |kind, n, bucket, level, schema, first_row_id| {
        let mut e = entry(kind, "f", level);
        e.partition = partition(n);
        e.bucket = BucketId(bucket);
        e.file.schema_id = SchemaId(schema);
        e.file.first_row_id = first_row_id;
        e
    };
    let mut entries = vec![
        of(EntryKind::Add, Some(4), 1, 0, 0, Some(10)),
        of(EntryKind::Delete, Some(-4), 7, 5, 3, Some(2)),
        of(EntryKind::Add, None, 3, 0, 1, Some(20)),
    ];
    let summary = ManifestFile::summarise("m", 99, &entries, types.clone()).unwrap();
    assert_eq!((summary.num_added_files, summary.num_deleted_files), (2, 1));
    assert_eq!((summary.schema_id, summary.file_size), (SchemaId(3), 99));
    assert_eq!(
        (summary.min_bucket, summary.max_bucket),
        (Some(BucketId(1)), Some(BucketId(7)))
    );
    assert_eq!(
        (summary.min_level, summary.max_level),
        (Some(Level(0)), Some(Level(5)))
    );
    assert_eq!(
        (summary.min_row_id, summary.max_row_id),
        (Some(2), Some(24))
    );
    assert_eq!(summary.partition_stats.min_values, partition(Some(-4)));
    assert_eq!(summary.partition_stats.max_values, partition(Some(4)));
    assert_eq!(summary.partition_stats.null_counts, Some(vec![Some(1)]));
    entries[1].file.first_row_id = None;
    let summary = ManifestFile::summarise("m", 99, &entries, types).unwrap();
    assert_eq!((summary.min_row_id, summary.max_row_id), (None, None));
    let plain = ManifestFile::summarise("m", 1, &[add("a")], vec![]).unwrap();
    assert_eq!(plain.partition_stats, SimpleStats::empty());
    assert!(ManifestFile::summarise("m", 1, &[add("a")], vec![LogicalType::Int]).is_err());
}

#[test]
fn files_lie_in_their_bucket_or_outside() {
    let mut file = add("a").file;
    file.extra_files.push("a.index".into());
    assert_eq!(
        file.all_paths("dt=1/bucket-0"),
        ["dt=1/bucket-0/a", "dt=1/bucket-0/a.index"]
    );
    file.external_path = Some("s3://x/y/a".into());
    assert_eq!(
        file.all_paths("dt=1/bucket-0"),
        ["s3://x/y/a", "s3://x/y/a.index"]
    );
}

proptest! {
    /// Where no file is deleted before it is added, merging and scanning agree on what lives.
    #[test]
    fn merging_keeps_exactly_the_live_files(names in prop::collection::vec((0u8..12, any::<bool>()), 0..30)) {
        let mut entries = Vec::new();
        let mut state = std::collections::HashMap::new();
        for (n, wants_delete) in names {
            let name = n.to_string();
            match (state.get(&n), wants_delete) {
                (None, false) => { entries.push(add(&name)); state.insert(n, true); }
                (Some(true), true) => { entries.push(delete(&name)); state.insert(n, false); }
                _ => {}
            }
        }
        let mut live = LiveFiles::new();
        live.extend(entries.clone());
        let live = live.finish();
        prop_assert_eq!(delta_record_count(&live).unwrap(), delta_record_count(&entries).unwrap());
        prop_assert_eq!(live, merge_entries(entries).unwrap());
    }
}
