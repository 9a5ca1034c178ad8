//! Somebody else changes the table under a running job: another number of buckets, another table of
//! the same name.

use std::fs;

use serde_json::Value;
use tidegate_tests::judge::differences;
use tidegate_tests::lab::{Generator, Lab, TABLE, wait_until};

fn rolling(bucket: i32) -> Lab {
    let lab = Lab::new();
    lab.generator(&Generator {
        rate: Some(500),
        interval: Some("100 ms"),
        bucket,
        more: "restart: { strategy: none }\n",
        ..Generator::default()
    });
    lab
}

/// What Java's `ALTER TABLE … SET ('bucket' = '4')` leaves: a schema with the next id.
fn set_buckets(lab: &Lab, buckets: &str) {
    let schemas = lab.table_dir().join("schema");
    let text = fs::read_to_string(schemas.join("schema-0")).unwrap();
    let mut schema: Value = serde_json::from_str(&text).unwrap();
    schema["id"] = 1.into();
    schema["options"]["bucket"] = buckets.into();
    // Whole at once, as Java's is.
    let new = lab.write("schema-1", serde_json::to_vec_pretty(&schema).unwrap());
    fs::rename(new, schemas.join("schema-1")).unwrap();
}

#[test]
fn a_bucket_count_altered_under_a_running_job_binds_the_next_start_and_no_row_is_misplaced() {
    let lab = rolling(2);
    let mut job = lab.start_job(&[]);
    wait_until("commits", || lab.visible() >= 2);
    set_buckets(&lab, "4");
    let at = lab.visible();
    // As Java's writers do, the run keeps to the schema that it opened: its files say that there are
    // two buckets, and they are where two buckets put them.
    wait_until("more commits", || {
        assert!(!job.ended(), "{}", job.stderr());
        lab.visible() > at + 3
    });
    job.signal("TERM");
    job.wait().expect(143);
    let before = lab.ids();
    assert_eq!(differences(&before, before.len() as i64), "");
    assert!(
        lab.data_files()
            .iter()
            .all(|f| f["schema_id"] == 0 && f["bucket"].as_i64() < Some(2))
    );
    lab.query(&["verify", TABLE]);
    // Neither the old declaration nor the new one goes on where the other number is.
    lab.run(&[]).expect(3).says(&["'bucket'", "(2)", "(4)"]);
    lab.run(&["--set", "sink.options.bucket=4"])
        .expect(5)
        .says(&["bucket"]);
    assert_eq!(lab.ids(), before);
}

#[test]
fn a_partition_that_has_another_number_of_buckets_by_now_refuses_the_commit() {
    let lab = Lab::new();
    let columns = "id: BIGINT NOT NULL, dt: STRING";
    let watch = ", watch: true";
    lab.write("in/a.csv", "id,dt\n1,a\n2,a\n");
    lab.files("in/*.csv", watch, columns, "dt", Some("100 ms"));
    let buckets = |n: u32| format!("\"null\", bucket: {n}, bucket-key: id ");
    let text = fs::read_to_string(lab.path("job.yaml")).unwrap();
    assert!(text.contains("\"null\" "), "{text}");
    let two = text.replace("\"null\" ", &buckets(2)) + "restart: { strategy: none }\n";
    let four = text
        .replace("\"null\" ", &buckets(4))
        .replace("name: lab", "name: other")
        .replace("in/*.csv", "other/*.csv")
        .replace("watch: true", "watch: false");
    lab.write("job.yaml", two);
    lab.write("other.yaml", four);
    let job = lab.start_job(&[]);
    wait_until("a commit", || lab.visible() == 1);
    set_buckets(&lab, "4");
    // A new partition has four buckets, whoever opens the table now.
    lab.write("other/b.csv", "id,dt\n3,b\n4,b\n5,b\n6,b\n");
    lab.tidegate(&["run", "other.yaml", "--new-job"]).expect(0);
    // The old one is still open with two.
    lab.write("in/b.csv", "id,dt\n7,b\n8,b\n9,b\n");
    job.wait().expect(5).says(&["bucket"]);
    assert_eq!(lab.ids(), [1, 2, 3, 4, 5, 6]);
    lab.query(&["verify", TABLE]);
    // Nor do rows of the new number come into the partition of the old one.
    lab.write("other/a.csv", "id,dt\n10,a\n11,a\n");
    lab.tidegate(&[
        "run",
        "other.yaml",
        "--new-job",
        "--set",
        "restart.strategy=none",
    ])
    .expect(5)
    .says(&["bucket"]);
    assert_eq!(lab.ids(), [1, 2, 3, 4, 5, 6]);
}

#[test]
fn a_table_dropped_and_created_anew_under_a_running_job_gets_none_of_its_rows() {
    for bucket in [-1, 2] {
        // The new table is empty when the old job comes again, or has more snapshots than the old.
        for (rows, paused) in [(0, false), (500, true)] {
            let lab = rolling(bucket);
            let job = lab.start_job(&[]);
            wait_until("commits", || lab.visible() >= 2);
            if paused {
                job.signal("STOP");
            }
            let at = lab.visible();
            let warehouse = lab.warehouse();
            let dropped = [
                "table",
                "drop",
                TABLE,
                "-y",
                "--even-if-registered",
                "-w",
                &warehouse,
            ];
            lab.tidegate(&dropped).expect(0);
            let text = fs::read_to_string(lab.path("job.yaml")).unwrap();
            let other = text
                .replace("name: lab", "name: other")
                .replace("start: 1", "start: 100001");
            lab.write("other.yaml", other);
            let set = format!("source.rows={rows}");
            let new = ["run", "other.yaml", "--new-job", "--set", &set];
            if paused {
                lab.tidegate(&new).expect(0);
                assert!(lab.visible() > at, "{} {at}", lab.visible());
                job.signal("CONT");
            }
            let done = job.wait();
            match paused {
                true => drop(done.expect(6).says(&["is not any more"])),
                // The drop may come in the middle of a commit, which then misses what it reads.
                false => assert!(
                    done.code == Some(6) || done.stderr.contains(" is missing "),
                    "{done:?}"
                ),
            }
            if !paused {
                lab.tidegate(&new).expect(0);
            }
            // Nor does the next start of the old job; it says what it misses.
            let again = lab.run(&[]).expect(6).stderr;
            let said = ["no longer has it", "dropped or replaced"];
            assert!(said.iter().any(|text| again.contains(text)), "{again}");
            if rows > 0 {
                let ids = lab.ids();
                let theirs: Vec<i64> = (100_001..=100_000 + rows).collect();
                assert_eq!(ids, theirs, "{bucket}");
                lab.query(&["verify", TABLE]);
            }
        }
    }
}
