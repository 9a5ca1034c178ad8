//! Commit messages of Java, the version in the first byte.
#![no_main]

tidegate_fuzz_support::target!(
    tidegate_format::fuzzing::commit_message,
    tidegate_fuzz_support::plain
);
