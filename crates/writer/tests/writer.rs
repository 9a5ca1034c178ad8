//! Integration tests of the writer, one binary.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on has failed"
)]

#[path = "writer/support.rs"]
mod support;

#[path = "writer/append.rs"]
mod append;
#[path = "writer/faults.rs"]
mod faults;
#[path = "writer/keyed.rs"]
mod keyed;
#[path = "writer/lookups.rs"]
mod lookups;
#[path = "writer/memory.rs"]
mod memory;
#[path = "writer/routing.rs"]
mod routing;
