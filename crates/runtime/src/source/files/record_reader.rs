//! Reads a text file record by record from a position, and notices when it is another file now.
//!
//! Owns buffering, batches, positions and the comparison with what was read before; the format is
//! the decoder's business.

use bytes::Bytes;
use tidegate_sink::BoxFuture;
use tidegate_storage::Store;

use super::decoder::{Decoded, Decoder, Failed};
use super::input::{Compression, Decompressor, Piece};
use super::position::{FilePosition, SAMPLE};
use crate::source::{BadRecord, Origin, Read, SourceBatch, SourceError, SplitReader};

/// A file as it was when it was opened. What is appended later belongs to a later reader.
pub(super) struct File {
    pub(super) store: Store,
    pub(super) path: String,
    /// As messages name it.
    pub(super) shown: String,
    pub(super) size: u64,
    pub(super) modified: i64,
    pub(super) compression: Compression,
}

/// How a file is cut while it is read. What is read must not depend on it, and small sizes let small
/// files prove that.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    /// Stored bytes asked for at once.
    pub(super) chunk: u64,
    /// Record bytes unpacked at once.
    pub(super) piece: usize,
    /// Rows of a batch at most.
    pub(super) rows: usize,
    /// Record bytes of a batch at most, one record excepted.
    pub(super) batch_bytes: usize,
}

impl Default for Sizes {
    fn default() -> Self {
        Self {
            chunk: 1 << 20,
            piece: 256 << 10,
            rows: 8192,
            batch_bytes: 4 << 20,
        }
    }
}

/// A single record may be this long.
const MAX_RECORD: usize = 256 << 20;

pub(super) struct RecordReader<D> {
    file: File,
    sizes: Sizes,
    decoder: D,
    source: Stored,
    position: FilePosition,
    /// Record bytes from the position on.
    buffer: Vec<u8>,
    /// First bytes of the file, for positions.
    head: Vec<u8>,
    /// Last bytes before the position.
    tail: Vec<u8>,
    /// True: the end of the file ends the last record.
    to_the_end: bool,
    /// A record of the last call that must be reported next.
    failed: Option<SourceError>,
    /// Bytes to gather before the next look for a record; doubles while none is found.
    enough: usize,
}

/// Stored bytes in order, unpacked.
struct Stored {
    decompressor: Decompressor,
    /// Stored bytes handed in.
    at: u64,
    /// The compression that the name promises and the first bytes do not keep.
    unlike: Option<&'static str>,
    finished: bool,
}

impl<D: Decoder> RecordReader<D> {
    pub(super) async fn open(
        file: File,
        position: FilePosition,
        decoder: D,
        to_the_end: bool,
    ) -> Result<Self, SourceError> {
        Self::open_sized(file, position, decoder, to_the_end, Sizes::default()).await
    }

    pub(super) async fn open_sized(
        file: File,
        position: FilePosition,
        decoder: D,
        to_the_end: bool,
        sizes: Sizes,
    ) -> Result<Self, SourceError> {
        let decompressor =
            Decompressor::new(file.compression).map_err(|e| SourceError::Corrupt {
                file: file.shown.clone(),
                what: e.to_string(),
            })?;
        let mut reader = Self {
            source: Stored {
                decompressor,
                at: 0,
                unlike: None,
                finished: false,
            },
            file,
            sizes,
            decoder,
            position: FilePosition::start(),
            buffer: Vec::new(),
            head: Vec::new(),
            tail: Vec::new(),
            to_the_end,
            failed: None,
            enough: sizes.piece,
        };
        reader.seek(position).await?;
        Ok(reader)
    }

    fn changed(&self, what: &str) -> SourceError {
        SourceError::Changed {
            split: self.file.shown.clone(),
            what: format!(
                "{what}; put the file back as it was, or give changed content a new name"
            ),
        }
    }

    /// Goes to a saved position and compares what lies before it.
    async fn seek(&mut self, wanted: FilePosition) -> Result<(), SourceError> {
        if wanted.offset == 0 {
            self.skip_mark().await?;
            return Ok(());
        }
        let plain = self.file.compression == Compression::None;
        if plain && self.file.size < wanted.offset {
            return Err(self.changed(&format!(
                "it has {} bytes, {} were read",
                self.file.size, wanted.offset
            )));
        }
        if plain {
            // Beginning and tail are looked at; what lies between is trusted.
            let sample = wanted.offset.min(SAMPLE as u64);
            self.head = self.stored(0, sample).await?.to_vec();
            self.tail = self
                .stored(wanted.offset - sample, wanted.offset)
                .await?
                .to_vec();
            self.show_header().await?;
            self.source = Stored {
                decompressor: Decompressor::Plain(Default::default()),
                at: wanted.offset,
                unlike: None,
                finished: false,
            };
            self.buffer.clear();
        } else {
            self.unpack_to(wanted.offset).await?;
        }
        if crc32fast::hash(&self.head) != wanted.head {
            return Err(self.changed("its beginning differs from what was read"));
        }
        if crc32fast::hash(&self.tail) != wanted.tail {
            return Err(
                self.changed("the bytes before the saved position differ from what was read")
            );
        }
        self.position = FilePosition {
            size: 0,
            modified: 0,
            ..wanted
        };
        if wanted.open_end {
            self.close_open_end().await?;
        }
        Ok(())
    }

