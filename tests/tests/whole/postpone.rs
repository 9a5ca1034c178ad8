//! Tables whose rows wait for their bucket, by the real binary: written, distributed, killed at each named place.

use std::collections::BTreeMap;

use tidegate_tests::lab::{Done, Lab};

use tidegate_tests::keyed::{Changes, job, whole};

/// Places that both a run and a compaction pass.
const PLACES: [&str; 4] = ["prepared", "before-publish", "published", "answered"];

const ARGUMENTS: [&str; 3] = ["compact", "shop.orders", "-w"];

/// Compacts; how many files were distributed.
#[track_caller]
fn compact(lab: &Lab) -> i64 {
    let report = lab.query(&["compact", "shop.orders"]).remove(0);
    report["files_distributed"].as_i64().unwrap()
}

/// Killed where it passes the place for the n-th time.
fn compact_to(lab: &Lab, place: &str) -> Done {
    let warehouse = lab.warehouse();
    let arguments = [&ARGUMENTS[..], &[warehouse.as_str()]].concat();
    lab.spawn(&arguments, &[("TIDEGATE_STOP_AT", place)]).wait()
}

/// Files of the postpone bucket, those included whose rows are distributed.
fn postponed(lab: &Lab) -> Vec<String> {
    let folder = std::fs::read_dir(lab.table_dir().join("bucket-postpone")).unwrap();
    let names = folder.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.collect()
}

#[test]
fn w_73_rows_wait_until_a_compaction_distributes_them() {
    let lab = Lab::new();
    job(&lab, ", bucket: -2, postpone.default-bucket-num: 2");
    let mut changes = Changes::new(3);
    for round in 0..3 {
        for _file in 0..3 {
            changes.file(&lab, "in", 50);
            let before = if lab.table_dir().exists() {
                lab.rows()
            } else {
                Vec::new()
            };
            lab.run(&["--set", "parallelism=2"]).expect(0);
            assert_eq!(lab.rows(), before, "nobody sees rows that wait");
        }
        let files = postponed(&lab);
        assert!(files.len() >= 3 * (round + 1), "{files:?}");
        for file in &files {
            assert!(file.starts_with("data-tg"), "{file}");
            assert!(
                file.contains("-u-") && file.contains("-s-") && file.contains("-w-"),
                "{file}"
            );
        }
        assert!(
            files.iter().any(|f| f.contains("-s-1-")),
            "two writers: {files:?}"
        );
        assert!(compact(&lab) >= 3);
        assert_eq!(compact(&lab), 0, "nothing waits any more");
        whole(&lab, &changes.content);
        let buckets = lab
            .data_files()
            .into_iter()
            .map(|f| f["bucket"].as_i64().unwrap());
        assert_eq!(
            buckets.collect::<std::collections::BTreeSet<_>>(),
            [0, 1].into()
        );
    }
}

/// Columns `id` and `n`, key `id`, `n` summed: a row that counts twice is seen.
fn summing(lab: &Lab) {
    let engine = ", merge-engine: aggregation, fields.n.aggregate-function: sum";
    let options = format!(", bucket: -2, num-sorted-run.compaction-trigger: 2{engine}");
    let sink = lab.sink_yaml("id: BIGINT, n: BIGINT", "", &options, "");
    let sink = sink.replace("  partition-by: []\n", "  primary-key: [id]\n");
    let source = "name: lab\nsource: { type: files, path: in/*.jsonl }\n";
    lab.write("job.yaml", format!("{source}{sink}"));
}

/// Rows distributed twice would count twice, and rows forgotten not at all.
#[test]
fn w_73_a_compaction_killed_anywhere_distributes_each_row_once() {
    let lab = Lab::new();
    summing(&lab);
    let (mut sums, mut kills, mut number) = (BTreeMap::<i64, i64>::new(), 0, 0i64);
    for round in 0..3 {
        for place in PLACES {
            for of_run in [false, true] {
                for _ in 0..2 {
                    number += 1;
                    let mut text = String::new();
                    for row in 0..20 {
                        let (id, n) = ((number * 7 + row) % 30, number * 100 + row);
                        text += &format!("{{\"id\":{id},\"n\":{n}}}\n");
                        *sums.entry(id).or_default() += n;
                    }
                    lab.write(&format!("in/{number:03}.jsonl"), text);
                    let nth = format!("{place}:{}", 1 + round % 2);
                    if of_run {
                        kills += i32::from(lab.run_to(&format!("{place}:1")).signal == Some(9));
                    }
                    lab.run(&[]).expect(0);
                    if !of_run {
                        kills += i32::from(compact_to(&lab, &nth).signal == Some(9));
                    }
                }
                compact(&lab);
                let rows = lab.rows().into_iter();
                let rows = rows.map(|r| (r["id"].as_i64().unwrap(), r["n"].as_i64().unwrap()));
                let rows: BTreeMap<_, _> = rows.collect();
                assert_eq!(rows, sums, "{place}, kept {:?}", lab.keep());
                assert_eq!(compact(&lab), 0, "nothing waits any more");
            }
        }
    }
    assert!(kills >= 30, "{kills} kills");
    let report = lab.query(&["verify", "shop.orders"]).remove(0);
    assert_eq!(report["errors"], 0, "{report}");
    println!("{kills} kills");
}

#[test]
fn w_73_two_compactions_at_once_distribute_each_row_once() {
    let lab = Lab::new();
    summing(&lab);
    for number in 0..6 {
        lab.write(
            &format!("in/{number}.jsonl"),
            "{\"id\":1,\"n\":1}\n".repeat(100),
        );
        lab.run(&[]).expect(0);
        let warehouse = lab.warehouse();
        let both: Vec<_> = ["one", "two"]
            .iter()
            .map(|job| {
                let arguments = [&ARGUMENTS[..], &[warehouse.as_str(), "--job", job]].concat();
                lab.spawn(&arguments, &[])
            })
            .collect();
        for one in both {
            one.wait().expect(0);
        }
        assert_eq!(
            lab.rows().first().map(|r| r["n"].clone()),
            Some((100 * (number + 1)).into())
        );
    }
}

/// No epoch is claimed, no snapshot is made.
#[test]
fn a_compaction_with_nothing_to_do_leaves_no_trace() {
    let lab = Lab::new();
    job(&lab, ", bucket: 2");
    Changes::new(5).file(&lab, "in", 10);
    lab.run(&[]).expect(0);
    compact(&lab);
    let before = lab.snapshots().len();
    let jobs = lab.table_dir().join("tidegate/jobs/compact");
    let epochs = || std::fs::read_dir(&jobs).map_or(0, Iterator::count);
    let registered = epochs();
    for _ in 0..3 {
        compact(&lab);
    }
    assert_eq!((lab.snapshots().len(), epochs()), (before, registered));
}
