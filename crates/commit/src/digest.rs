//! Identity of a committable's content \[R-5].
//!
//! SHA-256 over a canonical form: per half the sorted identities of files and index files with what
//! happens to them, then the positions. Nothing that an attempt changes takes part: no epoch, no
//! time, no order of messages, no statistics.

use sha2::{Digest as _, Sha256};
use tidegate_model::{BinaryRow, BucketId, CommitMessage, DataFileMeta, IndexFileMeta};
use tidegate_sink::{Digest, Positions};

const DOMAIN: &[u8] = b"tidegate committable digest 1\n";

const ADD: u8 = 0;
const DELETE: u8 = 1;
const CHANGELOG: u8 = 2;
const ADD_INDEX: u8 = 3;
const DELETE_INDEX: u8 = 4;

/// The digest of these messages and positions.
pub fn digest(messages: &[CommitMessage], positions: Option<&Positions>) -> Digest {
    let mut append = Vec::new();
    let mut compact = Vec::new();
    for message in messages {
        let place = |what, out: &mut Vec<Vec<u8>>, files: &[DataFileMeta]| {
            out.extend(
                files
                    .iter()
                    .map(|f| file(what, &message.partition, message.bucket, f)),
            );
        };
        let index = |what, out: &mut Vec<Vec<u8>>, files: &[IndexFileMeta]| {
            out.extend(
                files
                    .iter()
                    .map(|f| index_file(what, &message.partition, message.bucket, f)),
            );
        };
        let (data, rewritten) = (&message.data, &message.compact);
        place(ADD, &mut append, &data.new_files);
        place(DELETE, &mut append, &data.deleted_files);
        place(CHANGELOG, &mut append, &data.changelog_files);
        index(ADD_INDEX, &mut append, &data.new_index_files);
        index(DELETE_INDEX, &mut append, &data.deleted_index_files);
        place(DELETE, &mut compact, &rewritten.compact_before);
        place(ADD, &mut compact, &rewritten.compact_after);
        place(CHANGELOG, &mut compact, &rewritten.changelog_files);
        index(ADD_INDEX, &mut compact, &rewritten.new_index_files);
        index(DELETE_INDEX, &mut compact, &rewritten.deleted_index_files);
    }
    let mut hash = Sha256::new();
    hash.update(DOMAIN);
    for mut half in [append, compact] {
        half.sort_unstable();
        hash.update((half.len() as u64).to_be_bytes());
        for item in half {
            hash.update((item.len() as u64).to_be_bytes());
            hash.update(&item);
        }
    }
    match positions {
        None => hash.update([0]),
        Some(positions) => {
            hash.update([1]);
            for part in [&positions.active, &positions.finished] {
                hash.update((part.len() as u64).to_be_bytes());
                hash.update(part);
            }
        }
    }
    Digest(hash.finalize().into())
}

fn put(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u64).to_be_bytes());
    out.extend_from_slice(bytes);
}

fn put_option(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    out.push(u8::from(bytes.is_some()));
    put(out, bytes.unwrap_or_default());
}

fn place(what: u8, partition: &BinaryRow, bucket: BucketId) -> Vec<u8> {
    let mut out = vec![what];
    out.extend_from_slice(&partition.arity().to_be_bytes());
    put(&mut out, partition.bytes());
    out.extend_from_slice(&bucket.0.to_be_bytes());
    out
}

/// The members of the file identity, in their order there \[0-1].
fn file(what: u8, partition: &BinaryRow, bucket: BucketId, file: &DataFileMeta) -> Vec<u8> {
    let mut out = place(what, partition, bucket);
    out.extend_from_slice(&file.level.0.to_be_bytes());
    put(&mut out, file.file_name.as_bytes());
    out.extend_from_slice(&(file.extra_files.len() as u64).to_be_bytes());
    file.extra_files
        .iter()
        .for_each(|name| put(&mut out, name.as_bytes()));
    put_option(&mut out, file.embedded_index.as_deref());
    put_option(&mut out, file.external_path.as_deref().map(str::as_bytes));
    out
}

fn index_file(what: u8, partition: &BinaryRow, bucket: BucketId, file: &IndexFileMeta) -> Vec<u8> {
    let mut out = place(what, partition, bucket);
    put(&mut out, file.index_type.as_bytes());
    put(&mut out, file.file_name.as_bytes());
    put_option(&mut out, file.external_path.as_deref().map(str::as_bytes));
    out
}
