//! Ports on loopback for daemons that a test starts.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

/// First of the ports. They lie below those that the kernel gives to sockets that ask for none
/// (`net.ipv4.ip_local_port_range`, from 32768).
const FIRST: u16 = 12_000;
/// Number of ports.
const COUNT: u16 = 20_000;
const _: () = assert!(FIRST + COUNT < 32_768);
/// Distance of the first ports of two processes with consecutive ids: more than one of them uses.
const APART: u32 = 211;

/// An address on loopback where nothing listens, returned once.
///
/// Its port stays free until the test uses it, also while a daemon is restarted: it is no port that
/// the kernel chooses for a connection or for a listener of another test, and a client that calls
/// before the daemon listens cannot be connected to itself.
///
/// # Panics
/// When all ports are in use.
pub fn free_address() -> SocketAddr {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let start = process::id().wrapping_mul(APART);
    for _ in 0..COUNT {
        let offset = start.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % u32::from(COUNT);
        let port = u16::try_from(offset).map_or(FIRST, |offset| FIRST + offset);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        if TcpListener::bind(address).is_ok() {
            return address;
        }
    }
    panic!("no port on loopback is free");
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, PoisonError};

    use super::*;

    /// One test at a time takes ports: one could listen on what the other was just told is free.
    static ALONE: Mutex<()> = Mutex::new(());

    #[test]
    fn addresses_are_free_and_returned_once() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let first = free_address();
        let listeners: Vec<_> = (0..50)
            .map(|_| TcpListener::bind(free_address()).unwrap())
            .collect();
        assert!(listeners.iter().all(|l| l.local_addr().unwrap() != first));
        TcpListener::bind(first).unwrap();
    }

    #[test]
    fn ports_in_use_are_left_out() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let next = free_address().port() + 20;
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, next));
        let ports: Vec<u16> = (0..40).map(|_| free_address().port()).collect();
        assert!(taken.is_err() || !ports.contains(&next), "{ports:?}");
    }
}
