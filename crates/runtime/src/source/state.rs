//! What is saved of a source: positions of begun and finished splits, and the enumerator's state.
//!
//! Owns its bytes: one part that moves with every checkpoint and one that grows rarely, as
//! [`tidegate_sink::Positions`] has them \[R-3]. Equal states have equal bytes, since commits compare
//! them \[R-9].

use std::collections::BTreeMap;

use tidegate_sink::Positions;

use super::{Position, Split, SplitId};

/// Everything that is needed to go on reading.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceState {
    /// The enumerator's own state.
    pub enumerator: Vec<u8>,
    /// Splits that were begun and are not finished.
    pub active: BTreeMap<SplitId, Position>,
    /// Splits that were read to their end.
    pub finished: BTreeMap<SplitId, Position>,
}

/// Bytes that are no saved state: where and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("source state, {part} part, byte {at}: {what}")]
pub struct StateError {
    /// `active` or `finished`.
    pub part: &'static str,
    /// Byte offset of the trouble.
    pub at: usize,
    /// What is wrong there.
    pub what: String,
}

const ACTIVE: &[u8; 4] = b"TGSA";
const FINISHED: &[u8; 4] = b"TGSF";
const VERSION: u16 = 1;
/// The least that one split takes: lengths of name and bytes, and the version.
const LEAST_SPLIT: usize = 4 + 2 + 4;

impl SourceState {
    /// Begun splits, as the engine hands them to readers.
    pub fn begun(&self) -> Vec<Split> {
        let split = |(id, position): (&SplitId, &Position)| Split {
            id: id.clone(),
            position: position.clone(),
        };
        self.active.iter().map(split).collect()
    }

    /// Versioned bytes. All integers are big endian:
    ///
    /// ```text
    /// active:   "TGSA" | u16 version = 1 | u32 length, enumerator's state | splits
    /// finished: empty where there are none, else "TGSF" | u16 version = 1 | splits
    /// splits:   u32 count, each: u32 length, id in UTF-8 | u16 version | u32 length, bytes
    /// ```
    pub fn to_positions(&self) -> Positions {
        let mut active = Vec::new();
        active.extend_from_slice(ACTIVE);
        active.extend_from_slice(&VERSION.to_be_bytes());
        put(&mut active, &self.enumerator);
        put_splits(&mut active, &self.active);
        let mut finished = Vec::new();
        if !self.finished.is_empty() {
            finished.extend_from_slice(FINISHED);
            finished.extend_from_slice(&VERSION.to_be_bytes());
            put_splits(&mut finished, &self.finished);
        }
        Positions { active, finished }
    }

    /// Reads what [`Self::to_positions`] wrote. Positions that are empty as a whole are the state
    /// of a source that was never read.
    ///
    /// # Errors
    /// [`StateError`] with the offset.
    pub fn from_positions(positions: &Positions) -> Result<Self, StateError> {
        let mut state = Self::default();
        if !positions.active.is_empty() {
            let mut input = Input {
                part: "active",
                bytes: &positions.active,
                at: 0,
            };
            input.header(ACTIVE)?;
            state.enumerator = input.bytes("enumerator's state")?.to_vec();
            state.active = input.splits()?;
            input.end()?;
        }
        if !positions.finished.is_empty() {
            let mut input = Input {
                part: "finished",
                bytes: &positions.finished,
                at: 0,
            };
            input.header(FINISHED)?;
            state.finished = input.splits()?;
            input.end()?;
        }
        Ok(state)
    }
}

fn put(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
    out.extend_from_slice(bytes);
}

fn put_splits(out: &mut Vec<u8>, splits: &BTreeMap<SplitId, Position>) {
    out.extend_from_slice(&(splits.len() as u32).to_be_bytes());
    for (id, position) in splits {
        put(out, id.0.as_bytes());
        out.extend_from_slice(&position.version.to_be_bytes());
        put(out, &position.bytes);
    }
}