    /// The last record was taken without a line end. What was appended must begin with one, or that
    /// record was not the whole one.
    async fn close_open_end(&mut self) -> Result<(), SourceError> {
        while self.buffer.len() < 2 && self.fill().await? {}
        let skip = match self.buffer.as_slice() {
            [] => return Ok(()),
            [b'\n', ..] => 1,
            [b'\r', b'\n', ..] => 2,
            _ => {
                return Err(self.changed(
                    "its last record had no line end when it was read and has grown since",
                ));
            }
        };
        self.take(Decoded {
            rows: 0,
            bytes: skip,
            lines: 1,
            open_end: false,
        });
        Ok(())
    }

    /// A byte-order mark is no part of the first column's name.
    async fn skip_mark(&mut self) -> Result<(), SourceError> {
        while self.buffer.len() < 3 && self.fill().await? {}
        if self.buffer.starts_with(&[0xef, 0xbb, 0xbf]) {
            self.take(Decoded {
                rows: 0,
                bytes: 3,
                lines: 0,
                open_end: false,
            });
        }
        Ok(())
    }

    /// Shows the decoder the first record so that fields have names, wherever the reader goes on.
    /// Takes nothing.
    async fn show_header(&mut self) -> Result<(), SourceError> {
        while self.buffer.len() < 3 && self.fill().await? {}
        while self.decoder.needs_header() {
            let text = self
                .buffer
                .strip_prefix(&[0xef, 0xbb, 0xbf])
                .unwrap_or(&self.buffer);
            let shown = self.decoder.decode(text, self.source.finished, 1);
            shown.map_err(|f| self.report(f))?;
            self.decoder.reset()?;
            if self.decoder.needs_header() && !self.fill().await? {
                break;
            }
        }
        Ok(())
    }

    /// Unpacks from the start to an offset, with the header read on the way.
    async fn unpack_to(&mut self, offset: u64) -> Result<(), SourceError> {
        self.show_header().await?;
        while self.position.offset < offset {
            if self.buffer.is_empty() && !self.fill().await? {
                let what = format!(
                    "it unpacks to {} bytes, {offset} were read",
                    self.position.offset
                );
                return Err(self.changed(&what));
            }
            let left = usize::try_from(offset - self.position.offset).unwrap_or(usize::MAX);
            let bytes = self.buffer.len().min(left);
            self.take(Decoded {
                rows: 0,
                bytes,
                lines: 0,
                open_end: false,
            });
        }
        Ok(())
    }

    async fn stored(&mut self, from: u64, to: u64) -> Result<Bytes, SourceError> {
        self.file
            .store
            .get_range(&self.file.path, from..to)
            .await
            .map_err(|e| {
                if e.is_not_found() || e.kind() == tidegate_storage::ErrorKind::Corrupt {
                    return self.changed("it is shorter than it was, or gone");
                }
                let kind = if e.is_transient() {
                    tidegate_sink::ErrorKind::Transient
                } else {
                    tidegate_sink::ErrorKind::Config
                };
                SourceError::Io {
                    what: self.file.shown.clone(),
                    kind,
                    source: Box::new(e),
                }
            })
    }

    /// More record bytes; false at the end of the file. Dropped while waiting, nothing has changed.
    async fn fill(&mut self) -> Result<bool, SourceError> {
        loop {
            if self.source.finished {
                return Ok(false);
            }
            let piece = self
                .source
                .decompressor
                .pull(&mut self.buffer, self.sizes.piece);
            match piece.map_err(|e| SourceError::Corrupt {
                file: self.file.shown.clone(),
                what: match self.source.unlike {
                    Some(name) => format!(
                        "its name says that it is compressed, and it does not begin like a {name} file; \
                         rename it if it is not compressed ({e})"
                    ),
                    None => format!("unpacking after {} stored bytes: {e}", self.source.at),
                },
            })? {
                Piece::Bytes(_) => return Ok(true),
                Piece::End => self.source.finished = true,
                Piece::Hungry => {
                    let from = self.source.at;
                    let to = self.file.size.min(from + self.sizes.chunk);
                    let bytes = if from < to {
                        self.stored(from, to).await?
                    } else {
                        Bytes::new()
                    };
                    if from == 0 {
                        self.source.unlike = self.file.compression.unlike(&bytes);
                    }
                    self.source.at = to;
                    self.source.decompressor.feed(bytes, to >= self.file.size);
                }
            }
        }
    }

