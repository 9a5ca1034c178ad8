//! Where rows come from: sources, their splits, and positions that can be read again.
//!
//! Owns the contract between the engine and a source, and the value that both save,
//! [`SourceState`]. Does not own any source (see the modules beside this one) and no scheduling:
//! which task reads which split is the engine's business.
//!
//! ```text
//! Source ──enumerator(state)──► SplitEnumerator ──discover()──► Split, Split, …
//!    └────reader(split)───────► SplitReader ──next()──► Rows(batch, position after it) | Idle | End
//! ```
//!
//! What makes a source fit for exactly once, and what [`conformance`] checks of every source:
//!
//! 1. A reader opened at a position that some reader of the same split has handed out yields exactly
//!    the rows that followed it, in the same order, whatever the batches' borders.
//! 2. A position is bytes with a version; it survives being written and read.
//! 3. [`SplitReader::next`] and [`SplitEnumerator::discover`] may be dropped at any await and called
//!    again; nothing is lost or doubled by it \[R-18].
//! 4. A split that was discovered but never begun is in no checkpoint: an enumerator that is opened
//!    again returns it again. Begun and finished splits are never returned as new; a finished one
//!    that has grown is returned at its old position.
//! 5. What was read and has changed since (a file replaced or truncated) is an error, never skipped.

use std::fmt;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use tidegate_sink::BoxFuture;

pub mod conformance;
pub mod convert;
mod error;
pub mod files;
pub mod generator;
mod memory;
pub mod place;
mod state;

pub use error::{BadRecord, SourceError};
pub use memory::MemorySource;
pub use state::{SourceState, StateError};

/// Name of a split, unique in its source and the same in every run: a path relative to the source's
/// root, a topic and partition, a number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SplitId(pub String);

impl fmt::Display for SplitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A place in a split: everything before it has been handed out. The source's own bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Position {
    /// Version of `bytes`, chosen by the source; 0 is never used, so that *absent* can be told.
    pub version: u16,
    /// The source's own encoding. Small: it is part of every checkpoint.
    pub bytes: Vec<u8>,
}

/// A part of a source that one reader reads in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// Which part.
    pub id: SplitId,
    /// Where to begin.
    pub position: Position,
}

/// Rows out of one split.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SourceBatch {
    /// At least one row, of the source's schema.
    pub batch: RecordBatch,
    /// The place after the last of them.
    pub position: Position,
    /// Where they stand, for messages.
    pub origin: Option<Origin>,
}

/// Where the rows of a batch stand in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The file, as messages name it.
    pub file: String,
    /// Line of the first row, from 1; number of the record where the file has no lines.
    pub line: u64,
    /// Each row is one line.
    pub exact: bool,
}

impl Origin {
    /// What is wrong with a row, as an error of its file.
    pub(crate) fn bad(&self, row: usize, why: String) -> SourceError {
        let (line, why) = match self.exact {
            true => (self.line + row as u64, why),
            false => (self.line, format!("record {} from here on: {why}", row + 1)),
        };
        SourceError::BadRecord(Box::new(BadRecord {
            file: self.file.clone(),
            line: Some(line),
            why,
            ..BadRecord::default()
        }))
    }
}

impl SourceBatch {
    /// Rows and the place after the last of them.
    pub fn new(batch: RecordBatch, position: Position) -> Self {
        Self {
            batch,
            position,
            origin: None,
        }
    }

    /// The same with where they stand.
    pub fn from(self, origin: Origin) -> Self {
        Self {
            origin: Some(origin),
            ..self
        }
    }
}

/// What a reader has to say.
#[derive(Clone, Debug)]
pub enum Read {
    /// Rows.
    Rows(SourceBatch),
    /// Nothing more for now, but there may be later. The split stays open and is asked again after
    /// [`Source::poll_interval`]. A reader that can wait for rows waits instead of saying this.
    Idle,
    /// The end. The position is kept among the finished ones: whatever the enumerator needs to
    /// tell later that the split has grown or was replaced (size, fingerprint).
    End(Position),
}

/// Reads one split in order.
pub trait SplitReader: Send {
    /// The next rows. Not called again after [`Read::End`].
    ///
    /// # Errors
    /// [`SourceError::BadRecord`] names file, line, column and value and is final \[R-16]. Rows
    /// before the bad record have been handed out by earlier calls.
    fn next<'a>(&'a mut self) -> BoxFuture<'a, Result<Read, SourceError>>;
}

/// What an enumerator found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Discovery {
    /// Splits to be read from now on, in the order in which they should be begun: new ones, and
    /// finished ones that have grown, at the place where they ended.
    pub splits: Vec<Split>,
    /// True when no later call will return any: the end of a bounded source.
    pub complete: bool,
}

/// Finds splits. There is one per run; it is called again every [`Source::discovery_interval`]
/// until it says [`Discovery::complete`].
pub trait SplitEnumerator: Send {
    /// Splits that no earlier call has returned and that were neither begun nor finished in the
    /// state that the enumerator was opened with. A split is returned again when it has grown since
    /// [`Self::finished`] was called for it.
    fn discover<'a>(&'a mut self) -> BoxFuture<'a, Result<Discovery, SourceError>>;

    /// Tells that a split was read to its end, at this position.
    fn finished(&mut self, split: &Split);

    /// State that the enumerator wants back after a restart, beside the positions of begun and
    /// finished splits. Must not claim splits that were discovered but not begun.
    fn state(&self) -> Vec<u8> {
        Vec::new()
    }
}

/// Whether a source ends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Boundedness {
    /// It ends: the job ends with a last checkpoint.
    Bounded,
    /// It goes on until stopped.
    Unbounded,
}

/// Something rows come from, in splits that can be read again from any position.
pub trait Source: Send + Sync {
    /// For messages: `files in/*.csv`.
    fn name(&self) -> String;

    /// What tells this source from another one when checkpoints are looked up \[R-17]. The same
    /// after a source folder was moved as a whole; no host, no secret.
    fn identity(&self) -> String;

    /// Schema of every batch.
    fn schema(&self) -> SchemaRef;

    /// Whether it ends by itself.
    fn boundedness(&self) -> Boundedness;

    /// How many splits one task reads at once; further ones wait in the order of their discovery.
    /// Idle splits do not count. 1 keeps the order of splits.
    fn max_open_splits(&self) -> usize {
        1
    }

    /// How often new splits are looked for.
    fn discovery_interval(&self) -> std::time::Duration {
        std::time::Duration::from_secs(1)
    }

    /// When a split that was [`Read::Idle`] is asked again.
    fn poll_interval(&self) -> std::time::Duration {
        std::time::Duration::from_millis(200)
    }

    /// Opens the enumerator on what earlier runs have saved; [`SourceState::default`] at first.
    ///
    /// # Errors
    /// Where the source cannot be looked at, the state cannot be read, or something that was read
    /// has changed since.
    fn enumerator<'a>(
        &'a self,
        state: &'a SourceState,
    ) -> BoxFuture<'a, Result<Box<dyn SplitEnumerator>, SourceError>>;

    /// Opens a reader at the split's position.
    ///
    /// # Errors
    /// Where the split is gone, cannot be opened, or has changed before its position.
    fn reader<'a>(
        &'a self,
        split: &'a Split,
    ) -> BoxFuture<'a, Result<Box<dyn SplitReader>, SourceError>>;
}
