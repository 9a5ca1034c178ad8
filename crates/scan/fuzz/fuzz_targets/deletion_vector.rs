//! Any bytes as an index file of deletion vectors.
#![no_main]

tidegate_fuzz_support::target!(
    tidegate_scan::fuzzing::deletion_vector,
    tidegate_fuzz_support::packed
);
