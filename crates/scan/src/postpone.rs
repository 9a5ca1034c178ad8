//! Rows that wait in the postpone bucket: which files hold them, and in which order they came \[W-73].
//!
//! Records have no numbers there; the order of a key's rows is that of the commits, and within one commit that
//! of its writer's files. Who distributes the rows gives them numbers in this order.

use crate::error::Result;
use crate::live::{manifest, manifest_list};
use crate::plan::ScanPlan;
use crate::split::{Listing, Split};
use crate::table::TableReader;
use std::collections::{BTreeMap, HashMap, HashSet};
use tidegate_model::{BinaryRow, BucketId, EntryKind, Snapshot, SnapshotId, TableSchema};

/// The files of the postpone buckets of one snapshot, partition by partition.
#[derive(Debug)]
pub struct Waiting {
    table: TableReader,
    listing: Listing,
    /// Files in the order of their rows.
    partitions: BTreeMap<BinaryRow, Vec<Split>>,
    /// Bucket counts of partitions that have files elsewhere.
    buckets: HashMap<BinaryRow, i32>,
}

impl Waiting {
    /// Reads the metadata of a snapshot and of as many before it as added files that still wait.
    pub(crate) async fn of(
        table: &TableReader,
        snapshot: &Snapshot,
        schema: TableSchema,
    ) -> Result<Self> {
        let mut listing = Listing::new(table, Some(snapshot), schema).await?;
        let splits = std::mem::take(&mut listing.splits);
        let mut buckets = HashMap::new();
        let mut waiting = Vec::new();
        for split in splits {
            if split.bucket == BucketId::POSTPONE {
                waiting.push(split);
            } else if split.total_buckets > 0 {
                buckets.insert(split.partition, split.total_buckets);
            }
        }
        let commits = commits_of(table, snapshot, &waiting).await?;
        let mut partitions: BTreeMap<BinaryRow, Vec<Split>> = BTreeMap::new();
        for split in waiting {
            let files = partitions.entry(split.partition.clone()).or_default();
            files.push(split);
        }
        for files in partitions.values_mut() {
            // Stable: where nothing tells, the order of the manifests stays.
            files.sort_by_key(|split| {
                let commit = commits.get(&split.file.file_name).copied();
                let (writer, number) = match commit {
                    Some(_) => by_writer(&split.file.file_name),
                    None => ("", 0),
                };
                (commit, writer.to_owned(), number)
            });
        }
        Ok(Self {
            table: table.clone(),
            listing,
            partitions,
            buckets,
        })
    }

    /// Partitions with rows that wait, their files in the order of their rows.
    pub fn partitions(&self) -> impl Iterator<Item = (&BinaryRow, &[Split])> {
        let all = self.partitions.iter();
        all.map(|(partition, files)| (partition, files.as_slice()))
    }

    /// The bucket count of a partition; `None` where none of its rows was distributed yet.
    pub fn total_buckets(&self, partition: &BinaryRow) -> Option<i32> {
        self.buckets.get(partition).copied()
    }

    /// The rows of some files as they stand in them, with their kinds; partition columns have the values of
    /// the partition.
    pub fn records(&self, files: &[Split]) -> ScanPlan {
        let schemas = self.listing.schemas.clone();
        let schema = self.listing.schema.clone();
        ScanPlan::of_splits(self.table.clone(), schema, files.to_vec(), schemas)
            .with_kinds_of_files()
    }
}

/// The snapshot that added each file, as far as the history goes: older files have none and come first.
async fn commits_of(
    table: &TableReader,
    snapshot: &Snapshot,
    waiting: &[Split],
) -> Result<HashMap<String, SnapshotId>> {
    let mut wanted: HashSet<&str> = waiting.iter().map(|s| s.file.file_name.as_str()).collect();
    let mut commits = HashMap::new();
    let mut at = Some(snapshot.clone());
    while let Some(snapshot) = at.filter(|_| !wanted.is_empty()) {
        for list in manifest_list(table.store(), &snapshot.delta_manifest_list).await? {
            if list.num_added_files == 0 {
                continue;
            }
            for entry in manifest(table.store(), &list).await? {
                let name = entry.file.file_name;
                if entry.kind == EntryKind::Add && wanted.remove(name.as_str()) {
                    commits.insert(name, snapshot.id);
                }
            }
        }
        at = table.find_snapshot(SnapshotId(snapshot.id.0 - 1)).await?;
    }
    Ok(commits)
}

/// The part of a name that all files of a writer share, and the number behind it \[F-1.2].
fn by_writer(name: &str) -> (&str, u64) {
    let stem = name.split('.').next().unwrap_or(name);
    match stem.rsplit_once('-') {
        Some((writer, number)) => (writer, number.parse().unwrap_or(u64::MAX)),
        None => (stem, u64::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn w_73_files_of_one_writer_are_told_by_their_number() {
        let name =
            "data--u-golden-writer-s-304446289-w-f65ab11b-0f0b-4264-9218-92632b15f201-10.avro";
        let (writer, number) = by_writer(name);
        assert_eq!(number, 10);
        assert!(writer.ends_with("92632b15f201"), "{writer}");
        assert_eq!(by_writer("odd").1, u64::MAX);
    }
}
