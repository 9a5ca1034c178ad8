//! A job: its parts, and runs one after the other until it ends.
//!
//! Owns the builder, the restart loop and what a job came to. A run itself is in `run`, how it begins
//! in `start`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arrow::array::RecordBatch;
use tidegate_recovery::{CheckpointStore, EndKind, Ended, Registry};
use tidegate_sink::{CheckpointId, Epoch, ErrorKind, JobName, SinkError, Target};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::cleaning;
use crate::clock::{Clock, SystemClock};
use crate::error::RuntimeError;
use crate::mismatch::MismatchReport;
use crate::progress::{Phase, Progress, RowCounter};
use crate::restart::Restarts;
use crate::run::{self, RunEnd};
use crate::settings::Settings;
use crate::source::Source;
use crate::start::{self, Begun, Ways};
use crate::stop::StopSignal;

/// A target of record batches.
pub type BatchTarget = dyn Target<Batch = RecordBatch>;

/// How long a mark of a run that gave up may take: a store that is gone must not hold back the end.
const MARKING: Duration = Duration::from_secs(5);
/// The same where the end was asked for at once.
const MARKING_AT_ONCE: Duration = Duration::from_secs(1);
/// How long a fenced run may take to remove what it has left.
const CLEANING: Duration = Duration::from_secs(60);

/// What a job is made of; shared by its runs.
pub(crate) struct Parts {
    pub(crate) job: JobName,
    pub(crate) source: Arc<dyn Source>,
    pub(crate) target: Arc<BatchTarget>,
    pub(crate) checkpoints: CheckpointStore,
    pub(crate) registry: Registry,
    pub(crate) settings: Settings,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) rows: RowCounter,
    progress: watch::Sender<Progress>,
    /// The newest epoch that this process registered; 0 = none.
    claimed: AtomicU64,
}

impl Parts {
    /// Remembers which epoch to mark at the end, also where the start that claimed it is dropped.
    pub(crate) fn claimed(&self, epoch: Epoch) {
        self.claimed.store(epoch.0, Ordering::Relaxed);
    }

    pub(crate) fn show(&self, change: impl FnOnce(&mut Progress)) {
        self.progress.send_modify(change);
    }

    pub(crate) fn target_error(&self, doing: &'static str, source: SinkError) -> RuntimeError {
        RuntimeError::Target {
            doing,
            target: self.target.name(),
            source,
        }
    }
}

/// What a job did, as far as it got.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The last run.
    pub epoch: Option<Epoch>,
    /// In-process restarts.
    pub restarts: u32,
    /// The newest complete checkpoint of the last run.
    pub checkpoint: Option<CheckpointId>,
    /// Rows taken from the source, replayed ones included.
    pub rows: u64,
    /// Rows in commits published by this process.
    pub rows_published: u64,
}

/// What a job came to, where it did not fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobEnd {
    /// The source ended and everything is published.
    Finished(Summary),
    /// Stopped as asked, and everything before is published.
    Stopped(Summary),
    /// Stopped at once at the second request; the next start settles what is not published.
    Aborted(Summary),
    /// A finished job whose source has nothing new. No run was registered.
    NothingNew,
    /// A person must choose a way out: exit code 6 \[R-7], \[R-17].
    Mismatch(Box<MismatchReport>),
}

/// A job that is ready to run.
pub struct Job {
    parts: Parts,
}

/// Puts a job together. Source, target, checkpoints and registry are required.
#[must_use]
pub struct JobBuilder {
    job: JobName,
    source: Option<Arc<dyn Source>>,
    target: Option<Arc<BatchTarget>>,
    checkpoints: Option<CheckpointStore>,
    registry: Option<Registry>,
    settings: Settings,
    clock: Arc<dyn Clock>,
}

