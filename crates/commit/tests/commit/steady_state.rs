//! What a commit costs, and what it writes.

use tidegate_commit::{LiveView, PaimonCommitter, committable};
use tidegate_format::manifest_list;
use tidegate_model::{BucketId, CompactIncrement, DataIncrement, SchemaId, SnapshotId, layout};
use tidegate_sink::{Committer, Outcome};
use tidegate_storage::{MetricsSnapshot, Op};

use crate::common::{Table, combine, data_file, is_published, is_visible, run, run_of};

/// Requests by kind, those that were not made left out.
fn by_kind(cost: &MetricsSnapshot) -> Vec<(Op, u64)> {
    cost.iter()
        .map(|(op, counts)| (op, counts.requests))
        .collect()
}

#[tokio::test]
async fn a_commit_takes_exactly_five_writes_and_two_reads() {
    for table in [Table::memory(&[]).await, Table::file(&[]).await] {
        let mut committer = table.committer(&run("user", 1)).await;
        for n in 1..=20u64 {
            let before_it = n.checked_sub(1).filter(|n| *n > 0);
            let c = table.committable(&committer, n, before_it).await;
            let before = table.store.metrics();
            assert!(is_published(&committer.commit(&c).await.unwrap()));
            let cost = committer.store().metrics().since(&before);
            if n == 1 {
                // A table without snapshots shows that only by listing, before and after.
                assert_eq!(
                    (cost.writes(), cost.lists()),
                    (5, 2),
                    "{:?}",
                    by_kind(&cost)
                );
                continue;
            }
            // Delta manifest, two lists, hint; the snapshot; the base before and after.
            let wanted = [(Op::Get, 2), (Op::Put, 4), (Op::Create, 1)];
            let mut made = by_kind(&cost);
            made.sort_unstable_by_key(|(op, _)| wanted.iter().position(|(w, _)| w == op));
            assert_eq!(made, wanted, "commit {n}");
        }
    }
}

#[tokio::test]
async fn a_commit_that_merges_manifests_reads_them_and_writes_one_more() {
    let table = Table::memory(&[("manifest.merge-min-count", "5")]).await;
    let mut committer = table.committer(&run("user", 1)).await;
    let mut merges = 0;
    for n in 1..=40u64 {
        let before_it = n.checked_sub(1).filter(|n| *n > 0);
        let c = table.committable(&committer, n, before_it).await;
        let before = table.store.metrics();
        assert!(is_published(&committer.commit(&c).await.unwrap()));
        let cost = committer.store().metrics().since(&before);
        if n == 1 || cost.writes() == 5 {
            assert!(
                n == 1 || cost.reads() == 2,
                "commit {n}: {:?}",
                by_kind(&cost)
            );
            continue;
        }
        merges += 1;
        assert_eq!(cost.writes(), 6, "commit {n}: {:?}", by_kind(&cost));
        // The inputs: five of one tier, or five and what stands behind them.
        let inputs = cost.reads() - 2;
        assert!((5..=9).contains(&inputs), "commit {n}: {inputs} inputs");
        assert_eq!((cost.lists(), cost.deletes()), (0, 0), "commit {n}");
    }
    // At 6, 11, 16, 21, 26, 31, 36, and one of the five that these made.
    assert_eq!(merges, 8);
    table.check().await;
}

#[tokio::test]
async fn a_newer_schema_is_noticed_within_a_minute_and_at_once_where_others_commit() {
    // [C-39]
    let table = Table::memory(&[]).await;
    let env = table.env(1);
    let own = run("user", 1);
    let mut committer = PaimonCommitter::open_with(table.store.clone(), own, env.clone())
        .await
        .unwrap();
    let schema = table
        .store
        .get(&layout::schema_path(SchemaId(0)))
        .await
        .unwrap();
    let one = table.committable(&committer, 1, None).await;
    assert!(is_published(&committer.commit(&one).await.unwrap()));
    table
        .store
        .put(&layout::schema_path(SchemaId(1)), schema.clone())
        .await
        .unwrap();
    let two = table.committable(&committer, 2, Some(1)).await;
    assert!(is_published(&committer.commit(&two).await.unwrap()));
    env.set_clock(1_000_000 + 61_000);
    let three = table.committable(&committer, 3, Some(2)).await;
    assert!(is_published(&committer.commit(&three).await.unwrap()));
    let seen = table.check().await;
    let schemas: Vec<i64> = seen.snapshots.iter().map(|s| s.schema_id.0).collect();
    assert_eq!(schemas, [0, 0, 1]);

    table
        .store
        .put(&layout::schema_path(SchemaId(2)), schema.clone())
        .await
        .unwrap();
    let mut rival = table.committer(&run_of("rival", "rival", 1)).await;
    let theirs = table.committable(&rival, 1, None).await;
    assert!(is_published(&rival.commit(&theirs).await.unwrap()));
    let four = table.committable(&committer, 4, Some(3)).await;
    assert!(is_published(&committer.commit(&four).await.unwrap()));
    // Its files are of a schema that nobody has committed with.
    table
        .store
        .put(&layout::schema_path(SchemaId(3)), schema)
        .await
        .unwrap();
    let mut message = table.message(committer.run(), "a", 10).await;
    message.data.new_files[0].schema_id = SchemaId(3);
    let five = combine(&committer, 5, Some(4), vec![message]);
    assert!(is_published(&committer.commit(&five).await.unwrap()));
    let seen = table.check().await;
    let schemas: Vec<i64> = seen.snapshots.iter().map(|s| s.schema_id.0).collect();
    assert_eq!(schemas, [0, 0, 1, 2, 2, 3]);
}

