//! How far the history must be read, and what it says: the ledger meets the base.
//!
//! Owns: [`Attempt::on_latest`], [`Attempt::on_history`], the stop conditions of the walk, the
//! detection of replaced snapshots \[R-14]. Does not own: what follows from the ledger (`checks`).
//!
//! From what is covered the walk first goes up to the base, then down until one of these holds:
//! the first snapshot; a commit of this user with a smaller identifier (identifiers never decrease,
//! so ours cannot be below); the point where the user was made; the snapshot that the published
//! note speaks of \[R-4]. A missing id before that means *unknown*, unless the snapshot seen at
//! `combine` still stands and everything above it was looked at.

use super::{Attempt, Checked};
use crate::committable::Seen;
use crate::fact::{LatestFact, SnapshotFact};
use crate::ids::Half;
use crate::ledger::{Covered, Entry};
use crate::rules::Rule;
use crate::step::{Outcome, Replacement, Step};
use std::collections::BTreeMap;
use tidegate_model::ids::SnapshotId;

/// What the pending `ReadHistory` is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Looking {
    /// From what is covered towards the base.
    Up,
    /// From what is covered towards the first snapshot.
    Down,
    /// Whether the snapshot seen at `combine` still stands.
    Seen,
    /// Whether the newest snapshot that we saw is gone or the answer was stale.
    Stale,
    /// What stands under the number of a commit of ours that a gap hides, and above it.
    Hidden(Hidden),
    /// Whether the parent of a replaced snapshot of ours still stands.
    Parent {
        ours: Box<Entry>,
        by: Box<SnapshotFact>,
    },
}

/// Which commit of ours lies below a broken chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Hidden {
    /// The newest that this committer knows to have been visible.
    Newest,
    /// The one that the published note names.
    Noted,
}

/// Whether the snapshot seen at `combine` still stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum SeenState {
    Unread,
    Stands,
    Gone,
}

enum Need {
    Enough,
    Read(Looking, SnapshotId, SnapshotId),
    Unknown(SnapshotId, SnapshotId),
}

impl Attempt {
    pub(super) fn on_latest(&mut self, latest: LatestFact) {
        self.checked = Checked::default();
        self.gap = None;
        self.seen = SeenState::Unread;
        self.broken = false;
        self.hidden_looked.clear();
        let base = latest.base.as_ref().map(|b| b.snapshot.clone());
        self.latest = Some(latest);
        if self.is_unsure() {
            return self.settle_unsure(base);
        }
        let Some(base) = base else {
            if let Some(ours) = self.ledger.above(None, self.rules()).cloned()
                && self.rules().on(Rule::RollbackNoticed)
            {
                return self.replaced(ours, None, false);
            }
            self.ledger.forget_coverage();
            return self.decide();
        };
        if self.retries > 0 && !self.rules().on(Rule::LedgerOnRetry) {
            return self.checks();
        }
        let noted = self.ledger.above(Some(base.id), self.rules());
        let seen = self.ledger.covered().map(|c| c.to).max(noted.map(|e| e.id));
        match seen {
            Some(to) if to > base.id && self.rules().on(Rule::StaleLatestRead) => {
                self.read(Looking::Stale, to, to);
            }
            Some(to) if to > base.id => self.rolled_back(),
            _ => self.enter_at(&base),
        }
    }

    /// Takes the base into the ledger and looks back from it.
    fn enter_at(&mut self, base: &SnapshotFact) {
        if let Err(ours) = self.ledger.absorb(base, self.rules()) {
            return self.suspect(*ours, base.clone(), true);
        }
        let stands = self
            .ledger
            .covered()
            .is_some_and(|c| c.to != base.id || c.token == base.token);
        if !stands {
            self.cover_only(base);
        }
        self.look_back();
    }

    /// The covered history starts anew at the base.
    fn cover_only(&mut self, base: &SnapshotFact) {
        if self.ledger.covered().is_some() {
            self.ledger.forget_coverage();
        }
        self.ledger.covered = Some(Covered {
            from: base.id,
            to: base.id,
            token: base.token.clone(),
            parent: base.based_on.clone(),
        });
    }

    fn base(&self) -> Option<SnapshotFact> {
        self.latest
            .as_ref()
            .and_then(|l| l.base.as_ref())
            .map(|b| b.snapshot.clone())
    }

    fn read(&mut self, looking: Looking, from: SnapshotId, to: SnapshotId) {
        self.looking = looking;
        self.step = Step::ReadHistory { from, to };
    }

