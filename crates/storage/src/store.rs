//! The store that everybody else uses.
//!
//! Owns paths under a root, repeating what is safe to repeat, counting, and the outcome of
//! create-if-absent. Does not own how a backend does a single request.

use std::collections::BTreeMap;
use std::future::Future;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;

use crate::backend::{Backend, Capabilities, Created, Entry, ObjectMeta, Scheme, Unfinished};
use crate::error::{ErrorKind, Result, StoreError};
use crate::faults::{Faults, Faulty};
use crate::metrics::{Metrics, MetricsSnapshot, Op};
use crate::mutant;
use crate::open;
use crate::options::Settings;
use crate::path;
use crate::retry::RetryPolicy;
use crate::upload::{Upload, UploadOptions};

/// What names of probe objects start with; 32 hexadecimal digits follow.
const PROBE: &str = ".tidegate-probe-";
/// Probes at most: who removes what dead ones left has not three of them in its list.
const PROBES: u32 = 3;

/// Outcome of [`Store::create_if_absent`].
#[must_use = "an unknown outcome must be settled before anything else is done"]
#[derive(Debug)]
pub enum Create {
    /// The object is ours: it was absent, and now it is there, whole and durable.
    Created,
    /// There is an object of that name; these are its bytes. Equal to the bytes offered, it may
    /// be our own earlier request whose answer was lost: the caller compares [R-5].
    Exists(Bytes),
    /// The answer was lost: the object may be there now, or appear later [R-6]. Offer the same
    /// bytes again until the outcome is another; until then delete and rebuild nothing.
    Unknown(StoreError),
    /// Refused for good: provably no effect, now and later.
    Failed(StoreError),
}

impl Create {
    /// Whether the object is there with these very bytes, whoever wrote them.
    pub fn holds(&self, bytes: &[u8]) -> bool {
        match self {
            Self::Created => true,
            Self::Exists(theirs) => theirs == bytes,
            Self::Unknown(_) | Self::Failed(_) => false,
        }
    }
}

/// Objects under a root URL. Clones are cheap and share connections and counters.
///
/// Paths are relative, separated by `/`, and used byte for byte, see [`crate::ObjectPath`].
///
/// Futures may be dropped at any await [R-18]: a dropped write is as good as one whose answer
/// was lost.
///
/// ```
/// # use std::collections::BTreeMap;
/// # use tidegate_storage::{Create, Store};
/// # tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
/// let store = Store::open("memory://example", &BTreeMap::new())?;
/// let first = store.create_if_absent("snapshot/snapshot-1", "mine".into()).await;
/// assert!(matches!(first, Create::Created));
/// match store.create_if_absent("snapshot/snapshot-1", "yours".into()).await {
///     Create::Exists(theirs) => assert_eq!(theirs, "mine"),
///     other => panic!("{other:?}"),
/// }
/// # Ok::<(), tidegate_storage::StoreError>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Store {
    pub(crate) backend: Arc<dyn Backend>,
    metrics: Arc<Metrics>,
    retry: Arc<RetryPolicy>,
    base: Arc<str>,
    prefix: Arc<str>,
    url: Arc<str>,
    tag: Arc<str>,
}

impl Store {
    /// Opens a store without asking it anything: `file:///dir`, a local path, `memory://name`,
    /// `s3://bucket/prefix`, and by feature `gs://` and `az://`.
    ///
    /// Options have Paimon's keys (`s3.endpoint`, `s3.access-key`, …; [`crate::known_keys`]);
    /// what they leave open comes from the usual `AWS_…` variables. To write where others write
    /// too, use [`Store::open_for_write`].
    ///
    /// # Errors
    /// [`ErrorKind::Config`]: an unknown scheme, an unknown key (the nearest known one is
    /// named), or a bad value.
    pub fn open(url: &str, options: &BTreeMap<String, String>) -> Result<Self> {
        let settings = Settings::parse(options)?;
        let opened = open::open(url, &settings)?;
        Ok(Self::over(opened.backend, &opened.base, &opened.prefix))
    }

