//! History, the rewind guard and the ways out, against real tables.

use tidegate_commit::{Note, latest_snapshot};
use tidegate_model::{SnapshotId, layout};
use tidegate_sink::{
    CommitIdentifier, Committable, Committer, ErrorKind, Mismatch, Outcome, Published, Resolution,
    Saved, Standing,
};
use tidegate_storage::{ErrorKind as StoreKind, Fault, Faults, Op, Rule};

use crate::cases::faulty;
use crate::common::{Table, combine, context, is_published, is_visible, positions, run, run_of};

/// Commits 1 to `n` of user `user`, epoch 1, and what was saved at each checkpoint before its commit.
async fn history_of(table: &Table, n: u64) -> Vec<Saved> {
    let mut committer = table.committer(&run("user", 1)).await;
    let mut saved = Vec::new();
    let mut newest: Option<Published> = None;
    for id in 1..=n {
        let c = table
            .committable(&committer, id, (id > 1).then(|| id - 1))
            .await;
        saved.push(Saved {
            committables: vec![c.clone()],
            newest_published: newest.clone(),
            positions: Some(positions(id)),
        });
        let Outcome::Published(published) = committer.commit(&c).await.unwrap() else {
            panic!()
        };
        newest = Some(published);
    }
    saved
}

#[tokio::test]
async fn history_tells_the_newest_commit_and_its_positions() {
    let table = Table::memory(&[]).await;
    let mut committer = table.committer(&run("user", 1)).await;
    assert_eq!(committer.history().await.unwrap(), Default::default());
    history_of(&table, 3).await;
    let mut rival = table.committer(&run_of("rival", "rival", 1)).await;
    let c = table.committable(&rival, 9, None).await;
    assert!(is_published(&rival.commit(&c).await.unwrap()));
    let mut committer = table.committer(&run("user", 2)).await;
    let history = committer.history().await.unwrap();
    assert_eq!(history.newest.unwrap().version, 3);
    assert_eq!(history.positions, Some(positions(3)));
    assert_eq!(history.largest_identifier.unwrap().0, 3);
    assert_eq!(history.newest_epoch.unwrap().0, 1);
}

#[tokio::test]
async fn large_positions_and_finished_sets_live_in_objects_written_once() {
    let table = Table::memory(&[]).await;
    let mut committer = table.committer(&run("user", 1)).await;
    let finished = vec![7u8; 100_000];
    let mut before = None;
    for n in 1..=3u64 {
        let mut context = context(committer.run(), n, None);
        let mut now = positions(n);
        now.finished = finished.clone();
        now.active = vec![n as u8; if n == 2 { 9_000 } else { 10 }];
        context.positions = Some(now.clone());
        context.replaces = before.replace(now);
        let messages = vec![table.message(committer.run(), "a", 10).await];
        let c = committer
            .combine_messages(&context, messages, 1, 1)
            .unwrap();
        assert!(is_published(&committer.commit(&c).await.unwrap()));
        let mut other = table.committer(&run("user", 2)).await;
        assert_eq!(
            other.history().await.unwrap().positions,
            before,
            "checkpoint {n}"
        );
    }
    let names = table.store.list_names("tidegate/jobs/job").await.unwrap();
    let count = |prefix: &str| names.iter().filter(|e| e.name.starts_with(prefix)).count();
    assert_eq!((count("finished-"), count("positions-")), (1, 1));
    let snapshot = latest_snapshot(&table.store).await.unwrap().unwrap();
    assert!(snapshot.property("tidegate.finished-at").is_some());
    assert!(snapshot.property("tidegate.positions").is_some());
}

