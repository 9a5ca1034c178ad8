//! The committer against real metadata in memory and on disk.

mod common;
mod exactly_once;
