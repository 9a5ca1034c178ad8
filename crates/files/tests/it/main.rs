//! The contract kept on plain directories: alone, and under the engine.

mod contract;
mod crashes;
mod rig;
