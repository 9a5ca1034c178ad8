//! The options of a commit.
//!
//! Owns: values and defaults of Paimon's commit options, and the pure back-off \[C-20].

use crate::rules::{Rule, Rules};
use tidegate_model::KeyOrder;

/// What to do with a committable that has no file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EmptyCommits {
    /// No snapshot: the position lives in the checkpoint record.
    Ignore,
    /// A snapshot: `snapshot.ignore-empty-commit=false`, or `commit.force-create-snapshot`.
    Publish,
}

/// Options of a commit; Paimon's keys in the docs of each field.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Settings {
    /// `snapshot.ignore-empty-commit`, `commit.force-create-snapshot` \[C-11].
    pub empty: EmptyCommits,
    /// `commit.max-retries`: attempts are one more \[C-20].
    pub max_retries: u32,
    /// How often a publish without an answer is put again before it is *undecided* \[R-6].
    pub max_unknown: u32,
    /// `commit.min-retry-wait` in milliseconds.
    pub min_retry_wait_millis: u64,
    /// `commit.max-retry-wait` in milliseconds.
    pub max_retry_wait_millis: u64,
    /// True for fixed buckets: bucket counts are compared with the base \[C-25].
    pub fixed_buckets: bool,
    /// How keys compare, in a keyed table: files of one level above 0 must not meet \[C-30].
    pub key_order: Option<KeyOrder>,
    /// Manifest merging.
    pub merge: crate::merge::MergeSettings,
    /// Snapshot ids read per `ReadHistory` step.
    pub history_chunk: u32,
    /// The rules in force: all of them, except in mutation tests.
    pub rules: Rules,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            empty: EmptyCommits::Ignore,
            max_retries: 10,
            max_unknown: 10,
            min_retry_wait_millis: 10,
            max_retry_wait_millis: 10_000,
            fixed_buckets: false,
            key_order: None,
            merge: crate::merge::MergeSettings::default(),
            history_chunk: 32,
            rules: Rules::default(),
        }
    }
}

impl Settings {
    /// Milliseconds to wait before retry `n` (the first is 0): `min · 2^n`, capped, plus a random
    /// part of up to 20 % \[C-20]. `jitter` is a random number out of 0..=1000.
    pub fn back_off_millis(&self, n: u32, jitter: u32) -> u64 {
        let n = if self.rules.on(Rule::BackOffGrows) {
            n
        } else {
            0
        };
        let factor = 1u64.checked_shl(n).unwrap_or(u64::MAX);
        let wait = self
            .min_retry_wait_millis
            .saturating_mul(factor)
            .min(self.max_retry_wait_millis);
        let part = (wait / 5).saturating_mul(u64::from(jitter.min(1000))) / 1000;
        wait.saturating_add(part)
    }
}
