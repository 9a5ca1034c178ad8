//! What can go wrong with a data file or with the rows for one.

use arrow::error::ArrowError;
use parquet::errors::ParquetError;

/// Errors of this crate. Every message says where (column, row, file offset) and what would help.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A type that data files of this build cannot hold.
    #[error(
        "column `{column}`: type {data_type} cannot be stored in Parquet data files by this build; use another type"
    )]
    UnsupportedType {
        /// Path of the column.
        column: String,
        /// The type as text.
        data_type: String,
    },
    /// An option with a value that means nothing.
    #[error("option `{key}` = `{value}`: {reason}")]
    Option {
        /// Key as given.
        key: String,
        /// Value as given.
        value: String,
        /// What is wrong and what would be right.
        reason: String,
    },
    /// The batch lacks a column of the table.
    #[error("the rows have no column `{column}` (they have: {present}); add it, null if need be")]
    MissingColumn {
        /// Column of the table.
        column: String,
        /// Columns of the batch.
        present: String,
    },
    /// The batch has a column that the table has not.
    #[error("the rows have a column `{column}` that the table has not (it has: {known})")]
    UnknownColumn {
        /// Column of the batch.
        column: String,
        /// Columns of the table.
        known: String,
    },
    /// An Arrow type that cannot become the column's type without loss.
    #[error(
        "column `{column}`: Arrow type {found} cannot become {expected}; convert it before writing"
    )]
    TypeMismatch {
        /// Path of the column.
        column: String,
        /// Arrow type that came.
        found: String,
        /// Paimon type that the column has.
        expected: String,
    },
    /// A value that the column's type cannot hold.
    #[error("column `{column}`, row {row}: value {value} {reason}")]
    Value {
        /// Path of the column.
        column: String,
        /// Row of the batch, from 0.
        row: usize,
        /// The value as text, shortened.
        value: String,
        /// Why not.
        reason: String,
    },
    /// A null where the column is `NOT NULL`.
    #[error("column `{column}`, row {row}: null, but the column is NOT NULL")]
    Null {
        /// Path of the column.
        column: String,
        /// Row of the batch, from 0.
        row: usize,
    },
    /// A file that cannot be decoded.
    #[error("data file `{file}`: {reason}")]
    Corrupt {
        /// Name of the file as given by the caller.
        file: String,
        /// What was found, and where when that is known.
        reason: String,
    },
    /// A file in a format that this build does not read.
    #[error(
        "data file `{file}`: format `{format}` is not supported by this build (readable: parquet, avro)"
    )]
    UnsupportedFormat {
        /// Name of the file.
        file: String,
        /// Its format, from the extension.
        format: String,
    },
    /// A column whose type changed in a way that has no cast.
    #[error("data file `{file}`, column `{column}`: no cast from {from} to {to}")]
    NoCast {
        /// Name of the file.
        file: String,
        /// Path of the column.
        column: String,
        /// Type in the file.
        from: String,
        /// Type in the table.
        to: String,
    },
    /// The source of the bytes failed.
    #[error("data file `{file}`: reading bytes failed: {message}")]
    Read {
        /// Name of the file.
        file: String,
        /// What the source said.
        message: String,
    },
    /// A value of the table model that cannot be made.
    #[error("statistics: {0}")]
    Model(#[from] tidegate_model::Error),
    /// Arrow refused an operation.
    #[error("arrow: {0}")]
    Arrow(#[from] ArrowError),
    /// The Parquet library refused an operation while writing.
    #[error("parquet: {0}")]
    Parquet(#[from] ParquetError),
    /// A use of the API that cannot work.
    #[error("{0}")]
    Misuse(&'static str),
}

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
