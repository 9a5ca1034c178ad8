//! What an experienced, hostile operator does: damage by hand, zombies, kills in the middle of a way
//! out, many jobs on one store that stalls.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use tidegate_test_services::S3Server;
use tidegate_tests::judge;
use tidegate_tests::lab::{Done, Generator, Lab, Running, TABLE, wait_until};

/// Codes that the README documents, for commands that no signal ends.
const DOCUMENTED: [i32; 9] = [0, 1, 2, 3, 4, 5, 6, 8, 9];

/// A job of 300 rows, killed when its n-th commit was notified.
fn unfinished(nth: usize, bucket: i32) -> Lab {
    // A checkpoint that came before the first row is notified as well, and has no snapshot.
    for _ in 0..20 {
        let lab = Lab::new();
        lab.generator(&Generator {
            rows: Some(300),
            rate: Some(1000),
            interval: Some("60 ms"),
            bucket,
            partition_by: "dt",
            more: "restart: { strategy: none }\n",
            ..Generator::default()
        });
        lab.run_slowly_to(&format!("notified:{nth}"), 60).killed();
        if lab.visible() == nth {
            return lab;
        }
    }
    panic!("never {nth} snapshots when {nth} commits were notified");
}

/// The files of the lab's table whose name in its folder starts so, sorted.
fn named(lab: &Lab, folder: &str, start: &str) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(lab.table_dir().join(folder))
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| {
            let name = p.file_name().unwrap().to_string_lossy();
            name.starts_with(start)
        })
        .collect();
    // Numbers at the end count.
    found.sort_by_key(|p| {
        let name = p.to_string_lossy().into_owned();
        let number = name.rsplit('-').next().unwrap().parse::<u64>();
        (number.unwrap_or(0), name)
    });
    found
}

/// Every file below a folder with its size.
fn everything(folder: &Path) -> Vec<(PathBuf, u64)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            found.extend(everything(&entry.path()));
        } else {
            found.push((entry.path(), entry.metadata().unwrap().len()));
        }
    }
    found.sort();
    found
}

fn records(lab: &Lab) -> PathBuf {
    let user = fs::read_dir(lab.path("checkpoints/lab")).unwrap().next();
    user.unwrap().unwrap().path()
}

fn ask(lab: &Lab, args: &[&str]) -> Done {
    let warehouse = lab.warehouse();
    lab.tidegate(&[args, &["-w", &warehouse]].concat())
}

fn verify(lab: &Lab) -> Done {
    ask(lab, &["verify", TABLE])
}

fn exchange(a: &Path, b: &Path) {
    let (left, right) = (fs::read(a).unwrap(), fs::read(b).unwrap());
    fs::write(a, right).unwrap();
    fs::write(b, left).unwrap();
}

#[test]
fn pipes_devices_and_endless_files_are_errors_and_neither_hang_nor_fill_memory() {
    let good = unfinished(2, -1);
    for place in [
        "snapshot/snapshot-2",
        "snapshot/LATEST",
        "schema/schema-0",
        "tidegate/jobs/lab/epoch-1",
    ] {
        for kind in ["pipe", "device", "sparse"] {
            let lab = good.copy();
            let path = lab.table_dir().join(place);
            fs::remove_file(&path).unwrap();
            match kind {
                "pipe" => assert!(
                    Command::new("mkfifo")
                        .arg(&path)
                        .status()
                        .unwrap()
                        .success()
                ),
                "device" => symlink("/dev/zero", &path).unwrap(),
                _ => File::create(&path).unwrap().set_len(1 << 36).unwrap(),
            }
            let name = place.rsplit('/').next().unwrap();
            lab.run(&[]).expect(1).says(&[name]);
        }
    }
}

