//! Carries protocol steps out against a store: a step in, a fact out.
//!
//! Owns what the committer knows of the table between commits (the newest snapshot with its
//! manifests, the newest schema id) and the state of the running attempt. Decides nothing.

mod write;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, StreamExt, TryStreamExt};
use tidegate_model::{ManifestEntry, ManifestFile, SchemaId, SnapshotId, TableSchema, layout};
use tidegate_protocol::{
    Attempt, BaseFact, Draft, Fact, FileId, Garbage, LatestFact, LiveFile, ObjectId, PartitionId,
    SnapshotFact, Step, Token, WritePlan,
};
use tidegate_sink::Committable as Framed;
use tidegate_storage::Store;

use crate::committable::Decoded;
use crate::env::{self, Env};
use crate::error::{CommitError, Result};
use crate::live;
use crate::manifests::{Encoded, ManifestSettings};
use crate::meta::{Meta, PARALLEL, Visible};
use crate::names::MetadataNames;
use crate::paths::Paths;
use crate::properties::PositionMarks;
use crate::publish::{Carried, draft_snapshot, hint_latest, publish};
use crate::registry::{DELETION_VECTORS, Object, Partitions, Registry, place_of};

use write::{WriteJob, write_object};

/// How long a schema counts as the newest one while nobody else commits.
const SCHEMA_LOOK_MILLIS: i64 = 60_000;

/// The newest snapshot that the committer knows, with all its manifests in order.
#[derive(Clone, Debug)]
pub(crate) struct Tip {
    pub(crate) visible: Visible,
    pub(crate) manifests: Arc<[ManifestFile]>,
}

/// What the committer knows of the newest snapshot.
#[derive(Clone, Debug)]
pub(crate) enum Known {
    /// Nothing was read yet.
    Nothing,
    /// The table had no snapshot.
    Empty,
    /// This one was the newest.
    Tip(Box<Tip>),
}

/// What stays from one commit to the next.
#[derive(Debug)]
pub(crate) struct Executor {
    pub(crate) meta: Meta,
    pub(crate) schema: Arc<TableSchema>,
    pub(crate) newest_schema: SchemaId,
    pub(crate) paths: Paths,
    pub(crate) manifest_settings: ManifestSettings,
    pub(crate) names: MetadataNames,
    pub(crate) partitions: Partitions,
    pub(crate) known: Known,
    /// Somebody else committed between our last two looks: look for a successor before building.
    pub(crate) contended: bool,
    /// When a newer schema was last looked for, epoch milliseconds.
    pub(crate) schema_looked_at: i64,
    /// Side objects that the newest published snapshot of ours names: they exist.
    pub(crate) published_objects: HashSet<String>,
}

/// One commit under way. Lives in the committer, not in its future: a dropped future is taken up
/// again at the step where it was \[R-18].
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) framed: Framed,
    pub(crate) decoded: Decoded,
    pub(crate) attempt: Attempt,
    pub(crate) registry: Registry,
    /// The manifests of the lists that this commit wrote.
    lists: HashMap<ObjectId, Vec<ManifestFile>>,
    /// The bytes of the last draft, made once.
    draft: Option<(Token, Visible)>,
    /// Objects of a step that is not over: no later step refers to them if it is done again.
    unfinished: Vec<String>,
    /// Snapshots read during this commit.
    met: BTreeMap<SnapshotId, Visible>,
    /// When `commit.timeout` is over, epoch milliseconds.
    pub(crate) deadline: Option<i64>,
    pub(crate) positions: Option<PositionMarks>,
    side_objects: Vec<(String, Vec<u8>)>,
    /// The latest fault of the store, for the error that the caller gets.
    pub(crate) fault: Option<CommitError>,
    empty: bool,
    /// This very committer made the committable and offers it for the first time: only a run with a
    /// newer registration could have published it.
    pub(crate) fresh: bool,
}

