//! Time, waiting and randomness as the committer uses them: injected, so that a simulator can own
//! them (invariant 10). Nothing here decides correctness.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rand::rngs::SmallRng;
use rand::{RngCore, SeedableRng};
use tidegate_sink::BoxFuture;

/// What the committer needs of the world besides its store.
pub trait Env: Send + Sync + fmt::Debug {
    /// Wall clock, epoch milliseconds. Goes into snapshots and never orders them.
    fn now_millis(&self) -> i64;

    /// Waits; used between attempts only.
    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()>;

    /// 64 random bits: names, snapshot identities and jitter come from here.
    fn random(&self) -> u64;
}

/// A random identity in the usual text form, 122 random bits of version 4.
pub(crate) fn uuid(env: &dyn Env) -> String {
    let high = env.random().to_be_bytes();
    let low = env.random().to_be_bytes();
    let mut bytes = [0u8; 16];
    for (to, from) in bytes.iter_mut().zip(high.iter().chain(low.iter())) {
        *to = *from;
    }
    uuid::Builder::from_random_bytes(bytes)
        .into_uuid()
        .to_string()
}

/// The operating system's clock, tokio's timer, the thread's generator.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemEnv;

impl Env for SystemEnv {
    fn now_millis(&self) -> i64 {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map(|d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX))
            .unwrap_or(0)
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(time))
    }

    fn random(&self) -> u64 {
        rand::rng().next_u64()
    }
}

/// A world without surprises for tests and simulations: seeded, and waiting only moves its clock.
#[derive(Clone, Debug)]
pub struct SeededEnv {
    seed: u64,
    draws: Arc<AtomicU64>,
    clock: Arc<AtomicI64>,
}

impl SeededEnv {
    /// Starts at `now_millis`; equal seeds draw equal numbers in equal order.
    pub fn new(seed: u64, now_millis: i64) -> Self {
        Self {
            seed,
            draws: Arc::new(AtomicU64::new(0)),
            clock: Arc::new(AtomicI64::new(now_millis)),
        }
    }

    /// Sets the clock, backwards too.
    pub fn set_clock(&self, now_millis: i64) {
        self.clock.store(now_millis, Ordering::SeqCst);
    }
}

impl Env for SeededEnv {
    fn now_millis(&self) -> i64 {
        self.clock.load(Ordering::SeqCst)
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        let millis = i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        self.clock.fetch_add(millis, Ordering::SeqCst);
        // One turn for the other tasks, as a real wait would give them.
        Box::pin(tokio::task::yield_now())
    }

    fn random(&self) -> u64 {
        let draw = self.draws.fetch_add(1, Ordering::SeqCst);
        let mixed = self
            .seed
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .wrapping_add(draw);
        SmallRng::seed_from_u64(mixed).next_u64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_make_equal_identities_and_no_identity_twice() {
        let (a, b, c) = (
            SeededEnv::new(1, 0),
            SeededEnv::new(1, 0),
            SeededEnv::new(2, 0),
        );
        let first = uuid(&a);
        assert_eq!(first, uuid(&b));
        assert_ne!(first, uuid(&a));
        assert_ne!(first, uuid(&c));
        assert_eq!(first.len(), 36);
    }
}
