//! The real binary, whole: labs, crash timings, cases of public reports, wrong input, the README.

mod cases;
mod chaos;
mod crashes;
mod exits;
mod inputs;
mod labs;
mod readme;
