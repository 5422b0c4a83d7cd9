//! `ioctl(2)` on `/dev/net/tun`.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;

nix::ioctl_write_ptr_bad!(
    tun_set_iff,
    nix::request_code_write!(b'T', 202, size_of::<libc::c_int>()),
    libc::ifreq
);

nix::ioctl_write_ptr_bad!(
    tun_set_carrier,
    nix::request_code_write!(b'T', 226, size_of::<libc::c_int>()),
    libc::c_int
);

/// Sets the carrier of the device behind `file`, which [`open`] returned.
///
/// # Errors
/// `ENOTTY` from kernels before 5.0.
pub(crate) fn set_carrier(file: &File, carrier: bool) -> io::Result<()> {
    let value = libc::c_int::from(carrier);
    // SAFETY: the descriptor is a TUN device's, and `value` an int as
    // TUNSETCARRIER demands.
    unsafe { tun_set_carrier(file.as_raw_fd(), &value) }?;
    Ok(())
}

/// Creates a TUN device called `name` in the calling thread's network namespace.
///
/// The descriptor is non-blocking; each read or write is one IP packet without any header before
/// it. The device lives as long as the descriptor.
pub(crate) fn open(name: &str) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
        .open("/dev/net/tun")?;
    // SAFETY: an all-zero `ifreq` is a valid value of that C struct.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.is_empty() || name.len() >= request.ifr_name.len() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("\"{name}\" cannot be the name of an interface"),
        ));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: the descriptor is open and `request` is an initialised `ifreq`
    // whose name ends in a zero, as TUNSETIFF demands.
    unsafe { tun_set_iff(file.as_raw_fd(), &request) }?;
    Ok(file)
}
