//! The engine on a target in memory, with paused time: what must hold through crashes, failures and
//! stops.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    unreachable_pub
)]

mod crashes;
mod ends;
mod failures;
mod lake;
mod recovery;
mod rig;
mod schedule;
