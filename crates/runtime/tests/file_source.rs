//! Files as a source, seen from outside: cases B40 and B58 of the case collection, growing and
//! replaced files, compression, and the conformance suite.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]
#![allow(missing_docs)]

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use tidegate_runtime::source::files::{CsvFormat, FileFormat, FileSource, FilesConfig};
use tidegate_runtime::source::{
    Position, Read, Source, SourceError, SourceState, Split, SplitId, conformance,
};
use tidegate_storage::Store;

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("v", DataType::Utf8, true),
    ]))
}

fn config(path: &str) -> FilesConfig {
    FilesConfig {
        path: path.into(),
        format: None,
        csv: CsvFormat::default(),
        watch: false,
        poll: Duration::from_millis(10),
    }
}

fn source_of(dir: &Path, config: FilesConfig) -> FileSource {
    let store = Store::open(dir.to_str().unwrap(), &BTreeMap::new()).unwrap();
    FileSource::new(store, schema(), config).unwrap()
}

/// Reads all that is there; returns rows and the state to go on from.
async fn drain(
    source: &FileSource,
    state: SourceState,
) -> Result<(RecordBatch, SourceState), SourceError> {
    let mut state = state;
    let mut batches = Vec::new();
    let mut enumerator = source.enumerator(&state).await?;
    let active: Vec<Split> = state
        .active
        .iter()
        .map(|(id, p)| Split {
            id: id.clone(),
            position: p.clone(),
        })
        .collect();
    let mut splits = active;
    splits.extend(enumerator.discover().await?.splits);
    for split in splits {
        state.finished.remove(&split.id);
        let mut reader = source.reader(&split).await?;
        loop {
            match reader.next().await? {
                Read::Rows(rows) => {
                    state.active.insert(split.id.clone(), rows.position);
                    batches.push(rows.batch);
                }
                Read::End(position) => {
                    state.active.remove(&split.id);
                    enumerator.finished(&Split {
                        id: split.id.clone(),
                        position: position.clone(),
                    });
                    state.finished.insert(split.id.clone(), position);
                    break;
                }
                Read::Idle => break,
            }
        }
    }
    Ok((concat_batches(&schema(), &batches).unwrap(), state))
}

fn rows(batch: &RecordBatch) -> Vec<(i64, Option<String>)> {
    let ids = batch.column(0).as_primitive::<Int64Type>();
    let texts = batch.column(1).as_string::<i32>();
    (0..batch.num_rows())
        .map(|i| {
            (
                ids.value(i),
                texts.is_valid(i).then(|| texts.value(i).to_owned()),
            )
        })
        .collect()
}

async fn read_text(name: &str, text: &[u8]) -> Result<Vec<(i64, Option<String>)>, SourceError> {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join(name), text).unwrap();
    let source = source_of(dir.path(), config(name));
    drain(&source, SourceState::default())
        .await
        .map(|(batch, _)| rows(&batch))
}

fn row(id: i64, v: &str) -> (i64, Option<String>) {
    (id, Some(v.into()))
}

#[tokio::test]
async fn b58_1_a_byte_order_mark_is_no_part_of_the_first_name() {
    assert_eq!(
        read_text("a.csv", b"\xef\xbb\xbfid,v\r\n1,a\r\n")
            .await
            .unwrap(),
        [row(1, "a")]
    );
}

#[tokio::test]
async fn b58_2_line_ends_inside_quotes_survive_every_block_border() {
    for border in [64 << 10, 256 << 10, 1 << 20] {
        for around in border - 3..border + 3 {
            let mut text = b"id,v\n1,\"".to_vec();
            text.resize(around - 1, b'x');
            text.extend_from_slice(b"\r\ny\"\n2,z\n");
            let read = read_text("a.csv", &text).await.unwrap();
            assert_eq!(read.len(), 2, "{around}");
            assert!(read[0].1.as_ref().unwrap().ends_with("x\r\ny"), "{around}");
            assert_eq!(read[1], row(2, "z"));
        }
    }
}

