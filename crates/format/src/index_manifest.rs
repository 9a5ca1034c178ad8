//! Index manifests: `manifest/index-manifest-<uuid>-<n>`, all index files of a snapshot \[F-5.1].
//!
//! A complete state, not a change: who writes one must carry over every entry that it does not touch,
//! those of kinds it does not know included. Nothing of an entry is lost on the way through here.

use crate::avro::Codec;
use crate::avro::container::{Records, Writer};
use crate::avro::cursor::Cursor;
use crate::avro::encode as put;
use crate::avro::plan::{Field, RecordPlan, Slot, Want, optional, required};
use crate::avro::schema::Schema;
use crate::error::Result;
use crate::manifest::{kind, read_kind};
use crate::manifest_list::check_version;
use crate::stats::{put_row, row};
use tidegate_model::{
    BucketId, DeletionVectorRange, EntryKind, GlobalIndex, IndexFileMeta, IndexManifestEntry,
};

/// The field set of release 1.4.2.
pub const SCHEMA: &str = include_str!("avro/schemas/index-manifest.avsc");
/// Also `_SOURCE_META`; only written where an entry has it.
const NEWEST: &str = include_str!("avro/schemas/index-manifest-newest.avsc");

/// `_VERSION`: 1 here, 2 in manifests \[F-12.10].
const VERSION: i32 = 1;

static FIELDS: [Field; 11] = [
    required("_VERSION", Want::Int),
    required("_KIND", Want::Int),
    required("_PARTITION", Want::Bytes),
    required("_BUCKET", Want::Int),
    required("_INDEX_TYPE", Want::Text),
    required("_FILE_NAME", Want::Text),
    required("_FILE_SIZE", Want::Long),
    required("_ROW_COUNT", Want::Long),
    optional(
        "_DELETIONS_VECTORS_RANGES",
        Want::Array(&Want::Record(&RANGE)),
    ),
    optional("_EXTERNAL_PATH", Want::Text),
    optional("_GLOBAL_INDEX", Want::Record(&GLOBAL)),
];

static RANGE: [Field; 4] = [
    required("f0", Want::Text),
    required("f1", Want::Int),
    required("f2", Want::Int),
    optional("_CARDINALITY", Want::Long),
];

static GLOBAL: [Field; 6] = [
    required("_ROW_RANGE_START", Want::Long),
    required("_ROW_RANGE_END", Want::Long),
    required("_INDEX_FIELD_ID", Want::Int),
    optional("_EXTRA_FIELD_IDS", Want::Array(&Want::Int)),
    optional("_INDEX_META", Want::Bytes),
    optional("_SOURCE_META", Want::Bytes),
];

/// Reads all entries.
///
/// # Errors
/// Bytes that are no Avro container with the fields of an index manifest, damaged blocks, a
/// `_VERSION` other than 1.
pub fn decode(bytes: &[u8]) -> Result<Vec<IndexManifestEntry>> {
    let mut records = Records::open(bytes, &FIELDS)?;
    let mut all = Vec::new();
    while let Some(record) = records.next(read) {
        all.push(record?);
    }
    Ok(all)
}

/// Writes an index manifest; `sync` is any 16 bytes.
///
/// # Errors
/// Only where the codec's library fails.
pub fn encode(entries: &[IndexManifestEntry], codec: Codec, sync: [u8; 16]) -> Result<Vec<u8>> {
    let source_meta = |e: &IndexManifestEntry| {
        e.file
            .global_index
            .as_ref()
            .is_some_and(|g| g.source_meta.is_some())
    };
    let newest = entries.iter().any(source_meta);
    let mut writer = Writer::new(if newest { NEWEST } else { SCHEMA }, codec, sync);
    for entry in entries {
        writer.append(|out| put_entry(out, entry, newest))?;
    }
    writer.finish()
}

