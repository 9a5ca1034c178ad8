//! What the fuzz targets run, and `cargo test` on their seeds. No part of committing.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "checks report by a panic"
)]

use crate::committable::{PAYLOAD_VERSION, decode, from_java};
use crate::{Marks, Note};
use tidegate_format::snapshot;
use tidegate_sink::{CommitIdentifier, CommitUser, Committable, Digest};

/// The payload of a committable: an error or its content, never a panic.
pub fn committable(data: &[u8]) {
    let user = CommitUser::new("fuzz").expect("a user");
    let open = |identifier: i64, payload: Vec<u8>| {
        let _ = decode(&Committable {
            user: user.clone(),
            identifier: CommitIdentifier(identifier),
            digest: Digest([0; 32]),
            expected: 1,
            received: 1,
            version: PAYLOAD_VERSION,
            payload,
        });
    };
    // The frame's identifier is Java's first field: most payloads get past the comparison.
    let first = data
        .get(12..20)
        .and_then(|b| b.try_into().ok())
        .map_or(0, i64::from_be_bytes);
    open(first, data.to_vec());
    // Nothing but our extras behind a committable of Java.
    if let Ok(java) = from_java(&user, 5, data) {
        let read = decode(&java).expect("what was framed can be read");
        assert!(read.extras.is_none());
        let mut payload = java.payload.clone();
        payload.pop();
        payload.extend_from_slice(data);
        open(java.identifier.0, payload);
    }
}

/// An error or a note, never a panic; what is read is written back to an equal note.
pub fn published_note(data: &[u8]) {
    if let Ok(note) = Note::decode("fuzz", data) {
        let again = note.encode();
        assert_eq!(
            Note::decode("fuzz", &again).expect("what was written can be read"),
            note
        );
    }
}

/// Arbitrary JSON as a snapshot with our marks: an error, none or marks, never a panic; what is read is
/// written back to properties that read the same.
pub fn snapshot_marks(data: &[u8]) {
    let Ok(mut snapshot) = snapshot::decode(data) else {
        return;
    };
    if let Ok(Some(marks)) = Marks::of(&snapshot) {
        snapshot.properties = marks.to_properties();
        assert_eq!(
            Marks::of(&snapshot).expect("what was written can be read"),
            Some(marks)
        );
    }
}

#[cfg(test)]
tidegate_fuzz_support::seeds!(
    committable: plain,
    published_note: plain,
    snapshot_marks: plain,
);

/// Seeds reach every variant of what a reader of payloads, notes and marks says.
#[cfg(test)]
mod corpus {
    use super::{
        CommitIdentifier, CommitUser, Committable, Digest, Marks, Note, PAYLOAD_VERSION, decode,
        snapshot,
    };
    use crate::CommitError;
    use std::collections::BTreeSet;
    use tidegate_fuzz_support::{reached, variants};

    variants!(CommitError {
        Corrupt { .. },
    } elsewhere {
        // Of stores, tables and what they refuse.
        Store { .. }, Missing { .. }, NoTable { .. }, TableExists { .. }, Config(..),
        Exhausted { .. }, Refused(..),
    });

    #[test]
    fn seeds_reach_every_variant() {
        let folder = env!("CARGO_MANIFEST_DIR");
        let mut all = BTreeSet::new();
        let mut of = |target: &str, errors: &dyn Fn(&[u8]) -> Option<CommitError>| {
            let found = reached(folder, target, |b| errors(b).iter().map(name).collect());
            assert_eq!(
                found,
                DECODERS.iter().copied().collect::<BTreeSet<_>>(),
                "{target}"
            );
            all.extend(found);
        };
        of("committable", &|data| {
            decode(&Committable {
                user: CommitUser::new("fuzz").unwrap(),
                identifier: CommitIdentifier(0),
                digest: Digest([0; 32]),
                expected: 1,
                received: 1,
                version: PAYLOAD_VERSION,
                payload: data.to_vec(),
            })
            .err()
        });
        of("published_note", &|data| Note::decode("fuzz", data).err());
        of("snapshot_marks", &|data| {
            Marks::of(&snapshot::decode(data).ok()?).err()
        });
        assert!(!all.is_empty());
    }
}
