//! Chores of the workspace: `cargo xtask demo | test | layers | golden | bench | fuzz | chaos`.

mod layers;
mod process;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Chores of the Tidegate workspace")]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Check crate edges, forbidden reaches, licences and duplicate versions.
    Layers,
}

fn main() -> ExitCode {
    let result = match Arguments::parse().chore {
        Chore::Layers => layers::check(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            process::say(&format!("xtask: {why}"));
            ExitCode::FAILURE
        }
    }
}
