//! Avro data files \[F-6.5] as Arrow: the container belongs to `tidegate-format`, what the columns
//! mean to `tidegate-datafile`. Here values are only sorted into arrays by the writer's own schema.

use crate::error::{Error, Result};
use arrow::array::{
    ArrayRef, BinaryBuilder, BooleanBuilder, Float32Builder, Float64Builder, Int32Builder,
    Int64Builder, ListArray, MapArray, StringBuilder, StructArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field, Fields, Schema};
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;
use tidegate_format::avro;

/// Rows in a batch.
const BATCH_ROWS: usize = 8192;

/// Types within types.
const MAX_DEPTH: usize = 64;

/// Types in a schema, a named one as often as it is used: a few lines can name very many.
const MAX_TYPES: usize = 10_000;

/// Decodes a whole file, which must have `rows` records.
///
/// # Errors
/// [`Error::Format`] for the container, [`Error::Inconsistent`] for schema and records; both name the
/// file.
pub(crate) fn decode(file: &str, bytes: &[u8], rows: u64) -> Result<Vec<RecordBatch>> {
    let wrong = |what: String| Error::Inconsistent {
        file: file.to_owned(),
        what,
    };
    let schema = avro::schema_text(bytes).map_err(|e| e.in_file(file))?;
    let schema: Value = serde_json::from_str(&schema)
        .map_err(|e| wrong(format!("schema of the Avro file: {e}")))?;
    let mut names = Names::default();
    let (schema, branch) = record_of(&schema);
    let make = |names: &mut Names| {
        *names = Names::default();
        Column::new(schema, names, 0).map_err(&wrong)
    };
    let mut record = make(&mut names)?;
    let (mut batches, mut read, mut in_batch) = (Vec::new(), 0u64, 0usize);
    for (count, block) in avro::blocks(bytes).map_err(|e| e.in_file(file))? {
        let mut cursor = Cursor {
            bytes: &block,
            at: 0,
        };
        if count > rows.saturating_sub(read) {
            return Err(wrong(format!(
                "it holds more than the {rows} rows that the manifest says"
            )));
        }
        for _ in 0..count {
            let what = match branch {
                None => Ok(()),
                Some(branch) => cursor.long().and_then(|found| match found == branch {
                    true => Ok(()),
                    false => Err(format!("branch {found} of a union, its record is {branch}")),
                }),
            };
            what.and_then(|()| record.read(&mut cursor))
                .map_err(|what| wrong(format!("record {read}: {what}")))?;
            read += 1;
            in_batch += 1;
            if in_batch == BATCH_ROWS {
                let full = std::mem::replace(&mut record, make(&mut names)?);
                batches.push(full.into_batch(in_batch).map_err(&wrong)?);
                in_batch = 0;
            }
        }
        if cursor.at != block.len() {
            return Err(wrong(format!(
                "{} bytes are left over behind record {read}",
                block.len() - cursor.at
            )));
        }
    }
    if read != rows {
        return Err(wrong(format!(
            "it holds {read} rows, the manifest says {rows}"
        )));
    }
    if in_batch > 0 {
        batches.push(record.into_batch(in_batch).map_err(&wrong)?);
    }
    Ok(batches)
}

/// The record, and its place in the union that Java 1.0 made of it for tables with a key: each record
/// follows the number of its branch.
fn record_of(schema: &Value) -> (&Value, Option<i64>) {
    let branches = schema.as_array().map(Vec::as_slice).unwrap_or_default();
    let record = branches.iter().position(Value::is_object);
    match record.and_then(|at| Some((branches.get(at)?, i64::try_from(at).ok()))) {
        Some(found) => found,
        None => (schema, None),
    }
}

/// What a schema declared so far, and how many types it came to.
#[derive(Default)]
struct Names {
    declared: HashMap<String, Value>,
    types: usize,
}

type What = std::result::Result<(), String>;

/// Gathers the values of one place in the schema.
enum Column {
    Boolean(BooleanBuilder),
    Int(Int32Builder),
    Long(Int64Builder),
    Float(Float32Builder),
    Double(Float64Builder),
    Bytes(BinaryBuilder),
    Text(StringBuilder),
    Fixed(usize, BinaryBuilder),
    /// Validity, and which branch of the union is null.
    Nullable {
        null_branch: i64,
        valid: Vec<bool>,
        inner: Box<Column>,
    },
    Array {
        lengths: Vec<usize>,
        inner: Box<Column>,
    },
    Map {
        lengths: Vec<usize>,
        keys: StringBuilder,
        inner: Box<Column>,
    },
    Record {
        rows: usize,
        fields: Vec<(String, Column)>,
    },
}

