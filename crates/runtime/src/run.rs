//! One run: tasks, barriers, checkpoints, commits.
//!
//! Owns the coordinator, a single loop that alone decides. Order of a checkpoint: barrier through
//! sources and writers, messages counted, `combine`, record written = *complete*, commits in order,
//! outcome remembered, old records removed. Does not own how a run begins (`start`) and what follows
//! a failure (`job`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use tidegate_recovery::{CheckpointRecord, JobCheckpoints, RecordKind};
use tidegate_sink::{
    CheckpointId, CommitContext, Committable, Committer, ErrorKind, Outcome, Positions, Published,
    Run, RunPrefix, SinkError, WriterMemory, WriterSet, mutant, probe,
};
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};

use crate::align::{Alignment, Ready};
use crate::cleaning;
use crate::commits::{Commits, Done, PendingCommit};
use crate::error::RuntimeError;
use crate::job::Parts;
use crate::progress::Phase;
use crate::source::{Discovery, Position, SourceState, Split, SplitEnumerator, SplitId};
use crate::stop::StopSignal;
use crate::task::enumerator::EnumeratorTask;
use crate::task::source::SourceTask;
use crate::task::writer::WriterTask;
use crate::task::{Barrier, Control, Event, SplitQueue};

/// How long tasks may take to give up what they hold when a run ends.
const FAREWELL: Duration = Duration::from_secs(10);
const PROGRESS_EVERY: Duration = Duration::from_millis(500);

/// What a run begins with: everything is settled and nothing is open yet.
pub(crate) struct Begin {
    pub(crate) run: Run,
    pub(crate) committer: Box<dyn Committer>,
    pub(crate) records: JobCheckpoints,
    /// Prefixes of earlier runs, whose left-overs this one may remove \[R-13].
    pub(crate) earlier: Vec<RunPrefix>,
    /// All of them have ended.
    pub(crate) earlier_ended: bool,
    pub(crate) state: SourceState,
    pub(crate) enumerator: Box<dyn SplitEnumerator>,
    pub(crate) found: Option<Discovery>,
    /// Checkpoints go on above this one.
    pub(crate) above: CheckpointId,
    pub(crate) last_positions: Option<Positions>,
    pub(crate) published_positions: Option<Positions>,
    pub(crate) newest_published: Option<Published>,
    /// That commit, where no version is its own and only its files tell that it is published.
    pub(crate) by_files: Option<Committable>,
    /// A commit of this run's epoch is visible already.
    pub(crate) visible: bool,
}

/// How a run ended well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunEnd {
    Finished,
    Stopped,
}

/// A run, its result and whether it got as far as a checkpoint.
pub(crate) struct RunReport {
    pub(crate) result: Result<RunEnd, RuntimeError>,
    pub(crate) checkpoint: Option<CheckpointId>,
}

