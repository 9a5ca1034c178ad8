//! The values of an Apache Paimon table.
//!
//! Domain values without I/O, without serde and without Arrow: what the other crates pass to each
//! other. Bytes of metadata *files* belong to `tidegate-format`; the bytes here are only those that
//! are values themselves ([`BinaryRow`], names and paths in [`layout`], the bucket hash).
//!
//! One concept per module; rules are cited as `[F-x.y]` (section of the format sheet), `[C-n]`,
//! `[W-n]` (write protocol) and `[R-n]` (recovery rules of ARCHITECTURE.md).
//!
#![doc = include_str!("../README.md")]

pub mod binary_row;
pub mod bucket;
pub mod calendar;
pub mod commit_message;
pub mod data_file;
pub mod data_type;
pub mod datum;
pub mod deletion_vector;
pub mod error;
pub mod ids;
pub mod index_file;
pub mod java_text;
pub mod key_order;
pub mod layout;
pub mod manifest;
pub mod options;
pub mod plan;
pub mod schema;
pub mod snapshot;
pub mod statistics;

#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;

pub use binary_row::BinaryRow;
pub use bucket::BucketFunction;
pub use commit_message::{CommitMessage, CompactIncrement, DataIncrement, ManifestCommittable};
pub use data_file::{DataFileMeta, FileSource};
pub use data_type::{DataField, DataType, LogicalType};
pub use datum::Datum;
pub use deletion_vector::DeletionVector;
pub use error::Error;
pub use ids::{BucketId, FieldId, Level, SchemaId, SnapshotId};
pub use index_file::{DeletionVectorRange, GlobalIndex, IndexFileMeta, IndexManifestEntry};
pub use key_order::KeyOrder;
pub use manifest::{
    EntryKind, FileIdentity, LiveFiles, ManifestEntry, ManifestFile, ManifestSummary,
};
pub use options::{Options, TableOptions};
pub use plan::{BucketView, WritePlan};
pub use schema::{BucketMode, TableSchema};
pub use snapshot::{CommitKind, Snapshot, SnapshotDraft};
pub use statistics::{SimpleStats, StatsMode};
pub use tidegate_sink::{CommitIdentifier, CommitUser};
