//! Carries a way out of a mismatch through \[R-8].
//!
//! A rollback plans completely before its first delete, makes LATEST true first, and goes from the
//! newest snapshot down, so that ids stay dense whatever interrupts it (invariant 9). Data files and
//! manifests of the snapshots that go are left to the clean-up by names.

use futures::stream::{self, StreamExt, TryStreamExt};
use tidegate_format::hint;
use tidegate_model::{SnapshotId, layout};
use tidegate_protocol::SnapshotFact;
use tidegate_protocol::guard::{Closed, Rollback, Surroundings, WayOut, WayOutPlan, way_out};
use tidegate_sink::{CommitIdentifier, Digest, Positions, Resolution, ResolutionPlan, Saved};

use crate::committable;
use crate::committer::PaimonCommitter;
use crate::error::{CommitError, Result};
use crate::executor::Known;
use crate::history::{bound, note_of, read_note, read_positions};
use crate::meta::{PARALLEL, Visible};
use crate::properties::{Marks, positions_hash};

/// The table around a job: everything a rollback could take with it.
struct Around {
    snapshots: Vec<Visible>,
    tags: Vec<(String, SnapshotId)>,
    changelogs: Vec<SnapshotId>,
}

impl PaimonCommitter {
    /// Carries a way out through, or with `dry_run` only says what it would do.
    pub(crate) async fn way_out(
        &mut self,
        saved: &Saved,
        resolution: Resolution,
        dry_run: bool,
    ) -> Result<ResolutionPlan> {
        self.noted = read_note(&self.executor.meta, &self.run.job).await?;
        let own = self.own_snapshots(bound(saved)).await?;
        let view = self.view(&own)?;
        let state = self.saved_state(saved, &own).await?;
        let around = self.around().await?;
        let facts = around
            .snapshots
            .iter()
            .map(Visible::fact)
            .collect::<Result<Vec<_>>>()?;
        let surroundings = Surroundings {
            snapshots: facts,
            tags: around.tags.clone(),
            largest_recorded: saved.committables.iter().map(|c| c.identifier).max(),
        };
        let way = match resolution {
            Resolution::RollbackTable { including_others } => {
                WayOut::RollbackTable { including_others }
            }
            Resolution::ContinueFromTable => WayOut::ContinueFromTable,
            Resolution::AcceptDuplicates => WayOut::AcceptDuplicates,
        };
        let rules = self.settings.protocol.rules;
        let plan = way_out(way, &state, &view, &surroundings, rules).map_err(closed)?;
        let removed_tags = tags_above(&plan, &around);
        let steps = describe(&plan, &removed_tags);
        let positions = match plan.go_on_from {
            Some(hash) => self.positions_of(hash, saved, &around).await?,
            None => None,
        };
        if !dry_run {
            if let Some(target) = &plan.roll_back_to {
                self.roll_back(target, &plan.removed, &removed_tags, &around)
                    .await?;
            } else if self.note_is_lost(&around) {
                let top = around.snapshots.last();
                let top = top.map_or(SnapshotId(0), |newest| newest.snapshot.id);
                self.renew_note(top, &around).await?;
            }
            self.executor.known = Known::Nothing;
            self.executor.published_objects.clear();
            self.ledger = self.fresh_ledger();
            self.newest = None;
            self.owed = None;
        }
        Ok(ResolutionPlan {
            steps,
            positions,
            above: plan.above,
        })
    }

    async fn around(&self) -> Result<Around> {
        let meta = &self.executor.meta;
        let ids = meta.snapshot_ids().await?;
        let snapshots = meta.snapshots_of(ids).await?;
        let tags = self.names(layout::TAG_DIR).await?;
        let tags: Vec<String> = tags
            .iter()
            .filter_map(|n| layout::tag_name(n).map(str::to_owned))
            .collect();
        // A tag that cannot be read ends the plan: nothing counts as unprotected by accident (B30).
        let tags: Vec<(String, SnapshotId)> = stream::iter(tags)
            .map(|name| async move {
                let path = layout::tag_path(&name);
                let tag = meta.snapshot_at(&path).await?;
                Ok::<_, CommitError>(tag.map(|tag| (name, tag.snapshot.id)))
            })
            .buffered(PARALLEL)
            .try_filter_map(|tag| std::future::ready(Ok(tag)))
            .try_collect()
            .await?;
        let changelogs = self.names(layout::CHANGELOG_DIR).await?;
        let changelogs = changelogs
            .iter()
            .filter_map(|n| layout::changelog_id(n))
            .collect();
        Ok(Around {
            snapshots,
            tags,
            changelogs,
        })
    }

