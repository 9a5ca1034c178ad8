//! Cases drawn from public problem reports, at the level of the whole binary. Each test bears the
//! number of its case.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::process::Command;
use tidegate_test_services::S3Server;
use tidegate_tests::judge;
use tidegate_tests::lab::{Generator, Lab, TABLE, wait_until};
use tidegate_tests::proxy::Proxy;

const COLUMNS: &str = "id: BIGINT NOT NULL, v: STRING";

fn append(path: &Path, text: &str) {
    OpenOptions::new()
        .append(true)
        .open(path)
        .unwrap()
        .write_all(text.as_bytes())
        .unwrap();
}

fn csv(ids: std::ops::RangeInclusive<i64>) -> String {
    ids.map(|id| format!("{id},v{id}\n")).collect()
}

/// The newest checkpoint record of the lab's job.
fn newest_checkpoint(lab: &Lab) -> u64 {
    let Ok(users) = fs::read_dir(lab.path("checkpoints/lab")) else {
        return 0;
    };
    users
        .flatten()
        .flat_map(|user| fs::read_dir(user.path()).unwrap().flatten())
        .filter_map(|e| {
            e.file_name()
                .to_str()?
                .strip_prefix("checkpoint-")?
                .parse()
                .ok()
        })
        .max()
        .unwrap_or(0)
}

#[test]
fn b05_the_commit_user_survives_another_parallelism_after_a_lost_answer() {
    let lab = Lab::new();
    lab.generator(&Generator {
        rows: Some(500),
        rate: Some(2500),
        interval: Some("80 ms"),
        ..Generator::default()
    });
    lab.run_to("published:1").killed();
    let before = lab.judge();
    assert_eq!(before.snapshots.len(), 1);
    lab.run(&["--set", "parallelism=3"]).expect(0);
    assert_eq!(lab.whole(500).users, before.users);
}

#[test]
fn b07_going_back_to_an_older_checkpoint_never_drops_new_rows() {
    let lab = Lab::new();
    let input = lab.write("in/a.csv", format!("id,v\n{}", csv(1..=10)));
    lab.files(
        "in/*.csv",
        ", watch: true, poll: 20 ms",
        COLUMNS,
        "",
        Some("50 ms"),
    );
    let run = lab.start_job(&["--set", "checkpoint.retain=1000"]);
    for n in 1..=4 {
        wait_until("ten rows more", || lab.visible() == n);
        if n < 4 {
            append(&input, &csv(n as i64 * 10 + 1..=n as i64 * 10 + 10));
        }
    }
    run.kill().killed();
    let at = lab.snapshots()[1]["checkpoint_id"].to_string();
    append(&input, &csv(41..=60));
    let older = [
        "--from-checkpoint",
        &at,
        "--set",
        "checkpoint.retain=1000",
        "--set",
        "source.watch=false",
    ];
    lab.run(&older).expect(6);
    assert_eq!(judge::differences(&lab.ids(), 40), "");
    lab.run(&[&older[..], &["--on-mismatch", "rollback-table", "-y"]].concat())
        .expect(0);
    assert_eq!(judge::differences(&lab.ids(), 60), "");
    // What the abandoned checkpoints still name goes when they go.
    let bounded = [
        "--set",
        "source.watch=false",
        "--set",
        "checkpoint.retain=1",
    ];
    for more in [61..=70, 71..=80] {
        append(&input, &csv(more));
        lab.run(&bounded).expect(0);
    }
    lab.whole(80);
}

#[test]
fn b08_two_jobs_with_equal_settings_lose_nothing() {
    let lab = Lab::new();
    lab.generator(&Generator {
        rows: Some(200),
        rate: Some(400),
        interval: Some("100 ms"),
        ..Generator::default()
    });
    let other = fs::read_to_string(lab.path("job.yaml"))
        .unwrap()
        .replace("name: lab", "name: other")
        .replace("start: 1", "start: 201");
    lab.write("other.yaml", other);
    let first = lab.start_job(&[]);
    let second = lab.spawn(&["run", "other.yaml"], &[]);
    first.wait().expect(0);
    second.wait().expect(0);
    assert_eq!(judge::differences(&lab.ids(), 400), "");
    let found = lab.judge();
    assert_eq!(found.users.len(), 2);
    assert!(
        found.orphans.is_empty(),
        "a lost race leaves no file: {:?}",
        found.orphans
    );
}

