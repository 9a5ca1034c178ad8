//! Starting, crashing, and cleaning up after it.
//!
//! Owns: what is read of records and table for the guard and for the plan of a clean-up. Does not own:
//! their judgement, which is the real one.

use crate::invariant::{Broken, Invariant};
use crate::jobs;
use crate::process::{Cleaning, Phase, Process};
use crate::table::Table;
use crate::words::{self, Story};
use crate::world::{State, World};
use std::collections::BTreeSet;
use std::sync::Arc;
use tidegate_model::ids::{Epoch, SnapshotId};
use tidegate_protocol::cleanup::{CleanPlan, Found, OwnRun, plan};
use tidegate_protocol::guard::{
    Files, JobView, SavedCommittable, SavedState, Standing, WayOut, is_below, judge, unfinished,
};
use tidegate_protocol::{Committable, Draft, Entry, Garbage, Half, Ledger, Rules, Seen};

impl World {
    /// Claims the next epoch and reads the newest record, or the one that a person names.
    pub(crate) fn start(
        &self,
        state: &mut State,
        who: usize,
        from: Option<u64>,
        story: &mut Story,
    ) {
        let Some(process) = state.processes.get_mut(who) else {
            return;
        };
        let job = process.job;
        let Some(store) = state.jobs.get_mut(&job) else {
            return;
        };
        let epoch = store.change(|s| {
            s.epochs += 1;
            s.epochs
        });
        let largest = store.records.keys().next_back().copied().unwrap_or(0);
        let number = from.unwrap_or(largest);
        let record = store.records.get(&number).cloned();
        let what = match number {
            0 => "no record".to_owned(),
            n => format!("the record of checkpoint {n}"),
        };
        story.say(|| format!("job {job}: run {epoch} starts from {what}"));
        let crashes = process.crashes;
        let unguarded = self.bounds.unguarded;
        let user = jobs::user(job);
        let own = state
            .table
            .history
            .iter()
            .filter(|d| Some(&d.user) == user.as_ref());
        let seen = own.filter_map(|d| u64::try_from(d.identifier.0).ok()).max();
        process.change(|p| {
            *p = Process::down(job, crashes);
            p.epoch = epoch;
            p.recorded = largest;
            if unguarded {
                p.recorded = largest.max(seen.unwrap_or(0));
            }
            p.stepped_back = from.is_some() && !unguarded;
            let Some(record) = record else {
                p.phase = Phase::Opening { newest: None };
                return;
            };
            p.phase = Phase::Opening {
                newest: record.newest,
            };
            p.chunk = record.chunk;
            p.expects = record.expects;
            p.last_file = record
                .saved
                .last()
                .and_then(|c| Some(c.append.added.first()?.file));
            let again = |c: &Arc<Committable>| Arc::new(jobs::restored(c, epoch));
            p.queue = record.saved.iter().map(again).collect();
        });
    }

    /// The process is gone; what it had sent is another matter.
    pub(crate) fn crash(&self, state: &mut State, who: usize, story: &mut Story) {
        let Some(process) = state.processes.get_mut(who) else {
            return;
        };
        story.say(|| format!("{}: crashes", process.name()));
        let (job, epoch) = (process.job, process.epoch);
        process.change(|p| {
            let crashes = p.crashes.saturating_sub(1);
            *p = Process::down(job, crashes);
        });
        state.table.change(|t| t.forget_garbage(job, epoch));
    }

    /// Compares the record with the table and goes on, or stops for a person \[R-7], or takes the way out
    /// that the person chose. False where there is no mismatch to take a way out of.
    pub(crate) fn restore(
        &self,
        state: &mut State,
        who: usize,
        newest: Option<Entry>,
        way: Option<WayOut>,
        story: &mut Story,
    ) -> Result<bool, Broken> {
        let Some(process) = state.processes.get(who) else {
            return Ok(false);
        };
        let name = process.name();
        if self.bounds.unguarded {
            self.go_on_from(state, who, &[], (newest, None), story);
            return Ok(true);
        }
        let (saved, view) = self.compared(state, process, newest.clone());
        let standing = judge_looking(state, process, saved.clone(), &view, self.bounds.rules);
        let (how, what) = match &standing {
            Standing::Equal => ("", String::new()),
            Standing::AheadByPrefix(_) => ("", String::new()),
            Standing::AheadBeyond(_) => ("ahead beyond", "is ahead of its record".to_owned()),
            Standing::Behind(_) => ("behind", "is behind its record".to_owned()),
            Standing::Diverged { .. } => ("diverged", "has other content".to_owned()),
            Standing::Unknown(why) => ("unknown", format!("does not tell ({why:?})")),
        };
        if how.is_empty() && way.is_some() {
            return Ok(false);
        }
        if let Some(way) = way {
            story.say(|| format!("{name}: the table {what}; a person says {way:?}"));
            self.resolve(state, who, way, &standing, saved, &view, story)?;
            return Ok(true);
        }
        if !how.is_empty() {
            story.say(|| format!("{name}: the table {what}; it stops"));
            match standing {
                Standing::Unknown(_) => self.stop_unknowing(state, who, how)?,
                _ => self.stop(state, who, how)?,
            }
            return Ok(true);
        }
        let there = there_of(standing, &saved, self.bounds.rules);
        self.was_there(state, who, &there)?;
        let known = known_newest(process, &saved, &view);
        self.go_on_from(state, who, &there, (newest, known), story);
        Ok(true)
    }

