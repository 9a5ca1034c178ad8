//! Killed anywhere, every row is there once for plain readers, and nothing is left over.

use std::pin::pin;
use std::task::Poll;

use proptest::prelude::*;
use tidegate_files::Format;
use tidegate_sink::probe;
use tidegate_storage::{ErrorKind, Fault, Faults, Rule};

use crate::rig::*;

const FORMATS: [Format; 3] = [Format::Parquet, Format::Csv, Format::JsonLines];

fn killed_everywhere(rig: impl Fn(Format) -> Rig, formats: &[Format], rounds: u32) {
    for format in formats {
        for place in probe::ALL {
            for nth in 1..=rounds {
                let rig = rig(*format);
                assert!(
                    crash_at(&rig, place, nth),
                    "{place} was not passed {nth} times"
                );
                block_on(rig.finish());
                let what = format!("{format:?}, {place} {nth}");
                block_on(rig.assert_exactly_once(120, &what));
            }
        }
    }
}

#[test]
fn killed_at_every_place_every_row_is_there_once_in_memory() {
    for parallelism in [1, 3] {
        let rig = |format| Rig::memory(format, rows_in_splits(4, 6)).parallel(parallelism);
        killed_everywhere(rig, &FORMATS, 4);
    }
}

#[test]
fn killed_at_every_place_every_row_is_there_once_on_disk() {
    let rig = |format| Rig::disk(format, rows_in_splits(4, 6)).parallel(2);
    killed_everywhere(rig, &[Format::Parquet], 2);
}

/// The process dies at request `nth` to the store; `false` once it has fewer requests.
fn dies_at(rig: &Rig, fault: Fault, nth: u32, rows: i64) -> bool {
    let faults = Faults::new();
    faults.rule(Rule::new(fault).nth(nth));
    let ended = block_on(rig.run_with(&faults));
    let died = faults.dead();
    assert!(died || ended.is_ok(), "{ended:?}");
    // In between: nothing uncommitted, nothing twice.
    let (plain, exact) = block_on(async { (rig.plain_rows().await, rig.committed_rows().await) });
    let what = format!("{fault:?} at request {nth}");
    assert!(exact.windows(2).all(|w| w[0] < w[1]), "{what}: {exact:?}");
    assert!(plain.windows(2).all(|w| w[0] < w[1]), "{what}: {plain:?}");
    assert!(
        plain.iter().all(|row| exact.contains(row)),
        "{what}: {plain:?} of {exact:?}"
    );
    block_on(rig.finish());
    block_on(rig.assert_exactly_once(rows, &what));
    died
}

fn dies_everywhere(rig: impl Fn() -> Rig, rows: i64) {
    for fault in [Fault::DieBefore, Fault::DieAfter] {
        let deaths = (1..)
            .take_while(|nth| dies_at(&rig(), fault, *nth, rows))
            .count();
        assert!(deaths > 30, "{deaths} requests could die");
    }
}

#[test]
fn death_at_every_request_leaves_every_row_once_in_memory() {
    dies_everywhere(
        || Rig::memory(Format::Csv, rows_in_splits(2, 4)).parallel(2),
        40,
    );
}

#[test]
fn death_at_every_request_leaves_every_row_once_on_disk() {
    dies_everywhere(|| Rig::disk(Format::JsonLines, rows_in_splits(1, 3)), 15);
}

/// A lost answer, a late request, a failing one: whatever the run comes to, no row is lost or
/// there twice.
#[test]
fn one_fault_at_every_request_leaves_every_row_once() {
    for fault in [
        Fault::After,
        Fault::LateAfter(3),
        Fault::Before(ErrorKind::Transient),
    ] {
        for nth in 1.. {
            let rig = Rig::memory(Format::Csv, rows_in_splits(2, 3));
            let faults = Faults::new();
            faults.rule(Rule::new(fault).nth(nth));
            let _ = block_on(rig.run_with(&faults));
            let struck = !faults.log().is_empty();
            block_on(faults.release());
            block_on(rig.finish());
            let what = format!("{fault:?} at request {nth}");
            block_on(rig.assert_rows(30, &what));
            if !struck {
                assert!(nth > 30, "{nth} requests are few");
                break;
            }
        }
    }
}

/// The whole job dropped after any number of polls.
#[test]
fn r_18_dropped_at_any_await_every_row_is_there_once() {
    for polls in 1.. {
        let rig = Rig::memory(Format::Csv, rows_in_splits(2, 4)).parallel(2);
        let ended = block_on(async {
            let mut run = pin!(rig.run());
            let mut left = polls;
            std::future::poll_fn(|context| {
                left -= 1;
                match run.as_mut().poll(context) {
                    Poll::Ready(_) => Poll::Ready(true),
                    Poll::Pending if left == 0 => Poll::Ready(false),
                    Poll::Pending => Poll::Pending,
                }
            })
            .await
        });
        block_on(rig.finish());
        block_on(rig.assert_exactly_once(40, &format!("dropped after {polls} polls")));
        if ended {
            assert!(polls > 10, "{polls} polls are few");
            return;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// A chain of crashes, at places or requests, over any shape of source.
    #[test]
    fn crash_after_crash_every_row_is_there_once(
        splits in 1i64..4,
        batches in 1i64..8,
        parallelism in 1usize..4,
        format in 0usize..3,
        crashes in prop::collection::vec((0usize..8, 1u32..40), 0..6),
    ) {
        let source = rows_in_splits(splits, batches);
        let rig = Rig::memory(FORMATS[format], source).parallel(parallelism);
        for (place, nth) in &crashes {
            match probe::ALL.get(*place) {
                Some(place) => {
                    crash_at(&rig, place, nth % 3 + 1);
                }
                None => {
                    let faults = Faults::new();
                    faults.rule(Rule::new(Fault::DieAfter).nth(*nth));
                    let _ = block_on(rig.run_with(&faults));
                }
            }
        }
        block_on(rig.finish());
        let (rows, what) = (splits * batches * 5, format!("{crashes:?}"));
        // Whatever the last run brings: rows, only what another has left to publish, or nothing.
        block_on(rig.assert_exactly_once(rows, &what));
        rig.grow(rows..rows + 5);
        block_on(rig.finish());
        block_on(rig.assert_exactly_once(rows + 5, &what));
    }
}
