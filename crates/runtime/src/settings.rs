//! How a job runs: plain data with defaults, and the rules between values.
//!
//! Parts (source, target, stores, clock) are injected through [`crate::JobBuilder`], not here.

use std::time::Duration;

use tidegate_sink::{CheckpointId, JobName, Resolution};

use crate::restart::RestartStrategy;
use crate::source::Boundedness;

/// How a job runs.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Source tasks and writer tasks, each.
    pub parallelism: usize,
    /// When checkpoints are taken.
    pub checkpoints: CheckpointSettings,
    /// What follows a failure that may pass by itself.
    pub restart: RestartStrategy,
    /// Runs an unbounded source without checkpoints; then nothing ever becomes visible.
    pub allow_no_checkpoint: bool,
    /// Batches that may wait between a source task and a writer task.
    pub channel_capacity: usize,
    /// How commits are retried \[R-11].
    pub commits: CommitSettings,
    /// Where the process runs; stands in the registration, for people.
    pub host: String,
    /// The way out to take where checkpoint and target disagree \[R-8].
    pub on_mismatch: Option<Resolution>,
    /// Goes on from this checkpoint instead of the newest one.
    pub from_checkpoint: Option<CheckpointId>,
    /// The name under which the job ran before \[R-17].
    pub adopt: Option<JobName>,
    /// Starts anew although another job's checkpoints fit source and target \[R-17].
    pub new_job: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            parallelism: 1,
            checkpoints: CheckpointSettings::default(),
            restart: RestartStrategy::default(),
            allow_no_checkpoint: false,
            channel_capacity: 4,
            commits: CommitSettings::default(),
            host: String::new(),
            on_mismatch: None,
            from_checkpoint: None,
            adopt: None,
            new_job: false,
        }
    }
}

/// When checkpoints are taken.
#[derive(Clone, Debug)]
pub struct CheckpointSettings {
    /// From one to the next. Without it a bounded job takes one at its end.
    pub interval: Option<Duration>,
    /// After so long a checkpoint counts as failed. What it gathered is not lost \[R-10].
    pub timeout: Duration,
    /// So many may fail one after the other; one more fails the run.
    pub tolerable_failures: u32,
    /// At least so long between the end of one and the begin of the next.
    pub min_pause: Duration,
    /// Records that are kept.
    pub retain: usize,
}

impl Default for CheckpointSettings {
    fn default() -> Self {
        Self {
            interval: None,
            timeout: Duration::from_secs(600),
            tolerable_failures: 3,
            min_pause: Duration::ZERO,
            retain: 3,
        }
    }
}

/// How commits are retried.
#[derive(Clone, Debug)]
pub struct CommitSettings {
    /// With more than so many commits pending, sources and new checkpoints pause.
    pub max_pending: usize,
    /// First wait after a failure; doubled each time.
    pub retry_base: Duration,
    /// Longest wait.
    pub retry_cap: Duration,
    /// At a stop or at the end of input, how long commits are retried before the job ends with an
    /// error; the next start settles them.
    pub give_up_at_end: Duration,
    /// The published note is left at most so often \[R-4].
    pub note_interval: Duration,
}

impl Default for CommitSettings {
    fn default() -> Self {
        Self {
            max_pending: 3,
            retry_base: Duration::from_millis(200),
            retry_cap: Duration::from_secs(30),
            give_up_at_end: Duration::from_secs(300),
            note_interval: Duration::from_secs(60),
        }
    }
}

impl Settings {
    /// Checks what values must have of each other.
    pub(crate) fn check(&self, boundedness: Boundedness) -> Result<(), String> {
        if self.parallelism == 0 || self.parallelism > 1024 {
            return Err(format!(
                "parallelism {} must be 1 to 1024",
                self.parallelism
            ));
        }
        if self.channel_capacity == 0 {
            return Err("a channel capacity of 0 lets nothing through; use at least 1".to_owned());
        }
        let checkpoints = &self.checkpoints;
        if checkpoints.interval.is_some_and(|i| i.is_zero()) {
            return Err("a checkpoint interval of 0 would never let a row through".to_owned());
        }
        if checkpoints.timeout.is_zero() {
            return Err("a checkpoint timeout of 0 fails every checkpoint".to_owned());
        }
        if checkpoints.retain == 0 {
            return Err("at least 1 checkpoint must be retained".to_owned());
        }
        let unbounded = boundedness == Boundedness::Unbounded;
        if unbounded && checkpoints.interval.is_none() && !self.allow_no_checkpoint {
            return Err(
                "the source is unbounded and there is no checkpoint interval: rows become \
                        visible with checkpoints only, so nothing would ever be. Set \
                        checkpoint.interval, or pass --allow-no-checkpoint"
                    .to_owned(),
            );
        }
        if self.adopt.is_some() && self.new_job {
            return Err("--adopt and --new-job exclude each other".to_owned());
        }
        Ok(())
    }

    /// True where rows become visible at all.
    pub(crate) fn publishes(&self, boundedness: Boundedness) -> bool {
        self.checkpoints.interval.is_some() || boundedness == Boundedness::Bounded
    }
}
