//! Damage to what manifests say of the keys in a file, and to the order of its rows.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::Arc;

use arrow::array::{RecordBatch, UInt32Array};
use arrow::compute::{concat_batches, take_record_batch};
use futures::TryStreamExt;
use tidegate::datafile::{FileEncoder, FilePlan, key_value_fields};
use tidegate::model::{BinaryRow, DataFileMeta, Datum, Level, LogicalType, Options, TableSchema};
use tidegate::scan::{At, ScanPlan, TableReader};
use tidegate::storage::Store;
use tidegate::verify::{Kind, Severity};

use crate::Hand;

/// Four files on level 0 of one bucket, deletes among their rows.
const TABLE: &str = "pk_levels_only_zero";

fn edit(hand: &Hand, id: i64, edit: impl FnOnce(&mut DataFileMeta)) {
    hand.edit_delta(id, |entries| {
        assert_eq!(entries.len(), 1);
        edit(&mut entries[0].file);
    });
}

fn key(value: i32) -> BinaryRow {
    BinaryRow::from_datums(&[Some(Datum::Int(value))], &[LogicalType::Int]).unwrap()
}

/// Writes the file of a snapshot with its rows from last to first.
async fn reverse(hand: &Hand, id: i64) {
    let store = Store::open(hand.table().to_str().unwrap(), &BTreeMap::new()).unwrap();
    let reader = TableReader::new(store);
    let name = hand.entries(&hand.delta(id).file_name)[0]
        .file
        .file_name
        .clone();
    let listing = reader.files(&At::Latest).await.unwrap();
    let split = listing.splits.iter().find(|s| s.file.file_name == name);
    let split = split.unwrap().clone();
    let fields = key_value_fields(&listing.schema.fields);
    let written = TableSchema {
        fields: fields.clone(),
        ..listing.schema.as_ref().clone()
    };
    let path = hand.at(&split.path);
    let plan = ScanPlan::of_file(reader, split, Arc::new(written), fields.clone());
    let batches: Vec<RecordBatch> = plan.read().unwrap().try_collect().await.unwrap();
    let rows = concat_batches(&batches[0].schema(), &batches).unwrap();
    let last_first = UInt32Array::from_iter_values((0..rows.num_rows() as u32).rev());
    let rows = take_record_batch(&rows, &last_first).unwrap();
    let file_plan = FilePlan::of_fields(&fields, &Options::new()).unwrap();
    let mut encoder = FileEncoder::new(&file_plan).unwrap();
    encoder.write(&rows).unwrap();
    let bytes = encoder.finish().unwrap().last_bytes;
    fs::write(path, &bytes).unwrap();
    edit(hand, id, |file| file.file_size = bytes.len() as i64);
}

#[tokio::test]
async fn what_manifests_say_of_keys_is_held_against_the_rows() {
    let whole = Hand::golden(TABLE).verify(u64::MAX).await;
    assert_eq!(
        whole.errors() + whole.warnings(),
        0,
        "{:#?}",
        whole.findings
    );
    type Damage = (&'static str, Kind, fn(&Hand));
    let damages: &[Damage] = &[
        ("another first key", Kind::Keys, |h| {
            edit(h, 1, |file| file.min_key = key(-5));
        }),
        ("another last key", Kind::Keys, |h| {
            edit(h, 2, |file| file.max_key = key(1_000_000));
        }),
        ("sequence numbers below its rows'", Kind::Statistics, |h| {
            edit(h, 3, |file| {
                file.max_sequence_number = file.min_sequence_number - 1
            });
        }),
        ("deletes that are not counted", Kind::Count, |h| {
            for id in 1..=4 {
                edit(h, id, |file| {
                    file.delete_row_count = file.delete_row_count.map(|n| n + 1);
                });
            }
        }),
        ("overlapping files on one level", Kind::Levels, |h| {
            for id in [1, 2] {
                edit(h, id, |file| file.level = Level(3));
            }
        }),
        ("a key that does not decode", Kind::Keys, |h| {
            edit(h, 1, |file| file.min_key = BinaryRow::empty());
        }),
    ];
    for (what, kind, damage) in damages {
        let hand = Hand::golden(TABLE);
        damage(&hand);
        expect(&hand, what, *kind).await;
    }
    let hand = Hand::golden(TABLE);
    reverse(&hand, 1).await;
    expect(&hand, "rows from last to first", Kind::Keys).await;
}

async fn expect(hand: &Hand, what: &str, kind: Kind) {
    let report = hand.verify(u64::MAX).await;
    let errors: BTreeSet<Kind> = report
        .findings
        .iter()
        .filter(|f| f.severity == Severity::Error)
        .map(|f| f.kind)
        .collect();
    assert_eq!(errors, [kind].into(), "{what}: {:#?}", report.findings);
}
