//! Partition paths: computed exactly as Java does, never parsed back \[F-1.4].

use crate::binary_row::{BinaryRow, BinaryRowReader};
use crate::calendar;
use crate::data_type::LogicalType;
use crate::error::{Error, Result};
use crate::java_text;

/// Longest part of a path that the common file systems take, in bytes.
const MAX_PART: usize = 255;

fn must_escape(c: char) -> bool {
    matches!(
        c,
        '\0'..='\x1f'
            | '\x7f'
            | '"'
            | '#'
            | '%'
            | '\''
            | '*'
            | '/'
            | ':'
            | '='
            | '?'
            | '\\'
            | '{'
            | '}'
            | '['
            | ']'
            | '^'
    )
}

/// Replaces what must not stand in a directory name by `%` and two upper-case hex digits.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    escape_into(text, &mut out);
    out
}

fn escape_into(text: &str, out: &mut String) {
    const DIGITS: [char; 16] = [
        '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'A', 'B', 'C', 'D', 'E', 'F',
    ];
    for c in text.chars() {
        if must_escape(c) {
            // All of them are ASCII.
            let byte = c as usize;
            out.push('%');
            out.extend(DIGITS.get(byte >> 4));
            out.extend(DIGITS.get(byte & 15));
        } else {
            out.push(c);
        }
    }
}

/// The inverse of [`escape`]: `%` and two hex digits become a character, a bad sequence stays as it
/// is. Digits beyond ASCII give the Latin-1 character, as in Java.
pub fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('%') {
        out.push_str(before);
        let code = after
            .get(..2)
            .filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()))
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match code {
            Some(code) => {
                out.push(char::from(code));
                rest = after.get(2..).unwrap_or_default();
            }
            None => {
                out.push('%');
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

/// Computes the directories of partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionPaths {
    columns: Vec<(String, LogicalType)>,
    default_name: String,
    legacy: bool,
}

impl PartitionPaths {
    /// Partition columns in order with their types; `default_name` is `partition.default-name`,
    /// `legacy` is `partition.legacy-name`.
    pub fn new(
        columns: Vec<(String, LogicalType)>,
        default_name: impl Into<String>,
        legacy: bool,
    ) -> Self {
        Self {
            columns,
            default_name: default_name.into(),
            legacy,
        }
    }

    /// The partition columns.
    pub fn columns(&self) -> &[(String, LogicalType)] {
        &self.columns
    }

    /// `key1=value1/key2=value2`, empty for an unpartitioned table; no slash at the end.
    ///
    /// # Errors
    /// Where the row has other fields than the columns, a type has no usable text, or a part is
    /// longer than file systems take: the column is named (B51).
    pub fn path(&self, partition: &BinaryRow) -> Result<String> {
        let row = self.reader(partition)?;
        let mut out = String::new();
        for (i, (column, data_type)) in self.columns.iter().enumerate() {
            if i > 0 {
                out.push('/');
            }
            let start = out.len();
            escape_into(column, &mut out);
            out.push('=');
            escape_into(&self.value(&row, i, column, data_type)?, &mut out);
            let part = out.len() - start;
            if part > MAX_PART {
                return Err(Error::Partition {
                    column: column.clone(),
                    what: format!(
                        "its directory name takes {part} bytes and file systems allow {MAX_PART}; \
                         shorten the value or partition by another column"
                    ),
                });
            }
        }
        Ok(out)
    }

    /// The value texts, not escaped, default names included; for people and `$partitions`.
    ///
    /// # Errors
    /// As [`path`](Self::path), lengths apart.
    pub fn names(&self, partition: &BinaryRow) -> Result<Vec<String>> {
        let row = self.reader(partition)?;
        self.columns
            .iter()
            .enumerate()
            .map(|(i, (c, t))| self.value(&row, i, c, t))
            .collect()
    }

    fn reader<'a>(&self, partition: &'a BinaryRow) -> Result<BinaryRowReader<'a>> {
        if partition.arity() as usize != self.columns.len() {
            return Err(Error::Binary {
                structure: "row",
                at: 0,
                what: format!(
                    "a partition of {} fields, the table has {} partition columns",
                    partition.arity(),
                    self.columns.len()
                ),
            });
        }
        Ok(partition.reader())
    }

    fn value(
        &self,
        row: &BinaryRowReader<'_>,
        i: usize,
        column: &str,
        data_type: &LogicalType,
    ) -> Result<String> {
        let text = self.text(row, i, column, data_type)?;
        // Null, empty and blank values share one directory; only the row tells them apart.
        Ok(match text {
            Some(text) if !text.chars().all(java_text::is_whitespace) => text,
            _ => self.default_name.clone(),
        })
    }

    fn text(
        &self,
        row: &BinaryRowReader<'_>,
        i: usize,
        column: &str,
        data_type: &LogicalType,
    ) -> Result<Option<String>> {
        let unusable = |what: String| Error::Partition {
            column: column.to_owned(),
            what,
        };
        Ok(match data_type {
            LogicalType::Boolean => row.bool(i)?.map(|v| v.to_string()),
            LogicalType::TinyInt => row.i8(i)?.map(|v| v.to_string()),
            LogicalType::SmallInt => row.i16(i)?.map(|v| v.to_string()),
            LogicalType::Int => row.i32(i)?.map(|v| v.to_string()),
            LogicalType::BigInt => row.i64(i)?.map(|v| v.to_string()),
            LogicalType::Float => row.f32(i)?.map(java_text::float),
            LogicalType::Double => row.f64(i)?.map(java_text::double),
            LogicalType::Decimal { precision, scale } => row
                .decimal(i, *precision)?
                .map(|v| java_text::decimal(v, *scale)),
            LogicalType::Char(_) | LogicalType::VarChar(_) => row.str(i)?.map(str::to_owned),
            LogicalType::Date => row.i32(i)?.map(|days| {
                if self.legacy {
                    return days.to_string();
                }
                let mut out = String::new();
                calendar::write_date(&mut out, i64::from(days));
                out
            }),
            LogicalType::Time(precision) => row.i32(i)?.map(|millis| {
                if self.legacy {
                    return millis.to_string();
                }
                let mut out = String::new();
                calendar::write_time(&mut out, millis, *precision);
                out
            }),
            LogicalType::Timestamp(p) | LogicalType::TimestampLtz(p) => {
                row.timestamp(i, *p)?.map(|(millis, nanos)| {
                    let mut out = String::new();
                    if self.legacy {
                        calendar::write_iso(&mut out, millis, nanos);
                    } else {
                        // Java takes the zone of its process for LTZ here. Ours is always UTC, and
                        // writing such a table is refused (`options::unsupported_for_write`).
                        calendar::write_sql(&mut out, millis, nanos, *p);
                    }
                    out
                })
            }
            LogicalType::Binary(_) | LogicalType::VarBinary(_) if !self.legacy => row
                .bytes(i)?
                .map(|v| {
                    std::str::from_utf8(v)
                        .map(str::to_owned)
                        .map_err(|_| unusable("its bytes are no text".to_owned()))
                })
                .transpose()?,
            other => {
                return Err(unusable(format!(
                    "values of type {other} give no usable directory name"
                )));
            }
        })
    }
}
