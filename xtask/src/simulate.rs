//! `cargo xtask simulate`: builds the simulation in its own profile and runs it.
//!
//! Owns the build. What the arguments mean is the program's own business.

use crate::process::{Failure, cargo, run, target_directory};
use std::path::PathBuf;
use std::process::Command;

/// Arguments of the chore: those of the program.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// For the simulation: `--schedules N`, `--seed S`, `--shrink`, `--threads T`, `--script FILE`,
    /// `--mutants`; `--help` explains them.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) rest: Vec<String>,
}

/// The program, built. Always with the deliberate bugs, all switched off unless `--mutants` switches one
/// on: one build serves both.
fn program() -> Result<PathBuf, Failure> {
    let mut build = cargo();
    build.args(["build", "--locked", "--profile", "simulation"]);
    build.args(["--package", "tidegate-simulation", "--features", "mutants"]);
    run(&mut build)?;
    Ok(target_directory()?.join("simulation/tidegate-simulation"))
}

pub(crate) fn check(arguments: &Arguments) -> Result<(), Failure> {
    run(Command::new(program()?).args(&arguments.rest))
}

/// Schedules that `cargo xtask test` plays, from seed 0 on: what two cores play in a minute.
const IN_CI: &str = "12000";

pub(crate) fn in_ci() -> Result<(), Failure> {
    let rest = ["--schedules", IN_CI].map(str::to_owned).to_vec();
    check(&Arguments { rest })
}
