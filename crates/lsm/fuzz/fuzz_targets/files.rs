//! Any files of a bucket: sections, levels, compactions.
#![no_main]

tidegate_fuzz_support::target!(tidegate_lsm::fuzzing::files, tidegate_fuzz_support::packed);