    /// What is compared: the record of a process, and the table as its job sees it.
    pub(crate) fn compared(
        &self,
        state: &State,
        process: &Process,
        newest_published: Option<Entry>,
    ) -> (SavedState, JobView) {
        let note = state.jobs.get(&process.job).and_then(|s| s.note.clone());
        let view = view(&state.table, process.job, note);
        let committables = process.queue.iter();
        let saved = SavedState {
            committables: committables
                .map(|c| saved_committable(&state.table, c))
                .collect(),
            newest_published,
            positions: jobs::positions(process.job, process.chunk),
        };
        (saved, view)
    }

    /// What counts as published was visible, with that content.
    pub(crate) fn was_there(
        &self,
        state: &State,
        who: usize,
        there: &[Entry],
    ) -> Result<(), Broken> {
        let Some(process) = state.processes.get(who) else {
            return Ok(());
        };
        for committable in &process.queue {
            let of = |e: &&Entry| e.identifier == committable.identifier;
            let Some(entry) = there.iter().find(of) else {
                continue;
            };
            let same = |d: &Arc<Draft>| {
                (&d.user, d.identifier, d.digest)
                    == (
                        &committable.user,
                        committable.identifier,
                        committable.digest,
                    )
            };
            if !state.table.history.iter().any(same) {
                let why = format!(
                    "{}: commit {} counts as published by snapshot {}, and no reader saw it with this content",
                    process.name(),
                    entry.identifier,
                    entry.id
                );
                return Err(Broken::new(Invariant::Acknowledged, why));
            }
        }
        Ok(())
    }

    /// Goes on from the record; what is there is not offered again. Where the record stands for the note,
    /// it is given with the newest commit that it knows.
    pub(crate) fn go_on_from(
        &self,
        state: &mut State,
        who: usize,
        there: &[Entry],
        (newest, known): (Option<Entry>, Option<Entry>),
        story: &mut Story,
    ) {
        if let Some(process) = state.processes.get_mut(who) {
            let (job, name) = (process.job, process.name());
            story.say(|| format!("{name}: the table has {} of what it restores", there.len()));
            let note = state.jobs.get(&job).and_then(|s| s.note.clone());
            process.change(|p| {
                p.queue
                    .retain(|c| !there.iter().any(|e| e.identifier == c.identifier));
                p.newest = there.last().cloned().or(newest);
                p.ledger = fresh_ledger(job, known.or(note));
            });
        }
        self.next_commit(state, who);
    }

    /// Looks what earlier runs left, and plans to remove it \[R-13]. False where nothing changes.
    pub(crate) fn plan_cleaning(&self, state: &mut State, who: usize, story: &mut Story) -> bool {
        let Some(process) = state.processes.get(who) else {
            return false;
        };
        let (job, epoch, table) = (process.job, process.epoch, &state.table);
        let Some(store) = state.jobs.get(&job) else {
            return false;
        };
        let objects = table.objects.keys().map(|id| {
            let (of, epoch) = Table::writer(*id);
            (of, epoch, Garbage::Object(*id))
        });
        let files = table.files.iter().map(|file| {
            let (of, epoch) = jobs::writer(*file);
            (of, epoch, Garbage::File(*file))
        });
        let found: Vec<Found> = objects
            .chain(files)
            .filter(|(of, ..)| *of == job)
            .map(|(_, epoch, file)| Found {
                file,
                epoch: Epoch(epoch),
            })
            .collect();
        let mut referenced = table.referenced();
        let recorded = store.records.values().flat_map(|r| &r.saved);
        for committable in recorded.chain(&process.queue) {
            referenced.extend(jobs::new_files(committable).map(Garbage::File));
        }
        let user = jobs::user(job);
        let own = OwnRun {
            epoch: Epoch(epoch),
            has_record: store.records.values().any(|r| r.epoch == epoch),
            has_snapshot: table
                .snapshots
                .values()
                .any(|d| Some(&d.user) == user.as_ref() && d.epoch == Some(Epoch(epoch))),
        };
        let CleanPlan::Delete { files, .. } = plan(&own, &found, &referenced, self.bounds.rules)
        else {
            return false;
        };
        story.say(|| {
            format!(
                "{}: plans to remove {}",
                process.name(),
                words::garbage(&files)
            )
        });
        let cleaning = if files.is_empty() {
            Cleaning::Over
        } else {
            Cleaning::Planned(files)
        };
        if let Some(process) = state.processes.get_mut(who) {
            process.change(|p| p.cleaning = cleaning);
        }
        true
    }

