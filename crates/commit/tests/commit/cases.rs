//! Reported problems of other engines, as far as they concern the commit (`B01` … in the names).

use std::collections::BTreeMap;

use tidegate_commit::{PaimonCommitter, clean, committable, latest_snapshot};
use tidegate_sink::{Committable, Committer, Outcome, Saved, Standing};
use tidegate_storage::{ErrorKind, Fault, Faults, Op, Rule, Store};

use crate::common::{
    Table, combine, context, data_file, is_published, is_visible, run, run_of, unique,
};

pub(crate) const PUBLISH: &str = "snapshot/snapshot-";

/// A store with faults between it and the table.
pub(crate) fn faulty(table: &Table) -> (Store, Faults) {
    let faults = Faults::new();
    (table.store.clone().with_faults(faults.clone()), faults)
}

#[tokio::test]
async fn b01_a_lost_answer_is_a_commit_and_nothing_is_deleted() {
    let table = Table::memory(&[]).await;
    let (store, faults) = faulty(&table);
    let mut committer = table.committer_on(store, &run("user", 1)).await;
    let one = table.committable(&committer, 1, None).await;
    faults.rule(Rule::new(Fault::After).on(Op::Create).path(PUBLISH));
    assert!(is_published(&committer.commit(&one).await.unwrap()));
    let seen = table.check().await;
    assert_eq!((seen.identifiers(), seen.orphans.len()), (vec![1], 0));
}

#[tokio::test]
async fn b01_an_unsettled_publish_is_undecided_keeps_everything_and_settles_later() {
    let table = Table::memory(&[]).await;
    let (store, faults) = faulty(&table);
    let mut committer = table.committer_on(store.clone(), &run("user", 1)).await;
    let one = table.committable(&committer, 1, None).await;
    // The answer is lost and from then on nothing can be read or created.
    faults.rule(Rule::new(Fault::After).on(Op::Create).path(PUBLISH));
    faults.rule(
        Rule::new(Fault::Before(ErrorKind::Transient))
            .on(Op::Create)
            .on(Op::Get)
            .path(PUBLISH)
            .always(),
    );
    let before = store.metrics();
    let outcome = committer.commit(&one).await.unwrap();
    assert!(matches!(outcome, Outcome::Undecided(_)), "{outcome:?}");
    assert_eq!(store.metrics().since(&before).deletes(), 0);
    let outcome = committer.commit(&one).await.unwrap();
    assert!(matches!(outcome, Outcome::Undecided(_)), "{outcome:?}");
    faults.heal();
    assert!(is_visible(&committer.commit(&one).await.unwrap()));
    let seen = table.check().await;
    assert_eq!((seen.identifiers(), seen.orphans.len()), (vec![1], 0));
}

#[tokio::test]
async fn b01_4_a_definite_refusal_removes_what_that_attempt_wrote_and_nothing_else() {
    let table = Table::memory(&[]).await;
    let (store, faults) = faulty(&table);
    let mut committer = table.committer_on(store, &run("user", 1)).await;
    let one = table.committable(&committer, 1, None).await;
    assert!(is_published(&committer.commit(&one).await.unwrap()));
    let two = table.committable(&committer, 2, Some(1)).await;
    faults.rule(
        Rule::new(Fault::Before(ErrorKind::PermissionDenied))
            .on(Op::Create)
            .path(PUBLISH)
            .always(),
    );
    let refused = committer.commit(&two).await;
    assert!(refused.is_err(), "{refused:?}");
    let seen = table.check().await;
    assert_eq!(seen.identifiers(), [1]);
    let [waits] = &seen.orphans[..] else {
        panic!("only the data file waits: {:?}", seen.orphans)
    };
    assert!(waits.starts_with("bucket-0/data-"), "{waits}");
    faults.heal();
    assert!(is_published(&committer.commit(&two).await.unwrap()));
    let seen = table.check().await;
    assert_eq!((seen.identifiers(), seen.orphans.len()), (vec![1, 2], 0));
}

