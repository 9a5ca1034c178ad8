//! Hint files.
#![no_main]

tidegate_fuzz_support::target!(tidegate_format::fuzzing::hint, tidegate_fuzz_support::plain);
