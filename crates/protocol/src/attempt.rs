//! The commit of one committable, step by step.
//!
//! Owns: the order of reading, checking, writing, publishing and cleaning, for both halves. Does
//! not own: any effect; clock, randomness and content come in as facts.
//!
//! ```text
//! ReadLatest ─► ReadHistory* ─► decide ─► ReadLive? ─► ReadBuckets? ─► CheckFiles? ─► Write ─► Publish
//!     ▲         (ledger up to    │ (skip, fence, refuse)             created / ours ─► confirm ◄┤
//!     │          this base)      ▼                                         │ buried, theirs     │
//!     │                        Done ◄─ Announce ◄─ its base stands ────────┤                    │
//!     └────────────────────────────────────────────────── BackOff ◄────────┘  unknown ─► BackOff ─► Publish
//!                                                                             (the same draft)
//! ```

mod build;
mod checks;
mod confirm;
mod history;

use crate::committable::{Changes, Committable};
use crate::fact::{DeltaObjects, Fact, Garbage, LatestFact};
use crate::ids::{FileId, Half, ObjectId};
use crate::ledger::{Entry, Ledger};
use crate::merge::Merged;
use crate::rules::{Rule, Rules};
use crate::settings::{EmptyCommits, Settings};
use crate::step::{Done, Draft, Fence, Outcome, Refusal, Step, Undecided};
use checks::LiveFor;
use confirm::Confirming;
use history::{Hidden, Looking, SeenState};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use tidegate_model::ids::SnapshotId;

/// The state of one commit. Drive it with [`Attempt::next`] and [`Attempt::observe`] until
/// [`Step::Done`].
///
/// A dropped attempt (time-out, cancellation \[R-18]) is undecided: the next attempt for the same
/// committable finds out by reading, because both aim at the id after the newest snapshot that they
/// see, and only one of them can get it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Attempt {
    committable: Arc<Committable>,
    ledger: Ledger,
    settings: Settings,
    /// Halves still to do, the next one first.
    halves: Vec<Half>,
    done: Done,
    published: bool,
    /// Lost races and retried faults of this half.
    retries: u32,
    /// Publishes of the present draft that got no answer.
    unknowns: u32,
    /// Some request for the present draft may still be carried out.
    in_doubt: bool,
    /// A draft that found its id taken after a request without an answer, or that was created and
    /// cannot be confirmed. Its objects may be in use: it may have been visible and be expired.
    doubtful: Option<(Box<Draft>, Vec<ObjectId>)>,
    /// The draft that is a snapshot and does not count yet.
    confirming: Option<Confirming>,
    /// The end, put off until the history was looked at once more because of a doubtful draft.
    ending: Option<Box<Outcome>>,
    latest: Option<LatestFact>,
    looking: Looking,
    seen: SeenState,
    /// What stands at the upper end of the gap is not what was built on above it: that is no expiry.
    broken: bool,
    /// Commits of ours below it whose numbers this attempt has looked at.
    hidden_looked: Vec<Hidden>,
    /// Ids that are gone and without which it cannot be told whether this was published.
    gap: Option<(SnapshotId, SnapshotId)>,
    live_for: LiveFor,
    checked: Checked,
    /// What is to be published of this half, after dropping dead parts.
    changes: Arc<Changes>,
    /// The changes that `delta` was written from.
    delta: Option<(Arc<Changes>, DeltaObjects)>,
    merged: Vec<Merged>,
    /// Objects that only the present draft refers to: base list, new index manifest.
    objects: Vec<ObjectId>,
    /// Objects that nothing can refer to any more.
    trash: Vec<ObjectId>,
    /// Data files that nothing can refer to any more: outputs of compactions that lost.
    lost: Vec<FileId>,
    after: After,
    step: Step,
}

/// Checks that are through for the present base.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Checked {
    live: bool,
    buckets: bool,
    files: bool,
}

/// What follows a wait or a deletion.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum After {
    ReadLatest,
    /// A snapshot below the retained history is gone: the race was lost.
    Buried,
    /// Ask again whether the snapshot counts.
    Confirm,
    Publish(Box<Draft>),
    Finish(Box<Outcome>),
}

