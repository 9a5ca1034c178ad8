//! Arbitrary text as a job name, a commit user and a digest.
#![no_main]

tidegate_fuzz_support::target!(tidegate_sink::fuzzing::names, tidegate_fuzz_support::plain);
