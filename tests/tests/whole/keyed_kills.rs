//! Two hundred kills of jobs on keyed tables, by SIGKILL at drawn places: with each kind of changelog, fixed
//! and dynamic buckets, two writers on one table, and a dedicated compaction beside a writer.
//!
//! After some kills each time the job ends well and everything is judged: by a map, by the fold of the
//! changes, by the bytes of the table's folder and by `verify`.

use tidegate_test_services::{S3Server, cache_dir};
use tidegate_tests::keyed::{
    Changes, Content, Told, folded, job, job_of, judged, sequences_apart, whole,
};
use tidegate_tests::lab::{Lab, Running};

/// Places of a checkpoint, the later ones also between its halves: publishing comes twice where there is a
/// compaction.
const PLACES: [(&str, u64); 8] = [
    ("before-checkpoint", 2),
    ("prepared", 2),
    ("recorded", 2),
    ("before-publish", 4),
    ("published", 4),
    ("answered", 3),
    ("notified", 2),
    ("row-taken", 40),
];

/// Of a compaction, which takes no checkpoints.
const COMPACTION: [(&str, u64); 2] = [("before-publish", 1), ("published", 1)];

const COMPACT: [&str; 3] = ["compact", "shop.orders", "--full"];

fn place(draw: &mut Changes, places: &[(&str, u64)]) -> String {
    let (name, most) = places[draw.random(places.len() as u64) as usize];
    format!("{name}:{}", 1 + draw.random(most))
}

fn start(lab: &Lab, arguments: &[&str], place: &str) -> Running {
    lab.spawn(arguments, &[("TIDEGATE_STOP_AT", place)])
}

/// Whether SIGKILL ended it; else it must have ended well: where a place is not passed so often, it is not.
#[track_caller]
fn killed(run: Running) -> bool {
    let done = run.wait();
    if done.signal == Some(9) {
        return true;
    }
    done.expect(0);
    false
}

/// Compactions went on meanwhile, or nothing was shown about them.
#[track_caller]
fn compacted(lab: &Lab) {
    let snapshots = lab.snapshots();
    let compactions = snapshots
        .iter()
        .filter(|s| s["commit_kind"] == "COMPACT")
        .count();
    assert!(compactions > 5, "{compactions} of {}", snapshots.len());
}

/// Kills one job so many times, judging after every eighth.
fn killed_in_turn(lab: &Lab, options: &str, told: Told, kills: usize, seed: u64) {
    job(lab, options);
    let mut changes = Changes::new(seed);
    let (mut died, mut judged) = (0, 0);
    while died < kills {
        changes.file(lab, "in", 50);
        let at = place(&mut changes, &PLACES);
        died += usize::from(killed(start(lab, &["run", "job.yaml"], &at)));
        if died / 8 > judged || died == kills {
            judged = died / 8;
            // A run that brings rows removes what those before it left.
            changes.file(lab, "in", 10);
            lab.run(&[]).expect(0);
            whole(lab, &changes.content);
            sequences_apart(lab);
        }
    }
    if told == Told::Rows {
        // What the top level does not have yet is not told yet.
        lab.start_on(&COMPACT, &[]).wait().expect(0);
        whole(lab, &changes.content);
    }
    assert_eq!(folded(lab, told), changes.content, "{died} kills");
    compacted(lab);
}

#[test]
fn keyed_killed_50_times_in_fixed_buckets_with_an_input_changelog() {
    let options = ", bucket: 2, changelog-producer: input";
    killed_in_turn(&Lab::new(), options, Told::Records, 50, 21);
}

#[test]
fn keyed_killed_50_times_in_dynamic_buckets_with_full_compactions() {
    let options = ", dynamic-bucket.target-row-num: 15, changelog-producer: full-compaction";
    killed_in_turn(&Lab::new(), options, Told::Rows, 50, 22);
}

