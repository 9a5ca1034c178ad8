//! Wrong input of every kind ends in a clear error with a documented exit code, and nothing is lost.

use std::fs;
use tidegate_tests::lab::{Generator, Lab, TABLE, wait_until};

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
    lab.run_slowly_to("notified:3", 200).killed();
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
    assert_eq!(lab.ids(), (1..=1000).collect::<Vec<_>>());
    lab.query(&["verify", TABLE]);
    // Files that the unreadable record may hold stay as long as it is there, and go with the next run.
    let _retention_was_faster = fs::remove_file(&newest);
    lab.run(&["--set", "source.rows=1100"]).expect(0);
    lab.whole(1100);
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
    lab.run_slowly_to("notified:3", 200).killed();
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

/// The state and the reason of the newest run, as `job status` shows them.
fn status(lab: &Lab) -> (String, String) {
    let found = lab.query(&["job", "status", TABLE, "lab"]);
    let runs = found[0]["runs"].as_array().unwrap();
    let text = |key: &str| runs[runs.len() - 1][key].as_str().unwrap_or("").to_owned();
    (text("state"), text("reason"))
}

#[test]
fn a_run_that_failed_is_marked_with_its_reason_and_does_not_hold_back_a_drop() {
    let lab = Lab::new();
    lab.write("in/a.csv", "id,v\n1,a\nx2,b\n");
    lab.files("in/*.csv", "", COLUMNS, "", None);
    lab.run(&[]).expect(1);
    let (state, reason) = status(&lab);
    assert_eq!(state, "failed");
    assert!(
        reason.contains("a.csv") && reason.contains("x2"),
        "{reason}"
    );
    assert_eq!(lab.query(&["job", "list", TABLE])[0]["state"], "failed");
    let w = lab.warehouse();
    lab.tidegate(&["table", "drop", TABLE, "-w", &w, "--dry-run"])
        .expect(0);
    lab.tidegate(&["table", "drop", TABLE, "-w", &w, "-y"])
        .expect(0);
    // A killed one may still be there for all that anybody knows.
    hundred(&lab);
    lab.run_to("prepared").killed();
    assert_eq!(status(&lab).0, "running or crashed");
    lab.tidegate(&["table", "drop", TABLE, "-w", &w, "-y"])
        .expect(3)
        .says(&["job `lab`", "no end mark", "job retire"]);
    lab.tidegate(&["job", "retire", TABLE, "lab", "-w", &w, "-y"])
        .expect(0);
    lab.tidegate(&["table", "drop", TABLE, "-w", &w, "-y"])
        .expect(0);
}

#[test]
fn a_misspelt_table_option_is_refused_and_an_unknown_one_kept_with_a_warning() {
    let lab = Lab::new();
    hundred(&lab);
    let w = lab.warehouse();
    let create = ["table", "create", TABLE, "-w", &w, "--column", "id BIGINT"];
    let with = |more: &[&str]| lab.tidegate(&[&create[..], more].concat());
    lab.run(&["--set", "sink.options.bukcet=4"])
        .expect(3)
        .says(&["bukcet", "did you mean `bucket`", "allow-unknown-options"]);
    with(&["--option", "bukcet=4"]).expect(3).says(&[
        "bukcet",
        "did you mean `bucket`",
        "--allow-unknown-options",
    ]);
    assert!(!lab.path("warehouse").exists(), "nothing was made");
    with(&[
        "--option",
        "bukcet=4",
        "--option",
        "owner.team=x",
        "--allow-unknown-options",
    ])
    .expect(0);
    let kept = lab.query(&["table", "options", TABLE]);
    let kept: Vec<_> = kept.iter().map(|o| o["key"].as_str().unwrap()).collect();
    assert!(
        kept.contains(&"bukcet") && kept.contains(&"owner.team"),
        "{kept:?}"
    );
    lab.tidegate(&["table", "drop", TABLE, "-w", &w, "-y"])
        .expect(0);
    lab.run(&["--set", "sink.options.owner.team=x"])
        .expect(0)
        .says(&["warning", "owner.team", "--set"]);
    let kept = lab.query(&["table", "options", TABLE]);
    assert!(kept.iter().any(|o| o["key"] == "owner.team"), "{kept:?}");
    let quiet = lab
        .run(&[
            "--set",
            "sink.options.owner.team=x",
            "--set",
            "sink.allow-unknown-options=true",
        ])
        .expect(0);
    assert!(!quiet.stderr.contains("warning"), "{}", quiet.stderr);
}

