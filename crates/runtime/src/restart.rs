//! What follows a failure that may pass by itself.
//!
//! Owns how often and how long to wait: a pure decision. Which errors are worth a restart is decided
//! by [`tidegate_sink::ErrorKind::is_final`] \[R-16].

use std::time::Duration;

/// How a job goes on after a failure that is not final.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestartStrategy {
    /// Not at all.
    None,
    /// So many times in all, with the same wait.
    FixedDelay {
        /// Restarts in all.
        attempts: u32,
        /// Wait before each.
        delay: Duration,
    },
    /// With waits that double and begin anew once a checkpoint has completed; ends after 20 restarts
    /// in a row without one (with the defaults after a quarter of an hour and more), so that a full
    /// disk or a store that is gone ends in an error somebody sees.
    Exponential {
        /// First wait.
        initial: Duration,
        /// Longest wait.
        max: Duration,
    },
}

impl Default for RestartStrategy {
    fn default() -> Self {
        Self::Exponential {
            initial: Duration::from_millis(500),
            max: Duration::from_secs(60),
        }
    }
}

/// Restarts without a checkpoint in between, after which the exponential strategy ends too.
const FRUITLESS: u32 = 20;

/// Restarts so far.
#[derive(Clone, Debug)]
pub(crate) struct Restarts {
    strategy: RestartStrategy,
    total: u32,
    in_a_row: u32,
}

impl Restarts {
    pub(crate) fn new(strategy: RestartStrategy) -> Self {
        Self {
            strategy,
            total: 0,
            in_a_row: 0,
        }
    }

    pub(crate) fn total(&self) -> u32 {
        self.total
    }

    /// The wait before the next run, or `None`: no further run.
    pub(crate) fn next(&mut self, had_checkpoint: bool) -> Option<Duration> {
        if had_checkpoint {
            self.in_a_row = 0;
        }
        let wait = match &self.strategy {
            RestartStrategy::None => return None,
            RestartStrategy::FixedDelay { attempts, .. } if self.total >= *attempts => return None,
            RestartStrategy::FixedDelay { delay, .. } => *delay,
            RestartStrategy::Exponential { .. } if self.in_a_row >= FRUITLESS => return None,
            RestartStrategy::Exponential { initial, max } => {
                let factor = 1u32.checked_shl(self.in_a_row.min(20)).unwrap_or(u32::MAX);
                initial.saturating_mul(factor).min(*max)
            }
        };
        self.total += 1;
        self.in_a_row += 1;
        Some(wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: fn(u64) -> Duration = Duration::from_secs;

    #[test]
    fn none_never_restarts() {
        assert_eq!(Restarts::new(RestartStrategy::None).next(true), None);
    }

    #[test]
    fn fixed_delay_ends_after_its_attempts() {
        let strategy = RestartStrategy::FixedDelay {
            attempts: 2,
            delay: S(5),
        };
        let mut restarts = Restarts::new(strategy);
        let waits: Vec<_> = (0..4).map(|_| restarts.next(true)).collect();
        assert_eq!(waits, [Some(S(5)), Some(S(5)), None, None]);
        assert_eq!(restarts.total(), 2);
    }

    #[test]
    fn exponential_doubles_up_to_its_limit_and_begins_anew_after_a_checkpoint() {
        let strategy = RestartStrategy::Exponential {
            initial: S(1),
            max: S(5),
        };
        let mut restarts = Restarts::new(strategy);
        let waits: Vec<_> = (0..5).map(|_| restarts.next(false).unwrap()).collect();
        assert_eq!(waits, [S(1), S(2), S(4), S(5), S(5)]);
        assert_eq!(restarts.next(true), Some(S(1)));
        assert_eq!(restarts.next(false), Some(S(2)));
        let further = std::iter::from_fn(|| restarts.next(false))
            .take(100)
            .count();
        assert_eq!(
            further as u32,
            FRUITLESS - 2,
            "without a checkpoint it ends"
        );
        assert_eq!(restarts.next(true), Some(S(1)));
    }
}
