//! The tests of this crate, one binary.

mod golden;
mod json_bytes;
mod messages;
mod roundtrip;
