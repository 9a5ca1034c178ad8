//! The real binary, whole: labs, crash timings, cases of public reports, wrong input, the README.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests fail by panicking, with the place"
)]

mod a_row_lands;
mod altered;
mod case_list;
mod cases;
mod cases_columns;
mod cases_keyed;
mod cases_takeover;
mod chaos;
mod crashes;
mod disks;
mod examples;
mod exits;
mod hostile;
mod inputs;
mod keyed;
mod keyed_kills;
mod keyed_reads;
mod labs;
mod outages;
mod readme;
mod verified;
