//! Runs the real binary under the recorder.
//!
//! Owns compiling `recorder.c` and the environment that it reads. That nothing escaped is seen from the
//! outcome: the model of the disk, after all recorded calls, is compared with the real folder byte for
//! byte, and a call that fits no disk is refused ([`crate::disk::Misfit`]).

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use tidegate_tests::{Lab, Running};

use crate::call::{Call, parse};
use crate::disk::{Disk, Rule};
use crate::scenario::WATCHED;
use crate::tree::{Tree, hash};

const SOURCE: &str = include_str!("recorder.c");

/// The compiled recorder; compiled once per source text and kept beside other temporary files.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let name = format!("tidegate-recorder-{:032x}.so", hash(SOURCE));
        let library = std::env::temp_dir().join(name);
        if library.is_file() {
            return library;
        }
        let folder = tempfile::tempdir().unwrap();
        let (source, built) = (
            folder.path().join("recorder.c"),
            folder.path().join("recorder.so"),
        );
        std::fs::write(&source, SOURCE).unwrap();
        let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
        let output = Command::new(&compiler)
            .args([
                "-O1", "-fPIC", "-shared", "-Wall", "-Werror", "-pthread", "-o",
            ])
            .args([&built, &source])
            .output()
            .unwrap_or_else(|e| panic!("a C compiler is needed: {}: {e}", compiler.display()));
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        // Others may do the same at once: each moves a whole file.
        let own = library.with_extension(std::process::id().to_string());
        std::fs::copy(&built, &own).unwrap();
        std::fs::rename(&own, &library).unwrap();
        library
    })
}

/// What was recorded so far in the folder of a lab.
#[derive(Debug)]
pub struct Recorder {
    folder: PathBuf,
    files: tempfile::TempDir,
    before: Disk,
    calls: Vec<Call>,
    first: usize,
}

/// A process under the recorder.
#[derive(Debug)]
pub struct Recorded {
    /// The process.
    pub running: Running,
    trace: PathBuf,
}

impl Recorder {
    /// What is in the folder now is durable.
    pub fn new(lab: &Lab) -> Self {
        let folder = lab.path(".").canonicalize().unwrap();
        let (tree, inodes) = Tree::read(&folder);
        let before = Disk::new(Rule::Posix, &tree.only(&WATCHED), &inodes);
        Self {
            folder,
            files: tempfile::tempdir().unwrap(),
            before,
            calls: Vec::new(),
            first: 0,
        }
    }

    /// Starts `tidegate ARGS`; killed once its `kill_at`-th call took effect.
    pub fn start(&self, lab: &Lab, args: &[&str], kill_at: Option<usize>) -> Recorded {
        let trace = self.files.path().join("trace");
        let _absent = std::fs::remove_file(&trace);
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        let mark = text(&self.files.path().join("probe"));
        let kill_at = kill_at.map(|n| n.to_string());
        let (library, folder, to) = (text(library()), text(&self.folder), text(&trace));
        let mut env: Vec<(&str, &str)> = vec![
            ("LD_PRELOAD", library.as_str()),
            ("CRASH_ROOT", folder.as_str()),
            ("CRASH_TRACE", to.as_str()),
            ("CRASH_MARK", mark.as_str()),
            ("TIDEGATE_PROBE_FILE", mark.as_str()),
        ];
        if let Some(n) = &kill_at {
            env.push(("CRASH_KILL_AT", n.as_str()));
        }
        Recorded {
            running: lab.spawn(args, &env),
            trace,
        }
    }

    /// Waits for the end of a process and takes over what it did. Whether it was killed.
    #[track_caller]
    pub fn end(&mut self, recorded: Recorded) -> bool {
        let done = recorded.running.wait();
        let killed = match done.signal {
            Some(_) => {
                done.killed();
                true
            }
            // 128 + SIGTERM: stopped with a last checkpoint.
            None if done.code == Some(143) => false,
            None => {
                done.expect(0);
                false
            }
        };
        let bytes = std::fs::read(&recorded.trace).unwrap();
        let made = parse(&bytes, &self.folder).unwrap_or_else(|e| panic!("the record: {e}"));
        // A later run may find nothing to do.
        assert!(
            killed || !made.is_empty() || !self.calls.is_empty(),
            "nothing was recorded: is the binary static?"
        );
        if self.calls.is_empty() {
            self.first = made.len();
        }
        self.calls.extend(made);
        if !killed {
            let name = Call::ENDED.into();
            self.calls.push(Call::Mark { name });
        }
        self.nothing_escaped();
        killed
    }

    /// Runs to the end.
    #[track_caller]
    pub fn run(&mut self, lab: &Lab, args: &[&str], kill_at: Option<usize>) -> bool {
        let recorded = self.start(lab, args, kill_at);
        self.end(recorded)
    }

    /// What was done so far.
    pub fn calls(&self) -> &[Call] {
        &self.calls
    }

    /// How many of these the first process did.
    pub fn first(&self) -> usize {
        self.first
    }

    /// The disk before all of it, under a rule.
    pub fn disk(&self, rule: Rule) -> Disk {
        self.before.clone().under(rule)
    }

    #[track_caller]
    fn nothing_escaped(&self) {
        let mut disk = self.before.clone();
        for (at, call) in self.calls.iter().enumerate() {
            if let Err(misfit) = disk.apply(call) {
                panic!(
                    "call {}, {call}: {}; a call escaped the recorder",
                    at + 1,
                    misfit.0
                );
            }
        }
        let (real, _) = Tree::read(&self.folder);
        let differences = disk.seen().differences(&real.only(&WATCHED));
        assert!(
            differences.is_empty(),
            "a call escaped the recorder: {differences:#?}"
        );
    }
}
