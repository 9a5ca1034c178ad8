//! A place in a file, and what is needed to notice that the file behind it is another one now.

use std::time::SystemTime;

use crate::source::{Position, SourceError, SplitId};

/// Bytes at the beginning, and before the position, that are remembered by their checksum.
pub(super) const SAMPLE: usize = 4096;

/// A place between two records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FilePosition {
    /// Decompressed bytes before it; for Parquet, rows.
    pub(super) offset: u64,
    /// Lines before it (records, where lines mean nothing).
    pub(super) line: u64,
    /// CRC-32 of the first min(offset, 4096) decompressed bytes; for Parquet, of the footer.
    pub(super) head: u32,
    /// CRC-32 of the last min(offset, 4096) bytes before the offset; for Parquet 0.
    pub(super) tail: u32,
    /// Size of the file as stored when its end was seen; 0 while it is being read.
    pub(super) size: u64,
    /// Time of its last change then, epoch milliseconds. A hint that saves a look, never a proof.
    pub(super) modified: i64,
    /// The last record had no line end: what is appended may begin with one.
    pub(super) open_end: bool,
}

const VERSION: u16 = 1;
const LENGTH: usize = 8 + 8 + 4 + 4 + 8 + 8 + 1;

impl FilePosition {
    pub(super) fn start() -> Self {
        Self::default()
    }

    pub(super) fn encode(&self) -> Position {
        let mut bytes = Vec::with_capacity(LENGTH);
        bytes.extend_from_slice(&self.offset.to_be_bytes());
        bytes.extend_from_slice(&self.line.to_be_bytes());
        bytes.extend_from_slice(&self.head.to_be_bytes());
        bytes.extend_from_slice(&self.tail.to_be_bytes());
        bytes.extend_from_slice(&self.size.to_be_bytes());
        bytes.extend_from_slice(&self.modified.to_be_bytes());
        bytes.push(u8::from(self.open_end));
        Position {
            version: VERSION,
            bytes,
        }
    }

    pub(super) fn decode(id: &SplitId, position: &Position) -> Result<Self, SourceError> {
        let wrong = |what: String| SourceError::Position {
            split: id.0.clone(),
            what,
        };
        if position.version != VERSION {
            return Err(wrong(format!(
                "version {} of a file position is not known here; this build reads {VERSION}",
                position.version
            )));
        }
        if position.bytes.len() != LENGTH {
            return Err(wrong(format!(
                "{LENGTH} bytes expected, {} found",
                position.bytes.len()
            )));
        }
        let mut rest = position.bytes.as_slice();
        let mut word = || -> Option<u64> {
            let (first, tail) = rest.split_first_chunk::<8>()?;
            rest = tail;
            Some(u64::from_be_bytes(*first))
        };
        let fields = (|| Some((word()?, word()?, word()?, word()?, word()?)))();
        let (Some((offset, line, sums, size, modified)), Some(open_end)) =
            (fields, position.bytes.last())
        else {
            return Err(wrong("too short".into()));
        };
        // A line takes a byte at least; what breaks that was never saved by us, and would overflow.
        if line > offset {
            return Err(wrong(format!("{line} lines before byte {offset}")));
        }
        Ok(Self {
            offset,
            line,
            head: (sums >> 32) as u32,
            tail: sums as u32,
            size,
            modified: modified as i64,
            open_end: *open_end != 0,
        })
    }

    /// Whether a file that was read to its end may hold more, or may be another one.
    pub(super) fn is_worth_a_look(&self, size: u64, modified: i64) -> bool {
        size != self.size || modified != self.modified
    }
}

/// Epoch milliseconds, clamped.
pub(super) fn millis(time: SystemTime) -> i64 {
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_millis()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_millis()).map_or(i64::MIN, |m| -m),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_survive_their_bytes_and_strangers_are_refused() {
        let id = SplitId("a.csv".into());
        let position = FilePosition {
            offset: 7,
            line: 2,
            head: u32::MAX,
            tail: 1,
            size: 9,
            modified: -5,
            open_end: true,
        };
        let mut bytes = position.encode();
        assert_eq!(FilePosition::decode(&id, &bytes).unwrap(), position);
        bytes.bytes.pop();
        assert!(FilePosition::decode(&id, &bytes).is_err());
        bytes.version = 9;
        assert!(
            FilePosition::decode(&id, &bytes)
                .unwrap_err()
                .to_string()
                .contains("a.csv")
        );
    }
}
