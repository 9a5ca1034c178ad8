//! The bytes inside a [`Committable`] of a Paimon table.
//!
//! Payload version 1, all integers big endian:
//!
//! ```text
//! u32 5 | u64 n, n bytes of Java's ManifestCommittable version 5, messages version 11 [F-9.3]
//! u8 0: written by somebody else, nothing follows
//! u8 1: u32 n, job | u64 epoch | u64 checkpoint
//!       u8 positions? u64 n, active | u64 n, finished
//!       u8 replaces?  32 bytes: hash of the positions that this commit expects to replace [R-9]
//!       u8 base       0 unknown, 1 the table was empty, 2 i64 snapshot id | u32 n, its token
//! ```

use std::sync::Arc;

use tidegate_format::{commit_message, manifest_committable};
use tidegate_model::{CommitMessage, ManifestCommittable, SnapshotId};
use tidegate_protocol::{Seen, Token};
use tidegate_sink::{
    CheckpointId, CommitContext, CommitIdentifier, CommitUser, Committable, Digest, Epoch, JobName,
    Message, Positions,
};

use crate::digest::digest;
use crate::error::{CommitError, Result};
use crate::properties::positions_hash;

/// Version of the payload that this build writes and reads.
pub const PAYLOAD_VERSION: u32 = 1;

/// A committable, opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// What Java knows: identifier, watermark, properties, messages.
    pub java: ManifestCommittable,
    /// What we add; `None` where Java wrote it.
    pub extras: Option<Extras>,
}

impl Decoded {
    /// True when publishing it would change nothing but the count of snapshots.
    pub fn is_empty(&self) -> bool {
        changes_nothing(&self.java.messages)
    }
}

fn changes_nothing(messages: &[CommitMessage]) -> bool {
    messages
        .iter()
        .all(|m| m.data.is_empty() && m.compact.is_empty())
}

/// What we add to Java's committable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extras {
    /// The job.
    pub job: JobName,
    /// The run that made the files.
    pub epoch: Epoch,
    /// The checkpoint.
    pub checkpoint: CheckpointId,
    /// Where the sources stand once this is published; in an empty one, where the last one that was not
    /// has left them \[R-9].
    pub positions: Option<Positions>,
    /// Hash of the positions that it expects to replace \[R-9].
    pub replaces: Option<Digest>,
    /// The newest snapshot seen at `combine`.
    pub seen: Seen,
}

/// Makes one committable of all messages of a checkpoint.
///
/// # Errors
/// Where a value cannot be encoded, or the checkpoint id leaves the range of identifiers.
pub fn combine(
    user: &CommitUser,
    context: &CommitContext,
    messages: Vec<CommitMessage>,
    expected: u32,
    received: u32,
    seen: Seen,
) -> Result<Committable> {
    let identifier =
        CommitIdentifier::try_from(context.checkpoint).map_err(|e| CommitError::Config(e.0))?;
    let digest = digest(&messages, context.positions.as_ref());
    // Where an empty one is published all the same, the last commit that was not empty goes on to tell
    // where the sources stand: the next one compares with that [R-9].
    let positions = match changes_nothing(&messages) {
        true => &context.replaces,
        false => &context.positions,
    };
    let java = ManifestCommittable {
        identifier: identifier.0,
        watermark: context.watermark,
        properties: Vec::new(),
        messages,
    };
    let extras = Extras {
        job: context.job.clone(),
        epoch: context.epoch,
        checkpoint: context.checkpoint,
        positions: positions.clone(),
        replaces: context.replaces.as_ref().map(positions_hash),
        seen,
    };
    Ok(Committable {
        user: user.clone(),
        identifier,
        digest,
        expected,
        received,
        version: PAYLOAD_VERSION,
        payload: encode(&java, Some(&extras))?,
    })
}