    /// Removes what was planned.
    pub(crate) fn sweep(
        &self,
        state: &mut State,
        who: usize,
        story: &mut Story,
    ) -> Result<(), Broken> {
        let Some(process) = state.processes.get_mut(who) else {
            return Ok(());
        };
        let Cleaning::Planned(files) = process.cleaning.clone() else {
            return Ok(());
        };
        story.say(|| format!("{}: removes {}", process.name(), words::garbage(&files)));
        process.change(|p| p.cleaning = Cleaning::Over);
        state.table.change(|t| t.delete(&files))
    }
}

/// What counts as published, and is not offered again.
pub(crate) fn there_of(standing: Standing, saved: &SavedState, rules: Rules) -> Vec<Entry> {
    let Standing::AheadByPrefix(mut there) = standing else {
        return Vec::new();
    };
    // A commit that lacks its COMPACT half is not done.
    if let Some(unfinished) = unfinished(saved, &there, rules) {
        there.retain(|entry| entry.identifier != unfinished);
    }
    there
}

/// The newest commit that the record knows to be published, where just that has expired and the note
/// does not speak of it: then the record is its note \[R-4].
fn known_newest(process: &Process, saved: &SavedState, view: &JobView) -> Option<Entry> {
    let known = saved.newest_published.as_ref()?;
    let next = process.queue.first()?;
    let noted = view.note.as_ref().map(|note| note.identifier);
    let expired = known.id >= SnapshotId::FIRST && known.id.next() == view.floor;
    (expired && noted < Some(known.identifier)).then(|| Entry {
        positions: next.replaces,
        ..known.clone()
    })
}

/// Judges; where neither marker nor note tells, the files themselves do.
pub(crate) fn judge_looking(
    state: &State,
    process: &Process,
    mut saved: SavedState,
    view: &JobView,
    rules: Rules,
) -> Standing {
    let standing = judge(&saved, view, rules);
    if !matches!(standing, Standing::Unknown(_)) || saved.committables.is_empty() {
        return standing;
    }
    for (saved, committable) in saved.committables.iter_mut().zip(&process.queue) {
        saved.files = look_for_files(&state.table, committable);
    }
    judge(&saved, view, rules)
}

/// What a committer knows that has just opened the table.
pub(crate) fn fresh_ledger(job: u64, note: Option<Entry>) -> Option<Ledger> {
    let mut ledger = Ledger::new(jobs::user(job)?, jobs::job_name(job));
    if let Some(note) = note {
        ledger.remember_note(note);
    }
    Some(ledger)
}

/// What the table tells of one job.
fn view(table: &Table, job: u64, note: Option<Entry>) -> JobView {
    let user = jobs::user(job);
    let mut own = Vec::new();
    let mut floor = SnapshotId::FIRST;
    let newest = table.newest().map(|d| d.id);
    let mut above = None;
    for draft in table.snapshots.values().rev() {
        let fact = Table::fact(draft);
        let hidden = table.is_hidden(draft.id.0);
        if hidden || above.is_some_and(|above| !is_below(&above, &fact)) {
            break;
        }
        floor = draft.id;
        if Some(&draft.user) == user.as_ref() {
            own.push(fact.clone());
        }
        above = Some(fact);
    }
    JobView {
        own,
        floor,
        newest,
        note,
    }
}

fn saved_committable(table: &Table, committable: &Committable) -> SavedCommittable {
    let mut halves = vec![Half::Append];
    if !committable.compact.is_empty() {
        halves.push(Half::Compact);
    }
    let seen = match &committable.seen {
        Seen::Snapshot { id, token } => table
            .snapshots
            .get(&id.0)
            .filter(|d| d.token == *token)
            .map(|d| d.id),
        Seen::Unknown | Seen::Empty => None,
    };
    SavedCommittable {
        identifier: committable.identifier,
        digest: committable.digest,
        halves,
        positions: committable.positions,
        seen,
        files: Files::Unread,
    }
}

/// Whether any snapshot in the store speaks of the new files of a committable.
fn look_for_files(table: &Table, committable: &Committable) -> Files {
    let named = table.referenced();
    let all: BTreeSet<Garbage> = jobs::new_files(committable).map(Garbage::File).collect();
    match all.iter().filter(|file| named.contains(file)).count() {
        0 => Files::Absent,
        n if n == all.len() => Files::Live,
        _ => Files::Partly,
    }
}
