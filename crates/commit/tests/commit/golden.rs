//! Bytes that outlive a build, and tables that Java made.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proptest::prelude::*;
use tidegate_commit::{CommitError, LiveView, PaimonCommitter, SeededEnv, committable, digest};
use tidegate_format::{manifest, manifest_list, snapshot};
use tidegate_model::layout;
use tidegate_model::snapshot::ListRef;
use tidegate_model::{
    BinaryRow, BucketId, CommitMessage, CompactIncrement, DataIncrement, EntryKind, Level, Snapshot,
};
use tidegate_protocol::{Seen, Token};
use tidegate_sink::{
    CheckpointId, CommitContext, CommitUser, Committer, Epoch, JobName, Positions,
};
use tidegate_storage::Store;

use crate::common::{combine, data_file, is_published, run, unique};

fn golden(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/golden")
        .join(path)
}

fn message(names: &[&str]) -> CommitMessage {
    CommitMessage {
        partition: BinaryRow::empty(),
        bucket: BucketId(0),
        total_buckets: None,
        data: DataIncrement {
            new_files: names.iter().map(|name| data_file(name, 10)).collect(),
            ..Default::default()
        },
        compact: CompactIncrement::default(),
    }
}

#[test]
fn the_bytes_of_a_committable_are_pinned() {
    let context = CommitContext {
        job: JobName::new("orders").unwrap(),
        epoch: Epoch(3),
        checkpoint: CheckpointId(7),
        positions: Some(Positions {
            active: b"now".to_vec(),
            finished: b"done".to_vec(),
        }),
        replaces: Some(Positions {
            active: b"before".to_vec(),
            finished: vec![],
        }),
        watermark: Some(1_704_067_200_123),
    };
    let seen = Seen::Snapshot {
        id: tidegate_model::SnapshotId(12),
        token: Token::new("5dac"),
    };
    let user = CommitUser::new("user-1").unwrap();
    let made = committable::combine(&user, &context, vec![message(&["a.parquet"])], 2, 2, seen);
    let made = made.unwrap();
    let hex: String = made.to_bytes().iter().map(|b| format!("{b:02x}")).collect();
    let pinned = std::fs::read_to_string(golden("commit/committable-1.hex")).unwrap_or_default();
    assert_eq!(hex, pinned.split_whitespace().collect::<String>());

    let decoded = committable::decode(&made).unwrap();
    let extras = decoded.extras.clone().unwrap();
    assert_eq!(
        (extras.epoch, extras.checkpoint),
        (context.epoch, context.checkpoint)
    );
    assert_eq!(extras.positions, context.positions);
    assert_eq!(decoded.java.watermark, context.watermark);
    // Every truncation and every tail is noticed.
    for n in 0..made.payload.len() {
        let mut short = made.clone();
        short.payload.truncate(n);
        assert!(committable::decode(&short).is_err(), "{n} bytes");
    }
    let mut long = made.clone();
    long.payload.push(0);
    assert!(committable::decode(&long).is_err());
    let mut other = made;
    other.version = 2;
    let error = committable::decode(&other).unwrap_err().to_string();
    assert!(error.contains("payload version 2"), "{error}");
}

#[test]
fn java_committables_of_every_vector_are_framed_and_opened_again() {
    let text = std::fs::read_to_string(golden("vectors/committables.json")).unwrap();
    let mut seen = 0;
    // Without a JSON reader: the vectors are one object after the other.
    for part in text.split("\"committable\":\"").skip(1) {
        let coded = part.split('"').next().unwrap();
        let bytes = unbase64(coded);
        let user = CommitUser::new("java").unwrap();
        let framed = committable::from_java(&user, 5, &bytes).unwrap();
        let decoded = committable::decode(&framed).unwrap();
        assert_eq!(decoded.extras, None);
        assert_eq!(framed.digest, digest(&decoded.java.messages, None));
        let frame = framed.to_bytes();
        assert_eq!(
            tidegate_sink::Committable::from_bytes(&frame).unwrap(),
            framed
        );
        seen += 1;
    }
    assert!(seen > 50, "{seen} vectors");
}

fn unbase64(text: &str) -> Vec<u8> {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = Vec::new();
    let (mut bits, mut group) = (0, 0u32);
    for c in text.bytes().filter(|c| *c != b'=') {
        group = (group << 6) | ALPHABET.iter().position(|a| *a == c).unwrap() as u32;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            out.push((group >> bits) as u8);
            group &= (1 << bits) - 1;
        }
    }
    out
}

proptest! {
    #[test]
    fn the_digest_depends_on_content_and_not_on_order(
        names in proptest::collection::btree_set("[a-z]{1,8}", 1..12),
        cut in any::<prop::sample::Index>(),
        turn in any::<prop::sample::Index>(),
    ) {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let whole = digest(&[message(&names)], None);
        let (a, b) = names.split_at(cut.index(names.len()));
        prop_assert_eq!(digest(&[message(b), message(a)], None), whole);
        let mut turned = names.clone();
        turned.rotate_left(turn.index(names.len()));
        prop_assert_eq!(digest(&[message(&turned)], None), whole);
        // Anything less, in the other half, at another level, or with positions is something else.
        prop_assert_ne!(digest(&[message(&names[1..])], None), whole);
        let mut compact = message(&names);
        compact.compact.compact_after = std::mem::take(&mut compact.data.new_files);
        prop_assert_ne!(digest(&[compact], None), whole);
        let mut level = message(&names);
        level.data.new_files[0].level = Level(1);
        prop_assert_ne!(digest(&[level], None), whole);
        prop_assert_ne!(digest(&[message(&names)], Some(&Positions::default())), whole);
        // Statistics, sizes and times are not content.
        let mut again = message(&names);
        again.data.new_files[0].creation_time_millis = None;
        again.data.new_files[0].file_size = 99;
        prop_assert_eq!(digest(&[again], None), whole);
    }
}

