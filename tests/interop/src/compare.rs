//! Whether what a peer says is what we say. Knows nothing of peers or tables.

use crate::types::{Column, Shape};
use serde_json::Value;
use std::collections::BTreeMap;

/// A value as text that is equal for equal values.
pub(crate) fn plain(shape: &Shape, value: &Value) -> String {
    if value.is_null() {
        return "null".to_owned();
    }
    match (shape, value) {
        (Shape::Float, _) => match number(value).parse::<f32>() {
            Ok(v) if v.is_nan() => "NaN".to_owned(),
            Ok(v) => format!("{v:?}"),
            Err(_) => value.to_string(),
        },
        (Shape::Double, _) => match number(value).parse::<f64>() {
            Ok(v) if v.is_nan() => "NaN".to_owned(),
            Ok(v) => format!("{v:?}"),
            Err(_) => value.to_string(),
        },
        (Shape::Clock, Value::String(text)) => clock(text),
        (Shape::Array(element), Value::Array(items)) => {
            let items: Vec<String> = items.iter().map(|v| plain(element, v)).collect();
            format!("[{}]", items.join(","))
        }
        (Shape::Map(key, mapped), Value::Array(pairs)) => {
            let mut texts: Vec<String> = pairs
                .iter()
                .map(|pair| {
                    let part = |i: usize| pair.get(i).unwrap_or(&Value::Null);
                    format!("{}:{}", plain(key, part(0)), plain(mapped, part(1)))
                })
                .collect();
            texts.sort();
            format!("{{{}}}", texts.join(","))
        }
        (Shape::Row(fields), Value::Object(members)) => {
            let texts: Vec<String> = fields
                .iter()
                .map(|(name, shape)| match members.get(name) {
                    Some(v) => format!("{name}={}", plain(shape, v)),
                    None => format!("{name} absent"),
                })
                .collect();
            format!("({})", texts.join(","))
        }
        _ => value.to_string(),
    }
}

fn number(value: &Value) -> String {
    match value {
        Value::String(text) => text.replace("Infinity", "inf"),
        other => other.to_string(),
    }
}

/// Without trailing zeros of a fraction.
pub(crate) fn clock(text: &str) -> String {
    let (body, zone) = match text.strip_suffix('Z') {
        Some(body) => (body, "Z"),
        None => (text, ""),
    };
    let body = match body.contains('.') {
        true => body.trim_end_matches('0').trim_end_matches('.'),
        false => body,
    };
    format!("{body}{zone}")
}

/// Rows by their `id`.
pub(crate) type Rows = BTreeMap<i64, Value>;

/// Rows that were read, by id; an error names a row without id or one that is there twice.
pub(crate) fn by_id(rows: &[Value]) -> Result<Rows, String> {
    let mut found = Rows::new();
    for row in rows {
        let id = row.get("id").and_then(Value::as_i64);
        let id = id.ok_or_else(|| format!("a row without id: {row}"))?;
        if found.insert(id, row.clone()).is_some() {
            return Err(format!("row {id} is there twice"));
        }
    }
    Ok(found)
}

/// The first difference between the sets of ids.
pub(crate) fn ids(expected: &Rows, got: &Rows) -> Option<String> {
    let lost: Vec<&i64> = expected.keys().filter(|id| !got.contains_key(id)).collect();
    let strange: Vec<&i64> = got.keys().filter(|id| !expected.contains_key(id)).collect();
    if lost.is_empty() && strange.is_empty() {
        return None;
    }
    Some(format!(
        "{} rows expected, {} read; lost {lost:?}, unexpected {strange:?}",
        expected.len(),
        got.len()
    ))
}

/// The first difference in a column, over the rows that both have.
pub(crate) fn column(column: &Column, expected: &Rows, got: &Rows) -> Option<String> {
    expected.iter().find_map(|(id, row)| {
        let read = got.get(id)?;
        let Some(value) = read.get(&column.name) else {
            return Some(format!("row {id}: no such column"));
        };
        let absent = Value::Null;
        let wanted = plain(&column.shape, row.get(&column.name).unwrap_or(&absent));
        let found = plain(&column.shape, value);
        (wanted != found).then(|| {
            format!(
                "row {id}: expected {}, read {}",
                short(&wanted),
                short(&found)
            )
        })
    })
}

