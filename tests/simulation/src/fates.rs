//! What may befall a request, and when it does.
//!
//! Owns the kinds of faults and the two streams they come in, faults and crashes: the next one waits for
//! a drawn number of steps, then for a request of a drawn kind, so that also rare requests are struck
//! often.

use tidegate_storage::{ErrorKind, Fault, Op};

use crate::choices::Choices;
use crate::gate::ProtocolStep;

/// A row of the table of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Fate {
    /// No effect, and the caller cannot know.
    FailedBefore,
    /// No effect: *slow down*.
    Throttled,
    /// Carried out, and the caller does not hear of it.
    AnswerLost,
    /// No answer; carried out some steps later.
    Late,
    /// No effect, refused for good.
    Refused,
    /// The process does nothing for a long time, then goes on: a zombie.
    Paused,
    /// The process is killed before the request is sent.
    KilledBefore,
    /// The process is killed once it is carried out.
    KilledAfter,
    /// The process is killed, and the request is carried out later.
    KilledLate,
    /// The process is killed with half of an object written under its final name, as by a file system
    /// that loses power. Objects whose creation decides something are made in one step everywhere.
    KilledTorn,
}

impl Fate {
    pub(crate) const ALL: [Self; 10] = [
        Self::FailedBefore,
        Self::Throttled,
        Self::AnswerLost,
        Self::Late,
        Self::Refused,
        Self::Paused,
        Self::KilledBefore,
        Self::KilledAfter,
        Self::KilledLate,
        Self::KilledTorn,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::FailedBefore => "failed before",
            Self::Throttled => "throttled",
            Self::AnswerLost => "answer lost",
            Self::Late => "late",
            Self::Refused => "refused",
            Self::Paused => "paused",
            Self::KilledBefore => "killed before",
            Self::KilledAfter => "killed after",
            Self::KilledLate => "killed, late",
            Self::KilledTorn => "killed, torn",
        }
    }

    pub(crate) fn is_crash(self) -> bool {
        matches!(
            self,
            Self::KilledBefore | Self::KilledAfter | Self::KilledLate | Self::KilledTorn
        )
    }

    /// Whether it means anything for such a request.
    pub(crate) fn strikes(self, op: Op, step: ProtocolStep) -> bool {
        match self {
            Self::AnswerLost => op.writes(),
            // A late delete of a name that is used again would undo what came after it. No store
            // without conditional deletes can be safe from that: docs/simulation.md.
            Self::Late | Self::KilledLate => {
                op.writes() && !(op == Op::Delete && step.object == "snapshot")
            }
            // A torn note is an error that names it, for a person.
            Self::KilledTorn => op == Op::Put && step.object != "note",
            _ => true,
        }
    }

    /// What the store is told to do.
    pub(crate) fn fault(self) -> Option<Fault> {
        match self {
            Self::FailedBefore => Some(Fault::Before(ErrorKind::Transient)),
            Self::Throttled => Some(Fault::Before(ErrorKind::Throttled)),
            Self::AnswerLost => Some(Fault::After),
            Self::Late | Self::KilledLate => Some(Fault::Late),
            Self::Refused => Some(Fault::Before(ErrorKind::PermissionDenied)),
            Self::KilledTorn => Some(Fault::Torn { keep: 7 }),
            Self::Paused | Self::KilledBefore | Self::KilledAfter => None,
        }
    }
}

/// Whether a step of the protocol is meant.
type Aim = fn(ProtocolStep) -> bool;

/// Requests that a fault may wait for.
const AIMS: [(&str, Aim); 12] = [
    ("any", |_| true),
    ("write", |s| matches!(s.act, "create" | "put")),
    ("snapshot", |s| s.object == "snapshot" && s.act == "create"),
    ("record", |s| s.object == "record" && s.act == "create"),
    ("metadata", |s| {
        s.object.starts_with("manifest") && s.act == "put"
    }),
    ("data file", |s| s.object == "data file" && s.act == "put"),
    ("registration", |s| {
        s.object == "registration" && s.act == "create"
    }),
    ("hint or note", |s| {
        matches!(s.object, "hint" | "note" | "end mark") && s.act != "read"
    }),
    ("delete", |s| s.act == "delete"),
    ("list", |s| s.act == "list"),
    ("read of a snapshot", |s| {
        s.object == "snapshot" && s.act == "read"
    }),
    ("side object", |s| s.object == "positions"),
];

