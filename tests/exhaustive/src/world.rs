//! All states that processes, table and faults can get into, as stateright explores them.
//!
//! Owns: which actions a state has, and what makes their number small without leaving any outcome out:
//!
//! * *Local steps are taken at once.* A step whose answer no other process can change, and whose effect
//!   no other process can see, commutes with everything that others do. Without expiry these are all
//!   but reading the newest snapshot and publishing: snapshots do not change, objects carry names that
//!   nobody else knows before they are published, and nothing may be deleted that anybody could name
//!   (an invariant, checked at each deletion). A crash between two local steps is a crash before the
//!   first or after the last one, as far as anybody can tell.
//! * *Equal jobs are told apart by their first snapshot.* Of two equal jobs each run has a mirror image,
//!   so the first snapshot of the table is always the first job's.
//! * *Names are canonical*: see [`table`](crate::table).
//! * *What cannot matter is forgotten*: late puts whose name is taken, objects of dead runs that nothing
//!   can name, what an ended process knew.

use crate::bounds::{Bounds, Variant};
use crate::effects::End;
use crate::invariant::{Broken, Invariant};
use crate::jobs;
use crate::others;
use crate::process::{Cleaning, Phase, Process};
use crate::shared::Shared;
use crate::table::Table;
use crate::words::Story;
use stateright::{Model, Property};
use std::collections::{BTreeMap, HashSet};
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};
use tidegate_model::ids::Digest;
use tidegate_protocol::guard::WayOut;
use tidegate_protocol::{Committable, Entry, Outcome, Settings, Step};

/// A checkpoint record.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Record {
    /// The run that made it.
    pub epoch: u64,
    /// Committables not known to be published then.
    pub saved: Vec<Arc<Committable>>,
    /// The newest commit known to be published then.
    pub newest: Option<Entry>,
    /// The chunk of the source that was read last.
    pub chunk: u64,
    /// The positions that the next commit is to replace: where duplicates were accepted, others.
    pub expects: Option<Digest>,
}

/// Registrations, records and the published note of one job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct JobStore {
    /// The newest epoch.
    pub epochs: u64,
    /// Records by checkpoint.
    pub records: BTreeMap<u64, Record>,
    /// The published note \[R-4].
    pub note: Option<Entry>,
}

/// What may still happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Left {
    lost: u8,
    late: u8,
    dropped: u8,
    refused: u8,
    stale: u8,
    failed: u8,
    expired: u8,
    restarts: u8,
    older: u8,
    forgotten: u8,
    foreign: u8,
    rollbacks: u8,
    ways: u8,
    /// Nobody crashed, and no answer was lost among runs of one job: a run that is fenced keeps what is
    /// in doubt, for a later one to clean \[R-13].
    unhurt: bool,
}

/// One state of everything.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    /// The store's content.
    pub table: Shared<Table>,
    /// Registrations and records.
    pub jobs: BTreeMap<u64, Shared<JobStore>>,
    /// The processes.
    pub processes: Vec<Shared<Process>>,
    /// What may still happen.
    pub left: Left,
    /// What was found broken; nothing follows.
    pub broken: Option<Broken>,
}

impl Hash for State {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.table.hash(state);
        for store in self.jobs.values() {
            store.hash(state);
        }
        for process in &self.processes {
            process.hash(state);
        }
        self.left.hash(state);
        self.broken.as_ref().map(|b| b.invariant).hash(state);
    }
}

impl State {
    fn seal(&mut self) {
        self.table.seal();
        self.jobs.values_mut().for_each(Shared::seal);
        self.processes.iter_mut().for_each(Shared::seal);
    }
}

/// What happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// A process goes on; its request ends so.
    Go(usize, End),
    /// A publish is on its way and the call is dropped.
    Drop(usize, End),
    /// A process records its next checkpoint while a commit is undecided.
    Ahead(usize),
    /// A process starts.
    Start(usize),
    /// A process starts from the record of this checkpoint, which is not the newest one.
    StartFrom(usize, u64),
    /// A process that finds a mismatch takes this way out of it.
    Resolve(usize, WayOut),
    /// A process dies.
    Crash(usize),
    /// A process plans to remove what earlier runs left.
    Plan(usize),
    /// A process removes it.
    Sweep(usize),
    /// A late publish arrives.
    Land(usize),
    /// The oldest snapshot expires.
    Expire,
    /// The newest record of a job gets lost.
    Forget(u64),
    /// A foreign committer reads the newest snapshot.
    ForeignRead,
    /// It publishes on what it read.
    ForeignPut(usize),
    /// A person removes so many of the newest snapshots.
    RollBack(usize),
}

