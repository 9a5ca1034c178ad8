//! Explores the worlds that are asked for and prints what was seen. `cargo xtask check` builds it with
//! optimisation and runs it.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "it talks to its user"
)]

use clap::{Parser, ValueEnum};
use std::process::ExitCode;
use std::time::Duration;
use tidegate_exhaustive::{Bounds, Explored, Variant, explore, find_bug, worlds};
use tidegate_protocol::{Rule, Rules};

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Who {
    /// Each committer is of a job of its own.
    Jobs,
    /// All are runs of one job.
    Runs,
}

/// Every interleaving of a few committers, faults and crashes, over the protocol itself. Without any
/// bound, the worlds of docs/model-checking.md.
#[derive(Debug, Parser)]
struct Arguments {
    /// One world instead: who commits beside whom.
    #[arg(long)]
    variant: Option<Who>,
    /// Processes; with `runs` the first goes on while the others restore what it recorded.
    #[arg(long, default_value_t = 2)]
    committers: u8,
    /// Of each job.
    #[arg(long, default_value_t = 3)]
    checkpoints: u8,
    /// The second checkpoint compacts the first one's file too.
    #[arg(long)]
    compaction: bool,
    /// The next checkpoint may be recorded while the commit before it is undecided.
    #[arg(long)]
    backlog: bool,
    /// Of each committer.
    #[arg(long, default_value_t = 1)]
    crashes: u8,
    /// Publishes whose answer is lost; 255 = each, as often as it is put.
    #[arg(long, default_value_t = 255)]
    lost: u8,
    /// Publishes that land late.
    #[arg(long, default_value_t = 1)]
    late: u8,
    /// Calls that are dropped while a publish is on its way.
    #[arg(long, default_value_t = 0)]
    dropped: u8,
    /// Publishes that the store refuses.
    #[arg(long, default_value_t = 0)]
    refused: u8,
    /// Reads that show the snapshot before the newest one.
    #[arg(long, default_value_t = 0)]
    stale: u8,
    /// Reads that fail.
    #[arg(long, default_value_t = 0)]
    failed: u8,
    /// Snapshots that expire.
    #[arg(long, default_value_t = 0)]
    expired: u8,
    /// Runs remove what earlier ones left.
    #[arg(long)]
    cleaning: bool,
    /// Files of a checkpoint are written some time before its record.
    #[arg(long)]
    apart: bool,
    /// The published note is left after so many commits and at the end of a run.
    #[arg(long, default_value_t = 0)]
    notes: u8,
    /// Records that stay although they are not needed.
    #[arg(long, default_value_t = 1)]
    retained: u8,
    /// Ended and stopped processes that are started again.
    #[arg(long, default_value_t = 0)]
    restarts: u8,
    /// Starts from an older record than the newest one.
    #[arg(long, default_value_t = 0)]
    older: u8,
    /// A start compares nothing, as that of an engine without the rewind guard.
    #[arg(long)]
    unguarded: bool,
    /// Newest records that get lost.
    #[arg(long, default_value_t = 0)]
    forgotten: u8,
    /// Commits of committers that know nothing of us.
    #[arg(long, default_value_t = 0)]
    foreign: u8,
    /// They put over what is there.
    #[arg(long)]
    racing: bool,
    /// Rollbacks by a person, of one or two snapshots.
    #[arg(long, default_value_t = 0)]
    rollbacks: u8,
    /// These only where no process is about.
    #[arg(long)]
    idle: bool,
    /// Mismatches out of which a person takes a way.
    #[arg(long, default_value_t = 0)]
    ways: u8,
    /// `commit.max-retries`.
    #[arg(long, default_value_t = 2)]
    retries: u8,
    /// Also: a committer alone ends; one more run publishes everything.
    #[arg(long)]
    liveness: bool,
    /// Threads of the checker.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Stop after so many states, which is no proof then.
    #[arg(long)]
    most: Option<usize>,
    /// Switch off one rule after the other instead, and look for a counterexample to each.
    #[arg(long)]
    bugs: bool,
    /// Of these only this one, and tell its counterexample.
    #[arg(long, value_name = "RULE")]
    bug: Option<String>,
    /// Together with these.
    #[arg(long, value_name = "RULE", requires = "bug")]
    and: Vec<String>,
    /// Look only in this of the worlds for deliberate bugs.
    #[arg(long, value_name = "NUMBER")]
    world: Option<usize>,
}

impl Arguments {
    fn bounds(&self) -> Vec<Bounds> {
        let variant = match self.variant {
            Some(Who::Jobs) => Variant::Jobs,
            Some(Who::Runs) => Variant::Runs,
            None => return worlds::standard(),
        };
        vec![Bounds {
            compaction: self.compaction,
            backlog: self.backlog,
            crashes: self.crashes,
            lost: self.lost,
            late: self.late,
            dropped: self.dropped,
            refused: self.refused,
            stale: self.stale,
            failed: self.failed,
            expired: self.expired,
            cleaning: self.cleaning,
            apart: self.apart,
            notes: self.notes,
            retained: self.retained,
            restarts: self.restarts,
            older: self.older,
            unguarded: self.unguarded,
            forgotten: self.forgotten,
            foreign: self.foreign,
            racing: self.racing,
            rollbacks: self.rollbacks,
            idle: self.idle,
            ways: self.ways,
            retries: self.retries,
            liveness: self.liveness,
            ..Bounds::quiet(variant, self.committers, self.checkpoints)
        }]
    }
}

