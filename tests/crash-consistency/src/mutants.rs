//! Recorded runs with a mistake put into them: what a program would have done that leaves a call out
//! or makes it too late. A judgement that finds nothing in these proves nothing.

use std::fmt;

use crate::call::Call;

/// What becomes of a mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Some state fails under both rules.
    Fails,
    /// Some state fails under the weaker rule alone: a journal makes the operation durable with others.
    FailsPosix,
    /// No state fails, for a reason.
    Holds(&'static str),
}

/// A mistake.
pub struct Mutant {
    /// In words.
    pub name: &'static str,
    /// What becomes of it.
    pub expected: Expected,
    change: Change,
}

impl fmt::Debug for Mutant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Mutant {
    /// The calls with the mistake in them.
    pub fn apply(&self, calls: &[Call]) -> Vec<Call> {
        (self.change)(calls)
    }
}

/// The last part of a name, of a temporary file the name that it was made for.
fn object(path: &str) -> &str {
    let last = path.rsplit('/').next().unwrap_or(path);
    match last.ends_with(".tmp") {
        true => last.strip_prefix('.').unwrap_or(last),
        false => last,
    }
}

fn is(path: &str, kind: &str) -> bool {
    let object = object(path);
    match kind {
        "manifest-" => object.starts_with("manifest-") && !object.starts_with("manifest-list-"),
        kind => object.starts_with(kind),
    }
}

fn syncs_file(call: &Call, kind: &str) -> bool {
    matches!(call, Call::SyncFile { path, .. } if is(path, kind))
}

fn syncs_dir(call: &Call, ends: &str) -> bool {
    matches!(call, Call::SyncDir { path } if path.ends_with(ends))
}

/// All but the calls that fit.
fn without(fits: impl Fn(&Call) -> bool + Send + Sync + 'static) -> Change {
    Box::new(move |calls| calls.iter().filter(|call| !fits(call)).cloned().collect())
}

type Change = Box<dyn Fn(&[Call]) -> Vec<Call> + Send + Sync>;

/// Calls that fit are made after the next one that `releases`, and at the end at the latest.
fn late(
    fits: impl Fn(&Call) -> bool + Send + Sync + 'static,
    releases: impl Fn(&Call) -> bool + Send + Sync + 'static,
) -> Change {
    Box::new(move |calls| {
        let (mut made, mut held) = (Vec::new(), Vec::new());
        for call in calls {
            if fits(call) {
                held.push(call.clone());
                continue;
            }
            made.push(call.clone());
            if releases(call) {
                made.append(&mut held);
            }
        }
        made.append(&mut held);
        made
    })
}

fn links(call: &Call, kind: &str) -> bool {
    matches!(call, Call::Link { to, .. } if is(to, kind))
}

fn marks(call: &Call, place: &str) -> bool {
    matches!(call, Call::Mark { name } if &**name == place)
}

/// Written under its own name from the beginning.
fn in_place(kind: &'static str) -> Change {
    Box::new(move |calls| {
        let mut made = Vec::new();
        for (at, call) in calls.iter().enumerate() {
            match call {
                Call::Create { path, inode } if is(path, kind) => {
                    let final_name = calls[at..].iter().find_map(|later| match later {
                        Call::Link { from, to } | Call::Rename { from, to } if from == path => {
                            Some(to.clone())
                        }
                        _ => None,
                    });
                    let path = final_name.unwrap_or_else(|| path.clone());
                    let inode = *inode;
                    made.push(Call::Create { path, inode });
                }
                Call::Link { to, .. } | Call::Rename { to, .. } if is(to, kind) => {}
                Call::Unlink { path } if path.ends_with(".tmp") && is(path, kind) => {}
                other => made.push(other.clone()),
            }
        }
        made
    })
}

/// Renamed where it should have been linked.
fn renamed() -> Change {
    Box::new(|calls| {
        let mut made: Vec<Call> = Vec::new();
        for call in calls {
            if let Call::Unlink { path } = call
                && let Some(Call::Link { from, to }) = made.iter().rfind(|c| !c.syncs())
                && from == path
            {
                let (from, to) = (from.clone(), to.clone());
                let at = made.iter().rposition(|c| !c.syncs()).unwrap();
                made[at] = Call::Rename { from, to };
                continue;
            }
            made.push(call.clone());
        }
        made
    })
}

