//! Transfers over Ethernet frames, by the L2 pipe of the daemons (docs/pipes.md): the receiver with
//! their stream, the sender with its channel and socket and a loop of its own.
//!
//! The sender connects by TCP first. That connection shows whether both ends are on one link, and
//! carries their addresses, and the number and the key of the channel; data goes over frames only.
//! There is no authentication, as over TCP.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use mpbond_l2::Key;
use mpbond_net::l2::{
    FrameSocket, L2Stream, Mac, Next, OpenError, Port, PortConfig, Side, outcome,
};
use mpbond_net::tcp::TcpInfo;
use mpbond_units::Timestamp;
use nix::ifaddrs::{InterfaceAddress, getifaddrs};
use nix::poll::{PollFd, PollFlags, ppoll};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::Builder;
use tokio::time::timeout;

use super::file::{Sink, Source};
use super::options::SendOptions;
use super::pace::Pace;
use super::{BUFFER_BYTES, Moved};

/// First octets of both messages.
const GREETING: &[u8; 16] = b"mpbond-frames-1\n";
/// Offer of the sender: greeting, address, number of the channel, key.
const OFFER_BYTES: usize = 16 + 6 + 4 + 16;
/// Answer of the receiver: greeting, address.
const ANSWER_BYTES: usize = 16 + 6;
/// Octets of the headers of IPv4 and TCP without options: fewer than any packet has.
const HEADER_BYTES: u64 = 40;
/// Kind of the error of a sender whose receiver cannot take frames.
pub(super) const REFUSED: io::ErrorKind = io::ErrorKind::ConnectionRefused;
/// Pause while the queue of the interface is full, which nothing announces.
const QUEUE_RETRY: Duration = Duration::from_millis(1);

/// Sends over a channel that is offered on a connection to the receiver.
///
/// # Errors
/// Errors of sockets and files, or of the channel; `TimedOut` when the receiver takes nothing for
/// `patience`.
pub(super) fn send(
    options: &SendOptions,
    source: &mut Source,
    tcp: TcpStream,
    patience: Duration,
) -> io::Result<Moved> {
    let mut end = End::offer(tcp)?;
    let mut pace = Pace::new(options);
    let start = Instant::now();
    let mut taken_at = start;
    while let Some(due) = pace.due(start.elapsed()) {
        end.take()?;
        let most = due.min(end.port.channel().room());
        let most = usize::try_from(most)
            .unwrap_or(usize::MAX)
            .min(BUFFER_BYTES);
        if most > 0 {
            let data = source.next(most)?;
            if end.port.channel().write(data).map_err(io::Error::other)? < data.len() {
                return Err(io::ErrorKind::WriteZero.into());
            }
            pace.add(data.len());
            taken_at = Instant::now();
        }
        let next = end.give()?;
        if most > 0 && next == Next::Anything {
            continue;
        }
        let wait = match due {
            0 => pace.until_tick(start.elapsed()),
            _ => left(taken_at, patience)?,
        };
        end.wait(next, wait)?;
    }
    end.port.channel().finish();
    let mut unacknowledged = u64::MAX;
    loop {
        end.take()?;
        let next = end.give()?;
        let channel = end.port.channel();
        if channel.is_acknowledged() && channel.has_ended() {
            return Ok(Moved {
                bytes: pace.sent(),
                seconds: start.elapsed().as_secs_f64(),
                lost_bytes: None,
            });
        }
        if channel.unacknowledged() < unacknowledged {
            unacknowledged = channel.unacknowledged();
            taken_at = Instant::now();
        }
        end.wait(next, left(taken_at, patience)?)?;
    }
}

/// Receives over the channel of the first sender that connects.
///
/// # Errors
/// Errors of sockets and files, or of the channel; `TimedOut` when nothing arrives for `patience`.
pub(super) fn receive(
    listener: &TcpListener,
    sink: &mut Sink,
    patience: Duration,
) -> io::Result<Moved> {
    let (mut tcp, _) = listener.accept()?;
    tcp.set_read_timeout(Some(patience))?;
    // The connection is open as long as the channel.
    let (socket, config) = accept(&mut tcp)?;
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async { take(L2Stream::open(socket, config)?, sink, patience).await })
}

