//! Checks of what reads files: the same rows and positions however a file is cut, and no panic on any
//! bytes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "checks report by a panic"
)]

use std::sync::{Arc, LazyLock};

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};
use bytes::Bytes;
use tidegate_sink::blocking::{CancelFlag, wait};
use tidegate_storage::Store;

use super::csv::{CsvDecoder, CsvFormat};
use super::input::{Compression, Decompressor, Piece};
use super::json::JsonDecoder;
use super::parquet_reader::ParquetReader;
use super::position::FilePosition;
use super::record_reader::{File, RecordReader, Sizes};
use crate::source::convert::{Column, MAX_BYTES, MAX_CHARS, PRECISION};
use crate::source::{Position, Read, SourceError, SplitId, SplitReader};

/// A column of every kind that text can become; the first are those of seeds.
pub(crate) static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
    let with = |field: Field, key: &str, value: &str| {
        field.with_metadata([(key.to_owned(), value.to_owned())].into())
    };
    let pair = Fields::from(vec![
        Field::new("key", DataType::Utf8, false),
        Field::new("value", DataType::Int64, true),
    ]);
    let entries = Arc::new(Field::new("entries", DataType::Struct(pair.clone()), false));
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        with(Field::new("name", DataType::Utf8, true), MAX_CHARS, "9"),
        Field::new("amount", DataType::Decimal128(10, 2), true),
        Field::new("day", DataType::Date32, true),
        Field::new("at", DataType::Timestamp(TimeUnit::Microsecond, None), true),
        Field::new(
            "when",
            DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())),
            true,
        ),
        with(
            Field::new("clock", DataType::Time32(TimeUnit::Millisecond), true),
            PRECISION,
            "2",
        ),
        Field::new("good", DataType::Boolean, true),
        Field::new("tiny", DataType::Int8, true),
        Field::new("small", DataType::Int16, true),
        Field::new("int", DataType::Int32, true),
        Field::new("float", DataType::Float32, true),
        Field::new("double", DataType::Float64, true),
        with(Field::new("bytes", DataType::Binary, true), MAX_BYTES, "6"),
        Field::new("wide", DataType::Decimal128(38, 38), true),
        Field::new(
            "list",
            DataType::new_list(DataType::new_list(DataType::Int16, true), true),
            true,
        ),
        Field::new("row", DataType::Struct(pair), true),
        Field::new("map", DataType::Map(entries, false), true),
        Field::new("ms", DataType::Timestamp(TimeUnit::Millisecond, None), true),
    ]))
});

/// The first columns, for records that are short to write.
fn few(n: usize) -> SchemaRef {
    let fields: Vec<_> = SCHEMA.fields().iter().take(n).cloned().collect();
    Arc::new(Schema::new(fields))
}

fn run<T>(future: impl Future<Output = T> + Send) -> T {
    wait(Box::pin(future), &CancelFlag::new()).expect("nobody cancels")
}

/// What a reader made of a file from some position on.
struct Outcome {
    rows: RecordBatch,
    /// After each batch, with the rows before it.
    positions: Vec<(usize, Position)>,
    /// Where it ended, or why it did not.
    end: Result<Position, String>,
}

#[derive(Clone)]
enum Text {
    Csv(CsvFormat),
    Json,
}

struct Case<'a> {
    schema: SchemaRef,
    format: Text,
    text: &'a [u8],
    compression: Compression,
    to_the_end: bool,
}

