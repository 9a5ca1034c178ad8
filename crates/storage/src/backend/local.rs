//! The local file system, with names that appear whole and durable or not at all.
//!
//! Owns the order of system calls that makes [F-atomic] creation and replacement:
//! *temporary file in the same directory → write → fsync → link (or rename) → fsync of the
//! directory*, newly made directories included. All steps of one operation run in one blocking task.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::mpsc::Sender;

use super::disk;
use super::temp_name::{parse_temp, temp_name};
use super::{
    Backend, Capabilities, Created, Entry, LISTED_AT_ONCE, ObjectMeta, PartSink, Pieces, Scheme,
    Unfinished,
};
use crate::error::{ErrorKind, Result, StoreError, io_kind};
use crate::metrics::Op;
use crate::path::{join, name, parent};

/// Longest object that is read whole, in bytes: metadata, records and notes are far below it, and
/// data files are read in ranges. A sparse file of terabytes must not become memory.
const WHOLE_MAX: u64 = 1 << 30;
#[derive(Debug, Clone)]
pub(crate) struct Local(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    root: PathBuf,
    /// Directories known to exist durably: made, or their entry fsynced, by this process.
    durable: Mutex<HashSet<PathBuf>>,
}

impl Local {
    pub(crate) fn new(root: PathBuf) -> Self {
        Self(Arc::new(Inner {
            root,
            durable: Mutex::default(),
        }))
    }

    /// Runs blocking steps. Where the caller goes away, they still run to their end.
    async fn blocking<T: Send + 'static>(
        &self,
        op: Op,
        path: &str,
        steps: impl FnOnce(&Inner, &str) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let inner = Arc::clone(&self.0);
        let owned = path.to_owned();
        run_blocking(op, path, move || steps(&inner, &owned)).await
    }
}

async fn run_blocking<T: Send + 'static>(
    op: Op,
    path: &str,
    steps: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    match tokio::task::spawn_blocking(steps).await {
        Ok(result) => result,
        Err(ended) => Err(StoreError::new(ErrorKind::Other, op, path)
            .message("the file task ended early")
            .source(ended)
            .maybe_applied_if(op.writes())),
    }
}

/// A temporary file that goes away unless it was given its final name.
struct Temp {
    path: PathBuf,
    keep: bool,
}

impl Drop for Temp {
    fn drop(&mut self) {
        if !self.keep {
            // What cannot be removed now is found by `list_unfinished` later.
            let _ = disk::remove(&self.path);
        }
    }
}

impl Inner {
    fn full(&self, path: &str) -> PathBuf {
        if path.is_empty() {
            self.root.clone()
        } else {
            self.root.join(path)
        }
    }

    fn dir_of(&self, path: &str) -> PathBuf {
        parent(path).map_or_else(|| self.root.clone(), |dir| self.root.join(dir))
    }