/// What a person may say to a mismatch.
const WAYS: [WayOut; 4] = [
    WayOut::RollbackTable {
        including_others: false,
    },
    WayOut::RollbackTable {
        including_others: true,
    },
    WayOut::ContinueFromTable,
    WayOut::AcceptDuplicates,
];

/// The model.
#[derive(Debug)]
pub struct World {
    /// How much of it is explored.
    pub bounds: Bounds,
    pub(crate) settings: Settings,
    /// Fingerprints for which the liveness properties were shown already.
    shown: [Mutex<HashSet<u64>>; 2],
}

/// Actions of one process in which it must end when it is left alone: per checkpoint a record, and for
/// each half a read, a lost race, a read, a publish; before that the same once more for what it had
/// begun, and for what it restores.
fn most_alone(bounds: &Bounds) -> usize {
    let halves = if bounds.compaction { 2 } else { 1 };
    let commit = halves * (4 + 2 * usize::from(bounds.retries));
    // A note after each of them, files apart from the record; what was put over once more.
    let more = usize::from(bounds.notes > 0) + usize::from(bounds.apart);
    let again = usize::from(bounds.foreign);
    8 + (usize::from(bounds.checkpoints) + 2 + again) * (1 + commit + more)
}

impl World {
    /// The world within `bounds`.
    pub fn new(bounds: Bounds) -> Self {
        Self {
            settings: bounds.settings(),
            bounds,
            shown: Default::default(),
        }
    }

    /// True for a step that nobody else can influence or notice.
    pub(crate) fn is_local(&self, step: &Step) -> bool {
        // What expires takes answers with it.
        let history_stands = self.bounds.history_stands();
        match step {
            Step::ReadLatest | Step::Publish(_) => false,
            Step::ReadHistory { .. }
            | Step::ReadLive { .. }
            | Step::ReadAgain(_)
            | Step::FindRetained
            | Step::Announce(_)
            | Step::Delete(_) => history_stands,
            Step::ReadBuckets { .. } | Step::CheckFiles(_) | Step::Write(_) | Step::BackOff(_) => {
                true
            }
            Step::Done(Outcome::Undecided(_)) => !self.bounds.backlog,
            Step::Done(_) => true,
        }
    }

    /// The first snapshot is not for this process to make.
    fn is_mirrored(&self, state: &State, job: u64) -> bool {
        let equal = self.bounds.variant == Variant::Jobs && self.bounds.foreign == 0;
        equal && job > 0 && state.table.history.is_empty()
    }

