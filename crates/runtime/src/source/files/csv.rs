//! Delimited text: records, fields and columns.
//!
//! Hand-made because a position must lie between records and because an unquoted empty field and a
//! quoted one differ; both are lost in a general parser. Rules (RFC 4180 and what files really hold):
//!
//! * A field is quoted when its first byte is the quote; a doubled quote inside is one. Line ends and
//!   delimiters inside belong to the value, byte for byte. After the closing quote only a delimiter
//!   or a line end may follow. A quote inside an unquoted field is a plain character.
//! * A line ends with LF or CRLF. An empty line is skipped. A byte-order mark at the start is skipped.
//! * An *unquoted* field that equals the `null` text is null; a quoted one never is.
//! * With a header, columns are found by name; a name that the table has not, or one that comes twice,
//!   is an error; a column without a field is null. Without one, fields are taken in column order and
//!   their count must match.
//! * Text must be UTF-8.

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use memchr::{memchr, memchr2};

use super::decoder::{Decoded, Decoder, Failed};
use crate::source::convert::Column;
use crate::source::{BadRecord, SourceError};

/// How delimited text is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsvFormat {
    /// The first record names the columns.
    pub header: bool,
    /// Between fields.
    pub delimiter: u8,
    /// Around fields.
    pub quote: u8,
    /// The unquoted text that means null.
    pub null: String,
}

impl Default for CsvFormat {
    fn default() -> Self {
        Self {
            header: true,
            delimiter: b',',
            quote: b'"',
            null: String::new(),
        }
    }
}

pub(super) struct CsvDecoder {
    schema: SchemaRef,
    format: CsvFormat,
    columns: Vec<Column>,
    /// Which column each field of a record goes to; `None` until the header was seen.
    targets: Option<Vec<usize>>,
    rows: usize,
    fields: Fields,
}

/// The fields of one record, reused between records.
#[derive(Default)]
struct Fields {
    /// Unescaped bytes of all fields, one behind the other.
    bytes: Vec<u8>,
    /// End of each field in `bytes`, and whether it was quoted.
    ends: Vec<(usize, bool)>,
}

impl Fields {
    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    fn iter(&self) -> impl Iterator<Item = (&[u8], bool)> {
        let starts = std::iter::once(0).chain(self.ends.iter().map(|(end, _)| *end));
        starts.zip(&self.ends).map(|(start, (end, quoted))| {
            (self.bytes.get(start..*end).unwrap_or_default(), *quoted)
        })
    }
}

enum Scan {
    /// A record of so many bytes, line end included.
    Record {
        bytes: usize,
        lines: u64,
        open_end: bool,
    },
    /// An empty line.
    Blank { bytes: usize },
    /// The input ends inside it.
    More,
    /// Broken; lines before the trouble.
    Broken { line: u64, why: String },
}

impl CsvDecoder {
    pub(super) fn new(schema: SchemaRef, format: CsvFormat) -> Result<Self, SourceError> {
        let columns = new_columns(&schema)?;
        let targets = (!format.header).then(|| (0..columns.len()).collect());
        Ok(Self {
            schema,
            format,
            columns,
            targets,
            rows: 0,
            fields: Fields::default(),
        })
    }

