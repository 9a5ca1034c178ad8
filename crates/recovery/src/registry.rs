//! Who runs a job, registered beside the target.
//!
//! Owns the objects `tidegate/jobs/<job>/epoch-<E>` and `ended-<E>` under the target's base URL
//! \[R-2]: claiming an epoch, fencing who comes second, marking how a run ended, listing. Other objects
//! in the same folder (notes, position sets) belong to the target and are left alone.
//!
//! A registration is JSON of one line, read by people too. Unknown keys of later builds are ignored;
//! an unknown version is an error.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tidegate_sink::{CheckpointId, CommitUser, Epoch, JobName, Run, RunPrefix, Version, mutant};
use tidegate_storage::Store;

use crate::create::{self, Settled};
use crate::error::RecoveryError;
use crate::identity::Identities;
use crate::leftovers;
use crate::process;

/// The version that registrations and `ended` marks are written in.
pub const REGISTRATION_VERSION: u32 = 1;

const JOBS: &str = "tidegate/jobs";

/// Runs that a rollback registers again at most: more than a job ever had that was not tampered with.
const RECALLED: usize = 10_000;

/// A commit user for a new job: random, so that no two jobs ever share one \[R-1].
pub fn new_commit_user() -> CommitUser {
    Identities::default().commit_user()
}

/// What data file names of a run start with: `tg<first 8 hex digits of SHA-256(user)>e<epoch>-`.
pub fn run_prefix(user: &CommitUser, epoch: Epoch) -> RunPrefix {
    RunPrefix(format!("{}{epoch}-", prefix_stem(user)))
}

fn prefix_stem(user: &CommitUser) -> String {
    let hash = Sha256::digest(user.as_str().as_bytes());
    let hex: String = hash
        .iter()
        .take(4)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("tg{hex}e")
}

/// The epoch in a prefix of this user's; `None` for whatever else.
pub(crate) fn epoch_of_prefix(user: &CommitUser, prefix: &str) -> Option<Epoch> {
    epoch_of(&prefix_stem(user), prefix.strip_suffix('-')?)
}

/// In the place of a checkpoint directory: the run keeps none, since it takes no rows from a source. No URL is
/// written so.
pub const NO_CHECKPOINTS: &str = "none";

/// One run of a job, as registered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registration {
    version: u32,
    job: String,
    epoch: u64,
    commit_user: String,
    /// What names of its files start with.
    pub prefix: String,
    /// URL of the checkpoint directory; [`NO_CHECKPOINTS`] where the run keeps none.
    pub checkpoints: String,
    /// Where it ran.
    pub host: String,
    /// When it started, in epoch milliseconds; for people.
    pub started_ms: i64,
    /// Identity of its source.
    pub source: String,
    /// The checkpoint that it was restored from.
    pub restored: Option<u64>,
    /// The name under which the job ran before \[R-17].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adopted_from: Option<String>,
    /// The name under which the job goes on \[R-17].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adopted_by: Option<String>,
    /// See [`Claim::begun_on`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    begun_on: Option<BegunOn>,
    /// Not written by the run itself, see [`Registry::recall`].
    #[serde(default, skip_serializing_if = "is_false")]
    pub recalled: bool,
    /// Which process of its host it is, where the system says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    process: Option<String>,
    /// Random: two processes that start at once must not write equal bytes.
    nonce: String,
}

/// A [`Version`] as it is written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct BegunOn {
    version: u64,
    token: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_false(value: &bool) -> bool {
    !*value
}

impl Registration {
    /// Whether its job goes on from checkpoints; a compaction does not.
    pub fn keeps_checkpoints(&self) -> bool {
        self.checkpoints != NO_CHECKPOINTS
    }

    /// True where the process of the run is known to be gone: it ran on `host`, where this process runs, and the
    /// system does not have it any more. False where nobody can tell.
    pub fn is_gone(&self, host: &str) -> bool {
        self.host == host && self.process.as_deref().is_some_and(process::is_gone)
    }

    /// The run.
    pub fn epoch(&self) -> Epoch {
        Epoch(self.epoch)
    }

