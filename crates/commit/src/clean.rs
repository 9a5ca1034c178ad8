//! Removes what crashes of earlier runs left behind: by name, never by age \[R-13].
//!
//! A file is *first* referred to by a snapshot of the run that published it. So of a run's files
//! these are in use: what the snapshots of this job from that run on name in their lists and delta
//! manifests; what the oldest retained snapshot still holds, for snapshots that are expired; and what
//! tags, branches and long-lived changelogs hold. That holds only while each snapshot was built on the one
//! that stands below it: a foreign one does not say so, and below it one of ours may have been put over
//! \[R-14] whose files it holds. So whatever is not chained is read whole. Candidates are listed before
//! any of that is read, and any failure to read ends the run with nothing deleted (B27).

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use tidegate_model::snapshot::ListRef;
use tidegate_model::{Snapshot, SnapshotId, layout};
use tidegate_protocol::cleanup::{CleanPlan, Found, OwnRun, plan};
use tidegate_protocol::{Garbage, ObjectId, Rules, SnapshotFact, guard};
use tidegate_sink::{CleanReport, Committable as Framed, Epoch, Run, RunPrefix, mutant};
use tidegate_storage::{Store, Unfinished};

use crate::committable;
use crate::env::{Env, SystemEnv};
use crate::error::{CommitError, Result};
use crate::meta::{Meta, Visible};
use crate::note::Note;
use crate::properties::{ActiveAt, Marks, PositionMarks};

/// Removes files of earlier runs that nothing refers to: no visible snapshot, changelog, tag or
/// branch, and none of `pending`, which are all committables that a retained record holds.
///
/// The caller answers for the own run's checkpoint record (`has_record`); whether it has a visible
/// snapshot is looked up. Without both nothing is removed and everything counts as kept, since an
/// earlier run may still publish.
///
/// # Errors
/// Any failure to read ends it with nothing deleted; what could not be deleted counts as kept.
pub async fn clean(
    store: &Store,
    run: &Run,
    earlier: &[RunPrefix],
    pending: &[Framed],
    has_record: bool,
) -> Result<CleanReport> {
    let Some(survey) = survey(store, run, earlier, pending).await? else {
        return Ok(CleanReport::default());
    };
    let own = OwnRun {
        epoch: run.epoch,
        has_record,
        has_snapshot: survey.has_snapshot,
    };
    let CleanPlan::Delete { files, .. } = survey.plan(&own) else {
        // At least one: an earlier run may still leave something, so its prefix must stay known.
        let kept = (survey.garbage(run) + survey.waiting).max(1) as u64;
        return Ok(CleanReport { removed: 0, kept });
    };
    let mut report = CleanReport {
        removed: 0,
        kept: survey.waiting as u64,
    };
    let paths: Vec<&str> = files
        .iter()
        .filter_map(|file| survey.candidates.path(file))
        .collect();
    for (answer, path) in store.delete_many(&paths).await.into_iter().zip(&paths) {
        match answer {
            Ok(()) => report.removed += 1,
            Err(error) => {
                tracing::warn!(%path, %error, "a file of an earlier run stays behind");
                report.kept += 1;
            }
        }
    }
    for part in &survey.unfinished {
        match store.discard_unfinished(part).await {
            Ok(()) => report.removed += 1,
            Err(error) => {
                tracing::warn!(target = %part.target, %error, "an unfinished write stays behind");
                report.kept += 1;
            }
        }
    }
    // Registrations go once this says that nothing is left: not before that outlasts a power failure.
    let unfinished = survey.unfinished.iter().map(|part| part.target.as_str());
    let dirs: BTreeSet<&str> = paths
        .iter()
        .copied()
        .chain(unfinished)
        .map(|path| path.rsplit_once('/').map_or("", |(dir, _)| dir))
        .collect();
    for dir in dirs {
        if let Err(error) = store.make_durable(dir).await {
            tracing::warn!(%dir, %error, "files of earlier runs may come back");
            report.kept += 1;
        }
    }
    Ok(report)
}

/// How many objects [`clean`] would remove once the own run has a record and a visible snapshot.
///
/// # Errors
/// Any failure to read.
pub async fn leftovers(
    store: &Store,
    run: &Run,
    earlier: &[RunPrefix],
    pending: &[Framed],
) -> Result<u64> {
    let Some(survey) = survey(store, run, earlier, pending).await? else {
        return Ok(0);
    };
    Ok(survey.garbage(run) as u64)
}

/// What earlier runs left, and what of it is referred to.
#[derive(Debug)]
struct Survey {
    candidates: Candidates,
    unfinished: Vec<Unfinished>,
    /// Candidates that something refers to.
    used: BTreeSet<Garbage>,
    /// How many of those only a pending committable refers to.
    waiting: usize,
    /// A snapshot of the own run is visible.
    has_snapshot: bool,
}