/// Carries rows until the end, a stop or a failure.
pub(crate) async fn run(parts: &Parts, mut begin: Begin, stop: StopSignal) -> RunReport {
    let writers = match open_writers(parts, &mut begin).await {
        Ok(writers) => writers,
        Err(source) => {
            let error = parts.target_error("opening writers of", source);
            return RunReport {
                result: Err(error),
                checkpoint: None,
            };
        }
    };
    let count = parts.settings.parallelism;
    let (events, inbox) = mpsc::unbounded_channel();
    let (finished, finishing) = mpsc::unbounded_channel();
    let queue = SplitQueue::new(begin.state.begun());
    let waiting = begin.state.active.clone();
    let mut tasks = JoinSet::new();
    let mut inputs: Vec<Vec<_>> = writers.writers.iter().map(|_| Vec::new()).collect();
    let router = Arc::from(writers.router);
    let mut controls = Vec::new();
    for task in 0..count {
        let mut outputs = Vec::new();
        for input in &mut inputs {
            let (sender, receiver) = mpsc::channel(parts.settings.channel_capacity);
            outputs.push(sender);
            input.push(receiver);
        }
        let (control, controlled) = mpsc::unbounded_channel();
        controls.push(control);
        let source = SourceTask {
            task,
            source: Arc::clone(&parts.source),
            target: parts.target.name(),
            queue: queue.clone(),
            router: Arc::clone(&router),
            outputs,
            control: controlled,
            events: events.clone(),
            rows: parts.rows.clone(),
        };
        tasks.spawn(source.run());
    }
    let writer_count = writers.writers.len();
    for (task, (writer, inputs)) in writers.writers.into_iter().zip(inputs).enumerate() {
        let target = parts.target.name();
        tasks.spawn(
            WriterTask {
                task,
                target,
                writer,
                inputs,
                events: events.clone(),
            }
            .run(),
        );
    }
    let enumerator = EnumeratorTask {
        source: Arc::clone(&parts.source),
        enumerator: begin.enumerator,
        found: begin.found,
        queue,
        finished: finishing,
        events,
    };
    tasks.spawn(enumerator.run());
    let now = Instant::now();
    let mut coordinator = Coordinator {
        parts,
        run: begin.run,
        commits: Commits::new(begin.committer, &parts.settings.commits),
        records: begin.records,
        earlier: begin.earlier,
        earlier_ended: begin.earlier_ended,
        state: begin.state,
        waiting,
        alignment: Alignment::new(count, writer_count),
        controls,
        paused: false,
        finished,
        done: vec![false; count],
        next_id: CheckpointId(begin.above.0 + 1),
        last_positions: begin.last_positions,
        published_positions: begin.published_positions,
        newest_published: begin.newest_published,
        unrecorded: Vec::new(),
        recorded: None,
        visible: begin.visible,
        cleaning: JoinSet::new(),
        failures: 0,
        last_begin: now,
        last_end: now,
        ending: None,
        last: Last::NotBegun,
    };
    let result = Box::pin(coordinator.drive(inbox, &mut tasks, stop)).await;
    let checkpoint = coordinator.recorded;
    drop(coordinator);
    // With the coordinator the control channels are gone: sources end, then writers give up what
    // they have not prepared.
    let farewell = async { while tasks.join_next().await.is_some() {} };
    if timeout(FAREWELL, farewell).await.is_err() {
        tracing::warn!("tasks did not end in time and were dropped");
    }
    RunReport { result, checkpoint }
}

/// The last checkpoint of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Last {
    NotBegun,
    Running(CheckpointId),
    Recorded,
}

struct Coordinator<'a> {
    parts: &'a Parts,
    run: Run,
    commits: Commits,
    records: JobCheckpoints,
    earlier: Vec<RunPrefix>,
    earlier_ended: bool,
    state: SourceState,
    /// Splits that an earlier run has begun and no task of this one has taken so far: they are in no
    /// task's report, and still in every checkpoint.
    waiting: BTreeMap<SplitId, Position>,
    alignment: Alignment,
    controls: Vec<mpsc::UnboundedSender<Control>>,
    /// Sources read nothing.
    paused: bool,
    finished: mpsc::UnboundedSender<Split>,
    /// Which source tasks have read everything.
    done: Vec<bool>,
    next_id: CheckpointId,
    last_positions: Option<Positions>,
    published_positions: Option<Positions>,
    newest_published: Option<Published>,
    /// Combined, and in no complete record yet \[R-10].
    unrecorded: Vec<PendingCommit>,
    /// The newest complete checkpoint of this run.
    recorded: Option<CheckpointId>,
    /// A commit of this run's epoch is visible.
    visible: bool,
    cleaning: JoinSet<()>,
    /// Checkpoints that failed in a row.
    failures: u32,
    last_begin: Instant,
    last_end: Instant,
    /// Set once the run is to end, and since when.
    ending: Option<(RunEnd, Instant)>,
    last: Last,
}

type Tasks = JoinSet<Result<(), RuntimeError>>;

