//! The mutation switch: proves that each rule is noticed when it is missing.
//!
//! Owns: the names of the rules that decision points consult. In a normal build [`Rules::on`] is
//! `true` at compile time and [`Rules`] has no field; with the feature `mutants` (tests only) rules
//! can be off.

macro_rules! rules {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// A rule that a decision point consults. Switched off, the point behaves as a plausible
        /// program without the rule would.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Rule {
            $($(#[$doc])* $name,)*
        }

        impl Rule {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// Its name, as scripts write it.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }
        }
    };
}

rules! {
    /// \[R-5]: what is visible already is not published again.
    LedgerConsulted,
    /// Invariant 3: the ledger is extended to the base of *every* attempt, retries included.
    LedgerOnRetry,
    /// \[R-5]: same identifier but other content is fenced.
    DigestCompared,
    /// \[R-5]: a snapshot of this job by a newer epoch fences.
    EpochFences,
    /// Only snapshots of the same user answer for an identifier (B08).
    UserCompared,
    /// The halves of one identifier are told apart \[C-12].
    HalfTracked,
    /// A smaller identifier than the newest visible one, itself not visible, is fenced (B07).
    OvertakenFences,
    /// Ids missing in the history mean *unknown*, not *never published* (B16).
    MissingHistoryIsUnknown,
    /// \[R-6]: a snapshot of ours that stands below a gap was put there late, and is no commit.
    BelowGapIgnored,
    /// \[R-14]: where a broken chain hides our newest commit, or the noted one, its number is looked at: it may
    /// have been put over.
    HiddenOwnLooked,
    /// \[C-12]: the COMPACT half of a commit lies above its APPEND half: nothing below that can be it.
    CompactAboveAppend,
    /// A lower end of history seen at `combine` counts only if it is still the same snapshot.
    SeenVerified,
    /// \[R-7]: files that are live already count as published.
    LiveCountsAsPublished,
    /// \[R-15]: a COMPACT half of which nobody can tell whether it was published is left out, its APPEND half
    /// being there.
    UnknownCompactDropped,
    /// \[R-4]: the published note stands for an expired snapshot.
    NoteConsulted,
    /// \[R-4], \[R-14]: a note counts only while its snapshot stands, or has expired.
    NoteMustStand,
    /// \[R-9]: expected source positions are compared.
    PositionsCompared,
    /// \[R-9]: positions of an older commit say nothing where a newer one may lie in between, unread.
    HiddenPositionsIgnored,
    /// \[R-9]: on the skip path too.
    PositionsOnSkip,
    /// \[R-12]: 2^63-1 closes a commit user.
    ClosedUserRefused,
    /// B22: a file that stands twice in a committable is refused.
    FileTwiceRefused,
    /// \[C-5]: files of a restored committable are shown to exist, all outputs.
    FilesExist,
    /// \[R-15]: conflicts are decided before file existence.
    ConflictsFirst,
    /// \[R-15]: a compacted part whose inputs are dead is dropped, the rest goes on.
    DeadPartsDropped,
    /// \[C-30]: a compacted part whose outputs would meet live files of their level is dropped.
    LevelsDisjoint,
    /// \[W-73]: rows that waited for their bucket are distributed as a whole, partition by partition.
    RewritesWhole,
    /// \[C-32]: a compacted part that read other deletion vectors than it would replace is dropped.
    VectorsCompared,
    /// 10.5: what a compacted part that lost brought is deleted.
    LostOutputsDeleted,
    /// \[C-11]: an empty commit makes no snapshot unless options say so.
    EmptyIgnored,
    /// \[C-11]: an append half that removes something is an OVERWRITE.
    OverwriteKind,
    /// \[C-12]: APPEND before COMPACT, each its own snapshot.
    AppendFirst,
    /// \[C-13]: the conflict check runs for OVERWRITE and COMPACT.
    ConflictsChecked,
    /// \[C-13]: a plain APPEND is not compared with the base: it clashes with nothing.
    AppendUnchecked,
    /// \[C-23]: the number of a snapshot is that of its base + 1: ids are dense.
    IdFollowsBase,
    /// \[C-29]: live files are read of all touched partitions, and of no other.
    TouchedPartitions,
    /// \[R-11], \[C-48]: data files stay, however a commit fails: it is offered again.
    DataFilesKept,
    /// \[C-20]: attempts are bounded by `commit.max-retries`.
    RetriesBounded,
    /// \[C-20]: waiting grows and is capped.
    BackOffGrows,
    /// \[C-21], #7459: a transient fault while preparing is retried.
    FaultsRetried,
    /// \[C-22], invariant 3: each attempt reads its base from the store.
    BaseReRead,
    /// \[C-24]: files of one partition agree on the bucket count.
    BucketsAgree,
    /// \[C-25]: bucket counts are compared with the base.
    BucketsCompared,
    /// \[C-25]: an OVERWRITE by others ends what was verified about bucket counts.
    OverwriteForgetsBuckets,
    /// \[C-27j]: statistics are inherited only for the newest schema.
    StatisticsOfNewestSchema,
    /// \[C-30]: unmatched DELETEs refuse an OVERWRITE.
    DeletesMustBeLive,
    /// \[C-30]: files live already refuse where only some are.
    AddsMustNotBeLive,
    /// \[C-38]: the watermark never moves back; the smallest i64 is none.
    WatermarkMonotone,
    /// \[C-39]: the newest schema id, read at each attempt.
    NewestSchema,
    /// \[C-40]: total = base total + delta.
    TotalsAddUp,
    /// \[C-40]: DELETE rows are subtracted.
    DeletedRowsCount,
    /// \[C-40]: arithmetic is checked.
    CountsChecked,
    /// \[C-44]: a merge is reused where its inputs are still a contiguous run.
    MergeReused,
    /// \[C-45]: the index manifest is carried over.
    IndexCarried,
    /// \[C-45]: or rewritten, when index files change.
    IndexRewritten,
    /// Next row id is carried over.
    RowIdCarried,
    /// B59: time never goes below the parent's.
    ClockMonotone,
    /// \[C-49]: a lost race keeps the delta manifests.
    DeltaReused,
    /// Invariant 5: what a lost race leaves is deleted.
    LostRaceCleans,
    /// Invariant 5: what a definite failure leaves is deleted.
    FailureCleans,
    /// \[R-6], B01: nothing is deleted while an outcome is unknown.
    UnknownKeeps,
    /// \[R-6], B02: after an unknown outcome the same draft is put again.
    SameDraftAgain,
    /// \[R-6]: a bounded number of times.
    UnknownBounded,
    /// \[R-6]: an id found taken after an unanswered request proves nothing until the history from it
    /// on was looked at: the snapshot may have been visible, expired, and its id taken again.
    DoubtfulKept,
    /// \[R-18]: a publish whose answer was dropped counts as unanswered.
    DroppedIsDoubt,
    /// \[R-6]: a refusal after an unknown outcome settles nothing.
    RefusedAfterUnknown,
    /// \[R-14]: a snapshot of ours that was put over is noticed.
    ReplacementNoticed,
    /// \[R-14]: what a child says of its parent tells the real one from a late intruder.
    ChainRead,
    /// \[R-6], \[C-51a]: a create counts once its base is seen to stand: the store takes a snapshot
    /// below the retained history too, where no reader gets.
    CreateConfirmed,
    /// A base that is gone while older snapshots stand was rolled back under the create \[R-14].
    RollbackUnderCreate,
    /// What was created below the retained history is removed, and the committable offered again.
    BuriedRemoved,
    /// \[R-6]: unless an earlier request of the same draft has no answer: it may have been visible,
    /// and be expired.
    BuriedInDoubt,
    /// \[R-14]: it is offered again only on an unchanged parent and without later commits.
    OfferedAgainOnlyOnOurParent,
    /// \[R-14]: what was put over and is offered again is looked for in the base: others may have built on
    /// it before.
    PutOverLooked,
    /// \[R-14], \[C-72]: a rollback below our newest commit is noticed.
    RollbackNoticed,
    /// \[C-51a]: a latest below what was seen is asked for again before it counts as a rollback.
    StaleLatestRead,
    /// \[R-3]: `based-on` chains snapshots.
    ChainRecorded,
    /// \[R-7]: commits beyond the saved ones stop.
    GuardBeyond,
    /// \[R-7]: a published commit that is gone stops.
    GuardBehind,
    /// \[R-7]: other content stops.
    GuardDiverged,
    /// \[R-7]: judged per half.
    GuardHalves,
    /// \[R-7]: committables are published in order, without gaps.
    GuardPrefix,
    /// \[R-7]: committables without a snapshot are skipped.
    GuardEmptySkipped,
    /// \[R-7], \[R-13]: an empty committable that is visible counts as published.
    GuardEmptyVisible,
    /// \[R-7], \[R-13]: empty snapshots that the checkpoint does not know bring no rows.
    GuardEmptyBeyond,
    /// \[R-7]: an expired history without a note is unknown.
    GuardUnknown,
    /// \[R-4], \[R-7]: the note stands for expired snapshots.
    GuardNote,
    /// \[R-4], \[R-7]: a noted commit whose snapshot is above the newest one was rolled back.
    GuardNoteGone,
    /// \[R-7]: without marker, live files count as published.
    GuardLiveFiles,
    /// \[R-7]: files of which some are live are no answer.
    GuardPartlyLive,
    /// Saved committables come in the order of their identifiers \[C-4].
    GuardOrder,
    /// \[R-7]: a commit whose COMPACT half is still to come is not done, while nothing has gone past it.
    GuardUnfinished,
    /// \[R-8]: a table is continued from where it stands only where that can be seen.
    ContinueKnowsNewest,
    /// \[R-8]: a rollback that takes others with it is refused.
    OthersProtected,
    /// \[R-8]: identifiers go on above the largest ever seen.
    IdentifiersAbove,
    /// \[R-8]: the first commit expects the table's current positions.
    ExpectsTable,
    /// \[R-13]: cleaning waits for a record of this epoch.
    CleanAfterRecord,
    /// \[R-13]: cleaning waits for a snapshot of this epoch.
    CleanAfterSnapshot,
    /// \[R-13]: only earlier runs.
    CleanEarlierRuns,
    /// \[R-13]: only what nothing refers to.
    CleanUnreferenced,
    /// Records: only published ones let older ones go.
    RetainPublished,
    /// Records: only complete ones let older ones go.
    RetainComplete,
    /// Records: savepoints are a person's.
    RetainSavepoints,
    /// \[C-43]: small manifests are merged.
    MergeSmall,
    /// \[C-43]: DELETEs that find no ADD stay in a minor merge.
    MergeKeepsDeletes,
    /// Invariant 11: what one commit rewrites is bounded.
    MergeBounded,
    /// \[C-42]: a full merge leaves untouched big manifests alone.
    FullKeepsBig,
    /// \[C-42]: a full merge starts at its threshold.
    FullThreshold,
}

