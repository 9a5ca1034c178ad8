//! Running other programs and talking to the person at the terminal.

use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A failed chore, in words.
pub(crate) type Failure = String;

/// The workspace's root folder.
pub(crate) fn root() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.parent().map_or(here.clone(), PathBuf::from)
}

/// One line for a person, on stderr.
#[expect(clippy::print_stderr, reason = "a chore talks to its user")]
pub(crate) fn say(line: &str) {
    eprintln!("{line}");
}

/// Runs a command in the workspace's root, its output passed through.
pub(crate) fn run(command: &mut Command) -> Result<(), Failure> {
    let shown = shown(command);
    say(&format!("$ {shown}"));
    let status = command
        .current_dir(root())
        .status()
        .map_err(|e| format!("cannot start `{shown}`: {e}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("`{shown}` ended with {status}"))
    }
}

/// Runs a command and returns what it printed.
pub(crate) fn output(command: &mut Command) -> Result<String, Failure> {
    let shown = shown(command);
    let output = command
        .current_dir(root())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|e| format!("cannot start `{shown}`: {e}"))?;
    if !output.status.success() {
        return Err(format!("`{shown}` ended with {}", output.status));
    }
    String::from_utf8(output.stdout).map_err(|e| format!("`{shown}` printed no UTF-8: {e}"))
}

/// Cargo itself, as it was called.
pub(crate) fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Where cargo puts what it builds.
pub(crate) fn target_directory() -> Result<PathBuf, Failure> {
    let text = output(cargo().args(["metadata", "--format-version", "1", "--no-deps"]))?;
    let metadata: serde_json::Value =
        serde_json::from_str(&text).map_err(|e| format!("cargo metadata: {e}"))?;
    let path = metadata
        .get("target_directory")
        .and_then(serde_json::Value::as_str);
    path.map(PathBuf::from)
        .ok_or_else(|| "cargo metadata names no target directory".to_owned())
}

/// Builds the command line and says where it is.
pub(crate) fn binary(release: bool) -> Result<PathBuf, Failure> {
    let mut build = cargo();
    build.args(["build", "--locked", "--package", "tidegate-cli"]);
    if release {
        build.arg("--release");
    }
    run(&mut build)?;
    let profile = if release { "release" } else { "debug" };
    Ok(target_directory()?.join(profile).join("tidegate"))
}

fn shown(command: &Command) -> String {
    let mut text = command.get_program().to_string_lossy().into_owned();
    for argument in command.get_args() {
        text.push(' ');
        text.push_str(&argument.to_string_lossy());
    }
    text
}
