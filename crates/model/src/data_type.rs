//! Paimon's types, their text form and what may be done with each \[F-2.3].
//!
//! Owns the SQL text (parser and Java's spelling), the ranges of parameters and what a type may be
//! used for. The JSON form of constructed types belongs to `tidegate-format`.
//!
//! ```
//! use tidegate_model::{DataType, LogicalType};
//!
//! let t: DataType = "map<string, decimal(10,2) not null>".parse()?;
//! assert_eq!(t.to_string(), "MAP<STRING, DECIMAL(10, 2) NOT NULL>");
//! assert!(matches!(t.logical, LogicalType::Map(..)));
//! let e = "DECIMAL(10,,2)".parse::<DataType>().unwrap_err();
//! assert_eq!(e.to_string(), "type 'DECIMAL(10,,2)', at character 11: expected a number, found ','");
//! # Ok::<(), tidegate_model::Error>(())
//! ```

mod parse;

use crate::error::{Error, Result};
use crate::ids::FieldId;
use std::fmt::{self, Write as _};
use std::str::FromStr;

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

/// How deep types may nest: beyond it a text is refused rather than the stack risked.
pub const MAX_DEPTH: usize = 64;

impl LogicalType {
    /// `STRING`
    pub const STRING: Self = Self::VarChar(MAX_LENGTH);
    /// `BYTES`
    pub const BYTES: Self = Self::VarBinary(MAX_LENGTH);

    /// True for ARRAY, MAP, MULTISET, ROW and VECTOR.
    pub fn is_constructed(&self) -> bool {
        matches!(
            self,
            Self::Array(_) | Self::Map(..) | Self::Multiset(_) | Self::Row(_) | Self::Vector { .. }
        )
    }

    /// True where the type has no parts.
    pub fn is_atomic(&self) -> bool {
        !self.is_constructed()
    }

