//! A job file with arbitrary `--set` flags and variables.
#![no_main]

#[path = "../../src/config/mod.rs"]
#[allow(dead_code, reason = "the program uses the rest")]
mod config;
#[path = "../../src/fuzzing.rs"]
#[allow(dead_code, reason = "each target runs one of them")]
mod fuzzing;

tidegate_fuzz_support::target!(crate::fuzzing::job_sets, tidegate_fuzz_support::plain);
