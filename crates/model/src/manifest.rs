//! Manifest entries and manifest-list rows \[F-4.2], \[F-4.3].

use crate::binary_row::BinaryRow;
use crate::data_file::DataFileMeta;
use crate::ids::{BucketId, Level, SchemaId};
use crate::statistics::SimpleStats;
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
