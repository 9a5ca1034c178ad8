//! A table in memory: what the store holds, and what readers saw.
//!
//! Owns: the one conditional create, puts that land late, the objects of snapshots, and what must
//! hold of them. Does not own: the answers to steps ([`effects`](crate::effects)).
//!
//! Names are canonical: where a real committer draws a random name, here it is the smallest free one
//! of its author and purpose. Two states that differ in random names only are one state.

use crate::invariant::{Broken, Invariant};
use crate::jobs;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use tidegate_model::ids::{CommitIdentifier, CommitUser, Digest, Epoch, SnapshotId};
use tidegate_protocol::merge::ManifestSummary;
use tidegate_protocol::{Draft, FileId, Garbage, Half, ObjectId, SnapshotFact, Token};

/// A metadata object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Object {
    /// Entries: true = ADD.
    Manifest(Arc<[(bool, FileId)]>),
    /// Manifests.
    List(Arc<[ObjectId]>),
}

/// What a metadata object is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The changes of a commit.
    Delta,
    /// The list of those.
    DeltaList,
    /// The list of all manifests before.
    BaseList,
    /// Some of those rewritten.
    Merged,
}

/// Who writes, and what for: the source of canonical names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Author {
    /// Number of the job.
    pub job: u64,
    /// Run of the job.
    pub epoch: u64,
    /// Which commit.
    pub identifier: i64,
    /// The newest snapshot when it was read last.
    pub base: i64,
}

/// A commit that a person rolled back, so that somebody can tell.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Told {
    /// Whose.
    pub user: CommitUser,
    /// Which.
    pub identifier: CommitIdentifier,
    /// Which half.
    pub half: Half,
    /// Its content.
    pub digest: Digest,
    /// The run that knows; `None` = every one, by the note.
    pub run: Option<Epoch>,
}

/// The store's content and what became of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// Snapshots in the store.
    pub snapshots: BTreeMap<i64, Arc<Draft>>,
    /// All that ever became visible, expired ones included.
    pub history: Vec<Arc<Draft>>,
    /// Metadata objects in the store.
    pub objects: BTreeMap<ObjectId, Object>,
    /// Data files in the store.
    pub files: BTreeSet<FileId>,
    /// Publishes that were sent and may still arrive.
    pub late: Vec<Arc<Draft>>,
    /// Snapshots that were created below the retained history.
    pub buried: BTreeSet<i64>,
    /// Those on a base that had expired and was created again by a late request of its own.
    pub vouched: BTreeSet<Token>,
    /// Made where the snapshot below was gone and older ones stood: somebody had rolled back.
    pub above_a_hole: BTreeSet<Token>,
    /// Snapshots that were put over or rolled back.
    pub gone: BTreeSet<Token>,
    /// What foreign committers read, and build on.
    pub reading: Vec<Option<Arc<Draft>>>,
    /// Foreign commits that became visible.
    pub foreign: u64,
    /// Jobs whose rows may be there twice, since a person said so.
    pub doubled: BTreeSet<u64>,
    /// Rolled back, so that somebody can tell.
    pub told: Vec<Told>,
    /// Somebody outside the protocol takes away what was visible.
    pub disturbed: bool,
}

impl Hash for Table {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.snapshots.hash(state);
        // The rest of it stood in the store once.
        for draft in &self.history {
            draft.token.hash(state);
        }
        self.objects.hash(state);
        self.files.hash(state);
        self.late.hash(state);
        self.buried.hash(state);
        self.vouched.hash(state);
        self.above_a_hole.hash(state);
        self.gone.hash(state);
        for base in &self.reading {
            base.as_ref().map(|d| &d.token).hash(state);
        }
        self.foreign.hash(state);
        self.doubled.hash(state);
        self.told.hash(state);
    }
}

impl Table {
    /// Stores an object under the smallest free name.
    pub fn put(&mut self, purpose: Purpose, half: Half, by: &Author, object: Object) -> ObjectId {
        // What does not depend on the base is not named after it.
        let base = match purpose {
            Purpose::Delta | Purpose::DeltaList => 0,
            Purpose::BaseList | Purpose::Merged => by.base.unsigned_abs(),
        };
        let parts = [
            by.job,
            by.epoch,
            by.identifier.unsigned_abs(),
            u64::from(half == Half::Compact),
            purpose as u64,
            base,
        ];
        let stem = parts.into_iter().fold(1, |name, part| name * 32 + part) * 32;
        let mut id = ObjectId(stem);
        while self.objects.contains_key(&id) {
            id.0 += 1;
        }
        self.objects.insert(id, object);
        id
    }

    /// The run that wrote an object: job and epoch.
    pub fn writer(id: ObjectId) -> (u64, u64) {
        let at = |place: u32| id.0 / 32u64.pow(place) % 32;
        (at(6), at(5))
    }