/// Frames a ManifestCommittable that Java wrote: no job, no positions, no fence but its content.
/// `version` is that of Java's serializer, which does not stand in its bytes.
///
/// # Errors
/// Where the bytes cannot be read.
pub fn from_java(user: &CommitUser, version: i32, bytes: &[u8]) -> Result<Committable> {
    let java = manifest_committable::decode(bytes, version)
        .map_err(|e| CommitError::corrupt("Java's ManifestCommittable", e))?
        .committable;
    let count = u32::try_from(java.messages.len()).unwrap_or(u32::MAX);
    Ok(Committable {
        user: user.clone(),
        identifier: CommitIdentifier(java.identifier),
        digest: digest(&java.messages, None),
        expected: count,
        received: count,
        version: PAYLOAD_VERSION,
        payload: encode(&java, None)?,
    })
}

/// Opens a committable.
///
/// # Errors
/// Where the payload has another version, is cut off or contradicts its frame.
pub fn decode(committable: &Committable) -> Result<Decoded> {
    if committable.version != PAYLOAD_VERSION {
        return Err(CommitError::corrupt(
            "committable",
            format!(
                "payload version {} is not known here; this build reads {PAYLOAD_VERSION}: use the build that wrote the checkpoint",
                committable.version
            ),
        ));
    }
    let decoded = read(&committable.payload)?;
    if decoded.java.identifier != committable.identifier.0 {
        return Err(CommitError::corrupt(
            "committable",
            format!(
                "its frame says identifier {}, its payload {}",
                committable.identifier, decoded.java.identifier
            ),
        ));
    }
    Ok(decoded)
}

/// Opens the messages of writers.
///
/// # Errors
/// Where one of them cannot be read.
pub fn messages(messages: &[Message]) -> Result<Vec<CommitMessage>> {
    messages
        .iter()
        .map(|message| {
            let version = i32::try_from(message.version).unwrap_or(i32::MAX);
            commit_message::decode(&message.bytes, version)
                .map_err(|e| CommitError::corrupt("message of a writer", e))
        })
        .collect()
}

/// A message of a writer as bytes that survive a machine border.
///
/// # Errors
/// Where a value cannot be encoded.
pub fn message(message: &CommitMessage) -> Result<Message> {
    let bytes = commit_message::encode(message, commit_message::VERSION)
        .map_err(|e| CommitError::corrupt("message of a writer", e))?;
    Ok(Message {
        version: commit_message::VERSION.unsigned_abs(),
        bytes,
    })
}

fn encode(java: &ManifestCommittable, extras: Option<&Extras>) -> Result<Vec<u8>> {
    let version = manifest_committable::VERSION;
    let bytes = manifest_committable::encode(java, version, commit_message::VERSION)
        .map_err(|e| CommitError::corrupt("committable", e))?;
    let mut out = Vec::with_capacity(bytes.len() + 256);
    out.extend_from_slice(&version.to_be_bytes());
    put_long(&mut out, &bytes);
    let Some(extras) = extras else {
        out.push(0);
        return Ok(out);
    };
    out.push(1);
    put_short(&mut out, extras.job.as_str());
    out.extend_from_slice(&extras.epoch.0.to_be_bytes());
    out.extend_from_slice(&extras.checkpoint.0.to_be_bytes());
    out.push(u8::from(extras.positions.is_some()));
    if let Some(positions) = &extras.positions {
        put_long(&mut out, &positions.active);
        put_long(&mut out, &positions.finished);
    }
    out.push(u8::from(extras.replaces.is_some()));
    if let Some(hash) = &extras.replaces {
        out.extend_from_slice(&hash.0);
    }
    match &extras.seen {
        Seen::Unknown => out.push(0),
        Seen::Empty => out.push(1),
        Seen::Snapshot { id, token } => {
            out.push(2);
            out.extend_from_slice(&id.0.to_be_bytes());
            put_short(&mut out, token.as_str());
        }
    }
    Ok(out)
}

