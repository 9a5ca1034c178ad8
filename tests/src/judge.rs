//! What is in a table's folder, judged by bytes alone: which objects does the table refer to, which
//! are left over, which are missing.
//!
//! Reads snapshot files as JSON. Manifest lists and manifests are not decoded: their strings are
//! found by content and the length before them (they are written uncompressed in labs), so nothing
//! of ours vouches for itself here.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// What was found.
#[derive(Debug, Default)]
pub struct Findings {
    /// Snapshot files, oldest first.
    pub snapshots: Vec<Value>,
    /// Commit users of all snapshots.
    pub users: BTreeSet<String>,
    /// Paths of objects that nothing refers to.
    pub orphans: Vec<String>,
    /// Names that are referred to and not there.
    pub dangling: Vec<String>,
    /// Live data files.
    pub data_files: usize,
    /// Objects in all.
    pub objects: usize,
}

impl Findings {
    /// Commit identifiers, oldest first.
    pub fn identifiers(&self) -> Vec<i64> {
        self.snapshots
            .iter()
            .map(|s| s["commitIdentifier"].as_i64().unwrap())
            .collect()
    }
}

/// Differences between ids that were read (sorted) and 1..=rows, in words; empty when there are none.
pub fn differences(ids: &[i64], rows: i64) -> String {
    let mut counts: BTreeMap<i64, usize> = BTreeMap::new();
    ids.iter()
        .for_each(|id| *counts.entry(*id).or_default() += 1);
    let lost: Vec<i64> = (1..=rows).filter(|id| !counts.contains_key(id)).collect();
    let doubled: Vec<i64> = counts
        .iter()
        .filter(|(_, n)| **n > 1)
        .map(|(id, _)| *id)
        .collect();
    let strange: Vec<i64> = counts
        .keys()
        .copied()
        .filter(|id| *id < 1 || *id > rows)
        .collect();
    let mut text = String::new();
    for (what, ids) in [
        ("lost", lost),
        ("doubled", doubled),
        ("unexpected", strange),
    ] {
        if let (Some(first), Some(last)) = (ids.first(), ids.last()) {
            text.push_str(&format!("{} {what} ({first}..={last}) ", ids.len()));
        }
    }
    text
}

/// Looks at a table's folder.
pub fn look(table: &Path) -> Findings {
    let mut files = BTreeMap::new();
    walk(table, table, &mut files);
    let mut found = Findings {
        objects: files.len(),
        ..Findings::default()
    };
    let mut snapshots: Vec<(i64, Value)> = files
        .iter()
        .filter(|(path, _)| is_snapshot(path))
        .map(|(path, at)| {
            let text = fs::read_to_string(at).unwrap();
            let json: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{path}: {e}"));
            (json["id"].as_i64().unwrap(), json)
        })
        .collect();
    snapshots.sort_by_key(|(id, _)| *id);
    let by_name: BTreeMap<&str, &str> = files
        .keys()
        .map(|path| (path.rsplit('/').next().unwrap(), path.as_str()))
        .collect();

    let mut reached: BTreeSet<String> = BTreeSet::new();
    let mut texts = String::new();
    for (_, snapshot) in &snapshots {
        found
            .users
            .insert(snapshot["commitUser"].as_str().unwrap().to_owned());
        texts.push_str(&snapshot.to_string());
        for key in [
            "baseManifestList",
            "deltaManifestList",
            "changelogManifestList",
            "indexManifest",
            "statistics",
        ] {
            if let Some(name) = snapshot[key].as_str() {
                reached.insert(name.to_owned());
            }
        }
    }
    found.snapshots = snapshots.into_iter().map(|(_, s)| s).collect();
    // Lists name manifests, manifests name data files: two rounds, until nothing new comes.
    let mut open: Vec<String> = reached.iter().cloned().collect();
    while let Some(name) = open.pop() {
        let Some(path) = by_name.get(name.as_str()) else {
            found.dangling.push(name);
            continue;
        };
        if !path.starts_with("manifest/") {
            continue;
        }
        for named in names(&fs::read(&files[*path]).unwrap()) {
            if reached.insert(named.clone()) {
                open.push(named);
            }
        }
    }
    for (path, at) in &files {
        let name = path.rsplit('/').next().unwrap();
        let job_object = path.starts_with("tidegate/jobs/");
        let known = if path.starts_with("snapshot/") || path.starts_with("schema/") {
            !name.contains("tmp")
        } else if job_object && (name.starts_with("positions-") || name.starts_with("finished-")) {
            // Named by a snapshot's properties or by the published note.
            let note = fs::read_to_string(at.with_file_name("published")).unwrap_or_default();
            texts.contains(name) || note.contains(name)
        } else if job_object {
            name == "published" || name.starts_with("epoch-") || name.starts_with("ended-")
        } else {
            reached.contains(name)
        };
        if !known {
            found.orphans.push(path.clone());
        }
    }
    found.data_files = reached.iter().filter(|n| n.starts_with("data-")).count();
    found
}

/// Not what a writer was about to rename to one.
fn is_snapshot(path: &str) -> bool {
    let id = path.strip_prefix("snapshot/snapshot-");
    id.is_some_and(|id| !id.is_empty() && id.bytes().all(|b| b.is_ascii_digit()))
}

fn walk(root: &Path, at: &Path, files: &mut BTreeMap<String, std::path::PathBuf>) {
    for entry in fs::read_dir(at).unwrap_or_else(|e| panic!("{}: {e}", at.display())) {
        let path = entry.unwrap().path();
        if path.is_dir() {
            walk(root, &path, files);
        } else {
            files.insert(
                path.strip_prefix(root)
                    .unwrap()
                    .to_string_lossy()
                    .into_owned(),
                path,
            );
        }
    }
}

