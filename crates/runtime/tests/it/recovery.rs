//! How a start judges what it finds.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use arrow::array::RecordBatch;
use tidegate_recovery::CheckpointStore;
use tidegate_runtime::source::MemorySource;
use tidegate_runtime::*;
use tidegate_sink::*;

use crate::lake::Lake;
use crate::rig::*;

async fn mismatch(rig: &Rig, change: impl FnOnce(&mut Settings)) -> MismatchReport {
    match rig.run_with(change).await {
        Ok(JobEnd::Mismatch(report)) => *report,
        other => panic!("{other:?}"),
    }
}

const ROLLBACK: Resolution = Resolution::RollbackTable {
    including_others: false,
};

/// Rows 0..n, of which these are there twice.
fn assert_twice(rig: &Rig, rows: i64, twice: &[i64]) {
    let mut expected: Vec<_> = (0..rows).chain(twice.iter().copied()).collect();
    expected.sort_unstable();
    assert_eq!(rig.lake.rows(), expected);
}

/// A job of 200 rows that stopped in the middle, with all its records kept.
async fn half_way(rig: &mut Rig) {
    rig.settings.checkpoints.retain = 100;
    rig.killed_after(MS(160)).await;
    assert!(
        rig.lake.identifiers().len() >= 3,
        "{:?}",
        rig.lake.identifiers()
    );
    assert!(rig.lake.rows().len() < 200);
}

/// The checkpoints are gone: stop, name both directories, offer three ways, each right.
#[tokio::test(start_paused = true)]
async fn r_7_without_checkpoints_a_table_with_commits_stops_the_job() {
    for way in [
        ROLLBACK,
        Resolution::ContinueFromTable,
        Resolution::AcceptDuplicates,
    ] {
        let mut rig = Rig::new(rows_in_splits(1, 40));
        half_way(&mut rig).await;
        let before = rig.lake.rows();
        let moved = rig.store.child("elsewhere");
        let keep = std::mem::replace(&mut rig.store, moved);
        // The registration stays where it was: beside the table.
        let job = |settings: Settings| {
            Job::builder(job())
                .source(rig.source.clone())
                .target(std::sync::Arc::new(rig.lake.clone()))
                .checkpoints(CheckpointStore::new(rig.store.child("checkpoints")))
                .registry(tidegate_recovery::Registry::new(keep.child("table")))
                .settings(settings)
                .build()
                .unwrap()
        };
        let end = job(rig.settings.clone())
            .run(StopSignal::never())
            .await
            .unwrap();
        let JobEnd::Mismatch(report) = end else {
            panic!("{end:?}")
        };
        assert!(matches!(report.why, Why::NoCheckpoints(_)));
        let text = report.to_string();
        for part in [
            "elsewhere/checkpoints",
            "kept its checkpoints in",
            "rollback-table",
        ] {
            assert!(text.contains(part), "{text}");
        }
        assert_eq!(report.ways.len(), 3);
        assert_eq!(rig.lake.rows(), before, "nothing was touched");
        let settings = Settings {
            on_mismatch: Some(way),
            ..rig.settings.clone()
        };
        let end = job(settings).run(StopSignal::never()).await.unwrap();
        assert!(matches!(end, JobEnd::Finished(_)), "{end:?}");
        match way {
            Resolution::AcceptDuplicates => assert_twice(&rig, 200, &before),
            _ => assert_twice(&rig, 200, &[]),
        }
        let ids = rig.lake.identifiers();
        assert!(
            ids.windows(2).all(|w| w[0] < w[1]),
            "above the largest ever seen: {ids:?}"
        );
    }
}

