//! The committer of one run of a job on one table.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_model::{BinaryRow, BucketId, SchemaId, SnapshotId, TableSchema, layout};
use tidegate_protocol::{
    Attempt, Done, EmptyCommits, Fence, FileId, Half, Ledger, Outcome as Ended, PartitionId,
    Refusal, Replacement, Seen, Settings, Step,
};
use tidegate_sink::{
    BoxFuture, CheckpointId, CommitContext, CommitIdentifier, Committable as Framed, Digest,
    ErrorKind, JobHistory, Message, Outcome, Published, Resolution, ResolutionPlan, Run, Saved,
    SinkError, Standing, Version,
};
use tidegate_storage::Store;

use crate::committable;
use crate::env::{Env, SystemEnv};
use crate::error::{CommitError, Result};
use crate::executor::{Executor, Known, Running, timeout_deadline};
use crate::history::{note_entry, read_note};
use crate::meta::Meta;
use crate::names::MetadataNames;
use crate::note::Note;
use crate::paths::Paths;
use crate::properties::{ActiveAt, PositionMarks};
use crate::registry::{Partitions, Registry};
use crate::settings::TableSettings;

/// Partitions remembered before the ledger and its bucket counts are begun anew.
const MAX_PARTITIONS: usize = 100_000;

/// Publishes committables of one job to one Paimon table, each exactly once.
///
/// Steady state, unpartitioned, without a manifest merge: five writes (delta manifest, two lists,
/// snapshot, hint) and two reads (the base before and after the create) per commit.
#[derive(Debug)]
pub struct PaimonCommitter {
    pub(crate) run: Run,
    pub(crate) executor: Executor,
    pub(crate) settings: TableSettings,
    pub(crate) ledger: Ledger,
    running: Option<Box<Running>>,
    /// What this committer combined and was not yet asked to commit.
    made: Mutex<BTreeMap<CommitIdentifier, Digest>>,
    /// The newest committable of ours that is visible, held in case a foreign committer puts over it
    /// \[R-14].
    last: Option<Framed>,
    /// A commit that was put over after it was published: it goes before any other \[R-14].
    pub(crate) owed: Option<Framed>,
    /// What the next published note will say.
    pub(crate) newest: Option<Note>,
    pub(crate) noted: Option<Note>,
    /// Who is told of compactions that were left out.
    lost: Option<Arc<LostCompactions>>,
}

/// Buckets whose compaction came too late, for the writer that made it: what it knows of their files is
/// not what the table has. Shared by the committer and the writers of a process.
#[derive(Debug, Default)]
pub struct LostCompactions {
    buckets: Mutex<Vec<(BinaryRow, BucketId)>>,
}

impl LostCompactions {
    fn add(&self, partition: BinaryRow, bucket: BucketId) {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if !buckets.contains(&(partition.clone(), bucket)) {
            buckets.push((partition, bucket));
        }
    }

    /// Takes those that are `mine`.
    pub fn take(&self, mine: impl Fn(&BinaryRow, BucketId) -> bool) -> Vec<(BinaryRow, BucketId)> {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let all = std::mem::take(&mut *buckets);
        let (taken, left) = all.into_iter().partition(|(p, b)| mine(p, *b));
        *buckets = left;
        taken
    }
}

impl PaimonCommitter {
    /// Opens a table, whose directory is the root of `store`, for a run of a job.
    ///
    /// # Errors
    /// [`CommitError::NoTable`]; faults of the store; metadata or options that cannot be read.
    pub async fn open(store: Store, run: Run) -> Result<Self> {
        Self::open_with(store, run, Arc::new(SystemEnv)).await
    }

