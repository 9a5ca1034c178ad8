//! File metadata as binary rows, in the field order of \[F-4.3] and \[F-5.1].

use super::{Layout, cannot_hold};
use crate::error::{Error, Problem, Result};
use crate::manifest::{file_source, source};
use crate::stats::row;
use tidegate_model::binary_row::{
    BinaryArrayReader, BinaryArrayWriter, BinaryRowReader, BinaryRowWriter,
};
use tidegate_model::{
    BinaryRow, DataFileMeta, DeletionVectorRange, GlobalIndex, IndexFileMeta, Level, LogicalType,
    SchemaId, SimpleStats,
};

/// Names for errors, in order.
const FILE: [&str; 21] = [
    "_FILE_NAME",
    "_FILE_SIZE",
    "_ROW_COUNT",
    "_MIN_KEY",
    "_MAX_KEY",
    "_KEY_STATS",
    "_VALUE_STATS",
    "_MIN_SEQUENCE_NUMBER",
    "_MAX_SEQUENCE_NUMBER",
    "_SCHEMA_ID",
    "_LEVEL",
    "_EXTRA_FILES",
    "_CREATION_TIME",
    "_DELETE_ROW_COUNT",
    "_EMBEDDED_FILE_INDEX",
    "_FILE_SOURCE",
    "_VALUE_STATS_COLS",
    "_EXTERNAL_PATH",
    "_FIRST_ROW_ID",
    "_WRITE_COLS",
    "_WRITE_COLS_SEQUENCES",
];

const INDEX: [&str; 7] = [
    "_INDEX_TYPE",
    "_FILE_NAME",
    "_FILE_SIZE",
    "_ROW_COUNT",
    "_DELETIONS_VECTORS_RANGES",
    "_EXTERNAL_PATH",
    "_GLOBAL_INDEX",
];

pub(super) fn encode_file(f: &DataFileMeta, layout: Layout) -> Result<Vec<u8>> {
    let mut row = BinaryRowWriter::new(layout.file_fields as usize);
    row.write_str(0, &f.file_name);
    row.write_i64(1, f.file_size);
    row.write_i64(2, f.row_count);
    row.write_bytes(3, &f.min_key.to_serialized());
    row.write_bytes(4, &f.max_key.to_serialized());
    row.write_nested(5, &stats(&f.key_stats));
    row.write_nested(6, &stats(&f.value_stats));
    row.write_i64(7, f.min_sequence_number);
    row.write_i64(8, f.max_sequence_number);
    row.write_i64(9, f.schema_id.0);
    row.write_i32(10, f.level.0);
    row.write_nested(11, &BinaryArrayWriter::strings(&f.extra_files));
    let mut rest = Rest {
        row: &mut row,
        layout,
        fields: layout.file_fields,
        names: &FILE,
    };
    rest.put(12, f.creation_time_millis, BinaryRowWriter::write_i64)?;
    rest.put(13, f.delete_row_count, BinaryRowWriter::write_i64)?;
    rest.put(
        14,
        f.embedded_index.as_deref(),
        BinaryRowWriter::write_bytes,
    )?;
    rest.put(15, f.file_source.map(source), BinaryRowWriter::write_i8)?;
    rest.put(16, f.value_stats_cols.as_deref(), put_strings)?;
    rest.put(17, f.external_path.as_deref(), BinaryRowWriter::write_str)?;
    rest.put(18, f.first_row_id, BinaryRowWriter::write_i64)?;
    rest.put(19, f.write_cols.as_deref(), put_strings)?;
    rest.put(
        20,
        f.write_cols_sequences.as_deref(),
        |row, i, all: &[i64]| {
            let all: Vec<_> = all.iter().copied().map(Some).collect();
            row.write_nested(i, &BinaryArrayWriter::bigints(&all));
        },
    )?;
    Ok(row.as_bytes().to_vec())
}

pub(super) fn encode_index_file(f: &IndexFileMeta, layout: Layout) -> Result<Vec<u8>> {
    let mut row = BinaryRowWriter::new(layout.index_fields as usize);
    row.write_str(0, &f.index_type);
    row.write_str(1, &f.file_name);
    row.write_i64(2, f.file_size);
    row.write_i64(3, f.row_count);
    let ranges = f
        .dv_ranges
        .as_deref()
        .map(|all| ranges(all, layout))
        .transpose()?;
    let global = match &f.global_index {
        Some(global) if layout.global_fields > 0 => Some(encode_global(global, layout)?),
        Some(_) => return Err(cannot_hold(layout, "a global index")),
        None => None,
    };
    let mut rest = Rest {
        row: &mut row,
        layout,
        fields: layout.index_fields,
        names: &INDEX,
    };
    rest.put(4, ranges.as_deref(), BinaryRowWriter::write_nested)?;
    rest.put(5, f.external_path.as_deref(), BinaryRowWriter::write_str)?;
    rest.put(6, global.as_deref(), BinaryRowWriter::write_nested)?;
    Ok(row.as_bytes().to_vec())
}

