//! Index files and their manifest entries, carried over untouched where we do not change them \[F-5.1].

use crate::binary_row::BinaryRow;
use crate::ids::BucketId;
use crate::manifest::EntryKind;

/// One index file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct IndexFileMeta {
    /// `HASH`, `DELETION_VECTORS` or a global index type.
    pub index_type: String,
    /// Name without path.
    pub file_name: String,
    /// Bytes.
    pub file_size: i64,
    /// Hashes, or vectors in the file.
    pub row_count: i64,
    /// Where each data file's vector lies.
    pub dv_ranges: Option<Vec<Option<DeletionVectorRange>>>,
    /// Full path where it lies outside the table.
    pub external_path: Option<String>,
    /// Only for global indexes.
    pub global_index: Option<GlobalIndex>,
}

/// Where one deletion vector lies in its index file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DeletionVectorRange {
    /// The data file it belongs to.
    pub data_file: String,
    /// Byte offset.
    pub offset: i32,
    /// Length as stored \[F-5.3].
    pub length: i32,
    /// Deleted rows.
    pub cardinality: Option<i64>,
}

/// What a global index covers \[F-5.5].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GlobalIndex {
    /// First row id.
    pub row_range_start: i64,
    /// Last row id.
    pub row_range_end: i64,
    /// Indexed field.
    pub index_field_id: i32,
    /// More fields.
    pub extra_field_ids: Option<Vec<i32>>,
    /// Index's own data.
    pub index_meta: Option<Vec<u8>>,
    /// Newest releases only.
    pub source_meta: Option<Vec<u8>>,
}

/// One line of the index manifest, which is a complete state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct IndexManifestEntry {
    /// Stored files hold only `Add`.
    pub kind: EntryKind,
    /// Partition.
    pub partition: BinaryRow,
    /// Bucket.
    pub bucket: BucketId,
    /// The file.
    pub file: IndexFileMeta,
}
