//! What snapshots of our jobs say of themselves, and whether the jobs' checkpoints agree with the table.
//!
//! A checkpoint and the table are one state in two places \[R-7], \[R-9]: a snapshot and the record of its
//! checkpoint name the same source positions, what a record wants to publish is still there whole, and what
//! it knows as published has not become another snapshot.

use std::collections::{BTreeMap, HashMap, HashSet};

use tidegate_commit::{ActiveAt, Marks, PositionMarks, Visible, committable, positions_hash};
use tidegate_model::{CommitKind, DataFileMeta, ManifestEntry, SnapshotId, layout};
use tidegate_recovery::{CheckpointRecord, CheckpointStore, JobStatus, RecoveryError};
use tidegate_scan::Places;
use tidegate_sink::{CheckpointId, CommitUser, Digest, JobName, Positions};
use tidegate_storage::Store;

use super::finding::Kind;
use super::{Check, Part};
use crate::error::Result;

/// What earlier snapshots of a line said.
#[derive(Debug, Default)]
pub(super) struct History {
    /// Identity of the snapshot before.
    token: Option<String>,
    /// Newest identifier and epoch of each commit user.
    newest: BTreeMap<String, (i64, u64)>,
    /// Commits by user, identifier and half.
    halves: HashSet<(u128, i64, CommitKind)>,
}

impl History {
    /// The snapshot before is not known.
    pub(super) fn cut(&mut self) {
        self.token = None;
    }
}

/// A commit of a job of ours in the table itself.
#[derive(Debug)]
struct Commit {
    snapshot: SnapshotId,
    token: String,
    identifier: i64,
    positions: Option<Digest>,
}

/// The commits of our jobs, by commit user.
#[derive(Debug, Default)]
pub(super) struct Commits {
    by_user: HashMap<String, BTreeMap<CheckpointId, Commit>>,
    /// Identities of all snapshots of the table, of whomever.
    tokens: BTreeMap<SnapshotId, u128>,
}