    /// As [`PaimonCommitter::open`], with time and randomness from `env`.
    ///
    /// # Errors
    /// As there.
    pub async fn open_with(store: Store, run: Run, env: Arc<dyn Env>) -> Result<Self> {
        let store = store.with_tag(&run.prefix.0);
        let meta = Meta::new(store, env.clone());
        let url = meta.store.url().to_owned();
        let newest_schema = meta.newest_schema_id().await?;
        let newest_schema = newest_schema.ok_or(CommitError::NoTable { url })?;
        // What a run finds it builds on, and takes for published: who made it may have been killed
        // before it was durable.
        for dir in [layout::SCHEMA_DIR, layout::SNAPSHOT_DIR] {
            let durable = meta.store.make_durable(dir).await;
            durable.map_err(|e| CommitError::store(format!("making {dir} durable"), e))?;
        }
        let schema = Arc::new(meta.schema(newest_schema).await?);
        let mut sync = [0u8; 16];
        let random = [env.random().to_be_bytes(), env.random().to_be_bytes()].concat();
        sync.copy_from_slice(&random);
        let settings = TableSettings::of(&schema, sync)?;
        let mut executor = Executor {
            paths: Paths::of_table(&schema)?,
            manifest_settings: settings.manifests.clone(),
            names: MetadataNames::new(&run.prefix, env.as_ref()),
            partitions: Partitions::default(),
            known: Known::Nothing,
            contended: false,
            schema_looked_at: meta.env.now_millis(),
            published_objects: Default::default(),
            schema,
            newest_schema,
            meta,
        };
        executor.refresh(None, true).await?;
        let mut ledger = Ledger::new(run.user.clone(), Some(run.job.clone()));
        let note = read_note(&executor.meta, &run.job).await?;
        if let Some(note) = &note
            && note.user == run.user
        {
            ledger.remember_note(note_entry(note));
        }
        Ok(Self {
            run,
            executor,
            settings,
            ledger,
            running: None,
            made: Mutex::default(),
            last: None,
            owed: None,
            newest: None,
            noted: note,
            lost: None,
        })
    }

    /// From now on buckets whose compaction was left out are put there.
    pub fn tell_lost(&mut self, lost: Arc<LostCompactions>) {
        self.lost = Some(lost);
    }

    /// The schema that the table had when it was opened.
    pub fn schema(&self) -> &Arc<TableSchema> {
        &self.executor.schema
    }

    /// The newest schema id seen so far.
    pub fn newest_schema(&self) -> SchemaId {
        self.executor.newest_schema
    }

    /// The run that it commits for.
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// The store, rooted at the table.
    pub fn store(&self) -> &Store {
        &self.executor.meta.store
    }

    /// What a committable made now has seen of the table.
    fn seen(&self) -> Seen {
        match &self.executor.known {
            Known::Nothing => Seen::Unknown,
            Known::Empty => Seen::Empty,
            Known::Tip(tip) => Seen::Snapshot {
                id: tip.visible.snapshot.id,
                token: tip.visible.token.clone(),
            },
        }
    }

    /// Makes one committable of typed messages; the engine's border hands over bytes instead.
    ///
    /// # Errors
    /// Where a value cannot be encoded.
    pub fn combine_messages(
        &self,
        context: &CommitContext,
        messages: Vec<tidegate_model::CommitMessage>,
        expected: u32,
        received: u32,
    ) -> Result<Framed> {
        let seen = self.seen();
        let framed =
            committable::combine(&self.run.user, context, messages, expected, received, seen)?;
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        made.insert(framed.identifier, framed.digest);
        Ok(framed)
    }

    /// Publishes; see [`tidegate_sink::Committer::commit`].
    ///
    /// # Errors
    /// Faults before anything could be decided; the same call may be made again.
    pub async fn publish(&mut self, framed: &Framed) -> Result<Outcome, SinkError> {
        self.publish_with(framed, self.settings.protocol.empty)
            .await
    }

