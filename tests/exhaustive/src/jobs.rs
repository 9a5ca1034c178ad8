//! What jobs commit: checkpoint `n` of a job brings chunk `n` of its source, in files of its run.
//!
//! Owns: committables, and which rows a table must hold. A chunk stands for the rows between two
//! positions: twice in the table is doubled, a hole before the last one is lost.

use crate::invariant::{Broken, Invariant};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tidegate_model::ids::{BucketId, CommitIdentifier, CommitUser, Digest, Epoch, JobName};
use tidegate_protocol::{Changes, Committable, Draft, FileChange, FileId, PartitionId, Seen};

/// Which file of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    /// The rows of the checkpoint.
    Rows,
    /// The rows of the one before, compacted.
    Compacted,
}

fn file(job: u64, epoch: u64, checkpoint: u64, of: Of) -> FileId {
    FileId(job * 10_000 + epoch * 100 + checkpoint * 10 + of as u64)
}

/// The run that wrote a file: job and epoch.
pub fn writer(file: FileId) -> (u64, u64) {
    (file.0 / 10_000, file.0 / 100 % 100)
}

/// The chunk in a file: job and number.
fn chunk(file: FileId) -> (u64, u64) {
    let checkpoint = file.0 / 10 % 10;
    let is_compacted = file.0 % 10 == Of::Compacted as u64;
    let number = if is_compacted {
        checkpoint - 1
    } else {
        checkpoint
    };
    (file.0 / 10_000, number)
}

/// Rows in a chunk: each has another number, so that a wrong sum shows.
fn rows(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The commit user of a job.
pub fn user(job: u64) -> Option<CommitUser> {
    CommitUser::new(format!("u{job}")).ok()
}

/// The name of a job.
pub fn job_name(job: u64) -> Option<JobName> {
    JobName::new(format!("j{job}")).ok()
}

fn digest(kind: u8, parts: [u64; 3]) -> Digest {
    let mut bytes = [kind; 32];
    for (byte, part) in bytes.iter_mut().skip(1).zip(parts) {
        *byte = part.to_le_bytes().first().copied().unwrap_or_default();
    }
    Digest(bytes)
}

fn change(file: FileId) -> FileChange {
    FileChange {
        file,
        partition: PartitionId(0),
        bucket: BucketId(0),
        total_buckets: -1,
        rows: rows(chunk(file).1),
        place: None,
        lifted: false,
    }
}

/// Whose files those of foreign committers are.
pub const FOREIGN: u64 = 9;

/// The file of a foreign commit.
pub fn foreign_file(number: u64) -> FileId {
    file(FOREIGN, 1, number, Of::Rows)
}

/// The job of a commit user; `None` for a foreign one.
pub fn job_of(user: &CommitUser) -> Option<u64> {
    (0..FOREIGN).find(|job| self::user(*job).as_ref() == Some(user))
}

/// Hash of the positions after chunk `number` of a job; there are none before the first.
pub fn positions(job: u64, number: u64) -> Option<Digest> {
    (number > 0).then(|| digest(b'p', [job, 0, number]))
}

/// The chunk after which these are the positions.
pub fn chunk_at(job: u64, hash: Option<Digest>) -> u64 {
    let mut all = 1..10;
    all.find(|number| positions(job, *number) == hash)
        .filter(|_| hash.is_some())
        .unwrap_or(0)
}

/// What a checkpoint is made of.
#[derive(Clone, Copy, Debug)]
pub struct Checkpoint {
    /// Whose.
    pub job: u64,
    /// The run.
    pub epoch: u64,
    /// Its number.
    pub identifier: u64,
    /// The chunk that it brings.
    pub number: u64,
    /// The file of the chunk before, where that is to be compacted too.
    pub before: Option<FileId>,
    /// The positions that it expects to replace \[R-9].
    pub replaces: Option<Digest>,
}

/// What a run makes of a checkpoint.
pub fn committable(of: &Checkpoint, seen: Seen) -> Option<Committable> {
    let Checkpoint {
        job,
        epoch,
        identifier,
        number,
        before,
        replaces,
    } = *of;
    let compact = before.map(|before| Changes {
        added: vec![change(file(job, epoch, number, Of::Compacted))],
        deleted: vec![change(before)],
        ..Changes::default()
    });
    Some(Committable {
        user: user(job)?,
        identifier: CommitIdentifier(i64::try_from(identifier).ok()?),
        digest: digest(b'd', [job, epoch, number]),
        job: Some(job_name(job)?),
        epoch: Some(Epoch(epoch)),
        restored: false,
        seen,
        positions: positions(job, number),
        replaces,
        watermark: (number == 2).then_some(10),
        append: Changes {
            added: vec![change(file(job, epoch, number, Of::Rows))],
            ..Changes::default()
        },
        compact: compact.unwrap_or_default(),
    })
}

/// The same committable as a later run offers it.
pub fn restored(committable: &Committable, epoch: u64) -> Committable {
    Committable {
        epoch: Some(Epoch(epoch)),
        restored: true,
        ..committable.clone()
    }
}

/// The files that a committable brings.
pub fn new_files(committable: &Committable) -> impl Iterator<Item = FileId> + '_ {
    let halves = [&committable.append, &committable.compact];
    halves
        .into_iter()
        .flat_map(|c| c.added.iter().map(|f| f.file))
}

