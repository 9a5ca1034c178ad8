//! The checks of the fuzz targets on their seeds, cut and changed at every place.
// Helpers of tests may panic on what the test itself wrote.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout
)]

#[path = "../fuzz/checks.rs"]
mod checks;

use checks::{schedules, script};

tidegate_fuzz_support::seeds!(schedules: program, script: program);
