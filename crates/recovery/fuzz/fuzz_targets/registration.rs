//! Arbitrary bytes as the registration of a run and its mark of a clean exit.
#![no_main]

tidegate_fuzz_support::target!(
    tidegate_recovery::fuzzing::registration,
    tidegate_fuzz_support::plain
);
