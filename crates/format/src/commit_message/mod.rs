//! Java's CommitMessage as bytes: what a writer hands to the committer \[F-9.2].
//!
//! The version is not inside the bytes; who keeps them keeps it beside them. Decoding with another
//! version mostly fails, but need not \[F-12.31].
//!
//! | release | version it writes |
//! |---|---|
//! | 1.0 | 6 |
//! | 1.1, 1.2 | 7 |
//! | 1.3 | 10 |
//! | 1.4 | 11 ([`VERSION`]) |
//! | 2.0 | 12 |

mod rows;

use crate::avro::cursor::Cursor;
use crate::error::{Error, Problem, Result};
use tidegate_model::{
    BinaryRow, BucketId, CommitMessage, CompactIncrement, DataFileMeta, DataIncrement,
    IndexFileMeta,
};

/// What release 1.4.2 writes, and we.
pub const VERSION: i32 = 11;

/// The layouts of one version.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    version: i32,
    /// Fields of a data file's row, in the order of \[F-4.3].
    file_fields: u32,
    /// Fields of an index file's row.
    index_fields: u32,
    /// Fields of a deletion vector's row.
    range_fields: u32,
    /// Fields of a global index's row.
    global_fields: u32,
}

impl Layout {
    pub(crate) fn of(version: i32) -> Result<Self> {
        let (file_fields, index_fields, range_fields, global_fields) = match version {
            1 | 2 => (15, 5, 3, 0),
            3 => (16, 5, 3, 0),
            4 => (17, 5, 3, 0),
            5 => (17, 5, 4, 0),
            6 | 7 => (18, 5, 4, 0),
            8 => (19, 5, 4, 0),
            9 | 10 => (20, 6, 4, 0),
            11 => (20, 7, 4, 5),
            12 => (20, 7, 4, 6),
            13 => (21, 7, 4, 6),
            _ => {
                let problem = Problem::Version {
                    found: version.into(),
                    supported: "1 to 13",
                };
                return Err(Error::new(problem));
            }
        };
        Ok(Self {
            version,
            file_fields,
            index_fields,
            range_fields,
            global_fields,
        })
    }

    fn has_total_buckets(self) -> bool {
        self.version >= 7
    }

    /// From version 10 on both increments have index lists of their own.
    fn has_index_lists_per_increment(self) -> bool {
        self.version >= 10
    }

    fn has_deleted_index_files(self) -> bool {
        self.version > 2
    }
}

/// Writes a message in a version that its reader knows.
///
/// # Errors
/// An unknown version, or a message with something that the version has no place for: nothing is
/// dropped in silence.
pub fn encode(message: &CommitMessage, version: i32) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(1024);
    put(&mut out, message, Layout::of(version)?)?;
    Ok(out)
}

/// Reads a message that was written in this version.
///
/// # Errors
/// An unknown version, bytes that end too early or go on behind the message, rows whose parts lie
/// outside of them.
pub fn decode(bytes: &[u8], version: i32) -> Result<CommitMessage> {
    let mut cursor = Cursor::new(bytes, 0);
    let message = read(&mut cursor, Layout::of(version)?)?;
    match cursor.left() {
        0 => Ok(message),
        left => Err(cursor.error(Problem::Leftover(left as u64))),
    }
}

pub(crate) fn put(out: &mut Vec<u8>, message: &CommitMessage, layout: Layout) -> Result<()> {
    put_size(out, message.partition.bytes().len().saturating_add(4))?;
    out.extend_from_slice(&message.partition.arity().to_be_bytes());
    out.extend_from_slice(message.partition.bytes());
    out.extend_from_slice(&message.bucket.0.to_be_bytes());
    match message.total_buckets {
        total if layout.has_total_buckets() => {
            out.push(u8::from(total.is_some()));
            out.extend(total.iter().flat_map(|total| total.to_be_bytes()));
        }
        None => {}
        Some(_) => return Err(cannot_hold(layout, "the bucket count")),
    }
    let (data, compact) = (&message.data, &message.compact);
    put_files(out, &data.new_files, layout)?;
    put_files(out, &data.deleted_files, layout)?;
    put_files(out, &data.changelog_files, layout)?;
    if layout.has_index_lists_per_increment() {
        put_index_files(out, &data.new_index_files, layout)?;
        put_index_files(out, &data.deleted_index_files, layout)?;
    }
    put_files(out, &compact.compact_before, layout)?;
    put_files(out, &compact.compact_after, layout)?;
    put_files(out, &compact.changelog_files, layout)?;
    if layout.has_index_lists_per_increment() {
        put_index_files(out, &compact.new_index_files, layout)?;
        return put_index_files(out, &compact.deleted_index_files, layout);
    }
    // Older readers give the one pair of lists to the half that they see files of.
    let (new, deleted, others) = if has_compact_files(compact) {
        let others = data.new_index_files.len() + data.deleted_index_files.len();
        (
            &compact.new_index_files,
            &compact.deleted_index_files,
            others,
        )
    } else {
        let others = compact.new_index_files.len() + compact.deleted_index_files.len();
        (&data.new_index_files, &data.deleted_index_files, others)
    };
    if others > 0 {
        return Err(cannot_hold(layout, "index files of this half"));
    }
    put_index_files(out, new, layout)?;
    if layout.has_deleted_index_files() {
        put_index_files(out, deleted, layout)
    } else if deleted.is_empty() {
        Ok(())
    } else {
        Err(cannot_hold(layout, "deleted index files"))
    }
}

