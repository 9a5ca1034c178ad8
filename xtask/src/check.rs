//! `cargo xtask check`: every interleaving of a few committers, faults and crashes, over the protocol
//! itself. See docs/model-checking.md.

use crate::process::{Failure, cargo, run as command};

/// Builds the checker with optimisation and runs it with these arguments.
pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let mut check = cargo();
    check
        .args(["run", "--quiet", "--locked", "--profile", "exhaustive"])
        .args(["--package", "tidegate-exhaustive", "--"])
        .args(arguments);
    command(&mut check)
}
