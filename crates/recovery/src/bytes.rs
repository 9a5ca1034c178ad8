//! Bytes of a checkpoint record.
//!
//! Owns the frame, the bodies of all versions and their migrations; the only module that knows
//! bincode (2.0.1, legacy configuration: little endian, integers of fixed width, lengths as u64).
//!
//! ```text
//! "TGCK" | u16 version | u64 body length | u32 crc32 over version, length and body | body
//! ```
//!
//! The frame's integers are big endian. Byte strings are borrowed from the input while decoding, so
//! hostile lengths allocate nothing; counts allocate at most 1 MiB before the input proves short.

use std::cell::Cell;

use bincode::config::{Configuration, Fixint, LittleEndian, legacy};
use bincode::de::read::{BorrowReader, Reader};
use bincode::de::{BorrowDecode, DecoderImpl};
use bincode::error::DecodeError;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tidegate_sink::{
    CheckpointId, CommitIdentifier, CommitUser, Committable, Digest, Epoch, JobName, Positions,
    Published,
};

use crate::error::RecoveryError;
use crate::record::{CheckpointRecord, RecordKind, WriterState};

/// The version that [`encode`] writes. [`decode`] reads it and every earlier one.
pub const RECORD_VERSION: u16 = 1;

const MAGIC: &[u8; 4] = b"TGCK";
const HEADER: usize = 4 + 2 + 8 + 4;
type Config = Configuration<LittleEndian, Fixint>;
const CONFIG: Config = legacy();

/// A byte string that is borrowed where it is read.
struct Blob<'a>(&'a [u8]);

impl Serialize for Blob<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self.0)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Blob<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <&'a [u8]>::deserialize(deserializer).map(Blob)
    }
}

#[derive(Serialize, Deserialize)]
struct WirePublished<'a> {
    identifier: i64,
    digest: Option<[u8; 32]>,
    version: u64,
    token: &'a str,
}

#[derive(Serialize, Deserialize)]
struct WireWriter<'a> {
    writer: u32,
    version: u32,
    #[serde(borrow)]
    bytes: Blob<'a>,
}

/// Version 1. Positions are pairs of indexes into `parts`: the same large part is there once.
#[derive(Serialize, Deserialize)]
struct BodyV1<'a> {
    job: &'a str,
    id: u64,
    kind: u8,
    user: &'a str,
    epoch: u64,
    target: &'a str,
    source: &'a str,
    #[serde(borrow)]
    parts: Vec<Blob<'a>>,
    positions: (u32, u32),
    last_positions: Option<(u32, u32)>,
    published_positions: Option<(u32, u32)>,
    #[serde(borrow)]
    committables: Vec<Blob<'a>>,
    #[serde(borrow)]
    writers: Vec<WireWriter<'a>>,
    #[serde(borrow)]
    newest_published: Option<WirePublished<'a>>,
}

/// Version 0: no kinds, no names of target and source, one pair of positions in full.
#[derive(Serialize, Deserialize)]
struct BodyV0<'a> {
    job: &'a str,
    id: u64,
    user: &'a str,
    epoch: u64,
    #[serde(borrow)]
    active: Blob<'a>,
    #[serde(borrow)]
    finished: Blob<'a>,
    #[serde(borrow)]
    committables: Vec<Blob<'a>>,
    #[serde(borrow)]
    newest_published: Option<WirePublished<'a>>,
}

/// A record as the bytes of [`RECORD_VERSION`]. Equal records have equal bytes \[R-5].
///
/// # Errors
/// Only where bincode refuses, which it does for nothing that a record can hold.
pub fn encode(record: &CheckpointRecord) -> Result<Vec<u8>, RecoveryError> {
    let committables: Vec<_> = record
        .committables
        .iter()
        .map(Committable::to_bytes)
        .collect();
    let mut parts = Parts::default();
    let body = BodyV1 {
        job: record.job.as_str(),
        id: record.id.0,
        kind: kind_to_wire(record.kind),
        user: record.user.as_str(),
        epoch: record.epoch.0,
        target: &record.target,
        source: &record.source,
        positions: parts.add(&record.positions),
        last_positions: record.last_positions.as_ref().map(|p| parts.add(p)),
        published_positions: record.published_positions.as_ref().map(|p| parts.add(p)),
        parts: parts.0.into_iter().map(Blob).collect(),
        committables: committables.iter().map(|c| Blob(c)).collect(),
        writers: record.writers.iter().map(writer_to_wire).collect(),
        newest_published: record.newest_published.as_ref().map(published_to_wire),
    };
    frame(RECORD_VERSION, &body)
}

