//! What can go wrong around checkpoints and registrations.

use tidegate_sink::ErrorKind;
use tidegate_storage::StoreError;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecoveryError {
    /// A checkpoint record that cannot be read. Never skipped for an older one \[R-7].
    #[error(
        "checkpoint record {url}, byte {at}: {what}. To go on from an older one, name it \
         (--from-checkpoint)"
    )]
    Record {
        /// Which object.
        url: String,
        /// Byte offset of the trouble.
        at: u64,
        /// What is wrong there.
        what: String,
    },
    /// A registration or `ended` mark that cannot be read.
    #[error("registration {url}: {what}")]
    Registration {
        /// Which object.
        url: String,
        /// What is wrong with it.
        what: String,
    },
    /// Somebody else goes on with this job: stop \[R-2], \[R-5].
    #[error("fenced: {what}")]
    Fenced {
        /// Who, and where it shows.
        what: String,
    },
    /// It could not be settled whether an object was created; nothing was deleted \[R-6].
    #[error("outcome undecided: whether {url} was created could not be settled: {source}")]
    Undecided {
        /// Which object.
        url: String,
        /// The last answer.
        source: StoreError,
    },
    /// A checkpoint that was asked for is not there.
    #[error("no checkpoint {id} in {directory}; there {}", say(.present))]
    NoSuchCheckpoint {
        /// What was asked for.
        id: u64,
        /// Where.
        directory: String,
        /// What there is.
        present: Vec<u64>,
    },
    /// More than one commit user has records of this job, and no registration tells which.
    #[error(
        "{directory} holds checkpoints of several commit users ({}) and no registration beside \
         the target tells which one to go on with; move the others away", users.join(", ")
    )]
    SeveralUsers {
        /// Where.
        directory: String,
        /// Whose.
        users: Vec<String>,
    },
    /// The job goes on under another name \[R-17].
    #[error("job {job} was adopted by job {by}; run that one, or take another name")]
    Adopted {
        /// The old name.
        job: String,
        /// The new name.
        by: String,
    },
    /// A record cannot be written as bytes.
    #[error("a checkpoint record cannot be encoded: {what}")]
    Encode {
        /// Why.
        what: String,
    },
    /// The store failed.
    #[error("{doing}: {source}")]
    Store {
        /// What was being done.
        doing: &'static str,
        /// Why it failed.
        source: StoreError,
    },
}

fn say(ids: &[u64]) -> String {
    match ids {
        [] => "are none".to_owned(),
        [id] => format!("is {id}"),
        ids => format!(
            "are {}",
            ids.iter()
                .map(u64::to_string)
                .collect::<Vec<_>>()
                .join(", ")
        ),
    }
}

impl RecoveryError {
    pub(crate) fn store(doing: &'static str) -> impl Fn(StoreError) -> Self {
        move |source| Self::Store { doing, source }
    }

    /// What an engine may do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Record { .. } | Self::Registration { .. } | Self::Encode { .. } => {
                ErrorKind::Corrupt
            }
            Self::Fenced { .. } => ErrorKind::Fenced,
            Self::Undecided { .. } => ErrorKind::Undecided,
            Self::NoSuchCheckpoint { .. } => ErrorKind::NotFound,
            Self::SeveralUsers { .. } => ErrorKind::Mismatch,
            Self::Adopted { .. } => ErrorKind::Config,
            Self::Store { source, .. } => kind_of(source),
        }
    }
}

/// What an engine may do about a failure of a store.
pub fn kind_of(error: &StoreError) -> ErrorKind {
    use tidegate_storage::ErrorKind as Store;
    match error.kind() {
        Store::NotFound => ErrorKind::NotFound,
        Store::Full => ErrorKind::Exhausted,
        Store::Throttled | Store::Transient => ErrorKind::Transient,
        Store::Corrupt => ErrorKind::Corrupt,
        Store::AlreadyExists => ErrorKind::Refused,
        Store::PermissionDenied | Store::NameTooLong | Store::Unsupported | Store::Config => {
            ErrorKind::Config
        }
        // An answer nobody foresaw is worth a restart: the strategy bounds how often.
        _ => ErrorKind::Transient,
    }
}
