//! The tests of this crate, one binary.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "what is not a test here helps one"
)]

mod catalogue;
mod golden;
mod json_bytes;
mod messages;
mod roundtrip;
mod second_reader;
