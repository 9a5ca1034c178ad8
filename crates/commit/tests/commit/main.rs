//! The committer against real metadata in memory and on disk.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "helpers of tests may fail loudly"
)]

mod cases;
mod chaos;
mod common;
mod exactly_once;
mod golden;
mod hidden;
mod recovery;
mod steady_state;
mod upkeep;
