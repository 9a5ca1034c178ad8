//! The same on a real S3 server: conditional put, the server's own copies, uploads in parts.

use tidegate_files::Format;
use tidegate_sink::probe;
use tidegate_storage::{Fault, Faults, Op, Rule};

use crate::rig::*;

#[test]
fn killed_at_every_place_every_row_is_there_once_and_finals_are_copied_by_the_server() {
    for place in probe::ALL {
        let mut rig = Rig::s3(Format::Csv, rows_in_splits(2, 4)).parallel(2);
        assert!(crash_at(&rig, place, 1), "{place} was not passed");
        rig.store = rig.store.with_own_metrics();
        rig.block_on(rig.finish());
        rig.grow(40..45);
        rig.block_on(rig.finish());
        rig.block_on(rig.assert_exactly_once(45, place));
        let counted = rig.store.metrics();
        assert!(counted.of(Op::Copy).requests > 0, "{place}: {counted:?}");
        assert_eq!(counted.of(Op::GetRange).requests, 0, "{place}: {counted:?}");
    }
}

#[test]
fn a_fault_at_a_copy_or_at_the_log_leaves_every_row_once() {
    for op in [Op::Copy, Op::Create] {
        for fault in [
            Fault::After,
            Fault::DieBefore,
            Fault::DieAfter,
            Fault::LateAfter(3),
        ] {
            let rig = Rig::s3(Format::JsonLines, rows_in_splits(1, 3));
            let faults = Faults::new();
            faults.rule(Rule::new(fault).on(op).path("rows/"));
            let ended = rig.block_on(rig.run_with(&faults));
            assert!(!faults.log().is_empty(), "{op} {fault:?}: {ended:?}");
            rig.block_on(faults.release());
            rig.block_on(rig.finish());
            rig.grow(15..20);
            rig.block_on(rig.finish());
            rig.block_on(rig.assert_rows(20, &format!("{op} {fault:?}")));
        }
    }
}
