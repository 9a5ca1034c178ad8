//! Any bytes as a data file of every kind of column.
#![no_main]

tidegate_fuzz_support::target!(
    catching tidegate_datafile::fuzzing::read_parquet,
    tidegate_fuzz_support::packed
);
