//! What a restart must not take for published: half a commit, and a snapshot that no reader ever saw.

use tidegate_commit::clean;
use tidegate_format::snapshot;
use tidegate_model::{CompactIncrement, Snapshot, SnapshotId, layout};
use tidegate_sink::{Committer, Outcome, Positions, Saved, Standing};
use tidegate_storage::{Fault, Faults, Op, Rule};

use crate::common::{Table, combine, is_published, positions, run, run_of};

/// Killed between the halves of a commit: it is not done, and the next run, which commits what
/// is not done, publishes the COMPACT half.
#[tokio::test]
async fn a_commit_that_was_killed_between_its_halves_is_completed_by_the_next_run() {
    let table = Table::memory(&[]).await;
    let faults = Faults::new();
    let store = table.store.clone().with_faults(faults.clone());
    let mut committer = table.committer_on(store, &run("user", 1)).await;
    let mut message = table.message(committer.run(), "a", 10).await;
    let rewritten = table.message(committer.run(), "a", 10).await;
    message.compact = CompactIncrement {
        compact_before: message.data.new_files.clone(),
        compact_after: rewritten.data.new_files.clone(),
        ..Default::default()
    };
    let c = combine(&committer, 1, None, vec![message]);
    faults.rule(Rule::new(Fault::DieAfter).on(Op::Create).path("snapshot-1"));
    let _ = committer.commit(&c).await;
    let saved = Saved {
        committables: vec![c],
        newest_published: None,
        positions: Some(positions(1)),
    };
    let mut next = table.committer(&run("user", 2)).await;
    let standing = next.standing(&saved).await.unwrap();
    assert_eq!(standing, Standing::AheadByPrefix(vec![]));
    let outcome = next.commit(&saved.committables[0]).await.unwrap();
    let Outcome::Published(published) = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!(published.version, 2);
    let standing = next.standing(&saved).await.unwrap();
    assert_eq!(standing, Standing::AheadByPrefix(vec![published]));
    let seen = table.check().await;
    assert_eq!(seen.identifiers(), [1, 1]);
    assert_eq!((seen.rows(), seen.live.len()), (10, 1));
}

/// Snapshot `id` as somebody writes it who has no properties and no uuid of the one below.
async fn without_marks(table: &Table, id: i64, change: impl FnOnce(&mut Snapshot)) {
    let path = layout::snapshot_path(SnapshotId(id));
    let mut read = snapshot::decode(&table.store.get(&path).await.unwrap()).unwrap();
    change(&mut read);
    let path = layout::snapshot_path(read.id);
    let written = table.store.put(&path, snapshot::encode(&read).into());
    written.await.unwrap();
}

/// [C-51a] A run slept while others went on and expired what it had built on, and was killed right after its
/// late create: the snapshot lies below the retained history, and the one above, a foreign one, does not say
/// what it was built on. The EARLIEST hint does (found by simulation, seed 6728: the rows were lost).
#[tokio::test]
async fn a_snapshot_buried_below_a_foreign_one_is_no_commit() {
    let table = Table::memory(&[]).await;
    let mut rival = table.committer(&run_of("rival", "rival", 1)).await;
    for n in 1..=3 {
        let theirs = table.committable(&rival, n, (n > 1).then(|| n - 1)).await;
        assert!(is_published(&rival.commit(&theirs).await.unwrap()));
    }
    without_marks(&table, 3, |s| {
        s.properties.clear();
        s.uuid = None;
    })
    .await;
    let mut slept = table.committer(&run("user", 1)).await;
    let ours = table.committable(&slept, 1, None).await;
    assert!(is_published(&slept.commit(&ours).await.unwrap()));
    // As if it had been created as the second one.
    for id in [1, 2] {
        let path = layout::snapshot_path(SnapshotId(id));
        table.store.delete(&path).await.unwrap();
    }
    without_marks(&table, 4, |s| s.id = SnapshotId(2)).await;
    let path = layout::snapshot_path(SnapshotId(4));
    table.store.delete(&path).await.unwrap();
    for (hint, id) in [(layout::LATEST_PATH, "3"), (layout::EARLIEST_PATH, "3")] {
        table.store.put(hint, id.into()).await.unwrap();
    }
    let saved = Saved {
        committables: vec![ours.clone()],
        newest_published: None,
        positions: Some(Positions::default()),
    };
    let mut next = table.committer(&run("user", 2)).await;
    let standing = next.standing(&saved).await.unwrap();
    assert_eq!(standing, Standing::Equal);
    // Neither does an attempt take it for its own.
    let outcome = next.commit(&ours).await.unwrap();
    let Outcome::Published(published) = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!(published.version, 4);
}