    /// Name of the job; what stands in the file was checked when it was read.
    pub fn job(&self) -> &str {
        &self.job
    }

    /// The job's commit user.
    pub fn commit_user(&self) -> &str {
        &self.commit_user
    }

    /// See [`Claim::begun_on`].
    pub fn begun_on(&self) -> Option<Version> {
        self.begun_on.as_ref().map(|on| Version {
            number: on.version,
            token: on.token.clone(),
        })
    }
}

/// How a run ended. Whatever it says, the run's process is gone or on its last steps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
#[non_exhaustive]
pub enum EndKind {
    /// The input ended and everything is published.
    Finished,
    /// It was asked to stop, and everything is published.
    Stopped,
    /// It gave up with an error; the next start goes on from its newest checkpoint.
    Failed,
    /// A person declared it dead.
    Retired,
    /// A kind that a later build has; carried as it stands.
    Other(String),
}

impl EndKind {
    /// The name in the mark.
    pub fn name(&self) -> &str {
        match self {
            Self::Finished => "finished",
            Self::Stopped => "stopped",
            Self::Failed => "failed",
            Self::Retired => "retired",
            Self::Other(name) => name,
        }
    }
}

impl From<String> for EndKind {
    fn from(name: String) -> Self {
        match name.as_str() {
            "finished" => Self::Finished,
            "stopped" => Self::Stopped,
            "failed" => Self::Failed,
            "retired" => Self::Retired,
            _ => Self::Other(name),
        }
    }
}

impl From<EndKind> for String {
    fn from(kind: EndKind) -> Self {
        kind.name().to_owned()
    }
}

/// Characters of a reason that are kept.
const REASON: usize = 500;

/// The end of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    version: u32,
    /// How.
    pub how: EndKind,
    /// Its last checkpoint.
    pub checkpoint: Option<u64>,
    /// When, in epoch milliseconds; for people.
    pub at_ms: i64,
    /// Why, where it failed; for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Ended {
    /// An end at a time.
    pub fn new(how: EndKind, checkpoint: Option<CheckpointId>, at_ms: i64) -> Self {
        Self {
            version: REGISTRATION_VERSION,
            how,
            checkpoint: checkpoint.map(|id| id.0),
            at_ms,
            reason: None,
        }
    }

    /// The same with its reason, cut to 500 characters.
    pub fn because(mut self, reason: &str) -> Self {
        let mut short: String = reason.trim().chars().take(REASON).collect();
        if short.len() < reason.trim().len() {
            short.push('…');
        }
        self.reason = Some(short);
        self
    }
}

/// A run and its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunStatus {
    /// The run.
    pub registration: Registration,
    /// Its end; `None` while it runs, after a crash, and where a newer run took its place.
    pub ended: Option<Ended>,
}

/// What is registered of one job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobStatus {
    /// The job.
    pub job: JobName,
    /// Its runs that are still registered, oldest first.
    pub runs: Vec<RunStatus>,
}

impl JobStatus {
    /// The newest run.
    pub fn newest(&self) -> Option<&RunStatus> {
        self.runs.last()
    }

    /// The commit user, of the newest registration \[R-1]. A first start that was held up may register
    /// epoch 1, with a user of its own, where that number was forgotten meanwhile: it is fenced, and its
    /// registration says nothing. Every later one was made with the user of the one before it.
    ///
    /// # Errors
    /// Never for what [`Registry`] has read.
    pub fn user(&self) -> Option<CommitUser> {
        let newest = self.runs.last()?;
        CommitUser::new(newest.registration.commit_user.clone()).ok()
    }

    /// True where the newest run has no `ended` mark: it runs, or it crashed. One that ended by an
    /// error of its own has a mark: its process is gone.
    pub fn may_be_running(&self) -> bool {
        self.newest().is_some_and(|run| run.ended.is_none())
    }

    /// Prefixes of all runs before this one.
    pub fn earlier(&self, than: Epoch) -> Vec<RunPrefix> {
        let earlier = self.runs.iter().map(|run| &run.registration);
        earlier
            .filter(|r| r.epoch() < than)
            .map(|r| RunPrefix(r.prefix.clone()))
            .collect()
    }
}

