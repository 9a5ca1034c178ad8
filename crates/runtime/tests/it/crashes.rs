//! Killed anywhere, every row is there once and nothing is left over.

use std::pin::pin;
use std::task::Poll;

use tidegate_runtime::JobEnd;
use tidegate_sink::probe;

use crate::rig::*;

/// Every named place, several times round, with 1 to 3 tasks of each kind.
#[test]
fn killed_at_every_place_every_row_is_there_once() {
    for parallelism in 1..=3 {
        for place in probe::ALL {
            for nth in 1..=4 {
                let mut rig = Rig::new(rows_in_splits(4, 6)).parallel(parallelism);
                rig.settings.checkpoints.interval = Some(MS(12));
                let crashed = crash_at(&rig, place, nth);
                assert!(crashed, "{place} was not passed {nth} times");
                let user = block_on(rig.user());
                block_on(rig.finish_or_nothing());
                rig.assert_exactly_once(120);
                assert_eq!(
                    block_on(rig.user()),
                    user,
                    "[R-1] the commit user is unchanged"
                );
            }
        }
    }
}

/// A crash after a crash after a crash, at ever other places.
#[test]
fn killed_again_and_again_every_row_is_there_once() {
    for seed in 0..20u32 {
        let rig = Rig::new(rows_in_splits(3, 12)).parallel(1 + seed as usize % 3);
        for round in 0..8 {
            let place = probe::ALL[(seed + round * 3) as usize % probe::ALL.len()];
            crash_at(&rig, place, 1 + (seed + round) % 3);
        }
        block_on(rig.finish_or_nothing());
        rig.assert_exactly_once(180);
    }
}

/// The whole job dropped after any number of polls.
#[test]
fn r_18_dropped_at_any_await_every_row_is_there_once() {
    let mut polls = 1;
    loop {
        let mut rig = Rig::new(rows_in_splits(2, 4)).parallel(2);
        rig.settings.checkpoints.interval = Some(MS(3));
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
        block_on(rig.finish_or_nothing());
        rig.assert_exactly_once(40);
        if ended {
            assert!(polls > 20, "{polls} polls are few");
            return;
        }
        polls += 1;
    }
}

/// The same by time: tasks are at other places than the coordinator.
#[test]
fn killed_after_any_time_every_row_is_there_once() {
    for time in (0..200).step_by(3) {
        let rig = Rig::new(rows_in_splits(3, 8)).parallel(1 + time % 3);
        block_on(rig.killed_after(MS(time as u64)));
        block_on(rig.killed_after(MS(40 + time as u64 % 50)));
        block_on(rig.finish_or_nothing());
        rig.assert_exactly_once(120);
    }
}

impl Rig {
    pub async fn finish_or_nothing(&self) {
        match self.run().await {
            Ok(JobEnd::Finished(_) | JobEnd::NothingNew) => {}
            other => panic!("{other:?}"),
        }
    }
}
