//! Tables of ours before released Java Paimon and pypaimon, and theirs before us: one letter per cell.
//!
//! Run by `cargo xtask interop`, which builds the binary; docs/interop.md says how to read what it
//! prints.

mod cases;
mod committables;
mod compare;
mod expect;
mod harness;
mod install;
mod matrix;
mod ours;
mod peer;
mod theirs;
mod turns;
mod types;
mod variants;
mod written;

use cases::Case;
use clap::{Parser, ValueEnum};
use harness::{Harness, say};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

#[derive(Parser)]
#[command(
    name = "cargo xtask interop",
    about = "One letter per type, table and peer"
)]
struct Arguments {
    /// Releases of Java Paimon.
    #[arg(long, value_delimiter = ',', default_value = "1.0.1,1.3.1,1.4.2")]
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
    /// Java and pypaimon.
    All,
    /// Released Java Paimon.
    Java,
    /// pypaimon.
    Pypaimon,
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

#[expect(clippy::print_stdout, reason = "the matrix is what is asked for")]
fn run(arguments: &Arguments) -> Result<bool, String> {
    let begun = Instant::now();
    let listed = install::here().join("expectations.txt");
    let text =
        std::fs::read_to_string(&listed).map_err(|e| format!("{}: {e}", listed.display()))?;
    let rules = expect::Rules::parse(&text)?;
    let Some(bin) = &arguments.bin else {
        return render(rules, &arguments.render);
    };
    let mut peers = Vec::new();
    let releases: Vec<&str> = match arguments.quick {
        true => vec!["1.4.2"],
        false => arguments.release.iter().map(String::as_str).collect(),
    };
    if arguments.peer != Peers::Pypaimon {
        for release in &releases {
            say(&format!("installing Java Paimon {release}"));
            peers.push(install::java(release)?);
        }
    }
    if arguments.peer != Peers::Java {
        say("installing pypaimon");
        peers.push(install::pypaimon()?);
    }
    let versions: Vec<String> = peers
        .iter()
        .map(|p| format!("{} ({})", p.name, p.version))
        .collect();
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
        binary,
        work: work.clone(),
        peers,
        matrix: matrix::Matrix::new(rules),
        only: arguments.only.clone(),
        quick: arguments.quick,
    };
    parts(&mut harness, arguments.json.as_deref())?;
    if arguments.keep.is_none() {
        // What is left there was made by this run.
        let _gone = std::fs::remove_dir_all(&work);
    }
    let matrix = &harness.matrix;
    println!("peers: {}\n", versions.join("; "));
    print!("{}", matrix.text());
    let counts: Vec<String> = matrix
        .counts()
        .iter()
        .map(|(l, n)| format!("{l} {n}"))
        .collect();
    let deviations = matrix.deviations().count();
    println!(
        "cells: {}; {deviations} deviations; {:.0} s",
        counts.join(", "),
        begun.elapsed().as_secs_f64()
    );
    let unmet = matrix.unmet();
    let whole = arguments.only.is_none() && !arguments.quick && arguments.peer == Peers::All;
    if whole && !unmet.is_empty() {
        println!("expectations.txt: no cell met lines {unmet:?}");
    }
    Ok(deviations == 0 && (!whole || unmet.is_empty()) && !matrix.counts().is_empty())
}

/// Prints what earlier runs found.
#[expect(clippy::print_stdout, reason = "the matrix is what is asked for")]
fn render(rules: expect::Rules, files: &[PathBuf]) -> Result<bool, String> {
    let mut matrix = matrix::Matrix::new(rules);
    for path in files {
        let wrong = |e: String| format!("{}: {e}", path.display());
        let text = std::fs::read_to_string(path).map_err(|e| wrong(e.to_string()))?;
        let cells = serde_json::from_str(&text).map_err(|e| wrong(e.to_string()))?;
        matrix.add_json(&cells).map_err(wrong)?;
    }
    print!("{}", matrix.text());
    let counts = matrix.counts();
    let counts: Vec<String> = counts.iter().map(|(l, n)| format!("{l} {n}")).collect();
    let deviations = matrix.deviations().count();
    println!("cells: {}; {deviations} deviations", counts.join(", "));
    Ok(deviations == 0)
}

/// All parts, or a few tables of each. After each part what is known so far is written out.
fn parts(harness: &mut Harness, json: Option<&Path>) -> Result<(), String> {
    let quick = harness.quick;
    let few = |mut cases: Vec<Case>, names: &[&str]| -> Vec<Case> {
        cases.retain(|c| !quick || names.contains(&c.name.as_str()));
        cases
    };
    let crossed = few(cases::crossed(), &["fixed/date"]);
    let places = few(cases::places(), &["unaware/none nested"]);
    let keys = few(cases::bucket_keys(), &["hive(string)", "mod(bigint)"]);
    let options = few(
        cases::options(),
        &["unaware snappy", "fixed rolling by rows"],
    );
    let named = |names: &[&str]| -> Vec<Case> {
        let wanted = |c: &&Case| quick || names.contains(&c.name.as_str());
        crossed.iter().filter(wanted).cloned().collect()
    };
    let mut turned = named(&[
        "unaware/none",
        "unaware/string",
        "unaware/date",
        "fixed/none",
        "fixed/string,int",
        "fixed/timestamp_6",
        "mod/none",
        "hive/none",
    ]);
    let nested = |c: &&Case| !quick && c.name.ends_with("/none nested");
    turned.extend(places.iter().filter(nested).cloned());
    let prepared = named(&["unaware/none", "fixed/string,int"]);
    let refused = cases::refused();
    let steps: [&dyn Fn(&mut Harness); 7] = [
        &|h| written::run(h, &crossed),
        &|h| written::run(h, &places),
        &|h| written::run(h, &keys),
        &|h| {
            [&crossed, &places, &keys]
                .iter()
                .for_each(|cases| theirs::run(h, cases))
        },
        &|h| turns::run(h, &turned),
        &|h| {
            variants::run(h, &options);
            variants::refused(h, &refused);
        },
        &|h| committables::run(h, &prepared),
    ];
    for step in steps {
        step(harness);
        if let Some(path) = json {
            let text = harness.matrix.json().to_string();
            std::fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))?;
        }
    }
    Ok(())
}