/// Run, killed, compacted, verified and read on a real server: by the same judges.
fn on_a_server(server: &'static S3Server, kills: usize) {
    for (options, told) in [
        (", bucket: 2, changelog-producer: input", Told::Records),
        (
            ", dynamic-bucket.target-row-num: 15, changelog-producer: full-compaction",
            Told::Rows,
        ),
    ] {
        let lab = Lab::on_s3(server);
        killed_in_turn(&lab, options, told, kills, 51);
        lab.start_on(&COMPACT, &[]).wait().expect(0);
        judged(&lab);
    }
}

#[test]
fn keyed_jobs_killed_on_ministack_lose_and_double_nothing() {
    on_a_server(S3Server::shared().unwrap(), 10);
}

/// Where it is installed, as `cargo xtask chaos` does.
#[test]
fn keyed_jobs_killed_on_versity_lose_and_double_nothing() {
    let installed = std::fs::read_dir(cache_dir()).into_iter().flatten();
    let mut names = installed.map(|e| e.unwrap().file_name());
    if !names.any(|n| n.to_string_lossy().starts_with("versitygw-")) {
        println!("SKIPPED: the Versity gateway is not installed");
        return;
    }
    let place = tempfile::Builder::new()
        .prefix("tidegate-versity-")
        .tempdir();
    let server = S3Server::start_versity(&place.unwrap().keep()).unwrap();
    on_a_server(Box::leak(Box::new(server)), 10);
}

/// Both take and compact the same buckets, each its own keys.
#[test]
fn two_keyed_writers_killed_60_times_on_one_table_lose_and_double_nothing() {
    let lab = Lab::new();
    let options = ", bucket: 2, changelog-producer: input";
    let names = [("lab", "job.yaml", "in"), ("other", "other.yaml", "more")];
    let mut both = [Changes::of_keys(31, 0), Changes::of_keys(32, 1000)];
    for (name, _, folder) in names {
        job_of(&lab, name, folder, options);
    }
    let (mut died, mut judged) = (0, 0);
    while died < 60 {
        let mut runs = Vec::new();
        for ((_, file, folder), changes) in names.iter().zip(&mut both) {
            changes.file(&lab, folder, 40);
            let at = place(changes, &PLACES);
            runs.push(start(&lab, &["run", file], &at));
        }
        died += runs.into_iter().map(killed).filter(|k| *k).count();
        if died / 12 > judged {
            judged = died / 12;
            let mut runs = Vec::new();
            for ((_, file, folder), changes) in names.iter().zip(&mut both) {
                changes.file(&lab, folder, 10);
                runs.push(lab.spawn(&["run", file], &[]));
            }
            for run in runs {
                run.wait().expect(0);
            }
            let all: Content = both.iter().flat_map(|c| c.content.clone()).collect();
            whole(&lab, &all);
        }
    }
    let all: Content = both.iter().flat_map(|c| c.content.clone()).collect();
    assert_eq!(folded(&lab, Told::Records), all, "{died} kills");
    compacted(&lab);
}

/// The writer is `write-only`; what it writes is compacted by a command beside it, and both are killed.
#[test]
fn a_keyed_writer_and_a_compaction_beside_it_killed_40_times_lose_and_double_nothing() {
    let lab = Lab::new();
    let options = ", bucket: 2, write-only: true, changelog-producer: full-compaction";
    job(&lab, options);
    let mut changes = Changes::new(41);
    changes.file(&lab, "in", 50);
    lab.run(&[]).expect(0);
    let (mut died, mut judged) = (0, 0);
    while died < 40 {
        changes.file(&lab, "in", 50);
        let (one, other) = (
            place(&mut changes, &PLACES),
            place(&mut changes, &COMPACTION),
        );
        let writer = start(&lab, &["run", "job.yaml"], &one);
        let compactor = lab.start_on(&COMPACT, &[("TIDEGATE_STOP_AT", &other)]);
        died += usize::from(killed(writer)) + usize::from(killed(compactor));
        if died / 10 > judged {
            judged = died / 10;
            changes.file(&lab, "in", 10);
            lab.run(&[]).expect(0);
            lab.start_on(&COMPACT, &[]).wait().expect(0);
            whole(&lab, &changes.content);
            sequences_apart(&lab);
        }
    }
    assert_eq!(folded(&lab, Told::Rows), changes.content, "{died} kills");
    compacted(&lab);
}
