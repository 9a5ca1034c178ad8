//! Names that one run gives to what it writes, and names of a job's own objects.
//!
//! Manifests of a run carry its prefix, so that a later run of the same job finds what a crash left
//! behind by name \[R-13].

use std::sync::atomic::{AtomicU64, Ordering};

use sha2::{Digest as _, Sha256};
use tidegate_sink::{CommitUser, Epoch, RunPrefix};

use crate::env::{Env, uuid};

/// `tg<first 8 hex digits of SHA-256(commit user)>e<epoch>-`: what every file name of a run starts
/// with, after the prefix of its kind \[R-2].
///
/// ```
/// use tidegate_sink::{CommitUser, Epoch};
/// let user = CommitUser::new("5dacde51")?;
/// assert_eq!(tidegate_commit::run_prefix(&user, Epoch(3)).0, "tg8afc5472e3-");
/// # Ok::<(), tidegate_sink::IdError>(())
/// ```
pub fn run_prefix(user: &CommitUser, epoch: Epoch) -> RunPrefix {
    let digest = hex(&Sha256::digest(user.as_str().as_bytes()));
    let short: String = digest.chars().take(8).collect();
    RunPrefix(format!("tg{short}e{epoch}-"))
}

/// Lower-case hex digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut out, byte| {
            let _ = write!(out, "{byte:02x}");
            out
        })
}

/// SHA-256 as hex digits.
pub(crate) fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Names of the metadata files of one opened committer: one uuid, one counter per kind \[F-1.2].
#[derive(Debug)]
pub(crate) struct MetadataNames {
    stem: String,
    manifests: AtomicU64,
    lists: AtomicU64,
    indexes: AtomicU64,
}

impl MetadataNames {
    pub(crate) fn new(prefix: &RunPrefix, env: &dyn Env) -> Self {
        Self {
            stem: format!("{prefix}{}", uuid(env)),
            manifests: AtomicU64::new(0),
            lists: AtomicU64::new(0),
            indexes: AtomicU64::new(0),
        }
    }

    pub(crate) fn manifest(&self) -> String {
        format!(
            "manifest-{}-{}",
            self.stem,
            self.manifests.fetch_add(1, Ordering::Relaxed)
        )
    }

    pub(crate) fn list(&self) -> String {
        format!(
            "manifest-list-{}-{}",
            self.stem,
            self.lists.fetch_add(1, Ordering::Relaxed)
        )
    }

    pub(crate) fn index_manifest(&self) -> String {
        format!(
            "index-manifest-{}-{}",
            self.stem,
            self.indexes.fetch_add(1, Ordering::Relaxed)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::SeededEnv;

    #[test]
    fn names_of_one_run_start_alike_and_never_repeat() {
        let prefix = run_prefix(&CommitUser::new("u").unwrap(), Epoch(12));
        let names = MetadataNames::new(&prefix, &SeededEnv::new(3, 0));
        let (a, b) = (names.manifest(), names.manifest());
        assert_ne!(a, b);
        assert!(a.starts_with(&format!("manifest-{prefix}")), "{a}");
        assert!(names.list().starts_with(&format!("manifest-list-{prefix}")));
        assert!(names.index_manifest().ends_with("-0"));
    }

    #[test]
    fn epoch_1_is_no_prefix_of_epoch_12() {
        let user = CommitUser::new("u").unwrap();
        let (one, twelve) = (run_prefix(&user, Epoch(1)), run_prefix(&user, Epoch(12)));
        assert!(!twelve.0.starts_with(&one.0));
    }
}
