//! The person, or the supervisor, who looks after the jobs: starts them again, goes back, chooses ways out.
//!
//! Owns what follows an end or a crash, and the quiet end: everybody gone, everything late arrived, and
//! each job started until it says *nothing new*. Which ends are allowed in which world is decided here.

use std::time::Duration;

use tidegate_model::layout;
use tidegate_runtime::{JobEnd, RuntimeError, Settings};
use tidegate_sink::{CheckpointId, ErrorKind, Resolution};
use tidegate_storage::Op;

use crate::gate::{CHECKPOINTS, ProcessId, TABLE};
use crate::others::expire;
use crate::world::{Event, Role, World};

/// Starts of one job while things go wrong; then the quiet end takes over.
const MOST_STARTS: u32 = 10;
/// A checkpoint that needs longer than its timeout never completes, and the job says so again and again:
/// who looks after it gives it more time in the end.
const GENEROUS: Duration = Duration::from_secs(600);
/// Rounds of all jobs at the quiet end.
const MOST_ROUNDS: u32 = 4;
/// Starts at the quiet end.
const MOST_QUIET_STARTS: u32 = 8;

/// How a process of a job ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum JobEnded {
    Finished,
    NothingNew,
    Stopped,
    Mismatch(String),
    Fenced(String),
    /// May go better next time.
    Failed(String),
    /// Will not.
    Final(String),
}

/// What is known of a job beside its processes.
#[derive(Debug, Default)]
pub(crate) struct Care {
    starts: u32,
    way: Option<Resolution>,
    from: Option<CheckpointId>,
    rewound: bool,
    last: Option<JobEnded>,
    /// It has said that a snapshot was put over: accepting duplicates would leave rows out.
    put_over: bool,
    /// No way out led on: it stopped, saying so.
    pub(crate) stuck: bool,
}

impl Care {
    /// It is not its first process that is being started.
    pub(crate) fn has_started(&self) -> bool {
        self.starts > 1
    }

    /// Where rows may have gone with a snapshot that was put over, the message says to compare first:
    /// going on from the checkpoint would leave them out.
    fn is_wise(&self, way: Resolution) -> bool {
        way != Resolution::AcceptDuplicates || !self.put_over
    }
}

impl JobEnded {
    fn of(end: &Result<JobEnd, RuntimeError>) -> Self {
        match end {
            Ok(JobEnd::Finished(_)) => Self::Finished,
            Ok(JobEnd::NothingNew) => Self::NothingNew,
            Ok(JobEnd::Stopped(_) | JobEnd::Aborted(_)) => Self::Stopped,
            Ok(JobEnd::Mismatch(report)) => Self::Mismatch(report.why.to_string()),
            Err(error) if error.kind() == ErrorKind::Fenced => Self::Fenced(error.to_string()),
            Err(error) if error.kind() == ErrorKind::Mismatch => Self::Mismatch(error.to_string()),
            Err(error) if error.kind().is_final() => Self::Final(error.to_string()),
            Err(error) => Self::Failed(error.to_string()),
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Finished => "finished",
            Self::NothingNew => "nothing new",
            Self::Stopped => "stopped",
            Self::Mismatch(_) => "mismatch",
            Self::Fenced(_) => "fenced",
            Self::Failed(_) => "failed for now",
            Self::Final(_) => "failed for good",
        }
    }
}

const WAYS: [Resolution; 4] = [
    Resolution::ContinueFromTable,
    Resolution::RollbackTable {
        including_others: false,
    },
    Resolution::RollbackTable {
        including_others: true,
    },
    Resolution::AcceptDuplicates,
];