impl Running {
    pub(crate) fn new(
        framed: Framed,
        decoded: Decoded,
        attempt: Attempt,
        registry: Registry,
        fresh: bool,
    ) -> Self {
        let committable = attempt.committable();
        let empty = committable.append.is_empty() && committable.compact.is_empty();
        let extras = decoded.extras.as_ref();
        let marks =
            extras.and_then(|e| Some(PositionMarks::of(&e.job, e.epoch, e.positions.as_ref()?)));
        let (positions, side_objects) = marks.map_or((None, Vec::new()), |(m, o)| (Some(m), o));
        Self {
            framed,
            decoded,
            attempt,
            registry,
            lists: HashMap::new(),
            draft: None,
            unfinished: Vec::new(),
            met: BTreeMap::new(),
            deadline: None,
            positions,
            side_objects,
            fault: None,
            empty,
            fresh,
        }
    }

    /// True where compactions of this commit change deletion vectors.
    fn changes_vectors(&self) -> bool {
        let changes = &self.attempt.committable().compact;
        let index = changes.index_added.iter().chain(&changes.index_deleted);
        index.into_iter().any(|i| i.deletion_vectors)
    }

    /// True where this is the commit of that committable.
    pub(crate) fn is_of(&self, framed: &Framed) -> bool {
        self.framed.user == framed.user
            && self.framed.identifier == framed.identifier
            && self.framed.digest == framed.digest
    }

    fn timed_out(&self, env: &dyn Env) -> bool {
        self.deadline
            .is_some_and(|deadline| env.now_millis() >= deadline)
    }
}

impl Executor {
    /// Carries one step out. An error is a fault of ours or of stored bytes; faults of the store are
    /// facts.
    pub(crate) async fn perform(&mut self, running: &mut Running, step: Step) -> Result<Fact> {
        let result = match step {
            Step::ReadLatest => self.read_latest(running).await.map(Fact::Latest),
            Step::ReadHistory { from, to } => self
                .read_history(running, from, to)
                .await
                .map(Fact::History),
            Step::ReadLive { partitions, .. } => {
                self.read_live(running, &partitions).await.map(Fact::Live)
            }
            Step::ReadBuckets { partitions, .. } => {
                self.read_buckets(&partitions).await.map(Fact::Buckets)
            }
            Step::CheckFiles(files) => self.check_files(running, &files).await.map(Fact::Absent),
            Step::Write(plan) => return self.write(running, plan).await,
            Step::Publish(draft) => return self.publish(running, &draft).await,
            Step::ReadAgain(id) => self.read_again(id).await.map(Fact::Again),
            Step::FindRetained => self.find_retained().await.map(Fact::Retained),
            Step::Announce(draft) => return self.announce(running, &draft).await,
            Step::Delete(garbage) => {
                return self.delete(running, &garbage).await.map(Fact::Deleted);
            }
            Step::BackOff(n) => return Ok(self.back_off(running, n).await),
            Step::Done(_) => {
                return Err(CommitError::corrupt("protocol", "asks to perform the end"));
            }
        };
        match result {
            Ok(fact) => Ok(fact),
            Err(error) => Ok(failed(running, error, Vec::new())),
        }
    }

    async fn read_latest(&mut self, running: &mut Running) -> Result<LatestFact> {
        let probe = self.contended || running.empty;
        // Files of this commit may be of a schema that nobody has committed with yet.
        let messages = running.decoded.java.messages.iter();
        let files = messages.flat_map(|m| m.data.new_files.iter().chain(&m.compact.compact_after));
        if files.map(|file| file.schema_id).max() > Some(self.newest_schema) {
            self.schema_looked_at = i64::MIN;
        }
        // What was met for an earlier attempt may have been put over since.
        running.met.clear();
        self.refresh(Some(&mut running.met), probe).await?;
        let base = match &self.known {
            Known::Tip(tip) => Some(base_fact(tip, running)?),
            Known::Empty | Known::Nothing => None,
        };
        let env = &self.meta.env;
        Ok(LatestFact {
            base,
            schema: self.newest_schema,
            now_millis: env.now_millis(),
            token: Token::new(env::uuid(env.as_ref())),
        })
    }

