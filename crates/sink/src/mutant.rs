//! Deliberate bugs, for proofs that the tests would notice them.
//!
//! Owns one switch per process. In a normal build [`on`] is `false` at compile time, and neither a bug
//! nor its name is in the binary; with the feature `mutants` (tests only) one bug can be switched on.
//! Rules that are decided in `protocol` have a switch of their own there.

/// True where this bug is switched on.
#[cfg(not(feature = "mutants"))]
#[inline(always)]
pub const fn on(_name: &'static str) -> bool {
    false
}

#[cfg(feature = "mutants")]
static ANY: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

#[cfg(feature = "mutants")]
static ON: std::sync::RwLock<Option<&'static str>> = std::sync::RwLock::new(None);

/// True where this bug is switched on.
#[cfg(feature = "mutants")]
pub fn on(name: &'static str) -> bool {
    // Asked at every request: without a bug no lock is touched.
    ANY.load(std::sync::atomic::Ordering::Relaxed)
        && *ON.read().unwrap_or_else(std::sync::PoisonError::into_inner) == Some(name)
}

/// Switches one bug on, or all off.
#[cfg(feature = "mutants")]
pub fn set(name: Option<&'static str>) {
    *ON.write()
        .unwrap_or_else(std::sync::PoisonError::into_inner) = name;
    ANY.store(name.is_some(), std::sync::atomic::Ordering::Relaxed);
}
