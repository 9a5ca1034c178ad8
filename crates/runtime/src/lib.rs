//! An embedded stream engine: sources with positions, aligned barriers, checkpoints, restarts; for any target.

pub mod source;
