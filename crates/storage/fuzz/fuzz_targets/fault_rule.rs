//! Arbitrary text as a fault rule.
#![no_main]

tidegate_fuzz_support::target!(
    tidegate_storage::fuzzing::fault_rule,
    tidegate_fuzz_support::plain
);
