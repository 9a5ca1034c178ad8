//! Java's commit messages and committables.

use serde_json::Value;
use std::path::Path;
use tidegate_format::{Problem, commit_message, manifest_committable};
use tidegate_model::{
    BinaryRow, BucketId, CommitMessage, CompactIncrement, DataFileMeta, DataIncrement,
    DeletionVectorRange, FileSource, GlobalIndex, IndexFileMeta, Level, ManifestCommittable,
    SchemaId, SimpleStats,
};

/// A file of test vectors.
fn vectors(name: &str) -> Value {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/vectors");
    serde_json::from_slice(&std::fs::read(golden.join(name)).unwrap()).unwrap()
}

fn base64(text: &str) -> Vec<u8> {
    let digit = |c: u8| match c {
        b'A'..=b'Z' => c - b'A',
        b'a'..=b'z' => c - b'a' + 26,
        b'0'..=b'9' => c - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        other => panic!("{other}"),
    };
    let text = text.trim_end_matches('=').as_bytes();
    text.chunks(4)
        .flat_map(|chunk| {
            let bits = chunk
                .iter()
                .fold(0u32, |n, c| n << 6 | u32::from(digit(*c)));
            let bits = bits << (6 * (4 - chunk.len()));
            bits.to_be_bytes()
                .into_iter()
                .skip(1)
                .take(chunk.len() - 1)
                .collect::<Vec<_>>()
        })
        .collect()
}

fn encode_base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let quad = |chunk: &[u8]| {
        let bits =
            chunk.iter().fold(0u32, |n, b| n << 8 | u32::from(*b)) << (8 * (3 - chunk.len()));
        (0..4usize)
            .map(|i| match i <= chunk.len() {
                true => char::from(DIGITS[(bits >> (18 - 6 * i)) as usize & 63]),
                false => '=',
            })
            .collect::<String>()
    };
    bytes.chunks(3).map(quad).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text
        .chars()
        .filter_map(|c| c.to_digit(16))
        .map(|d| d as u8)
        .collect();
    digits
        .chunks(2)
        .map(|pair| pair[0] << 4 | pair[1])
        .collect()
}

fn row(row: &BinaryRow) -> Value {
    Value::String(hex(&row.to_serialized()))
}

fn stats(stats: &SimpleStats) -> Value {
    serde_json::json!({
        "minValues": row(&stats.min_values),
        "maxValues": row(&stats.max_values),
        "nullCounts": stats.null_counts,
    })
}

fn file(f: &DataFileMeta) -> Value {
    serde_json::json!({
        "fileName": f.file_name,
        "fileSize": f.file_size,
        "rowCount": f.row_count,
        "minKey": row(&f.min_key),
        "maxKey": row(&f.max_key),
        "keyStats": stats(&f.key_stats),
        "valueStats": stats(&f.value_stats),
        "minSequenceNumber": f.min_sequence_number,
        "maxSequenceNumber": f.max_sequence_number,
        "schemaId": f.schema_id.0,
        "level": f.level.0,
        "extraFiles": f.extra_files,
        "creationTimeMillis": f.creation_time_millis,
        "deleteRowCount": f.delete_row_count,
        "embeddedIndex": f.embedded_index.as_deref().map(encode_base64),
        "fileSource": f.file_source.map(|s| match s {
            FileSource::Append => "APPEND",
            FileSource::Compact => "COMPACT",
        }),
        "valueStatsCols": f.value_stats_cols,
        "externalPath": f.external_path,
        "firstRowId": f.first_row_id,
        "writeCols": f.write_cols,
    })
}

/// As the catalogue shows it: no ranges and empty ranges look the same there.
fn index_file(f: &IndexFileMeta) -> Value {
    let range = |r: &DeletionVectorRange| {
        serde_json::json!({
            "dataFile": r.data_file,
            "offset": r.offset,
            "length": r.length,
            "cardinality": r.cardinality,
        })
    };
    let ranges = f
        .dv_ranges
        .iter()
        .flatten()
        .flatten()
        .map(range)
        .collect::<Vec<_>>();
    serde_json::json!({
        "indexType": f.index_type,
        "fileName": f.file_name,
        "fileSize": f.file_size,
        "rowCount": f.row_count,
        "deletionVectors": ranges,
    })
}

