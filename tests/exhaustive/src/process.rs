//! One process of a job: from its start over recording and committing to its end.
//!
//! Owns: the order of an engine around the protocol (ARCHITECTURE.md, *Order of a start*, *of a
//! checkpoint*): claim an epoch and read the newest record, compare with the table, publish what is
//! missing, then record and commit one checkpoint after the other. Does not own: any decision of the
//! protocol, which is the real [`Attempt`], guard, cleaning and retention; when a step is taken
//! ([`world`](crate::world)).

use crate::bounds::Variant;
use crate::effects::{End, perform};
use crate::invariant::{Broken, Invariant};
use crate::jobs::{self, Checkpoint};
use crate::table::Author;
use crate::words::{self, Name, Story};
use crate::world::{Record, State, World};
use std::sync::Arc;
use tidegate_model::ids::{CheckpointId, CommitIdentifier, Digest, SnapshotId};
use tidegate_protocol::{
    Attempt, Committable, Done, Entry, FileId, Garbage, Half, Ledger, Outcome, Refusal, Seen, Step,
    Token, retain,
};

/// What a process is at.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Not started, or dead.
    Down,
    /// The epoch is claimed and the record read; the table is to be compared with it.
    Opening {
        /// The newest commit that the record knows to be published.
        newest: Option<Entry>,
    },
    /// The next checkpoint is to be recorded.
    Recording,
    /// The published note is to be left.
    Noting,
    /// A commit is under way.
    Committing(Box<Attempt>),
    /// All checkpoints are published.
    Ended,
    /// It stopped for a person, or because somebody else goes on.
    Stopped(&'static str),
}

/// What a run does about files of earlier ones.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Cleaning {
    /// Nothing yet.
    Waits,
    /// These are to go.
    Planned(Vec<Garbage>),
    /// It is done.
    Over,
}

/// One process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Process {
    /// Its job.
    pub job: u64,
    /// Its run; 0 before the first.
    pub epoch: u64,
    /// What it is at.
    pub phase: Phase,
    /// Recorded and not known to be published, in order.
    pub queue: Vec<Arc<Committable>>,
    /// The newest checkpoint that it knows to be recorded: identifiers go on above it.
    pub recorded: u64,
    /// The chunk of its source that it has read last.
    pub chunk: u64,
    /// The files of the next one are written.
    pub written: bool,
    /// The file of that.
    pub last_file: Option<FileId>,
    /// The positions that its next commit is to replace \[R-9].
    pub expects: Option<Digest>,
    /// It has stepped back: where it stands is to be recorded first.
    pub stepped_back: bool,
    /// It took a way out.
    pub resolved: bool,
    /// Its newest published commit, held for the case that it is put over \[R-14].
    pub last: Option<Arc<Committable>>,
    /// Commits since it left the published note.
    pub unnoted: u8,
    /// What it knows of its commits, between two attempts.
    pub ledger: Option<Ledger>,
    /// Its newest published commit.
    pub newest: Option<Entry>,
    /// The newest snapshot that it read last.
    pub base: i64,
    /// Crashes left.
    pub crashes: u8,
    /// What it does about earlier runs.
    pub cleaning: Cleaning,
}

impl Process {
    /// A process that was not started yet.
    pub fn down(job: u64, crashes: u8) -> Self {
        Self {
            job,
            epoch: 0,
            phase: Phase::Down,
            queue: Vec::new(),
            recorded: 0,
            chunk: 0,
            written: false,
            last_file: None,
            expects: None,
            stepped_back: false,
            resolved: false,
            last: None,
            unnoted: 0,
            ledger: None,
            newest: None,
            base: 0,
            crashes,
            cleaning: Cleaning::Waits,
        }
    }

    /// True while it does something of itself.
    pub fn is_live(&self) -> bool {
        matches!(
            self.phase,
            Phase::Opening { .. } | Phase::Recording | Phase::Noting | Phase::Committing(_)
        )
    }

    /// True where its commit is undecided for now.
    pub fn is_undecided(&self) -> bool {
        match &self.phase {
            Phase::Committing(attempt) => {
                matches!(attempt.next(), Step::Done(Outcome::Undecided(_)))
            }
            _ => false,
        }
    }