    async fn names(&self, dir: &str) -> Result<Vec<String>> {
        let names = self.executor.meta.store.list_names(dir).await;
        let names = names.map_err(|e| CommitError::store(format!("listing {dir}/"), e))?;
        Ok(names
            .into_iter()
            .filter(|e| !e.is_dir)
            .map(|e| e.name)
            .collect())
    }

    /// The positions with this hash, wherever they are held.
    async fn positions_of(
        &self,
        hash: Digest,
        saved: &Saved,
        around: &Around,
    ) -> Result<Option<Positions>> {
        if let Some(positions) = saved
            .positions
            .as_ref()
            .filter(|p| positions_hash(p) == hash)
        {
            return Ok(Some(positions.clone()));
        }
        for framed in &saved.committables {
            let extras = committable::decode(framed)?.extras;
            if let Some(positions) = extras.and_then(|e| e.positions)
                && positions_hash(&positions) == hash
            {
                return Ok(Some(positions));
            }
        }
        let meta = &self.executor.meta;
        for visible in around.snapshots.iter().rev() {
            let marks = Marks::of(&visible.snapshot)?.and_then(|m| m.positions);
            if let Some(marks) = marks.filter(|m| m.hash == hash) {
                return read_positions(meta, &marks).await.map(Some);
            }
        }
        match self
            .noted
            .as_ref()
            .and_then(|n| n.positions.as_ref())
            .filter(|m| m.hash == hash)
        {
            Some(marks) => read_positions(meta, marks).await.map(Some),
            None => Ok(None),
        }
    }

    async fn roll_back(
        &mut self,
        target: &Rollback,
        removed: &[SnapshotFact],
        removed_tags: &[(String, SnapshotId)],
        around: &Around,
    ) -> Result<()> {
        let store = self.executor.meta.store.clone();
        let top = match target {
            Rollback::To(id) => *id,
            Rollback::Empty => SnapshotId(0),
        };
        // What was planned must still be the whole of it: a commit that came meanwhile would be left
        // above a hole (B34).
        if let Some(newest) = around.snapshots.last() {
            let above = self
                .executor
                .meta
                .snapshot(newest.snapshot.id.next())
                .await?;
            let stands = self.executor.meta.snapshot(newest.snapshot.id).await?;
            if above.is_some() || stands.is_none_or(|s| s.bytes != newest.bytes) {
                return Err(CommitError::Refused(
                    "the table changed while the rollback was planned; stop its writers and try again"
                        .to_owned(),
                ));
            }
        }
        // LATEST first: Java believes a hint whose successor is absent [C-51a].
        let hinted = match target {
            Rollback::To(id) => {
                store
                    .put(layout::LATEST_PATH, hint::encode(*id).into())
                    .await
            }
            Rollback::Empty => store.delete(layout::LATEST_PATH).await,
        };
        hinted.map_err(|e| CommitError::store("making the LATEST hint true", e))?;
        for (name, _) in removed_tags {
            delete(&store, &layout::tag_path(name)).await?;
        }
        // One by one, newest first: whatever interrupts this leaves a table without a hole.
        let mut gone: Vec<SnapshotId> = removed.iter().map(|s| s.id).collect();
        gone.sort_unstable();
        for id in gone.into_iter().rev() {
            delete(&store, &layout::snapshot_path(id)).await?;
        }
        for id in around.changelogs.iter().rev().filter(|id| **id > top) {
            delete(&store, &layout::changelog_path(*id)).await?;
        }
        // The note last: until then the guard sees the mismatch and the way out is taken again.
        self.renew_note(top, around).await
    }