fn message(m: &CommitMessage) -> Value {
    let files = |all: &[DataFileMeta]| all.iter().map(file).collect::<Vec<_>>();
    let indexes = |all: &[IndexFileMeta]| all.iter().map(index_file).collect::<Vec<_>>();
    serde_json::json!({
        "partition": row(&m.partition),
        "bucket": m.bucket.0,
        "totalBuckets": m.total_buckets,
        "newFiles": files(&m.data.new_files),
        "deletedFiles": files(&m.data.deleted_files),
        "changelogFiles": files(&m.data.changelog_files),
        "newIndexFiles": indexes(&m.data.new_index_files),
        "deletedIndexFiles": indexes(&m.data.deleted_index_files),
        "compactBefore": files(&m.compact.compact_before),
        "compactAfter": files(&m.compact.compact_after),
        "compactChangelogFiles": files(&m.compact.changelog_files),
        "compactNewIndexFiles": indexes(&m.compact.new_index_files),
        "compactDeletedIndexFiles": indexes(&m.compact.deleted_index_files),
    })
}

/// The catalogue leaves out what is null.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(map) => map
            .iter()
            .filter(|(_, v)| !v.is_null())
            .map(|(k, v)| (k.clone(), without_nulls(v)))
            .collect(),
        Value::Array(all) => all.iter().map(without_nulls).collect(),
        other => other.clone(),
    }
}

#[test]
fn every_vector_decodes_to_its_content_and_encodes_to_its_bytes() {
    let vectors = vectors("committables.json");
    let vectors = vectors.as_array().unwrap();
    assert_eq!(vectors.len(), 62);
    for vector in vectors {
        let name = &vector["name"];
        let serialized = &vector["serialized"];
        let version = serialized["version"].as_i64().unwrap() as i32;
        let bytes = base64(serialized["committable"].as_str().unwrap());
        let decoded = manifest_committable::decode(&bytes, version).unwrap();
        let committable = &decoded.committable;
        assert_eq!(
            i64::from(decoded.message_version),
            serialized["messageVersion"].as_i64().unwrap()
        );

        let expected = &vector["decoded"];
        assert_eq!(
            Some(committable.identifier),
            expected["identifier"].as_i64()
        );
        assert_eq!(committable.watermark, expected["watermark"].as_i64());
        let properties: Value = committable
            .properties
            .iter()
            .map(|(k, v)| (k.clone(), Value::from(v.as_str())))
            .collect();
        assert_eq!(properties, expected["properties"], "{name}");
        let messages: Value = committable.messages.iter().map(message).collect();
        assert_eq!(
            without_nulls(&messages),
            without_nulls(&expected["messages"]),
            "{name}"
        );

        let again = manifest_committable::encode(committable, version, decoded.message_version);
        assert_eq!(hex(&again.unwrap()), hex(&bytes), "{name}");
        for (message, expected) in committable
            .messages
            .iter()
            .zip(serialized["messages"].as_array().unwrap())
        {
            let bytes = base64(expected.as_str().unwrap());
            assert_eq!(
                commit_message::decode(&bytes, decoded.message_version).unwrap(),
                *message
            );
            assert_eq!(
                commit_message::encode(message, decoded.message_version).unwrap(),
                bytes
            );
        }
    }
}

fn stats_of(columns: u32) -> SimpleStats {
    let row = BinaryRow::from_bytes(columns, vec![0; 8 + 8 * columns as usize]).unwrap();
    SimpleStats {
        min_values: row.clone(),
        max_values: row,
        null_counts: Some(
            (0..columns)
                .map(|i| (i != 1).then_some(i64::from(i)))
                .collect(),
        ),
    }
}

/// A file of a release whose rows have so many fields: the later ones are absent.
fn file_with(fields: usize) -> DataFileMeta {
    let has = |i: usize| fields > i;
    DataFileMeta {
        file_name: "data-x-0.parquet".to_owned(),
        file_size: 1234,
        row_count: 10,
        min_key: BinaryRow::empty(),
        max_key: BinaryRow::empty(),
        key_stats: stats_of(0),
        value_stats: SimpleStats {
            null_counts: None,
            ..stats_of(3)
        },
        min_sequence_number: 100,
        max_sequence_number: 109,
        schema_id: SchemaId(2),
        level: Level(1),
        extra_files: vec!["data-x-0.parquet.index".to_owned()],
        creation_time_millis: Some(1_704_067_200_123),
        delete_row_count: None,
        embedded_index: Some(b"index bytes".to_vec()),
        file_source: has(15).then_some(FileSource::Compact),
        value_stats_cols: has(16).then(|| vec!["a".to_owned(), "a long column name".to_owned()]),
        external_path: has(17).then(|| "s3://elsewhere/data-x-0.parquet".to_owned()),
        first_row_id: has(18).then_some(7),
        write_cols: has(19).then(Vec::new),
        write_cols_sequences: has(20).then(|| vec![5, -6]),
    }
}

