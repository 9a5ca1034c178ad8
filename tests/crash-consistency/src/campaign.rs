//! The whole: record, enumerate, judge, start again; and what came of it, for a person.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::fmt;
use std::time::Instant;
use tidegate_tests::Lab;

use crate::call::Call;
use crate::disk::{Disk, Rule};
use crate::judge::{Judge, Reference, fault, reference};
use crate::mutants;
use crate::recorder::Recorder;
use crate::restart::{finish, restart};
use crate::scenario::Scenario;
use crate::states::{Bounds, Choice, Explored, Seen, explore, state, words};

/// A recorded run with its finished table.
#[derive(Debug)]
pub struct Recording {
    /// Which job.
    pub scenario: Scenario,
    /// What it did.
    pub calls: Vec<Call>,
    /// The rows of each snapshot.
    pub reference: Reference,
    recorder: Recorder,
    /// So many calls were made by a run that was killed; 0 where none was.
    pub killed: usize,
}

impl Recording {
    /// Runs a job to its end; with `kill_at` killed after that call and then finished by a second run.
    pub fn new(scenario: Scenario, kill_at: Option<usize>) -> Self {
        let lab = Lab::new();
        scenario.prepare(&lab);
        let mut recorder = Recorder::new(&lab);
        let killed = scenario.record(&lab, &mut recorder, kill_at);
        let reference = reference(&lab.path("."));
        let calls = recorder.calls().to_vec();
        let killed = if killed { recorder.first() } else { 0 };
        let recording = Self {
            scenario,
            calls,
            reference,
            recorder,
            killed,
        };
        let rows = recording.rows();
        finish(scenario, &lab, rows).unwrap_or_else(|why| panic!("the recorded run: {why}"));
        recording
    }

    /// Hash of the rows of the finished table.
    pub fn rows(&self) -> u128 {
        *self.reference.values().next_back().unwrap()
    }

    /// The disk before it.
    pub fn disk(&self, rule: Rule) -> Disk {
        self.recorder.disk(rule)
    }
}

/// What came of judging the states of one run.
#[derive(Debug)]
pub struct Verdict {
    /// Rule.
    pub rule: Rule,
    /// What was enumerated.
    pub explored: Explored,
    /// States that may not be, in words; at most a few, and how many there are.
    pub faults: Vec<String>,
    /// How many there are.
    pub faulty: usize,
    /// How many states were judged, those that differ in temporary files only once.
    pub judged: usize,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let explored = &self.explored;
        write!(
            f,
            "{:<8} {:>8} states, {:>6} trees, {:>5} without temporary files; at most {} operations \
             pending, cut at {} points; {} faulty",
            self.rule.name(),
            explored.states,
            explored.trees,
            explored.seen.len(),
            explored.pending,
            explored.cut,
            self.faulty
        )?;
        for fault in &self.faults {
            write!(f, "\n    {fault}")?;
        }
        Ok(())
    }
}

/// Faults told in words; more are only counted.
const TOLD: usize = 3;

/// Judges all states of some calls, made on the disk of a recording; with `first` along the run until one
/// is faulty.
pub fn judge(
    judge: &Judge,
    recording: &Recording,
    calls: &[Call],
    rule: Rule,
    bounds: &Bounds,
    first: bool,
) -> Verdict {
    let disk = recording.disk(rule);
    let explored =
        explore(&disk, calls, bounds).unwrap_or_else(|misfit| panic!("the record: {}", misfit.0));
    let mut seen: Vec<(u128, &Seen)> = explored.seen.iter().map(|(h, s)| (*h, s)).collect();
    seen.sort_by_key(|(hash, seen)| (seen.choice.calls, *hash));
    let (mut faults, mut judged): (Vec<(&Choice, String)>, usize) = (Vec::new(), 0);
    for part in seen.chunks(if first { 32 } else { seen.len().max(1) }) {
        judged += part.len();
        for ((_, seen), facts) in part.iter().zip(judge.all(part)) {
            if let Some(why) = fault(&facts, &seen.duty, &recording.reference) {
                faults.push((&seen.choice, why));
            }
        }
        if first && !faults.is_empty() {
            break;
        }
    }
    // The earliest with the fewest losses says most.
    faults.sort_by_key(|(choice, _)| {
        let lost = choice.kept.iter().filter(|kept| !**kept).count();
        (choice.calls, lost)
    });
    let faulty = faults.len();
    let faults = faults.into_iter().take(TOLD).map(|(choice, why)| {
        let how = words(&disk, calls, choice).unwrap_or_else(|e| e.0);
        format!("{why}\n      {how}")
    });
    let faults = faults.collect();
    Verdict {
        rule,
        explored,
        faults,
        faulty,
        judged,
    }
}

