//! What a snapshot of ours carries beside Java's fields \[R-3]: marks that say which run of which job
//! made it, from which content, on which parent, and where its sources stood.
//!
//! Java ignores them and does not carry them forward, so nothing here protects against Java writers.

use sha2::{Digest as _, Sha256};
use tidegate_model::{Snapshot, layout};
use tidegate_sink::{CheckpointId, Digest, Epoch, JobName, Positions};

use crate::error::{CommitError, Result};
use crate::names::sha256_hex;

const JOB: &str = "tidegate.job";
const EPOCH: &str = "tidegate.epoch";
const EMPTY: &str = "tidegate.empty";
const CHECKPOINT: &str = "tidegate.checkpoint";
const DIGEST: &str = "tidegate.digest";
const BASED_ON: &str = "tidegate.based-on";
const POSITIONS: &str = "tidegate.positions";
const POSITIONS_AT: &str = "tidegate.positions-at";
const FINISHED_AT: &str = "tidegate.finished-at";
const POSITIONS_HASH: &str = "tidegate.positions-hash";

/// Active positions up to this many bytes stand in the snapshot itself \[R-3].
pub const INLINE_POSITIONS: usize = 8 * 1024;

/// Where the active positions of a snapshot are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ActiveAt {
    /// In the snapshot.
    Inline(Vec<u8>),
    /// In an immutable object, relative to the table.
    Object(String),
}

/// The positions of a snapshot: the small part or its place, and the place of the large part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PositionMarks {
    /// The active part.
    pub active: ActiveAt,
    /// The finished part's object, relative to the table; `None` = empty.
    pub finished_at: Option<String>,
    /// SHA-256 over both parts: what the next commit compares with \[R-9].
    pub hash: Digest,
}

/// The marks of one snapshot, typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marks {
    /// The job.
    pub job: JobName,
    /// The run.
    pub epoch: Epoch,
    /// The checkpoint.
    pub checkpoint: CheckpointId,
    /// Identity of the content.
    pub digest: Digest,
    /// Identity of the parent snapshot; `None` for the first one.
    pub based_on: Option<String>,
    /// Where the sources stood; `None` where the engine keeps that for itself.
    pub positions: Option<PositionMarks>,
    /// It changes nothing and was published all the same; its positions are then those of the last
    /// commit that was not empty.
    pub empty: bool,
}

/// SHA-256 over both parts of positions, each with its length before it.
pub fn positions_hash(positions: &Positions) -> Digest {
    let mut hash = Sha256::new();
    for part in [&positions.active, &positions.finished] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    Digest(hash.finalize().into())
}

impl PositionMarks {
    /// Marks for positions of `job`, with the objects that have to exist before a snapshot may name
    /// them: pairs of name and content. `epoch` is that of the run that combined the commit: a
    /// clean-up goes by it \[R-13].
    pub fn of(
        job: &JobName,
        epoch: Epoch,
        positions: &Positions,
    ) -> (Self, Vec<(String, Vec<u8>)>) {
        let mut objects = Vec::new();
        let active = if positions.active.len() <= INLINE_POSITIONS {
            ActiveAt::Inline(positions.active.clone())
        } else {
            let name = layout::positions_path(job, epoch, &sha256_hex(&positions.active));
            objects.push((name.clone(), positions.active.clone()));
            ActiveAt::Object(name)
        };
        let finished_at = (!positions.finished.is_empty()).then(|| {
            let name = layout::finished_path(job, epoch, &sha256_hex(&positions.finished));
            objects.push((name.clone(), positions.finished.clone()));
            name
        });
        (
            Self {
                active,
                finished_at,
                hash: positions_hash(positions),
            },
            objects,
        )
    }
}

impl Marks {
    /// As properties of a snapshot.
    pub fn to_properties(&self) -> Vec<(String, String)> {
        let mut out = vec![
            (JOB.to_owned(), self.job.to_string()),
            (EPOCH.to_owned(), self.epoch.to_string()),
            (CHECKPOINT.to_owned(), self.checkpoint.to_string()),
            (DIGEST.to_owned(), self.digest.to_string()),
        ];
        if self.empty {
            out.push((EMPTY.to_owned(), "true".to_owned()));
        }
        if let Some(parent) = &self.based_on {
            out.push((BASED_ON.to_owned(), parent.clone()));
        }
        if let Some(positions) = &self.positions {
            out.push(match &positions.active {
                ActiveAt::Inline(bytes) => (POSITIONS.to_owned(), base64(bytes)),
                ActiveAt::Object(name) => (POSITIONS_AT.to_owned(), name.clone()),
            });
            if let Some(name) = &positions.finished_at {
                out.push((FINISHED_AT.to_owned(), name.clone()));
            }
            out.push((POSITIONS_HASH.to_owned(), positions.hash.to_string()));
        }
        out
    }

