//! Rules of checkpoints, registrations and recovery, each as a test named after it.

mod managers;
mod records;
mod registrations;
mod simulated;
