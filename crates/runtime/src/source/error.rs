//! What can go wrong with a source.

use std::fmt;

use tidegate_sink::ErrorKind;

/// A record that cannot be converted: where it stands and what it holds. Final \[R-16].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BadRecord {
    /// File, or topic and partition.
    pub file: String,
    /// Line (or record number) from 1, where known.
    pub line: Option<u64>,
    /// Byte offset of the record, where known.
    pub offset: Option<u64>,
    /// Name of the column, where it is about one.
    pub column: Option<String>,
    /// The offending text, shortened where long.
    pub value: Option<String>,
    /// What is wrong with it.
    pub why: String,
}

impl fmt::Display for BadRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ", line {line}")?;
        }
        if let Some(offset) = self.offset {
            write!(f, " (byte {offset})")?;
        }
        if let Some(column) = &self.column {
            write!(f, ", column `{column}`")?;
        }
        if let Some(value) = &self.value {
            write!(f, ", value `{value}`")?;
        }
        write!(f, ": {}", self.why)
    }
}

/// An error of a source.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// A record cannot be converted.
    #[error("{0}")]
    BadRecord(Box<BadRecord>),
    /// Something that was read before has changed since: replaced, truncated, gone.
    #[error("{split} has changed since it was read: {what}")]
    Changed {
        /// Which split.
        split: String,
        /// What is different, and the way out.
        what: String,
    },
    /// A saved position or state that this source cannot read.
    #[error("position of {split} cannot be read: {what}")]
    Position {
        /// Which split; the source's name where it is the enumerator's state.
        split: String,
        /// What is wrong.
        what: String,
    },
    /// The source is configured wrongly.
    #[error("{0}")]
    Config(String),
    /// Something that must be there is not.
    #[error("{what} not found: {why}")]
    NotFound {
        /// What was looked for.
        what: String,
        /// What that means, and the way out.
        why: String,
    },
    /// Bytes that are not what they should be as a whole: a broken Parquet file or compression.
    #[error("{file} cannot be read: {what}")]
    Corrupt {
        /// Which file.
        file: String,
        /// Where and what.
        what: String,
    },
    /// The store (or broker) failed.
    #[error("reading {what}: {source}")]
    Io {
        /// What was being read.
        what: String,
        /// What the engine may do about it.
        kind: ErrorKind,
        /// Why it failed.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl SourceError {
    /// What the engine may do about it: only transient faults are worth a restart \[R-16].
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::BadRecord(_) | Self::Changed { .. } => ErrorKind::Data,
            Self::Position { .. } | Self::Corrupt { .. } => ErrorKind::Corrupt,
            Self::Config(_) => ErrorKind::Config,
            Self::NotFound { .. } => ErrorKind::NotFound,
            Self::Io { kind, .. } => *kind,
        }
    }
}

impl From<BadRecord> for SourceError {
    fn from(record: BadRecord) -> Self {
        Self::BadRecord(Box::new(record))
    }
}
