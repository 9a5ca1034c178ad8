//! How jobs begin and end when nothing goes wrong.

use std::time::Duration;

use tidegate_recovery::{EndKind, RecordKind};
use tidegate_runtime::source::MemorySource;
use tidegate_runtime::*;
use tidegate_sink::*;

use crate::rig::*;

/// A job that is started, looked at and stopped.
pub(crate) async fn start(
    rig: &Rig,
) -> (Stop, tokio::task::JoinHandle<Result<JobEnd, RuntimeError>>) {
    let (stop, signal) = Stop::new();
    (stop, tokio::spawn(rig.job().run(signal)))
}

/// End of input has its own identifier, also where there is no interval.
#[tokio::test(start_paused = true)]
async fn r_12_a_bounded_source_without_interval_ends_with_one_commit() {
    let mut rig = Rig::new(rows_in_splits(3, 2)).parallel(2);
    rig.settings.checkpoints.interval = None;
    let summary = rig.finish().await;
    assert_eq!((summary.rows, summary.rows_published), (30, 30));
    assert_eq!(rig.lake.identifiers(), [1]);
    let records = rig.records().await;
    assert_eq!(
        (records.len(), records[0].kind),
        (1, RecordKind::EndOfInput)
    );
    rig.assert_exactly_once(30);
    let status = rig.registry().job(&job()).await.unwrap();
    let ended = status.newest().unwrap().ended.clone().unwrap();
    assert_eq!((ended.how, ended.checkpoint), (EndKind::Finished, Some(1)));
    assert_eq!(rig.lake.lock().notes, 1, "[R-4] at a clean end");
}

#[tokio::test(start_paused = true)]
async fn r_12_the_end_is_one_above_the_last_checkpoint() {
    let rig = Rig::new(rows_in_splits(1, 20));
    let summary = rig.finish().await;
    let ids = rig.lake.identifiers();
    assert!(ids.len() >= 4, "{ids:?}");
    let records = rig.records().await;
    let last = records.last().unwrap();
    assert_eq!(
        (last.kind, Some(last.id)),
        (RecordKind::EndOfInput, summary.checkpoint)
    );
    let expected: Vec<_> = (1..=last.id.0 as i64).collect();
    assert!(
        ids.iter().all(|id| expected.contains(id)),
        "identifiers are checkpoint ids"
    );
    assert_eq!(records.len(), rig.settings.checkpoints.retain);
    rig.assert_exactly_once(100);
}

/// is judged by the lake: a commit that states wrong positions is refused there.
#[tokio::test(start_paused = true)]
async fn r_9_empty_checkpoints_in_between_do_not_break_the_chain() {
    let source = rows_in_splits(1, 2).unbounded();
    let rig = Rig::new(source.clone());
    let (stop, running) = start(&rig).await;
    tokio::time::sleep(MS(500)).await;
    let before = rig.lake.identifiers();
    source.push("split-0", batch(10..20));
    tokio::time::sleep(MS(500)).await;
    stop.request();
    assert!(matches!(running.await.unwrap(), Ok(JobEnd::Stopped(_))));
    let after = rig.lake.identifiers();
    assert!(
        after[before.len()] > before.last().unwrap() + 3,
        "empty ones made no commit"
    );
    rig.assert_exactly_once(20);
}

#[tokio::test(start_paused = true)]
async fn a_source_without_rows_finishes_without_a_commit() {
    let source = MemorySource::new([("empty", vec![batch(0..0)])]).unwrap();
    let rig = Rig::new(source);
    let summary = rig.finish().await;
    assert_eq!(summary.rows, 0);
    assert!(rig.lake.identifiers().is_empty() && rig.lake.orphans().is_empty());
    assert_eq!(rig.run().await.unwrap(), JobEnd::NothingNew);
}

