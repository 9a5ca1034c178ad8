//! Any bytes as a Parquet file of a source.
#![no_main]

tidegate_fuzz_support::target!(
    catching tidegate_runtime::fuzzing::parquet_source,
    tidegate_fuzz_support::packed
);
