//! What follows when source, target or store fail.

use std::time::Duration;

use tidegate_recovery::EndKind;
use tidegate_runtime::source::{BadRecord, SourceError};
use tidegate_runtime::*;
use tidegate_sink::*;
use tidegate_storage::{Fault, Faults, Op, RetryPolicy, Rule};

use crate::lake::CommitFault;
use crate::rig::*;

pub(crate) fn broken_pipe() -> SourceError {
    SourceError::Io {
        what: "split".into(),
        kind: ErrorKind::Transient,
        source: "broken pipe".into(),
    }
}

/// An in-process restart is a run of its own, and cleans what the one before left.
#[tokio::test(start_paused = true)]
async fn r_2_a_restart_is_a_run_with_its_own_epoch() {
    let rig = Rig::new(rows_in_splits(2, 10)).parallel(2);
    let errors = rig.source.errors.clone();
    let running = tokio::spawn(rig.job().run(StopSignal::never()));
    for _ in 0..2 {
        tokio::time::sleep(MS(55)).await;
        errors.lock().unwrap().push(broken_pipe());
        tokio::time::sleep(MS(600)).await;
    }
    let JobEnd::Finished(summary) = running.await.unwrap().unwrap() else {
        panic!()
    };
    assert_eq!(
        summary.restarts,
        1 + u32::from(summary.epoch == Some(Epoch(3)))
    );
    rig.assert_exactly_once(100);
    let epochs: Vec<_> = rig.lake.lock().commits.iter().map(|c| c.epoch).collect();
    assert!(
        epochs.is_sorted() && epochs.last() > epochs.first(),
        "{epochs:?}"
    );
}

/// A bad row is final, whatever the strategy; what was before it is there and stays.
#[tokio::test(start_paused = true)]
async fn r_16_a_bad_record_is_final() {
    let rig = Rig::new(rows_in_splits(1, 20));
    let errors = rig.source.errors.clone();
    let running = tokio::spawn(rig.job().run(StopSignal::never()));
    tokio::time::sleep(MS(115)).await;
    let bad = BadRecord {
        file: "in/a.csv".into(),
        line: Some(7),
        column: Some("amount".into()),
        value: Some("12,5".into()),
        why: "not a DECIMAL(10,2)".into(),
        ..BadRecord::default()
    };
    errors.lock().unwrap().push(bad.into());
    let error = running.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Data);
    let text = error.to_string();
    for part in [
        "in/a.csv, line 7",
        "column `amount`",
        "value `12,5`",
        "not a DECIMAL",
    ] {
        assert!(text.contains(part), "{text}");
    }
    assert_eq!(
        rig.registry().job(&job()).await.unwrap().runs.len(),
        1,
        "no restart"
    );
    assert!(!rig.lake.rows().is_empty());
    assert_eq!(
        rig.lake.orphans(),
        Vec::<String>::new(),
        "what was not prepared is given up"
    );
    rig.finish().await;
    rig.assert_exactly_once(100);
}

/// How the newest run ended, as it is registered.
async fn end_of_the_newest(rig: &Rig) -> Option<(EndKind, Option<String>)> {
    let status = rig.registry().job(&job()).await.unwrap();
    let ended = status.newest().unwrap().ended.clone();
    ended.map(|e| (e.how, e.reason))
}

/// A run that gave up leaves a mark with its reason; its in-process restarts before leave none.
#[tokio::test(start_paused = true)]
async fn r_2_a_job_that_gives_up_marks_its_newest_run_as_failed() {
    let mut rig = Rig::new(rows_in_splits(1, 2));
    rig.settings.restart = RestartStrategy::FixedDelay {
        attempts: 1,
        delay: MS(100),
    };
    *rig.source.errors.lock().unwrap() = (0..2).map(|_| broken_pipe()).collect();
    rig.run().await.unwrap_err();
    let status = rig.registry().job(&job()).await.unwrap();
    assert_eq!(status.runs.len(), 2);
    assert!(status.runs[0].ended.is_none(), "the job went on");
    let (how, reason) = end_of_the_newest(&rig).await.unwrap();
    assert_eq!(how, EndKind::Failed);
    assert!(reason.unwrap().contains("broken pipe"));
    rig.finish().await;
    assert_eq!(
        end_of_the_newest(&rig).await,
        Some((EndKind::Finished, None))
    );
}