/// The checkpoints are gone, and so may be what would show the job's commits: it does not go on as
/// new. A person may begin anew; where nothing is hidden it does so by itself.
#[tokio::test(start_paused = true)]
async fn r_7_without_checkpoints_a_hidden_history_stops_a_job_that_has_run() {
    for hidden in [true, false] {
        let mut rig = Rig::new(rows_in_splits(1, 40));
        let tip = Version {
            number: 7,
            token: "somebody's".to_owned(),
        };
        rig.lake.lock().tip = Some(tip.clone());
        rig.lake.lock().hidden = Some("snapshots below 9 are expired".to_owned());
        // A job that has never run has lost nothing.
        half_way(&mut rig).await;
        assert_eq!(rig.lake.lock().asked_since, []);
        for record in rig.store.list("checkpoints").await.unwrap() {
            rig.store.delete(&record.path).await.unwrap();
        }
        rig.lake.lock().commits.clear();
        rig.lake.lock().tip = None;
        if !hidden {
            rig.lake.lock().hidden = None;
            rig.finish().await;
            assert_eq!(rig.lake.rows(), (0..200).collect::<Vec<_>>());
            continue;
        }
        let report = mismatch(&rig, |_| {}).await;
        assert!(
            matches!(report.why, Why::HistoryHidden { .. }),
            "{report:?}"
        );
        let text = report.to_string();
        for part in [
            "below 9 are expired",
            "Put lost checkpoints back",
            "accept-duplicates",
        ] {
            assert!(text.contains(part), "{text}");
        }
        assert_eq!(
            rig.lake.lock().asked_since,
            [Some(tip.clone())],
            "since it was first registered"
        );
        assert!(rig.lake.rows().is_empty());
        let end = rig
            .run_with(|s| s.on_mismatch = Some(Resolution::AcceptDuplicates))
            .await;
        assert!(matches!(end, Ok(JobEnd::Finished(_))), "{end:?}");
        assert_eq!(rig.lake.rows(), (0..200).collect::<Vec<_>>());
        let status = rig.registry().job(&job()).await.unwrap();
        let newest = status.newest().unwrap();
        assert_eq!(newest.registration.begun_on(), Some(tip), "carried on");
    }
}

/// Lab 4: an older checkpoint is refused with the three ways out, each of them right.
#[tokio::test(start_paused = true)]
async fn r_7_an_older_checkpoint_is_refused_with_three_ways_out() {
    for way in [
        ROLLBACK,
        Resolution::ContinueFromTable,
        Resolution::AcceptDuplicates,
    ] {
        let mut rig = Rig::new(rows_in_splits(1, 40));
        half_way(&mut rig).await;
        let records = rig.records().await;
        let from = records[0].id;
        let before = rig.lake.rows();
        let commits = rig.lake.lock().commits.clone();
        let report = mismatch(&rig, |s| s.from_checkpoint = Some(from)).await;
        let Why::Standing(Mismatch::AheadBeyond { commits: beyond }) = &report.why else {
            panic!("{report:?}")
        };
        assert_eq!(
            beyond.len(),
            commits.len() - 1,
            "the checkpoint's own commit is known to it"
        );
        assert_eq!(report.checkpoint, Some(from));
        assert!(
            report
                .ways
                .iter()
                .all(|(_, plan)| !plan.as_ref().unwrap().steps.is_empty())
        );
        assert_eq!(rig.lake.rows(), before, "nothing was touched");

        let end = rig
            .run_with(|s| {
                s.from_checkpoint = Some(from);
                s.on_mismatch = Some(way);
            })
            .await
            .unwrap();
        assert!(matches!(end, JobEnd::Finished(_)), "{end:?}");
        let first: i64 = rig.lake.lock().files[&commits[0].files[0]].len() as i64;
        match way {
            Resolution::AcceptDuplicates => {
                let twice: Vec<_> = before.into_iter().filter(|row| *row >= first).collect();
                assert!(!twice.is_empty());
                assert_twice(&rig, 200, &twice);
            }
            _ => assert_twice(&rig, 200, &[]),
        }
        let ids = rig.lake.identifiers();
        let largest = commits.last().unwrap().identifier;
        assert!(ids.iter().filter(|id| **id > largest).count() >= 1);
        assert!(ids.windows(2).all(|w| w[0] < w[1]), "{ids:?}");
        assert_eq!(
            rig.run().await.unwrap(),
            JobEnd::NothingNew,
            "and it stays settled"
        );
    }
}

