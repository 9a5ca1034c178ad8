//! The commit and recovery protocol as pure state machines: no I/O, no clock, no randomness.
