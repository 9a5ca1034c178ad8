//! The big run: `cargo xtask crash-states`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test rig fails by panicking, with the place"
)]

use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;
use tidegate_crash_consistency::campaign::{
    Recording, judge, kill_points, mutants, narrow, restarts, seconds,
};
use tidegate_crash_consistency::disk::Rule;
use tidegate_crash_consistency::judge::Judge;
use tidegate_crash_consistency::mutants::each_sync;
use tidegate_crash_consistency::scenario::Scenario;
use tidegate_crash_consistency::states::Bounds;

/// Every state that a local disk may be in after a power failure, judged.
#[derive(Parser)]
#[command(name = "cargo xtask crash-states")]
struct Arguments {
    /// The binary that is recorded.
    #[arg(long)]
    bin: PathBuf,
    /// Jobs started again on states, per scenario and rule.
    #[arg(long, default_value_t = 60)]
    restarts: usize,
    /// Calls at which a run is killed, per scenario; a second run goes on and its states are judged.
    #[arg(long, default_value_t = 40)]
    kills: usize,
    /// Leave each fsync out alone and tell which of them are not missed.
    #[arg(long)]
    each_sync: bool,
    /// Of what is drawn.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[expect(clippy::print_stdout, reason = "a chore talks to its user")]
fn say(line: &str) {
    println!("{line}");
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    tidegate_tests::binary::set(arguments.bin.clone());
    let begun = Instant::now();
    let mut faulty = 0;
    let the_judge = Judge::new();
    for scenario in Scenario::ALL {
        faulty += one(&arguments, &the_judge, scenario);
    }
    say(&format!("\n{}", seconds(begun)));
    match faulty {
        0 => {
            say(
                "every state is a table with the commit or without it, nothing acknowledged is missing",
            );
            ExitCode::SUCCESS
        }
        n => {
            say(&format!("{n} faults"));
            ExitCode::FAILURE
        }
    }
}

fn one(arguments: &Arguments, the_judge: &Judge, scenario: Scenario) -> usize {
    let mut faulty = 0;
    let recording = Recording::new(scenario, None);
    let syncs = recording.calls.iter().filter(|call| call.syncs()).count();
    say(&format!(
        "\n{}: {} calls, {syncs} of them fsync; {} snapshots, {} rows",
        scenario.name(),
        recording.calls.len(),
        recording.reference.len(),
        scenario.rows()
    ));
    for rule in [Rule::Posix, Rule::Journal] {
        let begun = Instant::now();
        let verdict = judge(
            the_judge,
            &recording,
            &recording.calls,
            rule,
            &Bounds {
                seed: arguments.seed,
                ..Bounds::default()
            },
            false,
        );
        say(&format!("  {verdict}; {}", seconds(begun)));
        faulty += verdict.faulty;
        let begun = Instant::now();
        let seed = arguments.seed;
        let faults = restarts(
            &recording,
            &verdict.explored,
            rule,
            arguments.restarts,
            seed,
        );
        let n = arguments.restarts.min(verdict.explored.sample.len());
        say(&format!(
            "  {:<8} {n} of these trees started again: {} faulty; {}",
            rule.name(),
            faults.len(),
            seconds(begun)
        ));
        faults.iter().for_each(|fault| say(&format!("    {fault}")));
        faulty += faults.len();
    }
    faulty += kills(arguments, the_judge, &recording);
    say("  mistakes put into the record, and states that show them:");
    say(&format!("    {:<60} {:>12} {:>12}", "", "posix", "journal"));
    let bounds = narrow();
    for caught in mutants(the_judge, &recording, &bounds) {
        let cells = caught
            .found
            .iter()
            .map(|verdict| format!("{} of {}", verdict.faulty, verdict.judged));
        let cells: Vec<String> = cells.collect();
        let good = if caught.good() {
            ""
        } else {
            "  NOT AS EXPECTED"
        };
        say(&format!(
            "    {:<60} {:>12} {:>12}{good}",
            caught.name, cells[0], cells[1]
        ));
        if let Some(first) = caught.found.iter().find_map(|v| v.faults.first()) {
            say(&format!("      {}", first.replace("\n    ", "\n        ")));
        }
        faulty += usize::from(!caught.good());
    }
    if arguments.each_sync {
        alone(the_judge, &recording);
    }
    faulty
}

/// A run killed at a call, a second one that goes on: what the first left un-synced, the second must
/// not take for durable.
fn kills(arguments: &Arguments, the_judge: &Judge, whole: &Recording) -> usize {
    if whole.scenario == Scenario::Files {
        return 0;
    }
    let begun = Instant::now();
    let (mut faulty, mut states, mut seen, mut runs, mut restarted) = (0, 0, 0, 0, 0);
    for (nth, at) in kill_points(&whole.calls, arguments.kills)
        .into_iter()
        .enumerate()
    {
        let recording = Recording::new(whole.scenario, Some(at));
        if recording.killed == 0 {
            continue;
        }
        runs += 1;
        for rule in [Rule::Posix, Rule::Journal] {
            let bounds = Bounds {
                from: recording.killed,
                ..narrow()
            };
            let verdict = judge(
                the_judge,
                &recording,
                &recording.calls,
                rule,
                &bounds,
                false,
            );
            states += verdict.explored.states;
            seen += verdict.explored.seen.len();
            faulty += verdict.faulty;
            if rule == Rule::Posix {
                // What the second run cleaned must stay gone, or be found again.
                let seed = arguments.seed + nth as u64;
                let faults = restarts(&recording, &verdict.explored, rule, 2, seed);
                restarted += verdict.explored.sample.len().min(2);
                faulty += faults.len();
                let told = |fault| say(&format!("    killed after call {at}: {fault}"));
                faults.iter().for_each(told);
            }
            for fault in verdict.faults.iter().take(1) {
                say(&format!(
                    "    killed after call {at}, {} faulty: {fault}",
                    verdict.faulty
                ));
            }
        }
    }
    say(&format!(
        "  {runs} runs killed at a call and finished by a second run: {states} states of the second, \
         {seen} without temporary files, {restarted} trees started again; {faulty} faulty; {}",
        seconds(begun)
    ));
    faulty
}

/// Each fsync left out alone.
fn alone(the_judge: &Judge, recording: &Recording) {
    let begun = Instant::now();
    let (mut needed, mut missed) = (0, Vec::new());
    for (at, calls) in each_sync(&recording.calls) {
        let bounds = Bounds {
            from: at,
            ..narrow()
        };
        let verdict = judge(the_judge, recording, &calls, Rule::Posix, &bounds, true);
        match verdict.faulty {
            0 => missed.push(format!("{}", recording.calls[at])),
            _ => needed += 1,
        }
    }
    say(&format!(
        "  each fsync left out alone (posix): {needed} are missed, {} are not; {}",
        missed.len(),
        seconds(begun)
    ));
    missed
        .iter()
        .for_each(|call| say(&format!("    not missed: {call}")));
}
