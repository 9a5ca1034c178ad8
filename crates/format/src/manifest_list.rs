//! Manifest lists: `manifest/manifest-list-<uuid>-<n>`, the manifests of a snapshot \[F-4.2].

use crate::avro::Codec;
use crate::avro::container::{Records, Writer};
use crate::avro::cursor::Cursor;
use crate::avro::encode;
use crate::avro::plan::{Field, RecordPlan, Slot, Want, optional, required};
use crate::avro::schema::Schema;
use crate::error::{Problem, Result};
use crate::stats::{STATS, StatsView, put_stats};
use tidegate_model::{BucketId, Level, ManifestFile, SchemaId};

/// The field set of release 1.4.2; older releases skip what they do not know \[F-0.1].
pub const SCHEMA: &str = include_str!("avro/schemas/manifest-list.avsc");

/// `_VERSION` of manifests and manifest lists.
pub(crate) const VERSION: i32 = 2;

static FIELDS: [Field; 13] = [
    required("_VERSION", Want::Int),
    required("_FILE_NAME", Want::Text),
    required("_FILE_SIZE", Want::Long),
    required("_NUM_ADDED_FILES", Want::Long),
    required("_NUM_DELETED_FILES", Want::Long),
    required("_PARTITION_STATS", Want::Record(&STATS)),
    required("_SCHEMA_ID", Want::Long),
    optional("_MIN_BUCKET", Want::Int),
    optional("_MAX_BUCKET", Want::Int),
    optional("_MIN_LEVEL", Want::Int),
    optional("_MAX_LEVEL", Want::Int),
    optional("_MIN_ROW_ID", Want::Long),
    optional("_MAX_ROW_ID", Want::Long),
];

/// Reads all rows of a manifest list.
///
/// # Errors
/// Bytes that are no Avro container with the fields of a manifest list, damaged blocks, a `_VERSION`
/// other than 2.
pub fn decode(bytes: &[u8]) -> Result<Vec<ManifestFile>> {
    let mut records = Records::open(bytes, &FIELDS)?;
    let mut all = Vec::new();
    while let Some(record) = records.next(read) {
        all.push(record?);
    }
    Ok(all)
}

/// Writes a manifest list; `sync` is any 16 bytes, random in files of other writers.
///
/// # Errors
/// Only where the codec's library fails.
pub fn encode(manifests: &[ManifestFile], codec: Codec, sync: [u8; 16]) -> Result<Vec<u8>> {
    let mut writer = Writer::new(SCHEMA, codec, sync);
    for manifest in manifests {
        writer.append(|out| put(out, manifest))?;
    }
    writer.finish()
}

/// Refuses versions that another layout may hide behind.
pub(crate) fn check_version(cursor: &Cursor<'_>, found: i32, supported: i32) -> Result<()> {
    if found == supported {
        return Ok(());
    }
    let supported = if supported == VERSION { "2" } else { "1" };
    Err(cursor.error(Problem::Version {
        found: found.into(),
        supported,
    }))
}

fn read<'b>(
    plan: &'b RecordPlan,
    schema: &'b Schema,
    cursor: &mut Cursor<'b>,
) -> Result<ManifestFile> {
    let mut name = "";
    let (mut size, mut added, mut deleted, mut schema_id) = (0, 0, 0, 0);
    let mut stats = StatsView::default();
    let (mut min_bucket, mut max_bucket, mut min_level, mut max_level) = (None, None, None, None);
    let (mut min_row_id, mut max_row_id) = (None, None);
    plan.read(schema, cursor, |field, slot, cursor| {
        match field {
            0 => {
                let found = slot.int(cursor)?;
                check_version(cursor, found, VERSION)?;
            }
            1 => name = slot.text(cursor)?,
            2 => size = slot.long(cursor)?,
            3 => added = slot.long(cursor)?,
            4 => deleted = slot.long(cursor)?,
            5 => {
                let plan = slot.existing_record(cursor)?;
                stats = StatsView::read(plan, schema, cursor)?;
            }
            6 => schema_id = slot.long(cursor)?,
            7 => min_bucket = slot.nullable(cursor, Slot::int_value)?.map(BucketId),
            8 => max_bucket = slot.nullable(cursor, Slot::int_value)?.map(BucketId),
            9 => min_level = slot.nullable(cursor, Slot::int_value)?.map(Level),
            10 => max_level = slot.nullable(cursor, Slot::int_value)?.map(Level),
            11 => min_row_id = slot.nullable(cursor, Slot::long_value)?,
            _ => max_row_id = slot.nullable(cursor, Slot::long_value)?,
        }
        Ok(())
    })?;
    Ok(ManifestFile {
        file_name: name.to_owned(),
        file_size: size,
        num_added_files: added,
        num_deleted_files: deleted,
        partition_stats: stats
            .to_stats()
            .map_err(|e| e.in_field("_PARTITION_STATS"))?,
        schema_id: SchemaId(schema_id),
        min_bucket,
        max_bucket,
        min_level,
        max_level,
        min_row_id,
        max_row_id,
    })
}

fn put(out: &mut Vec<u8>, m: &ManifestFile) {
    let int = |out: &mut Vec<u8>, v: i32| encode::long(out, v.into());
    encode::long(out, VERSION.into());
    encode::text(out, &m.file_name);
    encode::long(out, m.file_size);
    encode::long(out, m.num_added_files);
    encode::long(out, m.num_deleted_files);
    put_stats(out, &m.partition_stats);
    encode::long(out, m.schema_id.0);
    encode::nullable(out, m.min_bucket.map(|b| b.0), int);
    encode::nullable(out, m.max_bucket.map(|b| b.0), int);
    encode::nullable(out, m.min_level.map(|l| l.0), int);
    encode::nullable(out, m.max_level.map(|l| l.0), int);
    encode::nullable(out, m.min_row_id, encode::long);
    encode::nullable(out, m.max_row_id, encode::long);
}
