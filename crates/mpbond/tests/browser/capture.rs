//! Packets on a link other than those of the tunnel.

use std::fs::File;
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddrV4, UdpSocket};
use std::os::fd::AsRawFd;
use std::thread;
use std::time::{Duration, Instant};

use nix::ifaddrs::getifaddrs;
use nix::sched::{CloneFlags, setns};
use nix::sys::socket::bind;
use socket2::{Domain, Protocol, SockFilter, Socket, Type};

use crate::daemons::WITHIN;

/// Port of the packets that [`Capture::leaks`] sends itself.
const MARKER: u16 = 9;

/// A TCP connection's ends: those of a tunnel's hop.
#[derive(Clone, Copy)]
pub struct Hop {
    pub client: Ipv4Addr,
    pub server: SocketAddrV4,
}

/// A capture of the packets on an interface in both directions, except those of a hop.
pub struct Capture {
    pub interface: &'static str,
    socket: Socket,
    namespace: File,
    neighbour: Ipv4Addr,
}

impl Capture {
    /// Begins one in the network namespace of a process. `neighbour` is an address on the link.
    pub fn start(
        pid: u32,
        interface: &'static str,
        neighbour: Ipv4Addr,
        except: Option<Hop>,
    ) -> Self {
        let namespace = File::open(format!("/proc/{pid}/ns/net")).unwrap();
        let open = move || {
            let all = Protocol::from(i32::from((libc::ETH_P_ALL as u16).to_be()));
            let socket = Socket::new(Domain::PACKET, Type::RAW, Some(all)).unwrap();
            if let Some(hop) = except {
                socket.attach_filter(&others_than(hop)).unwrap();
            }
            let mut addresses = getifaddrs().unwrap().filter_map(|a| {
                let address = *a.address?.as_link_addr()?;
                (a.interface_name == interface).then_some(address)
            });
            let address = addresses.next().unwrap();
            // Its protocol is 0: that of the socket stays.
            bind(socket.as_raw_fd(), &address).unwrap();
            socket.set_nonblocking(true).unwrap();
            socket
        };
        Self {
            interface,
            socket: there(&namespace, open),
            namespace,
            neighbour,
        }
    }

    /// All packets until now, except those of the hop, of ARP and of Neighbor Discovery.
    ///
    /// # Panics
    /// When a packet that it sends itself is not captured.
    pub fn leaks(mut self) -> Vec<String> {
        let neighbour = self.neighbour;
        there(&self.namespace, move || {
            let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
            socket.send_to(b"the end", (neighbour, MARKER)).unwrap();
        });
        let marker = format!("to {neighbour} port {MARKER}");
        let deadline = Instant::now() + WITHIN;
        let mut leaks = Vec::new();
        loop {
            let mut frame = [0; 128];
            match self.socket.read(&mut frame) {
                Ok(_) => match describe(&frame) {
                    Some(text) if text.ends_with(&marker) => return leaks,
                    text => leaks.extend(text),
                },
                // Nothing there; or the link was down, which is an error once.
                Err(_) => thread::sleep(Duration::from_millis(10)),
            }
            let interface = self.interface;
            assert!(
                Instant::now() < deadline,
                "{interface}: no marker; {leaks:?}"
            );
        }
    }
}

/// Does something in a network namespace.
fn there<T: Send + 'static>(namespace: &File, act: impl FnOnce() -> T + Send + 'static) -> T {
    let namespace = namespace.try_clone().unwrap();
    let thread = thread::spawn(move || {
        setns(namespace, CloneFlags::CLONE_NEWNET).unwrap();
        act()
    });
    thread.join().unwrap()
}

/// A program of the kernel's packet filter that accepts all frames but those of a hop: many of them
/// would overflow the socket.
fn others_than(hop: Hop) -> Vec<SockFilter> {
    const LOAD_WORD: u16 = 0x20;
    const LOAD_HALF: u16 = 0x28;
    const LOAD_OCTET: u16 = 0x30;
    const LOAD_HALF_BEHIND_HEADER: u16 = 0x48;
    const HEADER_LENGTH: u16 = 0xb1;
    const EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    let [client, server] = [hop.client, *hop.server.ip()].map(u32::from);
    let port = u32::from(hop.server.port());
    // Lines of the two ends; EQUAL skips as many lines as its two figures say, if so and if not.
    let (accept, refuse) = (16, 17);
    let line = |code, value| SockFilter::new(code, 0, 0, value);
    let equal = |at: u8, value, then: u8, otherwise: u8| {
        SockFilter::new(EQUAL, then - at - 1, otherwise - at - 1, value)
    };
    vec![
        line(LOAD_HALF, 12), // type: IPv4
        equal(1, 0x0800, 2, accept),
        line(LOAD_OCTET, 23), // protocol: TCP
        equal(3, 6, 4, accept),
        line(HEADER_LENGTH, 14),
        line(LOAD_WORD, 26), // source
        equal(6, client, 7, 11),
        line(LOAD_WORD, 30), // destination
        equal(8, server, 9, accept),
        line(LOAD_HALF_BEHIND_HEADER, 16), // its port
        equal(10, port, refuse, accept),
        equal(11, server, 12, accept),
        line(LOAD_WORD, 30),
        equal(13, client, 14, accept),
        line(LOAD_HALF_BEHIND_HEADER, 14), // the source's port
        equal(15, port, refuse, accept),
        line(RETURN, 128),
        line(RETURN, 0),
    ]
}

/// Protocol, addresses and port of a frame's packet; `None` for ARP, Neighbor Discovery and the
/// multicast groups that it uses.
fn describe(frame: &[u8]) -> Option<String> {
    let half = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
    match half(12) {
        0x0806 => None,
        0x0800 => {
            let address = |at: usize| -> IpAddr {
                let octets: [u8; 4] = frame[at..at + 4].try_into().unwrap();
                octets.into()
            };
            let behind = 14 + usize::from(frame[14] & 0xf) * 4;
            let port = half(behind + 2);
            let (protocol, from, to) = (frame[23], address(26), address(30));
            Some(format!(
                "protocol {protocol} from {from} to {to} port {port}"
            ))
        }
        0x86dd => {
            let address = |at: usize| -> Ipv6Addr {
                let octets: [u8; 16] = frame[at..at + 16].try_into().unwrap();
                octets.into()
            };
            // RFC 4861; reports of groups (RFC 3810) have an option for routers before them.
            match (frame[20], frame[54]) {
                (58, 133..=136) => return None,
                (0, 58) if frame[62] == 143 => return None,
                _ => {}
            }
            let (protocol, from, to) = (frame[20], address(22), address(38));
            let port = half(56);
            Some(format!(
                "protocol {protocol} from {from} to {to} port {port}"
            ))
        }
        other => Some(format!("a frame of type {other:#06x}")),
    }
}
