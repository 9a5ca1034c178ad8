//! What writers hand to the committer, and what the committer saves \[F-9], protocol sheet 0.4.

use crate::binary_row::BinaryRow;
use crate::data_file::DataFileMeta;
use crate::ids::BucketId;
use crate::index_file::IndexFileMeta;

/// What happened in one partition and bucket since the last barrier.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CommitMessage {
    /// Partition value.
    pub partition: BinaryRow,
    /// Bucket.
    pub bucket: BucketId,
    /// Bucket count; `None` = the table option.
    pub total_buckets: Option<i32>,
    /// The APPEND half.
    pub data: DataIncrement,
    /// The COMPACT half.
    pub compact: CompactIncrement,
}

/// New rows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct DataIncrement {
    /// Added.
    pub new_files: Vec<DataFileMeta>,
    /// Removed.
    pub deleted_files: Vec<DataFileMeta>,
    /// Changelog.
    pub changelog_files: Vec<DataFileMeta>,
    /// Index files added.
    pub new_index_files: Vec<IndexFileMeta>,
    /// Index files removed.
    pub deleted_index_files: Vec<IndexFileMeta>,
}

/// Rewritten rows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CompactIncrement {
    /// Inputs.
    pub compact_before: Vec<DataFileMeta>,
    /// Outputs.
    pub compact_after: Vec<DataFileMeta>,
    /// Changelog.
    pub changelog_files: Vec<DataFileMeta>,
    /// Index files added.
    pub new_index_files: Vec<IndexFileMeta>,
    /// Index files removed.
    pub deleted_index_files: Vec<IndexFileMeta>,
}

impl DataIncrement {
    /// True without any file.
    pub fn is_empty(&self) -> bool {
        self.new_files.is_empty()
            && self.deleted_files.is_empty()
            && self.changelog_files.is_empty()
            && self.new_index_files.is_empty()
            && self.deleted_index_files.is_empty()
    }
}

impl CompactIncrement {
    /// True without any file.
    pub fn is_empty(&self) -> bool {
        self.compact_before.is_empty()
            && self.compact_after.is_empty()
            && self.changelog_files.is_empty()
            && self.new_index_files.is_empty()
            && self.deleted_index_files.is_empty()
    }
}

/// All of one checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ManifestCommittable {
    /// Commit identifier.
    pub identifier: i64,
    /// Epoch milliseconds.
    pub watermark: Option<i64>,
    /// Goes into the snapshot's properties; order kept.
    pub properties: Vec<(String, String)>,
    /// One per partition and bucket.
    pub messages: Vec<CommitMessage>,
}
