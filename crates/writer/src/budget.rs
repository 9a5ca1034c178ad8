//! One memory budget per process.
//!
//! Owns who may hold how many bytes: totals, shares, waiting in order, metrics. Knows nothing of
//! what the bytes are for.
//!
//! Two ways to hold memory:
//!
//! * [`MemoryBudget::reserve`] waits in order (first come, first served): for whoever can stand
//!   still, such as a source that fills a channel;
//! * a [`BudgetShare`] never waits: each of `n` members may hold an n-th of the whole at any time,
//!   and gets rid of its own bytes (by spilling or closing files) before it asks for more. Since
//!   nobody who holds memory waits for somebody else's, there is no deadlock.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// A number of bytes shared by all writers of a process. Clones are the same budget.
///
/// ```
/// use tidegate_writer::MemoryBudget;
///
/// let budget = MemoryBudget::new(64 << 20);
/// let share = budget.join();
/// let held = share.try_take(1 << 20).expect("an empty budget has room");
/// assert_eq!(budget.metrics().used, 1 << 20);
/// drop(held);
/// assert_eq!(budget.metrics().used, 0);
/// assert_eq!(budget.metrics().peak, 1 << 20);
/// ```
#[derive(Clone, Debug)]
pub struct MemoryBudget {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    limit: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    used: usize,
    peak: usize,
    members: usize,
    waits: u64,
    overdrafts: u64,
    waiting: VecDeque<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    bytes: usize,
    grant: oneshot::Sender<Reservation>,
}

/// What a budget was used for so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BudgetMetrics {
    /// The limit in bytes.
    pub limit: usize,
    /// Bytes held now.
    pub used: usize,
    /// The most that was ever held at once.
    pub peak: usize,
    /// How often somebody had to wait.
    pub waits: u64,
    /// How often a member took more than there was, because a single batch was larger than its
    /// share or the rest was held by others.
    pub overdrafts: u64,
}

impl MemoryBudget {
    /// A budget of `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            inner: Arc::new(Inner {
                limit: limit.max(1),
                state: Mutex::default(),
            }),
        }
    }

    /// The limit in bytes.
    pub fn limit(&self) -> usize {
        self.inner.limit
    }

    /// Numbers for an operator.
    pub fn metrics(&self) -> BudgetMetrics {
        let state = self.inner.state();
        BudgetMetrics {
            limit: self.inner.limit,
            used: state.used,
            peak: state.peak,
            waits: state.waits,
            overdrafts: state.overdrafts,
        }
    }

    /// Becomes a member: the limit is divided evenly among the members there are at any time.
    pub fn join(&self) -> BudgetShare {
        self.inner.state().members += 1;
        BudgetShare {
            inner: Arc::clone(&self.inner),
            used: Arc::default(),
        }
    }

    /// Holds `bytes` if they are free now and nobody waits for them.
    pub fn try_reserve(&self, bytes: usize) -> Option<Reservation> {
        let mut state = self.inner.state();
        let free = state.waiting.is_empty() && state.fits(bytes, self.inner.limit);
        free.then(|| {
            state.add(bytes);
            Reservation {
                inner: Arc::clone(&self.inner),
                owner: None,
                bytes,
            }
        })
    }

    /// Holds `bytes` as soon as they are free, in the order of asking. More than the whole budget is
    /// granted when nothing else is held. Dropping the future gives the place in the queue up.
    pub async fn reserve(&self, bytes: usize) -> Reservation {
        loop {
            if let Some(held) = self.try_reserve(bytes) {
                return held;
            }
            let (grant, granted) = oneshot::channel();
            {
                let mut state = self.inner.state();
                state.waits += 1;
                state.waiting.push_back(Waiting { bytes, grant });
            }
            // What was free may have become so between the two locks.
            self.inner.serve();
            if let Ok(held) = granted.await {
                return held;
            }
        }
    }
}

impl State {
    fn fits(&self, bytes: usize, limit: usize) -> bool {
        self.used == 0 || self.used.saturating_add(bytes) <= limit
    }

    fn add(&mut self, bytes: usize) {
        self.used = self.used.saturating_add(bytes);
        self.peak = self.peak.max(self.used);
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn release(self: &Arc<Self>, bytes: usize) {
        {
            let mut state = self.state();
            state.used = state.used.saturating_sub(bytes);
        }
        self.serve();
    }

    /// Grants to the head of the queue while it fits. A grant whose future is gone comes back by
    /// being dropped, which serves the next one.
    fn serve(self: &Arc<Self>) {
        loop {
            let next = {
                let mut state = self.state();
                match state.waiting.front() {
                    Some(head) if head.grant.is_closed() => {
                        state.waiting.pop_front();
                        continue;
                    }
                    Some(head) if state.fits(head.bytes, self.limit) => {
                        let head = state.waiting.pop_front();
                        if let Some(head) = &head {
                            state.add(head.bytes);
                        }
                        head
                    }
                    _ => None,
                }
            };
            let Some(Waiting { bytes, grant }) = next else {
                return;
            };
            let held = Reservation {
                inner: Arc::clone(self),
                owner: None,
                bytes,
            };
            drop(grant.send(held));
        }
    }
}

/// Membership in a budget. Dropping it leaves; what it holds stays counted until dropped.
#[derive(Debug)]
pub struct BudgetShare {
    inner: Arc<Inner>,
    used: Arc<AtomicUsize>,
}

impl BudgetShare {
    /// Bytes that this member may hold: the limit divided by the members.
    pub fn allowance(&self) -> usize {
        self.inner.limit / self.inner.state().members.max(1)
    }