impl Survey {
    fn plan(&self, own: &OwnRun) -> CleanPlan {
        let found: Vec<Found> = self
            .candidates
            .by_name
            .values()
            .flatten()
            .copied()
            .collect();
        plan(own, &found, &self.used, Rules::default())
    }

    /// How many objects go once the own run has a record and a snapshot.
    fn garbage(&self, run: &Run) -> usize {
        let own = OwnRun {
            epoch: run.epoch,
            has_record: true,
            has_snapshot: true,
        };
        let files = match self.plan(&own) {
            CleanPlan::Delete { files, .. } => files.len(),
            CleanPlan::NotYet => 0,
        };
        files + self.unfinished.len()
    }
}

/// `None` where there is no earlier run.
async fn survey(
    store: &Store,
    run: &Run,
    earlier: &[RunPrefix],
    pending: &[Framed],
) -> Result<Option<Survey>> {
    let env: Arc<dyn Env> = Arc::new(SystemEnv);
    let meta = Meta::new(store.clone(), env);
    let mut epochs = Vec::new();
    for prefix in earlier.iter().filter(|prefix| **prefix != run.prefix) {
        epochs.push((prefix.clone(), epoch_of(prefix)?));
    }
    let Some(oldest) = epochs.iter().map(|(_, epoch)| *epoch).min() else {
        return Ok(None);
    };
    let listed = store
        .list("")
        .await
        .map_err(|e| CommitError::store("listing the table", e))?;
    let mut candidates = Candidates::default();
    let job_dir = layout::job_dir(&run.job);
    for object in &listed {
        candidates.consider(&object.path, &epochs, run.epoch, &job_dir);
    }
    let unfinished = unfinished_of(store, &epochs).await?;

    let mut references = References {
        meta: &meta,
        open: candidates.by_name.keys().cloned().collect(),
        manifests: HashSet::new(),
        changelog: false,
    };
    let has_snapshot = references
        .table(run, oldest, &listed_paths(&listed))
        .await?;
    if let Some(note) = crate::history::read_note(&meta, &run.job).await? {
        references.note(&note);
    }
    // What the table refers to is its own business from now on; what only a committable refers to
    // may become garbage, so a later run must look again.
    let not_visible = references.open.clone();
    if !mutant::on("clean-forgets-pending") {
        references.pending(pending)?;
    }
    let waiting = not_visible.difference(&references.open);
    let waiting: usize = waiting
        .map(|name| candidates.by_name.get(name).map_or(0, Vec::len))
        .sum();
    let used: BTreeSet<Garbage> = candidates
        .by_name
        .iter()
        .filter(|(name, _)| !references.open.contains(*name))
        .flat_map(|(_, found)| found.iter().map(|f| f.file))
        .collect();
    Ok(Some(Survey {
        candidates,
        unfinished,
        used,
        waiting,
        has_snapshot,
    }))
}

/// `tg<8 hex digits>e<epoch>-` backwards.
fn epoch_of(prefix: &RunPrefix) -> Result<Epoch> {
    let digits = prefix
        .0
        .strip_prefix("tg")
        .and_then(|rest| rest.get(8..)?.strip_prefix('e'));
    let digits = digits.and_then(|rest| rest.strip_suffix('-'));
    digits
        .and_then(Epoch::parse)
        .ok_or_else(|| CommitError::Config(format!("`{prefix}` is no prefix of a run")))
}

async fn unfinished_of(store: &Store, epochs: &[(RunPrefix, Epoch)]) -> Result<Vec<Unfinished>> {
    if !store.capabilities().lists_unfinished {
        return Ok(Vec::new());
    }
    let all = store.list_unfinished("").await;
    let mut all = all.map_err(|e| CommitError::store("listing unfinished writes", e))?;
    all.retain(|part| {
        let of_run = |prefix: &RunPrefix| {
            let tagged = part.tag.as_deref() == Some(prefix.0.as_str());
            tagged || part.target.contains(&prefix.0)
        };
        epochs.iter().any(|(prefix, _)| of_run(prefix))
    });
    Ok(all)
}

fn listed_paths(listed: &[tidegate_storage::ObjectMeta]) -> Vec<String> {
    let dirs = [layout::TAG_DIR, layout::CHANGELOG_DIR, layout::BRANCH_DIR];
    let metadata = |path: &str| dirs.iter().any(|dir| path.split('/').next() == Some(*dir));
    listed
        .iter()
        .filter(|o| metadata(&o.path))
        .map(|o| o.path.clone())
        .collect()
}

