//! An allocator that knows how much the calling thread holds.

#![allow(unsafe_code)] // GlobalAlloc is an unsafe trait

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

/// Counts, and leaves the work to the system's allocator.
pub struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Runs `work`; gives the most bytes that this thread held meanwhile, beyond what it held before.
pub fn peak_bytes(work: impl FnOnce()) -> usize {
    let before = HELD.get();
    PEAK.set(before);
    work();
    usize::try_from(PEAK.get() - before).unwrap_or_default()
}

/// Bytes that this thread holds now; less than zero where it frees what others made.
pub fn held_bytes() -> isize {
    HELD.get()
}

fn count(change: isize) {
    let held = HELD.get() + change;
    HELD.set(held);
    if held > PEAK.get() {
        PEAK.set(held);
    }
}

fn size(layout: Layout) -> isize {
    // A layout is never larger than isize::MAX.
    layout.size() as isize
}

// SAFETY: every call goes to the system's allocator unchanged; the counters are thread-locals
// without destructors and do not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(size(layout));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(size(layout));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_bytes: usize) -> *mut u8 {
        count(new_bytes as isize - size(layout));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(pointer, layout, new_bytes) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-size(layout));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}
