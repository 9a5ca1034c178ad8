//! Saved positions as people name them: file and byte, generator and row.
//!
//! Owns the reading of this crate's own position formats for display and for receipts. No decision
//! of the engine looks at it.

use super::{Position, SourceState, SplitId};
use crate::source::files::position_of;
use crate::source::generator::row_of_position;

/// Where a split stood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The split: a file relative to the source's root (empty for a source of one file), or
    /// `generator`.
    pub split: SplitId,
    /// Bytes (decompressed) before the place; rows for Parquet and generator. `None` where another
    /// source wrote it.
    pub offset: Option<u64>,
    /// Lines before the place.
    pub line: Option<u64>,
    /// Whether the split was read to its end.
    pub finished: bool,
}

/// The places of all splits, begun ones first.
pub fn places(state: &SourceState) -> Vec<Place> {
    let of = |finished: bool| {
        move |(id, position): (&SplitId, &Position)| {
            let (offset, line) = match position_of(id, position) {
                Some((offset, line)) => (Some(offset), Some(line)),
                None => (row_of_position(position), None),
            };
            Place {
                split: id.clone(),
                offset,
                line,
                finished,
            }
        }
    };
    state
        .active
        .iter()
        .map(of(false))
        .chain(state.finished.iter().map(of(true)))
        .collect()
}
