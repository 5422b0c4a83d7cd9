//! Stamps of packets that are there from the first packet on.

use std::net::{Ipv4Addr, Ipv6Addr, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use crate::sys;

/// As long as the kernel may take; it takes a fraction of a millisecond where the machine is idle.
const PATIENCE: Duration = Duration::from_millis(500);
const PAUSE: Duration = Duration::from_micros(200);

/// Asks for all stamps of both directions on `socket`, and waits until they come. A kernel that has
/// none still lets us probe.
pub(crate) fn start(socket: &impl AsFd) {
    if sys::ask_for_stamps(socket).is_ok() {
        wait_for_receive_stamps();
    }
}

/// The kernel stamps received packets only while a socket wants it, and begins *some time after* the
/// first one asked: it leaves the patching of its own code to a worker (`net_enable_timestamp` in
/// net/core/dev.c). What comes until then has no stamp. So packets are sent to ourselves until one
/// has one.
///
/// Call it while a socket that asked is open.
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

/// A socket over loopback that hears what it says, with its arrivals stamped.
fn to_itself() -> Option<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))
        .or_else(|_| UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)))
        .ok()?;
    socket.connect(socket.local_addr().ok()?).ok()?;
    sys::ask_for_receive_stamps(&socket).ok()?;
    Some(socket)
}
