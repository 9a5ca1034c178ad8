//! Reported problems of upkeep: what may be deleted, what a compaction removes, how metadata grows
//! (`B27` … in the names).

use tidegate_commit::{clean, committable, latest_snapshot, leftovers};
use tidegate_model::{CommitMessage, CompactIncrement, layout};
use tidegate_sink::{CleanReport, Committer, Outcome, Resolution, Saved, Standing};
use tidegate_storage::{ErrorKind, Fault, Op, Rule};

use crate::cases::{PUBLISH, faulty};
use crate::common::{Table, combine, context, is_published, is_visible, positions, run, run_of};
use crate::recovery::put_over;

#[tokio::test]
async fn b28_clean_up_keeps_what_a_pending_commit_or_a_tag_names() {
    let table = Table::memory(&[]).await;
    let first = run("user", 1);
    let mut committer = table.committer(&first).await;
    let one = table.committable(&committer, 1, None).await;
    assert!(is_published(&committer.commit(&one).await.unwrap()));
    let pending = table.committable(&committer, 2, Some(1)).await;
    let crashed: CommitMessage = table.message(&first, "a", 10).await;
    let crashed = table.path(
        &crashed.partition,
        crashed.bucket,
        &crashed.data.new_files[0].file_name,
    );
    // A tag holds snapshot 1, then the table goes on without it.
    let bytes = table
        .store
        .get(&layout::snapshot_path(tidegate_model::SnapshotId(1)))
        .await
        .unwrap();
    table
        .store
        .put(&layout::tag_path("keep"), bytes)
        .await
        .unwrap();

    let second = run("user", 2);
    let mut committer = table.committer(&second).await;
    // No snapshot of the own run yet: an earlier one may still publish.
    let report = clean(
        &table.store,
        &second,
        std::slice::from_ref(&first.prefix),
        std::slice::from_ref(&pending),
        true,
    )
    .await;
    assert_eq!(report.unwrap().removed, 0);
    let three = table.committable(&committer, 3, Some(1)).await;
    assert!(is_published(&committer.commit(&three).await.unwrap()));
    let report = clean(
        &table.store,
        &second,
        std::slice::from_ref(&first.prefix),
        std::slice::from_ref(&pending),
        true,
    )
    .await;
    assert_eq!(report.unwrap().removed, 1);
    assert_eq!(table.store.head(&crashed).await.unwrap(), None);
    let decoded = committable::decode(&pending).unwrap();
    let file = &decoded.java.messages[0].data.new_files[0].file_name;
    assert_eq!(
        table.check().await.orphans.len(),
        1,
        "{file} waits for its commit"
    );
}

/// [C-51] Snapshots expire while they are read: what they held is in use above (found by
/// simulation, seed 9096: a file that three snapshots needed was deleted).
#[tokio::test]
async fn an_expiry_under_the_clean_up_takes_no_file_with_it() {
    let table = Table::memory(&[]).await;
    let first = run("user", 1);
    let mut committer = table.committer(&first).await;
    let one = table.committable(&committer, 1, None).await;
    assert!(is_published(&committer.commit(&one).await.unwrap()));
    let expired = latest_snapshot(&table.store).await.unwrap().unwrap();
    let second = run("user", 2);
    let mut committer = table.committer(&second).await;
    for n in 2..=3u64 {
        let c = table.committable(&committer, n, Some(n - 1)).await;
        assert!(is_published(&committer.commit(&c).await.unwrap()));
    }
    // EARLIEST first, and the lists are gone already; the snapshot itself had been read before.
    table
        .store
        .put(layout::EARLIEST_PATH, "2".into())
        .await
        .unwrap();
    for list in [&expired.base_manifest_list, &expired.delta_manifest_list] {
        let path = layout::manifest_path(&list.name);
        table.store.delete(&path).await.unwrap();
    }
    let earlier = std::slice::from_ref(&first.prefix);
    let report = clean(&table.store, &second, earlier, &[], true).await;
    assert_eq!(report.unwrap().removed, 0);
    table.store.delete("snapshot/snapshot-1").await.unwrap();
    assert_eq!(table.check().await.live.len(), 3);
}