/// Nullable fields that only some versions have.
struct Rest<'r> {
    row: &'r mut BinaryRowWriter,
    layout: Layout,
    fields: u32,
    names: &'static [&'static str],
}

impl Rest<'_> {
    fn put<T>(
        &mut self,
        i: usize,
        value: Option<T>,
        put: impl FnOnce(&mut BinaryRowWriter, usize, T),
    ) -> Result<()> {
        let has_place = i < self.fields as usize;
        match value {
            Some(value) if has_place => put(self.row, i, value),
            None if has_place => self.row.set_null(i),
            Some(_) => {
                let name = self.names.get(i).copied().unwrap_or_default();
                return Err(cannot_hold(self.layout, name));
            }
            None => {}
        }
        Ok(())
    }
}

fn put_strings(row: &mut BinaryRowWriter, i: usize, strings: &[String]) {
    row.write_nested(i, &BinaryArrayWriter::strings(strings));
}

fn stats(stats: &SimpleStats) -> Vec<u8> {
    let mut row = BinaryRowWriter::new(3);
    row.write_bytes(0, &stats.min_values.to_serialized());
    row.write_bytes(1, &stats.max_values.to_serialized());
    match &stats.null_counts {
        Some(counts) => row.write_nested(2, &BinaryArrayWriter::bigints(counts)),
        None => row.set_null(2),
    }
    row.as_bytes().to_vec()
}

fn ranges(ranges: &[Option<DeletionVectorRange>], layout: Layout) -> Result<Vec<u8>> {
    let mut array = BinaryArrayWriter::new(ranges.len(), &LogicalType::Row(Vec::new()));
    for (i, range) in ranges.iter().enumerate() {
        let Some(range) = range else {
            array.set_null(i);
            continue;
        };
        let mut row = BinaryRowWriter::new(layout.range_fields as usize);
        row.write_str(0, &range.data_file);
        row.write_i32(1, range.offset);
        row.write_i32(2, range.length);
        match (range.cardinality, layout.range_fields) {
            (Some(count), 4) => row.write_i64(3, count),
            (None, 4) => row.set_null(3),
            (Some(_), _) => {
                return Err(cannot_hold(layout, "the cardinality of a deletion vector"));
            }
            (None, _) => {}
        }
        array.write_nested(i, row.as_bytes());
    }
    Ok(array.into_bytes())
}

fn encode_global(global: &GlobalIndex, layout: Layout) -> Result<Vec<u8>> {
    let mut row = BinaryRowWriter::new(layout.global_fields as usize);
    row.write_i64(0, global.row_range_start);
    row.write_i64(1, global.row_range_end);
    row.write_i32(2, global.index_field_id);
    match &global.extra_field_ids {
        Some(ids) => {
            let mut array = BinaryArrayWriter::new(ids.len(), &LogicalType::Int);
            ids.iter()
                .enumerate()
                .for_each(|(i, id)| array.write_i32(i, *id));
            row.write_nested(3, &array.into_bytes());
        }
        None => row.set_null(3),
    }
    match &global.index_meta {
        Some(meta) => row.write_bytes(4, meta),
        None => row.set_null(4),
    }
    match &global.source_meta {
        Some(meta) if layout.global_fields > 5 => row.write_bytes(5, meta),
        None if layout.global_fields > 5 => row.set_null(5),
        Some(_) => return Err(cannot_hold(layout, "_SOURCE_META")),
        None => {}
    }
    Ok(row.as_bytes().to_vec())
}

