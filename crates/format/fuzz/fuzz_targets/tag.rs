//! Tag files.
#![no_main]

tidegate_fuzz_support::target!(tidegate_format::fuzzing::tag, tidegate_fuzz_support::plain);
