//! Column statistics of a file or manifest \[F-4.4].

use crate::binary_row::BinaryRow;

/// Minimum, maximum and null count per covered column.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SimpleStats {
    /// One field per covered column, all nullable; null = unknown.
    pub min_values: BinaryRow,
    /// Same for the maximum.
    pub max_values: BinaryRow,
    /// One per covered column; `None` inside = unknown; `None` outside = none at all.
    pub null_counts: Option<Vec<Option<i64>>>,
}