#[tokio::test]
async fn many_commits_merge_their_manifests_and_lose_nothing() {
    let table = Table::memory_partitioned(&[("manifest.merge-min-count", "4")]).await;
    let mut committer = table.committer(&run("user", 1)).await;
    for n in 1..=40u64 {
        let messages = vec![
            table
                .message(committer.run(), &format!("d{}", n % 3), 10)
                .await,
            table.message(committer.run(), "z", 1).await,
        ];
        let c = combine(&committer, n, (n > 1).then(|| n - 1), messages);
        assert!(is_published(&committer.commit(&c).await.unwrap()));
    }
    let seen = table.check().await;
    assert_eq!((seen.rows(), seen.live.len()), (440, 80));
    assert_eq!(seen.orphans, Vec::<String>::new());
    let newest = seen.snapshots.last().unwrap();
    let path = layout::manifest_path(&newest.base_manifest_list.name);
    let base = manifest_list::decode(&table.store.get(&path).await.unwrap()).unwrap();
    assert!(base.len() < 10, "{} manifests", base.len());
    // A new committer folds the same files.
    let view = LiveView::open(&table.store, None).await.unwrap();
    let bucket = view
        .bucket(&table.partition("z"), BucketId(0))
        .await
        .unwrap();
    assert_eq!(bucket.files.len(), 40);
}

#[tokio::test]
async fn a_compaction_is_a_second_snapshot_of_the_same_identifier() {
    let table = Table::memory(&[]).await;
    let mut committer = table.committer(&run("user", 1)).await;
    let first = table.message(committer.run(), "a", 10).await;
    let c = combine(&committer, 1, None, vec![first.clone()]);
    assert!(is_published(&committer.commit(&c).await.unwrap()));
    let mut second = table.message(committer.run(), "a", 5).await;
    let rewritten = table.message(committer.run(), "a", 10).await;
    second.compact = CompactIncrement {
        compact_before: first.data.new_files.clone(),
        compact_after: rewritten.data.new_files.clone(),
        ..Default::default()
    };
    let c = combine(&committer, 2, Some(1), vec![second.clone()]);
    assert!(is_published(&committer.commit(&c).await.unwrap()));
    assert!(matches!(
        committer.commit(&c).await.unwrap(),
        Outcome::AlreadyPublished(_)
    ));
    let seen = table.check().await;
    assert_eq!(seen.identifiers(), [1, 2, 2]);
    let kinds: Vec<String> = seen
        .snapshots
        .iter()
        .map(|s| s.commit_kind.to_string())
        .collect();
    assert_eq!(kinds, ["APPEND", "APPEND", "COMPACT"]);
    assert_eq!((seen.rows(), seen.live.len()), (15, 2));

    // A compaction of files that are gone is left out, and the rows beside it are not.
    let mut third = table.message(committer.run(), "a", 7).await;
    third.compact = CompactIncrement {
        compact_before: first.data.new_files.clone(),
        compact_after: vec![data_file("data-late-0.parquet", 10)],
        ..Default::default()
    };
    let c = combine(&committer, 3, Some(2), vec![third]);
    assert!(is_visible(&committer.commit(&c).await.unwrap()));
    let seen = table.check().await;
    assert_eq!((seen.identifiers(), seen.rows()), (vec![1, 2, 2, 3], 22));
}