#[tokio::test]
async fn the_note_speaks_for_an_expired_snapshot() {
    //
    let table = Table::memory(&[]).await;
    history_of(&table, 2).await;
    let mut committer = table.committer(&run("user", 1)).await;
    committer.leave_note().await.unwrap();
    let bytes = table
        .store
        .get("tidegate/jobs/job/published")
        .await
        .unwrap();
    let note = Note::decode("published", &bytes).unwrap();
    assert_eq!((note.identifier.0, note.snapshot), (2, SnapshotId(2)));
    let mut rival = table.committer(&run_of("rival", "rival", 1)).await;
    let c = table.committable(&rival, 1, None).await;
    assert!(is_published(&rival.commit(&c).await.unwrap()));
    for id in 1..=2 {
        table
            .store
            .delete(&layout::snapshot_path(SnapshotId(id)))
            .await
            .unwrap();
    }
    let mut committer = table.committer(&run("user", 2)).await;
    let history = committer.history().await.unwrap();
    assert_eq!(history.newest.unwrap().identifier.0, 2);
    assert_eq!(history.positions, Some(positions(2)));
}

#[tokio::test]
async fn a_torn_note_is_an_error_that_names_it() {
    let table = Table::memory(&[]).await;
    let mut committer = table.committer(&run("user", 1)).await;
    table
        .store
        .put(
            "tidegate/jobs/job/published",
            "tidegate published note 1\n".into(),
        )
        .await
        .unwrap();
    let error = committer.history().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(
        error.to_string().contains("tidegate/jobs/job/published"),
        "{error}"
    );
}

#[tokio::test]
async fn standings_are_judged_on_the_own_snapshots() {
    //
    let table = Table::memory(&[]).await;
    let saved = history_of(&table, 4).await;
    let mut committer = table.committer(&run("user", 2)).await;
    // Checkpoint 4 saved commit 4, which the table shows: the usual crash after publish.
    let standing = committer.standing(&saved[3]).await.unwrap();
    let Standing::AheadByPrefix(commits) = standing else {
        panic!("{standing:?}")
    };
    assert_eq!(commits.len(), 1);
    // Checkpoint 2 knows nothing of 3 and 4.
    let standing = committer.standing(&saved[1]).await.unwrap();
    let Standing::Mismatch(Mismatch::AheadBeyond { commits }) = standing else {
        panic!("{standing:?}")
    };
    assert_eq!(
        commits.iter().map(|c| c.identifier.0).collect::<Vec<_>>(),
        [3, 4]
    );
    // A checkpoint that knows 4 as published and holds an unpublished 5.
    let five = table.committable(&committer, 5, Some(4)).await;
    let history = committer.history().await.unwrap();
    let later = Saved {
        committables: vec![five],
        newest_published: history.newest.clone(),
        positions: Some(positions(5)),
    };
    assert_eq!(committer.standing(&later).await.unwrap(), Standing::Equal);
    // Same identifier, other content.
    let other: Committable = table.committable(&committer, 4, Some(3)).await;
    let diverged = Saved {
        committables: vec![other],
        ..saved[3].clone()
    };
    let standing = committer.standing(&diverged).await.unwrap();
    assert!(
        matches!(standing, Standing::Mismatch(Mismatch::Diverged { .. })),
        "{standing:?}"
    );
    // Somebody rolled the table back below what the checkpoint knows.
    for id in [4, 3] {
        table
            .store
            .delete(&layout::snapshot_path(SnapshotId(id)))
            .await
            .unwrap();
    }
    let standing = committer.standing(&later).await.unwrap();
    assert!(
        matches!(standing, Standing::Mismatch(Mismatch::Behind { .. })),
        "{standing:?}"
    );
}

/// Somebody takes the table back by exactly the last commit of a job that is not running, as Java's
/// `rollback_to` does: LATEST first, then the snapshot.
async fn roll_back_the_last(table: &Table, last: i64) {
    let before = (last - 1).to_string();
    table
        .store
        .put(layout::LATEST_PATH, before.into())
        .await
        .unwrap();
    let gone = layout::snapshot_path(SnapshotId(last));
    table.store.delete(&gone).await.unwrap();
}

/// A killed job leaves no note of its last commit: a rollback of just that commit cannot be told
/// from a crash before it, and the next start publishes it, rather once too often than never
/// (ARCHITECTURE, "Rolling back under a job").
#[tokio::test]
async fn a_rollback_of_exactly_the_last_commit_of_a_killed_job_is_undone_by_its_next_start() {
    let table = Table::memory(&[]).await;
    let saved = history_of(&table, 4).await;
    roll_back_the_last(&table, 4).await;
    let mut committer = table.committer(&run("user", 2)).await;
    assert_eq!(
        committer.standing(&saved[3]).await.unwrap(),
        Standing::Equal
    );
    let again = committer.commit(&saved[3].committables[0]).await.unwrap();
    assert!(is_published(&again), "{again:?}");
    assert_eq!(table.check().await.identifiers(), [1, 2, 3, 4]);
}

