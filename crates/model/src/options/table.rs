//! The options that the read and write paths use, as values.

use super::Options;
use crate::bucket::BucketFunction;
use crate::error::{Error, Result};
use crate::schema::TableSchema;
use crate::statistics::StatsMode;
use std::time::Duration;

/// What a table's options say, parsed once; defaults are Paimon's \[F-8].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableOptions {
    /// `bucket`: above 0 fixed, -1 unaware or dynamic, -2 postpone \[F-7.1].
    pub bucket: i32,
    /// `bucket-key`, or the trimmed primary key.
    pub bucket_keys: Vec<String>,
    /// `bucket-function.type`
    pub bucket_function: BucketFunction,
    /// `partition.default-name`
    pub partition_default_name: String,
    /// `partition.legacy-name`
    pub partition_legacy_name: bool,
    /// `write-buffer-size`, bytes
    pub write_buffer_size: u64,
    /// `write-only`
    pub write_only: bool,
    /// Data files.
    pub data_file: DataFileOptions,
    /// Column statistics.
    pub stats: StatsOptions,
    /// Manifests.
    pub manifest: ManifestOptions,
    /// Commits.
    pub commit: CommitOptions,
}

/// How data files are named, encoded and rolled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataFileOptions {
    /// `file.format`, lower case
    pub format: String,
    /// `file.compression`, lower case
    pub compression: String,
    /// `file.compression.zstd-level`
    pub zstd_level: i32,
    /// `file.block-size`, bytes of a row group
    pub block_size: Option<u64>,
    /// `target-file-size`, bytes; 256 MiB without primary key, else 128 MiB
    pub target_size: u64,
    /// `target-file-row-num`
    pub target_rows: u64,
    /// `data-file.prefix`
    pub prefix: String,
    /// `data-file.thin-mode`: files of keyed tables without repeated key columns
    pub thin: bool,
    /// `data-file.path-directory`
    pub path_directory: Option<String>,
    /// `file.suffix.include.compression`
    pub suffix_includes_compression: bool,
    /// All `parquet.*` options, keys whole, for the encoder.
    pub parquet: Vec<(String, String)>,
}

/// Which statistics a file's entry carries \[F-4.4].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatsOptions {
    /// `metadata.stats-mode`
    pub mode: StatsMode,
    /// `fields.<column>.stats-mode`, by column
    pub columns: Vec<(String, StatsMode)>,
    /// `metadata.stats-keep-first-n-columns`; `None` = all
    pub keep_first_n_columns: Option<usize>,
    /// `metadata.stats-dense-store`
    pub dense_store: bool,
}

impl StatsOptions {
    /// The mode of a column by its name and place in the schema; a mode of its own beats the limit
    /// on columns.
    pub fn mode_of(&self, column: &str, place: usize) -> StatsMode {
        match self.columns.iter().find(|(name, _)| name == column) {
            Some((_, mode)) => *mode,
            None if self.keep_first_n_columns.is_some_and(|n| place >= n) => StatsMode::None,
            None => self.mode,
        }
    }
}

/// How manifests are written and merged \[F-4.7].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestOptions {
    /// `manifest.compression`
    pub compression: String,
    /// `manifest.target-file-size`, bytes
    pub target_size: u64,
    /// `manifest.merge-min-count`
    pub merge_min_count: u64,
    /// `manifest.full-compaction-threshold-size`, bytes
    pub full_compaction_threshold: u64,
    /// `manifest.delete-file-drop-stats`
    pub drop_stats_of_deletes: bool,
}

/// How snapshots are committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitOptions {
    /// `commit.user-prefix`
    pub user_prefix: Option<String>,
    /// `commit.max-retries`
    pub max_retries: u32,
    /// `commit.min-retry-wait`
    pub min_retry_wait: Duration,
    /// `commit.max-retry-wait`
    pub max_retry_wait: Duration,
    /// `commit.timeout`
    pub timeout: Option<Duration>,
    /// `commit.force-create-snapshot`
    pub force_create_snapshot: bool,
    /// `snapshot.ignore-empty-commit`; `None` = the engine decides
    pub ignore_empty_commit: Option<bool>,
}

