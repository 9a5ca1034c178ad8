//! What the fuzz targets run, and `cargo test` on their seeds. No part of the formats.
//!
//! Every decoder: an error, or a value that is written back to itself.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "checks report by a panic"
)]

use crate::{
    Codec, avro, commit_message, consumer, hint, index_manifest, manifest,
    manifest_committable as committable, manifest_list, schema, snapshot, tag,
};

pub fn snapshot(data: &[u8]) {
    let Ok(value) = snapshot::decode(data) else {
        return;
    };
    let again = snapshot::encode(&value);
    assert_eq!(snapshot::decode(&again).expect("our own bytes"), value);
}

pub fn tag(data: &[u8]) {
    let Ok(value) = tag::decode(data) else {
        return;
    };
    let again = tag::encode(&value);
    assert_eq!(tag::decode(&again).expect("our own bytes"), value);
}

pub fn consumer(data: &[u8]) {
    let Ok(value) = consumer::decode(data) else {
        return;
    };
    let again = consumer::encode(&value);
    assert_eq!(consumer::decode(&again).expect("our own bytes"), value);
}

pub fn schema(data: &[u8]) {
    let _ = schema::decode_type(data);
    let Ok(value) = schema::decode(data) else {
        return;
    };
    let again = schema::encode(&value);
    assert_eq!(schema::decode(&again).expect("our own bytes"), value);
    let _ = value.validate();
}

pub fn hint(data: &[u8]) {
    let Ok(value) = hint::decode(data) else {
        return;
    };
    let again = hint::encode(value);
    assert_eq!(hint::decode(&again).expect("our own bytes"), value);
}

pub fn manifest_list(data: &[u8]) {
    let Ok(value) = manifest_list::decode(data) else {
        return;
    };
    let again = manifest_list::encode(&value, Codec::Null, [0; 16]).expect("values just read");
    assert_eq!(manifest_list::decode(&again).expect("our own bytes"), value);
}

pub fn index_manifest(data: &[u8]) {
    let Ok(value) = index_manifest::decode(data) else {
        return;
    };
    let again = index_manifest::encode(&value, Codec::Null, [0; 16]).expect("values just read");
    assert_eq!(
        index_manifest::decode(&again).expect("our own bytes"),
        value
    );
}

/// Lent and owned entries agree, too.
pub fn manifest(data: &[u8]) {
    let decoded = manifest::decode(data);
    if let Ok(mut scan) = manifest::scan(data) {
        let mut count = 0;
        while let Some(view) = scan.next() {
            let Ok(view) = view else { break };
            let entry = view.to_entry();
            if let (Ok(all), Ok(entry)) = (&decoded, entry) {
                assert_eq!(all[count], entry);
            }
            count += 1;
        }
    }
    if let Ok(entries) = decoded {
        let again = manifest::encode(&entries, Codec::Null, [0; 16]).expect("entries just read");
        assert_eq!(manifest::decode(&again).expect("our own bytes"), entries);
    }
    let _ = (avro::schema_text(data), avro::blocks(data));
}

/// The first byte says which kind of file and how many records; the rest are its records. Mutations of
/// whole files hardly ever keep the lengths of a frame right.
pub fn avro_records(data: &[u8]) {
    let [which, records @ ..] = data else { return };
    let (schema, check): (_, fn(&[u8])) = match which % 5 {
        0 => (include_str!("avro/schemas/manifest.avsc"), manifest),
        1 => (include_str!("avro/schemas/manifest-newest.avsc"), manifest),
        2 => (manifest_list::SCHEMA, manifest_list),
        3 => (index_manifest::SCHEMA, index_manifest),
        _ => (
            include_str!("avro/schemas/index-manifest-newest.avsc"),
            index_manifest,
        ),
    };
    check(&container(schema, i64::from(which / 5), records));
}

/// An uncompressed container of one block.
fn container(schema: &str, count: i64, block: &[u8]) -> Vec<u8> {
    let mut out = b"Obj\x01".to_vec();
    long(&mut out, 2);
    for part in ["avro.codec", "null", "avro.schema", schema] {
        long(&mut out, part.len() as i64);
        out.extend_from_slice(part.as_bytes());
    }
    long(&mut out, 0);
    out.extend_from_slice(&[7; 16]);
    long(&mut out, count);
    long(&mut out, block.len() as i64);
    out.extend_from_slice(block);
    out.extend_from_slice(&[7; 16]);
    out
}

