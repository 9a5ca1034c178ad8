//! The picture of ARCHITECTURE.md as a test: which crate may use which, what must never be reached,
//! which licences are allowed and which versions may be there twice.
//!
//! Looks at the dependency tree as cargo resolved it, normal dependencies only: what tests use is
//! their own business.
#![allow(
    clippy::indexing_slicing,
    reason = "a key that a JSON value lacks reads as null"
)]

use crate::process::{Failure, cargo, output, say};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Crate, the workspace crates that it may use, and what it must not reach, however deep.
const LAYERS: &[(&str, &[&str], &[&str])] = &[
    ("tidegate-sink", &[], &["*"]),
    (
        "tidegate-model",
        &["tidegate-sink"],
        &[
            "tokio",
            "arrow",
            "parquet",
            "serde",
            "serde_json",
            "object_store",
        ],
    ),
    (
        "tidegate-format",
        &["tidegate-model"],
        &[
            "tokio",
            "arrow",
            "parquet",
            "object_store",
            "tidegate-storage",
        ],
    ),
    ("tidegate-storage", &[], &["arrow", "parquet"]),
    (
        "tidegate-protocol",
        &["tidegate-model"],
        &[
            "tokio",
            "futures",
            "rand",
            "bytes",
            "arrow",
            "serde",
            "object_store",
        ],
    ),
    (
        "tidegate-datafile",
        &["tidegate-model"],
        &["object_store", "tidegate-storage", "tidegate-format"],
    ),
    (
        "tidegate-lsm",
        &["tidegate-model"],
        &["tokio", "futures", "rand", "bytes", "arrow", "object_store"],
    ),
    (
        "tidegate-merge",
        &["tidegate-model"],
        &["tokio", "futures", "parquet", "object_store"],
    ),
    (
        "tidegate-writer",
        &[
            "tidegate-sink",
            "tidegate-model",
            "tidegate-datafile",
            "tidegate-lsm",
            "tidegate-merge",
            "tidegate-storage",
        ],
        &["tidegate-format", "tidegate-protocol", "tidegate-commit"],
    ),
    (
        "tidegate-commit",
        &[
            "tidegate-sink",
            "tidegate-model",
            "tidegate-format",
            "tidegate-protocol",
            "tidegate-storage",
        ],
        &["arrow", "parquet"],
    ),
    (
        "tidegate-recovery",
        &["tidegate-sink", "tidegate-storage"],
        &["arrow", "parquet", "tidegate-model", "tidegate-format"],
    ),
    (
        "tidegate-files",
        &["tidegate-sink", "tidegate-storage"],
        &["tidegate-model", "tidegate-format"],
    ),
    (
        "tidegate-scan",
        &[
            "tidegate-model",
            "tidegate-format",
            "tidegate-storage",
            "tidegate-datafile",
            "tidegate-lsm",
            "tidegate-merge",
        ],
        &["tidegate-protocol", "tidegate-commit", "tidegate-writer"],
    ),
    (
        "tidegate",
        &[
            "tidegate-sink",
            "tidegate-model",
            "tidegate-format",
            "tidegate-protocol",
            "tidegate-storage",
            "tidegate-datafile",
            "tidegate-lsm",
            "tidegate-merge",
            "tidegate-writer",
            "tidegate-commit",
            "tidegate-recovery",
            "tidegate-files",
            "tidegate-scan",
        ],
        &["tidegate-runtime"],
    ),
    (
        "tidegate-runtime",
        &["tidegate-sink", "tidegate-recovery", "tidegate-storage"],
        &[
            "tidegate-model",
            "tidegate-format",
            "tidegate-commit",
            "tidegate",
        ],
    ),
    ("tidegate-allocator", &[], &["tokio", "arrow"]),
    (
        "tidegate-cli",
        &["tidegate-allocator", "tidegate", "tidegate-runtime"],
        &[],
    ),
];

/// Packages of the workspace that are no layer: nothing may depend on them.
const UNLAYERED: &[&str] = &[
    "xtask",
    "tidegate-tests",
    "tidegate-benches",
    "tidegate-test-services",
    "tidegate-fuzz-support",
    "tidegate-interop",
    "tidegate-torture",
    "tidegate-crash-consistency",
    "tidegate-exhaustive",
    "tidegate-simulation",
];

/// Licences that a user may take without asking.
const LICENCES: &[&str] = &[
    "MIT",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Zlib",
    "Unicode-3.0",
    "CC0-1.0",
    "Unlicense",
    "0BSD",
    "BSL-1.0",
    "CDLA-Permissive-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "MIT-0",
];

/// Never twice: their types cross our public interfaces.
const SINGLE: &[&str] = &[
    "arrow",
    "arrow-array",
    "arrow-schema",
    "parquet",
    "object_store",
    "bytes",
    "tokio",
    "serde",
];

struct Package {
    name: String,
    version: String,
    licence: String,
    workspace: bool,
    uses: Vec<String>,
}

pub(crate) fn check() -> Result<(), Failure> {
    let packages = resolved()?;
    let mut faults = Vec::new();
    edges(&packages, &mut faults);
    reaches(&packages, &mut faults);
    licences(&packages, &mut faults);
    duplicates(&packages, &mut faults);
    if faults.is_empty() {
        say(&format!(
            "layers: {} packages, all edges allowed, licences known, no forbidden duplicate",
            packages.len()
        ));
        return Ok(());
    }
    Err(format!(
        "{} fault(s) in the layers:\n  {}",
        faults.len(),
        faults.join("\n  ")
    ))
}

