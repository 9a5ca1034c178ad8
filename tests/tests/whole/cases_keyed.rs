//! Cases of public reports about tables with a primary key: filters before the merge, late records, partial
//! rows, changelogs, buckets. Each test bears the number of its case.

use std::collections::BTreeMap;
use std::fs;

use serde_json::{Value, json};
use tidegate_tests::keyed::{Changes, Told, content, folded, job, whole};
use tidegate_tests::lab::{Done, Lab, TABLE};

/// A table that is written commit by commit, and compacted only where a test says so.
struct Case {
    lab: Lab,
    commits: usize,
}

impl Case {
    /// Key `k`; kinds of rows from `op`.
    fn new(columns: &str, options: &str) -> Self {
        Self::with_key("k", columns, options)
    }

    fn with_key(key: &str, columns: &str, options: &str) -> Self {
        let lab = Lab::new();
        let options = format!(", rowkind.field: op, write-only: true{options}");
        let columns = format!("{columns}, op: STRING");
        let sink = lab.sink_yaml(&columns, "", &options, "");
        let sink = sink.replace("  partition-by: []\n", &format!("  primary-key: [{key}]\n"));
        let source = "source: { type: files, path: in/*.jsonl }";
        lab.write("job.yaml", format!("name: lab\n{source}\n{sink}"));
        Self { lab, commits: 0 }
    }

    /// One more file, its rows without `op` being inserts, and a run.
    fn offer(&mut self, rows: &[Value]) -> Done {
        let mut lines = String::new();
        for row in rows {
            let mut row = row.clone();
            let fields = row.as_object_mut().unwrap();
            fields.entry("op").or_insert_with(|| json!("+I"));
            lines += &format!("{row}\n");
        }
        self.commits += 1;
        let name = format!("in/{:03}.jsonl", self.commits);
        self.lab.write(&name, lines);
        self.lab.run(&[])
    }

    /// One checkpoint with these rows.
    #[track_caller]
    fn commit(&mut self, rows: &[Value]) {
        self.offer(rows).expect(0);
    }

    #[track_caller]
    fn compact(&self, more: &[&str]) {
        let warehouse = self.lab.warehouse();
        let arguments = ["compact", TABLE, "-w", &warehouse];
        self.lab
            .tidegate(&[&arguments[..], more].concat())
            .expect(0);
    }

    /// Rows that fulfil a condition, all where it is empty, in these columns.
    #[track_caller]
    fn read(&self, columns: &str, condition: &str) -> Vec<Value> {
        let mut arguments = vec!["table", "read", TABLE, "--columns", columns];
        if !condition.is_empty() {
            arguments.extend(["--where", condition]);
        }
        let mut rows = self.lab.query(&arguments);
        rows.sort_by_key(Value::to_string);
        rows
    }

    #[track_caller]
    fn reads(&self, columns: &str, condition: &str, wanted: &[Value]) {
        assert_eq!(self.read(columns, condition), wanted, "where {condition}");
    }
}

#[test]
fn b42_a_condition_on_a_value_never_brings_an_old_version_back() {
    let mut case = Case::new("k: INT, v: STRING, n: INT", ", bucket: 1");
    case.commit(&[json!({"k": 1, "v": "a", "n": 1})]);
    case.commit(&[
        json!({"k": 1, "v": "b", "n": 2}),
        json!({"k": 2, "v": "c", "n": 9}),
    ]);
    // 1
    case.reads("k", "v = 'a'", &[]);
    case.reads("k", "v = 'b'", &[json!({"k": 1})]);
    case.reads("k,n", "v <> 'a' AND k = 1", &[json!({"k": 1, "n": 2})]);
    // 4
    case.commit(&[json!({"k": 2, "v": null, "n": 3})]);
    case.reads("k", "v <> 'a' AND k = 2", &[]);
    case.reads("k", "v IS NULL", &[json!({"k": 2})]);
    // 2: a delete in front, with the rest on another level and with everything merged.
    for full in [false, true] {
        if full {
            case.compact(&["--full"]);
        }
        case.commit(&[json!({"k": 1, "v": "b", "n": 2, "op": "-D"})]);
        for condition in ["v = 'a'", "v = 'b'", "v <> 'a'", "n < 3", "k = 1"] {
            case.reads("k", condition, &[]);
        }
        case.compact(&[]);
        case.reads("k", "n > 0", &[json!({"k": 2})]);
        case.commit(&[json!({"k": 1, "v": "b", "n": 2})]);
        case.reads("n", "v = 'b'", &[json!({"n": 2})]);
    }
    // 3
    let sums = ", bucket: 1, merge-engine: aggregation, fields.n.aggregate-function: sum";
    let mut case = Case::new("k: INT, n: INT", sums);
    case.commit(&[json!({"k": 1, "n": 1})]);
    case.commit(&[json!({"k": 1, "n": 2})]);
    case.reads("k,n", "n = 3", &[json!({"k": 1, "n": 3})]);
    case.reads("k", "n = 1", &[]);
    case.reads("k", "n < 3", &[]);
}

