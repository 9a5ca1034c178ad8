//! Writing manifests.

use crate::avro::Codec;
use crate::avro::container::Writer;
use crate::avro::encode as put;
use crate::error::{Problem, Result};
use crate::manifest_list::VERSION;
use crate::stats::{put_row, put_stats};
use tidegate_model::{DataFileMeta, EntryKind, FileSource, ManifestEntry};

/// Which nullable fields a manifest has. Readers resolve them by name \[F-0.1].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldSet {
    /// Those of releases 1.3 to 2.0.
    #[default]
    Release,
    /// Also `_WRITE_COLS_SEQUENCES`, for entries of newer writers that are carried over.
    Newest,
}

impl FieldSet {
    /// The smallest set that loses nothing of these entries.
    pub fn for_entries<'e>(entries: impl IntoIterator<Item = &'e ManifestEntry>) -> Self {
        let newest = entries
            .into_iter()
            .any(|e| e.file.write_cols_sequences.is_some());
        if newest { Self::Newest } else { Self::Release }
    }

    /// The Avro schema, as Java spells it.
    pub fn schema(self) -> &'static str {
        match self {
            Self::Release => include_str!("../avro/schemas/manifest.avsc"),
            Self::Newest => include_str!("../avro/schemas/manifest-newest.avsc"),
        }
    }
}

/// Writes one manifest; `sync` is any 16 bytes.
///
/// # Errors
/// Only where the codec's library fails.
pub fn encode(entries: &[ManifestEntry], codec: Codec, sync: [u8; 16]) -> Result<Vec<u8>> {
    let mut encoder = Encoder::new(FieldSet::for_entries(entries), codec, sync);
    for entry in entries {
        encoder.push(entry)?;
    }
    Ok(encoder.finish()?.bytes)
}

/// Writes a manifest entry by entry, so that it can be closed at a target size.
#[derive(Debug)]
pub struct Encoder {
    fields: FieldSet,
    writer: Writer,
    entries: u64,
}

/// A manifest that is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// The file.
    pub bytes: Vec<u8>,
    /// How many entries it has.
    pub entries: u64,
}

impl Encoder {
    /// An empty manifest.
    pub fn new(fields: FieldSet, codec: Codec, sync: [u8; 16]) -> Self {
        Self {
            fields,
            writer: Writer::new(fields.schema(), codec, sync),
            entries: 0,
        }
    }

    /// Adds an entry.
    ///
    /// # Errors
    /// An entry with a value that the field set has no place for: nothing is dropped in silence.
    pub fn push(&mut self, entry: &ManifestEntry) -> Result<()> {
        let sequences = entry.file.write_cols_sequences.is_some();
        if sequences && self.fields == FieldSet::Release {
            return Err(Problem::CannotHold(format!(
                "file {} has per-column sequences, for which this field set has no place: use FieldSet::Newest",
                entry.file.file_name
            ))
            .into());
        }
        let fields = self.fields;
        self.writer.append(|out| put_entry(out, entry, fields))?;
        self.entries += 1;
        Ok(())
    }

    /// Bytes so far; what is not compressed yet counts as it stands.
    pub fn size(&self) -> u64 {
        self.writer.size()
    }

    /// Entries so far.
    pub fn len(&self) -> u64 {
        self.entries
    }

    /// True before the first entry.
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// True where Java would close the manifest: it compares the size every 1000 entries \[F-4.7].
    pub fn is_full(&self, target_file_size: u64) -> bool {
        self.entries > 0 && self.entries.is_multiple_of(1000) && self.size() >= target_file_size
    }

    /// Ends the file.
    ///
    /// # Errors
    /// Only where the codec's library fails.
    pub fn finish(self) -> Result<Finished> {
        Ok(Finished {
            bytes: self.writer.finish()?,
            entries: self.entries,
        })
    }
}

fn put_entry(out: &mut Vec<u8>, entry: &ManifestEntry, fields: FieldSet) {
    put::long(out, VERSION.into());
    put::long(out, kind(entry.kind));
    put_row(out, &entry.partition);
    put::long(out, entry.bucket.0.into());
    put::long(out, entry.total_buckets.into());
    put_file(out, &entry.file, fields);
}

/// `_KIND` on disk.
pub(crate) fn kind(kind: EntryKind) -> i64 {
    match kind {
        EntryKind::Add => 0,
        EntryKind::Delete => 1,
    }
}

/// `_FILE_SOURCE` on disk.
pub(crate) fn source(source: FileSource) -> i8 {
    match source {
        FileSource::Append => 0,
        FileSource::Compact => 1,
    }
}

fn put_file(out: &mut Vec<u8>, f: &DataFileMeta, fields: FieldSet) {
    let texts =
        |out: &mut Vec<u8>, texts: &[String]| put::array(out, texts, |out, t| put::text(out, t));
    put::text(out, &f.file_name);
    put::long(out, f.file_size);
    put::long(out, f.row_count);
    put_row(out, &f.min_key);
    put_row(out, &f.max_key);
    put_stats(out, &f.key_stats);
    put_stats(out, &f.value_stats);
    put::long(out, f.min_sequence_number);
    put::long(out, f.max_sequence_number);
    put::long(out, f.schema_id.0);
    put::long(out, f.level.0.into());
    texts(out, &f.extra_files);
    put::nullable(out, f.creation_time_millis, put::long);
    put::nullable(out, f.delete_row_count, put::long);
    put::nullable(out, f.embedded_index.as_deref(), put::bytes);
    put::nullable(out, f.file_source.map(|s| i64::from(source(s))), put::long);
    put::nullable(out, f.value_stats_cols.as_deref(), texts);
    put::nullable(out, f.external_path.as_deref(), put::text);
    put::nullable(out, f.first_row_id, put::long);
    put::nullable(out, f.write_cols.as_deref(), texts);
    if fields == FieldSet::Newest {
        put::nullable(out, f.write_cols_sequences.as_deref(), |out, all| {
            put::array(out, all, |out, n| put::long(out, *n));
        });
    }
}
