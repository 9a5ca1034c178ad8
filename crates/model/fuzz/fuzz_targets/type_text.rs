//! Arbitrary text read as a type.
#![no_main]

tidegate_fuzz_support::target!(
    tidegate_model::fuzzing::type_text,
    tidegate_fuzz_support::plain
);