/// A delete that a full compaction took out holds nothing back any more, in Java too: what comes late is
/// there again. Where deletes come out of order, that is why they must not be forgotten: `--full` and
/// `full-compaction.*` do that, other compactions keep them above the top level.
#[test]
fn b43_1_a_late_record_loses_against_a_delete_until_that_is_compacted_away() {
    for (compacted, wanted) in [(false, vec![]), (true, vec![json!({"k": 1, "v": "x"})])] {
        let options = ", bucket: 1, sequence.field: s";
        let mut case = Case::new("k: INT, v: STRING, s: INT", options);
        case.commit(&[
            json!({"k": 1, "v": "a", "s": 2}),
            json!({"k": 1, "v": "a", "s": 9, "op": "-D"}),
        ]);
        if compacted {
            case.compact(&["--full"]);
        }
        case.commit(&[json!({"k": 1, "v": "x", "s": 1})]);
        case.reads("k,v", "", &wanted);
    }
}

#[test]
fn b43_2_of_equal_sequence_values_the_later_arrival_wins() {
    // In one commit, in two, across compactions and restarts: each commit is a run of its own.
    for (split, compacted) in [(false, false), (true, false), (true, true)] {
        let mut case = Case::new(
            "k: INT, v: STRING, s: INT",
            ", bucket: 1, sequence.field: s",
        );
        let rows = [
            json!({"k": 2, "v": "a", "s": 5}),
            json!({"k": 2, "v": "b", "s": 5}),
        ];
        let parts: Vec<&[Value]> = match split {
            true => rows.chunks(1).collect(),
            false => vec![&rows],
        };
        for part in parts {
            case.commit(part);
            if compacted {
                case.compact(&["--full"]);
            }
        }
        case.reads("v", "", &[json!({"v": "b"})]);
    }
}

#[test]
fn b43_4_null_is_the_oldest_and_the_largest_number_the_newest_sequence_value() {
    let values = |of: &str| match of {
        "BIGINT" => [json!(null), json!(i64::MIN), json!(0), json!(i64::MAX)],
        _ => [
            json!(null),
            json!("1969-12-31T23:59:59.999999"),
            json!("2026-01-01T00:00:00.000001"),
            json!("2026-01-01T00:00:00.000002"),
        ],
    };
    for of in ["BIGINT", "TIMESTAMP(6)"] {
        let columns = format!("k: INT, v: INT, s: {of}");
        let mut case = Case::new(&columns, ", bucket: 1, sequence.field: s");
        // Newest first, so that each later one is late.
        for (n, value) in values(of).into_iter().enumerate().rev() {
            case.commit(&[
                json!({"k": 1, "v": n, "s": value}),
                json!({"k": n + 10, "v": n, "s": value}),
            ]);
        }
        case.reads("v", "k = 1", &[json!({"v": 3})]);
        case.compact(&["--full"]);
        case.reads("v", "k = 1", &[json!({"v": 3})]);
        // What has no sequence value is older than all that have one.
        case.commit(&[
            json!({"k": 10, "v": 77, "s": null}),
            json!({"k": 11, "v": 78, "s": null}),
        ]);
        case.reads("v", "k = 10", &[json!({"v": 77})]);
        case.reads("v", "k = 11", &[json!({"v": 1})]);
    }
}

