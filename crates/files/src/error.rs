//! What can go wrong with files, and what an engine may do about it.

use tidegate_sink::{ErrorKind, SinkError};
use tidegate_storage::StoreError;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FilesError {
    /// The store failed.
    #[error("{doing}")]
    Store {
        /// What was being done.
        doing: String,
        /// Why it failed.
        source: StoreError,
    },
    /// Rows that the format cannot hold.
    #[error("{file}: {what}")]
    Data {
        /// The file being written.
        file: String,
        /// What is wrong with the rows.
        what: String,
    },
    /// Stored bytes that are not what they should be.
    #[error("{what} cannot be read: {why}")]
    Corrupt {
        /// Which bytes.
        what: String,
        /// What is wrong with them.
        why: String,
    },
    /// A name that cannot stand in a path.
    #[error("{0}")]
    Config(String),
    /// The target cannot do that; the message names the way out.
    #[error("{0}")]
    Unsupported(String),
    /// A call before was dropped halfway \[R-18].
    #[error(
        "an earlier call on this writer was dropped or failed halfway: abort it and begin a new run"
    )]
    Interrupted,
}

impl FilesError {
    pub(crate) fn store(doing: impl Into<String>) -> impl FnOnce(StoreError) -> Self {
        |source| Self::Store {
            doing: doing.into(),
            source,
        }
    }

    pub(crate) fn corrupt(what: impl Into<String>, why: impl ToString) -> Self {
        Self::Corrupt {
            what: what.into(),
            why: why.to_string(),
        }
    }

    /// What an engine may do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Store { source, .. } => kind_of(source),
            Self::Data { .. } => ErrorKind::Data,
            Self::Corrupt { .. } => ErrorKind::Corrupt,
            Self::Config(_) => ErrorKind::Config,
            Self::Unsupported(_) => ErrorKind::Refused,
            Self::Interrupted => ErrorKind::Transient,
        }
    }
}

fn kind_of(error: &StoreError) -> ErrorKind {
    use tidegate_storage::ErrorKind as Store;
    match error.kind() {
        Store::NotFound => ErrorKind::NotFound,
        Store::Full => ErrorKind::Exhausted,
        Store::Corrupt => ErrorKind::Corrupt,
        Store::AlreadyExists => ErrorKind::Refused,
        Store::PermissionDenied | Store::NameTooLong | Store::Unsupported | Store::Config => {
            ErrorKind::Config
        }
        // What nobody foresaw is worth a restart: the strategy bounds how often.
        _ => ErrorKind::Transient,
    }
}

impl From<FilesError> for SinkError {
    fn from(error: FilesError) -> Self {
        let (kind, message) = (error.kind(), error.to_string());
        match error {
            FilesError::Store { source, .. } => Self::caused(kind, message, source),
            _ => Self::new(kind, message),
        }
    }
}
