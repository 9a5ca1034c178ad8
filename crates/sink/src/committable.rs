//! Messages and committables: the bytes that travel from writers through the engine to the committer.
//!
//! Owns their frame. What is inside belongs to the target that wrote it.

use crate::{CommitIdentifier, CommitUser, Digest};
use std::fmt;

/// What one writer made durable for one partition and bucket between two barriers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Message {
    /// Version of `bytes`, chosen by the target.
    pub version: u32,
    /// The target's own encoding.
    pub bytes: Vec<u8>,
}

/// Where a source stands, as the source's own bytes.
///
/// Two parts because they change at different paces: `active` moves with every checkpoint, `finished`
/// (for instance the files read to their end) grows rarely and may be large \[R-3].
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Positions {
    /// Small; changes with every row.
    pub active: Vec<u8>,
    /// May be large; changes seldom. Empty when the source has no such part.
    pub finished: Vec<u8>,
}

/// All that one checkpoint adds to a table: opaque to the engine, stored in its checkpoint.
///
/// The digest is computed once, by the committer's `combine`, over canonical content; it is stored,
/// never recomputed from re-encoded bytes \[R-5].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Committable {
    /// Whose commit this is.
    pub user: CommitUser,
    /// Which commit of that user.
    pub identifier: CommitIdentifier,
    /// Identity of the content.
    pub digest: Digest,
    /// How many writers' reports belong to it.
    pub expected: u32,
    /// How many arrived. Fewer than expected restores as *not complete*.
    pub received: u32,
    /// Version of `payload`, chosen by the target.
    pub version: u32,
    /// The target's own encoding.
    pub payload: Vec<u8>,
}

const MAGIC: &[u8; 4] = b"TGCM";
const FRAME_VERSION: u16 = 1;

impl Committable {
    /// True once every writer's report is in it.
    pub fn is_complete(&self) -> bool {
        self.received >= self.expected
    }

    /// Versioned bytes. All integers are big endian:
    ///
    /// ```text
    /// "TGCM" | u16 frame version = 1 | u32 user length, user | i64 identifier | 32 bytes digest
    ///        | u32 expected | u32 received | u32 payload version | u64 payload length, payload
    /// ```
    pub fn to_bytes(&self) -> Vec<u8> {
        let user = self.user.as_str().as_bytes();
        let mut out = Vec::with_capacity(70 + user.len() + self.payload.len());
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&FRAME_VERSION.to_be_bytes());
        out.extend_from_slice(&(user.len() as u32).to_be_bytes());
        out.extend_from_slice(user);
        out.extend_from_slice(&self.identifier.0.to_be_bytes());
        out.extend_from_slice(&self.digest.0);
        out.extend_from_slice(&self.expected.to_be_bytes());
        out.extend_from_slice(&self.received.to_be_bytes());
        out.extend_from_slice(&self.version.to_be_bytes());
        out.extend_from_slice(&(self.payload.len() as u64).to_be_bytes());
        out.extend_from_slice(&self.payload);
        out
    }

    /// Reads what [`Self::to_bytes`] wrote, all of it and nothing more.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, CommittableError> {
        let mut input = Input { bytes, at: 0 };
        if input.take(4, "magic")? != MAGIC {
            return Err(CommittableError {
                at: 0,
                what: "not a committable: wrong magic".into(),
            });
        }
        let frame = u16::from_be_bytes(input.array("frame version")?);
        if frame != FRAME_VERSION {
            return Err(CommittableError {
                at: 4,
                what: format!("frame version {frame} is not known here; this build reads 1"),
            });
        }
        let user_len = u32::from_be_bytes(input.array("user length")?) as usize;
        let at = input.at;
        let user =
            std::str::from_utf8(input.take(user_len, "user")?).map_err(|_| CommittableError {
                at,
                what: "the commit user is not UTF-8".into(),
            })?;
        let user = CommitUser::new(user).map_err(|e| CommittableError { at, what: e.0 })?;
        let identifier = CommitIdentifier(i64::from_be_bytes(input.array("identifier")?));
        let digest = Digest(input.array("digest")?);
        let expected = u32::from_be_bytes(input.array("expected count")?);
        let received = u32::from_be_bytes(input.array("received count")?);
        let version = u32::from_be_bytes(input.array("payload version")?);
        let at = input.at;
        let len = u64::from_be_bytes(input.array("payload length")?);
        let len = usize::try_from(len).map_err(|_| CommittableError {
            at,
            what: format!("payload length {len} is absurd"),
        })?;
        let payload = input.take(len, "payload")?.to_vec();
        if input.at != bytes.len() {
            return Err(CommittableError {
                at: input.at,
                what: format!("{} bytes follow the payload", bytes.len() - input.at),
            });
        }
        Ok(Self {
            user,
            identifier,
            digest,
            expected,
            received,
            version,
            payload,
        })
    }
}

struct Input<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Input<'a> {
    fn take(&mut self, n: usize, what: &str) -> Result<&'a [u8], CommittableError> {
        let end = self.at.checked_add(n);
        let part = end.and_then(|end| self.bytes.get(self.at..end));
        let part = part.ok_or_else(|| CommittableError {
            at: self.at,
            what: format!(
                "ends inside the {what}: {n} bytes wanted, {} left",
                self.bytes.len() - self.at
            ),
        })?;
        self.at += n;
        Ok(part)
    }

    fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N], CommittableError> {
        let at = self.at;
        self.take(N, what)?
            .try_into()
            .map_err(|_| CommittableError {
                at,
                what: format!("ends inside the {what}"),
            })
    }
}

/// Bytes that are no committable: where, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommittableError {
    /// Byte offset of the trouble.
    pub at: usize,
    /// What is wrong there.
    pub what: String,
}

impl fmt::Display for CommittableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "committable, byte {}: {}", self.at, self.what)
    }
}

impl std::error::Error for CommittableError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Committable {
        Committable {
            user: CommitUser::new("u-1").unwrap(),
            identifier: CommitIdentifier(7),
            digest: Digest([3; 32]),
            expected: 2,
            received: 2,
            version: 5,
            payload: vec![1, 2, 3],
        }
    }

    #[test]
    fn the_frame_is_pinned() {
        let bytes = sample().to_bytes();
        let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
        let digest = "03".repeat(32);
        assert_eq!(
            hex,
            format!(
                "5447434d000100000003752d310000000000000007{digest}000000020000000200000005\
                 0000000000000003010203"
            )
        );
        assert_eq!(Committable::from_bytes(&bytes), Ok(sample()));
    }

    #[test]
    fn every_truncation_and_every_tail_is_refused() {
        let bytes = sample().to_bytes();
        for n in 0..bytes.len() {
            assert!(Committable::from_bytes(&bytes[..n]).is_err(), "{n} bytes");
        }
        let mut long = bytes.clone();
        long.push(0);
        assert!(Committable::from_bytes(&long).is_err());
        let mut absurd = bytes;
        let at = absurd.len() - 11;
        absurd[at] = 0xff;
        assert!(Committable::from_bytes(&absurd).is_err());
    }
}
