//! The small run of the crash states: in CI. The big one is `cargo xtask crash-states`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "helpers of tests fail by panicking, with the place, and say what they did"
)]

use std::time::Instant;
use tidegate_crash_consistency::campaign::{
    Recording, judge, kill_points, mutants, narrow, restarts, seconds,
};
use tidegate_crash_consistency::disk::Rule;
use tidegate_crash_consistency::judge::Judge;
use tidegate_crash_consistency::scenario::Scenario;
use tidegate_crash_consistency::states::Bounds;

/// States that the run may leave, and jobs started again on some of them.
fn every_state_is_a_table(scenario: Scenario) {
    let (the_judge, begun) = (Judge::new(), Instant::now());
    let recording = Recording::new(scenario, None);
    assert!(
        recording.reference.len() > 1,
        "several commits are looked at"
    );
    println!("{}: {} calls", scenario.name(), recording.calls.len());
    for rule in [Rule::Posix, Rule::Journal] {
        let verdict = judge(
            &the_judge,
            &recording,
            &recording.calls,
            rule,
            &narrow(),
            false,
        );
        println!("{verdict}; {}", seconds(begun));
        assert!(verdict.explored.seen.len() > 30, "{verdict}");
        assert_eq!(verdict.faulty, 0, "{verdict}");
        let faults = restarts(&recording, &verdict.explored, rule, 4, 20_261_130);
        assert!(faults.is_empty(), "{faults:#?}");
    }
    println!("{}", seconds(begun));
}

#[test]
fn a_power_failure_leaves_the_table_with_the_commit_or_without_it_unaware() {
    every_state_is_a_table(Scenario::Unaware);
}

#[test]
fn a_power_failure_leaves_the_table_with_the_commit_or_without_it_fixed_buckets() {
    every_state_is_a_table(Scenario::Fixed);
}

#[test]
fn a_power_failure_leaves_the_table_with_the_commit_or_without_it_side_objects() {
    every_state_is_a_table(Scenario::Files);
}

#[test]
fn a_run_takes_nothing_for_durable_that_a_killed_one_left() {
    let the_judge = Judge::new();
    let whole = Recording::new(Scenario::Fixed, None);
    // The first ones make the folders of warehouse, database and table.
    let all = kill_points(&whole.calls, usize::MAX);
    for at in all[..2]
        .iter()
        .copied()
        .chain(kill_points(&whole.calls[..], 5))
    {
        let recording = Recording::new(Scenario::Fixed, Some(at));
        let bounds = Bounds {
            from: recording.killed,
            ..narrow()
        };
        let verdict = judge(
            &the_judge,
            &recording,
            &recording.calls,
            Rule::Posix,
            &bounds,
            false,
        );
        assert_eq!(verdict.faulty, 0, "killed after call {at}: {verdict}");
    }
}

#[test]
fn every_mistake_put_into_the_record_is_caught() {
    let the_judge = Judge::new();
    let recording = Recording::new(Scenario::Fixed, None);
    let bounds = narrow();
    for caught in mutants(&the_judge, &recording, &bounds) {
        let faulty: Vec<usize> = caught.found.iter().map(|v| v.faulty).collect();
        println!("{}: {faulty:?}", caught.name);
        assert!(caught.good(), "{caught:#?}");
    }
}