/// A job that was stopped cleanly has left a note: the same rollback is noticed, and a
/// person chooses.
#[tokio::test]
async fn a_rollback_of_exactly_the_last_commit_of_a_stopped_job_is_noticed_by_its_next_start() {
    let table = Table::memory(&[]).await;
    let saved = history_of(&table, 4).await;
    let mut committer = table.committer(&run("user", 1)).await;
    committer.leave_note().await.unwrap();
    roll_back_the_last(&table, 4).await;
    let mut committer = table.committer(&run("user", 2)).await;
    let standing = committer.standing(&saved[3]).await.unwrap();
    let Standing::Mismatch(Mismatch::Behind { missing }) = standing else {
        panic!("{standing:?}")
    };
    assert_eq!((missing.identifier.0, missing.version), (4, 4));
    // The rows of commit 4 are read again, or given up, as one chooses.
    let way = Resolution::ContinueFromTable;
    let plan = committer.resolve(&saved[3], way, true).await.unwrap();
    assert_eq!(plan.positions, Some(positions(3)));
    assert_eq!(table.check().await.identifiers(), [1, 2, 3]);
}

#[tokio::test]
async fn rollback_says_what_goes_then_takes_the_table_back() {
    //
    let table = Table::memory(&[]).await;
    let saved = history_of(&table, 4).await;
    let mut committer = table.committer(&run("user", 1)).await;
    committer.leave_note().await.unwrap();
    let mut committer = table.committer(&run("user", 2)).await;
    let way = Resolution::RollbackTable {
        including_others: false,
    };
    let plan = committer.resolve(&saved[1], way, true).await.unwrap();
    assert_eq!(plan.positions, Some(positions(2)));
    assert_eq!(plan.above.unwrap().0, 4);
    assert!(
        plan.steps.iter().any(|s| s.contains("snapshot 4")),
        "{:?}",
        plan.steps
    );
    assert_eq!(
        table.check().await.snapshots.len(),
        4,
        "a dry run touches nothing"
    );

    committer.resolve(&saved[1], way, false).await.unwrap();
    assert_eq!(table.check().await.identifiers(), [1, 2]);
    assert_eq!(table.store.get(layout::LATEST_PATH).await.unwrap(), "2");
    let history = committer.history().await.unwrap();
    assert_eq!(
        history.newest.unwrap().identifier.0,
        2,
        "the note was made true too"
    );
    // The job goes on above the largest identifier ever seen.
    let five = table.committable(&committer, 5, Some(2)).await;
    assert!(is_published(&committer.commit(&five).await.unwrap()));
    assert_eq!(table.check().await.identifiers(), [1, 2, 5]);
}

#[tokio::test]
async fn rollback_refuses_to_take_others_or_tags_along_unless_told() {
    let table = Table::memory(&[]).await;
    let saved = history_of(&table, 3).await;
    let mut rival = table.committer(&run_of("rival", "rival", 1)).await;
    let c = table.committable(&rival, 1, None).await;
    assert!(is_published(&rival.commit(&c).await.unwrap()));
    let bytes = table
        .store
        .get(&layout::snapshot_path(SnapshotId(3)))
        .await
        .unwrap();
    table
        .store
        .put(&layout::tag_path("eod"), bytes)
        .await
        .unwrap();
    let mut committer = table.committer(&run("user", 2)).await;
    let way = Resolution::RollbackTable {
        including_others: false,
    };
    let error = committer.resolve(&saved[1], way, false).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused);
    let text = error.to_string();
    assert!(
        text.contains("snapshot 4 of rival") && text.contains("tag eod"),
        "{text}"
    );
    assert_eq!(table.check().await.snapshots.len(), 4);
    let way = Resolution::RollbackTable {
        including_others: true,
    };
    committer.resolve(&saved[1], way, false).await.unwrap();
    assert_eq!(table.check().await.identifiers(), [1, 2]);
    assert_eq!(table.store.list_names("tag").await.unwrap().len(), 0);
}