#[tokio::test]
async fn b02_the_own_publish_is_not_taken_for_a_rivals() {
    let table = Table::memory(&[]).await;
    let (store, faults) = faulty(&table);
    let mut committer = table.committer_on(store, &run("user", 1)).await;
    let one = table.committable(&committer, 1, None).await;
    assert!(is_published(&committer.commit(&one).await.unwrap()));
    let two = table.committable(&committer, 2, Some(1)).await;
    // Applied, answer dropped; the next request finds the name taken.
    faults.rule(Rule::new(Fault::After).on(Op::Create).path("snapshot-2"));
    assert!(is_published(&committer.commit(&two).await.unwrap()));
    let seen = table.check().await;
    assert_eq!(
        (seen.identifiers(), seen.rows(), seen.orphans.len()),
        (vec![1, 2], 20, 0)
    );
}

#[tokio::test]
async fn b02_a_real_rival_at_our_number_moves_us_up() {
    let table = Table::memory(&[]).await;
    let (store, faults) = faulty(&table);
    let mut committer = table.committer_on(store, &run("user", 1)).await;
    let one = table.committable(&committer, 1, None).await;
    assert!(is_published(&committer.commit(&one).await.unwrap()));
    let two = table.committable(&committer, 2, Some(1)).await;
    // Our create of snapshot 2 is under way while the rival's arrives.
    faults.rule(
        Rule::new(Fault::Late)
            .on(Op::Create)
            .path("snapshot-2")
            .always(),
    );
    let mut rival = table.committer(&run_of("rival", "rival", 1)).await;
    let theirs = table.committable(&rival, 1, None).await;
    let held = async {
        while faults.log().is_empty() {
            tokio::task::yield_now().await;
        }
        assert!(is_published(&rival.commit(&theirs).await.unwrap()));
        faults.heal();
        faults.release().await;
    };
    let (outcome, ()) = futures::join!(committer.commit(&two), held);
    let outcome = outcome.unwrap();
    assert!(
        is_visible(&outcome) || matches!(outcome, Outcome::Undecided(_)),
        "{outcome:?}"
    );
    assert!(is_visible(&committer.commit(&two).await.unwrap()));
    let seen = table.check().await;
    let users: Vec<&str> = seen
        .snapshots
        .iter()
        .map(|s| s.commit_user.as_str())
        .collect();
    assert_eq!(users, ["user", "rival", "user"]);
    assert_eq!(seen.rows(), 30);
}

#[tokio::test]
async fn b04_a_held_back_publish_that_lands_after_the_restart_is_counted_once() {
    for release_before_commit in [true, false] {
        let table = Table::memory(&[]).await;
        let first = run("user", 1);
        let (store, faults) = faulty(&table);
        let mut committer = table.committer_on(store, &first).await;
        let one = table.committable(&committer, 1, None).await;
        faults.rule(Rule::new(Fault::Late).on(Op::Create).path(PUBLISH).always());
        let outcome = committer.commit(&one).await.unwrap();
        assert!(matches!(outcome, Outcome::Undecided(_)), "{outcome:?}");
        drop(committer);

        let second = run("user", 2);
        let mut committer = table.committer(&second).await;
        if release_before_commit {
            assert!(faults.release().await > 0);
        }
        let outcome = committer.commit(&one).await.unwrap();
        assert!(is_visible(&outcome), "{outcome:?}");
        faults.release().await;
        let two = table.committable(&committer, 2, Some(1)).await;
        assert!(is_published(&committer.commit(&two).await.unwrap()));
        clean(
            &table.store,
            &second,
            std::slice::from_ref(&first.prefix),
            &[],
            true,
        )
        .await
        .unwrap();
        let seen = table.check().await;
        assert_eq!((seen.identifiers(), seen.rows()), (vec![1, 2], 20));
        assert_eq!(seen.orphans, Vec::<String>::new());
    }
}

