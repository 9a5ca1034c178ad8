//! Committables of Java, the version in the first byte.
#![no_main]

tidegate_fuzz_support::target!(
    tidegate_format::fuzzing::manifest_committable,
    tidegate_fuzz_support::plain
);
