//! Probes of one datagram answered by one: ICMP Echo and mpbond's UDP probe. Any number may be in
//! flight.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};

use crate::background::Waker;
use crate::clock_offset::Exchange;
use crate::early::Expectation;
use crate::error::ProbeError;
use crate::message::Message;
use crate::options::{Method, Options};
use crate::place;
use crate::record::{KernelSource, Pair, Probe, Stamps, UserSource, WireSource};
use crate::stamping;
use crate::sys::{self, Received};

/// Maximum size of an answer, with an IP header.
const BUFFER: usize = 66_000;
/// Number of probes of a burst sent between reads of answers.
const DRAINED: u32 = 16;
/// Number of answered probes remembered in order to detect duplicates.
const REMEMBERED: u32 = 100_000;

/// Least interval of probes whose answers are awaited without sleeping, so that this takes a
/// quarter of a processor at most.
const SPARSE: Duration = Duration::from_millis(4);

/// A probe in flight.
struct Sent {
    begun: Instant,
    deadline: Instant,
    user_ns: u64,
    kernel_ns: Option<u64>,
    wire_ns: Option<u64>,
}

struct Engine<'a> {
    options: &'a Options,
    socket: Socket,
    kind: Kind,
    run: u64,
    /// Probes in flight by number.
    waiting: BTreeMap<u32, Sent>,
    /// Probe of each transmit stamp.
    keys: HashMap<u32, u32>,
    next_key: u32,
    answered: BTreeMap<u32, ()>,
    packet: Vec<u8>,
    buffer: Vec<u8>,
    expectation: Expectation,
}

/// Encapsulation of the payload.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Udp,
    /// The kernel fills in identifier and checksum, and filters answers.
    IcmpDatagram {
        v6: bool,
    },
    /// Answers to all programs arrive, for IPv4 with their IP header.
    IcmpRaw {
        v6: bool,
    },
}

/// Length of an ICMP header.
const ICMP: usize = 8;

pub(crate) fn run(
    options: &Options,
    each: &mut impl FnMut(Probe) -> bool,
) -> Result<(), ProbeError> {
    let (socket, kind) = open(options)?;
    sys::make_room(&socket);
    stamping::start(&socket);
    socket
        .set_nonblocking(true)
        .map_err(ProbeError::io("a socket"))?;
    let run = sys::now_ns() ^ u64::from(std::process::id()) << 40;
    Engine::new(options, socket, kind, run).run(each)
}

/// Number of ways in which probes can be encapsulated.
pub(crate) const WAYS: u8 = 5;

/// Passes datagrams to a run whose requests have all been sent, as if from the far end; probes that
/// they do not answer are lost. Nothing is sent. The number of the run is 7, and `way` selects the
/// encapsulation.
pub(crate) fn hear<'a>(
    options: &Options,
    way: u8,
    datagrams: impl Iterator<Item = &'a [u8]>,
    each: &mut impl FnMut(Probe) -> bool,
) -> io::Result<()> {
    const SENT_NS: u64 = 1_700_000_000_000_000_000;
    let kind = match way % WAYS {
        0 => Kind::Udp,
        1 => Kind::IcmpDatagram { v6: false },
        2 => Kind::IcmpDatagram { v6: true },
        3 => Kind::IcmpRaw { v6: false },
        _ => Kind::IcmpRaw { v6: true },
    };
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
    let mut engine = Engine::new(options, socket, kind, 7);
    let deadline = Instant::now();
    for seq in 0..options.count {
        let sent = Sent {
            begun: deadline,
            deadline,
            user_ns: SENT_NS,
            kernel_ns: Some(SENT_NS + 1),
            wire_ns: None,
        };
        engine.waiting.insert(seq, sent);
    }
    for (datagram, user_ns) in datagrams.zip(SENT_NS + 9..) {
        let bytes = datagram.len().min(BUFFER);
        for (to, from) in engine.buffer.iter_mut().zip(datagram) {
            *to = *from;
        }
        let got = Received {
            bytes,
            software_ns: Some(user_ns - 1),
            hardware_ns: None,
            sent_key: None,
        };
        let message = engine.unwrap(bytes);
        if let Some(probe) = message.and_then(|m| engine.answer(&m, &got, user_ns)) {
            each(probe);
        }
    }
    engine.expire(deadline, each);
    Ok(())
}