/// A fenced run leaves no mark: the job is another run's now.
#[tokio::test(start_paused = true)]
async fn r_5_a_fenced_run_leaves_no_mark() {
    let rig = Rig::new(rows_in_splits(2, 50));
    let old = tokio::spawn(rig.job().run(StopSignal::never()));
    tokio::time::sleep(MS(100)).await;
    let summary = rig.finish().await;
    let error = old.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Fenced, "{error}");
    let status = rig.registry().job(&job()).await.unwrap();
    for run in &status.runs {
        let newest = Some(run.registration.epoch()) == summary.epoch;
        assert_eq!(run.ended.is_some(), newest, "{run:?}");
    }
    assert_eq!(
        end_of_the_newest(&rig).await,
        Some((EndKind::Finished, None))
    );
    rig.assert_exactly_once(500);
}

/// A second signal ends at once, and still says so where the store answers.
#[tokio::test(start_paused = true)]
async fn a_run_that_is_stopped_at_once_is_marked() {
    let rig = Rig::new(rows_in_splits(2, 10));
    rig.lake.lock().down = true;
    let (stop, running) = crate::ends::start(&rig).await;
    tokio::time::sleep(MS(50)).await;
    stop.request();
    tokio::time::sleep(MS(200)).await;
    stop.request();
    assert!(matches!(running.await.unwrap(), Ok(JobEnd::Aborted(_))));
    let (how, reason) = end_of_the_newest(&rig).await.unwrap();
    assert_eq!(how, EndKind::Failed);
    assert!(reason.unwrap().contains("second signal"));
}

/// A failed run leaves splits open that hold nothing more once the bad row is gone: the next start
/// has nothing to do, claims no epoch and writes no record.
#[tokio::test(start_paused = true)]
async fn after_a_failed_run_nothing_new_claims_no_epoch() {
    let mut rig = Rig::new(rows_in_splits(1, 20));
    rig.source.pace = MS(30);
    rig.settings.checkpoints.interval = Some(MS(7));
    let errors = rig.source.errors.clone();
    let running = tokio::spawn(rig.job().run(StopSignal::never()));
    // All 20 batches are out at 600 ms; what comes next is bad.
    tokio::time::sleep(MS(615)).await;
    errors.lock().unwrap().push(BadRecord::default().into());
    running.await.unwrap().unwrap_err();
    assert_eq!(rig.lake.rows().len(), 100, "all good rows are published");
    let records = rig.records().await;
    assert_eq!(rig.run().await.unwrap(), JobEnd::NothingNew);
    let status = rig.registry().job(&job()).await.unwrap();
    assert_eq!((status.runs.len(), rig.records().await), (1, records));
    rig.source.inner.push("split-0", batch(100..105));
    rig.finish().await;
    rig.assert_exactly_once(105);
}

/// Commits fail for a long time: beyond the limit sources and checkpoints pause, commits go
/// on being retried, nothing is dropped.
#[tokio::test(start_paused = true)]
async fn r_11_commits_that_fail_for_long_pause_the_sources_and_lose_nothing() {
    let mut rig = Rig::new(rows_in_splits(2, 200)).parallel(2);
    rig.settings.commits.max_pending = 2;
    rig.lake.lock().down = true;
    let job = rig.job();
    let progress = job.progress();
    let running = tokio::spawn(job.run(StopSignal::never()));
    tokio::time::sleep(Duration::from_secs(60)).await;
    let early = progress.borrow().clone();
    assert_eq!((early.phase, early.pending_commits), (Phase::Paused, 3));
    assert!(early.trouble.as_ref().unwrap().contains("no network"));
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let late = progress.borrow().clone();
    assert_eq!(
        (late.rows, late.checkpoint),
        (early.rows, early.checkpoint),
        "all wait"
    );
    assert!(rig.lake.rows().is_empty());
    rig.lake.lock().down = false;
    let end = running.await.unwrap().unwrap();
    assert!(
        matches!(end, JobEnd::Finished(s) if s.restarts == 0),
        "no restart was needed"
    );
    rig.assert_exactly_once(2000);
    assert_eq!(
        rig.lake.identifiers()[..3],
        [1, 2, 3],
        "in order, each under its own"
    );
}