    /// Brings what is known up to what the store shows.
    ///
    /// A known tip is read again and compared byte by byte: it must still be there, since after an
    /// expiry or a rollback its number + 1 would not be the next one \[C-51a], \[C-72]. Whether it is
    /// still the newest one, the publish itself finds out; it is looked for here where a lost race
    /// is likely or nothing will be published (`probe`). A newer schema is looked for now and then
    /// (docs/decisions/commit.md), and whenever somebody else committed.
    pub(crate) async fn refresh(
        &mut self,
        met: Option<&mut BTreeMap<SnapshotId, Visible>>,
        probe: bool,
    ) -> Result<()> {
        let known = match &self.known {
            Known::Tip(tip) => Some(tip.visible.clone()),
            Known::Empty | Known::Nothing => None,
        };
        let now = self.meta.env.now_millis();
        let unlooked = now.saturating_sub(self.schema_looked_at).saturating_abs();
        let due = unlooked >= SCHEMA_LOOK_MILLIS;
        let mut look = probe || due || known.is_none();
        let newest = find_newest(&self.meta, known, probe);
        let schema = async {
            match look {
                true => self.meta.schema_id_from(self.newest_schema).await,
                false => Ok(self.newest_schema),
            }
        };
        let (mut schema, found) = futures::future::try_join(schema, newest).await?;
        if let Some(newest) = found.last() {
            let same = matches!(&self.known, Known::Tip(t) if t.visible.bytes == newest.bytes);
            schema = schema.max(newest.snapshot.schema_id);
            if !same && !look {
                look = true;
                schema = self.meta.schema_id_from(schema).await?;
            }
        }
        if look {
            self.schema_looked_at = now;
        }
        self.newest_schema = schema;
        let Some(newest) = found.last() else {
            self.known = Known::Empty;
            return Ok(());
        };
        let same = matches!(&self.known, Known::Tip(tip) if tip.visible.bytes == newest.bytes);
        if !same {
            self.contended |= matches!(self.known, Known::Tip(_));
            let manifests = self.meta.manifests(&newest.snapshot).await?.into();
            self.known = Known::Tip(Box::new(Tip {
                visible: newest.clone(),
                manifests,
            }));
        } else {
            self.contended = false;
        }
        if let Some(met) = met {
            met.extend(found.into_iter().map(|v| (v.snapshot.id, v)));
        }
        Ok(())
    }

    async fn read_history(
        &mut self,
        running: &mut Running,
        from: SnapshotId,
        to: SnapshotId,
    ) -> Result<Vec<SnapshotFact>> {
        let unread: Vec<SnapshotId> = (from.0..=to.0)
            .map(SnapshotId)
            .filter(|id| !running.met.contains_key(id))
            .collect();
        for visible in self.meta.snapshots_of(unread).await? {
            running.met.insert(visible.snapshot.id, visible);
        }
        let first = self.first_real(running, from, to).await?;
        running
            .met
            .range(from..=to)
            .filter(|(id, _)| first.is_none_or(|first| **id >= first))
            .map(|(_, visible)| visible.fact())
            .collect()
    }

    /// Where a snapshot of ours stands below one that does not say what it was built on, readers' first
    /// snapshot tells whether that is history or was created late, below it \[C-51a].
    async fn first_real(
        &self,
        running: &Running,
        from: SnapshotId,
        to: SnapshotId,
    ) -> Result<Option<SnapshotId>> {
        let ledger = running.attempt.ledger();
        let known = ledger.covered().map(|covered| covered.to);
        let newest = running.met.last_key_value().map(|(id, _)| *id);
        for (id, visible) in running.met.range(from..=to) {
            let ours = visible.snapshot.commit_user == running.framed.user;
            if !ours || known == Some(*id) || ledger.entries().any(|entry| entry.id == *id) {
                continue;
            }
            let Some(above) = running.met.get(&id.next()) else {
                continue;
            };
            if above.fact()?.based_on.is_none() {
                return self.meta.earliest(newest.unwrap_or(*id)).await;
            }
        }
        Ok(None)
    }

    fn tip(&self) -> Result<&Tip> {
        match &self.known {
            Known::Tip(tip) => Ok(tip),
            _ => Err(CommitError::corrupt(
                "protocol",
                "asks for files of a table without snapshots",
            )),
        }
    }

