//! Many schedules on several threads.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::coverage::Coverage;
use crate::schedule::of_seed;

/// What to play.
#[derive(Clone, Copy, Debug)]
pub struct Hunt {
    /// The first seed.
    pub seed: u64,
    /// How many schedules that count.
    pub schedules: u64,
    /// Threads.
    pub threads: usize,
    /// Broken seeds after which it ends; 0 = never.
    pub until_broken: usize,
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Catch {
    /// Sums.
    pub coverage: Coverage,
    /// Seeds that broke an invariant, ascending, with what broke.
    pub broken: Vec<(u64, String)>,
    /// How long it took.
    pub took: Duration,
}

impl Hunt {
    /// Plays seeds in order until enough of them counted. `tell` hears of every broken seed, and now and
    /// then of the progress.
    pub fn run(self, tell: impl Fn(&str) + Sync) -> Catch {
        let begun = Instant::now();
        let (next, counted) = (AtomicU64::new(0), AtomicU64::new(0));
        let over = AtomicBool::new(false);
        let all = Mutex::new(Catch::default());
        std::thread::scope(|scope| {
            for thread in 0..self.threads.max(1) {
                let (next, counted, over, all, tell) = (&next, &counted, &over, &all, &tell);
                scope.spawn(move || {
                    let mut coverage = Coverage::default();
                    let mut told = Instant::now();
                    // A thin schedule is checked like any other and does not count; a thousand of them
                    // per wanted one would be a broken plan.
                    let most = self.schedules.saturating_mul(1000);
                    while !over.load(Ordering::Relaxed)
                        && counted.load(Ordering::Relaxed) < self.schedules
                    {
                        let nth = next.fetch_add(1, Ordering::Relaxed);
                        if nth >= most {
                            break;
                        }
                        let seed = self.seed.wrapping_add(nth);
                        let report = of_seed(seed, false);
                        coverage.add(&report);
                        if report.counts() {
                            counted.fetch_add(1, Ordering::Relaxed);
                        }
                        if let Err(why) = report.verdict {
                            tell(&format!("seed {seed}: {why}"));
                            let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
                            all.broken.push((seed, why));
                            if self.until_broken > 0 && all.broken.len() >= self.until_broken {
                                over.store(true, Ordering::Relaxed);
                            }
                        }
                        if thread == 0 && told.elapsed() > Duration::from_secs(5) {
                            told = Instant::now();
                            let counted = counted.load(Ordering::Relaxed);
                            let rate = counted as f64 / begun.elapsed().as_secs_f64();
                            tell(&format!("{counted} schedules, {rate:.0}/s"));
                        }
                    }
                    let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
                    all.coverage.merge(&coverage);
                });
            }
        });
        let mut all = all.into_inner().unwrap_or_else(PoisonError::into_inner);
        all.broken.sort();
        all.took = begun.elapsed();
        all
    }
}
