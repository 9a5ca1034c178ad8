//! Arbitrary JSON as a snapshot with our marks.
#![no_main]

tidegate_fuzz_support::target!(
    tidegate_commit::fuzzing::snapshot_marks,
    tidegate_fuzz_support::plain
);