#[tokio::test]
async fn a_rollback_interrupted_after_any_request_leaves_a_table_without_holes_and_can_be_ended() {
    // Invariant 9.
    let way = Resolution::RollbackTable {
        including_others: false,
    };
    let mut interrupted = 0;
    for nth in 1.. {
        let table = Table::memory(&[]).await;
        let saved = history_of(&table, 5).await;
        let mut committer = table.committer(&run("user", 1)).await;
        committer.leave_note().await.unwrap();
        let faults = Faults::new();
        let store = table.store.clone().with_faults(faults.clone());
        let mut committer = table.committer_on(store, &run("user", 2)).await;
        faults.rule(
            Rule::new(Fault::DieAfter)
                .on(Op::Put)
                .on(Op::Delete)
                .nth(nth),
        );
        let ended = committer.resolve(&saved[1], way, false).await;
        // `check` demands dense ids.
        let seen = table.check().await;
        assert!(seen.snapshots.len() >= 2);
        if ended.is_ok() {
            break;
        }
        interrupted += 1;
        let mut committer = table.committer(&run("user", 3)).await;
        if !matches!(
            committer.standing(&saved[1]).await.unwrap(),
            Standing::AheadByPrefix(_)
        ) {
            committer.resolve(&saved[1], way, false).await.unwrap();
        }
        assert_eq!(
            table.check().await.identifiers(),
            [1, 2],
            "interrupted at {nth}"
        );
        let standing = committer.standing(&saved[1]).await.unwrap();
        assert!(
            matches!(standing, Standing::AheadByPrefix(_)),
            "at {nth}: {standing:?}"
        );
    }
    assert!(interrupted >= 4, "{interrupted}");
}

#[tokio::test]
async fn continue_from_table_and_accept_duplicates_say_where_to_go_on() {
    let table = Table::memory(&[]).await;
    let saved = history_of(&table, 4).await;
    let mut committer = table.committer(&run("user", 2)).await;
    let plan = committer
        .resolve(&saved[1], Resolution::ContinueFromTable, false)
        .await
        .unwrap();
    assert_eq!(plan.positions, Some(positions(4)));
    assert_eq!(plan.above.unwrap().0, 4);
    let plan = committer
        .resolve(&saved[1], Resolution::AcceptDuplicates, false)
        .await
        .unwrap();
    assert_eq!(plan.positions, Some(positions(2)));
    // The first commit expects what the table has.
    let five = table.committable(&committer, 5, Some(4)).await;
    assert!(is_published(&committer.commit(&five).await.unwrap()));
    assert_eq!(table.check().await.rows(), 50);
}

#[tokio::test]
async fn b34_1_a_publish_held_back_over_a_rollback_is_refused_and_not_read() {
    let table = Table::memory(&[]).await;
    history_of(&table, 5).await;
    let faults = Faults::new();
    let store = table.store.clone().with_faults(faults.clone());
    let mut committer = table.committer_on(store, &run("user", 1)).await;
    let six = table.committable(&committer, 6, Some(5)).await;
    faults.rule(
        Rule::new(Fault::Late)
            .on(Op::Create)
            .path("snapshot/")
            .always(),
    );
    let outcome = committer.commit(&six).await.unwrap();
    assert!(matches!(outcome, Outcome::Undecided(_)), "{outcome:?}");
    for id in [5, 4] {
        let path = layout::snapshot_path(SnapshotId(id));
        table.store.delete(&path).await.unwrap();
    }
    let hint = table.store.put(layout::LATEST_PATH, "3".into());
    hint.await.unwrap();
    // Now it lands: on a parent that is gone.
    faults.heal();
    assert!(faults.release().await > 0);
    let error = committer.commit(&six).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Mismatch, "{error}");
    let newest = latest_snapshot(&table.store).await.unwrap().unwrap();
    assert_eq!((newest.id.0, newest.total_record_count), (3, Some(30)));
}

