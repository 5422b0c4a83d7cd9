//! Supplementary groups of the process at the other end of a Unix socket (SO_PEERGROUPS).
#![allow(unsafe_code)]

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd as _, BorrowedFd};

use libc::{gid_t, socklen_t};

/// Groups for which there is room at first: more than most users have.
const USUAL: usize = 32;

/// Maximum number of groups of a process: NGROUPS_MAX of Linux.
const MAX: usize = 65_536;

/// The groups that the process had when it connected, without its primary group.
///
/// # Errors
/// The socket has no such option: it is not connected, or the kernel is older than Linux 4.13.
pub(crate) fn peer_groups(socket: BorrowedFd<'_>) -> io::Result<Vec<u32>> {
    match read(socket, USUAL) {
        Err(e) if e.raw_os_error() == Some(libc::ERANGE) => read(socket, MAX),
        groups => groups,
    }
}

fn read(socket: BorrowedFd<'_>, room: usize) -> io::Result<Vec<gid_t>> {
    let mut groups: Vec<gid_t> = vec![0; room];
    let size = size_of::<gid_t>();
    let mut length = socklen_t::try_from(room * size).map_err(io::Error::other)?;
    // SAFETY: the pointers are to a vector of `length` octets, whose elements may have any value,
    // and to that length; both live longer than the call.
    let code = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERGROUPS,
            groups.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if code != 0 {
        return Err(io::Error::last_os_error());
    }
    groups.truncate(length as usize / size);
    Ok(groups)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn groups_of_the_other_end_are_its_supplementary_ones() {
        let (near, _far) = UnixStream::pair().unwrap();
        let mut groups = peer_groups(near.as_fd()).unwrap();
        let own = nix::unistd::getgroups().unwrap();
        let mut own: Vec<u32> = own.into_iter().map(nix::unistd::Gid::as_raw).collect();
        groups.sort_unstable();
        own.sort_unstable();
        assert_eq!(groups, own);
        if own.len() > 1 {
            let error = read(near.as_fd(), 1).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::ERANGE));
        }
        let file = tempfile::tempfile().unwrap();
        assert!(peer_groups(file.as_fd()).is_err(), "no socket");
    }
}
