//! The job started again, by the real binary, on a state of the disk.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use tidegate_tests::Lab;
use tidegate_tests::judge::{differences, look};

use crate::judge::{self, Facts};
use crate::scenario::{Scenario, TABLE};
use crate::tree::{Tree, is_temporary};

/// Puts a state onto a real disk, starts the job on it until it ends, then with more to do.
///
/// # Errors
/// In words where a row is lost, doubled or other than in the recorded run, a file is left over, or the
/// job does not go on.
pub fn restart(scenario: Scenario, tree: &Tree, rows: u128) -> Result<(), String> {
    let work = || {
        let lab = Lab::new();
        scenario.prepare_whole(&lab);
        tree.write(&lab.path("."), None);
        finish(scenario, &lab, rows)
    };
    // The rig of the labs fails by panicking.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        Err(text.unwrap_or_else(|| "the lab failed; the reason is above".to_owned()))
    })
}

/// Finishes the job in a lab and judges what is there.
///
/// # Errors
/// As [`restart`].
pub fn finish(scenario: Scenario, lab: &Lab, rows: u128) -> Result<(), String> {
    run(lab, &scenario.finishing())?;
    match judge::look_at(&lab.path(".")) {
        Facts::Table { rows: there, .. } if there == rows => {}
        Facts::Table { .. } => {
            return Err(format!(
                "the rows are other ones: {}",
                wrong(lab, scenario.rows())
            ));
        }
        other => return Err(format!("after the restart: {other:?}")),
    }
    // With rows of its own a run has a snapshot of its own, and cleans.
    let (args, all) = scenario.more(lab);
    run(lab, &args)?;
    let wrong = wrong(lab, all);
    if !wrong.is_empty() {
        return Err(format!("with more rows: {wrong}"));
    }
    if let Facts::Broken(why) = judge::look_at(&lab.path(".")) {
        return Err(format!("with more rows: {why}"));
    }
    let found = look(&lab.path(TABLE));
    if !found.dangling.is_empty() {
        return Err(format!("referenced and absent: {:?}", found.dangling));
    }
    if found.users.len() != 1 {
        return Err(format!("commit users: {:?}", found.users));
    }
    // A start's question whether the store can create stays where it was killed in it: nothing tells a
    // dead asker from a living one (docs/decisions/storage.md).
    let over: Vec<&String> = found
        .orphans
        .iter()
        .filter(|name| !name.contains(".tidegate-probe-"))
        .collect();
    if !over.is_empty() {
        return Err(format!("left over: {over:?}"));
    }
    let (tree, _) = Tree::read(&lab.path("checkpoints"));
    let over: Vec<_> = tree.0.keys().filter(|name| is_temporary(name)).collect();
    if !over.is_empty() {
        return Err(format!("left over in checkpoints: {over:?}"));
    }
    Ok(())
}

fn run(lab: &Lab, args: &[String]) -> Result<(), String> {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = lab.tidegate(&args);
    match done.code {
        Some(0) => Ok(()),
        code => Err(format!("exit code {code:?}: {}", done.stderr.trim())),
    }
}

/// Ids that are lost, doubled or strange, in words.
fn wrong(lab: &Lab, rows: u64) -> String {
    match judge::ids(Path::new(&lab.path("."))) {
        Ok(ids) => differences(&ids, rows.cast_signed()),
        Err(why) => why,
    }
}
