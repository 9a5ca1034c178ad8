//! The invariants of the simulated table, judged with the decoders alone.
//!
//! Owns what the table looks like now (every visible snapshot with its files and rows) and every promise
//! about it: C1 to C4 and C6 of the cases, the invariants of ARCHITECTURE.md. Looks again only at what a
//! request has changed; what has a name of its own is read once.

mod left_over;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use tidegate_commit::{ActiveAt, Marks};
use tidegate_format::{manifest, manifest_list, snapshot};
use tidegate_model::snapshot::ListRef;
use tidegate_model::{
    BucketId, CommitKind, EntryKind, ManifestEntry, ManifestFile, Snapshot, layout,
};
use tidegate_runtime::source::SourceState;
use tidegate_sink::{Positions, Published};
use tidegate_storage::{Op, Store};

use crate::gate::TABLE;
use crate::plan::Disturbed;
use crate::rows::{self, Input, is_within, of_job, surplus};
use crate::saved::{self, Saved, job_of_record};
use crate::target::data_path;

/// One snapshot as it was seen.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) snapshot: Snapshot,
    token: String,
    marks: Option<Marks>,
    /// Everything in the store that it needs, paths under the table.
    needs: HashSet<String>,
    /// Rows in live files, ascending.
    pub(crate) rows: Vec<i64>,
}

/// Which commit a snapshot is.
type Key = (String, i64, bool);

/// Judges the table after every request that changed something.
pub(crate) struct Checker {
    store: Store,
    table: Store,
    saved: Vec<Saved>,
    inputs: Vec<Input>,
    names: Vec<String>,
    pub(crate) disturbed: Disturbed,
    /// Jobs that may have rows twice: a person said so.
    pub(crate) doubled: HashSet<usize>,
    pub(crate) visible: BTreeMap<i64, Arc<Seen>>,
    /// Every snapshot that was ever visible, by number: what readers may have seen.
    pub(crate) ever: HashMap<i64, Vec<Arc<Seen>>>,
    keys: HashMap<Key, String>,
    /// What snapshots needed that somebody else expired: who does that removes neither side objects of jobs
    /// nor, here, data files.
    expired: HashSet<String>,
    /// Snapshots whose lists or manifests somebody has begun to remove who expires them hint last.
    pub(crate) condemned: BTreeSet<i64>,
    /// Snapshots of jobs that were put over, by number.
    replaced: Vec<(i64, String)>,
    /// Jobs of which such a snapshot's number is expired: nothing shows any more that there was one.
    unprovable: HashSet<String>,
    lists: HashMap<String, Arc<Vec<ManifestFile>>>,
    manifests: HashMap<String, Arc<Vec<ManifestEntry>>>,
    data: HashMap<String, Vec<i64>>,
    /// Rows that a job was told are published, per job.
    acknowledged: Vec<BTreeSet<i64>>,
    pub(crate) acknowledgements: u64,
}

type Judged<T = ()> = Result<T, String>;

fn key_of(snapshot: &Snapshot) -> Key {
    (
        snapshot.commit_user.to_string(),
        snapshot.commit_identifier.0,
        snapshot.commit_kind == CommitKind::Compact,
    )
}

impl Checker {
    pub(crate) fn new(
        store: &Store,
        inputs: Vec<Input>,
        names: Vec<String>,
        disturbed: Disturbed,
    ) -> Self {
        Self {
            table: store.child(TABLE),
            store: store.clone(),
            saved: inputs.iter().map(|_| Saved::default()).collect(),
            acknowledged: inputs.iter().map(|_| BTreeSet::new()).collect(),
            inputs,
            names,
            disturbed,
            doubled: HashSet::new(),
            visible: BTreeMap::new(),
            ever: HashMap::new(),
            keys: HashMap::new(),
            expired: HashSet::new(),
            condemned: BTreeSet::new(),
            replaced: Vec::new(),
            unprovable: HashSet::new(),
            lists: HashMap::new(),
            manifests: HashMap::new(),
            data: HashMap::new(),
            acknowledgements: 0,
        }
    }

