//! Arbitrary bytes as a checkpoint record.
#![no_main]

tidegate_fuzz_support::target!(
    tidegate_recovery::fuzzing::checkpoint_record,
    tidegate_fuzz_support::packed
);
