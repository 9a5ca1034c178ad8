//! The simulated world: one store, processes with their requests at the gate, and one loop that lets one
//! request after the other through.
//!
//! Owns steps, processes and what strikes them. Time is paused: it moves on only when every task waits, so
//! sleeping one millisecond means *until nothing moves any more*. Who is started when, and what a person
//! does about an end, is in `operator`.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tidegate_model::data_type::LogicalType;
use tidegate_model::{DataField, DataType, Options, TableSchema};
use tidegate_recovery::{CheckpointStore, Registry};
use tidegate_runtime::{Job, JobEnd, Progress, RuntimeError, Settings, Stop};
use tidegate_sink::{JobName, Published};
use tidegate_storage::{Faults, Op, RetryPolicy, Store};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinHandle};
use tokio::time::{Instant, sleep, timeout};

use crate::check::Checker;
use crate::choices::{Choices, mix};
use crate::env::SimEnv;
use crate::fates::{Fate, Rarely, Stream};
use crate::gate::{CHECKPOINTS, Door, Gate, ProcessId, ProtocolStep, TABLE, Waiting, step_of};
use crate::operator::Care;
use crate::others::{Foreign, Reading, expire, read};
use crate::plan::Plan;
use crate::saved::files_of;
use crate::target::{Layout, SimTarget};
use crate::traces::Traces;

/// Requests of one schedule; more means that something never ends (C7).
const MOST_STEPS: u64 = 20_000;
/// Requests after which jobs with a short checkpoint timeout are given a longer one.
const LONG_DAY: u64 = 4_000;
/// Paused time that passes only once every task waits.
const SETTLED: Duration = Duration::from_millis(1);
/// Waits without any request; more means that something hangs (C7).
const MOST_WAITS: u32 = 2_000;

/// How a process ended by itself.
pub(crate) enum Ended {
    Job(Result<JobEnd, RuntimeError>),
    Reader(Result<Reading, String>),
    Other,
}

/// What a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Job(usize),
    Foreign,
    /// Started when this was the newest snapshot.
    Reader(Option<i64>),
    Expiry,
}

pub(crate) struct Process {
    pub(crate) role: Role,
    faults: Faults,
    task: Option<JoinHandle<Ended>>,
    progress: Option<watch::Receiver<Progress>>,
    pub(crate) stop: Option<Stop>,
    /// Does nothing before this step.
    paused_until: u64,
    /// A request of it was refused for good.
    pub(crate) refused: bool,
    /// Somebody or something interfered while it ran: another process of its job, a late request of one,
    /// somebody who does not keep to the protocol. Without any it is never fenced.
    pub(crate) rivalled: bool,
    seen: Option<Published>,
}

impl Process {
    pub(crate) fn alive(&self) -> bool {
        self.task.is_some()
    }
}

/// Something that is going to happen at a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A job is started.
    Start(usize),
    /// A running process of a job is asked to stop.
    AskToStop(usize),
    Foreign(usize),
    Reader,
    Expiry,
    /// The oldest late request of a process is carried out.
    Release(ProcessId),
}

pub(crate) struct World<'a> {
    pub(crate) choices: &'a mut Choices,
    pub(crate) plan: Plan,
    pub(crate) store: Store,
    gate: Gate,
    begun: Instant,
    pub(crate) checker: Checker,
    pub(crate) processes: Vec<Process>,
    pub(crate) events: BTreeMap<(u64, u64), Event>,
    scheduled: u64,
    pub(crate) step: u64,
    faults: Stream,
    crashes: Stream,
    rarely: Rarely,
    /// From here on nothing fails.
    pub(crate) quiet: bool,
    /// Every task waits already.
    settled: bool,
    /// Late requests by process: what they were.
    late: HashMap<ProcessId, Vec<(Op, String)>>,
    /// Who wrote what, and who has looked for it.
    pub(crate) traces: Traces,
    pub(crate) record: Record,
    pub(crate) care: Vec<Care>,
    /// The process that takes a way out.
    pub(crate) alone: Option<ProcessId>,
    trace: Option<Vec<String>>,
}

/// What happened, in numbers.
#[derive(Debug, Default)]
pub(crate) struct Record {
    pub(crate) cells: Vec<(Fate, ProtocolStep)>,
    /// Requests of jobs while things may go wrong.
    pub(crate) requests: HashMap<ProtocolStep, u64>,
    pub(crate) checkpoints: u64,
    pub(crate) crashes: u64,
    pub(crate) faults: u64,
    pub(crate) starts: u64,
    pub(crate) readings: u64,
    /// Ends of jobs by kind.
    pub(crate) ends: BTreeMap<&'static str, u64>,
    pub(crate) hash: u64,
}