fn long(out: &mut Vec<u8>, value: i64) {
    let mut rest = ((value << 1) ^ (value >> 63)) as u64;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// The version in the first byte.
pub fn commit_message(data: &[u8]) {
    let Some((version, bytes)) = data.split_first() else {
        return;
    };
    let version = i32::from(version % 14);
    if let Ok(message) = commit_message::decode(bytes, version) {
        let again = commit_message::encode(&message, version).expect("a message just read");
        assert_eq!(
            commit_message::decode(&again, version).expect("our own bytes"),
            message
        );
    }
}

/// The version in the first byte.
pub fn manifest_committable(data: &[u8]) {
    let Some((version, bytes)) = data.split_first() else {
        return;
    };
    let version = i32::from(version % 6);
    if let Ok(decoded) = committable::decode(bytes, version) {
        let again = committable::encode(&decoded.committable, version, decoded.message_version)
            .expect("a committable just read");
        assert_eq!(
            committable::decode(&again, version).expect("our own bytes"),
            decoded
        );
    }
}

#[cfg(test)]
tidegate_fuzz_support::seeds!(
    snapshot: plain,
    tag: plain,
    consumer: plain,
    schema: plain,
    hint: plain,
    manifest_list: packed,
    index_manifest: packed,
    manifest: packed,
    avro_records: packed,
    commit_message: plain,
    manifest_committable: plain,
);

/// Seeds reach every variant of what is wrong with a file.
#[cfg(test)]
mod corpus {
    use super::container;
    use crate::{
        Error, Problem, Result, commit_message, consumer, hint, index_manifest, manifest,
        manifest_committable, manifest_list, schema, snapshot, tag,
    };
    use std::collections::BTreeSet;
    use tidegate_fuzz_support::{reached, variants};

    variants!(Problem {
        Truncated { .. }, Unexpected { .. }, DuplicateKey(..), Missing, TooDeep(..), NotUtf8,
        Length { .. }, Magic, Codec(..), Decompress(..), BlockTooLarge { .. }, Checksum { .. },
        Sync, Leftover(..), Schema(..), Version { .. },
    } elsewhere {
        // What is given to an encoder.
        CannotHold(..),
    });

    fn said<T>(result: Result<T>) -> Vec<&'static str> {
        let error: Option<Error> = result.err();
        error.iter().map(|e| name(e.problem())).collect()
    }

    #[test]
    fn seeds_reach_every_variant() {
        let folder = env!("CARGO_MANIFEST_DIR");
        let mut all = BTreeSet::new();
        let mut of = |target: &str, errors: &dyn Fn(&[u8]) -> Vec<&'static str>| {
            all.extend(reached(folder, target, errors));
        };
        of("snapshot", &|b| said(snapshot::decode(b)));
        of("tag", &|b| said(tag::decode(b)));
        of("consumer", &|b| said(consumer::decode(b)));
        of("schema", &|b| {
            [said(schema::decode(b)), said(schema::decode_type(b))].concat()
        });
        of("hint", &|b| said(hint::decode(b)));
        of("manifest_list", &|b| said(manifest_list::decode(b)));
        of("index_manifest", &|b| said(index_manifest::decode(b)));
        of("manifest", &|b| said(manifest::decode(b)));
        of("avro_records", &|b| {
            let Some((which, records)) = b.split_first() else {
                return Vec::new();
            };
            let (schema, is_manifest, is_list) = match which % 5 {
                0 => (include_str!("avro/schemas/manifest.avsc"), true, false),
                1 => (
                    include_str!("avro/schemas/manifest-newest.avsc"),
                    true,
                    false,
                ),
                2 => (manifest_list::SCHEMA, false, true),
                3 => (index_manifest::SCHEMA, false, false),
                _ => (
                    include_str!("avro/schemas/index-manifest-newest.avsc"),
                    false,
                    false,
                ),
            };
            let file = container(schema, i64::from(which / 5), records);
            match (is_manifest, is_list) {
                (true, _) => said(manifest::decode(&file)),
                (_, true) => said(manifest_list::decode(&file)),
                _ => said(index_manifest::decode(&file)),
            }
        });
        let versioned = |b: &[u8]| {
            b.split_first()
                .map(|(v, rest)| (i32::from(*v), rest.to_vec()))
        };
        of("commit_message", &|b| {
            let message = versioned(b).map(|(v, rest)| commit_message::decode(&rest, v % 14));
            message.into_iter().flat_map(said).collect()
        });
        of("manifest_committable", &|b| {
            let message = versioned(b).map(|(v, rest)| manifest_committable::decode(&rest, v % 6));
            message.into_iter().flat_map(said).collect()
        });
        let known: BTreeSet<&str> = DECODERS.iter().copied().collect();
        assert_eq!(all, known);
    }
}