impl Case<'_> {
    fn read(&self, from: &Position, sizes: Sizes) -> Outcome {
        let store = Store::open("memory://", &Default::default()).expect("a store");
        run(store.put("f", Bytes::copy_from_slice(self.text))).expect("written");
        let file = File {
            store,
            path: "f".into(),
            shown: "f".into(),
            size: self.text.len() as u64,
            modified: 0,
            compression: self.compression,
        };
        let from = match FilePosition::decode(&SplitId("f".into()), from) {
            Ok(from) => from,
            Err(e) => return self.nothing(e),
        };
        let opened: Result<Box<dyn SplitReader>, SourceError> = match &self.format {
            Text::Csv(format) => run(async {
                let decoder = CsvDecoder::new(self.schema.clone(), format.clone())?;
                let reader =
                    RecordReader::open_sized(file, from, decoder, self.to_the_end, sizes).await?;
                Ok(Box::new(reader) as _)
            }),
            Text::Json => run(async {
                let decoder = JsonDecoder::new(self.schema.clone())?;
                let reader =
                    RecordReader::open_sized(file, from, decoder, self.to_the_end, sizes).await?;
                Ok(Box::new(reader) as _)
            }),
        };
        let mut reader = match opened {
            Ok(reader) => reader,
            Err(e) => return self.nothing(e),
        };
        let (mut batches, mut positions, mut count) = (Vec::new(), Vec::new(), 0);
        let end = loop {
            match run(reader.next()) {
                Ok(Read::Rows(batch)) => {
                    count += batch.batch.num_rows();
                    positions.push((count, batch.position));
                    batches.push(batch.batch);
                }
                Ok(Read::End(position)) => break Ok(position),
                Ok(Read::Idle) => panic!("a file does not wait"),
                Err(e) => break Err(told(&e)),
            }
        };
        Outcome {
            rows: concat_batches(&self.schema, &batches).expect("one schema"),
            positions,
            end,
        }
    }

    fn nothing(&self, error: SourceError) -> Outcome {
        Outcome {
            rows: RecordBatch::new_empty(self.schema.clone()),
            positions: Vec::new(),
            end: Err(told(&error)),
        }
    }

    /// However it is cut, and wherever a reader goes on, the rows are those of one piece.
    fn check(&self, cuts: Sizes) {
        let start = FilePosition::start().encode();
        let whole = self.read(&start, Sizes::default());
        let cut = self.read(&start, cuts);
        assert_eq!(whole.rows, cut.rows);
        assert_eq!(whole.end, cut.end);
        let places = cut.positions.len();
        for (before, position) in cut.positions.iter().step_by(places / 6 + 1) {
            let rest = self.read(position, cuts);
            assert_eq!(
                rest.rows,
                whole.rows.slice(*before, whole.rows.num_rows() - before)
            );
            assert_eq!(rest.end, whole.end);
        }
        // A file that is watched while it grows.
        if self.compression != Compression::None {
            return;
        }
        let at = self.text.len() / 2 + cuts.piece.min(self.text.len() / 2);
        let shorter = Case {
            text: &self.text[..at],
            to_the_end: false,
            schema: self.schema.clone(),
            format: self.format.clone(),
            compression: Compression::None,
        };
        let first = shorter.read(&start, cuts);
        if let Ok(position) = &first.end {
            let rest = self.read(position, cuts);
            let both = concat_batches(&self.schema, [&first.rows, &rest.rows]).expect("one schema");
            assert_eq!(both, whole.rows);
            assert_eq!(rest.end, whole.end);
        }
    }
}

/// An error with everything that it names; it must name the file.
fn told(error: &SourceError) -> String {
    #[cfg(test)]
    corpus::note(error);
    let text = error.to_string();
    assert!(text.contains('f'), "{text}");
    text
}

fn sizes(byte: u8) -> Sizes {
    Sizes {
        chunk: 1 + u64::from(byte & 7),
        piece: 1 + usize::from(byte >> 3 & 3),
        rows: 1 + usize::from(byte >> 5 & 3),
        batch_bytes: if byte & 128 == 0 { 5 } else { 64 },
    }
}

