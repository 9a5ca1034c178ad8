//! Wrong input of every kind ends in a clear error with a documented exit code, and nothing is lost.

use std::fs;
use tidegate_tests::lab::{Generator, Lab, TABLE};

const COLUMNS: &str = "id: BIGINT NOT NULL, v: STRING";

fn hundred(lab: &Lab) {
    lab.generator(&Generator {
        rows: Some(100),
        ..Generator::default()
    });
}

#[test]
fn wrong_command_line_is_2() {
    let lab = Lab::new();
    lab.tidegate(&["run"]).expect(2);
    lab.tidegate(&["run", "job.yaml", "--no-such-flag"])
        .expect(2);
    lab.tidegate(&["no-such-verb"]).expect(2);
}

#[test]
fn wrong_job_files_are_3_with_line_and_the_nearest_key() {
    let lab = Lab::new();
    lab.run(&[]).expect(3).says(&["job.yaml"]);
    hundred(&lab);
    let good = fs::read_to_string(lab.path("job.yaml")).unwrap();
    for (from, to, says) in [
        (
            "table: shop.orders",
            "tabel: shop.orders",
            "did you mean `table`",
        ),
        ("table: shop.orders", "table: orders", "job.yaml:"),
        (
            "type: generator",
            "type: generater",
            "did you mean `generator`",
        ),
        ("id: BIGINT NOT NULL", "id: BIGINTEGER", "BIGINTEGER"),
        (
            "partition-by: []",
            "partition-by: [dtt]",
            "did you mean `dt`",
        ),
        ("bucket: -1", "bucket: many", "bucket"),
        ("name: lab", "name: [lab", "job.yaml:"),
    ] {
        assert!(good.contains(from), "{from}");
        lab.write("job.yaml", good.replace(from, to));
        lab.run(&[]).expect(3).says(&[says]);
    }
    assert!(!lab.path("warehouse/shop.db/orders/snapshot").exists());
}

#[test]
fn tables_snapshots_and_jobs_that_are_not_there_are_4() {
    let lab = Lab::new();
    hundred(&lab);
    lab.run(&[]).expect(0);
    let w = lab.warehouse();
    lab.tidegate(&["table", "read", "shop.nothing", "-w", &w])
        .expect(4);
    lab.tidegate(&["table", "read", "nothing.orders", "-w", &w])
        .expect(4);
    lab.tidegate(&["table", "read", TABLE, "--snapshot", "99", "-w", &w])
        .expect(4);
    lab.tidegate(&["job", "status", TABLE, "nobody", "-w", &w])
        .expect(4);
}

#[test]
fn a_bad_row_is_final_and_names_file_line_column_and_value() {
    let lab = Lab::new();
    lab.write("in/a.csv", "id,v\n1,a\nx2,b\n3,c\n");
    lab.files("in/*.csv", "", COLUMNS, "", None);
    lab.run(&[]).expect(1).says(&["a.csv", "3", "id", "x2"]);
    assert_eq!(lab.visible(), 0);
    // Mended, the same command goes on.
    lab.write("in/a.csv", "id,v\n1,a\n2,b\n3,c\n");
    lab.run(&[]).expect(0);
    lab.whole(3);
}

#[test]
fn an_unknown_header_is_an_error() {
    let lab = Lab::new();
    lab.write("in/a.csv", "id,w\n1,a\n");
    lab.files("in/*.csv", "", COLUMNS, "", None);
    let done = lab.run(&[]).says(&["a.csv", "w"]);
    assert!(matches!(done.code, Some(1 | 3)), "{done:?}");
}

#[test]
fn a_file_that_was_replaced_since_is_noticed_and_refused() {
    let lab = Lab::new();
    lab.write("in/a.csv", "id,v\n1,a\n2,b\n");
    lab.files("in/*.csv", "", COLUMNS, "", None);
    lab.run(&[]).expect(0);
    lab.write("in/a.csv", "id,v\n9,z\n2,b\n3,c\n");
    let done = lab.run(&[]).says(&["a.csv"]);
    assert!(!matches!(done.code, Some(0) | None), "{done:?}");
    assert_eq!(lab.ids(), [1, 2]);
}

#[test]
fn corrupt_metadata_names_the_file() {
    let lab = Lab::new();
    hundred(&lab);
    lab.run(&[]).expect(0);
    let table = lab.table_dir();
    let manifest = fs::read_dir(table.join("manifest"))
        .unwrap()
        .map(|e| e.unwrap().path())
        .find(|p| {
            p.file_name()
                .unwrap()
                .to_string_lossy()
                .starts_with("manifest-tg")
        })
        .unwrap();
    let whole = fs::read(&manifest).unwrap();
    fs::write(&manifest, &whole[..whole.len() / 2]).unwrap();
    let name = manifest.file_name().unwrap().to_string_lossy().into_owned();
    lab.tidegate(&["table", "read", TABLE, "-w", &lab.warehouse()])
        .expect(1)
        .says(&[&name]);
    lab.tidegate(&["verify", TABLE, "-w", &lab.warehouse()])
        .expect(3);
    fs::write(&manifest, whole).unwrap();
    fs::write(table.join("snapshot/snapshot-1"), "{").unwrap();
    lab.tidegate(&["table", "read", TABLE, "-w", &lab.warehouse()])
        .expect(1)
        .says(&["snapshot-1"]);
}

