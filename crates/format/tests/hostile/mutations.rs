//! Real files, changed at random: bits flipped, cut, pieces repeated or moved.

use crate::containers::plain_container;
use crate::counting::peak_of;
use crate::golden::all_files;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::time::{Duration, Instant};
use tidegate_format::{
    avro, commit_message, consumer, hint, index_manifest, manifest, manifest_committable,
    manifest_list, schema, snapshot, tag,
};

type Decoder = fn(&[u8]);

fn decode_manifest(bytes: &[u8]) {
    let _ = manifest::decode(bytes);
    let Ok(mut scan) = manifest::scan(bytes) else {
        return;
    };
    while let Some(view) = scan.next() {
        let Ok(view) = view else { return };
        let _ = (
            view.extra_files.to_vec(),
            view.value_stats.null_counts(),
            view.to_entry(),
        );
    }
}

fn decode_messages(bytes: &[u8]) {
    for version in 1..=13 {
        let _ = commit_message::decode(bytes, version);
    }
    for version in 1..=5 {
        let _ = manifest_committable::decode(bytes, version);
    }
}

/// One change of some bytes; numbers are taken modulo the length.
#[derive(Clone, Debug)]
enum Change {
    Set(usize, u8),
    Flip(usize, u8),
    Cut(usize),
    Insert(usize, Vec<u8>),
    Repeat {
        from: usize,
        length: usize,
        at: usize,
    },
    Remove {
        from: usize,
        length: usize,
    },
}

fn change() -> impl Strategy<Value = Change> {
    let odd = prop_oneof![
        Just(0u8),
        Just(1),
        Just(2),
        Just(0x7f),
        Just(0x80),
        Just(0xff),
        any::<u8>()
    ];
    prop_oneof![
        4 => (any::<usize>(), odd).prop_map(|(at, byte)| Change::Set(at, byte)),
        4 => (any::<usize>(), 0u8..8).prop_map(|(at, bit)| Change::Flip(at, 1 << bit)),
        1 => any::<usize>().prop_map(Change::Cut),
        2 => (any::<usize>(), prop::collection::vec(any::<u8>(), 1..12))
            .prop_map(|(at, bytes)| Change::Insert(at, bytes)),
        2 => (any::<usize>(), 1usize..200, any::<usize>())
            .prop_map(|(from, length, at)| Change::Repeat { from, length, at }),
        1 => (any::<usize>(), 1usize..40).prop_map(|(from, length)| Change::Remove { from, length }),
    ]
}

fn apply(bytes: &mut Vec<u8>, change: &Change) {
    let within = |at: usize, bytes: &[u8]| {
        if bytes.is_empty() {
            0
        } else {
            at % bytes.len()
        }
    };
    match change {
        Change::Set(at, byte) if !bytes.is_empty() => {
            let at = within(*at, bytes);
            bytes[at] = *byte;
        }
        Change::Flip(at, mask) if !bytes.is_empty() => {
            let at = within(*at, bytes);
            bytes[at] ^= mask;
        }
        Change::Set(..) | Change::Flip(..) => {}
        Change::Cut(at) => bytes.truncate(within(*at, bytes)),
        Change::Insert(at, more) => {
            let at = within(*at, bytes);
            bytes.splice(at..at, more.iter().copied());
        }
        Change::Repeat { from, length, at } => {
            let (from, at) = (within(*from, bytes), within(*at, bytes));
            let piece = bytes[from..(from + length).min(bytes.len())].to_vec();
            bytes.splice(at..at, piece);
        }
        Change::Remove { from, length } => {
            let from = within(*from, bytes);
            bytes.drain(from..(from + length).min(bytes.len()));
        }
    }
}

/// Decodes changed copies of `seeds`; `allowed` is what a decoder may hold for so many bytes.
fn attack(seeds: Vec<Vec<u8>>, decode: Decoder, allowed: fn(usize) -> usize) {
    assert!(!seeds.is_empty());
    let cases = 600;
    let mut runner = TestRunner::new(Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    });
    let seeds = prop::sample::select(seeds);
    let strategy = (seeds, prop::collection::vec(change(), 1..6));
    let result = runner.run(&strategy, |(mut bytes, changes)| {
        changes.iter().for_each(|change| apply(&mut bytes, change));
        let start = Instant::now();
        let ((), peak) = peak_of(|| decode(&bytes));
        prop_assert!(
            peak <= allowed(bytes.len()),
            "{peak} bytes for {}",
            bytes.len()
        );
        prop_assert!(
            start.elapsed() < Duration::from_secs(20),
            "{:?}",
            start.elapsed()
        );
        Ok(())
    });
    result.unwrap();
}

