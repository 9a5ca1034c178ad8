//! What can go wrong while reading a table.

use tidegate_model::{SchemaId, SnapshotId};

/// Errors of this crate: what was being read, and the way out where there is one.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store failed.
    #[error("{0}")]
    Store(#[from] tidegate_storage::StoreError),
    /// A metadata file is not what it should be.
    #[error("{0}")]
    Format(#[from] tidegate_format::Error),
    /// A data file, or the rows in it.
    #[error("{0}")]
    DataFile(#[from] tidegate_datafile::Error),
    /// The files of a bucket contradict each other.
    #[error("{0}")]
    Lsm(#[from] tidegate_lsm::Error),
    /// A table or rows that cannot be merged.
    #[error("{0}")]
    Merge(#[from] tidegate_merge::Error),
    /// A value of the table model.
    #[error("{0}")]
    Model(#[from] tidegate_model::Error),
    /// There is no table here.
    #[error("no table at {0}: it has no schema file; check the path and the database")]
    NoTable(String),
    /// A snapshot that does not exist (any more).
    #[error("snapshot {id} does not exist in {table}; {present}")]
    NoSnapshot {
        /// URL of the table.
        table: String,
        /// What was asked for.
        id: SnapshotId,
        /// Which ones there are.
        present: String,
    },
    /// A time before everything that is left of a table's history.
    #[error("{table} has no snapshot of {time} or before; {present}")]
    NothingThen {
        /// URL of the table.
        table: String,
        /// What was asked for.
        time: String,
        /// What there is.
        present: String,
    },
    /// A tag that does not exist.
    #[error("tag `{tag}` does not exist in {table}")]
    NoTag {
        /// URL of the table.
        table: String,
        /// What was asked for.
        tag: String,
    },
    /// Changes that cannot be read one after the other without leaving some out.
    #[error("{table}: changes cannot be read on from snapshot {id}: {why}")]
    Gap {
        /// URL of the table.
        table: String,
        /// The snapshot that was to come next.
        id: SnapshotId,
        /// What happened, and the way out.
        why: String,
    },
    /// A text that is no condition on rows of the table.
    #[error("condition `{text}`: {why}")]
    Condition {
        /// The text.
        text: String,
        /// What is wrong.
        why: String,
    },
    /// A schema that files refer to is gone.
    #[error("schema {id} does not exist in {table} although data files refer to it")]
    NoSchema {
        /// URL of the table.
        table: String,
        /// Its number.
        id: SchemaId,
    },
    /// A column that the table has not.
    #[error("the table has no column `{column}` (it has: {known})")]
    NoColumn {
        /// What was asked for.
        column: String,
        /// The table's columns.
        known: String,
    },
    /// A table that this build cannot read rightly, so it does not read it at all.
    #[error("{table} cannot be read by this build: {what}")]
    Unsupported {
        /// URL of the table.
        table: String,
        /// Why not, and what would.
        what: String,
    },
    /// Files that contradict each other.
    #[error("{file}: {what}")]
    Inconsistent {
        /// Path of the file.
        file: String,
        /// What is wrong.
        what: String,
    },
}

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