    async fn publish_with(
        &mut self,
        framed: &Framed,
        empty: EmptyCommits,
    ) -> Result<Outcome, SinkError> {
        if !framed.is_complete() {
            return Ok(Outcome::Refused(format!(
                "commit {} holds the reports of {} of {} writers",
                framed.identifier, framed.received, framed.expected
            )));
        }
        let mut queue = vec![framed.clone()];
        // Put over since it was published, and not published again yet.
        if let Some(owed) = &self.owed
            && owed.identifier != framed.identifier
        {
            queue.push(owed.clone());
        }
        // Dropped or undecided before: it is settled first, since commits are visible in order.
        if let Some(running) = &self.running
            && !running.is_of(framed)
        {
            queue.push(running.framed.clone());
        }
        // Known to have been put over and not offered since: as for one that was never offered, only a later run
        // can have published it where history does not tell.
        let mut put_over = None;
        while let Some(next) = queue.last().cloned() {
            if self
                .running
                .as_ref()
                .is_none_or(|running| !running.is_of(&next))
            {
                let fresh = self.take_made(&next)
                    || put_over.take_if(|id| *id == next.identifier).is_some();
                let running = self.start(&next, fresh, None, empty)?;
                self.running = Some(Box::new(running));
            }
            match self.drive().await? {
                End::Again => {}
                End::AgainAfter(earlier) => {
                    put_over = Some(earlier.identifier);
                    self.owed = Some((*earlier).clone());
                    queue.push(*earlier);
                }
                End::Outcome(mut outcome) => {
                    queue.pop();
                    if let Outcome::AlreadyPublished(found) = &mut outcome
                        && found.version == 0
                    {
                        self.note_expired(&next, found).await?;
                    }
                    let last = queue.is_empty();
                    let owed = self.owed.take_if(|owed| owed.identifier == next.identifier);
                    match outcome {
                        // Nobody else will ask for it: its caller was told that it is published.
                        Outcome::Refused(why) if owed.is_some() => {
                            self.owed = owed;
                            return Ok(Outcome::Refused(format!(
                                "commit {} was put over and cannot be published again: {why}",
                                next.identifier
                            )));
                        }
                        Outcome::Undecided(_) => self.owed = owed,
                        _ => {}
                    }
                    match outcome {
                        _ if last => return Ok(outcome),
                        Outcome::Undecided(why) => {
                            return Ok(Outcome::Undecided(format!(
                                "commit {} before it: {why}",
                                next.identifier
                            )));
                        }
                        Outcome::Fenced(_) => return Ok(outcome),
                        // Its own caller will ask for it again and get the same answer.
                        _ => {}
                    }
                }
            }
        }
        Err(SinkError::new(
            ErrorKind::Corrupt,
            "a commit ended without an outcome",
        ))
    }

    /// True where this committer combined it and nobody was asked to commit it before.
    fn take_made(&self, framed: &Framed) -> bool {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        made.remove(&framed.identifier) == Some(framed.digest)
    }

    fn start(
        &mut self,
        framed: &Framed,
        fresh: bool,
        seen: Option<Seen>,
        empty: EmptyCommits,
    ) -> Result<Running> {
        let decoded = committable::decode(framed)?;
        let made_by = decoded.extras.as_ref().map(|e| e.epoch);
        if self.executor.partitions.len() > MAX_PARTITIONS {
            self.executor.partitions = Partitions::default();
            self.ledger = self.fresh_ledger();
        }
        let mut registry = Registry::default();
        let mut committable = registry.committable(
            &mut self.executor.partitions,
            framed,
            &decoded,
            Some(self.run.epoch),
            made_by != Some(self.run.epoch),
            self.settings.total_buckets,
        );
        if let Some(seen) = seen {
            committable.seen = seen;
        }
        let ledger = if framed.user == self.run.user {
            self.ledger.clone()
        } else {
            Ledger::new(framed.user.clone(), committable.job.clone())
        };
        let settings = Settings {
            empty,
            ..self.settings.protocol.clone()
        };
        let attempt = Attempt::new(Arc::new(committable), ledger, settings);
        Ok(Running::new(
            framed.clone(),
            decoded,
            attempt,
            registry,
            fresh,
        ))
    }

    pub(crate) fn fresh_ledger(&self) -> Ledger {
        let mut ledger = Ledger::new(self.run.user.clone(), Some(self.run.job.clone()));
        if let Some(note) = &self.noted
            && note.user == self.run.user
        {
            ledger.remember_note(note_entry(note));
        }
        ledger
    }

