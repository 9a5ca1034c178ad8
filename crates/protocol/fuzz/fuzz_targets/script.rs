//! Arbitrary lines of the script language.
#![no_main]

#[path = "../checks.rs"]
mod checks;

tidegate_fuzz_support::target!(crate::checks::script, tidegate_fuzz_support::program);
