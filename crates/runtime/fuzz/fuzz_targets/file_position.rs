//! Arbitrary bytes as the position in a file.
#![no_main]

tidegate_fuzz_support::target!(
    tidegate_runtime::fuzzing::file_position,
    tidegate_fuzz_support::packed
);
