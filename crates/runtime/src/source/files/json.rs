//! JSON lines: one object per line.
//!
//! Numbers go from their text into the column, never through a double. A key that the table has not,
//! a key that comes twice, and anything behind the object on its line are errors: every byte of input
//! is accounted for. A key that is missing is null. A line of blanks is skipped.

use std::borrow::Cow;
use std::fmt;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use memchr::memchr;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::csv::{batch_of, new_columns};
use super::decoder::{Decoded, Decoder, Failed};
use crate::source::convert::Column;
use crate::source::{BadRecord, SourceError};

pub(super) struct JsonDecoder {
    schema: SchemaRef,
    columns: Vec<Column>,
    rows: usize,
    /// Row in which each column was filled last, plus one.
    filled: Vec<usize>,
}

impl JsonDecoder {
    pub(super) fn new(schema: SchemaRef) -> Result<Self, SourceError> {
        let columns = new_columns(&schema)?;
        let filled = vec![0; columns.len()];
        Ok(Self {
            schema,
            columns,
            rows: 0,
            filled,
        })
    }

    fn row(&mut self, line: &[u8]) -> Result<(), Box<BadRecord>> {
        let text = std::str::from_utf8(line).map_err(|e| BadRecord {
            why: format!("not UTF-8 at byte {} of the line", e.valid_up_to()),
            ..BadRecord::default()
        })?;
        let object: Object<'_> = serde_json::from_str(text).map_err(|e| BadRecord {
            value: Some(shortened(text)),
            why: format!("not one JSON object per line: {e}"),
            ..BadRecord::default()
        })?;
        let row = self.rows + 1;
        for (key, value) in object.0 {
            let bad = |column: String, value: String, why: String| {
                Box::new(BadRecord {
                    column: Some(column),
                    value: Some(value),
                    why,
                    ..BadRecord::default()
                })
            };
            let Ok(index) = self.schema.index_of(&key) else {
                let known: Vec<&str> = self
                    .schema
                    .fields()
                    .iter()
                    .map(|f| f.name().as_str())
                    .collect();
                return Err(bad(
                    key.into_owned(),
                    shortened(value.get()),
                    format!("the table has no such column; it has {}", known.join(", ")),
                ));
            };
            let (Some(column), Some(filled)) =
                (self.columns.get_mut(index), self.filled.get_mut(index))
            else {
                continue;
            };
            if *filled == row {
                return Err(bad(
                    key.into_owned(),
                    shortened(value.get()),
                    "the key comes twice in one record".into(),
                ));
            }
            append(column, value.get())
                .map_err(|(path, value, why)| bad(format!("{key}{path}"), value, why))?;
            *filled = row;
        }
        for (column, filled) in self.columns.iter_mut().zip(&self.filled) {
            if *filled != row {
                column.append_null().map_err(|m| BadRecord {
                    column: Some(column.field().name().clone()),
                    why: format!("{}, and the record has no such key", m.why),
                    ..BadRecord::default()
                })?;
            }
        }
        self.rows = row;
        Ok(())
    }
}

/// Plain numbers and texts go straight into the column; anything else through a JSON value.
fn append(column: &mut Column, raw: &str) -> Result<(), (String, String, String)> {
    let first = raw.as_bytes().first().copied().unwrap_or(b' ');
    let number = first == b'-' || first.is_ascii_digit();
    let is_text_column = *column.field().data_type() == arrow::datatypes::DataType::Utf8;
    let result = if number && column.field().data_type().is_numeric() {
        column.append_text(raw)
    } else if first == b'"' && is_text_column {
        match serde_json::from_str::<Text<'_>>(raw) {
            Ok(text) => column.append_text(&text.0),
            Err(e) => return Err((String::new(), shortened(raw), e.to_string())),
        }
    } else {
        match serde_json::from_str(raw) {
            Ok(value) => column.append_json(&value),
            Err(e) => return Err((String::new(), shortened(raw), e.to_string())),
        }
    };
    result.map_err(|m| (m.path, m.value, m.why))
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(120) {
        Some((cut, _)) => format!("{}…", text.get(..cut).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[derive(serde::Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// Keys and raw values in order, duplicates kept.
struct Object<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de> Deserialize<'de> for Object<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Object<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some((key, value)) = map.next_entry::<Text<'de>, &'de RawValue>()? {
                    members.push((key.0, value));
                }
                Ok(Object(members))
            }
        }
        deserializer.deserialize_map(Members)
    }
}

impl Decoder for JsonDecoder {
    fn decode(&mut self, input: &[u8], last: bool, most: usize) -> Result<Decoded, Failed> {
        let mut done = Decoded::default();
        while done.rows < most {
            let rest = input.get(done.bytes..).unwrap_or_default();
            let (line, bytes, open_end) = match memchr(b'\n', rest) {
                Some(end) => (rest.get(..end).unwrap_or_default(), end + 1, false),
                None if last && !rest.is_empty() => (rest, rest.len(), true),
                None => break,
            };
            if !line.iter().all(u8::is_ascii_whitespace) {
                self.row(line).map_err(|record| Failed {
                    before: done,
                    line: 0,
                    record,
                })?;
                done.rows += 1;
            }
            done.bytes += bytes;
            done.lines += u64::from(!open_end);
            done.open_end = open_end;
        }
        Ok(done)
    }

    fn finish(&mut self) -> Result<RecordBatch, SourceError> {
        let rows = std::mem::take(&mut self.rows);
        self.filled.fill(0);
        batch_of(&self.schema, &mut self.columns, rows)
    }

    fn reset(&mut self) -> Result<(), SourceError> {
        self.columns = new_columns(&self.schema)?;
        self.filled.fill(0);
        self.rows = 0;
        Ok(())
    }
}
