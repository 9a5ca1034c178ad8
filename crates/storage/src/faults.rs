//! Faults on purpose: before the effect, after it, late, torn, slow, dead.
//!
//! Owns a wrapper that stands between [`crate::Store`] and its backend, so that the store's own
//! repeating and counting see injected faults exactly as real ones. Faults are chosen by rule
//! (*the second create of a path that holds `snapshot-`*), by chance from a seed, or by a
//! [`Decider`] that is asked each time; the same seed and the same requests give the same faults,
//! whatever their interleaving.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures::future::BoxFuture;

use crate::backend::{
    Backend, Capabilities, Created, Entry, ObjectMeta, PartSink, Pieces, Unfinished,
};
use crate::error::{ErrorKind, Result, StoreError};
use crate::metrics::Op;
use crate::options::config;
use crate::retry::mix;

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The request fails without effect, with an error of this kind. A transient kind leaves the
    /// caller in doubt, as a real server would.
    Before(ErrorKind),
    /// The request is carried out and its answer is lost (F3).
    After,
    /// The request is held back, the caller gets no answer; it is carried out by
    /// [`Faults::release`], even if the sender died meanwhile (F4).
    Late,
    /// As `Late`, carried out by itself when that many more requests have come.
    LateAfter(u32),
    /// Only so many bytes arrive, under the final name; local and memory stores.
    Torn {
        /// Bytes that arrive.
        keep: usize,
    },
    /// The request is carried out after this time.
    Delay(Duration),
    /// The process dies before the request is sent (F1): this and all later requests fail.
    DieBefore,
    /// The process dies before it sees the answer (F2): the request is carried out, all later
    /// ones fail.
    DieAfter,
}

impl Fault {
    /// The fault of a code in the list of cases: F1 dies before, F2 dies after, F3 lost answer,
    /// F4 held back, F5 refused for good, F6 *slow down*, F7 failing part or completing call,
    /// F8 failing read or list. `Torn` and `Slow` are ours: half of 64 bytes, 100 ms.
    pub fn by_code(code: &str) -> Option<Self> {
        Some(match code.to_ascii_uppercase().as_str() {
            "F1" => Self::DieBefore,
            "F2" => Self::DieAfter,
            "F3" => Self::After,
            "F4" => Self::Late,
            "F5" => Self::Before(ErrorKind::PermissionDenied),
            "F6" => Self::Before(ErrorKind::Throttled),
            "F7" | "F8" => Self::Before(ErrorKind::Transient),
            "TORN" => Self::Torn { keep: 32 },
            "SLOW" => Self::Delay(Duration::from_millis(100)),
            _ => return None,
        })
    }
}

/// Which requests a fault strikes: by default the first one of any kind on any path.
///
/// Read from text as well: a fault's code, then in any order an operation, `path=TEXT`, `nth=N`,
/// `times=N` (0 = always).
///
/// ```
/// use tidegate_storage::{Fault, Op, Rule};
///
/// let rule: Rule = "F3 create path=snapshot- nth=2".parse()?;
/// assert_eq!(rule, Rule::new(Fault::After).on(Op::Create).path("snapshot-").nth(2));
/// # Ok::<(), tidegate_storage::StoreError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    fault: Fault,
    ops: Vec<Op>,
    path: String,
    nth: u32,
    times: Option<u32>,
}

impl Rule {
    /// Strikes the first request.
    pub fn new(fault: Fault) -> Self {
        Self {
            fault,
            ops: Vec::new(),
            path: String::new(),
            nth: 1,
            times: Some(1),
        }
    }

    /// Only requests of this kind; called again, of that kind too.
    pub fn on(mut self, op: Op) -> Self {
        self.ops.push(op);
        self
    }

    /// Only paths that hold this text.
    pub fn path(mut self, text: &str) -> Self {
        text.clone_into(&mut self.path);
        self
    }

    /// Not before the `n`-th matching request (from 1).
    pub fn nth(mut self, n: u32) -> Self {
        self.nth = n.max(1);
        self
    }

    /// Strikes so many matching requests in turn.
    pub fn times(mut self, n: u32) -> Self {
        self.times = Some(n);
        self
    }