    /// A new temporary file beside `path`, in a directory that is durable.
    fn temp(&self, op: Op, path: &str, tag: &str) -> Result<(File, Temp)> {
        let dir = self.dir_of(path);
        let temp = dir.join(temp_name(name(path), tag));
        let fail = |step: &str, error| StoreError::io(op, path, step, error, false);
        self.ensure_dir(&dir)
            .map_err(|error| fail("making the directory", error))?;
        let file = match disk::make_temp(&temp) {
            // Somebody removed the directory that we remember.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.forget(&dir);
                self.ensure_dir(&dir)
                    .map_err(|error| fail("making the directory", error))?;
                disk::make_temp(&temp)
            }
            other => other,
        };
        let file = file.map_err(|error| fail("making the temporary file", error))?;
        let temp = Temp {
            path: temp,
            keep: false,
        };
        Ok((file, temp))
    }

    fn write_temp(&self, op: Op, path: &str, tag: &str, pieces: &[Bytes]) -> Result<Temp> {
        let (mut file, temp) = self.temp(op, path, tag)?;
        let fail = |step: &str, error| StoreError::io(op, path, step, error, false);
        disk::write(&mut file, pieces, &temp.path)
            .map_err(|error| fail("writing the temporary file", error))?;
        disk::sync_file(&file, &temp.path)
            .map_err(|error| fail("fsync of the temporary file", error))?;
        Ok(temp)
    }

    fn create(&self, path: &str, bytes: Bytes, tag: &str) -> Result<Created> {
        let op = Op::Create;
        let target = self.full(path);
        let sync = || {
            disk::sync_dir(&self.dir_of(path)).map_err(|error| {
                StoreError::io(op, path, "fsync of the directory", error, true).maybe_applied()
            })
        };
        // Saves the writing; the link below is what decides. What exists may be our own earlier
        // attempt whose fsync failed, so the name is made durable before it is believed.
        match fs::symlink_metadata(&target) {
            // No creator ever made it, so nothing is in doubt and waiting does not help.
            Ok(meta) if meta.is_dir() => {
                let error = StoreError::new(ErrorKind::Corrupt, op, path);
                return Err(error.message("a folder stands where this file must be; move it away"));
            }
            Ok(_) => return sync().map(|()| Created::Exists),
            Err(_) => {}
        }
        let temp = self.write_temp(op, path, tag, &[bytes])?;
        match disk::link(&temp.path, &target) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return sync().map(|()| Created::Exists);
            }
            // Somebody who cleans up took us for dead and removed the temporary file: the name is
            // taken by now, or may be tried again with a new file.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if fs::symlink_metadata(&target).is_ok() {
                    return sync().map(|()| Created::Exists);
                }
                if !self.dir_of(path).is_dir() {
                    return Err(link_error(op, path, error));
                }
                let gone = StoreError::new(ErrorKind::Transient, op, path);
                let gone = gone.message("the temporary file was removed before it got its name");
                return Err(gone.source(error));
            }
            Err(error) => return Err(link_error(op, path, error)),
        }
        drop(temp);
        sync().map(|()| Created::New)
    }

    fn replace(&self, op: Op, path: &str, mut temp: Temp) -> Result<()> {
        disk::rename(&temp.path, &self.full(path)).map_err(|error| {
            StoreError::io(op, path, "renaming the temporary file", error, true)
        })?;
        temp.keep = true;
        disk::sync_dir(&self.dir_of(path)).map_err(|error| {
            StoreError::io(op, path, "fsync of the directory", error, true).maybe_applied()
        })
    }

    /// A second name for the same file: objects are replaced and never changed, so that both may
    /// share their bytes.
    fn copy_once(&self, from: &str, to: &str) -> Result<()> {
        let op = Op::Copy;
        let (source, target) = (self.full(from), self.full(to));
        let fail = |path: &str, step: &str, error| StoreError::io(op, path, step, error, false);
        let (_, size) = self.open_object(op, from)?;
        let dir = self.dir_of(to);
        self.ensure_dir(&dir)
            .map_err(|error| fail(to, "making the directory", error))?;
        let linked = match disk::link(&source, &target) {
            // Somebody removed the directory that we remember.
            Err(error) if error.kind() == io::ErrorKind::NotFound && source.exists() => {
                self.forget(&dir);
                self.ensure_dir(&dir)
                    .map_err(|error| fail(to, "making the directory", error))?;
                disk::link(&source, &target)
            }
            other => other,
        };
        match linked {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let (_, there) = self.open_object(op, to)?;
                if there != size {
                    return Err(StoreError::new(ErrorKind::AlreadyExists, op, to).message(
                        format!(
                            "something of {there} bytes has the name of {from}, which has {size}"
                        ),
                    ));
                }
            }
            Err(error) => return Err(link_error(op, to, error)),
        }
        disk::sync_dir(&dir).map_err(|error| {
            StoreError::io(op, to, "fsync of the directory", error, true).maybe_applied()
        })
    }

    fn read(&self, path: &str) -> Result<Bytes> {
        let fail = |step: &str, error| StoreError::io(Op::Get, path, step, error, false);
        let (mut file, size) = self.open_object(Op::Get, path)?;
        if size > WHOLE_MAX {
            return Err(StoreError::new(ErrorKind::Corrupt, Op::Get, path).message(format!(
                "{size} bytes, too many for an object that is read whole (at most {WHOLE_MAX}); \
                 it is damaged or not one of this table's files"
            )));
        }
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
        file.read_to_end(&mut bytes)
            .map_err(|error| fail("reading", error))?;
        Ok(bytes.into())
    }

    /// Opens a regular file, and gives its size. Opening a pipe would wait for a writer, and a
    /// device may have no end, so neither is opened.
    fn open_object(&self, op: Op, path: &str) -> Result<(File, u64)> {
        let fail = |step: &str, error| StoreError::io(op, path, step, error, false);
        let full = self.full(path);
        let kind = fs::metadata(&full).map_err(|error| fail("reading", error))?;
        if kind.is_dir() {
            // There are no directories among objects.
            return Err(StoreError::new(ErrorKind::NotFound, op, path).message("a directory"));
        }
        if !kind.is_file() {
            return Err(StoreError::new(ErrorKind::Corrupt, op, path).message(
                "a pipe, socket or device, not a regular file; put the file back or remove it",
            ));
        }
        let file = File::open(&full).map_err(|error| fail("opening", error))?;
        let size = file
            .metadata()
            .map_err(|error| fail("reading the size", error))?
            .len();
        Ok((file, size))
    }

    fn read_range(&self, path: &str, range: Range<u64>) -> Result<Bytes> {
        let op = Op::GetRange;
        let fail = |step: &str, error| StoreError::io(op, path, step, error, false);
        let (mut file, size) = self.open_object(op, path)?;
        let len = range.end.saturating_sub(range.start);
        let short = || {
            StoreError::new(ErrorKind::Corrupt, op, path).message(format!(
                "bytes {range:?} asked of an object of {size} bytes"
            ))
        };
        if range.start > range.end || range.end > size {
            return Err(short());
        }
        let mut bytes = vec![0; usize::try_from(len).map_err(|_| short())?];
        file.seek(SeekFrom::Start(range.start))
            .and_then(|_| file.read_exact(&mut bytes))
            .map_err(|error| fail("reading", error))?;
        Ok(bytes.into())
    }

    /// Calls `each` for every entry below a directory, files and directories, ours included.
    fn walk(
        &self,
        op: Op,
        dir: &str,
        recurse: bool,
        each: &mut dyn FnMut(String, &str, &fs::Metadata),
    ) -> Result<()> {
        let fail = |step: &str, error| StoreError::io(op, dir, step, error, false);
        let entries = match fs::read_dir(self.full(dir)) {
            Ok(entries) => entries,
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                return Ok(());
            }
            Err(error) => return Err(fail("listing", error)),
        };
        for entry in entries {
            let entry = entry.map_err(|error| fail("listing", error))?;
            let file_name = entry.file_name();
            // A name that is no text cannot be one of ours, nor be asked for.
            let Some(file_name) = file_name.to_str() else {
                continue;
            };
            // Follows links, as reading does.
            let meta = match fs::metadata(entry.path()) {
                Ok(meta) => meta,
                // Gone since, or a link to nothing.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => {
                    let entry = join(dir, file_name);
                    return Err(StoreError::io(op, &entry, "listing", error, false));
                }
            };
            let path = join(dir, file_name);
            if meta.is_dir() && recurse {
                // A link back up would be walked for ever.
                let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
                if is_link && self.leads_back(dir, &entry.path()) {
                    continue;
                }
                self.walk(op, &path, true, each)?;
            } else {
                each(path, file_name, &meta);
            }
        }
        Ok(())
    }

    /// Whether a linked directory is the one that it stands in, or one above.
    fn leads_back(&self, dir: &str, link: &Path) -> bool {
        match (fs::canonicalize(self.full(dir)), fs::canonicalize(link)) {
            (Ok(here), Ok(target)) => here.starts_with(target),
            _ => true,
        }
    }

    fn delete(&self, path: &str) -> Result<()> {
        match disk::remove(&self.full(path)) {
            Err(error) if io_kind(&error) != ErrorKind::NotFound => {
                Err(StoreError::io(Op::Delete, path, "removing", error, true))
            }
            _ => Ok(()),
        }
    }
}

