//! Arbitrary words as arguments that have a grammar of their own.
#![no_main]

#[path = "../../src/config/mod.rs"]
#[allow(dead_code, reason = "the program uses the rest")]
mod config;
#[path = "../../src/fuzzing.rs"]
#[allow(dead_code, reason = "each target runs one of them")]
mod fuzzing;

tidegate_fuzz_support::target!(crate::fuzzing::arguments, tidegate_fuzz_support::plain);
