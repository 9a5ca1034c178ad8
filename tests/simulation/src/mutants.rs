//! Deliberate bugs and how many schedules it takes to notice each.
//!
//! Owns the list. Rules of `protocol` are left out by its own switch, everything else by those of `sink` and
//! `storage`.

use std::fmt::Write as _;

use tidegate_protocol::Rule;
use tidegate_sink::mutant;

use crate::hunt::Hunt;
use crate::schedule::of_seed;
use crate::script::invariant;

/// One bug.
struct Mutant {
    what: &'static str,
    rule: Option<Rule>,
    switch: Option<&'static str>,
}

const fn rule(what: &'static str, rule: Rule) -> Mutant {
    Mutant {
        what,
        rule: Some(rule),
        switch: None,
    }
}

const fn switch(what: &'static str, name: &'static str) -> Mutant {
    Mutant {
        what,
        rule: None,
        switch: Some(name),
    }
}

const MUTANTS: &[Mutant] = &[
    // commit, decided in protocol
    rule("ledger never consulted", Rule::LedgerConsulted),
    rule("ledger not consulted on retry", Rule::LedgerOnRetry),
    rule("digest ignored", Rule::DigestCompared),
    rule("epoch ignored", Rule::EpochFences),
    rule(
        "filtered by identifier only, not by user",
        Rule::UserCompared,
    ),
    rule("half not tracked", Rule::HalfTracked),
    rule("base not read again", Rule::BaseReRead),
    rule("positions not compared", Rule::PositionsCompared),
    rule(
        "missing history taken for never published",
        Rule::MissingHistoryIsUnknown,
    ),
    rule("deleted on an unknown outcome", Rule::UnknownKeeps),
    rule(
        "another draft after an unknown outcome",
        Rule::SameDraftAgain,
    ),
    rule(
        "a refusal settles an unknown outcome",
        Rule::RefusedAfterUnknown,
    ),
    rule("a create below the history counts", Rule::CreateConfirmed),
    rule(
        "data files deleted when a commit fails",
        Rule::DataFilesKept,
    ),
    rule("a lost race leaves its files", Rule::LostRaceCleans),
    rule("a failure leaves its files", Rule::FailureCleans),
    rule("COMPACT before APPEND", Rule::AppendFirst),
    rule("totals without the base", Rule::TotalsAddUp),
    rule("removed rows not subtracted", Rule::DeletedRowsCount),
    rule("clock may go back", Rule::ClockMonotone),
    rule("snapshots not chained", Rule::ChainRecorded),
    rule("a replaced snapshot not noticed", Rule::ReplacementNoticed),
    rule(
        "offered again on any parent",
        Rule::OfferedAgainOnlyOnOurParent,
    ),
    rule("an empty commit makes a snapshot", Rule::EmptyIgnored),
    rule(
        "a commit below a broken chain not looked at",
        Rule::HiddenOwnLooked,
    ),
    rule(
        "a COMPACT half sought below its APPEND half",
        Rule::CompactAboveAppend,
    ),
    // recovery, decided in protocol
    rule("commits beyond the checkpoint accepted", Rule::GuardBeyond),
    rule(
        "published commits that are gone accepted",
        Rule::GuardBehind,
    ),
    rule("other content accepted at restore", Rule::GuardDiverged),
    rule(
        "cleaned before a snapshot of the own run",
        Rule::CleanAfterSnapshot,
    ),
    rule("cleaned what is referred to", Rule::CleanUnreferenced),
    rule("later runs cleaned too", Rule::CleanEarlierRuns),
    rule(
        "identifiers begin anew after a way out",
        Rule::IdentifiersAbove,
    ),
    // commit
    switch("snapshot put over what is there", "publish-by-put"),
    switch("a taken number counts as ours", "exists-is-ours"),
    switch(
        "an unknown outcome counts as a failure",
        "unknown-is-failed",
    ),
    switch("LATEST believed without looking above it", "hint-trusted"),
    switch(
        "clean-up forgets pending committables",
        "clean-forgets-pending",
    ),
    // runtime
    switch("files of an aborted checkpoint dropped", "aborted-dropped"),
    switch(
        "splits that nobody has taken forgotten",
        "waiting-splits-forgotten",
    ),
    switch(
        "recorded without looking for a newer run",
        "successor-ignored",
    ),
    switch("cleaned before anything is visible", "clean-at-once"),
    switch("barriers not aligned", "barrier-unaligned"),
    switch(
        "left-overs ignored where there is nothing new",
        "left-behind-ignored",
    ),
    switch(
        "writers opened before recovery has published",
        "writers-before-recovery",
    ),
    switch(
        "a job without records taken for a new one",
        "lost-records-are-new",
    ),
    // recovery
    switch("committed without its record", "record-skipped"),
    switch(
        "another run's record taken for ours",
        "record-conflict-ignored",
    ),
    switch(
        "records removed before their commit is published",
        "retain-unpublished",
    ),
    switch(
        "an unreadable newest record stepped over",
        "newest-record-stepped-over",
    ),
    switch("start takes E+1 on conflict", "claim-next-epoch"),
    switch("two runs share an epoch", "epoch-shared"),
    switch(
        "two first starts with a commit user each",
        "user-not-compared",
    ),
    // storage
    switch(
        "a name that is taken counts as created",
        "exists-is-created",
    ),
    switch(
        "an unknown outcome of a create reported as a failure",
        "doubt-forgotten",
    ),
    switch("failed deletions not looked at", "deletes-not-looked-at"),
];

