//! The five labs of the founding issue, at full time scale or faster.
//!
//! Each says what it saw, line by line, and panics where anything is not as it must be. With `judge`
//! the final tables are read by pypaimon as well.

use crate::judge::{self, differences};
use crate::lab::{Done, Generator, Lab, Running, TABLE, wait_until};
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

/// How fast time goes, and who looks.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    /// Rows a second and checkpoint interval of labs 1 to 3.
    pub rate: u64,
    /// As a job file writes it.
    pub interval: &'static str,
    /// How long lab 2 runs.
    pub patience: Duration,
    /// Rows a second of lab 4, on the way to row 2,000.
    pub long_rate: u64,
    /// Checkpoint interval of it.
    pub long_interval: &'static str,
    /// pypaimon reads the final tables.
    pub judge: bool,
}

impl Scale {
    /// As the issue writes them: 20 rows/s, a checkpoint every 2 s, 10 s without any.
    pub const FULL: Self = Self {
        rate: 20,
        interval: "2 s",
        patience: Duration::from_secs(10),
        long_rate: 20,
        long_interval: "2 s",
        judge: true,
    };

    /// Five times as fast, so that rows per checkpoint are the same, and lab 4 a hundred times.
    pub const FAST: Self = Self {
        rate: 100,
        interval: "400 ms",
        patience: Duration::from_secs(2),
        long_rate: 2000,
        long_interval: "200 ms",
        judge: false,
    };
}

/// For what a lab saw.
pub type Say<'a> = &'a mut dyn FnMut(&str);

/// A lab's runs at full scale take minutes.
const LONG: Duration = Duration::from_secs(600);

/// pypaimon reads the same ids and, in each snapshot, as many rows as it says.
#[track_caller]
fn outside(lab: &Lab, scale: &Scale, ids: &[i64], say: Say<'_>) {
    if !scale.judge {
        return;
    }
    let read = lab.outside();
    assert_eq!(read.ids, ids, "pypaimon reads other ids");
    for snapshot in lab.judge().snapshots {
        if let Some(rows) = read.rows.get(&snapshot["id"].as_i64().unwrap()) {
            assert_eq!(
                Some(*rows),
                snapshot["totalRecordCount"].as_i64(),
                "{snapshot}"
            );
        }
    }
    say(&format!(
        "  pypaimon: {} rows, the same ids; {} of {} snapshots read, each with the rows that it says",
        read.ids.len(),
        read.rows.len(),
        read.snapshots
    ));
}

fn counts(lab: &Lab) -> String {
    let mut text = String::new();
    for snapshot in lab.snapshots() {
        let _written = write!(
            text,
            " {}:+{}",
            snapshot["commit_identifier"], snapshot["delta_record_count"]
        );
    }
    text
}

/// Rows 1 to 100: one snapshot per checkpoint with rows, identifiers are checkpoint ids.
pub fn lab_1(scale: &Scale, say: Say<'_>) {
    let lab = Lab::new();
    lab.generator(&Generator {
        rows: Some(100),
        rate: Some(scale.rate),
        interval: Some(scale.interval),
        ..Generator::default()
    });
    lab.run(&[]).expect(0);
    let found = lab.whole(100);
    let snapshots = lab.snapshots();
    // How many fit into the time is the machine's affair, that there are several is not.
    assert!(snapshots.len() >= 2, "{} snapshots", snapshots.len());
    for (n, snapshot) in snapshots.iter().enumerate() {
        assert_eq!(snapshot["commit_identifier"], snapshot["checkpoint_id"]);
        let gap = "no gap: every checkpoint had rows";
        assert_eq!(snapshot["commit_identifier"], n + 1, "{gap}");
        assert!(snapshot["delta_record_count"].as_i64().unwrap() > 0);
    }
    let dense: Vec<i64> = (1..=snapshots.len() as i64).collect();
    assert_eq!(found.identifiers(), dense);
    say(&format!(
        "lab 1: rows 1-100 at {}/s, checkpoint every {}: 100 rows, 0 lost, 0 doubled, 0 orphans",
        scale.rate, scale.interval
    ));
    say(&format!(
        "  {} snapshots, checkpoint id = identifier:+rows{}",
        snapshots.len(),
        counts(&lab)
    ));
    outside(&lab, scale, &(1..=100).collect::<Vec<_>>(), say);
}