    pub(crate) fn newest(&self) -> Option<&Arc<Seen>> {
        self.visible.last_key_value().map(|(_, seen)| seen)
    }

    /// A request on this path was carried out by a job of ours, or by somebody else.
    pub(crate) async fn after(&mut self, op: Op, path: &str, ours: bool) -> Judged {
        if op == Op::Create
            && let Some(name) = job_of_record(path)
        {
            return self.recorded(name.to_owned(), path).await;
        }
        if op == Op::Delete && ours && job_of_record(path).is_some() {
            return self.retired(path).await;
        }
        let Some(path) = path.strip_prefix(TABLE).and_then(|p| p.strip_prefix('/')) else {
            return Ok(());
        };
        match op {
            Op::Create | Op::Put => {
                let name = path.strip_prefix("snapshot/");
                if let Some(id) = name.and_then(layout::snapshot_id) {
                    return self.appeared(id.0, ours).await;
                }
                self.written(path).await
            }
            // A batch names its first path only.
            Op::Delete => self.vanished(ours).await,
            _ => Ok(()),
        }
    }

    async fn recorded(&mut self, name: String, path: &str) -> Judged {
        let Some(job) = self.names.iter().position(|n| *n == name) else {
            return Ok(());
        };
        // Gone again, or the create found another one there.
        let Ok(bytes) = self.store.get(path).await else {
            return Ok(());
        };
        match self.saved.get_mut(job) {
            Some(saved) => saved.recorded(path, &bytes),
            None => Ok(()),
        }
    }

    /// A job removed a record: one whose commits are all published stays, so that there is one to go back to.
    async fn retired(&self, path: &str) -> Judged {
        let Some((dir, _)) = path.rsplit_once('/') else {
            return Ok(());
        };
        // Where others take published snapshots away, what was published is not any more.
        if self.disturbed.racing || self.disturbed.rewound {
            return Ok(());
        }
        let listed = self.store.list(dir).await.map_err(|e| e.to_string())?;
        let mut any = false;
        for meta in &listed {
            let bytes = self.store.get(&meta.path).await;
            let bytes = bytes.map_err(|e| e.to_string())?;
            let commits = saved::commits_of(&meta.path, &bytes)?;
            let oldest = self.visible.keys().next().copied().unwrap_or(1);
            let published = |(user, identifier): &(String, i64)| {
                let halves = [false, true];
                let is = |half| self.keys.contains_key(&(user.clone(), *identifier, half));
                halves.into_iter().any(is) || oldest > 1
            };
            if commits.iter().all(published) {
                return Ok(());
            }
            any = true;
        }
        match any {
            true => Err(format!(
                "records: {path} was removed, and of none that is left the commits are all published"
            )),
            false => Ok(()),
        }
    }

    /// An object that nothing may refer to differently: its bytes never change.
    async fn written(&mut self, path: &str) -> Judged {
        if !path.starts_with("bucket-") {
            return Ok(());
        }
        let bytes = self.table.get(path).await.map_err(|e| e.to_string())?;
        let rows = rows::decode(&bytes);
        match self.data.get(path) {
            Some(before) if *before != rows => {
                Err(format!("{path} was written twice with different rows"))
            }
            _ => {
                self.data.insert(path.to_owned(), rows);
                Ok(())
            }
        }
    }