#[tokio::test]
async fn b05_another_host_and_epoch_commit_under_the_same_user() {
    let table = Table::memory(&[]).await;
    let (store, faults) = faulty(&table);
    let mut committer = table.committer_on(store, &run("user", 1)).await;
    let one = table.committable(&committer, 1, None).await;
    faults.rule(Rule::new(Fault::DieAfter).on(Op::Create).path(PUBLISH));
    let _ = committer.commit(&one).await;
    let mut committer = table.committer(&run("user", 9)).await;
    assert!(matches!(
        committer.commit(&one).await.unwrap(),
        Outcome::AlreadyPublished(_)
    ));
    assert_eq!(table.check().await.rows(), 10);
}

#[tokio::test]
async fn b07_a_rewound_job_is_fenced_and_never_skips() {
    let table = Table::memory(&[]).await;
    let mut committer = table.committer(&run("user", 1)).await;
    let mut saved = Vec::new();
    for n in 1..=4 {
        let c = table
            .committable(&committer, n, (n > 1).then(|| n - 1))
            .await;
        assert!(is_published(&committer.commit(&c).await.unwrap()));
        saved.push(c);
    }
    // Back to checkpoint 2: new content for 3.
    let mut committer = table.committer(&run("user", 2)).await;
    let three = table.committable(&committer, 3, Some(2)).await;
    let outcome = committer.commit(&three).await.unwrap();
    assert!(matches!(outcome, Outcome::Fenced(_)), "{outcome:?}");
    let seen = table.check().await;
    assert_eq!(seen.identifiers(), [1, 2, 3, 4]);
}

#[tokio::test]
async fn b08_two_jobs_with_one_user_and_identifier_are_refused_loudly() {
    let table = Table::memory(&[]).await;
    let mut x = table.committer(&run_of("x", "same", 1)).await;
    let mut y = table.committer(&run_of("y", "same", 1)).await;
    let from_x = table.committable(&x, 1, None).await;
    let from_y = table.committable(&y, 1, None).await;
    assert!(is_published(&x.commit(&from_x).await.unwrap()));
    let outcome = y.commit(&from_y).await.unwrap();
    assert!(matches!(outcome, Outcome::Fenced(_)), "{outcome:?}");
}

#[tokio::test]
async fn b09_three_unfinished_commits_are_published_in_order_once_each() {
    let table = Table::memory(&[]).await;
    let mut saved = Vec::new();
    let committer = table.committer(&run("user", 1)).await;
    for n in 1..=3u64 {
        saved.push(
            table
                .committable(&committer, n, n.checked_sub(1).filter(|n| *n > 0))
                .await,
        );
    }
    drop(committer);
    for epoch in 2..=4 {
        let mut committer = table.committer(&run("user", epoch)).await;
        for c in &saved {
            assert!(is_visible(&committer.commit(c).await.unwrap()));
        }
    }
    let seen = table.check().await;
    assert_eq!((seen.identifiers(), seen.rows()), (vec![1, 2, 3], 30));
}

#[tokio::test]
async fn b11_a_restored_commit_whose_file_is_gone_is_refused_by_name() {
    let table = Table::memory(&[]).await;
    let committer = table.committer(&run("user", 1)).await;
    let message = table.message(committer.run(), "a", 10).await;
    let file = message.data.new_files[0].file_name.clone();
    let path = table.path(&message.partition, message.bucket, &file);
    let one = combine(&committer, 1, None, vec![message]);
    drop(committer);
    table.store.delete(&path).await.unwrap();
    let mut committer = table.committer(&run("user", 2)).await;
    let outcome = committer.commit(&one).await.unwrap();
    let Outcome::Refused(why) = outcome else {
        panic!("{outcome:?}")
    };
    assert!(why.contains(&file), "{why}");
    assert_eq!(latest_snapshot(&table.store).await.unwrap(), None);
}