    /// A token that nothing in the table carries.
    pub fn fresh_token(&self, by: &Author) -> Token {
        let id = by.base + 1;
        let stem = format!("{}.{}.{}@{id}", by.job, by.epoch, by.identifier);
        let taken = |token: &Token| {
            let late = self.late.iter().any(|d| d.token == *token);
            late || self.history.iter().any(|d| d.token == *token)
                || self.snapshots.values().any(|d| d.token == *token)
        };
        let mut n = 0;
        loop {
            let token = Token::new(format!("{stem}#{n}"));
            if !taken(&token) {
                return token;
            }
            n += 1;
        }
    }

    fn list(&self, id: ObjectId) -> Result<Arc<[ObjectId]>, Broken> {
        match self.objects.get(&id) {
            Some(Object::List(list)) => Ok(list.clone()),
            _ => Err(Broken::new(Invariant::Exists, format!("list {id} is gone"))),
        }
    }

    /// The entries of a manifest.
    pub fn entries(&self, id: ObjectId) -> Result<Arc<[(bool, FileId)]>, Broken> {
        match self.objects.get(&id) {
            Some(Object::Manifest(entries)) => Ok(entries.clone()),
            _ => Err(Broken::new(
                Invariant::Exists,
                format!("manifest {id} is gone"),
            )),
        }
    }

    /// All manifests of a snapshot, in order.
    pub fn manifests(&self, draft: &Draft) -> Result<Vec<ObjectId>, Broken> {
        let mut all = self.list(draft.base_list)?.to_vec();
        all.extend(self.list(draft.delta_list)?.iter());
        Ok(all)
    }

    /// Live files; an ADD of a live file and a DELETE of one that is not are errors.
    pub fn live(&self, draft: &Draft) -> Result<BTreeSet<FileId>, Broken> {
        let mut live = BTreeSet::new();
        for manifest in self.manifests(draft)? {
            for (is_add, file) in self.entries(manifest)?.iter() {
                let fits = if *is_add {
                    live.insert(*file)
                } else {
                    live.remove(file)
                };
                if !fits {
                    let what = if *is_add {
                        "added twice"
                    } else {
                        "removed and not there"
                    };
                    let why = format!("snapshot {}: {file} is {what}", draft.id);
                    return Err(Broken::new(Invariant::Rows, why));
                }
            }
        }
        Ok(live)
    }

    /// What a manifest list tells of a manifest.
    pub fn summary(&self, id: ObjectId) -> Result<ManifestSummary, Broken> {
        let entries = self.entries(id)?;
        let added = entries.iter().filter(|(is_add, _)| *is_add).count() as u64;
        let deleted = entries.len() as u64 - added;
        Ok(ManifestSummary {
            id,
            size: 10 * (added + deleted),
            added,
            deleted,
        })
    }

    /// The newest snapshot in the store.
    pub fn newest(&self) -> Option<&Arc<Draft>> {
        self.snapshots.values().next_back()
    }

    /// The one conditional create: true where the name was free.
    pub fn create(&mut self, draft: &Arc<Draft>) -> Result<bool, Broken> {
        if self.snapshots.contains_key(&draft.id.0) {
            return Ok(false);
        }
        let newest = self.snapshots.keys().next_back().copied();
        self.snapshots.insert(draft.id.0, draft.clone());
        if newest.is_some_and(|newest| draft.id.0 < newest) {
            // The store cannot know that the snapshots around it expired: it lies below the retained
            // history and no reader gets there.
            self.buried.insert(draft.id.0);
            if self.buried.contains(&(draft.id.0 - 1)) {
                self.vouched.insert(draft.token.clone());
            }
            return Ok(true);
        }
        if newest.is_some_and(|newest| newest + 1 < draft.id.0) {
            self.above_a_hole.insert(draft.token.clone());
        }
        self.history.push(draft.clone());
        self.check_newest()?;
        Ok(true)
    }

    /// A put by a committer that does not create conditionally: whatever stands there is gone.
    pub fn put_over(&mut self, draft: &Arc<Draft>) -> Result<(), Broken> {
        let newest = self.snapshots.keys().next_back();
        if newest.is_none_or(|newest| draft.id.0 > *newest) {
            return self.create(draft).map(|_| ());
        }
        if let Some(old) = self.snapshots.insert(draft.id.0, draft.clone()) {
            self.gone.insert(old.token.clone());
        }
        self.history.push(draft.clone());
        Ok(())
    }