    fn actions_of(&self, state: &State, who: usize, actions: &mut Vec<Action>) {
        let Some(process) = state.processes.get(who) else {
            return;
        };
        let left = &state.left;
        match &process.phase {
            Phase::Down => self.starts_of(state, who, process.job, actions),
            Phase::Ended | Phase::Stopped(_) if left.restarts > 0 => {
                self.starts_of(state, who, process.job, actions);
            }
            Phase::Opening { .. } => {
                actions.push(Action::Go(who, End::Well));
                if left.ways > 0 {
                    // Told to stop all others before; only this one needs no such care.
                    let ways = WAYS.iter().filter(|way| {
                        **way == WayOut::ContinueFromTable || self.is_sole(state, who)
                    });
                    actions.extend(ways.map(|way| Action::Resolve(who, *way)));
                }
            }
            Phase::Recording | Phase::Noting => {
                actions.push(Action::Go(who, End::Well));
            }
            Phase::Committing(attempt) => match attempt.next() {
                Step::Publish(draft) => {
                    let is_free = !state.table.snapshots.contains_key(&draft.id.0);
                    let mirrored = self.is_mirrored(state, process.job);
                    if !mirrored {
                        actions.push(Action::Go(who, End::Well));
                    }
                    let lost = left.lost > 0;
                    if lost && is_free && !mirrored {
                        actions.push(Action::Go(who, End::LostDone));
                    }
                    if lost {
                        actions.push(Action::Go(who, End::Lost));
                    }
                    if left.late > 0 && is_free {
                        actions.push(Action::Go(who, End::Late));
                    }
                    if left.refused > 0 {
                        actions.push(Action::Go(who, End::Refused));
                    }
                    if left.dropped > 0 {
                        if is_free && !mirrored {
                            actions.push(Action::Drop(who, End::LostDone));
                        }
                        if is_free && left.late > 0 {
                            actions.push(Action::Drop(who, End::Late));
                        }
                        actions.push(Action::Drop(who, End::Lost));
                    }
                }
                step => {
                    actions.push(Action::Go(who, End::Well));
                    let is_latest = matches!(step, Step::ReadLatest);
                    // Only what was seen before shows that an answer is stale.
                    let seen = attempt.ledger().covered().is_some();
                    let stale = left.stale > 0 && seen && is_latest;
                    if stale && state.table.snapshots.len() > 1 {
                        actions.push(Action::Go(who, End::Stale));
                    }
                    if left.failed > 0 && is_latest {
                        actions.push(Action::Go(who, End::Failed));
                    }
                }
            },
            Phase::Ended | Phase::Stopped(_) => {}
        }
        let more = process.chunk < u64::from(self.bounds.checkpoints);
        if self.bounds.backlog && more && process.is_undecided() {
            actions.push(Action::Ahead(who));
        }
        if process.is_live() && process.crashes > 0 {
            actions.push(Action::Crash(who));
        }
        let cleans = process.epoch > 1 && !matches!(process.phase, Phase::Stopped(_) | Phase::Down);
        if self.bounds.cleaning && cleans {
            match process.cleaning {
                Cleaning::Waits => actions.push(Action::Plan(who)),
                Cleaning::Planned(_) => actions.push(Action::Sweep(who)),
                Cleaning::Over => {}
            }
        }
    }

    fn starts_of(&self, state: &State, who: usize, job: u64, actions: &mut Vec<Action>) {
        let Some(store) = state.jobs.get(&job) else {
            return;
        };
        // The first run of a job began before all others.
        if store.epochs == 0 && who > 0 && self.bounds.variant == Variant::Runs {
            return;
        }
        actions.push(Action::Start(who));
        if state.left.older > 0 {
            // A commit that is to replace no positions is compared with none.
            let sole = self.is_sole(state, who);
            let older = store.records.iter().rev().skip(1);
            let older = older.filter(|(_, record)| sole || record.chunk > 0);
            actions.extend(older.map(|(number, _)| Action::StartFrom(who, *number)));
        }
    }

    /// No other process of its job is about.
    fn is_sole(&self, state: &State, who: usize) -> bool {
        let job = state.processes.get(who).map(|p| p.job);
        let mut all = state.processes.iter().enumerate();
        all.all(|(at, p)| at == who || Some(p.job) != job || !p.is_live())
    }

    fn begin(&self, state: &mut State, who: usize, from: Option<u64>, story: &mut Story) {
        let again = state
            .processes
            .get(who)
            .is_some_and(|p| matches!(p.phase, Phase::Ended | Phase::Stopped(_)));
        let left = &mut state.left;
        left.restarts = left.restarts.saturating_sub(u8::from(again));
        left.older = left.older.saturating_sub(u8::from(from.is_some()));
        self.start(state, who, from, story);
    }

    fn spend(&self, left: &mut Left, end: End) {
        let in_doubt = matches!(end, End::Lost | End::LostDone | End::Late);
        if in_doubt && self.bounds.variant == Variant::Runs {
            left.unhurt = false;
        }
        let budget = match end {
            End::Well => return,
            End::Lost | End::LostDone => &mut left.lost,
            End::Late => &mut left.late,
            End::Refused => &mut left.refused,
            End::Stale => &mut left.stale,
            End::Failed => &mut left.failed,
        };
        if *budget < u8::MAX {
            *budget = budget.saturating_sub(1);
        }
    }