    /// Why a column of this type cannot be a partition, primary or bucket key; `None` = it can
    /// \[F-2.4].
    pub fn unfit_as_key(&self) -> Option<&'static str> {
        match self {
            t if t.is_constructed() => Some("it is not of an atomic type"),
            Self::Variant | Self::Blob | Self::Geometry(_) | Self::Geography(_) => {
                Some("values of its type have no binary form that compares")
            }
            _ => None,
        }
    }

    /// Why a column of this type cannot name a directory, over [`unfit_as_key`](Self::unfit_as_key):
    /// Java prints the identity of the object for byte strings \[F-1.4].
    pub fn unfit_as_partition(&self) -> Option<&'static str> {
        match self {
            Self::Binary(_) | Self::VarBinary(_) => {
                Some("byte strings give directory names that no reader can recompute")
            }
            t => t.unfit_as_key(),
        }
    }

    /// The word that this build refuses to write, itself or nested; `None` = writable.
    pub fn not_writable(&self) -> Option<&'static str> {
        match self {
            Self::Variant => Some("VARIANT"),
            Self::Blob => Some("BLOB"),
            Self::Geometry(_) => Some("GEOMETRY"),
            Self::Geography(_) => Some("GEOGRAPHY"),
            Self::Vector { .. } => Some("VECTOR"),
            _ => self.children().find_map(|t| t.logical.not_writable()),
        }
    }

    /// True where minimum and maximum exist for its values \[F-4.4].
    pub fn has_bounds(&self) -> bool {
        self.is_atomic() && self.not_writable().is_none()
    }

    /// The types it is made of, in order.
    pub fn children(&self) -> impl Iterator<Item = &DataType> {
        let (plain, fields): ([Option<&DataType>; 2], &[DataField]) = match self {
            Self::Array(e) | Self::Multiset(e) | Self::Vector { element: e, .. } => {
                ([Some(e), None], &[])
            }
            Self::Map(k, v) => ([Some(k), Some(v)], &[]),
            Self::Row(fields) => ([None, None], fields),
            _ => ([None, None], &[]),
        };
        plain
            .into_iter()
            .flatten()
            .chain(fields.iter().map(|f| &f.data_type))
    }

    /// The same type whatever the field ids, comments and defaults inside.
    pub fn same_as(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Row(a), Self::Row(b)) => {
                a.len() == b.len()
                    && a.iter()
                        .zip(b)
                        .all(|(a, b)| a.name == b.name && a.data_type.same_as(&b.data_type))
            }
            (a, b) if a.is_constructed() && b.is_constructed() => {
                let lengths = match (a, b) {
                    (Self::Vector { length: a, .. }, Self::Vector { length: b, .. }) => a == b,
                    _ => true,
                };
                lengths
                    && std::mem::discriminant(a) == std::mem::discriminant(b)
                    && a.children().zip(b.children()).all(|(a, b)| a.same_as(b))
            }
            (a, b) => a == b,
        }
    }

    /// Checks parameters and depth, parts included.
    ///
    /// # Errors
    /// Names the type and the rule.
    pub fn validate(&self) -> Result<()> {
        self.validate_at(0)
    }

    fn validate_at(&self, depth: usize) -> Result<()> {
        let refuse = |what: String| {
            Err(Error::TypeRange {
                data_type: self.to_string(),
                what,
            })
        };
        if depth > MAX_DEPTH {
            // The text of such a type may itself be too deep to print.
            return Err(Error::TypeRange {
                data_type: "nested type".to_owned(),
                what: format!("deeper than {MAX_DEPTH} levels"),
            });
        }
        match self {
            Self::Decimal { precision, .. } if !(1..=38).contains(precision) => {
                return refuse("precision must be between 1 and 38".to_owned());
            }
            Self::Decimal { precision, scale } if scale > precision => {
                return refuse(format!(
                    "scale must be between 0 and the precision {precision}"
                ));
            }
            Self::Char(n) | Self::VarChar(n) | Self::Binary(n) | Self::VarBinary(n)
                if !(1..=MAX_LENGTH).contains(n) =>
            {
                return refuse(format!("length must be between 1 and {MAX_LENGTH}"));
            }
            Self::Time(p) | Self::Timestamp(p) | Self::TimestampLtz(p) if *p > 9 => {
                return refuse("precision must be between 0 and 9".to_owned());
            }
            Self::Vector { length: 0, .. } => {
                return refuse("length must be at least 1".to_owned());
            }
            Self::Row(fields) => {
                let mut names: Vec<&str> = fields.iter().map(|f| f.name.as_str()).collect();
                names.sort_unstable();
                if let Some([name, _]) = names.array_windows::<2>().find(|[a, b]| a == b) {
                    return refuse(format!("field '{name}' occurs twice"));
                }
            }
            _ => {}
        }
        self.children()
            .try_for_each(|t| t.logical.validate_at(depth + 1))
    }
}

impl DataType {
    /// A type whose values may be null.
    pub fn nullable(logical: LogicalType) -> Self {
        Self {
            logical,
            nullable: true,
        }
    }

    /// A type whose values are never null.
    pub fn not_null(logical: LogicalType) -> Self {
        Self {
            logical,
            nullable: false,
        }
    }

    /// The same type and nullability whatever the field ids, comments and defaults inside.
    pub fn same_as(&self, other: &Self) -> bool {
        self.nullable == other.nullable && self.logical.same_as(&other.logical)
    }

    /// Gives new ids to all `ROW` fields inside, depth-first, and returns the next free one
    /// \[F-2.2].
    pub fn assign_ids(&mut self, next: i32) -> i32 {
        match &mut self.logical {
            LogicalType::Array(e)
            | LogicalType::Multiset(e)
            | LogicalType::Vector { element: e, .. } => e.assign_ids(next),
            LogicalType::Map(k, v) => {
                let next = k.assign_ids(next);
                v.assign_ids(next)
            }
            LogicalType::Row(fields) => fields.iter_mut().fold(next, |next, f| f.assign_ids(next)),
            _ => next,
        }
    }
}

