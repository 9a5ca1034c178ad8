//! A wall clock that can be moved under running processes: a small library of ours before libc
//! (`LD_PRELOAD`), compiled with `cc` on first use. Linux only, as the whole rig.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A clock of its own for processes with [`Clock::env`].
#[derive(Debug)]
pub struct Clock {
    library: PathBuf,
    file: PathBuf,
}

impl Clock {
    /// With its files in this folder; it goes right at first.
    pub fn new(dir: &Path) -> Self {
        let (source, library) = (dir.join("clock.c"), dir.join("clock.so"));
        fs::write(&source, include_str!("clock.c")).unwrap();
        let compiled = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .args([&library, &source])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&compiled.stderr);
        assert!(compiled.status.success(), "cc clock.c: {said}");
        let clock = Self {
            library,
            file: dir.join("clock"),
        };
        fs::write(&clock.file, [0; 8]).unwrap();
        clock
    }

    /// What a process needs to see it.
    pub fn env(&self) -> [(&'static str, &str); 2] {
        [
            ("LD_PRELOAD", self.library.to_str().unwrap()),
            ("TIDEGATE_CLOCK", self.file.to_str().unwrap()),
        ]
    }

    /// So many seconds fast (or slow) from now on.
    pub fn set(&self, seconds: i64) {
        let file = fs::File::options().write(true).open(&self.file).unwrap();
        file.write_all_at(&seconds.to_ne_bytes(), 0).unwrap();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{SystemTime, UNIX_EPOCH};

    #[test]
    fn a_process_sees_the_clock_as_it_was_set() {
        let dir = tempfile::TempDir::new().unwrap();
        let clock = Clock::new(dir.path());
        for moved in [0, 86_400 * 400, -86_400 * 30] {
            clock.set(moved);
            let date = Command::new("date")
                .arg("+%s")
                .envs(clock.env())
                .output()
                .unwrap();
            let seen: i64 = String::from_utf8(date.stdout)
                .unwrap()
                .trim()
                .parse()
                .unwrap();
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
            let off = seen - moved - i64::try_from(now.as_secs()).unwrap();
            assert!((-3600..3600).contains(&off), "{moved}: off by {off} s");
        }
    }
}