#[test]
fn b08_one_job_started_twice_is_fenced_and_loses_nothing() {
    let lab = Lab::new();
    lab.generator(&Generator {
        rows: Some(600),
        rate: Some(600),
        interval: Some("100 ms"),
        ..Generator::default()
    });
    let first = lab.start_job(&[]);
    wait_until("the first to publish", || lab.visible() >= 1);
    let second = lab.start_job(&[]);
    let (first, second) = (first.wait(), second.wait());
    assert!(
        first.code == Some(8) || second.code == Some(8),
        "one of them is fenced: {first:?} {second:?}"
    );
    lab.run(&[]).expect(0);
    assert_eq!(judge::differences(&lab.ids(), 600), "");
    // What the fenced one left is removed by the next run of the job that publishes.
    lab.run(&["--set", "source.rows=700"]).expect(0);
    lab.whole(700);
}

#[test]
fn b09_3_a_bounded_file_killed_after_its_last_publish_is_not_taken_twice() {
    for place in ["published", "answered", "notified"] {
        let lab = Lab::new();
        lab.write("in/a.csv", format!("id,v\n{}", csv(1..=10)));
        lab.files("in/*.csv", "", COLUMNS, "", None);
        lab.run_to(place).killed();
        lab.run(&[]).expect(0);
        lab.whole(10);
        lab.run(&[]).expect(0).says(&["nothing new"]);
        assert_eq!(lab.whole(10).snapshots.len(), 1);
    }
}

#[test]
fn b12_1_rows_of_the_end_are_published_before_success_is_reported() {
    let lab = Lab::new();
    lab.write("in/a.csv", format!("id,v\n{}", csv(1..=7)));
    lab.files("in/*.csv", "", COLUMNS, "", Some("1 h"));
    lab.run(&[]).expect(0);
    assert_eq!(lab.whole(7).identifiers(), [1], "the next ordinary number");
}

#[test]
fn b12_2_a_stopped_job_goes_on_committing() {
    let lab = Lab::new();
    let input = lab.write("in/a.csv", format!("id,v\n{}", csv(1..=10)));
    lab.files(
        "in/*.csv",
        ", watch: true, poll: 20 ms",
        COLUMNS,
        "",
        Some("50 ms"),
    );
    let run = lab.start_job(&[]);
    wait_until("ten rows", || lab.visible() == 1);
    run.signal("TERM");
    run.wait().expect(143);
    append(&input, &csv(11..=20));
    let run = lab.start_job(&[]);
    wait_until("ten more", || lab.visible() == 2);
    append(&input, &csv(21..=30));
    wait_until("and ten more", || lab.visible() == 3);
    run.signal("TERM");
    run.wait().expect(143);
    let ids = lab.whole(30).identifiers();
    assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
}

#[test]
fn b13_a_table_that_cannot_be_committed_to_holds_the_rows_back_and_drops_none() {
    let server = S3Server::shared().unwrap();
    for killed in [false, true] {
        let proxy = Proxy::start(&server.endpoint);
        let lab = Lab::on_s3(server);
        let input = lab.write("in/a.csv", format!("id,v\n{}", csv(1..=10)));
        lab.files(
            "in/*.csv",
            ", watch: true, poll: 20 ms",
            COLUMNS,
            "",
            Some("50 ms"),
        );
        // Only what the job writes goes through the proxy.
        let endpoint = format!("sink.store.s3.endpoint={}", proxy.endpoint());
        let args = [
            "--set",
            &endpoint,
            "--set",
            "checkpoint.directory=checkpoints",
        ];
        let run = lab.start_job(&args);
        wait_until("ten rows", || {
            lab.path("checkpoints").exists() && lab.published() == 1
        });
        proxy.refuse(Some("/snapshot/snapshot-"));
        let before = newest_checkpoint(&lab);
        append(&input, &csv(11..=20));
        wait_until("a publish to be refused", || proxy.refused() > 0);
        append(&input, &csv(21..=40));
        wait_until("checkpoints to complete meanwhile", || {
            newest_checkpoint(&lab) > before + 1
        });
        assert_eq!(judge::differences(&lab.ids(), 10), "");
        let run = if killed {
            run.kill().killed();
            proxy.refuse(None);
            lab.start_job(&args)
        } else {
            proxy.refuse(None);
            run
        };
        wait_until("the rest", || lab.ids().len() == 40);
        run.signal("TERM");
        run.wait().expect(143);
        let ids = lab.whole(40).identifiers();
        assert!(ids.is_sorted_by(|a, b| a < b), "in order: {ids:?}");
    }
}

