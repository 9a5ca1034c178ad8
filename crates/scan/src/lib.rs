//! Reads Paimon tables: snapshot to splits to record batches, and changes snapshot by snapshot.
//!
//! [`TableReader`] reads metadata, [`ScanPlan`] says which files and rows a version of the table has,
//! [`ScanPlan::read`] reads them with projection, limit, schema evolution by field id and deletion
//! vectors, and of tables with a primary key merges the versions of each key. [`Changes`] reads what
//! happened from snapshot to snapshot, [`Predicate`] says which rows are wanted, [`canonical`] prints
//! rows. Nothing here writes.
//!
//! ```
//! # use std::collections::BTreeMap;
//! use futures::TryStreamExt;
//! use tidegate_scan::{At, TableReader};
//! use tidegate_storage::Store;
//!
//! # const TABLE: &str = concat!(
//! #     env!("CARGO_MANIFEST_DIR"),
//! #     "/../../tests/golden/tables/append_tags/warehouse/golden.db/append_tags"
//! # );
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let store = Store::open(TABLE, &BTreeMap::new())?; // a table that Java wrote
//! let plan = TableReader::new(store).scan(&At::Latest).await?.with_columns(&["id"])?;
//! let batches: Vec<_> = plan.read()?.try_collect().await?;
//! let rows: usize = batches.iter().map(|batch| batch.num_rows()).sum();
//! assert_eq!(Some(rows as u64), plan.row_count());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`TableReader::files`] lists the files of any table, also of those whose rows are not read here.
//!
//! Data files are Parquet or Avro. Tables with the columns of a row spread over files, and files in other
//! formats are refused by name rather than read wrongly.

mod avro;
mod binlog;
pub mod canonical;
mod changes;
mod deletion;
mod error;
mod file;
mod keyed;
mod kinds;
mod live;
mod merge_read;
mod partition;
mod places;
mod plan;
mod postpone;
mod predicate;
mod prune;
mod read;
mod split;
mod table;

#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;

pub use binlog::Binlog;
pub use changes::{Changes, From, Step};
pub use deletion::DeletionVector;
pub use error::{Error, Result};
pub use kinds::KindedRows;
pub use live::{index_entries, live_entries, manifest, manifest_list};
pub use places::Places;
pub use plan::ScanPlan;
pub use postpone::Waiting;
pub use predicate::{Comparison, Predicate};
pub use split::{Listing, Split};
pub use table::{At, TableReader};
pub use tidegate_merge::kind;

/// The README's example runs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeDoctests;