impl JobBuilder {
    /// Where rows come from.
    pub fn source(mut self, source: impl Source + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// The same, shared.
    pub fn shared_source(mut self, source: Arc<dyn Source>) -> Self {
        self.source = Some(source);
        self
    }

    /// Where rows go.
    pub fn target(mut self, target: Arc<BatchTarget>) -> Self {
        self.target = Some(target);
        self
    }

    /// Where checkpoint records are kept.
    pub fn checkpoints(mut self, checkpoints: CheckpointStore) -> Self {
        self.checkpoints = Some(checkpoints);
        self
    }

    /// Where runs are registered: beside the target.
    pub fn registry(mut self, registry: Registry) -> Self {
        self.registry = Some(registry);
        self
    }

    /// How it runs.
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// What tells the time.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Checks that everything is there and fits together.
    ///
    /// # Errors
    /// [`RuntimeError::Config`] says what is missing or does not fit.
    pub fn build(self) -> Result<Job, RuntimeError> {
        fn part<T>(part: Option<T>, what: &str) -> Result<T, RuntimeError> {
            part.ok_or_else(|| RuntimeError::Config(format!("a job needs a {what}")))
        }
        let source = part(self.source, "source")?;
        self.settings
            .check(source.boundedness())
            .map_err(RuntimeError::Config)?;
        Ok(Job {
            parts: Parts {
                job: self.job,
                source,
                target: part(self.target, "target")?,
                checkpoints: part(self.checkpoints, "checkpoint store")?,
                registry: part(self.registry, "registry")?,
                settings: self.settings,
                clock: self.clock,
                rows: RowCounter::default(),
                progress: watch::Sender::new(Progress::default()),
                claimed: AtomicU64::new(0),
            },
        })
    }
}

impl Job {
    /// Begins to put a job together.
    pub fn builder(name: JobName) -> JobBuilder {
        JobBuilder {
            job: name,
            source: None,
            target: None,
            checkpoints: None,
            registry: None,
            settings: Settings::default(),
            clock: Arc::new(SystemClock),
        }
    }

    /// What the job is doing, while and after it runs.
    pub fn progress(&self) -> watch::Receiver<Progress> {
        self.parts.progress.subscribe()
    }

    /// Runs to the end of the source, to a stop, or to an error that no restart cures.
    ///
    /// May be dropped at any await \[R-18]: that is like a crash, and the next start goes on from
    /// the newest complete checkpoint.
    ///
    /// # Errors
    /// [`RuntimeError::kind`] tells what kind of end it is.
    ///
    /// # Panics
    /// Where a task panics: a bug is not restarted.
    pub async fn run(self, stop: StopSignal) -> Result<JobEnd, RuntimeError> {
        let mut at_once = stop.clone();
        let mut end = tokio::select! {
            biased;
            () = at_once.wait(2) => Ok(JobEnd::Aborted(Summary::default())),
            end = Box::pin(self.runs(stop)) => end,
        };
        if let Ok(JobEnd::Aborted(summary)) = &mut end {
            *summary = self.summary();
        }
        let (how, reason, patience) = match &end {
            // The job is another run's now, and its registration says so.
            Err(error) if error.kind() == ErrorKind::Fenced => (None, None, MARKING),
            Err(error) => (Some(EndKind::Failed), Some(error.to_string()), MARKING),
            Ok(JobEnd::Aborted(_)) => {
                let why = "stopped at once by a second signal".to_owned();
                (Some(EndKind::Failed), Some(why), MARKING_AT_ONCE)
            }
            Ok(JobEnd::Stopped(_)) => {
                let why = "stopped before it ran; the next start settles what is saved".to_owned();
                (Some(EndKind::Failed), Some(why), MARKING)
            }
            Ok(JobEnd::Mismatch(report)) => (
                Some(EndKind::Failed),
                Some(format!("saved state and table disagree: {}", report.why)),
                MARKING,
            ),
            Ok(JobEnd::Finished(_) | JobEnd::NothingNew) => {
                (Some(EndKind::Finished), None, MARKING)
            }
        };
        if let Some(how) = how {
            self.mark(how, reason.as_deref(), patience).await;
        }
        // Fenced, or failed where a newer run had taken over by then.
        if end.is_err() {
            self.clean_after_itself().await;
        }
        self.parts.show(|progress| progress.phase = Phase::Ended);
        end
    }

    /// Leaves the `ended` mark of the run that this process registered last, once and best effort: a
    /// person sees how it ended, and that its process is gone. A restart in the same process leaves
    /// none, since the job goes on; nor is there one where a newer run is registered.
    async fn mark(&self, how: EndKind, reason: Option<&str>, patience: Duration) {
        let epoch = self.parts.claimed.swap(0, Ordering::Relaxed);
        if epoch == 0 {
            return;
        }
        let checkpoint = self.parts.progress.borrow().checkpoint;
        let mut ended = Ended::new(how, checkpoint, self.parts.clock.now_ms());
        if let Some(reason) = reason {
            ended = ended.because(reason);
        }
        let (registry, job) = (&self.parts.registry, &self.parts.job);
        let marking = registry.end_if_newest(job, Epoch(epoch), &ended);
        match timeout(patience, marking).await {
            Ok(Ok(true)) => {}
            Ok(Ok(false)) => self.parts.claimed(Epoch(epoch)),
            Ok(Err(error)) => tracing::warn!(%error, "the run is not marked as ended"),
            Err(_) => tracing::warn!(?patience, "the run is not marked as ended: no answer"),
        }
    }

