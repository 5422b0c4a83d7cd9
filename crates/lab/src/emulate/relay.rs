//! The relay at the far end of a link, which continues connections from the caller's own network.
//!
//! Its two sockets are opened in the namespace at the far end and passed to this process, which
//! never left the caller's network: so no privilege is needed to get back into it.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use tokio::io::copy_bidirectional_with_sizes;
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::forward::Forward;

/// Time limit of connecting to a target.
const CONNECT_WITHIN: Duration = Duration::from_secs(30);
/// Time limit of a DNS response; resolvers give up earlier.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Size of the copy buffers.
const COPY_BYTES: usize = 1 << 16;
/// Maximum size of a UDP payload.
const DATAGRAM_BYTES: usize = 65_535;
/// Maximum number of pending DNS queries; further ones are dropped.
const MAX_QUESTIONS: usize = 256;
const DNS_PORT: u16 = 53;

/// Passes two descriptors to the process at the other end of `line`.
///
/// # Errors
/// Errors of the kernel.
pub(super) fn send(line: &UnixStream, fds: [BorrowedFd; 2]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(&fds)) {
        return Err(io::Error::other("descriptors are missing"));
    }
    sendmsg(
        line,
        &[IoSlice::new(b"!")],
        &mut ancillary,
        SendFlags::empty(),
    )?;
    Ok(())
}

/// The two descriptors from [`send`]; `None` when the other end is closed.
fn receive(line: &UnixStream) -> io::Result<Option<[OwnedFd; 2]>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let parts = &mut [IoSliceMut::new(&mut byte)];
    recvmsg(line, parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let mut fds = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(some) = message {
            fds.extend(some);
        }
    }
    Ok(fds.try_into().ok())
}

/// Serves the link whose inner end is at `line`, until the process ends. `gateway` is the address
/// of its far end.
pub(super) fn serve(line: UnixStream, gateway: Ipv4Addr, forwards: Vec<Forward>) {
    let served = || -> io::Result<()> {
        let Some([tcp, dns]) = receive(&line)? else {
            return Ok(());
        };
        let (tcp, dns) = (
            std::net::TcpListener::from(tcp),
            std::net::UdpSocket::from(dns),
        );
        tcp.set_nonblocking(true)?;
        dns.set_nonblocking(true)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let tasks = tokio::task::LocalSet::new();
        tasks.block_on(&runtime, async {
            let (tcp, dns) = (TcpListener::from_std(tcp)?, UdpSocket::from_std(dns)?);
            tokio::task::spawn_local(answer_names(dns));
            accept(tcp, gateway, forwards.into()).await
        })
    };
    if let Err(e) = served() {
        eprintln!("mpbond: the relay at the link's near end failed: {e}");
    }
}

