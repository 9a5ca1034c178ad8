//! Tables of ours before released Java Paimon and pypaimon, and theirs before us: one letter per cell.
//!
//! Run by `cargo xtask interop`, which builds the binary; docs/interop.md says how to read what it
//! prints.

mod cases;
mod committables;
mod compare;
mod expect;
mod harness;
mod keyed;
mod matrix;
mod ours;
mod plan;
mod theirs;
mod turns;
mod types;
mod variants;
mod written;

use clap::{Parser, ValueEnum};
use harness::{Harness, say};
use matrix::Matrix;
use plan::Plan;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;
use tidegate_interop::install;
use tidegate_interop::peer::Peer;

/// The releases of Java Paimon that are judged.
const RELEASES: &str = "1.0.1,1.3.1,1.4.2";

#[derive(Parser)]
#[command(
    name = "cargo xtask interop",
    about = "One letter per type, table and peer"
)]
struct Arguments {
    /// Releases of Java Paimon.
    #[arg(long, value_delimiter = ',', default_value = RELEASES)]
    release: Vec<String>,
    /// Which peers.
    #[arg(long, default_value = "all")]
    peer: Peers,
    /// The tidegate binary.
    #[arg(long, required_unless_present = "render")]
    bin: Option<PathBuf>,
    /// Run nothing: print the cells of these JSON files, judged by the expectations as they are now.
    #[arg(long, value_delimiter = ',', value_name = "FILE,…")]
    render: Vec<PathBuf>,
    /// Only tables whose `part/table` holds this text or fits this pattern.
    #[arg(long, value_name = "PATTERN")]
    only: Option<String>,
    /// Also write all cells as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Release 1.4.2 and pypaimon on a few tables.
    #[arg(long)]
    quick: bool,
    /// Keep the tables that were made, in this folder.
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Peers {
    /// Java, pypaimon and the crate.
    All,
    /// Released Java Paimon.
    Java,
    /// pypaimon.
    Pypaimon,
    /// The `paimon` crate.
    PaimonCrate,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            say(&format!("interop: {why}"));
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<bool, String> {
    let begun = Instant::now();
    let listed = install::here().join("expectations.txt");
    let text =
        std::fs::read_to_string(&listed).map_err(|e| format!("{}: {e}", listed.display()))?;
    let rules = expect::Rules::parse(&text)?;
    let Some(bin) = &arguments.bin else {
        return render(rules, &arguments.render);
    };
    let releases: Vec<&str> = match (arguments.quick, arguments.peer) {
        (_, Peers::Pypaimon | Peers::PaimonCrate) => Vec::new(),
        (true, _) => vec!["1.4.2"],
        (false, _) => arguments.release.iter().map(String::as_str).collect(),
    };
    let chosen = |peer: Peers| arguments.peer == Peers::All || arguments.peer == peer;
    let wanted = install::Wanted {
        java: releases,
        pypaimon: chosen(Peers::Pypaimon),
        // Some minutes of building where it is not here: not a matter of the quick run.
        paimon_crate: chosen(Peers::PaimonCrate) && !arguments.quick,
    };
    let peers = match install::peers(&wanted) {
        Ok(peers) => peers,
        // As where the machine has no JDK. What does not compile, or does not start, is an error.
        Err(install::Trouble::Registry(why)) if arguments.quick => {
            say(&format!(
                "interop: SKIPPED, nothing was compared with Java Paimon and pypaimon: {why}"
            ));
            return Ok(true);
        }
        Err(install::Trouble::Registry(why) | install::Trouble::Other(why)) => return Err(why),
    };
    say(&format!(
        "the peers run after {:.0} s",
        begun.elapsed().as_secs_f64()
    ));
    let work = match &arguments.keep {
        Some(folder) => folder.clone(),
        None => std::env::temp_dir().join(format!("tidegate-interop-{}", std::process::id())),
    };
    std::fs::create_dir_all(&work).map_err(|e| format!("{}: {e}", work.display()))?;
    let binary = bin
        .canonicalize()
        .map_err(|e| format!("--bin {}: {e}", bin.display()))?;
    let work = work
        .canonicalize()
        .map_err(|e| format!("{}: {e}", work.display()))?;
    let mut harness = Harness {
        head: head(arguments, &peers, &binary)?,
        binary: ours::Binary {
            path: binary,
            keep: arguments.keep.is_some(),
        },
        work: work.clone(),
        peers,
        matrix: Matrix::new(rules),
        only: arguments.only.clone(),
        json: arguments.json.clone(),
        begun,
        written: begun,
    };
    let plan = match arguments.quick {
        true => Plan::quick(),
        false => Plan::whole(),
    };
    parts(&mut harness, &plan)?;
    if arguments.keep.is_none() {
        // What is left there was made by this run.
        let _gone = std::fs::remove_dir_all(&work);
    }
    let mut head = harness.head.clone();
    if let Some(head) = head.as_object_mut() {
        head.insert("seconds".into(), json!(begun.elapsed().as_secs()));
    }
    Ok(print(&[head], &harness.matrix))
}

/// Prints what earlier runs found.
fn render(rules: expect::Rules, files: &[PathBuf]) -> Result<bool, String> {
    let mut matrix = Matrix::new(rules);
    let mut heads = Vec::new();
    for path in files {
        let wrong = |e: String| format!("{}: {e}", path.display());
        let text = std::fs::read_to_string(path).map_err(|e| wrong(e.to_string()))?;
        let mut file: Value = serde_json::from_str(&text).map_err(|e| wrong(e.to_string()))?;
        let cells = file
            .get_mut("cells")
            .map(Value::take)
            .ok_or_else(|| wrong("no `cells`".to_owned()))?;
        matrix.add_json(&cells).map_err(wrong)?;
        heads.push(file);
    }
    Ok(print(&heads, &matrix))
}

/// All parts of a plan.
fn parts(harness: &mut Harness, plan: &Plan) -> Result<(), String> {
    let lists = [&plan.crossed, &plan.places, &plan.keys];
    for cases in lists {
        written::run(harness, cases);
    }
    for cases in lists {
        theirs::run(harness, cases);
    }
    turns::run(harness, &plan.turned, plan.turns_with);
    keyed::run(harness, &plan.keyed);
    variants::run(harness, &plan.options);
    variants::refused(harness, &plan.refused);
    committables::run(harness, &plan.prepared);
    harness.write()
}

/// What `command` prints, in one line.
fn said(command: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(command)
        .args(arguments)
        .current_dir(install::here())
        .output()
        .map_err(|e| format!("cannot start {command}: {e}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// What is known of a run besides its cells.
fn head(arguments: &Arguments, peers: &[Peer], binary: &Path) -> Result<Value, String> {
    let commit = match said("git", &["describe", "--always", "--dirty", "--exclude=*"]) {
        Ok(commit) if !commit.is_empty() => commit,
        _ => "unknown".to_owned(),
    };
    let versions: Vec<String> = peers
        .iter()
        .map(|p| format!("{} ({})", p.name, p.version))
        .collect();
    let whole = arguments.only.is_none()
        && !arguments.quick
        && arguments.peer == Peers::All
        && arguments.release == RELEASES.split(',').collect::<Vec<_>>();
    Ok(json!({
        "date": said("date", &["-u", "+%Y-%m-%d %H:%M"])?,
        "commit": commit,
        "binary": said(&binary.display().to_string(), &["--version"])?,
        "peers": versions.join("; "),
        "whole": whole,
    }))
}

/// Prints a matrix; whether all is as it should be.
#[expect(clippy::print_stdout, reason = "the matrix is what is asked for")]
fn print(heads: &[Value], matrix: &Matrix) -> bool {
    let mut whole = false;
    for head in heads {
        let text = |key: &str| match head.get(key) {
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
            None => "unknown".to_owned(),
        };
        whole |= head.get("whole") == Some(&json!(true));
        println!(
            "run of {} UTC, commit {}, {} s\npeers: {}\n",
            text("date"),
            text("commit"),
            text("seconds"),
            text("peers")
        );
    }
    print!("{}", matrix.text());
    let counts = matrix.counts();
    let letters: Vec<String> = counts.iter().map(|(l, n)| format!("{l} {n}")).collect();
    let deviations = matrix.deviations().count();
    println!("cells: {}; {deviations} deviations", letters.join(", "));
    let unmet = if whole { matrix.unmet() } else { Vec::new() };
    for line in &unmet {
        println!("expectations.txt, {line}");
    }
    deviations == 0 && unmet.is_empty() && !counts.is_empty()
}