fn open(options: &Options) -> Result<(Socket, Kind), ProbeError> {
    let (target, v6) = (options.target, options.target.is_ipv6());
    let domain = Domain::for_address(target);
    let (socket, kind, to) = if options.method == Method::Udp {
        let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))
            .map_err(ProbeError::io("a UDP socket"))?;
        (socket, Kind::Udp, target)
    } else {
        let protocol = if v6 {
            Protocol::ICMPV6
        } else {
            Protocol::ICMPV4
        };
        let to = SocketAddr::new(target.ip(), 0);
        match Socket::new(domain, Type::DGRAM, Some(protocol)) {
            Ok(socket) => (socket, Kind::IcmpDatagram { v6 }, to),
            Err(_) => {
                let socket =
                    Socket::new(domain, Type::RAW, Some(protocol)).map_err(ProbeError::Icmp)?;
                (socket, Kind::IcmpRaw { v6 }, to)
            }
        }
    };
    place::bind(&socket, options)?;
    socket
        .connect(&to.into())
        .map_err(ProbeError::io("no way to the target"))?;
    Ok((socket, kind))
}

impl<'a> Engine<'a> {
    fn new(options: &'a Options, socket: Socket, kind: Kind, run: u64) -> Self {
        Self {
            options,
            socket,
            kind,
            run,
            waiting: BTreeMap::new(),
            keys: HashMap::new(),
            next_key: 0,
            answered: BTreeMap::new(),
            packet: Vec::new(),
            buffer: vec![0; BUFFER],
            expectation: Expectation::new(),
        }
    }

    fn run(&mut self, each: &mut impl FnMut(Probe) -> bool) -> Result<(), ProbeError> {
        let waker = match self.options.warm_up {
            Some(_) => Some(Waker::new(self.options)?),
            None => None,
        };
        let start = Instant::now();
        let lead = self.options.warm_up.unwrap_or_default();
        let (mut bursts, mut sent, mut woken) = (0_u32, 0_u32, false);
        loop {
            let now = Instant::now();
            let next = start + lead + self.options.interval * bursts;
            let all_sent = sent >= self.options.count;
            if !all_sent && !woken && now + lead >= next {
                if let Some(waker) = &waker {
                    waker.wake();
                }
                woken = true;
            }
            if !all_sent && now >= next {
                for nth in 1..=self.options.burst {
                    if sent < self.options.count {
                        self.send(sent)?;
                        sent += 1;
                    }
                    // First answers arrive while the last requests are sent; they would wait
                    // otherwise, or overflow the buffer.
                    if nth % DRAINED == 0 && !self.answers(each)? {
                        return Ok(());
                    }
                }
                bursts += 1;
                woken = false;
                continue;
            }
            if !self.expire(now, each) || (all_sent && self.waiting.is_empty()) {
                return Ok(());
            }
            let mut until = self.waiting.values().map(|s| s.deadline).min();
            if !all_sent {
                let wake = if woken {
                    next
                } else {
                    next - lead.min(next - start)
                };
                until = Some(until.map_or(wake, |u| u.min(wake)));
            }
            let ready = self
                .wait(now, until.unwrap_or(now))
                .map_err(ProbeError::io("poll"))?;
            if ready && !self.answers(each)? {
                return Ok(());
            }
        }
    }

    /// Waits until an answer or a transmit stamp is there, without sleeping while an answer is
    /// expected; `false` at the latest at `until`.
    fn wait(&self, now: Instant, until: Instant) -> io::Result<bool> {
        let sparse = self.options.burst == 1 && self.options.interval >= SPARSE;
        let expected = self.waiting.values().filter(|_| sparse);
        let expected = expected.filter_map(|s| self.expectation.of(s.begun));
        let expected = expected.filter(|(_, to)| *to > now).min();
        match expected {
            Some((from, to)) if from <= now => {
                let until = to.min(until);
                loop {
                    if sys::wait(&self.socket, Duration::ZERO)? {
                        return Ok(true);
                    }
                    if Instant::now() >= until {
                        return Ok(false);
                    }
                }
            }
            Some((from, _)) => {
                let limit = from.min(until).saturating_duration_since(now);
                sys::wait(&self.socket, limit)
            }
            None => sys::wait(&self.socket, until.saturating_duration_since(now)),
        }
    }

