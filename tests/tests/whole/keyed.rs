//! Tables with a primary key, by the real binary: killed at each named place, compacted, written in runs.

use tidegate_tests::keyed::{Changes, Told, content, folded, job, sequences_apart, whole};
use tidegate_tests::lab::Lab;

const PLACES: [&str; 8] = [
    "before-checkpoint",
    "prepared",
    "recorded",
    "before-publish",
    "published",
    "answered",
    "notified",
    "row-taken",
];

fn changelog_rows(lab: &Lab) -> i64 {
    let snapshots = lab.snapshots();
    let counts = snapshots
        .iter()
        .filter_map(|s| s["changelog_record_count"].as_i64());
    counts.sum()
}

fn killed_at_each_place(options: &str, all_logged: bool) {
    for place in PLACES {
        for pass in [1, 2] {
            let lab = Lab::new();
            job(&lab, options);
            let mut changes = Changes::new(7 + pass);
            for _ in 0..3 {
                changes.file(&lab, "in", 50);
            }
            let nth = if place == "row-taken" {
                pass * 60
            } else {
                pass
            };
            // Where so many checkpoints are not taken the run ends well, which is right too.
            let done = lab.run_to(&format!("{place}:{nth}"));
            assert!(done.signal == Some(9) || pass > 1, "{place}: {done:?}");
            lab.run(&[]).expect(0);
            whole(&lab, &changes.content);
            sequences_apart(&lab);
            if all_logged {
                assert_eq!(changelog_rows(&lab), changes.rows, "{place}:{nth}");
                assert_eq!(folded(&lab, Told::Records), changes.content);
            }
        }
    }
}

#[test]
fn keyed_killed_at_each_named_place_with_an_input_changelog() {
    killed_at_each_place(", bucket: 2, changelog-producer: input", true);
}

#[test]
fn keyed_killed_at_each_named_place_with_dynamic_buckets_and_full_compactions() {
    let options = ", dynamic-bucket.target-row-num: 15, changelog-producer: full-compaction";
    killed_at_each_place(options, false);
}

/// Run after run with compactions, a dedicated one in between: the content is the map's each time.
#[test]
fn a_keyed_table_is_written_and_compacted_in_turn() {
    let lab = Lab::new();
    job(&lab, ", bucket: 2");
    let mut changes = Changes::new(11);
    for number in 0..8 {
        changes.file(&lab, "in", 60);
        lab.run(&[]).expect(0);
        whole(&lab, &changes.content);
        sequences_apart(&lab);
        if number % 3 == 2 {
            let warehouse = lab.warehouse();
            let arguments = ["compact", "shop.orders", "-w", &warehouse, "--full"];
            lab.tidegate(&arguments).expect(0);
            whole(&lab, &changes.content);
            let runs = lab.query(&["table", "lsm", "shop.orders"]);
            assert!(
                runs.iter()
                    .all(|run| run["run"] == 0 && run["deletes"] == 0),
                "{runs:?}"
            );
        }
    }
    let kinds = lab.snapshots();
    assert!(kinds.iter().any(|s| s["commit_kind"] == "COMPACT"));
}

/// The judge and `verify` see files of each kind that nothing names.
#[test]
fn what_is_left_over_of_a_keyed_table_is_seen_by_its_bytes_and_by_verify() {
    let lab = Lab::new();
    let options = ", dynamic-bucket.target-row-num: 15, changelog-producer: input";
    job(&lab, options);
    let mut changes = Changes::new(3);
    changes.file(&lab, "in", 60);
    lab.run(&[]).expect(0);
    whole(&lab, &changes.content);
    let table = lab.table_dir();
    let mut planted = Vec::new();
    for (folder, prefix) in [
        ("bucket-0", "changelog-"),
        ("bucket-0", "data-"),
        ("index", "index-"),
    ] {
        let names = std::fs::read_dir(table.join(folder)).unwrap();
        let names = names.map(|e| e.unwrap().file_name().into_string().unwrap());
        let name = names.filter(|n| n.starts_with(prefix)).min().unwrap();
        // As a run of that job would have called it that is not registered any more.
        let stem = name.rsplit_once('-').unwrap().0;
        let other = format!(
            "{stem}-77{}",
            if folder == "index" { "" } else { ".parquet" }
        );
        std::fs::copy(
            table.join(folder).join(&name),
            table.join(folder).join(&other),
        )
        .unwrap();
        planted.push(format!("{folder}/{other}"));
    }
    planted.sort();
    assert_eq!(lab.judge().orphans, planted);
    let report = lab.query(&["verify", "shop.orders"]).remove(0);
    let findings = report["findings"].as_array().unwrap();
    let mut unknown: Vec<_> = findings
        .iter()
        .filter(|f| f["kind"] == "unknown-file")
        .map(|f| f["place"].as_str().unwrap())
        .collect();
    unknown.sort_unstable();
    assert_eq!(unknown, planted);
    assert_eq!(content(&lab), changes.content, "nobody reads them");
}

