//! Cases of public reports about who goes on with a job: copies of its state, lost records of its
//! progress, committers that slept, stores that refuse for long. Each test bears the number of its case.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;

use tidegate_test_services::S3Server;
use tidegate_tests::judge;
use tidegate_tests::lab::{Generator, Lab, Running, wait_until};
use tidegate_tests::proxy::Proxy;

const COLUMNS: &str = "id: BIGINT NOT NULL, v: STRING";
const BOUNDED: [&str; 2] = ["--set", "source.watch=false"];

fn csv(ids: std::ops::RangeInclusive<i64>) -> String {
    ids.map(|id| format!("{id},v{id}\n")).collect()
}

fn append(path: &Path, text: &str) {
    let mut file = OpenOptions::new().append(true).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

#[test]
fn b08_3_two_starts_from_a_copied_checkpoint_folder_are_fenced_and_lose_nothing() {
    let lab = Lab::new();
    lab.generator(&Generator {
        rows: Some(600),
        rate: Some(1200),
        interval: Some("60 ms"),
        ..Generator::default()
    });
    // A checkpoint is complete and its commit not begun: both copies hold it.
    lab.run_to("recorded:3").killed();
    let copied = std::process::Command::new("cp")
        .arg("-a")
        .arg(lab.path("checkpoints"))
        .arg(lab.path("copied"))
        .status()
        .unwrap();
    assert!(copied.success());
    let one = lab.start_job(&[]);
    let other = lab.start_job(&["--set", "checkpoint.directory=copied"]);
    let ended = [one.wait(), other.wait()];
    let refused = |code| code == Some(8) || code == Some(6);
    assert!(
        ended.iter().any(|done| refused(done.code)),
        "one of them is told: {ended:?}"
    );
    assert!(
        ended
            .iter()
            .all(|done| done.code == Some(0) || refused(done.code)),
        "{ended:?}"
    );
    // Whoever was not refused has finished; else its folder goes on. No row is lost or there twice.
    let directory = match ended.iter().position(|done| done.code == Some(0)) {
        Some(1) => "copied",
        _ => "checkpoints",
    };
    let set = format!("checkpoint.directory={directory}");
    let done = lab.run(&["--set", &set]);
    if done.code == Some(6) {
        // Its newest checkpoint is behind what the other one published: an operator decides.
        let on = ["--set", &set, "--on-mismatch", "continue-from-table", "-y"];
        lab.run(&on).expect(0);
    } else {
        done.expect(0);
    }
    assert_eq!(judge::differences(&lab.ids(), 600), "");
}

#[test]
fn b14_the_position_in_the_table_wins_where_the_other_record_of_progress_is_gone() {
    let lab = Lab::new();
    // Two splits. Killed when the third commit is published and nobody has been told.
    let a = lab.write("in/a.csv", format!("id,v\n{}", csv(1..=30)));
    let b = lab.write("in/b.csv", format!("id,v\n{}", csv(101..=130)));
    let source = ", watch: true, poll: 20 ms";
    lab.files("in/*.csv", source, COLUMNS, "", Some("50 ms"));
    let run = lab.spawn(&["run", "job.yaml"], &[("TIDEGATE_STOP_AT", "published:3")]);
    for n in 1..=2 {
        wait_until("a commit", || lab.visible() >= n);
        let n = n as i64;
        append(&a, &csv(n * 30 + 1..=n * 30 + 30));
        append(&b, &csv(n * 30 + 101..=n * 30 + 130));
    }
    run.wait().killed();
    append(&a, &csv(91..=100));
    append(&b, &csv(191..=200));
    let published = lab.ids();
    fs::remove_dir_all(lab.path("checkpoints")).unwrap();
    // Not silently from the beginning, nor from the end.
    lab.run(&BOUNDED).expect(6).says(&["continue-from-table"]);
    assert_eq!(lab.ids(), published);
    // Another number of workers takes the splits up: the position is the table's, not a worker's.
    let on = [
        "--on-mismatch",
        "continue-from-table",
        "-y",
        "--set",
        "parallelism=2",
    ];
    lab.run(&[&BOUNDED[..], &on].concat()).expect(0);
    lab.whole(200);
}

/// Files of a killed run go with the next one, whatever that brings: only what was left to publish,
/// nothing but an end, or not even an epoch.
#[test]
fn what_killed_runs_left_goes_with_the_next_run_also_where_that_brings_no_rows() {
    let killed_at = |lab: &Lab, place: &str| {
        let job = lab.spawn(&["run", "job.yaml"], &[("TIDEGATE_STOP_AT", place)]);
        job.wait().killed();
    };
    let idle = |lab: &Lab, rows| {
        let job = lab.start_job(&[]);
        let log = lab.path("checkpoints");
        let before = newest(&log);
        wait_until("its first checkpoint", || newest(&log) > before);
        job.signal("TERM");
        job.wait().expect(143);
        lab.whole(rows).snapshots.len()
    };
    let watched = || {
        let lab = Lab::new();
        let file = lab.write("in/a.csv", format!("id,v\n{}", csv(1..=10)));
        let source = ", watch: true, poll: 20 ms";
        lab.files("in/*.csv", source, COLUMNS, "", Some("50 ms"));
        // Its manifests are there, and no snapshot names them.
        killed_at(&lab, "before-publish:1");
        assert!(!lab.judge().orphans.is_empty());
        (lab, file)
    };
    let (lab, _) = watched();
    assert_eq!(idle(&lab, 10), 1, "published by recovery");

    let (lab, file) = watched();
    killed_at(&lab, "published:1");
    assert!(!lab.judge().orphans.is_empty());
    assert_eq!(idle(&lab, 10), 2, "an empty snapshot of its own");
    assert_eq!(idle(&lab, 10), 2, "and none where nothing is to be removed");
    append(&file, &csv(11..=20));
    lab.run(&BOUNDED).expect(0);
    lab.whole(20);

    let lab = Lab::new();
    lab.write("in/a.csv", format!("id,v\n{}", csv(1..=10)));
    lab.files("in/*.csv", "", COLUMNS, "", None);
    killed_at(&lab, "before-publish:1");
    killed_at(&lab, "published:1");
    assert!(!lab.judge().orphans.is_empty());
    // The second of them left no record, which would keep the first from writing one: a third run does.
    lab.run(&[]).expect(0);
    assert_eq!(lab.whole(10).snapshots.len(), 2);
    lab.run(&[]).expect(0).says(&["nothing new"]);
    assert_eq!(lab.whole(10).snapshots.len(), 2);
}

/// The largest id among the records of a checkpoint folder.
fn newest(folder: &Path) -> u64 {
    let mut newest = 0;
    let mut open = vec![folder.to_path_buf()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let id = name
                .strip_prefix("checkpoint-")
                .and_then(|id| id.parse().ok());
            newest = newest.max(id.unwrap_or(0));
            if entry.path().is_dir() {
                open.push(entry.path());
            }
        }
    }
    newest
}