/// The first difference between two lists of objects, in any order, over the keys that the peer has.
/// A key of the peer that we have not is a difference.
pub(crate) fn listing(ours: &[Value], theirs: &[Value], ignore: &[&str]) -> Option<String> {
    let mut keys: Vec<&String> = theirs
        .iter()
        .filter_map(Value::as_object)
        .flat_map(|o| o.keys())
        .filter(|k| *k != "_kind" && !ignore.contains(&k.as_str()))
        .collect();
    keys.sort();
    keys.dedup();
    let text = |row: &Value| {
        let cells: Vec<String> = keys
            .iter()
            .map(|k| match row.get(k.as_str()) {
                Some(v) => format!("{k}={}", meta(v)),
                None => format!("{k} absent"),
            })
            .collect();
        cells.join(" ")
    };
    let sorted = |rows: &[Value]| {
        let mut texts: Vec<String> = rows.iter().map(text).collect();
        texts.sort();
        texts
    };
    let (ours, theirs) = (sorted(ours), sorted(theirs));
    if ours.len() != theirs.len() {
        return Some(format!(
            "{} of ours, {} of theirs",
            ours.len(),
            theirs.len()
        ));
    }
    ours.iter()
        .zip(&theirs)
        .find(|(a, b)| a != b)
        .map(|(a, b)| differing(a, b))
}

/// The rows with the last name of the path in a column in place of the path.
pub(crate) fn without_folders(rows: &[Value], column: &str) -> Vec<Value> {
    let mut rows = rows.to_vec();
    for path in rows.iter_mut().filter_map(|r| r.get_mut(column)) {
        if let Some(name) = path.as_str().and_then(|p| p.rsplit('/').next()) {
            *path = Value::from(name);
        }
    }
    rows
}

/// The words that differ, not the whole lines.
fn differing(ours: &str, theirs: &str) -> String {
    let at = ours
        .char_indices()
        .zip(theirs.chars())
        .find(|((_, a), b)| a != b)
        .map_or(ours.len().min(theirs.len()), |((at, _), _)| at);
    let from = ours
        .get(..at)
        .and_then(|head| head.rfind(' '))
        .map_or(0, |b| b + 1);
    let cut = |text: &str| short(text.get(from..).unwrap_or(text));
    format!("ours {}, theirs {}", cut(ours), cut(theirs))
}

/// A cell of a `$` table: the releases differ in how they print paths, times and partitions.
fn meta(value: &Value) -> String {
    let Value::String(text) = value else {
        return value.to_string();
    };
    if let Some(path) = text.strip_prefix("file:") {
        return format!("/{}", path.trim_start_matches('/'));
    }
    if let Some(inner) = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')) {
        return format!("{{{inner}}}");
    }
    let dated = text.as_bytes().get(4) == Some(&b'-') && text.as_bytes().get(10) == Some(&b'T');
    if dated { clock(text) } else { text.clone() }
}

