//! `cargo xtask interop`: tables of ours before released Java Paimon and pypaimon, and theirs before us.

use crate::process::{Failure, binary, cargo, run, say};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Releases of Java Paimon.
    #[arg(long, value_delimiter = ',', default_value = "1.0.1,1.3.1,1.4.2")]
    release: Vec<String>,
    /// java, pypaimon, paimon-crate or all.
    #[arg(long, default_value = "all")]
    peer: String,
    /// The tidegate binary; built when absent.
    #[arg(long, value_name = "PATH")]
    bin: Option<PathBuf>,
    /// Only tables whose `part/table` holds this text or fits this pattern, for instance 'in turn/*'.
    #[arg(long, value_name = "PATTERN")]
    only: Option<String>,
    /// Also write all cells as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Keep the tables that were made, in this folder.
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Run nothing: print the cells of these JSON files, judged by the expectations as they are now.
    #[arg(long, value_delimiter = ',', value_name = "FILE,…")]
    render: Vec<PathBuf>,
    /// Java 1.4.2 and pypaimon (not the crate, whose build takes minutes), every type in both bucket modes; does nothing, and says why, where the
    /// machine has no JDK 17, mvn or python3.
    #[arg(long)]
    quick: bool,
}

/// The quick comparison, as part of the tests.
pub(crate) fn quick(bin: PathBuf) -> Result<(), Failure> {
    check(&Arguments {
        release: vec!["1.4.2".to_owned()],
        peer: "all".to_owned(),
        bin: Some(bin),
        only: None,
        json: None,
        keep: None,
        render: Vec::new(),
        quick: true,
    })
}

pub(crate) fn check(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.quick
        && let Some(what) = missing()
    {
        say(&format!(
            "interop: SKIPPED, nothing was compared with Java Paimon and pypaimon: {what}"
        ));
        return Ok(());
    }
    let mut command = cargo();
    command.args([
        "run",
        "--quiet",
        "--locked",
        "--package",
        "tidegate-interop",
        "--",
    ]);
    if !arguments.render.is_empty() {
        for path in &arguments.render {
            command.arg("--render").arg(absolute(path)?);
        }
        return run(&mut command);
    }
    let bin = match &arguments.bin {
        Some(path) => absolute(path)?,
        None => binary(false)?,
    };
    command.arg("--bin").arg(bin);
    command.args(["--release", &arguments.release.join(",")]);
    command.args(["--peer", &arguments.peer]);
    if let Some(only) = &arguments.only {
        command.args(["--only", only]);
    }
    for (flag, path) in [("--json", &arguments.json), ("--keep", &arguments.keep)] {
        if let Some(path) = path {
            command.arg(flag).arg(absolute(path)?);
        }
    }
    if arguments.quick {
        command.arg("--quick");
    }
    run(&mut command)
}

/// The harness runs in the workspace's root, wherever it was called.
fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(path).map_err(|e| format!("{}: {e}", path.display()))
}

/// What the peers need and this machine lacks.
fn missing() -> Option<String> {
    match said("javac", "-version") {
        None => return Some("there is no JDK (javac) on PATH; 17 or later is wanted".to_owned()),
        Some(text) if release(&text).is_none_or(|major| major < OLDEST_JDK) => {
            return Some(format!(
                "`{text}` is too old; {OLDEST_JDK} or later is wanted"
            ));
        }
        Some(_) => {}
    }
    let lacking = |program: &&str| said(program, "--version").is_none();
    let program = ["java", "mvn", "python3"].into_iter().find(lacking)?;
    Some(format!("there is no {program} on PATH"))
}

/// What the Java peer is compiled for.
const OLDEST_JDK: u32 = 17;

/// The number in `javac 17.0.15`; `javac 1.8.0` is 1.
fn release(text: &str) -> Option<u32> {
    let number = text.split_whitespace().nth(1)?;
    number.split(['.', '-', '+']).next()?.parse().ok()
}

/// The first line that a program prints about itself; none where it does not run.
fn said(program: &str, flag: &str) -> Option<String> {
    let mut command = Command::new(program);
    let output = command.arg(flag).stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().next().unwrap_or_default().trim().to_owned();
    output.status.success().then_some(line)
}

#[cfg(test)]
mod tests {
    use super::release;

    #[test]
    fn the_major_number_of_a_jdk_is_read_from_what_it_says() {
        for (text, major) in [
            ("javac 17.0.15", Some(17)),
            ("javac 21", Some(21)),
            ("javac 24-ea", Some(24)),
            ("javac 1.8.0_402", Some(1)),
            ("javac", None),
            ("", None),
        ] {
            assert_eq!(release(text), major, "{text}");
        }
    }
}
