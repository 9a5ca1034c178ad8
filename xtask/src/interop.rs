//! `cargo xtask interop`: tables of ours before released Java Paimon and pypaimon, and theirs before us.

use crate::process::{Failure, binary, cargo, run, say};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Releases of Java Paimon.
    #[arg(long, value_delimiter = ',', default_value = "1.0.1,1.3.1,1.4.2")]
    release: Vec<String>,
    /// java, pypaimon or all.
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
    /// Release 1.4.2 and pypaimon on a few tables; does nothing, and says so, without mvn.
    #[arg(long)]
    quick: bool,
}

pub(crate) fn check(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.quick && !has("mvn") {
        say("interop: mvn is not installed; nothing was compared");
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

fn has(program: &str) -> bool {
    let mut command = Command::new(program);
    command
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
