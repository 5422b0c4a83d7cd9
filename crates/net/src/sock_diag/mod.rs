//! Owners of TCP sockets of this host, asked for by the addresses of both ends (sock_diag(7)).
//!
//! A daemon that accepts a connection from its own host learns from the kernel which user and
//! control group opened the other end, and which DSCP the program has set there.

mod message;
mod owner;

use std::cell::Cell;
use std::io::{self, Read as _, Write as _};
use std::net::SocketAddr;

use socket2::{Domain, Protocol, Socket, Type};

use message::{ANSWER_BYTES, Answer, ends, parse, request};
pub use owner::SocketOwner;

/// Connection to the kernel's socket diagnostics. No privilege is needed.
#[derive(Debug)]
pub struct SockDiag {
    socket: Socket,
    sequence: Cell<u32>,
}

impl SockDiag {
    /// Opens it.
    ///
    /// # Errors
    /// Those of socket(2): the kernel has no socket diagnostics, or a filter refuses them.
    pub fn open() -> io::Result<Self> {
        let domain = Domain::from(libc::AF_NETLINK);
        let kind = Type::DGRAM.nonblocking().cloexec();
        let protocol = Protocol::from(libc::NETLINK_SOCK_DIAG);
        Ok(Self {
            socket: Socket::new(domain, kind, Some(protocol))?,
            sequence: Cell::new(0),
        })
    }

