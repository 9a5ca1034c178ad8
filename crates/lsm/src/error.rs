//! What can be wrong with the files of a bucket.

use thiserror::Error;

/// Shorthand of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Files that contradict the rules of a merge tree, or each other.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Error {
    /// A key that does not decode as the table's primary key.
    #[error("file {file}: its smallest or largest key: {source}")]
    Key {
        /// Its name.
        file: String,
        /// What is wrong with the bytes.
        source: tidegate_model::Error,
    },
    /// A file that ends before it begins.
    #[error(
        "file {file}: its smallest key is above its largest one; the entry is damaged, nothing is read by it"
    )]
    Reversed {
        /// Its name.
        file: String,
    },
    /// Two files of one level above 0 whose key ranges meet \[W-30].
    #[error(
        "level {level}: files {first} and {second} overlap in their keys, and a level above 0 is one \
         sorted run; two writers compacted the bucket, or a file is damaged: roll back to the snapshot \
         before the newer of them"
    )]
    Overlap {
        /// The level.
        level: i32,
        /// The file with the smaller keys.
        first: String,
        /// The file after it.
        second: String,
    },
    /// A level that no merge tree has.
    #[error("file {file}: level {level}; levels are numbered from 0")]
    Level {
        /// Its name.
        file: String,
        /// What its entry says.
        level: i32,
    },
    /// A change of files that are not there.
    #[error("file {file} of level {level} was to be replaced, and the bucket has no such file")]
    Missing {
        /// Its name.
        file: String,
        /// Its level.
        level: i32,
    },
    /// A file added twice.
    #[error("file {file} of level {level} is in the bucket already")]
    Twice {
        /// Its name.
        file: String,
        /// Its level.
        level: i32,
    },
    /// An option of the table.
    #[error(transparent)]
    Option(#[from] tidegate_model::Error),
}
