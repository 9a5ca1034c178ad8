//! The table options that a commit obeys \[F-8.3].

use std::time::Duration;

use tidegate_format::Codec;
use tidegate_model::options::TableOptions;
use tidegate_model::{KeyOrder, TableSchema};
use tidegate_protocol::merge::MergeSettings;
use tidegate_protocol::{EmptyCommits, Settings};

use crate::error::{CommitError, Result};
use crate::manifests::ManifestSettings;

/// Refuses what this build would commit wrongly, naming the option.
fn check_supported(schema: &TableSchema) -> Result<()> {
    for key in [
        "row-tracking.enabled",
        "data-evolution.enabled",
        "sequence.snapshot-ordering",
    ] {
        if schema.options.bool(key).map_err(config)? == Some(true) {
            return Err(CommitError::Config(format!(
                "tables with {key}=true cannot be committed to by this version"
            )));
        }
    }
    match schema.options.get("manifest.format") {
        None | Some("avro") => Ok(()),
        Some(format) => Err(CommitError::Config(format!(
            "manifest.format={format}: only avro is known"
        ))),
    }
}

pub(crate) fn config(error: tidegate_model::Error) -> CommitError {
    CommitError::Config(error.to_string())
}

/// What a committer takes from the options of its table.
#[derive(Clone, Debug)]
pub(crate) struct TableSettings {
    pub(crate) protocol: Settings,
    pub(crate) manifests: ManifestSettings,
    /// `commit.timeout`.
    pub(crate) timeout: Option<Duration>,
    /// Bucket count of entries whose message names none \[C-10].
    pub(crate) total_buckets: i32,
}

impl TableSettings {
    pub(crate) fn of(schema: &TableSchema, sync: [u8; 16]) -> Result<Self> {
        check_supported(schema)?;
        let options = TableOptions::of(schema).map_err(config)?;
        let (commit, manifest) = (&options.commit, &options.manifest);
        let codec = Codec::from_name(&manifest.compression, options.data_file.zstd_level)
            .map_err(|e| CommitError::Config(format!("manifest.compression: {e}")))?;
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let publish_empty = commit.empty_commit_makes_snapshot();
        let protocol = Settings {
            empty: if publish_empty {
                EmptyCommits::Publish
            } else {
                EmptyCommits::Ignore
            },
            max_retries: commit.max_retries,
            min_retry_wait_millis: millis(commit.min_retry_wait),
            max_retry_wait_millis: millis(commit.max_retry_wait),
            fixed_buckets: options.bucket > 0,
            key_order: match schema.is_append() {
                true => None,
                false => Some(KeyOrder::of(schema).map_err(config)?),
            },
            merge: MergeSettings {
                target_size: manifest.target_size,
                min_count: u32::try_from(manifest.merge_min_count).unwrap_or(u32::MAX),
                full_threshold: manifest.full_compaction_threshold,
                ..MergeSettings::default()
            },
            ..Settings::default()
        };
        Ok(Self {
            protocol,
            manifests: ManifestSettings {
                codec,
                sync,
                target_size: manifest.target_size,
                drop_stats_of_deletes: manifest.drop_stats_of_deletes,
                partition_types: schema.partition_types(),
            },
            timeout: commit.timeout,
            total_buckets: schema.bucket_mode().map_err(config)?.total_buckets(),
        })
    }
}