    /// The owner of the TCP socket with these ends, if it is one of this network namespace and a
    /// process holds it: a socket that was closed has none.
    /// Addresses must be of one family; IPv4 addresses mapped to IPv6 are taken as IPv4. The kernel
    /// answers at once: this does not block.
    ///
    /// # Errors
    /// The kernel refuses the request, or its answer is malformed.
    pub fn find(&self, local: SocketAddr, remote: SocketAddr) -> io::Result<Option<SocketOwner>> {
        self.sequence.set(self.sequence.get().wrapping_add(1));
        let sequence = self.sequence.get();
        let Some(request) = request(sequence, local, remote) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        (&self.socket).write_all(&request)?;
        let mut block = [0; ANSWER_BYTES];
        loop {
            let n = (&self.socket).read(&mut block)?;
            let octets = block.get(..n).unwrap_or_default();
            match parse(octets, sequence) {
                Some(Answer::Found(found, owner)) => {
                    // Where no socket has both ends, the kernel answers with a listener.
                    let is_it = found == ends(local, remote);
                    return Ok(owner.filter(|_| is_it));
                }
                Some(Answer::Error(libc::ENOENT)) => return Ok(None),
                Some(Answer::Error(e)) => return Err(io::Error::from_raw_os_error(e)),
                // The answer to a request that was given up.
                Some(Answer::Other) => {}
                None => return Err(io::ErrorKind::InvalidData.into()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::time::Instant;

    use socket2::SockRef;

    use super::*;

    fn connected(listener: &TcpListener) -> (TcpStream, SocketAddr, SocketAddr) {
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let ends = (client.local_addr().unwrap(), client.peer_addr().unwrap());
        (client, ends.0, ends.1)
    }

    /// The id of this process's control group, where version 2 is mounted.
    fn own_cgroup() -> Option<u64> {
        use std::os::unix::fs::MetadataExt as _;
        let mounts = std::fs::read_to_string("/proc/self/mounts").ok()?;
        let mut mounts = mounts.lines().map(|line| line.split(' '));
        let root = mounts.find_map(|mut fields| {
            let place = fields.nth(1)?;
            (fields.next() == Some("cgroup2")).then(|| place.to_owned())
        })?;
        let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
        let path = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
        Some(std::fs::metadata(root + path).ok()?.ino())
    }

    #[test]
    fn a_socket_is_found_with_its_user_group_and_dscp() {
        let diag = SockDiag::open().unwrap();
        let user = rustix::process::getuid().as_raw();
        for any in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(any) else {
                eprintln!("no {any} here");
                continue;
            };
            let (client, local, remote) = connected(&listener);
            let socket = SockRef::from(&client);
            match local {
                SocketAddr::V4(_) => socket.set_tos_v4(46 << 2).unwrap(),
                SocketAddr::V6(_) => socket.set_tclass_v6(46 << 2).unwrap(),
            }
            let owner = diag.find(local, remote).unwrap().unwrap();
            assert_eq!((owner.uid, owner.dscp()), (user, Some(46)), "{any}");
            if let Some(cgroup) = own_cgroup() {
                assert_eq!(owner.cgroup, Some(cgroup));
            }
            // The other end is another socket, and strangers have none here.
            assert!(
                diag.find(remote, local)
                    .unwrap()
                    .is_none_or(|o| o.uid == user)
            );
            let stranger = SocketAddr::new(local.ip(), 1);
            assert_eq!(diag.find(stranger, remote).unwrap(), None);
        }
    }

    /// The kernel answers with the listener of a port where no socket has both ends.
    #[test]
    fn a_listener_is_not_taken_for_the_connection_of_another_host_from_its_port() {
        let diag = SockDiag::open().unwrap();
        let listener = TcpListener::bind("0.0.0.0:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let client = SocketAddr::from(([203, 0, 113, 5], port));
        for here in ["127.0.0.1:1080", "203.0.113.9:443"] {
            let here = here.parse().unwrap();
            assert_eq!(diag.find(client, here).unwrap(), None, "{here}");
        }
        let own = SocketAddr::from(([127, 0, 0, 1], port));
        let here = "127.0.0.1:1".parse().unwrap();
        assert_eq!(diag.find(own, here).unwrap(), None);
    }

    /// The kernel names user 0 for a socket without a process.
    #[test]
    fn a_socket_that_was_closed_has_no_owner() {
        let diag = SockDiag::open().unwrap();
        for any in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(any) else {
                eprintln!("no {any} here");
                continue;
            };
            let (client, local, remote) = connected(&listener);
            let (accepted, _) = listener.accept().unwrap();
            assert!(diag.find(local, remote).unwrap().is_some());
            drop(client);
            assert_eq!(diag.find(local, remote).unwrap(), None, "FIN-WAIT-2");
            drop(accepted);
            assert_eq!(diag.find(local, remote).unwrap(), None, "TIME-WAIT");
        }
    }

    /// A socket of IPv6 that is connected over IPv4 is that of the IPv4 addresses.
    #[test]
    fn a_socket_of_ipv6_connected_over_ipv4_is_found() {
        let diag = SockDiag::open().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let remote = listener.local_addr().unwrap();
        let mapped = SocketAddr::from(([0, 0, 0, 0, 0, 0xffff, 0x7f00, 1], remote.port()));
        let client = Socket::new(Domain::IPV6, Type::STREAM, None).unwrap();
        if client.connect(&mapped.into()).is_err() {
            return eprintln!("no IPv6 here");
        }
        client.set_tos_v4(46 << 2).unwrap();
        let local = client.local_addr().unwrap().as_socket().unwrap();
        let owner = diag.find(local, remote).unwrap().unwrap();
        assert_eq!(owner.dscp(), Some(46));
    }

    #[test]
    fn mapped_addresses_are_ipv4_and_families_are_not_mixed() {
        let diag = SockDiag::open().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (_client, local, remote) = connected(&listener);
        let mapped = |a: SocketAddr| match a.ip() {
            std::net::IpAddr::V4(ip) => SocketAddr::new(ip.to_ipv6_mapped().into(), a.port()),
            std::net::IpAddr::V6(_) => a,
        };
        assert!(diag.find(mapped(local), mapped(remote)).unwrap().is_some());
        let v6 = "[::1]:1".parse().unwrap();
        assert!(diag.find(local, v6).is_err());
    }

    #[test]
    fn a_thousand_requests_take_milliseconds() {
        let diag = SockDiag::open().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (_client, local, remote) = connected(&listener);
        let start = Instant::now();
        for _ in 0..1_000 {
            assert!(diag.find(local, remote).unwrap().is_some());
        }
        eprintln!("figure: {:?} for each request", start.elapsed() / 1_000);
    }
}
