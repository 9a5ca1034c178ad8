//! Chores of the workspace: `cargo xtask demo | test | layers | golden | bench | check | simulate | fuzz |
//! interop | torture | chaos | crash-states`.

mod chaos;
mod check;
mod crash_states;
mod fuzz;
mod golden;
mod interop;
mod layers;
mod process;
mod simulate;
mod test;
mod torture;

use clap::{Parser, Subcommand};
use process::{Failure, binary, cargo, run};
use std::process::{Command, ExitCode};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Chores of the Tidegate workspace")]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Build the binary and watch rows land exactly once while the process is killed under them.
    Demo {
        /// For `tidegate demo`, for instance `--directory DIR`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Everything that must hold before a change goes in; prints where the time went.
    Test {
        /// Go on after a failed step and tell all of them at the end.
        #[arg(long)]
        keep_going: bool,
    },
    /// Check crate edges, forbidden reaches, licences and duplicate versions.
    Layers,
    /// Check golden data: every file is there with its size, and decodes to its catalogued values.
    Golden {
        /// Write the list of sizes anew after golden data was added on purpose.
        #[arg(long)]
        record: bool,
    },
    /// Run the benches in release mode, peers included.
    Bench {
        /// For the benches, for instance a name.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Model checking: every interleaving of a few committers, faults and crashes.
    Check {
        /// Bounds, or `--bugs`; `--help` names them. Without any, the worlds of docs/model-checking.md.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Run the fuzz targets in turn: arbitrary bytes for every decoder.
    Fuzz(fuzz::Arguments),
    /// Compare with released Java Paimon and pypaimon, both ways: one letter per type, table and peer.
    Interop(interop::Arguments),
    /// Races, kills, lost answers and restored states for four writers of Paimon tables: lost, doubled,
    /// left over, refused.
    Torture(torture::Arguments),
    /// Kill a running job over and over, then look whether anything was lost, doubled or left over.
    Chaos(chaos::Arguments),
    /// Record what the binary does on a local disk and judge every state a power failure may leave.
    CrashStates(crash_states::Arguments),
    /// Play schedules of requests, faults and crashes on a simulated table, one per seed.
    Simulate(simulate::Arguments),
}

fn main() -> ExitCode {
    if let Some(code) = fuzz::wrapped() {
        return code;
    }
    let result = match Arguments::parse().chore {
        Chore::Demo { arguments } => demo(&arguments),
        Chore::Test { keep_going } => test::run(keep_going),
        Chore::Layers => layers::check(),
        Chore::Golden { record } => golden::check(record),
        Chore::Bench { arguments } => bench(&arguments),
        Chore::Check { arguments } => check::run(&arguments),
        Chore::Fuzz(arguments) => fuzz::run(&arguments),
        Chore::Interop(arguments) => interop::check(&arguments),
        Chore::Torture(arguments) => torture::check(&arguments),
        Chore::Chaos(arguments) => chaos::run(&arguments),
        Chore::CrashStates(arguments) => crash_states::run(&arguments),
        Chore::Simulate(arguments) => simulate::check(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            process::say(&format!("xtask: {why}"));
            ExitCode::FAILURE
        }
    }
}

fn demo(arguments: &[String]) -> Result<(), Failure> {
    let binary = binary(false)?;
    run(Command::new(binary).arg("demo").args(arguments))
}

/// The only place that builds peers, and in release mode. With a name, only that bench, which gets the
/// other arguments; without one, all of them with their defaults.
fn bench(arguments: &[String]) -> Result<(), Failure> {
    let folder = process::root().join("benches/src/bin");
    let mut names: Vec<String> = std::fs::read_dir(&folder)
        .map_err(|e| format!("{}: {e}", folder.display()))?
        .flatten()
        .filter_map(|e| Some(e.path().file_stem()?.to_str()?.to_owned()))
        .collect();
    names.sort();
    names.extend(["memory", "peers", "keyed_peers"].map(str::to_owned));
    let (chosen, rest) = match arguments.split_first() {
        Some((name, rest)) if names.contains(name) => (vec![name.clone()], rest),
        Some((name, _)) => {
            let known = names.join(", ");
            return Err(format!("no bench `{name}`; there are {known}"));
        }
        None => (names, arguments),
    };
    for name in chosen {
        let mut command = cargo();
        command.args(["run", "--release"]);
        match name.as_str() {
            "memory" => command.args(["--package", "tidegate-writer", "--example"]),
            // A workspace of its own, see there.
            "peers" | "keyed_peers" => {
                command.args(["--manifest-path", "benches/peers/Cargo.toml", "--bin"])
            }
            _ => command.args(["--package", "tidegate-benches", "--bin"]),
        };
        match name.as_str() {
            "memory" => command.arg("many_partitions"),
            // It looks for the binary beside itself.
            "start" => {
                process::binary(true)?;
                command.arg("start")
            }
            name => command.arg(name),
        };
        run(command.arg("--").args(rest))?;
    }
    Ok(())
}