#[tokio::test]
async fn b34_a_commit_on_a_table_that_was_rolled_back_is_no_silent_gap() {
    let table = Table::memory(&[]).await;
    history_of(&table, 5).await;
    let mut committer = table.committer(&run("user", 1)).await;
    let six = table.committable(&committer, 6, Some(5)).await;
    assert!(is_visible(&committer.commit(&six).await.unwrap()));
    let seven = table.committable(&committer, 7, Some(6)).await;
    for id in [6, 5, 4] {
        table
            .store
            .delete(&layout::snapshot_path(SnapshotId(id)))
            .await
            .unwrap();
    }
    table
        .store
        .put(layout::LATEST_PATH, "3".into())
        .await
        .unwrap();
    let error = committer.commit(&seven).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Mismatch, "{error}");
    assert_eq!(table.check().await.identifiers(), [1, 2, 3]);
}

#[tokio::test]
async fn a_snapshot_put_over_ours_is_noticed_and_what_is_held_is_offered_again() {
    // A note that says of the replaced commit that it is published changes nothing (found by
    // simulation, seed 465: its rows were lost without a word).
    for noted in [false, true] {
        put_over_ours(noted).await;
    }
}

/// A rival without compare-and-set builds on the snapshot before and puts over this one.
pub(crate) async fn put_over(table: &Table, id: i64, rival: &str) {
    let path = layout::snapshot_path(SnapshotId(id));
    let ours = table.store.get(&path).await.unwrap();
    table.store.delete(&path).await.unwrap();
    let hint = (id - 1).to_string();
    let put = table.store.put(layout::LATEST_PATH, hint.into()).await;
    put.unwrap();
    let mut rival = table.committer(&run_of(rival, rival, 1)).await;
    let c = table.committable(&rival, 1, None).await;
    assert!(is_published(&rival.commit(&c).await.unwrap()));
    assert_ne!(table.store.get(&path).await.unwrap(), ours);
}

/// After a clean stop the note tells of the newest commit; then that is put over. The next start
/// publishes what its record holds again, and goes on from nothing that is not there (found by
/// simulation, seed 1005: the note hid that the rows were gone).
#[tokio::test]
async fn a_note_of_what_was_put_over_hides_no_rows() {
    let table = Table::memory(&[]).await;
    let mut committer = table.committer(&run("user", 1)).await;
    let one = table.committable(&committer, 1, None).await;
    let Outcome::Published(first) = committer.commit(&one).await.unwrap() else {
        panic!()
    };
    let two = table.committable(&committer, 2, Some(1)).await;
    assert!(is_published(&committer.commit(&two).await.unwrap()));
    committer.leave_note().await.unwrap();
    put_over(&table, 2, "rival").await;

    let mut committer = table.committer(&run("user", 2)).await;
    let history = committer.history().await.unwrap();
    assert_eq!(history.newest, Some(first.clone()));
    assert_eq!(history.positions, Some(positions(1)));
    assert_eq!(history.largest_identifier, Some(CommitIdentifier(2)));
    // What would go on from the lost rows is fenced.
    let three = table.committable(&committer, 3, Some(2)).await;
    let outcome = committer.commit(&three).await.unwrap();
    assert!(matches!(outcome, Outcome::Fenced(_)), "{outcome:?}");
    let saved = Saved {
        committables: vec![two.clone()],
        newest_published: Some(first),
        positions: Some(positions(2)),
    };
    assert_eq!(committer.standing(&saved).await.unwrap(), Standing::Equal);
    assert!(is_published(&committer.commit(&two).await.unwrap()));
    assert!(is_published(&committer.commit(&three).await.unwrap()));
    let seen = table.check().await;
    assert_eq!(seen.identifiers(), [1, 1, 2, 3]);
    assert_eq!(seen.rows(), 40);
}

