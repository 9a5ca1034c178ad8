//! When checkpoints begin, how many may fail, and what follows a failure: on a paused clock, to the
//! millisecond.

use std::time::Duration;

use tidegate_runtime::source::BadRecord;
use tidegate_runtime::*;
use tidegate_sink::*;
use tidegate_storage::{Fault, Faults, Op, RetryPolicy, Rule};
use tokio::time::Instant;

use crate::ends::start;
use crate::failures::broken_pipe;
use crate::rig::*;

fn gaps(at: &[Instant]) -> Vec<Duration> {
    at.windows(2).map(|w| w[1] - w[0]).collect()
}

/// From the end of a checkpoint to the begin of the next one at least the minimum pause, however
/// short the interval is; without it the next begins as soon as the interval is over.
#[tokio::test(start_paused = true)]
async fn the_minimum_pause_lies_between_the_end_of_a_checkpoint_and_the_begin_of_the_next() {
    for (pause, expected) in [(MS(100), MS(150)), (Duration::ZERO, MS(50))] {
        let mut rig = Rig::new(rows_in_splits(1, 200));
        rig.settings.checkpoints.interval = Some(MS(20));
        rig.settings.checkpoints.min_pause = pause;
        rig.lake.lock().slow_prepares = Some(MS(50));
        let (stop, running) = start(&rig).await;
        tokio::time::sleep(MS(1000)).await;
        let gaps = gaps(&rig.lake.lock().prepared_at);
        assert!(
            gaps.len() > 4 && gaps.iter().all(|gap| *gap == expected),
            "{gaps:?}"
        );
        stop.request();
        running.await.unwrap().unwrap();
        rig.finish().await;
        rig.assert_exactly_once(1000);
    }
}

/// The last checkpoint waits for no pause: a stop is a stop.
#[tokio::test(start_paused = true)]
async fn the_minimum_pause_does_not_hold_back_the_last_checkpoint() {
    let mut rig = Rig::new(rows_in_splits(1, 200));
    rig.settings.checkpoints.min_pause = Duration::from_secs(3600);
    let (stop, running) = start(&rig).await;
    tokio::time::sleep(MS(200)).await;
    let asked = Instant::now();
    stop.request();
    assert!(matches!(running.await.unwrap(), Ok(JobEnd::Stopped(_))));
    assert!(
        asked.elapsed() < Duration::from_secs(60),
        "{:?}",
        asked.elapsed()
    );
}

/// Failures in a row are counted, and a checkpoint that completes begins the count anew.
#[tokio::test(start_paused = true)]
async fn tolerable_checkpoint_failures_are_counted_in_a_row() {
    for (tolerable, fails) in [(2, false), (1, true)] {
        let mut rig = Rig::new(rows_in_splits(1, 60));
        rig.settings.checkpoints.tolerable_failures = tolerable;
        rig.settings.restart = RestartStrategy::None;
        let faults = Faults::new();
        // As many as are offered for one record; 2 and 3 fail, 4 completes, 5 and 6 fail.
        for id in [2, 3, 5, 6] {
            let rule = Rule::new(Fault::Before(tidegate_storage::ErrorKind::Transient));
            faults.rule(
                rule.on(Op::Create)
                    .path(&format!("/checkpoint-{id}"))
                    .times(5),
            );
        }
        let whole = rig.store.clone();
        rig.store = whole
            .clone()
            .with_retry(RetryPolicy::none())
            .with_faults(faults.clone());
        let job = rig.job();
        let progress = job.progress();
        match job.run(StopSignal::never()).await {
            Ok(JobEnd::Finished(summary)) if !fails => {
                assert_eq!(summary.restarts, 0);
                assert_eq!(progress.borrow().checkpoints_failed, 4);
            }
            Err(RuntimeError::Checkpoints { count: 2, .. }) if fails => {}
            other => panic!("{tolerable} tolerable: {other:?}"),
        }
        rig.store = whole;
        rig.finish_or_nothing().await;
        rig.assert_exactly_once(300);
    }
}

/// A source that breaks at its first batch, 10 ms after each start, so many times.
fn breaking(strategy: RestartStrategy, times: usize) -> Rig {
    let mut rig = Rig::new(rows_in_splits(1, 2));
    rig.settings.restart = strategy;
    *rig.source.errors.lock().unwrap() = (0..times).map(|_| broken_pipe()).collect();
    rig
}

#[tokio::test(start_paused = true)]
async fn restart_strategy_none_ends_with_the_first_failure() {
    let rig = breaking(RestartStrategy::None, 10);
    let error = rig.run().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Transient);
    assert_eq!(rig.lake.lock().opened, 1);
}

