//! Tables about a table: what Java's `table$snapshots` and its siblings show, columns and texts as
//! the judged release prints them, with columns of ours behind.
//!
//! Owns their content. How it is printed is the caller's business.

mod files;
mod java_order;
mod sheet;
mod statistics;
mod tables;
mod texts;

pub use files::{buckets, files, manifests, partitions};
pub use sheet::{Cell, Sheet};
pub use tables::{describe, options, schemas, snapshots};
