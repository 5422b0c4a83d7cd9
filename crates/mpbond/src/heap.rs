//! Memory that is free goes back to the system (malloc_trim(3)).
#![allow(unsafe_code)]

/// Gives free pages back, wherever they lie. The allocator by itself gives back only what lies at
/// the end of its heap, so that one small piece there keeps everything below it.
pub(crate) fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: the call takes no pointer, and any thread may make it at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}
