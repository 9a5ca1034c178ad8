//! Snapshot files.
#![no_main]

tidegate_fuzz_support::target!(
    tidegate_format::fuzzing::snapshot,
    tidegate_fuzz_support::plain
);
