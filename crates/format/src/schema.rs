//! Schema files: `schema/schema-<id>` \[F-2].
//!
//! Owns names, order and presence of keys, and the JSON form of constructed types. The text form of
//! atomic types belongs to `tidegate-model`.

use crate::error::{Error, Position, Problem, Result, shorten};
use crate::json::{Reader, Writer};
use crate::snapshot::need;
use tidegate_model::{DataField, DataType, FieldId, LogicalType, Options, SchemaId, TableSchema};

/// Reads a schema file.
///
/// Keys of the object that no release covered here has are kept in [`TableSchema::unknown`]. Defaults
/// of old versions are not applied: the value says what the file says \[F-2.1].
///
/// # Errors
/// Text that is no JSON object, a missing or ill-typed field, a repeated key, an unknown type, a
/// version above 3.
pub fn decode(bytes: &[u8]) -> Result<TableSchema> {
    let mut reader = Reader::new(bytes)?;
    let (mut version, mut id, mut fields, mut highest) = (None, None, None, None);
    let (mut partition_keys, mut primary_keys, mut options) = (None, None, None);
    let (mut comment, mut time_millis, mut unknown) = (None, None, Vec::new());
    reader.object(|r, key| {
        match key {
            "version" => version = Some(r.i32()?),
            "id" => id = Some(r.i64()?),
            "fields" => fields = Some(read_fields(r)?),
            "highestFieldId" => highest = Some(r.i32()?),
            "partitionKeys" => partition_keys = Some(r.strings()?),
            "primaryKeys" => primary_keys = Some(r.strings()?),
            "options" => options = r.nullable(Reader::string_map)?,
            "comment" => comment = r.nullable(|r| Ok(r.string()?.into_owned()))?,
            "timeMillis" => time_millis = Some(r.i64()?),
            _ => unknown.push((key.to_owned(), r.raw()?.to_owned())),
        }
        Ok(())
    })?;
    reader.end()?;
    let finish = || {
        let version = version.unwrap_or(1);
        if !(1..=3).contains(&version) {
            let problem = Problem::Version {
                found: version.into(),
                supported: "1 to 3",
            };
            return Err(Error::new(problem).in_field("version"));
        }
        Ok(TableSchema {
            version,
            id: SchemaId(need(id, "id")?),
            fields: need(fields, "fields")?,
            highest_field_id: FieldId(need(highest, "highestFieldId")?),
            partition_keys: need(partition_keys, "partitionKeys")?,
            primary_keys: need(primary_keys, "primaryKeys")?,
            options: Options::from_iter(need(options, "options")?),
            comment,
            time_millis: time_millis.unwrap_or(0),
            unknown,
        })
    };
    finish().map_err(|e: Error| e.at(Position::Text { line: 1, column: 1 }))
}

/// Writes a schema file: the bytes that Java would write, unknown keys at the end.
pub fn encode(schema: &TableSchema) -> Vec<u8> {
    let mut w = Writer::new();
    w.begin_object();
    w.int("version", schema.version.into());
    w.int("id", schema.id.0);
    write_fields(&mut w, &schema.fields);
    w.int("highestFieldId", schema.highest_field_id.0.into());
    w.strings("partitionKeys", &schema.partition_keys);
    w.strings("primaryKeys", &schema.primary_keys);
    w.string_map("options", schema.options.iter());
    w.optional_string("comment", schema.comment.as_deref());
    w.int("timeMillis", schema.time_millis);
    for (key, json) in &schema.unknown {
        w.key(key);
        w.raw(json);
    }
    w.end_object();
    w.finish()
}

/// The JSON form of a type, as the `type` member of a field has it.
///
/// # Errors
/// Text that is no type.
pub fn decode_type(json: &[u8]) -> Result<DataType> {
    let mut reader = Reader::new(json)?;
    let data_type = read_type(&mut reader)?;
    reader.end()?;
    Ok(data_type)
}

/// See [`decode_type`].
pub fn encode_type(data_type: &DataType) -> Vec<u8> {
    let mut w = Writer::new();
    write_type(&mut w, data_type);
    w.finish()
}

