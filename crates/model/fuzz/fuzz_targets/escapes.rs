//! Directory and object names.
#![no_main]

tidegate_fuzz_support::target!(
    tidegate_model::fuzzing::escapes,
    tidegate_fuzz_support::plain
);
