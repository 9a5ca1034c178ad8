//! What can go wrong while committing, with where and what to do about it.

use tidegate_sink::{ErrorKind, SinkError};
use tidegate_storage::{ErrorKind as StoreKind, StoreError};

/// Result with a [`CommitError`].
pub type Result<T, E = CommitError> = std::result::Result<T, E>;

/// A fault of the control plane. Refusals and fences of a commit are *outcomes*, not errors.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommitError {
    /// The store failed.
    #[error("while {doing}")]
    Store {
        /// What was being done.
        doing: String,
        /// Why it failed.
        #[source]
        source: StoreError,
    },
    /// A metadata file or a committable cannot be read, or a value cannot be written.
    #[error("{what}: {why}")]
    Corrupt {
        /// The object, relative to the table, or what else was being decoded.
        what: String,
        /// Offset and reason.
        why: String,
    },
    /// An object that the table refers to is not there.
    #[error(
        "{path} is missing although {referrer} refers to it; `tidegate verify` lists what else is"
    )]
    Missing {
        /// The object, relative to the table.
        path: String,
        /// Who refers to it.
        referrer: String,
    },
    /// There is no table here.
    #[error("no table at {url}: it has no schema/schema-N; create it first")]
    NoTable {
        /// Where it was looked for.
        url: String,
    },
    /// There is a table here already.
    #[error("a table exists already at {url}")]
    TableExists {
        /// Where.
        url: String,
    },
    /// An option, a schema or a call that cannot work.
    #[error("{0}")]
    Config(String),
    /// Rivals were quicker at every attempt, or the store stayed away.
    #[error("gave up after {attempts} attempts: {why}; the same commit may be tried again")]
    Exhausted {
        /// How many.
        attempts: u32,
        /// The last reason.
        why: String,
    },
    /// A way out that would touch what it must not.
    #[error("{0}")]
    Refused(String),
}

impl CommitError {
    pub(crate) fn store(doing: impl Into<String>, source: StoreError) -> Self {
        Self::Store {
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
            Self::Store { source, .. } => match source.kind() {
                StoreKind::NotFound => ErrorKind::NotFound,
                StoreKind::Full => ErrorKind::Exhausted,
                StoreKind::Corrupt => ErrorKind::Corrupt,
                StoreKind::PermissionDenied
                | StoreKind::NameTooLong
                | StoreKind::Unsupported
                | StoreKind::Config => ErrorKind::Config,
                _ => ErrorKind::Transient,
            },
            // A table that refers to what is not there is damaged; it is not a table that nobody made.
            Self::Corrupt { .. } | Self::Missing { .. } => ErrorKind::Corrupt,
            Self::NoTable { .. } => ErrorKind::NotFound,
            Self::TableExists { .. } | Self::Config(_) => ErrorKind::Config,
            Self::Exhausted { .. } => ErrorKind::Transient,
            Self::Refused(_) => ErrorKind::Refused,
        }
    }
}

impl From<CommitError> for SinkError {
    fn from(error: CommitError) -> Self {
        let kind = error.kind();
        match error {
            CommitError::Store { doing, source } => {
                SinkError::caused(kind, format!("while {doing}"), source)
            }
            other => SinkError::new(kind, other.to_string()),
        }
    }
}
