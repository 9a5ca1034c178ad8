//! Where checkpoint records are kept.
//!
//! Owns the layout `<directory>/<job>/<commit user>/checkpoint-<id>` (and `savepoint-<id>`), who may
//! write a record, which one is the newest, and retention. Does not own what is in a record.

use std::collections::BTreeMap;

use bytes::Bytes;
use tidegate_sink::{CheckpointId, CommitUser, JobName, mutant};
use tidegate_storage::Store;

use crate::bytes::{decode, encode};
use crate::create::{self, Settled};
use crate::error::RecoveryError;
use crate::leftovers;
use crate::record::{CheckpointRecord, RecordKind};
use crate::registry::{epoch_of_prefix, run_prefix};

/// A checkpoint directory: records of any number of jobs.
#[derive(Clone, Debug)]
pub struct CheckpointStore {
    store: Store,
}

impl CheckpointStore {
    /// The directory that is the root of `store`.
    pub fn new(store: Store) -> Self {
        Self { store }
    }

    /// Where it is.
    pub fn url(&self) -> &str {
        self.store.url()
    }

    /// Records of one job.
    pub fn job(&self, job: &JobName, user: &CommitUser) -> JobCheckpoints {
        let store = self.store.child(&format!("{job}/{user}"));
        JobCheckpoints {
            store,
            job: job.clone(),
            records: BTreeMap::new(),
            tidied: false,
        }
    }

    /// Jobs that have a folder here.
    ///
    /// # Errors
    /// Where the directory cannot be listed. Names that no job can have are not ours and left out.
    pub async fn jobs(&self) -> Result<Vec<JobName>, RecoveryError> {
        let names = self.folders("").await?;
        Ok(names
            .into_iter()
            .filter_map(|name| JobName::new(name).ok())
            .collect())
    }

    /// Commit users that have records of a job.
    ///
    /// # Errors
    /// Where the directory cannot be listed.
    pub async fn users(&self, job: &JobName) -> Result<Vec<CommitUser>, RecoveryError> {
        let names = self.folders(job.as_str()).await?;
        Ok(names
            .into_iter()
            .filter_map(|name| CommitUser::new(name).ok())
            .collect())
    }

    async fn folders(&self, dir: &str) -> Result<Vec<String>, RecoveryError> {
        let doing = RecoveryError::store("listing the checkpoint directory");
        let entries = self.store.list_names(dir).await.map_err(doing)?;
        Ok(entries
            .into_iter()
            .filter(|e| e.is_dir)
            .map(|e| e.name)
            .collect())
    }

    /// The commit user whose records go on: the registered one, else the only one that has records
    /// here; `None` where there is neither \[R-1].
    ///
    /// # Errors
    /// [`RecoveryError::SeveralUsers`] where that cannot be told.
    pub async fn user_of(
        &self,
        job: &JobName,
        registered: Option<&CommitUser>,
    ) -> Result<Option<CommitUser>, RecoveryError> {
        if let Some(user) = registered {
            return Ok(Some(user.clone()));
        }
        let mut users = self.users(job).await?;
        match users.len() {
            0 | 1 => Ok(users.pop()),
            _ => Err(RecoveryError::SeveralUsers {
                directory: self.store.url_of(job.as_str()),
                users: users.iter().map(|u| u.to_string()).collect(),
            }),
        }
    }

    /// Other jobs with records of the same source, whose commit user `knows` the target (is
    /// registered beside it) or whose records name the same target: candidates for adoption
    /// \[R-17].
    ///
    /// # Errors
    /// Where the directory or a newest record cannot be read: a guess could double every row.
    pub async fn adoptable(
        &self,
        job: &JobName,
        target: &str,
        source: &str,
        knows: impl Fn(&CommitUser) -> bool,
    ) -> Result<Vec<CheckpointRecord>, RecoveryError> {
        let mut found = Vec::new();
        for other in self.jobs().await? {
            if other == *job {
                continue;
            }
            for user in self.users(&other).await? {
                let mut records = self.job(&other, &user);
                records.load().await?;
                let Some(record) = records.newest().await? else {
                    continue;
                };
                if record.source == source && (record.target == target || knows(&user)) {
                    found.push(record);
                }
            }
        }
        Ok(found)
    }
}