/// The same, but the process dies while commits are pending.
#[tokio::test(start_paused = true)]
async fn r_11_pending_commits_survive_a_crash() {
    let mut rig = Rig::new(rows_in_splits(2, 50));
    rig.settings.commits.max_pending = 2;
    rig.lake.lock().down = true;
    rig.killed_after(Duration::from_secs(20)).await;
    rig.killed_after(Duration::from_secs(20)).await;
    let pending = rig.records().await.last().unwrap().committables.len();
    assert_eq!(pending, 3);
    rig.lake.lock().down = false;
    rig.finish().await;
    rig.assert_exactly_once(500);
    assert_eq!(rig.lake.identifiers()[..3], [1, 2, 3]);
}

/// Undecided is asked again until it is settled; a commit whose answer was lost is found.
#[tokio::test(start_paused = true)]
async fn r_6_undecided_commits_are_settled_by_asking_again() {
    use CommitFault::*;
    let rig = Rig::new(rows_in_splits(2, 20));
    rig.lake.lock().faults = vec![
        AnswerLost,
        Undecided,
        Transient,
        Slow(MS(90)),
        AnswerLost,
        Undecided,
    ];
    let summary = rig.finish().await;
    assert_eq!(summary.restarts, 0);
    rig.assert_exactly_once(200);
}

/// At the end patience is finite; everything is kept and the next start settles it.
#[tokio::test(start_paused = true)]
async fn an_end_whose_commit_fails_gives_up_and_keeps_everything() {
    let mut rig = Rig::new(rows_in_splits(1, 4));
    rig.settings.restart = RestartStrategy::None;
    rig.lake.lock().down = true;
    let error = rig.run().await.unwrap_err();
    assert!(matches!(error, RuntimeError::CommitFails { .. }), "{error}");
    rig.lake.lock().down = false;
    rig.lake.lock().faults = (0..5000).map(|_| CommitFault::Undecided).collect();
    let error = rig.run().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Undecided, "{error}");
    rig.lake.lock().faults.clear();
    rig.finish_or_nothing().await;
    rig.assert_exactly_once(20);
}

/// What the target refuses for good ends the job.
#[tokio::test(start_paused = true)]
async fn r_16_final_answers_of_the_target_end_the_job() {
    for (fault, kind) in [
        (CommitFault::Refused, ErrorKind::Refused),
        (CommitFault::Final, ErrorKind::Corrupt),
    ] {
        let rig = Rig::new(rows_in_splits(1, 20));
        rig.lake.lock().faults = vec![fault];
        assert_eq!(rig.run().await.unwrap_err().kind(), kind);
        assert_eq!(rig.registry().job(&job()).await.unwrap().runs.len(), 1);
        rig.finish().await;
        rig.assert_exactly_once(100);
    }
}

/// A checkpoint that was given up and whose messages arrived all the same is published under
/// its own identifier with the next one.
#[tokio::test(start_paused = true)]
async fn r_10_a_checkpoint_given_up_is_published_in_order_with_the_next() {
    let mut rig = Rig::new(rows_in_splits(2, 40)).parallel(2);
    rig.settings.checkpoints.timeout = MS(50);
    rig.lake.lock().prepare_delay = Some(MS(80));
    let job = rig.job();
    let progress = job.progress();
    let end = job.run(StopSignal::never()).await.unwrap();
    assert!(matches!(end, JobEnd::Finished(s) if s.restarts == 0));
    assert_eq!(progress.borrow().checkpoints_failed, 1);
    rig.assert_exactly_once(400);
    assert_eq!(rig.lake.identifiers()[..2], [1, 2]);
}