    fn send(&mut self, seq: u32) -> Result<(), ProbeError> {
        let message = Message {
            is_answer: false,
            run: self.run,
            seq,
            t2_ns: 0,
            t3_ns: 0,
        };
        self.packet.clear();
        let head = if self.kind == Kind::Udp { 0 } else { ICMP };
        self.packet
            .resize(head + self.options.size_bytes.max(crate::message::LEAST), 0);
        if let Some(body) = self.packet.get_mut(head..) {
            message.write(body);
        }
        self.wrap(seq);
        let begun = Instant::now();
        let deadline = begun + self.options.timeout;
        let user_ns = sys::now_ns();
        match self.socket.send(&self.packet) {
            Ok(_) => {
                self.keys.insert(self.next_key, seq);
                self.next_key = self.next_key.wrapping_add(1);
            }
            // An earlier probe was refused, or the path is blocked at present: this one is lost.
            Err(e) if passing(&e) => {}
            Err(e) => return Err(ProbeError::io("sending a probe")(e)),
        }
        self.waiting.insert(
            seq,
            Sent {
                begun,
                deadline,
                user_ns,
                kernel_ns: None,
                wire_ns: None,
            },
        );
        Ok(())
    }

    /// Writes the ICMP header before the payload (RFC 792; RFC 4443, section 4).
    fn wrap(&mut self, seq: u32) {
        let v6 = match self.kind {
            Kind::Udp => return,
            Kind::IcmpDatagram { v6 } | Kind::IcmpRaw { v6 } => v6,
        };
        let id = (self.run as u16).to_be_bytes();
        let number = (seq as u16).to_be_bytes();
        let header = [
            if v6 { 128 } else { 8 },
            0,
            0,
            0,
            id[0],
            id[1],
            number[0],
            number[1],
        ];
        for (to, from) in self.packet.iter_mut().zip(header) {
            *to = from;
        }
        // For ICMPv6 the kernel computes it.
        if !v6 {
            let sum = checksum(&self.packet).to_be_bytes();
            for (to, from) in self.packet.iter_mut().skip(2).zip(sum) {
                *to = from;
            }
        }
    }

    /// Reports timed-out probes as lost.
    fn expire(&mut self, now: Instant, each: &mut impl FnMut(Probe) -> bool) -> bool {
        while let Some(first) = self.waiting.first_entry() {
            if first.get().deadline > now {
                break;
            }
            let (seq, _) = first.remove_entry();
            if !each(Probe::lost(seq, self.options.method)) {
                return false;
            }
        }
        true
    }

    fn answers(&mut self, each: &mut impl FnMut(Probe) -> bool) -> Result<bool, ProbeError> {
        loop {
            let got = match sys::receive(&self.socket, &mut self.buffer, false) {
                Ok(Some(got)) => got,
                Ok(None) => break,
                Err(e) if passing(&e) => continue,
                Err(e) => return Err(ProbeError::io("receiving")(e)),
            };
            let user_ns = sys::now_ns();
            // The probe's own transmit stamp was queued before its answer could arrive.
            self.transmit_stamps();
            let Some(message) = self.unwrap(got.bytes) else {
                continue;
            };
            let Some(probe) = self.answer(&message, &got, user_ns) else {
                continue;
            };
            if !each(probe) {
                return Ok(false);
            }
        }
        self.transmit_stamps();
        Ok(true)
    }