#[tokio::test]
async fn b16_an_expired_marker_is_known_from_the_note_or_from_the_files() {
    for with_note in [true, false] {
        let table = Table::memory(&[]).await;
        let one = after_an_expiry(&table, with_note).await;
        let mut committer = table.committer(&run("user", 2)).await;
        let outcome = committer.commit(&one).await.unwrap();
        assert!(
            matches!(outcome, Outcome::AlreadyPublished(_)),
            "{outcome:?}"
        );
        let saved = Saved {
            committables: vec![one],
            ..Default::default()
        };
        let standing = committer.standing(&saved).await.unwrap();
        assert!(
            matches!(standing, Standing::AheadByPrefix(_)),
            "{standing:?}"
        );
        let names = table.store.list_names("snapshot").await.unwrap();
        assert!(
            !names.iter().any(|e| e.name == "snapshot-7"),
            "nothing was doubled"
        );
    }
}

#[tokio::test]
async fn b16_without_marker_note_or_live_file_it_is_unknown_and_nothing_is_published() {
    let table = Table::memory(&[]).await;
    let one = after_an_expiry(&table, false).await;
    // The rival also removes the file: compacted away, say.
    let decoded = committable::decode(&one).unwrap();
    let mut message = decoded.java.messages[0].clone();
    message.data.deleted_files = std::mem::take(&mut message.data.new_files);
    let mut rival = table.committer(&run_of("rival", "rival", 2)).await;
    let delete = combine(&rival, 6, Some(5), vec![message]);
    assert!(is_published(&rival.commit(&delete).await.unwrap()));
    table.store.delete(&format!("{PUBLISH}6")).await.unwrap();

    let mut committer = table.committer(&run("user", 2)).await;
    let outcome = committer.commit(&one).await.unwrap();
    assert!(matches!(outcome, Outcome::Refused(_)), "{outcome:?}");
}

/// Commit 1 of `user`, then five of a rival, then all but the newest snapshot are expired.
async fn after_an_expiry(table: &Table, with_note: bool) -> Committable {
    let mut committer = table.committer(&run("user", 1)).await;
    let one = table.committable(&committer, 1, None).await;
    assert!(is_published(&committer.commit(&one).await.unwrap()));
    if with_note {
        committer.leave_note().await.unwrap();
    }
    let mut rival = table.committer(&run_of("rival", "rival", 1)).await;
    for n in 1..=5 {
        let c = table.committable(&rival, n, (n > 1).then(|| n - 1)).await;
        assert!(is_published(&rival.commit(&c).await.unwrap()));
    }
    for id in 1..=5 {
        table.store.delete(&format!("{PUBLISH}{id}")).await.unwrap();
    }
    one
}

#[tokio::test]
async fn b18_a_zombie_is_fenced_by_content_and_by_epoch() {
    let table = Table::memory(&[]).await;
    let mut x = table.committer(&run("user", 1)).await;
    for n in 1..=2u64 {
        let c = table.committable(&x, n, (n > 1).then(|| n - 1)).await;
        assert!(is_published(&x.commit(&c).await.unwrap()));
    }
    let of_x = table.committable(&x, 3, Some(2)).await;
    // The successor commits its own 3 and 4.
    let mut y = table.committer(&run("user", 2)).await;
    for n in 3..=4u64 {
        let c = table.committable(&y, n, Some(n - 1)).await;
        assert!(is_published(&y.commit(&c).await.unwrap()));
    }
    let outcome = x.commit(&of_x).await.unwrap();
    assert!(matches!(outcome, Outcome::Fenced(_)), "{outcome:?}");
    // An identifier that is still free does not help: the newer epoch has committed.
    let five = table.committable(&x, 5, Some(4)).await;
    let outcome = x.commit(&five).await.unwrap();
    assert!(matches!(outcome, Outcome::Fenced(_)), "{outcome:?}");
    let history = y.history().await.unwrap();
    assert_eq!(history.positions, Some(crate::common::positions(4)));
    assert_eq!(history.newest_epoch.unwrap().0, 2);
    assert_eq!(table.check().await.rows(), 40);
}