    /// The step that waits, where a commit is under way.
    pub fn step(&self) -> Option<Step> {
        match &self.phase {
            Phase::Committing(attempt) => Some(attempt.next()),
            _ => None,
        }
    }

    /// What it knows of its commits.
    pub(crate) fn knows(&self) -> Option<&Ledger> {
        match &self.phase {
            Phase::Committing(attempt) => Some(attempt.ledger()),
            _ => self.ledger.as_ref(),
        }
    }

    pub(crate) fn name(&self) -> Name {
        let (job, epoch) = (self.job, self.epoch);
        Name { job, epoch }
    }

    fn author(&self) -> Author {
        let identifier = self.queue.first().map_or(0, |c| c.identifier.0);
        Author {
            job: self.job,
            epoch: self.epoch,
            identifier,
            base: self.base,
        }
    }

    /// Nothing of what it knew matters any more.
    pub(crate) fn forget(&mut self, phase: Phase) {
        let crashes = self.crashes;
        let (epoch, cleaning) = (self.epoch, self.cleaning.clone());
        *self = Self {
            phase,
            epoch,
            cleaning,
            ..Self::down(self.job, crashes)
        };
    }
}

/// Steps that a process takes by itself before it must have come to one that others notice.
const MOST_LOCAL_STEPS: u32 = 400;

impl World {
    /// The pending action of a process, ending as `end` says; then all that nobody else notices.
    pub(crate) fn go(
        &self,
        state: &mut State,
        who: usize,
        end: End,
        story: &mut Story,
    ) -> Result<(), Broken> {
        let Some(process) = state.processes.get(who) else {
            return Ok(());
        };
        match &process.phase {
            Phase::Opening { newest } => {
                let newest = newest.clone();
                self.restore(state, who, newest, None, story)?;
            }
            Phase::Recording => self.record(state, who, story)?,
            Phase::Noting => self.leave_note(state, who, story),
            Phase::Committing(_) => self.take_step(state, who, end, story)?,
            Phase::Down | Phase::Ended | Phase::Stopped(_) => return Ok(()),
        }
        self.settle(state, who, story)
    }

    /// Local steps, up to the next one that others notice.
    pub(crate) fn settle(
        &self,
        state: &mut State,
        who: usize,
        story: &mut Story,
    ) -> Result<(), Broken> {
        for _ in 0..MOST_LOCAL_STEPS {
            let step = state.processes.get(who).and_then(|p| p.step());
            match step {
                Some(step) if self.is_local(&step) => {
                    self.take_step(state, who, End::Well, story)?;
                }
                _ => return Ok(()),
            }
        }
        let why = format!("process {who} goes round in circles");
        Err(Broken::new(Invariant::Ends, why))
    }

    fn take_step(
        &self,
        state: &mut State,
        who: usize,
        end: End,
        story: &mut Story,
    ) -> Result<(), Broken> {
        let Some(process) = state.processes.get(who) else {
            return Ok(());
        };
        let Some(step) = process.step() else {
            return Ok(());
        };
        if let Step::Done(outcome) = step {
            return self.ended(state, who, outcome, story);
        }
        let (by, name) = (process.author(), process.name());
        let fact = perform(&mut state.table, &by, &step, end)?;
        story.say(|| words::step(name, &step, end, &fact));
        let Some(process) = state.processes.get_mut(who) else {
            return Ok(());
        };
        process.change(|p| {
            if let tidegate_protocol::Fact::Latest(latest) = &fact {
                p.base = latest.base.as_ref().map_or(0, |b| b.snapshot.id.0);
            }
            match &mut p.phase {
                Phase::Committing(attempt) => attempt
                    .observe(fact)
                    .map_err(|e| Broken::new(Invariant::Turns, e.to_string())),
                _ => Ok(()),
            }
        })
    }