impl Inner {
    /// Deepest first; a directory that is not empty stays.
    fn remove_dirs(&self, dir: &str) -> Result<()> {
        let mut below = Vec::new();
        self.walk(Op::Delete, dir, false, &mut |path, _, meta| {
            if meta.is_dir() {
                below.push(path);
            }
        })?;
        for path in below {
            self.remove_dirs(&path)?;
        }
        match fs::remove_dir(self.full(dir)) {
            Err(error)
                if !matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::DirectoryNotEmpty
                ) =>
            {
                Err(StoreError::io(
                    Op::Delete,
                    dir,
                    "removing the directory",
                    error,
                    true,
                ))
            }
            _ => {
                self.forget(&self.full(dir));
                Ok(())
            }
        }
    }
}

/// What a refused link(2) means.
fn link_error(op: Op, path: &str, error: io::Error) -> StoreError {
    let no_links = matches!(error.kind(), io::ErrorKind::Unsupported | io::ErrorKind::TooManyLinks)
        // EPERM: "the file system does not support the creation of hard links"
        || error.raw_os_error() == Some(1);
    if no_links {
        return StoreError::new(ErrorKind::Unsupported, op, path)
            .message(
                "this file system has no hard links, so nothing can be created atomically on it; \
                 use it for reading only, or put the table on another file system",
            )
            .source(error);
    }
    StoreError::io(op, path, "linking to the final name", error, true)
}