#[tokio::test]
async fn another_bucket_count_is_refused_and_views_show_each_bucket() {
    let options = [("bucket", "4"), ("bucket-key", "id")];
    let table = Table::memory_partitioned(&options).await;
    let user = run("user", 1);
    let mut committer = table.committer(&user).await;
    let mut messages = Vec::new();
    for bucket in 0..4 {
        messages.push(
            table
                .message_of(&user, "a", BucketId(bucket), Some(4), 10)
                .await,
        );
    }
    let c = combine(&committer, 1, None, messages);
    assert!(is_published(&committer.commit(&c).await.unwrap()));

    let view = LiveView::open(&table.store, Some(&user.user))
        .await
        .unwrap();
    let bucket = view
        .bucket(&table.partition("a"), BucketId(2))
        .await
        .unwrap();
    assert_eq!((bucket.total_buckets, bucket.files.len()), (Some(4), 1));
    assert_eq!(bucket.max_sequence_number, Some(9));
    assert_eq!(bucket.newest_committed.map(|id| id.0), Some(1));
    let other = view
        .bucket(&table.partition("b"), BucketId(2))
        .await
        .unwrap();
    assert_eq!((other.total_buckets, other.files.len()), (None, 0));

    // Writers that only append ask for less: the same numbers, no files.
    let light = LiveView::for_append(&table.store, Some(&user.user))
        .await
        .unwrap();
    for (partition, bucket) in [("a", 2), ("a", 0), ("b", 2)] {
        let row = table.partition(partition);
        let full = view.bucket(&row, BucketId(bucket)).await.unwrap();
        let mut less = light.bucket(&row, BucketId(bucket)).await.unwrap();
        assert_eq!(less.files, vec![]);
        less.files.clone_from(&full.files);
        assert_eq!(less, full, "{partition}/{bucket}");
    }

    let wrong = table.message_of(&user, "a", BucketId(0), Some(8), 10).await;
    let c = combine(&committer, 2, Some(1), vec![wrong]);
    let outcome = committer.commit(&c).await.unwrap();
    let Outcome::Refused(why) = outcome else {
        panic!("{outcome:?}")
    };
    assert!(why.contains("dt=a has 4 buckets"), "{why}");
    // Another partition may have its own count; the option is the default.
    let new = table.message_of(&user, "b", BucketId(0), None, 10).await;
    let c = combine(&committer, 3, Some(1), vec![new]);
    assert!(is_published(&committer.commit(&c).await.unwrap()));
    let view = LiveView::open(&table.store, None).await.unwrap();
    assert_eq!(
        view.total_buckets(&table.partition("b")).await.unwrap(),
        Some(4)
    );
    table.check().await;

    // In the steady state the count of a partition is not read again.
    let more = table.message_of(&user, "a", BucketId(1), Some(4), 10).await;
    let c = combine(&committer, 4, Some(3), vec![more]);
    let before = table.store.metrics();
    assert!(is_published(&committer.commit(&c).await.unwrap()));
    let cost = table.store.metrics().since(&before);
    assert!(
        (cost.writes(), cost.reads()) <= (5, 2),
        "{} reads",
        cost.reads()
    );
}

#[tokio::test]
async fn a_removed_file_makes_an_overwrite() {
    let table = Table::memory(&[]).await;
    let mut committer = table.committer(&run("user", 1)).await;
    let first = table.message(committer.run(), "a", 10).await;
    let c = combine(&committer, 1, None, vec![first.clone()]);
    assert!(is_published(&committer.commit(&c).await.unwrap()));
    let mut second = table.message(committer.run(), "a", 5).await;
    second.data = DataIncrement {
        deleted_files: first.data.new_files.clone(),
        ..std::mem::take(&mut second.data)
    };
    let c = combine(&committer, 2, Some(1), vec![second]);
    assert!(is_published(&committer.commit(&c).await.unwrap()));
    let seen = table.check().await;
    assert_eq!(seen.snapshots[1].commit_kind.to_string(), "OVERWRITE");
    assert_eq!(
        (seen.rows(), seen.snapshots[1].delta_record_count),
        (5, Some(-5))
    );
    // What is removed is in no view, however the manifests lie.
    let view = LiveView::open(&table.store, None).await.unwrap();
    let bucket = view
        .bucket(&table.partition("a"), BucketId(0))
        .await
        .unwrap();
    assert_eq!(
        (bucket.files.len(), bucket.max_sequence_number),
        (1, Some(4))
    );
    let light = LiveView::for_append(&table.store, None).await.unwrap();
    let bucket = light
        .bucket(&table.partition("a"), BucketId(0))
        .await
        .unwrap();
    assert_eq!(bucket.max_sequence_number, Some(4));
}