#[test]
fn b44_1_partial_rows_fill_each_other_and_a_delete_is_refused_when_it_comes() {
    let options = ", bucket: 1, merge-engine: partial-update";
    let mut case = Case::new("k: INT, a: INT, b: INT", options);
    case.commit(&[json!({"k": 1, "a": 10, "b": null})]);
    case.commit(&[json!({"k": 1, "a": null, "b": 20})]);
    let wanted = [json!({"k": 1, "a": 10, "b": 20})];
    case.reads("k,a,b", "", &wanted);
    let refused = case.offer(&[json!({"k": 1, "op": "-D"})]).expect(1);
    refused.says(&[
        "-D",
        "ignore-delete",
        "partial-update.remove-record-on-delete",
    ]);
    // 4: whatever is asked for.
    for _ in 0..2 {
        case.reads("k,a,b", "", &wanted);
        case.reads("k", "", &[json!({"k": 1})]);
        case.reads("b", "", &[json!({"b": 20})]);
        case.compact(&["--full"]);
    }
}

#[test]
fn b44_2_a_row_that_was_removed_begins_anew() {
    let removing = "partial-update.remove-record-on-delete: true";
    for compacted in [false, true] {
        let options = format!(", bucket: 1, merge-engine: partial-update, {removing}");
        let mut case = Case::new("k: INT, a: INT, b: INT", &options);
        case.commit(&[json!({"k": 1, "a": 10, "b": 20})]);
        case.commit(&[json!({"k": 1, "op": "-D"})]);
        case.reads("k", "", &[]);
        if compacted {
            case.compact(&["--full"]);
        }
        case.commit(&[json!({"k": 1, "a": 5, "b": null})]);
        case.reads("k,a,b", "", &[json!({"k": 1, "a": 5, "b": null})]);
        case.reads("b", "", &[json!({"b": null})]);
    }
}

#[test]
fn b44_3_each_sequence_group_keeps_its_own_order() {
    let groups = "fields.g1.sequence-group: a, fields.g2.sequence-group: b";
    let options = format!(", bucket: 1, merge-engine: partial-update, {groups}");
    for compacted in [false, true] {
        let mut case = Case::new("k: INT, g1: INT, a: INT, g2: INT, b: INT", &options);
        let mut step = |row: Value, a: Value| {
            case.commit(&[row]);
            if compacted {
                case.compact(&["--full"]);
            }
            case.reads("a", "", &[json!({"a": a})]);
            // 4: a projection without the ordering column.
            case.reads("k,b", "", &[json!({"k": 1, "b": 7})]);
        };
        step(json!({"k": 1, "g1": 2, "a": 1, "g2": 1, "b": 7}), json!(1));
        step(json!({"k": 1, "g1": 1, "a": 9}), json!(1));
        step(json!({"k": 1, "g1": null, "a": 7}), json!(1));
        step(json!({"k": 1, "g1": 3, "a": null}), json!(null));
    }
}

#[test]
fn b45_1_the_fold_of_changes_is_the_content_after_a_delete_and_the_same_row_again() {
    for compacted_each in [false, true] {
        for (options, told) in [
            (", bucket: 1", Told::Records),
            (", bucket: 1, changelog-producer: input", Told::Records),
            (
                ", bucket: 1, changelog-producer: full-compaction",
                Told::Rows,
            ),
        ] {
            let mut case = Case::with_key("id", "id: INT, name: STRING", options);
            for kind in ["+I", "-D", "+I"] {
                case.commit(&[json!({"id": 1, "name": "a", "op": kind})]);
                if compacted_each {
                    case.compact(&["--full"]);
                    assert_eq!(folded(&case.lab, told), content(&case.lab), "{options}");
                }
            }
            case.compact(&["--full"]);
            let wanted = BTreeMap::from([(1, "a".to_owned())]);
            assert_eq!(folded(&case.lab, told), wanted, "{options}");
            assert_eq!(content(&case.lab), wanted, "{options}");
        }
    }
}