    /// The probe message in a received datagram.
    fn unwrap(&self, bytes: usize) -> Option<Message> {
        let mut data = self.buffer.get(..bytes)?;
        if self.kind == (Kind::IcmpRaw { v6: false }) {
            let header = usize::from(data.first()? & 0xf) * 4;
            data = data.get(header..)?;
        }
        match self.kind {
            Kind::Udp => {
                let message = Message::read(data)?;
                return (message.run == self.run && message.is_answer).then_some(message);
            }
            Kind::IcmpDatagram { v6 } | Kind::IcmpRaw { v6 } => {
                let reply = if v6 { 129 } else { 0 };
                if *data.first()? != reply {
                    return None;
                }
            }
        }
        let message = Message::read(data.get(ICMP..)?)?;
        (message.run == self.run).then_some(message)
    }

    fn answer(&mut self, message: &Message, got: &Received, user_ns: u64) -> Option<Probe> {
        let method = self.options.method;
        let Some(sent) = self.waiting.remove(&message.seq) else {
            // Late answers to lost probes are not duplicates.
            self.answered.get(&message.seq)?;
            let mut again = Probe::answered(message.seq, method, Stamps::default(), None);
            again.duplicate = true;
            return Some(again);
        };
        self.expectation.took(sent.begun.elapsed());
        self.answered.insert(message.seq, ());
        if let Some(old) = message.seq.checked_sub(REMEMBERED) {
            self.answered.remove(&old);
        }
        let pair = |out: Option<u64>, came: Option<u64>| Some((out?, came?));
        let stamps = Stamps {
            user: Some(Pair {
                source: UserSource::ClockGettime,
                out_ns: sent.user_ns,
                in_ns: user_ns,
            }),
            kernel: pair(sent.kernel_ns, got.software_ns).map(|(out_ns, in_ns)| Pair {
                source: KernelSource::SoTimestamping,
                out_ns,
                in_ns,
            }),
            wire: pair(sent.wire_ns, got.hardware_ns).map(|(out_ns, in_ns)| Pair {
                source: WireSource::Hardware,
                out_ns,
                in_ns,
            }),
        };
        let mut probe = Probe::answered(message.seq, method, stamps, None);
        probe.run = Some(self.run);
        if method == Method::Udp {
            probe.exchange = Some(Exchange {
                t1_ns: sent.kernel_ns.unwrap_or(sent.user_ns),
                t2_ns: message.t2_ns,
                t3_ns: message.t3_ns,
                t4_ns: got.software_ns.unwrap_or(user_ns),
            });
        }
        Some(probe)
    }

    fn transmit_stamps(&mut self) {
        let mut nothing = [0; 256];
        while let Ok(Some(got)) = sys::receive(&self.socket, &mut nothing, true) {
            let Some(seq) = got.sent_key.and_then(|key| self.keys.get(&key)) else {
                continue;
            };
            if let Some(sent) = self.waiting.get_mut(seq) {
                sent.kernel_ns = sent.kernel_ns.or(got.software_ns);
                sent.wire_ns = sent.wire_ns.or(got.hardware_ns);
            }
        }
        if self.waiting.is_empty() {
            self.keys.clear();
        }
    }
}

/// Whether an error concerns an earlier packet, or a path that may recover.
fn passing(e: &io::Error) -> bool {
    use io::ErrorKind::{
        ConnectionRefused, HostUnreachable, Interrupted, NetworkDown, NetworkUnreachable,
        WouldBlock,
    };
    matches!(
        e.kind(),
        ConnectionRefused
            | HostUnreachable
            | NetworkUnreachable
            | WouldBlock
            | Interrupted
            | NetworkDown
    ) || e.raw_os_error() == Some(libc::ENOBUFS)
}

/// Internet checksum (RFC 1071).
fn checksum(data: &[u8]) -> u16 {
    let mut sum: u32 = 0;
    for pair in data.chunks(2) {
        let (high, low) = (pair.first(), pair.get(1));
        sum += u32::from(*high.unwrap_or(&0)) << 8 | u32::from(*low.unwrap_or(&0));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 1071, section 3: the sum of these octets is ddf2.
    #[test]
    fn checksums_agree_with_the_rfc() {
        assert_eq!(
            checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]),
            !0xddf2
        );
    }
}
