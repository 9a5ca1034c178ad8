//! Stores behind `object_store`: S3, and by feature Google Cloud Storage and Azure.
//!
//! Owns the translation of answers into [`StoreError`], and with it the judgement whether a
//! failed write may have taken effect. `object_store`'s own retries are switched off: after a
//! lost answer they would report our own object as somebody else's.

use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt as _;
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{
    GetOptions, GetRange, ObjectStore, ObjectStoreExt as _, PutMode, PutOptions, PutPayload,
};
use tokio::sync::mpsc::Sender;

use super::wire::{Wire, observed};
use super::{
    Backend, Capabilities, Created, Entry, LISTED_AT_ONCE, ObjectMeta, PartSink, Pieces, Scheme,
    Unfinished, pieces_len,
};
use crate::error::{ErrorKind, Result, StoreError};
use crate::metrics::Op;

/// Parts of S3 uploads: at least 5 MiB, at most 10,000 of them, all alike (R2 insists).
const PART_SIZE: usize = 8 << 20;
const PARTS_UNDER_WAY: usize = 4;
/// Most parts that one upload may have.
const MAX_PARTS: usize = 10_000;
/// S3 copies no larger object in one request.
const S3_COPY_MAX: u64 = 5 << 30;
/// Single deletions under way where the store has no bulk deletion.
const DELETES_UNDER_WAY: usize = 16;

/// Lists and discards uploads that were never finished, where the store can.
#[async_trait]
pub(crate) trait PendingUploads: std::fmt::Debug + Send + Sync {
    async fn list(&self, prefix: &str) -> Result<Vec<Unfinished>>;
}

#[derive(Debug)]
pub(crate) struct Remote<S> {
    store: Arc<S>,
    scheme: Scheme,
    atomic_create: bool,
    pending: Option<Box<dyn PendingUploads>>,
}

impl<S> Remote<S> {
    pub(crate) fn new(
        store: Arc<S>,
        scheme: Scheme,
        atomic_create: bool,
        pending: Option<Box<dyn PendingUploads>>,
    ) -> Self {
        Self {
            store,
            scheme,
            atomic_create,
            pending,
        }
    }
}

/// The path as `object_store` wants it: the same characters, nothing encoded twice.
fn to_path(op: Op, path: &str) -> Result<Path> {
    let invalid = || StoreError::new(ErrorKind::NameTooLong, op, path);
    if path.len() > 1024 {
        return Err(invalid().message("object keys hold at most 1024 bytes"));
    }
    let parsed = Path::parse(path).map_err(|error| invalid().source(error))?;
    if parsed.as_ref() != path {
        return Err(invalid().message("the path does not survive as an object key"));
    }
    Ok(parsed)
}

fn to_prefix(path: &str) -> Result<Option<Path>> {
    if path.is_empty() {
        return Ok(None);
    }
    to_path(Op::List, path).map(Some)
}

fn payload(pieces: Pieces) -> PutPayload {
    PutPayload::from_iter(pieces)
}

/// Whether the text of an answer says *slow down* under a status that does not.
fn says_slow_down(text: &str) -> bool {
    text.contains("SlowDown") || text.contains("ServerBusy") || text.contains("RequestLimit")
}