/// 4: switched on later, a changelog tells what comes from then on; the whole table first, then the changes.
#[test]
fn b45_4_a_changelog_that_is_switched_on_later_goes_on_from_the_whole_table() {
    let lab = Lab::new();
    job(&lab, ", bucket: 2");
    let mut changes = Changes::new(5);
    changes.file(&lab, "in", 1000);
    lab.run(&[]).expect(0);
    let before = content(&lab);
    let newest = lab.snapshots().pop().unwrap()["snapshot_id"]
        .as_i64()
        .unwrap();
    // As Java's `ALTER TABLE … SET` leaves it.
    let schemas = lab.table_dir().join("schema");
    let text = fs::read_to_string(schemas.join("schema-0")).unwrap();
    let mut schema: Value = serde_json::from_str(&text).unwrap();
    schema["id"] = json!(1);
    schema["options"]["changelog-producer"] = json!("input");
    fs::write(schemas.join("schema-1"), schema.to_string()).unwrap();
    job(&lab, ", bucket: 2, changelog-producer: input");
    changes.file(&lab, "in", 10);
    lab.run(&[]).expect(0);
    let mut fold = before;
    let from = format!("snapshot:{}", newest + 1);
    let told = lab.query(&["tail", TABLE, "--from", &from]);
    assert_eq!(told.len(), 10, "{told:?}");
    for row in told {
        let id = row["id"].as_i64().unwrap();
        match row["_kind"] == "+I" {
            true => drop(fold.insert(id, row["name"].as_str().unwrap().to_owned())),
            false => drop(fold.remove(&id)),
        }
    }
    assert_eq!(fold, changes.content);
    whole(&lab, &changes.content);
}

#[test]
fn b46_3_each_key_is_found_alone_as_in_the_whole_table() {
    for (of, keys) in [
        (
            "INT",
            vec![json!(-7), json!(0), json!(i32::MIN), json!(i32::MAX)],
        ),
        (
            "BIGINT",
            vec![json!(i64::MIN), json!(-1), json!(1), json!(i64::MAX)],
        ),
        (
            "STRING",
            vec![
                json!(""),
                json!("a,b:c"),
                json!("a b "),
                json!("2024-10-24 10:11:11.234"),
                json!("é😀"),
            ],
        ),
        ("DATE", vec![json!("1969-12-31"), json!("2026-02-28")]),
        (
            "\"DECIMAL(30,2)\"",
            vec![json!("-1.50"), json!("12345678901234567890.12")],
        ),
        (
            "TIMESTAMP(3)",
            vec![
                json!("1969-12-31T23:59:59.999"),
                json!("2024-10-24T10:11:11.234"),
            ],
        ),
        ("BOOLEAN", vec![json!(true), json!(false)]),
    ] {
        for function in ["default", "mod"] {
            if function == "mod" && !matches!(of, "INT" | "BIGINT") {
                continue;
            }
            let options = format!(", bucket: 7, bucket-function.type: {function}");
            let mut case = Case::new(&format!("k: {of}, v: INT"), &options);
            for turn in 0..2 {
                let rows = keys.iter().zip(0..);
                let rows: Vec<Value> = rows
                    .map(|(k, n)| json!({"k": k, "v": n + 10 * turn}))
                    .collect();
                case.commit(&rows);
            }
            let all = case.read("k,v", "");
            assert_eq!(all.len(), keys.len(), "{of}: {all:?}");
            for row in &all {
                let literal = match &row["k"] {
                    Value::String(text) => format!("'{text}'"),
                    other => other.to_string(),
                };
                let found = case.read("k,v", &format!("k = {literal}"));
                assert_eq!(&found, std::slice::from_ref(row), "{of}, {function}");
            }
        }
    }
}

