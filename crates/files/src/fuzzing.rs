//! What the fuzz targets run, and `cargo test` on their seeds. No part of the target.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "checks report by a panic"
)]

use crate::DataFile;
use crate::log::{Entry, Plan, VERSION, unhex};
use crate::writer::MESSAGE_VERSION;
use tidegate_sink::{CommitIdentifier, CommitUser, Committable, Digest, Message};

/// An entry of the commit log, a writer's message, a committable's payload: read or refused by name;
/// what is read is written back to itself and names nothing outside of the directory.
pub fn log_entry(data: &[u8]) {
    let plain = |name: &str| !name.contains(['/', '\\']);
    match Entry::decode("commit-7", data) {
        Ok(entry) => {
            let again = serde_json::to_vec(&entry).expect("it was JSON");
            assert_eq!(
                Entry::decode("commit-7", &again).expect("our own bytes"),
                entry
            );
            assert!(entry.plan.files.iter().all(|f| plain(&f.name)));
        }
        Err(error) => assert!(error.to_string().contains("commit-7"), "{error}"),
    }
    let message = |bytes| Message {
        version: MESSAGE_VERSION,
        bytes,
    };
    if let Ok(file) = DataFile::from_message(&message(data.to_vec())) {
        assert!(plain(&file.name));
        let again = file.to_message().expect("it was JSON");
        assert_eq!(DataFile::from_message(&again).expect("our own bytes"), file);
    }
    let committable = Committable {
        user: CommitUser::new("fuzz").expect("a user"),
        identifier: CommitIdentifier(7),
        digest: Digest([0; 32]),
        expected: 1,
        received: 1,
        version: VERSION,
        payload: data.to_vec(),
    };
    match Plan::of(&committable) {
        Ok(plan) => {
            let again = Committable {
                payload: plan.to_payload().expect("it was JSON"),
                ..committable
            };
            assert_eq!(Plan::of(&again).expect("our own bytes"), plan);
            Entry::new(&again).expect("the same once more");
        }
        Err(error) => assert!(error.to_string().contains("committable 7"), "{error}"),
    }
    if let Ok(text) = std::str::from_utf8(data)
        && let Some(bytes) = unhex(text)
    {
        let again: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(again, text.to_ascii_lowercase());
    }
}

#[cfg(test)]
tidegate_fuzz_support::seeds!(
    log_entry: plain,
);

/// Seeds reach every variant of what a reader of log entries, messages and payloads says.
#[cfg(test)]
mod corpus {
    use super::{
        CommitIdentifier, CommitUser, Committable, DataFile, Digest, Entry, MESSAGE_VERSION,
        Message, Plan, VERSION,
    };
    use crate::FilesError;
    use std::collections::BTreeSet;
    use tidegate_fuzz_support::{reached, variants};

    variants!(FilesError {
        Corrupt { .. },
    } elsewhere {
        // Of stores, options and writers.
        Store { .. }, Data { .. }, Config(..), Unsupported(..), Interrupted,
    });

    #[test]
    fn seeds_reach_every_variant() {
        let folder = env!("CARGO_MANIFEST_DIR");
        let all = reached(folder, "log_entry", |data| {
            let committable = Committable {
                user: CommitUser::new("fuzz").unwrap(),
                identifier: CommitIdentifier(7),
                digest: Digest([0; 32]),
                expected: 1,
                received: 1,
                version: VERSION,
                payload: data.to_vec(),
            };
            let message = Message {
                version: MESSAGE_VERSION,
                bytes: data.to_vec(),
            };
            let errors = [
                Entry::decode("commit-7", data).err(),
                DataFile::from_message(&message).err(),
                Plan::of(&committable).err(),
            ];
            errors.iter().flatten().map(name).collect()
        });
        assert_eq!(all, DECODERS.iter().copied().collect::<BTreeSet<_>>());
    }
}