    /// The note names a snapshot that should be there and is not: the table was rolled back, or that
    /// snapshot replaced. Its positions are those of rows that the table has lost. (One that has expired
    /// lies below everything that is retained.)
    fn note_is_lost(&self, around: &Around) -> bool {
        let Some(note) = &self.noted else {
            return false;
        };
        let there = |v: &Visible| {
            v.snapshot.id == note.snapshot && v.snapshot.commit_identifier == note.identifier
        };
        let earliest = around.snapshots.first().map(|v| v.snapshot.id);
        earliest.is_none_or(|id| note.snapshot >= id) && !around.snapshots.iter().any(there)
    }

    /// Makes the note tell of the newest commit of this job up to `top`; no note where there is none.
    async fn renew_note(&mut self, top: SnapshotId, around: &Around) -> Result<()> {
        let own = around
            .snapshots
            .iter()
            .rev()
            .filter(|v| v.snapshot.id <= top);
        let mut note = None;
        for visible in own {
            if visible.snapshot.commit_user == self.run.user {
                note = Marks::of(&visible.snapshot)?.and_then(|marks| note_of(visible, &marks));
                break;
            }
        }
        match note {
            Some(note) => self.put_note(note).await,
            None if self
                .noted
                .as_ref()
                .is_some_and(|n| n.snapshot > top || self.note_is_lost(around)) =>
            {
                self.noted = None;
                let store = self.executor.meta.store.clone();
                delete(&store, &layout::published_path(&self.run.job)).await
            }
            None => Ok(()),
        }
    }
}

async fn delete(store: &tidegate_storage::Store, path: &str) -> Result<()> {
    store
        .delete(path)
        .await
        .map_err(|e| CommitError::store(format!("deleting {path}"), e))
}

/// Tags whose snapshot goes: with it their name would point into nothing that the table knows.
fn tags_above(plan: &WayOutPlan, around: &Around) -> Vec<(String, SnapshotId)> {
    let gone = |id: &SnapshotId| plan.removed.iter().any(|s| s.id == *id);
    around
        .tags
        .iter()
        .filter(|(_, id)| gone(id))
        .cloned()
        .collect()
}

fn describe(plan: &WayOutPlan, tags: &[(String, SnapshotId)]) -> Vec<String> {
    let mut steps = Vec::new();
    let list = |ids: &[CommitIdentifier]| {
        ids.iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(", ")
    };
    match &plan.roll_back_to {
        Some(Rollback::To(id)) => steps.push(format!("the table goes back to snapshot {id}")),
        Some(Rollback::Empty) => steps.push("the table goes back to no snapshot at all".to_owned()),
        None => {}
    }
    for snapshot in &plan.removed {
        steps.push(format!(
            "snapshot {} ({}, commit {} of {}) is removed",
            snapshot.id, snapshot.kind, snapshot.identifier, snapshot.user
        ));
    }
    for (name, id) in tags {
        steps.push(format!("tag {name} of snapshot {id} is removed"));
    }
    if !plan.publish.is_empty() {
        steps.push(format!(
            "saved commits {} are published",
            list(&plan.publish)
        ));
    }
    if !plan.give_up.is_empty() {
        steps.push(format!(
            "saved commits {} are given up",
            list(&plan.give_up)
        ));
    }
    if let Some(above) = plan.above {
        steps.push(format!("new commits are numbered above {above}"));
    }
    steps
}

fn closed(closed: Closed) -> CommitError {
    CommitError::Refused(match closed {
        Closed::OthersWouldGo { snapshots, tags } => {
            let mut what: Vec<String> = snapshots
                .iter()
                .map(|s| format!("snapshot {} of {}", s.id, s.user))
                .collect();
            what.extend(
                tags.iter()
                    .map(|(name, id)| format!("tag {name} of snapshot {id}")),
            );
            format!(
                "the rollback would take what others made with it: {}; --including-others allows it",
                what.join(", ")
            )
        }
        Closed::TargetExpired => {
            "the snapshot to go back to does not exist any more; choose another way out".to_owned()
        }
        Closed::NoPositions => {
            "the table carries no source positions of this job; choose another way out".to_owned()
        }
        Closed::HistoryExpired { floor } => format!(
            "where the table stands cannot be seen: snapshots below {floor} are expired, and the newest \
             commit of this job may have been among them; choose another way out"
        ),
    })
}