impl Column {
    fn new(schema: &Value, names: &mut Names, depth: usize) -> Result<Self, String> {
        if depth > MAX_DEPTH {
            return Err("types are nested too deeply".to_owned());
        }
        names.types += 1;
        if names.types > MAX_TYPES {
            return Err(format!("a schema of more than {MAX_TYPES} types"));
        }
        let inner = |schema: Option<&Value>, names: &mut Names| {
            let schema = schema.ok_or("a type without its inner type")?;
            Column::new(schema, names, depth + 1).map(Box::new)
        };
        if let Some(branches) = schema.as_array() {
            let is_null = |b: &Value| b.as_str() == Some("null");
            return match branches.as_slice() {
                [one] => Column::new(one, names, depth + 1),
                [null, other] if is_null(null) => Ok(Self::Nullable {
                    null_branch: 0,
                    valid: Vec::new(),
                    inner: inner(Some(other), names)?,
                }),
                [other, null] if is_null(null) => Ok(Self::Nullable {
                    null_branch: 1,
                    valid: Vec::new(),
                    inner: inner(Some(other), names)?,
                }),
                _ => Err("a union of more than null and one type".to_owned()),
            };
        }
        let name = schema
            .as_str()
            .or_else(|| schema.get("type").and_then(Value::as_str));
        if let (Some(declared), Some("record" | "fixed")) =
            (schema.get("name").and_then(Value::as_str), name)
        {
            names.declared.insert(declared.to_owned(), schema.clone());
        }
        // Without capacity: a builder's own guess costs kilobytes per type of the schema.
        Ok(match name {
            Some("boolean") => Self::Boolean(BooleanBuilder::with_capacity(0)),
            Some("int") => Self::Int(Int32Builder::with_capacity(0)),
            Some("long") => Self::Long(Int64Builder::with_capacity(0)),
            Some("float") => Self::Float(Float32Builder::with_capacity(0)),
            Some("double") => Self::Double(Float64Builder::with_capacity(0)),
            Some("bytes") => Self::Bytes(BinaryBuilder::with_capacity(0, 0)),
            Some("string") => Self::Text(StringBuilder::with_capacity(0, 0)),
            Some("fixed") => {
                let size = schema
                    .get("size")
                    .and_then(Value::as_u64)
                    .and_then(|n| usize::try_from(n).ok());
                let size = size
                    .filter(|n| *n > 0)
                    .ok_or("a fixed type without a size")?;
                Self::Fixed(size, BinaryBuilder::with_capacity(0, 0))
            }
            Some("array") => Self::Array {
                lengths: Vec::new(),
                inner: inner(schema.get("items"), names)?,
            },
            Some("map") => Self::Map {
                lengths: Vec::new(),
                keys: StringBuilder::with_capacity(0, 0),
                inner: inner(schema.get("values"), names)?,
            },
            Some("record") => {
                let fields = schema
                    .get("fields")
                    .and_then(Value::as_array)
                    .ok_or("a record without fields")?;
                let fields = fields.iter().map(|field| {
                    let name = field
                        .get("name")
                        .and_then(Value::as_str)
                        .ok_or("a field without a name")?;
                    let schema = field.get("type").ok_or("a field without a type")?;
                    Ok((name.to_owned(), Column::new(schema, names, depth + 1)?))
                });
                Self::Record {
                    rows: 0,
                    fields: fields.collect::<Result<_, String>>()?,
                }
            }
            Some(other) => match names.declared.get(other).cloned() {
                Some(known) => return Column::new(&known, names, depth + 1),
                None => return Err(format!("type `{other}`")),
            },
            // A type in a type, such as {"type": {"type": "array", …}}.
            None => match schema.get("type") {
                Some(nested) => return Column::new(nested, names, depth + 1),
                None => return Err("a type without a name".to_owned()),
            },
        })
    }

    fn read(&mut self, cursor: &mut Cursor<'_>) -> What {
        match self {
            Self::Boolean(b) => b.append_value(cursor.array::<1>()? != [0]),
            Self::Int(b) => {
                b.append_value(
                    i32::try_from(cursor.long()?)
                        .map_err(|_| "an int beyond 32 bits".to_owned())?,
                );
            }
            Self::Long(b) => b.append_value(cursor.long()?),
            Self::Float(b) => b.append_value(f32::from_le_bytes(cursor.array()?)),
            Self::Double(b) => b.append_value(f64::from_le_bytes(cursor.array()?)),
            Self::Bytes(b) => b.append_value(cursor.bytes()?),
            Self::Text(b) => b.append_value(cursor.text()?),
            Self::Fixed(size, b) => b.append_value(cursor.take(*size)?),
            Self::Nullable {
                null_branch,
                valid,
                inner,
            } => {
                let branch = cursor.long()?;
                if !(0..2).contains(&branch) {
                    return Err(format!("branch {branch} of a union of two"));
                }
                valid.push(branch != *null_branch);
                if branch == *null_branch {
                    inner.skip();
                } else {
                    inner.read(cursor)?;
                }
            }
            Self::Array { lengths, inner } => {
                lengths.push(cursor.items(|cursor| inner.read(cursor))?)
            }
            Self::Map {
                lengths,
                keys,
                inner,
            } => lengths.push(cursor.items(|cursor| {
                keys.append_value(cursor.text()?);
                inner.read(cursor)
            })?),
            Self::Record { rows, fields } => {
                *rows += 1;
                for (name, field) in fields {
                    field.read(cursor).map_err(|e| format!("`{name}`: {e}"))?;
                }
            }
        }
        Ok(())
    }

