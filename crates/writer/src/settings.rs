//! What a writer takes from the table's options, and what an operator may set.

use std::path::PathBuf;
use std::sync::Arc;

use tidegate_model::TableSchema;
use uuid::Uuid;

use crate::error::{Result, WriterError};

/// Gives the creation time of data files; injected, so that tests can choose it.
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// The local wall clock in milliseconds since 1970-01-01T00:00:00, as if it were UTC
    /// \[F-12.15].
    fn local_millis(&self) -> i64;
}

/// The clock and zone of this process.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn local_millis(&self) -> i64 {
        let now = jiff::ZonedDateTime::now();
        now.timestamp().as_millisecond() + i64::from(now.offset().seconds()) * 1000
    }
}

/// Settings of a writer that do not belong to the table.
#[derive(Clone, Debug)]
pub struct WriterOptions {
    /// Folder for rows that do not fit into memory; files there have no names and vanish with the
    /// process.
    pub spill_directory: PathBuf,
    /// Bytes of spilled rows at most; beyond, files are closed early (more than one per partition
    /// and checkpoint), which [`crate::WriterMetrics::early_hand_overs`] counts.
    pub spill_limit: u64,
    /// Requests to the store under way at once.
    pub requests: usize,
    /// Memory that an open Parquet encoder is counted with at least: compression contexts and
    /// dictionaries are real although empty encoders report next to nothing.
    pub encoder_bytes: usize,
    /// Unique part of the file names of this writer.
    pub uuid: Uuid,
    /// Creation times.
    pub clock: Arc<dyn Clock>,
}

impl Default for WriterOptions {
    fn default() -> Self {
        Self {
            spill_directory: std::env::temp_dir(),
            spill_limit: 64 << 30,
            requests: 64,
            encoder_bytes: 1 << 20,
            uuid: Uuid::new_v4(),
            clock: Arc::new(SystemClock),
        }
    }
}

/// What the table's options say.
#[derive(Clone, Debug)]
pub(crate) struct TableSettings {
    pub(crate) target_bytes: u64,
    pub(crate) target_rows: u64,
    pub(crate) directory: String,
    pub(crate) codec_in_name: bool,
}

impl TableSettings {
    pub(crate) fn new(schema: &TableSchema) -> Result<Self> {
        let options = &schema.options;
        if options.get("data-file.external-paths").is_some_and(|paths| !paths.trim().is_empty())
            && options.get("data-file.external-paths.strategy").is_some_and(|s| s.trim() != "none")
        {
            return Err(WriterError::Config(
                "option data-file.external-paths: files outside the table are not written by this \
                 build; set data-file.external-paths.strategy to none"
                    .to_owned(),
            ));
        }
        let rows = options.get("target-file-row-num");
        let bytes = options.get("target-file-size");
        Ok(Self {
            target_bytes: bytes.map_or(Ok(256 << 20), |text| size("target-file-size", text))?,
            target_rows: rows.map_or(Ok(u64::MAX), |text| count("target-file-row-num", text))?,
            directory: options
                .get("data-file.path-directory")
                .map(|d| d.trim().trim_matches('/').to_owned())
                .unwrap_or_default(),
            codec_in_name: flag(schema, "file.suffix.include.compression")?,
        })
    }
}

fn wrong(key: &str, text: &str, expected: &str) -> WriterError {
    WriterError::Config(format!("option {key} = {text}: expected {expected}"))
}

fn count(key: &str, text: &str) -> Result<u64> {
    let number = text.trim().parse::<u64>().ok().filter(|n| *n > 0);
    number.ok_or_else(|| wrong(key, text, "a positive number"))
}

fn flag(schema: &TableSchema, key: &str) -> Result<bool> {
    match schema.options.get(key).map(|text| text.trim().to_ascii_lowercase()).as_deref() {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(text) => Err(wrong(key, text, "true or false")),
    }
}

/// A number with an optional unit, powers of 1024 \[F-8].
fn size(key: &str, text: &str) -> Result<u64> {
    let expected = || wrong(key, text, "a size such as 128 mb");
    let lower = text.trim().to_ascii_lowercase();
    let digits = lower.find(|c: char| !c.is_ascii_digit()).unwrap_or(lower.len());
    let (number, unit) = lower.split_at_checked(digits).ok_or_else(expected)?;
    let shift = match unit.trim() {
        "" | "b" | "bytes" => 0,
        "k" | "kb" | "kibibytes" => 10,
        "m" | "mb" | "mebibytes" => 20,
        "g" | "gb" | "gibibytes" => 30,
        "t" | "tb" | "tebibytes" => 40,
        _ => return Err(expected()),
    };
    let number: u64 = number.parse().map_err(|_| expected())?;
    number.checked_mul(1 << shift).filter(|n| *n > 0).ok_or_else(expected)
}