    /// Moves the position over decoded bytes.
    fn take(&mut self, decoded: Decoded) {
        let used = self.buffer.get(..decoded.bytes).unwrap_or(&self.buffer);
        if self.head.len() < SAMPLE {
            let wanted = used.len().min(SAMPLE - self.head.len());
            self.head
                .extend_from_slice(used.get(..wanted).unwrap_or_default());
        }
        let recent = used
            .get(used.len().saturating_sub(SAMPLE)..)
            .unwrap_or_default();
        let keep = SAMPLE - recent.len();
        self.tail.drain(..self.tail.len().saturating_sub(keep));
        self.tail.extend_from_slice(recent);
        self.buffer.drain(..decoded.bytes.min(self.buffer.len()));
        self.position.offset += decoded.bytes as u64;
        self.position.line += decoded.lines;
        self.position.open_end = decoded.open_end;
        self.position.head = crc32fast::hash(&self.head);
        self.position.tail = crc32fast::hash(&self.tail);
    }

    fn report(&self, failed: Failed) -> SourceError {
        let mut record = failed.record;
        record.file.clone_from(&self.file.shown);
        record.line = Some(self.position.line + failed.before.lines + failed.line + 1);
        record.offset = Some(self.position.offset + failed.before.bytes as u64);
        SourceError::BadRecord(record)
    }

    /// Decodes one batch from the buffer; `None` when it holds no whole record.
    fn batch(&mut self, last: bool) -> Result<Option<SourceBatch>, SourceError> {
        loop {
            let window = self.buffer.len().min(self.sizes.batch_bytes);
            let whole = window == self.buffer.len();
            let header = u64::from(self.decoder.needs_header());
            let input = self.buffer.get(..window).unwrap_or_default();
            let mut decoded = self.decoder.decode(input, last && whole, self.sizes.rows);
            if !whole && matches!(&decoded, Ok(d) if d.bytes == 0) {
                // One record longer than the window.
                decoded = self.decoder.decode(&self.buffer, last, 1);
            }
            let decoded = match decoded {
                Ok(decoded) => decoded,
                Err(failed) => {
                    let before = failed.before;
                    let error = self.report(failed);
                    self.decoder.reset()?;
                    if before.rows == 0 {
                        return Err(error);
                    }
                    // The rows before it are handed out first; they decoded once and do so again.
                    let input = self.buffer.get(..before.bytes).unwrap_or_default();
                    let again = self.decoder.decode(input, last, before.rows);
                    self.failed = Some(error);
                    again.map_err(|f| self.report(f))?
                }
            };
            if decoded.bytes == 0 {
                return Ok(None);
            }
            if decoded.rows == 0 {
                // A header or blank lines: taken, and looked behind.
                self.take(decoded);
                continue;
            }
            let batch = self.decoder.finish()?;
            let origin = Origin {
                file: self.file.shown.clone(),
                line: self.position.line + header + 1,
                exact: decoded.lines == header + decoded.rows as u64,
            };
            self.take(decoded);
            let batch = SourceBatch::new(batch, self.position.encode());
            return Ok(Some(batch.from(origin)));
        }
    }

    /// Where the file was seen to end. What is left is a record whose line end is yet to come.
    fn end(&self) -> FilePosition {
        // A header that is not complete yet is read again from the start.
        let position = if self.decoder.needs_header() {
            FilePosition::start()
        } else {
            self.position.clone()
        };
        FilePosition {
            size: self.file.size,
            modified: self.file.modified,
            ..position
        }
    }
}

impl<D: Decoder> SplitReader for RecordReader<D> {
    fn next<'a>(&'a mut self) -> BoxFuture<'a, Result<Read, SourceError>> {
        Box::pin(async move {
            if let Some(error) = self.failed.take() {
                return Err(error);
            }
            loop {
                let last = self.source.finished && self.to_the_end;
                if self.buffer.len() >= self.enough || self.source.finished {
                    if let Some(batch) = self.batch(last)? {
                        self.enough = self.sizes.piece;
                        return Ok(Read::Rows(batch));
                    }
                    self.enough = self.buffer.len().saturating_mul(2).max(self.sizes.piece);
                }
                if self.source.finished {
                    return Ok(Read::End(self.end().encode()));
                }
                if self.buffer.len() > MAX_RECORD {
                    return Err(SourceError::BadRecord(Box::new(BadRecord {
                        file: self.file.shown.clone(),
                        line: Some(self.position.line + 1),
                        offset: Some(self.position.offset),
                        why: format!(
                            "a record of more than {MAX_RECORD} bytes; a quote may be missing"
                        ),
                        ..BadRecord::default()
                    })));
                }
                self.fill().await?;
            }
        })
    }
}
