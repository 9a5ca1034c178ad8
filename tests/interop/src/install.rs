//! What the peers need, from Maven Central and PyPI, into the cache folder.

use crate::peer::{Kind, Peer};
use crate::say;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What is installed beside pypaimon.
const PYTHON_PACKAGES: &[&str] = &["pypaimon==2.1.0", "pyarrow==19.0.1"];

/// This crate's folder.
pub fn here() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// `$TIDEGATE_CACHE`, `$XDG_CACHE_HOME/tidegate` or `~/.cache/tidegate`, and there `interop`.
///
/// # Errors
/// Where there is no such folder and none can be made.
pub fn cache() -> Result<PathBuf, String> {
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
pub enum Trouble {
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

/// What to install and start.
#[derive(Clone, Debug)]
pub struct Wanted<'a> {
    /// Releases of Java Paimon.
    pub java: Vec<&'a str>,
    /// pypaimon.
    pub pypaimon: bool,
    /// The `paimon` crate.
    pub paimon_crate: bool,
}

/// Installs and starts peers; all kinds at once.
///
/// # Errors
/// Where one cannot be installed or does not start.
pub fn peers(wanted: &Wanted<'_>) -> Result<Vec<Peer>, Trouble> {
    type Install = fn() -> Result<Command, Trouble>;
    let others: [(bool, Kind, &str, Install); 2] = [
        (wanted.pypaimon, Kind::Pypaimon, "pypaimon", pypaimon),
        (
            wanted.paimon_crate,
            Kind::PaimonCrate,
            "the `paimon` crate",
            paimon_crate,
        ),
    ];
    std::thread::scope(|scope| {
        let others = others.into_iter().filter(|(wanted, ..)| *wanted);
        let installing: Vec<_> = others
            .map(|(_, kind, name, install)| (kind, name, scope.spawn(install)))
            .collect();
        let mut peers = Vec::new();
        // One after the other: Maven's local repository is not made for two writers.
        for release in &wanted.java {
            say(&format!("installing Java Paimon {release}"));
            let kind = Kind::Java((*release).to_owned());
            peers.push(Peer::start(kind, java(release)?)?);
        }
        for (kind, name, installing) in installing {
            say(&format!("installing {name}"));
            let command = installing.join();
            let command = command.map_err(|_| format!("installing {name} panicked"))??;
            peers.push(Peer::start(kind, command)?);
        }
        Ok(peers)
    })
}

/// Builds a Java peer of a release, at once if it is built already; what starts it.
///
/// # Errors
/// Where it cannot be had or does not compile.
pub fn java(release: &str) -> Result<Command, Trouble> {
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
    Ok(command)
}

/// Fetches the S3 file system of a release of Java Paimon; what starts that release with it.
///
/// # Errors
/// As [`java`].
pub fn java_on_s3(release: &str) -> Result<Command, Trouble> {
    let command = java(release)?;
    let _installing = locked("java")?;
    let extra = cache()?.join(format!("java-{release}/extra"));
    let jar = format!("paimon-s3-{release}.jar");
    if !extra.join(&jar).exists() {
        std::fs::create_dir_all(&extra).map_err(|e| format!("{}: {e}", extra.display()))?;
        let artifact = format!("-Dartifact=org.apache.paimon:paimon-s3:{release}");
        let copied = run(Command::new("mvn")
            .args(["-B", "-q", "-Dstyle.color=never", "dependency:copy"])
            .arg(artifact)
            .arg(format!("-DoutputDirectory={}", extra.display())));
        copied.map_err(|trouble| match trouble {
            Trouble::Other(why) | Trouble::Registry(why) => Trouble::Registry(why),
        })?;
    }
    Ok(command)
}

/// Makes the Python environment, once; what starts pypaimon in it.
///
/// # Errors
/// Where a package cannot be had.
pub fn pypaimon() -> Result<Command, Trouble> {
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
    Ok(command)
}

/// Builds the peer on the `paimon` crate, at once if it is built already; what starts it.
///
/// # Errors
/// Where a crate cannot be had, or it does not compile.
pub fn paimon_crate() -> Result<Command, Trouble> {
    let _installing = locked("paimon-crate")?;
    let folder = cache()?.join("paimon-crate");
    let program = folder.join("paimon-crate");
    let stamp = folder.join("sources");
    let wanted = sources(&here().join("paimon-crate"))?;
    let known = std::fs::read_to_string(&stamp).unwrap_or_default() == wanted;
    if !known || !program.is_file() {
        say("building the peer on the `paimon` crate: some minutes, once");
        let target = folder.join("target");
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let here = here().join("paimon-crate");
        let fetched = run(Command::new(&cargo)
            .args(["fetch", "--locked"])
            .current_dir(&here));
        fetched.map_err(|trouble| match trouble {
            Trouble::Other(why) | Trouble::Registry(why) => Trouble::Registry(why),
        })?;
        run(Command::new(&cargo)
            .args(["build", "--quiet", "--locked", "--target-dir"])
            .arg(&target)
            .current_dir(&here))?;
        let wrong = |e: std::io::Error| format!("{}: {e}", program.display());
        std::fs::copy(target.join("debug/paimon-crate"), &program).map_err(wrong)?;
        // Some gigabytes that nobody needs again.
        std::fs::remove_dir_all(&target).map_err(wrong)?;
        std::fs::write(&stamp, &wanted).map_err(wrong)?;
    }
    Ok(Command::new(program))
}

/// All that a build depends on, as one text.
fn sources(folder: &Path) -> Result<String, String> {
    let wrong = |e: std::io::Error| format!("{}: {e}", folder.display());
    let listed = std::fs::read_dir(folder.join("src")).map_err(wrong)?;
    let mut files: Vec<PathBuf> = listed.flatten().map(|entry| entry.path()).collect();
    files.extend(["Cargo.toml", "Cargo.lock", "build.rs"].map(|name| folder.join(name)));
    files.sort();
    let texts = files.iter().map(std::fs::read_to_string);
    let texts: Result<Vec<String>, std::io::Error> = texts.collect();
    Ok(texts.map_err(wrong)?.concat())
}