async fn accept(tcp: TcpListener, gateway: Ipv4Addr, forwards: Rc<[Forward]>) -> io::Result<()> {
    loop {
        let near = match tcp.accept().await {
            Ok((near, _)) => near,
            Err(e) if is_of_the_connection(&e) => continue,
            // No descriptor left: wait until connections have ended.
            Err(_) => {
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let forwards = forwards.clone();
        tokio::task::spawn_local(async move {
            let Ok(to) = socket2::SockRef::from(&near).original_dst_v4() else {
                return;
            };
            let Some(SocketAddr::V4(to)) = to.as_socket() else {
                return;
            };
            let target = target((*to.ip()).into(), to.port(), gateway, &forwards);
            let far = timeout(CONNECT_WITHIN, TcpStream::connect(target.as_str())).await;
            match far {
                Ok(Ok(far)) => carry(near, far).await,
                // The program sees the refusal after its handshake.
                _ => reset(&near),
            }
        });
    }
}

fn is_of_the_connection(e: &io::Error) -> bool {
    matches!(
        e.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::Interrupted
    )
}

/// Target of a connection to `ip` and `port`: a port of the gateway leads to its forward or to the
/// caller's own port; everything else is its own target.
fn target(ip: IpAddr, port: u16, gateway: Ipv4Addr, forwards: &[Forward]) -> String {
    if ip != IpAddr::V4(gateway) {
        return SocketAddr::new(ip, port).to_string();
    }
    match forwards.iter().find(|forward| forward.port == port) {
        Some(forward) => forward.to.clone(),
        None => SocketAddr::from((Ipv4Addr::LOCALHOST, port)).to_string(),
    }
}

async fn carry(mut near: TcpStream, mut far: TcpStream) {
    // Small messages must not wait for each other (Nagle's algorithm).
    let _ = near.set_nodelay(true);
    let _ = far.set_nodelay(true);
    let carried = copy_bidirectional_with_sizes(&mut near, &mut far, COPY_BYTES, COPY_BYTES).await;
    if carried.is_err() {
        reset(&near);
        reset(&far);
    }
}

/// Makes closing the connection a reset.
fn reset(stream: &TcpStream) {
    let _ = socket2::SockRef::from(stream).set_linger(Some(Duration::ZERO));
}

/// Forwards DNS queries to the caller's name server.
async fn answer_names(dns: UdpSocket) {
    let Some(server) = name_server() else {
        return;
    };
    let dns = Rc::new(dns);
    let places = Arc::new(Semaphore::new(MAX_QUESTIONS));
    let mut question = vec![0; DATAGRAM_BYTES];
    loop {
        let Ok((length, from)) = dns.recv_from(&mut question).await else {
            continue;
        };
        let Ok(place) = places.clone().try_acquire_owned() else {
            continue;
        };
        let question = question[..length].to_vec();
        let dns = dns.clone();
        tokio::task::spawn_local(async move {
            let answer = timeout(ANSWER_WITHIN, ask(server, &question)).await;
            if let Ok(Ok(answer)) = answer {
                let _ = dns.send_to(&answer, from).await;
            }
            drop(place);
        });
    }
}

async fn ask(server: SocketAddr, question: &[u8]) -> io::Result<Vec<u8>> {
    let any: SocketAddr = match server {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (std::net::Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(any).await?;
    socket.connect(server).await?;
    socket.send(question).await?;
    let mut answer = vec![0; DATAGRAM_BYTES];
    let length = socket.recv(&mut answer).await?;
    answer.truncate(length);
    Ok(answer)
}

/// The first of the caller's name servers.
fn name_server() -> Option<SocketAddr> {
    let text = std::fs::read_to_string("/etc/resolv.conf").ok()?;
    Some(SocketAddr::new(first_name_server(&text)?, DNS_PORT))
}

fn first_name_server(text: &str) -> Option<IpAddr> {
    text.lines()
        .filter_map(|line| line.trim().strip_prefix("nameserver")?.trim().parse().ok())
        .next()
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn connections_are_forwarded_to_their_targets() {
        let gateway = Ipv4Addr::new(100, 64, 77, 2);
        let forwards = ["80=web.example:8080".parse().unwrap()];
        let to = |ip: [u8; 4], port| target(IpAddr::from(ip), port, gateway, &forwards);
        assert_eq!(to([198, 51, 100, 1], 80), "198.51.100.1:80");
        assert_eq!(to([100, 64, 77, 2], 80), "web.example:8080");
        assert_eq!(to([100, 64, 77, 2], 81), "127.0.0.1:81");
    }

    #[test]
    fn name_servers_are_found() {
        let text = "# nameserver 1.1.1.1\nsearch example\nnameserver fe80::1%eth0\n\
                    nameserver 192.0.2.53\nnameserver 192.0.2.54\n";
        let found = first_name_server(text);
        assert_eq!(found, Some(IpAddr::from([192, 0, 2, 53])));
        assert_eq!(first_name_server("search example\n"), None);
    }

    #[test]
    fn descriptors_come_through() {
        let (near, far) = UnixStream::pair().unwrap();
        let (one, two) = (UnixStream::pair().unwrap(), UnixStream::pair().unwrap());
        send(&near, [one.0.as_fd(), two.0.as_fd()]).unwrap();
        let [first, second] = receive(&far).unwrap().unwrap();
        for (got, mut peer) in [(first, one.1), (second, two.1)] {
            use std::io::{Read, Write};
            UnixStream::from(got).write_all(b"x").unwrap();
            let mut byte = [0];
            peer.read_exact(&mut byte).unwrap();
            assert_eq!(&byte, b"x");
        }
        drop(near);
        assert!(receive(&far).unwrap().is_none());
    }
}
