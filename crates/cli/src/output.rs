//! Data on stdout in the format that was asked for.
//!
//! | format | |
//! |---|---|
//! | table | for people; null is blank |
//! | json | one array of objects |
//! | jsonl | one object per line |
//! | csv | header, RFC 4180; null is nothing, empty text is `""` |
//!
//! Rows of tables are in Canonical JSON, times with the digits of their precision.

use std::io::Write;

use arrow::array::RecordBatch;
use comfy_table::{ContentArrangement, Table, presets};
use serde_json::Value;
use tidegate::model::DataField;
use tidegate::scan::canonical::{self, Times};
use tidegate::system::{Cell, Sheet};

use crate::args::Format;
use crate::exit::{Failure, Result};

/// Rows of a table for people that are laid out together.
const TABLE_ROWS: usize = 1000;

/// Prints rows as they come.
pub(crate) struct Printer<W: Write> {
    format: Format,
    columns: Vec<String>,
    out: W,
    waiting: Vec<Vec<String>>,
    rows: u64,
}

/// A value in both of its forms.
struct Printed {
    /// JSON text.
    json: String,
    /// Plain text; `None` = null.
    plain: Option<String>,
}

impl<W: Write> Printer<W> {
    pub(crate) fn new(format: Format, columns: Vec<String>, mut out: W) -> Result<Self> {
        match format {
            Format::Json => write!(out, "[")?,
            Format::Csv => writeln!(
                out,
                "{}",
                columns
                    .iter()
                    .map(|c| csv_field(Some(c)))
                    .collect::<Vec<_>>()
                    .join(",")
            )?,
            Format::Table | Format::Jsonl => {}
        }
        Ok(Self {
            format,
            columns,
            out,
            waiting: Vec::new(),
            rows: 0,
        })
    }

    fn row(&mut self, cells: Vec<Printed>) -> Result<()> {
        match self.format {
            Format::Json | Format::Jsonl => {
                if self.format == Format::Json {
                    write!(self.out, "{}", if self.rows == 0 { "\n" } else { ",\n" })?;
                }
                let mut text = String::from("{");
                for (i, (name, cell)) in self.columns.iter().zip(&cells).enumerate() {
                    if i > 0 {
                        text.push(',');
                    }
                    canonical::text(&mut text, name);
                    text.push(':');
                    text.push_str(&cell.json);
                }
                text.push('}');
                write!(self.out, "{text}")?;
                if self.format == Format::Jsonl {
                    writeln!(self.out)?;
                }
            }
            Format::Csv => {
                let fields: Vec<String> = cells
                    .iter()
                    .map(|c| csv_field(c.plain.as_deref()))
                    .collect();
                writeln!(self.out, "{}", fields.join(","))?;
            }
            Format::Table => {
                self.waiting.push(
                    cells
                        .into_iter()
                        .map(|c| c.plain.unwrap_or_default())
                        .collect(),
                );
                if self.waiting.len() >= TABLE_ROWS {
                    self.lay_out()?;
                }
            }
        }
        self.rows += 1;
        Ok(())
    }

    fn lay_out(&mut self) -> Result<()> {
        let mut table = Table::new();
        table
            .load_style(presets::UTF8_BORDERS_ONLY)
            .set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(&self.columns);
        for row in self.waiting.drain(..) {
            // A line break inside a value must not look like a new row.
            table.add_row(
                row.iter()
                    .map(|t| t.replace('\n', "\\n").replace('\r', "\\r")),
            );
        }
        Ok(writeln!(self.out, "{table}")?)
    }

    pub(crate) fn batch(&mut self, fields: &[DataField], batch: &RecordBatch) -> Result<()> {
        for row in 0..batch.num_rows() {
            let mut cells = Vec::with_capacity(fields.len());
            for (field, column) in fields.iter().zip(batch.columns()) {
                let mut json = String::new();
                canonical::value(&mut json, &field.data_type, column, row, Times::Precision);
                let plain = match json.as_bytes().first() {
                    Some(b'n') => None,
                    Some(b'"') => serde_json::from_str::<String>(&json).ok(),
                    _ => Some(json.clone()),
                };
                cells.push(Printed { json, plain });
            }
            self.row(cells)?;
        }
        Ok(())
    }

