//! Avro containers made by hand: other writers' schemas, and attacks.

use crate::counting::peak_of;
use tidegate_format::{Position, Problem, avro, index_manifest, manifest, manifest_list};

fn long(out: &mut Vec<u8>, value: i64) {
    let mut rest = ((value << 1) ^ (value >> 63)) as u64;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

fn text(out: &mut Vec<u8>, value: &[u8]) {
    long(out, value.len() as i64);
    out.extend_from_slice(value);
}

const SYNC: [u8; 16] = *b"ssssyyyynnnncccc";

fn header(schema: &str, codec: &str) -> Vec<u8> {
    let mut out = b"Obj\x01".to_vec();
    long(&mut out, 2);
    text(&mut out, b"avro.codec");
    text(&mut out, codec.as_bytes());
    text(&mut out, b"avro.schema");
    text(&mut out, schema.as_bytes());
    long(&mut out, 0);
    out.extend_from_slice(&SYNC);
    out
}

fn container(schema: &str, codec: &str, count: i64, block: &[u8]) -> Vec<u8> {
    let mut out = header(schema, codec);
    long(&mut out, count);
    text(&mut out, block);
    out.extend_from_slice(&SYNC);
    out
}

/// An uncompressed container of one block.
pub(crate) fn plain_container(schema: &str, count: u64, block: &[u8]) -> Vec<u8> {
    container(schema, "null", count as i64, block)
}

/// A list as another writer might make it: reordered, unknown fields of every type, a named type
/// used again, unions the other way round, no record name of Java's.
const FOREIGN_LIST: &str = r#"{"name":"entry","type":"record","namespace":"x.y","doc":"é","fields":[
  {"name":"_SCHEMA_ID","type":"int"},
  {"name":"stats_copy","type":["null",{"type":"record","name":"stats","fields":[
     {"name":"_NULL_COUNTS","type":{"type":"array","items":["long","null"]}},
     {"name":"extra","type":{"type":"map","values":["null","double","x.y.stats"]}},
     {"name":"_MAX_VALUES","type":"bytes"},
     {"name":"_MIN_VALUES","type":"bytes"}]}]},
  {"name":"_PARTITION_STATS","type":"stats"},
  {"name":"kind","type":{"type":"enum","name":"kinds","symbols":["A","B"]}},
  {"name":"hash","type":{"type":"fixed","name":"md5","size":16}},
  {"name":"flags","type":{"type":"array","items":["boolean","float"]}},
  {"name":"_FILE_NAME","type":["string","null"]},
  {"name":"_FILE_SIZE","type":{"type":"long","logicalType":"whatever"}},
  {"name":"_VERSION","type":"int"},
  {"name":"_NUM_DELETED_FILES","type":"long"},
  {"name":"_NUM_ADDED_FILES","type":"long"},
  {"name":"_MAX_BUCKET","type":"int"}]}"#;

fn foreign_stats(out: &mut Vec<u8>) {
    // An array in two blocks, the second with its size.
    long(out, 1);
    long(out, 0);
    long(out, 5);
    long(out, -2);
    long(out, 3);
    long(out, 1);
    long(out, 0);
    long(out, 7);
    long(out, 0);
    // A map with one entry: a double.
    long(out, 1);
    text(out, b"k");
    long(out, 1);
    out.extend_from_slice(&1.5f64.to_le_bytes());
    long(out, 0);
    text(
        out,
        &[0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0],
    );
    text(
        out,
        &[0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0],
    );
}

fn foreign_record(out: &mut Vec<u8>) {
    long(out, 4);
    long(out, 1);
    foreign_stats(out);
    foreign_stats(out);
    long(out, 1);
    out.extend_from_slice(&[7; 16]);
    long(out, -2);
    long(out, 7);
    long(out, 0);
    out.push(1);
    long(out, 1);
    out.extend_from_slice(&2.5f32.to_le_bytes());
    long(out, 0);
    long(out, 0);
    text(out, b"manifest-x");
    long(out, 1234);
    long(out, 2);
    long(out, 3);
    long(out, 2);
    long(out, 15);
}

