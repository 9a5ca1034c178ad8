//! What the fuzz targets run, and `cargo test` on their seeds. No part of recovery.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "checks report by a panic"
)]

use crate::registry::read_versioned;
use crate::store::ListedRecord;
use crate::{Ended, Registration, decode, encode};

fn record(bytes: &[u8]) {
    if let Ok(record) = decode(bytes, "fuzz") {
        let again = encode(&record).expect("a record that was read can be written");
        assert_eq!(decode(&again, "fuzz").expect("and read again"), record);
    }
}

/// Bytes as a record, and bodies under a right checksum: an error or a record, never a panic; and what
/// is read is written back to an equal record.
pub fn checkpoint_record(data: &[u8]) {
    record(data);
    let Some((version, body)) = data.split_first() else {
        return;
    };
    let version = u16::from(version % 3).to_be_bytes();
    let length = (body.len() as u64).to_be_bytes();
    let checksum = crc32fast::hash(&[&version[..], &length, body].concat()).to_be_bytes();
    record(&[b"TGCK", &version[..], &length, &checksum, body].concat());
}

/// A registration, a mark of a clean end, the name of a record: read or refused; what is read is
/// written back to itself.
pub fn registration(data: &[u8]) {
    if let Ok(read) = read_versioned::<Registration>(data) {
        let again = serde_json::to_vec(&read).expect("it was JSON");
        assert_eq!(
            read_versioned::<Registration>(&again).expect("our own bytes"),
            read
        );
    }
    if let Ok(read) = read_versioned::<Ended>(data) {
        let again = serde_json::to_vec(&read).expect("it was JSON");
        assert_eq!(
            read_versioned::<Ended>(&again).expect("our own bytes"),
            read
        );
    }
    if let Ok(name) = std::str::from_utf8(data)
        && let Some(listed) = ListedRecord::parse(name, 1)
    {
        assert_eq!(ListedRecord::name(listed.id, listed.savepoint), name);
    }
}

#[cfg(test)]
tidegate_fuzz_support::seeds!(
    checkpoint_record: packed,
    registration: plain,
);

/// Seeds reach every variant of what a reader of records says.
#[cfg(test)]
mod corpus {
    use crate::{RecoveryError, decode};
    use std::collections::BTreeSet;
    use tidegate_fuzz_support::{reached, variants};

    variants!(RecoveryError {
        Record { .. },
    } elsewhere {
        // Of directories, stores and other runs; a registration's reader says why in words.
        Registration { .. }, Fenced { .. }, Undecided { .. }, NoSuchCheckpoint { .. },
        SeveralUsers { .. }, Adopted { .. }, Encode { .. }, Store { .. },
    });

    #[test]
    fn seeds_reach_every_variant() {
        let folder = env!("CARGO_MANIFEST_DIR");
        let all = reached(folder, "checkpoint_record", |b| {
            decode(b, "fuzz").err().iter().map(name).collect()
        });
        assert_eq!(all, DECODERS.iter().copied().collect::<BTreeSet<_>>());
    }
}
