//! The worlds that are looked at by default, and what each rule does in them.
//!
//! Owns: the list of worlds for the table in docs/model-checking.md, the small ones for deliberate bugs,
//! and the rules that no such world can show, each with the test that does.

use crate::bounds::{Bounds, Variant};
use tidegate_protocol::Rule;

/// Any number.
const ANY: u8 = u8::MAX;

/// What `cargo xtask check` exhausts.
pub fn standard() -> Vec<Bounds> {
    let asked = |variant| Bounds {
        crashes: 1,
        lost: ANY,
        late: 1,
        liveness: true,
        ..Bounds::quiet(variant, 2, 3)
    };
    vec![
        asked(Variant::Jobs),
        Bounds {
            cleaning: true,
            ..asked(Variant::Runs)
        },
    ]
}

/// What the tests exhaust: the same in small.
pub fn small() -> Vec<Bounds> {
    let of = |variant| Bounds {
        compaction: true,
        lost: 1,
        late: 1,
        crashes: 1,
        liveness: true,
        ..Bounds::quiet(variant, 2, 2)
    };
    vec![
        Bounds {
            crashes: 0,
            ..of(Variant::Jobs)
        },
        Bounds {
            compaction: false,
            cleaning: true,
            lost: 0,
            ..of(Variant::Runs)
        },
    ]
}

/// Where deliberate bugs are looked for, the cheapest first; liveness last, so that a bug is called by
/// what it breaks.
pub fn for_bugs() -> Vec<Bounds> {
    let jobs = |checkpoints| Bounds {
        compaction: true,
        ..Bounds::quiet(Variant::Jobs, 2, checkpoints)
    };
    let runs = |checkpoints| Bounds {
        compaction: true,
        ..Bounds::quiet(Variant::Runs, 2, checkpoints)
    };
    vec![
        // 1: lost races and lost answers.
        Bounds {
            lost: ANY,
            ..jobs(2)
        },
        // 2: a late put, refusals and dropped calls.
        Bounds {
            lost: 1,
            late: 1,
            dropped: 1,
            refused: 1,
            ..jobs(1)
        },
        // 3: a zombie and its successor.
        Bounds {
            late: 1,
            lost: 1,
            ..runs(2)
        },
        // 4: a run that cleans.
        Bounds {
            late: 1,
            crashes: 1,
            cleaning: true,
            compaction: false,
            ..runs(2)
        },
        // 5: a crash between the halves.
        Bounds {
            crashes: 1,
            lost: 1,
            ..jobs(2)
        },
        // 6: reads that fail or lag behind.
        Bounds {
            stale: 1,
            failed: 1,
            ..jobs(2)
        },
        // 7: checkpoints beyond an undecided commit.
        Bounds {
            backlog: true,
            lost: 2,
            crashes: 1,
            compaction: false,
            ..runs(2)
        },
        // 8 to 10: expired history.
        Bounds {
            expired: 2,
            late: 1,
            lost: 1,
            compaction: false,
            ..jobs(2)
        },
        Bounds {
            expired: 2,
            late: 1,
            crashes: 1,
            compaction: false,
            ..runs(2)
        },
        Bounds {
            expired: 3,
            late: 2,
            dropped: 1,
            compaction: false,
            ..jobs(2)
        },
        // 11, 12: liveness.
        Bounds {
            lost: 3,
            crashes: 1,
            liveness: true,
            ..jobs(2)
        },
        Bounds {
            late: 1,
            lost: 1,
            crashes: 1,
            liveness: true,
            ..runs(2)
        },
    ]
    .into_iter()
    .chain(with_others())
    .collect()
}