fn seeds(prefix: &str, step: usize) -> Vec<Vec<u8>> {
    all_files(prefix)
        .into_iter()
        .step_by(step)
        .map(|f| f.bytes)
        .collect()
}

/// Plain bytes: values and the tables to read them by, a few times what they are read from.
fn plain(length: usize) -> usize {
    (32 << 10) + 32 * length
}

/// Compressed bytes: one block may grow to 1 MiB and 256 times its size; its records beside it.
fn packed(length: usize) -> usize {
    2 * ((1 << 20) + 256 * length)
}

/// Texts of some size, made of what takes little room in the file and much as a value.
fn large_texts() -> (Vec<u8>, Vec<u8>) {
    let mut snapshot = snapshot::decode(&all_files("snapshot-")[0].bytes).unwrap();
    snapshot.properties = (0..3000).map(|i| (format!("{i}"), String::new())).collect();
    snapshot.unknown = (0..1000)
        .map(|i| (format!("u{i}"), "0".to_owned()))
        .collect();
    let mut schema = schema::decode(&all_files("schema-")[0].bytes).unwrap();
    let field = schema.fields[0].clone();
    schema.fields = vec![field; 1000];
    schema.primary_keys = vec![String::new(); 5000];
    schema.options = (0..500).map(|i| (format!("{i}"), String::new())).collect();
    (snapshot::encode(&snapshot), schema::encode(&schema))
}

#[test]
fn lists_of_nothing_stay_small() {
    let (snapshot, schema) = large_texts();
    let (result, peak) = peak_of(|| snapshot::decode(&snapshot));
    assert!(
        result.is_ok() && peak <= plain(snapshot.len()),
        "{peak} for {}",
        snapshot.len()
    );
    let (result, peak) = peak_of(|| schema::decode(&schema));
    assert!(
        result.is_ok() && peak <= plain(schema.len()),
        "{peak} for {}",
        schema.len()
    );
    // Avro: an empty text or a null takes one byte.
    let mut entry = manifest::decode(&all_files("manifest-")[0].bytes)
        .unwrap()
        .remove(0);
    entry.file.extra_files = vec![String::new(); 20_000];
    entry.file.value_stats.null_counts = Some(vec![None; 20_000]);
    let bytes = manifest::encode(&[entry], avro::Codec::Null, [0; 16]).unwrap();
    let (result, peak) = peak_of(|| manifest::decode(&bytes));
    assert!(
        result.is_ok() && peak <= plain(bytes.len()),
        "{peak} for {}",
        bytes.len()
    );
    let entries = vec![
        manifest::decode(&all_files("manifest-")[0].bytes)
            .unwrap()
            .remove(0);
        500
    ];
    let bytes = manifest::encode(&entries, avro::Codec::Null, [0; 16]).unwrap();
    let (result, peak) = peak_of(|| manifest::decode(&bytes).map(|all| all.len()));
    assert!(
        result.unwrap() == 500 && peak <= plain(bytes.len()),
        "{peak} for {}",
        bytes.len()
    );
    // Read one by one, a long manifest costs what its blocks do.
    let (count, peak) = peak_of(|| manifest::entries(&bytes).unwrap().count());
    assert!(
        count == 500 && peak < 16 << 10,
        "{peak} for {}",
        bytes.len()
    );
    // Borrowed, it costs nothing but the table of fields.
    let (count, peak) = peak_of(|| {
        let (mut scan, mut count) = (manifest::scan(&bytes).unwrap(), 0);
        while let Some(view) = scan.next() {
            count += view.unwrap().file_name.len().min(1);
        }
        count
    });
    assert!(
        count == 500 && peak < 16 << 10,
        "{peak} for {}",
        bytes.len()
    );
}

#[test]
fn changed_text_files_give_errors() {
    let (snapshot, schema) = large_texts();
    attack(vec![snapshot], |b| drop(snapshot::decode(b)), plain);
    attack(vec![schema], |b| drop(schema::decode(b)), plain);
    attack(seeds("snapshot-", 9), |b| drop(snapshot::decode(b)), plain);
    attack(seeds("schema-", 5), |b| drop(schema::decode(b)), plain);
    attack(seeds("tag-", 1), |b| drop(tag::decode(b)), plain);
    attack(seeds("consumer-", 1), |b| drop(consumer::decode(b)), plain);
    attack(seeds("LATEST", 20), |b| drop(hint::decode(b)), plain);
}

