//! What may happen to a request, who chooses it, and how often it happened.

use super::http::Kind;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// What happens to one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// The connection ends before anything of it went through.
    CutBefore,
    /// Half of its body goes through, then both connections end.
    CutInBody,
    /// It goes through, its answer is dropped and the connection ends.
    DropAnswer,
    /// It goes through; the connection is reset in the middle of the answer's body.
    ResetInAnswer,
    /// It goes through after a while.
    Delay,
    /// It goes through after its sender has given it up, dead perhaps.
    Late,
    /// Accepted, never passed on, never answered.
    BlackHole,
    /// Answered with 503 `SlowDown`, not passed on.
    SlowDown,
    /// Answered with 500 `InternalError`, not passed on.
    Internal,
    /// Answered with 429 `TooManyRequests`, not passed on.
    Throttled,
}

impl Fault {
    /// All of them, in the order of tables.
    pub const ALL: [Self; 10] = [
        Self::CutBefore,
        Self::CutInBody,
        Self::DropAnswer,
        Self::ResetInAnswer,
        Self::Delay,
        Self::Late,
        Self::BlackHole,
        Self::SlowDown,
        Self::Internal,
        Self::Throttled,
    ];

    /// For tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::CutBefore => "cut before it went through",
            Self::CutInBody => "cut in its body",
            Self::DropAnswer => "done, answer dropped",
            Self::ResetInAnswer => "reset in the answer's body",
            Self::Delay => "delayed",
            Self::Late => "done after its sender left",
            Self::BlackHole => "swallowed",
            Self::SlowDown => "503 SlowDown",
            Self::Internal => "500 InternalError",
            Self::Throttled => "429 TooManyRequests",
        }
    }

    /// Status, code and message of an answer that the proxy gives itself.
    pub(crate) fn answer(self) -> Option<(&'static str, &'static str, &'static str)> {
        match self {
            Self::SlowDown => Some((
                "503 Slow Down",
                "SlowDown",
                "Please reduce your request rate.",
            )),
            Self::Internal => Some((
                "500 Internal Server Error",
                "InternalError",
                "We encountered an internal error. Please try again.",
            )),
            Self::Throttled => Some((
                "429 Too Many Requests",
                "TooManyRequests",
                "Please reduce your request rate.",
            )),
            _ => None,
        }
    }
}

/// A fault for requests that are named.
#[derive(Debug, Clone)]
pub struct Rule {
    /// The fault.
    pub fault: Fault,
    /// Only requests of this kind.
    pub kind: Option<Kind>,
    /// Only requests whose target holds this.
    pub target: String,
    /// So many of them.
    pub times: usize,
}

impl Rule {
    /// Every request, once.
    pub fn new(fault: Fault) -> Self {
        Self {
            fault,
            kind: None,
            target: String::new(),
            times: 1,
        }
    }

    /// Only requests of this kind.
    pub fn on(self, kind: Kind) -> Self {
        Self {
            kind: Some(kind),
            ..self
        }
    }
}

/// Faults at random.
#[derive(Debug, Clone, Copy)]
pub struct Chances {
    /// The n-th request meets the same fate under the same seed.
    pub seed: u64,
    /// Share of requests that meet a fault.
    pub share: f64,
}

/// Fate of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fate {
    pub(crate) fault: Option<Fault>,
    /// Of a delay, or of what comes late.
    pub(crate) pause: Duration,
}

impl Chances {
    pub(crate) fn fate(&self, nth: u64) -> Fate {
        let mut random = StdRng::seed_from_u64(
            self.seed
                .wrapping_add(nth.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
        );
        let struck = random.random_bool(self.share.clamp(0.0, 1.0));
        let fault = Fault::ALL[random.random_range(0..Fault::ALL.len())];
        Fate {
            fault: struck.then_some(fault),
            pause: Duration::from_millis(random.random_range(20..1000)),
        }
    }
}

/// Requests by kind, and by what happened to them.
#[derive(Debug, Clone, Default)]
pub struct Tally(BTreeMap<(Option<Fault>, Kind), usize>);

impl Tally {
    pub(crate) fn note(&mut self, fault: Option<Fault>, kind: Kind) {
        *self.0.entry((fault, kind)).or_default() += 1;
    }

    /// Adds another one.
    pub fn add(&mut self, other: &Self) {
        for (key, n) in &other.0 {
            *self.0.entry(*key).or_default() += n;
        }
    }

    /// Requests of a kind that met a fault.
    pub fn of(&self, fault: Fault, kind: Kind) -> usize {
        self.0.get(&(Some(fault), kind)).copied().unwrap_or(0)
    }

    /// Requests that met a fault.
    pub fn faults(&self) -> usize {
        let struck = self.0.iter().filter(|((fault, _), _)| fault.is_some());
        struck.map(|(_, n)| n).sum()
    }

    /// Requests in all.
    pub fn requests(&self) -> usize {
        self.0.values().sum()
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seen = |kind: &Kind| self.0.keys().any(|(_, k)| k == kind);
        let kinds: Vec<Kind> = Kind::ALL.into_iter().filter(seen).collect();
        write!(f, "  {:<27}", "")?;
        for kind in &kinds {
            write!(f, " {:>8}", kind.name())?;
        }
        let rows = Fault::ALL.map(Some).into_iter().chain([None]);
        for fault in rows {
            let name = fault.map_or("nothing happened to it", Fault::name);
            write!(f, "\n  {name:<27}")?;
            for kind in &kinds {
                let n = self.0.get(&(fault, *kind)).copied().unwrap_or(0);
                write!(f, " {n:>8}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_every_request_the_same_fate_again_and_every_fault_comes() {
        let chances = Chances {
            seed: 7,
            share: 0.5,
        };
        let fates = |c: Chances| -> Vec<_> { (0..400).map(|n| c.fate(n).fault).collect() };
        assert_eq!(fates(chances), fates(chances));
        assert_ne!(fates(chances), fates(Chances { seed: 8, ..chances }));
        for fault in Fault::ALL {
            assert!(fates(chances).contains(&Some(fault)), "{fault:?}");
        }
        let none = Chances {
            share: 0.0,
            ..chances
        };
        assert!(fates(none).iter().all(Option::is_none));
    }
}
