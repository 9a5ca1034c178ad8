//! Partition values out of arbitrary bytes, to directory names and back.
#![no_main]

tidegate_fuzz_support::target!(
    tidegate_model::fuzzing::partition_paths,
    tidegate_fuzz_support::plain
);