/// Commits of which only the files tell, since others expired their snapshots: the note that is
/// left for them speaks of the newest one, and no older one hides it (found by simulation, seeds 1836, 4423).
#[tokio::test]
async fn a_commit_known_by_its_files_leaves_no_note_in_the_place_of_a_newer_one() {
    for noted in [true, false] {
        let table = Table::memory(&[]).await;
        let mut first = table.committer(&run("user", 1)).await;
        let mut made = Vec::new();
        for n in 1..=3 {
            let c = table.committable(&first, n, (n > 1).then(|| n - 1)).await;
            assert!(is_published(&first.commit(&c).await.unwrap()));
            made.push(c);
        }
        if noted {
            first.leave_note().await.unwrap();
        }
        let mut rival = table.committer(&run_of("rival", "rival", 1)).await;
        let theirs = table.committable(&rival, 1, None).await;
        assert!(is_published(&rival.commit(&theirs).await.unwrap()));
        // Without a note the newest one is retained.
        for id in 1..=(if noted { 3 } else { 2 }) {
            let path = layout::snapshot_path(SnapshotId(id));
            table.store.delete(&path).await.unwrap();
        }
        let mut next = table.committer(&run("user", 2)).await;
        for c in &made[..2] {
            let outcome = next.commit(c).await.unwrap();
            assert!(
                matches!(outcome, Outcome::AlreadyPublished(_)),
                "{outcome:?}"
            );
        }
        let history = next.history().await.unwrap();
        assert_eq!(history.newest.unwrap().identifier.0, 3);
        assert_eq!(history.positions, Some(positions(3)));
    }
}

/// The newest commit that the checkpoint knows stood right below what is retained, and the note is
/// an older one: what the checkpoint holds was judged not to be published, and so it is published (found by
/// simulation, seed 11968: it was refused for ever, with no way out).
#[tokio::test]
async fn a_checkpoint_stands_for_the_expired_commit_that_it_knows() {
    let table = Table::memory(&[]).await;
    let mut first = table.committer(&run("user", 1)).await;
    let mut newest = None;
    for n in 1..=2 {
        let c = table.committable(&first, n, (n > 1).then(|| n - 1)).await;
        let Outcome::Published(published) = first.commit(&c).await.unwrap() else {
            panic!()
        };
        newest = Some(published);
        if n == 1 {
            first.leave_note().await.unwrap();
        }
    }
    let third = table.committable(&first, 3, Some(2)).await;
    let mut rival = table.committer(&run_of("rival", "rival", 1)).await;
    let theirs = table.committable(&rival, 1, None).await;
    assert!(is_published(&rival.commit(&theirs).await.unwrap()));
    for id in 1..=2 {
        let path = layout::snapshot_path(SnapshotId(id));
        table.store.delete(&path).await.unwrap();
    }
    let saved = Saved {
        committables: vec![third.clone()],
        newest_published: newest,
        positions: Some(positions(3)),
    };
    let mut next = table.committer(&run("user", 2)).await;
    assert_eq!(next.standing(&saved).await.unwrap(), Standing::Equal);
    let outcome = next.commit(&third).await.unwrap();
    assert!(is_published(&outcome), "{outcome:?}");
}

/// [C-51a] A snapshot that was created late below expired history, whose manifests are gone, holds back
/// no clean-up (found by simulation, seed 16467); one at which readers may still begin does.
#[tokio::test]
async fn an_unreadable_snapshot_below_expired_history_holds_back_no_clean_up() {
    for buried in [true, false] {
        let table = Table::memory(&[]).await;
        let mut rival = table.committer(&run_of("rival", "rival", 1)).await;
        for n in 1..=3 {
            let theirs = table.committable(&rival, n, (n > 1).then(|| n - 1)).await;
            assert!(is_published(&rival.commit(&theirs).await.unwrap()));
        }
        let crashed = run("user", 1);
        table.message(&crashed, "a", 10).await;
        let mut next = table.committer(&run("user", 2)).await;
        let c = table.committable(&next, 1, None).await;
        assert!(is_published(&next.commit(&c).await.unwrap()));
        let earliest = if buried { "3" } else { "1" };
        let hint = table.store.put(layout::EARLIEST_PATH, earliest.into());
        hint.await.unwrap();
        let path = layout::snapshot_path(SnapshotId(2));
        table.store.delete(&path).await.unwrap();
        without_marks(&table, 1, |s| s.base_manifest_list.name = "gone".into()).await;
        let own = run("user", 2);
        let earlier = [crashed.prefix];
        let cleaned = clean(&table.store, &own, &earlier, &[], true).await;
        match buried {
            true => assert_eq!(cleaned.unwrap().removed, 1),
            false => assert!(cleaned.is_err()),
        }
    }
}
