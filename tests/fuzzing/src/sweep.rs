//! Seeds as a test: each as it is, cut at every byte, and changed at every byte.

use crate::bounded;
use std::fs;
use std::path::Path;

/// Changed copies of all seeds of a target at most; beyond it the places are spread evenly. Some checks
/// take milliseconds.
const MOST: usize = 6_000;
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
    let run = |seed: &str, what: &dyn Fn() -> String, input: &[u8]| {
        let telling = Telling(|| {
            eprintln!("in {target}/{seed}, {}: {}", what(), input.escape_ascii());
        });
        bounded(check, allowed, input);
        drop(telling);
    };
    let places: usize = seeds.iter().map(|(_, bytes)| bytes.len()).sum();
    let stride = (3 * places).div_ceil(MOST).max(1);
    for (seed, bytes) in &seeds {
        run(seed, &|| "as it is".to_owned(), bytes);
        for (at, old) in bytes.iter().enumerate().step_by(stride) {
            if let Some(cut) = bytes.get(..at) {
                run(seed, &|| format!("cut at byte {at}"), cut);
            }
            let odd = ODD.get(at % ODD.len()).copied().unwrap_or_default();
            for new in [odd, old ^ (1 << (at % 8))] {
                let mut changed = bytes.clone();
                if let Some(byte) = changed.get_mut(at) {
                    *byte = new;
                }
                run(seed, &|| format!("byte {at} set to {new:#04x}"), &changed);
            }
        }
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

fn read(folder: &Path) -> std::io::Result<Vec<(String, Vec<u8>)>> {
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
