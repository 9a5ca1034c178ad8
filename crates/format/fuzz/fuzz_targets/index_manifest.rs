//! Index manifests.
#![no_main]

tidegate_fuzz_support::target!(
    tidegate_format::fuzzing::index_manifest,
    tidegate_fuzz_support::packed
);