    fn look_back(&mut self) {
        let need = self.need();
        if !matches!(need, Need::Read(..))
            && let Some((which, id)) = self.hidden()
        {
            return self.read(Looking::Hidden(which), id, id.next());
        }
        match need {
            Need::Enough => {
                self.gap = None;
                self.decide();
            }
            Need::Read(looking, from, to) => self.read(looking, from, to),
            Need::Unknown(from, to) => {
                self.gap = Some((from, to));
                self.decide();
            }
        }
    }

    /// A commit of ours below a broken chain, not looked at by this attempt. Whatever is above what stands was
    /// built on it; but it may have been put over, and what is above built on that \[R-14].
    fn hidden(&self) -> Option<(Hidden, SnapshotId)> {
        let from = self.ledger.covered()?.from;
        if !self.broken || !self.rules().on(Rule::HiddenOwnLooked) {
            return None;
        }
        let open = |which: &Hidden| !self.hidden_looked.contains(which);
        [Hidden::Newest, Hidden::Noted]
            .into_iter()
            .filter(open)
            .find_map(|which| {
                let ours = self.hidden_entry(which)?;
                (ours.id < from).then_some((which, ours.id))
            })
    }

    fn hidden_entry(&self, which: Hidden) -> Option<&Entry> {
        match which {
            Hidden::Newest => self.ledger.newest(),
            // Without an identity it was left for a commit of which only the files told.
            Hidden::Noted => self.note().filter(|n| !n.token.as_str().is_empty()),
        }
    }

    fn on_hidden(&mut self, which: Hidden, found: &BTreeMap<SnapshotId, SnapshotFact>) {
        self.hidden_looked.push(which);
        let Some(ours) = self.hidden_entry(which).cloned() else {
            return self.look_back();
        };
        // Gone, it is expired. Below a hole, or below what was built on ours, another one came late.
        let by = found.get(&ours.id).filter(|f| f.token != ours.token);
        let child = found.get(&ours.id.next()).map(|c| c.based_on.as_ref());
        let (Some(by), Some(parent)) = (by, child) else {
            return self.look_back();
        };
        if parent == Some(&ours.token) {
            return self.look_back();
        }
        match which {
            Hidden::Newest => {
                let chained = parent == Some(&by.token);
                self.suspect(ours, by.clone(), chained);
            }
            Hidden::Noted => {
                self.ledger.note = None;
                self.look_back();
            }
        }
    }

    fn need(&self) -> Need {
        let (Some(covered), Some(base)) = (self.ledger.covered(), self.base()) else {
            return Need::Enough;
        };
        let chunk = i64::from(self.settings.history_chunk.max(1));
        if covered.to < base.id {
            // At least one new id besides the last, whose child is not in the range.
            let last = SnapshotId(base.id.0.saturating_sub(1));
            let to = SnapshotId(covered.to.0.saturating_add(chunk.max(2))).min(last);
            return Need::Read(Looking::Up, covered.to, to);
        }
        if self.knows_all() || self.is_answered() {
            return Need::Enough;
        }
        if let Some((from, to)) = self.gap {
            let Seen::Snapshot { id, .. } = &self.committable.seen else {
                return Need::Unknown(from, to);
            };
            let reaches = id.next() >= covered.from && *id <= base.id;
            return match self.seen {
                _ if !reaches => Need::Unknown(from, to),
                _ if !self.rules().on(Rule::SeenVerified) => Need::Enough,
                SeenState::Unread => Need::Read(Looking::Seen, *id, *id),
                SeenState::Stands => Need::Enough,
                SeenState::Gone => Need::Unknown(from, to),
            };
        }
        // Few at first: a restarted job's own newest snapshot is usually near.
        let looked_at = covered
            .to
            .0
            .saturating_sub(covered.from.0)
            .saturating_add(1);
        let n = looked_at.clamp(4.min(chunk), chunk);
        let from = SnapshotId(covered.from.0.saturating_sub(n)).max(SnapshotId::FIRST);
        Need::Read(
            Looking::Down,
            from,
            SnapshotId(covered.from.0.saturating_sub(1)),
        )
    }