fn frame(version: u16, body: &impl Serialize) -> Result<Vec<u8>, RecoveryError> {
    let body = bincode::serde::encode_to_vec(body, CONFIG).map_err(|e| RecoveryError::Encode {
        what: e.to_string(),
    })?;
    let mut out = Vec::with_capacity(HEADER + body.len());
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&version.to_be_bytes());
    out.extend_from_slice(&(body.len() as u64).to_be_bytes());
    out.extend_from_slice(&checksum(version, &body).to_be_bytes());
    out.extend_from_slice(&body);
    Ok(out)
}

/// Covers the version too: a record of one version must not be read as one of another.
fn checksum(version: u16, body: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&version.to_be_bytes());
    hasher.update(&(body.len() as u64).to_be_bytes());
    hasher.update(body);
    hasher.finalize()
}

/// Distinct byte strings in order of their first use.
#[derive(Default)]
struct Parts<'a>(Vec<&'a [u8]>);

impl<'a> Parts<'a> {
    fn add(&mut self, positions: &'a Positions) -> (u32, u32) {
        (
            self.index(&positions.active),
            self.index(&positions.finished),
        )
    }

    fn index(&mut self, bytes: &'a [u8]) -> u32 {
        let found = self.0.iter().position(|part| *part == bytes);
        let index = found.unwrap_or_else(|| {
            self.0.push(bytes);
            self.0.len() - 1
        });
        index as u32
    }
}

fn writer_to_wire(writer: &WriterState) -> WireWriter<'_> {
    WireWriter {
        writer: writer.writer,
        version: writer.version,
        bytes: Blob(&writer.bytes),
    }
}

fn published_to_wire(published: &Published) -> WirePublished<'_> {
    WirePublished {
        identifier: published.identifier.0,
        digest: published.digest.map(|d| d.0),
        version: published.version,
        token: &published.token,
    }
}

fn kind_to_wire(kind: RecordKind) -> u8 {
    match kind {
        RecordKind::Checkpoint => 0,
        RecordKind::Savepoint => 1,
        RecordKind::EndOfInput => 2,
    }
}

/// Reads a record of any version that was ever written. `url` is for the error.
///
/// # Errors
/// [`RecoveryError::Record`] with the byte offset: wrong magic, a version of a later build, a wrong
/// length or checksum, or a body that is none.
pub fn decode(bytes: &[u8], url: &str) -> Result<CheckpointRecord, RecoveryError> {
    let error = |at: usize, what: String| RecoveryError::Record {
        url: url.to_owned(),
        at: at as u64,
        what,
    };
    let (version, body) = open_frame(bytes).map_err(|(at, what)| error(at, what))?;
    let at = Cell::new(0);
    let record = match version {
        0 => read_body::<BodyV0<'_>>(body, &at).and_then(from_v0),
        _ => read_body::<BodyV1<'_>>(body, &at).and_then(from_v1),
    };
    record.map_err(|what| error(HEADER + at.get(), what))
}

fn open_frame(bytes: &[u8]) -> Result<(u16, &[u8]), (usize, String)> {
    let part = |at: usize, len: usize| {
        bytes.get(at..at + len).ok_or_else(|| {
            (
                bytes.len(),
                format!(
                    "the file ends after {} bytes, inside its header",
                    bytes.len()
                ),
            )
        })
    };
    if part(0, 4)? != MAGIC {
        return Err((0, "not a checkpoint record: wrong magic".to_owned()));
    }
    let version = part(4, 2)?.iter().fold(0u16, |n, b| n << 8 | u16::from(*b));
    let length = part(6, 8)?.iter().fold(0u64, |n, b| n << 8 | u64::from(*b));
    let stored = part(14, 4)?
        .iter()
        .fold(0u32, |n, b| n << 8 | u32::from(*b));
    if version > RECORD_VERSION {
        let what = format!(
            "version {version} was written by a later build; this one reads up to {RECORD_VERSION}"
        );
        return Err((4, what));
    }
    let body = bytes.get(HEADER..).unwrap_or_default();
    if body.len() as u64 != length {
        return Err((
            6,
            format!("the body has {} bytes and should have {length}", body.len()),
        ));
    }
    let computed = checksum(version, body);
    if computed != stored {
        return Err((
            14,
            format!("checksum is {computed:08x} and should be {stored:08x}"),
        ));
    }
    Ok((version, body))
}

/// Counts what was taken, so that an error can say where.
struct Counting<'a> {
    rest: &'a [u8],
    at: &'a Cell<usize>,
}

impl<'a> Counting<'a> {
    fn take(&mut self, n: usize) -> Result<&'a [u8], DecodeError> {
        match (self.rest.get(..n), self.rest.get(n..)) {
            (Some(taken), Some(rest)) => {
                self.rest = rest;
                self.at.set(self.at.get() + n);
                Ok(taken)
            }
            _ => Err(DecodeError::UnexpectedEnd {
                additional: n.saturating_sub(self.rest.len()),
            }),
        }
    }
}

