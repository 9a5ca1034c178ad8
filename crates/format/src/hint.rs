//! Hint files `EARLIEST` and `LATEST`: a decimal id as plain text without a line break \[F-1.3].
//!
//! Hints are only hints: whether one may be trusted is for the reader of the directory to decide.

use crate::error::{Error, Position, Problem, Result, shorten};
use tidegate_model::SnapshotId;

/// Reads a hint; blanks around the number are ignored.
///
/// # Errors
/// Anything else than the digits of a positive number.
pub fn decode(bytes: &[u8]) -> Result<SnapshotId> {
    let text = std::str::from_utf8(bytes)
        .map_err(|e| Error::new(Problem::NotUtf8).at(Position::Byte(e.valid_up_to() as u64)))?;
    match text.trim().parse::<i64>() {
        Ok(id) if id > 0 => Ok(SnapshotId(id)),
        _ => Err(Error::new(Problem::Unexpected {
            expected: "a positive number",
            found: format!("`{}`", shorten(text)),
        })
        .at(Position::Byte(0))),
    }
}

/// Writes a hint.
pub fn encode(id: SnapshotId) -> Vec<u8> {
    id.to_string().into_bytes()
}
