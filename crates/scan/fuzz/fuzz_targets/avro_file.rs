//! Any bytes as an Avro data file.
#![no_main]

tidegate_fuzz_support::target!(
    tidegate_scan::fuzzing::avro_file,
    tidegate_fuzz_support::packed
);
