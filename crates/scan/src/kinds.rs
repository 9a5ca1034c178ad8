//! Rows of keyed tables with what happened to them.

use arrow::array::{Int8Array, RecordBatch, StringArray};
use tidegate_merge::kind;

/// Rows, and the kind of each.
#[derive(Clone, Debug, PartialEq)]
pub struct KindedRows {
    /// One of [`tidegate_merge::kind`] per row.
    pub kinds: Int8Array,
    /// The rows.
    pub rows: RecordBatch,
}

impl KindedRows {
    /// Rows that are all there: `+I`.
    pub fn inserts(rows: RecordBatch) -> Self {
        Self {
            kinds: Int8Array::from(vec![kind::INSERT; rows.num_rows()]),
            rows,
        }
    }

    /// The kinds as `+I`, `-U`, `+U` and `-D`.
    pub fn texts(&self) -> StringArray {
        let texts = self.kinds.values().iter().map(|k| Some(kind::short(*k)));
        texts.collect()
    }
}
