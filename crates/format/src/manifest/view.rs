//! One entry as it lies in the file.

use crate::avro::cursor::Cursor;
use crate::avro::plan::{Field, List, RecordPlan, Slot, Want, optional, required};
use crate::avro::schema::Schema;
use crate::error::{Problem, Result};
use crate::manifest_list::{VERSION, check_version};
use crate::stats::{STATS, StatsView, row};
use tidegate_model::{
    BinaryRow, BucketId, DataFileMeta, EntryKind, FileSource, Level, ManifestEntry, SchemaId,
};

pub(super) static ENTRY: [Field; 6] = [
    required("_VERSION", Want::Int),
    required("_KIND", Want::Int),
    required("_PARTITION", Want::Bytes),
    required("_BUCKET", Want::Int),
    required("_TOTAL_BUCKETS", Want::Int),
    required("_FILE", Want::Record(&FILE)),
];

static FILE: [Field; 21] = [
    required("_FILE_NAME", Want::Text),
    required("_FILE_SIZE", Want::Long),
    required("_ROW_COUNT", Want::Long),
    required("_MIN_KEY", Want::Bytes),
    required("_MAX_KEY", Want::Bytes),
    required("_KEY_STATS", Want::Record(&STATS)),
    required("_VALUE_STATS", Want::Record(&STATS)),
    required("_MIN_SEQUENCE_NUMBER", Want::Long),
    required("_MAX_SEQUENCE_NUMBER", Want::Long),
    required("_SCHEMA_ID", Want::Long),
    required("_LEVEL", Want::Int),
    required("_EXTRA_FILES", Want::Array(&Want::Text)),
    optional("_CREATION_TIME", Want::Long),
    optional("_DELETE_ROW_COUNT", Want::Long),
    optional("_EMBEDDED_FILE_INDEX", Want::Bytes),
    optional("_FILE_SOURCE", Want::Int),
    optional("_VALUE_STATS_COLS", Want::Array(&Want::Text)),
    optional("_EXTERNAL_PATH", Want::Text),
    optional("_FIRST_ROW_ID", Want::Long),
    optional("_WRITE_COLS", Want::Array(&Want::Text)),
    optional("_WRITE_COLS_SEQUENCES", Want::Array(&Want::Long)),
];

/// A list of texts that lies in the file.
#[derive(Clone, Copy, Debug, Default)]
pub struct Texts<'b>(Option<List<'b>>);

impl<'b> Texts<'b> {
    /// True without any.
    pub fn is_empty(&self) -> bool {
        self.0.is_none_or(|list| list.is_empty())
    }

    /// The texts; only the list itself is allocated.
    pub fn to_vec(&self) -> Vec<&'b str> {
        self.0
            .map(|list| list.collect(Slot::text))
            .unwrap_or_default()
    }

    fn to_strings(self) -> Vec<String> {
        match self.0 {
            Some(list) if !self.is_empty() => {
                list.collect(|slot, cursor| slot.text(cursor).map(str::to_owned))
            }
            _ => Vec::new(),
        }
    }
}

