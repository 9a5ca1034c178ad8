//! A single value of a column, outside of any row or batch.
//!
//! For partition values, keys, statistics and metadata; rows on the data path never become this.

use std::cmp::Ordering;

/// A value that is not null. A nullable value is an `Option<Datum>`.
///
/// Comparison is that of Rust: NaN equals nothing, not even itself.
#[derive(Clone, Debug, PartialEq)]
pub enum Datum {
    /// BOOLEAN
    Boolean(bool),
    /// TINYINT
    TinyInt(i8),
    /// SMALLINT
    SmallInt(i16),
    /// INT
    Int(i32),
    /// BIGINT
    BigInt(i64),
    /// FLOAT
    Float(f32),
    /// DOUBLE
    Double(f64),
    /// DECIMAL: `unscaled` × 10^-`scale`
    Decimal {
        /// All digits as one number.
        unscaled: i128,
        /// Digits that the type allows.
        precision: u8,
        /// Digits after the point.
        scale: u8,
    },
    /// CHAR, VARCHAR, STRING
    String(String),
    /// BINARY, VARBINARY, BYTES
    Bytes(Vec<u8>),
    /// DATE: days since 1970-01-01
    Date(i32),
    /// TIME: milliseconds of the day
    TimeMillis(i32),
    /// TIMESTAMP (wall clock read as UTC) and TIMESTAMP_LTZ (instant)
    Timestamp {
        /// Milliseconds since 1970-01-01T00:00:00, floored.
        millis: i64,
        /// Nanoseconds within the millisecond, 0..=999_999.
        nanos_of_milli: i32,
    },
    /// ARRAY
    Array(Vec<Option<Datum>>),
    /// MAP; a MULTISET is a map to INT counts
    Map(Vec<(Option<Datum>, Option<Datum>)>),
    /// ROW, fields in order
    Row(Vec<Option<Datum>>),
}

impl Datum {
    /// The order of Java's `compareTo`, which minimum and maximum follow: numbers by value, NaN
    /// above everything and -0.0 below 0.0, texts and byte strings by unsigned bytes. `None` for
    /// values of different kinds and for constructed ones.
    pub fn compare(&self, other: &Self) -> Option<Ordering> {
        // One NaN, whatever its sign and payload, as Java sees it.
        let double = |v: f64| if v.is_nan() { f64::NAN.abs() } else { v };
        Some(match (self, other) {
            (Self::Boolean(a), Self::Boolean(b)) => a.cmp(b),
            (Self::TinyInt(a), Self::TinyInt(b)) => a.cmp(b),
            (Self::SmallInt(a), Self::SmallInt(b)) => a.cmp(b),
            (Self::Int(a), Self::Int(b))
            | (Self::Date(a), Self::Date(b))
            | (Self::TimeMillis(a), Self::TimeMillis(b)) => a.cmp(b),
            (Self::BigInt(a), Self::BigInt(b)) => a.cmp(b),
            (Self::Float(a), Self::Float(b)) => {
                double(f64::from(*a)).total_cmp(&double(f64::from(*b)))
            }
            (Self::Double(a), Self::Double(b)) => double(*a).total_cmp(&double(*b)),
            (
                Self::Decimal {
                    unscaled: a,
                    scale: s,
                    ..
                },
                Self::Decimal {
                    unscaled: b,
                    scale: t,
                    ..
                },
            ) if s == t => a.cmp(b),
            (Self::String(a), Self::String(b)) => a.as_bytes().cmp(b.as_bytes()),
            (Self::Bytes(a), Self::Bytes(b)) => a.cmp(b),
            (
                Self::Timestamp {
                    millis: a,
                    nanos_of_milli: c,
                },
                Self::Timestamp {
                    millis: b,
                    nanos_of_milli: d,
                },
            ) => (a, c).cmp(&(b, d)),
            _ => return None,
        })
    }

    /// The kind's name, for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Boolean(_) => "BOOLEAN",
            Self::TinyInt(_) => "TINYINT",
            Self::SmallInt(_) => "SMALLINT",
            Self::Int(_) => "INT",
            Self::BigInt(_) => "BIGINT",
            Self::Float(_) => "FLOAT",
            Self::Double(_) => "DOUBLE",
            Self::Decimal { .. } => "DECIMAL",
            Self::String(_) => "STRING",
            Self::Bytes(_) => "BYTES",
            Self::Date(_) => "DATE",
            Self::TimeMillis(_) => "TIME",
            Self::Timestamp { .. } => "TIMESTAMP",
            Self::Array(_) => "ARRAY",
            Self::Map(_) => "MAP",
            Self::Row(_) => "ROW",
        }
    }
}
