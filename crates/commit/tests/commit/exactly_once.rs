//! Whatever dies, fails or is dropped: each commit is visible exactly once, and nothing is left.

use crate::common::{self, Table, combine, is_visible, poll_times, run, run_of};
use tidegate_commit::{clean, latest_snapshot};
use tidegate_model::{SnapshotId, layout};
use tidegate_sink::{Committer, Outcome};
use tidegate_storage::{ErrorKind, Fault, Faults, Op, Rule};

async fn after_a_death_at(table: &Table, fault: Fault, nth: u32) -> bool {
    let first = run("user", 1);
    let mut committer = table.committer(&first).await;
    let one = table.committable(&committer, 1, None).await;
    assert!(is_visible(&committer.commit(&one).await.unwrap()));
    let two = table.committable(&committer, 2, Some(1)).await;

    let faults = Faults::new();
    let store = table.store.clone().with_faults(faults.clone());
    let mut committer = table.committer_on(store, &first).await;
    faults.rule(Rule::new(fault).nth(nth));
    let outcome = committer.commit(&two).await;
    let died = faults.dead();
    drop(committer);
    if !died {
        assert!(is_visible(&outcome.unwrap()), "without a fault");
    }

    // The next run: restored work first, then its own, then the broom.
    let second = run("user", 2);
    let mut committer = table.committer(&second).await;
    let outcome = committer.commit(&two).await.unwrap();
    assert!(is_visible(&outcome), "death at request {nth}: {outcome:?}");
    let again = committer.commit(&two).await.unwrap();
    assert!(matches!(again, Outcome::AlreadyPublished(_)), "{again:?}");
    let three = table.committable(&committer, 3, Some(2)).await;
    assert!(is_visible(&committer.commit(&three).await.unwrap()));
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
    assert_eq!(seen.identifiers(), [1, 2, 3], "death at request {nth}");
    assert_eq!(seen.rows(), 30);
    assert_eq!(seen.orphans, Vec::<String>::new(), "death at request {nth}");
    died
}

async fn every_death(fault: Fault, memory: bool) {
    let mut deaths = 0;
    for nth in 1.. {
        let table = if memory {
            Table::memory(&[]).await
        } else {
            Table::file(&[]).await
        };
        if !after_a_death_at(&table, fault, nth).await {
            break;
        }
        deaths += 1;
    }
    assert!(deaths >= 7, "{deaths} requests could die");
}

#[tokio::test]
async fn a_death_before_any_request_is_recovered_from_in_memory() {
    every_death(Fault::DieBefore, true).await;
}

#[tokio::test]
async fn a_death_after_any_request_is_recovered_from_in_memory() {
    every_death(Fault::DieAfter, true).await;
}

#[tokio::test]
async fn a_death_before_any_request_is_recovered_from_on_disk() {
    every_death(Fault::DieBefore, false).await;
}

#[tokio::test]
async fn a_death_after_any_request_is_recovered_from_on_disk() {
    every_death(Fault::DieAfter, false).await;
}

async fn one_fault(fault: Fault, nth: u32) -> bool {
    let table = Table::memory(&[]).await;
    let first = run("user", 1);
    let mut committer = table.committer(&first).await;
    let one = table.committable(&committer, 1, None).await;
    assert!(is_visible(&committer.commit(&one).await.unwrap()));

    let faults = Faults::new();
    let store = table.store.clone().with_faults(faults.clone());
    let mut committer = table.committer_on(store, &first).await;
    let two = table.committable(&committer, 2, Some(1)).await;
    faults.rule(Rule::new(fault).nth(nth));
    let outcome = committer.commit(&two).await.unwrap();
    assert!(is_visible(&outcome), "fault at request {nth}: {outcome:?}");
    let seen = table.check().await;
    assert_eq!(seen.identifiers(), [1, 2], "fault at request {nth}");
    assert_eq!(
        seen.orphans,
        Vec::<String>::new(),
        "fault {fault:?} at request {nth}"
    );
    !faults.log().is_empty()
}