    /// Drives the running commit to its end. The state stays in `self`, so that a future that was
    /// dropped is taken up at its step \[R-18].
    async fn drive(&mut self) -> Result<End, SinkError> {
        if let Some(running) = &mut self.running {
            // Undecided before: the same bytes are put at the same id again.
            if !running.attempt.go_on() {
                // Or a future was dropped, perhaps with the answer to a request.
                running.attempt.interrupted();
            }
            // Each call has its own time.
            let env = self.executor.meta.env.as_ref();
            running.deadline = timeout_deadline(env, self.settings.timeout);
        }
        while let Some(running) = self.running.as_mut() {
            let step = running.attempt.next();
            if let Step::Done(ended) = step {
                let unknown = matches!(ended, Ended::Refused(Refusal::HistoryMissing { .. }));
                if unknown && running.fresh {
                    return self.look_for_a_successor().await;
                }
                return self.finish(ended);
            }
            let fact = self.executor.perform(running, step).await;
            let observed = fact.and_then(|fact| {
                running
                    .attempt
                    .observe(fact)
                    .map_err(|e| CommitError::corrupt("protocol", e))
            });
            if let Err(error) = observed {
                self.running = None;
                return Err(error.into());
            }
        }
        Err(SinkError::new(ErrorKind::Corrupt, "no commit is running"))
    }

    /// Only the files of a commit tell that it was published: its snapshot is expired and no note was
    /// left. That is made good, so that the next run need not look at files again \[R-4].
    async fn note_expired(&mut self, framed: &Framed, found: &mut Published) -> Result<()> {
        let decoded = committable::decode(framed)?;
        let ids = self.executor.meta.snapshot_ids().await?;
        let (Some(extras), Some(oldest)) = (&decoded.extras, ids.first()) else {
            return Ok(());
        };
        // Nothing has expired: it is in what others built on it before it was put over, and goes
        // with that. A note would say that it cannot.
        if *oldest <= SnapshotId::FIRST {
            return Ok(());
        }
        let below = SnapshotId(oldest.0 - 1);
        found.version = u64::try_from(below.0).unwrap_or(0);
        // A note stands for the newest commit: one that is known to be newer needs none of this, and a note
        // of this one would say that nothing lies between.
        let newer = self.ledger.newest().map(|entry| entry.identifier);
        let noted = self.noted.as_ref().map(|note| note.identifier);
        if newer.max(noted) > Some(framed.identifier) {
            return Ok(());
        }
        let positions = extras.positions.as_ref();
        let marks =
            positions.map(|positions| PositionMarks::of(&extras.job, extras.epoch, positions).0);
        let compact = decoded.java.messages.iter().any(|m| !m.compact.is_empty());
        let note = Note {
            user: framed.user.clone(),
            identifier: framed.identifier,
            half: if compact { Half::Compact } else { Half::Append },
            digest: framed.digest,
            snapshot: below,
            token: String::new(),
            epoch: extras.epoch,
            checkpoint: extras.checkpoint,
            // Objects beside the table may be gone with the snapshot.
            positions: marks
                .filter(|m| matches!(m.active, ActiveAt::Inline(_)) && m.finished_at.is_none()),
        };
        self.newest = Some(note.clone());
        self.put_note(note).await
    }

