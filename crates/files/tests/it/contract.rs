//! The contract without an engine: fences, compare-and-set, standing, ways out, cleaning.

use tidegate_files::{FilesTarget, Format};
use tidegate_sink::*;
use tidegate_storage::{Fault, Faults, Op, RetryPolicy, Rule};

use super::store;
use crate::rig::batch;

fn run(epoch: u64) -> Run {
    Run {
        job: JobName::new("orders").unwrap(),
        user: CommitUser::new("user-1").unwrap(),
        epoch: Epoch(epoch),
        prefix: RunPrefix(format!("tg00000000e{epoch}-")),
        restored: None,
    }
}

fn at(position: u64) -> Positions {
    Positions {
        active: position.to_be_bytes().to_vec(),
        finished: Vec::new(),
    }
}

/// A target, a run's committer and one of its writers.
struct Side {
    run: Run,
    committer: Box<dyn Committer>,
    writer: Box<dyn Writer<Batch = arrow::array::RecordBatch>>,
}

impl Side {
    async fn open(target: &FilesTarget, epoch: u64) -> Self {
        let run = run(epoch);
        let committer = target.committer(&run).await.unwrap();
        let writer = target.writers(&run, 1).await.unwrap().writers.remove(0);
        Self {
            run,
            committer,
            writer,
        }
    }

    async fn make(
        &mut self,
        id: u64,
        rows: i64,
        positions: (Option<Positions>, Positions),
    ) -> Committable {
        if rows > 0 {
            self.writer
                .write(Rows::inserts(batch(0..rows)))
                .await
                .unwrap();
        }
        let messages = self.writer.prepare().await.unwrap();
        let context = CommitContext {
            job: self.run.job.clone(),
            epoch: self.run.epoch,
            checkpoint: CheckpointId(id),
            replaces: positions.0,
            positions: Some(positions.1),
            watermark: None,
        };
        self.committer.combine(&context, messages, 1, 1).unwrap()
    }

    async fn next(&mut self, id: u64) -> Committable {
        let replaces = (id > 1).then(|| at(id - 1));
        self.make(id, 3, (replaces, at(id))).await
    }

    async fn commit(&mut self, committable: &Committable) -> Outcome {
        self.committer.commit(committable).await.unwrap()
    }
}