/// Package id to package, over normal dependencies of this platform.
fn resolved() -> Result<BTreeMap<String, Package>, Failure> {
    let host = output(std::process::Command::new("rustc").args(["--print", "host-tuple"]))?;
    let text = output(
        cargo()
            .args([
                "metadata",
                "--format-version",
                "1",
                "--locked",
                "--all-features",
            ])
            .args(["--filter-platform", host.trim()]),
    )?;
    let metadata: Value =
        serde_json::from_str(&text).map_err(|e| format!("cargo metadata: {e}"))?;
    let members: BTreeSet<&str> = array(&metadata["workspace_members"])
        .filter_map(Value::as_str)
        .collect();
    let mut packages = BTreeMap::new();
    for package in array(&metadata["packages"]) {
        let id = text_of(&package["id"])?;
        packages.insert(
            id.to_owned(),
            Package {
                name: text_of(&package["name"])?.to_owned(),
                version: text_of(&package["version"])?.to_owned(),
                licence: package["license"].as_str().unwrap_or("none").to_owned(),
                workspace: members.contains(id),
                uses: Vec::new(),
            },
        );
    }
    for node in array(&metadata["resolve"]["nodes"]) {
        let id = text_of(&node["id"])?;
        let mut uses = Vec::new();
        for dependency in array(&node["deps"]) {
            let normal = array(&dependency["dep_kinds"]).any(|kind| kind["kind"].is_null());
            if normal {
                uses.push(text_of(&dependency["pkg"])?.to_owned());
            }
        }
        if let Some(package) = packages.get_mut(id) {
            package.uses = uses;
        }
    }
    Ok(packages)
}

fn array(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text_of(value: &Value) -> Result<&str, Failure> {
    value
        .as_str()
        .ok_or_else(|| format!("cargo metadata: expected a text, found {value}"))
}

fn edges(packages: &BTreeMap<String, Package>, faults: &mut Vec<String>) {
    for package in packages.values().filter(|p| p.workspace) {
        let name = package.name.as_str();
        let layer = LAYERS.iter().find(|(n, ..)| *n == name);
        if layer.is_none() && !UNLAYERED.contains(&name) {
            faults.push(format!(
                "{name}: no layer; give it one in xtask/src/layers.rs and ARCHITECTURE.md"
            ));
            continue;
        }
        for used in package
            .uses
            .iter()
            .filter_map(|id| packages.get(id))
            .filter(|p| p.workspace)
        {
            if UNLAYERED.contains(&used.name.as_str()) && !UNLAYERED.contains(&name) {
                faults.push(format!("{name} → {}: nothing may depend on it", used.name));
            } else if let Some((_, allowed, _)) = layer
                && !allowed.contains(&used.name.as_str())
            {
                faults.push(format!(
                    "{name} → {}: this edge is not in the picture",
                    used.name
                ));
            }
        }
    }
    for (name, ..) in LAYERS {
        if !packages.values().any(|p| p.workspace && p.name == *name) {
            faults.push(format!("{name}: in the picture, not in the workspace"));
        }
    }
}

fn reaches(packages: &BTreeMap<String, Package>, faults: &mut Vec<String>) {
    for (name, allowed, forbidden) in LAYERS {
        let Some((start, _)) = packages
            .iter()
            .find(|(_, p)| p.workspace && p.name == *name)
        else {
            continue;
        };
        let mut from: BTreeMap<&str, &str> = BTreeMap::new();
        let mut queue = vec![start.as_str()];
        while let Some(id) = queue.pop() {
            for used in packages.get(id).into_iter().flat_map(|p| &p.uses) {
                if !from.contains_key(used.as_str()) {
                    from.insert(used, id);
                    queue.push(used);
                }
            }
        }
        for id in from.keys() {
            let Some(package) = packages.get(*id) else {
                continue;
            };
            let everything = forbidden.contains(&"*") && !allowed.contains(&package.name.as_str());
            if everything || forbidden.contains(&package.name.as_str()) {
                let mut path = vec![package.name.as_str()];
                let mut at = *id;
                while let Some(parent) = from.get(at) {
                    path.push(packages.get(*parent).map_or("?", |p| p.name.as_str()));
                    if *parent == start.as_str() {
                        break;
                    }
                    at = parent;
                }
                path.reverse();
                faults.push(format!(
                    "{name} must not reach {}: {}",
                    package.name,
                    path.join(" → ")
                ));
            }
        }
    }
}

fn licences(packages: &BTreeMap<String, Package>, faults: &mut Vec<String>) {
    for package in packages.values() {
        // `A OR B` needs one that is known, `A AND B` all; `/` is an old way to write OR.
        let known = package
            .licence
            .replace('/', " OR ")
            .split(" OR ")
            .any(|choice| {
                choice
                    .trim_matches(|c| matches!(c, '(' | ')' | ' '))
                    .split(" AND ")
                    .all(|l| LICENCES.contains(&l.trim_matches(|c| matches!(c, '(' | ')' | ' '))))
            });
        if !known {
            faults.push(format!(
                "{} {}: licence `{}` is not on the list",
                package.name, package.version, package.licence
            ));
        }
    }
}

fn duplicates(packages: &BTreeMap<String, Package>, faults: &mut Vec<String>) {
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in packages.values() {
        versions
            .entry(&package.name)
            .or_default()
            .push(&package.version);
    }
    for (name, versions) in versions.iter().filter(|(_, v)| v.len() > 1) {
        if SINGLE.contains(name) {
            faults.push(format!(
                "{name} is there in versions {}",
                versions.join(", ")
            ));
        }
    }
}