/// A way out is durable at once: killed right after, the plain command goes on.
#[test]
fn r_8_a_way_out_survives_a_crash_right_after_it() {
    for way in [Resolution::ContinueFromTable, Resolution::AcceptDuplicates] {
        let mut rig = Rig::new(rows_in_splits(1, 40));
        block_on(half_way(&mut rig));
        let from = block_on(rig.records())[0].id;
        let before = rig.lake.rows().len();
        rig.settings.from_checkpoint = Some(from);
        rig.settings.on_mismatch = Some(way);
        assert!(crash_at(&rig, probe::BEFORE_CHECKPOINT, 1));
        rig.settings.from_checkpoint = None;
        rig.settings.on_mismatch = None;
        block_on(rig.finish());
        let rows = rig.lake.rows();
        match way {
            Resolution::AcceptDuplicates => assert!(rows.len() > 200 && rows.len() < 200 + before),
            _ => assert_twice(&rig, 200, &[]),
        }
    }
}

/// The table lost a commit that the checkpoint knows.
#[tokio::test(start_paused = true)]
async fn r_7_a_table_that_lost_a_commit_is_behind() {
    let mut rig = Rig::new(rows_in_splits(1, 40));
    half_way(&mut rig).await;
    rig.lake.lock().commits.truncate(1);
    let report = mismatch(&rig, |_| {}).await;
    assert!(
        matches!(report.why, Why::Standing(Mismatch::Behind { .. })),
        "{report}"
    );
    // Going on where the table stands reads the lost rows again.
    let way = Some(Resolution::ContinueFromTable);
    let end = rig.run_with(|s| s.on_mismatch = way).await.unwrap();
    assert!(matches!(end, JobEnd::Finished(_)));
    assert_twice(&rig, 200, &[]);
}

/// Rather twice than never: also where the table lost commits, and all of them.
#[tokio::test(start_paused = true)]
async fn r_8_accepting_duplicates_reads_again_what_the_table_lost() {
    for left in [0, 1] {
        let mut rig = Rig::new(rows_in_splits(1, 40));
        half_way(&mut rig).await;
        rig.lake.lock().commits.truncate(left);
        let way = Some(Resolution::AcceptDuplicates);
        let end = rig.run_with(|s| s.on_mismatch = way).await.unwrap();
        assert!(matches!(end, JobEnd::Finished(_)), "{end:?}");
        let mut rows = rig.lake.rows();
        rows.dedup();
        assert_eq!(rows, (0..200).collect::<Vec<_>>(), "{left} commits left");
    }
}

/// A target that lets something else happen once, when its committer is opened the nth time.
struct Meddled {
    lake: Lake,
    left: AtomicUsize,
    happens: std::sync::Mutex<Option<BoxFuture<'static, ()>>>,
}

impl Target for Meddled {
    type Batch = RecordBatch;

    fn name(&self) -> String {
        self.lake.name()
    }

    fn writer_memory(&self) -> WriterMemory {
        self.lake.writer_memory()
    }

    fn committer<'a>(
        &'a self,
        run: &'a Run,
    ) -> BoxFuture<'a, Result<Box<dyn Committer>, SinkError>> {
        Box::pin(async move {
            if self.left.fetch_sub(1, Ordering::SeqCst) == 1 {
                let happens = self.happens.lock().unwrap().take();
                happens.unwrap().await;
            }
            self.lake.committer(run).await
        })
    }

    fn writers<'a>(
        &'a self,
        run: &'a Run,
        count: usize,
    ) -> BoxFuture<'a, Result<WriterSet<RecordBatch>, SinkError>> {
        self.lake.writers(run, count)
    }

    fn clean<'a>(
        &'a self,
        run: &'a Run,
        earlier: &'a [RunPrefix],
        pending: &'a [Committable],
    ) -> BoxFuture<'a, Result<CleanReport, SinkError>> {
        self.lake.clean(run, earlier, pending)
    }

    fn leftovers<'a>(
        &'a self,
        run: &'a Run,
        earlier: &'a [RunPrefix],
        pending: &'a [Committable],
    ) -> BoxFuture<'a, Result<u64, SinkError>> {
        self.lake.leftovers(run, earlier, pending)
    }
}

