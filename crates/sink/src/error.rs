//! One error for the contract: what went wrong, and what an engine may do about it.

use std::error::Error;
use std::fmt;

/// What an engine may do about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The store or the network failed; the same call may succeed later.
    Transient,
    /// A row cannot be converted or stored. Final \[R-16].
    Data,
    /// An option, a schema or a combination of both is wrong. Final \[R-16].
    Config,
    /// Something that must exist does not. Final.
    NotFound,
    /// Stored bytes cannot be read as what they should be. Final.
    Corrupt,
    /// Another run goes on with this job. Final \[R-5].
    Fenced,
    /// Saved state and table disagree; a person must choose a way out. Final \[R-7].
    Mismatch,
    /// It could not be settled whether the commit happened; nothing was deleted \[R-6].
    Undecided,
    /// The target refuses this commit (conflict, wrong bucket count, …). Final.
    Refused,
    /// Disk, quota or memory is exhausted.
    Exhausted,
    /// The call was cancelled.
    Cancelled,
}

impl ErrorKind {
    /// True where a restart cannot help, so no restart strategy applies \[R-16].
    pub fn is_final(self) -> bool {
        !matches!(self, Self::Transient | Self::Undecided | Self::Exhausted)
    }
}

/// An error of a target, with its cause.
#[derive(Debug)]
pub struct SinkError {
    kind: ErrorKind,
    message: String,
    source: Option<Box<dyn Error + Send + Sync>>,
    row: Option<usize>,
}

impl SinkError {
    /// An error without a deeper cause.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            source: None,
            row: None,
        }
    }

    /// An error that wraps its cause; `message` says what was being done.
    pub fn caused(
        kind: ErrorKind,
        message: impl Into<String>,
        source: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> Self {
        Self {
            kind,
            message: message.into(),
            source: Some(source.into()),
            row: None,
        }
    }

    /// The same about one row of the batch, counted from 0: whoever knows where the batch came from can say where
    /// that row stands.
    pub fn at_row(self, row: usize) -> Self {
        Self {
            row: Some(row),
            ..self
        }
    }

    /// The row of the batch that it is about.
    pub fn row(&self) -> Option<usize> {
        self.row
    }

    /// The same for whoever says where the row stands.
    pub fn without_row(self) -> Self {
        Self { row: None, ..self }
    }

    /// What may be done about it.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

/// The message and, after colons, its causes: an operator sees the whole chain in one line.
impl fmt::Display for SinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(row) = self.row {
            write!(f, "row {row} of a batch: ")?;
        }
        f.write_str(&self.message)?;
        let mut cause = self.source();
        let mut last = self.message.clone();
        while let Some(error) = cause {
            let text = error.to_string();
            // Errors that print their own cause would otherwise repeat it.
            if !last.contains(&text) {
                write!(f, ": {text}")?;
            }
            last = text;
            cause = error.source();
        }
        Ok(())
    }
}

impl Error for SinkError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|e| e as &(dyn Error + 'static))
    }
}
