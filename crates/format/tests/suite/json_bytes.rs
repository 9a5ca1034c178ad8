//! JSON that is not as it should be, and JSON of other releases.

use tidegate_format::{Position, Problem, schema, snapshot};

const SMALL: &str = r#"{
  "version" : 3,
  "id" : 7,
  "schemaId" : 0,
  "baseManifestList" : "a",
  "deltaManifestList" : "b",
  "commitUser" : "u",
  "commitIdentifier" : 9223372036854775807,
  "commitKind" : "APPEND",
  "timeMillis" : -1
}"#;

#[test]
fn unknown_keys_survive_with_their_exact_text() {
    let with = SMALL.replace(
        "-1\n",
        "-1,\n  \"fuß\" : [ 1.50, { \"a\" : null } ],\n  \"big\" : 123456789012345678901234567890\n",
    );
    let snapshot = snapshot::decode(with.as_bytes()).unwrap();
    assert_eq!(snapshot.unknown.len(), 2);
    assert_eq!(
        String::from_utf8(snapshot::encode(&snapshot)).unwrap(),
        with
    );
}

#[test]
fn an_error_names_file_line_column_and_field() {
    let broken = SMALL.replace("\"id\" : 7", "\"id\" : \"x\"");
    let error = snapshot::decode(broken.as_bytes())
        .unwrap_err()
        .in_file("snapshot-7");
    assert_eq!(
        error.position(),
        Some(Position::Text {
            line: 3,
            column: 10
        })
    );
    assert_eq!(
        error.to_string(),
        "snapshot-7, line 3, column 10, field `id`: expected a number, found `\"x\"`"
    );
}

#[test]
fn numbers_are_never_rounded() {
    for bad in [
        "7.0",
        "7e0",
        "9223372036854775808",
        "1e400",
        "07",
        "+7",
        "7.",
    ] {
        let text = SMALL.replace("\"id\" : 7", &format!("\"id\" : {bad}"));
        snapshot::decode(text.as_bytes()).expect_err(bad);
    }
}

#[test]
fn a_repeated_key_is_refused() {
    let twice = SMALL.replace("\"id\" : 7", "\"id\" : 7,\n  \"id\" : 8");
    let error = snapshot::decode(twice.as_bytes()).unwrap_err();
    assert_eq!(*error.problem(), Problem::DuplicateKey("id".to_owned()));
    let inside = SMALL.replace("-1\n", "-1, \"x\": {\"a\":1,\"\\u0061\":2}\n");
    assert!(snapshot::decode(inside.as_bytes()).is_err());
}

/// However many keys an object has: few are compared one by one, many are hashed.
#[test]
fn a_repeated_key_is_refused_among_few_and_many() {
    for count in [2, 31, 32, 33, 34, 100] {
        let mut keys: Vec<String> = (0..count).map(|n| format!("\"k{n}\":{n}")).collect();
        let with = |keys: &[String]| {
            let object = format!("-1, \"x\": {{{}}}\n", keys.join(","));
            snapshot::decode(SMALL.replace("-1\n", &object).as_bytes())
        };
        with(&keys).unwrap();
        for repeated in [0, count / 2, count - 1] {
            keys.push(format!("\"k{repeated}\":0"));
            let error = with(&keys).unwrap_err();
            let expected = Problem::DuplicateKey(format!("k{repeated}"));
            assert_eq!(*error.problem(), expected, "{count} keys");
            keys.pop();
        }
    }
}

#[test]
fn absurd_nesting_is_refused() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let deep = format!("{}1{}", open.repeat(100_000), close.repeat(100_000));
        let text = SMALL.replace("-1\n", &format!("-1, \"x\": {deep}\n"));
        let error = snapshot::decode(text.as_bytes()).unwrap_err();
        assert!(matches!(error.problem(), Problem::TooDeep(_)), "{error}");
    }
    let array = format!(
        "{}\"INT\"{}",
        r#"{"type":"ARRAY","element":"#.repeat(200),
        "}".repeat(200)
    );
    assert!(matches!(
        schema::decode_type(array.as_bytes()).unwrap_err().problem(),
        Problem::TooDeep(_)
    ));
}

#[test]
fn a_missing_field_and_a_future_version_are_named() {
    let error = snapshot::decode(b"{\"version\": 3, \"id\": 1}").unwrap_err();
    assert_eq!(
        (error.field(), error.problem()),
        (Some("schemaId"), &Problem::Missing)
    );
    let error = snapshot::decode(SMALL.replace(": 3,", ": 4,").as_bytes()).unwrap_err();
    assert!(
        matches!(error.problem(), Problem::Version { found: 4, .. }),
        "{error}"
    );
}

#[test]
fn explicit_nulls_count_as_absent() {
    let text = SMALL.replace("-1\n", "-1, \"watermark\": null, \"properties\": null\n");
    assert_eq!(
        snapshot::decode(text.as_bytes()).unwrap(),
        snapshot::decode(SMALL.as_bytes()).unwrap()
    );
}

#[test]
fn texts_escape_as_java_does() {
    let mut snapshot = snapshot::decode(SMALL.as_bytes()).unwrap();
    let text = "\"\\/\u{1}\u{1f}\u{7f}\n\r\t\u{8}\u{c}ü🚊";
    snapshot.properties = vec![("k".to_owned(), text.to_owned())];
    let bytes = snapshot::encode(&snapshot);
    let json = String::from_utf8(bytes.clone()).unwrap();
    assert!(json.contains(r#""k" : "\"\\/\u0001\u001F"#), "{json}");
    assert!(json.contains("\u{7f}\\n\\r\\t\\b\\fü🚊"), "{json}");
    assert_eq!(snapshot::decode(&bytes).unwrap(), snapshot);
    // Surrogate pairs are one character; halves of them are none.
    let pair = SMALL.replace("\"u\"", r#""\ud83d\ude8a""#);
    assert_eq!(
        snapshot::decode(pair.as_bytes())
            .unwrap()
            .commit_user
            .as_str(),
        "🚊"
    );
    assert!(snapshot::decode(SMALL.replace("\"u\"", r#""\ud83d""#).as_bytes()).is_err());
}

#[test]
fn types_of_every_form_keep_their_json() {
    for json in [
        r#""DECIMAL(10, 2) NOT NULL""#,
        r#""TIMESTAMP(3) WITH LOCAL TIME ZONE""#,
        "{\n  \"type\" : \"VECTOR NOT NULL\",\n  \"element\" : \"FLOAT\",\n  \"length\" : 8\n}",
        "{\n  \"type\" : \"MULTISET\",\n  \"element\" : \"STRING\"\n}",
        "{\n  \"type\" : \"ROW\",\n  \"fields\" : [ ]\n}",
    ] {
        let data_type = schema::decode_type(json.as_bytes()).unwrap();
        assert_eq!(
            String::from_utf8(schema::encode_type(&data_type)).unwrap(),
            json
        );
    }
}
