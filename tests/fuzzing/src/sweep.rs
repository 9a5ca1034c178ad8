//! Seeds as a test: each as it is, cut at every byte, and changed at every byte.

use crate::bounded;
use std::cell::{Cell, RefCell};
use std::fs;
use std::path::Path;
use std::sync::Once;

/// Changed copies of all seeds of a target at most; beyond it the places are spread evenly. Some checks
/// take milliseconds.
const MOST: usize = 3_000;
/// Bytes that decoders branch on: nothing, one, signs, the largest.
const ODD: [u8; 6] = [0x00, 0x01, 0x7f, 0x80, 0xfe, 0xff];

/// Runs `check` on the committed seeds of `target`, `fuzz/seeds/<target>/*` below `folder` (a crate's
/// `CARGO_MANIFEST_DIR`), whole, cut at every byte and changed at every byte.
///
/// # Panics
///
/// Where the check does, after naming seed and change on standard error; where there are no seeds; and
/// where [`bounded`] does.
#[allow(
    clippy::panic,
    clippy::print_stderr,
    reason = "a panic is how a check reports, and it must say on which input"
)]
pub fn sweep(folder: &str, target: &str, check: fn(&[u8]), allowed: fn(usize) -> usize) {
    let folder = Path::new(folder).join("fuzz/seeds").join(target);
    let seeds = match read(&folder) {
        Ok(seeds) if !seeds.is_empty() => seeds,
        Ok(_) => panic!("{}: no seeds", folder.display()),
        Err(e) => panic!("{}: {e}", folder.display()),
    };
    let _quiet = Quiet::begin();
    let run = |seed: &str, what: &dyn Fn() -> String, input: &[u8]| {
        let telling = Telling(|| {
            let why = LAST.take().unwrap_or_default();
            eprintln!(
                "{why}\nin {target}/{seed}, {}: {}",
                what(),
                input.escape_ascii()
            );
        });
        bounded(check, allowed, input);
        drop(telling);
    };
    each(&seeds, MOST, |seed, what, input| {
        run(seed, &|| what.to_string(), input)
    });
}

/// What is done to a seed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Nothing,
    Cut(usize),
    Set(usize, u8),
}

impl std::fmt::Display for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Nothing => f.write_str("as it is"),
            Self::Cut(at) => write!(f, "cut at byte {at}"),
            Self::Set(at, new) => write!(f, "byte {at} set to {new:#04x}"),
        }
    }
}

/// Each seed as it is, cut at every byte, and changed at every byte; about `most` inputs, spread evenly.
pub(crate) fn each(
    seeds: &[(String, Vec<u8>)],
    most: usize,
    mut run: impl FnMut(&str, Change, &[u8]),
) {
    let places: usize = seeds.iter().map(|(_, bytes)| bytes.len()).sum();
    let stride = (3 * places).div_ceil(most).max(1);
    for (seed, bytes) in seeds {
        run(seed, Change::Nothing, bytes);
        for (at, old) in bytes.iter().enumerate().step_by(stride) {
            if let Some(cut) = bytes.get(..at) {
                run(seed, Change::Cut(at), cut);
            }
            let odd = ODD.get(at % ODD.len()).copied().unwrap_or_default();
            for new in [odd, old ^ (1 << (at % 8))] {
                let mut changed = bytes.clone();
                if let Some(byte) = changed.get_mut(at) {
                    *byte = new;
                }
                run(seed, Change::Set(at, new), &changed);
            }
        }
    }
}

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
    /// What the last panic of this thread said.
    static LAST: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// While it is there, panics of this thread print nothing: code under test may catch those of a library,
/// thousands of them, and a backtrace costs tens of megabytes that the check did not hold.
pub(crate) struct Quiet;

impl Quiet {
    pub(crate) fn begin() -> Self {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| match QUIET.get() {
                true => LAST.set(Some(panic.to_string())),
                false => before(panic),
            }));
        });
        QUIET.set(true);
        Self
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        QUIET.set(false);
    }
}

/// Says something when a panic passes, nothing otherwise.
struct Telling<F: Fn()>(F);

impl<F: Fn()> Drop for Telling<F> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0();
        }
    }
}

pub(crate) fn read(folder: &Path) -> std::io::Result<Vec<(String, Vec<u8>)>> {
    let mut seeds = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        seeds.push((
            entry.file_name().to_string_lossy().into_owned(),
            fs::read(entry.path())?,
        ));
    }
    seeds.sort();
    Ok(seeds)
}

#[cfg(test)]
mod tests {
    use super::sweep;
    use std::fs;

    fn seeds(name: &str, bytes: &[u8]) -> std::path::PathBuf {
        let folder = std::env::temp_dir().join(format!("sweep-{name}-{}", std::process::id()));
        fs::create_dir_all(folder.join("fuzz/seeds/t")).unwrap();
        fs::write(folder.join("fuzz/seeds/t/one"), bytes).unwrap();
        folder
    }

    #[test]
    fn every_cut_and_every_byte_is_tried() {
        thread_local! {
            static SEEN: std::cell::RefCell<Vec<Vec<u8>>> = const { std::cell::RefCell::new(Vec::new()) };
        }
        let folder = seeds("all", b"abc");
        let check = |input: &[u8]| {
            // A panic that the code under test catches.
            let _caught = std::panic::catch_unwind(|| panic!("caught"));
            SEEN.with_borrow_mut(|seen| seen.push(input.to_vec()));
        };
        sweep(folder.to_str().unwrap(), "t", check, |_| usize::MAX);
        fs::remove_dir_all(folder).unwrap();
        let seen = SEEN.take();
        for wanted in [
            &b"abc"[..],
            b"",
            b"a",
            b"ab",
            b"`bc",
            b"a`c",
            b"abg",
            b"\0bc",
        ] {
            assert!(seen.iter().any(|s| s == wanted), "{wanted:?} of {seen:?}");
        }
    }

    #[test]
    fn a_check_that_fails_on_a_changed_seed_fails() {
        let folder = seeds("bad", b"abc");
        let check = |input: &[u8]| assert_ne!(input, b"ab");
        let path = folder.to_str().unwrap().to_owned();
        let done = std::panic::catch_unwind(|| sweep(&path, "t", check, |_| usize::MAX));
        fs::remove_dir_all(folder).unwrap();
        assert!(done.is_err());
    }
}
