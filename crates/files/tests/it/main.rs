//! The contract kept on plain directories: alone, and under the engine.

// A test program has no outside.
#![allow(unreachable_pub)]

mod contract;
mod crashes;
mod rig;