    /// Reads the marks of a snapshot: `None` when it carries none (a foreign snapshot), an error when
    /// they are there and make no sense.
    pub fn of(snapshot: &Snapshot) -> Result<Option<Self>> {
        let Some(job) = snapshot.property(JOB) else {
            return Ok(None);
        };
        let wrong = |key: &str, why: String| {
            CommitError::corrupt(
                format!("snapshot/snapshot-{}", snapshot.id),
                format!("property {key}: {why}"),
            )
        };
        let text = |key: &'static str| {
            snapshot
                .property(key)
                .ok_or_else(|| wrong(key, "is missing beside tidegate.job".to_owned()))
        };
        let number = |key: &'static str| {
            text(key).and_then(|t| {
                t.parse::<u64>()
                    .map_err(|e| wrong(key, format!("`{t}`: {e}")))
            })
        };
        let digest = |key: &'static str| {
            text(key).and_then(|t| Digest::parse(t).map_err(|e| wrong(key, e.0)))
        };
        let active = match (
            snapshot.property(POSITIONS),
            snapshot.property(POSITIONS_AT),
        ) {
            (Some(text), _) => {
                Some(ActiveAt::Inline(unbase64(text).ok_or_else(|| {
                    wrong(POSITIONS, "is not base64".to_owned())
                })?))
            }
            (None, Some(name)) => Some(ActiveAt::Object(name.to_owned())),
            (None, None) => None,
        };
        let positions = match active {
            None => None,
            Some(active) => Some(PositionMarks {
                active,
                finished_at: snapshot.property(FINISHED_AT).map(str::to_owned),
                hash: digest(POSITIONS_HASH)?,
            }),
        };
        Ok(Some(Self {
            job: JobName::new(job).map_err(|e| wrong(JOB, e.0))?,
            epoch: Epoch(number(EPOCH)?),
            checkpoint: CheckpointId(number(CHECKPOINT)?),
            digest: digest(DIGEST)?,
            based_on: snapshot.property(BASED_ON).map(str::to_owned),
            positions,
            empty: snapshot.property(EMPTY) == Some("true"),
        }))
    }
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Standard base64 with padding.
pub(crate) fn base64(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let group =
            chunk.iter().fold(0u32, |sum, b| (sum << 8) | u32::from(*b)) << (8 * (3 - chunk.len()));
        for at in 0..4 {
            let sextet = (group >> (18 - 6 * at)) & 63;
            let symbol = ALPHABET.get(sextet as usize).copied().unwrap_or(b'=');
            out.push(if at > chunk.len() {
                '='
            } else {
                char::from(symbol)
            });
        }
    }
    out
}

/// Reads standard base64 with padding.
pub(crate) fn unbase64(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let body = text.trim_end_matches('=');
    if text.len() - body.len() > 2 {
        return None;
    }
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    for chunk in body.as_bytes().chunks(4) {
        if chunk.len() == 1 {
            return None;
        }
        let mut group = 0u32;
        for symbol in chunk {
            let sextet = ALPHABET.iter().position(|s| s == symbol)?;
            group = (group << 6) | u32::try_from(sextet).ok()?;
        }
        group <<= 6 * (4 - chunk.len());
        out.extend(
            group
                .to_be_bytes()
                .into_iter()
                .skip(1)
                .take(chunk.len() - 1),
        );
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn base64_is_the_standard_one() {
        let pairs = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foobar", "Zm9vYmFy"),
        ];
        for (plain, coded) in pairs {
            assert_eq!(base64(plain.as_bytes()), coded);
            assert_eq!(unbase64(coded), Some(plain.as_bytes().to_vec()));
        }
        for bad in ["Z", "Zg=", "Zg==Zg==", "Z===", "Zm9v\n", "Zé=="] {
            assert_eq!(unbase64(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn base64_is_lossless(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            prop_assert_eq!(unbase64(&base64(&bytes)), Some(bytes));
        }
    }

    #[test]
    fn the_hash_tells_the_parts_apart() {
        let hash = |active: &[u8], finished: &[u8]| {
            positions_hash(&Positions {
                active: active.to_vec(),
                finished: finished.to_vec(),
            })
        };
        assert_ne!(hash(b"ab", b""), hash(b"a", b"b"));
        assert_ne!(hash(b"", b"ab"), hash(b"ab", b""));
        assert_eq!(hash(b"ab", b"c"), hash(b"ab", b"c"));
    }

    #[test]
    fn only_large_active_positions_leave_the_snapshot() {
        let job = JobName::new("j").unwrap();
        let small = Positions {
            active: vec![7; INLINE_POSITIONS],
            finished: vec![],
        };
        let (marks, objects) = PositionMarks::of(&job, Epoch(3), &small);
        assert!(matches!(marks.active, ActiveAt::Inline(_)));
        assert_eq!((marks.finished_at, objects.len()), (None, 0));
        let large = Positions {
            active: vec![7; INLINE_POSITIONS + 1],
            finished: vec![1],
        };
        let (marks, objects) = PositionMarks::of(&job, Epoch(3), &large);
        assert!(
            matches!(&marks.active, ActiveAt::Object(n) if n.starts_with("tidegate/jobs/j/positions-"))
        );
        assert_eq!(objects.len(), 2);
    }
}