impl CommitOptions {
    /// True where a commit without changes makes a snapshot all the same. Without either option it
    /// makes none: no heartbeat snapshots.
    pub fn empty_commit_makes_snapshot(&self) -> bool {
        self.force_create_snapshot || self.ignore_empty_commit == Some(false)
    }
}

impl TableOptions {
    /// The same for changelog files: `changelog-file.format`, `.compression`, `.prefix` and
    /// `.stats-mode` where they are set \[F-8.5].
    ///
    /// # Errors
    /// Names key, text and what is accepted.
    pub fn for_changelog(mut self, options: &Options) -> Result<Self> {
        let lower = |text: &str| text.trim().to_ascii_lowercase();
        if let Some(format) = options.get("changelog-file.format") {
            self.data_file.format = lower(format);
        }
        if let Some(codec) = options.get("changelog-file.compression") {
            self.data_file.compression = lower(codec);
        }
        let key = "changelog-file.stats-mode";
        if let Some(text) = options.get(key) {
            self.stats.mode = stats_mode(key, text)?;
        }
        self.data_file.prefix = prefix(options, "changelog-file.prefix", "changelog-")?;
        Ok(self)
    }

    /// The options of a table, defaults of its schema version included.
    ///
    /// # Errors
    /// Names key, text and what is accepted.
    pub fn of(schema: &TableSchema) -> Result<Self> {
        let options = schema.effective_options();
        let target = if schema.primary_keys.is_empty() {
            256 << 20
        } else {
            128 << 20
        };
        let text = |key: &str, default: &str| options.get(key).unwrap_or(default).to_owned();
        Ok(Self {
            bucket: bucket(&options)?,
            bucket_keys: schema.bucket_keys(),
            bucket_function: match options.get("bucket-function.type") {
                Some(text) => BucketFunction::from_option(text)?,
                None => BucketFunction::Default,
            },
            partition_default_name: text("partition.default-name", "__DEFAULT_PARTITION__"),
            partition_legacy_name: options.bool("partition.legacy-name")?.unwrap_or(true),
            write_buffer_size: options.bytes("write-buffer-size")?.unwrap_or(256 << 20),
            write_only: options.bool("write-only")?.unwrap_or(false),
            data_file: DataFileOptions {
                format: text("file.format", "parquet").trim().to_ascii_lowercase(),
                compression: text("file.compression", "zstd").trim().to_ascii_lowercase(),
                zstd_level: zstd_level(&options)?,
                block_size: above_zero(&options, "file.block-size")?,
                target_size: above_zero(&options, "target-file-size")?.unwrap_or(target),
                target_rows: options
                    .positive("target-file-row-num")?
                    .unwrap_or(i64::MAX as u64),
                prefix: prefix(&options, "data-file.prefix", "data-")?,
                thin: options.bool("data-file.thin-mode")?.unwrap_or(false),
                path_directory: path_directory(&options)?,
                suffix_includes_compression: options
                    .bool("file.suffix.include.compression")?
                    .unwrap_or(false),
                parquet: options
                    .iter()
                    .filter(|(k, _)| k.starts_with("parquet."))
                    .map(|(k, v)| (k.to_owned(), v.to_owned()))
                    .collect(),
            },
            stats: stats(&options)?,
            manifest: ManifestOptions {
                compression: text("manifest.compression", "zstd")
                    .trim()
                    .to_ascii_lowercase(),
                target_size: above_zero(&options, "manifest.target-file-size")?.unwrap_or(8 << 20),
                merge_min_count: options.positive("manifest.merge-min-count")?.unwrap_or(30),
                full_compaction_threshold: options
                    .bytes("manifest.full-compaction-threshold-size")?
                    .unwrap_or(16 << 20),
                drop_stats_of_deletes: options
                    .bool("manifest.delete-file-drop-stats")?
                    .unwrap_or(false),
            },
            commit: commit(&options)?,
        })
    }
}

fn refuse<T>(key: &str, value: &str, expected: &str) -> Result<T> {
    Err(Error::Option {
        key: key.to_owned(),
        value: value.to_owned(),
        expected: expected.to_owned(),
    })
}