/// Another process records and publishes after the newest record was read: that is no mismatch
/// for a person, neither without any record before (found by simulation, seeds 4 and 13).
#[tokio::test(start_paused = true)]
async fn r_7_a_job_that_goes_on_under_a_start_is_looked_at_again() {
    for begun in [false, true] {
        let mut rig = Rig::new(rows_in_splits(1, 40));
        rig.settings.checkpoints.retain = 100;
        if begun {
            rig.killed_after(MS(100)).await;
        } else {
            // Registered and killed before its first checkpoint.
            rig.killed_after(MS(5)).await;
        }
        let other = rig.job();
        let happens = async move {
            let _ = tokio::time::timeout(MS(150), other.run(StopSignal::never())).await;
        };
        let target = Meddled {
            lake: rig.lake.clone(),
            left: AtomicUsize::new(1),
            happens: std::sync::Mutex::new(Some(Box::pin(happens))),
        };
        let started = Job::builder(job())
            .source(rig.source.clone())
            .target(std::sync::Arc::new(target))
            .checkpoints(rig.checkpoints())
            .registry(rig.registry())
            .settings(rig.settings.clone())
            .build()
            .unwrap();
        let end = started.run(StopSignal::never()).await;
        assert!(matches!(end, Ok(JobEnd::Finished(_))), "{end:?}");
        assert_twice(&rig, 200, &[]);
    }
}

/// Lab 5: a restored committable with the identifier of a published one but other content.
#[test]
fn r_5_other_content_under_our_identifier_stops_the_job() {
    let rig = Rig::new(rows_in_splits(1, 40));
    assert!(crash_at(&rig, probe::RECORDED, 2));
    {
        let mut inner = rig.lake.lock();
        let mut forged = inner.commits[0].clone();
        forged.identifier = 2;
        forged.files.clear();
        inner.commits.push(forged);
    }
    let report = block_on(mismatch(&rig, |_| {}));
    assert!(
        matches!(report.why, Why::Standing(Mismatch::Diverged { .. })),
        "{report}"
    );
}

/// A run that slept records its checkpoint beside those of the run that took its place; the one that
/// publishes second is fenced, and its record may be the newest. The job goes on from the record that the
/// table bears out, without a person (found by simulation, seed 3351).
#[test]
fn r_7_a_record_of_a_fenced_run_is_no_place_to_go_on_from() {
    for diverged in [true, false] {
        let mut rig = Rig::new(rows_in_splits(1, 40));
        rig.settings.checkpoints.retain = 100;
        assert!(crash_at(&rig, probe::PUBLISHED, 2));
        let newest = block_on(rig.records()).pop().unwrap();
        assert_eq!(newest.committables.len(), 1);
        let mut fenced = newest.clone();
        fenced.id = CheckpointId(newest.id.0 + 2);
        fenced.epoch = Epoch(newest.epoch.0 + 1);
        match diverged {
            true => fenced.committables[0].digest = Digest([7; 32]),
            false => fenced.committables.clear(),
        }
        let mut records = rig.checkpoints().job(&job(), &newest.user);
        block_on(records.write(&fenced)).unwrap();
        block_on(rig.finish());
        rig.assert_exactly_once(200);
        let ids = block_on(rig.records());
        assert!(
            ids.iter().any(|r| r.id.0 > fenced.id.0),
            "above every record"
        );
        assert_eq!(block_on(rig.run()).unwrap(), JobEnd::NothingNew);
    }
}

