//! Schema files, and types alone.
#![no_main]

tidegate_fuzz_support::target!(
    tidegate_format::fuzzing::schema,
    tidegate_fuzz_support::plain
);