    /// What a run has left that a newer one has replaced, best effort \[R-13].
    async fn clean_after_itself(&self) {
        let epoch = self.parts.claimed.swap(0, Ordering::Relaxed);
        if epoch == 0 {
            return;
        }
        let cleaning = cleaning::after_a_fence(&self.parts, Epoch(epoch));
        if timeout(CLEANING, cleaning).await.is_err() {
            tracing::warn!("what this run has left stays: no answer");
        }
    }

    /// Why a run really failed: where a newer run is registered, it has removed this one's files or
    /// taken its place in the store, and starting again would take the job back from it \[R-2].
    /// What says more by itself (an undecided commit, wrong input) stays as it is.
    async fn superseded(&self, epoch: Epoch, error: RuntimeError) -> RuntimeError {
        let telling = matches!(
            error.kind(),
            ErrorKind::Fenced | ErrorKind::Undecided | ErrorKind::Data | ErrorKind::Config
        );
        if telling {
            return error;
        }
        match self.parts.registry.successor(&self.parts.job, epoch).await {
            Ok(Some(newer)) => RuntimeError::Superseded {
                newer: newer.epoch(),
                host: newer.host.clone(),
                cause: error.to_string(),
            },
            // The store does not tell: the first error says more than a second one.
            Ok(None) | Err(_) => error,
        }
    }

    fn summary(&self) -> Summary {
        let progress = self.parts.progress.borrow();
        Summary {
            epoch: progress.epoch,
            restarts: progress.restarts,
            checkpoint: progress.checkpoint,
            rows: self.parts.rows.get(),
            rows_published: progress.rows_published,
        }
    }

    /// Every start and every in-process restart is a run with its own epoch.
    async fn runs(&self, mut stop: StopSignal) -> Result<JobEnd, RuntimeError> {
        let parts = &self.parts;
        let mut restarts = Restarts::new(parts.settings.restart.clone());
        // A way out, or an older checkpoint, is taken once; then a record of it is written.
        let mut ways = Ways::of(&parts.settings);
        loop {
            if stop.count() > 0 {
                return Ok(JobEnd::Stopped(self.summary()));
            }
            parts.show(|progress| progress.phase = Phase::Starting);
            let begun = tokio::select! {
                biased;
                () = stop.wait(1) => return Ok(JobEnd::Stopped(self.summary())),
                begun = Box::pin(start::start(parts, &mut ways, restarts.total() == 0)) => begun,
            };
            let (result, checkpoint) = match begun {
                Ok(Begun::Run(begin)) => {
                    let epoch = begin.run.epoch;
                    parts.show(|progress| {
                        progress.phase = Phase::Running;
                        progress.epoch = Some(epoch);
                        progress.checkpoint = None;
                    });
                    let report = Box::pin(run::run(parts, *begin, stop.clone())).await;
                    match report.result {
                        Ok(RunEnd::Finished) => {
                            self.mark(EndKind::Finished, None, MARKING).await;
                            return Ok(JobEnd::Finished(self.summary()));
                        }
                        Ok(RunEnd::Stopped) => {
                            self.mark(EndKind::Stopped, None, MARKING).await;
                            return Ok(JobEnd::Stopped(self.summary()));
                        }
                        Err(error) => (self.superseded(epoch, error).await, report.checkpoint),
                    }
                }
                Ok(Begun::NothingNew) if restarts.total() > 0 => {
                    // A run before this one failed after its last commit.
                    return Ok(JobEnd::Finished(self.summary()));
                }
                Ok(Begun::NothingNew) => return Ok(JobEnd::NothingNew),
                Ok(Begun::Mismatch(report)) => return Ok(JobEnd::Mismatch(report)),
                Err(error) => (error, None),
            };
            //
            if result.kind().is_final() {
                return Err(result);
            }
            let Some(wait) = restarts.next(checkpoint.is_some()) else {
                return Err(result);
            };
            tracing::warn!(error = %result, ?wait, restart = restarts.total(), "restarting");
            parts.show(|progress| {
                progress.phase = Phase::Restarting;
                progress.restarts = restarts.total();
                progress.trouble = Some(result.to_string());
            });
            tokio::select! {
                biased;
                () = stop.wait(1) => return Err(result),
                () = sleep(wait) => {}
            }
        }
    }
}