/// How it is cut, then how it is written, then the text.
pub fn csv_cuts(data: &[u8]) {
    let [cuts, how, text @ ..] = data else { return };
    let format = CsvFormat {
        header: how & 1 == 1,
        delimiter: if how & 2 == 0 { b',' } else { b';' },
        quote: if how & 4 == 0 { b'"' } else { b'\'' },
        null: if how & 8 == 0 { "" } else { "NULL" }.into(),
    };
    let case = Case {
        schema: few(1 + usize::from(how >> 4) % 8),
        format: Text::Csv(format),
        text,
        compression: Compression::None,
        to_the_end: cuts & 1 == 0,
    };
    case.check(sizes(*cuts));
}

/// How it is cut, then the text.
pub fn json_cuts(data: &[u8]) {
    let [cuts, text @ ..] = data else { return };
    let case = Case {
        schema: SCHEMA.clone(),
        format: Text::Json,
        text,
        compression: Compression::None,
        to_the_end: cuts & 1 == 0,
    };
    case.check(sizes(*cuts));
}

/// The kind of compression and the size of pieces, then a packed file: unpacked in one piece and in
/// many it gives the same bytes or an error; and as a file of JSON lines the same rows.
pub fn unpack(data: &[u8]) {
    let [how, packed @ ..] = data else { return };
    let compression = if how & 1 == 0 {
        Compression::Gzip
    } else {
        Compression::Zstd
    };
    let unpacked = |chunk: usize, most: usize| -> Result<(u64, u32), ()> {
        let mut decompressor = Decompressor::new(compression).expect("a decoder");
        let mut chunks = packed.chunks(chunk);
        let mut sum = crc32fast::Hasher::new();
        let mut length = 0;
        let mut out = Vec::new();
        loop {
            out.clear();
            match decompressor.pull(&mut out, most) {
                Ok(Piece::Bytes(n)) => {
                    sum.update(&out);
                    length += n as u64;
                    if length > 1 << 20 {
                        // A bomb is not our trouble: nobody asks for more than a piece of it.
                        return Err(());
                    }
                }
                Ok(Piece::End) => return Ok((length, sum.finalize())),
                Ok(Piece::Hungry) => match chunks.next() {
                    Some(bytes) => decompressor.feed(Bytes::copy_from_slice(bytes), false),
                    None => decompressor.feed(Bytes::new(), true),
                },
                Err(_) => return Err(()),
            }
        }
    };
    let whole = unpacked(packed.len().max(1), 64 << 10);
    assert_eq!(whole, unpacked(1 + usize::from(how >> 1), 1000));
    if whole.is_ok_and(|(length, _)| length < 1000) {
        let case = Case {
            schema: SCHEMA.clone(),
            format: Text::Json,
            text: packed,
            compression,
            to_the_end: true,
        };
        // A magic number is looked for in one piece.
        let sizes = Sizes {
            chunk: 8 + u64::from(*how),
            ..sizes(*how)
        };
        case.check(sizes);
    }
}

/// A column and whether the value comes as JSON, then the value: added or refused; a value that is
/// refused leaves no trace in a column without parts.
pub fn text_values(data: &[u8]) {
    let [how, text @ ..] = data else { return };
    let Ok(text) = std::str::from_utf8(text) else {
        return;
    };
    let fields = SCHEMA.fields();
    let field = &fields[usize::from(how >> 1) % fields.len()];
    let mut column = Column::new(field.clone()).expect("a column");
    let added = if how & 1 == 0 {
        column.append_text(text)
    } else {
        match serde_json::from_str(text) {
            Ok(value) => column.append_json(&value),
            Err(_) => return,
        }
    };
    match added {
        Ok(()) => assert_eq!(column.finish().expect("an array").len(), 1),
        Err(mismatch) => {
            assert!(!mismatch.why.is_empty());
            if !field.data_type().is_nested() {
                assert_eq!(column.finish().expect("an array").len(), 0);
            }
        }
    }
}

