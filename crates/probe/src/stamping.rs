//! Enabling of packet time stamps, effective from the first packet on.

use std::net::{Ipv4Addr, Ipv6Addr, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use crate::sys;

/// Maximum time to wait for the kernel; it takes a fraction of a millisecond on an idle machine.
const PATIENCE: Duration = Duration::from_millis(500);
const PAUSE: Duration = Duration::from_micros(200);

/// Enables all stamps of both directions on `socket` and waits until they take effect. Probing also
/// works with a kernel that has none.
pub(crate) fn start(socket: &impl AsFd) {
    if sys::ask_for_stamps(socket).is_ok() {
        wait_for_receive_stamps();
    }
}

/// Waits until the kernel stamps received packets. It does so only while a socket requests it, and
/// begins *some time after* the first request, since a worker patches its code
/// (`net_enable_timestamp` in net/core/dev.c). Packets received before have no stamp; therefore
/// packets are sent over loopback until one has.
///
/// Call it while a socket that requested stamps is open.
pub(crate) fn wait_for_receive_stamps() {
    let deadline = Instant::now() + PATIENCE;
    let Some(socket) = to_itself() else { return };
    while Instant::now() < deadline {
        if socket.send(&[0]).is_err() || !matches!(sys::wait(&socket, PATIENCE), Ok(true)) {
            return;
        }
        match sys::receive(&socket, &mut [0], false) {
            Ok(Some(got)) if got.software_ns.is_none() => std::thread::sleep(PAUSE),
            _ => return,
        }
    }
}

/// A loopback socket that receives its own packets, with receive stamps.
fn to_itself() -> Option<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))
        .or_else(|_| UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)))
        .ok()?;
    socket.connect(socket.local_addr().ok()?).ok()?;
    sys::ask_for_receive_stamps(&socket).ok()?;
    Some(socket)
}
