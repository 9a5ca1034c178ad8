//! Arbitrary schedules of several processes over a table in memory.
#![no_main]

#[path = "../checks.rs"]
mod checks;

tidegate_fuzz_support::target!(crate::checks::schedules, tidegate_fuzz_support::program);