    /// Removes the snapshots from `first` on, newest first. Foreign committers that build on them were
    /// stopped before: they would publish above a hole.
    pub fn roll_back(&mut self, first: SnapshotId) -> Vec<Arc<Draft>> {
        let mut removed = Vec::new();
        while let Some(newest) = self.snapshots.last_entry().filter(|e| *e.key() >= first.0) {
            self.buried.remove(newest.key());
            let draft = newest.remove();
            self.gone.insert(draft.token.clone());
            self.reading
                .retain(|base| base.as_ref().is_none_or(|b| b.token != draft.token));
            removed.push(draft);
        }
        removed
    }

    /// A publish that was sent arrives some time.
    pub fn send_late(&mut self, draft: Arc<Draft>) {
        if !self.late.contains(&draft) {
            self.late.push(draft);
            self.late.sort_by(|a, b| a.token.cmp(&b.token));
        }
    }

    /// True where a put of it, should it arrive, makes a snapshot that readers get to.
    pub fn may_be_seen(&self, draft: &Draft) -> bool {
        let newest = self.snapshots.keys().next_back();
        newest.is_none_or(|newest| draft.id.0 > *newest)
    }

    /// Forgets late puts whose name is taken: they can do nothing. Only where no name becomes free
    /// again.
    pub fn forget_harmless(&mut self) {
        let snapshots = &self.snapshots;
        self.late.retain(|d| !snapshots.contains_key(&d.id.0));
    }

    /// The oldest snapshot goes; true where there was one to spare.
    pub fn expire(&mut self) -> bool {
        if self.snapshots.len() < 2 {
            return false;
        }
        if let Some((id, _)) = self.snapshots.pop_first() {
            self.buried.remove(&id);
        }
        true
    }

    /// Created late, below the retained history, and right below a foreign snapshot, which does not say what
    /// it was built on: then a driver asks EARLIEST, where readers begin \[C-51a].
    pub fn is_hidden(&self, id: i64) -> bool {
        let above = self.snapshots.get(&(id + 1));
        self.buried.contains(&id) && above.is_some_and(|above| above.job.is_none())
    }

    /// True where readers saw it. Excused is what was built on a base that had expired and was created
    /// again by a late request of its own, so that it vouches for it.
    pub fn was_visible(&self, id: SnapshotId, token: &Token) -> bool {
        self.history.iter().any(|d| d.token == *token)
            || self.vouched.contains(token)
            || self.buried.contains(&(id.0 - 1))
    }

    /// The objects that a snapshot names.
    fn objects_of(&self, draft: &Draft) -> BTreeSet<ObjectId> {
        let mut all = BTreeSet::new();
        for list in [draft.base_list, draft.delta_list] {
            all.insert(list);
            if let Ok(manifests) = self.list(list) {
                all.extend(manifests.iter());
            }
        }
        all
    }

    /// Objects and files that snapshots in the store name; files by any entry, ADD or DELETE.
    pub fn referenced(&self) -> BTreeSet<Garbage> {
        let mut all = BTreeSet::new();
        for draft in self.snapshots.values() {
            for object in self.objects_of(draft) {
                all.insert(Garbage::Object(object));
                if let Some(Object::Manifest(entries)) = self.objects.get(&object) {
                    all.extend(entries.iter().map(|(_, file)| Garbage::File(*file)));
                }
            }
        }
        all
    }

    /// Deletes; an error where somebody needs it or may need it.
    pub fn delete(&mut self, garbage: &[Garbage]) -> Result<(), Broken> {
        // What lies below the retained history no reader gets to.
        let seen = self
            .snapshots
            .iter()
            .filter(|(id, _)| !self.buried.contains(id));
        let snapshots: Vec<Arc<Draft>> = seen.map(|(_, draft)| draft.clone()).collect();
        for item in garbage {
            match item {
                Garbage::Object(id) => {
                    let names = |d: &&Arc<Draft>| self.objects_of(d).contains(id);
                    if let Some(draft) = snapshots.iter().find(names) {
                        let why = format!("snapshot {} names {id}, which is deleted", draft.id);
                        return Err(Broken::new(Invariant::Exists, why));
                    }
                    let may_land = |d: &&Arc<Draft>| self.may_be_seen(d);
                    let late = self.late.iter().filter(may_land).find(names);
                    if let Some(draft) = late {
                        let why = format!(
                            "{id} is deleted, and the put of snapshot {} that names it may arrive",
                            draft.id
                        );
                        return Err(Broken::new(Invariant::Undecided, why));
                    }
                    self.objects.remove(id);
                }
                Garbage::File(file) => {
                    for draft in &snapshots {
                        if self.live(draft)?.contains(file) {
                            let why =
                                format!("{file} is deleted and live in snapshot {}", draft.id);
                            return Err(Broken::new(Invariant::Exists, why));
                        }
                    }
                    self.files.remove(file);
                }
                Garbage::Snapshot(id) => {
                    if self.snapshots.contains_key(&id.0) && !self.buried.remove(&id.0) {
                        let why = format!("snapshot {id} is deleted, and readers see it");
                        return Err(Broken::new(Invariant::Exists, why));
                    }
                    self.snapshots.remove(&id.0);
                }
            }
        }
        Ok(())
    }