    /// Bytes that this member holds.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Holds `bytes` if allowance and budget have room.
    pub fn try_take(&self, bytes: usize) -> Option<Reservation> {
        let mut state = self.inner.state();
        let allowance = self.inner.limit / state.members.max(1);
        let own = self.used().saturating_add(bytes) <= allowance;
        (own && state.used.saturating_add(bytes) <= self.inner.limit).then(|| {
            state.add(bytes);
            self.holding(bytes)
        })
    }

    /// Holds `bytes` in any case: they exist already. Counted as an overdraft where there is no
    /// room.
    pub fn take(&self, bytes: usize) -> Reservation {
        self.inner.add_anyway(bytes);
        self.holding(bytes)
    }

    fn holding(&self, bytes: usize) -> Reservation {
        self.used.fetch_add(bytes, Ordering::Relaxed);
        Reservation {
            inner: Arc::clone(&self.inner),
            owner: Some(Arc::clone(&self.used)),
            bytes,
        }
    }
}

impl Drop for BudgetShare {
    fn drop(&mut self) {
        let mut state = self.inner.state();
        state.members = state.members.saturating_sub(1);
    }
}

impl Inner {
    fn add_anyway(&self, bytes: usize) {
        let mut state = self.state();
        state.add(bytes);
        if state.used > self.limit && bytes > 0 {
            state.overdrafts += 1;
        }
    }
}

/// Bytes held; given back on drop.
#[derive(Debug)]
pub struct Reservation {
    inner: Arc<Inner>,
    owner: Option<Arc<AtomicUsize>>,
    bytes: usize,
}

impl Reservation {
    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Holds `bytes` from now on; growth is taken in any case, as by [`BudgetShare::take`].
    pub fn resize(&mut self, bytes: usize) {
        if bytes > self.bytes {
            let more = bytes - self.bytes;
            self.inner.add_anyway(more);
            if let Some(owner) = &self.owner {
                owner.fetch_add(more, Ordering::Relaxed);
            }
            self.bytes = bytes;
        } else {
            drop(self.split(self.bytes - bytes));
        }
    }

    /// Adds the bytes of another reservation of the same holder.
    pub fn absorb(&mut self, mut other: Self) {
        self.bytes += std::mem::take(&mut other.bytes);
    }

    /// Takes up to `bytes` out into a reservation of their own.
    pub fn split(&mut self, bytes: usize) -> Self {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        Self {
            inner: Arc::clone(&self.inner),
            owner: self.owner.clone(),
            bytes,
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.bytes > 0 {
            if let Some(owner) = &self.owner {
                owner.fetch_sub(self.bytes, Ordering::Relaxed);
            }
            self.inner.release(self.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn waiting_is_in_order_and_a_dropped_wait_gives_its_place_up() {
        let budget = MemoryBudget::new(100);
        let first = budget.reserve(80).await;
        let mut big = Box::pin(budget.reserve(90));
        let mut small = Box::pin(budget.reserve(10));
        assert!(futures::poll!(&mut big).is_pending());
        // Would fit, but the big one asked before.
        assert!(futures::poll!(&mut small).is_pending());
        assert!(budget.try_reserve(1).is_none());
        drop(first);
        let big_held = big.await;
        let small_held = small.await;
        assert_eq!(budget.metrics().used, 100);
        let mut given_up = Box::pin(budget.reserve(50));
        assert!(futures::poll!(&mut given_up).is_pending());
        let mut last = Box::pin(budget.reserve(60));
        assert!(futures::poll!(&mut last).is_pending());
        drop(given_up);
        drop(big_held);
        let last = last.await;
        drop((small_held, last));
        assert_eq!(budget.metrics().used, 0);
        assert_eq!(budget.metrics().peak, 100);
    }

    #[tokio::test]
    async fn a_request_above_the_whole_budget_is_granted_alone() {
        let budget = MemoryBudget::new(10);
        let held = budget.reserve(1000).await;
        assert!(budget.try_reserve(1).is_none());
        drop(held);
        assert!(budget.try_reserve(1).is_some());
    }

    #[test]
    fn members_share_evenly_and_overdrafts_are_counted() {
        let budget = MemoryBudget::new(100);
        let one = budget.join();
        let all = one.try_take(100).unwrap();
        drop(all);
        let two = budget.join();
        assert!(one.try_take(51).is_none());
        let mut held = one.try_take(50).unwrap();
        let other = two.try_take(50).unwrap();
        assert_eq!(budget.metrics().overdrafts, 0);
        held.resize(60);
        assert_eq!(budget.metrics().overdrafts, 1);
        let part = held.split(20);
        assert_eq!((held.bytes(), part.bytes(), one.used()), (40, 20, 60));
        drop((held, part, other, two));
        assert_eq!(
            (budget.metrics().used, one.used(), one.allowance()),
            (0, 0, 100)
        );
    }
}
