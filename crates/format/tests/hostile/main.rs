//! Bytes that nobody should have written: every decoder answers with an error or a value, in time and
//! in memory that its input justifies.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "what is not a test here helps one"
)]
#![allow(unsafe_code, reason = "an allocator that counts is unsafe to write")]

#[path = "../suite/golden.rs"]
mod golden;

mod containers;
mod counting;
mod mutations;
