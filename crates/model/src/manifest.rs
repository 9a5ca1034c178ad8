//! Manifest entries and manifest-list rows \[F-4.2], \[F-4.3].
//!
//! Owns how entries combine: [`merge_entries`] \[0-2] for merging manifests, [`LiveFiles`] \[0-3] for
//! reading a snapshot, and what a manifest's list says of it.

use crate::binary_row::BinaryRow;
use crate::data_file::DataFileMeta;
use crate::data_type::LogicalType;
use crate::error::{Error, Result};
use crate::ids::{BucketId, Level, SchemaId};
use crate::statistics::{SimpleStats, StatsCollector};
use std::collections::hash_map::Entry as Slot;
use std::collections::{HashMap, HashSet};
use std::fmt;

/// What an entry does to the set of live files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EntryKind {
    /// 0 on disk.
    Add,
    /// 1 on disk.
    Delete,
}

impl fmt::Display for EntryKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Add => "ADD",
            Self::Delete => "DELETE",
        })
    }
}

/// One change of the set of live files.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ManifestEntry {
    /// Added or deleted.
    pub kind: EntryKind,
    /// Partition value; the empty row for an unpartitioned table.
    pub partition: BinaryRow,
    /// Bucket.
    pub bucket: BucketId,
    /// Bucket count of the partition at write time; -1 unaware or dynamic, -2 postpone \[F-7.1].
    pub total_buckets: i32,
    /// The file.
    pub file: DataFileMeta,
}

/// What makes two entries speak of the same file \[0-1].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FileIdentity {
    /// Partition value.
    pub partition: BinaryRow,
    /// Bucket.
    pub bucket: BucketId,
    /// Level: an upgrade is a DELETE and an ADD of the same name.
    pub level: Level,
    /// Name.
    pub file_name: String,
    /// Companion files.
    pub extra_files: Vec<String>,
    /// Embedded index bytes.
    pub embedded_index: Option<Vec<u8>>,
    /// Path outside the table.
    pub external_path: Option<String>,
}

impl ManifestEntry {
    /// The identity of its file.
    pub fn identity(&self) -> FileIdentity {
        FileIdentity {
            partition: self.partition.clone(),
            bucket: self.bucket,
            level: self.file.level,
            file_name: self.file.file_name.clone(),
            extra_files: self.file.extra_files.clone(),
            embedded_index: self.file.embedded_index.clone(),
            external_path: self.file.external_path.clone(),
        }
    }
}

/// One manifest, as its list knows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ManifestFile {
    /// Name in `manifest/`.
    pub file_name: String,
    /// Exact length in bytes.
    pub file_size: i64,
    /// ADD entries.
    pub num_added_files: i64,
    /// DELETE entries.
    pub num_deleted_files: i64,
    /// Over the partition columns; never dense, never truncated.
    pub partition_stats: SimpleStats,
    /// Highest schema id of the entries.
    pub schema_id: SchemaId,
    /// Smallest bucket.
    pub min_bucket: Option<BucketId>,
    /// Largest bucket.
    pub max_bucket: Option<BucketId>,
    /// Smallest level.
    pub min_level: Option<Level>,
    /// Largest level.
    pub max_level: Option<Level>,
    /// Smallest first row id, where every entry has one.
    pub min_row_id: Option<i64>,
    /// Largest row id.
    pub max_row_id: Option<i64>,
}

/// Merges entries in order \[0-2]: a DELETE removes the ADD of the same identity before it, else it
/// stays, since it refers to an older manifest. What remains keeps its order.
///
/// # Errors
/// An ADD of an identity that is present.
pub fn merge_entries(
    entries: impl IntoIterator<Item = ManifestEntry>,
) -> Result<Vec<ManifestEntry>> {
    let mut kept: Vec<Option<ManifestEntry>> = Vec::new();
    let mut places: HashMap<FileIdentity, usize> = HashMap::new();
    for entry in entries {
        match (entry.kind, places.entry(entry.identity())) {
            (EntryKind::Add, Slot::Occupied(_)) => {
                // After a DELETE the same: what is deleted never comes back [0-3].
                return Err(Error::Entries {
                    file: entry.file.file_name,
                    bucket: entry.bucket.0,
                    level: entry.file.level.0,
                    what: "it is added, and an entry for it is there already".to_owned(),
                });
            }
            (EntryKind::Delete, Slot::Occupied(slot)) => {
                let place = *slot.get();
                let other = kept.get(place).and_then(Option::as_ref).map(|e| e.kind);
                if other == Some(EntryKind::Add) {
                    slot.remove();
                    if let Some(slot) = kept.get_mut(place) {
                        *slot = None;
                    }
                }
            }
            (_, Slot::Vacant(slot)) => {
                slot.insert(kept.len());
                kept.push(Some(entry));
            }
        }
    }
    Ok(kept.into_iter().flatten().collect())
}

/// Collects the live files of a snapshot \[0-3]: all ADDs whose identity no DELETE names, whatever the
/// order in which manifests are read.
#[derive(Clone, Debug, Default)]
pub struct LiveFiles {
    added: Vec<ManifestEntry>,
    deleted: HashSet<FileIdentity>,
}

impl LiveFiles {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes one entry of a base or delta manifest.
    pub fn add(&mut self, entry: ManifestEntry) {
        match entry.kind {
            EntryKind::Add => self.added.push(entry),
            EntryKind::Delete => {
                self.deleted.insert(entry.identity());
            }
        }
    }