/// The rules in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(not(feature = "mutants"), derive(Default))]
pub struct Rules {
    /// A bit per rule.
    #[cfg(feature = "mutants")]
    off: u128,
}

#[cfg(feature = "mutants")]
const _: () = assert!(Rule::ALL.len() <= 128, "a bit per rule");

#[cfg(feature = "mutants")]
impl Rule {
    fn bit(self) -> u128 {
        1_u128.checked_shl(self as u32).unwrap_or(0)
    }
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
        self.off & rule.bit() == 0
    }

    /// All rules but one. Only for tests that prove that its absence is noticed.
    #[cfg(feature = "mutants")]
    pub fn without(rule: Rule) -> Self {
        Self { off: 0 }.and_without(rule)
    }

    /// One rule less: where one stands behind another, only the absence of both is noticed.
    #[cfg(feature = "mutants")]
    #[must_use]
    pub fn and_without(self, rule: Rule) -> Self {
        Self {
            off: self.off | rule.bit(),
        }
    }
}

/// What [`Rules::default`] leaves out: 0 = nothing, else the rule's place in [`Rule::ALL`] + 1.
#[cfg(feature = "mutants")]
static LEFT_OUT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);

#[cfg(feature = "mutants")]
impl Default for Rules {
    fn default() -> Self {
        let place = LEFT_OUT.load(std::sync::atomic::Ordering::Relaxed);
        let rule = place.checked_sub(1).and_then(|at| Rule::ALL.get(at));
        rule.map_or(Self { off: 0 }, |rule| Self::without(*rule))
    }
}

/// Leaves one rule out of the default everywhere in this process, or none: a mutant of everything that
/// is built on this crate.
#[cfg(feature = "mutants")]
pub fn leave_out(rule: Option<Rule>) {
    let place = rule.and_then(|rule| Rule::ALL.iter().position(|other| *other == rule));
    LEFT_OUT.store(
        place.map_or(0, |at| at.saturating_add(1)),
        std::sync::atomic::Ordering::Relaxed,
    );
}
