//! The container: header, then blocks of records, each followed by the sync marker.
//!
//! Reading holds one decompressed block at a time; writing one block that is not yet compressed.

use super::codec::{self, Codec};
use super::cursor::Cursor;
use super::encode;
use super::plan::{Field, RecordPlan};
use super::schema::Schema;
use super::shape::Shape;
use crate::error::{Error, Position, Problem, Result, shorten};
use std::sync::Arc;

const MAGIC: [u8; 4] = *b"Obj\x01";
const SYNC: usize = 16;
/// Java closes a block once it holds this many plain bytes.
const BLOCK: usize = 64_000;

/// Records of one shape, one after the other.
#[derive(Debug)]
pub(crate) struct Records<'a> {
    file: &'a [u8],
    at: usize,
    codec: Codec,
    sync: [u8; SYNC],
    shape: Arc<Shape>,
    /// The plain bytes of the block; unused without compression.
    buffer: Vec<u8>,
    /// Where the block's content lies in the file, for the codec that leaves it as it is.
    plain: std::ops::Range<usize>,
    /// File offset of the block.
    block: usize,
    /// Next byte in the block's plain bytes.
    next: usize,
    /// Records left in the block.
    left: u64,
    /// Records read.
    read: u64,
    failed: bool,
}

impl<'a> Records<'a> {
    /// Reads the header and compares the writer's schema with the wanted fields.
    pub(crate) fn open(file: &'a [u8], fields: &'static [Field]) -> Result<Self> {
        let mut cursor = Cursor::new(file, 0);
        if file.get(..MAGIC.len()) != Some(MAGIC.as_slice()) {
            return Err(cursor.error(Problem::Magic));
        }
        cursor.take(MAGIC.len())?;
        let (mut schema, mut codec) = (None, Codec::Null);
        loop {
            let (count, _) = cursor.block()?;
            if count == 0 {
                break;
            }
            for _ in 0..count {
                let key = cursor.text()?;
                let start = cursor.clone();
                let value = cursor.bytes()?;
                let here = |e: Error| e.in_field(key).at(Position::Byte(start.at() as u64));
                match key {
                    "avro.schema" => schema = Some((start.at(), value)),
                    "avro.codec" => {
                        let name = String::from_utf8_lossy(value);
                        codec = Codec::from_name(&name, 1).map_err(here)?;
                    }
                    _ => {}
                }
            }
        }
        let sync = cursor.array()?;
        let Some((at, text)) = schema else {
            return Err(cursor.error(Problem::Missing).in_field("avro.schema"));
        };
        let here = |e: Error| e.at(Position::Byte(at as u64));
        let shape = Shape::of(text, fields).map_err(here)?;
        Ok(Self {
            file,
            at: cursor.at(),
            codec,
            sync,
            shape,
            buffer: Vec::new(),
            plain: 0..0,
            block: 0,
            next: 0,
            left: 0,
            read: 0,
            failed: false,
        })
    }

    /// The next record as `read` makes it; `None` at the end and after an error.
    pub(crate) fn next<'b, T>(
        &'b mut self,
        read: impl FnOnce(&'b RecordPlan, &'b Schema, &mut Cursor<'b>) -> Result<T>,
    ) -> Option<Result<T>> {
        if self.failed {
            return None;
        }
        while self.left == 0 {
            match self.load() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(e) => {
                    self.failed = true;
                    return Some(Err(e));
                }
            }
        }
        let plain: &'b [u8] = match self.codec {
            Codec::Null => self.file.get(self.plain.clone()).unwrap_or_default(),
            _ => &self.buffer,
        };
        let (block, record) = (self.block as u64, self.read);
        let in_block = move |e: Error| {
            e.moved(|at| match at {
                Some(Position::Byte(byte)) => Position::Block {
                    block,
                    record,
                    byte,
                },
                Some(other) => other,
                None => Position::Block {
                    block,
                    record,
                    byte: 0,
                },
            })
        };
        let mut cursor = Cursor::new(plain, self.next);
        let record = match read(&self.shape.plan, &self.shape.schema, &mut cursor) {
            Ok(record) => record,
            Err(e) => {
                self.failed = true;
                return Some(Err(in_block(e)));
            }
        };
        self.next = cursor.at();
        self.left -= 1;
        self.read += 1;
        if self.left == 0 && cursor.left() > 0 {
            self.failed = true;
            return Some(Err(in_block(
                cursor.error(Problem::Leftover(cursor.left() as u64)),
            )));
        }
        Some(Ok(record))
    }

    /// Takes the next block; false at the end of the file.
    fn load(&mut self) -> Result<bool> {
        let mut cursor = Cursor::new(self.file, self.at);
        if cursor.left() == 0 {
            return Ok(false);
        }
        self.block = self.at;
        let count = cursor.long()?;
        let packed = cursor.bytes()?;
        let end = cursor.at();
        if cursor.array::<SYNC>()? != self.sync {
            return Err(Error::new(Problem::Sync).at(Position::Byte(end as u64)));
        }
        let here = |e: Error| e.at(Position::Byte(self.at as u64));
        let plain = if self.codec == Codec::Null {
            self.plain = end - packed.len()..end;
            packed.len()
        } else {
            codec::decompress(self.codec, packed, &mut self.buffer).map_err(here)?;
            self.buffer.len()
        };
        // Records of the kinds read here take a byte at least.
        self.left = u64::try_from(count)
            .ok()
            .filter(|n| *n <= plain as u64)
            .ok_or_else(|| {
                here(Error::new(Problem::Length {
                    length: count,
                    available: plain as u64,
                }))
            })?;
        if self.left == 0 && plain > 0 {
            return Err(here(Error::new(Problem::Leftover(plain as u64))));
        }
        self.next = 0;
        self.at = cursor.at();
        Ok(true)
    }
}

