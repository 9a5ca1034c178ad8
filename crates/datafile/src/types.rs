//! Which Arrow type and which Parquet type a Paimon type has \[F-6.4], and the field ids of both.
//!
//! Owns the two schemas of a data file and nothing else: no values, no options.

use crate::error::{Error, Result};
use arrow::datatypes::{DataType as Arrow, Field, FieldRef, Fields, Schema, TimeUnit};
use parquet::basic::{
    ConvertedType, LogicalType as Annotation, Repetition, TimeUnit as PqUnit, Type as Physical,
};
use parquet::schema::types::{Type as PqType, TypePtr};
use std::collections::HashMap;
use std::sync::Arc;
use tidegate_model::data_type::MAX_LENGTH;
use tidegate_model::{DataField, DataType, LogicalType};

/// Metadata key under which Arrow fields carry Paimon's field ids.
pub const FIELD_ID_KEY: &str = "PARQUET:field_id";

/// Name of the root message of every data file.
pub(crate) const ROOT: &str = "paimon_schema";

/// First id of synthetic nested nodes, `Integer.MAX_VALUE / 4`.
const SYNTHETIC_BASE: i32 = 536_870_911;

/// The canonical Arrow schema of columns: what [`normalise`](crate::normalise()) makes of any input
/// and what readers return.
///
/// Strings are `Utf8`, byte strings `Binary`, decimals `Decimal128`, times of day
/// `Time32(Millisecond)`, timestamps have the unit of their precision (≤ 3 milliseconds, ≤ 6
/// microseconds, else nanoseconds; with local time zone `UTC`), multisets are maps to their counts.
/// Field ids lie in the metadata under [`FIELD_ID_KEY`], synthetic ones of elements, keys and values
/// included \[F-6.4].
///
/// # Errors
/// [`Error::UnsupportedType`] names a column whose type data files cannot hold.
///
/// ```
/// use tidegate_datafile::arrow_schema;
/// use tidegate_model::{DataField, DataType, FieldId, LogicalType};
/// let id = DataField {
///     id: FieldId(0),
///     name: "id".into(),
///     data_type: DataType { logical: LogicalType::BigInt, nullable: false },
///     description: None,
///     default_value: None,
/// };
/// let schema = arrow_schema(&[id])?;
/// assert_eq!(schema.field(0).data_type(), &arrow::datatypes::DataType::Int64);
/// # Ok::<(), tidegate_datafile::Error>(())
/// ```
pub fn arrow_schema(fields: &[DataField]) -> Result<Schema> {
    Ok(Schema::new(arrow_fields(fields, "", Use::Rows)?))
}

/// What the Arrow types are for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// Rows in memory.
    Rows,
    /// What the column encoders take: `INT96` values as twelve bytes.
    Encoding,
}

pub(crate) fn arrow_fields(fields: &[DataField], parent: &str, usage: Use) -> Result<Fields> {
    fields
        .iter()
        .map(|f| arrow_field(f, parent, usage))
        .collect()
}

fn arrow_field(field: &DataField, parent: &str, usage: Use) -> Result<FieldRef> {
    let path = join(parent, &field.name);
    let arrow = arrow_type(&field.data_type, &path, field.id.0, 0, usage)?;
    Ok(with_id(
        Field::new(&field.name, arrow, field.data_type.nullable),
        field.id.0,
    ))
}

fn with_id(field: Field, id: i32) -> FieldRef {
    Arc::new(field.with_metadata(HashMap::from([(FIELD_ID_KEY.to_owned(), id.to_string())])))
}

/// The path of a nested column, for messages.
pub(crate) fn join(parent: &str, name: &str) -> String {
    if parent.is_empty() {
        name.to_owned()
    } else {
        format!("{parent}.{name}")
    }
}

/// Id of an array element or map value at `depth` below the field `owner`.
fn element_id(owner: i32, depth: i32) -> i32 {
    SYNTHETIC_BASE
        .wrapping_add(owner.wrapping_mul(1024))
        .wrapping_add(depth)
}

/// Id of a map key at `depth` below the field `owner`.
fn key_id(owner: i32, depth: i32) -> i32 {
    SYNTHETIC_BASE
        .wrapping_sub(owner.wrapping_mul(1024))
        .wrapping_sub(depth)
}

