//! Any bytes as a gzip or zstd file.
#![no_main]

tidegate_fuzz_support::target!(
    tidegate_runtime::fuzzing::unpack,
    tidegate_fuzz_support::packed
);
