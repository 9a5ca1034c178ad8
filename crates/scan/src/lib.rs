//! Reads Paimon append tables: snapshot to splits to record batches.
//!
//! [`TableReader`] reads metadata, [`ScanPlan`] says which files and rows a version of the table has,
//! [`ScanPlan::read`] reads them with projection, limit, schema evolution by field id and deletion
//! vectors. [`canonical`] prints rows. Nothing here writes.
//!
//! Data files are Parquet or Avro. Tables with a primary key, with rows spread over files, and files in
//! other formats are refused by name rather than read wrongly.

mod avro;
pub mod canonical;
mod deletion;
mod error;
mod live;
mod plan;
mod read;
mod table;

pub use deletion::DeletionVector;
pub use error::{Error, Result};
pub use live::{index_entries, live_entries, manifest, manifest_list};
pub use plan::{ScanPlan, Split};
pub use table::{At, TableReader};

/// The README's example runs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeDoctests;
