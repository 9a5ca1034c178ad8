//! What ours takes, another reader takes too, with the same values.
#![no_main]

#[path = "../agree.rs"]
mod agree;

tidegate_fuzz_support::target!(catching crate::agree::avro_agrees, tidegate_fuzz_support::program);
