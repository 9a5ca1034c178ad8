//! Ways out of a mismatch, carried through as a person asked for them \[R-8].
//!
//! Owns: what a plan does to the table, the note and the process, as `commit` and `runtime` do it. Does not
//! own: the plan, which is the real one.

use crate::invariant::{Broken, Invariant};
use crate::jobs;
use crate::restart::{fresh_ledger, judge_looking, there_of};
use crate::table::Table;
use crate::words::Story;
use crate::world::{State, World};
use tidegate_model::ids::SnapshotId;
use tidegate_protocol::Entry;
use tidegate_protocol::guard::{
    JobView, Rollback, SavedState, Standing, Surroundings, WayOut, WayOutPlan, way_out,
};

impl World {
    /// Takes the way out.
    #[expect(clippy::too_many_arguments, reason = "a mismatch and its way out")]
    pub(crate) fn resolve(
        &self,
        state: &mut State,
        who: usize,
        way: WayOut,
        standing: &Standing,
        saved: SavedState,
        view: &JobView,
        story: &mut Story,
    ) -> Result<(), Broken> {
        let Some(process) = state.processes.get(who) else {
            return Ok(());
        };
        let (job, name) = (process.job, process.name());
        let records = state.jobs.get(&job).map(|s| &s.records);
        let recorded = records.and_then(|r| r.keys().next_back());
        let around = Surroundings {
            snapshots: state
                .table
                .snapshots
                .values()
                .map(|d| Table::fact(d))
                .collect(),
            tags: Vec::new(),
            largest_recorded: recorded
                .and_then(|n| i64::try_from(*n).ok())
                .map(tidegate_model::ids::CommitIdentifier),
        };
        let plan = match way_out(way, &saved, view, &around, self.bounds.rules) {
            Ok(plan) => plan,
            Err(closed) => {
                story.say(|| format!("{name}: this way is closed: {closed:?}"));
                return self.stop(state, who, "closed");
            }
        };
        self.roll_back_to(state, job, way, &plan)?;
        self.renew_note(state, job);
        let newest = saved.newest_published.clone();
        let position = match way {
            WayOut::RollbackTable { .. } => saved.positions,
            WayOut::ContinueFromTable => plan.go_on_from,
            WayOut::AcceptDuplicates => self.reread_from(state, who, standing, &saved, &plan),
        };
        if let WayOut::AcceptDuplicates = way {
            state.table.change(|t| t.doubled.insert(job));
        }
        let above = plan.above.and_then(|id| u64::try_from(id.0).ok());
        let own = newest_own(&state.table, job);
        let note = state.jobs.get(&job).and_then(|s| s.note.clone());
        if let Some(process) = state.processes.get_mut(who) {
            process.change(|p| {
                p.recorded = above.unwrap_or(0).max(p.recorded);
                p.stepped_back = true;
                p.resolved = true;
                p.chunk = jobs::chunk_at(job, position);
                p.last_file = None;
                if !matches!(way, WayOut::RollbackTable { .. }) {
                    p.queue.clear();
                    p.expects = plan.expects;
                    p.newest = own;
                    p.ledger = fresh_ledger(job, note);
                }
            });
        }
        if !matches!(way, WayOut::RollbackTable { .. }) {
            self.next_commit(state, who);
            return Ok(());
        }
        let Some(process) = state.processes.get(who) else {
            return Ok(());
        };
        let (saved, view) = self.compared(state, process, newest.clone());
        let standing = judge_looking(state, process, saved.clone(), &view, self.bounds.rules);
        if !matches!(standing, Standing::Equal | Standing::AheadByPrefix(_)) {
            story.say(|| format!("{name}: after the rollback still: {standing:?}"));
            return self.stop(state, who, "after the rollback still");
        }
        let there = there_of(standing, &saved, self.bounds.rules);
        self.was_there(state, who, &there)?;
        self.go_on_from(state, who, &there, (newest, None), story);
        Ok(())
    }

    fn roll_back_to(
        &self,
        state: &mut State,
        job: u64,
        way: WayOut,
        plan: &WayOutPlan,
    ) -> Result<(), Broken> {
        let first = match plan.roll_back_to {
            Some(Rollback::To(id)) => id.next(),
            Some(Rollback::Empty) => SnapshotId::FIRST,
            None => return Ok(()),
        };
        let removed = state.table.change(|t| t.roll_back(first));
        let allowed = way
            == WayOut::RollbackTable {
                including_others: true,
            };
        let own = jobs::user(job);
        let others = removed.iter().find(|d| Some(&d.user) != own.as_ref());
        match others {
            Some(other) if !allowed => {
                let why = format!("snapshot {} of {} was rolled back", other.id, other.user);
                Err(Broken::new(Invariant::Others, why))
            }
            _ => Ok(()),
        }
    }

    /// The note tells of the newest commit that is there; of none where there is none, unless that has
    /// expired.
    fn renew_note(&self, state: &mut State, job: u64) {
        let Some(note) = state.jobs.get(&job).and_then(|s| s.note.clone()) else {
            return;
        };
        let snapshots = &state.table.snapshots;
        let is_there = snapshots.values().any(|d| d.token == note.token);
        let expired = snapshots.keys().next().is_some_and(|id| note.id.0 < *id);
        if is_there || expired {
            return;
        }
        let own = newest_own(&state.table, job);
        if let Some(store) = state.jobs.get_mut(&job) {
            store.change(|s| s.note = own);
        }
    }

    /// Where accepting duplicates goes on: rather twice than never.
    fn reread_from(
        &self,
        state: &State,
        who: usize,
        standing: &Standing,
        saved: &SavedState,
        plan: &WayOutPlan,
    ) -> Option<tidegate_model::ids::Digest> {
        let process = state.processes.get(who)?;
        match standing {
            Standing::AheadBeyond(_) => saved.positions,
            Standing::Behind(_) => plan.expects,
            _ => {
                let waiting = process.queue.len() as u64;
                jobs::positions(process.job, process.chunk.saturating_sub(waiting))
            }
        }
    }
}

/// The newest commit of a job that stands.
fn newest_own(table: &Table, job: u64) -> Option<Entry> {
    let user = jobs::user(job);
    let mut own = table.snapshots.values().rev();
    let newest = own.find(|d| Some(&d.user) == user.as_ref())?;
    Entry::of(&Table::fact(newest))
}
