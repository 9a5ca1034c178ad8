//! What the job said on its standard error: which commits it took for published, how it ended.

use crate::lab::Done;
use serde_json::Value;
use std::collections::BTreeMap;

/// A commit that the job said was published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Said {
    snapshot: i64,
    rows: i64,
}

/// Everything that all its processes said.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    commits: BTreeMap<i64, Said>,
    pub(crate) runs: usize,
    pub(crate) ends: BTreeMap<i32, usize>,
    pub(crate) last_words: BTreeMap<String, usize>,
}

impl Heard {
    /// Takes in what an ended process said.
    pub(crate) fn process(&mut self, done: &Done) {
        for line in done.stderr.lines() {
            // A kill cuts the last line.
            let Ok(line) = serde_json::from_str::<Value>(line) else {
                continue;
            };
            let fields = &line["fields"];
            match fields["message"].as_str() {
                Some("run") => self.runs += 1,
                Some("published") => {
                    let commit: i64 = fields["commit"].as_str().unwrap().parse().unwrap();
                    let said = Said {
                        snapshot: fields["version"].as_i64().unwrap(),
                        rows: fields["rows"].as_i64().unwrap(),
                    };
                    let before = self.commits.insert(commit, said);
                    assert!(
                        before.is_none_or(|b| b == said),
                        "commit {commit} was published as {before:?} and as {said:?}"
                    );
                }
                _ => {}
            }
        }
        if let Some(code) = done.code {
            *self.ends.entry(code).or_default() += 1;
            *self.last_words.entry(last_words(&done.stderr)).or_default() += 1;
        }
    }

    /// Rows of all these commits.
    pub(crate) fn rows(&self) -> i64 {
        self.commits.values().map(|said| said.rows).sum()
    }

    /// How many they are.
    pub(crate) fn commits(&self) -> usize {
        self.commits.len()
    }

    /// Each is in the table, under the snapshot and with the rows that were said.
    #[track_caller]
    pub(crate) fn check(&self, snapshots: &[Value]) {
        for (commit, said) in &self.commits {
            let found: Vec<Said> = snapshots
                .iter()
                .filter(|s| s["commitIdentifier"].as_i64() == Some(*commit))
                .map(|s| Said {
                    snapshot: s["id"].as_i64().unwrap(),
                    rows: s["deltaRecordCount"].as_i64().unwrap(),
                })
                .collect();
            assert_eq!(found, [*said], "commit {commit}: found, said");
        }
    }
}

/// The last line that is no log, its numbers taken out so that the same words count as the same.
fn last_words(stderr: &str) -> String {
    let plain = |line: &&str| !line.starts_with('{') && !line.trim().is_empty();
    let line = stderr.lines().filter(plain).find(|l| l.contains("error"));
    let line = line.or_else(|| stderr.lines().rfind(plain)).unwrap_or("");
    let mut text = String::new();
    for c in line.chars() {
        match c.is_ascii_digit() {
            true if text.ends_with('#') => {}
            true => text.push('#'),
            false => text.push(c),
        }
    }
    text.chars().take(150).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn done(stderr: &str) -> Done {
        Done {
            code: None,
            signal: Some(9),
            stdout: String::new(),
            stderr: stderr.to_owned(),
        }
    }

    fn heard() -> Heard {
        let mut heard = Heard::default();
        heard.process(&done(
            "{\"fields\":{\"message\":\"run\"}}\n\
             {\"fields\":{\"message\":\"published\",\"commit\":\"3\",\"version\":2,\"rows\":40}}\n\
             {\"fields\":{\"message\":\"publis",
        ));
        heard
    }

    #[test]
    fn acknowledged_commits_are_those_that_were_said_whole() {
        let heard = heard();
        assert_eq!((heard.rows(), heard.commits(), heard.runs), (40, 1, 1));
        heard.check(&[json!({"id": 2, "commitIdentifier": 3, "deltaRecordCount": 40})]);
    }

    #[test]
    #[should_panic(expected = "commit 3: found, said")]
    fn an_acknowledged_commit_that_is_absent_is_a_loss() {
        heard().check(&[json!({"id": 2, "commitIdentifier": 4, "deltaRecordCount": 40})]);
    }

    #[test]
    #[should_panic(expected = "commit 3: found, said")]
    fn an_acknowledged_commit_that_is_there_twice_is_a_doubling() {
        let twice =
            [2, 3].map(|id| json!({"id": id, "commitIdentifier": 3, "deltaRecordCount": 40}));
        heard().check(&twice);
    }
}
