//! What the fuzz targets run, and `tests/fuzz_seeds.rs` on their seeds.
#![allow(dead_code, reason = "each target runs one of them")]

#[path = "../tests/model/mod.rs"]
mod model;
#[path = "../tests/script/mod.rs"]
mod script;

use model::{World, run};
use script::Script;
use tidegate_protocol::Rules;

/// The first byte says what may happen, the others are the schedule: every invariant holds after every
/// step.
pub(crate) fn schedules(data: &[u8]) {
    let [how, schedule @ ..] = data else { return };
    let world = World {
        crashes: how & 1 == 1,
        expiry: how & 2 == 2,
        rules: Rules::default(),
    };
    // Beyond that nothing new happens, only slowly.
    let schedule = schedule.get(..2000).unwrap_or(schedule);
    assert_eq!(run(schedule, world), Ok(()));
}

/// Lines of the script language, steps and facts in any order and with any numbers: the machines
/// refuse what is out of turn and never panic.
pub(crate) fn script(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    // A script that names a rule that is none is a mistake in a test, and ends it.
    let text: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let script = Script::parse("fuzz", &text.join("\n"));
    let _ = script.run(Rules::default());
}
