//! An allocator that knows how much a piece of work held at most.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

struct Counting;

fn count(change: isize) {
    let _gone = HELD.try_with(|held| {
        held.set(held.get() + change);
        let _gone = PEAK.try_with(|peak| peak.set(peak.get().max(held.get())));
    });
}

// Every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Runs `work` and says how many bytes it held at most.
pub(crate) fn peak_of<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = HELD.with(Cell::get);
    PEAK.with(|peak| peak.set(before));
    let result = work();
    let peak = PEAK.with(Cell::get) - before;
    (result, usize::try_from(peak).unwrap_or(0))
}

#[test]
fn the_count_sees_an_allocation_that_is_gone_again() {
    let ((), peak) = peak_of(|| drop(std::hint::black_box(vec![0u8; 1 << 20])));
    assert!((1 << 20..1 << 21).contains(&peak), "{peak}");
}