#[test]
fn the_place_of_a_table_is_no_option_and_types_that_cannot_be_written_are_named() {
    let lab = Lab::new();
    hundred(&lab);
    let w = lab.warehouse();
    lab.run(&["--set", "sink.options.path=/elsewhere"])
        .expect(3)
        .says(&["`path`", "sink.warehouse"]);
    let create = ["table", "create", TABLE, "-w", &w, "--column"];
    let with = |more: &[&str]| lab.tidegate(&[&create[..], more].concat());
    with(&["id BIGINT", "--option", "path=/elsewhere"])
        .expect(3)
        .says(&["`path`", "--warehouse"]);
    for text in [
        "VECTOR(3)",
        "VECTOR",
        "VECTOR<FLOAT, 3>",
        "BLOB",
        "BLOB(10)",
        "GEOMETRY",
        "VARIANT",
    ] {
        let name = text.split(['(', '<']).next().unwrap();
        with(&[&format!("v {text}")])
            .expect(3)
            .says(&[name, "v", "cannot be written yet"]);
        lab.run(&["--set", &format!("sink.columns.v={text}")])
            .expect(3)
            .says(&[name, "v", "cannot be written yet"]);
    }
    assert!(!lab.path("warehouse/shop.db/orders/schema").exists());
}

#[test]
fn a_receipt_takes_a_file_as_a_person_names_it() {
    let lab = Lab::new();
    let file = lab.write("in/a.csv", "id,v\n1,a\n2,b\n");
    lab.files("in/*.csv", "", COLUMNS, "", None);
    lab.run(&[]).expect(0);
    let whole = file.display().to_string();
    for name in ["a.csv", "in/a.csv", "./in/a.csv", whole.as_str()] {
        let receipt = lab.query(&["verify", TABLE, "--offset", &format!("{name}:6")]);
        assert_eq!(receipt[0]["snapshot_id"], 1, "{name}");
    }
    let w = lab.warehouse();
    let ask = |more: &[&str]| lab.tidegate(&[&["verify", TABLE, "-w", &w][..], more].concat());
    for malformed in ["a.csv", "a.csv:", "a.csv:x", "a.csv:-1", "7"] {
        ask(&["--offset", malformed])
            .expect(2)
            .says(&["FILE:POS", "4096"]);
    }
    ask(&["--offset", "b.csv:6"]).expect(4).says(&["b.csv"]);
    ask(&["--offset", "a.csv:6", "--job", "lap"])
        .expect(4)
        .says(&["job `lap`", "jobs there: lab"]);
}