    async fn live_of(&self, partitions: &[PartitionId]) -> Result<Vec<ManifestEntry>> {
        let tip = self.tip()?;
        let rows = partitions
            .iter()
            .map(|id| self.partitions.row(*id).cloned());
        let rows = rows.collect::<Result<HashSet<_>>>()?;
        let types = &self.manifest_settings.partition_types;
        live::live_entries(&self.meta, &tip.manifests, types, Some(&rows)).await
    }

    async fn read_live(
        &mut self,
        running: &mut Running,
        partitions: &[PartitionId],
    ) -> Result<Vec<LiveFile>> {
        let entries = self.live_of(partitions).await?;
        let live = entries.iter().map(|entry| LiveFile {
            file: running
                .registry
                .files
                .data(&entry.partition, entry.bucket, &entry.file),
            partition: self.partitions.id(&entry.partition),
            bucket: entry.bucket,
            total_buckets: entry.total_buckets,
            place: place_of(&entry.file),
            vectors: false,
        });
        let mut live: Vec<LiveFile> = live.collect();
        if running.changes_vectors() {
            self.read_vectors(running, partitions, &mut live).await?;
        }
        Ok(live)
    }

    /// The index files with the deletion vectors of buckets.
    async fn read_vectors(
        &mut self,
        running: &mut Running,
        partitions: &[PartitionId],
        live: &mut Vec<LiveFile>,
    ) -> Result<()> {
        let Some(name) = self.tip()?.visible.snapshot.index_manifest.clone() else {
            return Ok(());
        };
        for entry in self.meta.index_entries(&name).await? {
            let partition = self.partitions.id(&entry.partition);
            if entry.file.index_type == DELETION_VECTORS && partitions.contains(&partition) {
                let files = &mut running.registry.files;
                live.push(LiveFile {
                    file: files.index(&entry.partition, entry.bucket, &entry.file),
                    partition,
                    bucket: entry.bucket,
                    total_buckets: 0,
                    place: None,
                    vectors: true,
                });
            }
        }
        Ok(())
    }

    async fn read_buckets(
        &mut self,
        partitions: &[PartitionId],
    ) -> Result<Vec<(PartitionId, i32)>> {
        let entries = self.live_of(partitions).await?;
        let mut counts = BTreeMap::new();
        for entry in entries.iter().filter(|entry| entry.total_buckets > 0) {
            counts
                .entry(self.partitions.id(&entry.partition))
                .or_insert(entry.total_buckets);
        }
        Ok(counts.into_iter().collect())
    }

    async fn check_files(&self, running: &Running, files: &[FileId]) -> Result<Vec<FileId>> {
        let mut asked = Vec::new();
        for id in files {
            let paths = self.paths.of(running.registry.files.get(*id)?)?;
            for path in paths {
                asked.push(absent(self.meta.store.clone(), *id, path));
            }
        }
        let mut absent: Vec<FileId> = stream::iter(asked)
            .buffer_unordered(PARALLEL)
            .try_filter_map(|absent| std::future::ready(Ok(absent)))
            .try_collect()
            .await?;
        absent.sort_unstable();
        absent.dedup();
        Ok(absent)
    }

    async fn back_off(&self, running: &Running, n: u32) -> Fact {
        let env = self.meta.env.clone();
        if running.timed_out(env.as_ref()) {
            return Fact::TimedOut;
        }
        let jitter = u32::try_from(env.random() % 1001).unwrap_or(0);
        let millis = running.attempt.settings().back_off_millis(n, jitter);
        env.sleep(Duration::from_millis(millis)).await;
        if running.timed_out(env.as_ref()) {
            Fact::TimedOut
        } else {
            Fact::Waited
        }
    }

    async fn write(&mut self, running: &mut Running, plan: WritePlan) -> Result<Fact> {
        // What a dropped future began is not part of any plan.
        let leftovers = std::mem::take(&mut running.unfinished);
        if !leftovers.is_empty() {
            self.delete_paths(&leftovers).await;
        }
        let mut job = WriteJob { ids: Vec::new() };
        match job.run(self, running, &plan).await {
            Ok(written) => {
                running.unfinished.clear();
                Ok(Fact::Written(written))
            }
            Err(error) => {
                running.unfinished.clear();
                Ok(failed(running, error, job.ids))
            }
        }
    }