    async fn appeared(&mut self, id: i64, ours: bool) -> Judged {
        let path = layout::snapshot_path(tidegate_model::SnapshotId(id));
        let Some(bytes) = self.table.get_opt(&path).await.map_err(|e| e.to_string())? else {
            return Ok(());
        };
        let decoded = snapshot::decode(&bytes).map_err(|e| format!("{path}: {e}"))?;
        if let Some(before) = self.visible.get(&id) {
            if before.snapshot == decoded {
                return Ok(());
            }
            if ours || !self.disturbed.racing {
                return Err(format!(
                    "snapshot {id} of {} was replaced by one of {}",
                    before.snapshot.commit_user, decoded.commit_user
                ));
            }
            let key = key_of(&before.snapshot);
            self.keys.remove(&key);
            if let Some(marks) = &before.marks {
                self.replaced.push((id, marks.job.to_string()));
            }
        }
        // Created below what is retained, by somebody who slept: no reader gets there, and who made it
        // finds out and removes it [C-51a]. What it names may be gone already.
        let oldest = self.visible.keys().next().copied();
        if ours && self.disturbed.expiry && oldest.is_some_and(|oldest| id < oldest) {
            // Killed before it had, it leaves that snapshot and what it names: who cleans up deletes nothing
            // that a snapshot names, wherever it lies.
            if let Ok(buried) = self.read(decoded, &bytes).await {
                self.expired.extend(buried.needs);
            }
            return Ok(());
        }
        let seen = Arc::new(self.read(decoded, &bytes).await?);
        self.judge(&seen)?;
        self.keys.insert(key_of(&seen.snapshot), seen.token.clone());
        self.ever.entry(id).or_default().push(Arc::clone(&seen));
        self.visible.insert(id, seen);
        self.dense()?;
        self.acknowledged_are_there()
    }

    async fn read(&mut self, snapshot: Snapshot, bytes: &[u8]) -> Judged<Seen> {
        let id = snapshot.id;
        let mut needs = HashSet::new();
        let mut live: BTreeMap<(BucketId, String), i64> = BTreeMap::new();
        let mut base_rows = 0;
        for (nth, list) in [&snapshot.base_manifest_list, &snapshot.delta_manifest_list]
            .into_iter()
            .enumerate()
        {
            let path = layout::manifest_path(&list.name);
            for file in self.list(list).await?.iter() {
                for entry in self.manifest(&file.file_name).await?.iter() {
                    let key = (entry.bucket, entry.file.file_name.clone());
                    match entry.kind {
                        EntryKind::Add => {
                            if live.insert(key, entry.file.row_count).is_some() {
                                return Err(format!(
                                    "C3: {} is live twice in snapshot {id}",
                                    entry.file.file_name
                                ));
                            }
                        }
                        EntryKind::Delete => {
                            if live.remove(&key).is_none() {
                                return Err(format!(
                                    "snapshot {id} removes {}, which is not live",
                                    entry.file.file_name
                                ));
                            }
                        }
                    }
                }
                needs.insert(layout::manifest_path(&file.file_name));
            }
            needs.insert(path);
            if nth == 0 {
                base_rows = live.values().sum();
            }
        }
        let total: i64 = live.values().sum();
        if snapshot.total_record_count != Some(total) {
            return Err(format!(
                "invariant 8: snapshot {id} says {:?} rows in all, its files have {total}",
                snapshot.total_record_count
            ));
        }
        if snapshot.delta_record_count != Some(total - base_rows) {
            return Err(format!(
                "invariant 8: snapshot {id} says {:?} rows came, {} did",
                snapshot.delta_record_count,
                total - base_rows
            ));
        }
        let mut all = Vec::new();
        for ((bucket, name), count) in live {
            let path = data_path(bucket, &name);
            let rows = self.rows(&path).await?;
            if rows.len() as i64 != count {
                return Err(format!(
                    "{path} has {} rows, its entry says {count}",
                    rows.len()
                ));
            }
            all.extend_from_slice(rows);
            needs.insert(path);
        }
        all.sort_unstable();
        let marks = Marks::of(&snapshot).map_err(|e| e.to_string())?;
        if let Some(positions) = marks.as_ref().and_then(|m| m.positions.as_ref()) {
            if let ActiveAt::Object(name) = &positions.active {
                needs.insert(name.clone());
            }
            needs.extend(positions.finished_at.clone());
        }
        let token = match &snapshot.uuid {
            Some(uuid) => uuid.clone(),
            None => format!("sha256:{}", sha256(bytes)),
        };
        Ok(Seen {
            token,
            marks,
            needs,
            rows: all,
            snapshot,
        })
    }

