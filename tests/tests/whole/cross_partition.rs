//! Tables whose keys may change their partition, by the real binary \[W-72].

use std::collections::BTreeMap;

use tidegate_tests::lab::Lab;

/// Columns `id`, `day`, `n`; key `id` alone, partitioned by `day`.
fn job(lab: &Lab, options: &str) {
    let columns = "id: BIGINT, day: STRING, n: BIGINT, op: STRING";
    let options = format!(", bucket: -1, dynamic-bucket.target-row-num: 7{options}");
    let sink = lab.sink_yaml(columns, "day", &options, ", interval: 10 ms");
    let sink = sink.replace("  partition-by:", "  primary-key: [id]\n  partition-by:");
    let source = "name: lab\nsource: { type: files, path: in/*.jsonl }\n";
    lab.write("job.yaml", format!("{source}{sink}"));
}

/// Which rows come, and what a table of them holds.
struct Moving {
    state: u64,
    content: BTreeMap<i64, (String, i64)>,
}

impl Moving {
    fn random(&mut self, below: u64) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state % below
    }

    fn file(
        &mut self,
        lab: &Lab,
        number: i64,
        take: impl Fn(&mut BTreeMap<i64, (String, i64)>, i64, String, i64),
    ) {
        let mut text = String::new();
        for row in 0..60 {
            let (id, day) = (self.random(40) as i64, format!("d{}", self.random(4)));
            let n = number * 1000 + row;
            text += &format!("{{\"id\":{id},\"day\":\"{day}\",\"n\":{n}}}\n");
            take(&mut self.content, id, day, n);
        }
        lab.write(&format!("in/{number:03}.jsonl"), text);
    }
}

#[track_caller]
fn holds(lab: &Lab, expected: &BTreeMap<i64, (String, i64)>) {
    let mut found = BTreeMap::new();
    for row in lab.rows() {
        let value = (
            row["day"].as_str().unwrap().to_owned(),
            row["n"].as_i64().unwrap(),
        );
        let before = found.insert(row["id"].as_i64().unwrap(), value);
        assert_eq!(
            before,
            None,
            "a key stands in two partitions: {row}, kept {:?}",
            lab.keep()
        );
    }
    assert_eq!(&found, expected, "kept {:?}", lab.keep());
    let report = lab.query(&["verify", "shop.orders"]).remove(0);
    assert_eq!(report["errors"], 0, "{report}");
}

#[test]
fn w_72_each_engine_treats_a_key_that_moves_as_java_does() {
    type Take = fn(&mut BTreeMap<i64, (String, i64)>, i64, String, i64);
    let deduplicate: Take = |content, id, day, n| {
        content.insert(id, (day, n));
    };
    let in_place: Take = |content, id, day, n| {
        content
            .entry(id)
            .and_modify(|row| row.1 = n)
            .or_insert((day, n));
    };
    let summed: Take = |content, id, day, n| {
        content
            .entry(id)
            .and_modify(|row| row.1 += n)
            .or_insert((day, n));
    };
    let first: Take = |content, id, day, n| {
        content.entry(id).or_insert((day, n));
    };
    for (options, take) in [
        ("", deduplicate),
        (", merge-engine: partial-update", in_place),
        (
            ", merge-engine: aggregation, fields.n.aggregate-function: sum",
            summed,
        ),
        (", merge-engine: first-row", first),
    ] {
        let lab = Lab::new();
        job(&lab, options);
        let mut rows = Moving {
            state: 9,
            content: BTreeMap::new(),
        };
        for number in 0..4 {
            rows.file(&lab, number, take);
            lab.run(&["--set", "parallelism=2"]).expect(0);
            holds(&lab, &rows.content);
        }
        let warehouse = lab.warehouse();
        lab.tidegate(&["compact", "shop.orders", "-w", &warehouse, "--full"])
            .expect(0);
        holds(&lab, &rows.content);
        rows.file(&lab, 9, take);
        lab.run(&[]).expect(0);
        holds(&lab, &rows.content);
    }
}

/// Keys far beyond the memory that their index may have.
#[test]
fn w_72_more_keys_than_memory_are_found_on_the_disk() {
    let lab = Lab::new();
    job(&lab, ", write-only: \"true\"");
    let mut expected = BTreeMap::new();
    for number in 0..2i64 {
        let mut text = String::new();
        for id in 0..30_000i64 {
            let (day, n) = (format!("d{}", (id + number) % 3), id * 10 + number);
            text += &format!("{{\"id\":{id},\"day\":\"{day}\",\"n\":{n}}}\n");
            expected.insert(id, (day, n));
        }
        lab.write(&format!("in/{number}.jsonl"), text);
        let set = [
            "--set",
            "memory=8 mb",
            "--set",
            "sink.options.dynamic-bucket.target-row-num=20000",
        ];
        lab.run(&set).expect(0);
    }
    holds(&lab, &expected);
}

#[test]
fn w_72_killed_anywhere_no_key_is_in_two_partitions_and_none_is_lost() {
    let places = [
        "before-checkpoint",
        "prepared",
        "recorded",
        "before-publish",
        "published",
        "answered",
        "notified",
        "row-taken",
    ];
    let mut kills = 0;
    for pass in 1..=4 {
        let lab = Lab::new();
        job(&lab, ", num-sorted-run.compaction-trigger: 2");
        let mut rows = Moving {
            state: 20 + pass,
            content: BTreeMap::new(),
        };
        for (number, place) in (0..).zip(places) {
            rows.file(&lab, number, |content, id, day, n| {
                content.insert(id, (day, n));
            });
            let nth = if place == "row-taken" { pass * 12 } else { 1 };
            kills += i32::from(lab.run_to(&format!("{place}:{nth}")).signal == Some(9));
            lab.run(&[]).expect(0);
            holds(&lab, &rows.content);
        }
    }
    assert!(kills >= 30, "{kills} kills");
    println!("{kills} kills");
}