/// True for timestamps that Parquet holds as `INT96`.
pub(crate) fn is_int96(logical: &LogicalType) -> bool {
    matches!(logical, LogicalType::Timestamp(p) | LogicalType::TimestampLtz(p) if *p > 6)
}

pub(crate) fn time_unit(precision: u8) -> TimeUnit {
    match precision {
        0..=3 => TimeUnit::Millisecond,
        4..=6 => TimeUnit::Microsecond,
        _ => TimeUnit::Nanosecond,
    }
}

pub(crate) fn arrow_type(
    t: &DataType,
    path: &str,
    owner: i32,
    depth: i32,
    usage: Use,
) -> Result<Arrow> {
    use LogicalType as L;
    if usage == Use::Encoding && is_int96(&t.logical) {
        return Ok(Arrow::FixedSizeBinary(12));
    }
    Ok(match &t.logical {
        L::Boolean => Arrow::Boolean,
        L::TinyInt => Arrow::Int8,
        L::SmallInt => Arrow::Int16,
        L::Int => Arrow::Int32,
        L::BigInt => Arrow::Int64,
        L::Float => Arrow::Float32,
        L::Double => Arrow::Float64,
        L::Decimal { precision, scale } => Arrow::Decimal128(*precision, *scale as i8),
        L::Char(_) | L::VarChar(_) => Arrow::Utf8,
        L::Binary(_) | L::VarBinary(_) => Arrow::Binary,
        L::Date => Arrow::Date32,
        L::Time(_) => Arrow::Time32(TimeUnit::Millisecond),
        L::Timestamp(p) => Arrow::Timestamp(time_unit(*p), None),
        L::TimestampLtz(p) => Arrow::Timestamp(time_unit(*p), Some("UTC".into())),
        L::Array(element) => Arrow::List(element_field(element, path, owner, depth, usage)?),
        L::Map(key, value) => map_type(key, value, path, owner, depth, usage)?,
        L::Multiset(element) => map_type(element, &COUNT, path, owner, depth, usage)?,
        L::Row(fields) => Arrow::Struct(arrow_fields(fields, path, usage)?),
        L::Variant | L::Blob | L::Geometry(_) | L::Geography(_) | L::Vector { .. } => {
            return Err(unsupported(path, t));
        }
    })
}

/// Type of a multiset's counts.
pub(crate) static COUNT: DataType = DataType {
    logical: LogicalType::Int,
    nullable: false,
};

fn element_field(
    element: &DataType,
    path: &str,
    owner: i32,
    depth: i32,
    usage: Use,
) -> Result<FieldRef> {
    let path = format!("{path}[element]");
    let arrow = arrow_type(element, &path, owner, depth + 1, usage)?;
    Ok(with_id(
        Field::new("element", arrow, element.nullable),
        element_id(owner, depth + 1),
    ))
}

fn map_type(
    key: &DataType,
    value: &DataType,
    path: &str,
    owner: i32,
    depth: i32,
    usage: Use,
) -> Result<Arrow> {
    let key_path = format!("{path}[key]");
    let value_path = format!("{path}[value]");
    let key_type = arrow_type(key, &key_path, owner, depth + 1, usage)?;
    let value_type = arrow_type(value, &value_path, owner, depth + 1, usage)?;
    let entries = Fields::from(vec![
        with_id(Field::new("key", key_type, false), key_id(owner, depth + 1)),
        with_id(
            Field::new("value", value_type, value.nullable),
            element_id(owner, depth + 1),
        ),
    ]);
    Ok(Arrow::Map(
        Arc::new(Field::new("key_value", Arrow::Struct(entries), false)),
        false,
    ))
}

fn unsupported(path: &str, t: &DataType) -> Error {
    Error::UnsupportedType {
        column: path.to_owned(),
        data_type: type_text(t),
    }
}

