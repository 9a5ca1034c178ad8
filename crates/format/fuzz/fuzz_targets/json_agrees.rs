//! What ours takes, another reader takes too, with the same values.
#![no_main]

#[path = "../agree.rs"]
mod agree;

tidegate_fuzz_support::target!(crate::agree::json_agrees, tidegate_fuzz_support::program);
