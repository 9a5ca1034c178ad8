//! `cargo xtask interop`: tables of ours before released Java Paimon and pypaimon, and theirs before us.

use crate::process::{Failure, binary, cargo, run, say};
use std::path::PathBuf;
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
    /// Release 1.4.2 and pypaimon on a few tables; does nothing, and says so, without mvn.
    #[arg(long)]
    quick: bool,
}

pub(crate) fn check(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.quick && !has("mvn") {
        say("interop: mvn is not installed; nothing was compared");
        return Ok(());
    }
    let bin = match &arguments.bin {
        Some(path) => std::path::absolute(path).map_err(|e| format!("{}: {e}", path.display()))?,
        None => binary(false)?,
    };
    let mut command = cargo();
    command.args(["run", "--quiet", "--locked", "--package", "tidegate-interop", "--"]);
    command.arg("--bin").arg(bin);
    command.args(["--release", &arguments.release.join(","), "--peer", &arguments.peer]);
    if let Some(only) = &arguments.only {
        command.args(["--only", only]);
    }
    for (flag, path) in [("--json", &arguments.json), ("--keep", &arguments.keep)] {
        if let Some(path) = path {
            let path = std::path::absolute(path).map_err(|e| format!("{}: {e}", path.display()))?;
            command.arg(flag).arg(path);
        }
    }
    if arguments.quick {
        command.arg("--quick");
    }
    run(&mut command)
}

fn has(program: &str) -> bool {
    let mut command = Command::new(program);
    command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
