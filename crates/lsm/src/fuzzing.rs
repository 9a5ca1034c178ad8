//! What the fuzz target runs, and `cargo test` on its seeds. No part of the product.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "checks report by a panic"
)]

use crate::{Circumstances, Compaction, CompactionOptions, Levels, Now, Section, sections};
use std::collections::BTreeSet;
use tidegate_model::{
    BinaryRow, DataField, DataFileMeta, Datum, KeyOrder, Level, LogicalType, SchemaId, SimpleStats,
    TableSchema,
};

/// Nine bytes each: level, how the keys are made, keys, size, sequence number.
fn metas(data: &[u8]) -> Vec<DataFileMeta> {
    let int = |v: i32| BinaryRow::from_datums(&[Some(Datum::Int(v))], &[LogicalType::Int]).unwrap();
    let key = |how: u8, bytes: [u8; 2]| match how {
        // What stands in a manifest may be no key at all.
        255 => BinaryRow::from_bytes(1, bytes.to_vec()).ok(),
        254 => BinaryRow::from_bytes(1, vec![bytes[0]; 16]).ok(),
        253 => BinaryRow::from_datums(&[None], &[LogicalType::Int]).ok(),
        _ => Some(int(i32::from(i16::from_be_bytes(bytes)))),
    };
    let meta = |(n, b): (usize, &[u8])| {
        Some(DataFileMeta {
            // Names come twice where the last bytes say so.
            file_name: format!("f{}", if b[8] == 255 { 0 } else { n }),
            file_size: i64::from(b[6]) * if b[1] == 252 { i64::MAX / 255 } else { 1000 },
            row_count: 1,
            min_key: key(b[1], [b[2], b[3]])?,
            max_key: key(b[1], [b[4], b[5]])?,
            key_stats: SimpleStats::empty(),
            value_stats: SimpleStats::empty(),
            min_sequence_number: i64::from(b[7]),
            max_sequence_number: i64::from(b[7]) + i64::from(b[8]),
            schema_id: SchemaId(0),
            level: Level(i32::from(b[0] as i8)),
            extra_files: vec![],
            creation_time_millis: None,
            delete_row_count: (b[8] % 3 > 0).then_some(i64::from(b[8] % 3)),
            embedded_index: None,
            file_source: None,
            value_stats_cols: None,
            external_path: None,
            first_row_id: None,
            write_cols: None,
            write_cols_sequences: None,
        })
    };
    data.chunks_exact(9).enumerate().filter_map(meta).collect()
}

fn below(order: &KeyOrder, a: &BinaryRow, b: &BinaryRow) -> bool {
    crate::run::compare(order, a, b).is_lt()
}

/// Sections hold each file once, lie behind each other, and their runs do not overlap.
fn whole(cut: &[Section], files: &[DataFileMeta], order: &KeyOrder) {
    let held: usize = cut.iter().map(|s| s.files().count()).sum();
    assert_eq!(held, files.len());
    for pair in cut.windows(2) {
        for (left, right) in pair[0]
            .files()
            .flat_map(|l| pair[1].files().map(move |r| (l, r)))
        {
            assert!(below(order, &left.max_key, &right.min_key));
        }
    }
    for run in cut.iter().flat_map(|s| &s.runs) {
        for pair in run.files.windows(2) {
            assert!(below(order, &pair[0].max_key, &pair[1].min_key));
        }
    }
}

/// Any files: an error, or sections and picks that are right.
pub fn files(data: &[u8]) {
    let [settings, data @ ..] = data else { return };
    let files = metas(&data[..data.len().min(9 * 40)]);
    let order = KeyOrder::new(vec![LogicalType::Int]);
    if let Ok(cut) = sections(files.clone(), &order) {
        whole(&cut, &files, &order);
    }
    let columns = vec![DataField::new("id", "INT".parse().unwrap())];
    let trigger = (1 + settings % 7).to_string();
    let options = [
        ("bucket", "1"),
        ("num-sorted-run.compaction-trigger", trigger.as_str()),
    ];
    let options = options.into_iter().collect();
    let table = TableSchema::create(columns, vec![], vec!["id".into()], options, None, 0).unwrap();
    let options = CompactionOptions::of(&table).unwrap();
    let Ok(levels) = Levels::new(files.clone(), order, options.num_levels) else {
        return;
    };
    assert_eq!(levels.all_files().count(), files.len());
    let circumstances = Circumstances {
        deletion_vectors: settings & 8 > 0,
        keep_deletes: settings & 16 > 0,
    };
    let now = Now {
        millis: 0,
        hour: settings >> 5,
    };
    // A file is what it is called and where it stands.
    let name = |f: &DataFileMeta| (f.level, f.file_name.clone());
    let names: BTreeSet<_> = files.iter().map(name).collect();
    let mut compaction = Compaction::new(options, circumstances, &levels);
    let picks = [
        compaction.pick(&levels, now),
        compaction.pick_full(&levels, now, |_| settings & 1 > 0),
    ];
    for pick in picks.into_iter().flatten() {
        assert!(pick.output > Level(0) && pick.output <= levels.max_level());
        assert!(!(pick.drop_deletes && circumstances.keep_deletes));
        let picked: BTreeSet<_> = pick.files.iter().map(name).collect();
        assert!(picked.len() == pick.files.len() && picked.is_subset(&names));
        // Whatever is left newer than something picked would be passed by it.
        let left = levels.runs();
        let left = left
            .iter()
            .filter(|run| !picked.contains(&name(&run.run.files[0])));
        for run in left {
            assert!(
                run.level > pick.output,
                "{:?} is passed by {:?}",
                run.level,
                pick.output
            );
        }
    }
}

#[cfg(test)]
tidegate_fuzz_support::seeds!(files: packed);