/// Steps that few schedules come to, and those that hardly any does: a stream of its own waits for each sort,
/// so that they are struck often enough, too.
const RARE: [&[(&str, &str)]; 2] = [
    &[
        ("data file", "delete"),
        ("end mark", "read"),
        ("manifest list", "delete"),
        ("note", "put"),
        ("positions", "put"),
        ("record", "read"),
        ("registration", "delete"),
        ("table", "list"),
        ("tag", "list"),
    ],
    &[
        ("data file", "read"),
        ("end mark", "delete"),
        ("hint", "delete"),
        ("manifest", "delete"),
        ("note", "delete"),
        ("positions", "delete"),
        ("positions", "read"),
        ("snapshot", "delete"),
    ],
];

/// Steps after which a fault that found no request of its kind takes any.
const PATIENCE: u64 = 60;

/// Strikes one rare request, whatever may befall it.
pub(crate) struct Rarely(Option<&'static [(&'static str, &'static str)]>);

impl Rarely {
    pub(crate) fn draw(choices: &mut Choices) -> Self {
        let which = choices.weighted("rare requests", &[30, 35, 35]);
        Self(which.checked_sub(1).and_then(|at| RARE.get(at)).copied())
    }

    /// The fate of this request, if it is one of those.
    pub(crate) fn strike(
        &mut self,
        choices: &mut Choices,
        op: Op,
        step: ProtocolStep,
    ) -> Option<Fate> {
        self.0
            .take_if(|steps| steps.contains(&(step.object, step.act)))?;
        let fitting = Fate::ALL.into_iter().filter(|fate| fate.strikes(op, step));
        let fitting: Vec<Fate> = fitting.collect();
        let chosen = choices.below("fate of a rare request", fitting.len() as u32);
        fitting.get(chosen as usize).copied()
    }
}

/// One stream of faults.
pub(crate) struct Stream {
    crashes: bool,
    left: u32,
    gap: u32,
    from: u64,
    aim: usize,
}

impl Stream {
    pub(crate) fn new(choices: &mut Choices, crashes: bool, count: u32, gap: u32) -> Self {
        let mut stream = Self {
            crashes,
            left: count,
            gap,
            from: 0,
            aim: 0,
        };
        stream.next(choices, 0);
        stream
    }

    fn next(&mut self, choices: &mut Choices, now: u64) {
        if self.left == 0 {
            return;
        }
        let what = match self.crashes {
            true => "steps to the next crash",
            false => "steps to the next fault",
        };
        self.from = now + u64::from(choices.below(what, self.gap));
        self.aim = choices.weighted("its request", &[8, 4, 12, 8, 8, 5, 6, 6, 6, 4, 4, 3]);
    }

    /// The fate of this request, if this stream has one for it.
    pub(crate) fn strike(
        &mut self,
        choices: &mut Choices,
        now: u64,
        op: Op,
        step: ProtocolStep,
    ) -> Option<Fate> {
        if self.left == 0 || now < self.from {
            return None;
        }
        let aimed = AIMS.get(self.aim).is_some_and(|(_, aim)| aim(step));
        if !aimed && now < self.from + PATIENCE {
            return None;
        }
        let weighted: Vec<(Fate, u32)> = match self.crashes {
            true => vec![
                (Fate::KilledBefore, 3),
                (Fate::KilledAfter, 4),
                (Fate::KilledLate, 3),
                (Fate::KilledTorn, 2),
            ],
            false => vec![
                (Fate::FailedBefore, 6),
                (Fate::AnswerLost, 7),
                (Fate::Late, 6),
                (Fate::Throttled, 3),
                (Fate::Paused, 4),
                (Fate::Refused, 1),
            ],
        };
        let fitting: Vec<(Fate, u32)> = weighted
            .into_iter()
            .filter(|(fate, _)| fate.strikes(op, step))
            .collect();
        let weights: Vec<u32> = fitting.iter().map(|(_, weight)| *weight).collect();
        let chosen = choices.weighted("fate", &weights);
        self.left -= 1;
        self.next(choices, now);
        fitting.get(chosen).map(|(fate, _)| *fate)
    }
}