    /// Finds one record at the start of `input` and unescapes its fields.
    fn scan(&mut self, input: &[u8], last: bool) -> Scan {
        let (delimiter, quote) = (self.format.delimiter, self.format.quote);
        let fields = &mut self.fields;
        fields.clear();
        let mut at = 0;
        let mut lines = 0;
        match input {
            [] => return Scan::More,
            [b'\n', ..] => return Scan::Blank { bytes: 1 },
            [b'\r', b'\n', ..] => return Scan::Blank { bytes: 2 },
            [b'\r'] if last => return Scan::Blank { bytes: 1 },
            [b'\r'] => return Scan::More,
            _ => {}
        }
        loop {
            let rest = input.get(at..).unwrap_or_default();
            let quoted = rest.first() == Some(&quote);
            let stop = if quoted {
                let mut from = 1;
                loop {
                    let inside = rest.get(from..).unwrap_or_default();
                    let Some(end) = memchr(quote, inside) else {
                        if last {
                            return Scan::Broken {
                                line: 0,
                                why: "a quoted field is never closed".into(),
                            };
                        }
                        return Scan::More;
                    };
                    let part = inside.get(..end).unwrap_or_default();
                    lines += memchr::memchr_iter(b'\n', part).count() as u64;
                    fields.bytes.extend_from_slice(part);
                    from += end + 1;
                    match rest.get(from) {
                        Some(b) if *b == quote => {
                            fields.bytes.push(quote);
                            from += 1;
                        }
                        Some(b) if *b == delimiter || *b == b'\n' => break from,
                        Some(b'\r') if rest.get(from + 1) == Some(&b'\n') => break from,
                        // A carriage return that ends the file, or whose line feed is yet to come.
                        Some(b'\r') if rest.len() == from + 1 && last => break from,
                        Some(b'\r') if rest.len() == from + 1 => return Scan::More,
                        Some(b) => {
                            let why = format!(
                                "`{}` follows a closing quote; only a delimiter or a line end may",
                                char::from(*b).escape_default()
                            );
                            return Scan::Broken { line: lines, why };
                        }
                        None if last => break from,
                        None => return Scan::More,
                    }
                }
            } else {
                match memchr2(delimiter, b'\n', rest) {
                    Some(end) => {
                        let mut field = rest.get(..end).unwrap_or_default();
                        if rest.get(end) == Some(&b'\n') {
                            field = field.strip_suffix(b"\r").unwrap_or(field);
                        }
                        fields.bytes.extend_from_slice(field);
                        end
                    }
                    None if last => {
                        fields
                            .bytes
                            .extend_from_slice(rest.strip_suffix(b"\r").unwrap_or(rest));
                        rest.len()
                    }
                    None => return Scan::More,
                }
            };
            fields.ends.push((fields.bytes.len(), quoted));
            match rest.get(stop) {
                Some(b) if *b == delimiter => at += stop + 1,
                Some(b'\r') if rest.get(stop + 1) == Some(&b'\n') => {
                    return Scan::Record {
                        bytes: at + stop + 2,
                        lines: lines + 1,
                        open_end: false,
                    };
                }
                Some(b'\n') => {
                    return Scan::Record {
                        bytes: at + stop + 1,
                        lines: lines + 1,
                        open_end: false,
                    };
                }
                Some(_) => {
                    return Scan::Record {
                        bytes: at + stop + 1,
                        lines,
                        open_end: true,
                    };
                }
                None => {
                    return Scan::Record {
                        bytes: at + stop,
                        lines,
                        open_end: true,
                    };
                }
            }
        }
    }

    fn header(&self) -> Result<Vec<usize>, Box<BadRecord>> {
        let mut targets = Vec::new();
        for (name, _) in self.fields.iter() {
            let name = std::str::from_utf8(name).map_err(|_| {
                bad(
                    None,
                    &String::from_utf8_lossy(name),
                    "a column name that is not UTF-8",
                )
            })?;
            let Ok(index) = self.schema.index_of(name) else {
                let known: Vec<&str> = self
                    .schema
                    .fields()
                    .iter()
                    .map(|f| f.name().as_str())
                    .collect();
                return Err(bad(
                    None,
                    name,
                    &format!(
                        "the header names a column that the table has not; it has {}",
                        known.join(", ")
                    ),
                ));
            };
            if targets.contains(&index) {
                return Err(bad(None, name, "the header names this column twice"));
            }
            targets.push(index);
        }
        for (index, field) in self.schema.fields().iter().enumerate() {
            if !field.is_nullable() && !targets.contains(&index) {
                return Err(bad(
                    Some(field.name()),
                    "",
                    "the column is NOT NULL and the header does not name it",
                ));
            }
        }
        Ok(targets)
    }

