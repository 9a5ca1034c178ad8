//! The committer against real metadata in memory and on disk.

mod cases;
mod common;
mod exactly_once;
mod golden;
mod recovery;
mod steady_state;