#[test]
fn an_unreadable_checkpoint_never_falls_back_silently() {
    let lab = Lab::new();
    lab.generator(&Generator {
        rows: Some(1000),
        rate: Some(2000),
        interval: Some("100 ms"),
        ..Generator::default()
    });
    lab.run_to("notified:3").killed();
    let records = fs::read_dir(lab.path("checkpoints/lab"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let newest = records.join("checkpoint-3");
    let mut bytes = fs::read(&newest).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0xff;
    fs::write(&newest, &bytes).unwrap();
    let done = lab.run(&[]).says(&["checkpoint-3"]);
    assert!(matches!(done.code, Some(1 | 6)), "{done:?}");
    // The way out is to name an older one; the guard then says what the table has beyond it.
    lab.run(&[
        "--from-checkpoint",
        "2",
        "--on-mismatch",
        "continue-from-table",
        "-y",
    ])
    .expect(0);
    lab.whole(1000);
}

#[test]
fn lost_checkpoints_are_6_and_name_the_ways_out() {
    let lab = Lab::new();
    lab.generator(&Generator {
        rows: Some(1000),
        rate: Some(2000),
        interval: Some("100 ms"),
        ..Generator::default()
    });
    lab.run_to("notified:3").killed();
    fs::remove_dir_all(lab.path("checkpoints")).unwrap();
    lab.run(&[])
        .expect(6)
        .says(&["looked", "checkpoints", "continue-from-table"]);
    lab.run(&["--on-mismatch", "continue-from-table", "-y"])
        .expect(0);
    lab.whole(1000);
}

#[test]
fn a_full_disk_loses_nothing() {
    // A file system of 2 MB needs root; without, there is nothing to show.
    let lab = Lab::new();
    let disk = lab.path("warehouse");
    fs::create_dir_all(&disk).unwrap();
    let mounted = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=200k", "tmpfs"])
        .arg(&disk)
        .output()
        .is_ok_and(|o| o.status.success());
    if !mounted {
        println!("not shown here: mounting a small file system was refused");
        return;
    }
    struct Mounted<'a>(&'a std::path::Path);
    impl Drop for Mounted<'_> {
        fn drop(&mut self) {
            let _gone = std::process::Command::new("umount").arg(self.0).status();
        }
    }
    let mounted = Mounted(&disk);
    lab.generator(&Generator {
        rows: Some(60_000),
        rate: Some(20_000),
        interval: Some("100 ms"),
        more: "restart: { strategy: none }\n",
        ..Generator::default()
    });
    lab.run(&[]).expect(1).says(&["space"]);
    let seen = lab.ids();
    assert_eq!(
        seen,
        (1..=seen.len() as i64).collect::<Vec<_>>(),
        "a prefix is visible, whole"
    );
    // Room again: the same command goes on.
    let status = std::process::Command::new("mount")
        .args(["-o", "remount,size=100m"])
        .arg(&disk)
        .status()
        .unwrap();
    assert!(status.success());
    lab.run(&[]).expect(0);
    lab.whole(60_000);
    drop(mounted);
}

#[test]
fn a_file_size_limit_is_an_error_and_loses_nothing() {
    // Files of at most 64 KiB: what a full disk looks like to a user without root.
    let lab = Lab::new();
    lab.generator(&Generator {
        rows: Some(100_000),
        more: "restart: { strategy: none }\n",
        ..Generator::default()
    });
    let done = lab
        .spawn_under("trap '' XFSZ; ulimit -f 64; exec", &["run", "job.yaml"])
        .wait()
        .expect(1);
    assert!(done.stderr.contains("File too large"), "{}", done.stderr);
    assert_eq!(lab.visible(), 0);
    lab.run(&[]).expect(0);
    lab.whole(100_000);
}

#[test]
fn a_place_that_cannot_be_written_is_1_and_named() {
    let lab = Lab::new();
    // A file where a folder should be refuses root as well.
    lab.write("warehouse/shop.db", "in the way");
    hundred(&lab);
    let done = lab
        .run(&["--set", "restart.strategy=none"])
        .says(&["shop.db"]);
    assert!(matches!(done.code, Some(1 | 3)), "{done:?}");
    let lab = Lab::new();
    lab.write("checkpoints", "in the way");
    hundred(&lab);
    let done = lab
        .run(&["--set", "restart.strategy=none"])
        .says(&["checkpoints"]);
    assert!(matches!(done.code, Some(1 | 3)), "{done:?}");
    assert_eq!(lab.visible(), 0);
}

#[test]
fn a_store_that_is_gone_is_1_within_bounded_time() {
    let lab = Lab::new();
    lab.generator(&Generator {
        rows: Some(10),
        ..Generator::default()
    });
    let done = lab.run(&[
        "--set",
        "sink.warehouse=s3://lake/warehouse",
        "--set",
        "sink.store.s3.endpoint=http://127.0.0.1:9",
        "--set",
        "sink.store.s3.access-key=a",
        "--set",
        "sink.store.s3.secret-key=b",
        "--set",
        "restart.strategy=none",
    ]);
    done.expect(1).says(&["127.0.0.1:9"]);
}

#[test]
fn signals_end_with_a_clean_checkpoint() {
    for (signal, code) in [("TERM", 143), ("INT", 130)] {
        let lab = Lab::new();
        lab.generator(&Generator {
            rate: Some(500),
            interval: Some("1 h"),
            ..Generator::default()
        });
        let probe = lab.path("probe");
        let text = probe.display().to_string();
        // An hour's checkpoint never comes by itself; only the signal takes one.
        let run = lab.spawn(&["run", "job.yaml"], &[("TIDEGATE_PROBE_FILE", &text)]);
        tidegate_tests::lab::wait_until("running", || run.stderr().contains("running"));
        let begun = std::time::Instant::now();
        tidegate_tests::lab::wait_until("some rows", || begun.elapsed().as_millis() > 300);
        run.signal(signal);
        run.wait().expect(code);
        let rows = lab.ids().len() as i64;
        assert!(rows > 0);
        lab.whole(rows);
        lab.run(&["--set", "source.rows=1000", "--set", "source.rate="])
            .expect(0);
        lab.whole(1000);
    }
}