    /// A value that nobody sees, below a null.
    fn skip(&mut self) {
        match self {
            Self::Boolean(b) => b.append_value(false),
            Self::Int(b) => b.append_value(0),
            Self::Long(b) => b.append_value(0),
            Self::Float(b) => b.append_value(0.0),
            Self::Double(b) => b.append_value(0.0),
            Self::Bytes(b) | Self::Fixed(_, b) => b.append_value(b""),
            Self::Text(b) => b.append_value(""),
            Self::Nullable { valid, inner, .. } => {
                valid.push(false);
                inner.skip();
            }
            Self::Array { lengths, .. } | Self::Map { lengths, .. } => lengths.push(0),
            Self::Record { rows, fields } => {
                *rows += 1;
                fields.iter_mut().for_each(|(_, field)| field.skip());
            }
        }
    }

    fn finish(self, nulls: Option<NullBuffer>) -> Result<ArrayRef, String> {
        let text = |e: arrow::error::ArrowError| e.to_string();
        let masked = |array: ArrayRef| -> Result<ArrayRef, String> {
            match nulls.clone() {
                None => Ok(array),
                Some(nulls) => {
                    let data = array
                        .to_data()
                        .into_builder()
                        .nulls(Some(nulls))
                        .build()
                        .map_err(text)?;
                    Ok(arrow::array::make_array(data))
                }
            }
        };
        match self {
            Self::Boolean(mut b) => masked(Arc::new(b.finish())),
            Self::Int(mut b) => masked(Arc::new(b.finish())),
            Self::Long(mut b) => masked(Arc::new(b.finish())),
            Self::Float(mut b) => masked(Arc::new(b.finish())),
            Self::Double(mut b) => masked(Arc::new(b.finish())),
            Self::Bytes(mut b) | Self::Fixed(_, mut b) => masked(Arc::new(b.finish())),
            Self::Text(mut b) => masked(Arc::new(b.finish())),
            Self::Nullable { valid, inner, .. } => inner.finish(Some(NullBuffer::from(valid))),
            Self::Array { lengths, inner } => {
                let values = inner.finish(None)?;
                let field = Arc::new(Field::new("element", values.data_type().clone(), true));
                let offsets = OffsetBuffer::from_lengths(lengths);
                Ok(Arc::new(
                    ListArray::try_new(field, offsets, values, nulls).map_err(text)?,
                ))
            }
            Self::Map {
                lengths,
                mut keys,
                inner,
            } => {
                let values = inner.finish(None)?;
                let fields = Fields::from(vec![
                    Field::new("key", DataType::Utf8, false),
                    Field::new("value", values.data_type().clone(), true),
                ]);
                let columns: Vec<ArrayRef> = vec![Arc::new(keys.finish()), values];
                let entries = StructArray::try_new(fields.clone(), columns, None).map_err(text)?;
                let field = Arc::new(Field::new("key_value", DataType::Struct(fields), false));
                let offsets = OffsetBuffer::from_lengths(lengths);
                Ok(Arc::new(
                    MapArray::try_new(field, offsets, entries, nulls, false).map_err(text)?,
                ))
            }
            Self::Record { rows, fields } => {
                let (fields, columns) = finish_fields(fields)?;
                let made = if columns.is_empty() {
                    StructArray::try_new_with_length(fields, columns, nulls, rows)
                } else {
                    StructArray::try_new(fields, columns, nulls)
                };
                Ok(Arc::new(made.map_err(text)?))
            }
        }
    }

    fn into_batch(self, rows: usize) -> Result<RecordBatch, String> {
        let Self::Record { fields, .. } = self else {
            return Err("the records of the file are no records".to_owned());
        };
        let (fields, columns) = finish_fields(fields)?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)
            .map_err(|e| e.to_string())
    }
}