/// Writes a container, block by block.
#[derive(Debug)]
pub(crate) struct Writer {
    out: Vec<u8>,
    block: Vec<u8>,
    count: i64,
    codec: Codec,
    sync: [u8; SYNC],
}

impl Writer {
    /// Writes the header.
    pub(crate) fn new(schema: &str, codec: Codec, sync: [u8; SYNC]) -> Self {
        let mut out = Vec::with_capacity(schema.len() + 128);
        out.extend_from_slice(&MAGIC);
        encode::long(&mut out, 2);
        encode::text(&mut out, "avro.schema");
        encode::text(&mut out, schema);
        encode::text(&mut out, "avro.codec");
        encode::text(&mut out, codec.name());
        encode::long(&mut out, 0);
        out.extend_from_slice(&sync);
        Self {
            out,
            block: Vec::new(),
            count: 0,
            codec,
            sync,
        }
    }

    /// Adds one record, which `put` encodes.
    pub(crate) fn append(&mut self, put: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
        put(&mut self.block);
        self.count += 1;
        if self.block.len() >= BLOCK {
            self.close_block()
        } else {
            Ok(())
        }
    }

    /// Bytes written, the open block counted as it stands.
    pub(crate) fn size(&self) -> u64 {
        (self.out.len() + self.block.len()) as u64
    }

    fn close_block(&mut self) -> Result<()> {
        if self.count == 0 {
            return Ok(());
        }
        let mut packed = Vec::new();
        codec::compress(self.codec, &self.block, &mut packed)?;
        encode::long(&mut self.out, self.count);
        encode::bytes(&mut self.out, &packed);
        self.out.extend_from_slice(&self.sync);
        self.block.clear();
        self.count = 0;
        Ok(())
    }

    /// The whole file.
    pub(crate) fn finish(mut self) -> Result<Vec<u8>> {
        self.close_block()?;
        Ok(self.out)
    }
}

/// The plain content of each block with its record count, for comparisons that leave compression and
/// sync marker out.
///
/// # Errors
/// As any decoder of this crate.
pub fn blocks(file: &[u8]) -> Result<Vec<(u64, Vec<u8>)>> {
    let mut records = Records::open(file, &[])?;
    let mut all = Vec::new();
    while records.load()? {
        let plain = match records.codec {
            Codec::Null => file.get(records.plain.clone()).unwrap_or_default().to_vec(),
            _ => records.buffer.clone(),
        };
        all.push((records.left, plain));
        records.left = 0;
    }
    Ok(all)
}

/// The writer's schema as the header has it.
///
/// # Errors
/// Where there is none.
pub fn schema_text(file: &[u8]) -> Result<String> {
    let mut cursor = Cursor::new(file, 0);
    if cursor.take(MAGIC.len())? != MAGIC {
        return Err(Cursor::new(file, 0).error(Problem::Magic));
    }
    loop {
        let (count, _) = cursor.block()?;
        if count == 0 {
            return Err(cursor.error(Problem::Missing).in_field("avro.schema"));
        }
        for _ in 0..count {
            let key = cursor.text()?;
            if key == "avro.schema" {
                return Ok(cursor.text()?.to_owned());
            }
            cursor.bytes().map_err(|e| e.in_field(&shorten(key)))?;
        }
    }
}