/// A type in SQL-like text, for messages.
pub fn type_text(t: &DataType) -> String {
    use LogicalType as L;
    let text = match &t.logical {
        L::Boolean => "BOOLEAN".into(),
        L::TinyInt => "TINYINT".into(),
        L::SmallInt => "SMALLINT".into(),
        L::Int => "INT".into(),
        L::BigInt => "BIGINT".into(),
        L::Float => "FLOAT".into(),
        L::Double => "DOUBLE".into(),
        L::Decimal { precision, scale } => format!("DECIMAL({precision}, {scale})"),
        L::Char(n) => format!("CHAR({n})"),
        L::VarChar(MAX_LENGTH) => "STRING".into(),
        L::VarChar(n) => format!("VARCHAR({n})"),
        L::Binary(n) => format!("BINARY({n})"),
        L::VarBinary(MAX_LENGTH) => "BYTES".into(),
        L::VarBinary(n) => format!("VARBINARY({n})"),
        L::Date => "DATE".into(),
        L::Time(p) => format!("TIME({p})"),
        L::Timestamp(p) => format!("TIMESTAMP({p})"),
        L::TimestampLtz(p) => format!("TIMESTAMP({p}) WITH LOCAL TIME ZONE"),
        L::Variant => "VARIANT".into(),
        L::Blob => "BLOB".into(),
        L::Geometry(inner) => format!("GEOMETRY({inner})"),
        L::Geography(inner) => format!("GEOGRAPHY({inner})"),
        L::Array(e) => format!("ARRAY<{}>", type_text(e)),
        L::Multiset(e) => format!("MULTISET<{}>", type_text(e)),
        L::Map(k, v) => format!("MAP<{}, {}>", type_text(k), type_text(v)),
        L::Row(fields) => {
            let inner: Vec<_> = fields
                .iter()
                .map(|f| format!("{} {}", f.name, type_text(&f.data_type)))
                .collect();
            format!("ROW<{}>", inner.join(", "))
        }
        L::Vector { element, length } => format!("VECTOR<{}, {length}>", type_text(element)),
    };
    if t.nullable {
        text
    } else {
        format!("{text} NOT NULL")
    }
}

/// The Parquet schema of columns as Java writes it \[F-6.4].
pub(crate) fn parquet_schema(fields: &[DataField], usage: Use) -> Result<TypePtr> {
    let children = fields
        .iter()
        .map(|f| pq_field(f, "", usage))
        .collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(
        PqType::group_type_builder(ROOT)
            .with_fields(children)
            .build()?,
    ))
}

fn pq_field(field: &DataField, parent: &str, usage: Use) -> Result<TypePtr> {
    let at = Node {
        name: &field.name,
        id: field.id.0,
        owner: field.id.0,
        depth: 0,
        usage,
    };
    pq_node(&field.data_type, &join(parent, &field.name), at)
}

/// Where in the schema tree a node lies.
#[derive(Clone, Copy)]
struct Node<'a> {
    name: &'a str,
    id: i32,
    owner: i32,
    depth: i32,
    usage: Use,
}