/// Takes what arrives, up to the end, with the task of the daemons: which arrivals wake it is part
/// of the cost.
async fn take(mut from: L2Stream, sink: &mut Sink, patience: Duration) -> io::Result<Moved> {
    let start = Instant::now();
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut bytes = 0;
    loop {
        let taken = timeout(patience, from.read(&mut buffer)).await?;
        // Of another kind than that of a time-out.
        let taken = taken.map_err(io::Error::other)?;
        if taken == 0 {
            break;
        }
        sink.write(buffer.get(..taken).unwrap_or_default())?;
        bytes += taken as u64;
    }
    let seconds = start.elapsed().as_secs_f64();
    // The sender has to know that all has arrived. One that has gone by then knew it.
    if from.shutdown().await.is_ok() {
        outcome(from.end()).await;
    }
    Ok(Moved {
        bytes,
        seconds,
        lost_bytes: None,
    })
}

/// Time that is left of `patience`.
fn left(since: Instant, patience: Duration) -> io::Result<Duration> {
    match patience.checked_sub(since.elapsed()) {
        Some(left) if !left.is_zero() => Ok(left),
        _ => Err(io::ErrorKind::TimedOut.into()),
    }
}

/// The end of a channel that sends, without an event loop: its ticks are as exact as those over
/// TCP.
struct End {
    port: Port,
    start: Instant,
    /// The connection of the offer, open as long as the channel.
    _tcp: TcpStream,
}

impl End {
    /// Offers a channel, and opens this end of it.
    fn offer(mut tcp: TcpStream) -> io::Result<Self> {
        let near = Near::of(&tcp)?;
        let mut secret = [0; 4 + 16];
        File::open("/dev/urandom")?.read_exact(&mut secret)?;
        let socket = near.socket(channel(&secret))?;
        let mut offer = GREETING.to_vec();
        offer.extend(socket.address().0);
        offer.extend(secret);
        tcp.write_all(&offer)?;
        let mut answer = [0; ANSWER_BYTES];
        tcp.read_exact(&mut answer).map_err(|e| match e.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => {
                io::Error::new(REFUSED, "the receiver has refused: it says why")
            }
            _ => e,
        })?;
        let peer = peer(
            &answer,
            "the receiver does not take frames: start it with the same \
                         --transport",
        )?;
        let config = config(&near, &secret, peer, Side::Primary);
        Ok(Self {
            port: Port::new(Timestamp::ZERO, socket, config)?,
            start: Instant::now(),
            _tcp: tcp,
        })
    }

    fn now(&self) -> Timestamp {
        Timestamp::ZERO + self.start.elapsed()
    }

    /// Takes the frames that have arrived.
    fn take(&mut self) -> io::Result<()> {
        let now = self.now();
        while self.port.receive(now)? {}
        Ok(())
    }

    /// Sends what is due.
    fn give(&mut self) -> io::Result<Next> {
        let now = self.now();
        let next = self.port.send(now)?;
        match self.port.channel().error() {
            Some(error) => Err(io::Error::other(error)),
            None => Ok(next),
        }
    }

    /// Waits for frames, for room if that is missing, and for the channel's next timer, at most for
    /// `longest`.
    fn wait(&mut self, next: Next, longest: Duration) -> io::Result<()> {
        let now = self.now();
        let timer = self.port.channel().next_timeout();
        let timer = timer.map_or(longest, |at| at.since(now));
        let both = PollFlags::POLLIN | PollFlags::POLLOUT;
        // While frames wait for the interface, what is due waits behind them.
        let (flags, most) = match next {
            Next::Anything => (PollFlags::POLLIN, timer),
            Next::Room => (both, timer.max(QUEUE_RETRY)),
            Next::Queue => (PollFlags::POLLIN, QUEUE_RETRY),
        };
        let mut fds = [PollFd::new(self.port.socket().as_fd(), flags)];
        match ppoll(&mut fds, Some(longest.min(most).into()), None) {
            Ok(_) | Err(nix::Error::EINTR) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }
}

/// Takes the offer of a channel; returns what opens this end of it.
pub(super) fn accept(tcp: &mut TcpStream) -> io::Result<(FrameSocket, PortConfig)> {
    let mut offer = [0; OFFER_BYTES];
    tcp.read_exact(&mut offer)?;
    let peer = peer(
        &offer,
        "the sender offers no frames: start it with the same --transport",
    )?;
    let mut secret = [0; 4 + 16];
    secret.copy_from_slice(offer.get(GREETING.len() + 6..).unwrap_or(&[0; 20]));
    let near = Near::of(tcp)?;
    let socket = near.socket(channel(&secret))?;
    let mut answer = GREETING.to_vec();
    answer.extend(socket.address().0);
    tcp.write_all(&answer)?;
    Ok((socket, config(&near, &secret, peer, Side::Helper)))
}

