//! What a schedule is about: jobs, who else is at the table, which accidents happen.
//!
//! Owns drawing it. With zeros all through: one small job, nobody else, no accident but one crash.

use std::time::Duration;

use tidegate_runtime::{CheckpointSettings, CommitSettings, RestartStrategy, Settings};

use crate::choices::Choices;
use crate::others::Expiring;
use crate::rows::Input;
use crate::target::Layout;

const MS: fn(u64) -> Duration = Duration::from_millis;

/// One job, as its operator set it up.
#[derive(Clone, Debug)]
pub(crate) struct JobPlan {
    pub(crate) name: String,
    pub(crate) input: Input,
    pub(crate) settings: Settings,
    /// A second process of the same name starts at this step.
    pub(crate) twin_at: Option<u64>,
    /// It is asked to stop at this step.
    pub(crate) stop_at: Option<u64>,
    /// And a second time, so many steps later.
    pub(crate) stop_again: Option<u64>,
}

/// Who else commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Foreigners {
    pub(crate) count: u32,
    pub(crate) commits: u32,
    pub(crate) racing: bool,
}

/// What must hold is weaker where somebody outside the protocol interferes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Disturbed {
    /// A foreign committer puts over what is there.
    pub(crate) racing: bool,
    /// A foreign process expires snapshots.
    pub(crate) expiry: bool,
    /// A person goes back to an older checkpoint, or records are lost.
    pub(crate) rewound: bool,
    /// There are snapshots that do not say what they were built on. Every promise holds.
    pub(crate) unchained: bool,
}

impl Disturbed {
    pub(crate) fn any(self) -> bool {
        self.racing || self.expiry || self.rewound
    }
}

/// One schedule before its first step.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) layout: Layout,
    pub(crate) compacts: bool,
    pub(crate) merge_at: u32,
    pub(crate) jobs: Vec<JobPlan>,
    pub(crate) foreigners: Foreigners,
    /// Steps at which a reader starts.
    pub(crate) readers: Vec<u64>,
    /// Steps at which somebody expires snapshots.
    pub(crate) expiries: Vec<u64>,
    pub(crate) expiring: Expiring,
    /// A person goes back to an older checkpoint once the job has finished.
    pub(crate) rewinds: bool,
    /// Checkpoint records get lost after a crash.
    pub(crate) loses_records: bool,
    pub(crate) crashes: u32,
    pub(crate) faults: u32,
}

impl Plan {
    pub(crate) fn draw(choices: &mut Choices) -> Self {
        let layout = match choices.chance("fixed buckets", 30) {
            true => Layout::Fixed,
            false => Layout::Unaware,
        };
        let compacts = choices.chance("writers compact", 15);
        let merge_at = [30, 2, 4][choices.weighted("manifests merge at", &[60, 20, 20])];
        let jobs = 1 + choices.weighted("jobs", &[75, 25]);
        let foreign = choices.weighted("foreign committers", &[65, 20, 5, 10]);
        let foreigners = Foreigners {
            count: [0, 1, 2, 1][foreign],
            racing: foreign == 3,
            commits: match foreign {
                0 => 0,
                _ => 1 + choices.below("commits of each", 4),
            },
        };
        let accident = choices.weighted("accident", &[78, 8, 7, 7]);
        let (expires, rewinds, loses_records) = (accident == 1, accident == 2, accident == 3);
        let jobs = (0..jobs).map(|job| Self::job(choices, job)).collect();
        let readers = choices.weighted("readers", &[60, 25, 15]);
        let at = |choices: &mut Choices, what| u64::from(choices.below(what, 300));
        let readers = (0..readers).map(|_| at(choices, "reader at")).collect();
        let expiries = match expires {
            true => 1 + choices.below("expiries", 3),
            false => 0,
        };
        let expiries: Vec<u64> = (0..expiries).map(|_| at(choices, "expiry at")).collect();
        let expiring = match !expiries.is_empty() && choices.chance("hint last", 50) {
            true => Expiring::HintLast,
            false => Expiring::HintFirst,
        };
        Self {
            layout,
            compacts,
            merge_at,
            jobs,
            foreigners,
            readers,
            expiries,
            expiring,
            rewinds,
            loses_records,
            crashes: 1 + choices.weighted("crashes", &[50, 35, 15]) as u32,
            faults: 2 + choices.below("faults", 6),
        }
    }