impl DataField {
    /// A column without comment and default; its id is 0 until a schema assigns one.
    pub fn new(name: impl Into<String>, data_type: DataType) -> Self {
        Self {
            id: FieldId(0),
            name: name.into(),
            data_type,
            description: None,
            default_value: None,
        }
    }

    /// Takes the next id, then gives ids to nested fields; returns the next free one \[F-2.2].
    pub fn assign_ids(&mut self, next: i32) -> i32 {
        self.id = FieldId(next);
        self.data_type.assign_ids(next.saturating_add(1))
    }

    /// The highest id of the field and all fields inside.
    pub fn highest_id(&self) -> FieldId {
        fn inside(t: &DataType) -> i32 {
            match &t.logical {
                LogicalType::Row(fields) => {
                    fields.iter().map(|f| f.highest_id().0).max().unwrap_or(-1)
                }
                other => other.children().map(inside).max().unwrap_or(-1),
            }
        }
        FieldId(self.id.0.max(inside(&self.data_type)))
    }
}

impl FromStr for DataType {
    type Err = Error;

    /// Reads a type as users and schema files write it, upper or lower case: `BIGINT NOT NULL`,
    /// `decimal(10,2)`, `ARRAY<INT>`, `INT ARRAY`, `ROW<a INT NOT NULL 'comment', b STRING>`. Fields
    /// of rows get ids from 0, depth-first.
    fn from_str(text: &str) -> Result<Self> {
        let mut data_type = parse::parse(text)?;
        data_type.assign_ids(0);
        Ok(data_type)
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.logical)?;
        if self.nullable {
            Ok(())
        } else {
            f.write_str(" NOT NULL")
        }
    }
}

impl fmt::Display for LogicalType {
    /// Java's spelling; constructed types in their SQL form.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Boolean => f.write_str("BOOLEAN"),
            Self::TinyInt => f.write_str("TINYINT"),
            Self::SmallInt => f.write_str("SMALLINT"),
            Self::Int => f.write_str("INT"),
            Self::BigInt => f.write_str("BIGINT"),
            Self::Float => f.write_str("FLOAT"),
            Self::Double => f.write_str("DOUBLE"),
            Self::Decimal { precision, scale } => write!(f, "DECIMAL({precision}, {scale})"),
            Self::Char(n) => write!(f, "CHAR({n})"),
            Self::VarChar(MAX_LENGTH) => f.write_str("STRING"),
            Self::VarChar(n) => write!(f, "VARCHAR({n})"),
            Self::Binary(n) => write!(f, "BINARY({n})"),
            Self::VarBinary(MAX_LENGTH) => f.write_str("BYTES"),
            Self::VarBinary(n) => write!(f, "VARBINARY({n})"),
            Self::Date => f.write_str("DATE"),
            Self::Time(p) => write!(f, "TIME({p})"),
            Self::Timestamp(p) => write!(f, "TIMESTAMP({p})"),
            Self::TimestampLtz(p) => write!(f, "TIMESTAMP({p}) WITH LOCAL TIME ZONE"),
            Self::Variant => f.write_str("VARIANT"),
            Self::Blob => f.write_str("BLOB"),
            Self::Geometry(args) => write!(f, "GEOMETRY({args})"),
            Self::Geography(args) => write!(f, "GEOGRAPHY({args})"),
            Self::Array(e) => write!(f, "ARRAY<{e}>"),
            Self::Multiset(e) => write!(f, "MULTISET<{e}>"),
            Self::Map(k, v) => write!(f, "MAP<{k}, {v}>"),
            Self::Vector { element, length } => write!(f, "VECTOR<{element}, {length}>"),
            Self::Row(fields) => {
                f.write_str("ROW<")?;
                for (i, field) in fields.iter().enumerate() {
                    if i > 0 {
                        f.write_str(", ")?;
                    }
                    f.write_char('`')?;
                    f.write_str(&field.name.replace('`', "``"))?;
                    write!(f, "` {}", field.data_type)?;
                    if let Some(comment) = &field.description {
                        write!(f, " COMMENT '{}'", comment.replace('\'', "''"))?;
                    }
                }
                f.write_char('>')
            }
        }
    }
}