impl Coordinator<'_> {
    async fn drive(
        &mut self,
        mut inbox: mpsc::UnboundedReceiver<Event>,
        tasks: &mut Tasks,
        mut stop: StopSignal,
    ) -> Result<RunEnd, RuntimeError> {
        let mut tick = interval(PROGRESS_EVERY);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let unpublished = !self
            .parts
            .settings
            .publishes(self.parts.source.boundedness());
        loop {
            self.gather().await?;
            self.commits.go_on();
            self.pause_or_go_on();
            self.show();
            if let Some((end, since)) = self.ending {
                // Nothing was ever to become visible: there is no last checkpoint.
                if unpublished {
                    return Ok(end);
                }
                if self.last == Last::Recorded && self.commits.is_idle() {
                    self.farewell().await;
                    return Ok(end);
                }
                self.commits.check_patience(since, self.parts)?;
            }
            let due = self.due();
            let deadline = self.alignment.running().map(|id| (id, self.deadline()));
            let retry = self.commits.retry_at();
            tokio::select! {
                biased;
                () = stop.wait(1), if self.ending.is_none() => {
                    tracing::info!("asked to stop: taking the last checkpoint");
                    self.ending = Some((RunEnd::Stopped, Instant::now()));
                }
                event = inbox.recv() => match event {
                    Some(event) => self.event(event),
                    None => return Err(tasks_left(tasks).await),
                },
                Some(ended) = tasks.join_next() => unwind(ended)??,
                Some(done) = self.commits.done() => self.committed(unwind(done)?).await?,
                Some(cleaned) = self.cleaning.join_next() => unwind(cleaned)?,
                () = at(retry) => {}
                () = at(deadline.map(|(_, at)| at)) => if let Some((id, _)) = deadline {
                    self.alignment.abort(id);
                    let after = self.parts.settings.checkpoints.timeout;
                    self.failed(id, format!("not all tasks had reported after {after:?}"))?;
                },
                () = at(due) => self.begin(),
                _ = tick.tick() => {}
            }
        }
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Source {
                task,
                checkpoint,
                report,
            } => {
                self.alignment.source(checkpoint, task, report);
            }
            Event::Writer {
                task,
                checkpoint,
                messages,
            } => {
                self.alignment.writer(checkpoint, task, messages);
            }
            Event::SourceDone { task } => {
                if let Some(done) = self.done.get_mut(task) {
                    *done = true;
                }
                // A stop that came first keeps its name, unless everything was read by then.
                if self.done.iter().all(|done| *done) && self.last == Last::NotBegun {
                    self.ending = Some((RunEnd::Finished, Instant::now()));
                }
            }
            Event::Enumerator(state) => self.state.enumerator = state,
        }
    }

    fn deadline(&self) -> Instant {
        self.last_begin + self.parts.settings.checkpoints.timeout
    }

    /// When the next checkpoint begins.
    fn due(&self) -> Option<Instant> {
        if self.alignment.running().is_some() {
            return None;
        }
        let settings = &self.parts.settings;
        // After a failure not at once again, also where it is the last one.
        let again = match self.failures {
            0 => self.last_end,
            _ => self.last_end + settings.commits.retry_base,
        };
        match (self.ending, self.last) {
            (Some(_), Last::NotBegun) => Some(again),
            (Some(_), _) => None,
            (None, _) if self.paused => None,
            (None, _) => {
                let next = self.last_begin + settings.checkpoints.interval?;
                Some(
                    next.max(self.last_end + settings.checkpoints.min_pause)
                        .max(again),
                )
            }
        }
    }

    fn begin(&mut self) {
        probe::hit(probe::BEFORE_CHECKPOINT);
        let id = self.next_id;
        self.next_id = CheckpointId(id.0 + 1);
        self.last_begin = Instant::now();
        let kind = match self.ending {
            Some((RunEnd::Finished, _)) => RecordKind::EndOfInput,
            _ => RecordKind::Checkpoint,
        };
        tracing::debug!(checkpoint = %id, ?kind, "begin");
        self.alignment.begin(id, kind);
        for control in &self.controls {
            // A task that is gone shows in the join set.
            let last = kind == RecordKind::EndOfInput;
            let _ = control.send(Control::Barrier(Barrier { id, last }));
        }
        if self.ending.is_some() {
            self.last = Last::Running(id);
            // What is read behind the last barrier would only be given up.
            self.pause(true);
        }
    }

    /// Takes what is ready, as long as nobody else has the committer.
    async fn gather(&mut self) -> Result<(), RuntimeError> {
        while self.commits.is_home() {
            let Some(ready) = self.alignment.take_ready() else {
                return Ok(());
            };
            self.complete(ready).await?;
        }
        Ok(())
    }

    async fn complete(&mut self, ready: Ready) -> Result<(), RuntimeError> {
        probe::hit(probe::PREPARED);
        let rows = ready.sources.iter().map(|report| report.rows).sum();
        self.state.active.clear();
        let mut ends = Vec::new();
        for report in ready.sources {
            for split in report.finished {
                self.waiting.remove(&split.id);
                self.state
                    .finished
                    .insert(split.id.clone(), split.position.clone());
                ends.push(split);
            }
            self.waiting.retain(|id, _| !report.active.contains_key(id));
            self.state.active.extend(report.active);
        }
        if !mutant::on("waiting-splits-forgotten") {
            self.state.active.extend(self.waiting.clone());
        }
        self.state
            .finished
            .retain(|id, _| !self.state.active.contains_key(id));
        let positions = self.state.to_positions();
        let context = CommitContext {
            job: self.run.job.clone(),
            epoch: self.run.epoch,
            checkpoint: ready.id,
            positions: Some(positions.clone()),
            replaces: self.last_positions.clone(),
            watermark: None,
        };
        let reports = ready.reports;
        let committable = self
            .commits
            .combine(&context, ready.messages, reports, self.parts)?;
        let empty = self.commits.is_empty(&committable, self.parts)?;
        if !empty {
            self.last_positions = Some(positions.clone());
        }
        let id = ready.id;
        let pending = PendingCommit {
            committable,
            positions: positions.clone(),
            rows,
            checkpoint: id,
        };
        if !(ready.aborted && mutant::on("aborted-dropped")) {
            self.unrecorded.push(pending);
        }
        // Ends are told only now: before, a split that grew could be begun by another task whose
        // barrier comes earlier.
        for split in ends {
            let _ = self.finished.send(split);
        }
        if ready.aborted {
            tracing::info!(checkpoint = %id, "complete after it was given up: goes with the next");
            return Ok(());
        }
        self.record(id, ready.kind, positions).await
    }

    async fn record(
        &mut self,
        id: CheckpointId,
        kind: RecordKind,
        positions: Positions,
    ) -> Result<(), RuntimeError> {
        // The newest run wins the job. Commits find out by themselves; an idle run would not, and
        // its records would fence the one that came to take over.
        match self
            .parts
            .registry
            .successor(&self.run.job, self.run.epoch)
            .await
        {
            Ok(None) => {}
            Ok(Some(_)) if mutant::on("successor-ignored") => {}
            Ok(Some(newer)) => {
                return Err(RuntimeError::Superseded {
                    newer: newer.epoch(),
                    host: newer.host.clone(),
                    cause: format!("checkpoint {id} is not recorded any more"),
                });
            }
            Err(error) if error.kind().is_final() => return Err(error.into()),
            Err(error) => return self.failed(id, error.to_string()),
        }
        let waiting = self.commits.waiting().chain(&self.unrecorded);
        let record = CheckpointRecord {
            kind,
            target: self.parts.target.name(),
            source: self.parts.source.identity(),
            positions,
            last_positions: self.last_positions.clone(),
            published_positions: self.published_positions.clone(),
            committables: waiting.map(|pending| pending.committable.clone()).collect(),
            newest_published: self.newest_published.clone(),
            ..CheckpointRecord::new(
                self.run.job.clone(),
                id,
                self.run.user.clone(),
                self.run.epoch,
            )
        };
        match self.records.write(&record).await {
            Ok(()) => {}
            Err(error) if error.kind().is_final() => return Err(error.into()),
            // What was combined stays and goes into the next record.
            Err(error) => return self.failed(id, error.to_string()),
        }
        probe::hit(probe::RECORDED);
        tracing::debug!(checkpoint = %id, "complete");
        self.recorded = Some(id);
        self.failures = 0;
        self.last_end = Instant::now();
        if self.last == Last::Running(id) {
            self.last = Last::Recorded;
        }
        self.commits.add(self.unrecorded.drain(..));
        if mutant::on("clean-at-once") {
            self.clean().await;
        }
        let now = self.parts.clock.now_ms();
        self.parts.show(|progress| {
            progress.checkpoint = Some(id);
            progress.checkpoint_at_ms = Some(now);
        });
        Ok(())
    }

    fn failed(&mut self, id: CheckpointId, why: String) -> Result<(), RuntimeError> {
        self.failures += 1;
        self.last_end = Instant::now();
        if self.last == Last::Running(id) {
            self.last = Last::NotBegun;
        }
        tracing::warn!(checkpoint = %id, in_a_row = self.failures, "failed: {why}");
        self.parts.show(|progress| {
            progress.checkpoints_failed += 1;
            progress.trouble = Some(format!("checkpoint {id}: {why}"));
        });
        if self.failures > self.parts.settings.checkpoints.tolerable_failures {
            return Err(RuntimeError::Checkpoints {
                count: self.failures,
                last: why,
            });
        }
        Ok(())
    }

    async fn committed(&mut self, done: Done) -> Result<(), RuntimeError> {
        let Some((pending, published)) = self.commits.settle(done, self.parts)? else {
            return Ok(());
        };
        if let Some(published) = published {
            tracing::info!(
                commit = %published.identifier, version = published.version, rows = pending.rows,
                "published"
            );
            self.parts.show(|progress| {
                progress.rows_published += pending.rows;
                progress.published = Some(published.clone());
                progress.trouble = None;
            });
            self.newest_published = Some(published);
            self.published_positions = Some(pending.positions);
            self.visible = true;
        }
        probe::hit(probe::NOTIFIED);
        if let Some(upto) = self.published_upto() {
            self.records
                .retain(self.parts.settings.checkpoints.retain, upto)
                .await;
        }
        self.clean().await;
        Ok(())
    }

    /// The newest recorded checkpoint whose commits are all published.
    fn published_upto(&self) -> Option<CheckpointId> {
        let Some(waiting) = self
            .commits
            .waiting()
            .next()
            .map(|pending| pending.checkpoint)
        else {
            return self.recorded;
        };
        let listed = self.records.list().into_iter().map(|record| record.id);
        listed.filter(|id| *id < waiting).max()
    }

    /// Removes what earlier runs left, once this one has a record and a visible commit \[R-13]; off
    /// the commit path.
    async fn clean(&mut self) {
        let visible = self.visible || mutant::on("clean-at-once");
        if self.earlier.is_empty() || !visible || self.recorded.is_none() {
            return;
        }
        let Some(pending) = self.pending().await else {
            self.earlier.clear();
            return;
        };
        let earlier = std::mem::take(&mut self.earlier);
        let (run, target) = (self.run.clone(), Arc::clone(&self.parts.target));
        let registry = self.parts.registry.clone();
        self.cleaning.spawn(async move {
            cleaning::clean(target.as_ref(), &registry, &run, &earlier, &pending).await;
        });
    }

    /// All committables that may still be published.
    async fn pending(&mut self) -> Option<Vec<Committable>> {
        let mut pending = cleaning::recorded(self.parts, &self.run).await?;
        let waiting = self.commits.waiting().chain(&self.unrecorded);
        pending.extend(waiting.map(|p| p.committable.clone()));
        Some(pending)
    }

    /// Everything is published: leave the note, let cleaning end.
    async fn farewell(&mut self) {
        self.take_over().await;
        self.commits.leave_note().await;
        self.clean().await;
        while self.cleaning.join_next().await.is_some() {}
    }

    /// A run that brought no rows has no commit of its own, without which nothing may be removed: it
    /// publishes an empty one where an earlier run has left something \[R-13].
    async fn take_over(&mut self) {
        if self.earlier.is_empty() || self.visible || self.recorded.is_none() {
            return;
        }
        let Some(pending) = self.pending().await else {
            return;
        };
        // A newer run takes over itself.
        let newer = self.parts.registry.successor(&self.run.job, self.run.epoch);
        if !matches!(newer.await, Ok(None)) {
            return;
        }
        let target = &self.parts.target;
        match target.leftovers(&self.run, &self.earlier, &pending).await {
            // Nobody is left who could leave anything: their prefixes need not be known.
            Ok(0) if self.earlier_ended => {
                let forgotten = self.parts.registry.forget(&self.run, &self.earlier);
                if let Err(error) = forgotten.await {
                    tracing::warn!(%error, "old registrations stay");
                }
            }
            Ok(0) => {}
            Ok(files) => {
                if let Some(published) = self.commits.take_over().await {
                    tracing::info!(files, "took over from a run that left files behind");
                    self.newest_published = Some(published);
                    self.visible = true;
                }
            }
            Err(error) => tracing::warn!(%error, "left-overs of earlier runs are not looked for"),
        }
    }

    /// Beyond the limit sources and new checkpoints wait; commits go on being retried.
    fn pause_or_go_on(&mut self) {
        if self.ending.is_some() && self.last != Last::NotBegun {
            return;
        }
        let pause = self.commits.waiting().count() > self.parts.settings.commits.max_pending;
        self.pause(pause);
    }

    fn pause(&mut self, pause: bool) {
        if std::mem::replace(&mut self.paused, pause) == pause {
            return;
        }
        for control in &self.controls {
            // A task that is gone shows in the join set.
            let _ = control.send(Control::Pause(pause));
        }
    }

    fn show(&self) {
        let (active, finished) = (self.state.active.len(), self.state.finished.len());
        let running = self.alignment.running();
        self.parts.show(|progress| {
            progress.phase = match (self.ending, self.paused) {
                (Some(_), _) => Phase::Stopping,
                (None, true) => Phase::Paused,
                (None, false) => Phase::Running,
            };
            progress.rows = self.parts.rows.get();
            progress.splits_open = active;
            progress.splits_finished = finished;
            progress.checkpoint_running = running;
            progress.pending_commits = self.commits.waiting().count();
            if let Some(trouble) = self.commits.trouble() {
                progress.trouble = Some(trouble.to_owned());
            }
        });
    }
}

