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
struct Changes {
    state: u64,
    content: BTreeMap<i64, String>,
    rows: i64,
}

impl Changes {
    fn new(seed: u64) -> Self {
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
    fn file(&mut self, lab: &Lab, number: usize, rows: usize) {
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

fn job(lab: &Lab, options: &str) {
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
fn whole(lab: &Lab, expected: &Changes) {
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
        (", bucket: -2", ["bucket", "postponed", "number of buckets"]),
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
            ["first-row", "ignore-delete", "row 0"],
        ),
    ] {
        let lab = Lab::new();
        job(&lab, options);
        lab.write("in/1.jsonl", "{\"id\":1,\"op\":\"-D\"}\n");
        let done = lab.run(&[]);
        assert_ne!(done.code, Some(0), "{options}");
        done.says(&says);
    }
}

/// What `tail` gives out, applied: each change follows from those before it, and the sum is the content.
#[track_caller]
fn told(lab: &Lab, expected: &Changes) {
    let mut content: BTreeMap<i64, String> = BTreeMap::new();
    for row in lab.query(&["tail", "shop.orders"]) {
        let id = row["id"].as_i64().unwrap();
        let name = row["name"].as_str().unwrap().to_owned();
        match row["_kind"].as_str().unwrap() {
            "+I" => assert_eq!(content.insert(id, name), None, "{row}"),
            "-U" | "-D" => assert_eq!(content.remove(&id), Some(name), "{row}"),
            _ => assert_eq!(content.insert(id, name), None, "{row}: +U without -U"),
        }
    }
    assert_eq!(content, expected.content, "{:?}", lab.keep());
}

/// Runs killed at each place, compactions in between: whole, and told each change once.
fn looked_up(options: &str) {
    for place in PLACES {
        let lab = Lab::new();
        job(&lab, options);
        let mut changes = Changes::new(23);
        for number in 0..3 {
            changes.file(&lab, number, 50);
        }
        let nth = if place == "row-taken" { 120 } else { 2 };
        let _ = lab.run_to(&format!("{place}:{nth}"));
        lab.run(&[]).expect(0);
        whole(&lab, &changes);
        told(&lab, &changes);
        changes.file(&lab, 3, 50);
        lab.run(&[]).expect(0);
        let warehouse = lab.warehouse();
        let arguments = ["compact", "shop.orders", "-w", &warehouse, "--full"];
        lab.tidegate(&arguments).expect(0);
        changes.file(&lab, 4, 50);
        lab.run(&[]).expect(0);
        whole(&lab, &changes);
        told(&lab, &changes);
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