type Damage = (&'static str, fn(&[u8]) -> Option<Vec<u8>>);

const DAMAGES: [Damage; 8] = [
    ("gone", |_| None),
    ("empty", |_| Some(Vec::new())),
    ("one byte", |b| Some(b[..1].to_vec())),
    ("half", |b| Some(b[..b.len() / 2].to_vec())),
    ("but one byte", |b| Some(b[..b.len() - 1].to_vec())),
    ("zeros", |b| Some(vec![0; b.len()])),
    ("a flipped bit", |b| {
        let mut b = b.to_vec();
        let middle = b.len() / 2;
        b[middle] ^= 0x10;
        Some(b)
    }),
    ("no text", |b| Some([&[0xff, 0xfe, 0xfa][..], b].concat())),
];

#[test]
fn damaged_files_end_in_documented_codes_without_panic_and_reading_changes_nothing() {
    let good = unfinished(3, 2);
    let inside = |path: &Path| path.strip_prefix(good.path(".")).unwrap().to_path_buf();
    let mut victims = vec![
        good.table_dir().join("snapshot/snapshot-1"),
        good.table_dir().join("snapshot/snapshot-3"),
        good.table_dir().join("snapshot/LATEST"),
    ];
    victims.extend(named(&good, "schema", ""));
    victims.extend(named(&good, "manifest", "manifest-").pop());
    victims.extend(named(&good, "manifest", "manifest-list-").pop());
    victims.extend(named(&good, "tidegate/jobs/lab", ""));
    victims.push(records(&good).join("checkpoint-3"));
    for victim in &victims {
        for (what, damage) in DAMAGES {
            let lab = good.copy();
            let path = lab.path(&inside(victim).display().to_string());
            match damage(&fs::read(&path).unwrap()) {
                Some(bytes) => fs::write(&path, bytes).unwrap(),
                None => fs::remove_file(&path).unwrap(),
            }
            let before = everything(&lab.table_dir());
            let commands: [&[&str]; 4] = [
                &["table", "read", TABLE],
                &["job", "status", TABLE, "lab"],
                &["verify", TABLE],
                &["table", "drop", TABLE, "--dry-run"],
            ];
            let context = format!("{} {what}", victim.display());
            let look = |done: Done| {
                let known = done.code.is_some_and(|c| DOCUMENTED.contains(&c));
                assert!(known, "{context}: {done:?}");
                assert!(!done.stderr.contains("panicked"), "{context}: {done:?}");
            };
            for command in commands {
                look(ask(&lab, command));
            }
            assert_eq!(before, everything(&lab.table_dir()), "{context}");
            look(lab.run(&[]));
        }
    }
}

#[test]
fn a_manifest_list_that_is_gone_is_damage_and_not_a_table_that_is_not_there() {
    let lab = unfinished(3, -1);
    fs::remove_file(named(&lab, "manifest", "manifest-list-").pop().unwrap()).unwrap();
    ask(&lab, &["table", "files", TABLE])
        .expect(1)
        .says(&["manifest-list-"]);
}

#[test]
fn a_schema_that_is_gone_is_not_guessed_from_the_job_file() {
    let lab = unfinished(2, -1);
    fs::remove_file(lab.table_dir().join("schema/schema-0")).unwrap();
    lab.run(&[]).expect(1).says(&["schema-0", "snapshot-2"]);
    assert!(!lab.table_dir().join("schema/schema-0").exists());
}

/// Edits a snapshot by hand.
fn edit(lab: &Lab, id: u64, change: impl Fn(&mut serde_json::Map<String, Value>)) {
    let path = lab.table_dir().join(format!("snapshot/snapshot-{id}"));
    let mut value: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    change(value.as_object_mut().unwrap());
    fs::write(path, serde_json::to_vec_pretty(&value).unwrap()).unwrap();
}

fn mark(name: &'static str, value: &'static str) -> impl Fn(&mut serde_json::Map<String, Value>) {
    move |s| {
        s["properties"][name] = value.into();
    }
}

fn data_file(lab: &Lab) -> PathBuf {
    let files = lab.data_files();
    let path = files[0]["file_path"].as_str().unwrap();
    PathBuf::from(path.strip_prefix("file://").unwrap())
}

#[test]
fn verify_finds_every_damage_made_by_hand() {
    type Hand = (&'static str, fn(&Lab));
    let hands: [Hand; 22] = [
        ("a data file deleted", |l| {
            fs::remove_file(data_file(l)).unwrap();
        }),
        ("a data file cut", |l| {
            let path = data_file(l);
            let bytes = fs::read(&path).unwrap();
            fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        }),
        ("a data file's first page", |l| {
            let path = data_file(l);
            let mut bytes = fs::read(&path).unwrap();
            bytes[30] ^= 0x40;
            fs::write(&path, bytes).unwrap();
        }),
        ("manifests exchanged", |l| {
            let m = named(l, "manifest", "manifest-tg");
            exchange(&m[0], &m[1]);
        }),
        ("a manifest deleted", |l| {
            fs::remove_file(&named(l, "manifest", "manifest-tg")[1]).unwrap();
        }),
        ("delta lists of older snapshots exchanged", |l| {
            let m = named(l, "manifest", "manifest-list-");
            exchange(&m[1], &m[3]);
        }),
        ("rows in all", |l| {
            edit(l, 3, |s| s["totalRecordCount"] = 7.into());
        }),
        ("rows changed", |l| {
            edit(l, 3, |s| s["deltaRecordCount"] = 7.into());
        }),
        ("a delta that is the base", |l| {
            edit(l, 4, |s| {
                s["deltaManifestList"] = s["baseManifestList"].clone();
                s.remove("deltaManifestListSize");
            });
        }),
        ("a list of no such name", |l| {
            edit(l, 3, |s| s["baseManifestList"] = "manifest-list-no".into());
        }),
        ("a list's size", |l| {
            edit(l, 3, |s| s["deltaManifestListSize"] = 5.into());
        }),
        ("another parent", |l| {
            edit(l, 3, mark("tidegate.based-on", "nobody"));
        }),
        ("positions", |l| {
            edit(l, 3, mark("tidegate.positions", "AAAA"));
        }),
        ("the hash of positions", |l| {
            edit(l, 3, mark("tidegate.positions-hash", "00"));
        }),
        ("positions that are not there", |l| {
            edit(l, 3, |s| {
                let marks = s["properties"].as_object_mut().unwrap();
                marks.remove("tidegate.positions");
                let name = format!("tidegate/jobs/lab/positions-{}", "0".repeat(64));
                marks.insert("tidegate.positions-at".into(), name.into());
            });
        }),
        ("an identifier twice", |l| {
            edit(l, 3, |s| s["commitIdentifier"] = 2.into());
        }),
        ("a snapshot of a future version", |l| {
            edit(l, 3, |s| s["version"] = 9.into());
        }),
        ("a snapshot that is no snapshot", |l| {
            fs::write(l.table_dir().join("snapshot/snapshot-3"), "{").unwrap();
        }),
        ("a hole", |l| {
            fs::remove_file(l.table_dir().join("snapshot/snapshot-3")).unwrap();
        }),
        ("a snapshot copied on top", |l| {
            let table = l.table_dir();
            fs::copy(
                table.join("snapshot/snapshot-4"),
                table.join("snapshot/snapshot-5"),
            )
            .unwrap();
            edit(l, 5, |s| s["id"] = 5.into());
        }),
        ("a hint beyond the end", |l| {
            fs::write(l.table_dir().join("snapshot/LATEST"), "20").unwrap();
        }),
        ("a note that is no note", |l| {
            fs::write(l.table_dir().join("tidegate/jobs/lab/published"), "{").unwrap();
        }),
    ];
    let good = unfinished(4, 2);
    verify(&good).expect(0);
    for (what, hand) in hands {
        let lab = good.copy();
        hand(&lab);
        let done = verify(&lab);
        assert_eq!(done.code, Some(3), "{what}: {done:?}");
        let told = done.stdout.contains("error") || !done.stderr.is_empty();
        assert!(told, "{what}: {done:?}");
    }
}

/// A running job of 300 rows on a slow store, stopped at a place.
fn paused_at(place: &str, bucket: i32) -> (Lab, Running) {
    // A busy machine may not look in time; then the run is over, and another one is begun.
    for _ in 0..20 {
        let lab = Lab::new();
        lab.generator(&Generator {
            rows: Some(300),
            rate: Some(600),
            interval: Some("80 ms"),
            bucket,
            more: "restart: { strategy: none }\n",
            ..Generator::default()
        });
        let probe = lab.path("probe");
        let text = probe.display().to_string();
        let mut run = lab.spawn(
            &["run", "job.yaml"],
            &[
                ("TIDEGATE_PROBE_FILE", text.as_str()),
                ("TIDEGATE_STORE_LATENCY", "5ms"),
            ],
        );
        let there = || fs::read_to_string(&probe).is_ok_and(|at| at.trim() == place);
        let mut ended = false;
        wait_until(place, || {
            ended = run.ended();
            ended || there()
        });
        if !ended {
            run.signal("STOP");
            return (lab, run);
        }
    }
    panic!("never seen at {place}");
}

#[test]
fn a_paused_run_that_wakes_up_behind_a_newer_one_is_fenced_wherever_it_was() {
    for bucket in [-1, 2] {
        for place in [
            "before-checkpoint",
            "prepared",
            "recorded",
            "before-publish",
            "published",
            "answered",
        ] {
            let (lab, zombie) = paused_at(place, bucket);
            let newer = lab.run(&[]).expect(0);
            // Stopped only after its last commit: nothing was left to do.
            let late = newer.stderr.contains("nothing new");
            zombie.signal("CONT");
            let woken = zombie.wait();
            assert_eq!(
                woken.code,
                Some(if late { 0 } else { 8 }),
                "{bucket} {place}, kept {:?}: {woken:?} {newer:?}",
                lab.keep()
            );
            assert_eq!(judge::differences(&lab.ids(), 300), "", "{place}");
            verify(&lab).expect(0);
        }
    }
}

#[test]
fn a_run_whose_files_a_newer_one_removed_is_fenced_and_does_not_take_the_job_back() {
    let (lab, zombie) = paused_at("before-checkpoint", -1);
    let newer = lab.run(&[]).expect(0);
    // What the newer run's clean-up does, whenever it comes to it.
    for entry in fs::read_dir(lab.table_dir().join("bucket-0")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "tmp") {
            fs::remove_file(path).unwrap();
        }
    }
    zombie.signal("CONT");
    let woken = zombie.wait();
    if !newer.stderr.contains("nothing new") {
        assert_eq!(woken.code, Some(8), "{woken:?} {newer:?}");
    }
    assert_eq!(judge::differences(&lab.ids(), 300), "");
    verify(&lab).expect(0);
}

#[test]
fn a_way_out_that_was_killed_half_way_can_be_taken_again() {
    let base = unfinished(1, -1);
    let older = base.copy();
    base.run_slowly_to("notified:3", 60).killed();
    fs::remove_dir_all(base.path("checkpoints")).unwrap();
    let copied = Command::new("cp")
        .arg("-a")
        .arg(older.path("checkpoints"))
        .arg(base.path("checkpoints"))
        .status()
        .unwrap();
    assert!(copied.success());
    base.run(&[]).expect(6);
    for way in ["rollback-table", "continue-from-table", "accept-duplicates"] {
        let take = ["--on-mismatch", way, "-y"];
        for step in 0..8 {
            let lab = base.copy();
            let run = lab.spawn(
                &[&["run", "job.yaml"], &take[..]].concat(),
                &[("TIDEGATE_STORE_LATENCY", "3ms")],
            );
            std::thread::sleep(Duration::from_millis(10 + step * 35));
            drop(run.kill());
            if lab.run(&[]).code != Some(0) {
                lab.run(&take).expect(0);
            }
            let mut ids = lab.ids();
            ids.dedup();
            assert_eq!(judge::differences(&ids, 300), "", "{way}, killed at {step}");
            if way != "accept-duplicates" {
                assert_eq!(lab.ids().len(), 300, "{way}, killed at {step}");
            }
            verify(&lab).expect(0);
        }
    }
}

#[test]
fn six_jobs_on_one_table_on_s3_lose_and_double_nothing() {
    let lab = Lab::on_s3(S3Server::shared().unwrap());
    lab.generator(&Generator {
        rows: Some(200),
        rate: Some(200),
        interval: Some("200 ms"),
        ..Generator::default()
    });
    let text = fs::read_to_string(lab.path("job.yaml")).unwrap();
    let jobs: Vec<_> = (0..6)
        .map(|n| {
            let job = text
                .replace("name: lab", &format!("name: lab{n}"))
                .replace("start: 1", &format!("start: {}", n * 200 + 1));
            let file = format!("job{n}.yaml");
            lab.write(&file, job);
            lab.spawn(&["run", &file], &[])
        })
        .collect();
    for job in jobs {
        job.wait().expect(0);
    }
    assert_eq!(judge::differences(&lab.ids(), 1200), "");
    let found = lab.judge();
    assert_eq!(found.users.len(), 6);
    assert!(found.orphans.is_empty(), "left over: {:?}", found.orphans);
    lab.query(&["verify", TABLE]);
}