    /// Writes objects, all at once; all are durable when it returns.
    async fn write_all<T>(
        &self,
        unfinished: &mut Vec<String>,
        objects: &[Encoded<T>],
    ) -> Result<()> {
        unfinished.extend(objects.iter().map(|o| o.path.clone()));
        let mut writes = Vec::with_capacity(objects.len());
        for object in objects {
            writes.push(write_object(
                self.meta.store.clone(),
                object.path.clone(),
                object.bytes.clone(),
            ));
        }
        stream::iter(writes)
            .buffer_unordered(PARALLEL)
            .try_collect()
            .await
    }

    async fn write_side_objects(&self, running: &mut Running) -> Result<()> {
        while let Some((path, bytes)) = running.side_objects.last() {
            if !self.published_objects.contains(path) {
                let written = self
                    .meta
                    .store
                    .write_once(path, Bytes::from(bytes.clone()))
                    .await;
                written.map_err(|e| CommitError::store(format!("writing {path}"), e))?;
            }
            running.side_objects.pop();
        }
        Ok(())
    }

    async fn publish(&mut self, running: &mut Running, draft: &Draft) -> Result<Fact> {
        let visible = match &running.draft {
            Some((token, visible)) if *token == draft.token => visible.clone(),
            _ => {
                let carried = Carried {
                    properties: &running.decoded.java.properties,
                    extras: running.decoded.extras.as_ref(),
                    positions: running.positions.as_ref(),
                };
                let visible = draft_snapshot(draft, &running.registry.objects, &carried)?;
                running.draft = Some((draft.token.clone(), visible.clone()));
                visible
            }
        };
        let fact = match publish(&self.meta.store, draft.id, &visible.bytes).await {
            Ok(fact) => fact,
            // No refusal of the table: the caller gets the store's own error and may try again.
            Err(error) => {
                let fact = Fact::PutRefused(error.to_string());
                running.fault = Some(error);
                fact
            }
        };
        if matches!(fact, Fact::ExistsTheirs(_)) {
            self.contended = true;
        }
        Ok(fact)
    }

    /// One snapshot as the store shows it now, whatever was met before.
    async fn read_again(&self, id: SnapshotId) -> Result<Option<SnapshotFact>> {
        let found = self.meta.snapshot(id).await?;
        found.map(|visible| visible.fact()).transpose()
    }

    async fn find_retained(&self) -> Result<Option<(SnapshotId, SnapshotId)>> {
        let ids = self.meta.snapshot_ids().await?;
        Ok(ids.first().copied().zip(ids.last().copied()))
    }

    /// The snapshot of this draft counts: it is what the next commit builds on, and readers are told.
    async fn announce(&mut self, running: &Running, draft: &Draft) -> Result<Fact> {
        let visible = match &running.draft {
            Some((token, visible)) if *token == draft.token => visible.clone(),
            _ => return Err(CommitError::corrupt("protocol", "announces another draft")),
        };
        let of = |list: &ObjectId| running.lists.get(list).into_iter().flatten();
        let manifests = of(&draft.base_list).chain(of(&draft.delta_list));
        self.known = Known::Tip(Box::new(Tip {
            visible,
            manifests: manifests.cloned().collect(),
        }));
        self.note_published(running);
        hint_latest(&self.meta.store, draft.id).await;
        Ok(Fact::Announced)
    }

    fn note_published(&mut self, running: &Running) {
        use crate::properties::ActiveAt;
        self.published_objects.clear();
        if let Some(positions) = &running.positions {
            if let ActiveAt::Object(name) = &positions.active {
                self.published_objects.insert(name.clone());
            }
            self.published_objects.extend(positions.finished_at.clone());
        }
    }