/// No interval and no end: refused, or nothing visible.
pub fn lab_2(scale: &Scale, say: Say<'_>) {
    let lab = Lab::new();
    lab.generator(&Generator {
        rate: Some(scale.rate),
        ..Generator::default()
    });
    let refused = lab
        .run(&[])
        .expect(3)
        .says(&["interval", "--allow-no-checkpoint"]);
    say("lab 2: unbounded without an interval: exit code 3");
    say(&format!("  {}", refused.stderr.trim()));
    let mut run = lab.start_job(&["--allow-no-checkpoint"]);
    wait_until("the job to run", || run.stderr().contains("running"));
    let begun = Instant::now();
    while begun.elapsed() < scale.patience {
        assert!(!run.ended(), "ended by itself:\n{}", run.stderr());
        std::thread::sleep(Duration::from_millis(10));
    }
    let (snapshots, rows) = (lab.visible(), lab.rows().len());
    assert_eq!((snapshots, rows), (0, 0));
    run.kill().killed();
    assert_eq!(lab.visible(), 0);
    say(&format!(
        "  --allow-no-checkpoint, {} s running, then killed: {snapshots} snapshots, {rows} rows visible",
        scale.patience.as_secs()
    ));
}

/// The commit user that a job's first run registered.
fn registered(lab: &Lab) -> String {
    let at = lab.table_dir().join("tidegate/jobs/lab/epoch-1");
    let text = fs::read_to_string(&at).unwrap_or_else(|e| panic!("{}: {e}", at.display()));
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    json["commit_user"].as_str().unwrap().to_owned()
}

/// Killed when row 120 of 200 was taken from the source, then the same command again.
pub fn lab_3(scale: &Scale, say: Say<'_>) -> Lab {
    let lab = Lab::new();
    lab.generator(&Generator {
        rows: Some(200),
        rate: Some(scale.rate),
        interval: Some(scale.interval),
        retain: Some(10_000),
        ..Generator::default()
    });
    lab.run_to("row-taken:120").killed();
    let (user, ids) = (registered(&lab), lab.ids());
    assert_eq!(
        differences(&ids, ids.len() as i64),
        "",
        "a prefix is visible"
    );
    assert!(ids.len() <= 120, "{} rows", ids.len());
    say(&format!(
        "lab 3: killed with -9 when row 120 was taken: rows 1-{} visible, commit user {user}",
        ids.len()
    ));
    lab.run(&[]).expect(0);
    let after = lab.whole(200);
    let users: Vec<_> = after.users.iter().collect();
    assert_eq!(
        users,
        [&user],
        "the commit user is the job's, not the run's"
    );
    say(&format!(
        "  the same command again: 200 rows, 200 distinct ids, {} orphans, commit user {user}",
        after.orphans.len()
    ));
    say(&format!("  identifier:+rows{}", counts(&lab)));
    outside(&lab, scale, &(1..=200).collect::<Vec<_>>(), say);
    lab
}

