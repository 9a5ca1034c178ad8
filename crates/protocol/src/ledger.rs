//! Which commits of one user are visible, and how much of the history that answer rests on.
//!
//! Owns: [`Ledger`], filled from facts about snapshots, bounded in size. Does not own: reading; and
//! it is never trusted without the base: each attempt first extends it to the very snapshot that it
//! builds on (invariant 3).

use crate::fact::SnapshotFact;
use crate::ids::{Half, PartitionId, Token};
use crate::rules::{Rule, Rules};
use crate::step::{Draft, Replacement};
use std::collections::BTreeMap;
use tidegate_model::ids::SnapshotId;
use tidegate_model::ids::{CommitIdentifier, CommitUser, Digest, Epoch, JobName};
use tidegate_model::snapshot::CommitKind;

/// Entries kept per ledger; more are never needed, since identifiers of a user grow.
const MAX_ENTRIES: usize = 64;
/// Verified bucket counts kept per ledger \[C-25].
const MAX_BUCKET_COUNTS: usize = 1000;

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
    /// It changes nothing, and was published all the same.
    pub empty: bool,
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
    /// Identity of the parent of `from`, where `from` records it.
    pub parent: Option<Token>,
}

/// What one committer knows of the commits of its user. Keep it from one attempt to the next
/// ([`Attempt::into_ledger`](crate::Attempt::into_ledger)); a new one only costs reading.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ledger {
    user: CommitUser,
    job: Option<JobName>,
    pub(crate) entries: BTreeMap<(CommitIdentifier, Half), Entry>,
    pub(crate) covered: Option<Covered>,
    /// The user has no commit at or below this id.
    pub(crate) born: Option<SnapshotId>,
    pub(crate) note: Option<Entry>,
    /// The commit that was put over last: others may have built on it before, so that its files are looked
    /// for before it is published again.
    pub(crate) put_over: Option<CommitIdentifier>,
    /// The snapshot of this job (by any user) with the largest epoch.
    pub(crate) newest_epoch: Option<SnapshotFact>,
    pub(crate) buckets: BTreeMap<PartitionId, i32>,
}

impl Entry {
    /// The half that a snapshot publishes; `None` where it publishes none.
    pub fn of(fact: &SnapshotFact) -> Option<Self> {
        Some(Self {
            identifier: fact.identifier,
            half: Half::of(fact.kind)?,
            digest: fact.digest,
            epoch: fact.epoch,
            positions: fact.positions,
            id: fact.id,
            token: fact.token.clone(),
            based_on: fact.based_on.clone(),
            empty: fact.empty,
        })
    }
}

impl Entry {
    /// What a draft is once it is visible.
    pub(crate) fn of_draft(draft: &Draft) -> Self {
        Self {
            identifier: draft.identifier,
            half: draft.half,
            digest: Some(draft.digest),
            epoch: draft.epoch,
            positions: draft.positions,
            id: draft.id,
            token: draft.token.clone(),
            based_on: draft.based_on.clone(),
            empty: draft.empty,
        }
    }
}

impl Ledger {
    /// An empty ledger: nothing was looked at.
    pub fn new(user: CommitUser, job: Option<JobName>) -> Self {
        Self {
            user,
            job,
            entries: BTreeMap::new(),
            covered: None,
            born: None,
            note: None,
            put_over: None,
            newest_epoch: None,
            buckets: BTreeMap::new(),
        }
    }

    /// The ledger of a user that was made just now: it has no commit at or below `newest`, which
    /// was the newest snapshot *before* the user was made (`None` = the table had none). Spares the
    /// first commit a walk through the whole history.
    pub fn of_new_user(
        user: CommitUser,
        job: Option<JobName>,
        newest: Option<(SnapshotId, Token)>,
    ) -> Self {
        let mut ledger = Self::new(user, job);
        ledger.born = Some(newest.as_ref().map_or(SnapshotId(0), |(id, _)| *id));
        ledger.covered = newest.map(|(id, token)| Covered {
            from: id,
            to: id,
            token,
            parent: None,
        });
        ledger
    }

    /// Adds what the published note says \[R-4]: it stands for a snapshot that may be expired.
    pub fn remember_note(&mut self, note: Entry) {
        self.note = Some(note);
    }

    /// The published note, unless its number was looked at and shows another snapshot, or none: then what
    /// it speaks of was replaced \[R-14], and its rows are not in the table.
    pub(crate) fn standing_note(&self, rules: Rules) -> Option<&Entry> {
        let note = self.note.as_ref()?;
        let looked_at = |c: &Covered| (c.from..=c.to).contains(&note.id);
        let there = |e: &Entry| e.id == note.id && e.token == note.token;
        let refuted =
            self.covered.as_ref().is_some_and(looked_at) && !self.entries.values().any(there);
        (!refuted || !rules.on(Rule::NoteMustStand)).then_some(note)
    }