    /// The history that would tell whether a commit of ours is visible is expired, as it happens to a
    /// job that slept long beside busy writers. We never offered it, so only a later run could have
    /// published it; and that run is registered \[R-2].
    async fn look_for_a_successor(&mut self) -> Result<End, SinkError> {
        let Some(running) = self.running.take() else {
            return Err(SinkError::new(ErrorKind::Corrupt, "no commit is running"));
        };
        let dir = layout::job_dir(&self.run.job);
        let names = self.executor.meta.store.list_names(&dir).await;
        let names = names.map_err(|e| CommitError::store(format!("listing {dir}/"), e))?;
        let newest = names
            .iter()
            .filter_map(|entry| layout::epoch_of(&entry.name))
            .max();
        if let Some(newer) = newest.filter(|epoch| *epoch > self.run.epoch) {
            return Ok(End::Outcome(Outcome::Fenced(format!(
                "commit {}: a newer run of this job (epoch {newer}) is registered",
                running.framed.identifier
            ))));
        }
        let framed = running.framed.clone();
        let empty = running.attempt.settings().empty;
        self.keep_ledger(*running);
        let seen = self.seen();
        let running = self.start(&framed, false, Some(seen), empty)?;
        self.running = Some(Box::new(running));
        Ok(End::Again)
    }

    fn finish(&mut self, ended: Ended) -> Result<End, SinkError> {
        if let Ended::Undecided(undecided) = &ended {
            return Ok(End::Outcome(Outcome::Undecided(format!(
                "whether snapshot {} became visible is not known; everything is kept, commit again to settle it",
                undecided.draft.id
            ))));
        }
        let Some(running) = self.running.take() else {
            return Err(SinkError::new(ErrorKind::Corrupt, "no commit is running"));
        };
        let running = *running;
        let names = Names {
            running: &running,
            committer: self,
        };
        let end = match ended {
            Ended::Published(done) => {
                let published = names.published(&done)?;
                self.remember(&running, &done);
                End::Outcome(Outcome::Published(published))
            }
            Ended::AlreadyPublished(done) => {
                let published = names.published(&done)?;
                self.remember(&running, &done);
                End::Outcome(Outcome::AlreadyPublished(published))
            }
            Ended::Empty => End::Outcome(Outcome::Empty),
            Ended::Fenced(fence) => End::Outcome(Outcome::Fenced(names.fence(&fence))),
            Ended::Refused(refusal) => match refusal {
                Refusal::RetriesExhausted { attempts, why } => {
                    self.keep_ledger(running);
                    return Err(CommitError::Exhausted { attempts, why }.into());
                }
                Refusal::Store(why) => match running.fault {
                    Some(fault) if fault.to_string() == why => return Err(fault.into()),
                    _ => End::Outcome(Outcome::Refused(why)),
                },
                refusal => End::Outcome(Outcome::Refused(names.refusal(&refusal))),
            },
            Ended::Replaced(replacement) => return self.replaced(running, &replacement),
            Ended::Undecided(_) => End::Again,
        };
        self.keep_ledger(running);
        Ok(end)
    }

    fn keep_ledger(&mut self, running: Running) {
        if running.framed.user == self.run.user {
            self.ledger = running.attempt.into_ledger();
        }
    }

    /// A snapshot of ours was put over or removed \[R-14]: what is still held is offered again.
    fn replaced(&mut self, running: Running, replacement: &Replacement) -> Result<End, SinkError> {
        let ours = &replacement.ours;
        let by = match &replacement.by {
            Some(by) => format!("snapshot {} of {} stands there now", by.id, by.user),
            None => "nothing stands there now: the table was rolled back".to_owned(),
        };
        let alarm = format!(
            "commit {} was visible as snapshot {} and is not any more: {by}",
            ours.identifier, ours.id
        );
        tracing::error!("{alarm}");
        let framed = running.framed.clone();
        self.keep_ledger(running);
        if replacement.offer_again {
            self.ledger.accept_replacement(replacement);
            if ours.identifier == framed.identifier {
                return Ok(End::Again);
            }
            if let Some(last) = &self.last
                && last.identifier == ours.identifier
            {
                return Ok(End::AgainAfter(Box::new(last.clone())));
            }
        }
        Err(SinkError::new(
            ErrorKind::Mismatch,
            format!(
                "{alarm}; compare the table with the checkpoints of this job and choose a way out"
            ),
        ))
    }