    /// [`Store::open`], then [`Store::probe_create`]: a store that cannot create atomically is
    /// refused, saying so.
    ///
    /// # Errors
    /// Those of both.
    pub async fn open_for_write(url: &str, options: &BTreeMap<String, String>) -> Result<Self> {
        let store = Self::open(url, options)?;
        store.probe_create().await?;
        Ok(store)
    }

    pub(crate) fn over(backend: Arc<dyn Backend>, base: &str, prefix: &str) -> Self {
        Self {
            backend,
            metrics: Arc::default(),
            retry: Arc::default(),
            base: base.into(),
            prefix: prefix.into(),
            url: display_url(base, prefix).into(),
            tag: "".into(),
        }
    }

    /// The root, e.g. `s3://lake/warehouse`; [`Store::open`] understands it.
    pub fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    /// URL of an object or directory under the root.
    pub fn url_of(&self, path: &str) -> String {
        display_url(&self.base, &path::join(&self.prefix, path))
    }

    /// What this kind of store promises.
    pub fn capabilities(&self) -> Capabilities {
        self.backend.capabilities()
    }

    /// The same store, rooted deeper: a table under a warehouse. A prefix that is no valid path
    /// is reported by the operations.
    pub fn child(&self, prefix: &str) -> Self {
        let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
        let prefix = path::join(&self.prefix, prefix);
        Self {
            url: display_url(&self.base, &prefix).into(),
            prefix: prefix.into(),
            ..self.clone()
        }
    }

    /// The same store with other bounds for repeating requests.
    pub fn with_retry(mut self, retry: RetryPolicy) -> Self {
        self.retry = Arc::new(retry);
        self
    }

    /// The same store with at most so many requests per operation; waits stay as they are.
    pub fn with_attempts(mut self, attempts: u32) -> Self {
        self.retry = Arc::new(RetryPolicy {
            attempts,
            ..(*self.retry).clone()
        });
        self
    }