fn config(near: &Near, secret: &[u8; 20], peer: Mac, side: Side) -> PortConfig {
    let mut key = [0; 16];
    key.copy_from_slice(secret.get(4..).unwrap_or(&[0; 16]));
    PortConfig {
        channel: channel(secret),
        key: Key::from_bytes(key),
        side,
        mtu: near.mtu,
        peer,
    }
}

/// Number of a channel.
fn channel(secret: &[u8; 20]) -> u32 {
    let [a, b, c, d, ..] = *secret;
    u32::from_be_bytes([a, b, c, d])
}

/// Address of the other end in its message.
fn peer(message: &[u8], otherwise: &str) -> io::Result<Mac> {
    let address = message.strip_prefix(GREETING).and_then(<[u8]>::first_chunk);
    match address.copied().map(Mac) {
        Some(mac) if mac.is_of_one() => Ok(mac),
        _ => Err(io::Error::other(otherwise)),
    }
}

/// The interface by which the other end of a connection is directly connected.
struct Near {
    interface: String,
    mtu: u16,
}

impl Near {
    fn of(tcp: &TcpStream) -> io::Result<Self> {
        let ends = [tcp.local_addr()?, tcp.peer_addr()?].map(|end: SocketAddr| end.ip());
        let [local, peer] = ends.map(|ip| ip.to_canonical());
        let mut all = getifaddrs()?;
        let found = all
            .find(|own| is_between(own, local, peer))
            .ok_or_else(|| {
                io::Error::other(format!(
                    "{peer} is not on a link of this device: frames go no further"
                ))
            })?;
        let segment = TcpInfo::read(tcp)?.mss_bytes;
        Ok(Self {
            interface: found.interface_name,
            mtu: u16::try_from(segment + HEADER_BYTES).unwrap_or(u16::MAX),
        })
    }

    fn socket(&self, channel: u32) -> io::Result<FrameSocket> {
        FrameSocket::open(&self.interface, channel).map_err(|e| match e {
            OpenError::NotPermitted(interface) => io::Error::other(format!(
                "Ethernet frames on {interface} need CAP_NET_RAW: run this as root"
            )),
            e => io::Error::other(e),
        })
    }
}

/// Whether an interface with the address `local` is in the network of `peer`.
fn is_between(own: &InterfaceAddress, local: IpAddr, peer: IpAddr) -> bool {
    let masks = (own.address.as_ref(), own.netmask.as_ref());
    let (Some(address), Some(mask)) = masks else {
        return false;
    };
    let of = |address: &nix::sys::socket::SockaddrStorage| {
        let v4 = address.as_sockaddr_in().map(|a| IpAddr::V4(a.ip()));
        v4.or_else(|| address.as_sockaddr_in6().map(|a| IpAddr::V6(a.ip())))
    };
    let (Some(address), Some(mask)) = (of(address), of(mask)) else {
        return false;
    };
    address == local && peer != local && is_in(peer, local, mask)
}

/// Whether two addresses are in one network.
fn is_in(one: IpAddr, other: IpAddr, mask: IpAddr) -> bool {
    match (one, other, mask) {
        (IpAddr::V4(a), IpAddr::V4(b), IpAddr::V4(m)) => (a & m) == (b & m),
        (IpAddr::V6(a), IpAddr::V6(b), IpAddr::V6(m)) => (a & m) == (b & m),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_compared_by_their_mask() {
        for (one, other, mask, is_one) in [
            ("192.168.1.2", "192.168.1.9", "255.255.255.0", true),
            ("192.168.1.2", "192.168.2.9", "255.255.255.0", false),
            ("192.168.1.2", "192.168.2.9", "255.255.0.0", true),
            ("fe80::1", "fe80::9", "ffff:ffff:ffff:ffff::", true),
            ("2001:db8::1", "fe80::9", "ffff:ffff:ffff:ffff::", false),
            ("192.168.1.2", "fe80::9", "255.255.255.0", false),
        ] {
            let [one, other, mask] = [one, other, mask].map(|ip| ip.parse().unwrap());
            assert_eq!(is_in(one, other, mask), is_one, "{one} {other}");
        }
    }

    #[test]
    fn a_message_of_another_program_is_refused() {
        let mut message = GREETING.to_vec();
        message.extend([2, 0, 0, 0, 0, 7]);
        assert_eq!(peer(&message, "").unwrap(), Mac([2, 0, 0, 0, 0, 7]));
        // An address of a group, another greeting, a message that is cut.
        message[16] = 3;
        for bad in [
            &message[..],
            &[0; ANSWER_BYTES],
            &GREETING[..],
            &message[..20],
        ] {
            assert_eq!(peer(bad, "why").unwrap_err().to_string(), "why");
        }
    }
}