#[test]
fn b26_1_idle_checkpoints_move_on_without_snapshots_and_break_nothing() {
    let lab = Lab::new();
    let input = lab.write("in/a.csv", format!("id,v\n{}", csv(1..=10)));
    lab.files(
        "in/*.csv",
        ", watch: true, poll: 20 ms",
        COLUMNS,
        "",
        Some("40 ms"),
    );
    let args = ["--set", "parallelism=2"];
    let run = lab.start_job(&args);
    wait_until("ten rows", || lab.visible() == 1);
    let first = newest_checkpoint(&lab);
    wait_until("five idle checkpoints", || {
        newest_checkpoint(&lab) >= first + 5
    });
    assert_eq!(lab.visible(), 1, "nothing to publish, no snapshot");
    run.kill().killed();
    let run = lab.start_job(&args);
    let restarted = newest_checkpoint(&lab);
    wait_until("idle checkpoints again", || {
        newest_checkpoint(&lab) > restarted + 2
    });
    append(&input, &csv(11..=20));
    wait_until("ten more", || lab.visible() == 2);
    run.signal("TERM");
    run.wait().expect(143);
    let found = lab.whole(20);
    assert_eq!(found.data_files, 2, "no file without rows");
}

#[test]
fn b26_3_a_file_with_a_header_only_makes_no_data_file() {
    let lab = Lab::new();
    lab.write("in/a.csv", "id,v\n");
    lab.files("in/*.csv", "", COLUMNS, "", None);
    lab.run(&[]).expect(0);
    assert!(lab.rows().is_empty());
    assert_eq!(lab.judge().data_files, 0);
}

#[test]
fn b40_1_integers_and_decimals_are_exact_or_refused() {
    let lab = Lab::new();
    lab.write(
        "in/a.json",
        "{\"id\":1627668684594000000,\"v\":\"a\"}\n{\"id\":9007199254740993,\"v\":null}\n{\"id\":-9223372036854775808}\n",
    );
    lab.files("in/*.json", "", COLUMNS, "", None);
    lab.run(&[]).expect(0);
    assert_eq!(
        lab.ids(),
        [-9223372036854775808, 9007199254740993, 1627668684594000000]
    );
    for wrong in [
        "{\"id\":9223372036854775808}",
        "{\"id\":1}{\"id\":2}",
        "{\"id\":1",
    ] {
        let lab = Lab::new();
        lab.write("in/a.json", format!("{wrong}\n"));
        lab.files("in/*.json", "", COLUMNS, "", None);
        let done = lab.run(&[]);
        let rows = if done.code == Some(0) {
            lab.ids().len()
        } else {
            0
        };
        assert!(rows == 2 || done.code == Some(1), "{wrong}: {done:?}");
        assert!(
            rows == 2 || done.stderr.contains("a.json"),
            "{wrong}: {done:?}"
        );
    }
}

#[test]
fn b40_4_a_broken_line_stops_with_its_place_and_nothing_is_skipped() {
    let lab = Lab::new();
    let line = |id: i64| format!("{{\"id\":{id},\"v\":\"v{id}\"}}\n");
    let mut text: String = (1..=49).map(line).collect();
    text.push_str("{\"id\":50,,}\n");
    text.extend((51..=100).map(line));
    let input = lab.write("in/a.json", &text);
    lab.files("in/*.json", "", COLUMNS, "", Some("50 ms"));
    let refused = lab.run(&[]).expect(1).says(&["a.json", "50"]);
    assert!(
        !refused.stderr.contains("restarting"),
        "final, no strategy applies"
    );
    let seen = lab.visible();
    assert!(seen <= 1);
    fs::write(
        &input,
        text.replace("{\"id\":50,,}", "{\"id\":50,\"v\":\"v50\"}"),
    )
    .unwrap();
    lab.run(&[]).expect(0);
    lab.whole(100);
}

