//! Arbitrary bytes as a published note.
#![no_main]

tidegate_fuzz_support::target!(
    tidegate_commit::fuzzing::published_note,
    tidegate_fuzz_support::plain
);