    /// The end; an empty table still shows its columns.
    pub(crate) fn finish(mut self) -> Result<u64> {
        match self.format {
            Format::Json => writeln!(self.out, "{}]", if self.rows == 0 { "" } else { "\n" })?,
            Format::Table if !self.waiting.is_empty() || self.rows == 0 => self.lay_out()?,
            Format::Table | Format::Jsonl | Format::Csv => {}
        }
        self.out.flush()?;
        Ok(self.rows)
    }
}

fn csv_field(value: Option<&str>) -> String {
    match value {
        None => String::new(),
        Some(text) if text.is_empty() || text.contains([',', '"', '\n', '\r']) => {
            format!("\"{}\"", text.replace('"', "\"\""))
        }
        Some(text) => text.to_owned(),
    }
}

/// Prints a small table.
pub(crate) fn sheet(format: Format, sheet: &Sheet) -> Result<()> {
    let mut printer = Printer::new(format, sheet.columns().to_vec(), std::io::stdout().lock())?;
    for row in sheet.rows() {
        let cells = row.iter().map(|cell| Printed {
            json: json_of(cell),
            plain: (*cell != Cell::Null).then(|| cell.to_string()),
        });
        printer.row(cells.collect())?;
    }
    printer.finish().map(drop)
}

fn json_of(cell: &Cell) -> String {
    match cell {
        Cell::Null => "null".into(),
        Cell::Int(_) | Cell::Bool(_) | Cell::Json(_) => cell.to_string(),
        Cell::Text(_) | Cell::Millis(_) => {
            let mut out = String::new();
            canonical::text(&mut out, &cell.to_string());
            out
        }
    }
}

/// Prints one object: key and value rows for people, one object in JSON.
pub(crate) fn object(format: Format, value: &Value) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match format {
        Format::Json => {
            let text =
                serde_json::to_string_pretty(value).map_err(|e| Failure::runtime(e.to_string()))?;
            writeln!(out, "{text}")?;
        }
        Format::Jsonl => writeln!(out, "{value}")?,
        Format::Table | Format::Csv => {
            let mut rows = Sheet::new(["key", "value"]);
            flatten("", value, &mut rows);
            drop(out);
            return sheet(format, &rows);
        }
    }
    Ok(())
}

fn flatten(path: &str, value: &Value, rows: &mut Sheet) {
    let below = |key: &str| {
        if path.is_empty() {
            key.to_owned()
        } else {
            format!("{path}.{key}")
        }
    };
    match value {
        Value::Object(map) => map.iter().for_each(|(k, v)| flatten(&below(k), v, rows)),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .for_each(|(i, v)| flatten(&below(&i.to_string()), v, rows)),
        Value::Null => rows.push(vec![path.into(), Cell::Null]),
        Value::String(text) => rows.push(vec![path.into(), text.as_str().into()]),
        other => rows.push(vec![path.into(), other.to_string().into()]),
    }
}

/// A line for a person on stdout.
pub(crate) fn line(text: &str) -> Result<()> {
    Ok(writeln!(std::io::stdout().lock(), "{text}")?)
}

/// A line for a person on stderr.
#[expect(clippy::print_stderr, reason = "notes go to stderr, data to stdout")]
pub(crate) fn note(text: &str) {
    eprintln!("{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(format: Format) -> String {
        let mut out = Vec::new();
        let mut printer = Printer::new(format, vec!["a".into(), "b".into()], &mut out).unwrap();
        let cell = |json: &str, plain: Option<&str>| Printed {
            json: json.into(),
            plain: plain.map(str::to_owned),
        };
        printer
            .row(vec![cell("1", Some("1")), cell("null", None)])
            .unwrap();
        printer
            .row(vec![
                cell("2", Some("2")),
                cell("\"x,\\\"y\"", Some("x,\"y")),
            ])
            .unwrap();
        printer
            .row(vec![cell("3", Some("3")), cell("\"\"", Some(""))])
            .unwrap();
        printer.finish().unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn null_and_empty_text_differ_in_every_format_for_machines() {
        assert_eq!(printed(Format::Csv), "a,b\n1,\n2,\"x,\"\"y\"\n3,\"\"\n");
        assert_eq!(
            printed(Format::Jsonl),
            "{\"a\":1,\"b\":null}\n{\"a\":2,\"b\":\"x,\\\"y\"}\n{\"a\":3,\"b\":\"\"}\n"
        );
        let array: Value = serde_json::from_str(&printed(Format::Json)).unwrap();
        assert_eq!(array.as_array().unwrap().len(), 3);
        assert_eq!(printed(Format::Table).lines().count(), 7);
    }
}