#[test]
fn what_a_keyed_table_cannot_be_is_refused_by_name_before_it_exists() {
    for (options, says) in [
        (
            ", bucket: -2, postpone.default-bucket-num: 0",
            ["postpone.default-bucket-num", "0", "above 0"],
        ),
        (
            ", bucket: 1, changelog-producer: full-compaction, deletion-vectors.enabled: \"true\"",
            ["changelog-producer", "full-compaction", "lookup"],
        ),
        (
            ", bucket: 1, merge-engine: first-row, deletion-vectors.enabled: \"true\"",
            ["deletion-vectors.enabled", "first-row", "false"],
        ),
        (
            ", bucket: 1, merge-engine: first-row",
            ["first-row", "ignore-delete", "1.jsonl, line 2"],
        ),
    ] {
        let lab = Lab::new();
        job(&lab, options);
        let rows = "{\"id\":1,\"op\":\"+I\"}\n{\"id\":1,\"op\":\"-D\"}\n";
        lab.write("in/1.jsonl", rows);
        let done = lab.run(&[]);
        assert_ne!(done.code, Some(0), "{options}");
        done.says(&says);
    }
}

/// The record is named by its file and line, by which somebody can find it.
#[test]
fn a_row_kind_that_is_none_is_told_by_file_and_line() {
    for (format, rows, line) in [
        (
            "jsonl",
            "{\"id\":1,\"op\":\"+I\"}\n{\"id\":2,\"op\":\"x\"}\n",
            "line 2",
        ),
        ("csv", "id,op\n1,+I\n2,+U\n3,?\n", "line 4"),
    ] {
        let lab = Lab::new();
        let sink = lab.sink_yaml(
            "id: BIGINT, op: STRING",
            "",
            ", bucket: 1, rowkind.field: op",
            "",
        );
        let sink = sink.replace("  partition-by: []\n", "  primary-key: [id]\n");
        let source = format!("name: lab\nsource: {{ type: files, path: in/*.{format} }}\n");
        lab.write("job.yaml", format!("{source}{sink}"));
        lab.write(&format!("in/rows.{format}"), rows);
        let done = lab.run(&[]);
        assert_ne!(done.code, Some(0));
        done.says(&["rows.", line, "'op'", "+I, -U, +U or -D"]);
    }
}

/// Two of them would give one key two buckets.
#[test]
fn w_71_a_table_with_dynamic_buckets_has_one_writing_job() {
    let lab = Lab::new();
    let generator = |name: &str, rows: &str| {
        let sink = lab.sink_yaml(
            "id: BIGINT, name: STRING",
            "",
            ", bucket: -1",
            ", interval: 50 ms",
        );
        let sink = sink.replace("  partition-by: []\n", "  primary-key: [id]\n");
        let sink = sink.replace(
            "directory: checkpoints",
            &format!("directory: checkpoints-{name}"),
        );
        let columns = "columns: { id: { sequence: { start: 1 } }, name: { template: \"n-{id}\" } }";
        let source = format!("source: {{ type: generator, rate: 200{rows}, {columns} }}\n");
        lab.write(
            &format!("{name}.yaml"),
            format!("name: {name}\n{source}{sink}"),
        );
    };
    generator("first", "");
    generator("second", ", rows: 20");
    let first = lab.spawn(&["run", "first.yaml"], &[]);
    tidegate_tests::lab::wait_until("a snapshot", || lab.visible() > 1);
    let refused = lab.tidegate(&["run", "second.yaml"]);
    assert_ne!(refused.code, Some(0));
    refused.says(&["shop.orders", "dynamic buckets", "`first`", "job retire"]);
    // A compaction may run beside it, the job itself may be started again, and a crashed one counts for nothing.
    let warehouse = lab.warehouse();
    lab.tidegate(&["compact", "shop.orders", "-w", &warehouse])
        .expect(0);
    first.kill();
    lab.tidegate(&["run", "second.yaml"]).expect(0);
    let first = lab.spawn(&["run", "first.yaml"], &[]);
    let before = lab.visible();
    tidegate_tests::lab::wait_until("a snapshot", || lab.visible() > before);
    first.signal("TERM");
    first.wait().expect(143);
}

/// Runs killed at each place, compactions in between: whole, and told each change once.
fn looked_up(options: &str) {
    for place in PLACES {
        let lab = Lab::new();
        job(&lab, options);
        let mut changes = Changes::new(23);
        for _ in 0..3 {
            changes.file(&lab, "in", 50);
        }
        let nth = if place == "row-taken" { 120 } else { 2 };
        let _ = lab.run_to(&format!("{place}:{nth}"));
        lab.run(&[]).expect(0);
        whole(&lab, &changes.content);
        assert_eq!(folded(&lab, Told::Rows), changes.content);
        changes.file(&lab, "in", 50);
        lab.run(&[]).expect(0);
        let warehouse = lab.warehouse();
        let arguments = ["compact", "shop.orders", "-w", &warehouse, "--full"];
        lab.tidegate(&arguments).expect(0);
        changes.file(&lab, "in", 50);
        lab.run(&[]).expect(0);
        whole(&lab, &changes.content);
        assert_eq!(folded(&lab, Told::Rows), changes.content);
    }
}

#[test]
fn keyed_killed_at_each_named_place_with_old_rows_looked_up() {
    looked_up(", bucket: 2, changelog-producer: lookup");
}

#[test]
fn keyed_killed_at_each_named_place_with_deletion_vectors() {
    let vectors = ", bucket: 2, changelog-producer: lookup, deletion-vectors.enabled: \"true\"";
    looked_up(vectors);
}
