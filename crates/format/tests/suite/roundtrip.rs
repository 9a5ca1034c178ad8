//! What Java wrote comes out of our encoders as it went into our decoders.

use crate::golden::{all_files, tables};
use tidegate_format::manifest::{Encoder, FieldSet};
use tidegate_format::{Codec, avro, consumer, hint, index_manifest, manifest, manifest_list};
use tidegate_format::{InFile, Problem, schema, snapshot, tag};
use tidegate_model::{GlobalIndex, LogicalType, ManifestFile};

const SYNC: [u8; 16] = *b"sixteen bytes ok";

fn same_text(path: &str, ours: Vec<u8>, theirs: &[u8]) {
    let (ours, theirs) = (
        String::from_utf8(ours).unwrap(),
        String::from_utf8_lossy(theirs),
    );
    assert_eq!(ours, theirs, "{path}");
}

#[test]
fn every_snapshot_and_changelog_encodes_to_its_bytes() {
    let mut count = 0;
    for file in all_files("snapshot-")
        .into_iter()
        .chain(all_files("changelog-"))
        // Data files of changelogs are called so as well.
        .filter(|file| !file.path.contains("/bucket-"))
    {
        let snapshot = snapshot::decode(&file.bytes).in_file(&file.path).unwrap();
        assert_eq!(snapshot.unknown, [], "{}", file.path);
        same_text(&file.path, snapshot::encode(&snapshot), &file.bytes);
        count += 1;
    }
    assert!(count > 600, "{count}");
}

#[test]
fn every_schema_encodes_to_its_bytes() {
    let files = all_files("schema-");
    assert!(files.len() > 230);
    for file in files {
        let schema = schema::decode(&file.bytes).in_file(&file.path).unwrap();
        assert_eq!(schema.unknown, [], "{}", file.path);
        same_text(&file.path, schema::encode(&schema), &file.bytes);
    }
}

#[test]
fn every_tag_consumer_and_hint_encodes_to_its_bytes() {
    let tags = all_files("tag-");
    assert!(
        tags.iter()
            .any(|t| tag::decode(&t.bytes).unwrap().time_retained.is_some())
    );
    for file in tags {
        let tag = tag::decode(&file.bytes).in_file(&file.path).unwrap();
        assert_eq!(tag.snapshot.unknown, [], "{}", file.path);
        same_text(&file.path, tag::encode(&tag), &file.bytes);
    }
    let consumers = all_files("consumer-");
    assert!(!consumers.is_empty());
    for file in consumers {
        let consumer = consumer::decode(&file.bytes).in_file(&file.path).unwrap();
        same_text(&file.path, consumer::encode(&consumer), &file.bytes);
    }
    let hints: Vec<_> = all_files("LATEST")
        .into_iter()
        .chain(all_files("EARLIEST"))
        .collect();
    assert!(hints.len() > 300);
    for file in hints {
        let id = hint::decode(&file.bytes).in_file(&file.path).unwrap();
        same_text(&file.path, hint::encode(id), &file.bytes);
    }
}

/// The plain bytes of all blocks, and the number of records.
fn content(file: &[u8]) -> (u64, Vec<u8>) {
    let blocks = avro::blocks(file).unwrap();
    (
        blocks.iter().map(|b| b.0).sum(),
        blocks.into_iter().flat_map(|b| b.1).collect(),
    )
}

/// True where the file has the fields that release 1.4.2 writes; older ones have fewer.
fn of_this_release(file: &[u8], schema: &str) -> bool {
    avro::schema_text(file).unwrap() == schema
}

#[test]
fn every_manifest_encodes_to_equal_blocks() {
    let (mut same, mut older) = (0, 0);
    for file in all_files("manifest-") {
        let entries = manifest::decode(&file.bytes).in_file(&file.path).unwrap();
        let ours = manifest::encode(&entries, Codec::default(), SYNC).unwrap();
        if of_this_release(&file.bytes, manifest::FieldSet::Release.schema()) {
            assert_eq!(content(&ours), content(&file.bytes), "{}", file.path);
            same += 1;
        } else {
            older += 1;
        }
        assert_eq!(manifest::decode(&ours).unwrap(), entries, "{}", file.path);
    }
    assert!(same > 600 && older > 30, "{same} {older}");
}

#[test]
fn every_manifest_list_encodes_to_equal_blocks() {
    let (mut same, mut older) = (0, 0);
    for file in all_files("manifest-list-") {
        let manifests = manifest_list::decode(&file.bytes)
            .in_file(&file.path)
            .unwrap();
        let ours = manifest_list::encode(&manifests, Codec::default(), SYNC).unwrap();
        if of_this_release(&file.bytes, manifest_list::SCHEMA) {
            assert_eq!(content(&ours), content(&file.bytes), "{}", file.path);
            same += 1;
        } else {
            older += 1;
        }
        assert_eq!(
            manifest_list::decode(&ours).unwrap(),
            manifests,
            "{}",
            file.path
        );
    }
    assert!(same > 1300 && older > 140, "{same} {older}");
}

#[test]
fn every_index_manifest_encodes_to_equal_blocks() {
    let (mut same, mut older) = (0, 0);
    for file in all_files("index-manifest-") {
        let entries = index_manifest::decode(&file.bytes)
            .in_file(&file.path)
            .unwrap();
        let ours = index_manifest::encode(&entries, Codec::default(), SYNC).unwrap();
        if of_this_release(&file.bytes, index_manifest::SCHEMA) {
            assert_eq!(content(&ours), content(&file.bytes), "{}", file.path);
            same += 1;
        } else {
            older += 1;
        }
        assert_eq!(
            index_manifest::decode(&ours).unwrap(),
            entries,
            "{}",
            file.path
        );
    }
    assert!(same > 10 && older > 5, "{same} {older}");
}