/// A record that is there, as its name tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListedRecord {
    /// Which checkpoint.
    pub id: CheckpointId,
    /// Whether retention leaves it alone.
    pub savepoint: bool,
    /// Its size in bytes.
    pub size: u64,
}

impl ListedRecord {
    pub(crate) fn parse(name: &str, size: u64) -> Option<Self> {
        let (savepoint, id) = match name.strip_prefix("checkpoint-") {
            Some(id) => (false, id),
            None => (true, name.strip_prefix("savepoint-")?),
        };
        // Only what we would write ourselves: no sign, no leading zero.
        let id = id.parse::<u64>().ok().filter(|n| n.to_string() == id)?;
        Some(Self {
            id: CheckpointId(id),
            savepoint,
            size,
        })
    }

    pub(crate) fn name(id: CheckpointId, savepoint: bool) -> String {
        format!(
            "{}-{id}",
            if savepoint { "savepoint" } else { "checkpoint" }
        )
    }
}

/// Records of one job and commit user. Remembers what is there: listed once by
/// [`JobCheckpoints::load`], then kept up by its own writes, since nobody else may write here.
#[derive(Debug)]
pub struct JobCheckpoints {
    store: Store,
    job: JobName,
    records: BTreeMap<(CheckpointId, bool), u64>,
    /// Temporary files of earlier runs were looked for.
    tidied: bool,
}

impl JobCheckpoints {
    /// Where they are.
    pub fn url(&self) -> &str {
        self.store.url()
    }

    /// Lists what is there, and makes it durable: a run that was killed between giving a record its
    /// name and the fsync of the directory left one that a power failure takes back, and the commit
    /// that this run publishes from it would stay.
    ///
    /// # Errors
    /// Where it cannot be listed or made durable. That is never *no records*.
    pub async fn load(&mut self) -> Result<(), RecoveryError> {
        let doing = RecoveryError::store("making checkpoints durable");
        self.store.make_durable("").await.map_err(doing)?;
        let doing = RecoveryError::store("listing checkpoints");
        let entries = self.store.list_names("").await.map_err(doing)?;
        let files = entries.iter().filter(|e| !e.is_dir);
        let records = files.filter_map(|e| ListedRecord::parse(&e.name, e.size));
        self.records = records.map(|r| ((r.id, r.savepoint), r.size)).collect();
        Ok(())
    }

    /// What is there, oldest first.
    pub fn list(&self) -> Vec<ListedRecord> {
        let listed = |(&(id, savepoint), &size): (&(CheckpointId, bool), &u64)| ListedRecord {
            id,
            savepoint,
            size,
        };
        self.records.iter().map(listed).collect()
    }

    /// The largest id that is there, complete or not: new ids go on above it.
    pub fn largest(&self) -> Option<CheckpointId> {
        self.records.last_key_value().map(|((id, _), _)| *id)
    }

    /// Writes a record; afterwards the checkpoint is complete. Equal bytes that are there already
    /// are an earlier write of ours whose answer was lost \[R-5].
    ///
    /// # Errors
    /// [`RecoveryError::Fenced`] where another record of that id is there;
    /// [`RecoveryError::Undecided`] where it could not be settled: the same record may be offered
    /// again \[R-6].
    pub async fn write(&mut self, record: &CheckpointRecord) -> Result<(), RecoveryError> {
        let bytes = Bytes::from(encode(record)?);
        let size = bytes.len() as u64;
        let savepoint = record.kind == RecordKind::Savepoint;
        let name = ListedRecord::name(record.id, savepoint);
        let doing = "writing a checkpoint record";
        // A later run tells by the tag whose a temporary file was.
        let tag = run_prefix(&record.user, record.epoch);
        let tagged = self.store.clone().with_tag(&tag.0);
        if mutant::on("record-skipped") && record.id.0.is_multiple_of(2) {
            return Ok(());
        }
        match create::create(&tagged, &name, bytes, doing).await? {
            Settled::Theirs(_) if mutant::on("record-conflict-ignored") => {
                self.records.insert((record.id, savepoint), size);
                Ok(())
            }
            Settled::Ours => {
                self.records.insert((record.id, savepoint), size);
                self.remove_leftovers(record).await;
                Ok(())
            }
            Settled::Theirs(there) => {
                let url = self.store.url_of(&name);
                let who = match decode(&there, &url) {
                    Ok(other) => format!("by epoch {} of job {}", other.epoch, other.job),
                    Err(error) => format!("and cannot be read ({error})"),
                };
                let what = format!(
                    "checkpoint {} of job {} (epoch {}) was written before {who}: {url}",
                    record.id, record.job, record.epoch
                );
                Err(RecoveryError::Fenced { what })
            }
        }
    }

