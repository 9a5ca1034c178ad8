//! Arbitrary bytes as a framed committable.
#![no_main]

tidegate_fuzz_support::target!(
    tidegate_sink::fuzzing::committable_frame,
    tidegate_fuzz_support::plain
);