fn put_long(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u64).to_be_bytes());
    out.extend_from_slice(bytes);
}

fn put_short(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&(text.len() as u32).to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

fn read(payload: &[u8]) -> Result<Decoded> {
    let mut input = Input {
        bytes: payload,
        at: 0,
    };
    let version = u32::from_be_bytes(input.array("version of Java's part")?);
    let at = input.at;
    let bytes = input.long("Java's part")?;
    let version = i32::try_from(version).unwrap_or(i32::MAX);
    let java = manifest_committable::decode(bytes, version)
        .map_err(|e| input.wrong(at, &format!("Java's part: {e}")))?
        .committable;
    let extras = match input.byte("extras")? {
        0 => None,
        1 => Some(read_extras(&mut input)?),
        other => return Err(input.wrong(input.at - 1, &format!("{other} is no flag for extras"))),
    };
    if input.at != payload.len() {
        return Err(input.wrong(input.at, "bytes follow the end"));
    }
    Ok(Decoded { java, extras })
}

fn read_extras(input: &mut Input<'_>) -> Result<Extras> {
    let at = input.at;
    let job = JobName::new(input.short("job")?).map_err(|e| input.wrong(at, &e.0))?;
    let epoch = Epoch(u64::from_be_bytes(input.array("epoch")?));
    let checkpoint = CheckpointId(u64::from_be_bytes(input.array("checkpoint")?));
    let positions = if input.flag("positions")? {
        let active = input.long("active positions")?.to_vec();
        Some(Positions {
            active,
            finished: input.long("finished positions")?.to_vec(),
        })
    } else {
        None
    };
    let replaces = if input.flag("replaced positions")? {
        Some(Digest(input.array("hash")?))
    } else {
        None
    };
    let seen = match input.byte("base")? {
        0 => Seen::Unknown,
        1 => Seen::Empty,
        2 => {
            let id = SnapshotId(i64::from_be_bytes(input.array("base id")?));
            Seen::Snapshot {
                id,
                token: Token(Arc::from(input.short("base token")?)),
            }
        }
        other => return Err(input.wrong(input.at - 1, &format!("{other} is no kind of base"))),
    };
    Ok(Extras {
        job,
        epoch,
        checkpoint,
        positions,
        replaces,
        seen,
    })
}

struct Input<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Input<'a> {
    fn wrong(&self, at: usize, why: &str) -> CommitError {
        CommitError::corrupt("committable", format!("payload byte {at}: {why}"))
    }

    fn take(&mut self, n: usize, what: &str) -> Result<&'a [u8]> {
        let part = self
            .at
            .checked_add(n)
            .and_then(|end| self.bytes.get(self.at..end));
        let part = part.ok_or_else(|| self.wrong(self.at, &format!("ends inside the {what}")))?;
        self.at += n;
        Ok(part)
    }

    fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N]> {
        let at = self.at;
        let part = self.take(N, what)?;
        part.try_into().map_err(|_| self.wrong(at, what))
    }

    fn byte(&mut self, what: &str) -> Result<u8> {
        Ok(u8::from_be_bytes(self.array(what)?))
    }

    fn flag(&mut self, what: &str) -> Result<bool> {
        match self.byte(what)? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(self.wrong(self.at - 1, &format!("{other} is no flag for {what}"))),
        }
    }

    fn long(&mut self, what: &str) -> Result<&'a [u8]> {
        let n = u64::from_be_bytes(self.array(what)?);
        self.take(usize::try_from(n).unwrap_or(usize::MAX), what)
    }

    fn short(&mut self, what: &str) -> Result<&'a str> {
        let n = u32::from_be_bytes(self.array(what)?);
        let at = self.at;
        let bytes = self.take(usize::try_from(n).unwrap_or(usize::MAX), what)?;
        std::str::from_utf8(bytes).map_err(|_| self.wrong(at, &format!("the {what} is not UTF-8")))
    }
}
