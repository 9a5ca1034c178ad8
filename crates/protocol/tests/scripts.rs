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

/// Rules of the list: those of section 2 of the write protocol, and of ARCHITECTURE.md.
fn demanded() -> Vec<String> {
    let ranges = [(1, 5), (10, 14), (20, 51), (52, 55), (60, 65), (70, 73)];
    let numbers = ranges.iter().flat_map(|(from, to)| *from..=*to);
    let mut all: Vec<String> = numbers.map(|n| format!("[C-{n}]")).collect();
    all.push("[C-51a]".to_owned());
    all.extend((1..=18).map(|n| format!("[R-{n}]")));
    all
}

/// The rules that a script's comments cite; `[C-27j]` is a part of `[C-27]`.
fn cited(text: &str) -> BTreeSet<String> {
    let comments = text.lines().filter(|l| l.starts_with('#'));
    let tags = comments.flat_map(|line| line.split('[').skip(1));
    let tags = tags.filter_map(|rest| rest.split_once(']').map(|(tag, _)| tag));
    let tags = tags.filter(|tag| tag.starts_with("C-") || tag.starts_with("R-"));
    tags.map(|tag| match tag {
        "C-51a" => "[C-51a]".to_owned(),
        _ => format!("[{}]", tag.trim_end_matches(char::is_lowercase)),
    })
    .collect()
}

#[test]
fn every_rule_of_the_sheets_is_shown_by_what_the_list_names() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/scripts");
    let list = std::fs::read_to_string(format!("{folder}/RULES.md")).unwrap();
    let mut wrong = Vec::new();
    let mut listed = BTreeSet::new();
    let mut pairs = BTreeSet::new();
    for row in list.lines().filter_map(|l| l.strip_prefix("- ")) {
        let (rule, rest) = row.split_once(' ').unwrap();
        listed.insert(rule.to_owned());
        if rest.starts_with("does not apply: ") {
            continue;
        }
        for shown in rest.split_whitespace() {
            let Some((file, test)) = shown.split_once("::") else {
                match std::fs::read_to_string(format!("{folder}/{shown}")) {
                    Ok(text) if cited(&text).contains(rule) => {}
                    Ok(_) => wrong.push(format!("{shown} does not speak of {rule}")),
                    Err(_) => wrong.push(format!("{rule}: there is no {shown}")),
                }
                pairs.insert((rule.to_owned(), shown.to_owned()));
                continue;
            };
            // The other crates are not there where this one was unpacked alone.
            let Ok(text) = std::fs::read_to_string(format!("{root}/{file}")) else {
                if std::path::Path::new(root).join("ARCHITECTURE.md").exists() {
                    wrong.push(format!("{rule}: there is no {file}"));
                }
                continue;
            };
            if !text.contains(&format!("fn {test}(")) {
                wrong.push(format!("{rule}: {file} has no test {test}"));
            }
        }
    }
    wrong.extend(
        demanded()
            .into_iter()
            .filter(|rule| !listed.contains(rule))
            .map(|rule| format!("{rule} is not in the list")),
    );
    // The scripts named after a rule are in its row, so that the list cannot fall behind.
    for script in scripts() {
        let text = std::fs::read_to_string(format!("{folder}/{}", script.name)).unwrap();
        let first = cited(text.lines().next().unwrap_or_default());
        for rule in first {
            if !pairs.contains(&(rule.clone(), script.name.clone())) {
                wrong.push(format!(
                    "{}: the row of {rule} does not name it",
                    script.name
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