#[tokio::test(start_paused = true)]
async fn restart_strategy_fixed_delay_keeps_its_delay_and_ends_after_its_attempts() {
    let strategy = RestartStrategy::FixedDelay {
        attempts: 3,
        delay: Duration::from_secs(7),
    };
    let rig = breaking(strategy.clone(), 10);
    let error = rig.run().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Transient);
    assert_eq!(gaps(&rig.lake.lock().opened_at), [MS(7010); 3]);
    // As many failures as attempts: the last attempt carries the rows.
    let rig = breaking(strategy, 3);
    assert_eq!(rig.finish().await.restarts, 3);
    rig.assert_exactly_once(10);
}

#[tokio::test(start_paused = true)]
async fn restart_strategy_exponential_doubles_its_wait_and_begins_anew_after_a_checkpoint() {
    let strategy = RestartStrategy::Exponential {
        initial: MS(500),
        max: MS(3000),
    };
    let rig = breaking(strategy.clone(), 100);
    let error = rig.run().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Transient);
    let waits = gaps(&rig.lake.lock().opened_at);
    assert_eq!(
        waits[..5],
        [MS(510), MS(1010), MS(2010), MS(3010), MS(3010)]
    );
    assert_eq!(
        waits.len(),
        20,
        "it ends after 20 restarts without a checkpoint"
    );

    let mut rig = Rig::new(rows_in_splits(1, 100));
    rig.settings.restart = strategy;
    let errors = rig.source.errors.clone();
    *errors.lock().unwrap() = (0..2).map(|_| broken_pipe()).collect();
    let running = tokio::spawn(rig.job().run(StopSignal::never()));
    // Two failures, then 200 ms with checkpoints, then a third one.
    tokio::time::sleep(MS(10 + 500 + 10 + 1000 + 205)).await;
    assert!(!rig.lake.identifiers().is_empty());
    errors.lock().unwrap().push(broken_pipe());
    running.await.unwrap().unwrap();
    let waits = gaps(&rig.lake.lock().opened_at);
    assert_eq!(waits[..2], [MS(510), MS(1010)]);
    assert_eq!(waits[2], MS(210 + 500), "as after the first one");
    rig.assert_exactly_once(500);
}

/// Whatever the strategy, a bad row ends the job at once.
#[tokio::test(start_paused = true)]
async fn r_16_a_bad_row_applies_no_restart_strategy() {
    let second = Duration::from_secs(1);
    for strategy in [
        RestartStrategy::None,
        RestartStrategy::FixedDelay {
            attempts: 5,
            delay: second,
        },
        RestartStrategy::Exponential {
            initial: second,
            max: second,
        },
    ] {
        let rig = breaking(strategy, 0);
        rig.source
            .errors
            .lock()
            .unwrap()
            .push(BadRecord::default().into());
        let begun = Instant::now();
        let error = rig.run().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Data);
        assert_eq!((rig.lake.lock().opened, begun.elapsed()), (1, MS(10)));
    }
}

/// A target that publishes empty commits is told positions by them too, and the next commit
/// replaces those, also behind a restart.
#[tokio::test(start_paused = true)]
async fn r_9_forced_empty_commits_keep_the_chain() {
    let source = rows_in_splits(1, 2).unbounded();
    let rig = Rig::new(source.clone());
    rig.lake.lock().force_empty = true;
    for round in 0..3 {
        let (stop, running) = start(&rig).await;
        tokio::time::sleep(MS(400)).await;
        let before = rig.lake.identifiers();
        let first = 10 + round * 10;
        source.push("split-0", batch(first..first + 10));
        tokio::time::sleep(MS(400)).await;
        match round {
            // Once the process is gone in the middle of it.
            1 => running.abort(),
            _ => {
                stop.request();
                assert!(matches!(running.await.unwrap(), Ok(JobEnd::Stopped(_))));
            }
        }
        let after = rig.lake.identifiers();
        assert!(before.len() > 5 && after.len() > before.len() + 5);
    }
    let inner = rig.lake.lock();
    let empty = inner.commits.iter().filter(|c| c.files.is_empty()).count();
    assert!(empty > 20, "{empty} empty commits");
    let ids: Vec<_> = inner.commits.iter().map(|c| c.identifier).collect();
    assert!(
        ids.windows(2).all(|w| w[1] == w[0] + 1),
        "none is missing: {ids:?}"
    );
    drop(inner);
    rig.assert_exactly_once(40);
}