/// What a run says of itself when it claims an epoch.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The job.
    pub job: JobName,
    /// Its commit user: of the restored record, else of the newest registration, else new \[R-1].
    pub user: CommitUser,
    /// Epoch and id of the checkpoint that it goes on from.
    pub restored: Option<(Epoch, CheckpointId)>,
    /// URL of the checkpoint directory.
    pub checkpoints: String,
    /// Where it runs.
    pub host: String,
    /// When it started, in epoch milliseconds; for people.
    pub started_ms: i64,
    /// Identity of the source.
    pub source: String,
    /// The name under which the job ran before \[R-17].
    pub adopts: Option<JobName>,
    /// The target's newest version before the first registration of the job, carried from each one to the
    /// next: nothing that the job ever committed is at or below it. `None` where there was none, or where
    /// it is not known.
    pub begun_on: Option<Version>,
}

/// Registrations under one base: a table, or whatever a target calls its root.
#[derive(Clone, Debug)]
pub struct Registry {
    store: Store,
    identities: Identities,
}

impl Registry {
    /// Registrations under the root of `base`.
    pub fn new(base: Store) -> Self {
        Self {
            store: base.child(JOBS),
            identities: Identities::default(),
        }
    }

    /// The same, with random identities from elsewhere.
    pub fn with_identities(mut self, identities: Identities) -> Self {
        self.identities = identities;
        self
    }

    /// A commit user for a new job, see [`new_commit_user`].
    pub fn new_commit_user(&self) -> CommitUser {
        self.identities.commit_user()
    }

    /// Where they are.
    pub fn url(&self) -> &str {
        self.store.url()
    }

    /// Every registered job, by name.
    ///
    /// # Errors
    /// Where something cannot be listed or read.
    pub async fn jobs(&self) -> Result<Vec<JobStatus>, RecoveryError> {
        let doing = RecoveryError::store("listing registered jobs");
        let entries = self.store.list_names("").await.map_err(doing)?;
        let mut jobs = Vec::new();
        for entry in entries.into_iter().filter(|e| e.is_dir) {
            if let Ok(job) = JobName::new(entry.name) {
                let status = self.job(&job).await?;
                if !status.runs.is_empty() {
                    jobs.push(status);
                }
            }
        }
        Ok(jobs)
    }

    /// What is registered of one job; no runs where nothing is.
    ///
    /// # Errors
    /// Where something cannot be listed or read.
    pub async fn job(&self, job: &JobName) -> Result<JobStatus, RecoveryError> {
        let (epochs, ends) = self.list(job).await?;
        let mut runs = Vec::new();
        for epoch in epochs {
            let name = format!("{job}/epoch-{epoch}");
            let Some(registration) = self.read::<Registration>(&name).await? else {
                continue;
            };
            if registration.job != job.as_str() || registration.epoch != epoch.0 {
                let what = format!("holds epoch {} of {}", registration.epoch, registration.job);
                return Err(self.unreadable(&name, what));
            }
            if registration.commit_user.is_empty() {
                return Err(self.unreadable(&name, "it has no commit user".to_owned()));
            }
            let ended = match ends.contains(&epoch) {
                true => self.read::<Ended>(&format!("{job}/ended-{epoch}")).await?,
                false => None,
            };
            runs.push(RunStatus {
                registration,
                ended,
            });
        }
        Ok(JobStatus {
            job: job.clone(),
            runs,
        })
    }

    async fn list(&self, job: &JobName) -> Result<(Vec<Epoch>, Vec<Epoch>), RecoveryError> {
        let doing = RecoveryError::store("listing registrations");
        let entries = self.store.list_names(job.as_str()).await.map_err(doing)?;
        let numbered = |prefix: &str| {
            let names = entries.iter().map(|e| &e.name);
            let mut found: Vec<_> = names.filter_map(|name| epoch_of(prefix, name)).collect();
            found.sort_unstable();
            found
        };
        Ok((numbered("epoch-"), numbered("ended-")))
    }