/// The one place that decides what an answer means.
pub(crate) fn classify(op: Op, path: &str, error: object_store::Error, wire: Wire) -> StoreError {
    use object_store::Error as E;
    let text = error.to_string();
    let (kind, unknown) = match (wire, &error) {
        (_, E::InvalidPath { .. }) if op == Op::List => (ErrorKind::Corrupt, false),
        (_, E::InvalidPath { .. }) => (ErrorKind::NameTooLong, false),
        (_, E::NotSupported { .. } | E::NotImplemented { .. }) => (ErrorKind::Unsupported, false),
        (_, E::UnknownConfigurationKey { .. }) => (ErrorKind::Config, false),
        // Of one key in a batch that was answered.
        (Wire::Status(200..=299), E::NotFound { .. }) => (ErrorKind::NotFound, false),
        (Wire::NotSent, _) => (ErrorKind::Other, false),
        (Wire::NotConnected, _) => (ErrorKind::Transient, false),
        (Wire::NoAnswer, _) => (ErrorKind::Transient, true),
        (Wire::Status(status), _) => match status {
            // A failure inside of a successful answer: broken body, or S3's error in a 200.
            200..=299 if says_slow_down(&text) => (ErrorKind::Throttled, true),
            // The whole object came instead of a range that begins beyond its end.
            200..=299 if op == Op::GetRange && text.contains("object was only") => {
                (ErrorKind::Corrupt, false)
            }
            200..=299 => (ErrorKind::Transient, true),
            // Not an absent object: everything would look absent then.
            404 if text.contains("NoSuchBucket") || text.contains("ContainerNotFound") => {
                (ErrorKind::Config, false)
            }
            404 => (ErrorKind::NotFound, false),
            401 | 403 => (ErrorKind::PermissionDenied, false),
            // Another conditional request for the key is under way; ours had no effect.
            // Azure says with it that the object is there.
            409 if text.contains("BlobAlreadyExists") => (ErrorKind::AlreadyExists, false),
            409 => (ErrorKind::Transient, false),
            304 | 412 => (ErrorKind::AlreadyExists, false),
            408 => (ErrorKind::Transient, true),
            416 => (ErrorKind::Corrupt, false),
            429 => (ErrorKind::Throttled, false),
            // The server says that it cannot do this at all.
            501 => (ErrorKind::Unsupported, false),
            507 => (ErrorKind::Full, false),
            503 => (ErrorKind::Throttled, true),
            500..=599 if says_slow_down(&text) => (ErrorKind::Throttled, true),
            500..=599 => (ErrorKind::Transient, true),
            400 if text.contains("KeyTooLong") => (ErrorKind::NameTooLong, false),
            400 if text.contains("RequestTimeout") => (ErrorKind::Transient, true),
            300..=399 => (ErrorKind::Config, false),
            _ => (ErrorKind::Other, false),
        },
    };
    let found = StoreError::new(kind, op, path).maybe_applied_if(unknown && op.writes());
    if let (Wire::Status(status), Some(said)) = (wire, said(&text)) {
        return found.message(format!("the store says {status} {said}"));
    }
    let error = found.source(error);
    match wire {
        Wire::NotConnected => error.message("the store cannot be reached"),
        Wire::NoAnswer => error.message("no answer from the store"),
        Wire::Status(301 | 307) => {
            error.message("the store redirects: check s3.region and s3.endpoint")
        }
        _ => error,
    }
}

/// Code and message of an error document, on one line.
fn said(text: &str) -> Option<String> {
    let element = |name: &str| {
        let (_, after) = text.split_once(&format!("<{name}>"))?;
        let (inner, _) = after.split_once(&format!("</{name}>"))?;
        inner.lines().next().map(str::trim)
    };
    let code = element("Code")?;
    Some(match element("Message") {
        Some(message) if !message.is_empty() => format!("{code}: {message}"),
        _ => code.to_owned(),
    })
}

async fn ask<T>(
    op: Op,
    path: &str,
    request: impl Future<Output = object_store::Result<T>>,
) -> Result<T> {
    let (result, wire) = observed(request).await;
    result.map_err(|error| classify(op, path, error, wire))
}

fn meta(meta: object_store::ObjectMeta) -> ObjectMeta {
    ObjectMeta {
        path: meta.location.to_string(),
        size: meta.size,
        modified: meta.last_modified.into(),
    }
}

impl<S: ObjectStore + MultipartStore> Remote<S> {
    async fn delete_singly(&self, paths: &[String]) -> Vec<Result<()>> {
        futures::stream::iter(paths.to_vec())
            .map(|path| async move { self.delete(&path).await })
            .buffered(DELETES_UNDER_WAY)
            .collect()
            .await
    }
}

