//! A server's pages of unfinished uploads, and names of temporary files.
#![no_main]

tidegate_fuzz_support::target!(
    tidegate_storage::fuzzing::s3_answers,
    tidegate_fuzz_support::plain
);
