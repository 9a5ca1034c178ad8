//! Arbitrary bytes as saved positions: an error or a state, never a panic; and what is read is
//! written back to equal bytes, since commits compare them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_runtime::source::SourceState;
use tidegate_sink::Positions;

fuzz_target!(|data: &[u8]| {
    let half = data.first().map_or(0, |n| usize::from(*n)).min(data.len());
    let (active, finished) = data.split_at(half);
    for positions in [
        Positions { active: active.to_vec(), finished: finished.to_vec() },
        Positions { active: data.to_vec(), finished: Vec::new() },
    ] {
        if let Ok(state) = SourceState::from_positions(&positions) {
            let again = state.to_positions();
            let read = SourceState::from_positions(&again).expect("what was written can be read");
            assert_eq!(read, state);
        }
    }
});
