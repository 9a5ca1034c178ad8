//! The small worlds, exhausted in every build; the large ones are `cargo xtask check`.

use tidegate_exhaustive::effects::End;
use tidegate_exhaustive::{Action, Bounds, Variant, World, explore, find_bug, worlds};
use tidegate_protocol::Rules;

#[test]
fn nothing_breaks_in_any_interleaving_of_the_small_worlds() {
    for bounds in worlds::small() {
        let explored = explore(bounds, 1, None, |_, _, _| ());
        assert_eq!(explored.found, None, "{bounds}");
        assert!(explored.exhausted, "{bounds}: {explored:?}");
        println!(
            "{bounds}: {} states, {} different",
            explored.reached, explored.unique
        );
    }
}

/// Foreign committers, persons, engines without a guard: those worlds that are small enough.
#[test]
fn nothing_breaks_where_somebody_outside_the_protocol_takes_part() {
    let mut exhausted = 0;
    for bounds in worlds::with_others() {
        let explored = explore(bounds, 1, Some(60_000), |_, _, _| ());
        assert_eq!(explored.found, None, "{bounds}");
        exhausted += usize::from(explored.exhausted);
    }
    assert!(exhausted >= 9, "only {exhausted} are exhausted");
}

/// A rule whose absence nothing shows is worth its place where another one holds the line for it, and
/// only for it.
#[test]
fn of_two_lines_of_defence_either_holds_and_none_does_not() {
    for (rule, behind, bounds) in worlds::backed() {
        let look = |rules| find_bug(Bounds { rules, ..bounds }, worlds::MOST_PER_BUG);
        for one in [rule, behind] {
            let explored = look(Rules::without(one));
            assert_eq!(explored.found, None, "without {one:?}, {bounds}");
            assert!(explored.exhausted, "without {one:?}, {bounds}");
        }
        let both = look(Rules::without(rule).and_without(behind));
        assert!(
            both.found.is_some(),
            "without {rule:?} and {behind:?}, {bounds}"
        );
    }
}

/// Names are canonical and nothing hangs on chance: else a second run would see other states.
#[test]
fn a_world_has_the_same_states_in_every_run() {
    let bounds = Bounds {
        crashes: 1,
        lost: 1,
        ..Bounds::quiet(Variant::Runs, 2, 2)
    };
    let once = explore(bounds, 1, None, |_, _, _| ());
    let again = explore(bounds, 2, None, |_, _, _| ());
    assert_eq!(
        (once.found, once.unique, once.reached),
        (None, again.unique, again.reached)
    );
}

/// Found by the checker: snapshot 1 of job 1 lands where that of job 0 had expired, right below the
/// retained history, and job 1 dies before it looks. It is no history: its rows are in no snapshot that
/// readers get to, so the next run must not take the commit for published.
#[test]
fn what_was_put_in_place_of_an_expired_snapshot_is_not_taken_for_published() {
    let world = World::new(Bounds {
        crashes: 1,
        expired: 1,
        ..Bounds::quiet(Variant::Jobs, 2, 2)
    });
    let go = |who, times| vec![Action::Go(who, End::Well); times];
    let actions = [
        // Compares, records, reads an empty table; sleeps.
        vec![Action::Start(1)],
        go(1, 3),
        // Twice: records, reads, publishes, confirms, announces.
        vec![Action::Start(0)],
        go(0, 11),
        vec![Action::Expire],
        go(1, 1),
        vec![Action::Crash(1), Action::Start(1)],
        go(1, 1),
    ];
    let story = world.story(actions.concat());
    let created = |line: &String| {
        line.starts_with("job 1 run 1: publishes snapshot 1") && line.ends_with("created")
    };
    assert!(story.iter().any(created), "{story:#?}");
    let compared = |line: &String| line == "job 1 run 2: the table has 0 of what it restores";
    assert!(story.iter().any(compared), "{story:#?}");
    assert!(
        !story.iter().any(|line| line.starts_with("broken")),
        "{story:#?}"
    );
}

#[test]
fn rules_that_no_world_shows_name_a_script_that_does() {
    let scripts = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../crates/protocol/tests/scripts"
    );
    for (rule, _, script) in worlds::UNSEEN {
        let text = std::fs::read_to_string(format!("{scripts}/{script}")).unwrap();
        let rules = text.lines().find_map(|line| line.strip_prefix("# rules:"));
        let names = |name: &str| rules.is_some_and(|r| r.split_whitespace().any(|r| r == name));
        assert!(names(rule.name()), "{script} does not show {rule:?}");
    }
}
