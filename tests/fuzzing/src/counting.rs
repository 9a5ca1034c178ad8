//! An allocator that knows how much a piece of work held at most.
#![allow(unsafe_code, reason = "an allocator that counts is unsafe to write")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

/// The system's allocator, counted per thread. A program that wants [`peak_of`] to see anything makes
/// it its `#[global_allocator]`.
#[derive(Debug)]
pub struct Counting;

fn count(change: isize) {
    let _gone = HELD.try_with(|held| {
        held.set(held.get() + change);
        let _gone = PEAK.try_with(|peak| peak.set(peak.get().max(held.get())));
    });
}

fn signed(size: usize) -> isize {
    isize::try_from(size).unwrap_or(isize::MAX / 4)
}

// Every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(signed(layout.size()));
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(signed(layout.size()));
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // As if both were held for a moment: the system may have to copy.
        count(signed(size));
        count(-signed(layout.size()));
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-signed(layout.size()));
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Runs `work` and says how many bytes its thread held at most meanwhile, beyond what it held before.
pub fn peak_of<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = HELD.with(Cell::get);
    PEAK.with(|peak| peak.set(before));
    let result = work();
    let peak = PEAK.with(Cell::get) - before;
    (result, usize::try_from(peak).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[global_allocator]
    static ALLOCATOR: Counting = Counting;

    #[test]
    fn the_count_sees_an_allocation_that_is_gone_again() {
        let ((), peak) = peak_of(|| drop(std::hint::black_box(vec![0u8; 1 << 20])));
        assert!((1 << 20..1 << 21).contains(&peak), "{peak}");
    }

    #[test]
    #[should_panic(expected = "are allowed")]
    fn a_check_that_holds_too_much_is_told() {
        let greedy = |input: &[u8]| drop(std::hint::black_box(vec![0u8; 1000 * input.len()]));
        crate::bounded(greedy, |length| 100 * length, &[0; 64]);
    }
}
