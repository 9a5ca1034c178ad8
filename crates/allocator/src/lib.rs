//! What programs allocate with: mimalloc that keeps freed memory for reuse.
//!
//! Owns one setting and the only foreign call of the workspace. Libraries know nothing of it.
//!
//! ```
//! #[global_allocator]
//! static ALLOCATOR: tidegate_allocator::Allocator = tidegate_allocator::Allocator;
//!
//! fn main() {
//!     tidegate_allocator::keep_freed_memory();
//!     assert_eq!(tidegate_allocator::kept_millis(), 10_000);
//! }
//! ```

use std::ffi::{c_int, c_long};

/// The allocator.
pub use mimalloc::MiMalloc as Allocator;

/// How long freed memory stays before the system gets it back. More is faster still, but freed pages of
/// other sizes add up: 1 GiB over 5,000 partitions under 256 MiB peaked at 280 MiB with a second, 284 with
/// five, 316 with sixty.
const KEPT_MILLIS: c_long = 10_000;

/// `mi_option_purge_delay` in the list of `mimalloc.h`, which the bindings do not name.
const PURGE_DELAY: c_int = 15;

/// Memory that is freed is kept for ten seconds, unless the environment variable `MIMALLOC_PURGE_DELAY`
/// says otherwise. Call it first in `main`.
///
/// Measured: 8 M rows into 100 partitions took 199,000 page faults and 4.9 CPU-seconds with mimalloc's
/// own second, 67,000 and 4.1 with half a minute (one run each, busy machine).
pub fn keep_freed_memory() {
    // SAFETY: takes two numbers and writes one entry of a static table; the option exists, as the test
    // of its default shows.
    #[allow(unsafe_code, reason = "mimalloc has no safe way to set an option")]
    unsafe {
        libmimalloc_sys::mi_option_set_default(PURGE_DELAY, KEPT_MILLIS);
    }
}

/// How long freed memory is kept now, in milliseconds.
pub fn kept_millis() -> i64 {
    // SAFETY: reads one entry of a static table.
    #[allow(unsafe_code, reason = "mimalloc has no safe way to read an option")]
    let millis = unsafe { libmimalloc_sys::mi_option_get(PURGE_DELAY) };
    millis
}

#[cfg(test)]
mod tests {
    use super::*;

    #[global_allocator]
    static ALLOCATOR: Allocator = Allocator;

    /// The number of an option is not in the bindings: an update that moves it is seen by its default.
    #[test]
    fn the_number_is_that_of_the_option() {
        assert_eq!(
            kept_millis(),
            1000,
            "mimalloc's default, or its place, has changed"
        );
        keep_freed_memory();
        assert_eq!(kept_millis(), 10_000);
    }
}
