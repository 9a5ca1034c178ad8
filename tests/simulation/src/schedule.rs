//! One schedule from its first step to its verdict.

use std::collections::{BTreeMap, HashMap};

use crate::choices::{Choice, Choices};
use crate::fates::Fate;
use crate::gate::ProtocolStep;
use crate::world::World;

/// What became of a schedule.
#[derive(Debug)]
pub struct Report {
    /// Which invariant broke, and how.
    pub verdict: Result<(), String>,
    pub(crate) choices: Vec<Choice>,
    /// Requests let through.
    pub steps: u64,
    /// A digest of every request in order, and of every object at the end where there is a trace.
    pub hash: u64,
    /// What happened, a line each, where asked for.
    pub trace: Vec<String>,
    pub(crate) cells: Vec<(Fate, ProtocolStep)>,
    pub(crate) requests: HashMap<ProtocolStep, u64>,
    pub(crate) ends: BTreeMap<&'static str, u64>,
    /// Checkpoint records written.
    pub checkpoints: u64,
    /// Processes killed.
    pub crashes: u64,
    /// Requests struck by a fault that is no crash.
    pub faults: u64,
    pub(crate) acknowledgements: u64,
    pub(crate) readings: u64,
    /// Jobs that stopped for good, saying why.
    pub(crate) stuck: u64,
}

impl Report {
    /// Whether enough happened in it to count.
    pub fn counts(&self) -> bool {
        self.checkpoints >= 3 && self.crashes >= 1 && self.faults >= 2
    }

    /// Its decisions, as numbers.
    pub fn numbers(&self) -> Vec<u32> {
        self.choices.iter().map(|choice| choice.value).collect()
    }
}

/// Plays the schedule of a seed.
pub fn of_seed(seed: u64, trace: bool) -> Report {
    play(Choices::seeded(seed), trace)
}

/// Plays the schedule of these decisions; further ones are 0.
pub fn of_script(numbers: &[u32], trace: bool) -> Report {
    play(Choices::script(numbers.to_vec()), trace)
}

/// Plays a seed twice: where the two traces differ, if they do. A trace tells every request with its order and
/// fate, what the processes said, and the bytes of every object at the end, data files too.
pub fn difference(seed: u64) -> Option<String> {
    let (first, second) = (of_seed(seed, true), of_seed(seed, true));
    let differ = first.trace.iter().zip(&second.trace).find(|(a, b)| a != b);
    if let Some((a, b)) = differ {
        return Some(format!("{a:?} once, {b:?} the other time"));
    }
    let lines = (first.trace.len(), second.trace.len());
    if lines.0 != lines.1 || first.hash != second.hash {
        return Some(format!(
            "{} lines and {}, digests {:016x} and {:016x}",
            lines.0, lines.1, first.hash, second.hash
        ));
    }
    None
}

fn play(mut choices: Choices, trace: bool) -> Report {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    let mut report = match runtime {
        Ok(runtime) => runtime.block_on(within(&mut choices, trace)),
        Err(error) => empty(Err(format!("no runtime: {error}"))),
    };
    report.choices = choices.made().to_vec();
    report
}

fn empty(verdict: Result<(), String>) -> Report {
    Report {
        verdict,
        choices: Vec::new(),
        steps: 0,
        hash: 0,
        trace: Vec::new(),
        cells: Vec::new(),
        requests: HashMap::new(),
        ends: BTreeMap::new(),
        checkpoints: 0,
        crashes: 0,
        faults: 0,
        acknowledgements: 0,
        readings: 0,
        stuck: 0,
    }
}

async fn within(choices: &mut Choices, trace: bool) -> Report {
    let mut world = match World::new(choices, trace) {
        Ok(world) => world,
        Err(error) => return empty(Err(error)),
    };
    let verdict = day(&mut world).await;
    if let Err(why) = &verdict {
        let outline = world.checker.outline();
        world.say(|| format!("BROKEN: {why}; snapshots:rows {outline}"));
    }
    // Only a trace is compared with another one.
    let objects = match trace {
        true => world.digest().await,
        false => 0,
    };
    Report {
        verdict,
        choices: Vec::new(),
        steps: world.step,
        hash: world.record.hash ^ objects,
        trace: world.take_trace(),
        checkpoints: world.record.checkpoints,
        crashes: world.record.crashes,
        faults: world.record.faults,
        acknowledgements: world.checker.acknowledgements,
        readings: world.record.readings,
        stuck: world.care.iter().filter(|care| care.stuck).count() as u64,
        cells: std::mem::take(&mut world.record.cells),
        requests: std::mem::take(&mut world.record.requests),
        ends: std::mem::take(&mut world.record.ends),
    }
}

async fn day(world: &mut World<'_>) -> Result<(), String> {
    world.make_table().await?;
    world.open_the_day();
    while !world.is_over() && world.turn().await? {}
    world.quiet_end().await
}
