//! Keyed tables that Java wrote, read by the real binary: rows, views, versions, conditions, changes.

use serde_json::Value;
use std::fs;
use std::path::Path;
use tidegate_tests::binary;
use tidegate_tests::lab::{Lab, wait_until};

fn golden(name: &str) -> std::path::PathBuf {
    binary::root().join("tests/golden/tables").join(name)
}

/// A lab whose warehouse has golden tables.
fn with(names: &[&str]) -> Lab {
    let lab = Lab::new();
    for name in names {
        let from = golden(name).join("warehouse/golden.db").join(name);
        copy(&from, &lab.path(&format!("warehouse/golden.db/{name}")));
    }
    lab
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).unwrap()),
        }
    }
}

/// What Java saw.
fn java(name: &str) -> Value {
    let text = fs::read_to_string(golden(name).join("rows.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn lines(lab: &Lab, args: &[&str]) -> Vec<String> {
    let warehouse = lab.warehouse();
    let mut all = args.to_vec();
    all.extend(["-w", &warehouse, "--format", "jsonl", "-q"]);
    let done = lab.tidegate(&all).expect(0);
    done.stdout.lines().map(str::to_owned).collect()
}

/// Rows as text, in any order, without these keys.
fn sorted<'v>(rows: impl IntoIterator<Item = &'v Value>, without: &[&str]) -> Vec<String> {
    let mut rows: Vec<String> = rows
        .into_iter()
        .map(|row| {
            let mut row = row.clone();
            for key in without {
                row.as_object_mut().unwrap().shift_remove(*key);
            }
            row.to_string()
        })
        .collect();
    rows.sort();
    rows
}

fn same(lab: &Lab, args: &[&str], theirs: &Value, without: &[&str]) {
    let mut ours = lines(lab, args);
    ours.sort();
    assert_eq!(
        ours,
        sorted(theirs.as_array().unwrap(), without),
        "{args:?}"
    );
}

#[test]
fn every_version_and_view_of_a_keyed_table_prints_as_java_sees_it() {
    let names = [
        "pk_levels_partial",
        "pk_deletion_vectors_32",
        "pk_tags",
        "pk_branches",
    ];
    let lab = with(&names);
    for name in names {
        let (table, java) = (format!("golden.{name}"), java(name));
        same(
            &lab,
            &["table", "read", &table],
            &java["latest"],
            &["_kind"],
        );
        for snapshot in java["snapshots"].as_array().unwrap() {
            let id = snapshot["id"].to_string();
            let args = ["table", "read", &table, "--snapshot", &id];
            same(&lab, &args, &snapshot["rows"], &["_kind"]);
        }
        for (tag, rows) in java["tags"].as_object().unwrap() {
            same(
                &lab,
                &["table", "read", &table, "--tag", tag],
                rows,
                &["_kind"],
            );
        }
        for (branch, rows) in java["branches"].as_object().unwrap() {
            let named = format!("{table}$branch_{branch}");
            same(&lab, &["table", "read", &named], rows, &["_kind"]);
        }
        let view = |view: &str| format!("{table}${view}");
        same(
            &lab,
            &["table", "read", &view("audit_log")],
            &java["audit_log"],
            &["_kind"],
        );
        same(
            &lab,
            &["table", "read", &view("ro")],
            &java["ro"],
            &["_kind"],
        );
        let verified = lab
            .tidegate(&["verify", &table, "-w", &lab.warehouse()])
            .expect(0);
        assert!(
            verified.stdout.contains("0 errors, 0 warnings"),
            "{}",
            verified.stdout
        );
    }
}

#[test]
fn conditions_kinds_and_times_narrow_a_keyed_table() {
    let lab = with(&["pk_changelog_input"]);
    let read = |more: &[&str]| {
        let mut args = vec!["table", "read", "golden.pk_changelog_input"];
        args.extend(more);
        lines(&lab, &args)
    };
    assert_eq!(
        read(&["--kinds", "--where", "v >= 1000"]),
        [r#"{"_kind":"+U","k":0,"p":"p0","v":1000}"#]
    );
    // Version 7 of key 1 had another value: it must not come back.
    assert_eq!(
        read(&["--where", "k = 1", "--columns", "v"]),
        [r#"{"v":8}"#]
    );
    assert!(read(&["--where", "v = 7"]).is_empty());
    let old = read(&["--snapshot", "3", "--where", "v = 7", "--columns", "k"]);
    assert_eq!(old, [r#"{"k":1}"#]);
    let snapshots = lines(&lab, &["table", "snapshots", "golden.pk_changelog_input"]);
    let third: Value = snapshots
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .find(|row: &Value| row["snapshot_id"] == 3)
        .unwrap();
    let then = third["commit_time"].as_str().unwrap();
    assert_eq!(read(&["--as-of", then]), read(&["--snapshot", "3"]));
    let binlog = lines(
        &lab,
        &[
            "table",
            "read",
            "golden.pk_changelog_input$binlog",
            "--where",
            "k = 0",
        ],
    );
    assert_eq!(
        binlog,
        [r#"{"rowkind":"+U","k":[0],"p":["p0"],"v":[1000]}"#]
    );
    for (args, code, why) in [
        (&["--where", "k ="][..], 3, "literal is missing"),
        (&["--as-of", "2001-01-01"], 4, "oldest snapshot left is 1"),
        (&["--as-of", "soon"], 2, "epoch milliseconds"),
        (&["--tag", "nope"], 4, "tag `nope`"),
    ] {
        let warehouse = lab.warehouse();
        let mut all = vec![
            "table",
            "read",
            "golden.pk_changelog_input",
            "-w",
            &warehouse,
        ];
        all.extend(args);
        lab.tidegate(&all).expect(code).says(&[why]);
    }
}

/// Without the snapshots from `from` on, as if they were not made yet.
fn hide(lab: &Lab, table: &str, from: i64, last: i64) {
    let dir = lab.path(&format!("warehouse/golden.db/{table}/snapshot"));
    for id in from..=last {
        let name = format!("snapshot-{id}");
        fs::rename(dir.join(&name), lab.path(&name)).unwrap();
    }
    fs::write(dir.join("LATEST"), (from - 1).to_string()).unwrap();
}

#[test]
fn tail_streams_what_java_streams_and_follows() {
    for name in [
        "pk_changelog_input",
        "pk_changelog_lookup",
        "pk_changelog_none",
    ] {
        let lab = with(&[name]);
        let (table, java) = (format!("golden.{name}"), java(name));
        let all: Vec<&Value> = java["changelog"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|step| step["rows"].as_array().unwrap())
            .collect();
        let mut ours = lines(&lab, &["tail", &table]);
        ours.sort();
        let theirs = sorted(all.iter().copied(), &[]);
        assert_eq!(ours, theirs, "{name}");

        let last = java["snapshots"].as_array().unwrap().len() as i64;
        hide(&lab, name, 5, last);
        let warehouse = lab.warehouse();
        let to = format!("snapshot:{last}");
        let args = [
            "tail", &table, "-w", &warehouse, "--follow", "--to", &to, "-f", "jsonl",
        ];
        let following = lab.spawn(&args, &[]);
        let dir = lab.path(&format!("warehouse/golden.db/{name}/snapshot"));
        for id in 5..=last {
            let snapshot = format!("snapshot-{id}");
            fs::rename(lab.path(&snapshot), dir.join(&snapshot)).unwrap();
        }
        let done = following.wait().expect(0);
        let mut followed: Vec<String> = done.stdout.lines().map(str::to_owned).collect();
        followed.sort();
        assert_eq!(followed, theirs, "{name}: followed");
        let next = format!("--from snapshot:{}", last + 1);
        assert!(done.stderr.contains(&next), "{}", done.stderr);
    }
}

#[test]
fn tail_tells_gaps_and_places_that_are_not_there() {
    let name = "pk_changelog_input";
    let lab = with(&[name]);
    let warehouse = lab.warehouse();
    let tail = |more: &[&str]| {
        let mut args = vec!["tail", "golden.pk_changelog_input", "-w", &warehouse];
        args.extend(more);
        lab.tidegate(&args)
    };
    tail(&["--from", "snapshot:99"])
        .expect(4)
        .says(&["snapshot 99", "newest snapshot is 8"]);
    tail(&["--to", "snapshot:99"])
        .expect(4)
        .says(&["not there yet", "--follow"]);
    tail(&["--from", "yesterday"])
        .expect(2)
        .says(&["snapshot:ID"]);
    let first = lab.path(&format!("warehouse/golden.db/{name}/snapshot/snapshot-1"));
    fs::remove_file(first).unwrap();
    tail(&["--from", "snapshot:1"])
        .expect(4)
        .says(&["has expired", "snapshot 2"]);
    let args = [
        "tail",
        "golden.pk_changelog_input",
        "-w",
        &warehouse,
        "--follow",
        "-f",
        "jsonl",
    ];
    let mut running = lab.spawn(&args, &[]);
    wait_until("the newest change to be printed", || {
        assert!(!running.ended(), "{}", running.stderr());
        running.stdout().contains(r#"{"_kind":"-D","k":2,"#)
    });
    // Rolled back while somebody follows.
    hide(&lab, name, 4, 8);
    running
        .wait()
        .expect(4)
        .says(&["changes cannot be read on from snapshot"]);
}
