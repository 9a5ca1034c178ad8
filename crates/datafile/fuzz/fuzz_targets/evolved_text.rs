//! Text columns of a real file, read as every type that a column may become.
#![no_main]

tidegate_fuzz_support::target!(
    catching tidegate_datafile::fuzzing::evolved_text,
    tidegate_fuzz_support::packed
);