impl Reader for Counting<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> Result<(), DecodeError> {
        let taken = self.take(bytes.len())?;
        bytes.copy_from_slice(taken);
        Ok(())
    }
}

impl<'a> BorrowReader<'a> for Counting<'a> {
    fn take_bytes(&mut self, length: usize) -> Result<&'a [u8], DecodeError> {
        self.take(length)
    }
}

fn read_body<'a, T: Deserialize<'a>>(body: &'a [u8], at: &'a Cell<usize>) -> Result<T, String> {
    let reader = Counting { rest: body, at };
    let mut decoder = DecoderImpl::new(reader, CONFIG, ());
    let value = bincode::serde::BorrowCompat::<T>::borrow_decode(&mut decoder)
        .map_err(|e| format!("the body cannot be read: {e}"))?;
    if at.get() != body.len() {
        return Err(format!("{} bytes follow the body", body.len() - at.get()));
    }
    Ok(value.0)
}

fn from_v0(body: BodyV0<'_>) -> Result<CheckpointRecord, String> {
    let positions = Positions {
        active: body.active.0.to_vec(),
        finished: body.finished.0.to_vec(),
    };
    let newest_published = body.newest_published.map(published_from_wire);
    Ok(CheckpointRecord {
        job: JobName::new(body.job).map_err(|e| e.0)?,
        id: CheckpointId(body.id),
        kind: RecordKind::Checkpoint,
        user: CommitUser::new(body.user).map_err(|e| e.0)?,
        epoch: Epoch(body.epoch),
        target: String::new(),
        source: String::new(),
        positions,
        // Not kept then: nothing to compare with at the first commit after a migration.
        last_positions: None,
        published_positions: None,
        committables: committables(&body.committables)?,
        writers: Vec::new(),
        newest_published,
    })
}

fn from_v1(body: BodyV1<'_>) -> Result<CheckpointRecord, String> {
    let part = |n: u32| {
        let part = body.parts.get(n as usize).map(|p| p.0.to_vec());
        part.ok_or_else(|| format!("positions refer to part {n} of {}", body.parts.len()))
    };
    let positions = |(active, finished): (u32, u32)| {
        Ok::<_, String>(Positions {
            active: part(active)?,
            finished: part(finished)?,
        })
    };
    let writer = |w: &WireWriter<'_>| WriterState {
        writer: w.writer,
        version: w.version,
        bytes: w.bytes.0.to_vec(),
    };
    Ok(CheckpointRecord {
        job: JobName::new(body.job).map_err(|e| e.0)?,
        id: CheckpointId(body.id),
        kind: match body.kind {
            0 => RecordKind::Checkpoint,
            1 => RecordKind::Savepoint,
            2 => RecordKind::EndOfInput,
            other => return Err(format!("kind {other} is not known")),
        },
        user: CommitUser::new(body.user).map_err(|e| e.0)?,
        epoch: Epoch(body.epoch),
        target: body.target.to_owned(),
        source: body.source.to_owned(),
        positions: positions(body.positions)?,
        last_positions: body.last_positions.map(positions).transpose()?,
        published_positions: body.published_positions.map(positions).transpose()?,
        committables: committables(&body.committables)?,
        writers: body.writers.iter().map(writer).collect(),
        newest_published: body.newest_published.map(published_from_wire),
    })
}