#[tokio::test]
async fn b58_3_empty_quoted_and_null_differ() {
    let text = b"id,v\n2,\n3,\"\"\n4,NULL\n5,\\N\n6,\" \"\n7,\"a\"\"b\"\n\n8,a\"b\n9,last";
    let expected = [
        (2, None),
        row(3, ""),
        row(4, "NULL"),
        row(5, "\\N"),
        row(6, " "),
        row(7, "a\"b"),
        row(8, "a\"b"),
        row(9, "last"),
    ];
    assert_eq!(read_text("a.csv", text).await.unwrap(), expected);
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.csv"), text).unwrap();
    let mut named = config("a.csv");
    named.csv.null = "NULL".into();
    let (batch, _) = drain(&source_of(dir.path(), named), SourceState::default())
        .await
        .unwrap();
    assert_eq!(rows(&batch)[0], row(2, ""));
    assert_eq!(rows(&batch)[2], (4, None));
}

#[tokio::test]
async fn b58_4_what_cannot_be_converted_names_file_line_column_and_value() {
    let cases: [(&[u8], &str, u64, Option<&str>); 14] = [
        (
            b"id,v\n1,a\n9223372036854775808,b\n",
            "BIGINT",
            3,
            Some("id"),
        ),
        (b"id,v\n1e3,b\n", "whole number", 2, Some("id")),
        (b"id,v\n 1 ,b\n", "whole number", 2, Some("id")),
        (b"id,v\n0x1,b\n", "whole number", 2, Some("id")),
        (b"id,v\n,b\n", "NOT NULL", 2, Some("id")),
        (b"id,v\n1\n", "1 fields where 2", 2, None),
        (b"id,v\n1,a,b\n", "3 fields where 2", 2, None),
        (b"id,v\n1,\"a\nb\"x\n", "closing quote", 3, None),
        (b"id,v\n1,caf\xe9\n", "not UTF-8", 2, Some("v")),
        (b"id,id\n1,2\n", "twice", 1, None),
        (b"id,w\n1,2\n", "the table has not", 1, None),
        (b"v\na\n", "NOT NULL", 1, Some("id")),
        (b"id;v\n1;2\n", "the table has not", 1, None),
        (b"id,v\n1,\"never closed\n", "never closed", 2, None),
    ];
    for (text, why, line, column) in cases {
        let error = read_text("a.csv", text).await.unwrap_err();
        let SourceError::BadRecord(record) = &error else {
            panic!("{error}")
        };
        assert!(record.why.contains(why), "{record}");
        assert_eq!(record.line, Some(line), "{record}");
        assert_eq!(record.column.as_deref(), column, "{record}");
        assert!(record.file.ends_with("a.csv"));
    }
}

#[tokio::test]
async fn rows_before_a_bad_record_are_handed_out_first() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.csv"), "id,v\n1,a\n2,b\nx,c\n4,d\n").unwrap();
    let source = source_of(dir.path(), config("a.csv"));
    let split = source
        .enumerator(&SourceState::default())
        .await
        .unwrap()
        .discover()
        .await
        .unwrap()
        .splits
        .remove(0);
    let mut reader = source.reader(&split).await.unwrap();
    let Read::Rows(first) = reader.next().await.unwrap() else {
        panic!("rows first")
    };
    assert_eq!(rows(&first.batch), [row(1, "a"), row(2, "b")]);
    let error = reader.next().await.unwrap_err().to_string();
    assert!(error.contains("line 4") && error.contains("`x`"), "{error}");
    // Restarted at the position, the same record fails again: nothing is skipped.
    let at = Split {
        id: split.id,
        position: first.position,
    };
    let error = source
        .reader(&at)
        .await
        .unwrap()
        .next()
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("line 4") && error.contains("`x`"), "{error}");
}

#[tokio::test]
async fn b26_3_a_header_alone_is_no_row_and_no_error() {
    for text in ["id,v\n", "id,v", "", "\n\n", "\r\n"] {
        assert_eq!(
            read_text("a.csv", text.as_bytes()).await.unwrap(),
            [],
            "{text:?}"
        );
    }
}