#[test]
fn what_is_not_there_is_named_for_what_it_is() {
    let lab = Lab::new();
    hundred(&lab);
    for args in [
        &["table", "read", TABLE, "-w", "warehose"][..],
        &["table", "list", "-w", "warehose"],
        &["job", "list", TABLE, "-w", "warehose"],
    ] {
        lab.tidegate(args)
            .expect(4)
            .says(&["warehouse", "warehose", "does not exist"]);
    }
    lab.run(&[]).expect(0);
    // Checkpoints: the folder of a job, of a commit user, and an empty one.
    lab.tidegate(&["checkpoint", "list", "checkpoints"])
        .expect(0);
    lab.tidegate(&["checkpoint", "list", "checkpoints/lab"])
        .expect(4)
        .says(&[
            "checkpoints/lab",
            "JOB/COMMIT-USER/checkpoint-ID",
            "the folder above",
        ]);
    let user = fs::read_dir(lab.path("checkpoints/lab"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    lab.tidegate(&["checkpoint", "list", &user.path().display().to_string()])
        .expect(4)
        .says(&["two levels up"]);
    fs::create_dir(lab.path("empty")).unwrap();
    lab.tidegate(&["checkpoint", "list", "empty"])
        .expect(4)
        .says(&["empty"]);
    // A source that is not there.
    lab.files("nowhere/*.csv", "", COLUMNS, "", None);
    lab.run(&["--set", "sink.table=shop.other", "--set", "name=other"])
        .expect(4)
        .says(&["nowhere", "source.path"]);
}

#[test]
fn a_bad_record_is_told_as_it_stands_and_its_path_once() {
    let lab = Lab::new();
    lab.write("in/a.csv", "id,v\n1,a\n,b\n");
    lab.files("in/*.csv", "", COLUMNS, "", None);
    let done =
        lab.run(&[])
            .expect(1)
            .says(&["a.csv, line 3", "column `id`", "value ``", "empty field"]);
    let last = done.stderr.lines().last().unwrap();
    assert_eq!(
        last.matches(&lab.path("in").display().to_string()).count(),
        1,
        "{last}"
    );
    fs::remove_file(lab.path("in/a.csv")).unwrap();
    lab.files("in", "", COLUMNS, "", None);
    lab.write("in/b.csv.gz", "id,v\n1,a\n");
    lab.run(&[])
        .expect(1)
        .says(&["b.csv.gz", "does not begin like a gzip file", "rename it"]);
    fs::remove_file(lab.path("in/b.csv.gz")).unwrap();
    lab.write("in/b.csv.zst", "id,v\n1,a\n");
    lab.run(&[])
        .expect(1)
        .says(&["b.csv.zst", "does not begin like a zstd file"]);
}

#[test]
fn verbs_that_change_something_tell_what_they_did_in_every_format() {
    let lab = Lab::new();
    hundred(&lab);
    lab.run_to("notified").killed();
    let told = |args: &[&str]| lab.query(args).remove(0);
    let retire = ["job", "retire", TABLE, "lab"];
    let dry = told(&[&retire[..], &["--dry-run"]].concat());
    assert_eq!((&dry["retired"], &dry["epoch"]), (&false.into(), &1.into()));
    assert_eq!(told(&[&retire[..], &["-y"]].concat())["state"], "retired");
    assert_eq!(
        told(&[&retire[..], &["-y"]].concat())["retired"],
        false,
        "it had ended"
    );
    let drop = ["table", "drop", TABLE];
    let dry = told(&[&drop[..], &["--dry-run"]].concat());
    assert_eq!(dry["dropped"], false);
    let done = told(&[&drop[..], &["-y"]].concat());
    assert_eq!(
        (&done["dropped"], &done["table"]),
        (&true.into(), &TABLE.into())
    );
    assert!(
        done["files"].as_i64().unwrap() > 0 && done["bytes"] == dry["bytes"],
        "{done}"
    );
}

#[test]
fn a_doctor_does_not_warn_of_what_it_provokes() {
    let lab = Lab::new();
    let done = lab
        .tidegate(&["doctor", "store", "place", "--rounds", "2"])
        .expect(0);
    assert_eq!(done.stderr, "", "the report is all");
}

#[test]
fn a_doctor_looks_at_every_table_and_at_the_checkpoints_of_its_jobs() {
    let lab = Lab::new();
    lab.write("in/a.csv", "id,v\n1,a\n2,b\n");
    lab.files("in/*.csv", "", COLUMNS, "", None);
    lab.run(&[]).expect(0);
    let doctor = |code| {
        let checked = lab.tidegate(&[
            "doctor",
            "warehouse",
            "-w",
            "warehouse",
            "--rounds",
            "1",
            "--format",
            "jsonl",
        ]);
        let lines: Vec<serde_json::Value> = checked
            .expect(code)
            .stdout
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        move |check: &str| {
            let found = lines.iter().rfind(|line| line["check"] == check);
            let line = found.unwrap_or_else(|| panic!("no {check} in {lines:?}"));
            let text = |key: &str| line[key].as_str().unwrap().to_owned();
            (text("outcome"), text("detail"))
        }
    };
    let whole = doctor(0);
    for check in [
        "store",
        "databases",
        "schema",
        "newest snapshot",
        "checkpoints",
        "clock",
    ] {
        assert_eq!(whole(check).0, "passed", "{check}: {}", whole(check).1);
    }
    assert!(whole("newest snapshot").1.contains("2 records"));
    // Lost checkpoints: it says what the next start does.
    let checkpoints = lab.path("checkpoints");
    fs::rename(&checkpoints, lab.path("elsewhere")).unwrap();
    let (outcome, detail) = doctor(0)("checkpoints");
    assert_eq!(outcome, "note");
    assert!(detail.contains("exit code 6"), "{detail}");
    fs::rename(lab.path("elsewhere"), &checkpoints).unwrap();
    // A snapshot that cannot be read is wrong, and named.
    let snapshot = lab.table_dir().join("snapshot/snapshot-1");
    fs::write(&snapshot, "{").unwrap();
    let (outcome, detail) = doctor(3)("newest snapshot");
    assert_eq!(outcome, "failed");
    assert!(detail.contains("snapshot-1"), "{detail}");
}

#[test]
fn after_a_move_with_new_times_nothing_new_claims_no_epoch_and_writes_nothing() {
    let lab = Lab::new();
    lab.write("in/a.csv", "id,v\n1,a\n2,b\n");
    lab.files("in/*.csv", "", COLUMNS, "", None);
    lab.run(&[]).expect(0);
    let copy = lab.copy();
    let touched = fs::File::options()
        .append(true)
        .open(copy.path("in/a.csv"))
        .unwrap();
    touched
        .set_modified(std::time::SystemTime::UNIX_EPOCH)
        .unwrap();
    let listed = || {
        let done = std::process::Command::new("find")
            .args(["warehouse", "checkpoints", "-type", "f"])
            .current_dir(copy.path(""))
            .output()
            .unwrap();
        let mut names: Vec<_> = String::from_utf8(done.stdout)
            .unwrap()
            .lines()
            .map(str::to_owned)
            .collect();
        names.sort();
        names
    };
    let before = listed();
    copy.run(&[]).expect(0).says(&["nothing new"]);
    assert_eq!(listed(), before);
    // And it is no excuse: what is appended is taken.
    copy.write("in/a.csv", "id,v\n1,a\n2,b\n3,c\n");
    copy.run(&[]).expect(0).says(&["1 rows taken"]);
    assert_eq!(copy.ids(), [1, 2, 3]);
}

#[test]
fn a_table_dropped_behind_a_job_is_6_and_starting_anew_is_offered_and_right() {
    let lab = Lab::new();
    hundred(&lab);
    lab.run(&[]).expect(0);
    let w = lab.warehouse();
    lab.tidegate(&["table", "drop", TABLE, "-w", &w, "-y"])
        .expect(0);
    lab.run(&[])
        .expect(6)
        .says(&["--new-job", "start anew", TABLE, "dropped or replaced"]);
    lab.run(&["--new-job"]).expect(0);
    lab.whole(100);
    lab.run(&[]).expect(0).says(&["nothing new"]);
}

#[test]
fn a_table_dropped_under_a_running_job_ends_it_and_the_next_start_says_how_to_go_on() {
    let lab = Lab::new();
    lab.generator(&Generator {
        rate: Some(200),
        interval: Some("100 ms"),
        ..Generator::default()
    });
    let run = lab.start_job(&["--set", "restart.strategy=none"]);
    tidegate_tests::lab::wait_until("a snapshot", || lab.visible() > 0);
    let w = lab.warehouse();
    lab.tidegate(&[
        "table",
        "drop",
        TABLE,
        "-w",
        &w,
        "-y",
        "--even-if-registered",
    ])
    .expect(0);
    let done = run.wait();
    assert!(!matches!(done.code, Some(0) | None), "{done:?}");
    let bounded = ["--set", "source.rows=300", "--set", "source.rate="];
    lab.run(&bounded).expect(6).says(&["--new-job"]);
    lab.run(&[&bounded[..], &["--new-job"]].concat()).expect(0);
    // A file that the old run wrote behind the drop may be left: its run is another user's.
    assert_eq!(lab.ids(), (1..=300).collect::<Vec<_>>());
}

#[test]
fn an_unreadable_record_of_another_job_names_the_way_past_it() {
    let lab = Lab::new();
    hundred(&lab);
    lab.run(&[]).expect(0);
    let user = fs::read_dir(lab.path("checkpoints/lab"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    let record = fs::read_dir(user.path())
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    fs::write(&record, "no record").unwrap();
    let done = lab.run(&["--set", "name=other"]).expect(1).says(&[
        "another job",
        "checkpoint-1",
        "--new-job",
    ]);
    assert!(
        !done.stderr.contains("--from-checkpoint"),
        "{}",
        done.stderr
    );
    lab.run(&["--set", "name=other", "--new-job"]).expect(0);
}

#[test]
fn a_folder_at_a_snapshots_name_is_named_at_once() {
    let lab = Lab::new();
    hundred(&lab);
    fs::create_dir_all(lab.table_dir().join("snapshot/snapshot-1")).unwrap();
    let done = lab.run(&[]).says(&["snapshot-1", "a folder stands"]);
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(done.stderr.contains("move it away"), "{}", done.stderr);
    fs::remove_dir(lab.table_dir().join("snapshot/snapshot-1")).unwrap();
    lab.run(&[]).expect(0);
    lab.whole(100);
}

#[test]
fn a_way_out_tells_many_like_steps_as_one() {
    let lab = Lab::new();
    lab.generator(&Generator {
        rows: Some(2000),
        rate: Some(2000),
        interval: Some("50 ms"),
        ..Generator::default()
    });
    lab.run(&["--set", "checkpoint.retain=1000"]).expect(0);
    let snapshots = lab.visible();
    assert!(snapshots > 6, "{snapshots}");
    let done = lab.run(&["--from-checkpoint", "1"]).expect(6);
    let would = done.stderr.lines().filter(|l| l.contains("would:")).count();
    assert!(
        would < 12,
        "{would} lines for {snapshots} snapshots:\n{}",
        done.stderr
    );
    assert!(done.stderr.contains("of them)"), "{}", done.stderr);
}

/// [R-9] `commit.force-create-snapshot`: every checkpoint has its snapshot. Empty ones carry the positions of
/// the last one with rows, so that what is read without rows coming of it does not part the chain, through a crash too.
#[test]
fn r_9_forced_empty_commits_keep_the_chain() {
    let lab = Lab::new();
    let csv = |ids: std::ops::RangeInclusive<i64>| -> String {
        ids.map(|id| format!("{id},v\n")).collect()
    };
    lab.write("in/a.csv", format!("id,v\n{}", csv(1..=10)));
    let source = ", watch: true, poll: 20 ms";
    lab.files(
        "in/*.csv",
        source,
        "id: BIGINT NOT NULL, v: STRING",
        "",
        Some("40 ms"),
    );
    let forced = ["--set", "sink.options.commit.force-create-snapshot=true"];
    for file in ["b", "c"] {
        let crash = [&["run", "job.yaml"][..], &forced].concat();
        let job = lab.spawn(&crash, &[("TIDEGATE_STOP_AT", "published:40")]);
        wait_until("rows", || lab.published() > 1);
        // Positions move, and no row comes of it.
        lab.write(&format!("in/{file}.csv"), "id,v\n");
        job.wait().killed();
    }
    lab.write("in/d.csv", format!("id,v\n{}", csv(11..=20)));
    lab.run(&[&forced[..], &["--set", "source.watch=false"]].concat())
        .expect(0);
    let found = lab.whole(20);
    let (mut empty, mut full, mut stands) = (0, 0, None);
    for snapshot in &found.snapshots {
        let hash = snapshot["properties"]["tidegate.positions-hash"].as_str();
        match snapshot["deltaRecordCount"] == 0 {
            true => empty += 1,
            false => (full, stands) = (full + 1, hash),
        }
        assert_eq!(hash, stands, "that of the last one with rows: {snapshot}");
    }
    assert!(empty > 70 && full == 2, "{empty} empty, {full} with rows");
}