impl Check<'_> {
    /// One snapshot after the other.
    pub(super) async fn job_of(
        &mut self,
        part: Part,
        path: &str,
        visible: &Visible,
        marks: Option<Marks>,
        history: &mut History,
    ) -> Result<()> {
        let snapshot = &visible.snapshot;
        let token = visible.token.to_string();
        let before = history.token.replace(token.clone());
        let user = snapshot.commit_user.as_str();
        let job = marks.as_ref().map(|m| m.job.as_str().to_owned());
        self.origins.user(user, job.as_deref());
        if part == Part::Table {
            let tokens = &mut self.commits.tokens;
            tokens.insert(snapshot.id, super::digest::digest(token.as_str()));
        }
        let Some(marks) = marks else { return Ok(()) };
        if let (Some(parent), Some(based_on)) = (&before, &marks.based_on)
            && parent != based_on
        {
            let what = format!(
                "was built on another snapshot-{} than the one that is there: a foreign committer replaced it",
                snapshot.id.0 - 1
            );
            self.report.error(Kind::Replaced, path, what);
        }
        let identifier = snapshot.commit_identifier.0;
        if let Some((last, epoch)) = history.newest.get(user) {
            if identifier < *last {
                let what = format!("identifier {identifier} of {user} follows {last}");
                self.report.error(Kind::Order, path, what);
            }
            if marks.epoch.0 < *epoch {
                let (new, job) = (marks.epoch, &marks.job);
                let what = format!("epoch {new} of job {job} follows epoch {epoch}");
                self.report.error(Kind::Order, path, what);
            }
        }
        let half = (
            super::digest::digest(user),
            identifier,
            snapshot.commit_kind,
        );
        if !history.halves.insert(half) {
            let what = format!("commit {identifier} of {user} is published a second time");
            self.report.error(Kind::Doubled, path, what);
        }
        let newest = (identifier, marks.epoch.0);
        history.newest.insert(user.to_owned(), newest);
        if let Some(positions) = &marks.positions {
            self.positions_of(path, positions).await?;
        }
        if part == Part::Table {
            let commits = self.commits.by_user.entry(user.to_owned()).or_default();
            let commit = Commit {
                snapshot: snapshot.id,
                token,
                identifier,
                positions: marks.positions.map(|p| p.hash),
            };
            commits.insert(marks.checkpoint, commit);
        }
        Ok(())
    }

    async fn positions_of(&mut self, path: &str, marks: &PositionMarks) -> Result<()> {
        let mut positions = Positions::default();
        let active = match &marks.active {
            ActiveAt::Inline(bytes) => Some(bytes.clone()),
            ActiveAt::Object(name) => self.side_object(path, name).await?,
        };
        let finished = match &marks.finished_at {
            Some(name) => self.side_object(path, name).await?,
            None => Some(Vec::new()),
        };
        let (Some(active), Some(finished)) = (active, finished) else {
            return Ok(());
        };
        (positions.active, positions.finished) = (active, finished);
        if positions_hash(&positions) != marks.hash {
            let what = "its source positions do not have the hash that it records";
            self.report.error(Kind::Positions, path, what);
        }
        Ok(())
    }

    async fn side_object(&mut self, path: &str, name: &str) -> Result<Option<Vec<u8>>> {
        self.known(name);
        let found = self.store().get_opt(name).await?;
        if found.is_none() {
            let what = format!("{path} refers to these positions and they are not there");
            self.report.through(path, Kind::Missing, name, what);
        }
        Ok(found.map(|bytes| bytes.to_vec()))
    }

    /// Registered jobs, their notes and their checkpoints.
    pub(super) async fn jobs(&mut self, places: Option<&Places>) -> Result<()> {
        for entry in self.store().list_names(layout::JOBS_DIR).await? {
            let Ok(job) = JobName::new(entry.name) else {
                continue;
            };
            self.note_of(&job).await?;
            match self.table.jobs().job(&job).await {
                Ok(status) => {
                    self.origins.registered(&status);
                    self.checkpoints(&status, places).await?;
                }
                Err(RecoveryError::Store { source, .. }) if source.is_transient() => {
                    return Err(source.into());
                }
                Err(e) => {
                    let place = layout::job_dir(&job);
                    self.report.error(Kind::Unreadable, &place, e.to_string());
                }
            }
        }
        Ok(())
    }

    async fn note_of(&mut self, job: &JobName) -> Result<()> {
        let path = layout::published_path(job);
        let Some(bytes) = self.store().get_opt(&path).await? else {
            return Ok(());
        };
        match tidegate_commit::Note::decode(&path, &bytes) {
            Ok(note) => {
                if let Some(positions) = &note.positions {
                    let at = match &positions.active {
                        ActiveAt::Object(name) => Some(name),
                        ActiveAt::Inline(_) => None,
                    };
                    for name in at.into_iter().chain(&positions.finished_at) {
                        self.side_object(&path, name).await?;
                    }
                }
            }
            Err(e) => self.report.error(Kind::Unreadable, &path, e.to_string()),
        }
        Ok(())
    }

    /// The retained records of a job against the table.
    async fn checkpoints(&mut self, status: &JobStatus, places: Option<&Places>) -> Result<()> {
        let (Some(run), Some(user)) = (status.newest(), status.user()) else {
            return Ok(());
        };
        let adopted = run.registration.adopted_by.is_some();
        let retired = run
            .ended
            .as_ref()
            .is_some_and(|e| e.how.name() == "retired");
        if adopted || retired || !run.registration.keeps_checkpoints() {
            return Ok(());
        }
        let url = &run.registration.checkpoints;
        let place = format!("{url} (job {})", status.job);
        let opened = Store::open(url, &self.options.store).map_err(|e| e.to_string());
        let mut records = match opened {
            Ok(store) => CheckpointStore::new(store).job(&status.job, &user),
            Err(why) => {
                let what = format!("its checkpoints were not looked at: {why}");
                self.report.note(Kind::NotRead, &place, what);
                return Ok(());
            }
        };
        if let Err(e) = records.load().await {
            let what = format!("its checkpoints were not looked at: {e}");
            self.report.note(Kind::NotRead, &place, what);
            return Ok(());
        }
        let listed = records.list();
        let known = self.commits.by_user.contains_key(user.as_str());
        if listed.is_empty() && known {
            let what = "holds no checkpoint of this job: its next start stops with exit code 6; bring them \
                back, or start with --on-mismatch and one of the ways out";
            self.report.warn(Kind::Checkpoint, &place, what);
        }
        let mut read = Vec::new();
        for record in &listed {
            match records.read(record.id).await {
                Ok(record) => read.push(record),
                // Removed by a job that goes on.
                Err(RecoveryError::NoSuchCheckpoint { .. }) => {}
                Err(e) => {
                    let place = records.url().to_owned();
                    self.report.error(Kind::Unreadable, &place, e.to_string());
                }
            }
        }
        for record in &read {
            self.report.checkpoints += 1;
            let place = format!("{}/checkpoint-{}", records.url(), record.id);
            self.record(&place, &user, record).await?;
        }
        // Of older records newer ones tell what is still to be published.
        if let (Some(newest), Some(places)) = (read.last(), places) {
            let place = format!("{}/checkpoint-{}", records.url(), newest.id);
            self.pending(&place, &user, newest, places).await?;
        }
        Ok(())
    }

    async fn record(
        &mut self,
        place: &str,
        user: &CommitUser,
        record: &CheckpointRecord,
    ) -> Result<()> {
        let commits = self.commits.by_user.get(user.as_str());
        let commit = commits.and_then(|commits| commits.get(&record.id));
        if let (Some(commit), Some(positions)) = (commit, &record.last_positions)
            && let Some(hash) = commit.positions
            && hash != positions_hash(positions)
        {
            let what = format!(
                "remembers other source positions than snapshot-{} of the same checkpoint: a start from it \
                 would lose or double rows",
                commit.snapshot
            );
            self.report.error(Kind::Checkpoint, place, what);
        }
        let Some(published) = &record.newest_published else {
            return Ok(());
        };
        let Ok(id) = i64::try_from(published.version).map(SnapshotId) else {
            return Ok(());
        };
        let elsewhere = commits.into_iter().flat_map(BTreeMap::values);
        let elsewhere = elsewhere.filter(|c| c.identifier == published.identifier.0);
        // Published again where a foreign committer had replaced it: the record is older than that.
        if elsewhere.into_iter().any(|c| c.token != published.token) {
            return Ok(());
        }
        let newest = self.commits.tokens.last_key_value().map(|(id, _)| *id);
        let there = match self.commits.tokens.get(&id) {
            Some(there) => Some(*there),
            // A job that goes on has published since the snapshots were read.
            None if newest.is_none_or(|newest| newest < id) => {
                match tidegate_commit::snapshot(self.store(), id).await? {
                    Some(visible) => Some(super::digest::digest(visible.token.as_str())),
                    None => {
                        let what = format!(
                            "knows commit {} as published in snapshot-{id}, and the table ends before it: it \
                             was rolled back; the next start says what to do",
                            published.identifier
                        );
                        self.report.warn(Kind::Checkpoint, place, what);
                        return Ok(());
                    }
                }
            }
            // Expired.
            None => None,
        };
        if there.is_some_and(|there| there != super::digest::digest(published.token.as_str())) {
            let what = format!(
                "knows commit {} as published in snapshot-{id}, and that is another snapshot now: the table \
                 was rolled back, or a foreign committer replaced it; the next start says what to do",
                published.identifier
            );
            self.report.warn(Kind::Checkpoint, place, what);
        }
        Ok(())
    }

    /// What the next start would publish must be there whole.
    async fn pending(
        &mut self,
        place: &str,
        user: &CommitUser,
        record: &CheckpointRecord,
        places: &Places,
    ) -> Result<()> {
        let commits = self.commits.by_user.get(user.as_str());
        let known: HashSet<i64> = commits
            .into_iter()
            .flat_map(BTreeMap::values)
            .map(|commit| commit.identifier)
            .collect();
        let newest = known.iter().max().copied();
        for framed in &record.committables {
            let identifier = framed.identifier.0;
            let decoded = match committable::decode(framed) {
                Ok(decoded) => decoded,
                Err(e) => {
                    let what = format!("commit {identifier}: {e}");
                    self.report.error(Kind::Unreadable, place, what);
                    continue;
                }
            };
            for message in &decoded.java.messages {
                let (data, compact) = (&message.data, &message.compact);
                let files = [
                    &data.new_files,
                    &data.changelog_files,
                    &compact.compact_after,
                    &compact.changelog_files,
                ];
                let files: Vec<&DataFileMeta> = files.into_iter().flatten().collect();
                for file in &files {
                    self.origins.waits(&file.file_name, record.id);
                    for extra in &file.extra_files {
                        self.origins.waits(extra, record.id);
                    }
                }
                // Published already, or to be judged by the start: those files may be compacted by now.
                if known.contains(&identifier) || newest.is_some_and(|n| n > identifier) {
                    continue;
                }
                for file in files {
                    let entry = ManifestEntry {
                        kind: tidegate_model::EntryKind::Add,
                        partition: message.partition.clone(),
                        bucket: message.bucket,
                        total_buckets: message.total_buckets.unwrap_or(-1),
                        file: file.clone(),
                    };
                    let Ok(path) = places.of(&entry) else {
                        continue;
                    };
                    let reason = format!("{place} wants to publish it in commit {identifier}");
                    if file.external_path.is_none() {
                        self.size(None, &reason, &path, file.file_size).await?;
                    }
                }
            }
        }
        Ok(())
    }
}