/// A snapshot of ours is put over while its successor loses a race: what was read for the attempt
/// before is not what stands there now (found by simulation, seed 7430: rows were missing in snapshot 4).
#[tokio::test]
async fn what_was_put_over_between_two_attempts_of_a_commit_is_noticed() {
    let table = Table::memory(&[]).await;
    let (store, faults) = faulty(&table);
    let mut committer = table.committer_on(store, &run("user", 1)).await;
    for n in 1..=2u64 {
        let c = table.committable(&committer, n, (n > 1).then(|| n - 1));
        let c = c.await;
        assert!(is_published(&committer.commit(&c).await.unwrap()));
    }
    let three = table.committable(&committer, 3, Some(2)).await;
    // The first attempt ends without an answer at its last request.
    let silent = Rule::new(Fault::Before(StoreKind::Transient));
    faults.rule(silent.on(Op::Create).path("snapshot-3").always());
    let outcome = committer.commit(&three).await;
    assert!(!outcome.as_ref().is_ok_and(is_published), "{outcome:?}");
    faults.heal();
    put_over(&table, 2, "rival").await;
    let mut other = table.committer(&run_of("other", "other", 1)).await;
    let theirs = table.committable(&other, 1, None).await;
    assert!(is_published(&other.commit(&theirs).await.unwrap()));
    let three_again = committer.commit(&three).await.unwrap();
    assert!(is_published(&three_again), "{three_again:?}");
    let seen = table.check().await;
    assert_eq!(seen.identifiers(), [1, 1, 1, 2, 3]);
    assert_eq!(seen.rows(), 50);
}

/// Offering what was put over again may fail, too: it stays the first to be published, and
/// the commit that met it is not fenced for its absence.
#[tokio::test]
async fn what_was_put_over_is_owed_until_it_is_published_again() {
    let table = Table::memory(&[]).await;
    let (store, faults) = faulty(&table);
    let mut committer = table.committer_on(store, &run("user", 1)).await;
    for n in 1..=2u64 {
        let c = table.committable(&committer, n, (n > 1).then(|| n - 1));
        let c = c.await;
        assert!(is_published(&committer.commit(&c).await.unwrap()));
    }
    put_over(&table, 2, "rival").await;
    let three = table.committable(&committer, 3, Some(2)).await;
    let refused = Rule::new(Fault::Before(StoreKind::PermissionDenied));
    faults.rule(refused.on(Op::Create).path("snapshot-3").always());
    for _ in 0..2 {
        assert!(committer.commit(&three).await.is_err());
    }
    faults.heal();
    assert!(is_published(&committer.commit(&three).await.unwrap()));
    let seen = table.check().await;
    assert_eq!(seen.identifiers(), [1, 1, 2, 3]);
    assert_eq!(
        (seen.rows(), seen.orphans.len()),
        (40, 3),
        "its old lists and manifest"
    );
}

/// a committer without compare-and-set wins our number.
async fn put_over_ours(noted: bool) {
    let table = Table::memory(&[]).await;
    let mut committer = table.committer(&run("user", 1)).await;
    for n in 1..=2u64 {
        let c = table
            .committable(&committer, n, (n > 1).then(|| n - 1))
            .await;
        assert!(is_published(&committer.commit(&c).await.unwrap()));
    }
    if noted {
        committer.leave_note().await.unwrap();
    }
    put_over(&table, 2, "rival").await;

    let three = table.committable(&committer, 3, Some(2)).await;
    assert!(is_published(&committer.commit(&three).await.unwrap()));
    let seen = table.check().await;
    assert_eq!(seen.identifiers(), [1, 1, 2, 3]);
    assert_eq!(seen.rows(), 40);
}

#[tokio::test]
async fn an_empty_committable_changes_nothing_in_the_standing() {
    let table = Table::memory(&[]).await;
    history_of(&table, 2).await;
    let mut committer = table.committer(&run("user", 2)).await;
    let empty = combine(&committer, 3, Some(2), vec![]);
    let history = committer.history().await.unwrap();
    let saved = Saved {
        committables: vec![empty],
        newest_published: history.newest,
        positions: history.positions,
    };
    assert_eq!(committer.standing(&saved).await.unwrap(), Standing::Equal);
}

