//! Any text as a job file, in both styles of YAML.
#![no_main]

#[path = "../../src/config/mod.rs"]
#[allow(dead_code, reason = "the program uses the rest")]
mod config;
#[path = "../../src/fuzzing.rs"]
#[allow(dead_code, reason = "each target runs one of them")]
mod fuzzing;

tidegate_fuzz_support::target!(crate::fuzzing::job_file, tidegate_fuzz_support::plain);