    async fn list(&mut self, list: &ListRef) -> Judged<Arc<Vec<ManifestFile>>> {
        if let Some(known) = self.lists.get(&list.name) {
            return Ok(Arc::clone(known));
        }
        let path = layout::manifest_path(&list.name);
        let bytes = self.needed(&path).await?;
        if list.size.is_some_and(|size| size != bytes.len() as i64) {
            return Err(format!("{path} has not the size that its snapshot says"));
        }
        let decoded = manifest_list::decode(&bytes).map_err(|e| format!("{path}: {e}"))?;
        let decoded = Arc::new(decoded);
        self.lists.insert(list.name.clone(), Arc::clone(&decoded));
        Ok(decoded)
    }

    async fn manifest(&mut self, name: &str) -> Judged<Arc<Vec<ManifestEntry>>> {
        if let Some(known) = self.manifests.get(name) {
            return Ok(Arc::clone(known));
        }
        let path = layout::manifest_path(name);
        let bytes = self.needed(&path).await?;
        let decoded = manifest::decode(&bytes).map_err(|e| format!("{path}: {e}"))?;
        let decoded = Arc::new(decoded);
        self.manifests.insert(name.to_owned(), Arc::clone(&decoded));
        Ok(decoded)
    }

    async fn rows(&mut self, path: &str) -> Judged<&Vec<i64>> {
        if !self.data.contains_key(path) {
            let bytes = self.needed(path).await?;
            self.data.insert(path.to_owned(), rows::decode(&bytes));
        }
        self.data.get(path).ok_or_else(|| format!("{path} is gone"))
    }

    async fn needed(&self, path: &str) -> Judged<bytes::Bytes> {
        match self.table.get_opt(path).await {
            Ok(Some(bytes)) => Ok(bytes),
            Ok(None) => Err(format!("C2: {path} is referred to and does not exist")),
            Err(e) => Err(e.to_string()),
        }
    }

    /// One snapshot against the ones around it and against what it says of itself.
    fn judge(&self, seen: &Seen) -> Judged {
        let id = seen.snapshot.id.0;
        let key = key_of(&seen.snapshot);
        if let Some(other) = self.keys.get(&key).filter(|other| **other != seen.token) {
            return Err(format!(
                "invariant 3: commit {} of {} is published twice: as {other} and as {} (snapshot {id})",
                key.1, key.0, seen.token
            ));
        }
        for need in &seen.needs {
            // What was read is there; only positions were not.
            if need.starts_with("tidegate/") && !self.exists(need) {
                return Err(format!(
                    "C2: snapshot {id} names {need}, which does not exist"
                ));
            }
        }
        let parent = self.visible.get(&(id - 1));
        if let Some(parent) = parent {
            if seen.snapshot.time_millis < parent.snapshot.time_millis && !self.disturbed.racing {
                return Err(format!("the clock of snapshot {id} is behind its parent's"));
            }
            if !self.disturbed.racing {
                if let Some(based_on) = seen.marks.as_ref().map(|m| m.based_on.as_deref())
                    && based_on != Some(parent.token.as_str())
                {
                    return Err(format!(
                        "the chain is broken: snapshot {id} is based on {based_on:?}, its parent is {}",
                        parent.token
                    ));
                }
                if !is_within(&parent.rows, &seen.rows) {
                    return Err(format!("C1: snapshot {id} lost rows of its parent"));
                }
            }
        }
        self.rows_match_positions(seen)?;
        self.epochs_grow(seen)?;
        self.sequences(seen)
    }

    fn exists(&self, path: &str) -> bool {
        use futures::FutureExt;
        let found = self.table.head(path).now_or_never();
        matches!(found, Some(Ok(Some(_))))
    }