fn committables(blobs: &[Blob<'_>]) -> Result<Vec<Committable>, String> {
    let read = |(n, blob): (usize, &Blob<'_>)| {
        Committable::from_bytes(blob.0).map_err(|e| format!("number {n} of its committables: {e}"))
    };
    blobs.iter().enumerate().map(read).collect()
}

fn published_from_wire(published: WirePublished<'_>) -> Published {
    Published {
        identifier: CommitIdentifier(published.identifier),
        digest: published.digest.map(Digest),
        version: published.version,
        token: published.token.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GOLDEN_V1: &[u8] = include_bytes!("../../../tests/golden/recovery/checkpoint-v1.bin");
    const GOLDEN_V0: &[u8] = include_bytes!("../../../tests/golden/recovery/checkpoint-v0.bin");

    fn committable(identifier: i64) -> Committable {
        Committable {
            user: CommitUser::new("5f0c").unwrap(),
            identifier: CommitIdentifier(identifier),
            digest: Digest([7; 32]),
            expected: 2,
            received: 2,
            version: 1,
            payload: b"payload".to_vec(),
        }
    }

    fn sample() -> CheckpointRecord {
        let positions = |n: u8| Positions {
            active: vec![n],
            finished: b"finished".to_vec(),
        };
        CheckpointRecord {
            kind: RecordKind::EndOfInput,
            target: "shop.orders".into(),
            source: "files in/*.csv".into(),
            positions: positions(3),
            last_positions: Some(positions(3)),
            published_positions: Some(positions(1)),
            committables: vec![committable(8), committable(9)],
            writers: vec![WriterState {
                writer: 1,
                version: 4,
                bytes: vec![1, 2],
            }],
            newest_published: Some(Published {
                identifier: CommitIdentifier(7),
                digest: Some(Digest([1; 32])),
                version: 12,
                token: "uuid".into(),
            }),
            ..CheckpointRecord::new(
                JobName::new("orders").unwrap(),
                CheckpointId(9),
                CommitUser::new("5f0c").unwrap(),
                Epoch(2),
            )
        }
    }

    fn v0() -> Vec<u8> {
        let first = committable(8).to_bytes();
        let body = BodyV0 {
            job: "orders",
            id: 8,
            user: "5f0c",
            epoch: 2,
            active: Blob(b"a"),
            finished: Blob(b""),
            committables: vec![Blob(&first)],
            newest_published: None,
        };
        frame(0, &body).unwrap()
    }

    /// Writes the golden files anew; run by hand, only when a new version is made.
    #[test]
    #[ignore = "writes golden files"]
    fn write_golden_files() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/recovery");
        std::fs::write(
            format!("{folder}/checkpoint-v1.bin"),
            encode(&sample()).unwrap(),
        )
        .unwrap();
        std::fs::write(format!("{folder}/checkpoint-v0.bin"), v0()).unwrap();
    }

    #[test]
    fn version_1_is_pinned() {
        assert_eq!(encode(&sample()).unwrap(), GOLDEN_V1);
        assert_eq!(decode(GOLDEN_V1, "x").unwrap(), sample());
    }

    #[test]
    fn version_0_is_migrated() {
        let record = decode(GOLDEN_V0, "x").unwrap();
        assert_eq!(record.kind, RecordKind::Checkpoint);
        assert_eq!(
            record.positions,
            Positions {
                active: b"a".to_vec(),
                finished: vec![]
            }
        );
        assert_eq!(record.committables, [committable(8)]);
        assert_eq!((record.last_positions, record.target.as_str()), (None, ""));
    }

    #[test]
    fn a_large_part_is_stored_once() {
        let mut record = sample();
        let finished = vec![5; 10_000];
        for positions in [
            &mut record.positions,
            record.last_positions.as_mut().unwrap(),
            record.published_positions.as_mut().unwrap(),
        ] {
            positions.finished = finished.clone();
        }
        let bytes = encode(&record).unwrap();
        assert!(bytes.len() < 11_000, "{}", bytes.len());
        assert_eq!(decode(&bytes, "x").unwrap(), record);
    }

    #[test]
    fn every_damage_is_refused_with_file_and_offset() {
        let whole = encode(&sample()).unwrap();
        for n in 0..whole.len() {
            assert!(decode(&whole[..n], "x").is_err(), "cut to {n}");
            let mut flipped = whole.clone();
            flipped[n] ^= 1;
            assert!(decode(&flipped, "x").is_err(), "bit flipped in {n}");
        }
        let mut long = whole.clone();
        long.push(0);
        let error = decode(&long, "dir/checkpoint-9").unwrap_err().to_string();
        assert!(
            error.contains("dir/checkpoint-9") && error.contains("byte 6"),
            "{error}"
        );
        let mut later = whole;
        later[5] = 9;
        let error = decode(&later, "x").unwrap_err().to_string();
        assert!(error.contains("later build"), "{error}");
    }

    /// The frame is right, the body lies about lengths: an error at its offset, nothing allocated.
    #[test]
    fn hostile_lengths_under_a_right_checksum_are_refused() {
        let body_at = |record: &CheckpointRecord| encode(record).unwrap()[HEADER..].to_vec();
        let body = body_at(&sample());
        for n in 0..body.len().saturating_sub(8) {
            let mut body = body.clone();
            body[n..n + 8].copy_from_slice(&[0xff; 8]);
            let mut bytes = Vec::new();
            bytes.extend_from_slice(MAGIC);
            bytes.extend_from_slice(&1u16.to_be_bytes());
            bytes.extend_from_slice(&(body.len() as u64).to_be_bytes());
            bytes.extend_from_slice(&checksum(1, &body).to_be_bytes());
            bytes.extend_from_slice(&body);
            if let Err(RecoveryError::Record { at, .. }) = decode(&bytes, "x") {
                assert!(at >= HEADER as u64 && at <= bytes.len() as u64);
            }
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bodies_never_panic(body in proptest::collection::vec(any::<u8>(), 0..400), version in 0u16..3) {
            let mut bytes = MAGIC.to_vec();
            bytes.extend_from_slice(&version.to_be_bytes());
            bytes.extend_from_slice(&(body.len() as u64).to_be_bytes());
            bytes.extend_from_slice(&checksum(version, &body).to_be_bytes());
            bytes.extend_from_slice(&body);
            let _ = decode(&bytes, "x");
        }
    }
}