    /// Strikes every matching request from the `nth` on.
    pub fn always(mut self) -> Self {
        self.times = None;
        self
    }

    fn matches(&self, op: Op, path: &str) -> bool {
        (self.ops.is_empty() || self.ops.contains(&op)) && path.contains(&self.path)
    }
}

impl FromStr for Rule {
    type Err = StoreError;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = |what: &str| {
            config(format!(
                "fault rule '{text}': {what}; write e.g. 'F3 create path=snapshot- nth=2 times=1'"
            ))
        };
        let mut words = text.split_whitespace();
        let code = words.next().unwrap_or_default();
        let fault = Fault::by_code(code)
            .ok_or_else(|| wrong("it begins with none of F1…F8, torn, slow"))?;
        let mut rule = Self::new(fault);
        for word in words {
            let number = |value: &str| {
                value
                    .parse::<u32>()
                    .map_err(|_| wrong(&format!("'{word}' holds no number")))
            };
            rule = match word.split_once('=') {
                Some(("path", value)) => rule.path(value),
                Some(("nth", value)) => rule.nth(number(value)?),
                Some(("times", value)) => match number(value)? {
                    0 => rule.always(),
                    n => rule.times(n),
                },
                _ => match Op::ALL.iter().find(|op| op.name() == word) {
                    Some(&op) => rule.on(op),
                    None => return Err(wrong(&format!("'{word}' is no operation"))),
                },
            };
        }
        Ok(rule)
    }
}

/// A fault that struck.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Injected {
    /// Kind of the request.
    pub op: Op,
    /// Its path from the base of the store.
    pub path: String,
    /// What was done to it.
    pub fault: Fault,
}

impl fmt::Display for Injected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {:?}", self.op, self.path, self.fault)
    }
}

/// Says what becomes of each request, asked before it is sent: the scheduler of a simulation.
///
/// The request waits as long as the answer does, so a decider also chooses the order of the requests
/// of all processes. Where a rule or a chance strikes as well, that counts.
pub trait Decider: fmt::Debug + Send + Sync {
    /// `None` = carried out undisturbed.
    fn decide(&self, op: Op, path: &str) -> BoxFuture<'static, Option<Fault>>;
}

type Effect = BoxFuture<'static, ()>;

struct Held {
    /// Requests still to come before it is carried out; `None` waits for the release.
    after: Option<u32>,
    effect: Effect,
}

#[derive(Default)]
struct State {
    rules: Vec<(Rule, u32)>,
    chances: Vec<(Vec<Op>, Fault, f64)>,
    seen: HashMap<(Op, String), u64>,
    held: Vec<Held>,
    log: Vec<Injected>,
    latency: Duration,
    dead: bool,
}

/// A plan of faults, held by the test while stores come and go. Clones share it.
#[derive(Clone, Default)]
pub struct Faults {
    seed: u64,
    decider: Option<Arc<dyn Decider>>,
    state: Arc<Mutex<State>>,
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        f.debug_struct("Faults")
            .field("seed", &self.seed)
            .field("decider", &self.decider)
            .field("rules", &state.rules)
            .field("held", &state.held.len())
            .field("dead", &state.dead)
            .finish_non_exhaustive()
    }
}

impl Faults {
    /// No faults yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// No faults yet; those by chance ([`Faults::chance`]) follow this seed.
    pub fn seeded(seed: u64) -> Self {
        Self {
            seed,
            ..Self::default()
        }
    }

