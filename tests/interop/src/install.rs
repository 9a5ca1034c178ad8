//! What the peers need, from Maven Central and PyPI, into the cache folder.

use crate::harness::say;
use crate::peer::{Kind, Peer};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What is installed beside pypaimon.
const PYTHON_PACKAGES: &[&str] = &["pypaimon==2.1.0", "pyarrow==19.0.1"];

/// This crate's folder.
pub(crate) fn here() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// `$TIDEGATE_CACHE`, `$XDG_CACHE_HOME/tidegate` or `~/.cache/tidegate`, and there `interop`.
pub(crate) fn cache() -> Result<PathBuf, String> {
    let var = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let base = var("TIDEGATE_CACHE")
        .or_else(|| var("XDG_CACHE_HOME").map(|c| c.join("tidegate")))
        .or_else(|| var("HOME").map(|h| h.join(".cache/tidegate")))
        .ok_or("neither TIDEGATE_CACHE nor HOME is set: there is no folder for the peers")?;
    let folder = base.join("interop");
    std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    Ok(folder)
}

/// One installation of a kind at a time; the lock goes with the value.
fn locked(kind: &str) -> Result<File, String> {
    let path = cache()?.join(format!("lock-{kind}"));
    let wrong = |e: std::io::Error| format!("{}: {e}", path.display());
    let file = File::create(&path).map_err(wrong)?;
    file.lock().map_err(wrong)?;
    Ok(file)
}

/// Why a peer is not there.
pub(crate) enum Trouble {
    /// A registry was out of reach: that says nothing of anybody's tables.
    Registry(String),
    /// Whatever else: to be repaired.
    Other(String),
}

impl From<String> for Trouble {
    fn from(why: String) -> Self {
        Self::Other(why)
    }
}

/// What `build.sh` ends with where Maven could not fetch something.
const UNAVAILABLE: i32 = 69;

fn run(command: &mut Command) -> Result<(), Trouble> {
    let shown = format!("{command:?}");
    let output = command
        .output()
        .map_err(|e| format!("cannot start {shown}: {e}"))?;
    if output.status.success() {
        return Ok(());
    }
    let tail = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let lines: Vec<&str> = text.lines().collect();
        lines
            .iter()
            .skip(lines.len().saturating_sub(15))
            .copied()
            .collect::<Vec<_>>()
            .join("\n")
    };
    let why = format!(
        "{shown} ended with {}\n{}\n{}",
        output.status,
        tail(&output.stdout),
        tail(&output.stderr)
    );
    Err(match output.status.code() {
        Some(UNAVAILABLE) => Trouble::Registry(why),
        _ => Trouble::Other(why),
    })
}

/// Installs and starts these releases of Java Paimon and, if asked for, pypaimon; both kinds at once.
pub(crate) fn peers(releases: &[&str], python: bool) -> Result<Vec<Peer>, Trouble> {
    std::thread::scope(|scope| {
        let python = python.then(|| scope.spawn(pypaimon));
        let mut peers = Vec::new();
        // One after the other: Maven's local repository is not made for two writers.
        for release in releases {
            say(&format!("installing Java Paimon {release}"));
            peers.push(java(release)?);
        }
        if let Some(python) = python {
            say("installing pypaimon");
            let started = python.join();
            peers.push(started.map_err(|_| "installing pypaimon panicked".to_owned())??);
        }
        Ok(peers)
    })
}

/// Builds a Java peer of a release (at once if it is built already) and starts it.
fn java(release: &str) -> Result<Peer, Trouble> {
    let _installing = locked("java")?;
    let out = cache()?.join(format!("java-{release}"));
    run(Command::new("sh")
        .arg(here().join("java/build.sh"))
        .arg(&out)
        .arg(release))?;
    let mut command = Command::new(out.join("oracle"));
    command.arg("serve");
    if std::env::var_os("ORACLE_JAVA_OPTS").is_none() {
        // So many small tables: the optimising compiler costs a third more than it brings.
        command.env("ORACLE_JAVA_OPTS", "-XX:TieredStopAtLevel=1");
    }
    Ok(Peer::start(Kind::Java(release.to_owned()), command)?)
}

/// Makes the Python environment (once) and starts pypaimon in it.
fn pypaimon() -> Result<Peer, Trouble> {
    let _installing = locked("python")?;
    let folder = cache()?.join("venv");
    let python = folder.join("bin/python");
    let stamp = folder.join("interop-packages");
    let wanted = PYTHON_PACKAGES.join(" ");
    let known = |stamp: &Path| std::fs::read_to_string(stamp).unwrap_or_default() == wanted;
    if !known(&stamp) {
        run(Command::new("python3").arg("-m").arg("venv").arg(&folder))?;
        let packages = run(Command::new(&python)
            .args([
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
                "--no-compile",
            ])
            .args(PYTHON_PACKAGES));
        // The versions are fixed, so what fails is fetching them.
        packages.map_err(|trouble| match trouble {
            Trouble::Other(why) | Trouble::Registry(why) => Trouble::Registry(why),
        })?;
        std::fs::write(&stamp, &wanted).map_err(|e| format!("{}: {e}", stamp.display()))?;
    }
    let mut command = Command::new(python);
    command
        .arg(here().join("pypaimon/server.py"))
        .env("TZ", "UTC");
    Ok(Peer::start(Kind::Pypaimon, command)?)
}