    /// The newest commit that is known to have been visible above `base`, or at all in an empty table, the
    /// noted one included: it does not expire before what is below it.
    pub(crate) fn above(&self, base: Option<SnapshotId>, rules: Rules) -> Option<&Entry> {
        let noted = self.note.as_ref().filter(|_| rules.on(Rule::NoteMustStand));
        let known = self.newest().into_iter().chain(noted);
        known
            .filter(|e| base.is_none_or(|base| e.id > base))
            .max_by_key(|e| e.id)
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
    pub fn accept_replacement(&mut self, replacement: &Replacement) {
        if replacement.offer_again {
            let ours = &replacement.ours;
            self.entries.remove(&(ours.identifier, ours.half));
            self.put_over = Some(ours.identifier);
            // A note that was left meanwhile speaks of what stands there no longer: consulted, it would
            // say that the commit is published and expired, and the rows would be lost.
            self.note = self.note.take().filter(|note| note.id < ours.id);
            self.forget_coverage();
        }
    }

    /// The history must be looked at again from the base downwards.
    pub(crate) fn forget_coverage(&mut self) {
        self.covered = None;
        self.born = None;
        self.buckets.clear();
    }

    /// Takes a visible snapshot in. `Err` is an entry of ours whose id now shows another snapshot.
    pub(crate) fn absorb(&mut self, fact: &SnapshotFact, rules: Rules) -> Result<(), Box<Entry>> {
        if let Some(ours) = self
            .entries
            .values()
            .find(|e| e.id == fact.id && e.token != fact.token)
            && rules.on(Rule::ReplacementNoticed)
        {
            return Err(Box::new(ours.clone()));
        }
        let same_user = fact.user == self.user || !rules.on(Rule::UserCompared);
        let same_job = fact.user == self.user || (self.job.is_some() && fact.job == self.job);
        if same_job && fact.epoch > self.newest_epoch.as_ref().and_then(|f| f.epoch) {
            self.newest_epoch = Some(fact.clone());
        }
        if same_user && let Some(entry) = Entry::of(fact) {
            let half = if rules.on(Rule::HalfTracked) {
                entry.half
            } else {
                Half::Append
            };
            self.entries.insert((entry.identifier, half), entry);
        }
        if fact.kind == CommitKind::Overwrite && rules.on(Rule::OverwriteForgetsBuckets) {
            self.buckets.clear();
        }
        Ok(())
    }

    /// Takes in what was just published on top of everything looked at, and drops the oldest
    /// entries beyond the bound.
    pub(crate) fn published(&mut self, entry: Entry, buckets: &[(PartitionId, i32)]) {
        match &mut self.covered {
            Some(covered) => {
                covered.to = entry.id;
                covered.token = entry.token.clone();
            }
            None => {
                self.covered = Some(Covered {
                    from: entry.id,
                    to: entry.id,
                    token: entry.token.clone(),
                    parent: entry.based_on.clone(),
                });
            }
        }
        self.entries.insert((entry.identifier, entry.half), entry);
        while self.entries.len() > MAX_ENTRIES {
            let Some((_, gone)) = self.entries.pop_first() else {
                break;
            };
            if let Some(covered) = &mut self.covered {
                // Below this the ledger does not know everything any more.
                covered.from = covered.from.max(gone.id.next());
                covered.parent = None;
            }
        }
        self.verified(buckets);
    }

    /// Remembers bucket counts that were compared with the base \[C-25].
    pub(crate) fn verified(&mut self, buckets: &[(PartitionId, i32)]) {
        self.buckets.extend(buckets.iter().copied());
        while self.buckets.len() > MAX_BUCKET_COUNTS {
            self.buckets.pop_first();
        }
    }

    /// The positions of this user's last commit that carries any, in the covered history or the
    /// note.
    pub(crate) fn newest_positions(
        &self,
        below: Option<SnapshotId>,
        rules: Rules,
    ) -> Option<Digest> {
        // What lies between it and what was looked at may hold newer ones.
        let from = self.covered.as_ref().map(|c| c.from);
        let unhidden = |e: &&Entry| {
            from.is_none_or(|from| e.id.next() >= from) || !rules.on(Rule::HiddenPositionsIgnored)
        };
        let known = self.entries.values().chain(self.standing_note(rules));
        known
            .filter(unhidden)
            .filter(|e| below.is_none_or(|id| e.id < id))
            .filter(|e| e.positions.is_some())
            .max_by_key(|e| e.id)
            .and_then(|e| e.positions)
    }
}
