//! Values out of JSON. Numbers come as the text that was written, never through a double.

use serde_json::Value;

use super::column::{Column, Mismatch, Values};

impl Column {
    /// Adds a JSON value.
    ///
    /// # Errors
    /// Where it is no value of the column's type. Inside nested values parts may have been added by
    /// then, so a column is of no use after an error.
    pub fn append_json(&mut self, value: &Value) -> Result<(), Mismatch> {
        if value.is_null() {
            return self.append_null();
        }
        match (&mut self.values, value) {
            (Values::Boolean(b), Value::Bool(v)) => {
                b.append_value(*v);
                Ok(())
            }
            (
                Values::List {
                    offsets,
                    valid,
                    element,
                },
                Value::Array(items),
            ) => {
                for (i, item) in items.iter().enumerate() {
                    element
                        .append_json(item)
                        .map_err(|m| m.below(&format!("[{i}]")))?;
                }
                close(offsets, valid, items.len(), value)
            }
            (
                Values::Map {
                    offsets,
                    valid,
                    key,
                    value: values,
                    ..
                },
                Value::Array(pairs),
            ) => {
                for (i, pair) in pairs.iter().enumerate() {
                    let Some([k, v]) = pair.as_array().map(Vec::as_slice) else {
                        return Err(
                            shown(pair, "must be a pair [key, value]").below(&format!("[{i}]"))
                        );
                    };
                    key.append_json(k)
                        .map_err(|m| m.below(&format!("[{i}].key")))?;
                    values
                        .append_json(v)
                        .map_err(|m| m.below(&format!("[{i}].value")))?;
                }
                close(offsets, valid, pairs.len(), value)
            }
            (
                Values::Map {
                    offsets,
                    valid,
                    key,
                    value: values,
                    ..
                },
                Value::Object(members),
            ) if matches!(key.values, Values::Text { .. }) => {
                for (k, v) in members {
                    key.append_text(k).map_err(|m| m.below(".key"))?;
                    values
                        .append_json(v)
                        .map_err(|m| m.below(&format!(".{k}")))?;
                }
                close(offsets, valid, members.len(), value)
            }
            (Values::Struct { valid, columns }, Value::Object(members)) => {
                if let Some(name) = members
                    .keys()
                    .find(|k| !columns.iter().any(|c| c.field.name() == *k))
                {
                    return Err(shown(
                        value,
                        &format!("has a field `{name}` that the column has not"),
                    ));
                }
                for column in columns.iter_mut() {
                    let name = column.field.name().clone();
                    let result = match members.get(&name) {
                        Some(v) => column.append_json(v),
                        None => column.append_null(),
                    };
                    result.map_err(|m| m.below(&format!(".{name}")))?;
                }
                valid.push(true);
                Ok(())
            }
            (
                Values::List { .. }
                | Values::Map { .. }
                | Values::Struct { .. }
                | Values::Boolean(_),
                _,
            ) => Err(shown(
                value,
                &format!("cannot become {}", self.field.data_type()),
            )),
            // Text of any kind of value; only text columns insist on a string.
            (Values::Text { .. }, Value::String(text)) => self.append_text(text),
            (Values::Text { .. }, _) => Err(shown(value, "must be a string")),
            (_, Value::String(text)) => self.append_text(text),
            (
                Values::Int8(_)
                | Values::Int16(_)
                | Values::Int32(_)
                | Values::Int64(_)
                | Values::Float32(_)
                | Values::Float64(_)
                | Values::Decimal { .. },
                Value::Number(number),
            ) => self.append_text(&number.to_string()),
            _ => Err(shown(
                value,
                &format!("cannot become {}", self.field.data_type()),
            )),
        }
    }
}

fn close(
    offsets: &mut Vec<i32>,
    valid: &mut Vec<bool>,
    added: usize,
    value: &Value,
) -> Result<(), Mismatch> {
    let next = i32::try_from(added)
        .ok()
        .and_then(|n| offsets.last().copied().unwrap_or(0).checked_add(n));
    offsets.push(next.ok_or_else(|| shown(value, "too many elements in one batch"))?);
    valid.push(true);
    Ok(())
}

fn shown(value: &Value, why: &str) -> Mismatch {
    Mismatch::new(&value.to_string(), why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Array, AsArray};
    use arrow::datatypes::{DataType, Field, Fields, Int64Type};
    use std::sync::Arc;

    fn column(data_type: DataType, nullable: bool) -> Column {
        Column::new(Arc::new(Field::new("c", data_type, nullable))).unwrap()
    }

    fn json(text: &str) -> Value {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn big_numbers_do_not_go_through_a_double() {
        let mut ids = column(DataType::Int64, false);
        for text in [
            "1627668684594000000",
            "9007199254740993",
            "-9223372036854775808",
            "\"7\"",
        ] {
            ids.append_json(&json(text)).unwrap();
        }
        for text in ["9223372036854775808", "1.0", "true", "null", "1e3"] {
            assert!(ids.append_json(&json(text)).is_err(), "{text}");
        }
        let array = ids.finish().unwrap();
        assert_eq!(
            array.as_primitive::<Int64Type>().values(),
            &[
                1_627_668_684_594_000_000,
                9_007_199_254_740_993,
                i64::MIN,
                7
            ]
        );
        let mut wide = column(DataType::Decimal128(38, 0), true);
        wide.append_json(&json("99999999999999999999999999999999999999"))
            .unwrap();
    }

    #[test]
    fn nested_values_keep_their_shape_and_errors_their_path() {
        let city = Field::new("city", DataType::Utf8, false);
        let rows = DataType::new_list(DataType::Struct(Fields::from(vec![city])), true);
        let mut nested = column(rows, true);
        nested.append_json(&json(r#"[{"city":"a"},null]"#)).unwrap();
        nested.append_json(&json("[]")).unwrap();
        nested.append_json(&json("null")).unwrap();
        let array = nested.finish().unwrap();
        assert_eq!((array.len(), array.null_count()), (3, 1));
        let wrong = nested
            .append_json(&json(r#"[{"city":"a"},{"city":5}]"#))
            .unwrap_err();
        assert_eq!(wrong.path, "[1].city");
        let mut other = column(DataType::new_list(DataType::Utf8, true), true);
        assert!(other.append_json(&json(r#"{"a":1}"#)).is_err());
    }

    #[test]
    fn maps_are_pairs_or_objects() {
        let entries = Field::new(
            "key_value",
            DataType::Struct(Fields::from(vec![
                Field::new("key", DataType::Utf8, false),
                Field::new("value", DataType::Int64, true),
            ])),
            false,
        );
        let mut map = column(DataType::Map(Arc::new(entries), false), true);
        map.append_json(&json(r#"[["a",1],["b",null]]"#)).unwrap();
        map.append_json(&json(r#"{"c":3}"#)).unwrap();
        assert!(map.append_json(&json(r#"[["a"]]"#)).is_err());
        let mut map = column(map.field().data_type().clone(), true);
        map.append_json(&json(r#"{"c":3}"#)).unwrap();
        assert_eq!(map.finish().unwrap().len(), 1);
    }
}
