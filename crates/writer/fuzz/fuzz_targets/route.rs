//! Rows out of arbitrary bytes, routed to partitions and buckets.
#![no_main]

tidegate_fuzz_support::target!(
    tidegate_writer::fuzzing::route,
    tidegate_fuzz_support::packed
);