/// Goes on with lab 3's job to row 2,000, then from an older checkpoint.
pub fn lab_4(scale: &Scale, lab: &Lab, say: Say<'_>) {
    let rate = format!("source.rate={}", scale.long_rate);
    let interval = format!("checkpoint.interval={}", scale.long_interval);
    let on = ["--set", &rate, "--set", &interval];
    let to = |rows: i64| format!("source.rows={rows}");
    let finish = |run: Running| -> Done { run.wait_within(LONG).expect(0) };
    finish(lab.start_job(&[&on[..], &["--set", &to(2000)]].concat()));
    lab.whole(2000);
    let at = |id: i64| {
        let snapshots = lab.snapshots();
        let found = snapshots.iter().find(|s| s["commit_identifier"] == id);
        found.unwrap()["total_record_count"].as_i64().unwrap()
    };
    let rows_at_2 = at(2);
    assert!(rows_at_2 < 2000);
    let rows = to(2000);
    let older = [&on[..], &["--set", &rows, "--from-checkpoint", "2"]].concat();
    let refused = lab.run(&older).expect(6);
    let refused = refused.says(&["rollback-table", "continue-from-table", "accept-duplicates"]);
    assert!(refused.stderr.contains("checkpoint"), "{}", refused.stderr);
    say("lab 4: on to row 2,000, then --from-checkpoint 2: exit code 6");
    for line in refused.stderr.trim().lines() {
        say(&format!("  {line}"));
    }
    let unasked = lab.copy();
    unasked
        .run(&[&older[..], &["--on-mismatch", "rollback-table"]].concat())
        .expect(6)
        .says(&["would", "-y"]);
    assert_eq!(unasked.ids().len(), 2000, "without -y nothing is done");

    let take = |way: &str| {
        let copy = lab.copy();
        let run = copy.start_job(&[&older[..], &["--on-mismatch", way, "-y"]].concat());
        (copy, run)
    };
    let [back, table, twice] = ["rollback-table", "continue-from-table", "accept-duplicates"]
        .map(take)
        .map(|(lab, run)| {
            finish(run);
            lab
        });
    // Back to what the checkpoint knew, and on from there: the same rows, made again. On from the
    // table: it has everything. Twice, because somebody asked for it: exactly the rows after
    // checkpoint 2, no others.
    assert_eq!(differences(&back.ids(), 2000), "");
    assert_eq!(differences(&table.ids(), 2000), "");
    let mut doubled: Vec<i64> = (1..=2000).chain(rows_at_2 + 1..=2000).collect();
    doubled.sort_unstable();
    assert_eq!(twice.ids(), doubled);
    say("  rollback-table -y: 2000 rows, 2000 distinct; continue-from-table -y: the same");
    say(&format!(
        "  accept-duplicates -y: {} rows, exactly rows {}-2000 twice (checkpoint 2 was at row {rows_at_2})",
        doubled.len(),
        rows_at_2 + 1
    ));
    outside(&back, scale, &(1..=2000).collect::<Vec<_>>(), say);
    outside(&table, scale, &(1..=2000).collect::<Vec<_>>(), say);
    outside(&twice, scale, &doubled, say);

    // And each of them goes on as if nothing had been; what only the abandoned checkpoints still
    // name goes with them.
    let quick = |lab: &Lab, rows: i64| {
        let rows = to(rows);
        let more = ["--set", &rows, "--set", "source.rate=2000"];
        let records = [
            "--set",
            "checkpoint.interval=200 ms",
            "--set",
            "checkpoint.retain=3",
        ];
        finish(lab.start_job(&[&more[..], &records].concat()));
    };
    for lab in [&back, &table] {
        quick(lab, 3000);
        quick(lab, 4000);
        lab.whole(4000);
    }
    quick(&twice, 3000);
    assert_eq!(twice.ids().len(), doubled.len() + 1000);
    say(
        "  each goes on: to 4,000 rows, 4,000 distinct, 0 orphans; the doubled one by exactly 1,000 rows",
    );
}

/// The same identifier with other content: fenced.
pub fn lab_5(scale: &Scale, say: Say<'_>) {
    let lab = Lab::new();
    lab.generator(&Generator {
        rows: Some(1000),
        rate: Some(1000),
        interval: Some("200 ms"),
        ..Generator::default()
    });
    // Complete and recorded, its commit not begun.
    lab.run_slowly_to("recorded:2", 200).killed();
    // The same state goes on twice, as when somebody restores a copy of a machine: the checkpoint
    // is forgotten in one of them, which makes other files for the same identifier.
    let rival = lab.copy();
    fs::remove_file(records(&rival).join("checkpoint-2")).unwrap();
    rival.run(&[]).expect(0);
    rival.whole(1000);
    // The rival's table, and the checkpoints of the first.
    let status = Command::new("cp")
        .arg("-a")
        .arg(rival.path("warehouse/."))
        .arg(lab.path("warehouse"))
        .status()
        .unwrap();
    assert!(status.success());
    let before = lab.judge();
    let fenced = lab
        .run(&[])
        .expect(8)
        .says(&["other content", "continue-from-table"]);
    let after = lab.judge();
    assert_eq!(
        before.snapshots, after.snapshots,
        "a fenced run publishes nothing"
    );
    assert_eq!(judge::differences(&lab.ids(), 1000), "");
    lab.query(&["verify", TABLE]);
    say("lab 5: a restored committable with a published identifier and other content: exit code 8");
    for line in fenced.stderr.trim().lines() {
        say(&format!("  {line}"));
    }
    outside(&lab, scale, &(1..=1000).collect::<Vec<_>>(), say);
}

fn records(lab: &Lab) -> PathBuf {
    let user = fs::read_dir(lab.path("checkpoints/lab")).unwrap().next();
    user.unwrap().unwrap().path()
}

/// All five in turn.
pub fn all(scale: &Scale, say: Say<'_>) {
    lab_1(scale, say);
    lab_2(scale, say);
    let lab = lab_3(scale, say);
    lab_4(scale, &lab, say);
    lab_5(scale, say);
}