    async fn read<T: for<'de> Deserialize<'de>>(
        &self,
        name: &str,
    ) -> Result<Option<T>, RecoveryError> {
        let doing = RecoveryError::store("reading a registration");
        let Some(bytes) = self.store.get_opt(name).await.map_err(doing)? else {
            return Ok(None);
        };
        read_versioned(&bytes)
            .map(Some)
            .map_err(|what| self.unreadable(name, what))
    }

    fn unreadable(&self, name: &str, what: String) -> RecoveryError {
        RecoveryError::Registration {
            url: self.store.url_of(name),
            what,
        }
    }

    /// The run that took the place of this one: registered with a newer epoch, the newest of them.
    ///
    /// # Errors
    /// Where registrations cannot be listed or read.
    pub async fn successor(
        &self,
        job: &JobName,
        epoch: Epoch,
    ) -> Result<Option<Registration>, RecoveryError> {
        let (listed, _) = self.list(job).await?;
        match listed.last() {
            Some(newest) if *newest > epoch => self.read(&epoch_name(job, *newest)).await,
            _ => Ok(None),
        }
    }

    /// Registers a new run: its epoch is above every registered one and the restored record's.
    ///
    /// # Errors
    /// [`RecoveryError::Fenced`] where somebody starts at once, which is never answered by trying
    /// the next number; [`RecoveryError::Adopted`] where the job goes on under another name.
    pub async fn claim(&self, claim: &Claim) -> Result<Run, RecoveryError> {
        let (listed, _) = self.list(&claim.job).await?;
        let mut above = listed.last().copied();
        if let Some(newest) = above
            && let Some(r) = self
                .read::<Registration>(&epoch_name(&claim.job, newest))
                .await?
        {
            if let Some(by) = r.adopted_by {
                return Err(RecoveryError::Adopted {
                    job: claim.job.to_string(),
                    by,
                });
            }
            // Two first starts at once: each has made a commit user of its own, and a job has one.
            if r.commit_user != claim.user.as_str() && !mutant::on("user-not-compared") {
                let (job, host, user) = (&claim.job, &r.host, &r.commit_user);
                let what = format!(
                    "job {job} was started at the same time from host {host}, with commit user {user}: {}",
                    self.store.url_of(&epoch_name(job, newest))
                );
                return Err(RecoveryError::Fenced { what });
            }
        }
        above = above.max(claim.restored.map(|(epoch, _)| epoch));
        if let Some(old) = &claim.adopts {
            // The old name is closed first: its next start finds out, and one that starts now and
            // comes second is fenced.
            let (listed, _) = self.list(old).await?;
            let last = listed.last().copied().max(above).unwrap_or(Epoch(0));
            let closing = Epoch(last.0 + 1);
            let mut registration = self.registration(claim, old, closing);
            registration.adopted_by = Some(claim.job.to_string());
            self.register(old, &registration).await?;
            above = Some(closing);
        }
        let epoch = Epoch(above.map_or(1, |epoch| epoch.0 + 1));
        let mut registration = self.registration(claim, &claim.job, epoch);
        registration.adopted_from = claim.adopts.as_ref().map(JobName::to_string);
        let mut registered = self.register(&claim.job, &registration).await;
        if mutant::on("claim-next-epoch") && matches!(registered, Err(RecoveryError::Fenced { .. }))
        {
            registration = self.registration(claim, &claim.job, Epoch(epoch.0 + 1));
            registered = self.register(&claim.job, &registration).await;
        }
        registered?;
        Ok(Run {
            job: claim.job.clone(),
            user: claim.user.clone(),
            epoch: registration.epoch(),
            prefix: RunPrefix(registration.prefix),
            restored: claim.restored.map(|(_, id)| id),
        })
    }

    fn registration(&self, claim: &Claim, job: &JobName, epoch: Epoch) -> Registration {
        Registration {
            version: REGISTRATION_VERSION,
            job: job.to_string(),
            epoch: epoch.0,
            commit_user: claim.user.to_string(),
            prefix: run_prefix(&claim.user, epoch).0,
            checkpoints: claim.checkpoints.clone(),
            host: claim.host.clone(),
            started_ms: claim.started_ms,
            source: claim.source.clone(),
            restored: claim.restored.map(|(_, id)| id.0),
            adopted_from: None,
            adopted_by: None,
            begun_on: claim.begun_on.as_ref().map(|on| BegunOn {
                version: on.number,
                token: on.token.clone(),
            }),
            recalled: false,
            process: process::this(),
            nonce: self.identities.draw(),
        }
    }

