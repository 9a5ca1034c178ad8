//! Other implementations of Paimon as processes: installed from the package registries, asked in JSON lines.
//!
//! Owns how each is installed, started, asked and ended; what is asked of them, and what their answers are
//! worth, is the matter of the comparison (`main.rs`) and of `tests/torture`.

pub mod install;
pub mod peer;

/// One line for a person.
#[expect(clippy::print_stderr, reason = "a chore talks to its user")]
pub fn say(line: &str) {
    eprintln!("{line}");
}