fn modified(meta: &fs::Metadata) -> SystemTime {
    meta.modified().unwrap_or(SystemTime::UNIX_EPOCH)
}

#[async_trait]
impl Backend for Local {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            scheme: Scheme::File,
            atomic_create: true,
            durable: true,
            shared: true,
            lists_unfinished: true,
            copies_up_to: u64::MAX,
        }
    }

    fn part_plan(&self) -> (usize, usize) {
        (1 << 20, 2)
    }

    async fn create(&self, path: &str, bytes: Bytes, tag: &str) -> Result<Created> {
        let tag = tag.to_owned();
        self.blocking(Op::Create, path, move |inner, path| {
            inner.create(path, bytes, &tag)
        })
        .await
    }

    async fn put(&self, path: &str, pieces: Pieces, tag: &str) -> Result<()> {
        let tag = tag.to_owned();
        self.blocking(Op::Put, path, move |inner, path| {
            let temp = inner.write_temp(Op::Put, path, &tag, &pieces)?;
            inner.replace(Op::Put, path, temp)
        })
        .await
    }

    async fn copy_once(&self, from: &str, to: &str) -> Result<()> {
        let to = to.to_owned();
        self.blocking(Op::Copy, from, move |inner, from| {
            inner.copy_once(from, &to)
        })
        .await
    }

    async fn begin_upload(&self, path: &str, tag: &str) -> Result<Arc<dyn PartSink>> {
        let tag = tag.to_owned();
        let inner = Arc::clone(&self.0);
        self.blocking(Op::BeginUpload, path, move |_, path| {
            let (file, mut temp) = inner.temp(Op::BeginUpload, path, &tag)?;
            temp.keep = true;
            let sink: Arc<dyn PartSink> = Arc::new(LocalUpload(Arc::new(UploadFile {
                temp: temp.path.clone(),
                file: Mutex::new(file),
                path: path.to_owned(),
                dropped: AtomicBool::new(false),
                store: Arc::clone(&inner),
            })));
            Ok(sink)
        })
        .await
    }

    async fn get(&self, path: &str) -> Result<Bytes> {
        self.blocking(Op::Get, path, Inner::read).await
    }

    async fn get_range(&self, path: &str, range: Range<u64>) -> Result<Bytes> {
        self.blocking(Op::GetRange, path, move |inner, path| {
            inner.read_range(path, range)
        })
        .await
    }

    async fn head(&self, path: &str) -> Result<Option<ObjectMeta>> {
        self.blocking(Op::Head, path, |inner, path| {
            match fs::metadata(inner.full(path)) {
                Ok(meta) if meta.is_dir() => Ok(None),
                Ok(meta) => Ok(Some(ObjectMeta {
                    path: path.to_owned(),
                    size: meta.len(),
                    modified: modified(&meta),
                })),
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                    ) =>
                {
                    Ok(None)
                }
                Err(error) => Err(StoreError::io(Op::Head, path, "reading", error, false)),
            }
        })
        .await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<ObjectMeta>> {
        self.blocking(Op::List, prefix, |inner, prefix| {
            let mut found = Vec::new();
            inner.walk(Op::List, prefix, true, &mut |path, name, meta| {
                if parse_temp(name).is_none() {
                    found.push(ObjectMeta {
                        path,
                        size: meta.len(),
                        modified: modified(meta),
                    });
                }
            })?;
            found.sort_by(|a, b| a.path.cmp(&b.path));
            Ok(found)
        })
        .await
    }

    async fn list_in_parts(&self, prefix: &str, parts: Sender<Vec<ObjectMeta>>) -> Result<()> {
        self.blocking(Op::List, prefix, move |inner, prefix| {
            let mut part = Vec::new();
            inner.walk(Op::List, prefix, true, &mut |path, name, meta| {
                if parse_temp(name).is_some() {
                    return;
                }
                part.push(ObjectMeta {
                    path,
                    size: meta.len(),
                    modified: modified(meta),
                });
                if part.len() >= LISTED_AT_ONCE {
                    let _ = parts.blocking_send(std::mem::take(&mut part));
                }
            })?;
            let _ = parts.blocking_send(part);
            Ok(())
        })
        .await
    }

    async fn list_dir(&self, dir: &str) -> Result<Vec<Entry>> {
        self.blocking(Op::List, dir, |inner, dir| {
            let mut found = Vec::new();
            inner.walk(Op::List, dir, false, &mut |_, name, meta| {
                if parse_temp(name).is_none() {
                    found.push(Entry {
                        name: name.to_owned(),
                        is_dir: meta.is_dir(),
                        size: if meta.is_dir() { 0 } else { meta.len() },
                    });
                }
            })?;
            found.sort_by(|a, b| a.name.cmp(&b.name));
            Ok(found)
        })
        .await
    }

    async fn delete(&self, path: &str) -> Result<()> {
        self.blocking(Op::Delete, path, Inner::delete).await
    }

    async fn delete_many(&self, paths: &[String]) -> Result<Vec<Result<()>>> {
        let paths = paths.to_vec();
        self.blocking(Op::Delete, "", move |inner, _| {
            Ok(paths.iter().map(|path| inner.delete(path)).collect())
        })
        .await
    }

    async fn list_unfinished(&self, prefix: &str) -> Result<Vec<Unfinished>> {
        self.blocking(Op::List, prefix, |inner, prefix| {
            let mut found = Vec::new();
            inner.walk(Op::List, prefix, true, &mut |path, name, meta| {
                if let Some((target, tag)) = parse_temp(name) {
                    let target = join(parent(&path).unwrap_or_default(), target);
                    found.push(Unfinished {
                        target: target.clone(),
                        tag: tag.map(str::to_owned),
                        size: meta.len(),
                        modified: Some(modified(meta)),
                        handle: path,
                        full_target: target,
                    });
                }
            })?;
            found.sort_by(|a, b| a.handle.cmp(&b.handle));
            Ok(found)
        })
        .await
    }

    async fn discard_unfinished(&self, unfinished: &Unfinished) -> Result<()> {
        self.blocking(Op::AbortUpload, &unfinished.handle, Inner::delete)
            .await
    }

    async fn remove_dirs(&self, dir: &str) -> Result<()> {
        self.blocking(Op::Delete, dir, Inner::remove_dirs).await
    }

    async fn make_durable(&self, dir: &str) -> Result<()> {
        self.blocking(Op::MakeDurable, dir, Inner::make_durable)
            .await
    }

    async fn tear(&self, path: &str, bytes: Bytes) -> Result<()> {
        self.blocking(Op::Put, path, move |inner, path| {
            inner
                .ensure_dir(&inner.dir_of(path))
                .and_then(|()| fs::write(inner.full(path), &bytes))
                .map_err(|error| StoreError::io(Op::Put, path, "tearing", error, true))
        })
        .await
    }
}