    /// No faults but those of the decider.
    pub fn decided_by(decider: Arc<dyn Decider>) -> Self {
        Self {
            decider: Some(decider),
            ..Self::default()
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a rule; the first one that matches strikes. Rules may be added at any time.
    pub fn rule(&self, rule: Rule) -> &Self {
        self.lock().rules.push((rule, 0));
        self
    }

    /// Lets a share (0 to 1) of the requests of these kinds (none = all) fail, by the seed.
    pub fn chance(&self, ops: &[Op], fault: Fault, share: f64) -> &Self {
        self.lock().chances.push((ops.to_vec(), fault, share));
        self
    }

    /// Every request takes this much longer.
    pub fn latency(&self, latency: Duration) -> &Self {
        self.lock().latency = latency;
        self
    }

    /// Takes all rules, chances and latency away, and brings the dead back; what is held back
    /// stays held.
    pub fn heal(&self) {
        let mut state = self.lock();
        state.rules.clear();
        state.chances.clear();
        state.latency = Duration::ZERO;
        state.dead = false;
    }

    /// Carries out what was held back, in the order of sending; returns how many requests.
    pub async fn release(&self) -> usize {
        let held = std::mem::take(&mut self.lock().held);
        let count = held.len();
        for request in held {
            request.effect.await;
        }
        count
    }

    /// Carries out the oldest one of what was held back; `false` where there is none.
    pub async fn release_one(&self) -> bool {
        let oldest = {
            let mut state = self.lock();
            match state.held.is_empty() {
                true => return false,
                false => state.held.remove(0),
            }
        };
        oldest.effect.await;
        true
    }

    /// Number of requests held back.
    pub fn held(&self) -> usize {
        self.lock().held.len()
    }

    /// Whether the process is dead by a fault: nothing it sends arrives any more.
    pub fn dead(&self) -> bool {
        self.lock().dead
    }

    /// The faults that struck, in order.
    pub fn log(&self) -> Vec<Injected> {
        self.lock().log.clone()
    }

    fn choose(&self, state: &mut State, op: Op, path: &str) -> Option<Fault> {
        for (rule, seen) in &mut state.rules {
            if !rule.matches(op, path) {
                continue;
            }
            *seen += 1;
            let turn = seen.checked_sub(rule.nth);
            let due = turn.is_some_and(|turn| rule.times.is_none_or(|times| turn < times));
            if due {
                return Some(rule.fault);
            }
        }
        if state.chances.is_empty() {
            return None;
        }
        let seen = state.seen.entry((op, path.to_owned())).or_default();
        *seen += 1;
        let mut hash = mix(self.seed ^ (*seen << 8) ^ op as u64);
        for byte in path.bytes() {
            hash = mix(hash ^ u64::from(byte));
        }
        for (i, (ops, fault, share)) in state.chances.iter().enumerate() {
            let draw = (mix(hash ^ i as u64) >> 11) as f64 / (1_u64 << 53) as f64;
            if (ops.is_empty() || ops.contains(&op)) && draw < *share {
                return Some(*fault);
            }
        }
        None
    }

    /// Waits, carries out what has become due, and says what is to happen to this request.
    async fn next(&self, op: Op, path: &str) -> Result<Option<Fault>> {
        let decided = match &self.decider {
            Some(decider) if !self.dead() => decider.decide(op, path).await,
            _ => None,
        };
        let (latency, due, fault, dead) = {
            let mut state = self.lock();
            let mut due = Vec::new();
            let mut waiting = Vec::new();
            for mut held in std::mem::take(&mut state.held) {
                match &mut held.after {
                    Some(0) => due.push(held.effect),
                    Some(n) => {
                        *n -= 1;
                        waiting.push(held);
                    }
                    None => waiting.push(held),
                }
            }
            state.held = waiting;
            let fault = if state.dead {
                None
            } else {
                self.choose(&mut state, op, path).or(decided)
            };
            if let Some(fault) = fault {
                let path = path.to_owned();
                state.log.push(Injected { op, path, fault });
                tracing::debug!(%op, ?fault, "fault injected");
                state.dead |= matches!(fault, Fault::DieBefore | Fault::DieAfter);
            }
            let dead = state.dead && fault.is_none() || fault == Some(Fault::DieBefore);
            (state.latency, due, fault, dead)
        };
        if !latency.is_zero() {
            tokio::time::sleep(latency).await;
        }
        for effect in due {
            effect.await;
        }
        if dead {
            return Err(StoreError::new(ErrorKind::Other, op, path)
                .message("injected: this process is dead")
                .maybe_applied_if(op.writes()));
        }
        if let Some(Fault::Delay(time)) = fault {
            tokio::time::sleep(time).await;
        }
        Ok(fault)
    }

    fn hold(&self, after: Option<u32>, effect: Effect) {
        self.lock().held.push(Held { after, effect });
    }

    /// One request: `request` makes the effect when awaited.
    async fn strike<T: Send + 'static>(
        &self,
        op: Op,
        path: &str,
        request: impl Future<Output = Result<T>> + Send + 'static,
        tear: Option<(Arc<dyn Backend>, Bytes)>,
    ) -> Result<T> {
        let lost = |message: &str| {
            StoreError::new(ErrorKind::Transient, op, path)
                .message(message)
                .maybe_applied_if(op.writes())
        };
        let Some(fault) = self.next(op, path).await? else {
            return request.await;
        };
        match fault {
            Fault::Delay(_) => request.await,
            Fault::Before(kind) => Err(StoreError::new(kind, op, path)
                .message("injected")
                .maybe_applied_if(op.writes() && kind.is_transient())),
            Fault::After => {
                request.await?;
                Err(lost("injected: the answer was lost"))
            }
            Fault::DieBefore | Fault::DieAfter => {
                request.await?;
                Err(StoreError::new(ErrorKind::Other, op, path)
                    .message("injected: this process is dead")
                    .maybe_applied_if(op.writes()))
            }
            Fault::Late | Fault::LateAfter(_) => {
                let after = match fault {
                    Fault::LateAfter(n) => Some(n),
                    _ => None,
                };
                if op.writes() {
                    let effect = async move {
                        // Nobody is left to hear of a failure.
                        let _ = request.await;
                    };
                    self.hold(after, Box::pin(effect));
                }
                Err(lost("injected: no answer in time"))
            }
            Fault::Torn { keep } => {
                if let Some((backend, bytes)) = tear {
                    let arrived = bytes.slice(..keep.min(bytes.len()));
                    backend.tear(path, arrived).await?;
                }
                Err(StoreError::new(ErrorKind::Other, op, path)
                    .message("injected: torn write")
                    .maybe_applied_if(op.writes()))
            }
        }
    }
}

/// A backend with faults before it.
#[derive(Debug)]
pub(crate) struct Faulty {
    inner: Arc<dyn Backend>,
    faults: Faults,
}

impl Faulty {
    pub(crate) fn new(inner: Arc<dyn Backend>, faults: Faults) -> Self {
        Self { inner, faults }
    }