/// Two processes of one job: the older one is fenced, whatever it is at.
#[tokio::test(start_paused = true)]
async fn r_5_a_second_process_fences_the_first() {
    for head_start in [5, 40, 70, 130] {
        let rig = Rig::new(rows_in_splits(1, 60)).parallel(1);
        let first = tokio::spawn(rig.job().run(StopSignal::never()));
        tokio::time::sleep(MS(head_start)).await;
        let second = tokio::spawn(rig.job().run(StopSignal::never()));
        let ends = [first.await.unwrap(), second.await.unwrap()];
        let finished = ends
            .iter()
            .filter(|e| matches!(e, Ok(JobEnd::Finished(_))))
            .count();
        let fenced = ends
            .iter()
            .filter(|e| matches!(e, Err(error) if error.kind() == ErrorKind::Fenced))
            .count();
        assert_eq!((finished, fenced), (1, 1), "{ends:?}");
        assert_eq!(rig.lake.rows(), (0..300).collect::<Vec<_>>());
    }
}

/// An idle run commits nothing, so no commit fences it: it must see by itself that a newer run is
/// registered, and never fence that one by its records.
#[tokio::test(start_paused = true)]
async fn r_2_an_idle_run_gives_way_to_a_newer_one() {
    for idle in [40, 200, 1000] {
        let source = rows_in_splits(1, 2).unbounded();
        let rig = Rig::new(source.clone());
        let (_stop_first, first) = crate::ends::start(&rig).await;
        tokio::time::sleep(MS(300 + idle)).await;
        let (stop, second) = crate::ends::start(&rig).await;
        let first = tokio::time::timeout(MS(5_000), first).await;
        let first = first.expect("the older run goes on").unwrap().unwrap_err();
        assert_eq!(first.kind(), ErrorKind::Fenced, "{first}");
        source.push("split-0", batch(10..20));
        tokio::time::sleep(MS(500)).await;
        stop.request();
        let second = second.await.unwrap();
        assert!(matches!(second, Ok(JobEnd::Stopped(_))), "{second:?}");
        assert_eq!(rig.lake.rows(), (0..20).collect::<Vec<_>>());
    }
}

/// B05: another host, another parallelism, the same commit user and every row once.
#[test]
fn b05_restarted_elsewhere_with_other_parallelism_every_row_is_there_once() {
    let mut rig = Rig::new(rows_in_splits(5, 6)).parallel(3);
    assert!(crash_at(&rig, probe::PUBLISHED, 1));
    rig.settings.parallelism = 1;
    rig.settings.host = "another".into();
    assert!(crash_at(&rig, probe::PUBLISHED, 2));
    rig.settings.parallelism = 2;
    block_on(rig.finish());
    rig.assert_exactly_once(150);
    let users: Vec<_> = rig
        .lake
        .lock()
        .commits
        .iter()
        .map(|c| c.user.clone())
        .collect();
    assert!(users.windows(2).all(|w| w[0] == w[1]));
}

/// A renamed job does not start anew by itself.
#[tokio::test(start_paused = true)]
async fn r_17_a_renamed_job_is_adopted_or_started_anew_never_guessed() {
    let renamed = |rig: &Rig, change: &dyn Fn(&mut Settings)| {
        let mut settings = rig.settings.clone();
        change(&mut settings);
        rig.job_named("orders-2", settings).run(StopSignal::never())
    };
    let mut rig = Rig::new(rows_in_splits(1, 40));
    half_way(&mut rig).await;
    let end = renamed(&rig, &|_| {}).await.unwrap();
    let JobEnd::Mismatch(report) = end else {
        panic!("{end:?}")
    };
    assert_eq!(report.why, Why::OtherJob(vec![job()]));
    assert!(report.to_string().contains("--adopt orders"), "{report}");
    // Adopted: the rows that are missing and no other, under the same commit user.
    let end = renamed(&rig, &|s| s.adopt = Some(job())).await.unwrap();
    assert!(matches!(end, JobEnd::Finished(_)), "{end:?}");
    rig.assert_exactly_once(200);
    let error = rig.run().await.unwrap_err();
    assert!(
        error.to_string().contains("adopted by job orders-2"),
        "{error}"
    );
    // The command stays the same afterwards.
    assert_eq!(
        renamed(&rig, &|s| s.adopt = Some(job())).await.unwrap(),
        JobEnd::NothingNew
    );

    // Also where there is nothing new: the next start need not be told again.
    let rig = Rig::new(rows_in_splits(1, 4));
    rig.finish().await;
    let end = renamed(&rig, &|s| s.adopt = Some(job())).await.unwrap();
    assert!(matches!(end, JobEnd::Finished(_)), "{end:?}");
    assert_eq!(renamed(&rig, &|_| {}).await.unwrap(), JobEnd::NothingNew);
    rig.assert_exactly_once(20);

    let mut rig = Rig::new(rows_in_splits(1, 40));
    half_way(&mut rig).await;
    let before = rig.lake.rows();
    let end = renamed(&rig, &|s| s.new_job = true).await.unwrap();
    assert!(matches!(end, JobEnd::Finished(_)), "{end:?}");
    assert_twice(&rig, 200, &before);
}