    /// C1 and C4: the rows of a job in its own snapshot are those before its positions, once each.
    fn rows_match_positions(&self, seen: &Seen) -> Judged {
        let Some(marks) = &seen.marks else {
            return Ok(());
        };
        let Some(job) = self.names.iter().position(|n| *n == marks.job.as_str()) else {
            return Ok(());
        };
        // A run without rows takes over before any commit with rows: there are no positions to carry.
        if marks.empty && marks.positions.is_none() && of_job(&seen.rows, job).is_empty() {
            return Ok(());
        }
        let (Some(positions), Some(input)) = (&marks.positions, self.inputs.get(job)) else {
            return Err(format!(
                "snapshot {} of a job has no positions",
                seen.snapshot.id
            ));
        };
        let active = match &positions.active {
            ActiveAt::Inline(bytes) => bytes.clone(),
            ActiveAt::Object(name) => self.now(name)?,
        };
        let finished = match &positions.finished_at {
            Some(name) => self.now(name)?,
            None => Vec::new(),
        };
        let state = SourceState::from_positions(&Positions { active, finished });
        let expected = input.before(&state.map_err(|e| e.to_string())?)?;
        let recorded = self
            .saved
            .get(job)
            .is_some_and(|s| s.covers(marks.checkpoint.0));
        if !recorded && !self.disturbed.rewound {
            return Err(format!(
                "R-5: snapshot {} is of checkpoint {} of {}, which no record holds",
                seen.snapshot.id, marks.checkpoint, marks.job
            ));
        }
        if self.unprovable.contains(marks.job.as_str()) {
            return Ok(());
        }
        let own: Vec<i64> = of_job(&seen.rows, job);
        let first_half = seen.snapshot.commit_kind != CommitKind::Compact;
        let doubled = self.doubled.contains(&job);
        let good = match doubled {
            true => expected.iter().all(|row| own.binary_search(row).is_ok()),
            false => own == expected,
        };
        if good {
            return Ok(());
        }
        let missing: Vec<_> = expected
            .iter()
            .filter(|r| own.binary_search(r).is_err())
            .collect();
        let surplus: Vec<_> = surplus(&own, &expected);
        Err(format!(
            "C4: snapshot {} of {} (commit {}, {}) lacks {missing:?} and has {surplus:?} too many",
            seen.snapshot.id,
            marks.job,
            seen.snapshot.commit_identifier,
            if first_half { "append" } else { "compact" },
        ))
    }

    fn now(&self, name: &str) -> Judged<Vec<u8>> {
        use futures::FutureExt;
        match self.table.get(name).now_or_never() {
            Some(Ok(bytes)) => Ok(bytes.to_vec()),
            _ => Err(format!("C2: positions {name} do not exist")),
        }
    }

    /// After a commit of a newer run no older run publishes.
    fn epochs_grow(&self, seen: &Seen) -> Judged {
        let Some(marks) = &seen.marks else {
            return Ok(());
        };
        let below = self.visible.range(..seen.snapshot.id.0).rev();
        let mut own = below.filter_map(|(id, s)| Some((id, s.marks.as_ref()?)));
        match own.find(|(_, m)| m.job == marks.job) {
            Some((id, before)) if before.epoch > marks.epoch => Err(format!(
                "R-5: epoch {} of {} published snapshot {} after epoch {} had published {id}",
                marks.epoch, marks.job, seen.snapshot.id, before.epoch
            )),
            _ => Ok(()),
        }
    }