/// The mistakes that are tried.
pub fn all() -> Vec<Mutant> {
    use Expected::{Fails, FailsPosix, Holds};
    let mutant = |name, expected, change| Mutant {
        name,
        expected,
        change,
    };
    let file = |name, expected, kind: &'static str| {
        mutant(name, expected, without(move |call| syncs_file(call, kind)))
    };
    let dir = |name, expected, ends: &'static str| {
        mutant(name, expected, without(move |call| syncs_dir(call, ends)))
    };
    let above_bucket = |call: &Call| match call {
        Call::SyncDir { path } => {
            let last = object(path);
            last.starts_with("dt=") || last == "orders"
        }
        _ => false,
    };
    let bucket = |call: &Call| matches!(call, Call::SyncDir { path } if is(path, "bucket-"));
    let record = |call: &Call| {
        let path = call.path();
        // The folder itself is fsynced for `checkpoints` alone.
        path.starts_with("checkpoints") || marks(call, "recorded")
    };
    vec![
        file("fsync of data files left out", Fails, "data-"),
        file("fsync of manifests left out", Fails, "manifest-"),
        file("fsync of manifest lists left out", Fails, "manifest-list-"),
        file("fsync of snapshots left out", Fails, "snapshot-"),
        file("fsync of checkpoint records left out", Fails, "checkpoint-"),
        file("fsync of the registration left out", Fails, "epoch-"),
        file("fsync of the schema left out", Fails, "schema-"),
        file(
            "fsync of the LATEST hint left out",
            Holds("readers list where the hint is unreadable"),
            "LATEST",
        ),
        mutant(
            "fsync of bucket folders left out",
            FailsPosix,
            without(bucket),
        ),
        mutant(
            "fsync of the folder of a new bucket or partition left out",
            FailsPosix,
            without(above_bucket),
        ),
        dir("fsync of manifest/ left out", FailsPosix, "/manifest"),
        dir("fsync of snapshot/ left out", Fails, "/snapshot"),
        dir("fsync of schema/ left out", FailsPosix, "/schema"),
        mutant(
            "fsync of the record's folder left out",
            Fails,
            without(
                |call| matches!(call, Call::SyncDir { path } if path.starts_with("checkpoints/lab/")),
            ),
        ),
        mutant(
            "fsync above the record's folder left out",
            FailsPosix,
            without(
                |call| matches!(call, Call::SyncDir { path } if path.is_empty() || &**path == "checkpoints" || &**path == "checkpoints/lab"),
            ),
        ),
        mutant(
            "fsync of the warehouse's parent left out",
            FailsPosix,
            without(|call| matches!(call, Call::SyncDir { path } if path.is_empty())),
        ),
        mutant(
            "data files fsynced after the snapshot's link",
            Fails,
            late(
                |call| syncs_file(call, "data-"),
                |call| marks(call, "published"),
            ),
        ),
        mutant(
            "manifests fsynced after the snapshot's link",
            Fails,
            late(
                |call| syncs_file(call, "manifest-") || syncs_file(call, "manifest-list-"),
                |call| marks(call, "published"),
            ),
        ),
        mutant(
            "snapshot fsynced after its link",
            Fails,
            late(
                |call| syncs_file(call, "snapshot-"),
                |call| links(call, "snapshot-"),
            ),
        ),
        mutant(
            "record written after the commit",
            Fails,
            late(record, |call| marks(call, "published")),
        ),
        mutant(
            "snapshot written under its own name",
            Fails,
            in_place("snapshot-"),
        ),
        mutant(
            "record written under its own name",
            Fails,
            in_place("checkpoint-"),
        ),
        mutant(
            "data file written under its own name",
            Holds("nothing refers to it before it is fsynced"),
            in_place("data-"),
        ),
        mutant(
            "rename instead of link",
            Holds(
                "as durable as a link; it replaces what a racing committer made, which needs two of them",
            ),
            renamed(),
        ),
        mutant(
            "no fsync of any directory",
            Fails,
            without(|call| matches!(call, Call::SyncDir { .. })),
        ),
        mutant(
            "no fsync of any file",
            Fails,
            without(|call| matches!(call, Call::SyncFile { .. })),
        ),
    ]
}

/// Each fsync left out alone: its place, and the calls without it.
pub fn each_sync(calls: &[Call]) -> Vec<(usize, Vec<Call>)> {
    let places = (0..calls.len()).filter(|at| calls[*at].syncs());
    places
        .map(|at| {
            let mut rest = calls.to_vec();
            rest.remove(at);
            (at, rest)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(calls: &[Call]) -> Vec<String> {
        calls.iter().map(Call::to_string).collect()
    }

    fn publishing() -> Vec<Call> {
        let temp = "s/.snapshot-1.~t.0.tmp";
        vec![
            Call::Create {
                path: temp.into(),
                inode: 1,
            },
            Call::SyncFile {
                path: temp.into(),
                inode: 1,
            },
            Call::Link {
                from: temp.into(),
                to: "s/snapshot-1".into(),
            },
            Call::Unlink { path: temp.into() },
            Call::SyncDir { path: "s".into() },
        ]
    }

    #[test]
    fn mistakes_change_what_they_say() {
        let renamed = words(&renamed()(&publishing()));
        assert_eq!(
            renamed[2..],
            [
                "rename s/.snapshot-1.~t.0.tmp to s/snapshot-1",
                "fsync directory s"
            ]
        );
        let in_place = words(&in_place("snapshot-")(&publishing()));
        assert_eq!(in_place[0], "create s/snapshot-1");
        assert_eq!(in_place.len(), 3);
        let late = late(
            |call| syncs_file(call, "snapshot-"),
            |call| links(call, "snapshot-"),
        );
        let late = words(&late(&publishing()));
        assert!(late[1].starts_with("link") && late[2].starts_with("fsync s/.snapshot"));
        let each = each_sync(&publishing());
        assert_eq!(each.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [1, 4]);
    }

    #[test]
    fn every_mistake_is_named_once() {
        let names: std::collections::BTreeSet<_> = all().iter().map(|m| m.name).collect();
        assert_eq!(names.len(), all().len());
    }
}
