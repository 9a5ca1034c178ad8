//! What benchmarks share: order statistics of measured times.

use std::time::Duration;

/// The value below which `share` of the sorted times lie; nearest rank.
pub fn percentile(sorted: &[Duration], share: f64) -> Duration {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted
        .get(rank.saturating_sub(1))
        .copied()
        .unwrap_or_default()
}

/// Milliseconds with three digits.
pub fn millis(time: Duration) -> String {
    format!("{:.3} ms", time.as_secs_f64() * 1000.0)
}