fn pq_node(t: &DataType, path: &str, at: Node<'_>) -> Result<TypePtr> {
    use LogicalType as L;
    let repetition = if t.nullable {
        Repetition::OPTIONAL
    } else {
        Repetition::REQUIRED
    };
    let leaf = |physical: Physical, annotation: Option<Annotation>| -> Result<TypePtr> {
        let builder = PqType::primitive_type_builder(at.name, physical)
            .with_repetition(repetition)
            .with_logical_type(annotation)
            .with_id(Some(at.id));
        Ok(Arc::new(builder.build()?))
    };
    let int = |bits: i8| {
        Some(Annotation::Integer {
            bit_width: bits,
            is_signed: true,
        })
    };
    match &t.logical {
        L::Boolean => leaf(Physical::BOOLEAN, None),
        L::TinyInt => leaf(Physical::INT32, int(8)),
        L::SmallInt => leaf(Physical::INT32, int(16)),
        L::Int => leaf(Physical::INT32, None),
        L::BigInt => leaf(Physical::INT64, None),
        L::Float => leaf(Physical::FLOAT, None),
        L::Double => leaf(Physical::DOUBLE, None),
        L::Decimal { precision, scale } => {
            let annotation = Some(Annotation::Decimal {
                scale: i32::from(*scale),
                precision: i32::from(*precision),
            });
            let (physical, length) = match precision {
                0..=9 => (Physical::INT32, -1),
                10..=18 => (Physical::INT64, -1),
                p => (Physical::FIXED_LEN_BYTE_ARRAY, decimal_bytes(*p)),
            };
            let builder = PqType::primitive_type_builder(at.name, physical)
                .with_repetition(repetition)
                .with_logical_type(annotation)
                .with_precision(i32::from(*precision))
                .with_scale(i32::from(*scale))
                .with_length(length)
                .with_id(Some(at.id));
            Ok(Arc::new(builder.build()?))
        }
        L::Char(_) | L::VarChar(_) => leaf(Physical::BYTE_ARRAY, Some(Annotation::String)),
        L::Binary(_) | L::VarBinary(_) => leaf(Physical::BYTE_ARRAY, None),
        L::Date => leaf(Physical::INT32, Some(Annotation::Date)),
        L::Time(_) => leaf(
            Physical::INT32,
            Some(Annotation::Time {
                is_adjusted_to_u_t_c: true,
                unit: PqUnit::MILLIS,
            }),
        ),
        L::Timestamp(p) | L::TimestampLtz(p) if *p > 6 => match at.usage {
            Use::Rows => leaf(Physical::INT96, None),
            Use::Encoding => {
                let builder =
                    PqType::primitive_type_builder(at.name, Physical::FIXED_LEN_BYTE_ARRAY)
                        .with_repetition(repetition)
                        .with_length(12)
                        .with_id(Some(at.id));
                Ok(Arc::new(builder.build()?))
            }
        },
        L::Timestamp(p) | L::TimestampLtz(p) => {
            let unit = if *p <= 3 {
                PqUnit::MILLIS
            } else {
                PqUnit::MICROS
            };
            let is_adjusted_to_u_t_c = matches!(t.logical, L::TimestampLtz(_));
            leaf(
                Physical::INT64,
                Some(Annotation::Timestamp {
                    is_adjusted_to_u_t_c,
                    unit,
                }),
            )
        }
        L::Array(element) => {
            let inner = Node {
                name: "element",
                id: element_id(at.owner, at.depth + 1),
                depth: at.depth + 1,
                ..at
            };
            let element = pq_node(element, &format!("{path}[element]"), inner)?;
            let list = PqType::group_type_builder("list")
                .with_repetition(Repetition::REPEATED)
                .with_fields(vec![element])
                .build()?;
            group(
                at,
                repetition,
                Some(Annotation::List),
                ConvertedType::LIST,
                vec![Arc::new(list)],
            )
        }
        L::Map(key, value) => pq_map(key, value, path, at, repetition),
        L::Multiset(element) => pq_map(element, &COUNT, path, at, repetition),
        L::Row(fields) => {
            let children = fields
                .iter()
                .map(|f| pq_field(f, path, at.usage))
                .collect::<Result<Vec<_>>>()?;
            group(at, repetition, None, ConvertedType::NONE, children)
        }
        L::Variant | L::Blob | L::Geometry(_) | L::Geography(_) | L::Vector { .. } => {
            Err(unsupported(path, t))
        }
    }
}

fn group(
    at: Node<'_>,
    repetition: Repetition,
    annotation: Option<Annotation>,
    converted: ConvertedType,
    children: Vec<TypePtr>,
) -> Result<TypePtr> {
    let builder = PqType::group_type_builder(at.name)
        .with_repetition(repetition)
        .with_logical_type(annotation)
        .with_converted_type(converted)
        .with_id(Some(at.id))
        .with_fields(children);
    Ok(Arc::new(builder.build()?))
}

fn pq_map(
    key: &DataType,
    value: &DataType,
    path: &str,
    at: Node<'_>,
    repetition: Repetition,
) -> Result<TypePtr> {
    let depth = at.depth + 1;
    let required_key = DataType {
        logical: key.logical.clone(),
        nullable: false,
    };
    let key_at = Node {
        name: "key",
        id: key_id(at.owner, depth),
        depth,
        ..at
    };
    let value_at = Node {
        name: "value",
        id: element_id(at.owner, depth),
        depth,
        ..at
    };
    let key = pq_node(&required_key, &format!("{path}[key]"), key_at)?;
    let value = pq_node(value, &format!("{path}[value]"), value_at)?;
    let entries = PqType::group_type_builder("key_value")
        .with_repetition(Repetition::REPEATED)
        .with_converted_type(ConvertedType::MAP_KEY_VALUE)
        .with_fields(vec![key, value])
        .build()?;
    group(
        at,
        repetition,
        Some(Annotation::Map),
        ConvertedType::MAP,
        vec![Arc::new(entries)],
    )
}

/// Bytes of a decimal of `precision` digits: the smallest n with 2^(8n-1) ≥ 10^p.
fn decimal_bytes(precision: u8) -> i32 {
    let largest = 10i128
        .checked_pow(u32::from(precision))
        .unwrap_or(i128::MAX);
    (1..=16)
        .find(|n| *n == 16 || (1i128 << (8 * n - 1)) >= largest)
        .unwrap_or(16)
}