    async fn register(
        &self,
        job: &JobName,
        registration: &Registration,
    ) -> Result<(), RecoveryError> {
        let epoch = registration.epoch();
        let name = epoch_name(job, epoch);
        let bytes = self.bytes(&name, registration)?;
        let settled = create::create(&self.store, &name, bytes, "registering a run").await?;
        if let Settled::Theirs(there) = settled
            && !mutant::on("epoch-shared")
        {
            let who = match serde_json::from_slice::<Registration>(&there) {
                Ok(r) => format!("from host {} with commit user {}", r.host, r.commit_user),
                Err(_) => "by something else".to_owned(),
            };
            let url = self.store.url_of(&name);
            let what = format!("job {job} was started at the same time {who}: {url}");
            return Err(RecoveryError::Fenced { what });
        }
        let (listed, _) = self.list(job).await?;
        match listed.last() {
            Some(newest) if *newest > epoch => {
                let url = self.store.url_of(&epoch_name(job, *newest));
                let what = format!("job {job} was started again after this run: {url}");
                Err(RecoveryError::Fenced { what })
            }
            _ => {
                self.remove_leftovers(job, epoch).await;
                Ok(())
            }
        }
    }

    /// Temporary files of registrations up to the newest one, and of marks before it: whoever made them
    /// is dead, or finds itself fenced, or writes its mark once more.
    async fn remove_leftovers(&self, job: &JobName, newest: Epoch) {
        let dead = |name: &str, _: Option<&str>| {
            epoch_of("epoch-", name).is_some_and(|epoch| epoch <= newest)
                || epoch_of("ended-", name).is_some_and(|epoch| epoch < newest)
        };
        leftovers::remove(&self.store, job.as_str(), dead).await;
    }

    fn bytes(&self, name: &str, value: &impl Serialize) -> Result<Bytes, RecoveryError> {
        let text = serde_json::to_vec(value).map_err(|e| self.unreadable(name, e.to_string()))?;
        Ok(text.into())
    }

    /// Marks a run as ended. A mark that is there already stays, and no other run's is touched.
    ///
    /// # Errors
    /// Where it cannot be written; the run then looks as if it had crashed, which harms nothing.
    pub async fn end(
        &self,
        job: &JobName,
        epoch: Epoch,
        ended: &Ended,
    ) -> Result<(), RecoveryError> {
        let name = format!("{job}/ended-{epoch}");
        let bytes = self.bytes(&name, ended)?;
        create::create(&self.store, &name, bytes, "marking a run as ended")
            .await
            .map(|_| ())
    }

    /// Marks a run that gave up, where it is still the newest one: a fenced run has nothing more to
    /// say about the job. `false` where a newer one is registered.
    ///
    /// # Errors
    /// As [`Registry::successor`] and [`Registry::end`].
    pub async fn end_if_newest(
        &self,
        job: &JobName,
        epoch: Epoch,
        ended: &Ended,
    ) -> Result<bool, RecoveryError> {
        let (listed, _) = self.list(job).await?;
        if listed.last() != Some(&epoch) {
            return Ok(false);
        }
        self.end(job, epoch, ended).await.map(|()| true)
    }