const ODD: &[&str] = &[
    "a/b",
    "a%2Fb",
    "%",
    "a=b",
    "a b",
    "a+b",
    "é",
    "e\u{301}",
    "🦀",
    "..",
    ".",
    "a\\b",
    "a:b",
    "a\"b'c",
    "a\tb",
    "a\nb",
    "#?&*[]{}^",
];

#[test]
fn b51_1_odd_partition_values_come_back_as_they_were() {
    let lab = Lab::new();
    let lines: String = ODD
        .iter()
        .enumerate()
        .map(|(n, dt)| format!("{}\n", serde_json::json!({"id": n + 1, "v": "x", "dt": dt})))
        .collect();
    lab.write("in/a.json", lines);
    lab.files(
        "in/*.json",
        "",
        "id: BIGINT NOT NULL, v: STRING, dt: STRING",
        "dt",
        None,
    );
    lab.run(&[]).expect(0);
    lab.whole(ODD.len() as i64);
    for row in lab.rows() {
        let id = row["id"].as_u64().unwrap() as usize;
        assert_eq!(row["dt"], ODD[id - 1]);
    }
    assert_eq!(lab.query(&["table", "partitions", TABLE]).len(), ODD.len());
    // Every file is inside the table's folder: `..` did not climb out.
    assert_eq!(
        fs::read_dir(lab.path("warehouse/shop.db")).unwrap().count(),
        1
    );
}

#[test]
fn b51_3_a_partition_value_longer_than_a_file_name_is_refused_cleanly() {
    for length in [200_usize, 5000] {
        let lab = Lab::new();
        let dt = "x".repeat(length);
        lab.write("in/a.csv", format!("id,v,dt\n1,a,{dt}\n"));
        lab.files(
            "in/*.csv",
            "",
            "id: BIGINT NOT NULL, v: STRING, dt: STRING",
            "dt",
            None,
        );
        let done = lab.run(&["--set", "restart.strategy=none"]);
        if length < 255 {
            done.expect(0);
            lab.whole(1);
        } else {
            done.expect(1);
            assert_eq!(lab.visible(), 0);
            lab.write("in/a.csv", "id,v,dt\n1,a,b\n");
            lab.run(&[]).expect(0);
            lab.whole(1);
        }
    }
}

#[test]
fn b53_2_files_and_values_do_not_depend_on_the_machines_zone() {
    let mut seen: Vec<(Vec<String>, Vec<Vec<u8>>)> = Vec::new();
    for zone in ["UTC", "Asia/Kolkata", "America/St_Johns"] {
        let mut lab = Lab::new();
        lab.env("TZ", zone);
        lab.write(
            "in/a.csv",
            "id,t,l,d\n1,1969-12-31 23:59:59.999999,1969-12-31T23:59:59.999999Z,1969-12-31\n\
             2,1970-01-01 00:00:00,1970-01-01T00:00:00+05:30,1970-01-01\n\
             3,1899-12-31 23:00:00,1899-12-31T23:00:00Z,1899-12-31\n\
             4,0001-01-01 00:00:00,0001-01-01T00:00:00Z,0001-01-01\n\
             5,9999-12-31 23:59:59,9999-12-31T23:59:59Z,9999-12-31\n\
             6,2026-03-29 02:30:00,2026-03-29T02:30:00Z,2026-03-29\n",
        );
        let columns = "id: BIGINT NOT NULL, t: TIMESTAMP(6), l: TIMESTAMP_LTZ(6), d: DATE";
        lab.files("in/*.csv", "", columns, "d", None);
        lab.run(&[]).expect(0);
        lab.whole(6);
        let mut rows: Vec<String> = lab.rows().iter().map(ToString::to_string).collect();
        rows.sort();
        let mut bytes: Vec<Vec<u8>> = lab
            .data_files()
            .iter()
            .map(|f| {
                f["file_path"]
                    .as_str()
                    .unwrap()
                    .strip_prefix("file://")
                    .unwrap()
                    .to_owned()
            })
            .map(|path| {
                let name = path
                    .split("/orders/")
                    .nth(1)
                    .unwrap()
                    .split("/bucket")
                    .next()
                    .unwrap();
                let mut content = name.as_bytes().to_vec();
                // A path in a URL is escaped once more.
                content.extend(
                    fs::read(&path)
                        .or_else(|_| fs::read(path.replace("%25", "%")))
                        .unwrap(),
                );
                content
            })
            .collect();
        bytes.sort();
        seen.push((rows, bytes));
    }
    assert_eq!(seen[0], seen[1]);
    assert_eq!(seen[0], seen[2]);
    assert!(seen[0].0[0].contains("1969-12-31"), "{}", seen[0].0[0]);
}