impl Record {
    fn mix_in(&mut self, text: &str) {
        for byte in text.bytes() {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

type Turned = Result<bool, String>;

impl<'a> World<'a> {
    pub(crate) fn new(choices: &'a mut Choices, tracing: bool) -> Result<Self, String> {
        let plan = Plan::draw(choices);
        let store = Store::open("memory://", &BTreeMap::new()).map_err(|e| e.to_string())?;
        let inputs = plan.jobs.iter().map(|job| job.input.clone()).collect();
        let names = plan.jobs.iter().map(|job| job.name.clone()).collect();
        let checker = Checker::new(&store, inputs, names, plan.disturbed());
        let crashes = Stream::new(choices, true, plan.crashes, 160);
        let faults = Stream::new(choices, false, plan.faults, 60);
        let rarely = Rarely::draw(choices);
        let mut world = Self {
            choices,
            store,
            gate: Gate::default(),
            begun: Instant::now(),
            checker,
            processes: Vec::new(),
            events: BTreeMap::new(),
            scheduled: 0,
            step: 0,
            faults,
            crashes,
            rarely,
            quiet: false,
            settled: false,
            late: HashMap::new(),
            traces: Traces::default(),
            record: Record::default(),
            care: plan.jobs.iter().map(|_| Care::default()).collect(),
            alone: None,
            trace: tracing.then(Vec::new),
            plan,
        };
        let outline = world.plan.outline();
        world.say(|| outline);
        Ok(world)
    }

    pub(crate) fn say(&mut self, line: impl FnOnce() -> String) {
        let step = self.step;
        if let Some(trace) = &mut self.trace {
            let line = format!("{step:>5} {}", line());
            tracing::info!("{line}");
            trace.push(line);
        }
    }

    /// An empty table, before anybody looks.
    pub(crate) async fn make_table(&mut self) -> Result<(), String> {
        let column = DataField::new("id", DataType::nullable(LogicalType::BigInt));
        let merge_at = self.plan.merge_at.to_string();
        let bucket = self.plan.layout.total().to_string();
        let options: Options = [
            ("bucket", bucket.as_str()),
            ("bucket-key", "id"),
            // Bytes are not what is looked at here.
            ("manifest.compression", "null"),
            ("manifest.merge-min-count", merge_at.as_str()),
            ("commit.min-retry-wait", "1 ms"),
            ("commit.max-retry-wait", "4 ms"),
        ]
        .into_iter()
        .filter(|(key, _)| *key != "bucket-key" || self.plan.layout == Layout::Fixed)
        .collect();
        let schema = TableSchema::create(vec![column], vec![], vec![], options, None, 1_000);
        let schema = schema.map_err(|e| e.to_string())?;
        let made = tidegate_commit::create_table(&self.store.child(TABLE), &schema).await;
        made.map_err(|e| e.to_string())
    }

    /// Everything that is late arrives; what else was planned is called off.
    pub(crate) async fn all_late_arrives(&mut self) -> Result<(), String> {
        self.events.clear();
        self.late_arrives().await
    }

    /// Everything that is late arrives now.
    pub(crate) async fn late_arrives(&mut self) -> Result<(), String> {
        for at in 0..self.processes.len() {
            while self
                .late
                .get(&ProcessId(at))
                .is_some_and(|held| !held.is_empty())
            {
                self.release(ProcessId(at)).await?;
            }
        }
        Ok(())
    }

    /// A digest of every object, each told, so that two traces show which one differs.
    pub(crate) async fn digest(&mut self) -> u64 {
        let mut digest = Record::default();
        for object in self.store.list("").await.unwrap_or_default() {
            digest.mix_in(&object.path);
            if let Ok(bytes) = self.store.get(&object.path).await {
                for byte in &bytes {
                    digest.hash = (digest.hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
                }
            }
            let so_far = digest.hash;
            self.say(|| format!("{}, {so_far:016x} so far", object.path));
        }
        digest.hash
    }

    pub(crate) fn take_trace(&mut self) -> Vec<String> {
        self.trace.take().unwrap_or_default()
    }

    /// `after` steps from now.
    pub(crate) fn schedule(&mut self, after: u64, event: Event) {
        self.scheduled += 1;
        self.events
            .insert((self.step + after, self.scheduled), event);
    }

    // Processes.

    fn next_process(&self) -> ProcessId {
        ProcessId(self.processes.len())
    }

    /// The store as a process has it.
    fn door(&self, process: ProcessId) -> (Store, Faults) {
        let gate = self.gate.clone();
        let faults = Faults::decided_by(Arc::new(Door { gate, process }));
        let retry = RetryPolicy {
            attempts: 3,
            base: Duration::from_millis(1),
            cap: Duration::from_millis(4),
            seed: Some(mix(process.0 as u64)),
        };
        let store = self.store.clone().with_retry(retry);
        (store.with_faults(faults.clone()), faults)
    }

    fn env(&mut self, process: ProcessId) -> SimEnv {
        let shift = match self.quiet {
            true => 0,
            false => self.choices.weighted("clock", &[70, 10, 10, 10]),
        };
        let shift_ms = [0, 3_600_000, -3_600_000, 86_400_000].get(shift);
        SimEnv::new(process, self.begun, shift_ms.copied().unwrap_or(0))
    }

    fn add(&mut self, role: Role, faults: Faults, task: JoinHandle<Ended>) -> &mut Process {
        self.processes.push(Process {
            role,
            faults,
            task: Some(task),
            progress: None,
            stop: None,
            paused_until: 0,
            refused: false,
            rivalled: false,
            seen: None,
        });
        let last = self.processes.len() - 1;
        &mut self.processes[last]
    }

    /// Starts a process of a job.
    pub(crate) fn start_job(
        &mut self,
        job: usize,
        settings: Settings,
    ) -> Result<ProcessId, String> {
        let id = self.next_process();
        let (store, faults) = self.door(id);
        let env = self.env(id);
        // Splits that were begun side by side wait for one another after a restart.
        let most_open = if self.care[job].has_started() { 1 } else { 2 };
        let planned = &self.plan.jobs[job];
        let name = JobName::new(planned.name.clone()).map_err(|e| e.to_string())?;
        let target = SimTarget {
            store: store.child(TABLE),
            env: env.clone(),
            layout: self.plan.layout,
            compacts: self.plan.compacts,
            early: Arc::default(),
        };
        let registry = Registry::new(store.child(TABLE)).with_identities(env.identities());
        let built = Job::builder(name)
            .source(planned.input.source(most_open)?)
            .target(Arc::new(target))
            .checkpoints(CheckpointStore::new(store.child(CHECKPOINTS)))
            .registry(registry)
            .settings(settings)
            .clock(Arc::new(env))
            .build()
            .map_err(|e| e.to_string())?;
        let progress = built.progress();
        let (stop, signal) = Stop::new();
        let task = tokio::spawn(async move { Ended::Job(built.run(signal).await) });
        let process = self.add(Role::Job(job), faults, task);
        process.progress = Some(progress);
        process.stop = Some(stop);
        let others = self.alive_of(job).into_iter().any(|other| other != id.0);
        if others {
            self.interfere(Some(job));
        }
        self.record.starts += 1;
        self.say(|| format!("{id} starts as job{job}"));
        Ok(id)
    }

    fn start_other(&mut self, event: Event) {
        let id = self.next_process();
        let (store, faults) = self.door(id);
        let table = store.child(TABLE);
        let layout = self.plan.layout;
        self.say(|| format!("{id} starts: {event:?}"));
        match event {
            Event::Foreign(number) => {
                let foreign = Foreign {
                    table,
                    env: self.env(id),
                    layout,
                    number,
                    racing: self.plan.foreigners.racing,
                    commits: self.plan.foreigners.commits,
                };
                let task = tokio::spawn(async move {
                    // What it leaves behind is its own business.
                    let _ = foreign.run().await;
                    Ended::Other
                });
                self.add(Role::Foreign, faults, task);
            }
            Event::Reader => {
                let newest = self.checker.visible.keys().next_back().copied();
                let task = tokio::spawn(async move { Ended::Reader(read(table, layout).await) });
                self.add(Role::Reader(newest), faults, task);
            }
            _ => {
                let keep = 1 + self.choices.below("snapshots kept", 3) as usize;
                let order = self.plan.expiring;
                let task = tokio::spawn(async move {
                    let _ = expire(table, keep, order).await;
                    Ended::Other
                });
                self.add(Role::Expiry, faults, task);
            }
        }
    }

    /// Living processes of a job.
    pub(crate) fn alive_of(&self, job: usize) -> Vec<usize> {
        let of_job = |(at, process): (usize, &Process)| {
            (process.alive() && process.role == Role::Job(job)).then_some(at)
        };
        self.processes
            .iter()
            .enumerate()
            .filter_map(of_job)
            .collect()
    }

    /// Takes a request of a process out of the waiting room, the oldest first.
    fn take_of(&self, id: ProcessId) -> Option<Waiting> {
        let first = self
            .gate
            .look(|waiting| waiting.iter().position(|w| w.process == id));
        first.and_then(|at| self.gate.take(at))
    }

    /// The process is gone. Requests that it had on the way are lost, or arrive late.
    pub(crate) async fn kill(&mut self, id: ProcessId) -> Result<(), String> {
        let on_the_way = self
            .gate
            .look(|waiting| waiting.iter().filter(|w| w.process == id).count());
        for _ in 0..on_the_way {
            let Some(request) = self.take_of(id) else {
                break;
            };
            let step = step_of(request.op, &request.path);
            let may_be_late = Fate::Late.strikes(request.op, step);
            if may_be_late && self.choices.chance("on its way when killed", 30) {
                self.hold(request).await;
            }
        }
        if let Some(process) = self.processes.get_mut(id.0)
            && let Some(task) = process.task.take()
        {
            task.abort();
        }
        self.settle().await;
        while self.take_of(id).is_some() {}
        self.traces.killed(id);
        self.record.crashes += 1;
        Ok(())
    }

    /// The request gets no answer and is carried out later.
    async fn hold(&mut self, request: Waiting) {
        let (id, op, path) = (request.process, request.op, request.path.clone());
        let faults = self.processes[id.0].faults.clone();
        let before = faults.held();
        request.answer(Fate::Late.fault());
        // So that the store holds it back, not the process, and in this order.
        self.settle().await;
        if faults.held() == before {
            // Its sender gave it up in this moment.
            return;
        }
        self.say(|| format!("{id} {op} {path} is held back"));
        self.late.entry(id).or_default().push((op, path));
        let after = 1 + u64::from(self.choices.below("steps held back", 120));
        self.schedule(after, Event::Release(id));
    }

    async fn release(&mut self, id: ProcessId) -> Result<(), String> {
        let Some(faults) = self.processes.get(id.0).map(|p| p.faults.clone()) else {
            return Ok(());
        };
        let held = self.late.entry(id).or_default();
        if held.is_empty() {
            return Ok(());
        }
        let (op, path) = held.remove(0);
        faults.release_one().await;
        self.traces.late = true;
        self.say(|| format!("{id} {op} {path} arrives late"));
        if let Role::Job(job) = self.processes[id.0].role {
            self.interfere(Some(job));
        }
        let judged = self.effect(id, op, &path).await;
        self.traces.late = false;
        judged
    }

    // Steps.

    /// True where a job has had so many requests that its checkpoints must be shorter than they can be: it
    /// would try for ever, and its operator ends that.
    pub(crate) fn is_over(&self) -> bool {
        let tight = self.plan.jobs.iter();
        let tight = tight.map(|job| job.settings.checkpoints.timeout);
        self.step > LONG_DAY && tight.min().is_some_and(|t| t < Duration::from_secs(1))
    }

    /// Until every task waits.
    async fn settle(&self) {
        sleep(SETTLED).await;
    }

    /// A request was carried out.
    async fn effect(&mut self, id: ProcessId, op: Op, path: &str) -> Result<(), String> {
        let step = step_of(op, path);
        let role = self.processes.get(id.0).map(|process| process.role);
        let ours = matches!(role, Some(Role::Job(_)));
        if op == Op::Create && step.object == "record" {
            self.record.checkpoints += 1;
            if let Some(Role::Job(job)) = role
                && let Ok(bytes) = self.store.get(path).await
            {
                let (epoch, files) = files_of(path, &bytes)?;
                self.traces.recorded(job, epoch, files);
            }
        }
        if let Some(Role::Job(job)) = role {
            self.traces.carried_out(id, job, op, path);
        }
        let meddles = matches!(op, Op::Put | Op::Delete) && self.checker.disturbed.any();
        if !ours && meddles && step.object == "snapshot" {
            self.interfere(None);
        }
        self.checker.after(op, path, ours).await
    }

    /// Something happens to the processes of a job that they may be fenced for; of every job without one.
    fn interfere(&mut self, with: Option<usize>) {
        for process in self.processes.iter_mut().filter(|p| p.alive()) {
            if let Role::Job(job) = process.role
                && with.is_none_or(|with| with == job)
            {
                process.rivalled = true;
            }
        }
    }

    /// One turn: something that is due, one request, or a wait. `false` when the world stands still.
    pub(crate) async fn turn(&mut self) -> Turned {
        if !std::mem::take(&mut self.settled) {
            self.settle().await;
        }
        self.look_at_processes().await?;
        if self.step > MOST_STEPS {
            return Err(format!("C7: no end after {MOST_STEPS} requests"));
        }
        let due = self.events.first_key_value().map(|((at, _), _)| *at);
        if due.is_some_and(|at| at <= self.step)
            && let Some((_, event)) = self.events.pop_first()
        {
            self.happen(event).await?;
            return Ok(true);
        }
        let runnable = self.runnable();
        if runnable.is_empty() {
            return self.wait(due).await;
        }
        let chosen = match self.quiet {
            true => 0,
            false => self.choices.below("next request", runnable.len() as u32) as usize,
        };
        if let Some(at) = runnable.get(chosen) {
            self.let_through(*at).await?;
        }
        Ok(true)
    }

    fn runnable(&self) -> Vec<usize> {
        let (step, processes) = (self.step, &self.processes);
        let may_run = |id: ProcessId| {
            let process = processes.get(id.0);
            process.is_some_and(|p| p.alive() && p.paused_until <= step)
        };
        self.gate.look(|waiting| {
            let runnable = waiting
                .iter()
                .enumerate()
                .filter(|(_, w)| may_run(w.process));
            runnable.map(|(at, _)| at).collect()
        })
    }

    async fn happen(&mut self, event: Event) -> Result<(), String> {
        let waits = !matches!(event, Event::AskToStop(_) | Event::Release(_));
        if waits && self.exclusive() {
            self.schedule(25, event);
            return Ok(());
        }
        match event {
            Event::Start(job) => self.operator_starts(job).await,
            Event::AskToStop(job) => {
                for at in self.alive_of(job) {
                    if let Some(stop) = &self.processes[at].stop {
                        stop.request();
                    }
                }
                self.say(|| format!("job{job} is asked to stop"));
                Ok(())
            }
            Event::Release(id) => self.release(id).await,
            other => {
                self.start_other(other);
                Ok(())
            }
        }
    }

    /// Nothing can be let through: time passes, or the next event comes early.
    async fn wait(&mut self, due: Option<u64>) -> Turned {
        let waiting = |p: &Process| p.alive() && p.paused_until <= self.step;
        let awake = self.processes.iter().any(waiting);
        if awake {
            // Timers of processes; an end comes without any request.
            for _ in 0..MOST_WAITS {
                let gate = self.gate.clone();
                let arrived = timeout(Duration::from_millis(25), gate.arrived())
                    .await
                    .is_ok();
                let ended = |p: &Process| p.task.as_ref().is_some_and(JoinHandle::is_finished);
                if arrived || self.processes.iter().any(ended) {
                    return Ok(true);
                }
                if let Some(at) = due {
                    self.step = self.step.max(at);
                    return Ok(true);
                }
                if self
                    .processes
                    .iter()
                    .any(|p| p.alive() && p.paused_until > self.step)
                {
                    break;
                }
            }
        }
        if let Some(at) = due {
            self.step = self.step.max(at);
            return Ok(true);
        }
        let paused = self
            .processes
            .iter()
            .filter(|p| p.alive() && p.paused_until > self.step);
        if let Some(first) = paused.min_by_key(|p| p.paused_until) {
            self.step = first.paused_until;
            return Ok(true);
        }
        if awake {
            return Err("C7: a process waits for ever without a request".to_owned());
        }
        Ok(false)
    }

    async fn let_through(&mut self, at: usize) -> Result<(), String> {
        let Some(request) = self.gate.take(at) else {
            return Ok(());
        };
        self.step += 1;
        let (id, op, path) = (request.process, request.op, request.path.clone());
        let step = step_of(op, &path);
        let ours = matches!(self.processes.get(id.0).map(|p| p.role), Some(Role::Job(_)));
        let fate = match ours && !self.quiet {
            true => {
                *self.record.requests.entry(step).or_default() += 1;
                self.fate(op, step)
            }
            false => None,
        };
        let name = fate.map_or("", Fate::name);
        self.record.mix_in(op.name());
        self.record.mix_in(&path);
        self.record.mix_in(name);
        self.record.hash ^= id.0 as u64;
        if self.trace.is_some() {
            self.say(|| format!("{id} {op} {path} {name}"));
        }
        let Some(fate) = fate else {
            request.answer(None);
            // At once for the next turn too: nobody hears of what the checker does in between.
            sleep(SETTLED * 2).await;
            self.settled = true;
            return self.effect(id, op, &path).await;
        };
        self.record.cells.push((fate, step));
        if !fate.is_crash() {
            self.record.faults += 1;
            self.traces.struck(id);
        }
        match fate {
            Fate::KilledBefore => {
                drop(request);
                self.kill(id).await?;
                self.operator_sees_crash(id);
            }
            Fate::KilledAfter => {
                request.answer(None);
                self.settle().await;
                self.effect(id, op, &path).await?;
                self.kill(id).await?;
                self.operator_sees_crash(id);
            }
            Fate::KilledTorn => {
                request.answer(fate.fault());
                self.settle().await;
                if ours && let Role::Job(job) = self.processes[id.0].role {
                    self.traces.carried_out(id, job, op, &path);
                }
                self.kill(id).await?;
                self.operator_sees_crash(id);
            }
            Fate::KilledLate => {
                self.hold(request).await;
                self.kill(id).await?;
                self.operator_sees_crash(id);
            }
            Fate::Late => self.hold(request).await,
            Fate::Paused => {
                let steps = 20 + u64::from(self.choices.below("steps paused", 300));
                if let Some(process) = self.processes.get_mut(id.0) {
                    process.paused_until = self.step + steps;
                }
                self.gate.put_back(request);
                self.operator_sees_silence(id);
            }
            Fate::AnswerLost => {
                request.answer(fate.fault());
                self.settle().await;
                self.effect(id, op, &path).await?;
            }
            Fate::FailedBefore | Fate::Throttled => request.answer(fate.fault()),
            Fate::Refused => {
                if let Some(process) = self.processes.get_mut(id.0) {
                    process.refused = true;
                }
                request.answer(fate.fault());
            }
        }
        Ok(())
    }

    fn fate(&mut self, op: Op, step: ProtocolStep) -> Option<Fate> {
        let now = self.step;
        let crash = self.crashes.strike(self.choices, now, op, step);
        let fate = crash.or_else(|| self.faults.strike(self.choices, now, op, step));
        fate.or_else(|| self.rarely.strike(self.choices, op, step))
    }

    /// What processes have said and which have ended.
    async fn look_at_processes(&mut self) -> Result<(), String> {
        for at in 0..self.processes.len() {
            let process = &mut self.processes[at];
            if !process.alive() {
                continue;
            }
            if let (Some(progress), Role::Job(job)) = (&process.progress, process.role) {
                let published = progress.borrow().published.clone();
                if published != process.seen {
                    process.seen.clone_from(&published);
                    if let Some(published) = published {
                        self.checker.acknowledge(job, &published)?;
                    }
                }
            }
            let process = &mut self.processes[at];
            if process.task.as_ref().is_some_and(JoinHandle::is_finished)
                && let Some(task) = process.task.take()
            {
                let ended = task.await.map_err(panicked)?;
                self.ended(ProcessId(at), ended).await?;
            }
        }
        Ok(())
    }

    async fn ended(&mut self, id: ProcessId, ended: Ended) -> Result<(), String> {
        match (ended, self.processes[id.0].role) {
            (Ended::Job(end), Role::Job(job)) => self.operator_sees_end(id, job, end).await,
            (Ended::Reader(reading), Role::Reader(newest)) => self.judge_reading(newest, reading),
            _ => Ok(()),
        }
    }
}

fn panicked(error: JoinError) -> String {
    match error.try_into_panic() {
        Ok(payload) => {
            let text = payload.downcast_ref::<String>().cloned();
            let text = text.or_else(|| payload.downcast_ref::<&str>().map(|s| (*s).to_owned()));
            format!("a process panicked: {}", text.unwrap_or_default())
        }
        Err(error) => format!("a process was lost: {error}"),
    }
}