/// Opens the writers on the table as it is now. Those that restore the state of a bucket must have seen
/// what recovery has published: where somebody put over it meanwhile \[R-14], it is offered again by the
/// next run, and these would go on below its sequence numbers.
async fn open_writers(
    parts: &Parts,
    begin: &mut Begin,
) -> Result<WriterSet<RecordBatch>, SinkError> {
    let writers = parts.target.writers(&begin.run, parts.settings.parallelism);
    let writers = writers.await?;
    let remember = parts.target.writer_memory() == WriterMemory::BucketState;
    let Some(published) = begin.newest_published.as_ref().filter(|_| remember) else {
        return Ok(writers);
    };
    let stands = if published.version == 0 && published.token.is_empty() {
        // There is no version to look for: the files are asked again. What an earlier run has found so was in
        // the table before this one compared.
        match &begin.by_files {
            Some(committable) => matches!(
                begin.committer.commit(committable).await?,
                Outcome::AlreadyPublished(_)
            ),
            None => true,
        }
    } else {
        let newest = begin.committer.history().await?.newest;
        newest.is_some_and(|newest| {
            let same = newest.token == published.token || published.token.is_empty();
            newest.version > published.version || (newest.version == published.version && same)
        })
    };
    if !stands {
        let why = format!(
            "commit {} was visible as snapshot {} and was put over before the writers had read it",
            published.identifier, published.version
        );
        return Err(SinkError::new(ErrorKind::Transient, why));
    }
    Ok(writers)
}

/// Every task is gone although nobody was told to end: the first error tells why.
async fn tasks_left(tasks: &mut Tasks) -> RuntimeError {
    while let Some(ended) = tasks.join_next().await {
        match unwind(ended) {
            Ok(Ok(())) => {}
            Ok(Err(error)) | Err(error) => return error,
        }
    }
    RuntimeError::Config("every task ended before the run did: this is a bug".to_owned())
}

/// Waits for an instant, or for ever.
async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => std::future::pending().await,
    }
}

/// A panic of a task is one of the job: it goes on up.
fn unwind<T>(joined: Result<T, JoinError>) -> Result<T, RuntimeError> {
    match joined {
        Ok(value) => Ok(value),
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(error) => Err(RuntimeError::Config(format!("a task was lost: {error}"))),
    }
}