/// Files that carry the prefix of an earlier run, and side objects of this job, by name.
#[derive(Debug, Default)]
struct Candidates {
    by_name: HashMap<String, Vec<Found>>,
    paths: Vec<String>,
}

impl Candidates {
    fn consider(&mut self, path: &str, epochs: &[(RunPrefix, Epoch)], own: Epoch, job_dir: &str) {
        let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
        let epoch = if dir == job_dir {
            // Also of runs that are forgotten: they outlive their run as long as a snapshot names them,
            // and that may have expired since.
            layout::side_object_epoch(name).filter(|epoch| *epoch < own)
        } else {
            let top = path.split('/').next().unwrap_or_default();
            let never = [
                layout::SNAPSHOT_DIR,
                layout::SCHEMA_DIR,
                layout::TAG_DIR,
                layout::BRANCH_DIR,
                layout::CHANGELOG_DIR,
                layout::CONSUMER_DIR,
                "tidegate",
            ];
            let found = epochs.iter().find(|(prefix, _)| name.contains(&prefix.0));
            found
                .filter(|_| !never.contains(&top))
                .map(|(_, epoch)| *epoch)
        };
        let Some(epoch) = epoch else { return };
        let file = Garbage::Object(ObjectId(self.paths.len() as u64));
        let key = if dir == job_dir { path } else { name };
        self.paths.push(path.to_owned());
        self.by_name
            .entry(key.to_owned())
            .or_default()
            .push(Found { file, epoch });
    }

    fn path(&self, file: &Garbage) -> Option<&str> {
        let Garbage::Object(id) = file else {
            return None;
        };
        self.paths
            .get(usize::try_from(id.0).ok()?)
            .map(String::as_str)
    }
}

/// True where the files of `above` are those of `below`, which stands, and of its own change.
fn is_chained(below: &SnapshotFact, above: &SnapshotFact) -> bool {
    above.based_on.is_some() && guard::is_below(above, below)
}

/// Strikes out of the candidates what something refers to.
struct References<'a> {
    meta: &'a Meta,
    /// Candidates that nothing was found to refer to so far.
    open: HashSet<String>,
    /// Manifests whose entries were read.
    manifests: HashSet<String>,
    /// A long-lived changelog is being read.
    changelog: bool,
}