fn above_zero(options: &Options, key: &str) -> Result<Option<u64>> {
    match options.bytes(key)? {
        Some(0) => refuse(key, options.get(key).unwrap_or_default(), "must be above 0"),
        other => Ok(other),
    }
}

fn bucket(options: &Options) -> Result<i32> {
    match options.i32("bucket")? {
        None => Ok(-1),
        Some(n) if n > 0 || n == -1 || n == -2 => Ok(n),
        Some(n) => refuse(
            "bucket",
            &n.to_string(),
            "must be a number of buckets above 0, -1 (no fixed number) or -2 (postponed)",
        ),
    }
}

fn zstd_level(options: &Options) -> Result<i32> {
    let key = "file.compression.zstd-level";
    match options.i32(key)? {
        None => Ok(1),
        Some(level) if (1..=22).contains(&level) => Ok(level),
        Some(level) => refuse(key, &level.to_string(), "must be from 1 to 22"),
    }
}

fn prefix(options: &Options, key: &str, default: &str) -> Result<String> {
    match options.get(key) {
        None => Ok(default.to_owned()),
        Some(text) if text.contains(['/', '\\']) => refuse(
            key,
            text,
            "must be the start of a file name, without slashes",
        ),
        Some(text) => Ok(text.to_owned()),
    }
}

fn path_directory(options: &Options) -> Result<Option<String>> {
    let key = "data-file.path-directory";
    match options.get(key) {
        None => Ok(None),
        Some(text) => {
            let dir = text.trim_matches('/');
            let foreign = |part: &str| part.is_empty() || part == "." || part == "..";
            if dir.contains("://") || dir.split('/').any(foreign) {
                return refuse(key, text, "must be a directory below the table");
            }
            Ok(Some(dir.to_owned()))
        }
    }
}

fn stats_mode(key: &str, text: &str) -> Result<StatsMode> {
    match StatsMode::parse(text) {
        Some(mode) => Ok(mode),
        None => refuse(
            key,
            text,
            "must be none, counts, full or truncate(n) with n above 0",
        ),
    }
}

fn stats(options: &Options) -> Result<StatsOptions> {
    let mode = stats_mode;
    let key = "metadata.stats-mode";
    let keep = "metadata.stats-keep-first-n-columns";
    Ok(StatsOptions {
        mode: mode(key, options.get(key).unwrap_or("truncate(16)"))?,
        columns: options
            .iter()
            .filter_map(|(key, value)| {
                let column = key.strip_prefix("fields.")?.strip_suffix(".stats-mode")?;
                Some(mode(key, value).map(|mode| (column.to_owned(), mode)))
            })
            .collect::<Result<_>>()?,
        keep_first_n_columns: match options.i32(keep)? {
            None | Some(-1) => None,
            Some(n) => match usize::try_from(n) {
                Ok(n) => Some(n),
                Err(_) => return refuse(keep, &n.to_string(), "must be -1 or a number of columns"),
            },
        },
        dense_store: options.bool("metadata.stats-dense-store")?.unwrap_or(true),
    })
}

fn commit(options: &Options) -> Result<CommitOptions> {
    let key = "commit.max-retries";
    let max_retries = match options.i32(key)? {
        None => 10,
        Some(n) => match u32::try_from(n) {
            Ok(n) => n,
            Err(_) => return refuse(key, &n.to_string(), "must not be negative"),
        },
    };
    Ok(CommitOptions {
        user_prefix: options.get("commit.user-prefix").map(str::to_owned),
        max_retries,
        min_retry_wait: options
            .duration("commit.min-retry-wait")?
            .unwrap_or(Duration::from_millis(10)),
        max_retry_wait: options
            .duration("commit.max-retry-wait")?
            .unwrap_or(Duration::from_secs(10)),
        timeout: options.duration("commit.timeout")?,
        force_create_snapshot: options
            .bool("commit.force-create-snapshot")?
            .unwrap_or(false),
        ignore_empty_commit: options.bool("snapshot.ignore-empty-commit")?,
    })
}