    /// A publish is on its way when the call that waits for it is dropped \[R-18]. What became of it is
    /// as `end` says.
    pub(crate) fn dropped(
        &self,
        state: &mut State,
        who: usize,
        end: End,
        story: &mut Story,
    ) -> Result<(), Broken> {
        let Some(process) = state.processes.get_mut(who) else {
            return Ok(());
        };
        let (Some(step), by, name) = (process.step(), process.author(), process.name()) else {
            return Ok(());
        };
        let fact = perform(&mut state.table, &by, &step, end)?;
        story.say(|| {
            let how = words::step(name, &step, end, &fact);
            format!("{how}; the call was dropped and is made again")
        });
        process.change(|p| {
            if let Phase::Committing(attempt) = &mut p.phase {
                attempt.interrupted();
            }
        });
        Ok(())
    }

    /// The next checkpoint: its files, then its record, created if absent.
    pub(crate) fn record(
        &self,
        state: &mut State,
        who: usize,
        story: &mut Story,
    ) -> Result<(), Broken> {
        let Some(process) = state.processes.get(who) else {
            return Ok(());
        };
        let (job, name, identifier) = (process.job, process.name(), process.recorded + 1);
        let stands = process.stepped_back && process.queue.is_empty();
        let made = match stands {
            true => None,
            false => self.make(state, process),
        };
        let mut saved = process.queue.clone();
        saved.extend(made.clone());
        if let Some(made) = &made {
            let fresh = !process.written;
            if fresh {
                state
                    .table
                    .change(|t| t.files.extend(jobs::new_files(made)));
            }
            if fresh && self.bounds.apart {
                story.say(|| format!("{name}: writes the files of checkpoint {identifier}"));
                if let Some(process) = state.processes.get_mut(who) {
                    process.change(|p| p.written = true);
                }
                return Ok(());
            }
        }
        let (Some(store), Some(process)) = (state.jobs.get_mut(&job), state.processes.get_mut(who))
        else {
            return Ok(());
        };
        if let Some(other) = store.records.get(&identifier) {
            story.say(|| {
                format!(
                    "{name}: checkpoint {identifier} is recorded by run {} already; it stops",
                    other.epoch
                )
            });
            return self.stop(state, who, "another run recorded this checkpoint");
        }
        story.say(|| format!("{name}: records checkpoint {identifier}"));
        let chunk = made.as_ref().map_or(0, |_| 1) + process.chunk;
        let record = Record {
            epoch: process.epoch,
            saved: saved.clone(),
            newest: process.newest.clone(),
            chunk,
            expects: made.as_ref().map_or(process.expects, |m| m.positions),
        };
        let newest = store.change(|s| {
            s.records.insert(identifier, record);
            s.records.keys().next_back().copied()
        });
        process.change(|p| {
            p.recorded = identifier;
            p.chunk = chunk;
            p.written = false;
            p.stepped_back = false;
            p.queue = saved;
            if let Some(made) = &made {
                p.last_file = made.append.added.first().map(|f| f.file);
                p.expects = made.positions;
            }
        });
        // Nobody goes back to one below the newest by himself.
        let absent =
            |file: &FileId| newest == Some(identifier) && !state.table.files.contains(file);
        if let Some(file) = made.iter().flat_map(|m| jobs::new_files(m)).find(absent) {
            let why = format!("{name} records checkpoint {identifier} with {file}, which is gone");
            return Err(Broken::new(Invariant::Exists, why));
        }
        // Else a commit before it is under way.
        if state
            .processes
            .get(who)
            .is_some_and(|p| p.phase == Phase::Recording)
        {
            self.next_commit(state, who);
        }
        Ok(())
    }

    /// What the next checkpoint is to publish.
    fn make(&self, state: &State, process: &Process) -> Option<Arc<Committable>> {
        let number = process.chunk + 1;
        let compacted = process
            .last_file
            .filter(|_| self.bounds.compaction && number == 2);
        let seen = match state.table.newest() {
            // It speaks of expired history only.
            _ if self.bounds.expired == 0 => Seen::Unknown,
            None => Seen::Empty,
            Some(draft) => Seen::Snapshot {
                id: draft.id,
                token: draft.token.clone(),
            },
        };
        let of = Checkpoint {
            job: process.job,
            epoch: process.epoch,
            identifier: process.recorded + 1,
            number,
            before: compacted,
            replaces: process.expects,
        };
        jobs::committable(&of, seen).map(Arc::new)
    }

