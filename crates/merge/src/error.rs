//! What can go wrong with a merge.

use arrow::error::ArrowError;
use thiserror::Error;

/// Shorthand of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Tables that cannot be merged, batches that do not fit, rows that an engine refuses.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// An option, or two that exclude each other.
    #[error("option '{key}' = '{value}': {what}")]
    Option {
        /// The key.
        key: String,
        /// Its text.
        value: String,
        /// What is wrong, and the way out.
        what: String,
    },
    /// A schema or an option text that does not parse.
    #[error(transparent)]
    Model(#[from] tidegate_model::Error),
    /// A table that has nothing to merge.
    #[error(
        "the table has no primary key, so no two of its rows are versions of one: nothing is merged in append tables"
    )]
    NoPrimaryKey,
    /// A column that the merge needs in another form, or at all.
    #[error("column '{column}': {what}")]
    Column {
        /// Its name.
        column: String,
        /// What is wrong.
        what: String,
    },
    /// A batch that is not of the merge's schema.
    #[error("a batch of rows to merge: {0}")]
    Batch(String),
    /// A run that was asked for does not exist, or has ended.
    #[error("run {run} of the merge: {what}")]
    Run {
        /// Its number.
        run: usize,
        /// What is wrong.
        what: String,
    },
    /// A run whose rows are not in order.
    #[error(
        "run {run} is not sorted: key ({key}) comes after a larger one; the file is damaged or was written with another primary key"
    )]
    Unsorted {
        /// Its number.
        run: usize,
        /// The key that comes too late.
        key: String,
    },
    /// Rows of a key that the engine refuses.
    #[error("key ({key}): {what}")]
    Rows {
        /// The key's columns.
        key: String,
        /// What is wrong, and the way out.
        what: String,
    },
    /// Arrow refused, most often because a column would be too large.
    #[error("merging rows: {0}")]
    Arrow(#[from] ArrowError),
}

pub(crate) fn option<T>(key: &str, value: &str, what: impl Into<String>) -> Result<T> {
    Err(Error::Option {
        key: key.to_owned(),
        value: value.to_owned(),
        what: what.into(),
    })
}

pub(crate) fn column<T>(column: &str, what: impl Into<String>) -> Result<T> {
    Err(Error::Column {
        column: column.to_owned(),
        what: what.into(),
    })
}