#[tokio::test]
async fn the_note_tells_how_far_a_commit_of_two_halves_came() {
    let table = Table::memory(&[]).await;
    let mut committer = table.committer(&run("user", 1)).await;
    let first = table.message(committer.run(), "a", 10).await;
    let c = combine(&committer, 1, None, vec![first.clone()]);
    assert!(is_published(&committer.commit(&c).await.unwrap()));
    let mut second = table.message(committer.run(), "a", 5).await;
    let rewritten = table.message(committer.run(), "a", 10).await;
    second.compact.compact_before = first.data.new_files.clone();
    second.compact.compact_after = rewritten.data.new_files.clone();
    let c = combine(&committer, 2, Some(1), vec![second]);
    assert!(is_published(&committer.commit(&c).await.unwrap()));
    committer.leave_note().await.unwrap();
    let bytes = table
        .store
        .get("tidegate/jobs/job/published")
        .await
        .unwrap();
    assert!(
        std::str::from_utf8(&bytes)
            .unwrap()
            .contains("\nhalf compact\n")
    );
    let mut rival = table.committer(&run_of("rival", "rival", 1)).await;
    let theirs = table.committable(&rival, 1, None).await;
    assert!(is_published(&rival.commit(&theirs).await.unwrap()));
    for id in 1..=3 {
        table
            .store
            .delete(&layout::snapshot_path(SnapshotId(id)))
            .await
            .unwrap();
    }
    // Both halves are known from the note: nothing is left to publish.
    let mut committer = table.committer(&run("user", 2)).await;
    assert!(matches!(
        committer.commit(&c).await.unwrap(),
        Outcome::AlreadyPublished(_)
    ));
    assert_eq!(
        latest_snapshot(&table.store).await.unwrap().unwrap().id.0,
        4
    );
}

/// Where the table lost commits that the note knows, going on with duplicates goes on where the
/// table stands: the note's positions are those of rows that are gone (found by simulation, seed 206).
#[tokio::test]
async fn a_note_of_what_the_table_lost_is_no_place_to_go_on_from() {
    for kept in [1, 0] {
        let table = Table::memory(&[]).await;
        let mut committer = table.committer(&run("user", 1)).await;
        let mut newest = None;
        for n in 1..=2 {
            let message = table.message(committer.run(), &format!("f{n}"), 10).await;
            let c = combine(&committer, n, (n > 1).then_some(n - 1), vec![message]);
            let Outcome::Published(published) = committer.commit(&c).await.unwrap() else {
                panic!()
            };
            newest = Some(published);
        }
        committer.leave_note().await.unwrap();
        // Somebody rolls the table back.
        for id in (kept + 1..=2).rev() {
            let path = layout::snapshot_path(SnapshotId(id));
            table.store.delete(&path).await.unwrap();
        }
        table.store.delete(layout::LATEST_PATH).await.unwrap();

        let saved = Saved {
            committables: vec![],
            newest_published: newest,
            positions: Some(positions(2)),
        };
        let mut committer = table.committer(&run("user", 2)).await;
        let standing = committer.standing(&saved).await.unwrap();
        assert!(
            matches!(standing, Standing::Mismatch(Mismatch::Behind { .. })),
            "{standing:?}"
        );
        let way = Resolution::AcceptDuplicates;
        committer.resolve(&saved, way, true).await.unwrap();
        let path = layout::published_path(&committer.run().job);
        let note = table.store.get(&path).await.unwrap();
        let expected = (kept == 1).then(|| positions(1));
        let before = committer.history().await.unwrap();
        assert_eq!(before.positions, expected, "the note tells of lost rows");
        committer.resolve(&saved, way, false).await.unwrap();
        let after = committer.history().await.unwrap();
        assert_eq!(after.positions, expected);
        let renewed = table.store.get_opt(&path).await.unwrap();
        assert_ne!(renewed, Some(note), "a dry run had left it");
        // And what goes on from there is taken, not fenced.
        let message = table.message(committer.run(), "again", 10).await;
        let replaces = (kept == 1).then_some(1);
        let c = combine(&committer, 3, replaces, vec![message]);
        let outcome = committer.commit(&c).await.unwrap();
        assert!(matches!(outcome, Outcome::Published(_)), "{outcome:?}");
    }
}
