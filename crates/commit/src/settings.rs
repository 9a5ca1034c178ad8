//! The table options that a commit obeys \[F-8.3].

use std::time::Duration;

use tidegate_format::Codec;
use tidegate_model::{Options, TableSchema};
use tidegate_protocol::merge::MergeSettings;
use tidegate_protocol::{EmptyCommits, Settings};

use crate::error::{CommitError, Result};
use crate::manifests::ManifestSettings;
use crate::partition_stats::partition_types;

/// Refuses what this build would commit wrongly, naming the option.
pub(crate) fn check_supported(schema: &TableSchema) -> Result<()> {
    for key in ["row-tracking.enabled", "data-evolution.enabled", "sequence.snapshot-ordering"] {
        if schema.options.get(key) == Some("true") {
            return Err(CommitError::Config(format!(
                "tables with {key}=true cannot be committed to by this version"
            )));
        }
    }
    if let Some(format) = schema.options.get("manifest.format")
        && format != "avro"
    {
        return Err(CommitError::Config(format!("manifest.format={format}: only avro is known")));
    }
    Ok(())
}

/// What a committer takes from the options of its table.
#[derive(Clone, Debug)]
pub(crate) struct TableSettings {
    pub(crate) protocol: Settings,
    pub(crate) manifests: ManifestSettings,
    /// `commit.timeout`.
    pub(crate) timeout: Option<Duration>,
    /// `bucket`; -1 where it is not set.
    pub(crate) buckets: i32,
}

impl TableSettings {
    pub(crate) fn of(schema: &TableSchema, sync: [u8; 16]) -> Result<Self> {
        check_supported(schema)?;
        let options = &schema.options;
        let defaults = Settings::default();
        let merge = MergeSettings::default();
        let buckets = number(options, "bucket")?.unwrap_or(-1);
        let target_size = size(options, "manifest.target-file-size")?.unwrap_or(merge.target_size);
        // Explicit wins over forced: both say whether an empty checkpoint shows in the table.
        let force = options.get("commit.force-create-snapshot") == Some("true");
        let ignore = options.get("snapshot.ignore-empty-commit");
        let empty = match ignore {
            _ if force => EmptyCommits::Publish,
            Some("false") => EmptyCommits::Publish,
            _ => EmptyCommits::Ignore,
        };
        let level = number(options, "file.compression.zstd-level")?.unwrap_or(1);
        let codec = options.get("manifest.compression").unwrap_or("zstd");
        let codec = Codec::from_name(codec, level)
            .map_err(|e| CommitError::Config(format!("manifest.compression: {e}")))?;
        let protocol = Settings {
            empty,
            max_retries: number(options, "commit.max-retries")?.unwrap_or(defaults.max_retries),
            min_retry_wait_millis: millis(options, "commit.min-retry-wait")?
                .unwrap_or(defaults.min_retry_wait_millis),
            max_retry_wait_millis: millis(options, "commit.max-retry-wait")?
                .unwrap_or(defaults.max_retry_wait_millis),
            fixed_buckets: buckets > 0,
            merge: MergeSettings {
                target_size,
                min_count: number(options, "manifest.merge-min-count")?.unwrap_or(merge.min_count),
                full_threshold: size(options, "manifest.full-compaction-threshold-size")?
                    .unwrap_or(merge.full_threshold),
                max_rewrite: merge.max_rewrite,
            },
            ..defaults
        };
        Ok(Self {
            protocol,
            manifests: ManifestSettings {
                codec,
                sync,
                target_size,
                partition_types: partition_types(schema)?,
            },
            timeout: millis(options, "commit.timeout")?.map(Duration::from_millis),
            buckets,
        })
    }
}

fn bad(key: &str, text: &str, expected: &str) -> CommitError {
    CommitError::Config(format!("option '{key}' = '{text}': expected {expected}"))
}

fn number<T: std::str::FromStr>(options: &Options, key: &str) -> Result<Option<T>> {
    let Some(text) = options.get(key) else { return Ok(None) };
    text.trim().parse().map(Some).map_err(|_| bad(key, text, "a whole number"))
}

/// A number and its unit, which may stand apart.
fn with_unit(key: &str, text: &str, units: &[(&[&str], u64)], expected: &str) -> Result<u64> {
    let text_trimmed = text.trim();
    let digits = text_trimmed.find(|c: char| !c.is_ascii_digit()).unwrap_or(text_trimmed.len());
    let (count, unit) = text_trimmed.split_at(digits);
    let unit = unit.trim().to_ascii_lowercase();
    let factor = units.iter().find(|(names, _)| names.contains(&unit.as_str())).map(|(_, f)| *f);
    let count = count.parse::<u64>().ok();
    count
        .zip(factor)
        .and_then(|(count, factor)| count.checked_mul(factor))
        .ok_or_else(|| bad(key, text, expected))
}

fn size(options: &Options, key: &str) -> Result<Option<u64>> {
    const UNITS: &[(&[&str], u64)] = &[
        (&["", "b", "bytes"], 1),
        (&["k", "kb", "kibibytes"], 1 << 10),
        (&["m", "mb", "mebibytes"], 1 << 20),
        (&["g", "gb", "gibibytes"], 1 << 30),
        (&["t", "tb", "tebibytes"], 1 << 40),
    ];
    let Some(text) = options.get(key) else { return Ok(None) };
    with_unit(key, text, UNITS, "a size such as 8 mb").map(Some)
}

fn millis(options: &Options, key: &str) -> Result<Option<u64>> {
    const UNITS: &[(&[&str], u64)] = &[
        (&["", "ms", "milli", "millis", "millisecond", "milliseconds"], 1),
        (&["s", "sec", "secs", "second", "seconds"], 1000),
        (&["m", "min", "minute", "minutes"], 60_000),
        (&["h", "hour", "hours"], 3_600_000),
        (&["d", "day", "days"], 86_400_000),
    ];
    let Some(text) = options.get(key) else { return Ok(None) };
    with_unit(key, text, UNITS, "a duration such as 10 s").map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_durations_are_read_as_java_reads_them() {
        let options: Options =
            [("a", "8 mb"), ("b", "16MB"), ("c", "512"), ("d", "10 s"), ("e", "5min"), ("f", "x")]
                .into_iter()
                .collect();
        assert_eq!(size(&options, "a").unwrap(), Some(8 << 20));
        assert_eq!(size(&options, "b").unwrap(), Some(16 << 20));
        assert_eq!(size(&options, "c").unwrap(), Some(512));
        assert_eq!(size(&options, "z").unwrap(), None);
        assert_eq!(millis(&options, "d").unwrap(), Some(10_000));
        assert_eq!(millis(&options, "e").unwrap(), Some(300_000));
        let error = millis(&options, "f").unwrap_err().to_string();
        assert!(error.contains("'f' = 'x'"), "{error}");
    }
}