#[tokio::test]
async fn a_committer_that_slept_while_the_table_was_expired_finds_the_end() {
    // [C-51a]: neither its own newest snapshot nor the next one is there any more.
    let table = Table::memory(&[]).await;
    let mut sleeper = table.committer(&run("user", 1)).await;
    let one = table.committable(&sleeper, 1, None).await;
    assert!(is_published(&sleeper.commit(&one).await.unwrap()));
    sleeper.leave_note().await.unwrap();
    let mut rival = table.committer(&run_of("rival", "rival", 1)).await;
    for n in 1..=6 {
        let c = table.committable(&rival, n, (n > 1).then(|| n - 1)).await;
        assert!(is_published(&rival.commit(&c).await.unwrap()));
    }
    for id in 1..=4 {
        table
            .store
            .delete(&format!("snapshot/snapshot-{id}"))
            .await
            .unwrap();
    }
    // The worst hint of all.
    table
        .store
        .put(layout::LATEST_PATH, "1".into())
        .await
        .unwrap();
    let two = table.committable(&sleeper, 2, Some(1)).await;
    assert!(is_published(&sleeper.commit(&two).await.unwrap()));
    let seen = table.check().await;
    assert_eq!(seen.snapshots.last().unwrap().id.0, 8);
    assert_eq!(seen.rows(), 80);
}

#[tokio::test]
async fn java_committables_are_read_and_published_without_marks() {
    let table = Table::memory(&[]).await;
    let user = run("java-user", 1);
    let message = table.message(&user, "a", 10).await;
    let java = tidegate_model::ManifestCommittable {
        identifier: 7,
        watermark: Some(5),
        properties: vec![("k".to_owned(), "v".to_owned())],
        messages: vec![message],
    };
    let bytes = tidegate_format::manifest_committable::encode(&java, 5, 11).unwrap();
    let framed = committable::from_java(&user.user, 5, &bytes).unwrap();
    let mut committer = table.committer(&user).await;
    assert!(is_published(&committer.commit(&framed).await.unwrap()));
    assert!(matches!(
        committer.commit(&framed).await.unwrap(),
        Outcome::AlreadyPublished(_)
    ));
    let seen = table.check().await;
    let snapshot = seen.snapshots.last().unwrap();
    assert_eq!(snapshot.watermark, Some(5));
    assert_eq!(snapshot.properties, java.properties);
}

#[tokio::test]
async fn a_zombie_that_slept_over_everything_is_fenced_by_the_registration_of_its_successor() {
    let table = Table::memory(&[]).await;
    let mut sleeper = table.committer(&run("user", 1)).await;
    let one = table.committable(&sleeper, 1, None).await;
    assert!(is_published(&sleeper.commit(&one).await.unwrap()));
    let two = table.committable(&sleeper, 2, Some(1)).await;
    let mut rival = table.committer(&run_of("rival", "rival", 1)).await;
    for n in 1..=3 {
        let c = table.committable(&rival, n, (n > 1).then(|| n - 1)).await;
        assert!(is_published(&rival.commit(&c).await.unwrap()));
    }
    for id in 1..=3 {
        table
            .store
            .delete(&format!("snapshot/snapshot-{id}"))
            .await
            .unwrap();
    }
    table
        .store
        .put("tidegate/jobs/job/epoch-2", "registration".into())
        .await
        .unwrap();
    let outcome = sleeper.commit(&two).await.unwrap();
    assert!(matches!(outcome, Outcome::Fenced(_)), "{outcome:?}");
}

#[tokio::test]
async fn names_that_only_look_like_a_snapshot_or_schema_are_none() {
    let table = Table::memory(&[]).await;
    let first = run("user", 1);
    let mut committer = table.committer(&first).await;
    let one = table.committable(&committer, 1, None).await;
    assert!(is_published(&committer.commit(&one).await.unwrap()));
    // Without a hint the listing tells which one is the newest.
    table.store.delete(layout::LATEST_PATH).await.unwrap();
    for (there, name) in [
        ("snapshot/snapshot-1", "snapshot/snapshot-"),
        ("schema/schema-0", "schema/schema-"),
    ] {
        let bytes = table.store.get(there).await.unwrap();
        for number in ["+5", "05", "-0", "5.tmp"] {
            let path = format!("{name}{number}");
            table.store.put(&path, bytes.clone()).await.unwrap();
        }
    }
    let newest = tidegate_commit::latest_snapshot(&table.store)
        .await
        .unwrap();
    assert_eq!(newest.unwrap().id, SnapshotId(1));
    let schema = tidegate_commit::load_schema(&table.store).await.unwrap();
    assert_eq!(schema.id, SchemaId(0));
    let all = tidegate_commit::snapshots(&table.store).await.unwrap();
    assert_eq!(all.len(), 1);
    let mut committer = table.committer(&run("user", 2)).await;
    let two = table.committable(&committer, 2, Some(1)).await;
    assert!(is_published(&committer.commit(&two).await.unwrap()));
}
