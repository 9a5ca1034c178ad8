//! Which commits of one user are visible, and how much of the history that answer rests on.
//!
//! Owns: [`Ledger`], filled from facts about snapshots, bounded in size. Does not own: reading; and
//! it is never trusted without the base: each attempt first extends it to the very snapshot that it
//! builds on (invariant 3).

use crate::fact::SnapshotFact;
use crate::ids::{Half, PartitionId, Token};
use std::collections::BTreeMap;
use tidegate_model::ids::SnapshotId;
use tidegate_model::ids::{CommitIdentifier, CommitUser, Digest, Epoch, JobName};

/// Entries kept per ledger; more are never needed, since identifiers of a user grow.
pub const MAX_ENTRIES: usize = 64;
/// Verified bucket counts kept per ledger \[C-25].
pub const MAX_BUCKET_COUNTS: usize = 1000;

/// One visible half of one commit.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// Which commit.
    pub identifier: CommitIdentifier,
    /// Which half.
    pub half: Half,
    /// Content, where it is recorded.
    pub digest: Option<Digest>,
    /// Run, where it is recorded.
    pub epoch: Option<Epoch>,
    /// Hash of the positions, where they are recorded.
    pub positions: Option<Digest>,
    /// The snapshot.
    pub id: SnapshotId,
    /// Its identity.
    pub token: Token,
    /// The identity of its parent, where it is recorded.
    pub based_on: Option<Token>,
}

/// The contiguous part of the history that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Covered {
    /// Smallest id looked at.
    pub from: SnapshotId,
    /// Largest id looked at.
    pub to: SnapshotId,
    /// Identity of the snapshot `to`.
    pub token: Token,
}

/// What one committer knows of the commits of its user. Keep it from one attempt to the next
/// ([`Attempt::into_ledger`](crate::Attempt::into_ledger)); a new one only costs reading.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ledger {
    user: CommitUser,
    job: Option<JobName>,
    pub(crate) entries: BTreeMap<(CommitIdentifier, Half), Entry>,
    pub(crate) covered: Option<Covered>,
    pub(crate) note: Option<Entry>,
    /// Newest snapshot of this job by another user or with an epoch.
    pub(crate) newest_epoch: Option<SnapshotFact>,
    pub(crate) buckets: BTreeMap<PartitionId, i32>,
}

impl Ledger {
    /// An empty ledger: nothing was looked at.
    pub fn new(user: CommitUser, job: Option<JobName>) -> Self {
        Self {
            user,
            job,
            entries: BTreeMap::new(),
            covered: None,
            note: None,
            newest_epoch: None,
            buckets: BTreeMap::new(),
        }
    }

    /// Adds what the published note says \[R-4]: it stands for a snapshot that may be expired.
    pub fn remember_note(&mut self, note: Entry) {
        self.note = Some(note);
    }

    /// Whose ledger it is.
    pub fn user(&self) -> &CommitUser {
        &self.user
    }

    /// The job, where it has a name.
    pub fn job(&self) -> Option<&JobName> {
        self.job.as_ref()
    }

    /// The visible half, if it is known.
    pub fn find(&self, identifier: CommitIdentifier, half: Half) -> Option<&Entry> {
        self.entries.get(&(identifier, half))
    }

    /// The newest visible commit of the user.
    pub fn newest(&self) -> Option<&Entry> {
        self.entries.values().max_by_key(|e| e.id)
    }

    /// All known commits, by identifier and half.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values()
    }

    /// What was looked at.
    pub fn covered(&self) -> Option<&Covered> {
        self.covered.as_ref()
    }

    /// Takes a replaced commit out, so that the same committable can be offered again \[R-14]. Only
    /// for a replacement that says so; the rest of the history is looked at anew.
    pub fn accept_replacement(&mut self, replacement: &crate::step::Replacement) {
        if replacement.offer_again {
            let ours = &replacement.ours;
            self.entries.remove(&(ours.identifier, ours.half));
            self.covered = None;
        }
    }
}