/// More failed checkpoints in a row than are tolerable fail the run, and only a restart drops what
/// they had gathered: the source reads it again.
#[tokio::test(start_paused = true)]
async fn checkpoints_that_fail_too_often_fail_the_run() {
    let mut rig = Rig::new(rows_in_splits(2, 40));
    rig.settings.checkpoints.timeout = MS(20);
    rig.settings.checkpoints.tolerable_failures = 1;
    rig.settings.restart = RestartStrategy::None;
    rig.lake.lock().prepare_delay = Some(MS(500));
    let error = rig.run().await.unwrap_err();
    assert!(
        matches!(error, RuntimeError::Checkpoints { count: 2, .. }),
        "{error}"
    );
    assert!(rig.lake.rows().is_empty());
    rig.finish().await;
    rig.assert_exactly_once(400);
}

/// A failing checkpoint store: the checkpoint fails, what it gathered goes into the next record.
#[tokio::test(start_paused = true)]
async fn r_10_a_record_that_cannot_be_written_loses_nothing() {
    for fault in [
        Fault::Before(tidegate_storage::ErrorKind::Transient),
        Fault::After,
        Fault::Late,
    ] {
        let mut rig = Rig::new(rows_in_splits(2, 20));
        let faults = Faults::new();
        // As many as are offered for one record, so that the second checkpoint fails.
        faults.rule(
            Rule::new(fault)
                .on(Op::Create)
                .path("/checkpoint-2")
                .times(5),
        );
        rig.store = rig
            .store
            .clone()
            .with_retry(RetryPolicy::none())
            .with_faults(faults.clone());
        let summary = rig.finish().await;
        assert_eq!(summary.restarts, 0, "{fault:?}");
        faults.heal();
        faults.release().await;
        rig.assert_exactly_once(200);
        assert_eq!(rig.run().await.unwrap(), JobEnd::NothingNew);
    }
}

/// F8: a listing or a read of checkpoints that fails is never taken for *no checkpoints*.
#[tokio::test(start_paused = true)]
async fn f8_a_failing_read_of_records_is_no_absence() {
    for op in [Op::List, Op::Get] {
        let mut rig = Rig::new(rows_in_splits(2, 20));
        rig.killed_after(MS(80)).await;
        let before = rig.records().await.len();
        assert!(before > 0);
        let faults = Faults::new();
        let rule = Rule::new(Fault::Before(tidegate_storage::ErrorKind::Transient));
        faults.rule(rule.on(op).path("checkpoints").times(1));
        let whole = rig.store.clone();
        rig.store = whole
            .clone()
            .with_retry(RetryPolicy::none())
            .with_faults(faults.clone());
        rig.settings.restart = RestartStrategy::None;
        let error = rig.run().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Transient, "{error}");
        assert_eq!(
            rig.registry().job(&job()).await.unwrap().runs.len(),
            1,
            "no epoch claimed"
        );
        rig.finish().await;
        rig.assert_exactly_once(200);
    }
}

/// A writer that fails gives up its files; the run after it reads the rows again.
#[tokio::test(start_paused = true)]
async fn a_writer_that_fails_leaves_no_file() {
    let mut rig = Rig::new(rows_in_splits(2, 20)).parallel(2);
    rig.lake.lock().fail_writes_at = Some(57);
    rig.settings.restart = RestartStrategy::None;
    let error = rig.run().await.unwrap_err();
    assert!(error.to_string().contains("disk trouble"), "{error}");
    assert_eq!(rig.lake.lock().aborts, 2, "both writers gave up");
    assert!(rig.lake.orphans().is_empty());
    rig.finish().await;
    rig.assert_exactly_once(200);
}

/// Bounded channels: a slow target holds the source back.
#[tokio::test(start_paused = true)]
async fn a_slow_writer_holds_the_source_back() {
    let mut rig = Rig::new(rows_in_splits(1, 500));
    rig.source.pace = MS(1);
    rig.settings.channel_capacity = 2;
    rig.settings.checkpoints.interval = Some(MS(10));
    rig.lake.lock().prepare_delay = Some(Duration::from_secs(3600));
    rig.settings.checkpoints.timeout = Duration::from_secs(7200);
    let job = rig.job();
    let progress = job.progress();
    let running = tokio::spawn(job.run(StopSignal::never()));
    tokio::time::sleep(Duration::from_secs(60)).await;
    let rows = progress.borrow().rows;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(progress.borrow().rows, rows);
    assert!(rows < 200, "{rows} of 2500 rows were taken");
    running.await.unwrap().unwrap();
    rig.assert_exactly_once(2500);
}