/// 1 to 3: the same key stays in its bucket, whoever reads it and with how many at once.
#[test]
fn b37_1_a_key_stays_in_its_dynamic_bucket_whatever_the_parallelism() {
    let columns = "k: INT, v: INT";
    let mut case = Case::new(columns, ", dynamic-bucket.target-row-num: 30");
    for (turn, parallelism) in [(0, 2), (1, 3), (2, 1)] {
        // Two files, so that two of the tasks have something.
        for part in 0..2 {
            let keys = (1 + part * 150)..=(150 + part * 150);
            let rows: String = keys
                .map(|k| format!("{}\n", json!({"k": k, "v": turn, "op": "+I"})))
                .collect();
            case.lab.write(&format!("in/{turn}-{part}.jsonl"), rows);
        }
        let parallelism = format!("parallelism={parallelism}");
        case.lab.run(&["--set", &parallelism]).expect(0);
        let rows = case.read("k,v", "");
        assert_eq!(rows.len(), 300, "after turn {turn}");
        assert!(rows.iter().all(|row| row["v"] == turn), "turn {turn}");
    }
    let buckets = case.lab.query(&["table", "buckets", TABLE]);
    assert!(buckets.len() >= 10, "{buckets:?}");
    case.commit(&[json!({"k": 301, "v": 9})]);
    case.compact(&["--full"]);
    assert_eq!(case.read("k", "").len(), 301);
}

#[test]
fn b37_3_another_number_of_buckets_is_refused_and_never_doubles_a_key() {
    let columns = "k: INT, v: INT";
    let mut case = Case::new(columns, ", bucket: 2");
    let rows = |v: i64| -> Vec<Value> { (1..=100).map(|k| json!({"k": k, "v": v})).collect() };
    case.commit(&rows(1));
    let schemas = case.lab.table_dir().join("schema");
    let text = fs::read_to_string(schemas.join("schema-0")).unwrap();
    let mut schema: Value = serde_json::from_str(&text).unwrap();
    schema["id"] = json!(1);
    schema["options"]["bucket"] = json!("4");
    fs::write(schemas.join("schema-1"), schema.to_string()).unwrap();
    let text = fs::read_to_string(case.lab.path("job.yaml")).unwrap();
    case.lab
        .write("job.yaml", text.replace("bucket: 2", "bucket: 4"));
    case.offer(&rows(2)).expect(5).says(&["bucket", "2", "4"]);
    let found = case.read("k,v", "");
    assert_eq!(found.len(), 100);
    assert!(found.iter().all(|row| row["v"] == 1));
}

/// 4: old and new files of a key meet in a merge.
#[test]
fn b48_4_versions_written_before_and_after_a_column_was_renamed_and_widened_are_merged() {
    let mut case = Case::new("k: INT, v: INT", ", bucket: 1");
    case.commit(&[json!({"k": 1, "v": 1}), json!({"k": 2, "v": 2})]);
    let schemas = case.lab.table_dir().join("schema");
    let text = fs::read_to_string(schemas.join("schema-0")).unwrap();
    let mut schema: Value = serde_json::from_str(&text).unwrap();
    schema["id"] = json!(1);
    // `v` is called `w` and is wider; a new column has the old name.
    schema["fields"][1]["name"] = json!("w");
    schema["fields"][1]["type"] = json!("BIGINT");
    let added = json!({"id": 3, "name": "v", "type": "STRING"});
    schema["fields"].as_array_mut().unwrap().push(added);
    schema["highestFieldId"] = json!(3);
    fs::write(schemas.join("schema-1"), schema.to_string()).unwrap();
    let text = fs::read_to_string(case.lab.path("job.yaml")).unwrap();
    let columns = text.replace(
        "k: INT, v: INT, op: STRING",
        "k: INT, w: BIGINT, op: STRING, v: STRING",
    );
    assert_ne!(columns, text);
    case.lab.write("job.yaml", columns);
    case.commit(&[
        json!({"k": 2, "w": 5_000_000_000_i64, "v": "new"}),
        json!({"k": 3, "w": 3, "v": "new"}),
    ]);
    let wanted = [
        json!({"k": 1, "w": 1, "v": null}),
        json!({"k": 2, "w": 5_000_000_000_i64, "v": "new"}),
        json!({"k": 3, "w": 3, "v": "new"}),
    ];
    for _ in 0..2 {
        case.reads("k,w,v", "", &wanted);
        case.reads("k", "v IS NULL", &[json!({"k": 1})]);
        case.reads("k", "w = 2", &[]);
        case.compact(&["--full"]);
    }
}