#[derive(Debug)]
struct LocalUpload(Arc<UploadFile>);

#[derive(Debug)]
struct UploadFile {
    temp: PathBuf,
    file: Mutex<File>,
    path: String,
    dropped: AtomicBool,
    store: Arc<Inner>,
}

impl UploadFile {
    fn write(&self, offset: u64, pieces: &[Bytes]) -> io::Result<()> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.seek(SeekFrom::Start(offset))?;
        disk::write(&mut file, pieces, &self.temp)
    }

    fn complete(&self, size: u64) -> Result<u64> {
        let op = Op::CompleteUpload;
        let path = &self.path;
        let fail = |step: &str, error| StoreError::io(op, path, step, error, false);
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        disk::sync_file(&file, &self.temp)
            .map_err(|error| fail("fsync of the temporary file", error))?;
        let stored = file
            .metadata()
            .map_err(|error| fail("reading the size", error))?
            .len();
        if stored != size {
            return Err(StoreError::new(ErrorKind::Corrupt, op, path)
                .message(format!("{stored} bytes on disk, {size} bytes written")));
        }
        if self.dropped.load(Ordering::Acquire) {
            return Err(StoreError::new(ErrorKind::Other, op, path).message("given up before"));
        }
        let target = self.store.full(path);
        match disk::rename(&self.temp, &target) {
            Ok(()) => {}
            // Repeated after a failed fsync of the directory: the name is there already.
            Err(error)
                if error.kind() == io::ErrorKind::NotFound
                    && fs::metadata(&target).is_ok_and(|meta| meta.len() == size) => {}
            Err(error) => {
                return Err(StoreError::io(
                    op,
                    path,
                    "renaming the temporary file",
                    error,
                    true,
                ));
            }
        }
        disk::sync_dir(&self.store.dir_of(path)).map_err(|error| {
            StoreError::io(op, path, "fsync of the directory", error, true).maybe_applied()
        })?;
        Ok(stored)
    }
}

