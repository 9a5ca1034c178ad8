//! Checkpoint records in their directory.

use std::collections::BTreeMap;

use tidegate_recovery::*;
use tidegate_sink::*;
use tidegate_storage::Store;

fn directory() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("file://{}", folder.path().display());
    (folder, Store::open(&url, &BTreeMap::new()).unwrap())
}

fn job() -> JobName {
    JobName::new("orders").unwrap()
}

fn user() -> CommitUser {
    CommitUser::new("user-1").unwrap()
}

fn record(id: u64, epoch: u64) -> CheckpointRecord {
    CheckpointRecord::new(job(), CheckpointId(id), user(), Epoch(epoch))
}

async fn open(store: &Store) -> JobCheckpoints {
    let mut records = CheckpointStore::new(store.clone()).job(&job(), &user());
    records.load().await.unwrap();
    records
}

fn ids(records: &JobCheckpoints) -> Vec<u64> {
    records.list().iter().map(|r| r.id.0).collect()
}

#[tokio::test]
async fn r_17_records_stand_under_job_and_commit_user() {
    let (folder, store) = directory();
    open(&store).await.write(&record(3, 1)).await.unwrap();
    assert!(folder.path().join("orders/user-1/checkpoint-3").is_file());
    let checkpoints = CheckpointStore::new(store);
    assert_eq!(checkpoints.jobs().await.unwrap(), [job()]);
    assert_eq!(checkpoints.users(&job()).await.unwrap(), [user()]);
    assert_eq!(
        checkpoints.user_of(&job(), None).await.unwrap(),
        Some(user())
    );
}

/// the registered user wins; without registration two users are not guessed at.
#[tokio::test]
async fn r_1_the_commit_user_is_the_registered_one_else_the_only_one() {
    let (_folder, store) = directory();
    let checkpoints = CheckpointStore::new(store);
    assert_eq!(checkpoints.user_of(&job(), None).await.unwrap(), None);
    for name in ["a", "b"] {
        let user = CommitUser::new(name).unwrap();
        let record = CheckpointRecord {
            user: user.clone(),
            ..record(1, 1)
        };
        checkpoints.job(&job(), &user).write(&record).await.unwrap();
    }
    let error = checkpoints.user_of(&job(), None).await.unwrap_err();
    assert!(
        matches!(error, RecoveryError::SeveralUsers { .. }),
        "{error}"
    );
    let b = CommitUser::new("b").unwrap();
    assert_eq!(
        checkpoints.user_of(&job(), Some(&b)).await.unwrap(),
        Some(b)
    );
}

/// equal bytes are our own lost answer, other bytes are somebody who went on.
#[tokio::test]
async fn r_5_an_existing_record_fences_unless_it_is_our_own() {
    let (_folder, store) = directory();
    let mut ours = open(&store).await;
    ours.write(&record(1, 1)).await.unwrap();
    ours.write(&record(1, 1)).await.unwrap();
    let error = open(&store).await.write(&record(1, 2)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Fenced);
    assert!(error.to_string().contains("epoch 1"), "{error}");
    assert_eq!(
        open(&store).await.newest().await.unwrap(),
        Some(record(1, 1)),
        "untouched"
    );
}

/// an unreadable newest record is never passed over.
#[tokio::test]
async fn r_7_an_unreadable_newest_record_never_falls_back() {
    let (folder, store) = directory();
    let mut records = open(&store).await;
    records.write(&record(1, 1)).await.unwrap();
    records.write(&record(2, 1)).await.unwrap();
    let path = folder.path().join("orders/user-1/checkpoint-2");
    let whole = std::fs::read(&path).unwrap();
    for damaged in [&whole[..whole.len() / 2], &[]] {
        std::fs::write(&path, damaged).unwrap();
        let error = open(&store).await.newest().await.unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("checkpoint-2") && text.contains("--from-checkpoint"),
            "{text}"
        );
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        let older = open(&store).await.read(CheckpointId(1)).await.unwrap();
        assert_eq!(older, record(1, 1), "by name it can still be had");
    }
}

/// Incomplete counts restore as *not complete*: the record before counts, new ids go above both.
#[tokio::test]
async fn an_incomplete_record_is_no_checkpoint() {
    let (_folder, store) = directory();
    let mut records = open(&store).await;
    records.write(&record(1, 1)).await.unwrap();
    let mut half = record(2, 1);
    half.committables.push(Committable {
        user: user(),
        identifier: CommitIdentifier(2),
        digest: Digest([0; 32]),
        expected: 3,
        received: 2,
        version: 1,
        payload: vec![],
    });
    records.write(&half).await.unwrap();
    let records = open(&store).await;
    assert_eq!(records.newest().await.unwrap().unwrap().id, CheckpointId(1));
    assert_eq!(records.largest(), Some(CheckpointId(2)));
}

