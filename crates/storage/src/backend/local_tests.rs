//! Order of the steps, failure of each step, names of temporary files.

use super::super::temp_name::NAME_MAX;
use super::disk::Step::{self, Link, MakeDir, MakeTemp, Remove, Rename, SyncDir, SyncFile, Write};
use super::disk::tests::{before_link, recorded};
use super::*;

#[test]
fn temporary_names_are_recognised_and_others_are_not() {
    for (target, tag) in [
        ("snapshot-1", ""),
        ("data.x.parquet", "run-7"),
        ("é 😀", "t"),
    ] {
        let temp = temp_name(target, tag);
        let expected = (!tag.is_empty()).then_some(tag);
        assert_eq!(parse_temp(&temp), Some((target, expected)), "{temp}");
    }
    for other in [
        "snapshot-1",
        ".snapshot-1.7d5cb1f6-3d17-4c6e-8d38-3a6b9f1c2d3e.tmp",
        ".a.tmp",
        ".a.0123456789abcdef0123456789ABCDEF.tmp",
    ] {
        assert_eq!(parse_temp(other), None, "{other}");
    }
}

#[test]
fn temporary_names_fit_where_the_final_name_fits() {
    let long = "é".repeat(127);
    let temp = temp_name(&long, "run-12");
    assert!(temp.len() <= NAME_MAX);
    let (target, tag) = parse_temp(&temp).unwrap();
    assert!(long.starts_with(target));
    assert_eq!(tag, Some("run-12"));
}

fn fresh() -> (tempfile::TempDir, Inner) {
    let dir = tempfile::tempdir().unwrap();
    let inner = Inner {
        root: dir.path().to_owned(),
        durable: Mutex::default(),
    };
    (dir, inner)
}

fn steps(taken: &[(Step, String)]) -> Vec<(Step, &str)> {
    taken
        .iter()
        .map(|(step, name)| (*step, name.as_str()))
        .collect()
}

