//! Deletion vectors as a reader uses them: which rows of a batch stay.

use crate::error::{Error, Result};
use arrow::array::BooleanArray;
use arrow::buffer::BooleanBuffer;

/// The deleted rows of one data file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletionVector(tidegate_model::DeletionVector);

impl DeletionVector {
    /// Reads the vector that begins at `offset` of an index file. `length` is as the manifest has it,
    /// `rows` the row count of the data file.
    ///
    /// # Errors
    /// Where length, magic, checksum or bitmap are not as they should be, or a position lies beyond the
    /// data file.
    pub fn decode(file: &str, bytes: &[u8], offset: i32, length: i32, rows: u64) -> Result<Self> {
        let decoded = tidegate_model::DeletionVector::decode(bytes, offset, length, rows);
        decoded.map(Self).map_err(|e| Error::Inconsistent {
            file: file.to_owned(),
            what: e.to_string(),
        })
    }

    /// How many rows are deleted.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True where none is.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The last deleted row.
    pub fn last(&self) -> Option<u64> {
        self.0.last()
    }

    /// Whether a row is deleted.
    pub fn contains(&self, position: u64) -> bool {
        self.0.contains(position)
    }

    /// True for the rows that stay, of `rows` rows from `first` on; `None` where all stay.
    pub fn kept(&self, first: u64, rows: usize) -> Option<BooleanArray> {
        let deleted = Some(self.0.within(first, rows)).filter(|d| !d.is_empty())?;
        let mut next = deleted.iter().map(|p| (p - first) as usize).peekable();
        let kept = BooleanBuffer::collect_bool(rows, |row| next.next_if_eq(&row).is_none());
        Some(BooleanArray::new(kept, None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_rows_are_relative_to_the_batch() {
        let vector = DeletionVector(tidegate_model::DeletionVector::of(vec![1, 10, 12]));
        assert!(vector.kept(2, 8).is_none());
        let kept: Vec<bool> = vector.kept(9, 4).unwrap().values().iter().collect();
        assert_eq!(kept, [true, false, true, false]);
    }
}
