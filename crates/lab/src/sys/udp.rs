//! Many datagrams by one call: `setsockopt(2)` of UDP, and `sendmmsg(2)`.

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
    set(socket, libc::UDP_SEGMENT, bytes.into())
}

/// Makes the kernel join received datagrams of one sender and size, which one call then returns
/// (Linux 5.0).
///
/// # Errors
/// Errors of the kernel.
#[cfg(feature = "measurements")]
pub(crate) fn take_many(socket: &UdpSocket) -> io::Result<()> {
    set(socket, libc::UDP_GRO, 1)
}

/// Sets an option of UDP.
fn set(socket: &UdpSocket, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
    // SAFETY: `value` outlives the call, and its true size is given.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_UDP,
            option,
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

/// Sends `data` in datagrams of `bytes` each on a connected socket, by one call, and returns the
/// number of bytes that were sent.
///
/// # Errors
/// Errors of the kernel, for the first datagram.
#[cfg(feature = "measurements")]
pub(crate) fn send_many(socket: &UdpSocket, data: &[u8], bytes: usize) -> io::Result<usize> {
    let parts: Vec<&[u8]> = data.chunks(bytes.max(1)).collect();
    let mut slices: Vec<libc::iovec> = (parts.iter())
        .map(|part| libc::iovec {
            iov_base: part.as_ptr().cast_mut().cast(),
            iov_len: part.len(),
        })
        .collect();
    let mut messages: Vec<libc::mmsghdr> = (slices.iter_mut())
        .map(|slice| {
            // SAFETY: a structure of integers and pointers, for which zero is valid: no address,
            // no control data.
            let mut message: libc::mmsghdr = unsafe { std::mem::zeroed() };
            message.msg_hdr.msg_iov = slice;
            message.msg_hdr.msg_iovlen = 1;
            message
        })
        .collect();
    let count = libc::c_uint::try_from(messages.len()).unwrap_or(libc::c_uint::MAX);
    // SAFETY: the messages, their slices and the data outlive the call; the kernel only reads the
    // data.
    let sent = unsafe { libc::sendmmsg(socket.as_raw_fd(), messages.as_mut_ptr(), count, 0) };
    let Ok(sent) = usize::try_from(sent) else {
        return Err(io::Error::last_os_error());
    };
    Ok(parts.iter().take(sent).map(|part| part.len()).sum())
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

    #[test]
    #[cfg(feature = "measurements")]
    fn many_are_sent_by_one_call() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        receiver
            .set_read_timeout(Some(std::time::Duration::from_secs(10)))
            .unwrap();
        take_many(&receiver).unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.connect(receiver.local_addr().unwrap()).unwrap();
        assert_eq!(send_many(&sender, &[7; 250], 100).unwrap(), 250);
        let lengths = [(); 3].map(|()| receiver.recv(&mut [0; 1000]).unwrap());
        assert_eq!(lengths, [100, 100, 50]);
    }
}
