//! Two readers agree: other libraries read the same bytes to the same values.

#[path = "../../fuzz/agree.rs"]
mod agree;

use crate::golden::all_files;
use agree::{assert_index, assert_list, assert_manifest};
use tidegate_format::{Codec, manifest, manifest_list, snapshot};

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
            assert_list(&file.path, bytes);
        }
    }
}

#[test]
fn apache_avro_reads_the_same_index_entries() {
    for file in all_files("index-manifest-") {
        assert_index(&file.path, &file.bytes);
    }
}

#[test]
fn both_readers_agree_on_seeds_however_they_are_changed() {
    for (target, check) in [
        ("avro_agrees", agree::avro_agrees as fn(&[u8])),
        ("json_agrees", agree::json_agrees),
    ] {
        tidegate_fuzz_support::sweep(env!("CARGO_MANIFEST_DIR"), target, check, |_| usize::MAX);
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