/// A snapshot of ours that somebody had built on was put over: its files are in what was
/// built on it, though no snapshot of ours names them any more (found by simulation, seed 1962).
#[tokio::test]
async fn clean_up_keeps_what_was_built_on_a_snapshot_that_was_put_over() {
    let table = Table::memory(&[]).await;
    let first = run("user", 1);
    let mut committer = table.committer(&first).await;
    for n in 1..=2u64 {
        let c = table.committable(&committer, n, (n > 1).then(|| n - 1));
        let c = c.await;
        assert!(is_published(&committer.commit(&c).await.unwrap()));
    }
    let built_on = table.store.get("snapshot/snapshot-2").await.unwrap();
    let mut other = table.committer(&run_of("other", "other", 1)).await;
    let c = table.committable(&other, 1, None).await;
    assert!(is_published(&other.commit(&c).await.unwrap()));
    let three = table.store.get("snapshot/snapshot-3").await.unwrap();
    table.store.delete("snapshot/snapshot-3").await.unwrap();
    put_over(&table, 2, "rival").await;
    table.store.put("snapshot/snapshot-3", three).await.unwrap();
    table
        .store
        .put(layout::LATEST_PATH, "3".into())
        .await
        .unwrap();
    assert_ne!(
        table.store.get("snapshot/snapshot-2").await.unwrap(),
        built_on
    );

    let second = run("user", 2);
    let mut committer = table.committer(&second).await;
    let four = table.committable(&committer, 4, None).await;
    // The positions that it replaces are nobody's any more: a person goes on.
    let outcome = committer.commit(&four).await.unwrap();
    assert!(is_published(&outcome), "{outcome:?}");
    let live = table.check().await.live;
    assert_eq!(live.len(), 4, "1, 2, the other's and 4");
    let earlier = std::slice::from_ref(&first.prefix);
    let report = clean(&table.store, &second, earlier, &[], true).await;
    assert_eq!(report.unwrap().removed, 2, "the lists of what was put over");
    assert_eq!(table.check().await.live, live);
}

/// A run without rows makes an empty snapshot of its own, which keeps an older run from publishing
/// what is then removed; the next commit still follows the last one that was not empty.
#[tokio::test]
async fn a_run_without_rows_takes_over_from_one_that_left_files_behind() {
    let table = Table::memory(&[]).await;
    let first = run("user", 1);
    let mut older = table.committer(&first).await;
    let one = table.committable(&older, 1, None).await;
    assert!(is_published(&older.commit(&one).await.unwrap()));
    // Prepared, and never recorded.
    let late = table.committable(&older, 2, Some(1)).await;

    let second = run("user", 2);
    let prefixes = std::slice::from_ref(&first.prefix);
    assert_eq!(
        leftovers(&table.store, &second, prefixes, &[])
            .await
            .unwrap(),
        1
    );
    let held = std::slice::from_ref(&late);
    assert_eq!(
        leftovers(&table.store, &second, prefixes, held)
            .await
            .unwrap(),
        0
    );
    let early = clean(&table.store, &second, prefixes, &[], true)
        .await
        .unwrap();
    assert_eq!(
        early,
        CleanReport {
            removed: 0,
            kept: 1
        },
        "its registration must stay"
    );

    let mut committer = table.committer(&second).await;
    let empty = combine(&committer, 2, Some(1), vec![]);
    assert!(is_published(&committer.take_over(&empty).await.unwrap()));
    // Offered again as after a crash.
    let mut again = table.committer(&second).await;
    assert!(is_visible(&again.take_over(&empty).await.unwrap()));
    let fenced = older.commit(&late).await.unwrap();
    assert!(matches!(fenced, Outcome::Fenced(_)), "{fenced:?}");
    let report = clean(&table.store, &second, prefixes, &[], true)
        .await
        .unwrap();
    assert_eq!(
        report,
        CleanReport {
            removed: 1,
            kept: 0
        }
    );
    assert_eq!(
        leftovers(&table.store, &second, prefixes, &[])
            .await
            .unwrap(),
        0
    );
    let three = table.committable(&committer, 3, Some(1)).await;
    assert!(is_published(&committer.commit(&three).await.unwrap()));
    let checked = table.check().await;
    assert_eq!(checked.orphans, Vec::<String>::new());
    assert_eq!(checked.identifiers(), [1, 2, 3]);
}