    /// The live entries, in the order in which they were added.
    pub fn finish(self) -> Vec<ManifestEntry> {
        let Self { mut added, deleted } = self;
        if !deleted.is_empty() {
            added.retain(|entry| !deleted.contains(&entry.identity()));
        }
        added
    }
}

impl Extend<ManifestEntry> for LiveFiles {
    fn extend<I: IntoIterator<Item = ManifestEntry>>(&mut self, entries: I) {
        entries.into_iter().for_each(|entry| self.add(entry));
    }
}

/// Rows added minus rows removed by data entries: `deltaRecordCount` \[C-40]. Physical rows, deletes
/// and old versions included.
///
/// # Errors
/// Where the sum leaves 64 bits, which only broken entries can do.
pub fn delta_record_count<'a>(entries: impl IntoIterator<Item = &'a ManifestEntry>) -> Result<i64> {
    entries.into_iter().try_fold(0i64, |sum, entry| {
        let next = match entry.kind {
            EntryKind::Add => sum.checked_add(entry.file.row_count),
            EntryKind::Delete => sum.checked_sub(entry.file.row_count),
        };
        next.ok_or_else(|| Error::Entries {
            file: entry.file.file_name.clone(),
            bucket: entry.bucket.0,
            level: entry.file.level.0,
            what: format!(
                "with its {} rows the record count leaves 64 bits",
                entry.file.row_count
            ),
        })
    })
}

/// Builds what a list says of a manifest while its entries are written \[F-4.2].
#[derive(Clone, Debug)]
pub struct ManifestSummary {
    added: i64,
    deleted: i64,
    partitions: StatsCollector,
    schema_id: SchemaId,
    buckets: Option<(BucketId, BucketId)>,
    levels: Option<(Level, Level)>,
    rows: RowIds,
}

#[derive(Clone, Copy, Debug)]
enum RowIds {
    NoEntry,
    All(i64, i64),
    Missing,
}

fn widen<T: Copy + Ord>(range: Option<(T, T)>, value: T) -> Option<(T, T)> {
    Some(range.map_or((value, value), |(low, high)| {
        (low.min(value), high.max(value))
    }))
}

impl ManifestSummary {
    /// No entry yet; `partition_types` are those of the partition columns.
    pub fn new(partition_types: Vec<LogicalType>) -> Self {
        Self {
            added: 0,
            deleted: 0,
            partitions: StatsCollector::new(partition_types),
            schema_id: SchemaId(i64::MIN),
            buckets: None,
            levels: None,
            rows: RowIds::NoEntry,
        }
    }

    /// Takes an entry, ADD or DELETE.
    ///
    /// # Errors
    /// Where its partition is not of the types.
    pub fn add(&mut self, entry: &ManifestEntry) -> Result<()> {
        match entry.kind {
            EntryKind::Add => self.added += 1,
            EntryKind::Delete => self.deleted += 1,
        }
        self.partitions.add(&entry.partition)?;
        self.schema_id = self.schema_id.max(entry.file.schema_id);
        self.buckets = widen(self.buckets, entry.bucket);
        self.levels = widen(self.levels, entry.file.level);
        self.rows = match (self.rows, entry.file.first_row_id) {
            (RowIds::Missing, _) | (_, None) => RowIds::Missing,
            (before, Some(first)) => {
                let last = first.saturating_add(entry.file.row_count.saturating_sub(1));
                match before {
                    RowIds::All(low, high) => RowIds::All(low.min(first), high.max(last)),
                    _ => RowIds::All(first, last),
                }
            }
        };
        Ok(())
    }

    /// The row of the list, once the file is written.
    ///
    /// # Errors
    /// Never for entries that were taken.
    pub fn finish(self, file_name: impl Into<String>, file_size: i64) -> Result<ManifestFile> {
        let row_ids = match self.rows {
            RowIds::All(low, high) => Some((low, high)),
            RowIds::NoEntry | RowIds::Missing => None,
        };
        Ok(ManifestFile {
            file_name: file_name.into(),
            file_size,
            num_added_files: self.added,
            num_deleted_files: self.deleted,
            partition_stats: self.partitions.finish()?,
            schema_id: if self.schema_id.0 == i64::MIN {
                SchemaId(0)
            } else {
                self.schema_id
            },
            min_bucket: self.buckets.map(|b| b.0),
            max_bucket: self.buckets.map(|b| b.1),
            min_level: self.levels.map(|l| l.0),
            max_level: self.levels.map(|l| l.1),
            min_row_id: row_ids.map(|r| r.0),
            max_row_id: row_ids.map(|r| r.1),
        })
    }
}

impl ManifestFile {
    /// What a list says of a manifest that holds these entries.
    ///
    /// # Errors
    /// Where a partition is not of the types.
    pub fn summarise<'a>(
        file_name: impl Into<String>,
        file_size: i64,
        entries: impl IntoIterator<Item = &'a ManifestEntry>,
        partition_types: Vec<LogicalType>,
    ) -> Result<Self> {
        let mut summary = ManifestSummary::new(partition_types);
        entries
            .into_iter()
            .try_for_each(|entry| summary.add(entry))?;
        summary.finish(file_name, file_size)
    }
}