    /// The backend and owned copies of the arguments, so that a request can outlive its sender.
    fn parts(&self, path: &str) -> (Arc<dyn Backend>, String) {
        (Arc::clone(&self.inner), path.to_owned())
    }
}

fn concat(pieces: &[Bytes]) -> Bytes {
    let mut all = BytesMut::new();
    for piece in pieces {
        all.extend_from_slice(piece);
    }
    all.freeze()
}

#[async_trait]
impl Backend for Faulty {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn part_plan(&self) -> (usize, usize) {
        self.inner.part_plan()
    }

    async fn create(&self, path: &str, bytes: Bytes, tag: &str) -> Result<Created> {
        let (inner, owned) = self.parts(path);
        let tag = tag.to_owned();
        let tear = Some((Arc::clone(&inner), bytes.clone()));
        let request = async move { inner.create(&owned, bytes, &tag).await };
        self.faults.strike(Op::Create, path, request, tear).await
    }

    async fn put(&self, path: &str, pieces: Pieces, tag: &str) -> Result<()> {
        let (inner, owned) = self.parts(path);
        let tag = tag.to_owned();
        let tear = Some((Arc::clone(&inner), concat(&pieces)));
        let request = async move { inner.put(&owned, pieces, &tag).await };
        self.faults.strike(Op::Put, path, request, tear).await
    }

    async fn copy_once(&self, from: &str, to: &str) -> Result<()> {
        let (inner, owned) = self.parts(from);
        let target = to.to_owned();
        let request = async move { inner.copy_once(&owned, &target).await };
        self.faults.strike(Op::Copy, to, request, None).await
    }

    async fn begin_upload(&self, path: &str, tag: &str) -> Result<Arc<dyn PartSink>> {
        let (inner, owned) = self.parts(path);
        let tag = tag.to_owned();
        let request = async move { inner.begin_upload(&owned, &tag).await };
        let sink = self
            .faults
            .strike(Op::BeginUpload, path, request, None)
            .await?;
        Ok(Arc::new(FaultySink {
            sink,
            path: path.to_owned(),
            faults: self.faults.clone(),
        }))
    }

