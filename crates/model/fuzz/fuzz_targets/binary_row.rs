//! Arbitrary bytes read as rows of every kind of type.
#![no_main]

tidegate_fuzz_support::target!(
    tidegate_model::fuzzing::binary_row,
    tidegate_fuzz_support::plain
);
