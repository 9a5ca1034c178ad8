//! Arbitrary bytes as the payload of a committable.
#![no_main]

tidegate_fuzz_support::target!(
    tidegate_commit::fuzzing::committable,
    tidegate_fuzz_support::plain
);
