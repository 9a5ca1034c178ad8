//! What the table knows of a data file \[F-4.3].

use crate::binary_row::BinaryRow;
use crate::ids::{Level, SchemaId};
use crate::statistics::SimpleStats;

/// Who made a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileSource {
    /// A writer; 0 on disk.
    Append,
    /// A compaction; 1 on disk.
    Compact,
}

/// One data file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DataFileMeta {
    /// Name without any path.
    pub file_name: String,
    /// Exact length in bytes; readers find the footer by it \[F-6.4].
    pub file_size: i64,
    /// Rows, delete records included.
    pub row_count: i64,
    /// Trimmed primary key of the first row; the empty row for append tables.
    pub min_key: BinaryRow,
    /// Same of the last row.
    pub max_key: BinaryRow,
    /// Over the trimmed primary key columns.
    pub key_stats: SimpleStats,
    /// Over the table columns, or those of `value_stats_cols`.
    pub value_stats: SimpleStats,
    /// Smallest sequence number \[F-6.3].
    pub min_sequence_number: i64,
    /// Largest sequence number.
    pub max_sequence_number: i64,
    /// Schema of the content.
    pub schema_id: SchemaId,
    /// Level; 0 for append.
    pub level: Level,
    /// Companion files, such as `x.parquet.index`.
    pub extra_files: Vec<String>,
    /// Local wall clock of the writer in epoch milliseconds, as if it were UTC \[F-12.15].
    pub creation_time_millis: Option<i64>,
    /// Rows of kind -U or -D; 0 for append tables.
    pub delete_row_count: Option<i64>,
    /// File index small enough to lie in the manifest.
    pub embedded_index: Option<Vec<u8>>,
    /// Who made it.
    pub file_source: Option<FileSource>,
    /// Columns that `value_stats` covers; `None` = all, empty = none.
    pub value_stats_cols: Option<Vec<String>>,
    /// Full path where the file lies outside the table.
    pub external_path: Option<String>,
    /// First row id \[F-6.7].
    pub first_row_id: Option<i64>,
    /// Columns in the file; `None` = all.
    pub write_cols: Option<Vec<String>>,
    /// Per-column largest sequence; newest releases only.
    pub write_cols_sequences: Option<Vec<i64>>,
}

impl DataFileMeta {
    /// Where the file lies: its external path, else in `bucket_dir` \[F-1.5].
    pub fn path(&self, bucket_dir: &str) -> String {
        match &self.external_path {
            Some(path) => path.clone(),
            None => format!("{bucket_dir}/{}", self.file_name),
        }
    }

    /// Where the file and its companions lie: companions are in the directory of the file, external
    /// or not.
    pub fn all_paths(&self, bucket_dir: &str) -> Vec<String> {
        let file = self.path(bucket_dir);
        let dir = file.rsplit_once('/').map_or("", |(dir, _)| dir);
        let companions: Vec<_> = self
            .extra_files
            .iter()
            .map(|e| format!("{dir}/{e}"))
            .collect();
        std::iter::once(file.clone()).chain(companions).collect()
    }
}
