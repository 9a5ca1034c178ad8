//! Jobs on tables with a primary key: files of changes, what the table holds after them, the whole verdict.

use crate::lab::{Lab, TABLE};
use serde_json::Value;
use std::collections::BTreeMap;

/// Ids with their names: the content of a table of [`job`].
pub type Content = BTreeMap<i64, String>;

/// Draws upserts and deletes and knows what they come to.
#[derive(Debug)]
pub struct Changes {
    state: u64,
    first: i64,
    keys: u64,
    /// After all files that were written.
    pub content: Content,
    /// Rows of all files that were written.
    pub rows: i64,
    files: usize,
}

impl Changes {
    /// 40 keys from 0, drawn by a seed above 0.
    pub fn new(seed: u64) -> Self {
        Self::of_keys(seed, 0)
    }

    /// 40 keys from `first`: what one of several jobs on a table writes.
    pub fn of_keys(seed: u64, first: i64) -> Self {
        Self {
            state: seed,
            first,
            keys: 40,
            content: Content::new(),
            rows: 0,
            files: 0,
        }
    }

    /// A number below `n`.
    pub fn random(&mut self, n: u64) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state % n
    }

    /// One more file of upserts and deletes in a folder of the lab.
    pub fn file(&mut self, lab: &Lab, folder: &str, rows: usize) {
        let number = self.files;
        let mut text = String::new();
        for row in 0..rows {
            let id = self.first + self.random(self.keys) as i64;
            let delete = self.random(5) == 0;
            let (op, name) = (if delete { "-D" } else { "+I" }, format!("v{number}-{row}"));
            text += &format!("{{\"id\":{id},\"name\":\"{name}\",\"op\":\"{op}\"}}\n");
            match delete {
                true => self.content.remove(&id),
                false => self.content.insert(id, name),
            };
        }
        self.rows += rows as i64;
        self.files += 1;
        lab.write(&format!("{folder}/{number:04}.jsonl"), text);
    }
}

/// Writes `job.yaml`: columns `id`, `name`, `op`, key `id`, kinds from `op`, files of `in/`.
pub fn job(lab: &Lab, options: &str) {
    job_of(lab, "lab", "in", options);
}

/// Writes `<file>.yaml`, the job of that name on the same table, for files of a folder; `lab` is `job.yaml`.
pub fn job_of(lab: &Lab, name: &str, folder: &str, options: &str) {
    let trigger = "num-sorted-run.compaction-trigger: 2";
    let options = format!(", rowkind.field: op, {trigger}{options}");
    let columns = "id: BIGINT, name: STRING, op: STRING";
    let sink = lab.sink_yaml(columns, "", &options, ", interval: 10 ms");
    let sink = sink.replace("  partition-by: []\n", "  primary-key: [id]\n");
    let file = if name == "lab" { "job" } else { name };
    lab.write(
        &format!("{file}.yaml"),
        format!("name: {name}\nsource: {{ type: files, path: {folder}/*.jsonl }}\n{sink}"),
    );
}

/// What the table holds; a key that is there twice fails.
#[track_caller]
pub fn content(lab: &Lab) -> Content {
    let mut found = Content::new();
    for row in lab.rows() {
        let name = row["name"].as_str().unwrap().to_owned();
        let before = found.insert(row["id"].as_i64().unwrap(), name);
        assert_eq!(before, None, "twice: {row}; kept {:?}", lab.keep());
    }
    found
}

/// The content is the map's; by bytes nothing is absent or left over, and `verify` says the same.
#[track_caller]
pub fn whole(lab: &Lab, expected: &Content) {
    let found = content(lab);
    assert_eq!(&found, expected, "kept {:?}", lab.keep());
    judged(lab);
}

/// As [`whole`], for the table's files alone.
#[track_caller]
pub fn judged(lab: &Lab) {
    let found = lab.judge();
    let missing = &found.dangling;
    assert!(
        missing.is_empty(),
        "absent: {missing:#?}; kept {:?}",
        lab.keep()
    );
    assert!(
        found.orphans.is_empty(),
        "left over: {:#?}; kept {:?}",
        found.orphans,
        lab.keep()
    );
    let report = lab.query(&["verify", TABLE]).remove(0);
    assert_eq!(report["errors"], 0, "{report}");
    let findings = report["findings"].as_array().unwrap();
    let unknown: Vec<_> = findings
        .iter()
        .filter(|f| f["kind"] == "unknown-file")
        .collect();
    assert!(unknown.is_empty(), "left over by verify: {unknown:#?}");
}

/// Sequence ranges of the files of each bucket's level 0 are apart: one writer wrote them.
#[track_caller]
pub fn sequences_apart(lab: &Lab) {
    let mut ranges: BTreeMap<i64, Vec<(i64, i64)>> = BTreeMap::new();
    for file in lab.data_files().iter().filter(|f| f["level"] == 0) {
        let number = |name: &str| file[name].as_i64().unwrap();
        let range = (number("min_sequence_number"), number("max_sequence_number"));
        ranges.entry(number("bucket")).or_default().push(range);
    }
    for list in ranges.values_mut() {
        list.sort_unstable();
        let apart = list.array_windows::<2>().all(|[a, b]| a.1 < b.0);
        assert!(apart, "{list:?}");
    }
}

/// How the changes that `tail` shows must follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// Records as they were written: a newer one counts, whatever stood there.
    Records,
    /// Changes of rows: an insert needs an absent key, a taking back exactly the row that stands there.
    Rows,
}

/// All changes from the beginning, folded.
#[track_caller]
pub fn folded(lab: &Lab, told: Told) -> Content {
    let mut content = Content::new();
    for row in lab.query(&["tail", TABLE, "--from", "earliest"]) {
        change(&mut content, &row, told);
    }
    content
}

#[track_caller]
fn change(content: &mut Content, row: &Value, told: Told) {
    let id = row["id"].as_i64().unwrap();
    let name = row["name"].as_str().unwrap().to_owned();
    let stood = match row["_kind"].as_str().unwrap() {
        "+I" | "+U" => {
            let stood = content.insert(id, name);
            assert!(told == Told::Records || stood.is_none(), "{row}: {stood:?}");
            return;
        }
        _ => content.remove(&id),
    };
    assert!(
        told == Told::Records || stood == Some(name),
        "{row}: {stood:?}"
    );
}
