//! What kind of place a store is: its clock, its room, and whether a sync means anything.
//!
//! None of it is needed for correctness except that a sync is one, which nobody can prove from here:
//! these checks tell an operator what to look at. They never make a store unusable.

use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use super::checks::{Answer, Seen, Trial, content, passed, text};
use crate::backend::Scheme;

/// How far two clocks may be apart, beyond what a request took and whole seconds.
const SKEW: Duration = Duration::from_secs(5);
/// Less room than this is worth a word.
const ROOM: u64 = 1 << 30;
/// A disk needs longer than this to make anything durable.
const QUICK: Duration = Duration::from_micros(20);

impl Trial {
    /// The directory of a local store.
    fn directory(&self) -> Option<PathBuf> {
        let local = self.store.capabilities().scheme == Scheme::File;
        let path = self.store.url().strip_prefix("file://").filter(|_| local)?;
        Some(PathBuf::from(path))
    }

    pub(super) async fn clock(&self) -> Answer {
        let before = SystemTime::now();
        let written = self.store.write_once("clock", "tick".into()).await;
        written.map_err(text)?;
        let after = SystemTime::now();
        let meta = self.store.head("clock").await.map_err(text)?;
        let there = meta.ok_or("the object is not there")?.modified;
        let apart = |late: SystemTime, early: SystemTime| {
            let apart = late.duration_since(early).unwrap_or_default();
            (apart > SKEW).then_some(apart)
        };
        let what = match (apart(there, after), apart(before, there)) {
            (Some(ahead), _) => format!("{ahead:.0?} ahead of"),
            (_, Some(behind)) => format!("{behind:.0?} behind"),
            (None, None) => return passed("the store's and this machine's agree"),
        };
        Err(format!(
            "the store's clock is {what} this machine's; time decides nothing here, but snapshots show it \
             and S3 refuses requests 15 minutes off: set both by NTP"
        ))
    }

    pub(super) async fn free_space(&self) -> Answer {
        let Some(directory) = self.directory() else {
            return Ok(Seen::Skipped("a local store only".to_owned()));
        };
        let Some(room) = room(&directory)? else {
            return Ok(Seen::Skipped("not told by this system".to_owned()));
        };
        let mib = room.bytes >> 20;
        if room.files == Some(0) {
            return Err("no file can be made any more (no free inode): remove some".to_owned());
        }
        if room.bytes < ROOM {
            return Err(format!(
                "{mib} MiB are free: a full disk stops every job until there is room"
            ));
        }
        passed(format!("{mib} MiB"))
    }

    pub(super) async fn syncs(&self) -> Answer {
        let Some(directory) = self.directory() else {
            return Ok(Seen::Skipped("a local store only".to_owned()));
        };
        let mut times = Vec::new();
        for round in 0..9 {
            let bytes = content(round, 4096);
            let begun = Instant::now();
            let path = format!("sync/{round}");
            self.store.write_once(&path, bytes).await.map_err(text)?;
            times.push(begun.elapsed());
        }
        times.sort_unstable();
        let median = times.get(times.len() / 2).copied().unwrap_or_default();
        let kind = file_system(&directory)?;
        match kind {
            Kind::Memory(name) => Err(format!(
                "{name} lives in memory: what is written here does not survive the machine; use a disk"
            )),
            Kind::Network(name) => Err(format!(
                "{name} is a network file system: whether a link has one winner among machines, and whether \
                 a sync reaches the server's disk, is up to its server and mount options; run this from two \
                 machines at once, or use an object store"
            )),
            Kind::Disk(_) if median < QUICK => Err(format!(
                "4 KiB with four syncs took {median:.0?}: no disk is that quick; a cache that forgets, or \
                 syncs switched off (eatmydata, nobarrier)?"
            )),
            Kind::Disk(name) => passed(format!(
                "{name}; 4 KiB made durable in {median:.1?} (median of 9)"
            )),
        }
    }
}

