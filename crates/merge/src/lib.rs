//! What the versions of a key mean: merge engines, aggregate functions, changelogs, over Arrow. No I/O.
//!
//! Arrow batches in, Arrow batches out. [`MergeSpec`] is what a table's schema says about merging;
//! [`Merger`] merges sorted runs without I/O and without async; [`SortBuffer`] sorts what a writer
//! holds. Rules are cited as `[W-n]` (write protocol) and `[F-x.y]` (format).
//!
#![doc = include_str!("../README.md")]

mod aggregate;
pub mod buffer;
mod engine;
pub mod error;
pub mod expiry;
pub mod key_bytes;
pub mod kind;
pub mod layout;
mod loser_tree;
pub mod merger;
mod sort_key;
pub mod spec;

#[cfg(test)]
mod testing;

pub use buffer::{SortBuffer, Sorted};
pub use error::{Error, Result};
pub use expiry::Expiry;
pub use key_bytes::KeyBytes;
pub use layout::{SEQUENCE_NUMBER, VALUE_KIND, key_value_schema};
pub use merger::{Changelog, Deletes, MergeOptions, Merger, Step};
pub use spec::{MergeEngine, MergeSpec};
