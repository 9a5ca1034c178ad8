//! Arbitrary bytes as saved positions.
#![no_main]

tidegate_fuzz_support::target!(
    tidegate_runtime::fuzzing::source_state,
    tidegate_fuzz_support::plain
);