/// One entry, borrowed from its block.
///
/// Rows are in their serialised form: arity as big-endian `int`, then the row's bytes. Two partitions
/// are the same where these bytes are.
#[derive(Clone, Copy, Debug)]
pub struct EntryView<'b> {
    /// Added or deleted.
    pub kind: EntryKind,
    /// Partition, serialised.
    pub partition: &'b [u8],
    /// Bucket.
    pub bucket: BucketId,
    /// Bucket count of the partition; -1 unaware or dynamic, -2 postpone.
    pub total_buckets: i32,
    /// Name without path.
    pub file_name: &'b str,
    /// Bytes.
    pub file_size: i64,
    /// Rows.
    pub row_count: i64,
    /// Key of the first row, serialised.
    pub min_key: &'b [u8],
    /// Key of the last row, serialised.
    pub max_key: &'b [u8],
    /// Over the key.
    pub key_stats: StatsView<'b>,
    /// Over the columns.
    pub value_stats: StatsView<'b>,
    /// Smallest sequence number.
    pub min_sequence_number: i64,
    /// Largest sequence number.
    pub max_sequence_number: i64,
    /// Schema of the content.
    pub schema_id: SchemaId,
    /// Level.
    pub level: Level,
    /// Companion files.
    pub extra_files: Texts<'b>,
    /// Local wall clock in epoch milliseconds.
    pub creation_time_millis: Option<i64>,
    /// Rows of kind -U or -D.
    pub delete_row_count: Option<i64>,
    /// File index inside the manifest.
    pub embedded_index: Option<&'b [u8]>,
    /// Who made it.
    pub file_source: Option<FileSource>,
    /// Columns of `value_stats`.
    pub value_stats_cols: Option<Texts<'b>>,
    /// Full path outside the table.
    pub external_path: Option<&'b str>,
    /// First row id.
    pub first_row_id: Option<i64>,
    /// Columns in the file.
    pub write_cols: Option<Texts<'b>>,
    write_cols_sequences: Option<List<'b>>,
}

impl<'b> EntryView<'b> {
    fn blank() -> Self {
        Self {
            kind: EntryKind::Add,
            partition: &[],
            bucket: BucketId(0),
            total_buckets: 0,
            file_name: "",
            file_size: 0,
            row_count: 0,
            min_key: &[],
            max_key: &[],
            key_stats: StatsView::default(),
            value_stats: StatsView::default(),
            min_sequence_number: 0,
            max_sequence_number: 0,
            schema_id: SchemaId(0),
            level: Level(0),
            extra_files: Texts::default(),
            creation_time_millis: None,
            delete_row_count: None,
            embedded_index: None,
            file_source: None,
            value_stats_cols: None,
            external_path: None,
            first_row_id: None,
            write_cols: None,
            write_cols_sequences: None,
        }
    }

    pub(super) fn read(
        plan: &'b RecordPlan,
        schema: &'b Schema,
        cursor: &mut Cursor<'b>,
    ) -> Result<Self> {
        let mut view = Self::blank();
        plan.read(schema, cursor, |field, slot, cursor| {
            match field {
                0 => {
                    let found = slot.int(cursor)?;
                    check_version(cursor, found, VERSION)?;
                }
                1 => {
                    let kind = slot.int(cursor)?;
                    view.kind = read_kind(cursor, kind)?;
                }
                2 => view.partition = slot.bytes(cursor)?,
                3 => view.bucket = BucketId(slot.int(cursor)?),
                4 => view.total_buckets = slot.int(cursor)?,
                _ => view.read_file(slot.existing_record(cursor)?, schema, cursor)?,
            }
            Ok(())
        })?;
        Ok(view)
    }

    fn read_file(
        &mut self,
        plan: &'b RecordPlan,
        schema: &'b Schema,
        cursor: &mut Cursor<'b>,
    ) -> Result<()> {
        let texts = |slot: &'b Slot, cursor: &mut Cursor<'b>| {
            List::read(slot, cursor, |item, cursor| item.text(cursor).map(drop))
                .map(|list| Texts(Some(list)))
        };
        plan.read(schema, cursor, |field, slot, cursor| {
            match field {
                0 => self.file_name = slot.text(cursor)?,
                1 => self.file_size = slot.long(cursor)?,
                2 => self.row_count = slot.long(cursor)?,
                3 => self.min_key = slot.bytes(cursor)?,
                4 => self.max_key = slot.bytes(cursor)?,
                5 => {
                    let plan = slot.existing_record(cursor)?;
                    self.key_stats = StatsView::read(plan, schema, cursor)?;
                }
                6 => {
                    let plan = slot.existing_record(cursor)?;
                    self.value_stats = StatsView::read(plan, schema, cursor)?;
                }
                7 => self.min_sequence_number = slot.long(cursor)?,
                8 => self.max_sequence_number = slot.long(cursor)?,
                9 => self.schema_id = SchemaId(slot.long(cursor)?),
                10 => self.level = Level(slot.int(cursor)?),
                11 => self.extra_files = slot.nullable(cursor, texts)?.unwrap_or_default(),
                12 => self.creation_time_millis = slot.nullable(cursor, Slot::long_value)?,
                13 => self.delete_row_count = slot.nullable(cursor, Slot::long_value)?,
                14 => self.embedded_index = slot.nullable(cursor, |_, c| c.bytes())?,
                15 => {
                    self.file_source = slot.nullable(cursor, |_, c| {
                        let source = c.int()?;
                        file_source(source).ok_or_else(|| {
                            let found = source.to_string();
                            let expected = "0 (a writer) or 1 (a compaction)";
                            c.error(Problem::Unexpected { expected, found })
                        })
                    })?;
                }
                16 => self.value_stats_cols = slot.nullable(cursor, texts)?,
                17 => self.external_path = slot.nullable(cursor, |_, c| c.text())?,
                18 => self.first_row_id = slot.nullable(cursor, Slot::long_value)?,
                19 => self.write_cols = slot.nullable(cursor, texts)?,
                _ => {
                    self.write_cols_sequences = slot.nullable(cursor, |slot, cursor| {
                        List::read(slot, cursor, |item, cursor| item.long(cursor).map(drop))
                    })?;
                }
            }
            Ok(())
        })
    }