/// Writers that restore the state of a bucket have seen what recovery published: where that was put
/// over while they opened they would go on below it (found by simulation, seed 5986).
#[tokio::test(start_paused = true)]
async fn r_14_a_commit_put_over_while_writers_open_is_published_before_they_write() {
    let rig = Rig::new(rows_in_splits(2, 20));
    rig.killed_after(MS(115)).await;
    rig.lake.lock().put_over_at_open = Some(true);
    let opened = rig.lake.lock().opened;
    let before = rig.lake.rows().len();
    assert!(before > 0);
    let summary = rig.finish().await;
    assert_eq!(rig.lake.lock().put_over_at_open, Some(false));
    assert_eq!((summary.restarts, rig.lake.lock().opened - opened), (1, 2));
    rig.assert_exactly_once(200);
}

/// The first commit of a job was put over once others had built on it: its files are in the table, and no
/// version is its own. There is none that writers could have missed (found by simulation, seed 12147).
#[tokio::test(start_paused = true)]
async fn r_14_a_commit_that_only_its_files_tell_of_holds_back_no_writers() {
    for after in (10..200).step_by(2) {
        let rig = Rig::new(rows_in_splits(2, 20));
        rig.killed_after(MS(after)).await;
        let records = rig.records().await;
        let held = records.last().map(|record| record.committables.clone());
        let held: Vec<i64> = held.into_iter().flatten().map(|c| c.identifier.0).collect();
        let [only] = rig.lake.identifiers()[..] else {
            continue;
        };
        if held != [only] {
            continue;
        }
        rig.lake.lock().by_files.insert(only);
        rig.lake.lock().put_over_at_open = Some(false);
        let summary = rig.finish().await;
        assert_eq!(summary.restarts, 0);
        rig.assert_exactly_once(200);
        return;
    }
    panic!("no run was killed with its only commit still in the newest record");
}

/// A run that was paused while its successor did all the work, cleaned up and forgot it, writes, is
/// fenced, and removes what it has written: nobody else would look for it (found by simulation, seed 48).
#[tokio::test(start_paused = true)]
async fn r_13_a_fenced_run_removes_what_it_wrote_after_its_successor_had_cleaned() {
    let mut rig = Rig::new(rows_in_splits(2, 20));
    rig.settings.checkpoints.retain = 1_000;
    rig.lake.lock().write_delay = Some(Duration::from_secs(60));
    let zombie = tokio::spawn(rig.job().run(StopSignal::never()));
    tokio::time::sleep(MS(30)).await;
    rig.finish().await;
    let status = rig.registry().job(&job()).await.unwrap();
    assert_eq!(status.runs.len(), 1, "the successor knows of nobody");
    assert!(!zombie.is_finished());
    let error = zombie.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Fenced, "{error}");
    assert!(rig.lake.lock().write_delay.is_none());
    rig.assert_exactly_once(200);
}

