//! `getsockopt(2)` of Multipath TCP: bytes of each subflow.

use std::io;
use std::net::{Ipv4Addr, TcpStream};
use std::os::fd::AsRawFd;
use std::time::Duration;

/// `SOL_MPTCP`, `MPTCP_TCPINFO` and `MPTCP_SUBFLOW_ADDRS` of <linux/mptcp.h>.
const SOL_MPTCP: libc::c_int = 284;
const MPTCP_TCPINFO: libc::c_int = 2;
const MPTCP_SUBFLOW_ADDRS: libc::c_int = 3;
/// Maximum number of subflows; the kernel makes fewer.
const MAX_SUBFLOWS: usize = 9;
/// `struct mptcp_subflow_data`, before the elements: its own size, how many
/// there are (out), the kernel's size of one (out), ours (in).
const HEADER_BYTES: usize = 16;
/// The start of `struct tcp_info`, up to `tcpi_bytes_retrans`.
const INFO_BYTES: usize = 216;
const LAST_DATA_RECV: usize = 52;
const BYTES_RECEIVED: usize = 128;
const BYTES_SENT: usize = 200;
const BYTES_RETRANS: usize = 208;
/// `struct mptcp_subflow_addrs`: two of `struct sockaddr_storage`, of which
/// the first is ours.
const ADDRESSES_BYTES: usize = 256;
const IPV4_ADDRESS: usize = 4;

/// A subflow of a connection, by the kernel's account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Subflow {
    /// Source address.
    pub source: Ipv4Addr,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent, retransmissions not counted.
    pub bytes_out: u64,
    /// Time since it last received data, in the resolution of a clock tick.
    pub idle_in: Duration,
}

/// The subflows of `stream`.
///
/// # Errors
/// When it is not, or no longer, a Multipath TCP connection.
pub(crate) fn subflows(stream: &TcpStream) -> io::Result<Vec<Subflow>> {
    let infos = elements(stream, MPTCP_TCPINFO, INFO_BYTES)?;
    let addresses = elements(stream, MPTCP_SUBFLOW_ADDRS, ADDRESSES_BYTES)?;
    Ok(infos
        .iter()
        .zip(addresses)
        .map(|(i, a)| read(i, &a))
        .collect())
}

fn read(info: &[u8], addresses: &[u8]) -> Subflow {
    let sent = u64::from_ne_bytes(array(info, BYTES_SENT));
    let again = u64::from_ne_bytes(array(info, BYTES_RETRANS));
    Subflow {
        source: Ipv4Addr::from(array::<4>(addresses, IPV4_ADDRESS)),
        bytes_in: u64::from_ne_bytes(array(info, BYTES_RECEIVED)),
        bytes_out: sent.saturating_sub(again),
        idle_in: Duration::from_millis(u32::from_ne_bytes(array(info, LAST_DATA_RECV)).into()),
    }
}

/// N bytes from `at`; zeros beyond the end.
fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let found = bytes.get(at..at + N).and_then(|b| b.try_into().ok());
    found.unwrap_or([0; N])
}

/// One element of `bytes` for each subflow.
fn elements(stream: &TcpStream, option: libc::c_int, bytes: usize) -> io::Result<Vec<Vec<u8>>> {
    let mut buffer = vec![0_u8; HEADER_BYTES + MAX_SUBFLOWS * bytes];
    for (at, number) in [(0, HEADER_BYTES), (12, bytes)] {
        buffer[at..at + 4].copy_from_slice(&(number as u32).to_ne_bytes());
    }
    let mut length = buffer.len() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes into the buffer, which
    // is that long, and into `length` how many it wrote.
    let done = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            SOL_MPTCP,
            option,
            buffer.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    let count = u32::from_ne_bytes(array(&buffer, 4)) as usize;
    let elements = buffer.get(HEADER_BYTES..).unwrap_or_default();
    Ok(elements
        .chunks_exact(bytes)
        .take(count.min(MAX_SUBFLOWS))
        .map(<[u8]>::to_vec)
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_structures_are_read_in_place() {
        let mut info = vec![0xff_u8; INFO_BYTES];
        info[52..56].copy_from_slice(&12_u32.to_ne_bytes());
        info[128..136].copy_from_slice(&56_u64.to_ne_bytes());
        info[200..208].copy_from_slice(&34_u64.to_ne_bytes());
        info[208..216].copy_from_slice(&4_u64.to_ne_bytes());
        let mut addresses = vec![0xff_u8; ADDRESSES_BYTES];
        addresses[4..8].copy_from_slice(&[10, 77, 2, 1]);
        let want = Subflow {
            source: Ipv4Addr::new(10, 77, 2, 1),
            bytes_in: 56,
            bytes_out: 30,
            idle_in: Duration::from_millis(12),
        };
        assert_eq!(read(&info, &addresses), want);
    }

    #[test]
    fn plain_tcp_has_no_subflows() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert!(subflows(&stream).is_err());
    }
}
