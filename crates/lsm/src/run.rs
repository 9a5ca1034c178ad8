//! Sorted runs: files whose keys ascend from one file to the next and never meet.
//!
//! Owns what makes a list of files a run, and the order of files by key. Comparing keys can fail only on
//! damaged bytes, which is found here, once per file, before anything is sorted.

use crate::error::{Error, Result};
use std::borrow::Borrow;
use std::cmp::Ordering;
use tidegate_model::{DataFileMeta, KeyOrder, Level};

/// Files in the order of their keys, no two overlapping. Not empty.
///
/// `F` is a file or whatever carries one: `DataFileMeta`, `&DataFileMeta`, `Arc<DataFileMeta>`, or a
/// type of the caller's that lends one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SortedRun<F = DataFileMeta> {
    /// Ascending.
    pub files: Vec<F>,
}

impl<F: Borrow<DataFileMeta>> SortedRun<F> {
    /// Bytes of all files.
    pub fn size(&self) -> u64 {
        let size = |f: &F| u64::try_from(f.borrow().file_size).unwrap_or(0);
        self.files.iter().map(size).fold(0, u64::saturating_add)
    }

    /// Rows of all files, delete records included.
    pub fn row_count(&self) -> i64 {
        let rows = |f: &F| f.borrow().row_count;
        self.files.iter().map(rows).fold(0, i64::saturating_add)
    }

    /// The highest sequence number of all files.
    pub fn max_sequence_number(&self) -> i64 {
        let sequences = self.files.iter().map(|f| f.borrow().max_sequence_number);
        sequences.max().unwrap_or(i64::MIN)
    }

    /// The highest level of all files.
    pub fn level(&self) -> Level {
        let levels = self.files.iter().map(|f| f.borrow().level);
        levels.max().unwrap_or(Level(0))
    }

    /// True where no file has records of kind -U or -D, as far as their entries know.
    pub fn is_free_of_deletes(&self) -> bool {
        self.files
            .iter()
            .all(|f| f.borrow().delete_row_count == Some(0))
    }
}

/// Reads both keys of a file, so that comparing them cannot fail afterwards.
pub(crate) fn check(file: &DataFileMeta, order: &KeyOrder) -> Result<()> {
    let damaged = |source| Error::Key {
        file: file.file_name.clone(),
        source,
    };
    order.check(&file.min_key).map_err(damaged)?;
    order.check(&file.max_key).map_err(damaged)?;
    if compare(order, &file.min_key, &file.max_key) == Ordering::Greater {
        return Err(Error::Reversed {
            file: file.file_name.clone(),
        });
    }
    Ok(())
}

/// The order of two keys that [`check`] has read.
pub(crate) fn compare(
    order: &KeyOrder,
    a: &tidegate_model::BinaryRow,
    b: &tidegate_model::BinaryRow,
) -> Ordering {
    // Checked rows compare; equal bytes would be the answer for rows that nobody checked.
    order.compare(a, b).unwrap_or(Ordering::Equal)
}

/// Sorts checked files by their smallest, then their largest key.
pub(crate) fn sort_by_keys<F: Borrow<DataFileMeta>>(files: &mut [F], order: &KeyOrder) {
    files.sort_by(|a, b| {
        let (a, b) = (a.borrow(), b.borrow());
        compare(order, &a.min_key, &b.min_key).then_with(|| compare(order, &a.max_key, &b.max_key))
    });
}

/// The first two neighbours of key-sorted files that meet.
pub(crate) fn first_overlap<'a, F: Borrow<DataFileMeta>>(
    sorted: &'a [F],
    order: &KeyOrder,
) -> Option<(&'a F, &'a F)> {
    sorted
        .array_windows::<2>()
        .find(|[a, b]| compare(order, &a.borrow().max_key, &b.borrow().min_key) != Ordering::Less)
        .map(|[a, b]| (a, b))
}
