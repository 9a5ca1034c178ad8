//! The publishing side of the contract: committables in, visible snapshots out, exactly once.

use crate::{
    BoxFuture, CheckpointId, CommitIdentifier, Committable, Digest, Epoch, JobName, Message,
    Positions, SinkError,
};

/// What the engine knows of a checkpoint beyond the writers' messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitContext {
    /// The job, as the user named it.
    pub job: JobName,
    /// The run that made it.
    pub epoch: Epoch,
    /// The checkpoint.
    pub checkpoint: CheckpointId,
    /// Where the sources stand once this is published. `None` where the engine keeps positions for
    /// itself (Flink).
    pub positions: Option<Positions>,
    /// Where this job's last non-empty committable left them: the compare half of the
    /// compare-and-set on the source \[R-9]. `None` = nothing to compare.
    pub replaces: Option<Positions>,
    /// Event time up to which all rows have been seen, in epoch milliseconds.
    pub watermark: Option<i64>,
}

/// A commit as the table shows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Published {
    /// Which commit.
    pub identifier: CommitIdentifier,
    /// Content, where it is recorded.
    pub digest: Option<Digest>,
    /// Number of the (last) table version that carries it, such as a snapshot id.
    pub version: u64,
    /// What tells that version from another one of the same number: a uuid, or a content hash.
    pub token: String,
}

/// A version of a target, whoever made it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Version {
    /// Its number, such as a snapshot id.
    pub number: u64,
    /// What tells it from another one of the same number: a uuid, or a content hash.
    pub token: String,
}

/// What became of a committable.
#[must_use = "an outcome decides whether a checkpoint counts"]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is visible, by this call.
    Published(Published),
    /// It was visible before; this call changed nothing.
    AlreadyPublished(Published),
    /// Nothing to publish and nothing made: an empty commit that options tell to ignore.
    Empty,
    /// Another run goes on with this job: stop, never skip \[R-5].
    Fenced(String),
    /// The table refuses it for a reason that a retry cannot cure.
    Refused(String),
    /// Could not be settled; nothing was deleted, the same call settles it later \[R-6].
    Undecided(String),
}

/// What a checkpoint saved that recovery compares with the table \[R-7].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Saved {
    /// Committables that may not be published yet, in order.
    pub committables: Vec<Committable>,
    /// The newest commit that the engine had seen published when the checkpoint was taken.
    pub newest_published: Option<Published>,
    /// Positions of the last non-empty committable at or before the checkpoint.
    pub positions: Option<Positions>,
}

/// How saved state and table stand to each other \[R-7].
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The table shows what the checkpoint knew, nothing of `committables`.
    Equal,
    /// The table shows a prefix of the saved committables: the usual crash after publish. One that is
    /// there by half is left out while the rest can follow: committing it again completes it.
    AheadByPrefix(Vec<Published>),
    /// Anything else: a person must choose.
    Mismatch(Mismatch),
}

/// A standing from which no run goes on by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// The table has commits of this job that the checkpoint knows nothing of.
    AheadBeyond {
        /// Those commits, oldest first.
        commits: Vec<Published>,
    },
    /// The table lacks a commit that the checkpoint knows to be published.
    Behind {
        /// The commit that is missing.
        missing: Published,
    },
    /// Same identifier, other content.
    Diverged {
        /// The commit in the table.
        found: Published,
        /// What the checkpoint holds.
        saved: Digest,
    },
    /// It cannot be told, for instance because the snapshot expired and no note was left.
    Unknown {
        /// What is missing for an answer.
        why: String,
    },
}

/// A way out of a mismatch \[R-8].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// Take the table back to what the checkpoint knew.
    RollbackTable {
        /// Also where snapshots of other users or tags go with it.
        including_others: bool,
    },
    /// Go on from the positions that the table carries.
    ContinueFromTable,
    /// Go on from the checkpoint although rows will be there twice.
    AcceptDuplicates,
}

/// What a resolution would do, or did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResolutionPlan {
    /// One sentence per step, for a person.
    pub steps: Vec<String>,
    /// Where sources go on.
    pub positions: Option<Positions>,
    /// Identifiers go on above this one.
    pub above: Option<CommitIdentifier>,
}

/// What a table and the published note tell of a job \[R-4].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobHistory {
    /// The newest commit of this job that is visible or noted.
    pub newest: Option<Published>,
    /// Positions that it carries.
    pub positions: Option<Positions>,
    /// The largest identifier of the commit user ever seen.
    pub largest_identifier: Option<CommitIdentifier>,
    /// The newest epoch recorded in a visible snapshot of this job.
    pub newest_epoch: Option<Epoch>,
    /// The newest version of the target, whoever made it; `None` where it has none.
    pub tip: Option<Version>,
}

/// Publishes committables; idempotent per (user, identifier, half, digest).
///
/// Cancellation \[R-18]: a dropped `commit` is undecided and is settled by reading at the next call.
pub trait Committer: Send {
    /// Makes one committable of all messages of a checkpoint. `expected` counts the writers'
    /// reports, `received` those that arrived.
    fn combine(
        &self,
        context: &CommitContext,
        messages: Vec<Message>,
        expected: u32,
        received: u32,
    ) -> Result<Committable, SinkError>;

    /// True when publishing it would change nothing but the count of snapshots.
    fn is_empty(&self, committable: &Committable) -> Result<bool, SinkError>;

    /// Makes it visible, or finds that it is. `Err` means a fault before anything could be decided,
    /// and the same call may be made again.
    fn commit<'a>(
        &'a mut self,
        committable: &'a Committable,
    ) -> BoxFuture<'a, Result<Outcome, SinkError>>;

    /// As [`Committer::commit`], but an empty committable makes a version too: one of this run's
    /// epoch, after which no earlier run can publish any more, so that what it left may be removed
    /// \[R-13]. Such a version carries the positions of the last commit that was not empty, with which
    /// the next one compares \[R-9].
    fn take_over<'a>(
        &'a mut self,
        committable: &'a Committable,
    ) -> BoxFuture<'a, Result<Outcome, SinkError>>;

    /// Compares a checkpoint with the table, on this job's own snapshots and note.
    fn standing<'a>(&'a mut self, saved: &'a Saved) -> BoxFuture<'a, Result<Standing, SinkError>>;

    /// What the table knows of this job without any checkpoint.
    fn history<'a>(&'a mut self) -> BoxFuture<'a, Result<JobHistory, SinkError>>;

    /// Why commits of this job may be in the target although [`Committer::history`] shows none of them and no
    /// checkpoint is there: history has expired, or a version was put over. `None` where everything is seen
    /// that came after `begun_on`, the target's newest version when the job was first registered; without
    /// it, everything that ever was.
    fn hidden<'a>(
        &'a mut self,
        begun_on: Option<&'a Version>,
    ) -> BoxFuture<'a, Result<Option<String>, SinkError>>;

    /// Carries a way out through, or with `dry_run` only says what it would do \[R-8].
    fn resolve<'a>(
        &'a mut self,
        saved: &'a Saved,
        resolution: Resolution,
        dry_run: bool,
    ) -> BoxFuture<'a, Result<ResolutionPlan, SinkError>>;

    /// Leaves the published note \[R-4]; called at a clean stop and now and then off the path.
    fn leave_note<'a>(&'a mut self) -> BoxFuture<'a, Result<(), SinkError>>;
}
