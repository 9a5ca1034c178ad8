//! One process of a job: from its start over recording and committing to its end.
//!
//! Owns: the order of an engine around the protocol (ARCHITECTURE.md, *Order of a start*, *of a
//! checkpoint*): claim an epoch and read the newest record, compare with the table, publish what is
//! missing, then record and commit one checkpoint after the other. Does not own: any decision of the
//! protocol, which is the real [`Attempt`], guard, cleaning and retention; when a step is taken
//! ([`world`](crate::world)).

use crate::effects::{End, perform};
use crate::invariant::{Broken, Invariant};
use crate::jobs;
use crate::table::Author;
use crate::words::{self, Name, Story};
use crate::world::{State, World};
use std::sync::Arc;
use tidegate_model::ids::{CheckpointId, Digest};
use tidegate_protocol::{
    Attempt, Committable, Done, Entry, FileId, Garbage, Half, Ledger, Outcome, Refusal, Seen, Step,
    retain,
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
    /// The newest checkpoint that it knows to be recorded.
    pub recorded: u64,
    /// The file of that.
    pub last_file: Option<FileId>,
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
            last_file: None,
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
            Phase::Opening { .. } | Phase::Recording | Phase::Committing(_)
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
                self.restore(state, who, newest, story)?;
            }
            Phase::Recording => self.record(state, who, story),
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
    pub(crate) fn record(&self, state: &mut State, who: usize, story: &mut Story) {
        let Some(process) = state.processes.get(who) else {
            return;
        };
        let (job, epoch, number) = (process.job, process.epoch, process.recorded + 1);
        let name = process.name();
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
        let made = jobs::committable(job, epoch, number, compacted, seen);
        let (Some(made), Some(store)) = (made, state.jobs.get_mut(&job)) else {
            return;
        };
        let made = Arc::new(made);
        let mut saved = process.queue.clone();
        saved.push(made.clone());
        let newest = process.newest.clone();
        if let Some(other) = store.records.get(&number) {
            story.say(|| {
                format!(
                    "{name}: checkpoint {number} is recorded by run {} already; it stops",
                    other.epoch
                )
            });
            return self.stop(state, who, "another run recorded this checkpoint");
        }
        story.say(|| format!("{name}: records checkpoint {number}"));
        state
            .table
            .change(|t| t.files.extend(jobs::new_files(&made)));
        let record = crate::world::Record {
            epoch,
            saved: saved.clone(),
            newest,
        };
        store.change(|s| s.records.insert(number, record));
        if let Some(process) = state.processes.get_mut(who) {
            process.change(|p| {
                p.recorded = number;
                p.last_file = made.append.added.first().map(|f| f.file);
                p.queue = saved;
            });
        }
        // Else a commit before it is under way.
        if state
            .processes
            .get(who)
            .is_some_and(|p| p.phase == Phase::Recording)
        {
            self.next_commit(state, who);
        }
    }

    /// The next commit, checkpoint, or the end.
    pub(crate) fn next_commit(&self, state: &mut State, who: usize) {
        let Some(process) = state.processes.get_mut(who) else {
            return;
        };
        let Some(committable) = process.queue.first().cloned() else {
            let all = u64::from(self.bounds.checkpoints);
            if process.recorded < all {
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

    pub(crate) fn stop(&self, state: &mut State, who: usize, why: &'static str) {
        if let Some(process) = state.processes.get_mut(who) {
            process.change(|p| p.forget(Phase::Stopped(why)));
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
                story.say(|| format!("{name}: commit {lost} was replaced and is offered again"));
                process.change(|p| {
                    if let Some(ledger) = &mut p.ledger {
                        ledger.accept_replacement(&replacement);
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
                self.stop(state, who, "fenced");
                return Ok(());
            }
            Outcome::Refused(refusal) => {
                story.say(|| format!("{name}: refused: {refusal:?}"));
                self.stop(state, who, "refused");
                return Ok(());
            }
            Outcome::Replaced(_) | Outcome::Undecided(_) => {
                story.say(|| format!("{name}: its commit is gone: behind"));
                self.stop(state, who, "behind");
                return Ok(());
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
        if same(Half::Append, committable.digest) != 1 {
            let why = format!("{name}: commit {} is not there", committable.identifier);
            return Err(Broken::new(Invariant::Acknowledged, why));
        }
        let compacted = committable.compact.is_empty()
            || same(Half::Compact, committable.digest) == 1
            || !done.dropped.is_empty()
            || self.bounds.expired > 0;
        if !compacted {
            let why = format!(
                "{name}: the compaction of commit {} is neither there nor dropped",
                committable.identifier
            );
            return Err(Broken::new(Invariant::Acknowledged, why));
        }
        for entry in done.append.iter().chain(&done.compact) {
            if !state.table.was_visible(entry.id, &entry.token) {
                let why = format!("{} is acknowledged and no reader saw it", entry.id);
                return Err(Broken::new(Invariant::Acknowledged, why));
            }
        }
        process.change(|p| {
            p.queue.remove(0);
            let newest = done.compact.clone().or_else(|| done.append.clone());
            p.newest = newest.or_else(|| p.newest.take());
        });
        // Records that are not needed any more.
        let published = u64::try_from(committable.identifier.0).unwrap_or(0);
        if let Some(store) = state.jobs.get_mut(&job) {
            let records: Vec<retain::Record> = store
                .records
                .keys()
                .map(|number| retain::Record {
                    id: CheckpointId(*number),
                    complete: true,
                    published: *number <= published,
                    savepoint: false,
                })
                .collect();
            let gone = retain::removable(&records, 1, self.bounds.rules);
            if !gone.is_empty() {
                store.change(|s| s.records.retain(|n, _| !gone.contains(&CheckpointId(*n))));
            }
        }
        Ok(())
    }
}