    /// Does an action, saying what happens. False where nothing changes.
    pub(crate) fn act(
        &self,
        state: &mut State,
        action: Action,
        story: &mut Story,
    ) -> Result<bool, Broken> {
        match action {
            Action::Go(who, end) => {
                self.spend(&mut state.left, end);
                self.go(state, who, end, story)?;
            }
            Action::Drop(who, end) => {
                state.left.dropped = state.left.dropped.saturating_sub(1);
                let lost = state.left.lost;
                self.spend(&mut state.left, end);
                state.left.lost = lost;
                self.dropped(state, who, end, story)?;
            }
            Action::Ahead(who) => self.record(state, who, story)?,
            Action::Start(who) => self.begin(state, who, None, story),
            Action::StartFrom(who, number) => self.begin(state, who, Some(number), story),
            Action::Resolve(who, way) => {
                let Some(Phase::Opening { newest }) = state.processes.get(who).map(|p| &p.phase)
                else {
                    return Ok(false);
                };
                let newest = newest.clone();
                if !self.restore(state, who, newest, Some(way), story)? {
                    return Ok(false);
                }
                state.left.ways = state.left.ways.saturating_sub(1);
                self.settle(state, who, story)?;
            }
            Action::Forget(job) => {
                state.left.forgotten = state.left.forgotten.saturating_sub(1);
                others::forget(state, job, story);
            }
            Action::ForeignRead => {
                state.left.foreign = state.left.foreign.saturating_sub(1);
                others::read(&mut state.table, story);
            }
            Action::ForeignPut(at) => {
                others::publish(&mut state.table, at, self.bounds.racing, story)?;
            }
            Action::RollBack(count) => {
                state.left.rollbacks = state.left.rollbacks.saturating_sub(1);
                others::roll_back(&self.bounds, state, count, story);
            }
            Action::Crash(who) => {
                state.left.unhurt = false;
                self.crash(state, who, story);
            }
            Action::Plan(who) => return Ok(self.plan_cleaning(state, who, story)),
            Action::Sweep(who) => self.sweep(state, who, story)?,
            Action::Land(at) => {
                let Some(draft) = state.table.late.get(at).cloned() else {
                    return Ok(false);
                };
                story.say(|| {
                    format!(
                        "the late put of snapshot {} (commit {} of {}) arrives",
                        draft.id, draft.identifier, draft.user
                    )
                });
                state.table.change(|t| {
                    t.late.remove(at);
                    t.create(&draft)
                })?;
            }
            Action::Expire => {
                state.left.expired = state.left.expired.saturating_sub(1);
                story.say(|| "the oldest snapshot expires".to_owned());
                state.table.change(Table::expire);
            }
        }
        self.tidy(state);
        self.check_goes_on(state)?;
        if state.left.unhurt {
            self.check_clean(state)?;
        }
        Ok(true)
    }

    fn tidy(&self, state: &mut State) {
        let table = &state.table;
        let harmless = |d: &Arc<tidegate_protocol::Draft>| table.snapshots.contains_key(&d.id.0);
        if self.bounds.history_stands() && table.late.iter().any(harmless) {
            state.table.change(Table::forget_harmless);
            if !state.left.unhurt {
                let alive: HashSet<(u64, u64)> =
                    state.processes.iter().map(|p| (p.job, p.epoch)).collect();
                for (job, store) in &state.jobs {
                    for epoch in (1..=store.epochs).filter(|e| !alive.contains(&(*job, *e))) {
                        state.table.change(|t| t.forget_garbage(*job, epoch));
                    }
                }
            }
        }
    }

    fn check_goes_on(&self, state: &State) -> Result<(), Broken> {
        // Expired history may be no answer; a run gives way to another one.
        let disturbed = self.bounds.expired > 0 || self.bounds.is_disturbed();
        if self.bounds.variant == Variant::Runs || disturbed {
            return Ok(());
        }
        let stopped = state.processes.iter().find_map(|p| match p.phase {
            Phase::Stopped(why) => Some(format!("{} stops: {why}", p.name())),
            _ => None,
        });
        stopped.map_or(Ok(()), |why| Err(Broken::new(Invariant::GoesOn, why)))
    }