#[tokio::test]
async fn b18_2_and_3_what_each_of_twenty_leaders_left_is_published_by_the_next() {
    let table = Table::memory(&[]).await;
    let mut left: Option<Committable> = None;
    for epoch in 1..=20u64 {
        let mut leader = table.committer(&run("user", epoch)).await;
        // What the one before had handed over and never announced.
        if let Some(c) = &left {
            assert!(is_published(&leader.commit(c).await.unwrap()));
        }
        left = Some(
            table
                .committable(&leader, epoch, (epoch > 1).then(|| epoch - 1))
                .await,
        );
    }
    let mut last = table.committer(&run("user", 21)).await;
    assert!(is_published(&last.commit(&left.unwrap()).await.unwrap()));
    let seen = table.check().await;
    assert_eq!(seen.identifiers(), (1..=20).collect::<Vec<_>>());
    assert_eq!((seen.rows(), seen.orphans.len()), (200, 0));
}

#[tokio::test]
async fn b18_positions_that_do_not_follow_each_other_are_fenced() {
    //
    let table = Table::memory(&[]).await;
    let mut committer = table.committer(&run("user", 1)).await;
    let one = table.committable(&committer, 1, None).await;
    assert!(is_published(&committer.commit(&one).await.unwrap()));
    let wrong = table.committable(&committer, 2, Some(7)).await;
    let outcome = committer.commit(&wrong).await.unwrap();
    assert!(matches!(outcome, Outcome::Fenced(_)), "{outcome:?}");
    let right = table.committable(&committer, 3, Some(1)).await;
    assert!(is_published(&committer.commit(&right).await.unwrap()));
}

