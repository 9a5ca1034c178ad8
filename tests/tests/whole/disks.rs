//! A full or a read-only disk at every stage of a checkpoint: a clear error with its documented
//! code, nothing lost, and once the disk is mended the same command goes on. Where the checkpoint was
//! complete the running job waits for room, saying so, and goes on by itself.
//!
//! Small and read-only file systems are mounted, which needs root; where that is refused a test says
//! so and shows nothing.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use tidegate_tests::disk::{Disk, ReadOnly, did};
use tidegate_tests::judge::differences;
use tidegate_tests::lab::{Generator, Lab, wait_until};

/// A job of 300 rows that was killed when its second commit was notified.
fn unfinished() -> Lab {
    let lab = Lab::new();
    lab.generator(&Generator {
        rows: Some(300),
        rate: Some(1000),
        interval: Some("60 ms"),
        more: "restart: { strategy: none }\n",
        ..Generator::default()
    });
    lab.run_slowly_to("notified:2", 60).killed();
    lab
}

#[track_caller]
fn a_prefix_is_visible(lab: &Lab) {
    let ids = lab.ids();
    assert_eq!(differences(&ids, ids.len() as i64), "");
}

/// The same command goes on to its end, and a run with rows of its own leaves nothing over.
#[track_caller]
fn goes_on(lab: &Lab) {
    lab.run(&[]).expect(0);
    is_whole(lab);
}

#[track_caller]
fn is_whole(lab: &Lab) {
    assert_eq!(differences(&lab.ids(), 300), "");
    lab.run(&["--set", "source.rows=400"]).expect(0);
    lab.whole(400);
}

/// A part of a checkpoint that needs the disk.
struct Stage {
    name: &'static str,
    folder: PathBuf,
    /// So many small files still fit.
    leave: u64,
    /// What the error must name.
    says: &'static str,
    /// The checkpoint is complete: its commit is retried while the job runs.
    retried: bool,
}

fn stages(lab: &Lab) -> Vec<Stage> {
    let table = lab.table_dir();
    let users = fs::read_dir(lab.path("checkpoints/lab")).unwrap();
    let records = users.map(|e| e.unwrap().path()).next().unwrap();
    let stage = |name, folder, leave, says, retried| Stage {
        name,
        folder,
        leave,
        says,
        retried,
    };
    let in_table = |folder: &str| table.join(folder);
    let (manifest, snapshot) = ("manifest/manifest-", "snapshot/snapshot-");
    vec![
        stage("job", in_table("tidegate/jobs/lab"), 0, "epoch-2", false),
        stage("data", in_table("bucket-0"), 0, "bucket-0/data-", false),
        stage("record", records, 0, "checkpoint-", false),
        stage("manifest", in_table("manifest"), 0, manifest, true),
        stage("list", in_table("manifest"), 1, manifest, true),
        stage("snapshot", in_table("snapshot"), 0, snapshot, true),
        // The snapshot takes the last block and its hint finds none; then the next snapshot fails.
        stage("hint", in_table("snapshot"), 1, snapshot, true),
    ]
}

#[test]
fn a_disk_that_is_full_at_any_stage_loses_nothing_and_once_mended_the_job_goes_on() {
    let good = unfinished();
    for n in 0..stages(&good).len() {
        let lab = good.copy();
        let stage = stages(&lab).swap_remove(n);
        println!("{}", stage.name);
        let Some(disk) = Disk::over(&stage.folder) else {
            println!("not shown here: mounting a small file system was refused");
            return;
        };
        disk.fill(stage.leave);
        let full = "o space left on device";
        let mut job = lab.start_job(&[]);
        if stage.retried {
            wait_until("the trouble to be told", || {
                assert!(!job.ended(), "{}: {}", stage.name, job.stderr());
                let said = job.stderr();
                let told = said.lines().find(|line| line.contains("commit failed"));
                told.is_some_and(|line| line.contains(full) && line.contains(stage.says))
            });
            a_prefix_is_visible(&lab);
            // The running job goes on by itself, and so does the next one after a kill.
            // Held while it is copied: a file that goes meanwhile would be missed by the copy.
            job.signal("STOP");
            let rest = lab.copy();
            disk.make_room();
            job.signal("CONT");
            job.wait().expect(0);
            is_whole(&lab);
            let inside = stage.folder.strip_prefix(lab.path(".")).unwrap().to_owned();
            fs::remove_file(rest.path(".").join(inside).join(".filler")).unwrap();
            goes_on(&rest);
        } else {
            let done = job.wait().expect(1);
            let last = done.stderr.lines().last().unwrap();
            assert!(last.contains(full), "{}: {last}", stage.name);
            assert!(last.contains(stage.says), "{}: {last}", stage.name);
            a_prefix_is_visible(&lab);
            disk.make_room();
            goes_on(&lab);
        }
    }
}

#[test]
fn a_read_only_disk_at_any_stage_is_a_clear_error_and_loses_nothing() {
    let good = unfinished();
    for n in 0..stages(&good).len() {
        let lab = good.copy();
        let stage = stages(&lab).swap_remove(n);
        println!("{}", stage.name);
        let Some(locked) = ReadOnly::over(&stage.folder) else {
            println!("not shown here: mounting a folder read-only was refused");
            return;
        };
        // Nothing that waiting would mend: told at once, at every stage.
        let done = lab.run(&[]).expect(3);
        let last = done.stderr.lines().last().unwrap();
        assert!(last.contains("ead-only file system"), "{last}");
        assert!(last.contains(stage.says), "{last}");
        a_prefix_is_visible(&lab);
        drop(locked);
        goes_on(&lab);
    }
}

#[test]
fn a_warehouse_that_another_user_owns_is_read_but_not_written() {
    let lab = unfinished();
    // Who tests as root becomes nobody; everybody else only loses the right to write.
    let root = did("sh", &["-c", "[ \"$(id -u)\" = 0 ]"]);
    let own = lab.path("tidegate");
    fs::copy(tidegate_tests::binary::tidegate(), &own).unwrap();
    let as_nobody = match root {
        true => "setpriv --reuid=65534 --regid=65534 --clear-groups",
        false => "env",
    };
    let warehouse = lab.warehouse();
    let table = lab.table_dir();
    let shell = |args: &str| format!("exec {as_nobody} {} {args};", own.display());
    assert!(did(
        "chmod",
        &["-R", "a-w,a+rX", lab.path(".").to_str().unwrap()]
    ));
    let read = format!("table read shop.orders --columns id -f csv -w {warehouse}");
    let before = lab.spawn_under(&shell(&read), &[]).wait().expect(0);
    let refused = lab.spawn_under(&shell("run job.yaml"), &[]).wait();
    assert!(matches!(refused.code, Some(1 | 3)), "{refused:?}");
    assert!(refused.stderr.contains("ermission denied"), "{refused:?}");
    assert!(refused.stderr.contains("epoch-2"), "{refused:?}");
    // And one that may not even be looked at.
    let snapshots = table.join("snapshot");
    fs::set_permissions(&snapshots, fs::Permissions::from_mode(0o000)).unwrap();
    let unread = lab.spawn_under(&shell(&read), &[]).wait();
    assert!(matches!(unread.code, Some(1 | 3)), "{unread:?}");
    assert!(unread.stderr.contains("ermission denied"), "{unread:?}");
    assert!(did(
        "chmod",
        &["-R", "u+rwX,a+rX", lab.path(".").to_str().unwrap()]
    ));
    let after = lab.spawn_under(&shell(&read), &[]).wait().expect(0);
    assert_eq!(before.stdout, after.stdout);
    goes_on(&lab);
}
