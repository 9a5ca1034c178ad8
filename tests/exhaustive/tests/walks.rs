//! Random schedules of worlds that are too large to be exhausted: every invariant after every action.

use tidegate_exhaustive::{Bounds, Variant, walk::walk};

/// Schedules per world; `TIDEGATE_SCHEDULES` asks for more.
fn schedules() -> u64 {
    let asked = std::env::var("TIDEGATE_SCHEDULES").ok();
    asked.and_then(|n| n.parse().ok()).unwrap_or(60)
}

/// A fixed stream of schedules, so that nothing hangs on the day.
fn schedule(seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    };
    (0..200).map(|_| next()).collect()
}

fn worlds() -> [Bounds; 8] {
    let rough = |variant| Bounds {
        compaction: true,
        backlog: true,
        crashes: 2,
        lost: u8::MAX,
        late: 4,
        dropped: 3,
        refused: 2,
        stale: 3,
        failed: 3,
        retries: 4,
        cleaning: variant == Variant::Runs,
        liveness: true,
        ..Bounds::quiet(variant, 3, 4)
    };
    let alone = |variant| Bounds {
        compaction: false,
        notes: 2,
        restarts: 4,
        cleaning: false,
        ..Bounds {
            committers: 1,
            ..rough(variant)
        }
    };
    [
        // Notes, expiry and others who write.
        Bounds {
            compaction: true,
            expired: 4,
            foreign: 3,
            ..alone(Variant::Jobs)
        },
        // Foreigners that put over.
        Bounds {
            foreign: 3,
            racing: true,
            stale: 0,
            ..alone(Variant::Jobs)
        },
        // A person rolls back between runs.
        Bounds {
            rollbacks: 2,
            idle: true,
            foreign: 1,
            late: 0,
            stale: 0,
            ..alone(Variant::Runs)
        },
        // Older records and ways out.
        Bounds {
            older: 2,
            ways: 2,
            retained: 3,
            late: 0,
            stale: 0,
            ..alone(Variant::Runs)
        },
        // An engine without the guard.
        Bounds {
            older: 2,
            unguarded: true,
            retained: 3,
            committers: 2,
            ..alone(Variant::Runs)
        },
        rough(Variant::Jobs),
        rough(Variant::Runs),
        Bounds {
            expired: 9,
            ..rough(Variant::Jobs)
        },
    ]
}

#[test]
fn no_schedule_of_a_large_world_breaks_anything() {
    for seed in 0..schedules() {
        for bounds in worlds() {
            let result = walk(bounds, &schedule(seed));
            assert_eq!(result, Ok(()), "schedule {seed} of {bounds}");
        }
    }
}
