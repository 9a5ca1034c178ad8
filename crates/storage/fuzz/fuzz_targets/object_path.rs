//! Arbitrary text as a path.
#![no_main]

tidegate_fuzz_support::target!(
    tidegate_storage::fuzzing::object_path,
    tidegate_fuzz_support::plain
);