fn finish_fields(fields: Vec<(String, Column)>) -> Result<(Fields, Vec<ArrayRef>), String> {
    let columns = fields
        .into_iter()
        .map(|(name, column)| Ok((name, column.finish(None)?)));
    let columns: Vec<(String, ArrayRef)> = columns.collect::<Result<_, String>>()?;
    let fields = columns
        .iter()
        .map(|(name, c)| Field::new(name, c.data_type().clone(), true))
        .collect();
    Ok((
        fields,
        columns.into_iter().map(|(_, column)| column).collect(),
    ))
}

/// Reads Avro's encodings from one block.
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn take(&mut self, n: usize) -> Result<&'a [u8], String> {
        let taken = self
            .at
            .checked_add(n)
            .and_then(|end| self.bytes.get(self.at..end));
        let taken =
            taken.ok_or_else(|| format!("the block ends at byte {} inside a value", self.at))?;
        self.at += n;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        self.take(N)?
            .try_into()
            .map_err(|_| "a short value".to_owned())
    }

    /// Zigzag and seven bits a byte.
    fn long(&mut self) -> Result<i64, String> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let [byte] = self.array()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok((value >> 1) as i64 ^ -((value & 1) as i64));
            }
        }
        Err("a number of more than ten bytes".to_owned())
    }

    fn bytes(&mut self) -> Result<&'a [u8], String> {
        let length = self.long()?;
        self.take(usize::try_from(length).map_err(|_| format!("length {length}"))?)
    }

    fn text(&mut self) -> Result<&'a str, String> {
        std::str::from_utf8(self.bytes()?).map_err(|e| format!("text that is not UTF-8: {e}"))
    }

    /// Blocks of items up to an empty one; gives their number.
    fn items(&mut self, mut read: impl FnMut(&mut Self) -> What) -> Result<usize, String> {
        let mut total = 0usize;
        loop {
            let count = self.long()?;
            if count == 0 {
                return Ok(total);
            }
            if count < 0 {
                // The size in bytes follows, for readers that skip.
                self.long()?;
            }
            for _ in 0..count.unsigned_abs() {
                let before = self.at;
                read(self)?;
                if self.at == before {
                    return Err("items without any bytes".to_owned());
                }
                total += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path() -> std::path::PathBuf {
        file_of("append_types_nullable_avro")
    }

    /// The first data file of a golden table.
    fn file_of(name: &str) -> std::path::PathBuf {
        let tables =
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/tables");
        let bucket = tables
            .join(name)
            .join("warehouse/golden.db")
            .join(name)
            .join("bucket-0");
        let mut files: Vec<_> = std::fs::read_dir(bucket)
            .unwrap()
            .map(|e| e.unwrap().path())
            .collect();
        files.sort();
        files.remove(0)
    }

    #[test]
    fn another_row_count_than_the_manifests_is_noticed() {
        let bytes = std::fs::read(path()).unwrap();
        let rows = (1..100)
            .find(|n| decode("f.avro", &bytes, *n).is_ok())
            .unwrap();
        for other in [rows - 1, rows + 1] {
            let error = decode("f.avro", &bytes, other).unwrap_err().to_string();
            assert!(
                error.contains("f.avro") && error.contains("the manifest says")
                    || error.contains("more than"),
                "{error}"
            );
        }
    }

    /// What Java 1.0 wrote: its root is a union, so a number stands before each record.
    #[test]
    fn records_below_a_union_are_read() {
        let bytes = std::fs::read(file_of("pk_avro_1_0_1")).unwrap();
        let batches = decode("f.avro", &bytes, 6).unwrap();
        let column = |name: &str| batches[0].column_by_name(name).unwrap().clone();
        use arrow::array::AsArray;
        use arrow::datatypes::{Int32Type, Int64Type};
        let (keys, sequences) = (column("k"), column("_SEQUENCE_NUMBER"));
        assert_eq!(
            keys.as_primitive::<Int32Type>().values(),
            &[4, 5, 6, 7, 8, 9]
        );
        assert_eq!(
            sequences.as_primitive::<Int64Type>().values(),
            &[8, 9, 10, 11, 12, 13]
        );
        let texts = column("p");
        let texts: Vec<_> = texts.as_string::<i32>().iter().flatten().collect();
        assert_eq!(texts, ["p1", "p2", "p0", "p1", "p2", "p0"]);
    }

    #[test]
    fn changed_bytes_are_an_error_or_other_values_never_a_panic() {
        let good = std::fs::read(path()).unwrap();
        for at in (0..good.len()).step_by(3) {
            let mut bad = good.clone();
            bad[at] ^= 0x55;
            let _ = decode("f.avro", &bad, 12);
            let _ = decode("f.avro", &good[..at], 12);
        }
    }
}
