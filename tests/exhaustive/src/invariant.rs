//! What must hold in every state, and how it was broken.
//!
//! Owns: names. Does not own: the checks ([`table`](crate::table), [`world`](crate::world)).

use std::sync::Arc;

macro_rules! invariants {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// What must hold in every state.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Invariant {
            $($(#[$doc])* $name,)*
        }

        impl Invariant {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// In words.
            pub fn text(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

invariants! {
    /// Invariant 3.
    Once = "each half of each commit is published once",
    /// Exactly once, the other way.
    Acknowledged = "what is acknowledged is in the table",
    /// Invariants 2 and 4: of all that is visible.
    Exists = "what a snapshot names exists",
    /// Of the content.
    Rows = "no row is lost and none is doubled",
    /// Invariant 8.
    Totals = "record counts add up",
    /// Invariant 9, \[R-3].
    Dense = "snapshots are dense and each is built on the one before",
    /// \[R-6].
    Undecided = "nothing is deleted while a put that names it is undecided",
    /// B59, \[C-38].
    Monotone = "time and watermark never move back",
    /// \[R-5], on which the cleaning of \[R-13] rests.
    Fenced = "an older run publishes nothing once a newer one is visible",
    /// \[C-51a].
    Hint = "LATEST names what readers see",
    /// Invariant 5.
    Clean = "nothing is left over where nobody crashed",
    /// \[R-7], \[R-14].
    Undone = "a rollback that could be told from a crash is not undone",
    /// \[R-8].
    Others = "a way out of one job takes nothing of others with it",
    /// What a person can go back to.
    Retained = "of the records whose commits are all visible one stays",
    /// What a program does to itself: an answer that no step asked for.
    Turns = "every answer fits its step",
    /// Faults that pass are no reason to give up.
    GoesOn = "a job that nobody else runs never stops for a person",
    /// Liveness of one.
    Ends = "a committer that is left alone ends",
    /// Liveness after everything.
    Recovers = "one more run, alone, publishes everything",
}

/// A broken invariant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Broken {
    /// Which.
    pub invariant: Invariant,
    /// How.
    pub why: Arc<str>,
}

impl Broken {
    /// Says how.
    pub fn new(invariant: Invariant, why: impl Into<Arc<str>>) -> Self {
        let why = why.into();
        Self { invariant, why }
    }
}
