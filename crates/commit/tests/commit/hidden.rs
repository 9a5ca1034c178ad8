//! What a restart must not take for published: half a commit, and a snapshot that no reader ever saw.

use tidegate_commit::clean;
use tidegate_format::snapshot;
use tidegate_model::{CompactIncrement, Snapshot, SnapshotId, layout};
use tidegate_sink::{Committer, Outcome, Positions, Saved, Standing, Version};
use tidegate_storage::{Fault, Faults, Op, Rule};

use crate::common::{Table, combine, is_published, positions, run, run_of};
use crate::recovery::put_over;

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

/// Without a checkpoint, and with no commit of the job in sight, a job that has run before goes on as new
/// only where nothing can hide one: not where history has expired or a snapshot was put over, unless what the
/// table was when the job was first registered still stands below an unbroken chain (found by simulation, seeds
/// 19559, 24450, 27880, 34261: rows twice).
#[tokio::test]
async fn r_7_what_may_hide_commits_of_a_job_is_told() {
    let hidden = async |table: &Table, begun_on: Option<Version>| {
        let mut next = table.committer(&run("user", 2)).await;
        let history = next.history().await.unwrap();
        assert_eq!(history.newest, None, "nothing of the job is in sight");
        next.hidden(begun_on.as_ref()).await.unwrap()
    };
    let tip = async |table: &Table| {
        table
            .committer(&run("user", 1))
            .await
            .history()
            .await
            .unwrap()
            .tip
    };
    let commit = async |table: &Table, user: &str, n: u64| {
        let run = run_of(if user == "user" { "job" } else { user }, user, 1);
        let mut committer = table.committer(&run).await;
        let c = table
            .committable(&committer, n, (n > 1).then(|| n - 1))
            .await;
        assert!(is_published(&committer.commit(&c).await.unwrap()));
    };
    let expire = async |table: &Table, id: i64| {
        let path = layout::snapshot_path(SnapshotId(id));
        table.store.delete(&path).await.unwrap();
        let first = (id + 1).to_string();
        let put = table.store.put(layout::EARLIEST_PATH, first.into()).await;
        put.unwrap();
    };

    // All of it is seen, and nothing of the job is there.
    let table = Table::memory(&[]).await;
    assert_eq!(tip(&table).await, None);
    assert_eq!(hidden(&table, None).await, None);
    commit(&table, "rival", 1).await;
    commit(&table, "rival", 2).await;
    assert_eq!(hidden(&table, None).await, None);

    // Expired: only where the job began above that it is all the same.
    let begun_on = tip(&table).await;
    assert_eq!(begun_on.as_ref().map(|tip| tip.number), Some(2));
    commit(&table, "rival", 3).await;
    expire(&table, 1).await;
    let why = hidden(&table, None).await.unwrap();
    assert!(why.contains("below 2 are expired"), "{why}");
    assert_eq!(hidden(&table, begun_on.clone()).await, None);
    let another = begun_on.clone().map(|v| Version {
        token: "another".into(),
        ..v
    });
    assert!(
        hidden(&table, another).await.is_some(),
        "it was rolled back since"
    );
    expire(&table, 2).await;
    assert!(hidden(&table, begun_on).await.is_some(), "expired as well");

    // Ours, what was built on it, and the one before it put over by somebody else.
    for foreign in [false, true] {
        let table = Table::memory(&[]).await;
        commit(&table, "user", 1).await;
        commit(&table, "rival", 1).await;
        let two = table.store.get("snapshot/snapshot-2").await.unwrap();
        table.store.delete("snapshot/snapshot-2").await.unwrap();
        put_over(&table, 1, "other").await;
        table.store.put("snapshot/snapshot-2", two).await.unwrap();
        let latest = table.store.put(layout::LATEST_PATH, "2".into()).await;
        latest.unwrap();
        if foreign {
            without_marks(&table, 2, |s| s.properties.clear()).await;
        }
        let why = hidden(&table, None).await.unwrap();
        let part = if foreign {
            "a file of this job"
        } else {
            "was not built on the one"
        };
        assert!(why.contains(part), "{why}");
    }
}