    /// Declares a job dead: its newest run counts as ended. `false` where it had ended before.
    ///
    /// # Errors
    /// As [`Registry::job`] and [`Registry::end`].
    pub async fn retire(&self, job: &JobName, at_ms: i64) -> Result<bool, RecoveryError> {
        let status = self.job(job).await?;
        match status.newest() {
            Some(run) if run.ended.is_none() => {
                let retired = Ended::new(EndKind::Retired, None, at_ms);
                self.end(job, run.registration.epoch(), &retired).await?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Removes the registrations of earlier runs, those with a prefix among `cleaned`: their files are gone
    /// \[R-13]. One that came since the caller has looked stays, as does the newest, and with it commit user
    /// and epoch.
    ///
    /// # Errors
    /// Where one cannot be removed; the next call finds it again.
    pub async fn forget(&self, run: &Run, cleaned: &[RunPrefix]) -> Result<(), RecoveryError> {
        let job = &run.job;
        let (epochs, ends) = self.list(job).await?;
        let newest = epochs.last().copied();
        let cleaned: BTreeSet<Epoch> = cleaned
            .iter()
            .filter_map(|prefix| epoch_of_prefix(&run.user, &prefix.0))
            .collect();
        let old = |e: &Epoch| *e < run.epoch && Some(*e) != newest;
        // A mark without its registration is what an interrupted call left.
        let alone: BTreeSet<Epoch> = ends
            .iter()
            .copied()
            .filter(|e| !epochs.contains(e))
            .collect();
        let name = |kind: &'static str| move |e: Epoch| format!("{job}/{kind}-{e}");
        let registrations = epochs
            .into_iter()
            .filter(|e| old(e) && cleaned.contains(e))
            .map(name("epoch"));
        let marks = ends
            .into_iter()
            .filter(|e| old(e) && (cleaned.contains(e) || alone.contains(e)))
            .map(name("ended"));
        // Registrations before their marks: a run never looks crashed in between.
        for path in registrations.chain(marks) {
            let doing = RecoveryError::store("removing an old registration");
            self.store.delete(&path).await.map_err(doing)?;
        }
        Ok(())
    }

    /// Registers all runs before this one that are not registered any more. A rollback makes garbage
    /// of files that were visible when their run's registration went, and who cleans up knows a
    /// run's files by its registration only \[R-13]. To be called before the rollback's first delete,
    /// so that whatever interrupts it, a later run still finds them.
    ///
    /// # Errors
    /// Where the own registration is absent, or one cannot be written.
    pub async fn recall(&self, run: &Run) -> Result<(), RecoveryError> {
        let own = epoch_name(&run.job, run.epoch);
        let Some(like) = self.read::<Registration>(&own).await? else {
            return Err(self.unreadable(&own, "it is absent".to_owned()));
        };
        let (listed, _) = self.list(&run.job).await?;
        let gone = (1..run.epoch.0).rev().map(Epoch).take(RECALLED);
        for epoch in gone.filter(|epoch| !listed.contains(epoch)) {
            let registration = Registration {
                epoch: epoch.0,
                prefix: run_prefix(&run.user, epoch).0,
                restored: None,
                recalled: true,
                nonce: self.identities.draw(),
                ..like.clone()
            };
            let name = epoch_name(&run.job, epoch);
            let bytes = self.bytes(&name, &registration)?;
            // Theirs is as good as ours.
            create::create(&self.store, &name, bytes, "registering an old run again").await?;
        }
        Ok(())
    }

    /// Which jobs are registered with which user: what [`crate::CheckpointStore::adoptable`] asks.
    ///
    /// # Errors
    /// As [`Registry::jobs`].
    pub async fn users(&self) -> Result<BTreeMap<CommitUser, JobName>, RecoveryError> {
        let jobs = self.jobs().await?;
        Ok(jobs
            .into_iter()
            .filter_map(|j| Some((j.user()?, j.job)))
            .collect())
    }
}

/// One object of a registry: JSON that says its version first.
pub(crate) fn read_versioned<T: for<'de> Deserialize<'de>>(bytes: &[u8]) -> Result<T, String> {
    #[derive(Deserialize)]
    struct Versioned {
        version: u32,
    }
    let Versioned { version } = serde_json::from_slice(bytes).map_err(|e| e.to_string())?;
    if version != REGISTRATION_VERSION {
        return Err(format!(
            "version {version}; this build reads {REGISTRATION_VERSION}"
        ));
    }
    serde_json::from_slice(bytes).map_err(|e| e.to_string())
}

/// The epoch in `epoch-<E>` or `ended-<E>`.
fn epoch_of(prefix: &str, name: &str) -> Option<Epoch> {
    Epoch::parse(name.strip_prefix(prefix)?)
}

fn epoch_name(job: &JobName, epoch: Epoch) -> String {
    format!("{job}/epoch-{epoch}")
}
