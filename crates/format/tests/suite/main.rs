//! The tests of this crate, one binary.

mod catalogue;
mod golden;
mod json_bytes;
mod messages;
mod roundtrip;
mod second_reader;