#[test]
fn changed_compressed_files_give_errors() {
    attack(seeds("manifest-", 20), decode_manifest, packed);
    attack(
        seeds("manifest-list-", 40),
        |b| drop(manifest_list::decode(b)),
        packed,
    );
    attack(
        seeds("index-manifest-", 2),
        |b| drop(index_manifest::decode(b)),
        packed,
    );
}

/// Most changes of a compressed block stop at its checksum or frame; here they reach the records.
#[test]
fn changed_records_give_errors() {
    let plain_seeds = |prefix: &str, step| {
        let plain_of = |bytes: Vec<u8>| {
            let blocks = avro::blocks(&bytes).unwrap();
            let schema = avro::schema_text(&bytes).unwrap();
            let count = blocks.iter().map(|b| b.0).sum();
            plain_container(
                &schema,
                count,
                &blocks.into_iter().flat_map(|b| b.1).collect::<Vec<_>>(),
            )
        };
        seeds(prefix, step)
            .into_iter()
            .map(plain_of)
            .filter(|b| b.len() < 20_000)
            .collect::<Vec<_>>()
    };
    attack(plain_seeds("manifest-", 15), decode_manifest, plain);
    attack(
        plain_seeds("manifest-list-", 40),
        |b| drop(manifest_list::decode(b)),
        plain,
    );
    attack(
        plain_seeds("index-manifest-", 1),
        |b| drop(index_manifest::decode(b)),
        plain,
    );
}

#[test]
fn changed_messages_give_errors() {
    let golden = manifest::decode(&all_files("manifest-")[3].bytes).unwrap();
    let mut message = tidegate_model::CommitMessage {
        partition: golden[0].partition.clone(),
        bucket: golden[0].bucket,
        total_buckets: Some(-1),
        data: tidegate_model::DataIncrement::default(),
        compact: tidegate_model::CompactIncrement::default(),
    };
    message.data.new_files = golden.iter().map(|e| e.file.clone()).collect();
    let index = all_files("index-manifest-");
    let index = index
        .iter()
        .flat_map(|f| index_manifest::decode(&f.bytes).unwrap());
    message.compact.new_index_files = index.map(|e| e.file).take(3).collect();
    let committable = tidegate_model::ManifestCommittable {
        identifier: 1,
        watermark: Some(2),
        properties: vec![("key".to_owned(), "välue".to_owned())],
        messages: vec![message.clone(), message.clone()],
    };
    let seeds = vec![
        commit_message::encode(&message, 11).unwrap(),
        manifest_committable::encode(&committable, 5, 11).unwrap(),
        manifest_committable::encode(&committable, 4, 13).unwrap(),
    ];
    attack(seeds, decode_messages, plain);
}

#[test]
fn every_cut_of_a_real_file_is_noticed() {
    type Accepts = fn(&[u8]) -> bool;
    let kinds: [(&str, Accepts); 5] = [
        ("snapshot-", |b| snapshot::decode(b).is_ok()),
        ("schema-", |b| schema::decode(b).is_ok()),
        ("manifest-", |b| manifest::decode(b).is_ok()),
        ("manifest-list-", |b| manifest_list::decode(b).is_ok()),
        ("index-manifest-", |b| index_manifest::decode(b).is_ok()),
    ];
    for (prefix, accepts) in kinds {
        let file = all_files(prefix)
            .into_iter()
            .max_by_key(|f| f.bytes.len().min(4000))
            .unwrap();
        assert!(accepts(&file.bytes));
        // Between blocks a container may end; nothing in it says how many there are.
        let ends: Vec<usize> = match avro::blocks(&file.bytes) {
            Ok(_) => (0..file.bytes.len())
                .filter(|n| avro::blocks(&file.bytes[..*n]).is_ok())
                .collect(),
            Err(_) => Vec::new(),
        };
        assert!(ends.len() <= 1, "one block, or none: {ends:?}");
        for cut in 0..file.bytes.len() {
            assert_eq!(
                accepts(&file.bytes[..cut]),
                ends.contains(&cut),
                "{} at {cut}",
                file.path
            );
        }
    }
}
