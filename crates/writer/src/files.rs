//! Data files in the making.
//!
//! Owns names, rolling and the metadata of one file after another. What they hold is decided
//! elsewhere; how bytes travel is the business of [`crate::uploads`].

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::record_batch::RecordBatch;
use tidegate_datafile::{Dictionaries, FileEncoder, FilePlan, KeyedMeta, slice_bytes};
use tidegate_model::layout::DataFileName;
use tidegate_model::options::DataFileOptions;
use tidegate_model::{BinaryRow, DataFileMeta, FileSource, Level, SchemaId, SimpleStats};

use crate::budget::{BudgetShare, Reservation};
use crate::error::{Result, WriterError};
use crate::route::GroupId;
use crate::settings::Clock;
use crate::uploads::{Ended, Sending, Uploads};

/// Most rows given to an encoder at once.
const STEP_ROWS: usize = 16_384;

/// Parts of a file's target size that are given to an encoder at once, which is how exactly files end
/// there.
const STEPS_PER_FILE: u64 = 8;

/// Rows to give to an encoder at once.
pub(crate) fn step_rows(rows: &RecordBatch, target_size: u64) -> usize {
    let row_bytes = (slice_bytes(rows) / rows.num_rows().max(1)).max(1);
    let step_bytes = usize::try_from(target_size / STEPS_PER_FILE).unwrap_or(usize::MAX);
    (step_bytes / row_bytes).clamp(1, STEP_ROWS)
}

/// What all files of a writer share.
#[derive(Debug)]
pub(crate) struct Files {
    pub(crate) plan: FilePlan,
    pub(crate) schema_id: SchemaId,
    /// One value per file.
    pub(crate) partition_keys: Vec<String>,
    pub(crate) names: DataFileName,
    pub(crate) next: AtomicU64,
    pub(crate) table: DataFileOptions,
    pub(crate) share: Arc<BudgetShare>,
    pub(crate) clock: Arc<dyn Clock>,
    /// What an open encoder is counted with at least.
    pub(crate) encoder_bytes: usize,
    /// Bytes of a part of an upload.
    pub(crate) part_bytes: usize,
}

/// A file that takes rows.
#[derive(Debug)]
pub(crate) struct OpenFile {
    encoder: FileEncoder,
    name: String,
    path: String,
    first_sequence: i64,
    level: Level,
    source: FileSource,
    sending: Option<Sending>,
    charge: Reservation,
    /// What it is counted with at least.
    least: usize,
}

/// A file that has all its rows and is on its way to the store.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) group: GroupId,
    pub(crate) meta: DataFileMeta,
    pub(crate) ended: Ended,
}

impl Files {
    /// Whether one more encoder stays within the budget.
    pub(crate) fn has_room(&self) -> bool {
        self.share.used() + self.encoder_bytes <= self.share.allowance()
    }

    /// Begins a file in `directory`, whose first row has the sequence number.
    pub(crate) fn open(
        &self,
        directory: &str,
        first_sequence: i64,
        dictionaries: Option<&Dictionaries>,
    ) -> Result<OpenFile> {
        let name = self.names.nth(self.next.fetch_add(1, Ordering::Relaxed));
        let encoder = match dictionaries {
            Some(chosen) => FileEncoder::with_dictionaries(&self.plan, chosen),
            None => FileEncoder::new(&self.plan),
        };
        let encoder = encoder.map_err(encoding(&name))?;
        Ok(OpenFile {
            encoder,
            path: format!("{directory}/{name}"),
            name,
            first_sequence,
            level: Level(0),
            source: FileSource::Append,
            sending: None,
            charge: self.share.take(self.encoder_bytes),
            least: self.encoder_bytes,
        })
    }
}

fn encoding(file: &str) -> impl FnOnce(tidegate_datafile::Error) -> WriterError {
    move |source| WriterError::Encode {
        file: file.to_owned(),
        source: Box::new(source),
    }
}

impl OpenFile {
    /// It becomes a file of that level, made by whom.
    pub(crate) fn of(self, level: Level, source: FileSource) -> Self {
        Self {
            level,
            source,
            ..self
        }
    }

    /// Rows so far.
    pub(crate) fn rows(&self) -> u64 {
        self.encoder.row_count()
    }

    /// Memory that it is counted with: the encoder, and bytes that wait to become a part.
    pub(crate) fn memory(&self) -> usize {
        self.charge.bytes() + self.sending.as_ref().map_or(0, Sending::parked)
    }

