//! `setsockopt(2)` of UDP.

use std::io;
use std::mem::size_of;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

/// Makes the kernel split sent data into packets of `bytes` payload each (Linux 4.18), so that one
/// call costs little more than one packet.
///
/// # Errors
/// Errors of the kernel.
pub(crate) fn cut_into(socket: &UdpSocket, bytes: u16) -> io::Result<()> {
    let value = libc::c_int::from(bytes);
    // SAFETY: `value` outlives the call, and its true size is given.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_UDP,
            libc::UDP_SEGMENT,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if done == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_call_sends_several_packets() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        receiver
            .set_read_timeout(Some(std::time::Duration::from_secs(10)))
            .unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.connect(receiver.local_addr().unwrap()).unwrap();
        cut_into(&sender, 100).unwrap();
        assert_eq!(sender.send(&[7; 250]).unwrap(), 250);
        let lengths = [(); 3].map(|()| receiver.recv(&mut [0; 1000]).unwrap());
        assert_eq!(lengths, [100, 100, 50]);
    }
}
