//! What the fuzz targets run, and `cargo test` on their seeds. No part of the contract.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "checks report by a panic"
)]

use crate::{CommitUser, Committable, Digest, JobName};

/// An error or a committable, never a panic; and since committables are compared by their bytes, what
/// is read is written back byte for byte.
pub fn committable_frame(data: &[u8]) {
    for bytes in [data.to_vec(), [b"TGCM\0\x01", data].concat()] {
        if let Ok(committable) = Committable::from_bytes(&bytes) {
            assert_eq!(committable.to_bytes(), bytes);
        }
    }
}

/// What is accepted reads back as itself.
pub fn names(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(name) = JobName::new(text) {
        assert_eq!(name.as_str(), text);
    }
    if let Ok(user) = CommitUser::new(text) {
        assert_eq!(user.as_str(), text);
    }
    if let Ok(digest) = Digest::parse(text) {
        assert_eq!(digest.to_string(), text.to_ascii_lowercase());
    }
}

#[cfg(test)]
tidegate_fuzz_support::seeds!(
    committable_frame: plain,
    names: plain,
);
