//! File systems that are full or read-only, mounted over folders: needs root, and is `None` where
//! mounting is refused.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Blocks of tmpfs.
const PAGE: u64 = 4096;

/// Whether a program ended well.
pub fn did(program: &str, args: &[&str]) -> bool {
    let output = Command::new(program).args(args).output();
    output.is_ok_and(|output| output.status.success())
}

/// A small file system over a folder, with what was in the folder; goes when dropped, and the folder
/// is then as it was before.
#[derive(Debug)]
pub struct Disk {
    at: PathBuf,
    kind: &'static str,
    /// Of a file system in a file.
    _image: Option<TempDir>,
}

impl Disk {
    /// tmpfs of 4 MiB.
    pub fn over(folder: &Path) -> Option<Self> {
        let text = folder.to_str().unwrap();
        let mount = || did("mount", &["-t", "tmpfs", "-o", "size=4m", "tmpfs", text]);
        Self::mounted(folder, "tmpfs", None, mount)
    }

    /// ext4 in a file on the disk, else tmpfs; of so many MiB.
    pub fn large(folder: &Path, mib: u64) -> Option<Self> {
        let text = folder.to_str().unwrap();
        let image = TempDir::new().unwrap();
        let file = image.path().join("disk");
        let path = file.display().to_string();
        fs::File::create(&file).unwrap().set_len(mib << 20).unwrap();
        if did("mkfs.ext4", &["-q", "-F", "-m", "0", &path]) {
            let mount = || did("mount", &["-o", "loop", &path, text]);
            let disk = Self::mounted(folder, "ext4 in a file", Some(image), mount);
            if disk.is_some() {
                return disk;
            }
        }
        let size = format!("size={mib}m");
        let mount = || did("mount", &["-t", "tmpfs", "-o", &size, "tmpfs", text]);
        Self::mounted(folder, "tmpfs", None, mount)
    }

    fn mounted(
        folder: &Path,
        kind: &'static str,
        image: Option<TempDir>,
        mount: impl FnOnce() -> bool,
    ) -> Option<Self> {
        let text = folder.to_str().unwrap();
        let kept = TempDir::new().unwrap();
        let inside = format!("{text}/.");
        assert!(did("cp", &["-a", &inside, kept.path().to_str().unwrap()]));
        if !mount() {
            return None;
        }
        let disk = Self {
            at: folder.to_owned(),
            kind,
            _image: image,
        };
        let inside = format!("{}/.", kept.path().display());
        assert!(did("cp", &["-a", &inside, text]));
        Some(disk)
    }

    /// Of what kind it is.
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    fn filler(&self) -> PathBuf {
        self.at.join(".filler")
    }

    /// Leaves room for so many small files.
    pub fn fill(&self, leave: u64) {
        let mut filler = fs::File::create(self.filler()).unwrap();
        // As much as fits is written, in pieces that become smaller.
        for piece in [1 << 20, 64 << 10, PAGE as usize, 512] {
            let bytes = vec![b'.'; piece];
            while filler.write_all(&bytes).is_ok() {}
        }
        let size = filler.metadata().unwrap().len();
        filler.set_len(size.saturating_sub(leave * PAGE)).unwrap();
    }

    /// As before [`Disk::fill`].
    pub fn make_room(&self) {
        fs::remove_file(self.filler()).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _gone = Command::new("umount").arg("-l").arg(&self.at).status();
    }
}

/// Makes a folder read-only, and writable again when dropped.
#[derive(Debug)]
pub struct ReadOnly(PathBuf);

impl ReadOnly {
    /// By a mount of the folder over itself.
    pub fn over(folder: &Path) -> Option<Self> {
        let text = folder.to_str().unwrap();
        let bound = did("mount", &["--bind", text, text]);
        // Refused while somebody writes to a file in it.
        let lock = |_| did("mount", &["-o", "remount,bind,ro", text]);
        let locked = bound && (0..50).any(lock);
        let this = bound.then(|| Self(folder.to_owned()));
        if !locked {
            return None;
        }
        this
    }
}

impl Drop for ReadOnly {
    fn drop(&mut self) {
        let _gone = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
