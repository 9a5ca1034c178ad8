//! pypaimon's word on a table: an implementation of the format that shares nothing with ours.

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// What pypaimon read.
#[derive(Debug)]
pub struct Reading {
    /// The `id` column of the newest snapshot, sorted.
    pub ids: Vec<i64>,
    /// Rows of the snapshots that were read: all of a short history.
    pub rows: BTreeMap<i64, i64>,
    /// Snapshots in all.
    pub snapshots: usize,
}

/// A Python with pypaimon, installed on first use; `$TIDEGATE_PYPAIMON` where it is set.
fn python() -> &'static Path {
    static PYTHON: OnceLock<PathBuf> = OnceLock::new();
    PYTHON.get_or_init(|| match std::env::var_os("TIDEGATE_PYPAIMON") {
        Some(path) => path.into(),
        None => tidegate_test_services::install_pypaimon().unwrap(),
    })
}

/// Reads a table's folder.
#[track_caller]
pub fn pypaimon(table: &Path) -> Reading {
    let output = Command::new(python())
        .args(["-c", include_str!("outside.py")])
        .arg(table)
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "pypaimon cannot read {}:\n{error}",
        table.display()
    );
    // The program prints its document last; libraries may have said something before.
    let text = String::from_utf8(output.stdout).unwrap();
    let found: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    let ids = found["ids"].as_array().unwrap();
    let rows = found["rows"].as_object().unwrap();
    Reading {
        ids: ids.iter().map(|id| id.as_i64().unwrap()).collect(),
        rows: rows
            .iter()
            .map(|(id, rows)| (id.parse().unwrap(), rows.as_i64().unwrap()))
            .collect(),
        snapshots: usize::try_from(found["snapshots"].as_u64().unwrap()).unwrap(),
    }
}