    /// Invariant 7: sequence numbers of a job in a bucket never overlap.
    fn sequences(&self, seen: &Seen) -> Judged {
        // Without buckets there are none.
        let in_bucket =
            |path: &String| path.starts_with("bucket-") && !path.starts_with("bucket--");
        if !seen.needs.iter().any(in_bucket) {
            return Ok(());
        }
        let mut ranges: BTreeMap<(i32, String), Vec<(i64, i64)>> = BTreeMap::new();
        let lists = [
            &seen.snapshot.base_manifest_list,
            &seen.snapshot.delta_manifest_list,
        ];
        let mut live: BTreeMap<&str, &ManifestEntry> = BTreeMap::new();
        let manifests = lists.iter().filter_map(|list| self.lists.get(&list.name));
        for entry in manifests
            .flat_map(|files| files.iter())
            .filter_map(|file| self.manifests.get(&file.file_name))
            .flat_map(|entries| entries.iter())
        {
            match entry.kind {
                EntryKind::Add => live.insert(&entry.file.file_name, entry),
                EntryKind::Delete => live.remove(entry.file.file_name.as_str()),
            };
        }
        for entry in live.values().filter(|e| e.bucket.0 >= 0) {
            // `data-tg<user>e<epoch>-…`: whose file it is.
            let name = &entry.file.file_name;
            let Some(user) = name.strip_prefix("data-tg").and_then(|rest| rest.get(..8)) else {
                continue;
            };
            let range = (
                entry.file.min_sequence_number,
                entry.file.max_sequence_number,
            );
            let of_bucket = ranges.entry((entry.bucket.0, user.to_owned())).or_default();
            if let Some(other) = of_bucket.iter().find(|o| o.0 <= range.1 && range.0 <= o.1) {
                return Err(format!(
                    "invariant 7: sequence numbers {range:?} of {name} overlap {other:?} in bucket {} of \
                     snapshot {}",
                    entry.bucket, seen.snapshot.id
                ));
            }
            of_bucket.push(range);
        }
        Ok(())
    }

    /// Invariant 9: ids are dense. Where snapshots expire, what was created below them is invisible.
    fn dense(&self) -> Judged {
        let mut last: Option<i64> = None;
        for id in self.visible.keys() {
            if let Some(before) = last.filter(|before| before + 1 != *id)
                && !self.disturbed.expiry
                && !self.disturbed.rewound
            {
                return Err(format!("invariant 9: snapshot {id} follows {before}"));
            }
            last = Some(*id);
        }
        Ok(())
    }

    /// What a job was told is in the newest snapshot.
    fn acknowledged_are_there(&self) -> Judged {
        if self.disturbed.racing || self.disturbed.rewound {
            return Ok(());
        }
        let rows = self
            .newest()
            .map(|seen| seen.rows.as_slice())
            .unwrap_or_default();
        for (job, acknowledged) in self.acknowledged.iter().enumerate() {
            let lost: Vec<_> = acknowledged
                .iter()
                .filter(|row| rows.binary_search(row).is_err())
                .collect();
            if !lost.is_empty() {
                return Err(format!(
                    "C1: acknowledged rows of job {job} are lost: {lost:?}"
                ));
            }
        }
        Ok(())
    }

    /// A job was told that this commit is published.
    pub(crate) fn acknowledge(&mut self, job: usize, published: &Published) -> Judged {
        self.acknowledgements += 1;
        let id = i64::try_from(published.version).unwrap_or(i64::MAX);
        let all = self.ever.get(&id).map(Vec::as_slice).unwrap_or_default();
        let Some(seen) = all.iter().find(|seen| seen.token == published.token) else {
            // Only files tell of a commit whose snapshot expired, or lies below one that does not say what it
            // was built on; then there is no token.
            if published.token.is_empty() && (self.disturbed.any() || self.disturbed.unchained) {
                return Ok(());
            }
            return Err(format!(
                "job {job} was told that commit {} is snapshot {id} ({}), which never was",
                published.identifier, published.token
            ));
        };
        let marks = seen.marks.as_ref();
        if seen.snapshot.commit_identifier != published.identifier
            || published.digest.is_some() && marks.map(|m| m.digest) != published.digest
        {
            return Err(format!(
                "R-5: job {job} was told that its commit {} is snapshot {id}, which has other content",
                published.identifier
            ));
        }
        let rows = of_job(&seen.rows, job);
        if let Some(acknowledged) = self.acknowledged.get_mut(job) {
            acknowledged.extend(rows);
        }
        self.acknowledged_are_there()
    }

