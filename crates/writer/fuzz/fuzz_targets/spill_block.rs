//! Any bytes as a block of the spill.
#![no_main]

tidegate_fuzz_support::target!(
    catching tidegate_writer::fuzzing::spill_block,
    tidegate_fuzz_support::packed
);
