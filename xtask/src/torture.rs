//! `cargo xtask torture`: builds the campaign and the program that drives ours, and runs it.
//!
//! Owns the build. What the arguments mean is the program's own business.

use crate::process::{Failure, cargo, run, target_directory};
use std::process::Command;

/// Arguments of the chore: those of the program.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// For the campaign: `--peer ours|paimon-crate|pypaimon|paimon-java`, `--seed N`, `--only CELL`,
    /// `--seconds N`, `--json FILE`; `--help` explains them.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

pub(crate) fn check(arguments: &Arguments) -> Result<(), Failure> {
    let mut build = cargo();
    build.args(["build", "--locked", "--package", "tidegate-torture"]);
    run(&mut build)?;
    let program = target_directory()?.join("debug/tidegate-torture");
    run(Command::new(program).args(&arguments.rest))
}
