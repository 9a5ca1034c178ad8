//! Why a job failed.

use tidegate_recovery::RecoveryError;
use tidegate_sink::{ErrorKind, SinkError};

use crate::source::SourceError;

/// What is wrong with a record, and where.
#[derive(Debug, thiserror::Error)]
#[error("{url}, byte {at}: {what}")]
pub struct RecordTrouble {
    /// Which record.
    pub url: String,
    /// Byte offset.
    pub at: u64,
    /// What is wrong there.
    pub what: String,
}

/// Why a job failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RuntimeError {
    /// Settings or parts that do not fit together. Final.
    #[error("{0}")]
    Config(String),
    /// The source failed.
    #[error("{}{source}", named(.name, .source))]
    Source {
        /// Which source.
        name: String,
        /// Why.
        source: SourceError,
    },
    /// The target failed.
    #[error("{doing} {target}: {source}")]
    Target {
        /// What was being done.
        doing: &'static str,
        /// Which target.
        target: String,
        /// Why.
        source: SinkError,
    },
    /// Checkpoints or registrations failed.
    #[error(transparent)]
    Recovery(#[from] RecoveryError),
    /// Whether another job's checkpoints are of this source and target cannot be told. Final: a guess
    /// could carry every row a second time.
    #[error(
        "the checkpoint directory {directory} holds a record of another job that cannot be read, so \
         that it cannot be told whether it is of the same table and source: {source}. Move it away, or \
         pass --new-job to start without looking at other jobs"
    )]
    OtherJob {
        /// Where.
        directory: String,
        /// Which record, and what is wrong with it.
        source: RecordTrouble,
    },
    /// Saved positions cannot be read. Final.
    #[error("positions of checkpoint {checkpoint}: {what}")]
    Positions {
        /// Which checkpoint; 0 where they came from the target.
        checkpoint: u64,
        /// What is wrong.
        what: String,
    },
    /// Another run goes on with this job. Final \[R-5].
    #[error("fenced while committing to {target}: {why}")]
    Fenced {
        /// Which target.
        target: String,
        /// Who, and where it shows.
        why: String,
    },
    /// A run failed while a newer one was registered: that one goes on with the job. Final \[R-2].
    #[error(
        "fenced: epoch {newer} on host {host} goes on with this job; what this run met: {cause}"
    )]
    Superseded {
        /// The newer run.
        newer: tidegate_sink::Epoch,
        /// Where it runs.
        host: String,
        /// What failed here.
        cause: String,
    },
    /// The target refuses a commit. Final.
    #[error("{target} refuses the commit of checkpoint {identifier}: {why}")]
    Refused {
        /// Which target.
        target: String,
        /// Which commit.
        identifier: i64,
        /// Why.
        why: String,
    },
    /// It could not be settled whether a commit happened. Everything is kept; the next start
    /// settles it \[R-6].
    #[error(
        "outcome of commit {identifier} to {target} is undecided: {why}. Everything is kept; start \
         the job again to settle it"
    )]
    Undecided {
        /// Which target.
        target: String,
        /// Which commit.
        identifier: i64,
        /// The last answer.
        why: String,
    },
    /// A commit failed for too long at the end. Its checkpoint is complete: the next start
    /// publishes it.
    #[error(
        "commit {identifier} to {target} fails since {seconds} s: {why}. Its checkpoint is \
         complete; start the job again to publish it"
    )]
    CommitFails {
        /// Which target.
        target: String,
        /// Which commit.
        identifier: i64,
        /// For how long.
        seconds: u64,
        /// The last failure.
        why: String,
    },
    /// More checkpoints failed in a row than are tolerable.
    #[error("{count} checkpoints failed one after the other: {last}")]
    Checkpoints {
        /// How many.
        count: u32,
        /// The last failure.
        last: String,
    },
    /// Checkpoint and target disagree after a way out was taken. Final \[R-7].
    #[error("checkpoint and {target} disagree: {what}")]
    Mismatch {
        /// Which target.
        target: String,
        /// How.
        what: String,
    },
}

/// The source's name, where its error does not name the file with its whole path anyway.
fn named(name: &str, error: &SourceError) -> String {
    match error {
        SourceError::Config(_) | SourceError::Position { .. } => format!("source {name}: "),
        _ => String::new(),
    }
}

impl RuntimeError {
    /// What may be done about it; decides restarts \[R-16] and exit codes.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Config(_) => ErrorKind::Config,
            Self::Source { source, .. } => source.kind(),
            Self::Target { source, .. } => source.kind(),
            Self::Recovery(source) => source.kind(),
            Self::Positions { .. } | Self::OtherJob { .. } => ErrorKind::Corrupt,
            Self::Fenced { .. } | Self::Superseded { .. } => ErrorKind::Fenced,
            Self::Refused { .. } => ErrorKind::Refused,
            Self::Undecided { .. } => ErrorKind::Undecided,
            Self::CommitFails { .. } | Self::Checkpoints { .. } => ErrorKind::Transient,
            Self::Mismatch { .. } => ErrorKind::Mismatch,
        }
    }
}