#[tokio::test]
async fn b27_a_failing_read_ends_the_clean_up_with_nothing_deleted() {
    let table = Table::memory(&[]).await;
    let first = run("user", 1);
    let mut committer = table.committer(&first).await;
    let one = table.committable(&committer, 1, None).await;
    assert!(is_published(&committer.commit(&one).await.unwrap()));
    table.message(&first, "a", 10).await;
    let second = run("user", 2);
    let mut committer = table.committer(&second).await;
    let two = table.committable(&committer, 2, Some(1)).await;
    assert!(is_published(&committer.commit(&two).await.unwrap()));
    let mut failed = 0;
    for nth in 1.. {
        let (store, faults) = faulty(&table);
        faults.rule(
            Rule::new(Fault::Before(ErrorKind::Transient))
                .on(Op::Get)
                .on(Op::List)
                .nth(nth),
        );
        let before = store.metrics();
        let result = clean(
            &store,
            &second,
            std::slice::from_ref(&first.prefix),
            &[],
            true,
        )
        .await;
        if faults.log().is_empty() {
            assert_eq!(result.unwrap().removed, 1);
            break;
        }
        failed += 1;
        assert!(result.is_err(), "request {nth}");
        assert_eq!(store.metrics().since(&before).deletes(), 0, "request {nth}");
    }
    assert!(failed >= 5, "{failed}");
    assert_eq!(table.check().await.orphans, Vec::<String>::new());
}

#[tokio::test]
async fn b30_where_a_tag_cannot_be_read_nothing_is_deleted() {
    let table = Table::memory(&[]).await;
    let first = run("user", 1);
    let mut committer = table.committer(&first).await;
    let one = table.committable(&committer, 1, None).await;
    assert!(is_published(&committer.commit(&one).await.unwrap()));
    table.message(&first, "a", 10).await; // left by a crash
    // The tag keeps what snapshot 1 holds: the file is compacted away, the snapshot expires.
    let bytes = table.store.get(&format!("{PUBLISH}1")).await.unwrap();
    table
        .store
        .put(&layout::tag_path("t1"), bytes)
        .await
        .unwrap();
    let mut message = committable::decode(&one).unwrap().java.messages[0].clone();
    message.data.deleted_files = std::mem::take(&mut message.data.new_files);
    let removed = message.data.deleted_files[0].file_name.clone();
    let removed = table.path(&message.partition, message.bucket, &removed);
    let second = run("user", 2);
    let mut committer = table.committer(&second).await;
    let two = combine(&committer, 2, Some(1), vec![message]);
    assert!(is_published(&committer.commit(&two).await.unwrap()));
    let three = table.committable(&committer, 3, Some(2)).await;
    assert!(is_published(&committer.commit(&three).await.unwrap()));
    for expired in [1, 2] {
        let path = format!("{PUBLISH}{expired}");
        table.store.delete(&path).await.unwrap();
    }

    let prefixes = std::slice::from_ref(&first.prefix);
    let tag = table.store.get(&layout::tag_path("t1")).await.unwrap();
    let snapshot = tidegate_format::tag::decode(&tag).unwrap().snapshot;
    let list = layout::manifest_path(&snapshot.delta_manifest_list.name);
    let of_tag = table.store.get(&list).await.unwrap();
    let manifest = tidegate_format::manifest_list::decode(&of_tag).unwrap();
    let manifest = layout::manifest_path(&manifest[0].file_name);
    for unreadable in [layout::tag_path("t1"), list, manifest] {
        let (store, faults) = faulty(&table);
        let rule = Rule::new(Fault::Before(ErrorKind::Transient)).on(Op::Get);
        faults.rule(rule.path(&unreadable).always());
        let before = store.metrics();
        let result = clean(&store, &second, prefixes, &[], true).await;
        assert!(result.is_err(), "{unreadable}: {result:?}");
        assert_eq!(store.metrics().since(&before).deletes(), 0, "{unreadable}");
    }
    // Without the fault only what nothing names goes.
    let report = clean(&table.store, &second, prefixes, &[], true).await;
    assert_eq!(report.unwrap().removed, 1);
    assert!(table.store.head(&removed).await.unwrap().is_some());
}

