//! Consumer files.
#![no_main]

tidegate_fuzz_support::target!(
    tidegate_format::fuzzing::consumer,
    tidegate_fuzz_support::plain
);
