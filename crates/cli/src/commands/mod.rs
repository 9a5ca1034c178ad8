//! What each command does.

mod checkpoint;
mod compact;
mod demo;
mod doctor;
mod job;
mod reading;
mod run;
mod summary;
mod table;
mod tail;
mod verify;

use std::io::{BufRead, IsTerminal, Write};

use crate::args::{Args, Command};
use crate::exit::{Failure, Result};

/// Runs a command; the exit code where it does not fail.
pub(crate) async fn run(args: Args) -> Result<u8> {
    let output = args.output;
    match args.command {
        Command::Run(run) => run::run(run, &output).await,
        Command::Demo(demo) => demo::run(demo, &output).await,
        Command::Doctor(doctor) => doctor::run(doctor, &output).await,
        Command::Table(table) => table::run(*table, &output).await,
        Command::Tail(tail) => tail::run(tail, &output).await,
        Command::Job(job) => job::run(job, &output).await,
        Command::Checkpoint(checkpoint) => checkpoint::run(checkpoint, &output).await,
        Command::Compact(compact) => compact::run(compact, &output).await,
        Command::Verify(verify) => verify::run(verify, &output).await,
    }
}

/// Asks before something is destroyed. Without a terminal nobody can answer, so `-y` is needed.
fn confirm(what: &str, yes: bool) -> Result<()> {
    if yes {
        return Ok(());
    }
    if !std::io::stdin().is_terminal() {
        return Err(Failure::config(format!(
            "{what}: pass -y to do it, or --dry-run to see what would be done"
        )));
    }
    let mut err = std::io::stderr().lock();
    write!(err, "{what}. Go on? [y/N] ")?;
    err.flush()?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    if matches!(answer.trim(), "y" | "Y" | "yes") {
        return Ok(());
    }
    Err(Failure {
        code: 1,
        message: "nothing was done".into(),
    })
}