#[tokio::test]
async fn retention_keeps_what_is_not_published_and_every_savepoint() {
    let (_folder, store) = directory();
    let mut records = open(&store).await;
    for id in 1..=9 {
        let kind = if id == 2 {
            RecordKind::Savepoint
        } else {
            RecordKind::Checkpoint
        };
        records
            .write(&CheckpointRecord {
                kind,
                ..record(id, 1)
            })
            .await
            .unwrap();
    }
    assert!(
        records.retain(3, CheckpointId(1)).await.is_empty(),
        "nothing is published"
    );
    records.retain(3, CheckpointId(5)).await;
    assert_eq!(ids(&records), [2, 5, 6, 7, 8, 9]);
    records.retain(3, CheckpointId(9)).await;
    assert_eq!(ids(&records), [2, 7, 8, 9]);
    records.retain(0, CheckpointId(9)).await;
    assert_eq!(ids(&records), [2, 9], "one always stays");
    assert_eq!(ids(&open(&store).await), [2, 9], "and so it is on disk");
    assert_eq!(
        open(&store).await.read(CheckpointId(2)).await.unwrap().kind,
        RecordKind::Savepoint
    );
}

#[tokio::test]
async fn a_checkpoint_asked_for_by_a_wrong_id_names_what_there_is() {
    let (_folder, store) = directory();
    open(&store).await.write(&record(4, 1)).await.unwrap();
    let error = open(&store)
        .await
        .read(CheckpointId(3))
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("no checkpoint 3") && error.contains("there is 4"),
        "{error}"
    );
}

#[tokio::test]
async fn foreign_names_in_the_directory_are_no_checkpoints() {
    let (folder, store) = directory();
    open(&store).await.write(&record(1, 1)).await.unwrap();
    let dir = folder.path().join("orders/user-1");
    for name in [
        "checkpoint-01",
        "checkpoint-+2",
        "checkpoint-2.tmp",
        "note",
        "checkpoint-",
    ] {
        std::fs::write(dir.join(name), b"x").unwrap();
    }
    assert_eq!(ids(&open(&store).await), [1]);
}

/// A record of another job, copied here by hand, is not taken for ours.
#[tokio::test]
async fn a_record_of_another_job_is_refused() {
    let (folder, store) = directory();
    open(&store).await.write(&record(1, 1)).await.unwrap();
    let dir = folder.path().join("orders/user-1");
    std::fs::copy(dir.join("checkpoint-1"), dir.join("checkpoint-2")).unwrap();
    let error = open(&store).await.newest().await.unwrap_err().to_string();
    assert!(error.contains("holds checkpoint 1"), "{error}");
}

/// another job's records of the same source and target are found.
#[tokio::test]
async fn r_17_another_jobs_records_for_the_same_source_and_target_are_found() {
    let (_folder, store) = directory();
    let checkpoints = CheckpointStore::new(store.clone());
    let old = CheckpointRecord {
        source: "files *.csv".into(),
        target: "t".into(),
        ..record(1, 1)
    };
    checkpoints.job(&job(), &user()).write(&old).await.unwrap();
    let new = JobName::new("orders-2").unwrap();
    let find = async |target: &'static str, source: &'static str, known: bool| {
        checkpoints
            .adoptable(&new, target, source, |_| known)
            .await
            .unwrap()
            .len()
    };
    assert_eq!(find("t", "files *.csv", false).await, 1);
    assert_eq!(
        find("moved", "files *.csv", true).await,
        1,
        "registered beside the target"
    );
    assert_eq!(find("moved", "files *.csv", false).await, 0);
    assert_eq!(find("t", "files *.json", true).await, 0);
    let same = checkpoints
        .adoptable(&job(), "t", "files *.csv", |_| true)
        .await
        .unwrap();
    assert!(same.is_empty(), "its own records need no adoption");
}

/// by tag: those of earlier runs of this commit user, when a run writes its first record.
#[tokio::test]
async fn r_13_half_written_records_of_earlier_runs_go_with_the_next_record() {
    let (folder, store) = directory();
    open(&store).await.write(&record(1, 1)).await.unwrap();
    let dir = folder.path().join("orders/user-1");
    let uuid = "0123456789abcdef0123456789abcdef";
    let tagged = |name: &str, epoch| {
        let tag = run_prefix(&user(), Epoch(epoch));
        let path = dir.join(format!(".{name}.~{tag}.{uuid}.tmp"));
        std::fs::write(&path, "TGCK").unwrap();
        path
    };
    let gone = [tagged("checkpoint-2", 1), tagged("savepoint-1", 2)];
    let others = run_prefix(&CommitUser::new("user-2").unwrap(), Epoch(1));
    let stay = [
        tagged("checkpoint-2", 3),
        tagged("checkpoint-2", 4),
        tagged("checkpoint-02", 1),
        tagged("notes", 1),
        dir.join(format!(".checkpoint-2.~{others}.{uuid}.tmp")),
        dir.join(format!(".checkpoint-2.{uuid}.tmp")),
    ];
    std::fs::write(&stay[4], "").unwrap();
    std::fs::write(&stay[5], "").unwrap();
    let mut records = open(&store).await;
    records.newest().await.unwrap();
    assert!(
        gone.iter().all(|path| path.exists()),
        "reading removes nothing"
    );
    records.write(&record(2, 3)).await.unwrap();
    assert!(gone.iter().all(|path| !path.exists()), "{gone:?}");
    assert!(stay.iter().all(|path| path.exists()), "{stay:?}");
}