async fn load(dir: &Path) -> Store {
    let store = Store::open(&format!("memory://golden-{}", unique()), &BTreeMap::new()).unwrap();
    let mut todo = vec![dir.to_owned()];
    while let Some(next) = todo.pop() {
        for entry in std::fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                todo.push(path);
                continue;
            }
            let name = path.strip_prefix(dir).unwrap().to_str().unwrap().to_owned();
            store
                .put(&name, std::fs::read(&path).unwrap().into())
                .await
                .unwrap();
        }
    }
    store
}

async fn names(store: &Store, list: &ListRef) -> Vec<String> {
    let bytes = store.get(&layout::manifest_path(&list.name)).await.unwrap();
    manifest_list::decode(&bytes)
        .unwrap()
        .into_iter()
        .map(|m| m.file_name)
        .collect()
}

async fn continued(
    store: &Store,
    before: Option<Snapshot>,
    partition: BinaryRow,
    bucket: BucketId,
) {
    let view = LiveView::open(store, None).await.unwrap();
    let files = view.bucket(&partition, bucket).await.unwrap();
    let mut message = message(&[&format!("data-{}-0.parquet", unique())]);
    message.partition = partition.clone();
    message.bucket = bucket;
    message.total_buckets = files.total_buckets;
    let env = Arc::new(SeededEnv::new(7, 1_000));
    let mut committer = PaimonCommitter::open_with(store.clone(), run("user", 1), env)
        .await
        .unwrap();
    let framed = combine(&committer, 1, None, vec![message]);
    let outcome = committer.commit(&framed).await.unwrap();
    assert!(is_published(&outcome), "{outcome:?}");

    let id = before.as_ref().map_or(1, |s| s.id.0 + 1);
    let bytes = store.get(&format!("snapshot/snapshot-{id}")).await.unwrap();
    let ours = snapshot::decode(&bytes).unwrap();
    assert_eq!(snapshot::encode(&ours), bytes, "Java's form");
    assert_eq!(ours.delta_record_count, Some(10));
    let Some(before) = before else { return };
    assert_eq!(
        ours.total_record_count,
        before.total_record_count.map(|n| n + 10)
    );
    assert_eq!(
        ours.index_manifest, before.index_manifest,
        "index files are carried over"
    );
    assert_eq!(
        ours.next_row_id.unwrap_or(0),
        before.next_row_id.unwrap_or(0)
    );
    assert_eq!(ours.watermark, before.watermark);
    assert!(
        ours.time_millis > before.time_millis,
        "the clock stood at 1970"
    );
    if ours.schema_id == before.schema_id {
        assert_eq!(ours.statistics, before.statistics);
    } else {
        assert_eq!(ours.statistics, None);
    }
    let mut manifests = names(store, &before.base_manifest_list).await;
    manifests.extend(names(store, &before.delta_manifest_list).await);
    let base = names(store, &ours.base_manifest_list).await;
    let merged = base.iter().any(|name| !manifests.contains(name));
    assert!(
        merged || base == manifests,
        "the base is all that was there, in order"
    );
    let view = LiveView::open(store, None).await.unwrap();
    let after = view.bucket(&partition, bucket).await.unwrap();
    assert_eq!(after.files.len(), files.files.len() + 1);
    let delta = names(store, &ours.delta_manifest_list).await;
    let bytes = store.get(&layout::manifest_path(&delta[0])).await.unwrap();
    let entries = manifest::decode(&bytes).unwrap();
    assert_eq!((entries.len(), entries[0].kind), (1, EntryKind::Add));
}

#[tokio::test]
async fn every_table_that_java_made_is_continued() {
    let mut done = 0;
    let mut refused = Vec::new();
    for dir in std::fs::read_dir(golden("tables")).unwrap() {
        let dir = dir.unwrap().path();
        let name = dir.file_name().unwrap().to_str().unwrap().to_owned();
        let store = load(&dir.join(format!("warehouse/golden.db/{name}"))).await;
        let before = tidegate_commit::latest_snapshot(&store).await.unwrap();
        match PaimonCommitter::open(store.clone(), run("user", 1)).await {
            Err(CommitError::Config(why)) => {
                refused.push((name, why));
                continue;
            }
            other => drop(other.unwrap()),
        }
        // A partition and bucket that has a file, or those of a table without partitions.
        let mut place = None;
        if let Some(before) = &before {
            let mut all = names(&store, &before.base_manifest_list).await;
            all.extend(names(&store, &before.delta_manifest_list).await);
            for name in all {
                let bytes = store.get(&layout::manifest_path(&name)).await.unwrap();
                let first = manifest::decode(&bytes).unwrap().into_iter().next();
                place = place.or(first.map(|e| (e.partition, e.bucket)));
            }
        }
        let schema = tidegate_commit::load_schema(&store).await.unwrap();
        let (partition, bucket) = match place {
            Some(place) => place,
            None if schema.partition_keys.is_empty() => (BinaryRow::empty(), BucketId(0)),
            None => continue,
        };
        println!("{name}");
        continued(&store, before, partition, bucket).await;
        done += 1;
    }
    assert!(done > 150, "{done} tables");
    for (name, why) in &refused {
        assert!(
            why.contains("row-tracking") || why.contains("data-evolution"),
            "{name}: {why}"
        );
    }
}