/// A run that was taken for dead records once more beside its successor: what that record names is
/// not removed, although the successor had listed the records before (found by simulation, seed 7993).
#[tokio::test(start_paused = true)]
async fn r_13_a_record_that_came_since_the_start_keeps_its_files() {
    let mut rig = Rig::new(rows_in_splits(1, 40));
    rig.settings.checkpoints.retain = 1_000;
    rig.killed_after(MS(100)).await;
    let orphan = rig.lake.orphans().pop().unwrap();
    let records = rig.records().await;
    let mut late = records
        .into_iter()
        .rfind(|record| !record.committables.is_empty())
        .unwrap();
    late.id = CheckpointId(late.id.0 + 1_000);
    let mut held = late.committables.pop().unwrap();
    let mut payload: serde_json::Value = serde_json::from_slice(&held.payload).unwrap();
    payload["files"] = serde_json::json!([orphan]);
    held.payload = serde_json::to_vec(&payload).unwrap();
    late.committables = vec![held];
    let mut records = rig.checkpoints().job(&job(), &late.user);
    let happens = async move { records.write(&late).await.unwrap() };
    let target = Meddled {
        lake: rig.lake.clone(),
        // The first one only looks.
        left: AtomicUsize::new(2),
        happens: std::sync::Mutex::new(Some(Box::pin(happens))),
    };
    let second = Job::builder(job())
        .source(rig.source.clone())
        .target(std::sync::Arc::new(target))
        .checkpoints(rig.checkpoints())
        .registry(rig.registry())
        .settings(rig.settings.clone())
        .build()
        .unwrap();
    let end = second.run(StopSignal::never()).await;
    assert!(matches!(end, Ok(JobEnd::Finished(_))), "{end:?}");
    assert_twice(&rig, 200, &[]);
    assert_eq!(rig.lake.orphans(), [orphan]);
}

/// What a crash left goes only once the new run has a record and a visible commit.
#[tokio::test(start_paused = true)]
async fn r_13_left_overs_stay_until_the_own_run_is_visible() {
    let rig = Rig::new(rows_in_splits(2, 20));
    rig.killed_after(MS(50)).await;
    let left = rig.lake.orphans();
    assert!(!left.is_empty());
    rig.lake.lock().down = true;
    rig.killed_after(MS(300)).await;
    assert!(
        left.iter().all(|file| rig.lake.orphans().contains(file)),
        "an older run may publish"
    );
    rig.lake.lock().down = false;
    rig.finish().await;
    rig.assert_exactly_once(200);
    let status = rig.registry().job(&job()).await.unwrap();
    assert_eq!(
        status.runs.len(),
        1,
        "their registrations are gone, the newest stays"
    );
}

/// A run that is killed in the middle leaves files; the next one publishes every row of `source` and
/// is killed at `place` when its commit is visible, before it has cleaned.
fn killed_twice(source: MemorySource, place: &'static str) -> Rig {
    let mut rig = Rig::new(source);
    block_on(rig.killed_after(MS(45)));
    assert!(!rig.lake.orphans().is_empty());
    rig.settings.checkpoints.interval = Some(MS(500));
    assert!(crash_at(&rig, place, 1));
    assert_eq!(rig.lake.rows().len(), 20);
    assert!(!rig.lake.orphans().is_empty());
    rig
}

/// A run without rows has no commit of its own, and an older run might publish after it has
/// cleaned: where an older one left something it makes an empty commit at its end. The next
/// commit finds the positions that it expects.
#[test]
fn r_13_a_run_without_rows_takes_over_by_an_empty_commit_before_it_cleans() {
    let source = rows_in_splits(1, 4).unbounded();
    let rig = killed_twice(source.clone(), probe::PUBLISHED);
    for left_over in [true, false] {
        let commits = rig.lake.identifiers().len();
        block_on(stopped_after(&rig, MS(1200)));
        assert!(rig.lake.orphans().is_empty(), "{:?}", rig.lake.orphans());
        let made = rig.lake.identifiers().len() - commits;
        assert_eq!(
            made,
            usize::from(left_over),
            "only where there is something to remove"
        );
    }
    source.push("split-0", batch(20..30));
    block_on(stopped_after(&rig, MS(1200)));
    rig.assert_exactly_once(30);
    let status = block_on(rig.registry().job(&job())).unwrap();
    assert_eq!(
        status.runs.len(),
        1,
        "no registration of an older run is needed any more"
    );
}

