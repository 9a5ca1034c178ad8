//! Whether a snapshot that the store took lies in the history that readers see.
//!
//! Owns: what follows an answered create. A conditional create only says that the name was free. It is
//! free, too, where a committer slept while others went on and expired what it had built on: then the
//! snapshot lies *below* the retained history, no reader gets to it, and a LATEST hint that names it
//! would send readers and committers back in time \[C-51a]. So a create counts, and is announced, only
//! once its base is seen to stand *after* it: expiry takes the oldest first and a rollback the newest,
//! so that whoever removed this id before us had to remove its base, or leaves a trace that is looked
//! for here. One request in the usual case; listing and reading only where the base is gone.
//!
//! ```text
//! created ─► ReadAgain(base) ─ stands ─► visible
//!                │ gone
//!                ▼
//!          FindRetained ─ older ones remain ─► rolled back under us
//!                │ ours is the oldest: alone ─► visible;  else ReadAgain(child)
//!                │                          built on ours ─► visible;  on another ─► buried
//!                │                          absent, and ours below others still ─► buried
//!                ▼ ours is gone, or a child that does not say
//!          ReadLatest ─► ReadLive ─ its files are there ─► visible;  else nobody can tell
//! ```

use super::checks::LiveFor;
use super::{After, Attempt, OutOfTurn};
use crate::fact::{Fact, Garbage, SnapshotFact};
use crate::ledger::Entry;
use crate::rules::Rule;
use crate::step::{Draft, Outcome, Refusal, Replacement, Step};
use tidegate_model::ids::SnapshotId;

/// A draft that the store took.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Confirming {
    draft: Box<Draft>,
    at: At,
}

/// What is being asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum At {
    /// Does the base stand?
    Base,
    /// What is retained?
    Retained,
    /// What was built on it?
    Child,
    /// There is no child: does it stand itself?
    Itself,
    /// It does: is there still anything above it?
    Above,
    /// There is: and still no child?
    ChildAgain,
    /// None of these tells: do the files?
    Unsure,
    /// It counts.
    Announce,
}

impl Confirming {
    pub(super) fn draft(&self) -> Draft {
        (*self.draft).clone()
    }
}

impl Attempt {
    /// The store has the draft under its name.
    pub(super) fn created(&mut self, draft: Draft) {
        if !self.rules().on(Rule::CreateConfirmed) {
            return self.confirmed(draft);
        }
        // A table without snapshots has no base to ask for.
        match self.latest.as_ref().and_then(|l| l.base.as_ref()) {
            Some(base) => {
                let base = base.snapshot.id;
                self.ask(draft, At::Base, Step::ReadAgain(base));
            }
            None => self.ask(draft, At::Retained, Step::FindRetained),
        }
    }

    /// Begins to ask again.
    pub(super) fn confirm_again(&mut self) {
        match self.confirming.take() {
            Some(confirming) => self.created(*confirming.draft),
            None => self.step = Step::ReadLatest,
        }
    }

    fn ask(&mut self, draft: Draft, at: At, step: Step) {
        let draft = Box::new(draft);
        self.confirming = Some(Confirming { draft, at });
        self.step = step;
    }

    /// It counts: readers are told, then it is done.
    fn confirmed(&mut self, draft: Draft) {
        self.ask(draft.clone(), At::Announce, Step::Announce(draft));
    }

    pub(super) fn announced(&mut self) {
        if let Some(confirming) = self.confirming.take() {
            self.visible(&confirming.draft);
        }
    }

    pub(super) fn on_confirm(&mut self, fact: Fact) -> Result<(), OutOfTurn> {
        let Some(Confirming { draft, at }) = self.confirming.clone() else {
            return Err(OutOfTurn::new(self.step.clone(), fact));
        };
        let draft = *draft;
        match (at, fact) {
            (At::Base, Fact::Again(found)) => self.on_base(draft, found),
            (At::Retained, Fact::Retained(found)) => self.on_retained(draft, found),
            (At::Child, Fact::Again(found)) => self.on_child(draft, found),
            // Expiry would have taken this one before its child; a rollback takes the child alone.
            (At::Itself, Fact::Again(Some(found))) if found.token == draft.token => {
                self.ask(draft, At::Above, Step::FindRetained);
            }
            (At::Above, Fact::Retained(Some((_, newest)))) if newest == draft.id => {
                self.confirmed(draft);
            }
            // Built just now, where the child had been rolled back?
            (At::Above, Fact::Retained(_)) => {
                let child = draft.id.next();
                self.ask(draft, At::ChildAgain, Step::ReadAgain(child));
            }
            (At::ChildAgain, Fact::Again(None)) => self.buried(draft),
            (At::ChildAgain, Fact::Again(found)) => self.on_child(draft, found),
            (At::Itself, Fact::Again(_)) => self.unsure(draft),
            (
                _,
                Fact::Failed {
                    retryable: true, ..
                },
            ) => {
                let n = self.unknowns;
                self.unknowns = n.saturating_add(1);
                if self.unknowns > self.settings.max_unknown {
                    self.undecided(draft);
                } else {
                    self.after = After::Confirm;
                    self.step = Step::BackOff(n);
                }
            }
            (_, Fact::Failed { .. } | Fact::TimedOut) => self.undecided(draft),
            (_, fact) => return Err(OutOfTurn::new(self.step.clone(), fact)),
        }
        Ok(())
    }