/// Starts the job again on so many different trees, spread over the run, drawn by the seed.
/// What went wrong, in words.
pub fn restarts(
    recording: &Recording,
    explored: &Explored,
    rule: Rule,
    n: usize,
    seed: u64,
) -> Vec<String> {
    let disk = recording.disk(rule);
    let mut random = SmallRng::seed_from_u64(seed);
    let sample = &explored.sample;
    let n = n.min(sample.len());
    let mut faults = Vec::new();
    for nth in 0..n {
        // One of each of `n` equal parts of the run.
        let part = sample.len() * nth / n..(sample.len() * (nth + 1) / n).max(1);
        let choice = &sample[random.random_range(part)];
        let tree = state(&disk, &recording.calls, choice).unwrap();
        if let Err(why) = restart(recording.scenario, &tree, recording.rows()) {
            let how = words(&disk, &recording.calls, choice).unwrap_or_else(|e| e.0);
            faults.push(format!("started again: {why}\n      {how}"));
        }
    }
    faults
}

/// A mistake and what was found of it under a rule.
#[derive(Debug)]
pub struct Caught {
    /// What was wrong.
    pub name: &'static str,
    /// What was to come of it.
    pub expected: mutants::Expected,
    /// Faulty states under each rule, and all states.
    pub found: Vec<Verdict>,
}

impl Caught {
    /// Whether it came as expected.
    pub fn good(&self) -> bool {
        let faulty = |rule| self.found.iter().any(|v| v.rule == rule && v.faulty > 0);
        let (posix, journal) = (faulty(Rule::Posix), faulty(Rule::Journal));
        match self.expected {
            mutants::Expected::Fails => posix && journal,
            mutants::Expected::FailsPosix => posix,
            mutants::Expected::Holds(_) => !posix && !journal,
        }
    }
}

/// Judges the states of a run with each mistake in it.
pub fn mutants<'a>(
    judge_of: &'a Judge,
    recording: &'a Recording,
    bounds: &'a Bounds,
) -> impl Iterator<Item = Caught> + 'a {
    mutants::all().into_iter().map(move |mutant| {
        let calls = mutant.apply(&recording.calls);
        assert_ne!(calls, recording.calls, "{mutant:?} changes nothing");
        let found = [Rule::Posix, Rule::Journal]
            .map(|rule| judge(judge_of, recording, &calls, rule, bounds, true));
        Caught {
            name: mutant.name,
            expected: mutant.expected,
            found: found.into(),
        }
    })
}

/// Numbers of calls after which a kill leaves something that is not durable, at most so many, spread over
/// the run: the next call would have been an fsync.
pub fn kill_points(calls: &[Call], most: usize) -> Vec<usize> {
    let all: Vec<usize> = (1..calls.len()).filter(|at| calls[*at].syncs()).collect();
    let n = most.min(all.len());
    (0..n).map(|nth| all[all.len() * nth / n]).collect()
}

/// Fewer states: for many runs.
pub fn narrow() -> Bounds {
    Bounds {
        all_subsets: 4,
        pairs: false,
        random: 8,
        contents: 8,
        most: 4,
        ..Bounds::default()
    }
}

/// Seconds since, for reports.
pub fn seconds(begun: Instant) -> String {
    format!("{:.1} s", begun.elapsed().as_secs_f64())
}