fn files(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(dir)
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

const EIO: i32 = 5;
const EACCES: i32 = 13;
const ENOSPC: i32 = 28;

#[test]
fn a_created_object_is_durable_before_its_name_and_its_name_before_the_answer() {
    let (_dir, inner) = fresh();
    inner.ensure_dir(&inner.root).unwrap();
    let (made, taken) = recorded(None, || inner.create("a/b/f", "x".into(), ""));
    assert_eq!(made.unwrap(), Created::New);
    let root = inner.root.file_name().unwrap().to_str().unwrap();
    assert_eq!(
        steps(&taken),
        [
            (MakeDir, "b"),
            (MakeDir, "a"),
            (SyncDir, root),
            (MakeDir, "b"),
            (SyncDir, "a"),
            (MakeTemp, "temp"),
            (Write, "temp"),
            (SyncFile, "temp"),
            (Link, "f"),
            (Remove, "temp"),
            (SyncDir, "b"),
        ]
    );
    // A name that exists is made durable before it is believed: it may be our own earlier try.
    let (found, taken) = recorded(None, || inner.create("a/b/f", "y".into(), ""));
    assert_eq!(found.unwrap(), Created::Exists);
    assert_eq!(steps(&taken), [(SyncDir, "b")]);
}

#[test]
fn a_replaced_object_is_durable_before_its_name_and_its_name_before_the_answer() {
    let (_dir, inner) = fresh();
    inner.ensure_dir(&inner.root).unwrap();
    let root = inner.root.file_name().unwrap().to_str().unwrap();
    let put = || {
        let temp = inner.write_temp(Op::Put, "f", "", &["x".into()])?;
        inner.replace(Op::Put, "f", temp)
    };
    let (done, taken) = recorded(None, put);
    done.unwrap();
    assert_eq!(
        steps(&taken),
        [
            (MakeTemp, "temp"),
            (Write, "temp"),
            (SyncFile, "temp"),
            (Rename, "f"),
            (SyncDir, root),
        ]
    );
}

#[test]
fn a_copy_is_a_link_whose_name_is_durable_before_the_answer() {
    let (_dir, inner) = fresh();
    inner.create("f", "x".into(), "").unwrap();
    inner.create("short", "".into(), "").unwrap();
    inner.ensure_dir(&inner.root.join("a")).unwrap();
    let (done, taken) = recorded(None, || inner.copy_once("f", "a/g"));
    done.unwrap();
    assert_eq!(steps(&taken), [(Link, "g"), (SyncDir, "a")]);
    // Again, as after a lost answer; and where another content has the name.
    inner.copy_once("f", "a/g").unwrap();
    let other = inner.copy_once("short", "a/g").unwrap_err();
    assert_eq!(other.kind(), ErrorKind::AlreadyExists);
    let absent = inner.copy_once("none", "a/h").unwrap_err();
    assert_eq!(absent.kind(), ErrorKind::NotFound);
    inner.delete("f").unwrap();
    assert_eq!(inner.read("a/g").unwrap(), "x");
    // A name that did not become durable is not said to be there.
    inner.create("f", "x".into(), "").unwrap();
    let (failed, _) = recorded(Some((1, EIO)), || inner.copy_once("f", "a/i"));
    assert!(failed.unwrap_err().effect_unknown());
}

#[test]
fn a_directory_made_by_somebody_else_is_made_durable_once() {
    let (dir, inner) = fresh();
    fs::create_dir(dir.path().join("a")).unwrap();
    let (_, taken) = recorded(None, || inner.ensure_dir(&dir.path().join("a")));
    assert!(taken.iter().any(|(step, _)| *step == SyncDir));
    let (_, taken) = recorded(None, || inner.ensure_dir(&dir.path().join("a")));
    assert!(taken.is_empty());
}

#[test]
fn a_store_whose_root_somebody_made_is_made_durable_up_to_the_file_system() {
    let (dir, _) = fresh();
    // As a process leaves it that was killed between mkdir and fsync.
    fs::create_dir_all(dir.path().join("a/root")).unwrap();
    let inner = || Inner {
        root: dir.path().join("a/root"),
        durable: Mutex::default(),
    };
    let (made, taken) = recorded(None, || inner().ensure_dir(&dir.path().join("a/root/t")));
    made.unwrap();
    let synced: Vec<&str> = taken
        .iter()
        .filter(|(step, _)| *step == SyncDir)
        .map(|(_, name)| name.as_str())
        .collect();
    let top = dir.path().file_name().unwrap().to_str().unwrap();
    assert!(synced.ends_with(&[top, "a", "root"]), "{synced:?}");
    // Folders of others above the store may be closed to us; a broken disk is told.
    let first = taken.iter().position(|(step, _)| *step == SyncDir).unwrap();
    for (code, passes) in [(EACCES, true), (EIO, false)] {
        let made = || inner().ensure_dir(&dir.path().join("a/root"));
        assert_eq!(recorded(Some((first - 1, code)), made).0.is_ok(), passes);
    }
}

#[test]
fn what_stands_in_a_directory_is_durable_once_it_is_asked_for() {
    let (dir, inner) = fresh();
    fs::create_dir(dir.path().join("a")).unwrap();
    // As a process leaves it that was killed between link and fsync.
    fs::write(dir.path().join("a/f"), "x").unwrap();
    let (done, taken) = recorded(None, || inner.make_durable("a"));
    done.unwrap();
    let root = inner.root.file_name().unwrap().to_str().unwrap();
    assert_eq!(
        steps(&taken)[taken.len() - 2..],
        [(SyncDir, root), (SyncDir, "a")]
    );
    // Each time: somebody else may have been killed there since.
    let (done, taken) = recorded(None, || inner.make_durable("a"));
    done.unwrap();
    assert_eq!(steps(&taken), [(SyncDir, "a")]);
    let (failed, _) = recorded(Some((0, EIO)), || inner.make_durable("a"));
    assert!(
        failed
            .unwrap_err()
            .to_string()
            .contains("fsync of the directory")
    );
    let (done, taken) = recorded(None, || inner.make_durable("none"));
    done.unwrap();
    assert!(taken.is_empty(), "what is not there needs nothing");
}

/// Whatever step fails, the caller is told the truth: a failure without effect leaves no object
/// and no temporary file; where the object may be there, the outcome is unknown.
#[test]
fn every_failing_step_of_a_creation_is_judged_rightly() {
    let clean = [MakeTemp, Write, SyncFile];
    for code in [EIO, EACCES, ENOSPC] {
        for at in 0.. {
            let (dir, inner) = fresh();
            inner.ensure_dir(&inner.root).unwrap();
            let (made, taken) =
                recorded(Some((at, code)), || inner.create("a/f", "x".into(), "run"));
            let Some((step, _)) = taken.get(at) else {
                made.unwrap();
                break;
            };
            let there = dir.path().join("a/f").exists();
            match made {
                Ok(Created::New) => assert_eq!(*step, Remove, "only a temporary file may stay"),
                Ok(Created::Exists) => panic!("{step:?}"),
                Err(error) => {
                    if there {
                        assert!(error.effect_unknown(), "{step:?}: {error}");
                    }
                    if clean.contains(step) {
                        assert!(!error.effect_unknown(), "{step:?}: {error}");
                    }
                    if *step == Link && code == EIO {
                        assert!(error.effect_unknown(), "{step:?}: {error}");
                    }
                    let temps = files(&dir.path().join("a"));
                    assert!(
                        temps.iter().all(|name| name == "f"),
                        "{step:?} leaves {temps:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_file_system_without_hard_links_is_refused_for_writing() {
    const EPERM: i32 = 1;
    const EOPNOTSUPP: i32 = 95;
    for code in [EPERM, EOPNOTSUPP] {
        let (dir, inner) = fresh();
        inner.ensure_dir(&inner.root).unwrap();
        // temp, write, fsync, then the link
        let (made, taken) = recorded(Some((3, code)), || inner.create("f", "x".into(), ""));
        assert_eq!(taken.get(3).map(|(step, _)| *step), Some(Link));
        let error = made.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(!error.effect_unknown() && error.to_string().contains("no hard links"));
        assert!(files(dir.path()).is_empty());
    }
}

#[test]
fn a_removed_directory_is_made_again() {
    let (dir, inner) = fresh();
    inner.create("a/b/f", "x".into(), "").unwrap();
    fs::remove_dir_all(dir.path().join("a")).unwrap();
    assert_eq!(inner.create("a/b/f", "y".into(), "").unwrap(), Created::New);
    assert_eq!(inner.read("a/b/f").unwrap(), "y");
}

#[cfg(unix)]
#[test]
fn links_are_followed_but_never_in_circles() {
    let (dir, inner) = fresh();
    inner.create("a/f", "x".into(), "").unwrap();
    std::os::unix::fs::symlink(dir.path().join("a"), dir.path().join("b")).unwrap();
    std::os::unix::fs::symlink(dir.path(), dir.path().join("a/up")).unwrap();
    std::os::unix::fs::symlink("nowhere", dir.path().join("dangling")).unwrap();
    let mut found = Vec::new();
    inner
        .walk(Op::List, "", true, &mut |path, _, _| found.push(path))
        .unwrap();
    found.sort();
    assert_eq!(found, ["a/f", "b/f"]);
}

#[test]
fn pipes_devices_and_endless_files_are_refused_before_they_are_opened() {
    let (dir, inner) = fresh();
    let made = std::process::Command::new("mkfifo")
        .arg(dir.path().join("pipe"))
        .status();
    assert!(made.unwrap().success());
    std::os::unix::fs::symlink("/dev/zero", dir.path().join("device")).unwrap();
    let sparse = File::create(dir.path().join("sparse")).unwrap();
    sparse.set_len(WHOLE_MAX + 1).unwrap();
    for name in ["pipe", "device", "sparse"] {
        assert_eq!(inner.read(name).unwrap_err().kind(), ErrorKind::Corrupt);
    }
    for name in ["pipe", "device"] {
        let range = inner.read_range(name, 0..1);
        assert_eq!(range.unwrap_err().kind(), ErrorKind::Corrupt);
    }
    // Data files may be longer; they are read in ranges.
    assert_eq!(inner.read_range("sparse", 0..2).unwrap().len(), 2);
}

/// Who cleans up may take a creator that stood still for dead: it then gets the right answer all the same.
#[test]
fn a_creator_whose_temporary_file_was_removed_loses_or_tries_again() {
    let (dir, inner) = fresh();
    inner.ensure_dir(&inner.root).unwrap();
    let removed = |also: fn(&Path)| {
        let folder = dir.path().to_owned();
        before_link(move |target| {
            for name in files(&folder).iter().filter(|n| parse_temp(n).is_some()) {
                fs::remove_file(folder.join(name)).unwrap();
            }
            also(target);
        });
    };
    removed(|target| fs::write(target, "theirs").unwrap());
    assert_eq!(inner.create("f", "x".into(), "").unwrap(), Created::Exists);
    assert_eq!(inner.read("f").unwrap(), "theirs");

    removed(|_| {});
    let error = inner.create("g", "x".into(), "").unwrap_err();
    assert!(error.is_transient() && !error.effect_unknown(), "{error}");
    assert_eq!(inner.create("g", "x".into(), "").unwrap(), Created::New);

    // With the folder gone too (a table was dropped) there is nothing to try again.
    let parent = dir.path().join("a");
    removed(|target| fs::remove_dir_all(target.parent().unwrap()).unwrap());
    let error = inner.create("a/h", "x".into(), "").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    assert!(!parent.exists());
}
