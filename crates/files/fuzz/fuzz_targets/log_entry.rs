//! Arbitrary bytes as an entry of the commit log, a message and a committable.
#![no_main]

tidegate_fuzz_support::target!(
    tidegate_files::fuzzing::log_entry,
    tidegate_fuzz_support::plain
);