#[tokio::test]
async fn b40_numbers_are_exact_and_every_byte_of_a_line_counts() {
    let text = br#"{"id":1627668684594000000}
{"id":9007199254740993,"v":null}

{"id":-9223372036854775808,"v":"\u0041\u0000"}
{"id":"7","v":"x"}"#;
    let expected = [
        (1_627_668_684_594_000_000, None),
        (9_007_199_254_740_993, None),
        row(i64::MIN, "A\0"),
        row(7, "x"),
    ];
    assert_eq!(read_text("a.jsonl", text).await.unwrap(), expected);
    let deep = format!(
        "{{\"id\":1,\"v\":{}1{}}}",
        "[".repeat(1000),
        "]".repeat(1000)
    );
    let cases: [(&str, &str); 12] = [
        (r#"{"id":9223372036854775808}"#, "BIGINT"),
        (r#"{"id":1.0}"#, "whole number"),
        (r#"{"id":1}{"id":2}"#, "one JSON object per line"),
        (r#"{"id":1,"v":"a","v":"b"}"#, "twice"),
        (r#"{"id":1,"v":{"a":1}}"#, "must be a string"),
        (r#"{"id":1,"v":[1]}"#, "must be a string"),
        (r#"{"id":1,"v":"\ud800"}"#, "hex escape"),
        (r#"{"v":"a"}"#, "NOT NULL"),
        (r#"{"id":1,"w":"a"}"#, "no such column"),
        (r#"{"ID":1}"#, "no such column"),
        (r#"{"id":1,"v":"cut"#, "one JSON object per line"),
        (&deep, "recursion"),
    ];
    for (line, why) in cases {
        let text = format!("{{\"id\":0}}\n{line}");
        let error = read_text("a.json", text.as_bytes())
            .await
            .unwrap_err()
            .to_string();
        assert!(
            error.contains(why) && error.contains("line 2"),
            "{line}: {error}"
        );
    }
    let long = format!("{{\"id\":1,\"v\":\"{}\"}}\n", "x".repeat(10 << 20));
    assert_eq!(
        read_text("a.json", long.as_bytes()).await.unwrap()[0]
            .1
            .as_ref()
            .unwrap()
            .len(),
        10 << 20
    );
}

fn compressed(name: &str, text: &[u8]) -> Vec<u8> {
    if name.ends_with(".gz") {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    } else if name.ends_with(".zst") {
        zstd::encode_all(text, 1).unwrap()
    } else {
        text.to_vec()
    }
}

fn many(lines: std::ops::Range<u32>) -> Vec<u8> {
    lines
        .flat_map(|i| format!("{i},\"line\r\n{i} \"\"quoted\"\"\"\n").into_bytes())
        .collect()
}

#[tokio::test]
async fn every_format_holds_to_the_contract_of_sources() {
    let dir = tempfile::tempdir().unwrap();
    let mut text = b"id,v\n".to_vec();
    text.extend(many(0..30_000));
    for name in ["a.csv", "b.csv.gz", "c.csv.zst"] {
        std::fs::write(dir.path().join(name), compressed(name, &text)).unwrap();
    }
    let json: Vec<u8> = (0..20_000)
        .flat_map(|i| format!("{{\"id\":{i},\"v\":\"x{i}\"}}\n").into_bytes())
        .collect();
    std::fs::write(dir.path().join("d.jsonl"), json).unwrap();
    let (batch, _) = drain(
        &source_of(dir.path(), config("a.csv")),
        SourceState::default(),
    )
    .await
    .unwrap();
    let file = std::fs::File::create(dir.path().join("e.parquet")).unwrap();
    let mut writer = parquet::arrow::ArrowWriter::try_new(file, schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    let source = source_of(dir.path(), config("*"));
    let limits = conformance::Limits {
        rows: 40_000,
        positions: 5,
        splits: 16,
    };
    let report = conformance::check(&source, limits).await.unwrap();
    assert_eq!((report.splits, report.rows), (5, 140_000));
}

#[tokio::test]
async fn files_are_taken_in_path_order_and_hidden_ones_are_left() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join("in/sub")).unwrap();
    for (name, id) in [
        ("in/b.csv", 2),
        ("in/a.csv", 1),
        ("in/sub/c.csv", 3),
        ("in/.x.csv", 8),
        ("in/_tmp.csv", 9),
    ] {
        std::fs::write(dir.path().join(name), format!("id,v\n{id},x\n")).unwrap();
    }
    for (path, ids) in [
        ("in", vec![1, 2, 3]),
        ("in/*.csv", vec![1, 2]),
        ("in/**/*.csv", vec![1, 2, 3]),
        ("in/{a,b}.csv", vec![1, 2]),
        ("in/b.csv", vec![2]),
    ] {
        let (batch, _) = drain(&source_of(dir.path(), config(path)), SourceState::default())
            .await
            .unwrap();
        assert_eq!(
            batch
                .column(0)
                .as_primitive::<Int64Type>()
                .values()
                .to_vec(),
            ids,
            "{path}"
        );
    }
    let nothing = drain(
        &source_of(dir.path(), config("in/*.parquet")),
        SourceState::default(),
    )
    .await;
    assert!(nothing.unwrap_err().to_string().contains("no file matches"));
}

#[tokio::test]
async fn appended_records_are_picked_up_and_nothing_twice() {
    for name in ["a.csv", "a.csv.gz"] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        let mut text = b"id,v\n1,a\n2,b".to_vec();
        std::fs::write(&path, compressed(name, &text)).unwrap();
        let source = source_of(dir.path(), config(name));
        let (batch, state) = drain(&source, SourceState::default()).await.unwrap();
        assert_eq!(batch.num_rows(), 2);
        let (batch, state) = drain(&source, state).await.unwrap();
        assert_eq!(batch.num_rows(), 0, "nothing new");
        // The last record had no line end: what follows must begin with one.
        text.extend_from_slice(b"\n3,c\n");
        std::fs::write(&path, compressed(name, &text)).unwrap();
        let (batch, state) = drain(&source, state).await.unwrap();
        assert_eq!(rows(&batch), [row(3, "c")]);
        std::fs::write(
            dir.path().join(name),
            compressed(name, b"id,v\n1,a\n2,bb\n3,c\n4,d\n"),
        )
        .unwrap();
        let error = drain(&source, state).await.unwrap_err().to_string();
        assert!(error.contains("differ"), "{error}");
    }
}

#[tokio::test]
async fn a_record_that_grew_after_it_was_taken_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.csv"), "id,v\n1,a\n2,b").unwrap();
    let source = source_of(dir.path(), config("a.csv"));
    let (_, state) = drain(&source, SourceState::default()).await.unwrap();
    std::fs::write(dir.path().join("a.csv"), "id,v\n1,a\n2,bcd\n").unwrap();
    let error = drain(&source, state).await.unwrap_err().to_string();
    assert!(error.contains("has grown since"), "{error}");
}

#[tokio::test]
async fn replaced_and_truncated_files_are_refused_at_every_position() {
    let text = many(0..2000);
    for name in ["a.csv", "a.csv.zst"] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        let mut plain = config(name);
        plain.format = Some(FileFormat::Csv(CsvFormat {
            header: false,
            ..CsvFormat::default()
        }));
        let source = source_of(dir.path(), plain);
        std::fs::write(&path, compressed(name, &text)).unwrap();
        let (_, state) = drain(&source, SourceState::default()).await.unwrap();
        let mut replaced = text.clone();
        replaced[0] = b'9';
        for other in [&replaced[..], &text[..text.len() / 2], b""] {
            std::fs::write(&path, compressed(name, other)).unwrap();
            // A finished file of another size or time is looked at again.
            let bumped = std::time::SystemTime::now() + Duration::from_secs(5);
            std::fs::File::options()
                .append(true)
                .open(&path)
                .unwrap()
                .set_modified(bumped)
                .unwrap();
            let error = drain(&source, state.clone()).await.unwrap_err();
            assert!(
                matches!(error, SourceError::Changed { .. }),
                "{name}: {error}"
            );
        }
        std::fs::remove_file(&path).unwrap();
        let mut folder = config("");
        folder.format = Some(FileFormat::Csv(CsvFormat {
            header: false,
            ..CsvFormat::default()
        }));
        let gone = drain(&source_of(dir.path(), folder), state).await.unwrap();
        assert_eq!(gone.0.num_rows(), 0, "a finished file may go");
    }
}

#[tokio::test]
async fn a_watched_record_counts_once_its_line_end_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.csv");
    let mut watched = config("*.csv");
    watched.watch = true;
    let source = source_of(dir.path(), watched);
    let mut state = SourceState::default();
    let mut seen = Vec::new();
    let whole = b"id,v\n1,a\n2,\"b\nb\"\n3,c\n";
    for cut in 0..=whole.len() {
        std::fs::write(&path, &whole[..cut]).unwrap();
        let (batch, next) = drain(&source, state).await.unwrap();
        seen.extend(rows(&batch));
        state = next;
    }
    assert_eq!(seen, [row(1, "a"), row(2, "b\nb"), row(3, "c")]);
}

#[tokio::test]
async fn a_foreign_position_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.csv"), "id,v\n1,a\n").unwrap();
    let source = source_of(dir.path(), config("*.csv"));
    let mut state = SourceState::default();
    state.finished.insert(
        SplitId("a.csv".into()),
        Position {
            version: 7,
            bytes: vec![1],
        },
    );
    let error = source.enumerator(&state).await.err().unwrap().to_string();
    assert!(
        error.contains("a.csv") && error.contains("version 7"),
        "{error}"
    );
}