fn read<'b>(
    plan: &'b RecordPlan,
    schema: &'b Schema,
    cursor: &mut Cursor<'b>,
) -> Result<IndexManifestEntry> {
    let mut entry_kind = EntryKind::Add;
    let (mut partition, mut bucket): (&[u8], i32) = (&[], 0);
    let mut file = IndexFileMeta {
        index_type: String::new(),
        file_name: String::new(),
        file_size: 0,
        row_count: 0,
        dv_ranges: None,
        external_path: None,
        global_index: None,
    };
    plan.read(schema, cursor, |field, slot, cursor| {
        match field {
            0 => {
                let found = slot.int(cursor)?;
                check_version(cursor, found, VERSION)?;
            }
            1 => {
                let kind = slot.int(cursor)?;
                entry_kind = read_kind(cursor, kind)?;
            }
            2 => partition = slot.bytes(cursor)?,
            3 => bucket = slot.int(cursor)?,
            4 => file.index_type = slot.text(cursor)?.to_owned(),
            5 => file.file_name = slot.text(cursor)?.to_owned(),
            6 => file.file_size = slot.long(cursor)?,
            7 => file.row_count = slot.long(cursor)?,
            8 => {
                file.dv_ranges = slot.nullable(cursor, |slot, cursor| {
                    let mut ranges = Vec::new();
                    slot.items(cursor, |item, cursor| {
                        ranges.push(item.nullable(cursor, |item, c| read_range(item, schema, c))?);
                        Ok(())
                    })?;
                    Ok(ranges)
                })?;
            }
            9 => {
                file.external_path = slot.nullable(cursor, |_, c| Ok(c.text()?.to_owned()))?;
            }
            _ => {
                file.global_index =
                    slot.nullable(cursor, |slot, cursor| read_global(slot, schema, cursor))?;
            }
        }
        Ok(())
    })?;
    Ok(IndexManifestEntry {
        kind: entry_kind,
        partition: row(partition).map_err(|e| e.in_field("_PARTITION"))?,
        bucket: BucketId(bucket),
        file,
    })
}

fn read_range<'b>(
    slot: &'b Slot,
    schema: &'b Schema,
    cursor: &mut Cursor<'b>,
) -> Result<DeletionVectorRange> {
    let plan = slot.record(cursor)?;
    let mut range = DeletionVectorRange {
        data_file: String::new(),
        offset: 0,
        length: 0,
        cardinality: None,
    };
    plan.read(schema, cursor, |field, slot, cursor| {
        match field {
            0 => range.data_file = slot.text(cursor)?.to_owned(),
            1 => range.offset = slot.int(cursor)?,
            2 => range.length = slot.int(cursor)?,
            _ => range.cardinality = slot.nullable(cursor, Slot::long_value)?,
        }
        Ok(())
    })?;
    Ok(range)
}

fn read_global<'b>(
    slot: &'b Slot,
    schema: &'b Schema,
    cursor: &mut Cursor<'b>,
) -> Result<GlobalIndex> {
    let plan = slot.record(cursor)?;
    let mut global = GlobalIndex {
        row_range_start: 0,
        row_range_end: 0,
        index_field_id: 0,
        extra_field_ids: None,
        index_meta: None,
        source_meta: None,
    };
    plan.read(schema, cursor, |field, slot, cursor| {
        match field {
            0 => global.row_range_start = slot.long(cursor)?,
            1 => global.row_range_end = slot.long(cursor)?,
            2 => global.index_field_id = slot.int(cursor)?,
            3 => {
                global.extra_field_ids = slot.nullable(cursor, |slot, cursor| {
                    let mut ids = Vec::new();
                    slot.items(cursor, |item, cursor| {
                        ids.push(item.int(cursor)?);
                        Ok(())
                    })?;
                    Ok(ids)
                })?;
            }
            4 => global.index_meta = slot.nullable(cursor, |_, c| Ok(c.bytes()?.to_vec()))?,
            _ => global.source_meta = slot.nullable(cursor, |_, c| Ok(c.bytes()?.to_vec()))?,
        }
        Ok(())
    })?;
    Ok(global)
}

fn put_entry(out: &mut Vec<u8>, entry: &IndexManifestEntry, newest: bool) {
    let f = &entry.file;
    put::long(out, VERSION.into());
    put::long(out, kind(entry.kind));
    put_row(out, &entry.partition);
    put::long(out, entry.bucket.0.into());
    put::text(out, &f.index_type);
    put::text(out, &f.file_name);
    put::long(out, f.file_size);
    put::long(out, f.row_count);
    put::nullable(out, f.dv_ranges.as_deref(), |out, ranges| {
        put::array(out, ranges, |out, range| {
            put::nullable(out, range.as_ref(), |out, range| {
                put::text(out, &range.data_file);
                put::long(out, range.offset.into());
                put::long(out, range.length.into());
                put::nullable(out, range.cardinality, put::long);
            });
        });
    });
    put::nullable(out, f.external_path.as_deref(), put::text);
    put::nullable(out, f.global_index.as_ref(), |out, global| {
        put::long(out, global.row_range_start);
        put::long(out, global.row_range_end);
        put::long(out, global.index_field_id.into());
        put::nullable(out, global.extra_field_ids.as_deref(), |out, ids| {
            put::array(out, ids, |out, id| put::long(out, (*id).into()));
        });
        put::nullable(out, global.index_meta.as_deref(), put::bytes);
        if newest {
            put::nullable(out, global.source_meta.as_deref(), put::bytes);
        }
    });
}