/// A run that was stopped after it had begun its first publish and before that took effect. Whether it is
/// stopped in time is for the machine to say: where it is not, another one is tried.
fn asleep_before_its_publish() -> (Lab, Running) {
    loop {
        let lab = Lab::new();
        lab.generator(&Generator {
            rows: Some(400),
            rate: Some(2000),
            interval: Some("50 ms"),
            ..Generator::default()
        });
        let probe = lab.path("probe");
        let text = probe.display().to_string();
        let slow = [
            ("TIDEGATE_PROBE_FILE", text.as_str()),
            ("TIDEGATE_STORE_LATENCY", "150 ms"),
        ];
        let sleeper = lab.spawn(&["run", "job.yaml"], &slow);
        wait_until("its publish to be under way", || {
            fs::read_to_string(&probe).is_ok_and(|place| place.trim() == "before-publish")
                || lab.visible() > 0
        });
        sleeper.signal("STOP");
        if lab.visible() == 0 {
            return (lab, sleeper);
        }
    }
}

#[test]
fn b19_a_committer_that_sleeps_through_its_successor_reports_that_it_lost() {
    for registration_is_gone in [false, true] {
        let (lab, sleeper) = asleep_before_its_publish();
        if registration_is_gone {
            let registration = lab.table_dir().join("tidegate/jobs/lab/epoch-1");
            fs::remove_file(registration).unwrap();
            // The table knows neither a run nor a commit of the job, as one that was made anew.
            lab.run(&[]).expect(6);
            continue;
        }
        lab.run(&[]).expect(0);
        assert_eq!(judge::differences(&lab.ids(), 400), "");
        let before = lab.judge();
        sleeper.signal("CONT");
        sleeper.wait().expect(8);
        let after = lab.judge();
        assert_eq!(before.snapshots, after.snapshots, "it publishes nothing");
        assert_eq!(after.users.len(), 1);
        // What it left is removed by the next run that publishes.
        lab.run(&["--set", "source.rows=500"]).expect(0);
        lab.whole(500);
    }
}

#[test]
fn b64_3_a_publish_that_is_refused_for_long_is_told_and_does_not_pile_up() {
    let server = S3Server::shared().unwrap();
    let proxy = Proxy::start(&server.endpoint);
    let lab = Lab::on_s3(server);
    let input = lab.write("in/a.csv", format!("id,v\n{}", csv(1..=10)));
    let source = ", watch: true, poll: 20 ms";
    lab.files("in/*.csv", source, COLUMNS, "", Some("50 ms"));
    let endpoint = format!("sink.store.s3.endpoint={}", proxy.endpoint());
    let args = [
        "--set",
        &endpoint,
        "--set",
        "checkpoint.directory=checkpoints",
        "--set",
        "checkpoint.retain=1000",
    ];
    let run = lab.start_job(&args);
    wait_until("ten rows", || {
        lab.path("checkpoints").exists() && lab.published() == 1
    });
    proxy.refuse(Some("/snapshot/snapshot-"));
    let records = || {
        let users = fs::read_dir(lab.path("checkpoints/lab")).unwrap().flatten();
        users
            .map(|u| fs::read_dir(u.path()).unwrap().count())
            .sum::<usize>()
    };
    let before = records();
    // A row for each checkpoint there could be, until no more checkpoints come: each waits for a commit.
    let (mut id, mut seen) = (10, before);
    loop {
        id += 1;
        append(&input, &csv(id..=id));
        let refused = proxy.refused();
        wait_until("the publish to be tried again", || {
            proxy.refused() > refused + 1
        });
        let now = records();
        if now == seen && now > before {
            break;
        }
        assert!(
            now <= before + 8,
            "{now} checkpoints wait for a commit that fails"
        );
        seen = now;
    }
    wait_until("an operator to be told", || {
        let said = run.stderr();
        said.contains("snapshot") && (said.contains("retry") || said.contains("again"))
    });
    append(&input, &csv(id + 1..=id + 5));
    proxy.refuse(None);
    let rows = usize::try_from(id).unwrap() + 5;
    wait_until("all rows after it healed", || lab.ids().len() == rows);
    run.signal("TERM");
    run.wait().expect(143);
    lab.whole(rows as i64);
}