/// What a file system is made of, as far as its name tells.
enum Kind {
    Disk(&'static str),
    Memory(&'static str),
    Network(&'static str),
}

/// Bytes and files that there is room for; `None` for files where the file system does not count.
struct Room {
    bytes: u64,
    files: Option<u64>,
}

/// The nearest directory that is there: the trial's own may not be.
#[cfg(unix)]
fn existing(directory: &std::path::Path) -> &std::path::Path {
    let mut there = directory.ancestors().filter(|path| path.is_dir());
    there.next().unwrap_or(directory)
}

#[cfg(unix)]
fn room(directory: &std::path::Path) -> Result<Option<Room>, String> {
    let there = existing(directory);
    let told = rustix::fs::statvfs(there).map_err(|e| format!("{}: {e}", there.display()))?;
    Ok(Some(Room {
        bytes: told.f_bavail.saturating_mul(told.f_frsize),
        // Btrfs and others make inodes as needed and count none.
        files: (told.f_files > 0).then_some(told.f_favail),
    }))
}

#[cfg(not(unix))]
fn room(_directory: &std::path::Path) -> Result<Option<Room>, String> {
    Ok(None)
}

#[cfg(target_os = "linux")]
fn file_system(directory: &std::path::Path) -> Result<Kind, String> {
    let there = existing(directory);
    let told = rustix::fs::statfs(there).map_err(|e| format!("{}: {e}", there.display()))?;
    // Numbers of statfs(2); the type is signed or not by architecture.
    #[allow(clippy::cast_sign_loss, reason = "compared by its bits")]
    Ok(match told.f_type as u32 {
        0x0102_1994 => Kind::Memory("tmpfs"),
        0x8584_58f6 => Kind::Memory("ramfs"),
        0x6969 => Kind::Network("nfs"),
        0xff53_4d42 | 0xfe53_4d42 | 0x517b => Kind::Network("smb"),
        0x0102_1997 => Kind::Network("9p"),
        0x00c3_6400 => Kind::Network("ceph"),
        0x6573_5546 => Kind::Network("fuse"),
        0xef53 => Kind::Disk("ext4"),
        0x5846_5342 => Kind::Disk("xfs"),
        0x9123_683e => Kind::Disk("btrfs"),
        0x2fc1_2fc1 => Kind::Disk("zfs"),
        0xf2f5_2010 => Kind::Disk("f2fs"),
        0x794c_7630 => Kind::Disk("overlayfs"),
        _ => Kind::Disk("a local file system"),
    })
}

#[cfg(not(target_os = "linux"))]
fn file_system(_directory: &std::path::Path) -> Result<Kind, String> {
    Ok(Kind::Disk("a local file system"))
}

#[cfg(all(test, target_os = "linux"))]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::BTreeMap;

    use crate::conformance::{Check, Options, Outcome, Usable, run};
    use crate::store::Store;

    async fn checks(url: &str) -> (Vec<Check>, Usable) {
        let store = Store::open(url, &BTreeMap::new()).unwrap();
        let options = Options {
            rounds: 1,
            upload: 0,
            ..Options::default()
        };
        let report = run(&store, &options).await;
        let usable = report.verdict().usable;
        (report.checks, usable)
    }

    fn one<'a>(checks: &'a [Check], name: &str) -> &'a Check {
        checks.iter().find(|check| check.name == name).unwrap()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_place_in_memory_is_told_and_may_be_used_all_the_same() {
        if !std::path::Path::new("/dev/shm").is_dir() {
            return;
        }
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let (checks, usable) = checks(folder.path().to_str().unwrap()).await;
        let syncs = one(&checks, "syncs");
        assert_eq!(syncs.outcome, Outcome::Failed);
        assert!(syncs.detail.contains("tmpfs"), "{}", syncs.detail);
        assert_eq!(one(&checks, "clock").outcome, Outcome::Passed);
        assert_eq!(usable, Usable::ReadWrite);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_store_without_a_disk_has_no_room_to_tell_of() {
        let (checks, usable) = checks("memory://place").await;
        for name in ["free space", "syncs"] {
            assert_eq!(one(&checks, name).outcome, Outcome::Skipped);
        }
        assert_eq!(usable, Usable::ReadWrite);
    }
}
