//! Record batches in, durable files and commit messages out, under one memory budget.
//!
//! [`AppendWriter`] serves tables without primary key, with and without buckets. Between two
//! barriers it takes batches ([`AppendWriter::write`]); before the barrier
//! [`AppendWriter::prepare`] closes all files and hands them over as
//! [`CommitMessage`](tidegate_model::CommitMessage)s, which somebody else makes visible. [`KeyedWriter`]
//! does the same for tables with a primary key, and compacts them.
//!
//! # Where rows go
//!
//! ```text
//! batch ─► Router ─► generation: whole batches, and row numbers per (partition, bucket)
//!                      │ full, few groups              │ full, more groups than encoders fit
//!                      ▼                               ▼
//!               open encoders ─► upload        one sorted run on local disk
//!                      │ barrier                       │ barrier
//!                      └────────► one file per (partition, bucket) ◄─ runs merged
//! ```
//!
//! All of it is charged to one [`MemoryBudget`] at its real capacity.
//!
//! # Example
//!
//! ```
//! # use std::{collections::BTreeMap, sync::Arc};
//! use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
//! use tidegate_model::{DataField, Options, TableSchema, WritePlan};
//! use tidegate_storage::Store;
//! use tidegate_writer::{AppendWriter, MemoryBudget, WriterOptions};
//!
//! # tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
//! let columns = vec![
//!     DataField::new("id", "BIGINT".parse()?),
//!     DataField::new("dt", "STRING".parse()?),
//! ];
//! let schema = TableSchema::create(columns, vec!["dt".into()], vec![], Options::new(), None, 0)?;
//! let plan = WritePlan { schema: Arc::new(schema), file_prefix: "data-".into() };
//! let store = Store::open("memory://writer-example", &BTreeMap::new())?;
//! let budget = MemoryBudget::new(256 << 20);
//! let mut writer = AppendWriter::open(&plan, store, None, &budget, WriterOptions::default())?;
//!
//! let rows = RecordBatch::try_from_iter([
//!     ("id", Arc::new(Int64Array::from(vec![1, 2, 3])) as ArrayRef),
//!     ("dt", Arc::new(StringArray::from(vec!["a", "b", "a"])) as ArrayRef),
//! ])?;
//! writer.write(&rows).await?;
//! let messages = writer.prepare().await?; // one per partition: its file is durable
//! assert_eq!(messages.len(), 2);
//! assert_eq!(messages[0].data.new_files[0].row_count, 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Knows no snapshots and no manifests: what it must know of the table comes as
//! [`WritePlan`](tidegate_model::WritePlan) and through [`BucketViews`].

mod append;
mod assign;
mod budget;
mod directories;
mod error;
mod files;
mod fold;
mod generation;
mod key_index;
mod keyed;
mod keys;
mod partitions;
mod postpone;
mod reorder;
mod route;
mod settings;
mod spill;
mod taking;
mod uploads;
mod views;
mod worker;

#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;

pub use append::AppendWriter;
pub use budget::{BudgetMetrics, BudgetShare, MemoryBudget, Reservation};
pub use error::{Result, WriterError};
pub use keyed::{Compactor, KeyedWriter};
pub use postpone::{PostponeWriter, PostponeWriterId};
pub use route::{ChannelRouter, GroupId, GroupKey, Routed, RoutedGroup, Router};
pub use settings::{Clock, SystemClock, WriterOptions};
pub use taking::WriterMetrics;
pub use views::{BucketHashes, BucketRows, BucketViews};
