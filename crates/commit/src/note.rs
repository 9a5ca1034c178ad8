//! The published note of a job: what its newest commit was, for the day on which somebody's expiry
//! has removed that snapshot \[R-4].
//!
//! Layout, version 1: lines of `key value`, the first one naming the version, the last one `end`, so
//! that a torn note is noticed. Values are text with `\n` and `\\` escaped; positions are base64.

use tidegate_model::SnapshotId;
use tidegate_protocol::Half;
use tidegate_sink::{CheckpointId, CommitIdentifier, CommitUser, Digest, Epoch};

use crate::error::{CommitError, Result};
use crate::properties::{ActiveAt, PositionMarks, base64, unbase64};

const FIRST: &str = "tidegate published note 1";
const LAST: &str = "end";

/// The newest commit of a job, as it was when the note was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The job's commit user.
    pub user: CommitUser,
    /// The newest commit.
    pub identifier: CommitIdentifier,
    /// The last half of it that is visible; an APPEND half before it is visible too.
    pub half: Half,
    /// Its content.
    pub digest: Digest,
    /// Its last snapshot.
    pub snapshot: SnapshotId,
    /// What tells that snapshot from another one of this number.
    pub token: String,
    /// The run that made it.
    pub epoch: Epoch,
    /// The checkpoint that it came from.
    pub checkpoint: CheckpointId,
    /// Where the sources stood.
    pub positions: Option<PositionMarks>,
}

impl Note {
    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut lines = vec![
            FIRST.to_owned(),
            format!("user {}", escape(self.user.as_str())),
            format!("identifier {}", self.identifier),
            format!("half {}", self.half),
            format!("digest {}", self.digest),
            format!("snapshot {}", self.snapshot),
            format!("token {}", escape(&self.token)),
            format!("epoch {}", self.epoch),
            format!("checkpoint {}", self.checkpoint),
        ];
        if let Some(positions) = &self.positions {
            lines.push(match &positions.active {
                ActiveAt::Inline(bytes) => format!("positions {}", base64(bytes)),
                ActiveAt::Object(name) => format!("positions-at {}", escape(name)),
            });
            if let Some(name) = &positions.finished_at {
                lines.push(format!("finished-at {}", escape(name)));
            }
            lines.push(format!("positions-hash {}", positions.hash));
        }
        lines.push(LAST.to_owned());
        let mut text = lines.join("\n");
        text.push('\n');
        text.into_bytes()
    }

    /// Reads a note; `path` is where it came from, for messages.
    ///
    /// # Errors
    /// [`CommitError::Corrupt`] naming the line.
    pub fn decode(path: &str, bytes: &[u8]) -> Result<Self> {
        let wrong =
            |line: usize, why: String| CommitError::corrupt(path, format!("line {line}: {why}"));
        let text = std::str::from_utf8(bytes).map_err(|e| CommitError::corrupt(path, e))?;
        let mut lines = text.lines().enumerate();
        match lines.next() {
            Some((_, FIRST)) => {}
            Some((_, other)) => {
                return Err(wrong(
                    1,
                    format!("`{other}` is not `{FIRST}`; this build reads that only"),
                ));
            }
            None => return Err(wrong(1, "the note is empty".to_owned())),
        }
        let mut fields: Vec<(&str, String)> = Vec::new();
        let mut ended = false;
        for (at, line) in lines {
            if ended {
                return Err(wrong(at + 1, format!("follows `{LAST}`")));
            }
            match line.split_once(' ') {
                Some((key, value)) => {
                    let value = unescape(value)
                        .ok_or_else(|| wrong(at + 1, "has a broken escape".to_owned()))?;
                    fields.push((key, value));
                }
                None if line == LAST => ended = true,
                None => return Err(wrong(at + 1, format!("`{line}` is no `key value`"))),
            }
        }
        if !ended {
            return Err(CommitError::corrupt(path, "is cut off: no last line `end`"));
        }
        let optional = |key: &str| {
            fields
                .iter()
                .find(|(k, _)| *k == key)
                .map(|(_, v)| v.as_str())
        };
        let text = |key: &str| {
            optional(key).ok_or_else(|| CommitError::corrupt(path, format!("has no line `{key}`")))
        };
        let bad = |key: &str, why: &dyn std::fmt::Display| {
            CommitError::corrupt(path, format!("line `{key}`: {why}"))
        };
        let signed = |key: &str| text(key).and_then(|t| t.parse::<i64>().map_err(|e| bad(key, &e)));
        let unsigned =
            |key: &str| text(key).and_then(|t| t.parse::<u64>().map_err(|e| bad(key, &e)));
        let digest = |key: &str| text(key).and_then(|t| Digest::parse(t).map_err(|e| bad(key, &e)));
        let active = match (optional("positions"), optional("positions-at")) {
            (Some(coded), _) => Some(ActiveAt::Inline(
                unbase64(coded).ok_or_else(|| bad("positions", &"is not base64"))?,
            )),
            (None, Some(name)) => Some(ActiveAt::Object(name.to_owned())),
            (None, None) => None,
        };
        let positions = match active {
            Some(active) => Some(PositionMarks {
                active,
                finished_at: optional("finished-at").map(str::to_owned),
                hash: digest("positions-hash")?,
            }),
            None => None,
        };
        Ok(Self {
            user: CommitUser::new(text("user")?).map_err(|e| bad("user", &e))?,
            identifier: CommitIdentifier(signed("identifier")?),
            half: match text("half")? {
                "append" => Half::Append,
                "compact" => Half::Compact,
                other => return Err(bad("half", &format!("`{other}` is no half"))),
            },
            digest: digest("digest")?,
            snapshot: SnapshotId(signed("snapshot")?),
            token: text("token")?.to_owned(),
            epoch: Epoch(unsigned("epoch")?),
            checkpoint: CheckpointId(unsigned("checkpoint")?),
            positions,
        })
    }
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('\n', "\\n")
        .replace('\r', "\\r")
}

fn unescape(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => out.push(match chars.next()? {
                '\\' => '\\',
                'n' => '\n',
                'r' => '\r',
                _ => return None,
            }),
            c => out.push(c),
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note() -> Note {
        Note {
            user: CommitUser::new("a\\b\nc").unwrap(),
            identifier: CommitIdentifier(7),
            half: Half::Compact,
            digest: Digest([0xab; 32]),
            snapshot: SnapshotId(12),
            token: "53db7fc3".to_owned(),
            epoch: Epoch(3),
            checkpoint: CheckpointId(7),
            positions: Some(PositionMarks {
                active: ActiveAt::Inline(b"file 7".to_vec()),
                finished_at: Some("tidegate/jobs/j/finished-00".to_owned()),
                hash: Digest([1; 32]),
            }),
        }
    }

    #[test]
    fn the_bytes_of_version_1_are_pinned() {
        let golden = include_bytes!("../../../tests/golden/commit/published-note-1.txt");
        assert_eq!(
            String::from_utf8(note().encode()).unwrap(),
            String::from_utf8(golden.to_vec()).unwrap()
        );
        assert_eq!(Note::decode("n", golden).unwrap(), note());
    }

    #[test]
    fn every_truncation_is_noticed() {
        let bytes = note().encode();
        for n in 0..bytes.len() - 1 {
            assert!(Note::decode("n", &bytes[..n]).is_err(), "{n} bytes");
        }
        let error = Note::decode("p/published", b"tidegate published note 2\nend\n").unwrap_err();
        assert!(error.to_string().contains("p/published: line 1"), "{error}");
    }
}