/// The rows of one job in its own snapshot: those before its positions, each once, unless a person said
/// that they may be there twice; and as many in all as it says.
pub fn check_own_rows(
    draft: &Draft,
    live: &BTreeSet<FileId>,
    doubled: &BTreeSet<u64>,
) -> Result<(), Broken> {
    let Some(job) = job_of(&draft.user) else {
        return Ok(());
    };
    let own = live.iter().map(|file| chunk(*file));
    let mut own: Vec<u64> = own.filter(|(of, _)| *of == job).map(|(_, n)| n).collect();
    own.sort_unstable();
    let all: Vec<u64> = (1..=chunk_at(job, draft.positions)).collect();
    let good = match doubled.contains(&job) {
        true => all.iter().all(|number| own.contains(number)),
        false => own == all,
    };
    if !good {
        let why = format!(
            "snapshot {} of job {job} is to hold chunks {all:?} and holds {own:?}",
            draft.id
        );
        return Err(Broken::new(Invariant::Rows, why));
    }
    check_total(draft, live)
}

/// True where each chunk of a job up to `number` is among these files, and once.
pub fn holds_all(job: u64, number: u64, live: &BTreeSet<FileId>, doubled: bool) -> bool {
    (1..=number).all(|n| {
        let of = live.iter().filter(|file| chunk(**file) == (job, n));
        match of.count() {
            0 => false,
            1 => true,
            _ => doubled,
        }
    })
}

fn check_total(draft: &Draft, live: &BTreeSet<FileId>) -> Result<(), Broken> {
    let total: i64 = live.iter().map(|file| rows(chunk(*file).1)).sum();
    if total != draft.total_records {
        let why = format!(
            "snapshot {} says {} rows and has {total}",
            draft.id, draft.total_records
        );
        return Err(Broken::new(Invariant::Totals, why));
    }
    Ok(())
}

/// The rows of a snapshot: as many as it says, no chunk twice, none missing below another of its job.
pub fn check_rows(draft: &Draft, live: &BTreeSet<FileId>) -> Result<(), Broken> {
    let mut chunks: BTreeMap<(u64, u64), Arc<str>> = BTreeMap::new();
    for file in live {
        let (job, number) = chunk(*file);
        let name: Arc<str> = file.to_string().into();
        if let Some(other) = chunks.insert((job, number), name) {
            let why = format!(
                "snapshot {}: chunk {number} of job {job} is there twice, as {other} and {file}",
                draft.id
            );
            return Err(Broken::new(Invariant::Rows, why));
        }
    }
    for (job, number) in chunks.keys() {
        // A foreign commit may have been created where no reader gets.
        if *job != FOREIGN && *number > 1 && !chunks.contains_key(&(*job, number - 1)) {
            let why = format!(
                "snapshot {}: chunk {} of job {job} is lost, chunk {number} is there",
                draft.id,
                number - 1
            );
            return Err(Broken::new(Invariant::Rows, why));
        }
    }
    check_total(draft, live)
}