#[tokio::test(start_paused = true)]
async fn an_unbounded_source_without_interval_is_refused_unless_allowed() {
    let mut rig = Rig::new(rows_in_splits(2, 3).unbounded());
    rig.settings.checkpoints.interval = None;
    let build = |settings: Settings| {
        Job::builder(job())
            .source(rig.source.clone())
            .target(std::sync::Arc::new(rig.lake.clone()))
            .checkpoints(rig.checkpoints())
            .registry(rig.registry())
            .settings(settings)
            .build()
    };
    let error = build(rig.settings.clone()).err().unwrap();
    assert!(
        error.to_string().contains("--allow-no-checkpoint"),
        "{error}"
    );
    assert_eq!(error.kind(), ErrorKind::Config);
    rig.settings.allow_no_checkpoint = true;
    let (stop, running) = start(&rig).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    stop.request();
    let JobEnd::Stopped(summary) = running.await.unwrap().unwrap() else {
        panic!()
    };
    assert_eq!(
        (summary.rows, summary.rows_published, summary.checkpoint),
        (30, 0, None)
    );
    assert!(rig.lake.rows().is_empty(), "nothing is ever visible");
    assert!(
        rig.lake.orphans().is_empty(),
        "and what was written is given up"
    );
}

#[tokio::test(start_paused = true)]
async fn one_stop_takes_a_last_checkpoint_and_the_next_start_goes_on() {
    for after in [1, 20, 34, 36, 70, 95] {
        let rig = Rig::new(rows_in_splits(2, 10)).parallel(2);
        let (stop, running) = start(&rig).await;
        tokio::time::sleep(MS(after)).await;
        stop.request();
        match running.await.unwrap().unwrap() {
            JobEnd::Stopped(summary) => {
                assert_eq!(rig.lake.rows().len() as u64, summary.rows_published);
                assert!(rig.lake.orphans().is_empty(), "after {after} ms");
                let status = rig.registry().job(&job()).await.unwrap();
                if let Some(run) = status.newest() {
                    assert_eq!(run.ended.as_ref().unwrap().how, EndKind::Stopped);
                }
            }
            other => panic!("{other:?}"),
        }
        rig.finish().await;
        rig.assert_exactly_once(100);
    }
}

#[tokio::test(start_paused = true)]
async fn a_second_stop_ends_at_once() {
    let rig = Rig::new(rows_in_splits(2, 10));
    rig.lake.lock().down = true;
    let (stop, running) = start(&rig).await;
    tokio::time::sleep(MS(50)).await;
    stop.request();
    tokio::time::sleep(MS(200)).await;
    assert!(
        !running.is_finished(),
        "commits fail, so the clean end has to wait"
    );
    stop.request();
    assert!(matches!(running.await.unwrap(), Ok(JobEnd::Aborted(_))));
    rig.lake.lock().down = false;
    rig.finish().await;
    rig.assert_exactly_once(100);
}

/// *Nothing new* claims no epoch; new splits and grown ones are ingested, and only they.
#[tokio::test(start_paused = true)]
async fn a_finished_job_ingests_only_what_is_new() {
    let source = rows_in_splits(2, 2);
    let rig = Rig::new(source.clone());
    rig.finish().await;
    let epochs = rig.registry().job(&job()).await.unwrap().runs.len();
    assert_eq!(rig.run().await.unwrap(), JobEnd::NothingNew);
    assert_eq!(rig.registry().job(&job()).await.unwrap().runs.len(), epochs);
    source.push("split-1", batch(20..25));
    source.push("split-9", batch(25..35));
    let summary = rig.finish().await;
    assert_eq!(summary.rows, 15, "what grew and what is new");
    rig.assert_exactly_once(35);
    assert_eq!(rig.run().await.unwrap(), JobEnd::NothingNew);
}

/// A crash after the end's record and before its commit: the next start publishes it, new or not.
#[test]
fn nothing_new_never_hides_a_commit_that_is_missing() {
    let mut rig = Rig::new(rows_in_splits(2, 2));
    rig.settings.checkpoints.interval = None;
    assert!(crash_at(&rig, probe::RECORDED, 1));
    assert!(rig.lake.rows().is_empty());
    block_on(rig.finish());
    rig.assert_exactly_once(20);
    assert_eq!(block_on(rig.run()).unwrap(), JobEnd::NothingNew);
}

