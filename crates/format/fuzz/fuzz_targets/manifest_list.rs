//! Manifest lists.
#![no_main]

tidegate_fuzz_support::target!(
    tidegate_format::fuzzing::manifest_list,
    tidegate_fuzz_support::packed
);