/// What was found of all bugs.
pub struct Proof {
    /// A table in Markdown.
    pub table: String,
    /// Bugs that nothing noticed.
    pub missed: Vec<&'static str>,
}

/// Plays up to `most` schedules per bug, from `seed` on, until one breaks. `only` picks bugs whose text
/// holds it.
pub fn prove(hunt: Hunt, only: Option<&str>, tell: impl Fn(&str)) -> Proof {
    let mut table = String::from(
        "| bug | switch | schedules until noticed | what noticed it |\n|---|---|---:|---|\n",
    );
    let mut missed = Vec::new();
    let chosen = MUTANTS
        .iter()
        .filter(|m| only.is_none_or(|only| m.what.contains(only)));
    for bug in chosen {
        switch_on(Some(bug));
        let (found, played) = first_seed(bug, hunt);
        let name = match (bug.rule, bug.switch) {
            (Some(rule), _) => format!("`Rule::{}`", rule.name()),
            (None, Some(switch)) => format!("`{switch}`"),
            (None, None) => String::new(),
        };
        let (count, by) = match found {
            Some((seed, why)) => {
                tell(&format!("{}: seed {seed}: {why}", bug.what));
                (played.to_string(), invariant(&why).to_owned())
            }
            None => {
                missed.push(bug.what);
                tell(&format!("{}: NOT noticed", bug.what));
                (format!("not in {played}"), "–".to_owned())
            }
        };
        let _ = writeln!(table, "| {} | {name} | {count} | {by} |", bug.what);
    }
    switch_on(None);
    Proof { table, missed }
}

/// One bug is on everywhere in this process, or none.
fn switch_on(bug: Option<&Mutant>) {
    let switch = bug.and_then(|bug| bug.switch);
    tidegate_protocol::leave_out(bug.and_then(|bug| bug.rule));
    mutant::set(switch);
    tidegate_storage::mutant::set(switch);
}

/// The first seed that breaks with the bug and holds without it, with what broke; and the schedules until
/// then.
fn first_seed(bug: &Mutant, hunt: Hunt) -> (Option<(u64, String)>, u64) {
    let mut rest = Hunt {
        until_broken: 1,
        ..hunt
    };
    loop {
        switch_on(Some(bug));
        let mut caught = rest.run(|_| {});
        if caught.broken.is_empty() {
            return (None, rest.seed - hunt.seed + caught.coverage.schedules);
        }
        let (seed, why) = caught.broken.swap_remove(0);
        switch_on(None);
        if of_seed(seed, false).verdict.is_ok() {
            return (Some((seed, why)), seed - hunt.seed + 1);
        }
        let played = seed + 1 - rest.seed;
        rest.seed = seed + 1;
        rest.schedules = rest.schedules.saturating_sub(played);
        if rest.schedules == 0 {
            return (None, rest.seed - hunt.seed);
        }
    }
}