    fn remember(&mut self, running: &Running, done: &Done) {
        if running.framed.user != self.run.user {
            return;
        }
        self.last = Some(running.framed.clone());
        let Some(entry) = done.compact.as_ref().or(done.append.as_ref()) else {
            return;
        };
        let checkpoint = running.decoded.extras.as_ref().map(|e| e.checkpoint);
        self.newest = Some(Note {
            user: running.framed.user.clone(),
            identifier: entry.identifier,
            half: entry.half,
            digest: running.framed.digest,
            snapshot: entry.id,
            token: entry.token.as_str().to_owned(),
            epoch: entry.epoch.unwrap_or(self.run.epoch),
            checkpoint: checkpoint.unwrap_or(CheckpointId(0)),
            positions: running.positions.clone(),
        });
    }
}

/// How a drive ended.
enum End {
    Outcome(Outcome),
    /// The same committable once more.
    Again,
    /// This one first, then the same once more.
    AgainAfter(Box<Framed>),
}

/// Puts ids into words.
struct Names<'a> {
    running: &'a Running,
    committer: &'a PaimonCommitter,
}

impl Names<'_> {
    fn file(&self, id: FileId) -> String {
        let files = &self.running.registry.files;
        files
            .get(id)
            .map_or_else(|_| id.to_string(), |file| file.name().to_owned())
    }

    /// At most a handful of names: a committable may have thousands.
    fn files(&self, ids: &[FileId]) -> String {
        let mut names: Vec<String> = ids.iter().take(5).map(|id| self.file(*id)).collect();
        if ids.len() > names.len() {
            names.push(format!("and {} more", ids.len() - names.len()));
        }
        names.join(", ")
    }

    fn partition(&self, id: PartitionId) -> String {
        let executor = &self.committer.executor;
        let path = executor
            .partitions
            .row(id)
            .and_then(|row| executor.paths.partition(row));
        match path {
            Ok(path) if path.is_empty() => "the table".to_owned(),
            Ok(path) => format!("partition {path}"),
            Err(_) => id.to_string(),
        }
    }

    fn published(&self, done: &Done) -> Result<Published, SinkError> {
        for part in &done.dropped {
            let row = self.committer.executor.partitions.row(part.partition);
            if let (Some(lost), Ok(row)) = (&self.committer.lost, row) {
                lost.add(row.clone(), part.bucket);
            }
            tracing::warn!(
                partition = %self.partition(part.partition),
                bucket = %part.bucket,
                dead = %self.files(&part.dead),
                met = %self.files(&part.met),
                "a compaction came too late and was left out; what it wrote is removed"
            );
        }
        if !done.left.is_empty() {
            tracing::warn!(
                objects = done.left.len(),
                "garbage of the commit stays for the next clean-up"
            );
        }
        // Where every part of a COMPACT half was dropped there may be no snapshot at all.
        let entry = done.compact.as_ref().or(done.append.as_ref());
        let version = entry.map_or(0, |e| u64::try_from(e.id.0).unwrap_or(0));
        Ok(Published {
            identifier: self.running.framed.identifier,
            digest: Some(self.running.framed.digest),
            version,
            token: entry.map_or_else(String::new, |e| e.token.as_str().to_owned()),
        })
    }

    fn fence(&self, fence: &Fence) -> String {
        let framed = &self.running.framed;
        let commit = format!("commit {} of {}", framed.identifier, framed.user);
        match fence {
            Fence::Content { found } => format!(
                "snapshot {} holds {commit} with other content: another run went on with this job",
                found.id
            ),
            Fence::Epoch { found } => format!(
                "{commit}: a newer run of this job (epoch {}) has committed snapshot {}",
                found
                    .epoch
                    .map_or_else(|| "unknown".to_owned(), |e| e.to_string()),
                found.id
            ),
            Fence::Positions { expected, found } => {
                let say =
                    |d: &Option<_>| d.map_or_else(|| "none".to_owned(), |d: Digest| d.to_string());
                format!(
                    "{commit} expects to replace the source positions {}, the table has {}: another run went on with this job",
                    say(expected),
                    say(found)
                )
            }
            Fence::Overtaken { found } => format!(
                "{commit} is not in the table, but commit {} of the same user is (snapshot {}): another run went on with this job",
                found.identifier, found.id
            ),
        }
    }

    fn refusal(&self, refusal: &Refusal) -> String {
        let commit = format!("commit {}", self.running.framed.identifier);
        match refusal {
            Refusal::FileTwice(file) => {
                format!("{commit} names file {} twice", self.file(*file))
            }
            Refusal::AlreadyLive(files) => {
                format!(
                    "{commit} adds files that are in the table already: {}",
                    self.files(files)
                )
            }
            Refusal::NotLive(files) => {
                format!(
                    "{commit} removes files that are not in the table: {}",
                    self.files(files)
                )
            }
            Refusal::FilesMissing(files) => format!(
                "{commit} comes from a checkpoint whose files do not exist any more: {}; the checkpoint is too old for this table",
                self.files(files)
            ),
            Refusal::BucketCount {
                partition,
                found,
                ours,
            } => format!(
                "{commit}: {} has {found} buckets, the files were written for {ours}; rescale it with an overwrite first",
                self.partition(*partition)
            ),
            Refusal::HistoryMissing { from, to } => format!(
                "whether {commit} is in the table cannot be told: snapshots {from} to {to} are expired and no published note covers them"
            ),
            Refusal::CountOverflow => format!("{commit}: record counts leave the range of 64 bits"),
            Refusal::IdsExhausted => "the table has reached the largest snapshot id".to_owned(),
            Refusal::UserClosed => format!(
                "{commit}: commit user {} has ended with identifier 2^63-1; start a new job",
                self.running.framed.user
            ),
            Refusal::RetriesExhausted { attempts, why } => {
                format!("{commit}: gave up after {attempts} attempts: {why}")
            }
            Refusal::Store(why) => why.clone(),
        }
    }
}

