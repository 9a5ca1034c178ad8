//! Manifests.
#![no_main]

tidegate_fuzz_support::target!(
    tidegate_format::fuzzing::manifest,
    tidegate_fuzz_support::packed
);
