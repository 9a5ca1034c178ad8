//! The next state of the index files of a table \[C-45].
//!
//! An index manifest is a complete state: what a commit does not touch is carried over, index types
//! that this build does not know included.

use std::collections::HashSet;

use tidegate_format::index_manifest;
use tidegate_model::{BinaryRow, BucketId, EntryKind, IndexFileMeta, IndexManifestEntry, layout};
use tidegate_protocol::{Changes, IndexChange};

use crate::error::{CommitError, Result};
use crate::manifests::{Encoded, ManifestSettings};
use crate::names::MetadataNames;
use crate::registry::{DELETION_VECTORS, File, Files};

const HASH: &str = "HASH";

/// The old state with the changes of a commit applied. `unaware` is true for tables whose rows belong
/// to no bucket: there many files of a type stand beside each other.
pub(crate) fn combine(
    old: Vec<IndexManifestEntry>,
    changes: &Changes,
    files: &Files,
    unaware: bool,
) -> Result<Vec<IndexManifestEntry>> {
    let mut state = old;
    for change in &changes.index_deleted {
        let (partition, bucket, meta) = index_file(files, change)?;
        let before = state.len();
        state.retain(|e| {
            let same_file = e.file.file_name == meta.file_name;
            let same_type = e.file.index_type == meta.index_type;
            let same_place = e.partition == *partition && e.bucket == bucket;
            !(same_type && (same_file || (per_bucket(meta, unaware) && same_place)))
        });
        if state.len() == before && !per_bucket(meta, unaware) {
            return Err(CommitError::Refused(format!(
                "index file {} is to be removed and is not there",
                meta.file_name
            )));
        }
    }
    for change in &changes.index_added {
        let (partition, bucket, meta) = index_file(files, change)?;
        if per_bucket(meta, unaware) {
            // At most one file of a type per bucket: the new one holds all of it.
            state.retain(|e| {
                !(e.file.index_type == meta.index_type
                    && e.partition == *partition
                    && e.bucket == bucket)
            });
        } else if state.iter().any(|e| e.file.file_name == meta.file_name) {
            return Err(CommitError::Refused(format!(
                "index file {} is to be added and is there already",
                meta.file_name
            )));
        }
        state.push(IndexManifestEntry {
            kind: EntryKind::Add,
            partition: partition.clone(),
            bucket,
            file: meta.clone(),
        });
    }
    check_vectors(&state)?;
    Ok(state)
}

/// One data file has its deletion vector in one index file only.
fn check_vectors(state: &[IndexManifestEntry]) -> Result<()> {
    let mut seen = HashSet::new();
    for entry in state
        .iter()
        .filter(|e| e.file.index_type == DELETION_VECTORS)
    {
        for range in entry.file.dv_ranges.iter().flatten().flatten() {
            if !seen.insert((&entry.partition, entry.bucket, range.data_file.as_str())) {
                return Err(CommitError::Refused(format!(
                    "data file {} would have two deletion vectors, one of them in {}",
                    range.data_file, entry.file.file_name
                )));
            }
        }
    }
    Ok(())
}

fn per_bucket(meta: &IndexFileMeta, unaware: bool) -> bool {
    meta.index_type == HASH || (meta.index_type == DELETION_VECTORS && !unaware)
}

fn index_file<'a>(
    files: &'a Files,
    change: &IndexChange,
) -> Result<(&'a BinaryRow, BucketId, &'a IndexFileMeta)> {
    match files.get(change.file)? {
        File::Index(partition, bucket, meta) => Ok((partition, *bucket, meta)),
        File::Data(..) => Err(CommitError::corrupt(
            "protocol",
            "names a data file as an index file",
        )),
    }
}

