//! Tables about a table: what Java's `table$snapshots` and its siblings show, columns and texts as
//! the judged release prints them, with columns of ours behind.
//!
//! Owns their content. How it is printed is the caller's business.

mod sheet;
mod tables;

pub use sheet::{Cell, Sheet};
pub use tables::{buckets, describe, files, manifests, options, partitions, schemas, snapshots};
