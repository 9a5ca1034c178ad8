//! `cargo xtask golden`: golden data is as it was recorded, and decodes.

use crate::process::{Failure, cargo, root, run, say};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// Path and size of every golden file, one a line.
const SIZES: &str = "tests/golden/sizes.txt";

/// Crates whose tests read golden data.
const READERS: &[&str] = &["model", "format", "datafile", "scan", "commit", "recovery"];

pub(crate) fn check(record: bool) -> Result<(), Failure> {
    let mut found = BTreeMap::new();
    let golden = root().join("tests/golden");
    walk(&golden, &golden, &mut found)?;
    let list = root().join(SIZES);
    if record {
        let mut text = String::new();
        for (path, size) in &found {
            let _written = writeln!(text, "{size} {path}");
        }
        fs::write(&list, text).map_err(|e| format!("{SIZES}: {e}"))?;
        say(&format!("{SIZES}: {} files", found.len()));
        return Ok(());
    }
    sizes(&found)?;
    let mut tests = cargo();
    tests.args(["test", "--tests"]);
    for reader in READERS {
        tests.args(["--package", &format!("tidegate-{reader}")]);
    }
    run(&mut tests)?;
    say(&format!(
        "golden: {} files as recorded, decoded by {}",
        found.len(),
        READERS.join(", ")
    ));
    Ok(())
}

/// Compares with the list, without building anything.
pub(crate) fn check_sizes() -> Result<(), Failure> {
    let mut found = BTreeMap::new();
    let golden = root().join("tests/golden");
    walk(&golden, &golden, &mut found)?;
    sizes(&found)?;
    say(&format!("golden: {} files as recorded", found.len()));
    Ok(())
}

fn sizes(found: &BTreeMap<String, u64>) -> Result<(), Failure> {
    let text = fs::read_to_string(root().join(SIZES)).map_err(|e| format!("{SIZES}: {e}"))?;
    let mut recorded = BTreeMap::new();
    for line in text.lines() {
        let entry = line
            .split_once(' ')
            .and_then(|(size, path)| Some((path.to_owned(), size.parse().ok()?)));
        let (path, size): (String, u64) =
            entry.ok_or_else(|| format!("{SIZES}: `{line}`: expected SIZE PATH"))?;
        recorded.insert(path, size);
    }
    let mut faults = Vec::new();
    for (path, size) in &recorded {
        match found.get(path) {
            None => faults.push(format!("{path}: gone")),
            Some(other) if other != size => {
                faults.push(format!("{path}: {other} bytes, recorded {size}"))
            }
            Some(_) => {}
        }
    }
    faults.extend(
        found
            .keys()
            .filter(|p| !recorded.contains_key(*p))
            .map(|p| format!("{p}: not recorded")),
    );
    if faults.is_empty() {
        return Ok(());
    }
    Err(format!(
        "golden data changed; if on purpose, `cargo xtask golden --record`:\n  {}",
        faults.join("\n  ")
    ))
}

fn walk(top: &Path, at: &Path, found: &mut BTreeMap<String, u64>) -> Result<(), Failure> {
    let wrong = |e: std::io::Error| format!("{}: {e}", at.display());
    for entry in fs::read_dir(at).map_err(wrong)? {
        let path = entry.map_err(wrong)?.path();
        if path.is_dir() {
            walk(top, &path, found)?;
            continue;
        }
        let name = path
            .strip_prefix(top)
            .unwrap_or(&path)
            .to_string_lossy()
            .into_owned();
        if name != "sizes.txt" && name != "README.md" {
            found.insert(name, fs::metadata(&path).map_err(wrong)?.len());
        }
    }
    Ok(())
}