    /// An owned copy.
    ///
    /// # Errors
    /// Where partition, a key or a statistic is no row.
    pub fn to_entry(&self) -> Result<ManifestEntry> {
        self.to_entry_of(row(self.partition).map_err(|e| e.in_field("_PARTITION"))?)
    }

    pub(super) fn to_entry_of(self, partition: BinaryRow) -> Result<ManifestEntry> {
        Ok(ManifestEntry {
            kind: self.kind,
            partition,
            bucket: self.bucket,
            total_buckets: self.total_buckets,
            file: self.to_file().map_err(|e| e.in_field("_FILE"))?,
        })
    }

    fn to_file(self) -> Result<DataFileMeta> {
        Ok(DataFileMeta {
            file_name: self.file_name.to_owned(),
            file_size: self.file_size,
            row_count: self.row_count,
            min_key: row(self.min_key).map_err(|e| e.in_field("_MIN_KEY"))?,
            max_key: row(self.max_key).map_err(|e| e.in_field("_MAX_KEY"))?,
            key_stats: self
                .key_stats
                .to_stats()
                .map_err(|e| e.in_field("_KEY_STATS"))?,
            value_stats: self
                .value_stats
                .to_stats()
                .map_err(|e| e.in_field("_VALUE_STATS"))?,
            min_sequence_number: self.min_sequence_number,
            max_sequence_number: self.max_sequence_number,
            schema_id: self.schema_id,
            level: self.level,
            extra_files: self.extra_files.to_strings(),
            creation_time_millis: self.creation_time_millis,
            delete_row_count: self.delete_row_count,
            embedded_index: self.embedded_index.map(<[u8]>::to_vec),
            file_source: self.file_source,
            value_stats_cols: self.value_stats_cols.map(Texts::to_strings),
            external_path: self.external_path.map(str::to_owned),
            first_row_id: self.first_row_id,
            write_cols: self.write_cols.map(Texts::to_strings),
            write_cols_sequences: self
                .write_cols_sequences
                .map(|list| list.collect(Slot::long)),
        })
    }
}

/// 0 and 1 of `_KIND`.
pub(crate) fn read_kind(cursor: &Cursor<'_>, kind: i32) -> Result<EntryKind> {
    match kind {
        0 => Ok(EntryKind::Add),
        1 => Ok(EntryKind::Delete),
        other => {
            let found = other.to_string();
            Err(cursor.error(Problem::Unexpected {
                expected: "0 (ADD) or 1 (DELETE)",
                found,
            }))
        }
    }
}

/// 0 and 1 of `_FILE_SOURCE`.
pub(crate) fn file_source(source: i32) -> Option<FileSource> {
    match source {
        0 => Some(FileSource::Append),
        1 => Some(FileSource::Compact),
        _ => None,
    }
}
