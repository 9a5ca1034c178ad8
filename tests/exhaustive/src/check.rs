//! Runs of the checker.
//!
//! Owns: exhausting a world, and looking for the shortest counterexample in one. Does not own: printing.

use crate::bounds::Bounds;
use crate::world::World;
use stateright::report::{ReportData, ReportDiscovery, Reporter};
use stateright::{Checker, HasDiscoveries, Model};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// What was explored.
#[derive(Clone, Debug, PartialEq)]
pub struct Explored {
    /// States reached, each as often as an action led to it.
    pub reached: usize,
    /// Different states.
    pub unique: usize,
    /// The longest path looked at.
    pub depth: usize,
    /// How long it took.
    pub took: Duration,
    /// False where the checker stopped before its end.
    pub exhausted: bool,
    /// What was found.
    pub found: Option<Counterexample>,
}

/// A way to break an invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counterexample {
    /// What is broken.
    pub invariant: &'static str,
    /// Actions of the model.
    pub depth: usize,
    /// What happens, each step a line.
    pub story: Vec<String>,
}

/// Called now and then with states reached, different states and the time that passed.
pub type Progress = fn(usize, usize, Duration);

struct Watch(Progress);

impl Reporter<World> for Watch {
    fn report_checking(&mut self, data: ReportData) {
        if !data.done {
            (self.0)(data.total_states, data.unique_states, data.duration);
        }
    }

    fn report_discoveries(&mut self, _: &World, _: BTreeMap<&'static str, ReportDiscovery<World>>) {
    }

    fn delay(&self) -> Duration {
        Duration::from_millis(250)
    }
}

fn report<M: Checker<World>>(checker: &M, begun: Instant, exhausted: bool) -> Explored {
    let found = checker
        .discoveries()
        .into_iter()
        .map(|(invariant, path)| (path.clone().into_actions().len(), invariant, path))
        .min_by_key(|(depth, invariant, _)| (*depth, *invariant));
    let found = found.map(|(depth, invariant, path)| Counterexample {
        invariant,
        depth,
        story: World::new(checker.model().bounds).story(path.into_actions()),
    });
    Explored {
        reached: checker.state_count(),
        unique: checker.unique_state_count(),
        depth: checker.max_depth(),
        took: begun.elapsed(),
        exhausted: exhausted && found.is_none(),
        found,
    }
}

/// Looks at every state within `bounds`, depth first, since that needs little memory beside a number per
/// state; stops at the first counterexample, or at `most` states.
pub fn explore(
    bounds: Bounds,
    threads: usize,
    most: Option<usize>,
    progress: Progress,
) -> Explored {
    let begun = Instant::now();
    let mut builder = World::new(bounds)
        .checker()
        .threads(threads.max(1))
        .finish_when(HasDiscoveries::AnyFailures);
    if let Some(most) = most {
        builder = builder.target_state_count(most);
    }
    let checker = builder.spawn_dfs().join_and_report(&mut Watch(progress));
    let exhausted = most.is_none_or(|most| checker.state_count() < most);
    report(&checker, begun, exhausted)
}

/// Looks for the shortest counterexample, breadth first, in at most `most` states.
pub fn find_bug(bounds: Bounds, most: usize) -> Explored {
    let begun = Instant::now();
    let checker = World::new(bounds)
        .checker()
        .finish_when(HasDiscoveries::AnyFailures)
        .target_state_count(most)
        .spawn_bfs()
        .join();
    let exhausted = checker.state_count() < most;
    report(&checker, begun, exhausted)
}
