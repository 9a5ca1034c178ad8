//! Text and JSON values for columns of every type.
#![no_main]

tidegate_fuzz_support::target!(
    tidegate_runtime::fuzzing::text_values,
    tidegate_fuzz_support::plain
);