/// Worlds with somebody outside the protocol: other engines and committers, and persons.
pub fn with_others() -> Vec<Bounds> {
    let alone = |variant, checkpoints| Bounds::quiet(variant, 1, checkpoints);
    let job = |checkpoints| alone(Variant::Jobs, checkpoints);
    let run = |checkpoints| alone(Variant::Runs, checkpoints);
    vec![
        // 13: an engine without the guard goes back to an older record.
        Bounds {
            unguarded: true,
            older: 1,
            restarts: 1,
            crashes: 1,
            retained: 3,
            ..run(3)
        },
        // 14, 15: a foreign committer puts over.
        Bounds {
            racing: true,
            foreign: 1,
            restarts: 1,
            notes: 1,
            crashes: 1,
            liveness: true,
            ..job(2)
        },
        Bounds {
            racing: true,
            foreign: 2,
            restarts: 1,
            crashes: 1,
            liveness: true,
            ..job(3)
        },
        // 16: the note stands for what has expired.
        Bounds {
            notes: 1,
            foreign: 1,
            expired: 2,
            crashes: 1,
            backlog: true,
            lost: 2,
            ..job(2)
        },
        // 17, 18: a person rolls back, between two runs or under one.
        Bounds {
            notes: 1,
            rollbacks: 1,
            restarts: 1,
            crashes: 1,
            liveness: true,
            ..run(2)
        },
        Bounds {
            rollbacks: 1,
            foreign: 3,
            restarts: 1,
            ..run(2)
        },
        // 19, 20: an older record and a way out, beside another run or another writer.
        Bounds {
            older: 1,
            ways: 1,
            restarts: 1,
            retained: 3,
            ..Bounds::quiet(Variant::Runs, 2, 3)
        },
        Bounds {
            older: 1,
            ways: 1,
            restarts: 1,
            retained: 3,
            foreign: 1,
            liveness: true,
            ..job(3)
        },
        // 21, 22: records get lost; with a way out of that.
        Bounds {
            forgotten: 1,
            ..Bounds::quiet(Variant::Runs, 3, 2)
        },
        Bounds {
            forgotten: 2,
            ways: 1,
            restarts: 1,
            retained: 4,
            ..job(4)
        },
        // 23, 24: a run that cleans before it has published, or recorded, anything.
        Bounds {
            cleaning: true,
            backlog: true,
            late: 1,
            lost: 2,
            ..Bounds::quiet(Variant::Runs, 2, 2)
        },
        Bounds {
            cleaning: true,
            apart: true,
            backlog: true,
            lost: 2,
            ..Bounds::quiet(Variant::Runs, 2, 2)
        },
    ]
}

/// A rule that another one stands behind: without either nothing breaks in this world, without both it does.
pub type Backed = (Rule, Rule, Bounds);

/// Rules with a second line of defence.
pub fn backed() -> Vec<Backed> {
    let between_runs = Bounds {
        notes: 1,
        rollbacks: 1,
        idle: true,
        restarts: 1,
        crashes: 1,
        liveness: true,
        ..Bounds::quiet(Variant::Runs, 1, 2)
    };
    let expired = Bounds {
        notes: 1,
        foreign: 1,
        expired: 2,
        crashes: 1,
        backlog: true,
        lost: 2,
        ..Bounds::quiet(Variant::Jobs, 1, 2)
    };
    let older = Bounds {
        older: 1,
        restarts: 1,
        retained: 3,
        foreign: 1,
        liveness: true,
        ..Bounds::quiet(Variant::Jobs, 1, 3)
    };
    vec![
        (
            Rule::GuardBehind,
            Rule::PositionsCompared,
            Bounds {
                notes: 0,
                ..between_runs
            },
        ),
        (Rule::GuardNoteGone, Rule::RollbackNoticed, between_runs),
        (Rule::GuardBeyond, Rule::PositionsCompared, older),
        (Rule::GuardNote, Rule::GuardLiveFiles, expired),
        (Rule::GuardLiveFiles, Rule::GuardNote, expired),
    ]
}

/// States looked at per deliberate bug and world before the next world's turn.
pub const MOST_PER_BUG: usize = 100_000;