impl Attempt {
    /// Starts. Nothing was read yet; `ledger` is what this committer knows from earlier attempts.
    pub fn new(committable: Arc<Committable>, ledger: Ledger, settings: Settings) -> Self {
        let mut attempt = Self {
            committable,
            ledger,
            settings,
            halves: Vec::new(),
            done: Done::default(),
            published: false,
            retries: 0,
            unknowns: 0,
            in_doubt: false,
            doubtful: None,
            confirming: None,
            ending: None,
            latest: None,
            looking: Looking::Up,
            seen: SeenState::Unread,
            broken: false,
            hidden_looked: Vec::new(),
            gap: None,
            live_for: LiveFor::Conflicts,
            checked: Checked::default(),
            changes: Arc::default(),
            delta: None,
            merged: Vec::new(),
            objects: Vec::new(),
            trash: Vec::new(),
            lost: Vec::new(),
            after: After::ReadLatest,
            step: Step::ReadLatest,
        };
        attempt.start();
        attempt
    }

    /// What to do now. Asking twice gives the same answer.
    pub fn next(&self) -> Step {
        self.step.clone()
    }

    /// Takes the answer to [`Attempt::next`].
    pub fn observe(&mut self, fact: Fact) -> Result<(), OutOfTurn> {
        match (&self.step, fact) {
            (Step::ReadLatest, Fact::Latest(latest)) => self.on_latest(latest),
            (Step::ReadHistory { from, to }, Fact::History(found)) => {
                let (from, to) = (*from, *to);
                self.on_history(from, to, found);
            }
            (Step::ReadLive { .. }, Fact::Live(live)) => self.on_live(&live),
            (Step::ReadBuckets { .. }, Fact::Buckets(found)) => self.on_buckets(&found),
            (Step::CheckFiles(_), Fact::Absent(absent)) => self.on_absent(absent),
            (Step::Write(plan), Fact::Written(written)) if plan.is_answered_by(&written) => {
                let plan = plan.clone();
                self.on_written(&plan, written);
            }
            (Step::Publish(draft), fact) => {
                let draft = draft.clone();
                return self.on_published(draft, fact);
            }
            (Step::ReadAgain(_) | Step::FindRetained, fact) => return self.on_confirm(fact),
            (Step::Announce(_), Fact::Announced) => self.announced(),
            (Step::Delete(_), Fact::Deleted(left)) => self.on_deleted(left),
            (Step::Delete(all), Fact::Failed { .. } | Fact::TimedOut) => {
                let all = all.clone();
                self.on_deleted(all);
            }
            (Step::BackOff(_), Fact::Waited) => match self.after.clone() {
                After::ReadLatest | After::Buried => self.read_latest(),
                After::Confirm => self.confirm_again(),
                After::Publish(draft) => self.step = Step::Publish(*draft),
                After::Finish(outcome) => self.step = Step::Done(*outcome),
            },
            (Step::BackOff(_), Fact::TimedOut) => match (self.after.clone(), &self.confirming) {
                (After::Publish(draft), _) => self.undecided(*draft),
                (After::Confirm, Some(confirming)) => {
                    let draft = confirming.draft();
                    self.undecided(draft);
                }
                _ => self.exhausted("commit.timeout is over"),
            },
            (step, Fact::TimedOut) if step.may_fail() => self.exhausted("commit.timeout is over"),
            (
                step,
                Fact::Failed {
                    retryable,
                    why,
                    left,
                },
            ) if step.may_fail() => {
                self.trash.extend(left);
                if retryable && self.rules().on(Rule::FaultsRetried) {
                    self.retry(&why);
                } else {
                    self.give_up(Outcome::Refused(Refusal::Store(why)));
                }
            }
            (step, fact) => return Err(OutOfTurn::new(step.clone(), fact)),
        }
        Ok(())
    }

    /// After [`Outcome::Undecided`]: puts the same draft at the same id again, or, where it is there
    /// or the id is taken, looks again; with a new retry budget \[R-6]. False, and without effect, in
    /// any other state.
    pub fn go_on(&mut self) -> bool {
        let Step::Done(Outcome::Undecided(undecided)) = &self.step else {
            return false;
        };
        let draft = (*undecided.draft).clone();
        self.unknowns = 0;
        self.retries = 0;
        if self.doubtful.is_some() {
            self.step = Step::ReadLatest;
        } else if self.confirming.is_some() {
            self.confirm_again();
        } else {
            self.step = Step::Publish(draft);
        }
        true
    }

    /// The request of the pending step may have been sent, and its answer is lost: a future was
    /// dropped \[R-18]. The same step is then done again.
    pub fn interrupted(&mut self) {
        if matches!(self.step, Step::Publish(_)) && self.rules().on(Rule::DroppedIsDoubt) {
            self.in_doubt = true;
        }
    }

    /// What is known of the user's commits by now.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The same, to be given to the next attempt.
    pub fn into_ledger(self) -> Ledger {
        self.ledger
    }