#[test]
fn b58_5_killed_half_way_through_a_file_with_quoted_line_breaks() {
    let lab = Lab::new();
    let lines: String = (1..=1000)
        .map(|id| format!("{id},\"line one of {id}\r\nline \"\"two\"\"\n\"\n"))
        .collect();
    // The file grows while it is read, so that the kill is half way whatever the machine does.
    let half = lines.find("\n500,").unwrap() + 1;
    let input = lab.write("in/a.csv", format!("id,v\n{}", &lines[..half + 10]));
    lab.files(
        "in/*.csv",
        ", watch: true, poll: 20 ms",
        COLUMNS,
        "",
        Some("50 ms"),
    );
    let run = lab.start_job(&[]);
    wait_until("the first half", || {
        lab.visible() >= 1 && lab.ids().len() >= 499
    });
    run.kill().killed();
    append(&input, &lines[half + 10..]);
    lab.run(&["--set", "source.watch=false"]).expect(0);
    lab.whole(1000);
    for row in lab.rows() {
        let id = row["id"].as_i64().unwrap();
        assert_eq!(row["v"], format!("line one of {id}\r\nline \"two\"\n"));
    }
}

#[test]
fn b66_1_five_thousand_partitions_in_random_order_under_a_memory_limit() {
    let lab = Lab::new();
    // 7,919 is prime: every value of dt comes ten times, neighbours never together.
    let lines: String = (0..50_000_i64)
        .map(|n| format!("{},v{n},p{}\n", n + 1, (n * 7919) % 5000))
        .collect();
    lab.write("in/a.csv", format!("id,v,dt\n{lines}"));
    lab.files(
        "in/*.csv",
        "",
        "id: BIGINT NOT NULL, v: STRING, dt: STRING",
        "dt",
        None,
    );
    let mut run = lab.start_job(&["--set", "memory=64 mb"]);
    let mut peak = 0_u64;
    wait_until("the end", || {
        peak = peak.max(run.peak_memory());
        run.ended()
    });
    run.wait().expect(0);
    lab.whole(50_000);
    assert_eq!(lab.data_files().len(), 5000, "one file per partition");
    assert!(peak < 256 << 20, "peak {} MiB", peak >> 20);
    println!("peak {} MiB", peak >> 20);
}

#[test]
fn nothing_new_costs_nothing_and_exits_0() {
    let lab = Lab::new();
    lab.write("in/a.csv", format!("id,v\n{}", csv(1..=10)));
    lab.files("in/*.csv", "", COLUMNS, "", None);
    lab.run(&[]).expect(0);
    let count = || {
        let out = Command::new("find")
            .arg(lab.path("."))
            .arg("-type")
            .arg("f")
            .output()
            .unwrap();
        String::from_utf8(out.stdout).unwrap().lines().count()
    };
    let before = count();
    lab.run(&[]).expect(0).says(&["nothing new"]);
    assert_eq!(count(), before, "no epoch is claimed, no object is written");
    // A new file and appended records are taken, those before them not.
    append(&lab.path("in/a.csv"), &csv(11..=12));
    lab.write("in/b.csv", format!("id,v\n{}", csv(13..=20)));
    lab.run(&[]).expect(0);
    lab.whole(20);
}
