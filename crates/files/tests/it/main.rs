//! The contract kept on plain directories: alone, and under the engine.

// A test program has no outside, and its helpers may panic as its tests do.
#![allow(
    unreachable_pub,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing
)]

mod contract;
mod crashes;
mod rig;
