//! A single value of a column, outside of any row or batch.
//!
//! For partition values, keys, statistics and metadata; rows on the data path never become this.

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