fn published(outcome: Outcome) -> Published {
    match outcome {
        Outcome::Published(done) => done,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn nothing_is_visible_before_its_commit_and_a_second_commit_changes_nothing() {
    let target = FilesTarget::new(store(), Format::Parquet);
    let mut side = Side::open(&target, 1).await;
    let one = side.next(1).await;
    assert!(target.committed().await.unwrap().is_empty());
    let done = published(side.commit(&one).await);
    let after = target.committed().await.unwrap();
    assert_eq!(after.len(), 1);
    assert_eq!(side.commit(&one).await, Outcome::AlreadyPublished(done));
    assert_eq!(target.committed().await.unwrap(), after);
}

#[tokio::test]
async fn r_5_other_content_under_a_published_identifier_is_fenced() {
    let target = FilesTarget::new(store(), Format::Csv);
    let mut old = Side::open(&target, 1).await;
    let mut new = Side::open(&target, 2).await;
    let (ours, theirs) = (old.next(1).await, new.next(1).await);
    published(new.commit(&theirs).await);
    assert!(matches!(old.commit(&ours).await, Outcome::Fenced(_)));
    assert_eq!(target.committed().await.unwrap().len(), 1);
}

/// The old run knows the log as it was, skipped an empty checkpoint, and comes late with a number
/// nobody else used: the chain keeps it out.
#[tokio::test]
async fn r_5_a_run_that_was_replaced_cannot_publish_under_a_later_identifier() {
    let target = FilesTarget::new(store(), Format::Csv);
    let mut old = Side::open(&target, 1).await;
    let one = old.next(1).await;
    published(old.commit(&one).await);
    let late = old.make(3, 3, (Some(at(1)), at(3))).await;
    let mut new = Side::open(&target, 2).await;
    let two = new.next(2).await;
    published(new.commit(&two).await);
    assert!(matches!(old.commit(&late).await, Outcome::Fenced(_)));
    assert_eq!(target.committed().await.unwrap().len(), 2);
}

#[tokio::test]
async fn r_9_a_commit_replaces_just_the_positions_that_it_expects() {
    let target = FilesTarget::new(store(), Format::Csv);
    let mut side = Side::open(&target, 1).await;
    let one = side.next(1).await;
    published(side.commit(&one).await);
    for rows in [3, 0] {
        let moved = side.make(2, rows, (Some(at(7)), at(8))).await;
        assert!(
            matches!(side.commit(&moved).await, Outcome::Refused(_)),
            "{rows} rows"
        );
    }
    let two = side.next(3).await;
    let expects_two = side.commit(&two).await;
    assert!(
        matches!(expects_two, Outcome::Refused(_)),
        "{expects_two:?}"
    );
}

#[tokio::test]
async fn an_empty_commit_makes_nothing() {
    let store = store();
    let target = FilesTarget::new(store.clone(), Format::Csv);
    let mut side = Side::open(&target, 1).await;
    let empty = side.make(1, 0, (None, at(1))).await;
    assert!(side.committer.is_empty(&empty).unwrap());
    assert_eq!(side.commit(&empty).await, Outcome::Empty);
    assert!(store.list("").await.unwrap().is_empty());
}

#[tokio::test]
async fn an_incomplete_committable_is_refused() {
    let target = FilesTarget::new(store(), Format::Csv);
    let mut side = Side::open(&target, 1).await;
    let mut one = side.next(1).await;
    one.expected = 2;
    assert!(matches!(side.commit(&one).await, Outcome::Refused(_)));
}

#[tokio::test]
async fn r_7_every_standing_is_told() {
    let target = FilesTarget::new(store(), Format::Csv);
    let mut side = Side::open(&target, 1).await;
    let (one, two) = (side.next(1).await, side.next(2).await);
    let nothing = Saved::default();
    assert_eq!(
        side.committer.standing(&nothing).await.unwrap(),
        Standing::Equal
    );
    let first = published(side.commit(&one).await);

    let mut saved = Saved {
        committables: vec![one.clone(), two.clone()],
        ..Saved::default()
    };
    let standing = side.committer.standing(&saved).await.unwrap();
    assert_eq!(standing, Standing::AheadByPrefix(vec![first.clone()]));
    let standing = side.committer.standing(&nothing).await.unwrap();
    assert!(
        matches!(standing, Standing::Mismatch(Mismatch::AheadBeyond { commits }) if commits == [first.clone()])
    );

    saved.newest_published = Some(first.clone());
    saved.committables.remove(0);
    assert_eq!(
        side.committer.standing(&saved).await.unwrap(),
        Standing::Equal
    );

    let missing = Published {
        identifier: CommitIdentifier(9),
        ..first.clone()
    };
    let behind = Saved {
        newest_published: Some(missing.clone()),
        ..Saved::default()
    };
    let standing = side.committer.standing(&behind).await.unwrap();
    assert_eq!(standing, Standing::Mismatch(Mismatch::Behind { missing }));

    let other = Side::open(&target, 2).await.next(1).await;
    let diverged = Saved {
        committables: vec![other],
        ..Saved::default()
    };
    let standing = side.committer.standing(&diverged).await.unwrap();
    assert!(matches!(
        standing,
        Standing::Mismatch(Mismatch::Diverged { .. })
    ));
}

#[tokio::test]
async fn r_8_roll_back_is_refused_with_the_ways_out_and_the_others_go_on() {
    let target = FilesTarget::new(store(), Format::Csv);
    let mut side = Side::open(&target, 1).await;
    let one = side.next(1).await;
    published(side.commit(&one).await);
    let saved = Saved {
        positions: Some(at(0)),
        ..Saved::default()
    };
    let back = Resolution::RollbackTable {
        including_others: true,
    };
    let refused = side
        .committer
        .resolve(&saved, back, false)
        .await
        .unwrap_err();
    assert!(
        refused.to_string().contains("continue-from-table"),
        "{refused}"
    );
    for (way, from) in [
        (Resolution::ContinueFromTable, at(1)),
        (Resolution::AcceptDuplicates, at(0)),
    ] {
        let plan = side.committer.resolve(&saved, way, false).await.unwrap();
        assert_eq!(plan.positions, Some(from), "{way:?}");
        assert_eq!(plan.above, Some(CommitIdentifier(1)));
    }
}

#[tokio::test]
async fn r_3_large_positions_are_objects_of_their_own_and_only_the_newest_stay() {
    let store = store();
    let target = FilesTarget::new(store.clone(), Format::Csv);
    let mut side = Side::open(&target, 1).await;
    let large = |byte| Positions {
        active: vec![byte],
        finished: vec![byte; 20_000],
    };
    let mut replaces = None;
    for id in 1..=3u8 {
        let next = side.make(id.into(), 1, (replaces.clone(), large(id))).await;
        published(side.commit(&next).await);
        replaces = Some(large(id));
    }
    let mut committer = target.committer(&run(2)).await.unwrap();
    assert_eq!(committer.history().await.unwrap().positions, Some(large(3)));
    let objects = store.list("_tidegate/commits").await.unwrap();
    let kept: Vec<_> = objects
        .iter()
        .filter(|o| o.path.contains("positions-"))
        .collect();
    assert_eq!(kept.len(), 1, "{kept:?}");
}

/// Positions that a commit under way has set aside are its own run's; what earlier runs left goes.
#[tokio::test]
async fn r_13_clean_up_leaves_the_positions_of_a_commit_under_way() {
    let store = store();
    let target = FilesTarget::new(store.clone(), Format::Csv);
    let mut side = Side::open(&target, 2).await;
    let at = Positions {
        active: vec![2],
        finished: vec![2; 20_000],
    };
    let next = side.make(1, 1, (None, at.clone())).await;
    published(side.commit(&next).await);
    let objects = store.list("_tidegate/commits").await.unwrap();
    let found = objects
        .iter()
        .find(|o| o.path.contains("positions-e2-"))
        .unwrap();
    let (folder, hash) = found.path.split_once("positions-e2-").unwrap();
    let other: String = hash.chars().rev().collect();
    let names = ["e1", "e2", "e3"].map(|epoch| format!("{folder}positions-{epoch}-{other}"));
    for name in &names {
        store.put(name, "x".into()).await.unwrap();
    }
    let report = target.clean(&run(2), &[run(1).prefix], &[]).await.unwrap();
    assert_eq!(report.removed, 1);
    for (name, stays) in names.iter().zip([false, true, true]) {
        assert_eq!(store.head(name).await.unwrap().is_some(), stays, "{name}");
    }
    let mut committer = target.committer(&run(3)).await.unwrap();
    assert_eq!(committer.history().await.unwrap().positions, Some(at));
}

/// The answer to the one create is lost and the request arrives late: nothing is deleted
/// meanwhile, and the same call settles it.
#[tokio::test]
async fn r_6_an_undecided_commit_is_settled_by_the_same_call() {
    let store = store();
    let faults = Faults::new();
    let shaky = store
        .clone()
        .with_retry(RetryPolicy::none())
        .with_faults(faults.clone());
    let target = FilesTarget::new(shaky, Format::Csv);
    let mut side = Side::open(&target, 1).await;
    let one = side.next(1).await;
    faults.rule(Rule::new(Fault::Late).on(Op::Create).always());
    assert!(matches!(side.commit(&one).await, Outcome::Undecided(_)));
    faults.heal();
    faults.release().await;
    let outcome = side.commit(&one).await;
    assert!(
        matches!(outcome, Outcome::AlreadyPublished(_)),
        "{outcome:?}"
    );
    let committed = target.committed().await.unwrap();
    assert_eq!(committed.len(), 1);
    assert_eq!(committed[0].path, committed[0].file.name, "it is final");
}

#[tokio::test]
async fn r_13_cleaning_takes_files_of_earlier_runs_that_nothing_refers_to() {
    let store = store();
    let target = FilesTarget::new(store.clone(), Format::Csv);
    let mut first = Side::open(&target, 1).await;
    let held = first.next(1).await;
    first.next(2).await;
    let mut second = Side::open(&target, 2).await;
    second.next(3).await;
    let earlier = [run(1).prefix];
    let report = target.clean(&run(2), &earlier, &[held]).await.unwrap();
    assert_eq!(
        report,
        CleanReport {
            removed: 1,
            kept: 1
        }
    );
    let left = store.list_names("_tidegate/pending").await.unwrap();
    assert_eq!(
        left.len(),
        2,
        "the one that is held and the run's own: {left:?}"
    );
}

#[tokio::test]
async fn what_earlier_runs_were_writing_is_given_up_when_the_next_one_begins() {
    let store = store();
    if !store.capabilities().lists_unfinished {
        return;
    }
    let target = FilesTarget::new(store.clone(), Format::Csv);
    // Killed in the middle of a file; another one's, and the own run's as far as it is.
    for prefix in ["tg00000000e1-", "tg00000000e2-", "tg11111111e1-"] {
        let path = format!("_tidegate/pending/part-{prefix}x-0.csv");
        let mut upload = store.clone().with_tag(prefix).upload(&path).await.unwrap();
        upload.write(vec![b'x'; 9 << 20].into()).await.unwrap();
        std::mem::forget(upload);
    }
    assert_eq!(store.list_unfinished("").await.unwrap().len(), 3);
    Side::open(&target, 2).await;
    let left = store.list_unfinished("").await.unwrap();
    let mut left: Vec<_> = left.iter().map(|u| u.target.as_str()).collect();
    left.sort_unstable();
    let kept = ["tg00000000e2-", "tg11111111e1-"];
    assert_eq!(
        left,
        kept.map(|p| format!("_tidegate/pending/part-{p}x-0.csv"))
    );
}

#[tokio::test]
async fn a_file_that_was_given_up_leaves_nothing() {
    let store = store();
    let target = FilesTarget::new(store.clone(), Format::Parquet).roll_at(1);
    let mut side = Side::open(&target, 1).await;
    side.writer.write(Rows::inserts(batch(0..5))).await.unwrap();
    side.writer.write(Rows::inserts(batch(5..9))).await.unwrap();
    assert_eq!(store.list("").await.unwrap().len(), 2, "one file per batch");
    side.writer.abort().await.unwrap();
    assert!(store.list("").await.unwrap().is_empty());
    assert!(side.writer.prepare().await.unwrap().is_empty());
}

#[tokio::test]
async fn rows_that_are_no_inserts_are_refused() {
    let target = FilesTarget::new(store(), Format::Csv);
    let mut side = Side::open(&target, 1).await;
    let kinds = Some(vec![RowKind::Insert, RowKind::Delete]);
    let rows = Rows {
        batch: batch(0..2),
        kinds,
    };
    assert_eq!(
        side.writer.write(rows).await.unwrap_err().kind(),
        ErrorKind::Data
    );
}

#[tokio::test]
async fn the_log_entry_is_pinned() {
    let store = store();
    let target = FilesTarget::new(store.clone(), Format::Csv);
    let mut side = Side::open(&target, 4).await;
    let one = side.next(1).await;
    published(side.commit(&one).await);
    let name = &target.committed().await.unwrap()[0].file.name;
    let entry = store
        .get("_tidegate/commits/user-1/commit-00000000000000000001")
        .await
        .unwrap();
    let hash = "POSITIONS";
    let text = String::from_utf8(entry.to_vec()).unwrap();
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let text = text.replace(value["content"]["positions_hash"].as_str().unwrap(), hash);
    assert_eq!(
        text,
        format!(
            "{{\"version\":1,\"user\":\"user-1\",\"identifier\":1,\"digest\":\"{}\",\"content\":{{\
             \"job\":\"orders\",\"epoch\":4,\"checkpoint\":1,\"files\":[{{\"name\":\"{name}\",\
             \"rows\":3,\"bytes\":31}}],\"positions\":{{\"active\":{{\"hex\":\"0000000000000001\"}},\
             \"finished\":{{\"hex\":\"\"}}}},\"positions_hash\":\"{hash}\",\"replaces\":null,\
             \"watermark\":null}}}}",
            one.digest
        )
    );
}

#[tokio::test]
async fn names_that_only_look_like_an_entry_are_none() {
    let store = store();
    let target = FilesTarget::new(store.clone(), Format::Csv);
    let mut side = Side::open(&target, 1).await;
    let one = side.next(1).await;
    published(side.commit(&one).await);
    let entry = "_tidegate/commits/user-1/commit-00000000000000000001";
    let bytes = store.get(entry).await.unwrap();
    for name in [
        "commit-9",
        "commit-+9",
        "commit-+0000000000000000009",
        "commit-000000000000000000009",
    ] {
        let path = format!("_tidegate/commits/user-1/{name}");
        store.put(&path, bytes.clone()).await.unwrap();
    }
    let mut side = Side::open(&target, 2).await;
    let two = side.next(2).await;
    assert_eq!(published(side.commit(&two).await).version, 2);
}

#[tokio::test]
async fn an_unreadable_digest_in_the_log_is_an_error_that_names_entry_and_field() {
    let store = store();
    let target = FilesTarget::new(store.clone(), Format::Csv);
    let mut side = Side::open(&target, 1).await;
    let one = side.next(1).await;
    published(side.commit(&one).await);
    let path = "_tidegate/commits/user-1/commit-00000000000000000001";
    let text = String::from_utf8(store.get(path).await.unwrap().to_vec()).unwrap();
    let text = text.replace(&one.digest.to_string(), "no digest");
    store.put(path, text.into()).await.unwrap();
    let error = match target.committer(&run(2)).await {
        Err(error) => error,
        Ok(mut committer) => committer.history().await.unwrap_err(),
    };
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    let told = error.to_string();
    assert!(
        told.contains(path) && told.contains("digest: `no digest`"),
        "{told}"
    );
}
