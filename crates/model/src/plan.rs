//! What writers must know of a table, as values that can be sent to another machine.

use crate::binary_row::BinaryRow;
use crate::data_file::DataFileMeta;
use crate::ids::{BucketId, SnapshotId};
use crate::index_file::IndexFileMeta;
use crate::schema::TableSchema;
use std::sync::Arc;
use tidegate_sink::CommitIdentifier;

/// Everything that a writer needs before its first row, besides bucket views.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WritePlan {
    /// Schema that the rows have and the files get.
    pub schema: Arc<TableSchema>,
    /// What data file names of this run start with, `data-` of the options included: the run prefix
    /// \[R-2].
    pub file_prefix: String,
}

/// The state of one bucket in one snapshot: what a writer that restores starts from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketView {
    /// Snapshot it was read from; `None` for an empty table.
    pub base: Option<SnapshotId>,
    /// Partition.
    pub partition: BinaryRow,
    /// Bucket.
    pub bucket: BucketId,
    /// Bucket count of the partition; `None` where it has no file yet.
    pub total_buckets: Option<i32>,
    /// Live data files.
    pub files: Vec<DataFileMeta>,
    /// Live index files.
    pub index_files: Vec<IndexFileMeta>,
    /// Largest sequence number of the files; new rows continue above.
    pub max_sequence_number: Option<i64>,
    /// Newest identifier of the asking commit user in that snapshot's history.
    pub newest_committed: Option<CommitIdentifier>,
}
