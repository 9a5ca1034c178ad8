//! The five labs of the founding issue, faster; `cargo xtask chaos --labs` runs them at full time
//! scale, with pypaimon as a second judge.

use tidegate_tests::labs::{self, Scale};

#[test]
fn lab_1_one_snapshot_per_checkpoint_with_rows() {
    labs::lab_1(&Scale::FAST, &mut |line| println!("{line}"));
}

#[test]
fn lab_2_unbounded_without_checkpoints_is_refused_and_publishes_nothing_when_allowed() {
    labs::lab_2(&Scale::FAST, &mut |line| println!("{line}"));
}

#[test]
fn lab_3_and_4_killed_after_row_120_then_an_older_checkpoint_and_each_way_out() {
    let lab = labs::lab_3(&Scale::FAST, &mut |line| println!("{line}"));
    labs::lab_4(&Scale::FAST, &lab, &mut |line| println!("{line}"));
}

#[test]
fn lab_5_the_identifier_of_a_published_snapshot_with_other_content_is_fenced() {
    labs::lab_5(&Scale::FAST, &mut |line| println!("{line}"));
}
