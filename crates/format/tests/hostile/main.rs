//! Bytes that nobody should have written: every decoder answers with an error or a value, in time and
//! in memory that its input justifies.

#![allow(unsafe_code, reason = "an allocator that counts is unsafe to write")]

#[path = "../suite/golden.rs"]
mod golden;

mod containers;
mod counting;
mod mutations;
