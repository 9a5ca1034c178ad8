//! What one checkpoint remembers.
//!
//! Owns the value. Its bytes are in `bytes`, its place in `store`.

use tidegate_sink::{
    CheckpointId, CommitUser, Committable, Epoch, JobName, Positions, Published, Saved,
};

/// Why a record was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecordKind {
    /// By the interval; removed by retention.
    Checkpoint,
    /// By a person; never removed by retention.
    Savepoint,
    /// At the end of a bounded source: nothing follows but what is new in the source \[R-12].
    EndOfInput,
}

/// State of one writer task, the target's own bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WriterState {
    /// Which task.
    pub writer: u32,
    /// Version of `bytes`, chosen by the target.
    pub version: u32,
    /// The target's own encoding.
    pub bytes: Vec<u8>,
}

/// Everything from which a job goes on after a crash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointRecord {
    /// The job.
    pub job: JobName,
    /// Which checkpoint.
    pub id: CheckpointId,
    /// Why it was made.
    pub kind: RecordKind,
    /// The job's commit user \[R-1].
    pub user: CommitUser,
    /// The run that made it \[R-2].
    pub epoch: Epoch,
    /// Name of the target, for people and for \[R-17].
    pub target: String,
    /// Identity of the source, for people and for \[R-17].
    pub source: String,
    /// Where the sources go on.
    pub positions: Positions,
    /// Positions of the last non-empty committable at or before this checkpoint: what the next
    /// commit expects to replace \[R-9].
    pub last_positions: Option<Positions>,
    /// Positions of the newest commit that was known to be published.
    pub published_positions: Option<Positions>,
    /// Committables not known to be published when the record was written, in order.
    pub committables: Vec<Committable>,
    /// State of writers that have some.
    pub writers: Vec<WriterState>,
    /// The newest commit that was known to be published.
    pub newest_published: Option<Published>,
}

impl CheckpointRecord {
    /// A record with identities and nothing else.
    pub fn new(job: JobName, id: CheckpointId, user: CommitUser, epoch: Epoch) -> Self {
        Self {
            job,
            id,
            kind: RecordKind::Checkpoint,
            user,
            epoch,
            target: String::new(),
            source: String::new(),
            positions: Positions::default(),
            last_positions: None,
            published_positions: None,
            committables: Vec::new(),
            writers: Vec::new(),
            newest_published: None,
        }
    }

    /// True where every committable has the reports of all its writers. One that has not restores
    /// as *not complete*: the checkpoint before it counts.
    pub fn is_complete(&self) -> bool {
        self.committables.iter().all(Committable::is_complete)
    }

    /// What recovery compares with the table \[R-7].
    pub fn saved(&self) -> Saved {
        Saved {
            committables: self.committables.clone(),
            newest_published: self.newest_published.clone(),
            positions: self.last_positions.clone(),
        }
    }
}
