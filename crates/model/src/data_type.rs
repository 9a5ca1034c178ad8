//! Paimon's types, their text form and what may be done with each \[F-2.3].

use crate::ids::FieldId;

/// A type and whether its values may be null.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DataType {
    /// What the values are.
    pub logical: LogicalType,
    /// False = `NOT NULL`.
    pub nullable: bool,
}

/// What the values of a column are.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LogicalType {
    /// `BOOLEAN`
    Boolean,
    /// `TINYINT`, 8 bits signed
    TinyInt,
    /// `SMALLINT`, 16 bits signed
    SmallInt,
    /// `INT`, 32 bits signed
    Int,
    /// `BIGINT`, 64 bits signed
    BigInt,
    /// `FLOAT`, 32 bits
    Float,
    /// `DOUBLE`, 64 bits
    Double,
    /// `DECIMAL(p, s)`, p 1..=38, s 0..=p
    Decimal {
        /// Digits in all.
        precision: u8,
        /// Digits after the point.
        scale: u8,
    },
    /// `CHAR(n)`
    Char(u32),
    /// `VARCHAR(n)`; `STRING` is the longest one
    VarChar(u32),
    /// `BINARY(n)`
    Binary(u32),
    /// `VARBINARY(n)`; `BYTES` is the longest one
    VarBinary(u32),
    /// `DATE`, days since 1970-01-01
    Date,
    /// `TIME(p)`, milliseconds of the day whatever the precision
    Time(u8),
    /// `TIMESTAMP(p)`, wall clock, p 0..=9
    Timestamp(u8),
    /// `TIMESTAMP(p) WITH LOCAL TIME ZONE`, an instant, p 0..=9
    TimestampLtz(u8),
    /// `VARIANT`
    Variant,
    /// `BLOB`
    Blob,
    /// `GEOMETRY(crs)`, the text between the brackets
    Geometry(String),
    /// `GEOGRAPHY(crs, algorithm)`, the text between the brackets
    Geography(String),
    /// `ARRAY<element>`
    Array(Box<DataType>),
    /// `MULTISET<element>`
    Multiset(Box<DataType>),
    /// `MAP<key, value>`
    Map(Box<DataType>, Box<DataType>),
    /// `ROW<field, …>`
    Row(Vec<DataField>),
    /// `VECTOR<element, n>`
    Vector {
        /// A numeric type.
        element: Box<DataType>,
        /// Elements in each value.
        length: u32,
    },
}

/// A column, or a field of a `ROW`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DataField {
    /// Unique over the whole table, nested fields included.
    pub id: FieldId,
    /// Name, case kept.
    pub name: String,
    /// Type.
    pub data_type: DataType,
    /// Comment.
    pub description: Option<String>,
    /// Default value as text.
    pub default_value: Option<String>,
}

/// Length of `STRING` and `BYTES`.
pub const MAX_LENGTH: u32 = 2_147_483_647;
