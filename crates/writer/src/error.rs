//! What can go wrong while rows become files, and what a caller may do about it.

use std::path::PathBuf;

use arrow::error::ArrowError;
use tidegate_datafile::Error as DataFileError;
use tidegate_sink::{ErrorKind, SinkError};
use tidegate_storage::StoreError;

/// Result with a [`WriterError`].
pub type Result<T, E = WriterError> = std::result::Result<T, E>;

/// Failure of a writer. Every variant names what it was about and, where there is one, the way out.
#[derive(Debug, thiserror::Error)]
pub enum WriterError {
    /// An option or the schema cannot be written by this build.
    #[error("cannot write this table: {0}")]
    Config(String),
    /// The rows do not have the table's columns.
    #[error("rows do not fit the table: {0}")]
    Rows(String),
    /// One row does not fit the table.
    #[error("rows do not fit the table: row {row}: {why}")]
    Row {
        /// Its place in the batch, from 0.
        row: usize,
        /// What is wrong.
        why: String,
    },
    /// A partition value that makes no directory name, or one that stores refuse (case B51); the
    /// column is named.
    #[error("rows cannot be stored: {0}")]
    Partition(#[from] tidegate_model::Error),
    /// The partition holds files with another bucket count \[W-2].
    #[error(
        "Try to write {partition} with a new bucket num {wanted}, but the previous bucket num is \
         {found}. Please switch to batch mode, and perform INSERT OVERWRITE to rescale current data \
         layout first, or set the table option 'bucket' back to {found}"
    )]
    BucketCount {
        /// `partition dt=…/` or `table`.
        partition: String,
        /// The table option.
        wanted: i32,
        /// What the files of the partition have.
        found: i32,
    },
    /// The provider of bucket views failed.
    #[error("cannot learn the state of {count} buckets: {source}")]
    Views {
        /// How many were asked for.
        count: usize,
        /// Its error.
        source: SinkError,
    },
    /// Encoding a data file failed.
    #[error("data file {file}: {source}")]
    Encode {
        /// Name of the file.
        file: String,
        /// The encoder's error.
        source: Box<DataFileError>,
    },
    /// A data file did not become durable: the checkpoint must fail (case B24).
    #[error("data file {path} did not become durable: {source}")]
    Upload {
        /// Path below the table.
        path: String,
        /// The store's error.
        source: Box<StoreError>,
    },
    /// The store confirmed another size than was sent (case B24).
    #[error("data file {path}: {sent} bytes were written, but the store confirms {confirmed}")]
    Size {
        /// Path below the table.
        path: String,
        /// Bytes encoded.
        sent: u64,
        /// Bytes that the store confirmed.
        confirmed: u64,
    },
    /// Local disk for spilled rows failed.
    #[error("spill file in {}: {what}: {source}; 'spill directory' names another place", dir.display())]
    Spill {
        /// The directory.
        dir: PathBuf,
        /// What was being done.
        what: &'static str,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// An Arrow kernel failed.
    #[error("{what}: {source}")]
    Arrow {
        /// What was being done.
        what: &'static str,
        /// Arrow's error.
        source: ArrowError,
    },
    /// Rows of a key could not be merged: the rows, or an engine that does not take them.
    #[error("merging rows of a key: {0}")]
    Merge(Box<tidegate_merge::Error>),
    /// A data file that a compaction takes in could not be read.
    #[error("data file {path} cannot be read for a compaction: {source}")]
    Read {
        /// Path below the table.
        path: String,
        /// The reader's error.
        source: Box<DataFileError>,
    },
    /// A file above level 0 does not have each key once, in order.
    #[error(
        "data file {path}: its keys are not in order, each once, as those of level {level} must be; let \
         `tidegate verify` look at the table"
    )]
    KeyOrder {
        /// Path below the table.
        path: String,
        /// Where it lies.
        level: i32,
    },
    /// An index file with deletion vectors is not as it should be, or cannot be made.
    #[error("index file {path}: {what}")]
    Vectors {
        /// Path below the table.
        path: String,
        /// What is wrong and what to do.
        what: String,
    },
    /// An object that a compaction needs cannot be had.
    #[error("{path} cannot be read for a compaction: {source}")]
    Get {
        /// Path below the table.
        path: String,
        /// What the store says.
        source: Box<StoreError>,
    },
    /// The files of a bucket are not what a tree of sorted runs may have.
    #[error("{bucket}: {source}; let `tidegate verify` look at the table")]
    Levels {
        /// The bucket's folder.
        bucket: String,
        /// What is wrong.
        source: Box<tidegate_lsm::Error>,
    },
    /// A background task died; a bug or a runtime that is shutting down.
    #[error("{what} ended early: {reason}")]
    Task {
        /// Which task.
        what: &'static str,
        /// Why.
        reason: String,
    },
    /// The writer was left by a failure or a cancelled `prepare` \[R-18].
    #[error("this writer cannot go on after {0}; call abort first")]
    Unusable(&'static str),
    /// Deleting files in [`crate::AppendWriter::abort`] failed; they carry the run's prefix, and a
    /// later run removes them \[R-13].
    #[error("{count} files could not be deleted, the first one: {source}")]
    Abort {
        /// How many are left.
        count: usize,
        /// Failure of the first one.
        source: Box<StoreError>,
    },
}

impl WriterError {
    pub(crate) fn arrow(what: &'static str) -> impl FnOnce(ArrowError) -> Self {
        move |source| Self::Arrow { what, source }
    }

    /// What an engine may do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Config(_) => ErrorKind::Config,
            Self::Rows(_)
            | Self::Row { .. }
            | Self::Partition(_)
            | Self::Encode { .. }
            | Self::Merge(_) => ErrorKind::Data,
            Self::Levels { .. } | Self::KeyOrder { .. } | Self::Vectors { .. } => {
                ErrorKind::Corrupt
            }
            Self::Read { source, .. } => match source.as_ref() {
                DataFileError::Read { .. } => ErrorKind::Transient,
                _ => ErrorKind::Corrupt,
            },
            Self::Arrow { .. } => ErrorKind::Data,
            Self::BucketCount { .. } => ErrorKind::Refused,
            Self::Views { source, .. } => source.kind(),
            Self::Get { source, .. } | Self::Upload { source, .. } | Self::Abort { source, .. } => {
                store_kind(source)
            }
            Self::Size { .. } => ErrorKind::Corrupt,
            Self::Spill { .. } => ErrorKind::Exhausted,
            Self::Task { .. } | Self::Unusable(_) => ErrorKind::Transient,
        }
    }
}

fn store_kind(error: &StoreError) -> ErrorKind {
    use tidegate_storage::ErrorKind as Store;
    match error.kind() {
        Store::NotFound => ErrorKind::NotFound,
        Store::Full => ErrorKind::Exhausted,
        Store::PermissionDenied | Store::Unsupported | Store::Config => ErrorKind::Config,
        Store::NameTooLong => ErrorKind::Data,
        Store::Corrupt => ErrorKind::Corrupt,
        _ => ErrorKind::Transient,
    }
}

impl From<WriterError> for SinkError {
    fn from(error: WriterError) -> Self {
        let kind = error.kind();
        match error {
            WriterError::Row { row, why } => Self::new(kind, why).at_row(row),
            other => Self::new(kind, other.to_string()),
        }
    }
}
