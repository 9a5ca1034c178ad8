//! The commit of one committable, step by step.
//!
//! Owns: the order of reading, checking, writing, publishing and cleaning, for both halves. Does
//! not own: any effect; clock, randomness and content come in as facts.

use crate::committable::Committable;
use crate::fact::Fact;
use crate::ledger::Ledger;
use crate::settings::Settings;
use crate::step::Step;
use std::fmt;
use std::sync::Arc;

/// The state of one commit. Drive it with [`Attempt::next`] and [`Attempt::observe`] until
/// [`Step::Done`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Attempt {
    committable: Arc<Committable>,
    ledger: Ledger,
    settings: Settings,
    step: Step,
}

impl Attempt {
    /// Starts. Nothing was read yet; `ledger` is what this committer knows from earlier attempts.
    pub fn new(committable: Arc<Committable>, ledger: Ledger, settings: Settings) -> Self {
        Self {
            committable,
            ledger,
            settings,
            step: Step::ReadLatest,
        }
    }

    /// What to do now. Asking twice gives the same answer.
    pub fn next(&self) -> Step {
        self.step.clone()
    }

    /// Takes the answer to [`Attempt::next`].
    pub fn observe(&mut self, _fact: Fact) -> Result<(), OutOfTurn> {
        Ok(())
    }

    /// After [`Outcome::Undecided`](crate::Outcome::Undecided): puts the same draft at the same id
    /// again, with a new retry budget \[R-6]. False, and without effect, in any other state.
    pub fn go_on(&mut self) -> bool {
        false
    }

    /// What is known of the user's commits by now.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The same, to be given to the next attempt.
    pub fn into_ledger(self) -> Ledger {
        self.ledger
    }

    /// What is being committed.
    pub fn committable(&self) -> &Committable {
        &self.committable
    }

    /// The options.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }
}

/// A fact that does not answer the pending step: an error of the driver. The attempt is unchanged.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OutOfTurn {
    /// The step that waits for an answer.
    pub step: Step,
    /// What came.
    pub fact: Fact,
}

impl fmt::Display for OutOfTurn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is no answer to {:?}; ask Attempt::next and answer that",
            self.fact, self.step
        )
    }
}

impl std::error::Error for OutOfTurn {}
