//! What the fuzz targets run, and `cargo test` on their seeds. No part of the program.
//!
//! The targets take this module and `config` in as they are: a program has no library to link.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "checks report by a panic"
)]

use crate::config::{job, nearest, reader};
use std::path::Path;

fn environment(name: &str) -> Option<String> {
    (name.len() < 3).then(|| format!("[{name}]"))
}

fn load(text: &str, sets: &[String]) {
    match job::from_text("job.yaml", text, Path::new("/jobs"), sets, &environment) {
        Ok(config) => {
            let secret = |path: &str| path.contains("secret") || path.contains("password");
            for value in config.effective {
                assert!(
                    !secret(&value.path) || value.value == "******",
                    "{}",
                    value.path
                );
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// A job file in either style of YAML: a job, or an error that says where.
pub(crate) fn job_file(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        load(text, &[]);
    }
}

/// Lines as `--set` arguments over a job that is right.
pub(crate) fn job_sets(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let sets: Vec<String> = text.lines().map(str::to_owned).collect();
    load(
        "name: a\nsource: { type: files, path: in/*.csv }\nsink:\n  warehouse: w\n  table: d.t\n           store: { s3.secret-key: \"${A}\" }\n  columns: { id: BIGINT, dt: STRING }\n",
        &sets,
    );
}

/// Words that stand for durations, numbers, names of tables.
pub(crate) fn arguments(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let _ = (
        reader::duration(text),
        reader::boolean(text),
        reader::whole(1)(text),
    );
    if let Ok((database, table)) = job::split_table(text) {
        assert_eq!(format!("{database}.{table}"), text);
        assert!(!database.is_empty() && !table.is_empty());
    }
    let known = ["interval", "interval-of", "retain", "é"];
    if let Some(found) = nearest(text, known.iter().copied()) {
        assert!(known.contains(&found));
    }
}

#[cfg(test)]
tidegate_fuzz_support::seeds!(
    uncounted job_file: plain,
    job_sets: plain,
    arguments: plain,
);
