//! Every example program of every crate, run as a user would run it, and what it must print.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use tidegate_tests::binary;
use tidegate_tests::lab::{Generator, Lab};

/// The crates that have examples, and their programs; a program that is not here fails the test of that.
const PROGRAMS: &[(&str, &str)] = &[
    ("commit", "own_engine"),
    ("commit", "publish_messages"),
    ("format", "what_is_in_this_snapshot"),
    ("merge", "merge_runs"),
    ("protocol", "decide"),
    ("storage", "check_store"),
    ("storage", "one_winner"),
    ("tidegate", "reading"),
    ("tidegate", "whole_thing"),
    ("tidegate", "your_own_engine"),
    ("writer", "many_partitions"),
    ("writer", "throughput"),
];

/// Where the programs are; built first, all packages at once as `cargo xtask test` has done already.
fn folder() -> &'static PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let me = std::env::current_exe().unwrap();
        let profile = me.ancestors().find(|p| p.join("deps").is_dir()).unwrap();
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo
            .args(["build", "--quiet", "--locked", "--examples", "--workspace"])
            .args(["--exclude", "tidegate-benches", "--target-dir"])
            .arg(profile.parent().unwrap())
            .current_dir(binary::root());
        if profile.ends_with("release") {
            cargo.arg("--release");
        }
        let status = cargo.status().unwrap();
        assert!(status.success(), "building the examples: {status}");
        profile.join("examples")
    })
}

/// What a program prints; fails where the program does.
fn run(name: &str, arguments: &[&str], input: &str) -> String {
    let mut child = Command::new(folder().join(name))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|e| panic!("{name}: {e}"));
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    let done = child.wait_with_output().unwrap();
    let text = String::from_utf8(done.stdout).unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(
        done.status.success(),
        "{name}: {}\n{text}{said}",
        done.status
    );
    text
}

#[track_caller]
fn assert_lines(text: &str, wanted: &[&str]) {
    assert_eq!(text.lines().collect::<Vec<_>>(), wanted, "\n{text}");
}

#[test]
fn every_program_is_run_here() {
    let mut found = BTreeSet::new();
    for krate in fs::read_dir(binary::root().join("crates")).unwrap() {
        let krate = krate.unwrap();
        let Ok(programs) = fs::read_dir(krate.path().join("examples")) else {
            continue;
        };
        for program in programs {
            let file = program.unwrap().path();
            let name = file.file_stem().unwrap().to_string_lossy().into_owned();
            found.insert((krate.file_name().to_string_lossy().into_owned(), name));
        }
    }
    let known = PROGRAMS
        .iter()
        .map(|(krate, name)| ((*krate).to_owned(), (*name).to_owned()));
    assert_eq!(found, known.collect());
    let here = include_str!("examples.rs");
    for (_, name) in PROGRAMS {
        assert!(
            here.contains(&format!("run(\"{name}\"")),
            "{name} is not run"
        );
    }
}

#[test]
fn formats_what_does_this_snapshot_hold() {
    // Java's table, and one of ours.
    let text = run("what_is_in_this_snapshot", &[], "");
    assert!(text.starts_with("snapshot "), "{text}");
    assert!(text.contains("Date("), "partitions by their values: {text}");
    let lab = Lab::new();
    lab.generator(&Generator {
        rows: Some(30),
        partition_by: "dt",
        ..Generator::default()
    });
    lab.run(&[]).expect(0);
    let table = lab.table_dir().display().to_string();
    let text = run("what_is_in_this_snapshot", &[&table, "1"], "");
    assert!(
        text.starts_with("snapshot 1: APPEND by ") && text.contains(", commit 1, 30 rows in all\n"),
        "{text}"
    );
    assert_eq!(text.matches("  + data-").count(), 2, "{text}");
    assert!(
        text.contains("[Some(String(\"2024-01-01\"))] bucket 0: "),
        "{text}"
    );
}

#[test]
fn storage_exactly_one_winner() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path().to_str().unwrap();
    let text = run("one_winner", &[place], "");
    assert!(
        text.starts_with("writer ") && text.contains(" won on /"),
        "{text}"
    );
    let text = run("check_store", &[place], "");
    assert!(text.ends_with("  can be read and written\n"), "{text}");
}

#[test]
fn protocol_decides_without_doing() {
    assert_lines(
        &run("decide", &[], ""),
        &[
            "checkpoint 1: Published, 1 snapshots, 100 rows",
            "checkpoint 2, its answer lost: Published, 2 snapshots, 200 rows",
            "checkpoint 2, offered again: AlreadyPublished, 2 snapshots, 200 rows",
            "other rows as checkpoint 2: Fenced, 2 snapshots, 200 rows",
        ],
    );
}