/// A position in a small file of every format: read on from there, or refused.
pub fn file_position(data: &[u8]) {
    let [version, bytes @ ..] = data else { return };
    let id = SplitId("f".into());
    for bytes in [
        bytes.to_vec(),
        bytes.iter().copied().chain([0; 41]).take(41).collect(),
    ] {
        let position = Position {
            version: u16::from(version % 3),
            bytes,
        };
        let read = match FilePosition::decode(&id, &position) {
            Ok(read) => read,
            Err(error) => {
                told(&error);
                continue;
            }
        };
        assert_eq!(
            FilePosition::decode(&id, &read.encode()).expect("our own bytes"),
            read
        );
        let text = b"1,a\n2,\"b\n\"\n3,c";
        let csv = Case {
            schema: few(2),
            format: Text::Csv(CsvFormat {
                header: false,
                ..CsvFormat::default()
            }),
            text,
            compression: Compression::None,
            to_the_end: version & 4 == 0,
        };
        // As the checksums say, too: else nothing gets past them.
        let known = text.get(..usize::try_from(read.offset).unwrap_or(usize::MAX));
        let sum = known.map_or(0, crc32fast::hash);
        let believed = FilePosition {
            head: sum,
            tail: sum,
            ..read.clone()
        }
        .encode();
        for position in [&position, &believed] {
            let _ = csv.read(position, Sizes::default());
        }
    }
}

/// A Parquet file of a source: rows that fit the table, or an error that names the file; a panic of the
/// library is an error, too.
pub fn parquet_source(data: &[u8]) {
    let [skip, data @ ..] = data else { return };
    let store = Store::open("memory://", &Default::default()).expect("a store");
    run(store.put("f.parquet", Bytes::copy_from_slice(data))).expect("written");
    let file = || File {
        store: store.clone(),
        path: "f.parquet".into(),
        shown: "f.parquet".into(),
        size: data.len() as u64,
        modified: 0,
        compression: Compression::None,
    };
    let footer = &data[data.len().saturating_sub(super::position::SAMPLE)..];
    let wanted = FilePosition {
        offset: u64::from(*skip),
        line: u64::from(*skip),
        head: crc32fast::hash(footer),
        size: data.len() as u64,
        ..FilePosition::start()
    };
    let told = |e: SourceError| assert!(told(&e).contains("f.parquet"), "{e}");
    let mut reader = match run(ParquetReader::open(file(), wanted, SCHEMA.clone())) {
        Ok(reader) => reader,
        Err(e) => return told(e),
    };
    // A footer may claim rows without end that take no bytes.
    for _ in 0..8 {
        match run(reader.next()) {
            Ok(Read::Rows(batch)) => assert_eq!(batch.batch.schema(), *SCHEMA),
            Ok(_) => return,
            Err(e) => return told(e),
        }
    }
}

/// Seeds reach every variant of what a reader of a source's files says.
#[cfg(test)]
mod corpus {
    use super::{SourceError, csv_cuts, file_position, json_cuts, parquet_source, unpack};
    use std::cell::RefCell;
    use std::collections::BTreeSet;
    use tidegate_fuzz_support::{reached, variants};

    variants!(SourceError {
        BadRecord(..), Changed { .. }, Position { .. }, Corrupt { .. },
    } elsewhere {
        // Of configurations and stores.
        Config(..), NotFound { .. }, Io { .. },
    });

    thread_local! {
        static SAID: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
    }

    pub(super) fn note(error: &SourceError) {
        SAID.with_borrow_mut(|said| said.push(name(error)));
    }

    #[test]
    fn seeds_reach_every_variant() {
        let folder = env!("CARGO_MANIFEST_DIR");
        let mut all = BTreeSet::new();
        type Check = fn(&[u8]);
        let checks: [(&str, Check); 5] = [
            ("csv_cuts", csv_cuts),
            ("json_cuts", json_cuts),
            ("unpack", unpack),
            ("file_position", file_position),
            ("parquet_source", parquet_source),
        ];
        for (target, check) in checks {
            all.extend(reached(folder, target, |data| {
                check(data);
                SAID.take()
            }));
        }
        assert_eq!(all, DECODERS.iter().copied().collect::<BTreeSet<_>>());
    }
}