    /// Invariant 5, where no crash excuses anything.
    fn check_clean(&self, state: &State) -> Result<(), Broken> {
        let over = |p: &Shared<Process>| matches!(p.phase, Phase::Ended | Phase::Stopped(_));
        let quiet = state.table.late.is_empty() && state.processes.iter().all(over);
        let left = if quiet && self.bounds.expired == 0 {
            state.table.left_over()
        } else {
            Vec::new()
        };
        if left.is_empty() {
            return Ok(());
        }
        let why = format!("{left:?} are left over");
        Err(Broken::new(Invariant::Clean, why))
    }

    /// The process alone, without any fault, up to its end. `Err` where it does not come to one.
    fn alone(&self, state: &State, who: usize) -> Result<State, Invariant> {
        let mut state = state.clone();
        state.processes = state
            .processes
            .iter()
            .enumerate()
            .map(|(at, p)| match at == who {
                true => p.clone(),
                false => Shared::new(Process::down(p.job, 0)),
            })
            .collect();
        for _ in 0..most_alone(&self.bounds) {
            let action = match state.processes.get(who).map(|p| &p.phase) {
                Some(Phase::Down) => Action::Start(who),
                Some(Phase::Ended | Phase::Stopped(_)) | None => return Ok(state),
                Some(_) => Action::Go(who, End::Well),
            };
            if let Err(broken) = self.act(&mut state, action, &mut Story::untold()) {
                return Err(broken.invariant);
            }
        }
        Err(Invariant::Ends)
    }

    fn remember(&self, which: usize, key: u64) -> bool {
        let Some(shown) = self.shown.get(which) else {
            return true;
        };
        shown
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(key)
    }

    /// Liveness of one: from here each process that is left alone comes to an end.
    pub fn ends_alone(&self, state: &State) -> bool {
        if !self.bounds.liveness || state.broken.is_some() {
            return true;
        }
        (0..state.processes.len()).all(|who| {
            let Some(process) = state.processes.get(who).filter(|p| p.is_live()) else {
                return true;
            };
            let key = key_of(state, process.job, process.fingerprint());
            if !self.remember(0, key) {
                return true;
            }
            // Another invariant tells of another end, and whether it may stop.
            !matches!(self.alone(state, who), Err(Invariant::Ends))
        })
    }

    /// Liveness after everything: one more run of a job, with nobody else about and no further fault,
    /// publishes all that is missing.
    pub fn recovers(&self, state: &State) -> bool {
        let stands = self.bounds.expired == 0;
        if !self.bounds.liveness || state.broken.is_some() || !stands && !self.bounds.is_disturbed()
        {
            return true;
        }
        (0..state.processes.len()).all(|who| {
            let Some(process) = state.processes.get(who) else {
                return true;
            };
            let key = key_of(state, process.job, 0);
            if !self.remember(1, key) {
                return true;
            }
            let mut state = state.clone();
            let job = process.job;
            if let Some(process) = state.processes.get_mut(who) {
                *process = Shared::new(Process::down(job, 0));
            }
            let Ok(end) = self.alone(&state, who) else {
                return false;
            };
            let ended = end
                .processes
                .get(who)
                .is_some_and(|p| p.phase == Phase::Ended);
            let all = u64::from(self.bounds.checkpoints);
            if self.bounds.is_disturbed() {
                // It may stop for a person. What is never allowed is a quiet end without all rows.
                let doubled = end.table.doubled.contains(&job);
                let live = end.table.newest().map(|d| end.table.live(d));
                let live = live.and_then(Result::ok).unwrap_or_default();
                return !ended || jobs::holds_all(job, all, &live, doubled);
            }
            let user = jobs::user(job);
            let published = |n: u8| {
                let of = |d: &&Arc<tidegate_protocol::Draft>| {
                    Some(&d.user) == user.as_ref()
                        && d.identifier.0 == i64::from(n)
                        && d.half == tidegate_protocol::Half::Append
                };
                end.table.history.iter().filter(of).count() == 1
            };
            ended && (1..=self.bounds.checkpoints).all(published)
        })
    }

