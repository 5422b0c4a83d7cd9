//! State of the kernel's clock: adjtimex(2).
#![allow(unsafe_code)]

/// Whether the clock is synchronised with others, by NTP or otherwise; `None` where the kernel does
/// not say.
pub(super) fn is_synchronised() -> Option<bool> {
    // SAFETY: all octets of the structure are integers, for which zero is a value.
    let mut state: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: the structure is the caller's, and lasts as long as the call, which changes nothing
    // else: no bit of `modes` is set.
    let clock = unsafe { libc::adjtimex(&raw mut state) };
    let is_marked = state.status & libc::STA_UNSYNC != 0;
    (clock >= 0).then_some(!is_marked && clock != libc::TIME_ERROR)
}
