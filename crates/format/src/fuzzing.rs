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