fn read_fields(r: &mut Reader<'_>) -> Result<Vec<DataField>> {
    let mut fields = Vec::new();
    r.array(|r| {
        let (mut id, mut name, mut data_type) = (None, None, None);
        let (mut description, mut default_value) = (None, None);
        r.object(|r, key| {
            match key {
                "id" => id = Some(r.i32()?),
                "name" => name = Some(r.string()?.into_owned()),
                "type" => data_type = Some(read_type(r)?),
                "description" => description = r.nullable(|r| Ok(r.string()?.into_owned()))?,
                "defaultValue" => default_value = r.nullable(|r| Ok(r.string()?.into_owned()))?,
                _ => drop(r.raw()?),
            }
            Ok(())
        })?;
        let here = |e: Error| r.located(e);
        fields.push(DataField {
            id: FieldId(need(id, "id").map_err(here)?),
            name: need(name, "name").map_err(here)?,
            data_type: need(data_type, "type").map_err(here)?,
            description,
            default_value,
        });
        Ok(())
    })?;
    Ok(fields)
}

fn read_type(r: &mut Reader<'_>) -> Result<DataType> {
    match r.peek() {
        Some(b'{') => read_constructed(r),
        _ => {
            let text = r.string()?;
            text.parse()
                .map_err(|e: tidegate_model::Error| not_a_type(r, e.to_string()))
        }
    }
}

fn not_a_type(r: &Reader<'_>, found: String) -> Error {
    r.error(Problem::Unexpected {
        expected: "a type of Paimon",
        found,
    })
}

fn read_constructed(r: &mut Reader<'_>) -> Result<DataType> {
    let (mut head, mut element, mut key_type, mut value, mut fields, mut length) =
        (None, None, None, None, None, None);
    r.object(|r, key| {
        match key {
            "type" => head = Some(r.string()?.to_ascii_uppercase()),
            "element" => element = Some(read_type(r)?),
            "key" => key_type = Some(read_type(r)?),
            "value" => value = Some(read_type(r)?),
            "fields" => fields = Some(read_fields(r)?),
            "length" => length = Some(r.i64()?),
            _ => drop(r.raw()?),
        }
        Ok(())
    })?;
    let here = |e: Error| r.located(e);
    let head = need(head, "type").map_err(here)?;
    let part = |part: Option<DataType>, name| need(part, name).map(Box::new).map_err(here);
    // Java compares prefixes; the longest that fits wins.
    let logical = if head.starts_with("ARRAY") {
        LogicalType::Array(part(element, "element")?)
    } else if head.starts_with("MULTISET") {
        LogicalType::Multiset(part(element, "element")?)
    } else if head.starts_with("MAP") {
        LogicalType::Map(part(key_type, "key")?, part(value, "value")?)
    } else if head.starts_with("ROW") {
        LogicalType::Row(need(fields, "fields").map_err(here)?)
    } else if head.starts_with("VECTOR") {
        let length = need(length, "length").map_err(here)?;
        let length = u32::try_from(length)
            .map_err(|_| not_a_type(r, format!("a vector of length {length}")))?;
        LogicalType::Vector {
            element: part(element, "element")?,
            length,
        }
    } else {
        return Err(not_a_type(r, format!("`{}`", shorten(&head))));
    };
    Ok(DataType {
        logical,
        nullable: !head.contains("NOT NULL"),
    })
}

fn write_fields(w: &mut Writer, fields: &[DataField]) {
    w.key("fields");
    w.begin_array();
    for field in fields {
        w.item();
        w.begin_object();
        w.int("id", field.id.0.into());
        w.string("name", &field.name);
        w.key("type");
        write_type(w, &field.data_type);
        w.optional_string("description", field.description.as_deref());
        w.optional_string("defaultValue", field.default_value.as_deref());
        w.end_object();
    }
    w.end_array();
}

fn write_type(w: &mut Writer, data_type: &DataType) {
    let head = match &data_type.logical {
        LogicalType::Array(_) => "ARRAY",
        LogicalType::Multiset(_) => "MULTISET",
        LogicalType::Map(..) => "MAP",
        LogicalType::Row(_) => "ROW",
        LogicalType::Vector { .. } => "VECTOR",
        _ => return w.quoted(&data_type.to_string()),
    };
    w.begin_object();
    w.key("type");
    w.quoted(&format!(
        "{head}{}",
        if data_type.nullable { "" } else { " NOT NULL" }
    ));
    match &data_type.logical {
        LogicalType::Array(element) | LogicalType::Multiset(element) => {
            w.key("element");
            write_type(w, element);
        }
        LogicalType::Map(key, value) => {
            w.key("key");
            write_type(w, key);
            w.key("value");
            write_type(w, value);
        }
        LogicalType::Row(fields) => write_fields(w, fields),
        LogicalType::Vector { element, length } => {
            w.key("element");
            write_type(w, element);
            w.int("length", i64::from(*length));
        }
        _ => {}
    }
    w.end_object();
}
