//! A small part of the campaign, with a fixed seed: ours, which may lose nothing, and pypaimon, which shows that
//! the rig can tell. docs/torture.md has the whole.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking; its lines are those of the campaign"
)]

use std::path::Path;
use std::time::Duration;
use tidegate_torture::cells::{Cell, Length, Outcome, run};
use tidegate_torture::report;
use tidegate_torture::subject::{Recovery, Subject};

const SEED: u64 = 20_261_130;

fn subject(name: &str) -> Subject {
    let driver = Path::new(env!("CARGO_BIN_EXE_tidegate-torture-driver"));
    Subject::install(name, driver, false).unwrap()
}

/// One cell; whoever is judged is read by the other of the two.
fn cell(name: &str, cell: Cell, recovery: Recovery, steps: usize) -> Outcome {
    let reader = if name == "ours" { "pypaimon" } else { "ours" };
    let mut reader = subject(reader).start().unwrap();
    let length = Length {
        time: Duration::ZERO,
        steps,
        keep: false,
    };
    let outcome = run(cell, &subject(name), recovery, SEED, length, &mut reader).unwrap();
    let label = report::label(cell, recovery);
    println!("{}", report::line(name, &label, &outcome));
    println!("{}", report::details(&outcome).join("\n"));
    outcome
}

#[test]
fn ours_loses_doubles_and_leaves_nothing_under_races_kills_and_lost_answers() {
    for (what, steps) in [(Cell::Race, 6), (Cell::Kill, 24), (Cell::Answer, 8)] {
        let outcome = cell("ours", what, Recovery::Own, steps);
        let verdict = &outcome.verdict;
        assert!(outcome.counts.given_up.is_none(), "{outcome:?}");
        assert!(verdict.acknowledged > 10 * steps / 2, "{outcome:?}");
        assert_eq!(verdict.unreadable, None);
        let wrong = [
            verdict.lost,
            verdict.doubled,
            verdict.left_over,
            verdict.missing,
        ];
        assert_eq!(wrong, [0; 4], "{outcome:?}");
        let kills: usize = outcome.counts.kills.iter().sum();
        assert_eq!(kills > 0, what != Cell::Race, "{outcome:?}");
    }
}

#[test]
fn ours_refuses_an_older_state_where_pypaimon_doubles_rows_without_a_word() {
    let ours = cell("ours", Cell::Restore, Recovery::Own, 1);
    assert_eq!((ours.verdict.lost, ours.verdict.doubled), (0, 0));
    assert_eq!(ours.counts.refused, 1, "{ours:?}");
    let theirs = cell("pypaimon", Cell::Restore, Recovery::Again, 1);
    assert_eq!(
        (theirs.verdict.lost, theirs.counts.refused),
        (0, 0),
        "{theirs:?}"
    );
    assert!(theirs.verdict.doubled > 0, "{theirs:?}");
}

#[test]
fn what_pypaimon_published_before_its_answer_was_lost_is_doubled_unless_its_caller_looks() {
    let again = cell("pypaimon", Cell::Answer, Recovery::Again, 6);
    let [_, lost_answers, _] = again.counts.kills;
    assert!(lost_answers > 0, "{again:?}");
    assert_eq!(
        (again.verdict.lost, again.verdict.doubled),
        (0, 10 * lost_answers),
        "{again:?}"
    );
    let look = cell("pypaimon", Cell::Answer, Recovery::Look, 6);
    assert_eq!(
        (look.verdict.lost, look.verdict.doubled),
        (0, 0),
        "{look:?}"
    );
}
