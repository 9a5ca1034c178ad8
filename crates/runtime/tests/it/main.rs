//! The engine on a target in memory, with paused time: what must hold through crashes, failures and
//! stops.

mod crashes;
mod ends;
mod failures;
mod lake;
mod recovery;
mod rig;
