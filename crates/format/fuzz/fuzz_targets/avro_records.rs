//! Arbitrary bytes as the records of a container whose frame is right.
#![no_main]

tidegate_fuzz_support::target!(
    tidegate_format::fuzzing::avro_records,
    tidegate_fuzz_support::packed
);