/// For people: long texts cut.
pub(crate) fn short(text: &str) -> String {
    match text.char_indices().nth(160) {
        Some((at, _)) => format!(
            "{}… ({} bytes)",
            text.get(..at).unwrap_or_default(),
            text.len()
        ),
        None => text.to_owned(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use serde_json::json;

    fn rows(values: &[Value]) -> Rows {
        values
            .iter()
            .enumerate()
            .map(|(i, v)| (i as i64, json!({"id": i, "c": v})))
            .collect()
    }

    fn differs(shape: Shape, expected: &Value, read: &Value) -> bool {
        let c = Column::new("c", "?", shape, Vec::new());
        column(
            &c,
            &rows(std::slice::from_ref(expected)),
            &rows(std::slice::from_ref(read)),
        )
        .is_some()
    }

    #[test]
    fn an_altered_value_of_any_shape_differs() {
        let float = |t: &str| serde_json::from_str::<Value>(t).unwrap();
        let map = Shape::Map(Box::new(Shape::Plain), Box::new(Shape::Double));
        let row = Shape::Row(vec![("a".into(), Shape::Plain)]);
        for (shape, a, b) in [
            (Shape::Plain, json!(1), json!(2)),
            (Shape::Plain, json!("1"), json!(1)),
            (Shape::Plain, json!("1.50"), json!("1.5")),
            (Shape::Plain, json!(""), Value::Null),
            (Shape::Float, float("0.0"), float("-0.0")),
            (Shape::Float, float("1.5"), json!("NaN")),
            (Shape::Double, json!("Infinity"), json!("-Infinity")),
            (Shape::Double, float("0.1"), float("0.10000000149011612")),
            (Shape::Clock, json!("00:00:00.001"), json!("00:00:00.010")),
            (
                Shape::Clock,
                json!("1970-01-01T00:00:00Z"),
                json!("1970-01-01T00:00:00"),
            ),
            (
                Shape::Array(Box::new(Shape::Plain)),
                json!([1, null]),
                json!([1]),
            ),
            (Shape::Array(Box::new(Shape::Plain)), json!([]), Value::Null),
            (
                Shape::Array(Box::new(Shape::Plain)),
                json!([1, 2]),
                json!([2, 1]),
            ),
            (map.clone(), json!([["a", 1.0]]), json!([["a", 2.0]])),
            (map, json!([["a", null]]), json!([])),
            (row.clone(), json!({"a": null}), Value::Null),
            (row, json!({"a": 1}), json!({"b": 1})),
        ] {
            assert!(differs(shape.clone(), &a, &b), "{shape:?}: {a} and {b}");
            assert!(differs(shape.clone(), &b, &a), "{shape:?}: {b} and {a}");
        }
    }

    #[test]
    fn the_same_value_in_another_spelling_is_equal() {
        let float = |t: &str| serde_json::from_str::<Value>(t).unwrap();
        let map = Shape::Map(Box::new(Shape::Plain), Box::new(Shape::Plain));
        for (shape, a, b) in [
            (Shape::Float, float("0.1"), float("0.10000000149011612")),
            (Shape::Float, float("1.0E10"), float("10000000000.0")),
            (Shape::Double, float("1"), float("1.0")),
            (Shape::Clock, json!("12:34:56"), json!("12:34:56.000")),
            (
                Shape::Clock,
                json!("1970-01-01T00:00:00.100Z"),
                json!("1970-01-01T00:00:00.100000000Z"),
            ),
            (
                map,
                json!([["b", 1], ["a", 2]]),
                json!([["a", 2], ["b", 1]]),
            ),
        ] {
            assert!(!differs(shape.clone(), &a, &b), "{shape:?}: {a} and {b}");
        }
    }

    #[test]
    fn lost_doubled_and_strange_rows_are_told() {
        let two = rows(&[json!(1), json!(2)]);
        assert_eq!(ids(&two, &two), None);
        assert!(ids(&two, &rows(&[json!(1)])).unwrap().contains("lost [1]"));
        assert!(
            ids(&rows(&[json!(1)]), &two)
                .unwrap()
                .contains("unexpected [1]")
        );
        let doubled = by_id(&[json!({"id": 1}), json!({"id": 1})]);
        assert_eq!(doubled.unwrap_err(), "row 1 is there twice");
    }

    #[test]
    fn an_extra_file_or_another_size_differs() {
        let file = |name: &str, size: i64| json!({"file_path": name, "file_size_in_bytes": size});
        let ours = [file("file:///t/a", 1), file("file:///t/b", 2)];
        let same = [file("file:/t/b", 2), file("/t/a", 1)];
        assert_eq!(listing(&ours, &same, &[]), None);
        assert!(listing(&ours, &same[..1], &[]).is_some());
        assert!(
            listing(&ours, &[file("/t/a", 1), file("/t/b", 3)], &[])
                .unwrap()
                .contains("size_in_bytes=2")
        );
        let moved = [file("/t/p=inf/a", 1), file("/t/p=inf/b", 2)];
        assert!(listing(&ours, &moved, &[]).is_some());
        let names = |files: &[Value]| without_folders(files, "file_path");
        assert_eq!(listing(&names(&ours), &names(&moved), &[]), None);
        assert!(listing(&names(&ours), &names(&[file("/a", 1), file("/b", 3)]), &[]).is_some());
        let more = json!({"file_path": "/t/a", "unknown": 1});
        assert!(listing(&ours[..1], &[more], &[]).is_some());
    }
}