/// The state as an index manifest.
pub(crate) fn encode(
    settings: &ManifestSettings,
    names: &MetadataNames,
    entries: &[IndexManifestEntry],
) -> Result<Encoded<String>> {
    let name = names.index_manifest();
    let bytes = index_manifest::encode(entries, settings.codec, settings.sync)
        .map_err(|e| CommitError::corrupt(name.as_str(), e))?;
    let path = layout::manifest_path(&name);
    Ok(Encoded {
        what: name,
        path,
        bytes: bytes.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_model::DeletionVectorRange;
    use tidegate_protocol::PartitionId;

    fn meta(index_type: &str, name: &str, data_file: Option<&str>) -> IndexFileMeta {
        let range = |data_file: &str| {
            let data_file = data_file.to_owned();
            Some(DeletionVectorRange {
                data_file,
                offset: 1,
                length: 22,
                cardinality: Some(1),
            })
        };
        IndexFileMeta {
            index_type: index_type.to_owned(),
            file_name: name.to_owned(),
            file_size: 31,
            row_count: 1,
            dv_ranges: data_file.map(|data_file| vec![range(data_file)]),
            external_path: None,
            global_index: None,
        }
    }

    fn state(metas: &[IndexFileMeta]) -> Vec<IndexManifestEntry> {
        let entry = |file: &IndexFileMeta| IndexManifestEntry {
            kind: EntryKind::Add,
            partition: BinaryRow::empty(),
            bucket: BucketId(0),
            file: file.clone(),
        };
        metas.iter().map(entry).collect()
    }

    fn apply(
        old: &[IndexFileMeta],
        added: &[IndexFileMeta],
        deleted: &[IndexFileMeta],
        unaware: bool,
    ) -> Result<Vec<String>> {
        let mut files = Files::default();
        let mut changes = |metas: &[IndexFileMeta]| -> Vec<IndexChange> {
            let change = |meta: &IndexFileMeta| IndexChange {
                file: files.index(&BinaryRow::empty(), BucketId(0), meta),
                partition: PartitionId(0),
                bucket: BucketId(0),
                deletion_vectors: meta.index_type == DELETION_VECTORS,
            };
            metas.iter().map(change).collect()
        };
        let changes = Changes {
            index_added: changes(added),
            index_deleted: changes(deleted),
            ..Changes::default()
        };
        let entries = combine(state(old), &changes, &files, unaware)?;
        Ok(entries.into_iter().map(|e| e.file.file_name).collect())
    }

    #[test]
    fn a_bucket_has_one_file_of_a_type_and_the_new_one_replaces_it() {
        let old = [
            meta(HASH, "h1", None),
            meta(DELETION_VECTORS, "d1", Some("f")),
        ];
        let new = [meta(DELETION_VECTORS, "d2", Some("f"))];
        assert_eq!(apply(&old, &new, &[], false).unwrap(), ["h1", "d2"]);
        assert_eq!(apply(&old, &[], &old[..1], false).unwrap(), ["d1"]);
    }

    #[test]
    fn without_buckets_vectors_go_by_name_and_never_cover_a_file_twice() {
        let old = [meta(DELETION_VECTORS, "d1", Some("f"))];
        let other = [meta(DELETION_VECTORS, "d2", Some("g"))];
        let again = [meta(DELETION_VECTORS, "d2", Some("f"))];
        assert_eq!(apply(&old, &other, &[], true).unwrap(), ["d1", "d2"]);
        assert_eq!(apply(&old, &again, &old, true).unwrap(), ["d2"]);
        for (added, deleted) in [
            (&again[..], &[][..]),
            (&old[..], &[][..]),
            (&[][..], &other[..]),
        ] {
            assert!(apply(&old, added, deleted, true).is_err());
        }
    }

    #[test]
    fn index_types_of_other_builds_are_carried_over() {
        let old = [meta("lumina", "x1", None), meta("lumina", "x2", None)];
        let new = [meta(HASH, "h1", None)];
        assert_eq!(apply(&old, &new, &[], false).unwrap(), ["x1", "x2", "h1"]);
    }
}
