//! What a text format must be able to do: find records in bytes and put them into columns.

use arrow::array::RecordBatch;

use crate::source::{BadRecord, SourceError};

/// A format whose records follow each other in text.
pub(super) trait Decoder: Send {
    /// Decodes whole records from the beginning of `input`, at most `most` of them. `last` tells that
    /// no bytes follow; then a record needs no line end. Adds them to the batch being filled.
    fn decode(&mut self, input: &[u8], last: bool, most: usize) -> Result<Decoded, Failed>;

    /// Takes the batch that was filled.
    fn finish(&mut self) -> Result<RecordBatch, SourceError>;

    /// Forgets the batch being filled: after an error its columns are of no use.
    fn reset(&mut self) -> Result<(), SourceError>;

    /// True until a first record that names the columns was seen, where there is one: a reader that
    /// goes on in the middle of a file must show it the beginning first.
    fn needs_header(&self) -> bool {
        false
    }
}

/// What one call decoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Decoded {
    /// Rows added to the batch.
    pub(super) rows: usize,
    /// Bytes used.
    pub(super) bytes: usize,
    /// Line ends among them.
    pub(super) lines: u64,
    /// The last record ended with the input, without a line end.
    pub(super) open_end: bool,
}

/// A record that cannot be decoded; those before it can.
#[derive(Debug)]
pub(super) struct Failed {
    /// What came before it in this call.
    pub(super) before: Decoded,
    /// Lines between the end of those and the trouble.
    pub(super) line: u64,
    /// Column, value and reason; file, line and offset are filled in by the reader.
    pub(super) record: Box<BadRecord>,
}
