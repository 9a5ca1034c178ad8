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
use comfy_table::{ContentArrangement, Row, Table, presets};
use serde_json::Value;
use tidegate::model::DataField;
use tidegate::scan::canonical::{self, Times};
use tidegate::system::{Cell, Sheet};

use crate::args::{Format, OutputArgs};
use crate::exit::{Failure, Result};

/// Rows of a table for people that are laid out together.
const TABLE_ROWS: usize = 1000;

/// A column that gets less than so much of a terminal, borders included, tells nothing: then each row
/// is shown as lines of its own.
const LEAST_COLUMN: usize = 11;

/// A line break inside a value must not look like a new row.
fn one_line(row: Vec<String>) -> Vec<String> {
    let plain = |t: String| t.replace('\n', "\\n").replace('\r', "\\r");
    row.into_iter().map(plain).collect()
}

fn plain_table(columns: &[String], rows: &[Vec<String>]) -> String {
    let mut table = Table::new();
    table
        .load_style(presets::UTF8_BORDERS_ONLY)
        .set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(columns);
    table.add_rows(rows);
    table.to_string()
}

/// One line per row in the width of a terminal; what is cut off ends in `…`.
fn cut_table(columns: &[String], rows: &[Vec<String>], width: u16) -> String {
    let mut table = Table::new();
    table
        .load_style(presets::UTF8_BORDERS_ONLY)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(width)
        .set_truncation_indicator("…");
    let line = |cells: &[String]| {
        let mut row = Row::from(cells);
        row.max_height(1);
        row
    };
    table.set_header(line(columns));
    table.add_rows(rows.iter().map(|row| line(row)));
    table.to_string()
}

/// Prints rows as they come.
pub(crate) struct Printer<W: Write> {
    format: Format,
    columns: Vec<String>,
    out: W,
    waiting: Vec<Vec<String>>,
    rows: u64,
    /// Columns of the terminal; `None` where nobody looks, and tables are as wide as they are.
    width: Option<u16>,
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
            width: terminal_size::terminal_size_of(std::io::stdout()).map(|(width, _)| width.0),
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
            }
        }
        self.rows += 1;
        if self.waiting.len() >= TABLE_ROWS {
            self.lay_out()?;
        }
        Ok(())
    }

    fn lay_out(&mut self) -> Result<()> {
        let rows: Vec<Vec<String>> = self.waiting.drain(..).map(one_line).collect();
        let natural = plain_table(&self.columns, &rows);
        let wide = natural
            .lines()
            .next()
            .map_or(0, |line| line.chars().count());
        let room = usize::from(self.width.unwrap_or(u16::MAX));
        if wide <= room {
            return Ok(writeln!(self.out, "{natural}")?);
        }
        if self.columns.len() * LEAST_COLUMN <= room {
            let table = cut_table(&self.columns, &rows, self.width.unwrap_or(u16::MAX));
            return Ok(writeln!(self.out, "{table}")?);
        }
        let first = self.rows + 1 - rows.len() as u64;
        let key = self
            .columns
            .iter()
            .map(|c| c.chars().count())
            .max()
            .unwrap_or(0);
        for (n, row) in rows.iter().enumerate() {
            writeln!(self.out, "─ {} {}", first + n as u64, "─".repeat(key))?;
            for (column, cell) in self.columns.iter().zip(row) {
                writeln!(self.out, "{column:key$} │ {cell}")?;
            }
        }
        Ok(())
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

    /// Goes on with rows of other columns, in JSON.
    pub(crate) fn rename(&mut self, columns: Vec<String>) {
        self.columns = columns;
    }

    /// Gives out what has come so far.
    pub(crate) fn flush(&mut self) -> Result<()> {
        if !self.waiting.is_empty() {
            self.lay_out()?;
        }
        Ok(self.out.flush()?)
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

/// What a verb that changes something came to: a line for a person, else one object on stdout.
pub(crate) fn outcome(args: &OutputArgs, text: &str, value: &Value) -> Result<()> {
    if args.format == Format::Table {
        note(text);
        return Ok(());
    }
    object(args.format, value)
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

    fn on_terminal(width: Option<u16>, columns: usize, cell: &str) -> String {
        let mut out = Vec::new();
        let names = (0..columns).map(|n| format!("column_{n}")).collect();
        let mut printer = Printer::new(Format::Table, names, &mut out).unwrap();
        printer.width = width;
        for _ in 0..2 {
            let cells = (0..columns).map(|_| Printed {
                json: String::new(),
                plain: Some(cell.to_owned()),
            });
            printer.row(cells.collect()).unwrap();
        }
        printer.finish().unwrap();
        String::from_utf8(out).unwrap()
    }

    fn widest(text: &str) -> usize {
        text.lines().map(|l| l.chars().count()).max().unwrap_or(0)
    }

    #[test]
    fn a_table_fits_its_terminal_and_a_pipe_gets_all_of_it() {
        let long = "x".repeat(60);
        let piped = on_terminal(None, 4, &long);
        assert!(widest(&piped) > 240 && piped.matches(&long).count() == 8);
        let roomy = on_terminal(Some(400), 4, &long);
        assert_eq!(roomy, piped);
        let cut = on_terminal(Some(80), 4, &long);
        assert!(widest(&cut) <= 80 && cut.contains('…'), "{cut}");
        assert_eq!(cut.lines().count(), piped.lines().count(), "one line a row");
        // Too many columns to show side by side: each row as lines of its own, nothing cut.
        let lines = on_terminal(Some(80), 20, &long);
        assert_eq!(lines.matches(&long).count(), 40);
        assert_eq!(lines.lines().count(), 42, "{lines}");
        assert!(lines.contains("─ 2 ─") && lines.contains("column_19 │ x"));
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