impl World<'_> {
    /// Everything that is planned from the beginning.
    pub(crate) fn open_the_day(&mut self) {
        for job in 0..self.plan.jobs.len() {
            let planned = self.plan.jobs[job].clone();
            self.schedule(job as u64 * 7, Event::Start(job));
            if let Some(at) = planned.twin_at {
                self.schedule(at, Event::Start(job));
            }
            if let Some(at) = planned.stop_at {
                self.schedule(at, Event::AskToStop(job));
                if let Some(after) = planned.stop_again {
                    self.schedule(at + after, Event::AskToStop(job));
                }
            }
        }
        for number in 0..self.plan.foreigners.count {
            let at = u64::from(self.choices.below("foreign committer at", 200));
            self.schedule(at, Event::Foreign(number as usize));
        }
        for at in self.plan.readers.clone() {
            self.schedule(at, Event::Reader);
        }
        for at in self.plan.expiries.clone() {
            self.schedule(at, Event::Expiry);
        }
    }

    fn settings_of(&mut self, job: usize) -> Settings {
        let mut settings = self.plan.jobs[job].settings.clone();
        if self.quiet {
            settings.checkpoints.timeout = GENEROUS;
        }
        let care = &mut self.care[job];
        settings.on_mismatch = care.way.take();
        settings.from_checkpoint = care.from.take();
        let others = Resolution::RollbackTable {
            including_others: true,
        };
        if settings.on_mismatch == Some(others) {
            self.traces.rolls_back_others(job);
        }
        if settings.on_mismatch == Some(Resolution::AcceptDuplicates) {
            self.checker.doubled.insert(job);
        }
        settings
    }

    /// Whether somebody has the table for himself, to take a way out.
    pub(crate) fn exclusive(&self) -> bool {
        let alive = |id: ProcessId| self.processes[id.0].alive();
        self.alone.is_some_and(alive)
    }

    pub(crate) async fn operator_starts(&mut self, job: usize) -> Result<(), String> {
        let care = &mut self.care[job];
        care.starts += 1;
        if care.starts > MOST_STARTS {
            return Ok(());
        }
        if self.plan.loses_records && care.starts > 1 && self.choices.chance("records lost", 60) {
            self.lose_records(job).await?;
        }
        let settings = self.settings_of(job);
        let way_out = settings.on_mismatch.is_some();
        if way_out {
            self.stop_all().await?;
        }
        let id = self.start_job(job, settings)?;
        if way_out {
            self.alone = Some(id);
        }
        Ok(())
    }

    /// Who takes a way out stops everything at the table first, as the messages say.
    async fn stop_all(&mut self) -> Result<(), String> {
        for at in 0..self.processes.len() {
            if self.processes[at].alive() {
                self.kill(ProcessId(at)).await?;
                if let Role::Job(other) = self.processes[at].role {
                    self.again(other, "started again after");
                }
            }
        }
        self.late_arrives().await
    }

    fn again(&mut self, job: usize, what: &'static str) {
        let after = 1 + u64::from(self.choices.below(what, 60));
        self.schedule(after, Event::Start(job));
    }

    pub(crate) fn operator_sees_crash(&mut self, id: ProcessId) {
        if let Role::Job(job) = self.processes[id.0].role {
            self.say(|| format!("{id} is killed"));
            self.again(job, "restart after");
            // One record, restored by two processes.
            if self.choices.chance("restored twice", 12) {
                self.again(job, "second restart after");
            }
        }
    }

    /// A process that does not answer may be taken for dead.
    pub(crate) fn operator_sees_silence(&mut self, id: ProcessId) {
        if let Role::Job(job) = self.processes[id.0].role
            && self.choices.chance("taken for dead", 60)
        {
            self.again(job, "replacement after");
        }
    }

    pub(crate) async fn operator_sees_end(
        &mut self,
        id: ProcessId,
        job: usize,
        end: Result<JobEnd, RuntimeError>,
    ) -> Result<(), String> {
        let ended = JobEnded::of(&end);
        *self.record.ends.entry(ended.name()).or_default() += 1;
        self.say(|| format!("{id} ends: {ended:?}"));
        let disturbed = self.checker.disturbed;
        let refused = self.processes[id.0].refused;
        match &ended {
            // *Nothing new* is said of what was there when it looked; others may be busy since.
            JobEnded::Finished if !disturbed.racing => self.checker.finished(job)?,
            JobEnded::NothingNew if !disturbed.racing && self.alive_of(job).is_empty() => {
                self.checker.finished(job)?;
            }
            JobEnded::Mismatch(why) if !disturbed.any() => {
                return Err(format!("R-7: {id} stops without a reason: {why}"));
            }
            // Where history expires, what became of a commit before may look like the work of another run.
            JobEnded::Fenced(why) if !self.processes[id.0].rivalled && !disturbed.expiry => {
                return Err(format!("R-5: {id} is fenced without a rival: {why}"));
            }
            JobEnded::Final(why) if !disturbed.any() && !refused => {
                return Err(format!("C7: {id} fails for good without a reason: {why}"));
            }
            _ => {}
        }
        if let JobEnded::Mismatch(why) = &ended {
            self.care[job].put_over |= why.contains("was put over");
        }
        self.care[job].last = Some(ended.clone());
        if self.quiet {
            return Ok(());
        }
        match ended {
            JobEnded::Finished | JobEnded::NothingNew => {
                if self.plan.rewinds && !self.care[job].rewound {
                    self.rewind(job).await?;
                }
            }
            JobEnded::Mismatch(_) => {
                let way = self.choices.weighted("way out", &[4, 2, 3, 2]);
                let wise = |way: &Resolution| self.care[job].is_wise(*way);
                self.care[job].way = WAYS.get(way).copied().filter(wise);
                self.again(job, "start with a way out after");
            }
            _ => self.again(job, "start after the end"),
        }
        Ok(())
    }

    /// Identifiers of the retained records of a job, ascending.
    async fn records(&self, job: usize) -> Result<Vec<(u64, String)>, String> {
        let dir = format!("{CHECKPOINTS}/{}", self.plan.jobs[job].name);
        let listed = self.store.list(&dir).await.map_err(|e| e.to_string())?;
        let mut records: Vec<(u64, String)> = listed
            .into_iter()
            .filter_map(|meta| {
                let name = meta.path.rsplit('/').next()?;
                let id = layout::versioned("checkpoint-", name)?;
                Some((u64::try_from(id).ok()?, meta.path.clone()))
            })
            .collect();
        records.sort_unstable();
        Ok(records)
    }

    /// Lab 4: the job has run on, and is started from an older checkpoint.
    async fn rewind(&mut self, job: usize) -> Result<(), String> {
        self.care[job].rewound = true;
        let records = self.records(job).await?;
        if records.is_empty() {
            return Ok(());
        }
        let back = self.choices.below("records back", records.len() as u32) as usize;
        let (id, _) = records[records.len() - 1 - back];
        let way = self.choices.weighted("way back", &[2, 4, 3, 2, 2]);
        self.care[job].from = Some(CheckpointId(id));
        self.care[job].way = way.checked_sub(1).and_then(|at| WAYS.get(at)).copied();
        let way = self.care[job].way;
        self.say(|| format!("job{job} goes back to checkpoint {id}, {way:?}"));
        self.again(job, "rewound after");
        Ok(())
    }

    /// The newest records of a job are gone, or all of them.
    async fn lose_records(&mut self, job: usize) -> Result<(), String> {
        let records = self.records(job).await?;
        let lost = 1 + self.choices.below("how many", records.len().max(1) as u32) as usize;
        for (id, path) in records.iter().rev().take(lost) {
            self.say(|| format!("record {id} of job{job} is lost"));
            self.store.delete(path).await.map_err(|e| e.to_string())?;
        }
        Ok(())
    }

    /// Nothing fails any more: each job must end, with every row once and nothing left over.
    pub(crate) async fn quiet_end(&mut self) -> Result<(), String> {
        self.quiet = true;
        self.say(|| "quiet from here on".to_owned());
        for at in 0..self.processes.len() {
            if self.processes[at].alive() {
                self.kill(ProcessId(at)).await?;
            }
        }
        self.all_late_arrives().await?;
        self.expiry_goes_on().await?;
        // Who rolls the table back with what others did leaves the others something to do again.
        for _ in 0..MOST_ROUNDS {
            let mut others_went = false;
            for job in 0..self.plan.jobs.len() {
                others_went |= self.finish(job).await?;
                if !self.care[job].stuck {
                    self.checker.finished(job)?;
                }
            }
            if !others_went || self.plan.jobs.len() == 1 {
                break;
            }
        }
        let mut all_well = true;
        for job in 0..self.plan.jobs.len() {
            match self.care[job].stuck {
                true => all_well = false,
                false => self.checker.finished(job)?,
            }
        }
        if all_well && !self.checker.disturbed.racing {
            let mut left = self.checker.left_over().await?;
            left.retain(|path| !self.traces.excuses(&format!("{TABLE}/{path}")));
            if !left.is_empty() {
                return Err(format!("C6: left over at the end: {left:?}"));
            }
        }
        Ok(())
    }

    /// Who expires snapshots and was interrupted begins anew, as the next run of Java's does.
    async fn expiry_goes_on(&mut self) -> Result<(), String> {
        if self.checker.condemned.is_empty() {
            return Ok(());
        }
        self.say(|| "the expiry that was interrupted is repeated".to_owned());
        let keep = self.checker.visible.len();
        expire(self.store.child(TABLE), keep, self.plan.expiring).await?;
        let path = format!("{TABLE}/{}", layout::SNAPSHOT_DIR);
        self.checker.after(Op::Delete, &path, false).await
    }

    /// Starts a job until it says *nothing new*, or no way out leads on. True where it may have taken the
    /// table back with what others did.
    async fn finish(&mut self, job: usize) -> Result<bool, String> {
        let disturbed = self.checker.disturbed.any();
        let mut ways = WAYS.iter();
        let mut others_went = false;
        self.care[job].stuck = false;
        for _ in 0..MOST_QUIET_STARTS {
            self.care[job].last = None;
            let settings = self.settings_of(job);
            others_went |= settings.on_mismatch
                == Some(Resolution::RollbackTable {
                    including_others: true,
                });
            self.start_job(job, settings)?;
            while self.care[job].last.is_none() {
                if !self.turn().await? && self.care[job].last.is_none() {
                    return Err("C7: a job neither ends nor goes on".to_owned());
                }
            }
            match self.care[job].last.take() {
                Some(JobEnded::NothingNew) => return Ok(others_went),
                Some(JobEnded::Finished) => {}
                Some(_) if disturbed => match ways.find(|way| self.care[job].is_wise(**way)) {
                    Some(way) => self.care[job].way = Some(*way),
                    None => break,
                },
                other => {
                    return Err(format!(
                        "C7: nothing fails any more, and job{job} ends: {other:?}"
                    ));
                }
            }
        }
        if !disturbed {
            return Err(format!("C7: job{job} finds something new for ever"));
        }
        self.care[job].stuck = true;
        Ok(others_went)
    }
}