fn index_with(version: i32) -> IndexFileMeta {
    IndexFileMeta {
        index_type: "DELETION_VECTORS".to_owned(),
        file_name: "index-y-0".to_owned(),
        file_size: 31,
        row_count: 1,
        dv_ranges: Some(vec![
            Some(DeletionVectorRange {
                data_file: "data-x-0.parquet".to_owned(),
                offset: 1,
                length: 22,
                cardinality: (version >= 5).then_some(1),
            }),
            None,
        ]),
        external_path: (version >= 9).then(|| "oss://b/index-y-0".to_owned()),
        global_index: (version >= 11).then(|| GlobalIndex {
            row_range_start: 0,
            row_range_end: 99,
            index_field_id: 3,
            extra_field_ids: Some(vec![4, 5]),
            index_meta: Some(vec![1, 2, 3]),
            source_meta: (version >= 12).then(|| b"source".to_vec()),
        }),
    }
}

fn message_of(version: i32) -> CommitMessage {
    let fields = [15, 15, 16, 17, 17, 18, 18, 19, 20, 20, 20, 20, 21][version as usize - 1];
    let halves = version >= 10;
    CommitMessage {
        partition: BinaryRow::from_bytes(1, vec![0; 16]).unwrap(),
        bucket: BucketId(3),
        total_buckets: (version >= 7).then_some(16),
        data: DataIncrement {
            new_files: vec![file_with(fields); 2],
            deleted_files: vec![file_with(fields)],
            changelog_files: Vec::new(),
            new_index_files: if halves {
                vec![index_with(version)]
            } else {
                Vec::new()
            },
            deleted_index_files: Vec::new(),
        },
        compact: CompactIncrement {
            compact_before: vec![file_with(fields)],
            compact_after: vec![file_with(fields); 3],
            changelog_files: vec![file_with(fields)],
            new_index_files: vec![index_with(version)],
            deleted_index_files: if version > 2 {
                vec![index_with(version)]
            } else {
                Vec::new()
            },
        },
    }
}

#[test]
fn every_version_gives_its_message_back_and_refuses_a_cut_one() {
    for version in 1..=13 {
        let message = message_of(version);
        let bytes = commit_message::encode(&message, version).unwrap();
        assert_eq!(
            commit_message::decode(&bytes, version).unwrap(),
            message,
            "{version}"
        );
        for cut in 0..bytes.len() {
            assert!(
                commit_message::decode(&bytes[..cut], version).is_err(),
                "{version} {cut}"
            );
        }
        let longer = [bytes.as_slice(), &[0]].concat();
        let error = commit_message::decode(&longer, version).unwrap_err();
        assert_eq!(*error.problem(), Problem::Leftover(1));
    }
}

#[test]
fn index_files_of_old_versions_belong_to_the_half_with_files() {
    let mut message = message_of(6);
    message.data.new_index_files = std::mem::take(&mut message.compact.new_index_files);
    assert!(
        commit_message::encode(&message, 6).is_err(),
        "Java would give them to the other half"
    );
    message.compact = CompactIncrement::default();
    let bytes = commit_message::encode(&message, 6).unwrap();
    assert_eq!(commit_message::decode(&bytes, 6).unwrap(), message);
}

#[test]
fn nothing_that_a_version_cannot_hold_is_dropped() {
    for (from, to) in [
        (13, 12),
        (12, 11),
        (11, 10),
        (9, 8),
        (8, 7),
        (7, 6),
        (6, 5),
        (5, 4),
        (4, 3),
        (3, 2),
    ] {
        let message = message_of(from);
        let error = commit_message::encode(&message, to).unwrap_err();
        assert!(
            matches!(error.problem(), Problem::CannotHold(_)),
            "{from} as {to}: {error}"
        );
    }
    for unknown in [0, 14, -1] {
        let error = commit_message::encode(&message_of(11), unknown).unwrap_err();
        assert!(matches!(error.problem(), Problem::Version { .. }));
    }
}