pub(super) fn decode_file(bytes: &[u8], layout: Layout) -> Result<DataFileMeta> {
    let mut r = Fields::new(bytes, layout.file_fields, &FILE)?;
    Ok(DataFileMeta {
        file_name: r.text(0)?,
        file_size: r.long(1)?,
        row_count: r.long(2)?,
        min_key: r.row(3)?,
        max_key: r.row(4)?,
        key_stats: r.stats(5)?,
        value_stats: r.stats(6)?,
        min_sequence_number: r.long(7)?,
        max_sequence_number: r.long(8)?,
        schema_id: SchemaId(r.long(9)?),
        level: Level(r.int(10)?),
        extra_files: r.texts(11)?.unwrap_or_default(),
        creation_time_millis: r.optional(12, BinaryRowReader::i64)?,
        delete_row_count: r.optional(13, BinaryRowReader::i64)?,
        embedded_index: r.bytes(14)?,
        file_source: match r.optional(15, BinaryRowReader::i8)? {
            None => None,
            Some(source) => Some(file_source(source.into()).ok_or_else(|| {
                let found = source.to_string();
                r.wrong(
                    15,
                    Problem::Unexpected {
                        expected: "0 or 1",
                        found,
                    },
                )
            })?),
        },
        value_stats_cols: r.texts(16)?,
        external_path: r.optional_text(17)?,
        first_row_id: r.optional(18, BinaryRowReader::i64)?,
        write_cols: r.texts(19)?,
        write_cols_sequences: r
            .longs(20)?
            .map(|all| all.into_iter().map(|n| n.unwrap_or_default()).collect()),
    })
}

pub(super) fn decode_index_file(bytes: &[u8], layout: Layout) -> Result<IndexFileMeta> {
    let mut r = Fields::new(bytes, layout.index_fields, &INDEX)?;
    Ok(IndexFileMeta {
        index_type: r.text(0)?,
        file_name: r.text(1)?,
        file_size: r.long(2)?,
        row_count: r.long(3)?,
        dv_ranges: r.ranges(4, layout.range_fields)?,
        external_path: r.optional_text(5)?,
        global_index: r.global(6, layout.global_fields)?,
    })
}

/// Reads the fields of one row, each with its name in the error.
///
/// Parts of a hostile row may all point at the same bytes, so that a copy of each would be far larger
/// than the row: `budget` is what may still be copied out of it.
struct Fields<'a> {
    row: BinaryRowReader<'a>,
    names: &'static [&'static str],
    budget: usize,
}