struct Input<'a> {
    part: &'static str,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Input<'a> {
    fn error(&self, at: usize, what: impl Into<String>) -> StateError {
        StateError {
            part: self.part,
            at,
            what: what.into(),
        }
    }

    fn take(&mut self, n: usize, what: &str) -> Result<&'a [u8], StateError> {
        let end = self.at.checked_add(n);
        let part = end
            .and_then(|end| self.bytes.get(self.at..end))
            .ok_or_else(|| {
                let left = self.bytes.len().saturating_sub(self.at);
                self.error(
                    self.at,
                    format!("ends inside the {what}: {n} bytes wanted, {left} left"),
                )
            })?;
        self.at += n;
        Ok(part)
    }

    fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N], StateError> {
        let at = self.at;
        let part = self.take(N, what)?;
        part.try_into()
            .map_err(|_| self.error(at, format!("ends inside the {what}")))
    }

    fn header(&mut self, magic: &[u8; 4]) -> Result<(), StateError> {
        if self.take(4, "magic")? != magic {
            return Err(self.error(0, "not a saved source state: wrong magic"));
        }
        let version = u16::from_be_bytes(self.array("version")?);
        if version != VERSION {
            let what = format!("version {version} is not known here; this build reads {VERSION}");
            return Err(self.error(4, what));
        }
        Ok(())
    }

    fn bytes(&mut self, what: &str) -> Result<&'a [u8], StateError> {
        let len = u32::from_be_bytes(self.array(what)?) as usize;
        self.take(len, what)
    }

    fn splits(&mut self) -> Result<BTreeMap<SplitId, Position>, StateError> {
        let at = self.at;
        let count = u32::from_be_bytes(self.array("count of splits")?) as usize;
        // A count that the rest cannot hold is refused before anything is built for it.
        if count > self.bytes.len().saturating_sub(self.at) / LEAST_SPLIT {
            return Err(self.error(at, format!("{count} splits do not fit into what follows")));
        }
        let mut splits = BTreeMap::new();
        for _ in 0..count {
            let at = self.at;
            let id = std::str::from_utf8(self.bytes("split id")?)
                .map_err(|_| self.error(at, "the split id is not UTF-8"))?;
            let id = SplitId(id.to_owned());
            let version = u16::from_be_bytes(self.array("position's version")?);
            let bytes = self.bytes("position")?.to_vec();
            if splits.last_key_value().is_some_and(|(last, _)| *last >= id) {
                return Err(self.error(at, format!("split `{id}` is out of order")));
            }
            splits.insert(id, Position { version, bytes });
        }
        Ok(splits)
    }

    fn end(&self) -> Result<(), StateError> {
        let left = self.bytes.len().saturating_sub(self.at);
        if left > 0 {
            return Err(self.error(self.at, format!("{left} bytes follow the last split")));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> SourceState {
        let position = |n: u8| Position {
            version: 1,
            bytes: vec![n; 3],
        };
        SourceState {
            enumerator: vec![9],
            active: [
                (SplitId("a".into()), position(1)),
                (SplitId("b".into()), position(2)),
            ]
            .into(),
            finished: [(SplitId("é".into()), position(3))].into(),
        }
    }

    #[test]
    fn the_bytes_are_pinned_and_read_back() {
        let positions = sample().to_positions();
        let hex = |b: &[u8]| b.iter().map(|b| format!("{b:02x}")).collect::<String>();
        assert_eq!(
            hex(&positions.active),
            "54475341000100000001090000000200000001610001000000030101010000000162000100000003020202"
        );
        assert_eq!(
            hex(&positions.finished),
            "54475346000100000001".to_owned() + "00000002c3a9000100000003030303"
        );
        assert_eq!(SourceState::from_positions(&positions), Ok(sample()));
        assert_eq!(
            SourceState::from_positions(&Positions::default()),
            Ok(SourceState::default())
        );
    }

    #[test]
    fn truncations_tails_and_absurd_counts_are_refused() {
        let whole = sample().to_positions();
        for n in 1..whole.active.len() {
            let cut = Positions {
                active: whole.active[..n].to_vec(),
                finished: vec![],
            };
            assert!(SourceState::from_positions(&cut).is_err(), "{n}");
        }
        let mut long = whole.clone();
        long.finished.push(0);
        assert!(SourceState::from_positions(&long).is_err());
        let mut absurd = whole;
        absurd.finished[6..10].copy_from_slice(&[0xff; 4]);
        let error = SourceState::from_positions(&absurd).unwrap_err();
        assert_eq!((error.part, error.at), ("finished", 6));
    }
}