/// The `paimon` crate's root is a union of null and the record, as an earlier schema of Java's had it.
#[test]
fn a_root_that_may_be_null_is_read_and_a_null_record_refused() {
    let mut record = Vec::new();
    foreign_record(&mut record);
    for (schema, branch, null) in [
        (format!(r#"["null",{FOREIGN_LIST}]"#), 1, 0),
        (format!(r#"[{FOREIGN_LIST},"null"]"#), 0, 1),
    ] {
        let mut block = Vec::new();
        for _ in 0..2 {
            long(&mut block, branch);
            block.extend(&record);
        }
        let list = manifest_list::decode(&container(&schema, "null", 2, &block)).unwrap();
        assert_eq!(list.len(), 2);
        assert!(
            list.iter()
                .all(|m| m.file_name == "manifest-x" && m.file_size == 1234)
        );
        let mut none = Vec::new();
        long(&mut none, null);
        let error = manifest_list::decode(&container(&schema, "null", 1, &none)).unwrap_err();
        assert!(
            matches!(error.problem(), Problem::Unexpected { .. }),
            "{error}"
        );
        let mut wrong = Vec::new();
        long(&mut wrong, 2);
        assert!(manifest_list::decode(&container(&schema, "null", 1, &wrong)).is_err());
    }
    for root in [
        r#"["null","int"]"#.to_owned(),
        format!(r#"["null","int",{FOREIGN_LIST}]"#),
    ] {
        assert!(
            manifest_list::decode(&container(&root, "null", 0, &[])).is_err(),
            "{root}"
        );
    }
}

#[test]
fn a_foreign_writers_schema_is_resolved_by_name() {
    let mut block = Vec::new();
    foreign_record(&mut block);
    foreign_record(&mut block);
    let file = container(FOREIGN_LIST, "null", 2, &block);
    let list = manifest_list::decode(&file).unwrap();
    assert_eq!(list.len(), 2);
    for m in list {
        assert_eq!((m.file_name.as_str(), m.file_size), ("manifest-x", 1234));
        assert_eq!(
            (m.num_added_files, m.num_deleted_files, m.schema_id.0),
            (2, 3, 4)
        );
        let stats = m.partition_stats;
        assert_eq!(stats.min_values.reader().i64(0).unwrap(), Some(2));
        assert_eq!(stats.max_values.reader().i64(0).unwrap(), Some(9));
        assert_eq!(stats.null_counts, Some(vec![Some(5), None, Some(7)]));
        assert_eq!(
            (m.min_bucket, m.max_bucket.map(|b| b.0), m.min_row_id),
            (None, Some(15), None)
        );
    }
}

#[test]
fn a_field_that_is_missing_or_of_another_type_is_named_before_any_record() {
    let error = manifest::decode(&plain_container(manifest_list::SCHEMA, 0, &[])).unwrap_err();
    assert_eq!(error.field(), Some("_KIND"), "{error}");
    assert!(matches!(error.problem(), Problem::Schema(_)), "{error}");
    let schema = manifest_list::SCHEMA.replace(
        r#"{"name":"_FILE_SIZE","type":"long"}"#,
        r#"{"name":"_FILE_SIZE","type":"string"}"#,
    );
    let error = manifest_list::decode(&plain_container(&schema, 0, &[])).unwrap_err();
    assert_eq!(
        error.to_string().split_once(": ").unwrap().1,
        "writer schema: long is needed, the file has string"
    );
    assert_eq!(error.field(), Some("_FILE_SIZE"));
}

#[test]
fn codecs_that_are_not_read_are_named() {
    for codec in ["bzip2", "xz", "none", ""] {
        let error =
            manifest_list::decode(&container(manifest_list::SCHEMA, codec, 0, &[])).unwrap_err();
        assert_eq!(*error.problem(), Problem::Codec(codec.to_owned()));
        assert!(
            error.to_string().contains("manifest.compression"),
            "{error}"
        );
    }
}

#[test]
fn an_error_in_a_record_names_block_record_and_field() {
    let mut block = Vec::new();
    foreign_record(&mut block);
    let start = block.len();
    foreign_record(&mut block);
    let name = block.iter().rposition(|b| *b == b'x').unwrap();
    block[name] = 0xff;
    let file = container(FOREIGN_LIST, "null", 2, &block);
    let error = manifest_list::decode(&file)
        .unwrap_err()
        .in_file("manifest-list-1");
    assert_eq!(error.field(), Some("_FILE_NAME"));
    let Some(Position::Block {
        record: 1,
        byte,
        block: at,
    }) = error.position()
    else {
        panic!("{error}")
    };
    assert_eq!(byte as usize, name);
    assert!(byte as usize > start && at as usize == header(FOREIGN_LIST, "null").len());
    assert!(
        error
            .to_string()
            .starts_with("manifest-list-1, block at byte "),
        "{error}"
    );
}

#[test]
fn versions_of_other_layouts_are_refused() {
    let mut block = Vec::new();
    foreign_record(&mut block);
    let at = block.len() - 4;
    assert_eq!(block[at], 4, "the version, 2 as zigzag");
    block[at] = 2;
    let error = manifest_list::decode(&plain_container(FOREIGN_LIST, 1, &block)).unwrap_err();
    assert_eq!(
        *error.problem(),
        Problem::Version {
            found: 1,
            supported: "2"
        }
    );
    assert_eq!(error.field(), Some("_VERSION"));
}

#[test]
fn counts_sync_markers_and_leftovers_are_checked() {
    let mut block = Vec::new();
    foreign_record(&mut block);
    let problem = |count, block: &[u8]| {
        let file = container(FOREIGN_LIST, "null", count, block);
        manifest_list::decode(&file).unwrap_err().problem().clone()
    };
    assert!(matches!(problem(2, &block), Problem::Truncated { .. }));
    assert!(matches!(problem(i64::MAX, &block), Problem::Length { .. }));
    assert!(matches!(problem(-1, &block), Problem::Length { .. }));
    assert_eq!(problem(0, &block), Problem::Leftover(block.len() as u64));
    let longer = [block.as_slice(), &[0; 3]].concat();
    assert_eq!(problem(1, &longer), Problem::Leftover(3));
    let mut file = container(FOREIGN_LIST, "null", 1, &block);
    let last = file.len() - 1;
    file[last] ^= 1;
    assert_eq!(
        *manifest_list::decode(&file).unwrap_err().problem(),
        Problem::Sync
    );
}

/// Names a few bytes that stand for very many.
fn assert_refused(what: &str, file: &[u8], bound: usize) {
    let start = std::time::Instant::now();
    let (result, peak) = peak_of(|| manifest_list::decode(file));
    let error = result.expect_err(what);
    assert!(
        peak < bound,
        "{what}: {peak} bytes for {}, {error}",
        file.len()
    );
    assert!(
        start.elapsed().as_secs() < 10,
        "{what}: {:?}",
        start.elapsed()
    );
}

#[test]
fn bombs_are_refused_before_they_grow() {
    let zeros = vec![0u8; 64 << 20];
    let zstd = zstd::bulk::compress(&zeros, 19).unwrap();
    assert_refused(
        "zstandard",
        &container(manifest_list::SCHEMA, "zstandard", 1, &zstd),
        8 << 20,
    );
    let mut deflate = Vec::new();
    let mut encoder =
        flate2::read::DeflateEncoder::new(zeros.as_slice(), flate2::Compression::best());
    std::io::Read::read_to_end(&mut encoder, &mut deflate).unwrap();
    let bound = 4 * ((1 << 20) + 256 * deflate.len());
    assert_refused(
        "deflate",
        &container(manifest_list::SCHEMA, "deflate", 1, &deflate),
        bound,
    );
    // Snappy tells its size first: any size.
    let mut snappy = vec![0xff, 0xff, 0xff, 0xff, 0x0f];
    snappy.extend_from_slice(&[0; 64]);
    assert_refused(
        "snappy",
        &container(manifest_list::SCHEMA, "snappy", 1, &snappy),
        1 << 20,
    );
}

#[test]
fn schemas_that_unfold_without_end_are_refused() {
    let mut names =
        String::from(r#"{"name":"z","type":{"type":"record","name":"r0","fields":[]}}"#);
    for i in 1..30 {
        let inner = i - 1;
        names += &format!(
            r#",{{"name":"f{i}","type":{{"type":"record","name":"r{i}","fields":[{{"name":"a","type":"r{inner}"}},{{"name":"b","type":"r{inner}"}}]}}}}"#
        );
    }
    let wide =
        manifest_list::SCHEMA.replacen(r#""fields":["#, &format!(r#""fields":[{names},"#), 1);
    assert_refused(
        "doubling records",
        &plain_container(&wide, 1, &[0; 64]),
        1 << 20,
    );
    let own = r#"{"name":"own","type":{"type":"record","name":"own","fields":[{"name":"own","type":"own"}]}}"#;
    let endless =
        manifest_list::SCHEMA.replacen(r#""fields":["#, &format!(r#""fields":[{own},"#), 1);
    assert_refused(
        "a record in itself",
        &plain_container(&endless, 1, &[0; 64]),
        1 << 20,
    );
    // Through a union it may end, so only values nested too deep are refused.
    let list = r#"{"name":"own","type":{"type":"record","name":"own","fields":[{"name":"next","type":["null","own"]}]}}"#;
    let nested =
        manifest_list::SCHEMA.replacen(r#""fields":["#, &format!(r#""fields":[{list},"#), 1);
    assert_refused("a chain", &plain_container(&nested, 1, &[2; 5000]), 1 << 20);
    let deep = format!(
        "{}\"int\"{}",
        r#"{"type":"array","items":"#.repeat(5000),
        "}".repeat(5000)
    );
    assert_refused(
        "a deep schema",
        &plain_container(&deep, 1, &[0; 64]),
        4 << 20,
    );
}

#[test]
fn a_count_of_billions_of_nothing_costs_nothing() {
    let nothing = r#"{"name":"n","type":{"type":"array","items":"null"}}"#;
    let schema =
        manifest_list::SCHEMA.replacen(r#""fields":["#, &format!(r#""fields":[{nothing},"#), 1);
    let mut block = Vec::new();
    for _ in 0..1000 {
        long(&mut block, i64::MAX);
    }
    assert_refused("nulls", &plain_container(&schema, 1, &block), 1 << 20);
    let mut block = Vec::new();
    long(&mut block, i64::MIN);
    long(&mut block, i64::MAX);
    assert_refused("a huge skip", &plain_container(&schema, 1, &block), 1 << 20);
}

#[test]
fn containers_without_schema_or_with_another_file_are_refused() {
    for file in [&b""[..], b"Obj", b"Obj\x01", b"PAR1xxxxxxxxxxxxxxxx", b"{}"] {
        assert!(manifest::decode(file).is_err());
        assert!(manifest_list::decode(file).is_err());
        assert!(index_manifest::decode(file).is_err());
        assert!(avro::blocks(file).is_err());
        assert!(avro::schema_text(file).is_err());
    }
    let error = manifest::decode(b"PAR1xxxxxxxxxxxxxxxx").unwrap_err();
    assert_eq!(
        (error.problem(), error.position()),
        (&Problem::Magic, Some(Position::Byte(0)))
    );
}
