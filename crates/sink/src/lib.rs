//! The contract between a stream engine and a table target: writers, committables, committers, recovery.