#[tokio::test]
async fn b35_1_a_compaction_removes_what_it_read_and_no_file_that_came_meanwhile() {
    let table = Table::memory(&[]).await;
    let mut committer = table.committer(&run("user", 1)).await;
    let mut read = Vec::new();
    for n in 1..=4u64 {
        let message = table.message(committer.run(), "a", 1).await;
        read.extend(message.data.new_files.clone());
        let c = combine(&committer, n, (n > 1).then(|| n - 1), vec![message]);
        assert!(is_published(&committer.commit(&c).await.unwrap()));
    }
    // It has read four files and waits before it publishes; one more row comes.
    let mut compactor = table.committer(&run_of("compact", "compactor", 1)).await;
    let mut message = table.message(compactor.run(), "a", 4).await;
    message.compact = CompactIncrement {
        compact_before: read,
        compact_after: std::mem::take(&mut message.data.new_files),
        ..Default::default()
    };
    let rewritten = message.compact.compact_after[0].file_name.clone();
    let compaction = combine(&compactor, 1, None, vec![message]);
    let insert = table.message(committer.run(), "a", 1).await;
    let inserted = insert.data.new_files[0].file_name.clone();
    let c = combine(&committer, 5, Some(4), vec![insert]);
    assert!(is_published(&committer.commit(&c).await.unwrap()));

    assert!(is_published(&compactor.commit(&compaction).await.unwrap()));
    let seen = table.check().await;
    let live: Vec<&str> = seen
        .live
        .iter()
        .filter_map(|p| p.rsplit('/').next())
        .collect();
    let mut expected = [rewritten.as_str(), inserted.as_str()];
    expected.sort_unstable();
    assert_eq!((live, seen.rows()), (expected.to_vec(), 5));
}

#[tokio::test]
async fn b67_2_metadata_levels_off_while_commits_of_one_row_go_on() {
    let table = Table::memory(&[]).await;
    let mut committer = table.committer(&run("user", 1)).await;
    let (mut most, mut listed) = (0, Vec::new());
    for n in 1..=150u64 {
        let message = table.message(committer.run(), "a", 1).await;
        let c = combine(&committer, n, (n > 1).then(|| n - 1), vec![message]);
        assert!(is_published(&committer.commit(&c).await.unwrap()));
        let snapshot = latest_snapshot(&table.store).await.unwrap().unwrap();
        let mut manifests = 0;
        for list in [&snapshot.base_manifest_list, &snapshot.delta_manifest_list] {
            let path = layout::manifest_path(&list.name);
            let bytes = table.store.get(&path).await.unwrap();
            manifests += tidegate_format::manifest_list::decode(&bytes)
                .unwrap()
                .len();
        }
        most = most.max(manifests);
        if n % 30 == 0 {
            listed.push(snapshot.base_manifest_list.size.unwrap());
        }
    }
    // Thirty small ones become one (`manifest.merge-min-count`), thirty of those one again.
    println!("at most {most} manifests, base lists of {listed:?} bytes");
    assert!(most <= 60, "{most} manifests after 150 commits");
    let (first, last) = (listed[0], listed[listed.len() - 1]);
    assert!(
        last <= first * 3,
        "bytes of the base list every 30 commits: {listed:?}"
    );
    // Old snapshots stay readable: `check` reads all of them.
    let seen = table.check().await;
    assert_eq!((seen.snapshots.len(), seen.rows()), (150, 150));
}