#[tokio::test]
async fn one_failing_request_of_any_kind_is_retried_and_leaves_nothing() {
    for fault in [Fault::Before(ErrorKind::Transient), Fault::After] {
        let mut struck = 0;
        for nth in 1.. {
            if !one_fault(fault, nth).await {
                break;
            }
            struck += 1;
        }
        assert!(struck >= 7, "{struck} requests could fail");
    }
}

#[tokio::test]
async fn a_commit_dropped_at_any_await_is_settled_by_the_next_call() {
    //
    let mut dropped = 0;
    for n in 1.. {
        let table = Table::memory(&[]).await;
        let first = run("user", 1);
        let faults = Faults::new();
        let store = table.store.clone().with_faults(faults.clone());
        let mut committer = table.committer_on(store, &first).await;
        let one = table.committable(&committer, 1, None).await;
        assert!(is_visible(&committer.commit(&one).await.unwrap()));
        let two = table.committable(&committer, 2, Some(1)).await;
        let three = table.committable(&committer, 3, Some(2)).await;
        faults.latency(common::TICK);
        let ended = poll_times(committer.commit(&two), n).await;
        faults.heal();
        if n % 2 == 0 {
            let outcome = committer.commit(&two).await.unwrap();
            assert!(is_visible(&outcome), "dropped after {n} polls: {outcome:?}");
        }
        // The caller may also come with the next one: the dropped one is settled first.
        let outcome = committer.commit(&three).await.unwrap();
        assert!(is_visible(&outcome), "dropped after {n} polls: {outcome:?}");
        let seen = table.check().await;
        assert_eq!(seen.identifiers(), [1, 2, 3], "dropped after {n} polls");
        assert_eq!(
            seen.orphans,
            Vec::<String>::new(),
            "dropped after {n} polls"
        );
        if ended.is_some() {
            break;
        }
        dropped += 1;
    }
    assert!(dropped >= 4, "{dropped} awaits");
}

/// The others go on, and expire what is older than their last two snapshots.
async fn the_table_moves_on(table: &Table) {
    let mut rival = table.committer(&run_of("rival", "rival", 1)).await;
    for n in 1..=5u64 {
        let theirs = table.committable(&rival, n, (n > 1).then(|| n - 1)).await;
        assert!(is_visible(&rival.commit(&theirs).await.unwrap()));
    }
    let newest = latest_snapshot(&table.store).await.unwrap().unwrap().id;
    for id in 1..=newest.0 - 2 {
        let path = layout::snapshot_path(SnapshotId(id));
        table.store.delete(&path).await.unwrap();
    }
}

