//! The tidegate command line.

mod config;

fn main() {}
