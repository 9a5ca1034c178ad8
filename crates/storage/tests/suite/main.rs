//! The store from outside: one test program, so that it is linked once and starts one S3 server.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "tests"
)]

mod conformance;
mod examples;
mod faults;
#[cfg(unix)]
mod full_disk;
mod local_and_memory;
mod names;
mod processes;
mod proxy;
mod s3;
mod wire;