#[async_trait]
impl PartSink for LocalUpload {
    async fn put_part(&self, _index: usize, offset: u64, pieces: Pieces) -> Result<()> {
        let upload = Arc::clone(&self.0);
        run_blocking(Op::PutPart, &self.0.path, move || {
            upload.write(offset, &pieces).map_err(|error| {
                StoreError::io(
                    Op::PutPart,
                    &upload.path,
                    "writing the temporary file",
                    error,
                    false,
                )
            })
        })
        .await
    }

    async fn complete(&self, _parts: usize, size: u64) -> Result<u64> {
        let upload = Arc::clone(&self.0);
        run_blocking(Op::CompleteUpload, &self.0.path, move || {
            upload.complete(size)
        })
        .await
    }

    async fn abort(&self) -> Result<()> {
        let upload = Arc::clone(&self.0);
        upload.dropped.store(true, Ordering::Release);
        run_blocking(Op::AbortUpload, &self.0.path, move || {
            match disk::remove(&upload.temp) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(StoreError::io(
                    Op::AbortUpload,
                    &upload.path,
                    "removing the temporary file",
                    error,
                    true,
                )),
                _ => Ok(()),
            }
        })
        .await
    }

    fn abandon(self: Arc<Self>) {
        self.0.dropped.store(true, Ordering::Release);
        // One unlink; what cannot be removed now is found by `list_unfinished` later.
        let _ = disk::remove(&self.0.temp);
    }
}

#[path = "local_dirs.rs"]
mod dirs;

#[cfg(test)]
#[path = "local_tests.rs"]
mod tests;