    async fn get(&self, path: &str) -> Result<Bytes> {
        let (inner, owned) = self.parts(path);
        let request = async move { inner.get(&owned).await };
        self.faults.strike(Op::Get, path, request, None).await
    }

    async fn get_range(&self, path: &str, range: Range<u64>) -> Result<Bytes> {
        let (inner, owned) = self.parts(path);
        let request = async move { inner.get_range(&owned, range).await };
        self.faults.strike(Op::GetRange, path, request, None).await
    }

    async fn head(&self, path: &str) -> Result<Option<ObjectMeta>> {
        let (inner, owned) = self.parts(path);
        let request = async move { inner.head(&owned).await };
        self.faults.strike(Op::Head, path, request, None).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<ObjectMeta>> {
        let (inner, owned) = self.parts(prefix);
        let request = async move { inner.list(&owned).await };
        self.faults.strike(Op::List, prefix, request, None).await
    }

    async fn list_dir(&self, dir: &str) -> Result<Vec<Entry>> {
        let (inner, owned) = self.parts(dir);
        let request = async move { inner.list_dir(&owned).await };
        self.faults.strike(Op::List, dir, request, None).await
    }

    async fn delete(&self, path: &str) -> Result<()> {
        let (inner, owned) = self.parts(path);
        let request = async move { inner.delete(&owned).await };
        self.faults.strike(Op::Delete, path, request, None).await
    }

    async fn delete_many(&self, paths: &[String]) -> Result<Vec<Result<()>>> {
        let inner = Arc::clone(&self.inner);
        let owned = paths.to_vec();
        let first = paths.first().map(String::as_str).unwrap_or_default();
        let request = async move { inner.delete_many(&owned).await };
        self.faults.strike(Op::Delete, first, request, None).await
    }

    async fn list_unfinished(&self, prefix: &str) -> Result<Vec<Unfinished>> {
        let (inner, owned) = self.parts(prefix);
        let request = async move { inner.list_unfinished(&owned).await };
        self.faults.strike(Op::List, prefix, request, None).await
    }

    async fn discard_unfinished(&self, unfinished: &Unfinished) -> Result<()> {
        let inner = Arc::clone(&self.inner);
        let owned = unfinished.clone();
        let request = async move { inner.discard_unfinished(&owned).await };
        self.faults
            .strike(Op::AbortUpload, &unfinished.full_target, request, None)
            .await
    }

    async fn remove_dirs(&self, dir: &str) -> Result<()> {
        let (inner, owned) = self.parts(dir);
        let request = async move { inner.remove_dirs(&owned).await };
        self.faults.strike(Op::Delete, dir, request, None).await
    }

    async fn make_durable(&self, dir: &str) -> Result<()> {
        let (inner, owned) = self.parts(dir);
        let request = async move { inner.make_durable(&owned).await };
        self.faults
            .strike(Op::MakeDurable, dir, request, None)
            .await
    }

    async fn tear(&self, path: &str, bytes: Bytes) -> Result<()> {
        self.inner.tear(path, bytes).await
    }
}

#[derive(Debug)]
struct FaultySink {
    sink: Arc<dyn PartSink>,
    path: String,
    faults: Faults,
}

#[async_trait]
impl PartSink for FaultySink {
    async fn put_part(&self, index: usize, offset: u64, pieces: Pieces) -> Result<()> {
        let sink = Arc::clone(&self.sink);
        let request = async move { sink.put_part(index, offset, pieces).await };
        self.faults
            .strike(Op::PutPart, &self.path, request, None)
            .await
    }

    async fn complete(&self, parts: usize, size: u64) -> Result<u64> {
        let sink = Arc::clone(&self.sink);
        let request = async move { sink.complete(parts, size).await };
        self.faults
            .strike(Op::CompleteUpload, &self.path, request, None)
            .await
    }

    async fn abort(&self) -> Result<()> {
        let sink = Arc::clone(&self.sink);
        let request = async move { sink.abort().await };
        self.faults
            .strike(Op::AbortUpload, &self.path, request, None)
            .await
    }

    fn abandon(self: Arc<Self>) {
        // The dead clean up nothing.
        if !self.faults.dead() {
            Arc::clone(&self.sink).abandon();
        }
    }
}