impl<'a> Fields<'a> {
    fn new(bytes: &'a [u8], arity: u32, names: &'static [&'static str]) -> Result<Self> {
        let row = BinaryRowReader::new(arity, bytes).map_err(binary)?;
        Ok(Self {
            row,
            names,
            budget: bytes.len(),
        })
    }

    fn wrong(&self, i: usize, problem: Problem) -> Error {
        Error::new(problem).in_field(self.names.get(i).copied().unwrap_or_default())
    }

    fn named(&self, i: usize, e: tidegate_model::Error) -> Error {
        binary(e).in_field(self.names.get(i).copied().unwrap_or_default())
    }

    /// Takes what a copy of a field costs.
    fn spend(&mut self, i: usize, cost: usize) -> Result<()> {
        match self.budget.checked_sub(cost) {
            Some(rest) => {
                self.budget = rest;
                Ok(())
            }
            None => Err(self.wrong(
                i,
                Problem::Length {
                    length: i64::try_from(cost).unwrap_or(i64::MAX),
                    available: self.budget as u64,
                },
            )),
        }
    }

    /// A field that later versions added: absent reads as null.
    fn optional<T>(
        &self,
        i: usize,
        read: impl FnOnce(&BinaryRowReader<'a>, usize) -> tidegate_model::error::Result<Option<T>>,
    ) -> Result<Option<T>> {
        if i >= self.row.arity() as usize {
            return Ok(None);
        }
        read(&self.row, i).map_err(|e| self.named(i, e))
    }

    fn required<T>(
        &self,
        i: usize,
        read: impl FnOnce(&BinaryRowReader<'a>, usize) -> tidegate_model::error::Result<Option<T>>,
    ) -> Result<T> {
        self.optional(i, read)?
            .ok_or_else(|| self.wrong(i, Problem::Missing))
    }

    fn long(&self, i: usize) -> Result<i64> {
        self.required(i, BinaryRowReader::i64)
    }

    fn int(&self, i: usize) -> Result<i32> {
        self.required(i, BinaryRowReader::i32)
    }

    fn optional_text(&mut self, i: usize) -> Result<Option<String>> {
        let text = self.optional(i, BinaryRowReader::str)?;
        text.map(|text| self.spend(i, text.len()).map(|()| text.to_owned()))
            .transpose()
    }

    fn text(&mut self, i: usize) -> Result<String> {
        self.optional_text(i)?
            .ok_or_else(|| self.wrong(i, Problem::Missing))
    }

    fn bytes(&mut self, i: usize) -> Result<Option<Vec<u8>>> {
        let bytes = self.optional(i, BinaryRowReader::bytes)?;
        bytes
            .map(|bytes| self.spend(i, bytes.len()).map(|()| bytes.to_vec()))
            .transpose()
    }

    fn row(&mut self, i: usize) -> Result<BinaryRow> {
        let bytes = self.required(i, BinaryRowReader::bytes)?;
        self.spend(i, bytes.len())?;
        row(bytes).map_err(|e| e.in_field(self.names.get(i).copied().unwrap_or_default()))
    }

    fn array(&mut self, i: usize) -> Result<Option<BinaryArrayReader<'a>>> {
        let array = self.optional(i, BinaryRowReader::array)?;
        // Each element has a slot of four bytes at least.
        array
            .map(|array| self.spend(i, array.len() * 4).map(|()| array))
            .transpose()
    }

    fn texts(&mut self, i: usize) -> Result<Option<Vec<String>>> {
        let Some(array) = self.array(i)? else {
            return Ok(None);
        };
        let mut all = Vec::new();
        for at in 0..array.len() {
            let text = array.str(at).map_err(|e| self.named(i, e))?;
            let text = text.ok_or_else(|| self.wrong(i, Problem::Missing))?;
            self.spend(i, text.len())?;
            all.push(text.to_owned());
        }
        Ok(Some(all))
    }

    fn longs(&mut self, i: usize) -> Result<Option<Vec<Option<i64>>>> {
        let Some(array) = self.array(i)? else {
            return Ok(None);
        };
        let read = |at| array.i64(at).map_err(|e| self.named(i, e));
        (0..array.len()).map(read).collect::<Result<_>>().map(Some)
    }

    fn stats(&mut self, i: usize) -> Result<SimpleStats> {
        const NAMES: [&str; 3] = ["_MIN_VALUES", "_MAX_VALUES", "_NULL_COUNTS"];
        let name = self.names.get(i).copied().unwrap_or_default();
        let row = self.required(i, |row, i| row.row(i, 3))?;
        let mut inner = Fields {
            row,
            names: &NAMES,
            budget: self.budget,
        };
        let mut read = || {
            Ok(SimpleStats {
                min_values: inner.row(0)?,
                max_values: inner.row(1)?,
                null_counts: inner.longs(2)?,
            })
        };
        let stats = read().map_err(|e: Error| e.in_field(name))?;
        self.budget = inner.budget;
        Ok(stats)
    }

    fn ranges(&mut self, i: usize, arity: u32) -> Result<Option<Vec<Option<DeletionVectorRange>>>> {
        const NAMES: [&str; 4] = ["f0", "f1", "f2", "_CARDINALITY"];
        let Some(array) = self.array(i)? else {
            return Ok(None);
        };
        let mut all = Vec::new();
        for at in 0..array.len() {
            let Some(row) = array.row(at, arity).map_err(|e| self.named(i, e))? else {
                all.push(None);
                continue;
            };
            self.spend(i, 8 * arity as usize)?;
            let mut inner = Fields {
                row,
                names: &NAMES,
                budget: self.budget,
            };
            all.push(Some(DeletionVectorRange {
                data_file: inner.text(0)?,
                offset: inner.int(1)?,
                length: inner.int(2)?,
                cardinality: inner.optional(3, BinaryRowReader::i64)?,
            }));
            self.budget = inner.budget;
        }
        Ok(Some(all))
    }

    fn global(&mut self, i: usize, arity: u32) -> Result<Option<GlobalIndex>> {
        const NAMES: [&str; 6] = [
            "_ROW_RANGE_START",
            "_ROW_RANGE_END",
            "_INDEX_FIELD_ID",
            "_EXTRA_FIELD_IDS",
            "_INDEX_META",
            "_SOURCE_META",
        ];
        let Some(row) = self.optional(i, |row, i| row.row(i, arity))? else {
            return Ok(None);
        };
        let mut inner = Fields {
            row,
            names: &NAMES,
            budget: self.budget,
        };
        let extra_field_ids = match inner.array(3)? {
            None => None,
            Some(array) => {
                let read = |at| {
                    let id = array.i32(at).map_err(|e| inner.named(3, e))?;
                    id.ok_or_else(|| inner.wrong(3, Problem::Missing))
                };
                Some((0..array.len()).map(read).collect::<Result<_>>()?)
            }
        };
        let global = GlobalIndex {
            row_range_start: inner.long(0)?,
            row_range_end: inner.long(1)?,
            index_field_id: inner.int(2)?,
            extra_field_ids,
            index_meta: inner.bytes(4)?,
            source_meta: inner.bytes(5)?,
        };
        self.budget = inner.budget;
        Ok(Some(global))
    }
}

/// An error inside a row; its offset is one of the row.
fn binary(e: tidegate_model::Error) -> Error {
    Error::new(Problem::Unexpected {
        expected: "a binary row",
        found: e.to_string(),
    })
}
