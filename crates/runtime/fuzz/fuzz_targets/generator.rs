//! Arbitrary rules of a generator from any row on.
#![no_main]

tidegate_fuzz_support::target!(
    tidegate_runtime::fuzzing::generator,
    tidegate_fuzz_support::program
);
