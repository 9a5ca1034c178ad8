//! One error for users of the umbrella: what the parts said, and what may be done about it.

use tidegate_sink::{ErrorKind, SinkError};

/// Result of the umbrella's calls.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A table, database, snapshot or job that is not there.
    #[error("{0}")]
    NotFound(String),
    /// Something is there that must not be.
    #[error("{0}")]
    Exists(String),
    /// A schema, option or name that cannot be used.
    #[error("{0}")]
    Config(String),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] tidegate_storage::StoreError),
    /// A metadata file cannot be read.
    #[error("{file}: {source}")]
    Format {
        /// Which file.
        file: String,
        /// What is wrong with it.
        source: tidegate_format::Error,
    },
    /// The committer failed.
    #[error(transparent)]
    Commit(#[from] tidegate_commit::CommitError),
    /// A value of the table model is none.
    #[error(transparent)]
    Model(#[from] tidegate_model::Error),
    /// A version of the table cannot be read.
    #[error(transparent)]
    Scan(#[from] tidegate_scan::Error),
    /// Checkpoints or registrations failed.
    #[error(transparent)]
    Recovery(#[from] tidegate_recovery::RecoveryError),
    /// A writer, committer or target failed.
    #[error(transparent)]
    Sink(#[from] SinkError),
    /// Saved state and table disagree; a person must choose \[R-7].
    #[error("{0}")]
    Mismatch(String),
}

impl Error {
    /// What may be done about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NotFound(_) => ErrorKind::NotFound,
            Self::Exists(_) | Self::Config(_) | Self::Model(_) => ErrorKind::Config,
            // Which table, snapshot or job is not there says `NotFound`; a file that the table refers
            // to and that is not there is damage.
            Self::Store(e) if e.is_not_found() => ErrorKind::Corrupt,
            Self::Store(e) => tidegate_recovery::kind_of(e),
            Self::Format { .. } => ErrorKind::Corrupt,
            Self::Commit(e) => e.kind(),
            Self::Scan(e) => match e {
                // A scan asks for nothing that the table does not refer to: absent is damaged.
                tidegate_scan::Error::Store(e) if e.is_not_found() => ErrorKind::Corrupt,
                tidegate_scan::Error::Store(e) => tidegate_recovery::kind_of(e),
                tidegate_scan::Error::NoTable(_)
                | tidegate_scan::Error::NoSnapshot { .. }
                | tidegate_scan::Error::NothingThen { .. }
                | tidegate_scan::Error::Gap { .. }
                | tidegate_scan::Error::NoTag { .. } => ErrorKind::NotFound,
                tidegate_scan::Error::NoColumn { .. }
                | tidegate_scan::Error::Condition { .. }
                | tidegate_scan::Error::Unsupported { .. } => ErrorKind::Config,
                _ => ErrorKind::Corrupt,
            },
            Self::Recovery(e) => e.kind(),
            Self::Sink(e) => e.kind(),
            Self::Mismatch(_) => ErrorKind::Mismatch,
        }
    }
}