    /// The published note \[R-4]: its newest commit.
    fn leave_note(&self, state: &mut State, who: usize, story: &mut Story) {
        let Some(process) = state.processes.get_mut(who) else {
            return;
        };
        let (job, name, note) = (process.job, process.name(), process.newest.clone());
        process.change(|p| {
            p.unnoted = 0;
            if let (Some(ledger), Some(note)) = (&mut p.ledger, &note) {
                ledger.remember_note(note.clone());
            }
        });
        if let Some(note) = note {
            story.say(|| {
                format!(
                    "{name}: notes commit {} as snapshot {}",
                    note.identifier, note.id
                )
            });
            self.put_note(state, job, note);
        }
        self.next_commit(state, who);
    }

    pub(crate) fn put_note(&self, state: &mut State, job: u64, note: Entry) {
        if let Some(store) = state.jobs.get_mut(&job) {
            store.change(|s| s.note = Some(note));
        }
    }

    /// The next commit, checkpoint, or the end.
    pub(crate) fn next_commit(&self, state: &mut State, who: usize) {
        let Some(process) = state.processes.get_mut(who) else {
            return;
        };
        let Some(committable) = process.queue.first().cloned() else {
            let more = process.chunk < u64::from(self.bounds.checkpoints);
            let noted = process.unnoted < if more { self.bounds.notes } else { 1 };
            if process.unnoted > 0 && !noted {
                process.change(|p| p.phase = Phase::Noting);
            } else if more || process.stepped_back {
                process.change(|p| p.phase = Phase::Recording);
            } else {
                process.change(|p| p.forget(Phase::Ended));
            }
            return;
        };
        let settings = self.settings.clone();
        process.change(|p| {
            let ledger = p
                .ledger
                .take()
                .unwrap_or_else(|| Ledger::new(committable.user.clone(), committable.job.clone()));
            let attempt = Attempt::new(committable, ledger, settings);
            p.phase = Phase::Committing(Box::new(attempt));
        });
    }

    /// It stops, for a person or because somebody else goes on.
    pub(crate) fn stop(
        &self,
        state: &mut State,
        who: usize,
        why: &'static str,
    ) -> Result<(), Broken> {
        if let Some(process) = state.processes.get_mut(who) {
            let (name, resolved) = (process.name(), process.resolved);
            process.change(|p| p.forget(Phase::Stopped(why)));
            let b = &self.bounds;
            let alone = state.processes.len() == state.jobs.len();
            let disturbed = b.racing || b.rollbacks > 0 || b.expired > 0;
            if resolved && alone && !disturbed {
                let why = format!("{name} took a way out and stops: {why}");
                return Err(Broken::new(Invariant::GoesOn, why));
            }
        }
        Ok(())
    }

    /// It stops because the history does not tell what it asks. Where it runs alone and the note names its
    /// newest commit, and nothing that expired came after that, the note does \[R-4].
    pub(crate) fn stop_unknowing(
        &self,
        state: &mut State,
        who: usize,
        why: &'static str,
    ) -> Result<(), Broken> {
        let told = state.processes.get(who).and_then(|process| {
            let note = state.jobs.get(&process.job)?.note.as_ref()?;
            let user = jobs::user(process.job);
            let mut own = state.table.history.iter().rev();
            let newest = own.find(|d| Some(&d.user) == user.as_ref())?;
            let oldest = state.table.snapshots.keys().next()?;
            let tells = newest.token == note.token && *oldest <= note.id.next().0;
            (tells && !self.bounds.is_disturbed()).then(|| process.name())
        });
        self.stop(state, who, why)?;
        match told {
            Some(name) if self.bounds.variant == Variant::Jobs => {
                let why = format!("{name} stops ({why}), and the note tells");
                Err(Broken::new(Invariant::GoesOn, why))
            }
            _ => Ok(()),
        }
    }

