//! Arbitrary text as a URL of a store and its options.
#![no_main]

tidegate_fuzz_support::target!(
    tidegate_storage::fuzzing::store_url,
    tidegate_fuzz_support::packed
);