    fn job(choices: &mut Choices, job: usize) -> JobPlan {
        let splits = 1 + choices.weighted("splits", &[60, 40]);
        let mut sizes = Vec::new();
        for _ in 0..splits {
            let batches = 3 + choices.below("batches", 3);
            sizes.push((0..batches).map(|n| 1 + i64::from(n % 2)).collect());
        }
        let interval = 8 + 6 * u64::from(choices.below("interval", 4));
        let settings = Settings {
            parallelism: 1 + choices.weighted("parallelism", &[80, 20]),
            checkpoints: CheckpointSettings {
                interval: Some(MS(interval)),
                timeout: MS([600_000, 25, 8][choices.weighted("checkpoint timeout", &[75, 15, 10])]),
                retain: 1 + choices.below("retain", 3) as usize,
                tolerable_failures: 3,
                min_pause: MS(0),
            },
            restart: match choices.chance("restarts by itself", 60) {
                true => RestartStrategy::Exponential {
                    initial: MS(2),
                    max: MS(10),
                },
                false => RestartStrategy::None,
            },
            commits: CommitSettings {
                max_pending: 1 + choices.below("pending", 3) as usize,
                retry_base: MS(2),
                retry_cap: MS(10),
                give_up_at_end: MS(150),
                note_interval: MS(20),
            },
            host: "sim".to_owned(),
            ..Settings::default()
        };
        let at = |choices: &mut Choices, what, percent, up_to| {
            let yes = choices.chance(what, percent);
            yes.then(|| 1 + u64::from(choices.below(what, up_to)))
        };
        let twin_at = at(choices, "twin", 15, 200);
        let stop_at = at(choices, "stop", 15, 250);
        let stop_again = stop_at.and_then(|_| at(choices, "second stop", 30, 30));
        JobPlan {
            name: format!("job{job}"),
            input: Input {
                job,
                splits: sizes,
                // A batch per checkpoint and split, more or less.
                pace: MS(interval + 2),
            },
            settings,
            twin_at,
            stop_at,
            stop_again,
        }
    }

    pub(crate) fn disturbed(&self) -> Disturbed {
        Disturbed {
            racing: self.foreigners.racing,
            expiry: !self.expiries.is_empty(),
            rewound: self.rewinds || self.loses_records,
            unchained: self.foreigners.count > 0,
        }
    }

    /// One line for a person.
    pub(crate) fn outline(&self) -> String {
        let mut parts = vec![
            format!("{} jobs", self.jobs.len()),
            format!("{:?}", self.layout),
        ];
        let mut say = |yes: bool, what: &str| {
            if yes {
                parts.push(what.to_owned());
            }
        };
        say(self.compacts, "compacting");
        say(
            self.foreigners.count > 0 && !self.foreigners.racing,
            "honest foreigners",
        );
        say(self.foreigners.racing, "racing foreigner");
        say(!self.readers.is_empty(), "readers");
        say(!self.expiries.is_empty(), "expiry");
        say(self.expiring == Expiring::HintLast, "hint last");
        say(self.rewinds, "rewind");
        say(self.loses_records, "lost records");
        say(self.jobs.iter().any(|job| job.twin_at.is_some()), "twins");
        say(self.jobs.iter().any(|job| job.stop_at.is_some()), "stop");
        parts.push(format!("{} crashes, {} faults", self.crashes, self.faults));
        parts.join(", ")
    }
}