/// Rules that no world here can show: why, and the script of `crates/protocol/tests/scripts` that does.
pub const UNSEEN: &[(Rule, &str, &str)] = &[
    (Rule::ClosedUserRefused, CONTENT, "R-12-closed-user.txt"),
    (Rule::FileTwiceRefused, CONTENT, "C-30-already-live.txt"),
    (Rule::OverwriteKind, CONTENT, "C-11-overwrite.txt"),
    (
        Rule::OverwriteForgetsBuckets,
        CONTENT,
        "C-25-bucket-counts.txt",
    ),
    (Rule::BucketsAgree, CONTENT, "C-24-bucket-counts-agree.txt"),
    (Rule::BucketsCompared, CONTENT, "C-25-bucket-counts.txt"),
    (Rule::TouchedPartitions, CONTENT, "C-29-partitions.txt"),
    (
        Rule::StatisticsOfNewestSchema,
        CONTENT,
        "C-27-statistics.txt",
    ),
    (Rule::NewestSchema, CONTENT, "C-39-schema.txt"),
    (Rule::CountsChecked, CONTENT, "C-40-counts.txt"),
    (Rule::IndexCarried, CONTENT, "C-45-index.txt"),
    (Rule::IndexRewritten, CONTENT, "C-45-index.txt"),
    (Rule::RowIdCarried, CONTENT, "R-3-snapshot.txt"),
    (Rule::EmptyIgnored, EMPTY, "C-11-empty.txt"),
    (Rule::GuardEmptySkipped, EMPTY, "R-7-empty-only.txt"),
    (Rule::GuardEmptyVisible, EMPTY, "R-7-empty-visible.txt"),
    (Rule::GuardEmptyBeyond, EMPTY, "R-7-empty-beyond.txt"),
    (Rule::AppendUnchecked, COST, "C-13-append.txt"),
    (Rule::BackOffGrows, COST, "C-20-back-off.txt"),
    (Rule::MergeReused, COST, "C-44-C-49-lost-race.txt"),
    (Rule::DeltaReused, COST, "C-44-C-49-lost-race.txt"),
    (Rule::MergeSmall, COST, "C-43-minor-merge.txt"),
    (Rule::MergeBounded, COST, "C-43-bounded.txt"),
    (Rule::FullKeepsBig, COST, "C-42-full-merge.txt"),
    (Rule::FullThreshold, COST, "C-42-full-merge.txt"),
    (Rule::GuardOrder, RECORD, "R-7-seen.txt"),
    (Rule::RetainComplete, RECORD, "records-retention.txt"),
    (Rule::RetainSavepoints, RECORD, "records-retention.txt"),
    (Rule::BelowGapIgnored, NOT_MET, "R-6-below-a-gap.txt"),
    (Rule::HiddenOwnLooked, NOT_MET, "R-14-hidden.txt"),
    (
        Rule::CompactAboveAppend,
        NOT_MET,
        "C-12-expired-between.txt",
    ),
    (Rule::SeenVerified, NOT_MET, "B16-history.txt"),
    (Rule::LiveCountsAsPublished, NOT_MET, "B16-history.txt"),
    (Rule::FilesExist, NOT_MET, "C-5-files-exist.txt"),
    (Rule::ConflictsFirst, NOT_MET, "R-15-compact-restored.txt"),
    (Rule::DeadPartsDropped, NOT_MET, "R-15-compact-restored.txt"),
    (Rule::RewritesWhole, NOT_MET, "W-73-rewrite.txt"),
    (Rule::ConflictsChecked, NOT_MET, "C-11-C-12-halves.txt"),
    (Rule::DeletesMustBeLive, NOT_MET, "C-11-overwrite.txt"),
    (Rule::AddsMustNotBeLive, NOT_MET, "C-30-already-live.txt"),
    (Rule::GuardHalves, NOT_MET, "R-7-guard.txt"),
    (Rule::GuardUnknown, NOT_MET, "R-7-unknown.txt"),
    (Rule::GuardPrefix, NOT_MET, "R-7-not-found.txt"),
    (Rule::GuardPartlyLive, NOT_MET, "R-7-seen.txt"),
    (Rule::RetriesBounded, NOT_MET, "C-20-retries.txt"),
    (Rule::UnknownBounded, NOT_MET, "R-6-undecided.txt"),
    (Rule::FaultsRetried, NOT_MET, "C-21-faults.txt"),
    (Rule::MergeKeepsDeletes, NOT_MET, "C-43-minor-merge.txt"),
    (Rule::BuriedInDoubt, NOT_MET, "R-6-unsure.txt"),
    (Rule::BuriedRemoved, NOT_MET, "R-6-buried.txt"),
    (Rule::PositionsOnSkip, EARLIER, "R-9-positions.txt"),
    (Rule::GuardNote, BACKED, "R-4-R-7-note.txt"),
    (Rule::GuardNoteGone, BACKED, "R-7-note-gone.txt"),
    (Rule::GuardBehind, BACKED, "R-7-behind.txt"),
    (Rule::GuardBeyond, BACKED, "R-7-stops.txt"),
    (Rule::GuardLiveFiles, BACKED, "R-7-live-files.txt"),
    (Rule::UnknownCompactDropped, NOT_MET, "R-15-unknown.txt"),
    (Rule::HiddenPositionsIgnored, NOT_MET, "R-9-hidden.txt"),
    (Rule::GuardUnfinished, NOT_MET, "R-7-guard.txt"),
    (Rule::ContinueKnowsNewest, NOT_MET, "R-8-hidden.txt"),
];

const NOT_MET: &str = "no counterexample in 100,000 states of each world";

const EARLIER: &str = "what it refuses was refused when it was published: PositionsCompared";
const BACKED: &str = "another rule stands behind it: see below";
const CONTENT: &str = "content that no commit here has";
const EMPTY: &str = "no commit is empty here";
const COST: &str = "it saves work; without it the result is right";
const RECORD: &str = "records here are whole and in order";
