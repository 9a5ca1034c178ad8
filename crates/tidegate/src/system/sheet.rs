//! A small table of typed cells: names as Java's columns, values that print the same everywhere.

use std::fmt;

use tidegate_model::calendar;

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Nothing.
    Null,
    /// A number.
    Int(i64),
    /// A truth value.
    Bool(bool),
    /// Text.
    Text(String),
    /// Epoch milliseconds of a wall clock; prints as `2024-01-31T12:34:56.789`.
    Millis(i64),
    /// JSON that goes into JSON as it is, and prints as its text elsewhere.
    Json(String),
}

impl Cell {
    /// Text, or nothing.
    pub fn text(value: Option<impl Into<String>>) -> Self {
        value.map_or(Self::Null, |v| Self::Text(v.into()))
    }

    /// A number, or nothing.
    pub fn int(value: Option<impl Into<i64>>) -> Self {
        value.map_or(Self::Null, |v| Self::Int(v.into()))
    }
}

impl From<&str> for Cell {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl From<String> for Cell {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

impl From<i64> for Cell {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

/// As a person reads it; nothing for null.
impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => Ok(()),
            Self::Int(n) => write!(f, "{n}"),
            Self::Bool(b) => write!(f, "{b}"),
            Self::Text(t) | Self::Json(t) => f.write_str(t),
            Self::Millis(at) => f.write_str(&time_text(*at)),
        }
    }
}

/// A wall clock with three digits of a second.
fn time_text(millis: i64) -> String {
    let mut text = String::new();
    calendar::write_sql(&mut text, millis, 0, 3);
    text.replacen(' ', "T", 1)
}

/// Rows under column names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sheet {
    columns: Vec<String>,
    rows: Vec<Vec<Cell>>,
}

impl Sheet {
    /// An empty one.
    pub fn new<S: Into<String>>(columns: impl IntoIterator<Item = S>) -> Self {
        Self {
            columns: columns.into_iter().map(Into::into).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row; cells that are missing are null, those too many are dropped.
    pub fn push(&mut self, mut cells: Vec<Cell>) {
        cells.resize(self.columns.len(), Cell::Null);
        self.rows.push(cells);
    }

    /// Column names.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Rows in order.
    pub fn rows(&self) -> &[Vec<Cell>] {
        &self.rows
    }
}
