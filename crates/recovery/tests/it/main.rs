//! Rules of checkpoints, registrations and recovery, each as a test named after it.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    unreachable_pub
)]

mod faults;
mod managers;
mod records;
mod registrations;
mod simulated;
