//! Time and randomness of one process: from its number, so that a script plays the same without a seed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidegate_commit::Env;
use tidegate_recovery::Identities;
use tidegate_runtime::Clock;
use tidegate_sink::BoxFuture;
use tokio::time::Instant;

use crate::choices::mix;
use crate::gate::ProcessId;

/// 2023-11-14, far from every border of a clock.
const START_MS: i64 = 1_700_000_000_000;

/// A process's own clock, which may be wrong, and its own dice.
#[derive(Clone, Debug)]
pub(crate) struct SimEnv {
    seed: u64,
    draws: Arc<AtomicU64>,
    begun: Instant,
    shift_ms: i64,
}

impl SimEnv {
    /// `begun` is when the world began; the clock is wrong by `shift_ms`.
    pub(crate) fn new(process: ProcessId, begun: Instant, shift_ms: i64) -> Self {
        Self {
            seed: mix(0x7469_6465 ^ process.0 as u64),
            draws: Arc::default(),
            begun,
            shift_ms,
        }
    }

    pub(crate) fn identities(&self) -> Identities {
        let env = self.clone();
        Identities::from_bytes(move || {
            (u128::from(env.random()) << 64 | u128::from(env.random())).to_be_bytes()
        })
    }
}

impl Env for SimEnv {
    fn now_millis(&self) -> i64 {
        let since = Instant::now().duration_since(self.begun).as_millis();
        START_MS + self.shift_ms + i64::try_from(since).unwrap_or(i64::MAX)
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(time))
    }

    fn random(&self) -> u64 {
        mix(self.seed
            ^ self
                .draws
                .fetch_add(1, Ordering::Relaxed)
                .wrapping_mul(0x9e37_79b9))
    }
}

impl Clock for SimEnv {
    fn now_ms(&self) -> i64 {
        self.now_millis()
    }
}
