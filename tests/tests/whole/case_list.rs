//! `docs/cases.md` names tests that exist, and every test that bears the number of a case;
//! `docs/guarantees.md` names tests that exist, at least one for each promise.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use tidegate_tests::binary;

/// Names of test functions, and of scripts, in a folder and below.
fn names(at: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(at).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name != "target" && name != "golden" {
            names(&path, found);
        } else if name.ends_with(".rs") {
            let text = fs::read_to_string(&path).unwrap();
            let functions = text.split("fn ").skip(1);
            found.extend(functions.filter_map(|f| Some(f.split(['(', '<']).next()?.to_owned())));
        } else if name.ends_with(".txt") {
            found.insert(name);
        }
    }
}

#[test]
fn the_list_of_cases_names_every_test_that_there_is_and_no_other() {
    let mut there = BTreeSet::new();
    for folder in ["crates", "tests"] {
        names(&binary::root().join(folder), &mut there);
    }
    let list = fs::read_to_string(binary::root().join("docs/cases.md")).unwrap();
    let named: BTreeSet<&str> = list.split('`').skip(1).step_by(2).collect();
    let is_test = |name: &str| {
        let mut letters = name.chars();
        letters.next().is_some_and(|c| "bfB".contains(c))
            && letters.next().is_some_and(|c| c.is_ascii_digit())
            && letters
                .next()
                .is_some_and(|c| c.is_ascii_digit() || c == '_')
            && name.contains(['_', '.'])
    };
    let absent: Vec<&&str> = named
        .iter()
        .filter(|n| is_test(n) || (n.contains('_') && !n.contains(['/', '.', ' ', '*'])))
        .filter(|n| !there.contains(**n) && !n.starts_with("append_") && **n != "commit_growth")
        .collect();
    assert!(
        absent.is_empty(),
        "docs/cases.md names {absent:?}: no such test"
    );
    let unlisted: Vec<&String> = there
        .iter()
        .filter(|n| is_test(n) && !named.contains(n.as_str()))
        .collect();
    assert!(
        unlisted.is_empty(),
        "docs/cases.md does not name {unlisted:?}"
    );
}

#[test]
fn each_promise_names_a_test_that_there_is() {
    let mut there = BTreeSet::new();
    for folder in ["crates", "tests"] {
        names(&binary::root().join(folder), &mut there);
    }
    let page = fs::read_to_string(binary::root().join("docs/guarantees.md")).unwrap();
    let promises = page.lines().filter(|line| {
        line.split('|')
            .nth(1)
            .is_some_and(|n| n.trim().parse::<u32>().is_ok())
    });
    let mut count = 0;
    for promise in promises {
        count += 1;
        let shown = promise.split('|').nth(3).unwrap();
        let tests: Vec<&str> = shown.split('`').skip(1).step_by(2).collect();
        assert!(!tests.is_empty() || shown.contains(".md)"), "{promise}");
        for test in tests {
            assert!(
                there.contains(test),
                "docs/guarantees.md names {test}: no such test"
            );
        }
    }
    assert!(count > 10, "{count} promises found");
}
