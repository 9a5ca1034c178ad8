//! One campaign for four writers of Paimon append tables: what is done to each, and who judges it.
//!
//! Each writer is a process behind one line protocol (`tests/interop/java/README.md`); this rig is its
//! engine: it keeps the committables, decides by a seed when a process dies, an answer is lost or an older
//! state comes back, and writes down what was acknowledged. What is there in the end is read by another
//! implementation than the one that wrote it, and told in numbers ([`verdict`]). docs/torture.md has them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test rig fails by panicking, with the place"
)]

pub mod cells;
pub mod place;
pub mod report;
pub mod subject;
pub mod verdict;
pub mod writer;