#[test]
fn commit_settles_what_was_saved() {
    let text = run("own_engine", &[], "");
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[1].starts_with("Published("), "{text}");
    assert!(lines[2].starts_with("AlreadyPublished("), "{text}");
    assert!(lines[3].starts_with("go on from "), "{text}");
}

#[test]
fn commit_publishes_messages_of_java() {
    let golden = binary::root().join("tests/golden");
    let vectors = fs::read_to_string(golden.join("vectors/committables.json")).unwrap();
    let vectors: serde_json::Value = serde_json::from_str(&vectors).unwrap();
    let vector = &vectors[0];
    assert_eq!(vector["name"], "append_types_nullable_parquet");
    let message = vector["serialized"]["messages"][0].as_str().unwrap();
    let version = vector["serialized"]["messageVersion"].to_string();
    // The table as it was before Java's first commit.
    let place = tempfile::tempdir().unwrap();
    let table = place.path().join("t");
    fs::create_dir_all(table.join("schema")).unwrap();
    let made =
        "tables/append_types_nullable_parquet/warehouse/golden.db/append_types_nullable_parquet";
    fs::copy(
        golden.join(made).join("schema/schema-0"),
        table.join("schema/schema-0"),
    )
    .unwrap();
    let decoded = Command::new("bash")
        .args([
            "-c",
            "base64 -d <<< \"$0\" | od -An -v -tx1 | tr -d ' \\n'",
            message,
        ])
        .output()
        .unwrap();
    let hex = String::from_utf8(decoded.stdout).unwrap();
    let url = table.display().to_string();
    let text = run("publish_messages", &[&url, "java", "1", &version], &hex);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("Published("), "{text}");
    assert!(lines[1].starts_with("AlreadyPublished("), "{text}");
    let snapshot = fs::read_to_string(table.join("snapshot/snapshot-1")).unwrap();
    let snapshot: serde_json::Value = serde_json::from_str(&snapshot).unwrap();
    assert_eq!(
        snapshot["totalRecordCount"],
        vector["decoded"]["messages"][0]["newFiles"][0]["rowCount"]
    );
    assert!(!table.join("snapshot/snapshot-2").exists());
}

#[test]
fn your_own_engine_loses_and_doubles_nothing() {
    let text = run("your_own_engine", &[], "");
    let lines: Vec<&str> = text.lines().collect();
    let last = lines.last().unwrap();
    assert_eq!(*last, "4000 rows in 4 snapshots", "\n{text}");
    assert!(
        text.contains("epoch 3: 1 committables saved, 1 published now, 0 found published"),
        "{text}"
    );
}

#[test]
fn the_whole_thing_goes_on_where_it_was() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path().to_str().unwrap();
    for (epoch, from, rows) in [(1, 0, 10_000), (2, 10_000, 20_000)] {
        let text = run("whole_thing", &[place], "");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[0],
            format!("epoch {epoch}, from row {from}"),
            "\n{text}"
        );
        let last = lines.last().unwrap();
        assert_eq!(*last, format!("{rows} rows in the table"), "\n{text}");
    }
}

#[test]
fn reading_a_snapshot_and_columns() {
    let text = run("reading", &[], "");
    assert!(
        text.starts_with("200 rows in 2 files\n"),
        "snapshot 2 of 3: {text}"
    );
    let lab = Lab::new();
    lab.generator(&Generator {
        rows: Some(30),
        partition_by: "dt",
        ..Generator::default()
    });
    lab.run(&[]).expect(0);
    let table = lab.table_dir().display().to_string();
    let text = run("reading", &[&table, "1", "name", "dt"], "");
    assert!(text.starts_with("30 rows in 2 files\n"), "{text}");
    assert!(text.contains(" rows of [\"name\", \"dt\"]"), "{text}");
}

#[test]
fn runs_of_a_keyed_table_merge_to_one_row_per_key() {
    let text = run("merge_runs", &["900"], "");
    assert!(
        text.contains("deduplicate: 4500 rows of 5 runs to 2700 keys in "),
        "{text}"
    );
    assert!(
        text.contains(
            "aggregation (sum, last_non_null_value): 4500 rows sorted in a buffer to 2700 keys"
        ),
        "{text}"
    );
}

#[test]
fn writers_of_many_partitions_and_of_many_rows() {
    // MiB of budget, partitions, budgets of data.
    let text = run("many_partitions", &["8", "50", "1"], "");
    assert!(
        text.contains(" 50 partitions") && text.contains("50 files of "),
        "{text}"
    );
    let text = run("throughput", &["1000", "1"], "");
    for case in ["unpartitioned", "16 buckets", "100 partitions"] {
        assert!(text.contains(&format!("{case}: CPU ")), "{text}");
    }
}
