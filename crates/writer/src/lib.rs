//! Record batches in, durable files and commit messages out, under one memory budget.
//!
//! [`AppendWriter`] serves tables without primary key, with and without buckets. Between two
//! barriers it takes batches ([`AppendWriter::write`]); before the barrier
//! [`AppendWriter::prepare`] closes all files and hands them over as
//! [`CommitMessage`](tidegate_model::CommitMessage)s, which somebody else makes visible.
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
//! Knows no snapshots and no manifests: what it must know of the table comes as
//! [`WritePlan`](tidegate_model::WritePlan) and through [`BucketViews`].

mod append;
mod budget;
mod core;
mod error;
mod files;
mod generation;
mod keys;
mod route;
mod settings;
mod spill;
mod uploads;
mod views;
mod worker;

pub use append::AppendWriter;
pub use budget::{BudgetMetrics, BudgetShare, MemoryBudget, Reservation};
pub use core::WriterMetrics;
pub use error::{Result, WriterError};
pub use route::{ChannelRouter, GroupId, GroupKey, Routed, RoutedGroup, Router};
pub use settings::{Clock, SystemClock, WriterOptions};
pub use views::BucketViews;
