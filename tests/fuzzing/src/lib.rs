//! What fuzz targets and the tests of their seeds share.
//!
//! A *check* is a function over arbitrary bytes that panics when a decoder misbehaves. It stands in the
//! `fuzzing` module of the crate whose decoder it tries, so that it reaches what is private there, and
//! it is run twice: by libFuzzer ([`target!`]) on whatever that finds, and by `cargo test` ([`sweep`])
//! on the committed seeds, cut and changed at every place.

mod corpus;
mod counting;
mod sweep;

pub use corpus::reached;
pub use counting::{Counting, peak_of};
pub use sweep::sweep;

/// What a decoder of plain bytes may hold for an input of so many: tables and values, a few times what
/// they are read from.
pub fn plain(length: usize) -> usize {
    (256 << 10) + 64 * length
}

/// The same where the input may be compressed: one block may grow to 1 MiB and 256 times its size, its
/// records beside it, twice where the check writes them again. Also for readers with buffers of a fixed
/// size, however small the file is, and for lists that serde reads: it reserves up to 1 MiB for a count
/// that it cannot check.
pub fn packed(length: usize) -> usize {
    4 * ((1 << 20) + 256 * length)
}

/// For inputs that are programs and not data: schedules, scripts, rules of a generator.
pub fn program(_length: usize) -> usize {
    256 << 20
}

/// Runs a check and panics when it held more memory than `allowed` of its input's length.
///
/// # Panics
///
/// Where the check does, and then.
#[allow(clippy::panic, reason = "a panic is how a check reports")]
pub fn bounded(check: fn(&[u8]), allowed: fn(usize) -> usize, input: &[u8]) {
    let ((), peak) = peak_of(|| check(input));
    let most = allowed(input.len());
    if peak > most {
        panic!(
            "{peak} bytes held for an input of {}; {most} are allowed",
            input.len()
        );
    }
}

/// Before the first input: libFuzzer's hook would end the process at any panic, also at one that our
/// code catches because it is a library's.
#[doc(hidden)]
pub fn quiet() {
    std::panic::set_hook(Box::new(|_| {}));
}

/// As [`bounded`], telling a panic that nobody caught.
#[doc(hidden)]
#[allow(clippy::print_stderr, reason = "libFuzzer's log is standard error")]
pub fn told(check: fn(&[u8]), allowed: fn(usize) -> usize, input: &[u8]) {
    let done = std::panic::catch_unwind(|| bounded(check, allowed, input));
    if let Err(panic) = done {
        let text = panic.downcast_ref::<&str>().map(ToString::to_string);
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        eprintln!("panicked: {}", text.unwrap_or_default());
        std::panic::resume_unwind(panic);
    }
}

/// The body of a fuzz target: `target!(check, allowed)`, `allowed` as in [`bounded`].
///
/// `target!(catching check, allowed)` where the code under test makes errors of panics in libraries.
#[macro_export]
macro_rules! target {
    (catching $check:path, $allowed:path) => {
        #[global_allocator]
        static ALLOCATOR: $crate::Counting = $crate::Counting;

        libfuzzer_sys::fuzz_target!(init: $crate::quiet(), |data: &[u8]| {
            $crate::told($check, $allowed, data)
        });
    };
    ($check:path, $allowed:path) => {
        #[global_allocator]
        static ALLOCATOR: $crate::Counting = $crate::Counting;

        libfuzzer_sys::fuzz_target!(|data: &[u8]| $crate::bounded($check, $allowed, data));
    };
}

/// Tests that [`sweep`] the seeds of targets: `seeds!(target: allowed, …)`, in a `fuzzing` module whose
/// checks are named as the targets are. `seeds!(uncounted target: …)` in a program that has an allocator
/// of its own.
#[macro_export]
macro_rules! seeds {
    (uncounted $($check:ident: $allowed:ident),+ $(,)?) => {
        #[cfg(test)]
        mod seeds {
            $(
                #[test]
                fn $check() {
                    let folder = env!("CARGO_MANIFEST_DIR");
                    $crate::sweep(folder, stringify!($check), super::$check, $crate::$allowed);
                }
            )+
        }
    };
    ($($check:ident: $allowed:ident),+ $(,)?) => {
        #[cfg(test)]
        #[global_allocator]
        static ALLOCATOR: $crate::Counting = $crate::Counting;

        $crate::seeds!(uncounted $($check: $allowed),+);
    };
}