#[tokio::test]
async fn b20_of_many_committers_none_loses_a_commit() {
    // Tables in memory and on disk; an S3 server is tried by the storage crate's suite.
    for table in [Table::memory(&[]).await, Table::file(&[]).await] {
        let table = std::sync::Arc::new(table);
        let mut tasks = Vec::new();
        for task in 0..8 {
            let table = table.clone();
            tasks.push(tokio::spawn(async move {
                let job = format!("job-{task}");
                let mut committer = table.committer(&run_of(&job, &job, 1)).await;
                for n in 1..=25u64 {
                    let c = table
                        .committable(&committer, n, n.checked_sub(1).filter(|n| *n > 0))
                        .await;
                    loop {
                        match committer.commit(&c).await {
                            Ok(outcome) => {
                                assert!(is_visible(&outcome), "{outcome:?}");
                                break;
                            }
                            // Eight rivals may be quicker eleven times in a row.
                            Err(error) => assert!(!error.kind().is_final(), "{error}"),
                        }
                    }
                }
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
        let seen = table.check().await;
        assert_eq!((seen.snapshots.len(), seen.rows()), (200, 2000));
        assert_eq!(seen.orphans, Vec::<String>::new());
        let mut per_user: BTreeMap<String, Vec<i64>> = BTreeMap::new();
        for s in &seen.snapshots {
            per_user
                .entry(s.commit_user.to_string())
                .or_default()
                .push(s.commit_identifier.0);
        }
        for (user, identifiers) in per_user {
            assert_eq!(identifiers, (1..=25).collect::<Vec<_>>(), "{user}");
        }
    }
}

#[tokio::test]
async fn b22_four_conflicts_later_the_same_files_are_there_once() {
    let table = Table::memory(&[]).await;
    let mut committer = table.committer(&run("user", 1)).await;
    let one = table.committable(&committer, 1, None).await;
    let mut rival = table.committer(&run_of("rival", "rival", 1)).await;
    let (store, faults) = faulty(&table);
    let mut slow = table.committer_on(store, &run("user", 1)).await;
    // Each publish answers nothing while the rival takes the number.
    for n in 1..=4u64 {
        faults.rule(Rule::new(Fault::Late).on(Op::Create).path(PUBLISH).always());
        let _ = slow.commit(&one).await.unwrap();
        let c = table.committable(&rival, n, (n > 1).then(|| n - 1)).await;
        assert!(is_published(&rival.commit(&c).await.unwrap()));
        faults.heal();
        faults.release().await;
    }
    assert!(is_visible(&committer.commit(&one).await.unwrap()));
    assert!(is_visible(&slow.commit(&one).await.unwrap()));
    let seen = table.check().await;
    assert_eq!((seen.snapshots.len(), seen.rows()), (5, 50));
    assert_eq!(seen.count(&run("user", 1).user, 1), 1);
    // What an unanswered publish might name stays for the next run to clean.
    let second = run("user", 2);
    let mut committer = table.committer(&second).await;
    let two = table.committable(&committer, 2, Some(1)).await;
    assert!(is_published(&committer.commit(&two).await.unwrap()));
    clean(&table.store, &second, &[run("user", 1).prefix], &[], true)
        .await
        .unwrap();
    assert_eq!(table.check().await.orphans, Vec::<String>::new());
}

#[tokio::test]
async fn b22_a_file_listed_twice_is_refused() {
    let table = Table::memory(&[]).await;
    let mut committer = table.committer(&run("user", 1)).await;
    let mut message = table.message(committer.run(), "a", 10).await;
    let file = message.data.new_files[0].clone();
    message.data.new_files.push(file.clone());
    let twice = combine(&committer, 1, None, vec![message]);
    let outcome = committer.commit(&twice).await.unwrap();
    let Outcome::Refused(why) = outcome else {
        panic!("{outcome:?}")
    };
    assert!(why.contains(&file.file_name), "{why}");
}

#[tokio::test]
async fn b26_an_empty_checkpoint_makes_no_snapshot_unless_options_ask_for_one() {
    let table = Table::memory(&[]).await;
    let mut committer = table.committer(&run("user", 1)).await;
    let one = table.committable(&committer, 1, None).await;
    assert!(is_published(&committer.commit(&one).await.unwrap()));
    let empty = combine(&committer, 2, Some(1), vec![]);
    assert_eq!(committer.commit(&empty).await.unwrap(), Outcome::Empty);
    // The next one follows the last commit that was not empty.
    let three = table.committable(&committer, 3, Some(1)).await;
    assert!(is_published(&committer.commit(&three).await.unwrap()));
    assert_eq!(table.check().await.identifiers(), [1, 3]);

    let table = Table::memory(&[("snapshot.ignore-empty-commit", "false")]).await;
    let mut committer = table.committer(&run("user", 1)).await;
    let empty = combine(&committer, 1, None, vec![]);
    assert!(is_published(&committer.commit(&empty).await.unwrap()));
    assert!(matches!(
        committer.commit(&empty).await.unwrap(),
        Outcome::AlreadyPublished(_)
    ));
    // Forced ones leave the positions where they are, for this committer and for one that reads
    // the table.
    let two = table.committable(&committer, 2, None).await;
    assert!(is_published(&committer.commit(&two).await.unwrap()));
    let empty = combine(&committer, 3, Some(2), vec![]);
    assert!(is_published(&committer.commit(&empty).await.unwrap()));
    let four = table.committable(&committer, 4, Some(2)).await;
    assert!(is_published(&committer.commit(&four).await.unwrap()));
    let empty = combine(&committer, 5, Some(4), vec![]);
    assert!(is_published(&committer.commit(&empty).await.unwrap()));
    let mut restarted = table.committer(&run("user", 2)).await;
    let six = table.committable(&restarted, 6, Some(4)).await;
    assert!(is_published(&restarted.commit(&six).await.unwrap()));
    let checked = table.check().await;
    assert_eq!(checked.identifiers(), [1, 2, 3, 4, 5, 6]);
    assert_eq!(checked.orphans, Vec::<String>::new());
}

#[tokio::test]
async fn b59_clocks_that_go_backwards_never_show() {
    let table = Table::memory(&[]).await;
    let (mut clocks, mut environments) = (Vec::new(), Vec::new());
    for (name, clock) in [("x", 600_000), ("y", -600_000)] {
        let env = table.env(unique());
        env.set_clock(10_000_000 + clock);
        let run = run_of(name, name, 1);
        let open = PaimonCommitter::open_with(table.store.clone(), run, env.clone());
        clocks.push(open.await.unwrap());
        environments.push(env);
    }
    for n in 1..=5u64 {
        for committer in &mut clocks {
            let c = table
                .committable(committer, n, n.checked_sub(1).filter(|n| *n > 0))
                .await;
            assert!(is_published(&committer.commit(&c).await.unwrap()));
        }
    }
    // 4: the clock of one process jumps back by an hour between two of its commits.
    environments[0].set_clock(10_000_000 - 3_600_000);
    let c = table.committable(&clocks[0], 6, Some(5)).await;
    assert!(is_published(&clocks[0].commit(&c).await.unwrap()));
    // `check` compares each snapshot's clock with its parent's.
    assert_eq!(table.check().await.snapshots.len(), 11);
}

#[tokio::test]
async fn an_incomplete_committable_is_refused() {
    let table = Table::memory(&[]).await;
    let mut committer = table.committer(&run("user", 1)).await;
    let message = table.message(committer.run(), "a", 10).await;
    let context = context(committer.run(), 1, None);
    let partial = committer
        .combine_messages(&context, vec![message], 2, 1)
        .unwrap();
    assert!(matches!(
        committer.commit(&partial).await.unwrap(),
        Outcome::Refused(_)
    ));
    let _ = data_file("x", 1);
}

#[tokio::test]
async fn b61_a_committer_that_always_loses_gives_up_in_bounded_time_and_may_try_again() {
    let table = Table::memory(&[("commit.max-retries", "0")]).await;
    let mut slow = table.committer(&run("user", 1)).await;
    let mut rival = table.committer(&run_of("rival", "rival", 1)).await;
    let zero = table.committable(&slow, 1, None).await;
    assert!(is_published(&slow.commit(&zero).await.unwrap()));
    let theirs = table.committable(&rival, 1, None).await;
    let _ = rival.commit(&theirs).await;
    assert!(is_visible(&rival.commit(&theirs).await.unwrap()));
    let two = table.committable(&slow, 2, Some(1)).await;
    let error = slow.commit(&two).await.unwrap_err();
    assert!(!error.kind().is_final(), "{error}");
    assert_eq!(
        table.check().await.orphans.len(),
        1,
        "only the data file waits"
    );
    assert!(is_published(&slow.commit(&two).await.unwrap()));
    assert_eq!(table.check().await.orphans, Vec::<String>::new());
}

#[tokio::test]
async fn commit_timeout_ends_an_unanswered_publish_undecided() {
    let table = Table::memory(&[("commit.timeout", "50 ms")]).await;
    let (store, faults) = faulty(&table);
    let mut committer = table.committer_on(store.clone(), &run("user", 1)).await;
    let one = table.committable(&committer, 1, None).await;
    faults.rule(Rule::new(Fault::Late).on(Op::Create).path(PUBLISH).always());
    let before = store.metrics();
    let outcome = committer.commit(&one).await.unwrap();
    assert!(matches!(outcome, Outcome::Undecided(_)), "{outcome:?}");
    let tries = store.metrics().since(&before).of(Op::Create).requests;
    assert!(tries < 5, "{tries} tries in 50 ms");
    faults.heal();
    faults.release().await;
    assert!(is_visible(&committer.commit(&one).await.unwrap()));
    assert_eq!(table.check().await.identifiers(), [1]);
}