    /// Memory of the encoder alone.
    pub(crate) fn encoder_memory(&self) -> usize {
        self.charge.bytes()
    }

    /// Bytes that could travel on if the row group ended now, those already waiting included; 0
    /// where the encoder holds nothing to speak of.
    pub(crate) fn relief(&self) -> usize {
        match self.charge.bytes() > self.least {
            true => self.memory(),
            false => 0,
        }
    }

    /// True once parts of the file are on their way.
    pub(crate) fn is_large(&self) -> bool {
        self.sending
            .as_ref()
            .is_some_and(|sending| sending.sent() > 0)
    }

    /// True once the file has its target size or rows.
    pub(crate) fn is_full(&self, table: &DataFileOptions) -> bool {
        self.rows() >= table.target_rows || self.encoder.encoded_len() >= table.target_size
    }

    /// Appends rows.
    pub(crate) fn write(&mut self, uploads: &Uploads, rows: &RecordBatch) -> Result<()> {
        self.encoder.write(rows).map_err(encoding(&self.name))?;
        self.send(uploads)
    }

    /// Ends the open row group and sends it, so that the encoder holds next to nothing.
    pub(crate) fn relieve(&mut self, uploads: &Uploads) -> Result<()> {
        self.encoder.end_row_group().map_err(encoding(&self.name))?;
        self.send(uploads)
    }

    fn send(&mut self, uploads: &Uploads) -> Result<()> {
        let before = self.encoder.buffered_bytes();
        let bytes = self.encoder.take_bytes().map_err(encoding(&self.name))?;
        let after = match &bytes {
            Some(_) => self.encoder.buffered_bytes(),
            None => before,
        };
        self.charge.resize(before.max(self.least));
        if let Some(bytes) = bytes {
            let charge = self.charge.split(before.saturating_sub(after));
            self.sending(uploads).push(uploads, bytes, charge);
            self.charge.resize(after.max(self.least));
        }
        Ok(())
    }

    fn sending(&mut self, uploads: &Uploads) -> &mut Sending {
        self.sending
            .get_or_insert_with(|| uploads.begin(self.path.clone()))
    }

    /// Ends the file. Returns it with its encoded size in memory.
    pub(crate) fn finish(
        mut self,
        files: &Files,
        uploads: &Uploads,
        group: GroupId,
    ) -> Result<(Finished, usize)> {
        self.sending(uploads);
        let Self {
            encoder,
            name,
            first_sequence,
            sending,
            mut charge,
            path,
            level,
            source,
            ..
        } = self;
        let mut sending = sending.unwrap_or_else(|| uploads.begin(path));
        let file = encoder.finish().map_err(encoding(&name))?;
        let last = file.last_bytes.len();
        charge.resize(last);
        sending.push(uploads, file.last_bytes, charge);
        let rows = i64::try_from(file.row_count).unwrap_or(i64::MAX);
        let keyed = file.keyed.unwrap_or_else(|| KeyedMeta {
            min_key: BinaryRow::empty(),
            max_key: BinaryRow::empty(),
            key_stats: SimpleStats {
                min_values: BinaryRow::empty(),
                max_values: BinaryRow::empty(),
                null_counts: Some(Vec::new()),
            },
            min_sequence_number: first_sequence,
            max_sequence_number: first_sequence + rows - 1,
            delete_row_count: 0,
        });
        let meta = DataFileMeta {
            file_name: name,
            file_size: i64::try_from(file.size).unwrap_or(i64::MAX),
            row_count: rows,
            min_key: keyed.min_key,
            max_key: keyed.max_key,
            key_stats: keyed.key_stats,
            value_stats: file.value_stats,
            min_sequence_number: keyed.min_sequence_number,
            max_sequence_number: keyed.max_sequence_number,
            schema_id: files.schema_id,
            level,
            extra_files: Vec::new(),
            creation_time_millis: Some(files.clock.local_millis()),
            delete_row_count: Some(i64::try_from(keyed.delete_row_count).unwrap_or(i64::MAX)),
            embedded_index: None,
            file_source: Some(source),
            value_stats_cols: file.value_stats_cols,
            external_path: None,
            first_row_id: None,
            write_cols: None,
            write_cols_sequences: None,
        };
        Ok((
            Finished {
                group,
                meta,
                ended: sending.end(uploads),
            },
            last,
        ))
    }
}