    fn row(&mut self) -> Result<(), Box<BadRecord>> {
        let targets = self.targets.as_deref().unwrap_or_default();
        let found = self.fields.ends.len();
        if found != targets.len() {
            return Err(bad(
                None,
                "",
                &format!("{found} fields where {} are expected", targets.len()),
            ));
        }
        let null = self.format.null.as_bytes();
        for ((bytes, quoted), target) in self.fields.iter().zip(targets) {
            let Some(column) = self.columns.get_mut(*target) else {
                continue;
            };
            if !quoted && bytes == null {
                // The text that stands in the file, not the null that it means.
                column.append_null().map_err(|m| {
                    let raw = String::from_utf8_lossy(bytes).into_owned();
                    let why = match bytes {
                        [] => format!("an empty field means null here (csv.null), and {}", m.why),
                        _ => format!("this text means null here (csv.null), and {}", m.why),
                    };
                    Box::new(BadRecord {
                        value: Some(raw),
                        ..*bad(Some(column.field().name()), "", &why)
                    })
                })?;
                continue;
            }
            let text = std::str::from_utf8(bytes).map_err(|e| {
                bad(
                    Some(column.field().name()),
                    &String::from_utf8_lossy(bytes),
                    &format!("not UTF-8 at byte {} of the field", e.valid_up_to()),
                )
            })?;
            column.append_text(text).map_err(|m| {
                bad(
                    Some(&format!("{}{}", column.field().name(), m.path)),
                    &m.value,
                    &m.why,
                )
            })?;
        }
        if targets.len() < self.columns.len() {
            for (index, column) in self.columns.iter_mut().enumerate() {
                if !targets.contains(&index) {
                    column
                        .append_null()
                        .map_err(|m| bad(Some(column.field().name()), &m.value, &m.why))?;
                }
            }
        }
        Ok(())
    }
}

pub(super) fn new_columns(schema: &SchemaRef) -> Result<Vec<Column>, SourceError> {
    let columns = schema
        .fields()
        .iter()
        .map(|f| Column::new(f.clone()))
        .collect::<Result<_, _>>();
    columns.map_err(|e| SourceError::Config(e.to_string()))
}

pub(super) fn batch_of(
    schema: &SchemaRef,
    columns: &mut [Column],
    rows: usize,
) -> Result<RecordBatch, SourceError> {
    let arrays = columns
        .iter_mut()
        .map(Column::finish)
        .collect::<Result<Vec<_>, _>>();
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    arrays
        .and_then(|arrays| RecordBatch::try_new_with_options(schema.clone(), arrays, &options))
        .map_err(|e| SourceError::Config(format!("rows cannot become a batch: {e}")))
}

fn bad(column: Option<&str>, value: &str, why: &str) -> Box<BadRecord> {
    Box::new(BadRecord {
        column: column.map(str::to_owned),
        value: (!value.is_empty()).then(|| value.to_owned()),
        why: why.to_owned(),
        ..BadRecord::default()
    })
}

impl Decoder for CsvDecoder {
    fn decode(&mut self, input: &[u8], last: bool, most: usize) -> Result<Decoded, Failed> {
        let mut done = Decoded::default();
        while done.rows < most {
            let rest = input.get(done.bytes..).unwrap_or_default();
            let failed = |line, record| Failed {
                before: done,
                line,
                record,
            };
            match self.scan(rest, last) {
                Scan::More => break,
                Scan::Blank { bytes } => {
                    done.bytes += bytes;
                    done.lines += 1;
                }
                Scan::Broken { line, why } => return Err(failed(line, bad(None, "", &why))),
                Scan::Record {
                    bytes,
                    lines,
                    open_end,
                } => {
                    let header = self.targets.is_none();
                    if header {
                        self.targets = Some(self.header().map_err(|r| failed(0, r))?);
                    } else {
                        self.row().map_err(|r| failed(0, r))?;
                        self.rows += 1;
                        done.rows += 1;
                    }
                    done.bytes += bytes;
                    done.lines += lines;
                    done.open_end = open_end;
                    if header {
                        // Taken by itself, so that no later call can meet it again as a row.
                        break;
                    }
                }
            }
        }
        Ok(done)
    }

    fn finish(&mut self) -> Result<RecordBatch, SourceError> {
        let rows = std::mem::take(&mut self.rows);
        batch_of(&self.schema, &mut self.columns, rows)
    }

    fn reset(&mut self) -> Result<(), SourceError> {
        self.columns = new_columns(&self.schema)?;
        self.rows = 0;
        Ok(())
    }

    fn needs_header(&self) -> bool {
        self.targets.is_none()
    }
}