#[test]
fn every_codec_gives_the_entries_back() {
    let file = all_files("manifest-")
        .into_iter()
        .max_by_key(|f| f.bytes.len())
        .unwrap();
    let entries = manifest::decode(&file.bytes).unwrap();
    let many: Vec<_> = entries.iter().cycle().take(700).cloned().collect();
    for codec in [
        Codec::Null,
        Codec::Deflate,
        Codec::Snappy,
        Codec::Zstandard { level: 19 },
    ] {
        let bytes = manifest::encode(&many, codec, SYNC).unwrap();
        assert!(avro::blocks(&bytes).unwrap().len() > 1, "{codec:?}");
        assert_eq!(manifest::decode(&bytes).unwrap(), many, "{codec:?}");
        let mut scan = manifest::scan(&bytes).unwrap();
        let mut scanned = 0;
        while let Some(view) = scan.next() {
            assert_eq!(view.unwrap().to_entry().unwrap(), many[scanned]);
            scanned += 1;
        }
        assert_eq!(scanned, many.len());
    }
}

/// Where Java's lists and manifests lie side by side, our summary of the entries is Java's.
#[test]
fn summaries_of_manifests_are_those_of_java() {
    let mut seen = 0;
    for table in tables() {
        let Some(schema) = table.files("schema-").pop() else {
            continue;
        };
        let schema = schema::decode(&schema.bytes).unwrap();
        let types = |schema: &tidegate_model::TableSchema| -> Vec<LogicalType> {
            let field = |key: &String| schema.fields.iter().find(|f| f.name == *key);
            let fields = schema.partition_keys.iter().filter_map(field);
            fields.map(|f| f.data_type.logical.clone()).collect()
        };
        for list in table.files("manifest-list-") {
            if !of_this_release(&list.bytes, manifest_list::SCHEMA) {
                continue;
            }
            for meta in manifest_list::decode(&list.bytes).unwrap() {
                // Expiry removes manifests of lists that are kept for their tags.
                let path = table.root.join("manifest").join(&meta.file_name);
                let Ok(bytes) = std::fs::read(path) else {
                    continue;
                };
                let entries = manifest::decode(&bytes).unwrap();
                let name = meta.file_name.clone();
                let ours =
                    ManifestFile::summarise(name, bytes.len() as i64, &entries, types(&schema));
                assert_eq!(ours.unwrap(), meta, "{}", table.name);
                seen += 1;
            }
        }
    }
    assert!(seen > 1000, "{seen}");
}

#[test]
fn an_encoder_knows_its_size_and_when_java_would_close_it() {
    let file = all_files("manifest-").into_iter().next().unwrap();
    let entry = manifest::decode(&file.bytes).unwrap().remove(0);
    let mut encoder = Encoder::new(FieldSet::Release, Codec::Null, SYNC);
    let header = encoder.size();
    assert!(
        encoder.is_empty() && !encoder.is_full(0),
        "an empty manifest is never full"
    );
    for n in 1..=2000u64 {
        encoder.push(&entry).unwrap();
        assert_eq!(encoder.len(), n);
        assert_eq!(
            encoder.is_full(100_000),
            n % 1000 == 0 && encoder.size() >= 100_000
        );
    }
    assert!(encoder.is_full(100_000) && !encoder.is_full(u64::MAX));
    let size = encoder.size();
    let finished = encoder.finish().unwrap();
    assert_eq!(finished.entries, 2000);
    let length = finished.bytes.len() as u64;
    // Only the frame of the last block is still to come.
    assert!(
        size > header && (size..size + 64).contains(&length),
        "{size} {length}"
    );
}

#[test]
fn what_only_the_newest_release_knows_is_carried_over_or_refused() {
    let file = all_files("manifest-").into_iter().next().unwrap();
    let mut entry = manifest::decode(&file.bytes).unwrap().remove(0);
    entry.file.write_cols_sequences = Some(vec![1, i64::MIN]);
    let mut release = Encoder::new(FieldSet::Release, Codec::Null, SYNC);
    let error = release.push(&entry).unwrap_err();
    assert!(matches!(error.problem(), Problem::CannotHold(_)), "{error}");
    let entries = [entry];
    let bytes = manifest::encode(&entries, Codec::default(), SYNC).unwrap();
    assert_eq!(manifest::decode(&bytes).unwrap(), entries);
    assert_eq!(
        avro::schema_text(&bytes).unwrap(),
        FieldSet::Newest.schema()
    );

    let file = all_files("index-manifest-").into_iter().next().unwrap();
    let mut entries = index_manifest::decode(&file.bytes).unwrap();
    let global = |source_meta| GlobalIndex {
        row_range_start: 1,
        row_range_end: 2,
        index_field_id: 3,
        extra_field_ids: Some(vec![4, -5]),
        index_meta: Some(b"meta".to_vec()),
        source_meta,
    };
    for source_meta in [None, Some(b"source".to_vec())] {
        entries[0].file.global_index = Some(global(source_meta));
        entries[0].file.external_path = Some("s3://b/i".to_owned());
        let bytes = index_manifest::encode(&entries, Codec::default(), SYNC).unwrap();
        assert_eq!(index_manifest::decode(&bytes).unwrap(), entries);
    }
}