    /// Removes, once, temporary files of records of earlier runs: those are dead, or fenced by the
    /// registration of the run that wrote this record.
    async fn remove_leftovers(&mut self, written: &CheckpointRecord) {
        if std::mem::replace(&mut self.tidied, true) {
            return;
        }
        let dead = |name: &str, tag: Option<&str>| {
            ListedRecord::parse(name, 0).is_some()
                && tag
                    .and_then(|tag| epoch_of_prefix(&written.user, tag))
                    .is_some_and(|epoch| epoch < written.epoch)
        };
        leftovers::remove(&self.store, "", dead).await;
    }

    /// Reads one record.
    ///
    /// # Errors
    /// Where it is not there (naming what is), cannot be read, or is of another job.
    pub async fn read(&self, id: CheckpointId) -> Result<CheckpointRecord, RecoveryError> {
        for savepoint in [false, true] {
            if !self.records.contains_key(&(id, savepoint)) {
                continue;
            }
            let name = ListedRecord::name(id, savepoint);
            let doing = RecoveryError::store("reading a checkpoint record");
            let bytes = self.store.get(&name).await.map_err(doing)?;
            let url = self.store.url_of(&name);
            let record = decode(&bytes, &url)?;
            if record.job != self.job || record.id != id {
                let what = format!("holds checkpoint {} of job {}", record.id, record.job);
                return Err(RecoveryError::Record { url, at: 0, what });
            }
            return Ok(record);
        }
        let present = self.list().iter().map(|r| r.id.0).collect();
        let directory = self.store.url().to_owned();
        Err(RecoveryError::NoSuchCheckpoint {
            id: id.0,
            directory,
            present,
        })
    }

    /// The newest complete record, savepoints included; `None` where there is none. One whose
    /// committables lack reports is not complete and the one before it counts.
    ///
    /// # Errors
    /// An unreadable newest record is an error, never a silent step back \[R-7].
    pub async fn newest(&self) -> Result<Option<CheckpointRecord>, RecoveryError> {
        let mut last = None;
        for (id, _) in self.records.keys().rev() {
            if last == Some(*id) {
                continue;
            }
            last = Some(*id);
            let record = match self.read(*id).await {
                Err(_) if mutant::on("newest-record-stepped-over") => continue,
                read => read?,
            };
            if record.is_complete() {
                return Ok(Some(record));
            }
            tracing::warn!(checkpoint = %id, "not complete; the one before it counts");
        }
        Ok(None)
    }

    /// Removes checkpoints beyond the newest `keep`, and only those older than `published`: the
    /// newest checkpoint that is complete and whose commits are all published. Savepoints stay.
    /// Gives the ids removed; what could not be removed is left for the next call.
    pub async fn retain(&mut self, keep: usize, published: CheckpointId) -> Vec<CheckpointId> {
        let checkpoints = self
            .records
            .keys()
            .rev()
            .filter(|(_, savepoint)| !savepoint);
        let old: Vec<_> = checkpoints
            .map(|(id, _)| *id)
            .skip(keep.max(1))
            .filter(|id| *id < published || mutant::on("retain-unpublished"))
            .collect();
        let mut removed = Vec::new();
        // Oldest first: an interruption leaves no gap.
        for id in old.into_iter().rev() {
            match self.store.delete(&ListedRecord::name(id, false)).await {
                Ok(()) => {
                    self.records.remove(&(id, false));
                    removed.push(id);
                }
                Err(error) => {
                    tracing::warn!(checkpoint = %id, %error, "an old record could not be removed");
                    break;
                }
            }
        }
        removed
    }
}