#[async_trait]
impl<S: ObjectStore + MultipartStore> Backend for Remote<S> {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            scheme: self.scheme,
            atomic_create: self.atomic_create,
            durable: true,
            shared: true,
            lists_unfinished: self.pending.is_some(),
            copies_up_to: match self.scheme {
                Scheme::S3 => S3_COPY_MAX,
                // Not tried: Azure may answer before it has copied.
                _ => 0,
            },
        }
    }

    fn part_plan(&self) -> (usize, usize) {
        (PART_SIZE, PARTS_UNDER_WAY)
    }

    async fn create(&self, path: &str, bytes: Bytes, _tag: &str) -> Result<Created> {
        let location = to_path(Op::Create, path)?;
        let options = PutOptions::from(PutMode::Create);
        let request = self.store.put_opts(&location, bytes.into(), options);
        match ask(Op::Create, path, request).await {
            Ok(_) => Ok(Created::New),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(Created::Exists),
            Err(error) => Err(error),
        }
    }

    async fn put(&self, path: &str, pieces: Pieces, _tag: &str) -> Result<()> {
        let location = to_path(Op::Put, path)?;
        ask(Op::Put, path, self.store.put(&location, payload(pieces))).await?;
        Ok(())
    }

    async fn copy_once(&self, from: &str, to: &str) -> Result<()> {
        if self.capabilities().copies_up_to == 0 {
            return Err(StoreError::new(ErrorKind::Unsupported, Op::Copy, to)
                .message("this store is not asked to copy; write the object again"));
        }
        let (source, target) = (to_path(Op::Copy, from)?, to_path(Op::Copy, to)?);
        ask(Op::Copy, from, self.store.copy(&source, &target)).await
    }

    async fn begin_upload(&self, path: &str, _tag: &str) -> Result<Arc<dyn PartSink>> {
        let location = to_path(Op::BeginUpload, path)?;
        let request = self.store.create_multipart(&location);
        let id = ask(Op::BeginUpload, path, request).await?;
        Ok(Arc::new(RemoteUpload {
            store: Arc::clone(&self.store),
            path: path.to_owned(),
            location,
            id,
            parts: std::sync::Mutex::default(),
        }))
    }

    async fn get(&self, path: &str) -> Result<Bytes> {
        let location = to_path(Op::Get, path)?;
        let (bytes, size) = ask(Op::Get, path, async {
            let answer = self.store.get(&location).await?;
            let size = answer.meta.size;
            Ok((answer.bytes().await?, size))
        })
        .await?;
        if bytes.len() as u64 != size {
            return Err(StoreError::new(ErrorKind::Transient, Op::Get, path)
                .message(format!("{} of {size} bytes received", bytes.len())));
        }
        Ok(bytes)
    }

    async fn get_range(&self, path: &str, range: Range<u64>) -> Result<Bytes> {
        let location = to_path(Op::GetRange, path)?;
        let options = GetOptions {
            range: Some(GetRange::Bounded(range.clone())),
            ..GetOptions::default()
        };
        let (bytes, size) = ask(Op::GetRange, path, async {
            let answer = self.store.get_opts(&location, options).await?;
            let size = answer.meta.size;
            Ok((answer.bytes().await?, size))
        })
        .await?;
        let wanted = range.end.saturating_sub(range.start);
        if bytes.len() as u64 == wanted {
            return Ok(bytes);
        }
        let kind = if range.end > size {
            ErrorKind::Corrupt
        } else {
            ErrorKind::Transient
        };
        Err(StoreError::new(kind, Op::GetRange, path).message(format!(
            "bytes {range:?} asked of an object of {size} bytes, {} received",
            bytes.len()
        )))
    }

    async fn head(&self, path: &str) -> Result<Option<ObjectMeta>> {
        let location = to_path(Op::Head, path)?;
        match ask(Op::Head, path, self.store.head(&location)).await {
            Ok(found) => Ok(Some(meta(found))),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn list(&self, prefix: &str) -> Result<Vec<ObjectMeta>> {
        let location = to_prefix(prefix)?;
        let mut found: Vec<ObjectMeta> = ask(Op::List, prefix, async {
            let mut found = Vec::new();
            let mut listing = self.store.list(location.as_ref());
            while let Some(object) = listing.next().await {
                found.push(meta(object?));
            }
            Ok(found)
        })
        .await?;
        found.sort_by(|a, b| a.path.cmp(&b.path));
        // Other writers mark directories with empty objects `dir/`, which arrive here as `dir`.
        let is_marker = |at: usize, object: &ObjectMeta| {
            object.size == 0
                && (object.path == prefix
                    || found.get(at + 1).is_some_and(|next| {
                        next.path
                            .strip_prefix(object.path.as_str())
                            .is_some_and(|rest| rest.starts_with('/'))
                    }))
        };
        let markers: Vec<bool> = found
            .iter()
            .enumerate()
            .map(|(at, object)| is_marker(at, object))
            .collect();
        let mut markers = markers.into_iter();
        found.retain(|_| !markers.next().unwrap_or(false));
        Ok(found)
    }

    async fn list_in_parts(&self, prefix: &str, parts: Sender<Vec<ObjectMeta>>) -> Result<()> {
        let location = to_prefix(prefix)?;
        ask(Op::List, prefix, async {
            let mut listing = self.store.list(location.as_ref()).chunks(LISTED_AT_ONCE);
            while let Some(part) = listing.next().await {
                let part: object_store::Result<Vec<_>> = part.into_iter().collect();
                if parts
                    .send(part?.into_iter().map(meta).collect())
                    .await
                    .is_err()
                {
                    break;
                }
            }
            Ok(())
        })
        .await
    }

    async fn list_dir(&self, dir: &str) -> Result<Vec<Entry>> {
        let location = to_prefix(dir)?;
        let request = self.store.list_with_delimiter(location.as_ref());
        let listing = ask(Op::List, dir, request).await?;
        let mut found: Vec<Entry> = listing
            .common_prefixes
            .iter()
            .map(|prefix| (prefix, true, 0))
            .chain(
                listing
                    .objects
                    .iter()
                    .filter(|object| object.location.as_ref() != dir)
                    .map(|object| (&object.location, false, object.size)),
            )
            .filter_map(|(path, is_dir, size)| {
                let name = path.filename()?.to_owned();
                Some(Entry { name, is_dir, size })
            })
            .collect();
        found.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(found)
    }

    async fn delete(&self, path: &str) -> Result<()> {
        let location = to_path(Op::Delete, path)?;
        match ask(Op::Delete, path, self.store.delete(&location)).await {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(()),
        }
    }

    async fn delete_many(&self, paths: &[String]) -> Result<Vec<Result<()>>> {
        let locations = paths
            .iter()
            .map(|path| to_path(Op::Delete, path))
            .collect::<Result<Vec<_>>>()?;
        if self.scheme == Scheme::Gcs {
            return Ok(self.delete_singly(paths).await);
        }
        let stream = futures::stream::iter(locations.into_iter().map(Ok)).boxed();
        let (answers, wire) = observed(self.store.delete_stream(stream).collect::<Vec<_>>()).await;
        let answered = matches!(wire, Wire::Status(200..=299)) && answers.len() == paths.len();
        if wire == Wire::Status(501) {
            return Ok(self.delete_singly(paths).await);
        }
        if !answered {
            let whole = StoreError::new(ErrorKind::Transient, Op::Delete, "")
                .message(format!(
                    "{} of {} deletions answered",
                    answers.len(),
                    paths.len()
                ))
                .maybe_applied();
            let first = answers.into_iter().find_map(Result::err);
            return Err(first.map_or(whole, |error| classify(Op::Delete, "", error, wire)));
        }
        Ok(answers
            .into_iter()
            .zip(paths)
            .map(|(answer, path)| match answer {
                Ok(_) | Err(object_store::Error::NotFound { .. }) => Ok(()),
                Err(error) => Err(classify(Op::Delete, path, error, wire)),
            })
            .collect())
    }

    async fn list_unfinished(&self, prefix: &str) -> Result<Vec<Unfinished>> {
        match &self.pending {
            Some(pending) => pending.list(prefix).await,
            None => Err(StoreError::new(ErrorKind::Unsupported, Op::List, prefix)
                .message("unfinished uploads cannot be listed here; use a lifecycle rule")),
        }
    }

    async fn discard_unfinished(&self, unfinished: &Unfinished) -> Result<()> {
        let path = &unfinished.full_target;
        let location = to_path(Op::AbortUpload, path)?;
        let request = self.store.abort_multipart(&location, &unfinished.handle);
        match ask(Op::AbortUpload, path, request).await {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(()),
        }
    }
}

struct RemoteUpload<S> {
    store: Arc<S>,
    path: String,
    location: Path,
    id: String,
    parts: std::sync::Mutex<Vec<Option<PartId>>>,
}

impl<S> std::fmt::Debug for RemoteUpload<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RemoteUpload")
            .field("path", &self.path)
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

impl<S: ObjectStore + MultipartStore> RemoteUpload<S> {
    /// The object's size, where there is an object of that size: a completing call whose answer
    /// was lost is answered with *no such upload* when it is repeated.
    async fn completed_before(&self, size: u64) -> Result<bool> {
        let head = ask(Op::Head, &self.path, self.store.head(&self.location)).await;
        match head {
            Ok(found) => Ok(found.size == size),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error.maybe_applied()),
        }
    }
}

