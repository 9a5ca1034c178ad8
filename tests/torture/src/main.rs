//! `cargo xtask torture`: the campaign, one line per peer and cell.
#![allow(clippy::print_stdout, reason = "the table is what is asked for")]

use clap::Parser;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use tidegate_interop::peer::Peer;
use tidegate_interop::say;
use tidegate_torture::cells::{Cell, Length, Outcome, beside, run};
use tidegate_torture::report;
use tidegate_torture::subject::{NAMES, Recovery, Subject};

#[derive(Parser)]
#[command(
    name = "cargo xtask torture",
    about = "Races, kills, lost answers and restored states for a writer of Paimon tables"
)]
struct Arguments {
    /// ours, paimon-crate, pypaimon, paimon-java or all.
    #[arg(long, default_value = "all")]
    peer: String,
    /// Of the faults and their moments.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// One cell: race, race-s3, kill, kill-s3, answer, answer-s3, restore, beside or beside-s3.
    #[arg(long, value_name = "CELL")]
    only: Option<String>,
    /// How long each cell goes on, without installing and judging.
    #[arg(long, default_value_t = 40)]
    seconds: u64,
    /// The program that drives ours; the one beside this program where absent.
    #[arg(long, value_name = "PATH")]
    driver: Option<PathBuf>,
    /// Leave the tables in the temporary folder.
    #[arg(long)]
    keep: bool,
    /// Also append each line as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

fn main() -> ExitCode {
    match campaign(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            say(&format!("torture: {why}"));
            ExitCode::FAILURE
        }
    }
}

/// Who reads what a peer wrote: pypaimon, and Java what pypaimon wrote.
fn judge(peer: &str) -> &'static str {
    match peer {
        "pypaimon" => "paimon-java",
        _ => "pypaimon",
    }
}

fn campaign(arguments: &Arguments) -> Result<(), String> {
    let driver = match &arguments.driver {
        Some(path) => path.clone(),
        None => std::env::current_exe()
            .map_err(|e| format!("this program's path: {e}"))?
            .with_file_name("tidegate-torture-driver"),
    };
    let peers: Vec<&str> = match arguments.peer.as_str() {
        "all" => NAMES.to_vec(),
        one => vec![one],
    };
    let cells: Vec<Cell> = match &arguments.only {
        None => Cell::ALL.to_vec(),
        Some(name) => {
            let cell = Cell::ALL.into_iter().find(|cell| cell.name() == name);
            let names = Cell::ALL.map(Cell::name).join(", ");
            vec![cell.ok_or_else(|| format!("no cell `{name}`; there are {names}"))?]
        }
    };
    println!("{}", report::HEAD);
    for peer in peers {
        let s3 = cells.iter().any(|cell| cell.on_s3());
        let subject = Subject::install(peer, &driver, s3)?;
        let mut reader = Subject::install(judge(subject.name), &driver, false)?.start()?;
        say(&format!(
            "{peer} ({}), read by {} ({}), seed {}",
            subject.start()?.version,
            judge(subject.name),
            reader.version,
            arguments.seed
        ));
        for cell in &cells {
            if matches!(cell, Cell::Beside | Cell::BesideOnS3) {
                if subject.name != "ours" {
                    beside_ours(arguments, &driver, &subject, *cell, &mut reader)?;
                }
                continue;
            }
            for recovery in recoveries(&subject, *cell) {
                one(arguments, &subject, *cell, recovery, &mut reader)?;
            }
        }
    }
    Ok(())
}

/// Where nobody is killed and no answer lost, there is one way to go on.
fn recoveries(subject: &Subject, cell: Cell) -> Vec<Recovery> {
    let count = match cell {
        Cell::Race | Cell::RaceOnS3 | Cell::Restore => 1,
        _ => subject.recoveries.len(),
    };
    subject.recoveries.iter().copied().take(count).collect()
}

/// Both in one table: a line for each.
fn beside_ours(
    arguments: &Arguments,
    driver: &std::path::Path,
    peer: &Subject,
    cell: Cell,
    reader: &mut Peer,
) -> Result<(), String> {
    let ours = Subject::install("ours", driver, cell.on_s3())?;
    let outcomes = beside(cell, &ours, peer, length(arguments), reader)?;
    let names = [
        format!("ours beside {}", peer.name),
        format!("{} beside ours", peer.name),
    ];
    for (name, outcome) in names.iter().zip(&outcomes) {
        tell(arguments, name, cell.name(), outcome)?;
    }
    Ok(())
}

fn length(arguments: &Arguments) -> Length {
    Length {
        time: Duration::from_secs(arguments.seconds),
        steps: 1,
        keep: arguments.keep,
    }
}

fn one(
    arguments: &Arguments,
    subject: &Subject,
    cell: Cell,
    recovery: Recovery,
    reader: &mut Peer,
) -> Result<(), String> {
    let label = report::label(cell, recovery);
    let length = length(arguments);
    let outcome = run(cell, subject, recovery, arguments.seed, length, reader)?;
    tell(arguments, subject.name, &label, &outcome)
}

fn tell(arguments: &Arguments, name: &str, label: &str, outcome: &Outcome) -> Result<(), String> {
    println!("{}", report::line(name, label, outcome));
    for line in report::details(outcome) {
        say(&line);
    }
    if let Some(path) = &arguments.json {
        let wrong = |e: std::io::Error| format!("{}: {e}", path.display());
        let mut open = std::fs::OpenOptions::new();
        let mut file = open.create(true).append(true).open(path).map_err(wrong)?;
        let line = report::json(name, label, arguments.seed, outcome);
        writeln!(file, "{line}").map_err(wrong)?;
    }
    Ok(())
}
