//! When a failed request is sent again, and how long it waits before.
//!
//! Owns back-off with jitter and its bounds. Which failures may be repeated at all is decided
//! where the operation is known: see [`crate::Store`].

use std::time::Duration;

use crate::error::{ErrorKind, StoreError};

/// Bounds of repeating a request inside one operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Requests per operation, the first included; 1 = no repetition.
    pub attempts: u32,
    /// Longest first wait; doubled each time.
    pub base: Duration,
    /// Longest wait.
    pub cap: Duration,
    /// Makes waits reproducible; `None` takes them at random.
    pub seed: Option<u64>,
}

impl Default for RetryPolicy {
    /// 10 requests, 100 ms doubled up to 10 s: about half a minute in all.
    fn default() -> Self {
        Self {
            attempts: 10,
            base: Duration::from_millis(100),
            cap: Duration::from_secs(10),
            seed: None,
        }
    }
}

impl RetryPolicy {
    /// Every failure is reported at once.
    pub fn none() -> Self {
        Self {
            attempts: 1,
            ..Self::default()
        }
    }

    /// The wait before request number `attempt + 1`: between half and all of the doubled base.
    /// A store that asks for fewer requests is given four times that.
    pub(crate) fn wait(&self, attempt: u32, error: &StoreError) -> Duration {
        let factor = 1_u32.checked_shl(attempt.min(16)).unwrap_or(u32::MAX);
        let throttled = if error.kind() == ErrorKind::Throttled {
            4
        } else {
            1
        };
        let longest = self
            .base
            .saturating_mul(factor)
            .saturating_mul(throttled)
            .min(self.cap);
        let random: u64 = match self.seed {
            Some(seed) => mix(seed ^ u64::from(attempt)),
            None => rand::random(),
        };
        // 53 bits make a fraction of one.
        let share = 0.5 + (random >> 11) as f64 / (1_u64 << 53) as f64 / 2.0;
        longest.mul_f64(share)
    }
}

/// A well mixed number from another one (splitmix64).
pub(crate) fn mix(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Op;

    #[test]
    fn waits_double_stay_below_the_cap_and_repeat_by_seed() {
        let policy = RetryPolicy {
            seed: Some(7),
            ..RetryPolicy::default()
        };
        let error = StoreError::new(ErrorKind::Transient, Op::Get, "a");
        for attempt in 0..40 {
            let wait = policy.wait(attempt, &error);
            let longest = (policy.base * 2_u32.pow(attempt.min(16))).min(policy.cap);
            assert!(
                wait >= longest / 2 && wait <= longest,
                "{attempt}: {wait:?}"
            );
            assert_eq!(wait, policy.wait(attempt, &error));
        }
    }
}