    fn ended(
        &self,
        state: &mut State,
        who: usize,
        outcome: Outcome,
        story: &mut Story,
    ) -> Result<(), Broken> {
        let Some(process) = state.processes.get_mut(who) else {
            return Ok(());
        };
        let name = process.name();
        if let Outcome::Undecided(undecided) = &outcome {
            // Where its number is taken it can land no more, and a cleaner may know that.
            let may_land = state.table.may_be_seen(&undecided.draft);
            for kept in undecided.kept.iter().filter(|_| may_land) {
                if !state.table.objects.contains_key(kept) {
                    let why = format!("{kept} is undecided and deleted");
                    return Err(Broken::new(Invariant::Undecided, why));
                }
            }
            let went_on = process.change(|p| match &mut p.phase {
                Phase::Committing(attempt) => attempt.go_on(),
                _ => false,
            });
            if went_on {
                return Ok(());
            }
        }
        process.change(|p| {
            if let Phase::Committing(attempt) = &p.phase {
                p.ledger = Some(attempt.ledger().clone());
            }
            // Until the next attempt it is nothing.
            p.phase = Phase::Recording;
        });
        match outcome {
            Outcome::Published(done) | Outcome::AlreadyPublished(done) => {
                self.acknowledged(state, who, &done, story)?;
            }
            Outcome::Replaced(replacement) if replacement.offer_again => {
                let lost = replacement.ours.identifier;
                let is_lost = |c: &&Arc<Committable>| c.identifier == lost;
                let held = process.last.clone().filter(|last| is_lost(&last));
                let in_hand = process.queue.first().is_some_and(|c| is_lost(&c));
                if !in_hand && held.is_none() {
                    story.say(|| {
                        format!("{name}: commit {lost} was replaced and is not held: behind")
                    });
                    return self.stop(state, who, "behind");
                }
                story.say(|| format!("{name}: commit {lost} was replaced and is offered again"));
                process.change(|p| {
                    if let Some(ledger) = &mut p.ledger {
                        ledger.accept_replacement(&replacement);
                    }
                    if let (Some(held), false) = (held, in_hand) {
                        p.queue.insert(0, held);
                    }
                });
            }
            Outcome::Refused(Refusal::RetriesExhausted { .. } | Refusal::Store(_)) => {
                story.say(|| format!("{name}: refused, offered again"));
            }
            Outcome::Empty => {
                process.change(|p| p.queue.remove(0));
            }
            Outcome::Fenced(fence) => {
                story.say(|| format!("{name}: fenced: {}", words::fence(&fence)));
                return self.stop(state, who, "fenced");
            }
            Outcome::Refused(refusal @ Refusal::HistoryMissing { .. }) => {
                story.say(|| format!("{name}: refused: {refusal:?}"));
                return self.stop_unknowing(state, who, "history missing");
            }
            Outcome::Refused(refusal) => {
                story.say(|| format!("{name}: refused: {refusal:?}"));
                return self.stop(state, who, "refused");
            }
            Outcome::Replaced(_) | Outcome::Undecided(_) => {
                story.say(|| format!("{name}: its commit is gone: behind"));
                return self.stop(state, who, "behind");
            }
        }
        self.next_commit(state, who);
        Ok(())
    }

