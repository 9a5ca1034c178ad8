//! Named places in the life of a checkpoint where a crash lab may stop the process.
//!
//! Owns one optional hook per process and the names of the places. Unset, a place costs one relaxed
//! load. The hook belongs to whoever owns the process (a command line, a test): it may count, wait,
//! or end the process; nothing depends on it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};

/// The source was read and nothing was prepared yet: before any checkpoint.
pub const BEFORE_CHECKPOINT: &str = "before-checkpoint";
/// Every writer has prepared, the record is not written.
pub const PREPARED: &str = "prepared";
/// The record is written: the checkpoint is complete, its commit not begun.
pub const RECORDED: &str = "recorded";
/// Everything that the new version of the target refers to is written, the version itself is not.
pub const BEFORE_PUBLISH: &str = "before-publish";
/// The new version is visible and the answer has not been looked at.
pub const PUBLISHED: &str = "published";
/// The commit was answered and the engine has not remembered it.
pub const ANSWERED: &str = "answered";
/// The checkpoint is complete, published and remembered.
pub const NOTIFIED: &str = "notified";

/// A row was taken from the source and handed to the writers: passed once per row, by whichever
/// checkpoint the row is in, so it is not among [`ALL`].
pub const ROW_TAKEN: &str = "row-taken";

/// All names, in the order in which a checkpoint passes them.
pub const ALL: [&str; 7] = [
    BEFORE_CHECKPOINT,
    PREPARED,
    RECORDED,
    BEFORE_PUBLISH,
    PUBLISHED,
    ANSWERED,
    NOTIFIED,
];

static SET: AtomicBool = AtomicBool::new(false);
static HOOK: RwLock<Option<fn(&'static str)>> = RwLock::new(None);

/// Sets the hook of this process, or takes it away.
pub fn set(hook: Option<fn(&'static str)>) {
    *HOOK.write().unwrap_or_else(PoisonError::into_inner) = hook;
    SET.store(hook.is_some(), Ordering::Release);
}

/// Passes a place.
#[inline]
pub fn hit(name: &'static str) {
    if SET.load(Ordering::Relaxed) {
        call(name);
    }
}

/// Passes a place so many times in a row.
#[inline]
pub fn hit_each(name: &'static str, times: usize) {
    if SET.load(Ordering::Relaxed) {
        (0..times).for_each(|_| call(name));
    }
}

#[cold]
fn call(name: &'static str) {
    // Not held during the call: the hook may take its time, or never come back.
    let hook = *HOOK.read().unwrap_or_else(PoisonError::into_inner);
    if let Some(hook) = hook {
        hook(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn a_hook_is_called_while_it_is_set() {
        static HITS: AtomicUsize = AtomicUsize::new(0);
        hit(RECORDED);
        set(Some(|name| {
            assert_eq!(name, RECORDED);
            HITS.fetch_add(1, Ordering::SeqCst);
        }));
        hit(RECORDED);
        hit_each(RECORDED, 3);
        set(None);
        hit(RECORDED);
        hit_each(RECORDED, 2);
        assert_eq!(HITS.load(Ordering::SeqCst), 4);
    }
}