    /// True where nothing below `low` can be the commit in question, and the positions that the
    /// job's newest commit left are known.
    fn is_settled(&self, low: SnapshotId) -> bool {
        let ours = self.committable.identifier;
        let born = self.ledger.born.is_some_and(|born| born.next() >= low);
        // The COMPACT half of a commit is published after its APPEND half, whoever does it.
        let ours_half = match self.rules().on(Rule::CompactAboveAppend) {
            true => self.half(),
            false => Half::Append,
        };
        let own = self
            .ledger
            .entries()
            .any(|e| e.id >= low && (e.identifier, e.half) < (ours, ours_half));
        let noted = self
            .note()
            .filter(|n| n.identifier <= ours)
            .is_some_and(|n| n.id >= low || (n.id.next() >= low && self.may_rely_on_note()));
        let positions = born
            || self.committable.replaces.is_none()
            || self.ledger.newest_positions(None, self.rules()).is_some();
        (born || own || noted) && positions
    }

    /// Where the number that the note names was not looked at: it must be gone by expiry, else it is read.
    fn may_rely_on_note(&self) -> bool {
        self.gap.is_some() || !self.rules().on(Rule::NoteMustStand)
    }

    /// True where what was looked at decides already, whatever lies below.
    fn is_answered(&self) -> bool {
        let epoch = self.ledger.newest_epoch.as_ref().and_then(|f| f.epoch);
        if self.committable.epoch.is_some() && epoch > self.committable.epoch {
            return self.rules().on(Rule::EpochFences);
        }
        let found = self.ledger.find(self.committable.identifier, self.half());
        found.is_some_and(|found| {
            self.committable.replaces.is_none()
                || self
                    .ledger
                    .newest_positions(Some(found.id), self.rules())
                    .is_some()
        })
    }

    /// The published note, where it is consulted.
    pub(super) fn note(&self) -> Option<&Entry> {
        let rules = self.rules();
        let note = self.ledger.standing_note(rules);
        note.filter(|_| rules.on(Rule::NoteConsulted))
    }

    /// True where everything that could be this commit was looked at without relying on what was
    /// seen at `combine`.
    pub(super) fn knows_all(&self) -> bool {
        self.ledger
            .covered()
            .is_none_or(|c| c.from <= SnapshotId::FIRST || self.is_settled(c.from))
    }

    pub(super) fn on_history(
        &mut self,
        from: SnapshotId,
        to: SnapshotId,
        found: Vec<SnapshotFact>,
    ) {
        let found: BTreeMap<SnapshotId, SnapshotFact> = found
            .into_iter()
            .filter(|f| f.id >= from && f.id <= to)
            .map(|f| (f.id, f))
            .collect();
        match self.looking.clone() {
            Looking::Up => self.on_up(from, to, found),
            Looking::Down => self.on_down(from, to, &found),
            Looking::Seen => {
                let stands = match &self.committable.seen {
                    Seen::Snapshot { id, token } => {
                        found.get(id).is_some_and(|f| f.token == *token)
                    }
                    _ => false,
                };
                self.seen = if stands {
                    SeenState::Stands
                } else {
                    SeenState::Gone
                };
                self.look_back();
            }
            Looking::Stale => match found.get(&to) {
                Some(fact) => match self.ledger.absorb(fact, self.rules()) {
                    Err(ours) => self.suspect(*ours, fact.clone(), true),
                    Ok(()) => self.retry(&format!("the newest snapshot was read before {to} was")),
                },
                None => self.rolled_back(),
            },
            Looking::Hidden(which) => self.on_hidden(which, &found),
            Looking::Parent { ours, by } => {
                let parent = found.get(&to).map(|f| &f.token);
                let unchanged = parent.is_some() && parent == ours.based_on.as_ref();
                self.replaced_by(*ours, *by, unchanged);
            }
        }
    }

