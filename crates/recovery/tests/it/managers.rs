//! What settles a checkpoint, and why fixed buckets need more than publishing.

use tidegate_recovery::{RestoreAndFail, RestoreOnly};
use tidegate_sink::*;

use crate::simulated::{SimCommitter, SimTable, SimWriter, context};

/// A checkpoint that was completed with these rows, and then the process died before its commit.
async fn crashed_before_commit(table: &SimTable, id: u64, rows: &[u8]) -> Saved {
    let mut writer = table.open_writer();
    let committable = prepare(table, &mut writer, id, rows).await;
    Saved {
        committables: vec![committable],
        newest_published: None,
        positions: None,
    }
}

async fn prepare(table: &SimTable, writer: &mut SimWriter, id: u64, rows: &[u8]) -> Committable {
    writer.write(Rows::inserts(rows.to_vec())).await.unwrap();
    let messages = writer.prepare().await.unwrap();
    SimCommitter::new(table)
        .combine(&context(id), messages, 1, 1)
        .unwrap()
}

enum Manager {
    Only,
    AndFail,
}

/// An engine that opens writers before recovery, as Flink does, and obeys the manager's answer.
async fn writers_first(table: &SimTable, saved: &Saved, manager: Manager) -> u32 {
    let mut restarts = 0;
    loop {
        let mut writer = table.open_writer();
        let mut committer = SimCommitter::new(table);
        let restored = match manager {
            Manager::Only => RestoreOnly::new(&mut committer)
                .restore(saved)
                .await
                .unwrap(),
            Manager::AndFail => RestoreAndFail::new(&mut committer)
                .restore(saved)
                .await
                .unwrap(),
        };
        match restored {
            Restored::Continue { .. } => {
                let next = prepare(table, &mut writer, 9, &[0, 1]).await;
                let outcome = committer.commit(&next).await.unwrap();
                assert!(matches!(outcome, Outcome::Published(_)));
                return restarts;
            }
            Restored::RestartRequired { .. } => restarts += 1,
            other => panic!("{other:?}"),
        }
    }
}

/// The stale view, shown: without the deliberate restart ranges of a bucket overlap.
#[tokio::test]
async fn fixed_buckets_need_restore_and_fail_where_writers_open_first() {
    let table = SimTable::default();
    let saved = crashed_before_commit(&table, 1, &[0, 0, 1]).await;
    assert_eq!(writers_first(&table, &saved, Manager::Only).await, 0);
    assert_eq!(
        table.overlapping(),
        [(0, 1), (1, 1)],
        "the fault this manager exists for"
    );

    let table = SimTable::default();
    let saved = crashed_before_commit(&table, 1, &[0, 0, 1]).await;
    assert_eq!(
        writers_first(&table, &saved, Manager::AndFail).await,
        1,
        "once, and only once"
    );
    assert_eq!(table.overlapping(), []);
    assert_eq!(table.identifiers(), [1, 9]);
}

#[tokio::test]
async fn publishing_before_writers_open_makes_the_deliberate_restart_unnecessary() {
    let table = SimTable::default();
    let saved = crashed_before_commit(&table, 1, &[0, 0, 1]).await;
    let mut committer = SimCommitter::new(&table);
    let restored = RestoreOnly::new(&mut committer)
        .restore(&saved)
        .await
        .unwrap();
    assert!(matches!(restored, Restored::Continue { .. }));
    let mut writer = table.open_writer();
    let next = prepare(&table, &mut writer, 2, &[0, 1]).await;
    assert!(matches!(
        committer.commit(&next).await.unwrap(),
        Outcome::Published(_)
    ));
    assert_eq!(table.overlapping(), []);
}

/// equal, and ahead by a prefix: what is there is skipped, the rest follows in order.
#[tokio::test]
async fn r_7_a_published_prefix_is_skipped_and_the_rest_published_in_order() {
    let table = SimTable::default();
    let mut writer = table.open_writer();
    let mut committables = Vec::new();
    for id in 1..=3 {
        committables.push(prepare(&table, &mut writer, id, &[0]).await);
    }
    let mut committer = SimCommitter::new(&table);
    let first = committer.commit(&committables[0]).await.unwrap();
    assert!(matches!(first, Outcome::Published(_)));
    let saved = Saved {
        committables,
        newest_published: None,
        positions: None,
    };
    for round in 0..2 {
        let restored = RestoreOnly::new(&mut committer)
            .restore(&saved)
            .await
            .unwrap();
        let Restored::Continue { published, skipped } = restored else {
            panic!()
        };
        let counts = (published.len(), skipped.len());
        assert_eq!(
            counts,
            if round == 0 { (2, 1) } else { (0, 3) },
            "idempotent"
        );
    }
    assert_eq!(table.identifiers(), [1, 2, 3]);
}

/// anything else publishes nothing.
#[tokio::test]
async fn r_7_a_mismatch_publishes_nothing() {
    let table = SimTable::default();
    let saved = crashed_before_commit(&table, 1, &[0]).await;
    let mismatch = Mismatch::Unknown {
        why: "its snapshot expired".into(),
    };
    let mut committer = SimCommitter::new(&table);
    committer.standing = Some(Standing::Mismatch(mismatch.clone()));
    let restored = RestoreAndFail::new(&mut committer)
        .restore(&saved)
        .await
        .unwrap();
    assert_eq!(restored, Restored::Mismatch(mismatch));
    assert!(table.identifiers().is_empty());
}

/// same identifier, other content: stop, never skip; what follows is not tried.
#[tokio::test]
async fn r_5_a_committable_of_other_content_fences_and_stops() {
    let table = SimTable::default();
    let rival = crashed_before_commit(&table, 1, &[7]).await;
    let mut writer = table.open_writer();
    let committables = vec![
        prepare(&table, &mut writer, 1, &[0]).await,
        prepare(&table, &mut writer, 2, &[0]).await,
    ];
    let saved = Saved {
        committables,
        newest_published: None,
        positions: None,
    };
    let mut committer = SimCommitter::new(&table);
    committer.standing = Some(Standing::Equal);
    let _ = committer.commit(&rival.committables[0]).await.unwrap();
    let restored = RestoreOnly::new(&mut committer)
        .restore(&saved)
        .await
        .unwrap();
    assert!(
        matches!(restored, Restored::Stopped(Outcome::Fenced(_))),
        "{restored:?}"
    );
    assert_eq!(table.identifiers(), [1]);
}

/// Incomplete counts are never published: the reports that are missing would be lost.
#[tokio::test]
async fn an_incomplete_committable_is_refused() {
    let table = SimTable::default();
    let mut saved = crashed_before_commit(&table, 1, &[0]).await;
    saved.committables[0].expected = 2;
    let mut committer = SimCommitter::new(&table);
    let error = RestoreOnly::new(&mut committer)
        .restore(&saved)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(table.identifiers().is_empty());
}

/// A fault of the network is an error that a restart repeats, not a verdict.
#[tokio::test]
async fn a_failing_store_leaves_everything_for_the_next_try() {
    let table = SimTable::default();
    let saved = crashed_before_commit(&table, 1, &[0]).await;
    let mut committer = SimCommitter::new(&table);
    committer.failing = 1;
    let error = RestoreOnly::new(&mut committer)
        .restore(&saved)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Transient);
    let restored = RestoreOnly::new(&mut committer)
        .restore(&saved)
        .await
        .unwrap();
    assert!(matches!(restored, Restored::Continue { .. }));
    assert_eq!(table.identifiers(), [1]);
}
