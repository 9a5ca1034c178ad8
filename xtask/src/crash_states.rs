//! `cargo xtask crash-states`: the big run of `tests/crash-consistency`.

use crate::process::{Failure, binary, cargo, run as command};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Jobs started again on states, per job that is recorded and per rule of the disk.
    #[arg(long, default_value_t = 60)]
    restarts: usize,
    /// Calls at which a run is killed, per job; a second run goes on and its states are judged.
    #[arg(long, default_value_t = 40)]
    kills: usize,
    /// Leave each fsync out alone and tell which of them are not missed; some ten minutes more.
    #[arg(long)]
    each_sync: bool,
    /// Of what is drawn.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let built = binary(false)?;
    let mut harness = cargo();
    harness.args([
        "run",
        "--quiet",
        "--locked",
        "--package",
        "tidegate-crash-consistency",
        "--",
    ]);
    harness.arg("--bin").arg(built);
    for (flag, number) in [
        ("--restarts", arguments.restarts),
        ("--kills", arguments.kills),
    ] {
        harness.args([flag, &number.to_string()]);
    }
    harness.args(["--seed", &arguments.seed.to_string()]);
    if arguments.each_sync {
        harness.arg("--each-sync");
    }
    command(&mut harness)
}