/// [C-51a]: a committer that sleeps at any request while the others go on and expire what it
/// had built on: the store takes its snapshot below the retained history, where no reader gets. It is
/// never acknowledged there, LATEST never points there, and the rows land.
#[tokio::test]
async fn a_committer_that_sleeps_past_retention_at_any_await_commits_where_readers_see_it() {
    let mut slept = 0;
    let (mut moved, mut stale_hints) = (0, 0);
    for n in 1.. {
        let table = Table::memory(&[]).await;
        let faults = Faults::new();
        let store = table.store.clone().with_faults(faults.clone());
        let mut committer = table.committer_on(store, &run("user", 1)).await;
        let one = table.committable(&committer, 1, None).await;
        assert!(is_visible(&committer.commit(&one).await.unwrap()));
        let two = table.committable(&committer, 2, Some(1)).await;
        faults.latency(common::TICK);
        let mut commit = Box::pin(committer.commit(&two));
        let mut ended = poll_times(&mut commit, n).await;
        let was_over = ended.is_some();
        if !was_over {
            the_table_moves_on(&table).await;
            ended = Some(commit.as_mut().await);
        }
        drop(commit);
        let outcome = ended.unwrap().unwrap();
        assert!(is_visible(&outcome), "slept at poll {n}: {outcome:?}");
        let seen = table.check().await;
        let retained = seen.snapshots.first().unwrap().id.0;
        if was_over {
            break;
        }
        slept += 1;
        // Its ten rows are in the newest snapshot, beside those of the others: 1 and 5 commits.
        assert_eq!(seen.rows(), 70, "slept at poll {n}");
        let hint = table.store.get(layout::LATEST_PATH).await.unwrap();
        let hint: i64 = std::str::from_utf8(&hint).unwrap().parse().unwrap();
        stale_hints += u32::from(hint < retained);
        let newest = seen.snapshots.last().unwrap();
        moved += u32::from(newest.commit_user.as_str() == "user");
        // And the job goes on.
        let three = table.committable(&committer, 3, Some(2)).await;
        let outcome = committer.commit(&three).await.unwrap();
        assert!(
            is_visible(&outcome),
            "after a sleep at poll {n}: {outcome:?}"
        );
        assert_eq!(table.check().await.rows(), 80, "slept at poll {n}");
    }
    assert!(slept >= 6, "{slept} awaits");
    assert!(
        moved >= 3,
        "{moved} times it found its place above the others"
    );
    // Only where it slept in the write of the hint itself.
    assert!(stale_hints <= 1, "{stale_hints} stale hints");
}

#[tokio::test]
async fn a_lost_race_leaves_no_file_behind() {
    let table = Table::memory(&[]).await;
    let mut mine = table.committer(&run("mine", 1)).await;
    let rival = table.committer(&common::run_of("rival", "rival", 1)).await;
    let mut rival = rival;
    for n in 1..=4u64 {
        let theirs = table.committable(&rival, n, (n > 1).then(|| n - 1)).await;
        assert!(is_visible(&rival.commit(&theirs).await.unwrap()));
        let ours = table.committable(&mine, n, (n > 1).then(|| n - 1)).await;
        assert!(is_visible(&mine.commit(&ours).await.unwrap()));
    }
    let seen = table.check().await;
    assert_eq!(seen.snapshots.len(), 8);
    assert_eq!(seen.orphans, Vec::<String>::new());
}

#[tokio::test]
async fn a_publish_refused_for_good_cleans_up_its_own_attempt_only() {
    // B01, step 4
    let table = Table::memory(&[]).await;
    let first = run("user", 1);
    let faults = Faults::new();
    let store = table.store.clone().with_faults(faults.clone());
    let mut committer = table.committer_on(store, &first).await;
    let one = table.committable(&committer, 1, None).await;
    // The store said no, not the table: its own error comes back, and what it may be good for.
    for (kind, means) in [
        (
            ErrorKind::PermissionDenied,
            tidegate_sink::ErrorKind::Config,
        ),
        (ErrorKind::Full, tidegate_sink::ErrorKind::Exhausted),
    ] {
        faults.rule(
            Rule::new(Fault::Before(kind))
                .on(Op::Create)
                .path("snapshot-"),
        );
        let error = committer.commit(&one).await.unwrap_err();
        assert_eq!(error.kind(), means, "{error}");
        let seen = table.check().await;
        // The data file stays: the committable may be offered again.
        assert_eq!(seen.orphans.len(), 1, "{:?}", seen.orphans);
    }
    assert!(is_visible(&committer.commit(&one).await.unwrap()));
    assert_eq!(table.check().await.orphans, Vec::<String>::new());
}

#[tokio::test]
async fn an_empty_message_list_combines_to_an_empty_committable() {
    let table = Table::memory(&[]).await;
    let committer = table.committer(&run("user", 1)).await;
    let empty = combine(&committer, 1, None, vec![]);
    assert!(committer.is_empty(&empty).unwrap());
    let full = table.committable(&committer, 1, None).await;
    assert!(!committer.is_empty(&full).unwrap());
}