    /// A checkpoint is known to be published.
    fn acknowledged(
        &self,
        state: &mut State,
        who: usize,
        done: &Done,
        story: &mut Story,
    ) -> Result<(), Broken> {
        let Some(process) = state.processes.get_mut(who) else {
            return Ok(());
        };
        let (name, job) = (process.name(), process.job);
        let Some(committable) = process.queue.first().cloned() else {
            return Ok(());
        };
        story.say(|| format!("{name}: commit {} is acknowledged", committable.identifier));
        let same = |half: Half, digest: Digest| {
            let of = |d: &&Arc<tidegate_protocol::Draft>| {
                (&d.user, d.identifier, d.half) == (&committable.user, committable.identifier, half)
                    && d.digest == digest
            };
            state.table.history.iter().filter(of).count()
        };
        let there = same(Half::Append, committable.digest);
        if there == 0 || there > 1 && !self.bounds.is_disturbed() {
            let why = format!("{name}: commit {} is not there", committable.identifier);
            return Err(Broken::new(Invariant::Acknowledged, why));
        }
        let compacted = committable.compact.is_empty()
            || same(Half::Compact, committable.digest) == 1
            || !done.dropped.is_empty()
            || self.bounds.is_disturbed()
            || self.bounds.expired > 0;
        if !compacted {
            let why = format!(
                "{name}: the compaction of commit {} is neither there nor dropped",
                committable.identifier
            );
            return Err(Broken::new(Invariant::Acknowledged, why));
        }
        for entry in done.append.iter().chain(&done.compact) {
            // One that has expired, or is in what others built on it, has no name any more.
            let named = !entry.token.as_str().is_empty();
            if named && !state.table.was_visible(entry.id, &entry.token) {
                let why = format!("{} is acknowledged and no reader saw it", entry.id);
                return Err(Broken::new(Invariant::Acknowledged, why));
            }
        }
        process.change(|p| {
            p.last = Some(p.queue.remove(0));
            let newest = done.compact.clone().or_else(|| done.append.clone());
            p.newest = newest.or_else(|| p.newest.take());
            if self.bounds.notes > 0 {
                p.unnoted += 1;
            }
        });
        let expired = done.compact.is_none() && done.append.is_none();
        if expired {
            self.note_expired(state, who, &committable);
        }
        self.retire(state, job, committable.identifier)
    }

    /// Only its files tell of a commit, since its snapshot is expired and no note was left: that is made
    /// good \[R-4].
    fn note_expired(&self, state: &mut State, who: usize, committable: &Committable) {
        let (Some(process), Some(oldest)) = (
            state.processes.get_mut(who),
            state.table.snapshots.keys().next(),
        ) else {
            return;
        };
        // A note stands for the newest commit.
        let newer = process.knows().and_then(|ledger| ledger.newest());
        let note = state.jobs.get(&process.job).and_then(|s| s.note.as_ref());
        let known = newer.map(|e| e.identifier).max(note.map(|e| e.identifier));
        if known > Some(committable.identifier) {
            return;
        }
        let note = Entry {
            identifier: committable.identifier,
            half: match committable.compact.is_empty() {
                true => Half::Append,
                false => Half::Compact,
            },
            digest: Some(committable.digest),
            epoch: committable.epoch,
            positions: committable.positions,
            id: SnapshotId(oldest - 1),
            token: Token::new(""),
            based_on: None,
            empty: false,
        };
        let job = process.job;
        // Where nothing has expired it is in what others built on it, and no note may say otherwise.
        let expired = note.id >= SnapshotId::FIRST;
        process.change(|p| {
            p.newest = Some(note.clone());
            if !expired {
                p.unnoted = 0;
                return;
            }
            if let Some(ledger) = &mut p.ledger {
                ledger.remember_note(note.clone());
            }
        });
        if expired {
            self.put_note(state, job, note);
        }
    }

    /// Removes records that are not needed any more.
    fn retire(&self, state: &mut State, job: u64, newest: CommitIdentifier) -> Result<(), Broken> {
        let Some(store) = state.jobs.get_mut(&job) else {
            return Ok(());
        };
        let published = |r: &Record| r.saved.iter().all(|c| c.identifier <= newest);
        let records: Vec<retain::Record> = store
            .records
            .iter()
            .map(|(number, record)| retain::Record {
                id: CheckpointId(*number),
                complete: true,
                published: published(record),
                savepoint: false,
            })
            .collect();
        let keep = u32::from(self.bounds.retained);
        let gone = retain::removable(&records, keep, self.bounds.rules);
        if gone.is_empty() {
            return Ok(());
        }
        let to_go_back_to = store.records.values().any(published);
        store.change(|s| s.records.retain(|n, _| !gone.contains(&CheckpointId(*n))));
        if to_go_back_to && !store.records.values().any(published) {
            let why = format!("job {job}: {gone:?} were removed, and no other is published");
            return Err(Broken::new(Invariant::Retained, why));
        }
        Ok(())
    }
}
