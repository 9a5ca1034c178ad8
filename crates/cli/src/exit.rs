//! Exit codes, and how a failure is told.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | done |
//! | 1 | failed while running: store, data, disk |
//! | 2 | the command line itself is wrong |
//! | 3 | wrong configuration, or a check that failed; warnings and notes of `verify`, unknown files among them, fail none |
//! | 4 | warehouse, table, database, snapshot, job, checkpoint or source not found |
//! | 5 | the table refuses the commit (conflict) |
//! | 6 | saved state and table disagree: choose a way out |
//! | 8 | fenced: another run goes on with this job |
//! | 9 | outcome undecided: everything is kept, the next start settles it |
//! | 130, 143 | stopped by SIGINT, SIGTERM after a clean checkpoint |

use std::process::ExitCode;

use tidegate::sink::ErrorKind;

/// Code for a stop by SIGINT.
pub(crate) const INTERRUPTED: u8 = 130;
/// Code for a stop by SIGTERM.
pub(crate) const TERMINATED: u8 = 143;
/// Code for a check that failed.
pub(crate) const CHECK_FAILED: u8 = 3;
/// Code for a run whose job another run goes on with.
pub(crate) const FENCED: u8 = 8;
/// Code for saved state and table that disagree.
pub(crate) const MISMATCH: u8 = 6;

/// Why a command failed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    pub(crate) message: String,
}

pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

impl Failure {
    pub(crate) fn of(kind: ErrorKind, message: impl Into<String>) -> Self {
        let code = match kind {
            ErrorKind::Config => 3,
            ErrorKind::NotFound => 4,
            ErrorKind::Refused => 5,
            ErrorKind::Mismatch => MISMATCH,
            ErrorKind::Fenced => 8,
            ErrorKind::Undecided => 9,
            ErrorKind::Cancelled => INTERRUPTED,
            ErrorKind::Transient | ErrorKind::Data | ErrorKind::Corrupt | ErrorKind::Exhausted => 1,
        };
        Self {
            code,
            message: message.into(),
        }
    }

    pub(crate) fn runtime(message: impl Into<String>) -> Self {
        Self {
            code: 1,
            message: message.into(),
        }
    }

    pub(crate) fn config(message: impl Into<String>) -> Self {
        Self {
            code: 3,
            message: message.into(),
        }
    }

    /// The command line is wrong in a way that only the command itself can see.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self {
            code: 2,
            message: message.into(),
        }
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self {
            code: 4,
            message: message.into(),
        }
    }
}

/// What an error says, with its causes as far as it does not repeat them itself.
fn told(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = error.source();
    }
    text
}

impl From<tidegate::Error> for Failure {
    fn from(e: tidegate::Error) -> Self {
        Self::of(e.kind(), told(&e))
    }
}

impl From<tidegate::storage::StoreError> for Failure {
    fn from(e: tidegate::storage::StoreError) -> Self {
        tidegate::Error::from(e).into()
    }
}

impl From<tidegate::recovery::RecoveryError> for Failure {
    fn from(e: tidegate::recovery::RecoveryError) -> Self {
        Self::of(e.kind(), told(&e))
    }
}

impl From<tidegate::sink::SinkError> for Failure {
    fn from(e: tidegate::sink::SinkError) -> Self {
        Self::of(e.kind(), told(&e))
    }
}

impl From<tidegate_runtime::RuntimeError> for Failure {
    fn from(e: tidegate_runtime::RuntimeError) -> Self {
        Self::of(e.kind(), told(&e))
    }
}

impl From<tidegate_runtime::source::SourceError> for Failure {
    fn from(e: tidegate_runtime::source::SourceError) -> Self {
        Self::of(e.kind(), told(&e))
    }
}

impl From<crate::config::ConfigError> for Failure {
    fn from(e: crate::config::ConfigError) -> Self {
        Self::config(e.to_string())
    }
}

impl From<std::io::Error> for Failure {
    fn from(e: std::io::Error) -> Self {
        // A reader that has seen enough (`| head`) is no failure of ours.
        if e.kind() == std::io::ErrorKind::BrokenPipe {
            return Self {
                code: 0,
                message: String::new(),
            };
        }
        Self::runtime(format!("cannot write output: {e}"))
    }
}

/// Tells a person and gives the code.
#[expect(clippy::print_stderr, reason = "the last word of a command")]
pub(crate) fn report(failure: &Failure) -> ExitCode {
    if !failure.message.is_empty() {
        eprintln!("tidegate: {}", failure.message);
    }
    ExitCode::from(failure.code)
}
