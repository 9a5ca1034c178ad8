//! The system calls of the local store, one by one.
//!
//! Owns nothing but the names of the steps: tests record their order and make each of them fail.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use bytes::Bytes;

/// A step of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    MakeDir,
    MakeTemp,
    Write,
    SyncFile,
    Link,
    Rename,
    Remove,
    SyncDir,
}

#[cfg(not(test))]
fn enter(_step: Step, _path: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
use tests::enter;

pub(super) fn make_dir(path: &Path) -> io::Result<()> {
    enter(Step::MakeDir, path)?;
    fs::create_dir(path)
}

pub(super) fn make_temp(path: &Path) -> io::Result<File> {
    enter(Step::MakeTemp, path)?;
    OpenOptions::new().write(true).create_new(true).open(path)
}

pub(super) fn write(file: &mut File, pieces: &[Bytes], path: &Path) -> io::Result<()> {
    enter(Step::Write, path)?;
    for piece in pieces {
        file.write_all(piece)?;
    }
    Ok(())
}

pub(super) fn sync_file(file: &File, path: &Path) -> io::Result<()> {
    enter(Step::SyncFile, path)?;
    file.sync_all()
}

pub(super) fn link(from: &Path, to: &Path) -> io::Result<()> {
    enter(Step::Link, to)?;
    fs::hard_link(from, to)
}

pub(super) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    enter(Step::Rename, to)?;
    fs::rename(from, to)
}

pub(super) fn remove(path: &Path) -> io::Result<()> {
    enter(Step::Remove, path)?;
    fs::remove_file(path)
}

pub(super) fn sync_dir(dir: &Path) -> io::Result<()> {
    enter(Step::SyncDir, dir)?;
    // Windows cannot open directories; its rename is journalled.
    if cfg!(windows) {
        return Ok(());
    }
    File::open(dir)?.sync_all()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};

    type Action = Box<dyn FnOnce(&Path)>;

    thread_local! {
        static TAKEN: RefCell<Vec<(Step, String)>> = const { RefCell::new(Vec::new()) };
        static FAIL: Cell<Option<(usize, i32)>> = const { Cell::new(None) };
        static BEFORE_LINK: RefCell<Option<Action>> = const { RefCell::new(None) };
    }

    /// What somebody else does right before the next link of this thread; given its target.
    pub(in crate::backend) fn before_link(action: impl FnOnce(&Path) + 'static) {
        BEFORE_LINK.set(Some(Box::new(action)));
    }

    pub(super) fn enter(step: Step, path: &Path) -> io::Result<()> {
        if step == Step::Link
            && let Some(action) = BEFORE_LINK.take()
        {
            action(path);
        }
        let name = path.file_name().map_or_else(String::new, |name| {
            let name = name.to_string_lossy();
            if name.ends_with(".tmp") {
                "temp".to_owned()
            } else {
                name.into_owned()
            }
        });
        let index = TAKEN.with_borrow_mut(|taken| {
            taken.push((step, name));
            taken.len() - 1
        });
        match FAIL.get() {
            Some((at, code)) if at == index => Err(io::Error::from_raw_os_error(code)),
            _ => Ok(()),
        }
    }

    /// Runs an operation on this thread, making step number `fail.0` fail with the code of the
    /// operating system `fail.1`; returns the steps taken.
    pub(in crate::backend) fn recorded<T>(
        fail: Option<(usize, i32)>,
        operation: impl FnOnce() -> T,
    ) -> (T, Vec<(Step, String)>) {
        TAKEN.take();
        FAIL.set(fail);
        let result = operation();
        FAIL.set(None);
        (result, TAKEN.take())
    }
}