    /// What is being committed.
    pub fn committable(&self) -> &Committable {
        &self.committable
    }

    /// The options.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    fn rules(&self) -> Rules {
        self.settings.rules
    }

    fn half(&self) -> Half {
        self.halves.first().copied().unwrap_or(Half::Append)
    }

    fn is_empty(&self) -> bool {
        self.committable.append.is_empty() && self.committable.compact.is_empty()
    }

    /// Which halves there are \[C-11], \[C-12]; refusals that need no table.
    fn start(&mut self) {
        let rules = self.rules();
        if let Some(file) = self.file_twice()
            && rules.on(Rule::FileTwiceRefused)
        {
            return self.give_up(Outcome::Refused(Refusal::FileTwice(file)));
        }
        if let Some(refusal) = self.buckets_disagree()
            && rules.on(Rule::BucketsAgree)
        {
            return self.give_up(Outcome::Refused(refusal));
        }
        let publish_empty =
            self.settings.empty == EmptyCommits::Publish || !rules.on(Rule::EmptyIgnored);
        if publish_empty || !self.committable.append.is_empty() {
            self.halves.push(Half::Append);
        }
        if !self.committable.compact.is_empty() {
            self.halves.push(Half::Compact);
        }
        if !rules.on(Rule::AppendFirst) {
            self.halves.reverse();
        }
        if self.halves.is_empty() {
            self.step = Step::Done(Outcome::Empty);
        }
    }

    /// A file that is added twice, or added and removed by one half (B22) \[C-30].
    fn file_twice(&self) -> Option<FileId> {
        let c = &self.committable;
        let mut added = BTreeSet::new();
        let all = c.append.added.iter().chain(&c.compact.added);
        let all = all.chain(&c.append.changelog).chain(&c.compact.changelog);
        if let Some(twice) = all.map(|f| f.file).find(|f| !added.insert(*f)) {
            return Some(twice);
        }
        [&c.append, &c.compact].into_iter().find_map(|half| {
            let mut gone: BTreeSet<FileId> = half.added.iter().map(|f| f.file).collect();
            half.deleted
                .iter()
                .map(|f| f.file)
                .find(|f| !gone.insert(*f))
        })
    }

    fn read_latest(&mut self) {
        if self.rules().on(Rule::BaseReRead) || self.latest.is_none() {
            self.step = Step::ReadLatest;
        } else {
            self.checks();
        }
    }

    fn on_published(&mut self, draft: Draft, fact: Fact) -> Result<(), OutOfTurn> {
        match fact {
            Fact::Created | Fact::ExistsOurs => self.created(draft),
            // A driver that compares parsed snapshots only.
            Fact::ExistsTheirs(found) if found.token == draft.token => self.created(draft),
            Fact::ExistsTheirs(found) => {
                self.unknowns = 0;
                if std::mem::take(&mut self.in_doubt) && self.rules().on(Rule::DoubtfulKept) {
                    self.doubt(draft);
                }
                self.lost();
                self.retry(&format!(
                    "snapshot {} was taken by {}",
                    found.id, found.user
                ));
            }
            Fact::Unknown if !self.rules().on(Rule::SameDraftAgain) => {
                self.lost();
                self.retry("no answer");
            }
            Fact::Unknown => self.unknown(draft),
            Fact::TimedOut => self.undecided(draft),
            // An earlier request for the same draft may have been carried out.
            Fact::PutRefused(_) if self.in_doubt && self.rules().on(Rule::RefusedAfterUnknown) => {
                self.undecided(draft);
            }
            Fact::PutRefused(why) => self.give_up(Outcome::Refused(Refusal::Store(why))),
            fact => {
                return Err(OutOfTurn::new(Step::Publish(draft), fact));
            }
        }
        Ok(())
    }

    /// No answer: the same draft again, a bounded number of times.
    fn unknown(&mut self, draft: Draft) {
        self.in_doubt = true;
        let n = self.unknowns;
        self.unknowns = n.saturating_add(1);
        if self.unknowns > self.settings.max_unknown && self.rules().on(Rule::UnknownBounded) {
            self.undecided(draft);
        } else {
            self.after = After::Publish(Box::new(draft));
            self.step = Step::BackOff(n);
        }
    }

    /// The objects of this draft may be in use: nothing of it is deleted until the history tells.
    fn doubt(&mut self, draft: Draft) {
        let objects = std::mem::take(&mut self.objects);
        let doubtful = self
            .doubtful
            .get_or_insert_with(|| (Box::new(draft), Vec::new()));
        doubtful.1.extend(objects);
    }

    /// The draft is a snapshot and counts: the only place where a half becomes done by publishing.
    fn visible(&mut self, draft: &Draft) {
        let entry = Entry::of_draft(draft);
        let buckets = self.bucket_counts();
        self.ledger.published(entry.clone(), &buckets);
        self.published = true;
        self.objects.clear();
        self.merged.clear();
        self.delta = None;
        self.finish_half(Some(entry));
    }

    /// This half is visible, or nothing of it is left to publish.
    fn finish_half(&mut self, entry: Option<Entry>) {
        match self.half() {
            Half::Append => self.done.append = entry,
            Half::Compact => self.done.compact = entry,
        }
        if self.half() == Half::Compact && self.doubtful.is_none() {
            self.lost = self.lost_outputs();
        }
        self.discard_draft();
        if !self.halves.is_empty() {
            self.halves.remove(0);
        }
        self.retries = 0;
        self.unknowns = 0;
        self.in_doubt = false;
        self.doubtful = None;
        self.confirming = None;
        self.ending = None;
        self.gap = None;
        self.seen = SeenState::Unread;
        if !self.halves.is_empty() {
            self.step = Step::ReadLatest;
            return;
        }
        let done = self.done.clone();
        self.conclude(if self.published {
            Outcome::Published(done)
        } else {
            Outcome::AlreadyPublished(done)
        });
    }

    /// The present draft can never become visible: its id is taken.
    fn lost(&mut self) {
        let objects = std::mem::take(&mut self.objects);
        if self.rules().on(Rule::LostRaceCleans) {
            self.junk(objects);
        }
        if !self.rules().on(Rule::DeltaReused) {
            self.discard_delta();
        }
    }

    /// Everything that was written for this half and did not become visible is garbage.
    fn discard_draft(&mut self) {
        let objects = std::mem::take(&mut self.objects);
        self.junk(objects);
        self.discard_delta();
        for merged in std::mem::take(&mut self.merged) {
            self.junk(merged.outputs.iter().map(|m| m.id));
        }
    }

    fn discard_delta(&mut self) {
        if let Some((_, delta)) = self.delta.take() {
            self.junk(delta.objects());
        }
    }

    /// Nothing refers to these, unless a doubtful draft does: then they stay, for a later run to
    /// clean [R-13].
    fn junk(&mut self, objects: impl IntoIterator<Item = ObjectId>) {
        if self.doubtful.is_none() {
            self.trash.extend(objects);
        }
    }

    /// The history from the doubtful draft on is complete. Where it shows another run's snapshot of this
    /// very commit, the draft never was visible. True where it shows nothing of this commit: then the draft
    /// was not visible, or was put over, and others may have built on it before \[R-14]: the base tells.
    fn settle_doubt(&mut self) -> bool {
        let Some((draft, objects)) = self.doubtful.take() else {
            return false;
        };
        let covered = self.ledger.covered();
        let complete = covered.is_some_and(|c| c.from <= draft.id) && self.gap.is_none();
        let found = self
            .ledger
            .find(self.committable.identifier, self.half())
            .map(|entry| entry.token == draft.token);
        let looks = self.rules().on(Rule::PutOverLooked) && !self.checked.live;
        match found {
            Some(false) if complete => self.trash.extend(objects),
            None if complete && !looks => self.trash.extend(objects),
            _ => {
                self.doubtful = Some((draft, objects));
                return complete && found.is_none();
            }
        }
        false
    }

    fn retry(&mut self, why: &str) {
        let n = self.retries;
        self.retries = n.saturating_add(1);
        // The last look has as many tries again.
        let looks = if self.ending.is_some() { 2 } else { 1 };
        let most = self
            .settings
            .max_retries
            .saturating_mul(looks)
            .max(looks.saturating_sub(1));
        if self.retries > most && self.rules().on(Rule::RetriesBounded) {
            return self.exhausted(why);
        }
        self.after = After::ReadLatest;
        self.step = Step::BackOff(n);
    }

    fn exhausted(&mut self, why: &str) {
        let attempts = self.retries;
        let why = why.to_owned();
        self.give_up(Outcome::Refused(Refusal::RetriesExhausted {
            attempts,
            why,
        }));
    }

    /// Ends without publishing this half. What was written for it is deleted; data files are not:
    /// the committable may be offered again.
    fn give_up(&mut self, outcome: Outcome) {
        let may_look = matches!(
            outcome,
            Outcome::Refused(Refusal::RetriesExhausted { .. } | Refusal::Store(_))
        );
        if may_look && self.doubtful.is_some() && self.ending.is_none() {
            self.ending = Some(Box::new(outcome));
            self.step = Step::ReadLatest;
            return;
        }
        let outcome = match self.ending.take() {
            Some(ending) if may_look => *ending,
            _ => outcome,
        };
        // The history could not be read, and whether the draft in it is ours is not known [R-6].
        if may_look
            && let Some((draft, _)) = &self.doubtful
            && self.rules().on(Rule::DoubtfulKept)
        {
            let draft = (**draft).clone();
            return self.undecided(draft);
        }
        if self.rules().on(Rule::FailureCleans) {
            self.discard_draft();
        }
        if self.rules().on(Rule::DataFilesKept) {
            self.conclude(outcome);
        } else {
            self.conclude_with(outcome, self.own_files());
        }
    }

    /// What an abort would take away.
    fn own_files(&self) -> Vec<Garbage> {
        let added = self.committable.append.added.iter();
        added.map(|f| Garbage::File(f.file)).collect()
    }

    fn undecided(&mut self, draft: Draft) {
        self.in_doubt = true;
        if !self.rules().on(Rule::UnknownKeeps) {
            self.discard_draft();
        }
        let mut kept: Vec<ObjectId> = self.objects.clone();
        kept.extend(self.doubtful.iter().flat_map(|(_, objects)| objects));
        kept.extend(self.delta.iter().flat_map(|(_, delta)| delta.objects()));
        kept.extend(
            self.merged
                .iter()
                .flat_map(|m| m.outputs.iter().map(|o| o.id)),
        );
        let outcome = Outcome::Undecided(Undecided {
            draft: Box::new(draft),
            done: self.done.clone(),
            kept,
        });
        if self.rules().on(Rule::UnknownKeeps) {
            self.step = Step::Done(outcome);
        } else {
            self.conclude(outcome);
        }
    }

    /// Deletes what is garbage, then ends.
    fn conclude(&mut self, outcome: Outcome) {
        self.conclude_with(outcome, Vec::new());
    }

    fn conclude_with(&mut self, outcome: Outcome, more: Vec<Garbage>) {
        let trash = std::mem::take(&mut self.trash);
        let mut garbage: Vec<Garbage> = trash.into_iter().map(Garbage::Object).collect();
        garbage.extend(more);
        let settled = matches!(
            outcome,
            Outcome::Published(_) | Outcome::AlreadyPublished(_)
        );
        if settled {
            let lost = std::mem::take(&mut self.lost);
            garbage.extend(lost.into_iter().map(Garbage::File));
        }
        garbage.sort_unstable();
        garbage.dedup();
        if garbage.is_empty() {
            self.step = Step::Done(outcome);
        } else {
            self.after = After::Finish(Box::new(outcome));
            self.step = Step::Delete(garbage);
        }
    }

    fn on_deleted(&mut self, left: Vec<Garbage>) {
        match self.after.clone() {
            After::Finish(outcome) => {
                let mut outcome = *outcome;
                if let Outcome::Published(done) | Outcome::AlreadyPublished(done) = &mut outcome {
                    done.left.extend(left);
                }
                self.step = Step::Done(outcome);
            }
            After::Buried => self.on_buried_removed(left),
            After::Confirm => self.confirm_again(),
            After::ReadLatest => self.step = Step::ReadLatest,
            After::Publish(draft) => self.step = Step::Publish(*draft),
        }
    }

    fn fenced(&mut self, fence: Fence) {
        self.give_up(Outcome::Fenced(fence));
    }
}

impl DeltaObjects {
    /// All objects, manifests and lists.
    fn objects(&self) -> impl Iterator<Item = ObjectId> + '_ {
        let changelog = self
            .changelog
            .iter()
            .flat_map(|(manifests, list)| manifests.iter().copied().chain(std::iter::once(*list)));
        self.manifests
            .iter()
            .map(|m| m.id)
            .chain(std::iter::once(self.list))
            .chain(changelog)
    }
}

/// A fact that does not answer the pending step: an error of the driver. The attempt is unchanged.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OutOfTurn {
    /// The step that waits for an answer.
    pub step: Box<Step>,
    /// What came.
    pub fact: Box<Fact>,
}

impl OutOfTurn {
    fn new(step: Step, fact: Fact) -> Self {
        Self {
            step: Box::new(step),
            fact: Box::new(fact),
        }
    }
}

impl fmt::Display for OutOfTurn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is no answer to {:?}; ask Attempt::next and answer that",
            self.fact, self.step
        )
    }
}

impl std::error::Error for OutOfTurn {}
