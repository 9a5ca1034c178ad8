//! JSON lines, read in one piece and cut anywhere.
#![no_main]

tidegate_fuzz_support::target!(
    tidegate_runtime::fuzzing::json_cuts,
    tidegate_fuzz_support::packed
);