/// The note of an empty snapshot stands for the positions of the last commit with rows, once
/// both are expired.
#[tokio::test]
async fn the_note_of_a_take_over_stands_for_expired_snapshots() {
    for takes_over in [false, true] {
        let table = Table::memory(&[]).await;
        let first = run("user", 1);
        let mut older = table.committer(&first).await;
        let one = table.committable(&older, 1, None).await;
        assert!(is_published(&older.commit(&one).await.unwrap()));
        older.leave_note().await.unwrap();
        let mut second = table.committer(&run("user", 2)).await;
        let outcome = match takes_over {
            true => {
                let empty = combine(&second, 2, Some(1), vec![]);
                second.take_over(&empty).await.unwrap()
            }
            false => {
                let two = table.committable(&second, 2, Some(1)).await;
                second.commit(&two).await.unwrap()
            }
        };
        let Outcome::Published(newest) = outcome else {
            panic!("{outcome:?}")
        };
        second.leave_note().await.unwrap();
        let last = if takes_over { 1 } else { 2 };
        // Recorded by a run that was killed before it had published.
        let third = table.committer(&run("user", 3)).await;
        let three = table.committable(&third, 3, Some(last)).await;
        // Another one goes on, and what is older expires.
        let mut other = table.committer(&run_of("other", "someone", 1)).await;
        let theirs = table.committable(&other, 1, None).await;
        assert!(is_published(&other.commit(&theirs).await.unwrap()));
        for id in 1..=2 {
            table.store.delete(&format!("{PUBLISH}{id}")).await.unwrap();
        }
        let mut fourth = table.committer(&run("user", 4)).await;
        let saved = Saved {
            committables: vec![three.clone()],
            newest_published: Some(newest),
            positions: Some(positions(last)),
        };
        let standing = fourth.standing(&saved).await.unwrap();
        assert!(
            matches!(standing, Standing::Equal),
            "{takes_over}: {standing:?}"
        );
        let history = fourth.history().await.unwrap();
        assert_eq!(history.positions, Some(positions(last)), "{takes_over}");
        let outcome = fourth.commit(&three).await.unwrap();
        assert!(is_published(&outcome), "{takes_over}: {outcome:?}");
    }
}

/// A side object of the own run's next commit, written while the clean-up lists, is of no earlier
/// run; and those of an earlier run stay while a snapshot names them, and go with it.
#[tokio::test]
async fn clean_up_leaves_the_side_objects_of_a_commit_under_way() {
    let table = Table::memory(&[]).await;
    let first = run("user", 1);
    let with_finished = |run: &_, checkpoint, replaces: Option<u64>, text: &str| {
        let mut context = context(run, checkpoint, replaces);
        context.positions.as_mut().unwrap().finished = text.into();
        context
    };
    let mut older = table.committer(&first).await;
    let message = table.message(&first, "a", 10).await;
    let one = with_finished(&first, 1, None, "one");
    let one = older.combine_messages(&one, vec![message], 1, 1).unwrap();
    assert!(is_published(&older.commit(&one).await.unwrap()));
    let second = run("user", 2);
    let (store, faults) = faulty(&table);
    let mut committer = table.committer_on(store, &second).await;
    let message = table.message(&second, "a", 10).await;
    let mut two = with_finished(&second, 2, Some(1), "two");
    two.replaces.as_mut().unwrap().finished = "one".into();
    let two = committer
        .combine_messages(&two, vec![message], 1, 1)
        .unwrap();
    assert!(is_published(&committer.commit(&two).await.unwrap()));
    // The clean-up gathered what is pending, which is nothing; the next commit is written meanwhile.
    let message = table.message(&second, "a", 10).await;
    let mut three = with_finished(&second, 3, Some(2), "three");
    three.replaces.as_mut().unwrap().finished = "two".into();
    let three = committer
        .combine_messages(&three, vec![message], 1, 1)
        .unwrap();
    faults.rule(
        Rule::new(Fault::Before(ErrorKind::Transient))
            .on(Op::Create)
            .path("snapshot/snapshot-")
            .always(),
    );
    let waits = committer.commit(&three).await;
    assert!(!waits.as_ref().is_ok_and(is_published), "{waits:?}");
    let prefixes = std::slice::from_ref(&first.prefix);
    let report = clean(&table.store, &second, prefixes, &[], true)
        .await
        .unwrap();
    assert_eq!(
        report.removed, 0,
        "snapshot 1 names the side object of the first run"
    );
    faults.heal();
    assert!(is_visible(&committer.commit(&three).await.unwrap()));
    let third = run("user", 3);
    let mut committer = table.committer(&third).await;
    let found = committer.history().await.unwrap().positions.unwrap();
    assert_eq!(found.finished, b"three");
    // Once its snapshot is expired, it goes.
    table.store.delete(&format!("{PUBLISH}1")).await.unwrap();
    let message = table.message(&third, "a", 10).await;
    let mut four = with_finished(&third, 4, Some(3), "four");
    four.replaces.as_mut().unwrap().finished = "three".into();
    let four = committer
        .combine_messages(&four, vec![message], 1, 1)
        .unwrap();
    assert!(is_published(&committer.commit(&four).await.unwrap()));
    // By then nobody need know of the first run any more.
    let known = std::slice::from_ref(&second.prefix);
    let report = clean(&table.store, &third, known, &[], true).await.unwrap();
    assert!(report.removed >= 1, "{report:?}");
    let side = layout::job_dir(&third.job);
    let names = table.store.list_names(&side).await.unwrap();
    let of_first = |name: &str| layout::side_object_epoch(name) == Some(first.epoch);
    assert!(
        !names.iter().any(|entry| of_first(&entry.name)),
        "{names:?}"
    );
}

