//! Tables with a primary key, by the real binary: killed at each named place, compacted, written in runs.

use std::collections::BTreeMap;

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

/// Columns `id`, `name`, `op`; key `id`; kinds from `op`.
pub(crate) struct Changes {
    state: u64,
    pub(crate) content: BTreeMap<i64, String>,
    rows: i64,
}

impl Changes {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            state: seed,
            content: BTreeMap::new(),
            rows: 0,
        }
    }

    fn random(&mut self, below: u64) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state % below
    }

    /// A file of upserts and deletes, and what the table holds after it.
    pub(crate) fn file(&mut self, lab: &Lab, number: usize, rows: usize) {
        let mut text = String::new();
        for row in 0..rows {
            let (id, delete) = (self.random(40) as i64, self.random(5) == 0);
            let (op, name) = (if delete { "-D" } else { "+I" }, format!("v{number}-{row}"));
            text += &format!("{{\"id\":{id},\"name\":\"{name}\",\"op\":\"{op}\"}}\n");
            match delete {
                true => self.content.remove(&id),
                false => self.content.insert(id, name),
            };
            self.rows += 1;
        }
        lab.write(&format!("in/{number:03}.jsonl"), text);
    }
}

pub(crate) fn job(lab: &Lab, options: &str) {
    let options = format!(", rowkind.field: op, num-sorted-run.compaction-trigger: 2{options}");
    let columns = "id: BIGINT, name: STRING, op: STRING";
    let sink = lab.sink_yaml(columns, "", &options, ", interval: 10 ms");
    let sink = sink.replace("  partition-by: []\n", "  primary-key: [id]\n");
    lab.write(
        "job.yaml",
        format!("name: lab\nsource: {{ type: files, path: in/*.jsonl }}\n{sink}"),
    );
}

/// Rows as a map, every sequence range of a bucket's level 0 apart, nothing lost, absent or left over.
#[track_caller]
pub(crate) fn whole(lab: &Lab, expected: &Changes) {
    let rows = lab.rows().into_iter().map(|row| {
        let name = row["name"].as_str().unwrap().to_owned();
        (row["id"].as_i64().unwrap(), name)
    });
    assert_eq!(
        rows.collect::<BTreeMap<_, _>>(),
        expected.content,
        "{:?}",
        lab.keep()
    );
    let found = lab.judge();
    assert!(
        found.dangling.is_empty(),
        "referenced, absent: {:#?}",
        found.dangling
    );
    let mut ranges: BTreeMap<i64, Vec<(i64, i64)>> = BTreeMap::new();
    for file in lab.data_files().iter().filter(|f| f["level"] == 0) {
        let number = |name: &str| file[name].as_i64().unwrap();
        let range = (number("min_sequence_number"), number("max_sequence_number"));
        ranges.entry(number("bucket")).or_default().push(range);
    }
    for list in ranges.values_mut() {
        list.sort_unstable();
        assert!(
            list.array_windows::<2>().all(|[a, b]| a.1 < b.0),
            "{list:?}"
        );
    }
    let report = lab.query(&["verify", "shop.orders"]).remove(0);
    assert_eq!(report["errors"], 0, "{report}");
    // The judge reads no names of changelogs and index files out of manifests: `verify` does.
    let findings = report["findings"].as_array().unwrap();
    let unknown: Vec<_> = findings
        .iter()
        .filter(|f| f["kind"] == "unknown-file")
        .collect();
    assert!(unknown.is_empty(), "left over: {unknown:#?}");
}

fn changelog_rows(lab: &Lab) -> i64 {
    let snapshots = lab.snapshots();
    let counts = snapshots
        .iter()
        .filter_map(|s| s["changelog_record_count"].as_i64());
    counts.sum()
}

fn killed_at_each_place(options: &str, all_logged: bool) {
    for place in PLACES {
        for pass in [2] {
            let lab = Lab::new();
            job(&lab, options);
            let mut changes = Changes::new(7 + pass);
            for number in 0..3 {
                changes.file(&lab, number, 50);
            }
            let nth = if place == "row-taken" {
                pass * 60
            } else {
                pass
            };
            // Where so many checkpoints are not taken the run ends well, which is right too.
            let _ = lab.run_to(&format!("{place}:{nth}"));
            lab.run(&[]).expect(0);
            whole(&lab, &changes);
            if all_logged {
                assert_eq!(changelog_rows(&lab), changes.rows, "{place}:{nth}");
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
        changes.file(&lab, number, 60);
        lab.run(&[]).expect(0);
        whole(&lab, &changes);
        if number % 3 == 2 {
            let warehouse = lab.warehouse();
            let arguments = ["compact", "shop.orders", "-w", &warehouse, "--full"];
            lab.tidegate(&arguments).expect(0);
            whole(&lab, &changes);
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

#[test]
fn what_a_keyed_table_cannot_be_is_refused_by_name_before_it_exists() {
    for (options, says) in [
        (
            ", bucket: -2, postpone.default-bucket-num: 0",
            ["postpone.default-bucket-num", "0", "above 0"],
        ),
        (
            ", bucket: 1, changelog-producer: lookup",
            ["changelog-producer", "lookup", "none"],
        ),
        (
            ", bucket: 1, deletion-vectors.enabled: \"true\"",
            ["deletion-vectors.enabled", "true", "false"],
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
