//! The crate against vectors that Java's own classes made, and its invariants as properties.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests are no #[test] functions, yet only tests call them"
)]

mod binary_row;
mod bucket;
mod layout;
mod manifest;
mod options;
mod schema;
mod statistics;
mod support;
mod types;