/// What names of objects that manifests and lists name begin with: further lists and manifests, files of
/// rows, of changes and of indexes.
const PREFIXES: [&[u8]; 4] = [b"manifest-", b"data-", b"changelog-", b"index-"];

/// Names of manifests, data files, changelogs and index files in an uncompressed Avro file: each string has
/// its length before it, a zig-zag varint of one or two bytes.
fn names(bytes: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    for prefix in PREFIXES {
        let starts = bytes
            .windows(prefix.len())
            .enumerate()
            .filter(|(_, w)| *w == prefix);
        for (at, _) in starts {
            let one = at.checked_sub(1).map(|i| usize::from(bytes[i]));
            let two = at.checked_sub(2).map(|i| usize::from(bytes[i]));
            let lengths = [
                one.filter(|b| b % 2 == 0 && *b < 0x80).map(|b| b / 2),
                one.zip(two)
                    .filter(|(_, two)| *two >= 0x80)
                    .map(|(one, two)| ((two & 0x7f) | one << 7) / 2),
            ];
            for length in lengths.into_iter().flatten().filter(|l| *l > 40) {
                if let Some(text) = bytes.get(at..at + length)
                    && text
                        .iter()
                        .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(b))
                {
                    found.push(String::from_utf8_lossy(text).into_owned());
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_cut_where_their_length_says() {
        let name = "data-tg40f04ed8e1-3dd98ce7-6b1d-4e81-bb4e-ac22a35e2d40-1.parquet";
        let mut bytes = vec![
            7,
            (name.len() * 2) as u8 | 0x80,
            ((name.len() * 2) >> 7) as u8,
        ];
        bytes.extend(name.as_bytes());
        bytes.extend(b"77");
        assert_eq!(names(&bytes), [name]);
    }

    #[test]
    fn files_of_changes_and_of_indexes_are_named_and_what_is_not_named_is_left_over() {
        let table = tempfile::tempdir().unwrap();
        let uuid = "3dd98ce7-6b1d-4e81-bb4e-ac22a35e2d40";
        let manifest = format!("manifest-tg40f04ed8e1-{uuid}-0");
        let named = [
            format!("data-tg40f04ed8e1-{uuid}-1.parquet"),
            format!("changelog-tg40f04ed8e1-{uuid}-2.parquet"),
            format!("index-tg40f04ed8e1-{uuid}-3"),
        ];
        let planted = [
            format!("bucket-0/changelog-tg40f04ed8e2-{uuid}-2.parquet"),
            format!("index/index-tg40f04ed8e2-{uuid}-3"),
        ];
        for folder in ["snapshot", "manifest", "bucket-0", "index"] {
            fs::create_dir(table.path().join(folder)).unwrap();
        }
        let mut bytes = Vec::new();
        for name in &named {
            // A length of two bytes, as a name of more than 63 letters has it.
            let length = name.len() * 2;
            match length < 0x80 {
                true => bytes.push(length as u8),
                false => bytes.extend([length as u8 | 0x80, (length >> 7) as u8]),
            }
            bytes.extend(name.as_bytes());
            bytes.push(2);
        }
        fs::write(table.path().join("manifest").join(&manifest), bytes).unwrap();
        let text =
            format!("{{\"id\": 1, \"commitUser\": \"u\", \"indexManifest\": \"{manifest}\"}}");
        fs::write(table.path().join("snapshot/snapshot-1"), text).unwrap();
        for path in [
            format!("bucket-0/{}", named[0]),
            format!("bucket-0/{}", named[1]),
            format!("index/{}", named[2]),
        ]
        .iter()
        .chain(&planted)
        {
            fs::write(table.path().join(path), "").unwrap();
        }
        let found = look(table.path());
        assert_eq!(found.orphans, planted);
        assert!(found.dangling.is_empty(), "{:?}", found.dangling);
        fs::remove_file(table.path().join("index").join(&named[2])).unwrap();
        assert_eq!(look(table.path()).dangling, named[2..]);
    }

    #[test]
    fn what_is_named_by_an_unfinished_snapshot_only_is_left_over() {
        let table = tempfile::tempdir().unwrap();
        for name in ["snapshot", "manifest"] {
            fs::create_dir(table.path().join(name)).unwrap();
        }
        let list = |n: i64| format!("manifest-list-0f7beb6c-eec4-422e-905b-c896ee73b3e4-{n}");
        for (n, name) in [(1, "snapshot-1"), (2, "snapshot-2.tmp-0f7beb6c")] {
            let text = format!(
                "{{\"id\": {n}, \"commitUser\": \"u\", \"baseManifestList\": \"{}\"}}",
                list(n)
            );
            fs::write(table.path().join("snapshot").join(name), text).unwrap();
            fs::write(table.path().join("manifest").join(list(n)), "").unwrap();
        }
        let found = look(table.path());
        assert_eq!(found.snapshots.len(), 1);
        let unfinished = "snapshot/snapshot-2.tmp-0f7beb6c".to_owned();
        assert_eq!(found.orphans, [format!("manifest/{}", list(2)), unfinished]);
    }

    #[test]
    fn differences_name_what_is_lost_doubled_and_strange() {
        assert_eq!(differences(&[1, 2, 3], 3), "");
        let text = differences(&[1, 1, 3, 9], 3);
        assert!(
            text.contains("1 lost (2..=2)") && text.contains("1 doubled (1..=1)"),
            "{text}"
        );
        assert!(text.contains("1 unexpected (9..=9)"), "{text}");
    }
}