/// An empty commit that a restore passed over becomes visible afterwards: it brings no rows,
/// so the starts after that go on.
#[tokio::test]
async fn a_take_over_that_comes_late_stops_nobody() {
    let table = Table::memory(&[]).await;
    let mut older = table.committer(&run("user", 1)).await;
    let one = table.committable(&older, 1, None).await;
    let Outcome::Published(newest) = older.commit(&one).await.unwrap() else {
        panic!()
    };
    // Record 2 of a run without rows; another start restores it.
    let mut second = table.committer(&run("user", 2)).await;
    let two = combine(&second, 2, Some(1), vec![]);
    assert_eq!(second.commit(&two).await.unwrap(), Outcome::Empty);
    let saved = Saved {
        committables: vec![two.clone()],
        newest_published: Some(newest.clone()),
        positions: Some(positions(1)),
    };
    let mut third = table.committer(&run("user", 3)).await;
    assert!(matches!(
        third.standing(&saved).await.unwrap(),
        Standing::Equal
    ));
    assert_eq!(third.commit(&two).await.unwrap(), Outcome::Empty);
    // Now the first of the two takes over, and the other one publishes what its record 3 holds.
    assert!(is_published(&second.take_over(&two).await.unwrap()));
    let three = table.committable(&third, 3, Some(1)).await;
    assert!(is_published(&third.commit(&three).await.unwrap()));
    let saved = Saved {
        committables: vec![three],
        newest_published: Some(newest),
        positions: Some(positions(3)),
    };
    let mut fourth = table.committer(&run("user", 4)).await;
    let standing = fourth.standing(&saved).await.unwrap();
    assert!(
        matches!(standing, Standing::AheadByPrefix(_)),
        "{standing:?}"
    );
}

/// However many take-overs come, the positions of the last commit with rows are found.
#[tokio::test]
async fn take_overs_do_not_hide_the_positions() {
    let table = Table::memory(&[]).await;
    let mut committer = table.committer(&run("user", 1)).await;
    let one = table.committable(&committer, 1, None).await;
    assert!(is_published(&committer.commit(&one).await.unwrap()));
    committer.leave_note().await.unwrap();
    for n in 2..=3 {
        let mut committer = table.committer(&run("user", n)).await;
        let empty = combine(&committer, n, Some(1), vec![]);
        let Outcome::Published(newest) = committer.take_over(&empty).await.unwrap() else {
            panic!()
        };
        committer.leave_note().await.unwrap();
        let mut looking = table.committer(&run("user", 9)).await;
        let found = looking.history().await.unwrap().positions;
        assert_eq!(found, Some(positions(1)), "after take-over {n}");
        let saved = Saved {
            committables: vec![],
            newest_published: Some(newest),
            positions: Some(positions(1)),
        };
        let plan = looking
            .resolve(&saved, Resolution::ContinueFromTable, true)
            .await;
        assert_eq!(
            plan.unwrap().positions,
            Some(positions(1)),
            "after take-over {n}"
        );
    }
}