#[async_trait]
impl<S: ObjectStore + MultipartStore> PartSink for RemoteUpload<S> {
    async fn put_part(&self, index: usize, _offset: u64, pieces: Pieces) -> Result<()> {
        if index >= MAX_PARTS {
            return Err(
                StoreError::new(ErrorKind::Full, Op::PutPart, &self.path).message(format!(
                    "an upload holds at most {MAX_PARTS} parts; roll files earlier \
                     (target-file-size)"
                )),
            );
        }
        debug_assert!(pieces_len(&pieces) > 0);
        let request = self
            .store
            .put_part(&self.location, &self.id, index, payload(pieces));
        let part = ask(Op::PutPart, &self.path, request).await?;
        let mut parts = self
            .parts
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if parts.len() <= index {
            parts.resize_with(index + 1, || None);
        }
        if let Some(slot) = parts.get_mut(index) {
            *slot = Some(part);
        }
        Ok(())
    }

    async fn complete(&self, parts: usize, size: u64) -> Result<u64> {
        let op = Op::CompleteUpload;
        let ids: Vec<PartId> = self
            .parts
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .iter()
            .flatten()
            .cloned()
            .collect();
        if ids.len() != parts {
            return Err(StoreError::new(ErrorKind::Corrupt, op, &self.path)
                .message(format!("{} of {parts} parts are confirmed", ids.len())));
        }
        let request = self.store.complete_multipart(&self.location, &self.id, ids);
        match ask(op, &self.path, request).await {
            Ok(_) => {}
            Err(error) if error.is_not_found() => {
                if !self.completed_before(size).await? {
                    return Err(error);
                }
            }
            Err(error) => return Err(error),
        }
        // What is referenced must exist: the size is the store's, not ours.
        let head = ask(op, &self.path, self.store.head(&self.location)).await;
        match head {
            Ok(found) if found.size == size => Ok(size),
            Ok(found) => Err(
                StoreError::new(ErrorKind::Corrupt, op, &self.path).message(format!(
                    "the store has {} bytes, {size} were sent",
                    found.size
                )),
            ),
            Err(error) => Err(error.maybe_applied()),
        }
    }

    async fn abort(&self) -> Result<()> {
        let request = self.store.abort_multipart(&self.location, &self.id);
        match ask(Op::AbortUpload, &self.path, request).await {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(()),
        }
    }

    fn abandon(self: Arc<Self>) {
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                if let Err(error) = self.abort().await {
                    tracing::warn!(%error, "an unfinished upload stays behind");
                }
            });
        }
    }
}