    /// Forgets what a dead run left and nothing can name any more: whether it lies there matters to
    /// nobody but a cleaner, for whom it is garbage.
    pub fn forget_garbage(&mut self, job: u64, epoch: u64) {
        let read = self.reading.iter().flatten();
        let drafts = self.snapshots.values().chain(&self.late).chain(read);
        let used: BTreeSet<ObjectId> = drafts.flat_map(|d| self.objects_of(d)).collect();
        self.objects
            .retain(|id, _| Self::writer(*id) != (job, epoch) || used.contains(id));
    }

    /// Objects that no snapshot ever named.
    pub fn left_over(&self) -> Vec<ObjectId> {
        let named: BTreeSet<ObjectId> = self
            .history
            .iter()
            .flat_map(|d| self.objects_of(d))
            .collect();
        let all = self.objects.keys();
        all.filter(|id| !named.contains(id)).copied().collect()
    }

    /// The identity part of a snapshot.
    pub fn fact(draft: &Draft) -> SnapshotFact {
        SnapshotFact {
            id: draft.id,
            token: draft.token.clone(),
            user: draft.user.clone(),
            identifier: draft.identifier,
            kind: draft.kind,
            job: draft.job.clone(),
            epoch: draft.epoch,
            // A foreign one carries nothing of ours.
            digest: draft.job.as_ref().map(|_| draft.digest),
            positions: draft.positions,
            based_on: draft.based_on.clone(),
            empty: draft.empty,
        }
    }

    /// What must hold of a snapshot that just became visible.
    fn check_newest(&self) -> Result<(), Broken> {
        let Some((draft, before)) = self.history.split_last() else {
            return Ok(());
        };
        if draft.job.is_none() {
            return Ok(());
        }
        let broken = |invariant, why: String| Err(Broken::new(invariant, why));
        let told = |t: &&Told| {
            (&t.user, t.identifier, t.half, t.digest)
                == (&draft.user, draft.identifier, draft.half, draft.digest)
                && t.run.is_none_or(|run| Some(run) == draft.epoch)
        };
        if self.told.iter().any(|t| told(&t)) {
            let why = format!(
                "{}/{} {} was rolled back and is snapshot {} again",
                draft.user, draft.identifier, draft.half, draft.id
            );
            return broken(Invariant::Undone, why);
        }
        let same = |d: &&Arc<Draft>| {
            (&d.user, d.identifier, d.half) == (&draft.user, draft.identifier, draft.half)
                && !self.gone.contains(&d.token)
        };
        if let Some(first) = before.iter().find(same) {
            let why = format!(
                "{}/{} {} is snapshot {} and snapshot {}",
                draft.user, draft.identifier, draft.half, first.id, draft.id
            );
            return broken(Invariant::Once, why);
        }
        let built_on =
            |d: &&Arc<Draft>| d.id.next() == draft.id && Some(&d.token) == draft.based_on.as_ref();
        let parent = match self.disturbed {
            false => before.last(),
            true => before.iter().find(built_on),
        };
        let follows = parent.map_or(SnapshotId::FIRST, |p| p.id.next());
        if draft.id != follows || draft.based_on.as_ref() != parent.map(|p| &p.token) {
            let on = parent.map_or_else(|| "nothing".to_owned(), |p| p.id.to_string());
            let why = format!("snapshot {} is not built on {on}", draft.id);
            return broken(Invariant::Dense, why);
        }
        if let Some(parent) = parent
            && (draft.time_millis <= parent.time_millis || draft.watermark < parent.watermark)
        {
            let why = format!("snapshot {}: time or watermark moves back", draft.id);
            return broken(Invariant::Monotone, why);
        }
        let newer = |d: &&Arc<Draft>| {
            d.user == draft.user && d.epoch > draft.epoch && !self.gone.contains(&d.token)
        };
        if let Some(newer) = before.iter().find(newer) {
            let why = format!(
                "snapshot {} is by an older run than snapshot {}",
                draft.id, newer.id
            );
            return broken(Invariant::Fenced, why);
        }
        let live = self.live(draft)?;
        if let Some(file) = live.iter().find(|file| !self.files.contains(file)) {
            let why = format!("snapshot {} names {file}, which is gone", draft.id);
            return broken(Invariant::Exists, why);
        }
        match self.disturbed {
            false => jobs::check_rows(draft, &live),
            true => jobs::check_own_rows(draft, &live, &self.doubled),
        }
    }
}
