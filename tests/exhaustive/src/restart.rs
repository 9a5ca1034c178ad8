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
    Files, JobView, SavedCommittable, SavedState, Standing, is_below, judge,
};
use tidegate_protocol::{Committable, Draft, Entry, Garbage, Half, Ledger, Seen};

impl World {
    /// Claims the next epoch and reads the newest record.
    pub(crate) fn start(&self, state: &mut State, who: usize, story: &mut Story) {
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
        let newest = store.records.last_key_value();
        let (recorded, saved, published) = match newest {
            Some((number, record)) => (*number, record.saved.clone(), record.newest.clone()),
            None => (0, Vec::new(), None),
        };
        let what = match recorded {
            0 => "no record".to_owned(),
            n => format!("the record of checkpoint {n}"),
        };
        story.say(|| format!("job {job}: run {epoch} starts from {what}"));
        let crashes = process.crashes;
        process.change(|p| {
            *p = Process::down(job, crashes);
            p.epoch = epoch;
            p.phase = Phase::Opening { newest: published };
            p.recorded = recorded;
            p.last_file = saved
                .last()
                .and_then(|c| Some(c.append.added.first()?.file));
            let again = |c: &Arc<Committable>| Arc::new(jobs::restored(c, epoch));
            p.queue = saved.iter().map(again).collect();
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

    /// Compares the record with the table and goes on, or stops for a person \[R-7].
    pub(crate) fn restore(
        &self,
        state: &mut State,
        who: usize,
        newest_published: Option<Entry>,
        story: &mut Story,
    ) -> Result<(), Broken> {
        let Some(process) = state.processes.get(who) else {
            return Ok(());
        };
        let (job, name) = (process.job, process.name());
        let view = view(&state.table, job);
        let mut saved = SavedState {
            committables: process
                .queue
                .iter()
                .map(|c| saved_committable(&state.table, c))
                .collect(),
            newest_published: newest_published.clone(),
            positions: process.queue.last().and_then(|c| c.positions),
        };
        let mut standing = judge(&saved, &view, self.bounds.rules);
        if matches!(standing, Standing::Unknown(_)) && !saved.committables.is_empty() {
            // Neither marker nor note: the files themselves tell.
            for (saved, committable) in saved.committables.iter_mut().zip(&process.queue) {
                saved.files = look_for_files(&state.table, committable);
            }
            standing = judge(&saved, &view, self.bounds.rules);
        }
        let there = match standing {
            Standing::Equal => Vec::new(),
            Standing::AheadByPrefix(there) => there,
            Standing::AheadBeyond(_) => {
                story.say(|| format!("{name}: the table is ahead of its record; it stops"));
                self.stop(state, who, "ahead beyond");
                return Ok(());
            }
            Standing::Behind(_) => {
                story.say(|| format!("{name}: the table is behind its record; it stops"));
                self.stop(state, who, "behind");
                return Ok(());
            }
            Standing::Diverged { .. } => {
                story.say(|| format!("{name}: the table has other content; it stops"));
                self.stop(state, who, "diverged");
                return Ok(());
            }
            Standing::Unknown(why) => {
                story.say(|| format!("{name}: it cannot be told ({why:?}); it stops"));
                self.stop(state, who, "unknown");
                return Ok(());
            }
        };
        story.say(|| format!("{name}: the table has {} of what it restores", there.len()));
        let user = jobs::user(job);
        for entry in &there {
            let same = |d: &&Arc<Draft>| {
                Some(&d.user) == user.as_ref() && d.identifier == entry.identifier
            };
            if !state.table.history.iter().any(|d| same(&d)) {
                let why = format!(
                    "{name}: commit {} counts as published by snapshot {}, which no reader saw",
                    entry.identifier, entry.id
                );
                return Err(Broken::new(Invariant::Acknowledged, why));
            }
        }
        if let Some(process) = state.processes.get_mut(who) {
            process.change(|p| {
                // What the comparison has found is not offered again.
                p.queue
                    .retain(|c| !there.iter().any(|e| e.identifier == c.identifier));
                p.newest = there.last().cloned().or(newest_published);
                p.ledger = jobs::user(job).map(|user| Ledger::new(user, jobs::job_name(job)));
            });
        }
        self.next_commit(state, who);
        Ok(())
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

/// What the table tells of one job.
fn view(table: &Table, job: u64) -> JobView {
    let user = jobs::user(job);
    let mut own = Vec::new();
    let mut floor = SnapshotId::FIRST;
    let newest = table.newest().map(|d| d.id);
    let mut above = None;
    for draft in table.snapshots.values().rev() {
        let fact = Table::fact(draft);
        if above.is_some_and(|above| !is_below(&above, &fact)) {
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
        note: None,
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
