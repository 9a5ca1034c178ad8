//! Arbitrary text as the value of every table option.
#![no_main]

tidegate_fuzz_support::target!(
    tidegate_model::fuzzing::option_values,
    tidegate_fuzz_support::plain
);