    fn on_base(&mut self, draft: Draft, found: Option<SnapshotFact>) {
        let base = self.latest.as_ref().and_then(|l| l.base.as_ref());
        let base = base.map(|b| &b.snapshot.token);
        match found {
            Some(found) if Some(&found.token) == base => self.confirmed(draft),
            _ => self.ask(draft, At::Retained, Step::FindRetained),
        }
    }

    fn on_retained(&mut self, draft: Draft, found: Option<(SnapshotId, SnapshotId)>) {
        match found {
            Some((oldest, _))
                if oldest < draft.id && self.rules().on(Rule::RollbackUnderCreate) =>
            {
                self.behind(draft);
            }
            // Nothing below, nothing above: it is the table.
            Some((_, newest)) if newest == draft.id => self.confirmed(draft),
            Some((oldest, _)) if oldest <= draft.id => {
                let child = draft.id.next();
                self.ask(draft, At::Child, Step::ReadAgain(child));
            }
            _ => self.unsure(draft),
        }
    }

    fn on_child(&mut self, draft: Draft, child: Option<SnapshotFact>) {
        match child.map(|c| c.based_on) {
            // Whoever built on it has told readers of something newer.
            Some(Some(parent)) if parent == draft.token => self.visible(&draft),
            Some(Some(_)) => self.buried(draft),
            // A foreign one, which does not say what it was built on.
            Some(None) => self.unsure(draft),
            None => {
                let id = draft.id;
                self.ask(draft, At::Itself, Step::ReadAgain(id));
            }
        }
    }

    /// It lies below the retained history. Nobody saw it there: nobody is told to look. It is removed,
    /// and the same committable goes on the present table, as after a lost race.
    fn buried(&mut self, draft: Draft) {
        if self.in_doubt && self.rules().on(Rule::BuriedInDoubt) {
            return self.unsure(draft);
        }
        let id = draft.id;
        if !self.rules().on(Rule::BuriedRemoved) {
            self.confirming = None;
            self.lost();
            return self.retry("created below the retained history");
        }
        self.after = After::Buried;
        self.ask(draft, At::Itself, Step::Delete(vec![Garbage::Snapshot(id)]));
    }

    pub(super) fn on_buried_removed(&mut self, left: Vec<Garbage>) {
        let Some(Confirming { draft, .. }) = self.confirming.take() else {
            return self.step = Step::ReadLatest;
        };
        if !left.is_empty() {
            // It stays, and with it what it names.
            self.done.left.extend(left);
            self.objects.clear();
            self.delta = None;
            self.merged.clear();
        }
        self.lost();
        self.retry(&format!(
            "snapshot {} had been taken and was expired before it was created",
            draft.id
        ));
    }

    /// The base is gone and older snapshots stand: somebody rolled the table back, or put over it,
    /// between our look and the create \[R-14]. For a person; ours stays, since others may see it.
    fn behind(&mut self, draft: Draft) {
        let ours = Entry::of_draft(&draft);
        self.confirming = None;
        self.doubt(draft);
        self.give_up(Outcome::Replaced(Replacement {
            ours,
            by: None,
            offer_again: false,
        }));
    }

    /// Neither the base nor a child tells.
    fn unsure(&mut self, draft: Draft) {
        self.doubt(draft.clone());
        self.ask(draft, At::Unsure, Step::ReadLatest);
    }

    pub(super) fn is_unsure(&self) -> bool {
        self.confirming.as_ref().is_some_and(|c| c.at == At::Unsure)
    }

    /// The newest snapshot is read: its files tell, as for an expired history \[R-7].
    pub(super) fn settle_unsure(&mut self, base: Option<SnapshotFact>) {
        let Some(Confirming { draft, .. }) = self.confirming.clone() else {
            return self.step = Step::ReadLatest;
        };
        match base {
            Some(base) if base.token == draft.token => self.visible(&draft),
            Some(_) => {
                self.live_for = LiveFor::Created(draft);
                self.read_live();
            }
            None => {
                let ours = Entry::of_draft(&draft);
                self.confirming = None;
                self.give_up(Outcome::Replaced(Replacement {
                    ours,
                    by: None,
                    offer_again: false,
                }));
            }
        }
    }

    pub(super) fn on_unsure(&mut self, draft: &Draft, its_files_live: bool) {
        self.confirming = None;
        if its_files_live {
            // By this snapshot or by another one of the same content: what it names may be in use.
            return self.finish_half(None);
        }
        let (from, to) = (draft.id, draft.id);
        self.give_up(Outcome::Refused(Refusal::HistoryMissing { from, to }));
    }
}