async fn stopped_after(rig: &Rig, time: Duration) {
    let (stop, running) = crate::ends::start(rig).await;
    tokio::time::sleep(time).await;
    stop.request();
    let end = running.await.unwrap().unwrap();
    assert!(matches!(end, JobEnd::Stopped(_)), "{end:?}");
}

/// Where a run was killed after its last commit, before it had cleaned, the next start has
/// nothing new and claims no epoch: it cleans under the epoch of the other one.
#[test]
fn r_13_nothing_new_removes_what_runs_before_the_newest_left() {
    let rig = killed_twice(rows_in_splits(1, 4), probe::PUBLISHED);
    let runs = block_on(rig.registry().job(&job())).unwrap().runs.len();
    assert_eq!(runs, 2);
    let end = block_on(rig.run()).unwrap();
    assert_eq!(end, JobEnd::NothingNew);
    rig.assert_exactly_once(20);
    let status = block_on(rig.registry().job(&job())).unwrap();
    assert_eq!(status.runs.len(), 1, "and its registration goes");
}

/// A run that publishes only what the one before had left does so under its own epoch.
#[test]
fn r_13_what_recovery_publishes_counts_as_the_own_commit() {
    let mut rig = Rig::new(rows_in_splits(1, 4).unbounded());
    rig.settings.checkpoints.interval = Some(MS(500));
    block_on(rig.killed_after(MS(45)));
    assert!(crash_at(&rig, probe::RECORDED, 1));
    assert!(rig.lake.rows().is_empty() && !rig.lake.orphans().is_empty());
    block_on(stopped_after(&rig, MS(1200)));
    rig.assert_exactly_once(20);
    assert_eq!(
        rig.lake.identifiers().len(),
        1,
        "no commit but the one that was left"
    );
}

/// An unreadable newest record stops the job; nobody goes back silently.
#[tokio::test(start_paused = true)]
async fn r_7_an_unreadable_newest_record_stops_the_job() {
    let mut rig = Rig::new(rows_in_splits(1, 40));
    half_way(&mut rig).await;
    let newest = rig.records().await.last().unwrap().id;
    let path = format!(
        "checkpoints/orders/{}/checkpoint-{newest}",
        rig.user().await
    );
    rig.store.put(&path, "torn".into()).await.unwrap();
    let error = rig.run().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains("--from-checkpoint"), "{error}");
}

/// A table that was dropped, or replaced by another one, behind a job whose checkpoint holds a commit:
/// nothing can be published, and a way out says so before an epoch is claimed on the new one.
#[test]
fn r_7_a_target_that_was_replaced_is_told_from_one_that_waits_for_its_first_commit() {
    let mut rig = Rig::new(rows_in_splits(1, 4));
    rig.settings.checkpoints.interval = None;
    assert!(crash_at(&rig, probe::RECORDED, 1));
    // Another lake without registrations stands in its place.
    rig.lake = crate::lake::Lake::default();
    block_on(async {
        for object in rig.store.child("table").list("").await.unwrap() {
            rig.store.child("table").delete(&object.path).await.unwrap();
        }
    });
    let JobEnd::Mismatch(report) = block_on(rig.run()).unwrap() else {
        panic!()
    };
    assert_eq!(report.why, Why::Replaced { of: "lake".into() });
    assert!(report.to_string().contains("--new-job"));
    assert!(
        block_on(rig.registry().jobs()).unwrap().is_empty(),
        "no epoch is claimed"
    );
    let anew = block_on(rig.run_with(|s| s.new_job = true)).unwrap();
    assert!(matches!(anew, JobEnd::Finished(s) if s.rows_published == 20));
    rig.assert_exactly_once(20);
}