fn has_compact_files(compact: &CompactIncrement) -> bool {
    !compact.compact_before.is_empty()
        || !compact.compact_after.is_empty()
        || !compact.changelog_files.is_empty()
}

fn cannot_hold(layout: Layout, what: &str) -> Error {
    Error::new(Problem::CannotHold(format!(
        "version {} of commit messages has no place for {what}: use a newer one",
        layout.version
    )))
}

/// A length or count as Java's `int`.
pub(crate) fn put_size(out: &mut Vec<u8>, size: usize) -> Result<()> {
    let size = i32::try_from(size)
        .map_err(|_| Problem::CannotHold(format!("{size} is more than an int can count")))?;
    out.extend_from_slice(&size.to_be_bytes());
    Ok(())
}

fn put_files(out: &mut Vec<u8>, files: &[DataFileMeta], layout: Layout) -> Result<()> {
    put_size(out, files.len())?;
    files.iter().try_for_each(|file| {
        let row = rows::encode_file(file, layout)?;
        put_size(out, row.len())?;
        out.extend_from_slice(&row);
        Ok(())
    })
}

fn put_index_files(out: &mut Vec<u8>, files: &[IndexFileMeta], layout: Layout) -> Result<()> {
    put_size(out, files.len())?;
    files.iter().try_for_each(|file| {
        let row = rows::encode_index_file(file, layout)?;
        put_size(out, row.len())?;
        out.extend_from_slice(&row);
        Ok(())
    })
}

/// A big-endian `int`.
pub(crate) fn int(cursor: &mut Cursor<'_>) -> Result<i32> {
    cursor.array().map(i32::from_be_bytes)
}

/// A length, checked against what is left.
fn size(cursor: &mut Cursor<'_>) -> Result<usize> {
    let length = int(cursor)?;
    usize::try_from(length)
        .ok()
        .filter(|n| *n <= cursor.left())
        .ok_or_else(|| {
            cursor.error(Problem::Length {
                length: length.into(),
                available: cursor.left() as u64,
            })
        })
}

/// Java's boolean: one byte.
pub(crate) fn boolean(cursor: &mut Cursor<'_>) -> Result<bool> {
    let start = cursor.clone();
    match cursor.array()? {
        [0] => Ok(false),
        [1] => Ok(true),
        [other] => Err(start.error(Problem::Unexpected {
            expected: "0 or 1",
            found: other.to_string(),
        })),
    }
}

pub(crate) fn read(cursor: &mut Cursor<'_>, layout: Layout) -> Result<CommitMessage> {
    let partition = read_partition(cursor).map_err(|e| e.in_field("partition"))?;
    let bucket = BucketId(int(cursor)?);
    let total_buckets = if layout.has_total_buckets() && boolean(cursor)? {
        Some(int(cursor)?)
    } else {
        None
    };
    let mut data = DataIncrement {
        new_files: files(cursor, layout, "new files")?,
        deleted_files: files(cursor, layout, "deleted files")?,
        changelog_files: files(cursor, layout, "changelog files")?,
        ..DataIncrement::default()
    };
    if layout.has_index_lists_per_increment() {
        data.new_index_files = index_files(cursor, layout, "new index files")?;
        data.deleted_index_files = index_files(cursor, layout, "deleted index files")?;
    }
    let mut compact = CompactIncrement {
        compact_before: files(cursor, layout, "compact before")?,
        compact_after: files(cursor, layout, "compact after")?,
        changelog_files: files(cursor, layout, "compact changelog files")?,
        ..CompactIncrement::default()
    };
    let new = index_files(cursor, layout, "new index files")?;
    let deleted = if layout.has_deleted_index_files() {
        index_files(cursor, layout, "deleted index files")?
    } else {
        Vec::new()
    };
    if layout.has_index_lists_per_increment() || has_compact_files(&compact) {
        (compact.new_index_files, compact.deleted_index_files) = (new, deleted);
    } else {
        (data.new_index_files, data.deleted_index_files) = (new, deleted);
    }
    Ok(CommitMessage {
        partition,
        bucket,
        total_buckets,
        data,
        compact,
    })
}

fn read_partition(cursor: &mut Cursor<'_>) -> Result<BinaryRow> {
    let length = size(cursor)?;
    let start = cursor.clone();
    crate::stats::row(cursor.take(length)?)
        .map_err(|e| e.at(crate::error::Position::Byte(start.at() as u64)))
}

fn files(cursor: &mut Cursor<'_>, layout: Layout, name: &str) -> Result<Vec<DataFileMeta>> {
    list(cursor, name, |row| rows::decode_file(row, layout))
}

fn index_files(cursor: &mut Cursor<'_>, layout: Layout, name: &str) -> Result<Vec<IndexFileMeta>> {
    list(cursor, name, |row| rows::decode_index_file(row, layout))
}

/// A count, then rows after their lengths.
fn list<T>(
    cursor: &mut Cursor<'_>,
    name: &str,
    mut decode: impl FnMut(&[u8]) -> Result<T>,
) -> Result<Vec<T>> {
    let count = size(cursor).map_err(|e| e.in_field(name))?;
    let mut all = Vec::new();
    for index in 0..count {
        let here = |e: Error| e.in_field(&format!("[{index}]")).in_field(name);
        let length = size(cursor).map_err(here)?;
        let start = cursor.at() as u64;
        let row = cursor.take(length).map_err(here)?;
        all.push(decode(row).map_err(|e| here(e.at(crate::error::Position::Byte(start))))?);
    }
    Ok(all)
}
