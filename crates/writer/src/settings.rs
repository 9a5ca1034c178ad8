//! What an operator may set, and what tests inject.

use std::path::PathBuf;
use std::sync::Arc;

use uuid::Uuid;

use crate::keyed::Compactor;

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
    /// The compaction thread that writers of keyed tables share; a writer without one starts its own.
    pub compactor: Option<Compactor>,
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
            compactor: None,
        }
    }
}