    fn on_up(
        &mut self,
        from: SnapshotId,
        to: SnapshotId,
        mut found: BTreeMap<SnapshotId, SnapshotFact>,
    ) {
        let (Some(base), Some(covered)) = (self.base(), self.ledger.covered().cloned()) else {
            return self.decide();
        };
        found.insert(base.id, base.clone());
        let stands = |f: &SnapshotFact| f.token == covered.token;
        let mut rewritten = false;
        if self.rules().on(Rule::ChainRead) {
            let parent_of = |id: &SnapshotId| found.get(&id.next())?.based_on.clone();
            rewritten = parent_of(&from).is_some_and(|parent| parent != covered.token);
            // One that its child was not built on lies there by accident: out of a long pause it
            // came below the retained history, and the real one is gone.
            let is_real = |f: &SnapshotFact| parent_of(&f.id).is_none_or(|p| p == f.token);
            let real: BTreeMap<_, _> = found
                .values()
                .filter(|f| is_real(f))
                .map(|f| (f.id, f.clone()))
                .collect();
            found = real;
        }
        let oldest = found.get(&from);
        let changed = rewritten || oldest.is_some_and(|f| !stands(f));
        let mut ids = (from.0.saturating_add(1)..=to.0).map(SnapshotId);
        // The oldest id of the range may be expired by now: it was looked at before.
        let gap = ids.any(|id| !found.contains_key(&id));
        // The last of a part whose child was not read yet is left to the next part.
        let last = if to.next() >= base.id {
            base.id
        } else {
            SnapshotId(to.0.saturating_sub(1)).max(from)
        };
        // Expiry takes the oldest first: what stands below a gap was put there late, and no reader ever
        // saw it, ours or not. What is above the gap is met again on the way down from the base.
        let reliable = !gap || !self.rules().on(Rule::BelowGapIgnored);
        for fact in found.values().filter(|f| f.id <= last && reliable) {
            if let Err(ours) = self.ledger.absorb(fact, self.rules()) {
                let child = found.get(&fact.id.next()).and_then(|f| f.based_on.as_ref());
                let chained = fact.id == base.id || child == Some(&fact.token);
                return self.suspect(*ours, fact.clone(), chained);
            }
        }
        if changed || (gap && self.rules().on(Rule::MissingHistoryIsUnknown)) {
            self.cover_only(&base);
            return self.look_back();
        }
        if let Some(covered) = &mut self.ledger.covered {
            covered.to = last;
            covered.token = found.get(&last).map_or(base.token, |f| f.token.clone());
        }
        self.look_back();
    }

    fn on_down(
        &mut self,
        from: SnapshotId,
        to: SnapshotId,
        found: &BTreeMap<SnapshotId, SnapshotFact>,
    ) {
        for id in (from.0..=to.0).rev().map(SnapshotId) {
            let child = self.ledger.covered().and_then(|c| c.parent.clone());
            // One that its child was not built on lies there by accident: the real one is gone.
            let real = |f: &&SnapshotFact| {
                child.as_ref().is_none_or(|parent| *parent == f.token)
                    || !self.rules().on(Rule::ChainRead)
            };
            let Some(fact) = found.get(&id).filter(real) else {
                self.broken = found.contains_key(&id);
                if self.rules().on(Rule::MissingHistoryIsUnknown) {
                    self.gap = Some((SnapshotId::FIRST, id));
                } else if let Some(covered) = &mut self.ledger.covered {
                    covered.from = SnapshotId::FIRST;
                }
                break;
            };
            if let Err(ours) = self.ledger.absorb(fact, self.rules()) {
                return self.suspect(*ours, fact.clone(), child.is_some());
            }
            if let Some(covered) = &mut self.ledger.covered {
                covered.from = id;
                covered.parent = fact.based_on.clone();
            }
        }
        self.look_back();
    }

    /// The newest snapshot is below what was seen: somebody rolled the table back \[C-72].
    fn rolled_back(&mut self) {
        let Some(base) = self.base() else {
            return self.decide();
        };
        let gone = self.ledger.above(Some(base.id), self.rules()).cloned();
        if let Some(ours) = gone
            && self.rules().on(Rule::RollbackNoticed)
        {
            return self.replaced(ours, None, false);
        }
        self.ledger.forget_coverage();
        self.enter_at(&base);
    }

    /// A snapshot of ours shows another identity under its number \[R-14]. `chained` where that one
    /// is the newest, or its child is built on it.
    fn suspect(&mut self, ours: Entry, by: SnapshotFact, chained: bool) {
        let parent = SnapshotId(ours.id.0.saturating_sub(1));
        if ours.id <= SnapshotId::FIRST {
            let unchanged = ours.based_on.is_none() && chained;
            return self.replaced_by(ours, by, unchanged);
        }
        self.read(
            Looking::Parent {
                ours: Box::new(ours),
                by: Box::new(by),
            },
            parent,
            parent,
        );
    }

    fn replaced_by(&mut self, ours: Entry, by: SnapshotFact, parent_unchanged: bool) {
        let later = self.ledger.newest().is_some_and(|e| e.id > ours.id);
        let offer_again =
            (parent_unchanged && !later) || !self.rules().on(Rule::OfferedAgainOnlyOnOurParent);
        self.replaced(ours, Some(by), offer_again);
    }

    fn replaced(&mut self, ours: Entry, by: Option<SnapshotFact>, offer_again: bool) {
        self.give_up(Outcome::Replaced(Replacement {
            ours,
            by,
            offer_again,
        }));
    }
}
