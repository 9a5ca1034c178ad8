//! What can go wrong with a value, each with the place and the way out.

use thiserror::Error;

/// Shorthand of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What is wrong with a value.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Error {
    /// Bytes that are no binary row, array or map, or not one of the type they are read as.
    #[error("binary {structure}, byte {at}: {what}")]
    Binary {
        /// `row`, `array` or `map`.
        structure: &'static str,
        /// Byte offset in that structure.
        at: usize,
        /// What is wrong there.
        what: String,
    },
    /// A value of one kind given for a type of another.
    #[error("a value of kind {found} cannot be stored as {data_type}")]
    Mismatch {
        /// The type.
        data_type: String,
        /// The kind of the value.
        found: &'static str,
    },
    /// Text that is no type.
    #[error("type '{text}', at character {at}: expected {expected}, found {found}")]
    TypeText {
        /// The whole text.
        text: String,
        /// Character offset, counted from 0.
        at: usize,
        /// What may stand there.
        expected: String,
        /// What stands there.
        found: String,
    },
    /// A type of Paimon's in a form that is not read here, and that could not be written either.
    #[error(
        "type {word} cannot be written yet; leave the column out, or store it as BYTES or STRING"
    )]
    TypeNotWritable {
        /// The name of the type.
        word: String,
    },
    /// A type whose parameters are out of range.
    #[error("type {data_type}: {what}")]
    TypeRange {
        /// The type.
        data_type: String,
        /// The rule.
        what: String,
    },
    /// An option whose text is not of its kind.
    #[error("option '{key}' = '{value}': {expected}")]
    Option {
        /// The key.
        key: String,
        /// The text.
        value: String,
        /// What is accepted.
        expected: String,
    },
    /// A table that must not be made, or that a writer must not touch.
    #[error("{0}")]
    Schema(String),
    /// A partition value that gives no legal directory name.
    #[error("partition column '{column}': {what}")]
    Partition {
        /// The column.
        column: String,
        /// What is wrong with the value.
        what: String,
    },
    /// A bucket function that does not know the type of a key.
    #[error("bucket-function.type={function} does not support {what}")]
    BucketFunction {
        /// Its name.
        function: &'static str,
        /// What it was given.
        what: String,
    },
    /// Manifest entries that contradict each other [0-2].
    #[error("file {file} in bucket {bucket}, level {level}: {what}")]
    Entries {
        /// Its name.
        file: String,
        /// Its bucket.
        bucket: i32,
        /// Its level.
        level: i32,
        /// The contradiction.
        what: String,
    },
}