/// The note: at most once a minute off the path, and at a clean stop.
#[tokio::test(start_paused = true)]
async fn r_4_the_note_is_left_at_most_once_a_minute() {
    let source = rows_in_splits(1, 1).unbounded();
    let mut rig = Rig::new(source.clone());
    rig.settings.checkpoints.interval = Some(Duration::from_secs(2));
    let (stop, running) = start(&rig).await;
    for n in 1..=30 {
        source.push("split-0", batch(n * 5..n * 5 + 5));
        tokio::time::sleep(Duration::from_secs(10)).await;
    }
    let notes = rig.lake.lock().notes;
    assert!((4..=5).contains(&notes), "{notes} notes in 5 minutes");
    source.push("split-0", batch(155..160));
    tokio::time::sleep(Duration::from_secs(5)).await;
    stop.request();
    running.await.unwrap().unwrap();
    assert!(
        rig.lake.lock().notes > notes,
        "the newest commit is noted at the stop"
    );
    rig.assert_exactly_once(160);
}

/// New splits and grown splits are found while the job runs.
#[tokio::test(start_paused = true)]
async fn an_unbounded_source_that_grows_is_followed() {
    let source = rows_in_splits(1, 1).unbounded();
    let rig = Rig::new(source.clone()).parallel(2);
    let (stop, running) = start(&rig).await;
    for n in 1..20 {
        source.push(&format!("split-{}", n % 7), batch(n * 5..n * 5 + 5));
        tokio::time::sleep(MS(37)).await;
    }
    tokio::time::sleep(MS(300)).await;
    assert_eq!(rig.lake.rows().len(), 100);
    stop.request();
    running.await.unwrap().unwrap();
    rig.assert_exactly_once(100);
}

/// What a progress line shows.
#[tokio::test(start_paused = true)]
async fn progress_tells_rows_checkpoints_and_commits() {
    let rig = Rig::new(rows_in_splits(2, 10));
    let job = rig.job();
    let progress = job.progress();
    assert_eq!(progress.borrow().phase, Phase::Starting);
    let running = tokio::spawn(job.run(StopSignal::never()));
    tokio::time::sleep(MS(60)).await;
    let seen = progress.borrow().clone();
    assert_eq!((seen.phase, seen.epoch), (Phase::Running, Some(Epoch(1))));
    assert!(seen.checkpoint.is_some() && seen.published.is_some() && seen.rows_published > 0);
    running.await.unwrap().unwrap();
    let seen = progress.borrow().clone();
    assert_eq!(
        (seen.phase, seen.rows, seen.rows_published),
        (Phase::Ended, 100, 100)
    );
    assert_eq!((seen.splits_open, seen.splits_finished), (0, 2));
}

/// Settings that do not fit together are refused before anything is opened.
#[tokio::test]
async fn settings_that_cannot_work_are_refused() {
    let rig = Rig::new(rows_in_splits(1, 1));
    let refused = |change: &dyn Fn(&mut Settings)| {
        let mut settings = rig.settings.clone();
        change(&mut settings);
        let built = Job::builder(job())
            .source(rig.source.clone())
            .target(std::sync::Arc::new(rig.lake.clone()))
            .checkpoints(rig.checkpoints())
            .registry(rig.registry())
            .settings(settings)
            .build();
        assert_eq!(built.err().map(|e| e.kind()), Some(ErrorKind::Config));
    };
    refused(&|s| s.parallelism = 0);
    refused(&|s| s.channel_capacity = 0);
    refused(&|s| s.checkpoints.interval = Some(Duration::ZERO));
    refused(&|s| s.checkpoints.timeout = Duration::ZERO);
    refused(&|s| s.checkpoints.retain = 0);
    refused(&|s| {
        s.new_job = true;
        s.adopt = Some(JobName::new("other").unwrap());
    });
    assert!(Job::builder(job()).build().is_err());
}
