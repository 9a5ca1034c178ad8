//! Names and identities as 16 bytes each, so that sets of millions of them fit into memory.
//!
//! Two different values have equal hashes with a chance of one in 10^24 among a million; whoever could
//! choose names to that end could as well choose equal names.

use std::hash::{DefaultHasher, Hash, Hasher};

use tidegate_model::ManifestEntry;

/// 128 bits of a value.
pub(super) fn digest(value: &(impl Hash + ?Sized)) -> u128 {
    let half = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        salt.hash(&mut hasher);
        value.hash(&mut hasher);
        u128::from(hasher.finish())
    };
    half(0) << 64 | half(1)
}

/// A file's identity \[0-3], see [`tidegate_model::FileIdentity`].
pub(super) fn identity(entry: &ManifestEntry) -> u128 {
    let file = &entry.file;
    digest(&(
        entry.partition.bytes(),
        entry.bucket,
        file.level,
        &file.file_name,
        &file.extra_files,
        &file.embedded_index,
        &file.external_path,
    ))
}

/// Files are looked at in shares, so that what must be remembered of them fits into memory: the share is
/// told by the name alone. A file and its companions (`NAME.index`) are in one share.
pub(super) fn share_of(name: &str, shares: u64) -> u64 {
    if shares <= 1 {
        return 0;
    }
    let mut hasher = DefaultHasher::new();
    stem(name).hash(&mut hasher);
    hasher.finish() % shares
}

/// The name up to its first dot; hidden files as a whole.
pub(super) fn stem(name: &str) -> &str {
    match name.split_once('.') {
        Some((stem, _)) if !stem.is_empty() => stem,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_and_its_companions_are_in_one_share() {
        let file = "data-7f035613-e3e7-4b78-9675-b0bd9d6b9e4b-0.parquet";
        for shares in [1, 2, 7, 1000] {
            let share = share_of(file, shares);
            assert!(share < shares);
            for companion in [".index", "-3.index"] {
                assert_eq!(share_of(&format!("{file}{companion}"), shares), share);
            }
        }
        assert_eq!(stem(".hidden.tmp"), ".hidden.tmp");
        assert_ne!(digest("a"), digest("b"));
    }
}
