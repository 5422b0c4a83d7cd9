//! `ioctl(2)` on `/dev/net/tun`: TUN interfaces.
#![allow(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;

/// Creates the TUN interface `name` in this thread's network namespace. It lives as long as the
/// descriptor and its copies.
///
/// # Errors
/// `ResourceBusy` while another process holds an interface of this name; `NotFound` where the
/// kernel or the container has no TUN; `PermissionDenied` without CAP_NET_ADMIN.
pub(super) fn create(name: &str) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_CLOEXEC | libc::O_NONBLOCK)
        .open("/dev/net/tun")?;
    // SAFETY: an all-zero `ifreq` is a valid value of that C struct.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // The last byte stays the terminating zero.
    let room = request.ifr_name.len() - 1;
    for (to, from) in request.ifr_name.iter_mut().take(room).zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: the descriptor is open, and `request` an initialised `ifreq` whose name ends in a
    // zero, as TUNSETIFF demands.
    match unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw const request) } {
        0 => Ok(file),
        _ => Err(io::Error::last_os_error()),
    }
}
