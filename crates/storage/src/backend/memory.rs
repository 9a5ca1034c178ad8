//! A store in the memory of this process, shared by name.
//!
//! Owns a map under a lock, so every operation is atomic. Nothing survives the process.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::{Bound, Range};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};

use super::{
    Backend, Capabilities, Created, Entry, ObjectMeta, PartSink, Pieces, Scheme, Unfinished,
};
use crate::error::{ErrorKind, Result, StoreError};
use crate::metrics::Op;

type Objects = BTreeMap<String, (Bytes, SystemTime)>;

/// Named stores live as long as the process, so that one can be closed and opened again.
static NAMED: LazyLock<Mutex<HashMap<String, Arc<Memory>>>> = LazyLock::new(Mutex::default);

#[derive(Debug, Default)]
pub(crate) struct Memory {
    objects: Arc<Mutex<Objects>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic elsewhere leaves the map whole: every change is one insert or remove.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Memory {
    /// The store of this name, made where absent; the empty name is a new one each time.
    pub(crate) fn named(name: &str) -> Arc<Self> {
        if name.is_empty() {
            return Arc::default();
        }
        Arc::clone(lock(&NAMED).entry(name.to_owned()).or_default())
    }

    fn read(&self, op: Op, path: &str) -> Result<Bytes> {
        lock(&self.objects)
            .get(path)
            .map(|(bytes, _)| bytes.clone())
            .ok_or_else(|| StoreError::new(ErrorKind::NotFound, op, path))
    }
}

fn concat(pieces: Pieces) -> Bytes {
    let mut pieces = pieces;
    if pieces.len() == 1
        && let Some(only) = pieces.pop()
    {
        return only;
    }
    let mut all = BytesMut::new();
    for piece in &pieces {
        all.extend_from_slice(piece);
    }
    all.freeze()
}

fn below<'a>(
    objects: &'a Objects,
    dir: &'a str,
) -> impl Iterator<Item = (&'a String, &'a (Bytes, SystemTime))> + 'a {
    let start = if dir.is_empty() {
        String::new()
    } else {
        format!("{dir}/")
    };
    objects
        .range::<String, _>((Bound::Included(start.clone()), Bound::Unbounded))
        .take_while(move |(path, _)| path.starts_with(&start))
}