fn print(bounds: &Bounds, explored: &Explored) {
    println!("{bounds}");
    println!(
        "  {} states, {} different, depth {}, {:.1} s, {}",
        explored.reached,
        explored.unique,
        explored.depth,
        explored.took.as_secs_f64(),
        if explored.exhausted {
            "exhausted"
        } else {
            "NOT exhausted"
        }
    );
    if let Some(found) = &explored.found {
        println!(
            "  COUNTEREXAMPLE of depth {}: {}",
            found.depth, found.invariant
        );
        for line in &found.story {
            println!("    {line}");
        }
    }
}

fn tell(reached: usize, unique: usize, took: Duration) {
    if took.as_millis() % 10_000 < 250 {
        eprintln!(
            "  … {reached} states, {unique} different, {} s",
            took.as_secs()
        );
    }
}

/// Each rule off in turn; a line each. True where every one is found or named as unseen.
fn bugs(only: Option<&str>, and: &[String], world: Option<usize>) -> bool {
    let mut good = true;
    println!(
        "{:<28} {:>5} {:>8} {:>7}  broken",
        "rule off", "depth", "states", "s"
    );
    for rule in Rule::ALL.iter().copied() {
        if only.is_some_and(|only| only != rule.name()) {
            continue;
        }
        let unseen = worlds::UNSEEN.iter().find(|(of, ..)| *of == rule);
        if let (Some((_, why, test)), None) = (unseen, only) {
            println!("{:<28} {:>5} {why}: {test}", rule.name(), "-");
            continue;
        }
        let (mut states, mut took) = (0, Duration::ZERO);
        let mut found = None;
        let also = Rule::ALL
            .iter()
            .filter(|r| and.iter().any(|n| n == r.name()));
        let rules = also.fold(Rules::without(rule), |rules, r| rules.and_without(*r));
        let worlds = worlds::for_bugs().into_iter().enumerate();
        for (at, bounds) in worlds.filter(|(at, _)| world.is_none_or(|n| n == at + 1)) {
            let explored = find_bug(Bounds { rules, ..bounds }, worlds::MOST_PER_BUG);
            states += explored.reached;
            took += explored.took;
            if let Some(counterexample) = explored.found {
                found = Some((at, counterexample));
                break;
            }
        }
        let seconds = took.as_secs_f64();
        match found {
            Some((at, found)) => {
                println!(
                    "{:<28} {:>5} {states:>8} {seconds:>7.2}  {} (world {})",
                    rule.name(),
                    found.depth,
                    found.invariant,
                    at + 1
                );
                if only.is_some() {
                    found.story.iter().for_each(|line| println!("    {line}"));
                }
            }
            None => {
                good = false;
                println!(
                    "{:<28} {:>5} {states:>8} {seconds:>7.2}  NOT FOUND",
                    rule.name(),
                    "-"
                );
            }
        }
    }
    good
}

/// Rules with a second line of defence: without either nothing breaks, without both it does. True where that
/// is so.
fn backed() -> bool {
    println!(
        "\n{:<28} {:>5} {:>8}  behind it",
        "rule off", "depth", "states"
    );
    let mut good = true;
    for (rule, behind, bounds) in worlds::backed() {
        let alone = |rule| Rules::without(rule);
        let look = |rules| find_bug(Bounds { rules, ..bounds }, worlds::MOST_PER_BUG);
        let holds = |rule| {
            let seen = look(alone(rule));
            seen.found.is_none() && seen.exhausted
        };
        let both = look(alone(rule).and_without(behind));
        let (name, other) = (rule.name(), behind.name());
        match both.found {
            Some(found) if holds(rule) && holds(behind) => {
                let (depth, states) = (found.depth, both.reached);
                println!(
                    "{name:<28} {depth:>5} {states:>8}  {other}: {}",
                    found.invariant
                );
            }
            _ => {
                good = false;
                println!("{name:<28} {:>5} {:>8}  {other}: NOT SO", "-", both.reached);
            }
        }
    }
    good
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.bugs || arguments.bug.is_some() {
        let mut good = bugs(arguments.bug.as_deref(), &arguments.and, arguments.world);
        if arguments.bug.is_none() {
            good &= backed();
        }
        return if good {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        };
    }
    let mut good = true;
    for bounds in arguments.bounds() {
        let explored = explore(bounds, arguments.threads, arguments.most, tell);
        print(&bounds, &explored);
        good &= explored.found.is_none();
    }
    if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