impl tidegate_sink::Committer for PaimonCommitter {
    fn combine(
        &self,
        context: &CommitContext,
        messages: Vec<Message>,
        expected: u32,
        received: u32,
    ) -> Result<Framed, SinkError> {
        let messages = committable::messages(&messages)?;
        Ok(self.combine_messages(context, messages, expected, received)?)
    }

    fn is_empty(&self, committable: &Framed) -> Result<bool, SinkError> {
        Ok(committable::decode(committable)?.is_empty())
    }

    fn commit<'a>(
        &'a mut self,
        committable: &'a Framed,
    ) -> BoxFuture<'a, Result<Outcome, SinkError>> {
        Box::pin(self.publish(committable))
    }

    fn take_over<'a>(
        &'a mut self,
        committable: &'a Framed,
    ) -> BoxFuture<'a, Result<Outcome, SinkError>> {
        Box::pin(self.publish_with(committable, EmptyCommits::Publish))
    }

    fn standing<'a>(&'a mut self, saved: &'a Saved) -> BoxFuture<'a, Result<Standing, SinkError>> {
        Box::pin(async move { Ok(self.compare(saved).await?) })
    }

    fn history<'a>(&'a mut self) -> BoxFuture<'a, Result<JobHistory, SinkError>> {
        Box::pin(async move { Ok(self.job_history().await?) })
    }

    fn hidden<'a>(
        &'a mut self,
        begun_on: Option<&'a Version>,
    ) -> BoxFuture<'a, Result<Option<String>, SinkError>> {
        Box::pin(async move { Ok(self.hidden_commits(begun_on).await?) })
    }

    fn resolve<'a>(
        &'a mut self,
        saved: &'a Saved,
        resolution: Resolution,
        dry_run: bool,
    ) -> BoxFuture<'a, Result<ResolutionPlan, SinkError>> {
        Box::pin(async move { Ok(self.way_out(saved, resolution, dry_run).await?) })
    }

    fn leave_note<'a>(&'a mut self) -> BoxFuture<'a, Result<(), SinkError>> {
        Box::pin(async move { Ok(self.write_note().await?) })
    }
}
