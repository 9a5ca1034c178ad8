//! What a kind of store must be able to do, in single attempts.
//!
//! Owns the private trait behind [`crate::Store`]. Backends neither retry nor count: that
//! happens once, above them, so that injected faults pass through the very same code.

mod disk;
pub(crate) mod local;
pub(crate) mod memory;
#[cfg(any(feature = "s3", feature = "gcs", feature = "azure"))]
pub(crate) mod remote;
#[cfg(feature = "s3")]
pub(crate) mod s3_uploads;
pub(crate) mod temp_name;
#[cfg(any(feature = "s3", feature = "gcs", feature = "azure"))]
pub(crate) mod wire;

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;
use std::time::SystemTime;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::mpsc::Sender;

use crate::error::{ErrorKind, Result, StoreError};
use crate::metrics::Op;

/// One object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectMeta {
    /// Path relative to the store that was asked.
    pub path: String,
    /// Size in bytes.
    pub size: u64,
    /// Time of the last change by the store's clock; never used for correctness.
    pub modified: SystemTime,
}

/// One name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The name alone.
    pub name: String,
    /// Whether it is a directory (remote: a common prefix).
    pub is_dir: bool,
    /// Size in bytes; 0 for a directory.
    pub size: u64,
}

/// Something begun and never finished: a temporary file, or an upload in parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfinished {
    /// Path (relative to the store that was asked) that it would have become. Of a very long
    /// name only the beginning is known.
    pub target: String,
    /// Tag of the store that began it, see [`crate::Store::with_tag`]; none for remote uploads.
    pub tag: Option<String>,
    /// Size in bytes where known, else 0.
    pub size: u64,
    /// When it was begun or last written, where known.
    pub modified: Option<SystemTime>,
    /// Path of the temporary file relative to the backend's root, or id of the upload.
    pub(crate) handle: String,
    /// Path relative to the backend's root.
    pub(crate) full_target: String,
}

impl Unfinished {
    /// What a person would remove: the temporary file, or the upload by its id.
    pub fn place(&self) -> String {
        let name = self.handle.rsplit('/').next().unwrap_or_default();
        match temp_name::parse_temp(name) {
            Some(_) => {
                crate::path::join(crate::path::parent(&self.target).unwrap_or_default(), name)
            }
            None => format!("{} (upload {})", self.target, self.handle),
        }
    }
}

/// What kind of store it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Scheme {
    /// The local file system.
    File,
    /// The memory of this process.
    Memory,
    /// S3 or something that speaks its protocol.
    S3,
    /// Google Cloud Storage.
    Gcs,
    /// Azure Blob Storage.
    Azure,
}

/// What a store promises. Promises of remote stores are believed only after
/// [`crate::Store::probe_create`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// Kind of store.
    pub scheme: Scheme,
    /// Create-if-absent has one winner and shows whole objects only.
    pub atomic_create: bool,
    /// What was acknowledged survives a crash of the machine.
    pub durable: bool,
    /// Other processes see the same objects.
    pub shared: bool,
    /// Unfinished writes can be listed and discarded.
    pub lists_unfinished: bool,
    /// Largest object that [`crate::Store::copy_once`] takes, in bytes; 0 where it takes none.
    pub copies_up_to: u64,
}

/// Answer of a conditional create.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Created {
    New,
    Exists,
}

/// Objects of a listing that are handed on at once.
pub(crate) const LISTED_AT_ONCE: usize = 1000;

/// The content of one part, in the pieces that the caller wrote.
pub(crate) type Pieces = Vec<Bytes>;

pub(crate) fn pieces_len(pieces: &[Bytes]) -> u64 {
    pieces.iter().map(|piece| piece.len() as u64).sum()
}

#[async_trait]
pub(crate) trait Backend: Debug + Send + Sync {
    fn capabilities(&self) -> Capabilities;

    /// Size of a part, and how many parts of one upload may be under way.
    fn part_plan(&self) -> (usize, usize);

    /// One conditional request. `Err` with *effect unknown* unless provably without effect.
    async fn create(&self, path: &str, bytes: Bytes, tag: &str) -> Result<Created>;

    async fn put(&self, path: &str, pieces: Pieces, tag: &str) -> Result<()>;

    /// An object under another name too, without its bytes passing here. The name is of this content
    /// alone, so that what is there already is taken for it.
    async fn copy_once(&self, from: &str, to: &str) -> Result<()>;

    async fn begin_upload(&self, path: &str, tag: &str) -> Result<Arc<dyn PartSink>>;

    async fn get(&self, path: &str) -> Result<Bytes>;

    /// Exactly these bytes, or an error.
    async fn get_range(&self, path: &str, range: Range<u64>) -> Result<Bytes>;

    async fn head(&self, path: &str) -> Result<Option<ObjectMeta>>;

    /// All objects below a directory, sorted by path; none where there is no such directory.
    async fn list(&self, prefix: &str) -> Result<Vec<ObjectMeta>>;

    /// All objects below a directory, in any order, a part of them after the other: whoever looks at
    /// each once need not hold them all. One may come twice.
    async fn list_in_parts(&self, prefix: &str, parts: Sender<Vec<ObjectMeta>>) -> Result<()> {
        let all = self.list(prefix).await?;
        // Who asked may have heard enough.
        let _ = parts.send(all).await;
        Ok(())
    }

    /// Names in a directory, sorted.
    async fn list_dir(&self, dir: &str) -> Result<Vec<Entry>>;

    /// Absent is fine.
    async fn delete(&self, path: &str) -> Result<()>;

    async fn delete_many(&self, paths: &[String]) -> Result<Vec<Result<()>>>;

    async fn list_unfinished(&self, prefix: &str) -> Result<Vec<Unfinished>>;

    async fn discard_unfinished(&self, unfinished: &Unfinished) -> Result<()>;

    /// Removes empty directories, where there are directories.
    async fn remove_dirs(&self, _dir: &str) -> Result<()> {
        Ok(())
    }

    /// Makes durable what stands in a directory, where that is not so from the beginning.
    async fn make_durable(&self, _dir: &str) -> Result<()> {
        Ok(())
    }

    /// Writes a shortened object under its final name, without any care: what a power loss may
    /// leave where somebody wrote without care.
    async fn tear(&self, path: &str, _bytes: Bytes) -> Result<()> {
        Err(StoreError::new(ErrorKind::Unsupported, Op::Put, path)
            .message("only the local and the memory store can be torn"))
    }
}

/// An upload under way. Parts may come in any order and more than once.
#[async_trait]
pub(crate) trait PartSink: Debug + Send + Sync {
    async fn put_part(&self, index: usize, offset: u64, pieces: Pieces) -> Result<()>;

    /// Makes the object appear and says the size that the store has. Called again after an
    /// unknown outcome, it finds out whether the first call took effect.
    async fn complete(&self, parts: usize, size: u64) -> Result<u64>;

    async fn abort(&self) -> Result<()>;

    /// Best effort, from a destructor.
    fn abandon(self: Arc<Self>);
}
