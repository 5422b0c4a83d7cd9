//! A counting allocator: bytes allocated by the calling thread.

#![allow(unsafe_code)] // GlobalAlloc is an unsafe trait

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

/// Counts allocations and delegates to the system's allocator.
pub struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Runs `work` and returns the peak of bytes allocated by this thread meanwhile, beyond those
/// allocated before.
pub fn peak_bytes(work: impl FnOnce()) -> usize {
    let before = HELD.get();
    PEAK.set(before);
    work();
    usize::try_from(PEAK.get() - before).unwrap_or_default()
}

/// Bytes currently allocated by this thread; negative if it has freed allocations of other threads.
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
        // SAFETY: the caller upholds the contract of this function, which is the system
        // allocator's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(size(layout));
        // SAFETY: the caller upholds the contract of this function, which is the system
        // allocator's.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_bytes: usize) -> *mut u8 {
        count(new_bytes as isize - size(layout));
        // SAFETY: the caller upholds the contract of this function, which is the system
        // allocator's.
        unsafe { System.realloc(pointer, layout, new_bytes) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-size(layout));
        // SAFETY: the caller upholds the contract of this function, which is the system
        // allocator's.
        unsafe { System.dealloc(pointer, layout) }
    }
}