    /// Something was deleted: what went, and whether it was still needed.
    async fn vanished(&mut self, ours: bool) -> Judged {
        let listed = self.table.list("").await.map_err(|e| e.to_string())?;
        let there: HashSet<&str> = listed.iter().map(|meta| meta.path.as_str()).collect();
        let newest = self.visible.keys().next_back().copied();
        let takes_metadata = !ours && self.disturbed.expiry;
        let mut gone: Vec<i64> = Vec::new();
        for (id, seen) in &self.visible {
            let path = layout::snapshot_path(tidegate_model::SnapshotId(*id));
            if !there.contains(path.as_str()) {
                gone.push(*id);
            } else if takes_metadata
                && (Some(*id) != newest || self.disturbed.racing)
                && seen.needs.iter().any(|need| !there.contains(need.as_str()))
            {
                // Its file goes last: until then it is listed, and nobody can read it.
                self.condemned.insert(*id);
                gone.push(*id);
            }
        }
        for id in gone {
            let Some(seen) = self.visible.remove(&id) else {
                continue;
            };
            let gone = self.replaced.iter().filter(|(replaced, _)| *replaced == id);
            self.unprovable.extend(gone.map(|(_, job)| job.clone()));
            if !ours {
                let stays = |need: &&String| !need.starts_with("manifest/");
                self.expired
                    .extend(seen.needs.iter().filter(stays).cloned());
            }
            if ours {
                if !self.disturbed.any() {
                    return Err(format!("snapshot {id} was deleted by a job"));
                }
                // Rolled back, or never visible to anybody: it may be published again.
                self.keys.remove(&key_of(&seen.snapshot));
            }
        }
        for (id, seen) in &self.visible {
            if let Some(lost) = seen
                .needs
                .iter()
                .find(|need| !there.contains(need.as_str()))
            {
                return Err(format!(
                    "C2: {lost} was deleted, and snapshot {id} needs it"
                ));
            }
        }
        if !self.disturbed.any() {
            let published = |user: &str, identifier: i64, compacts: bool| {
                self.keys
                    .contains_key(&(user.to_owned(), identifier, compacts))
            };
            let lost = |saved: &Saved| saved.lost(published, |path| there.contains(path));
            if let Some(lost) = self.saved.iter().find_map(lost) {
                return Err(format!(
                    "C6: {lost} was deleted, and the newest record needs it"
                ));
            }
        }
        self.dense()
    }

    /// C1 at the end: every row of a finished job, once.
    pub(crate) fn finished(&self, job: usize) -> Judged {
        let Some(input) = self.inputs.get(job) else {
            return Ok(());
        };
        // What put over its snapshot has expired before the job looked: nothing can tell.
        let name = self.names.get(job).map(String::as_str);
        if name.is_some_and(|name| self.unprovable.contains(name)) {
            return Ok(());
        }
        let rows = self
            .newest()
            .map(|seen| seen.rows.as_slice())
            .unwrap_or_default();
        let own = of_job(rows, job);
        let all = input.all();
        let good = match self.doubled.contains(&job) {
            true => all.iter().all(|row| own.binary_search(row).is_ok()),
            false => own == all,
        };
        if good {
            return Ok(());
        }
        let missing: Vec<_> = all
            .iter()
            .filter(|row| own.binary_search(row).is_err())
            .collect();
        let surplus = surplus(&own, &all);
        Err(format!(
            "C1: job {job} has finished and lacks {missing:?}, {surplus:?} are too many"
        ))
    }

    /// The rows of each visible snapshot, for the trace.
    pub(crate) fn outline(&self) -> String {
        let ids = self
            .visible
            .iter()
            .map(|(id, seen)| format!("{id}:{}", seen.rows.len()));
        ids.collect::<Vec<_>>().join(" ")
    }
}

fn sha256(bytes: &[u8]) -> String {
    use sha2::{Digest, Sha256};
    let digest = Sha256::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
