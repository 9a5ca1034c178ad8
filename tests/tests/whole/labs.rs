//! The five labs of the founding issue. Rates and intervals are five times theirs (100 rows/s for
//! 20, 400 ms for 2 s), so that rows per checkpoint are the same and a lab takes seconds.

use std::fs;
use std::time::{Duration, Instant};
use tidegate_tests::judge;
use tidegate_tests::lab::{Generator, Lab, TABLE, wait_until};

#[test]
fn lab_1_one_snapshot_per_checkpoint_with_rows() {
    let lab = Lab::new();
    lab.generator(&Generator {
        rows: Some(100),
        rate: Some(100),
        interval: Some("400 ms"),
        ..Generator::default()
    });
    lab.run(&[]).expect(0);
    let found = lab.whole(100);
    let snapshots = lab.snapshots();
    assert!(
        (3..=4).contains(&snapshots.len()),
        "{} snapshots",
        snapshots.len()
    );
    for (n, snapshot) in snapshots.iter().enumerate() {
        assert_eq!(snapshot["commit_identifier"], snapshot["checkpoint_id"]);
        assert_eq!(
            snapshot["commit_identifier"],
            n + 1,
            "no gap: every checkpoint had rows"
        );
        assert!(snapshot["delta_record_count"].as_i64().unwrap() > 0);
    }
    assert_eq!(
        found.identifiers(),
        (1..=snapshots.len() as i64).collect::<Vec<_>>()
    );
}

#[test]
fn lab_2_unbounded_without_checkpoints_is_refused_and_publishes_nothing_when_allowed() {
    let lab = Lab::new();
    lab.generator(&Generator {
        rate: Some(100),
        ..Generator::default()
    });
    lab.run(&[])
        .expect(3)
        .says(&["interval", "--allow-no-checkpoint"]);
    let run = lab.start_job(&["--allow-no-checkpoint"]);
    // Two seconds for ten; the condition is time itself.
    let begun = Instant::now();
    wait_until("two seconds", || begun.elapsed() > Duration::from_secs(2));
    assert_eq!(lab.visible(), 0);
    assert_eq!(lab.rows().len(), 0);
    run.kill().killed();
    assert_eq!(lab.visible(), 0);
}

#[test]
fn lab_3_killed_after_row_120_and_started_again_by_the_same_command() {
    let lab = Lab::new();
    lab.generator(&Generator {
        rows: Some(200),
        rate: Some(100),
        interval: Some("500 ms"),
        ..Generator::default()
    });
    let run = lab.start_job(&[]);
    wait_until("100 rows published", || lab.visible() == 2);
    // 100 rows a second: 250 ms later 25 more have been taken, and none of them is published.
    let begun = Instant::now();
    wait_until("row 120 to be taken", || {
        begun.elapsed() > Duration::from_millis(250)
    });
    run.kill().killed();
    let before = lab.judge();
    assert!(lab.ids().len() < 120, "killed between two snapshots");
    lab.run(&[]).expect(0);
    let after = lab.whole(200);
    assert_eq!(
        before.users, after.users,
        "the commit user is the job's, not the run's"
    );
}

/// A job that ran to row 2,000 and whose checkpoint 2 is kept.
fn two_thousand() -> Lab {
    let lab = Lab::new();
    lab.generator(&Generator {
        rows: Some(2000),
        rate: Some(2000),
        interval: Some("200 ms"),
        ..Generator::default()
    });
    lab.run(&["--set", "checkpoint.retain=100"]).expect(0);
    lab.whole(2000);
    lab
}

#[test]
fn lab_4_an_older_checkpoint_is_refused_and_each_way_out_is_right() {
    let lab = two_thousand();
    let rows_at_2 = lab.snapshots()[1]["total_record_count"].as_i64().unwrap();
    assert!(rows_at_2 < 2000);
    let older = ["--from-checkpoint", "2", "--set", "checkpoint.retain=100"];
    let refused = lab.run(&older).expect(6);
    let refused = refused.says(&["rollback-table", "continue-from-table", "accept-duplicates"]);
    assert!(refused.stderr.contains("checkpoint"), "{}", refused.stderr);
    let unasked = lab.copy();
    unasked
        .run(&[&older[..], &["--on-mismatch", "rollback-table"]].concat())
        .expect(6)
        .says(&["would", "-y"]);
    assert_eq!(unasked.ids().len(), 2000, "without -y nothing is done");

    // Back to what the checkpoint knew, and on from there: the same rows, made again.
    let back = lab.copy();
    back.run(&[&older[..], &["--on-mismatch", "rollback-table", "-y"]].concat())
        .expect(0);
    assert_eq!(judge::differences(&back.ids(), 2000), "");

    // On from the table: it has everything.
    let on = lab.copy();
    on.run(&[&older[..], &["--on-mismatch", "continue-from-table", "-y"]].concat())
        .expect(0);
    assert_eq!(judge::differences(&on.ids(), 2000), "");

    // Twice, because somebody asked for it: exactly the rows after checkpoint 2, no others.
    let twice = lab.copy();
    twice
        .run(&[&older[..], &["--on-mismatch", "accept-duplicates", "-y"]].concat())
        .expect(0);
    let ids = twice.ids();
    let mut expected: Vec<i64> = (1..=2000).chain(rows_at_2 + 1..=2000).collect();
    expected.sort_unstable();
    assert_eq!(ids, expected);

    // And each of them goes on as if nothing had been; what only the abandoned checkpoints still
    // name goes with them.
    for lab in [back, on] {
        lab.run(&["--set", "source.rows=3000"]).expect(0);
        lab.run(&["--set", "source.rows=4000"]).expect(0);
        lab.whole(4000);
    }
    twice.run(&["--set", "source.rows=3000"]).expect(0);
    assert_eq!(twice.ids().len(), ids.len() + 1000);
}

#[test]
fn lab_5_the_identifier_of_a_published_snapshot_with_other_content_is_fenced() {
    let lab = Lab::new();
    lab.generator(&Generator {
        rows: Some(1000),
        rate: Some(1000),
        interval: Some("200 ms"),
        ..Generator::default()
    });
    // Complete and recorded, its commit not begun.
    lab.run_to("recorded:2").killed();
    // The same state goes on twice, as when somebody restores a copy of a machine: the checkpoint
    // is forgotten in one of them, which makes other files for the same identifier.
    let rival = lab.copy();
    let records = fs::read_dir(rival.path("checkpoints/lab"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    fs::remove_file(records.join("checkpoint-2")).unwrap();
    rival.run(&[]).expect(0);
    rival.whole(1000);
    // The rival's table, and the checkpoints of the first.
    let status = std::process::Command::new("cp")
        .arg("-a")
        .arg(rival.path("warehouse/."))
        .arg(lab.path("warehouse"))
        .status()
        .unwrap();
    assert!(status.success());
    let before = lab.judge();
    lab.run(&[])
        .expect(8)
        .says(&["other content", "continue-from-table"]);
    let after = lab.judge();
    assert_eq!(
        before.snapshots, after.snapshots,
        "a fenced run publishes nothing"
    );
    assert_eq!(judge::differences(&lab.ids(), 1000), "");
    lab.query(&["verify", TABLE]);
}