    async fn delete(&self, running: &Running, garbage: &[Garbage]) -> Result<Vec<Garbage>> {
        let mut owners = Vec::new();
        let mut paths = Vec::new();
        for item in garbage {
            let of_item = match item {
                Garbage::Object(id) => {
                    vec![object_path(running.registry.objects.get(*id)?)]
                }
                Garbage::File(id) => self.paths.of(running.registry.files.get(*id)?)?,
                Garbage::Snapshot(id) => vec![layout::snapshot_path(*id)],
            };
            owners.extend(of_item.iter().map(|_| *item));
            paths.extend(of_item);
        }
        let answers = self.meta.store.delete_many(&paths).await;
        let mut left = Vec::new();
        for ((answer, item), path) in answers.into_iter().zip(owners).zip(&paths) {
            if let Err(error) = answer {
                tracing::warn!(%path, %error, "garbage of a commit stays behind");
                left.push(item);
            }
        }
        left.dedup();
        Ok(left)
    }

    async fn delete_paths(&self, paths: &[String]) {
        for (answer, path) in self
            .meta
            .store
            .delete_many(paths)
            .await
            .into_iter()
            .zip(paths)
        {
            if let Err(error) = answer {
                tracing::warn!(%path, %error, "garbage of a dropped commit stays behind");
            }
        }
    }
}

async fn absent(store: Store, id: FileId, path: String) -> Result<Option<FileId>> {
    let found = store.head(&path).await;
    let found = found.map_err(|e| CommitError::store(format!("looking for {path}"), e))?;
    Ok(found.is_none().then_some(id))
}

fn object_path(object: &Object) -> String {
    match object {
        Object::Manifest(manifest) => layout::manifest_path(&manifest.file_name),
        Object::List(name, _) | Object::Other(name) => layout::manifest_path(name),
    }
}

fn base_fact(tip: &Tip, running: &mut Running) -> Result<BaseFact> {
    let snapshot = &tip.visible.snapshot;
    let objects = &mut running.registry.objects;
    let manifests: Vec<_> = tip
        .manifests
        .iter()
        .map(|m| objects.summary(m.clone()))
        .collect();
    Ok(BaseFact {
        snapshot: tip.visible.fact()?,
        time_millis: snapshot.time_millis,
        total_records: snapshot.total_record_count,
        watermark: snapshot.watermark,
        index: snapshot
            .index_manifest
            .clone()
            .map(|name| objects.add(Object::Other(name))),
        // A snapshot has statistics only while the schema that they were taken under is its own
        // [C-27j], so the schema in the file need not be read.
        statistics: snapshot
            .statistics
            .clone()
            .map(|name| (objects.add(Object::Other(name)), snapshot.schema_id)),
        next_row_id: snapshot.next_row_id,
        manifests: manifests.into(),
    })
}

/// The newest snapshot, last; before it the known one, where it stands, and those above it.
async fn find_newest(meta: &Meta, known: Option<Visible>, probe: bool) -> Result<Vec<Visible>> {
    let Some(known) = known else {
        return Ok(meta.newest().await?.into_iter().collect());
    };
    let id = known.snapshot.id;
    let again = meta.snapshot(id);
    let next = async {
        if probe {
            meta.snapshot(id.next()).await
        } else {
            Ok(None)
        }
    };
    let (again, next) = futures::future::try_join(again, next).await?;
    match (again, next) {
        (Some(again), None) if again.bytes == known.bytes => Ok(vec![again]),
        (Some(again), Some(next)) if again.bytes == known.bytes => {
            let mut found = vec![again];
            found.extend(meta.climb(next).await?);
            Ok(found)
        }
        // Expired under us, or rolled back and written anew: search from the hint.
        _ => Ok(meta.newest().await?.into_iter().collect()),
    }
}

/// A fault as a fact; the error itself is kept for the caller.
fn failed(running: &mut Running, error: CommitError, left: Vec<ObjectId>) -> Fact {
    let fact = Fact::Failed {
        retryable: error.kind() == tidegate_sink::ErrorKind::Transient,
        why: error.to_string(),
        left,
    };
    running.fault = Some(error);
    fact
}

/// When a commit that starts now is out of time.
pub(crate) fn timeout_deadline(env: &dyn Env, timeout: Option<Duration>) -> Option<i64> {
    let timeout = i64::try_from(timeout?.as_millis()).unwrap_or(i64::MAX);
    Some(env.now_millis().saturating_add(timeout))
}