    /// The actions in words, and the end.
    pub fn story(&self, actions: impl IntoIterator<Item = Action>) -> Vec<String> {
        let mut story = Story::told();
        let Some(mut state) = self.init_states().into_iter().next() else {
            return Vec::new();
        };
        for action in actions {
            if let Err(broken) = self.act(&mut state, action, &mut story) {
                story.say(|| format!("broken: {}: {}", broken.invariant.text(), broken.why));
                break;
            }
        }
        story.lines()
    }
}

fn key_of(state: &State, job: u64, process: u64) -> u64 {
    let store = state.jobs.get(&job).map_or(0, Shared::fingerprint);
    let parts = [state.table.fingerprint(), store, process, job];
    parts
        .into_iter()
        .fold(0xcbf2_9ce4_8422_2325, |key: u64, part| {
            (key ^ part)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .rotate_left(29)
        })
}

impl Model for World {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let of = |who: u8| match self.bounds.variant {
            Variant::Jobs => u64::from(who),
            Variant::Runs => 0,
        };
        let all = || 0..self.bounds.committers;
        let down = |who| Shared::new(Process::down(of(who), self.bounds.crashes));
        let b = &self.bounds;
        vec![State {
            table: Shared::new(Table {
                disturbed: b.is_disturbed(),
                ..Table::default()
            }),
            jobs: all()
                .map(|who| (of(who), Shared::new(JobStore::default())))
                .collect(),
            processes: all().map(down).collect(),
            left: Left {
                lost: b.lost,
                late: b.late,
                dropped: b.dropped,
                refused: b.refused,
                stale: b.stale,
                failed: b.failed,
                expired: b.expired,
                restarts: b.restarts,
                older: b.older,
                forgotten: b.forgotten,
                foreign: b.foreign,
                rollbacks: b.rollbacks,
                ways: b.ways,
                unhurt: !b.is_disturbed(),
            },
            broken: None,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.broken.is_some() {
            return;
        }
        for who in 0..state.processes.len() {
            self.actions_of(state, who, actions);
        }
        for (at, draft) in state.table.late.iter().enumerate() {
            let job = jobs::job_of(&draft.user);
            if !self.is_mirrored(state, job.unwrap_or_default()) {
                actions.push(Action::Land(at));
            }
        }
        let (left, snapshots) = (&state.left, state.table.snapshots.len());
        if left.expired > 0 && snapshots > 1 {
            actions.push(Action::Expire);
        }
        if left.forgotten > 0 {
            let any = |store: &Shared<JobStore>| !store.records.is_empty();
            let jobs = state.jobs.iter().filter(|(_, store)| any(store));
            actions.extend(jobs.map(|(job, _)| Action::Forget(*job)));
        }
        if left.foreign > 0 {
            actions.push(Action::ForeignRead);
        }
        actions.extend((0..state.table.reading.len()).map(Action::ForeignPut));
        let idle = || !state.processes.iter().any(|p| p.is_live());
        if left.rollbacks > 0 && (!self.bounds.idle || idle()) {
            actions.extend((1..=snapshots.min(2)).map(Action::RollBack));
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match self.act(&mut state, action, &mut Story::untold()) {
            Ok(true) => {}
            Ok(false) => return None,
            Err(broken) => state.broken = Some(broken),
        }
        state.seal();
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        fn holds(state: &State, invariant: Invariant) -> bool {
            let broken = state.broken.as_ref();
            broken.is_none_or(|b| b.invariant != invariant)
        }
        macro_rules! always {
            ($($name:ident)*) => {
                vec![$(Property::always(Invariant::$name.text(), |_, state| {
                    holds(state, Invariant::$name)
                }),)*]
            };
        }
        let mut all = always!(
            Once Acknowledged Exists Rows Totals Dense Undecided Monotone Fenced Hint Clean Undone Others
            Retained Turns GoesOn
        );
        all.push(Property::always(
            Invariant::Ends.text(),
            |world: &World, state: &State| holds(state, Invariant::Ends) && world.ends_alone(state),
        ));
        all.push(Property::always(
            Invariant::Recovers.text(),
            World::recovers,
        ));
        all
    }
}