impl References<'_> {
    fn pending(&mut self, pending: &[Framed]) -> Result<()> {
        for framed in pending {
            let decoded = committable::decode(framed)?;
            for message in &decoded.java.messages {
                let (data, compact) = (&message.data, &message.compact);
                let files = [
                    &data.new_files,
                    &data.deleted_files,
                    &data.changelog_files,
                    &compact.compact_before,
                    &compact.compact_after,
                    &compact.changelog_files,
                ];
                for file in files.into_iter().flatten() {
                    self.used(&file.file_name);
                    file.extra_files.iter().for_each(|name| self.used(name));
                }
                let index = [&data.new_index_files, &compact.new_index_files];
                index
                    .into_iter()
                    .flatten()
                    .for_each(|file| self.used(&file.file_name));
            }
            if let Some(extras) = &decoded.extras
                && let Some(positions) = &extras.positions
            {
                let marks = PositionMarks::of(&extras.job, extras.epoch, positions);
                self.positions(&marks.0);
            }
        }
        Ok(())
    }

    fn used(&mut self, name: &str) {
        self.open.remove(name);
    }

    fn positions(&mut self, marks: &PositionMarks) {
        if let ActiveAt::Object(path) = &marks.active {
            self.used(path);
        }
        if let Some(path) = &marks.finished_at {
            self.used(path);
        }
    }

    fn note(&mut self, note: &Note) {
        if let Some(positions) = &note.positions {
            self.positions(positions);
        }
    }

    /// Everything in the table that refers to files. True where the own run has a visible snapshot.
    async fn table(&mut self, run: &Run, oldest: Epoch, metadata: &[String]) -> Result<bool> {
        let mut has_snapshot = false;
        let mut read_up_to = SnapshotId(0);
        let mut below: Option<SnapshotFact> = None;
        // Again until nothing came meanwhile: the newest state counts, not that of the first look.
        loop {
            let ids: Vec<SnapshotId> = self
                .meta
                .snapshot_ids()
                .await?
                .into_iter()
                .filter(|id| *id > read_up_to)
                .collect();
            let Some(newest) = ids.last().copied() else {
                break;
            };
            for chunk in ids.chunks(256) {
                for visible in self.meta.snapshots_of(chunk.to_vec()).await? {
                    let fact = visible.fact()?;
                    let chained = below.is_some_and(|below| is_chained(&below, &fact));
                    match self.snapshot(run, oldest, &visible, chained).await {
                        Ok(own) => {
                            has_snapshot |= own;
                            below = Some(fact);
                        }
                        Err(CommitError::Missing { path, .. })
                            if self.is_buried(fact.id, newest).await? =>
                        {
                            tracing::warn!(snapshot = %fact.id, %path, "below the retained history, unreadable");
                            // Or it expired just now: what it held is looked for in the one above.
                            below = None;
                        }
                        Err(error) => return Err(error),
                    }
                }
            }
            read_up_to = newest;
        }
        for path in metadata {
            let name = path.rsplit('/').next().unwrap_or_default();
            let snapshot = layout::tag_name(name).is_some()
                || layout::changelog_id(name).is_some()
                || layout::snapshot_id(name).is_some();
            if snapshot && let Some(visible) = self.meta.snapshot_at(path).await? {
                self.changelog = layout::changelog_id(name).is_some();
                self.whole(&visible.snapshot).await?;
            }
        }
        self.changelog = false;
        Ok(has_snapshot)
    }

    /// A snapshot that was created late, below expired history, whose parts went with that: no reader gets to
    /// it, and it must not hold back cleaning for good \[C-51a].
    async fn is_buried(&self, id: SnapshotId, newest: SnapshotId) -> Result<bool> {
        let earliest = self.meta.earliest(newest).await?;
        Ok(earliest.is_some_and(|earliest| id < earliest))
    }

    async fn snapshot(
        &mut self,
        run: &Run,
        oldest: Epoch,
        visible: &Visible,
        chained: bool,
    ) -> Result<bool> {
        let snapshot = &visible.snapshot;
        let marks = Marks::of(snapshot)?;
        let ours = marks.as_ref().filter(|m| m.job == run.job);
        if let Some(positions) = ours.and_then(|m| m.positions.as_ref()) {
            self.positions(positions);
        }
        if !chained {
            self.whole(snapshot).await?;
        } else if snapshot.commit_user == run.user && ours.is_none_or(|m| m.epoch >= oldest) {
            self.base(&snapshot.base_manifest_list, snapshot.id).await?;
            self.lists(snapshot).await?;
        }
        Ok(ours.is_some_and(|m| m.epoch == run.epoch))
    }

    /// Base, delta and changelog with all entries.
    async fn whole(&mut self, snapshot: &Snapshot) -> Result<()> {
        let base = &snapshot.base_manifest_list;
        self.list(base, snapshot.id, true).await?;
        self.lists(snapshot).await
    }

    async fn base(&mut self, list: &ListRef, id: SnapshotId) -> Result<()> {
        self.list(list, id, false).await
    }

    async fn lists(&mut self, snapshot: &Snapshot) -> Result<()> {
        self.list(&snapshot.delta_manifest_list, snapshot.id, true)
            .await?;
        if let Some(list) = &snapshot.changelog_manifest_list {
            self.list(list, snapshot.id, true).await?;
        }
        if let Some(statistics) = &snapshot.statistics {
            self.used(statistics);
        }
        if let Some(index) = &snapshot.index_manifest {
            self.used(index);
            if self.manifests.insert(index.clone()) {
                for entry in self.meta.index_entries(index).await? {
                    self.used(&entry.file.file_name);
                }
            }
        }
        Ok(())
    }

    async fn list(&mut self, list: &ListRef, id: SnapshotId, entries: bool) -> Result<()> {
        self.used(&list.name);
        let manifests = match self.meta.list(list, id).await {
            // Long-lived changelogs outlive their delta lists [F-14.9]. Everywhere else a missing list
            // ends the clean-up: what it held cannot be known (B30).
            Err(CommitError::Missing { .. }) if self.changelog => return Ok(()),
            other => other?,
        };
        for manifest in manifests {
            self.used(&manifest.file_name);
            let read = entries && !self.open.is_empty();
            if read && self.manifests.insert(manifest.file_name.clone()) {
                for entry in self.meta.entries(&manifest.file_name).await? {
                    self.used(&entry.file.file_name);
                    entry
                        .file
                        .extra_files
                        .iter()
                        .for_each(|name| self.used(name));
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::run_prefix;
    use tidegate_sink::CommitUser;

    #[test]
    fn the_epoch_is_read_back_from_a_prefix() {
        let user = CommitUser::new("u").unwrap();
        assert_eq!(epoch_of(&run_prefix(&user, Epoch(17))).unwrap(), Epoch(17));
        for bad in [
            "",
            "tg",
            "tg12345678e-",
            "xx12345678e1-",
            "tg12345678e1",
            "tg12345678e+1-",
            "tg12345678e01-",
            "tgé2345678e1-",
        ] {
            assert!(epoch_of(&RunPrefix(bad.to_owned())).is_err(), "{bad}");
        }
    }
}
