//! One schedule through a world that is too large to be exhausted.
//!
//! Owns: how a list of bytes chooses among the actions. Does not own: the world, which is the same.

use crate::bounds::Bounds;
use crate::check::Counterexample;
use crate::effects::End;
use crate::invariant::Invariant;
use crate::world::{Action, World};
use stateright::Model;

/// Actions of one schedule, the ones after its end included.
const MOST_ACTIONS: usize = 3000;

/// Below it a byte chooses among what happens without a fault.
const FAULTS_FROM: u8 = 176;

/// Follows a schedule; after its end everything goes on in turn and without a fault. `Err` is a broken
/// invariant.
pub fn walk(bounds: Bounds, schedule: &[u8]) -> Result<(), Counterexample> {
    let world = World::new(bounds);
    let Some(mut state) = world.init_states().into_iter().next() else {
        return Ok(());
    };
    let mut taken = Vec::new();
    let mut bytes = schedule.iter().copied();
    let mut actions = Vec::new();
    let broken = |invariant: Invariant, taken: &[Action]| Counterexample {
        invariant: invariant.text(),
        depth: taken.len(),
        story: world.story(taken.iter().copied()),
    };
    for turn in 0..MOST_ACTIONS {
        actions.clear();
        world.actions(&state, &mut actions);
        let byte = bytes.next();
        if byte.is_none_or(|byte| byte < FAULTS_FROM) {
            actions.retain(|action| is_benign(*action));
        }
        if byte.is_none() {
            // Whether anything is to be removed changes nothing about the end.
            actions.retain(|action| !matches!(action, Action::Plan(_)));
            if actions.is_empty() {
                let end = [
                    (Invariant::Ends, world.ends_alone(&state)),
                    (Invariant::Recovers, world.recovers(&state)),
                ];
                return match end.into_iter().find(|(_, holds)| !holds) {
                    Some((invariant, _)) => Err(broken(invariant, &taken)),
                    None => Ok(()),
                };
            }
        }
        let at = byte.map_or(turn, usize::from).checked_rem(actions.len());
        let Some(action) = at.and_then(|at| actions.get(at)).copied() else {
            continue;
        };
        taken.push(action);
        if let Some(next) = world.next_state(&state, action) {
            if let Some(found) = &next.broken {
                return Err(broken(found.invariant, &taken));
            }
            state = next;
        }
    }
    Err(broken(Invariant::Ends, &taken))
}

fn is_benign(action: Action) -> bool {
    match action {
        Action::Go(_, end) => end == End::Well,
        Action::Start(_) | Action::Land(_) | Action::Plan(_) | Action::Sweep(_) => true,
        Action::ForeignPut(_) => true,
        Action::Drop(..)
        | Action::Crash(_)
        | Action::Ahead(_)
        | Action::StartFrom(..)
        | Action::Resolve(..)
        | Action::Forget(_)
        | Action::ForeignRead
        | Action::RollBack(_)
        | Action::Expire => false,
    }
}
