//! The mutation switch: proves that each rule is noticed when it is missing.
//!
//! Owns: the names of the rules that decision points consult. In a normal build [`Rules::on`] is
//! `true` at compile time and [`Rules`] has no field; with the feature `mutants` (tests only) one
//! rule can be off.

/// A rule that a decision point consults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Rule {
    /// \[R-5]: the ledger is consulted.
    LedgerConsulted,
}

/// The rules in force.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Rules {
    #[cfg(feature = "mutants")]
    off: Option<Rule>,
}

impl Rules {
    /// True where `rule` is in force.
    #[cfg(not(feature = "mutants"))]
    #[inline(always)]
    pub const fn on(self, _rule: Rule) -> bool {
        true
    }

    /// True where `rule` is in force.
    #[cfg(feature = "mutants")]
    pub fn on(self, rule: Rule) -> bool {
        self.off != Some(rule)
    }

    /// All rules but one. Only for tests that prove that its absence is noticed.
    #[cfg(feature = "mutants")]
    pub fn without(rule: Rule) -> Self {
        Self { off: Some(rule) }
    }
}
