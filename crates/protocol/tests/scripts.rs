//! Runs every script of `tests/scripts`, then each with each of its rules switched off.
// Helpers of tests may panic on what the test itself wrote.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout
)]

mod script;

use script::Script;
use std::collections::BTreeSet;
use tidegate_protocol::{Rule, Rules};

fn scripts() -> Vec<Script> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/scripts");
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "txt"))
        .collect();
    paths.sort();
    assert!(!paths.is_empty());
    paths
        .iter()
        .map(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            Script::parse(&name, &std::fs::read_to_string(path).unwrap())
        })
        .collect()
}

#[test]
fn every_script_goes_as_written() {
    let failed: Vec<String> = scripts()
        .iter()
        .filter_map(|s| s.run(Rules::default()).err())
        .collect();
    assert!(failed.is_empty(), "\n{}", failed.join("\n"));
}

#[test]
fn every_script_fails_without_each_of_its_rules() {
    let mut quiet = Vec::new();
    for script in scripts() {
        assert!(!script.rules.is_empty(), "{} names no rule", script.name);
        for rule in &script.rules {
            if script.run(Rules::without(*rule)).is_ok() {
                quiet.push(format!(
                    "{} does not notice that {rule:?} is off",
                    script.name
                ));
            }
        }
    }
    assert!(quiet.is_empty(), "\n{}", quiet.join("\n"));
}

#[test]
fn every_rule_has_a_script() {
    let named: BTreeSet<Rule> = scripts().iter().flat_map(|s| s.rules.clone()).collect();
    let missing: Vec<&Rule> = Rule::ALL.iter().filter(|r| !named.contains(r)).collect();
    assert!(missing.is_empty(), "no script for {missing:?}");
}