#[async_trait]
impl Backend for Memory {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            scheme: Scheme::Memory,
            atomic_create: true,
            durable: false,
            shared: false,
            lists_unfinished: false,
            copies_up_to: u64::MAX,
        }
    }

    fn part_plan(&self) -> (usize, usize) {
        (1 << 20, 2)
    }

    async fn create(&self, path: &str, bytes: Bytes, _tag: &str) -> Result<Created> {
        let mut objects = lock(&self.objects);
        if objects.contains_key(path) {
            return Ok(Created::Exists);
        }
        objects.insert(path.to_owned(), (bytes, SystemTime::now()));
        Ok(Created::New)
    }

    async fn put(&self, path: &str, pieces: Pieces, _tag: &str) -> Result<()> {
        lock(&self.objects).insert(path.to_owned(), (concat(pieces), SystemTime::now()));
        Ok(())
    }

    async fn copy_once(&self, from: &str, to: &str) -> Result<()> {
        let bytes = self.read(Op::Copy, from)?;
        lock(&self.objects).insert(to.to_owned(), (bytes, SystemTime::now()));
        Ok(())
    }

    async fn begin_upload(&self, path: &str, _tag: &str) -> Result<Arc<dyn PartSink>> {
        Ok(Arc::new(MemoryUpload {
            objects: Arc::clone(&self.objects),
            path: path.to_owned(),
            parts: Mutex::default(),
        }))
    }

    async fn get(&self, path: &str) -> Result<Bytes> {
        self.read(Op::Get, path)
    }

    async fn get_range(&self, path: &str, range: Range<u64>) -> Result<Bytes> {
        let bytes = self.read(Op::GetRange, path)?;
        let len = bytes.len() as u64;
        match (usize::try_from(range.start), usize::try_from(range.end)) {
            (Ok(start), Ok(end)) if start <= end && end <= bytes.len() => {
                Ok(bytes.slice(start..end))
            }
            _ => Err(StoreError::new(ErrorKind::Corrupt, Op::GetRange, path)
                .message(format!("bytes {range:?} asked of an object of {len} bytes"))),
        }
    }

    async fn head(&self, path: &str) -> Result<Option<ObjectMeta>> {
        Ok(lock(&self.objects)
            .get(path)
            .map(|(bytes, modified)| ObjectMeta {
                path: path.to_owned(),
                size: bytes.len() as u64,
                modified: *modified,
            }))
    }

    async fn list(&self, prefix: &str) -> Result<Vec<ObjectMeta>> {
        Ok(below(&lock(&self.objects), prefix)
            .map(|(path, (bytes, modified))| ObjectMeta {
                path: path.clone(),
                size: bytes.len() as u64,
                modified: *modified,
            })
            .collect())
    }

    async fn list_dir(&self, dir: &str) -> Result<Vec<Entry>> {
        let objects = lock(&self.objects);
        let skip = if dir.is_empty() { 0 } else { dir.len() + 1 };
        let mut files = Vec::new();
        let mut dirs = BTreeSet::new();
        for (path, (bytes, _)) in below(&objects, dir) {
            let rest = path.get(skip..).unwrap_or_default();
            match rest.split_once('/') {
                Some((name, _)) => {
                    dirs.insert(name.to_owned());
                }
                None => files.push(Entry {
                    name: rest.to_owned(),
                    is_dir: false,
                    size: bytes.len() as u64,
                }),
            }
        }
        files.extend(dirs.into_iter().map(|name| Entry {
            name,
            is_dir: true,
            size: 0,
        }));
        files.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(files)
    }

    async fn delete(&self, path: &str) -> Result<()> {
        lock(&self.objects).remove(path);
        Ok(())
    }

    async fn delete_many(&self, paths: &[String]) -> Result<Vec<Result<()>>> {
        let mut objects = lock(&self.objects);
        for path in paths {
            objects.remove(path);
        }
        Ok(paths.iter().map(|_| Ok(())).collect())
    }

    async fn list_unfinished(&self, _prefix: &str) -> Result<Vec<Unfinished>> {
        Ok(Vec::new())
    }

    async fn discard_unfinished(&self, _unfinished: &Unfinished) -> Result<()> {
        Ok(())
    }

    async fn tear(&self, path: &str, bytes: Bytes) -> Result<()> {
        lock(&self.objects).insert(path.to_owned(), (bytes, SystemTime::now()));
        Ok(())
    }
}

#[derive(Debug)]
struct MemoryUpload {
    objects: Arc<Mutex<Objects>>,
    path: String,
    parts: Mutex<BTreeMap<usize, Bytes>>,
}

#[async_trait]
impl PartSink for MemoryUpload {
    async fn put_part(&self, index: usize, _offset: u64, pieces: Pieces) -> Result<()> {
        lock(&self.parts).insert(index, concat(pieces));
        Ok(())
    }

    async fn complete(&self, parts: usize, size: u64) -> Result<u64> {
        let held = std::mem::take(&mut *lock(&self.parts));
        let mut objects = lock(&self.objects);
        if held.len() != parts {
            // A repeated call after an answer that was lost.
            return match objects.get(&self.path) {
                Some((bytes, _)) if held.is_empty() && bytes.len() as u64 == size => Ok(size),
                _ => Err(
                    StoreError::new(ErrorKind::Corrupt, Op::CompleteUpload, &self.path)
                        .message("parts of the upload are missing"),
                ),
            };
        }
        let bytes = concat(held.into_values().collect());
        let stored = bytes.len() as u64;
        objects.insert(self.path.clone(), (bytes, SystemTime::now()));
        Ok(stored)
    }

    async fn abort(&self) -> Result<()> {
        lock(&self.parts).clear();
        Ok(())
    }

    fn abandon(self: Arc<Self>) {}
}