/// The sheet's bytes, seen in runs of Java \[F-9.2], \[F-9.3].
#[test]
fn the_sheets_examples_hold() {
    let empty = CommitMessage {
        partition: BinaryRow::empty(),
        bucket: BucketId(0),
        total_buckets: None,
        data: DataIncrement::default(),
        compact: CompactIncrement::default(),
    };
    let bytes = commit_message::encode(&empty, 13).unwrap();
    assert_eq!(
        hex(&bytes),
        format!(
            "0000000c000000000000000000000000{}{}",
            "0000000000",
            "0".repeat(80)
        )
    );
    let mut committable = ManifestCommittable {
        identifier: 7,
        watermark: None,
        properties: vec![("k".to_owned(), "v".to_owned())],
        messages: vec![empty],
    };
    let expected = format!(
        "0000000000000007010000000100016b0001760000000d00000001{}",
        hex(&bytes)
    );
    assert_eq!(
        hex(&manifest_committable::encode(&committable, 5, 13).unwrap()),
        expected
    );
    committable.watermark = Some(1_704_067_200_123);
    committable.properties.clear();
    committable.messages.clear();
    let expected = "0000000000000007000000018cc251f47b000000000000000d00000000";
    assert_eq!(
        hex(&manifest_committable::encode(&committable, 5, 13).unwrap()),
        expected
    );

    let index = IndexFileMeta {
        dv_ranges: Some(vec![index_with(12).dv_ranges.unwrap()[0].clone()]),
        external_path: None,
        global_index: None,
        ..index_with(12)
    };
    let mut message = message_of(12);
    message.data = DataIncrement {
        new_index_files: vec![index],
        ..DataIncrement::default()
    };
    message.compact = CompactIncrement::default();
    let bytes = hex(&commit_message::encode(&message, 12).unwrap());
    let expected = "000000a8006000000000000010000000400000000900000050000000\
                    1f000000000000000100000000000000480000006000000000000000000000000000000000000000";
    assert!(bytes.contains(expected), "{bytes}");
    assert_eq!(unhex("0aff"), [10, 255]);
}

#[test]
fn committables_of_old_versions_skip_log_offsets() {
    let mut committable = ManifestCommittable {
        identifier: -1,
        watermark: Some(i64::MIN),
        properties: vec![("ünï\0🚊".to_owned(), "\u{7ff}\u{800}".to_owned())],
        messages: vec![message_of(6)],
    };
    for version in [4, 5] {
        let bytes = manifest_committable::encode(&committable, version, 6).unwrap();
        let decoded = manifest_committable::decode(&bytes, version).unwrap();
        assert_eq!(
            (decoded.committable, decoded.message_version),
            (committable.clone(), 6)
        );
    }
    assert!(
        manifest_committable::encode(&committable, 3, 6).is_err(),
        "no place for properties"
    );
    committable.properties.clear();
    let mut bytes = manifest_committable::encode(&committable, 3, 6).unwrap();
    // One log offset, as a Kafka log of release 0.x left it.
    bytes.splice(17..21, unhex("00000001 00000002 0000000000000009"));
    let decoded = manifest_committable::decode(&bytes, 3).unwrap();
    assert_eq!(decoded.committable, committable);
}

#[test]
fn a_property_longer_than_java_can_write_is_refused() {
    let committable = ManifestCommittable {
        identifier: 1,
        watermark: None,
        properties: vec![("k".to_owned(), "x".repeat(65_536))],
        messages: Vec::new(),
    };
    let error = manifest_committable::encode(&committable, 5, 11).unwrap_err();
    assert!(matches!(error.problem(), Problem::CannotHold(_)), "{error}");
}

/// Parts of a row may point anywhere in it: many elements at one long text would be a bomb.
#[test]
fn a_row_whose_parts_overlap_cannot_be_copied_out_many_times() {
    let mut message = message_of(11);
    message.data.new_files.truncate(1);
    message.data.new_files[0].extra_files = (0..2000).map(|i| format!("{i:0>40}")).collect();
    let mut bytes = commit_message::encode(&message, 11).unwrap();
    // Slots of 40-byte texts: length 40, offset; make each as long as the whole rest.
    let slot =
        |length: u32, offset: u32| (u64::from(offset) << 32 | u64::from(length)).to_le_bytes();
    let first = 4 + 2000usize.div_ceil(32) * 4;
    let offset = (first + 8 * 2000).next_multiple_of(8) as u32;
    let at = bytes
        .windows(8)
        .position(|w| w == slot(40, offset))
        .unwrap();
    for i in 0..2000 {
        bytes[at + 8 * i..at + 8 * i + 8].copy_from_slice(&slot(40 * 2000, offset));
    }
    let error = commit_message::decode(&bytes, 11).unwrap_err();
    assert!(matches!(error.problem(), Problem::Length { .. }), "{error}");
    assert!(error.field().unwrap().contains("_EXTRA_FILES"), "{error}");
}
