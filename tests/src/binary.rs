//! Where the binary under test is.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The workspace's root folder.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .to_path_buf()
}

static BINARY: OnceLock<PathBuf> = OnceLock::new();

/// Names the binary, for whoever built it itself; the first name stays.
pub fn set(path: PathBuf) {
    assert!(path.is_file(), "{}: no such file", path.display());
    let _named_before = BINARY.set(path);
}

/// `$TIDEGATE_BIN`, else the binary of this test's own target folder and profile, built first: a
/// stale binary would be judged otherwise.
pub fn tidegate() -> &'static Path {
    BINARY.get_or_init(|| match std::env::var_os("TIDEGATE_BIN") {
        Some(path) => {
            let path = PathBuf::from(path);
            assert!(
                path.is_file(),
                "TIDEGATE_BIN={}: no such file",
                path.display()
            );
            path
        }
        None => build(),
    })
}

fn build() -> PathBuf {
    // target/<profile>/deps/whole-<hash>
    let me = std::env::current_exe().unwrap();
    let profile = me
        .ancestors()
        .find(|p| p.join("deps").is_dir())
        .unwrap_or_else(|| panic!("{} is in no target folder", me.display()));
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .args([
            "build",
            "--quiet",
            "--locked",
            "--package",
            "tidegate-cli",
            "--target-dir",
        ])
        .arg(profile.parent().unwrap())
        .current_dir(root());
    if profile.ends_with("release") {
        cargo.arg("--release");
    }
    let status = cargo.status().unwrap();
    assert!(status.success(), "building tidegate-cli: {status}");
    profile.join("tidegate")
}