    /// The same store, whose temporary files carry this tag (letters, digits, `-`, `_`), so that
    /// whoever cleans up knows whose they were [R-13].
    pub fn with_tag(mut self, tag: &str) -> Self {
        // A tag that cannot stand in a file name would make every write fail.
        let tag: String = tag
            .chars()
            .filter(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
            .take(64)
            .collect();
        self.tag = tag.into();
        self
    }

    /// The same store with faults between it and the real one; clones and children made
    /// afterwards have them too.
    pub fn with_faults(mut self, faults: Faults) -> Self {
        self.backend = Arc::new(Faulty::new(self.backend, faults));
        self
    }

    /// The same store with counters of its own.
    pub fn with_own_metrics(mut self) -> Self {
        self.metrics = Arc::default();
        self
    }

    /// Counters, shared with clones and children.
    pub fn metrics(&self) -> MetricsSnapshot {
        self.metrics.snapshot()
    }

    fn resolve(&self, op: Op, path: &str) -> Result<String> {
        let full = path::join(&self.prefix, path);
        // What is wrong with a part is wrong with the whole, unless it is empty.
        let wrong = if path.is_empty() { path } else { &full };
        match path::fault(wrong) {
            None => Ok(full),
            Some(reason) => Err(StoreError::new(ErrorKind::NameTooLong, op, full)
                .message(reason)
                .at(&self.base)),
        }
    }

    fn resolve_prefix(&self, op: Op, prefix: &str) -> Result<String> {
        let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
        match (prefix.is_empty(), self.prefix.is_empty()) {
            (false, _) => self.resolve(op, prefix),
            (true, true) => Ok(String::new()),
            (true, false) => match path::fault(&self.prefix) {
                None => Ok(self.prefix.to_string()),
                Some(reason) => Err(StoreError::new(ErrorKind::NameTooLong, op, &*self.prefix)
                    .message(reason)
                    .at(&self.base)),
            },
        }
    }

    /// A path of the backend as one of ours.
    fn relative(&self, full: String) -> String {
        if self.prefix.is_empty() {
            return full;
        }
        match full
            .strip_prefix(&*self.prefix)
            .and_then(|rest| rest.strip_prefix('/'))
        {
            Some(rest) => rest.to_owned(),
            None => full,
        }
    }

    /// Counts one request and names the store in its error.
    pub(crate) async fn once<T>(
        &self,
        op: Op,
        sent: u64,
        received: impl FnOnce(&T) -> u64,
        request: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let started = Instant::now();
        let result = request.await.map_err(|error| error.at(&self.base));
        let (bytes, failed) = match &result {
            Ok(value) => (sent + received(value), false),
            Err(error) => (sent, !error.is_not_found()),
        };
        self.metrics.request(op, bytes, started.elapsed(), failed);
        if let Err(error) = &result
            && failed
        {
            tracing::debug!(%op, %error, "store request failed");
        }
        result
    }

    /// Sends a request that is safe to repeat until it succeeds, fails for good, or the policy's
    /// attempts are used up. What was perhaps done by an earlier attempt stays in doubt.
    pub(crate) async fn repeated<T, R: Future<Output = Result<T>>>(
        &self,
        op: Op,
        sent: u64,
        received: impl Fn(&T) -> u64,
        mut request: impl FnMut() -> R,
    ) -> Result<T> {
        let mut in_doubt = false;
        let mut attempt = 0;
        loop {
            let error = match self.once(op, sent, &received, request()).await {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            in_doubt |= error.effect_unknown();
            if !error.is_transient() || !self.wait_before_retry(op, &mut attempt, &error).await {
                return Err(error.maybe_applied_if(in_doubt));
            }
        }
    }

    /// Waits before the next attempt; `false` where there is none.
    async fn wait_before_retry(&self, op: Op, attempt: &mut u32, error: &StoreError) -> bool {
        if *attempt + 1 >= self.retry.attempts {
            return false;
        }
        tokio::time::sleep(self.retry.wait(*attempt, error)).await;
        *attempt += 1;
        self.metrics.retry(op);
        true
    }

    /// Creates an object, unless there is one of that name already. The one operation on which
    /// exactly-once rests: of any number of concurrent creators exactly one gets
    /// [`Create::Created`], and no reader ever sees part of an object.
    ///
    /// Repeated inside are only requests that had no effect for sure, and throttled ones, whose
    /// repetition cannot do harm since the bytes are the same.
    pub async fn create_if_absent(&self, path: &str, bytes: Bytes) -> Create {
        let op = Op::Create;
        let full = match self.resolve(op, path) {
            Ok(full) => full,
            Err(error) => return Create::Failed(error),
        };
        if !self.backend.capabilities().atomic_create {
            return Create::Failed(
                StoreError::new(ErrorKind::Unsupported, op, full)
                    .message(
                        "this store is configured without conditional writes \
                         (s3.conditional-put = disabled), so it can be read only",
                    )
                    .at(&self.base),
            );
        }
        let sent = bytes.len() as u64;
        let mut in_doubt = false;
        let mut attempt = 0;
        loop {
            let request = self.backend.create(&full, bytes.clone(), &self.tag);
            let error = match self.once(op, sent, |_| 0, request).await {
                Ok(Created::New) => return Create::Created,
                Ok(Created::Exists) if mutant::on("exists-is-created") => return Create::Created,
                Ok(Created::Exists) => return self.existing(&full).await,
                Err(error) => error,
            };
            in_doubt |= error.effect_unknown();
            let repeat = match error.kind() {
                ErrorKind::Throttled => true,
                kind => kind.is_transient() && !error.effect_unknown(),
            };
            if !repeat || !self.wait_before_retry(op, &mut attempt, &error).await {
                return if in_doubt && !mutant::on("doubt-forgotten") {
                    Create::Unknown(error.maybe_applied())
                } else {
                    Create::Failed(error)
                };
            }
        }
    }

    async fn existing(&self, full: &str) -> Create {
        match self.get_full(full).await {
            Ok(theirs) => Create::Exists(theirs),
            // It exists, or did a moment ago; whose it is cannot be said.
            Err(error) => Create::Unknown(
                error
                    .message("an object of that name exists and cannot be read")
                    .maybe_applied(),
            ),
        }
    }

    /// Replaces an object, or makes it: readers see the old bytes or the new ones, whole. For
    /// hints and notes. Repeated after transient failures, so among concurrent writers of
    /// different bytes the order is not defined.
    ///
    /// # Errors
    /// Where [`StoreError::effect_unknown`], the new bytes may be there, or appear later.
    pub async fn put(&self, path: &str, bytes: Bytes) -> Result<()> {
        self.put_pieces(path, vec![bytes]).await
    }

    /// Writes an object whose name nobody else uses (manifests, data files): durable when it
    /// returns, no conditional request needed.
    ///
    /// # Errors
    /// As [`Store::put`].
    pub async fn write_once(&self, path: &str, bytes: Bytes) -> Result<()> {
        self.put_pieces(path, vec![bytes]).await
    }

    pub(crate) async fn put_pieces(&self, path: &str, pieces: Vec<Bytes>) -> Result<()> {
        let full = self.resolve(Op::Put, path)?;
        let sent = crate::backend::pieces_len(&pieces);
        self.repeated(
            Op::Put,
            sent,
            |()| 0,
            || self.backend.put(&full, pieces.clone(), &self.tag),
        )
        .await
    }

    /// Gives an object a second name, without its bytes passing here: a hard link on a disk, the
    /// server's own copy on S3. The new name is one that belongs to this content alone, as with
    /// [`Store::write_once`]: what has it already is taken for it. Durable when it returns; readers
    /// see it whole or not at all.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] where `from` is absent; [`ErrorKind::Unsupported`] where the store
    /// cannot, see [`Capabilities::copies_up_to`]; else as [`Store::put`].
    pub async fn copy_once(&self, from: &str, to: &str) -> Result<()> {
        let op = Op::Copy;
        let (source, target) = (self.resolve(op, from)?, self.resolve(op, to)?);
        let request = || self.backend.copy_once(&source, &target);
        self.repeated(op, 0, |()| 0, request).await
    }

    /// Begins an object that is written in stretches; it appears, whole and durable, when
    /// [`Upload::finish`] returns. Nothing is sent before one part is full, so a small object
    /// costs one request.
    ///
    /// # Errors
    /// [`ErrorKind::NameTooLong`] where `path` is none.
    pub async fn upload(&self, path: &str) -> Result<Upload> {
        self.upload_with(path, UploadOptions::default()).await
    }

    /// [`Store::upload`] with a part size and a number of parts under way.
    ///
    /// # Errors
    /// As [`Store::upload`].
    pub async fn upload_with(&self, path: &str, options: UploadOptions) -> Result<Upload> {
        let full = self.resolve(Op::BeginUpload, path)?;
        let plan = self.backend.part_plan();
        Ok(Upload::new(
            self.clone(),
            path.to_owned(),
            full,
            options.or(plan),
        ))
    }

    pub(crate) async fn begin_upload(
        &self,
        full: &str,
    ) -> Result<Arc<dyn crate::backend::PartSink>> {
        let op = Op::BeginUpload;
        self.repeated(op, 0, |_| 0, || self.backend.begin_upload(full, &self.tag))
            .await
    }

    /// A whole object.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] where there is none.
    pub async fn get(&self, path: &str) -> Result<Bytes> {
        let full = self.resolve(Op::Get, path)?;
        self.get_full(&full).await
    }

    async fn get_full(&self, full: &str) -> Result<Bytes> {
        let size = |bytes: &Bytes| bytes.len() as u64;
        self.repeated(Op::Get, 0, size, || self.backend.get(full))
            .await
    }

    /// A whole object, `None` where there is none.
    ///
    /// # Errors
    /// Any failure but absence.
    pub async fn get_opt(&self, path: &str) -> Result<Option<Bytes>> {
        match self.get(path).await {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Exactly these bytes of an object.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`]; [`ErrorKind::Corrupt`] where the object is shorter.
    pub async fn get_range(&self, path: &str, range: Range<u64>) -> Result<Bytes> {
        let full = self.resolve(Op::GetRange, path)?;
        if range.is_empty() {
            return Ok(Bytes::new());
        }
        let size = |bytes: &Bytes| bytes.len() as u64;
        let request = || self.backend.get_range(&full, range.clone());
        self.repeated(Op::GetRange, 0, size, request).await
    }

    /// Size and time of an object, `None` where there is none (a directory is none).
    ///
    /// # Errors
    /// Any failure but absence.
    pub async fn head(&self, path: &str) -> Result<Option<ObjectMeta>> {
        let full = self.resolve(Op::Head, path)?;
        let found = self
            .repeated(Op::Head, 0, |_| 0, || self.backend.head(&full))
            .await?;
        Ok(found.map(|meta| self.relative_meta(meta)))
    }

    fn relative_meta(&self, meta: ObjectMeta) -> ObjectMeta {
        ObjectMeta {
            path: self.relative(meta.path),
            ..meta
        }
    }

    /// All objects below a directory (`""` = the root), however deep, sorted by path. Temporary
    /// files of ours are left out; an absent directory has no objects.
    ///
    /// # Errors
    /// Any failure; never a part of the list.
    pub async fn list(&self, prefix: &str) -> Result<Vec<ObjectMeta>> {
        let full = self.resolve_prefix(Op::List, prefix)?;
        let found = self
            .repeated(Op::List, 0, |_| 0, || self.backend.list(&full))
            .await?;
        Ok(found
            .into_iter()
            .map(|meta| self.relative_meta(meta))
            .collect())
    }

    /// Calls `each` for every object below a directory (`""` = the root), however deep, in any order,
    /// without holding them all: for listings of millions. After a failure that was worth a repetition an
    /// object may come twice; on object stores a mark of a directory, an empty object named as it, comes
    /// too.
    ///
    /// # Errors
    /// Any failure; `each` has then had a part of them.
    pub async fn list_each(
        &self,
        prefix: &str,
        mut each: impl FnMut(ObjectMeta) + Send,
    ) -> Result<()> {
        let full = self.resolve_prefix(Op::List, prefix)?;
        let each = std::sync::Mutex::new(&mut each);
        let request = || async {
            let (send, mut parts) = tokio::sync::mpsc::channel(2);
            let take = async {
                while let Some(part) = parts.recv().await {
                    let mut each = each
                        .lock()
                        .unwrap_or_else(std::sync::PoisonError::into_inner);
                    for meta in part {
                        (*each)(self.relative_meta(meta));
                    }
                }
            };
            futures::future::join(self.backend.list_in_parts(&full, send), take)
                .await
                .0
        };
        self.repeated(Op::List, 0, |()| 0, request).await
    }

    /// Names directly in a directory (`""` = the root), sorted. Temporary files of ours are left
    /// out; an absent directory has no names.
    ///
    /// # Errors
    /// Any failure; never a part of the list.
    pub async fn list_names(&self, dir: &str) -> Result<Vec<Entry>> {
        let full = self.resolve_prefix(Op::List, dir)?;
        self.repeated(Op::List, 0, |_| 0, || self.backend.list_dir(&full))
            .await
    }

    /// Deletes an object; absent is fine.
    ///
    /// # Errors
    /// Where [`StoreError::effect_unknown`], it may be gone, or go later.
    pub async fn delete(&self, path: &str) -> Result<()> {
        let full = self.resolve(Op::Delete, path)?;
        self.repeated(Op::Delete, 0, |()| 0, || self.backend.delete(&full))
            .await
    }

    /// Deletes many objects in as few requests as the store allows; one result per path, in the
    /// order given. Absent is fine.
    pub async fn delete_many<P: AsRef<str>>(&self, paths: &[P]) -> Vec<Result<()>> {
        let mut results: Vec<Result<()>> = Vec::with_capacity(paths.len());
        for batch in paths.chunks(1000) {
            let full: Result<Vec<String>> = batch
                .iter()
                .map(|path| self.resolve(Op::Delete, path.as_ref()))
                .collect();
            let answer = match full {
                Ok(full) => {
                    let request = || self.backend.delete_many(&full);
                    self.repeated(Op::Delete, 0, |_| 0, request).await
                }
                Err(error) => Err(error),
            };
            match answer {
                Ok(answers) => {
                    for (answer, path) in answers.into_iter().zip(batch) {
                        results.push(match answer {
                            Err(error) if error.is_transient() => self.delete(path.as_ref()).await,
                            other => other.map_err(|error| error.at(&self.base)),
                        });
                    }
                }
                Err(_) if mutant::on("deletes-not-looked-at") => {
                    results.extend(batch.iter().map(|_| Ok(())));
                }
                // The batch failed as a whole: singly, each path gets its own answer.
                Err(_) => {
                    for path in batch {
                        results.push(self.delete(path.as_ref()).await);
                    }
                }
            }
        }
        results
    }

    /// Removes the empty directories below a directory, and the directory itself where it is
    /// empty then; a directory that somebody fills meanwhile stays. Object stores have no
    /// directories, so there it does nothing.
    ///
    /// # Errors
    /// Any failure but *absent* and *not empty*.
    pub async fn remove_dirs(&self, dir: &str) -> Result<()> {
        let full = self.resolve_prefix(Op::Delete, dir)?;
        if self.capabilities().scheme != Scheme::File {
            return Ok(());
        }
        let request = || self.backend.remove_dirs(&full);
        self.repeated(Op::Delete, 0, |()| 0, request).await
    }

    /// Makes durable what stands in a directory, and the directory itself: names that are seen there
    /// outlast a power failure once it returns. Somebody who was killed between giving a name and the
    /// fsync of its directory leaves one that every process sees and a power failure takes back; who
    /// goes on from what others left calls this before it relies on it. Deletions are made durable too.
    ///
    /// Fsyncs on a local disk; elsewhere what is seen is durable and nothing is asked.
    ///
    /// # Errors
    /// Where the disk refuses. A directory that is not there needs nothing.
    pub async fn make_durable(&self, dir: &str) -> Result<()> {
        let full = self.resolve_prefix(Op::MakeDurable, dir)?;
        if self.capabilities().scheme != Scheme::File {
            return Ok(());
        }
        let request = || self.backend.make_durable(&full);
        self.repeated(Op::MakeDurable, 0, |()| 0, request).await
    }

    /// Temporary files (local) and uploads in parts (S3) below a directory that were begun and
    /// never finished: of processes that died, and of living ones too.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] where the store cannot list them
    /// ([`Capabilities::lists_unfinished`]).
    pub async fn list_unfinished(&self, prefix: &str) -> Result<Vec<Unfinished>> {
        let full = self.resolve_prefix(Op::List, prefix)?;
        let found = self
            .repeated(Op::List, 0, |_| 0, || self.backend.list_unfinished(&full))
            .await?;
        Ok(found
            .into_iter()
            .map(|unfinished| Unfinished {
                target: self.relative(unfinished.target),
                ..unfinished
            })
            .collect())
    }

    /// Removes a temporary file or gives an upload up; gone already is fine.
    ///
    /// # Errors
    /// Any failure but absence.
    pub async fn discard_unfinished(&self, unfinished: &Unfinished) -> Result<()> {
        let request = || self.backend.discard_unfinished(unfinished);
        self.repeated(Op::AbortUpload, 0, |()| 0, request).await
    }

    /// Creates an object of its own twice and checks that the second creation is refused and
    /// the first one's bytes stay; then deletes it. Some stores take a conditional write for a
    /// plain one: two writers would both win (case B20).
    ///
    /// Killed in between, it leaves the object: [`Store::remove_probes`] removes such, and may do so under
    /// a probe that is at work. A second creation that wins is therefore tried again.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] where the store must not be written to, saying why.
    pub async fn probe_create(&self) -> Result<()> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            let path = format!("{PROBE}{}", uuid::Uuid::new_v4().simple());
            let first = Bytes::from(format!("first {path}"));
            let second = Bytes::from(format!("second {path}"));
            let outcome = self.probe_with(&path, first, second).await;
            if let Err(error) = self.delete(&path).await {
                tracing::warn!(%error, "the probe object stays behind");
            }
            match outcome {
                Err(Probed::Replaced) if attempt < PROBES => {}
                Err(Probed::Replaced) => {
                    return Err(self.unfit("it lets a second creation replace the first object"));
                }
                Err(Probed::Unfit(error)) => return Err(error),
                Ok(()) => return Ok(()),
            }
        }
    }

    /// Removes what killed probes left directly under the root, by its name; gives how many.
    ///
    /// # Errors
    /// Where the root cannot be listed or an object not be deleted.
    pub async fn remove_probes(&self) -> Result<usize> {
        let entries = self.list_names("").await?;
        let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        let mut removed = 0;
        for entry in entries.iter().filter(|entry| !entry.is_dir) {
            let unique = entry.name.strip_prefix(PROBE);
            if unique.is_some_and(|u| u.len() == 32 && u.bytes().all(hex)) {
                self.delete(&entry.name).await?;
                removed += 1;
            }
        }
        Ok(removed)
    }

    async fn probe_with(&self, path: &str, first: Bytes, second: Bytes) -> Result<(), Probed> {
        // Once more after a lost answer; what exists then must be ours.
        let mut made = self.create_if_absent(path, first.clone()).await;
        if matches!(made, Create::Unknown(_)) {
            made = self.create_if_absent(path, first.clone()).await;
        }
        match made {
            Create::Unknown(error) | Create::Failed(error) => return Err(Probed::Unfit(error)),
            other if other.holds(&first) => {}
            _ => {
                let reason = "another object stood at a random name";
                return Err(Probed::Unfit(self.unfit(reason)));
            }
        }
        match self.create_if_absent(path, second).await {
            Create::Exists(theirs) if theirs == first => Ok(()),
            Create::Exists(_) => {
                let reason = "the second creation was refused and yet replaced the object";
                Err(Probed::Unfit(self.unfit(reason)))
            }
            Create::Created => Err(Probed::Replaced),
            Create::Unknown(error) | Create::Failed(error) => Err(Probed::Unfit(error)),
        }
    }

    fn unfit(&self, reason: &str) -> StoreError {
        StoreError::new(ErrorKind::Unsupported, Op::Create, "")
            .at(&self.url)
            .message(format!(
                "{reason}: it ignores conditional writes (If-None-Match), so two writers could \
                 both win; it can be read but is refused for writing. Use a store with \
                 conditional writes"
            ))
    }
}

/// What a probe came to.
enum Probed {
    /// The second creation won: the store ignores conditions, or somebody removed the first object.
    Replaced,
    /// The store must not be written to, or could not be asked.
    Unfit(StoreError),
}

fn display_url(base: &str, prefix: &str) -> String {
    if prefix.is_empty() && base == "file://" {
        return "file:///".to_owned();
    }
    path::join(base, prefix)
}
