//! `cargo xtask fuzz`: every fuzz target of every crate, one after the other.

use crate::process::{Failure, cargo, root, run as command, say};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

fn run_all(found: &[(PathBuf, String)], seconds: u64) -> Result<(), Failure> {
    let mut failed = Vec::new();
    for (n, (folder, target)) in found.iter().enumerate() {
        say(&format!(
            "[{}/{}] {target} of {}, {seconds} s",
            n + 1,
            found.len(),
            folder.display()
        ));
        let time = format!("-max_total_time={seconds}");
        let inputs = match inputs(folder, target) {
            Ok(inputs) => inputs,
            Err(why) => {
                say(&why);
                failed.push(target.as_str());
                continue;
            }
        };
        // Our stable toolchain has what cargo-fuzz asks of a nightly one; this lets it be used.
        let ran = command(
            cargo()
                .env("RUSTC_BOOTSTRAP", "1")
                .args(["fuzz", "run", "--fuzz-dir"])
                .arg(folder)
                // One folder for all of them: what they share is compiled once.
                .arg("--target-dir")
                .arg(build_folder())
                .arg(target)
                .args(inputs)
                .args(["--", &time, "-rss_limit_mb=2048", "-print_final_stats=1"]),
        );
        if let Err(why) = ran {
            say(&why);
            failed.push(target.as_str());
        }
    }
    if failed.is_empty() {
        say(&format!(
            "fuzz: {} targets, {seconds} s each, no crash",
            found.len()
        ));
        return Ok(());
    }
    Err(format!(
        "crashes in: {}; the inputs are in the `artifacts` folder of each fuzz folder",
        failed.join(", ")
    ))
}

/// Where all targets are built: `CARGO_TARGET_DIR/fuzz`, or `target/fuzz` of the workspace.
fn build_folder() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| root().join("target"), |folder| root().join(folder))
        .join("fuzz")
}

/// The folders of inputs to start from: `corpus/TARGET`, which is not committed and takes what is
/// found, then the committed `seeds/TARGET`, where there is one.
fn inputs(folder: &Path, target: &str) -> Result<Vec<PathBuf>, Failure> {
    let corpus = folder.join("corpus").join(target);
    fs::create_dir_all(&corpus).map_err(|e| format!("{}: {e}", corpus.display()))?;
    let seeds = folder.join("seeds").join(target);
    let mut folders = vec![corpus];
    if seeds.is_dir() {
        folders.push(seeds);
    }
    Ok(folders)
}

pub(crate) fn run(seconds: u64, only: Option<&str>) -> Result<(), Failure> {
    let mut found = targets()?;
    found.retain(|(_, t)| only.is_none_or(|o| t.contains(o)));
    if found.is_empty() {
        return Err("no fuzz target of that name".into());
    }
    install()?;
    run_all(&found, seconds)
}

fn targets() -> Result<Vec<(PathBuf, String)>, Failure> {
    let crates = root().join("crates");
    let mut found = Vec::new();
    for entry in fs::read_dir(&crates)
        .map_err(|e| format!("{}: {e}", crates.display()))?
        .flatten()
    {
        let folder = entry.path().join("fuzz");
        let Ok(entries) = fs::read_dir(folder.join("fuzz_targets")) else {
            continue;
        };
        for target in entries.flatten() {
            if let Some(name) = target.path().file_stem().and_then(|s| s.to_str()) {
                found.push((folder.clone(), name.to_owned()));
            }
        }
    }
    found.sort();
    Ok(found)
}

fn install() -> Result<(), Failure> {
    let there = cargo()
        .args(["fuzz", "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|s| s.success());
    if there {
        return Ok(());
    }
    say("cargo-fuzz is not installed; installing it once (some minutes)");
    run_install().map_err(|why| {
        format!("{why}\ncargo-fuzz could not be installed; `cargo install cargo-fuzz --locked` must work first")
    })
}

fn run_install() -> Result<(), Failure> {
    command(cargo().args(["install", "cargo-fuzz", "--locked"]))
}
