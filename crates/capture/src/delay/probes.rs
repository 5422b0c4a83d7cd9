//! Probes on the wire or on the air: times of request and answer, by the clock of the capturing
//! host ("Toward Accurate Network Delay Measurement on Android Phones", sections 2.3 and 3.1).

use core::net::{IpAddr, SocketAddr};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::Read;

use crate::error::CaptureError;
use crate::network::{Flow, Network, network};
use crate::reader::Reader;
use crate::record::{LinkType, Record};
use crate::source::{u16_at, u32_at};
use crate::wifi::{self, Frame};

use super::tcp::{TcpSegment, tcp};

/// Maximum number of probes kept; later ones are counted.
const MAX_PROBES: usize = 1 << 20;

/// Maximum time from a numbered question to its answer, ns: no path holds a packet for a minute,
/// and the numbers of pings take longer to wrap, unless there are more than 1,000 in a second.
const MAX_ANSWER_NS: u64 = 60_000_000_000;

/// First octets of datagrams of `mpbond probe`: magic and version. One octet for an answer, two
/// reserved, eight of the run and four of the probe's number follow, big-endian.
const MAGIC: [u8; 5] = *b"mpbP\x01";
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;
const UDP: u8 = 17;

/// Clock of the times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WireClock {
    /// Time stamps of the capture, since the Unix epoch.
    Capture,
    /// Clock of the sniffer's radio, since its start: more precise than the time at which its host
    /// was notified.
    Tsft,
}

/// Times of a probe and its answer; only their difference is meaningful to others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WireTimes {
    /// Clock.
    pub clock: WireClock,
    /// Interface of the capture whose radio's clock it is; `None` for time stamps of the capture.
    pub radio: Option<u32>,
    /// Time of the probe, t_n^o.
    pub out_ns: u64,
    /// Time of its answer, t_n^i.
    pub in_ns: u64,
}

/// Packets of one probe in a capture.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OnWire {
    question: Option<Sight>,
    answer: Option<Sight>,
    /// Number of times the request was captured: more than one when it was retransmitted or
    /// relayed.
    pub questions: u32,
    /// Number of times the answer was captured.
    pub answers: u32,
}

impl OnWire {
    /// Both times, if both were captured.
    ///
    /// The request counts from its first transmission, when it left the phone. The answer counts,
    /// on the air, at the last transmission of its frame, which ended the retransmissions, and
    /// where an access point relays it, at the relayed one; on a wire, at its first.
    pub fn times(&self) -> Option<WireTimes> {
        let (out, back) = (self.question?, self.answer?);
        if let (Some(out_us), Some(in_us)) = (out.tsft_us, back.tsft_us)
            && out.interface == back.interface
        {
            return Some(WireTimes {
                clock: WireClock::Tsft,
                radio: Some(out.interface),
                out_ns: out_us.saturating_mul(1000),
                in_ns: in_us.saturating_mul(1000),
            });
        }
        Some(WireTimes {
            clock: WireClock::Capture,
            radio: None,
            out_ns: out.at_ns,
            in_ns: back.at_ns,
        })
    }

    fn asked(&mut self, sight: Sight) {
        self.question.get_or_insert(sight);
        self.questions = self.questions.saturating_add(1);
    }

    /// Whether an answer comes too late to be that of this question.
    fn is_late(&self, answer: Sight) -> bool {
        let asked = self.question.map(|q| q.at_ns);
        asked.is_some_and(|at_ns| answer.at_ns.saturating_sub(at_ns) > MAX_ANSWER_NS)
    }

    fn answered(&mut self, sight: Sight) {
        self.answers = self.answers.saturating_add(1);
        match self.answer {
            // An answer to a request that was not captured belongs to somebody else.
            _ if self.question.is_none() => {}
            Some(before) if !sight.follows(&before) => {}
            _ => self.answer = Some(sight),
        }
    }
}

/// One packet as captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sight {
    at_ns: u64,
    tsft_us: Option<u64>,
    interface: u32,
    air: Option<Air>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Air {
    transmitter: Option<[u8; 6]>,
    sequence: Option<u16>,
    retry: bool,
    /// Whether it was sent by an access point.
    from_system: bool,
}

impl Sight {
    fn of(record: &Record<'_>, frame: Option<&Frame<'_>>) -> Self {
        Self {
            at_ns: record.at.as_nanos(),
            tsft_us: frame.and_then(|f| f.tsft_us),
            interface: record.interface,
            air: frame.map(|f| Air {
                transmitter: f.transmitter,
                sequence: f.sequence,
                retry: f.retry,
                from_system: f.data.get(1).is_some_and(|flags| flags & 3 == 2),
            }),
        }
    }

    /// Whether it is the same frame retransmitted, or relayed by the access point.
    fn follows(&self, before: &Self) -> bool {
        let (Some(air), Some(earlier)) = (self.air, before.air) else {
            return false;
        };
        let same = (air.transmitter, air.sequence) == (earlier.transmitter, earlier.sequence);
        (air.retry && same) || (air.from_system && !earlier.from_system)
    }
}

/// Protocol of a numbered probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// ICMP Echo.
    Icmp,
    /// Datagram to `mpbond probe-server`.
    Udp,
}

/// All probes in a capture.
#[derive(Debug, Clone, Default)]
pub struct WireProbes {
    /// Probes of `mpbond probe` by ICMP or UDP: by run and number.
    pub numbered: BTreeMap<(Protocol, u64, u32), OnWire>,
    /// Echo requests of other programs: by source, destination, identifier and number. Numbers wrap
    /// after 65 536 of them; the first counts, with an answer within a minute.
    pub pings: BTreeMap<(IpAddr, IpAddr, u16, u16), OnWire>,
    handshakes: BTreeMap<SocketAddr, Vec<Asked>>,
    requests: BTreeMap<SocketAddr, Vec<Asked>>,
    hellos: BTreeMap<SocketAddr, Vec<Asked>>,
    /// Addresses by port, for hosts behind address translation.
    clients: HashMap<u16, Vec<SocketAddr>>,
    kept: usize,
    /// Number of packets in the capture.
    pub records: u64,
    /// Number of encrypted frames, whose contents are not visible.
    pub sealed: u64,
    /// Number of frames that the sniffer received damaged, left out.
    pub damaged: u64,
    /// Number of packets dropped because of the limit.
    pub beyond: u64,
    /// Reason why reading stopped early.
    pub incomplete: Option<String>,
}

/// A request over TCP.
#[derive(Debug, Clone, Copy)]
struct Asked {
    server: SocketAddr,
    /// Sequence number of its first octet, and number acknowledged by the answer.
    sequence: u32,
    acknowledged: u32,
    /// End of the answer so far; for ClientHellos.
    end: Option<u32>,
    /// The client continued or closed the connection: later segments are not part of the answer.
    over: bool,
    seen: OnWire,
}

/// Kind of a request over TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Question {
    /// SYN.
    Opens,
    /// GET.
    Request,
    /// ClientHello.
    Hello,
}

/// Finds probes in a capture of Ethernet, raw IP or 802.11. Over TCP, only handshakes, HTTP
/// requests and TLS handshakes from `tcp_ports` count as probes.
///
/// # Errors
/// When it is not a capture. Probes after damage are missing, which the result reports.
pub fn wire_probes<R: Read>(
    file: &str,
    from: R,
    tcp_ports: &HashSet<u16>,
) -> Result<WireProbes, CaptureError> {
    let mut reader = Reader::new(file, from)?;
    let mut all = WireProbes::default();
    loop {
        match reader.next() {
            Ok(Some(record)) => all.record(&record, tcp_ports),
            Ok(None) => return Ok(all),
            Err(e) => {
                all.incomplete = Some(e.to_string());
                return Ok(all);
            }
        }
    }
}

impl WireProbes {
    /// The `nth` handshake from this address. A local address without IP address, or one that is
    /// not in the capture, is found by its port if only one host used it.
    pub fn handshake(&self, local: SocketAddr, nth: usize) -> Option<OnWire> {
        self.of(&self.handshakes, local, nth)
    }

    /// The `nth` request from this address.
    pub fn request(&self, local: SocketAddr, nth: usize) -> Option<OnWire> {
        self.of(&self.requests, local, nth)
    }

    /// The `nth` ClientHello from this address, with the server's flight: its last octet counts,
    /// since the client needs the whole flight (RFC 8446, section 2).
    pub fn hello(&self, local: SocketAddr, nth: usize) -> Option<OnWire> {
        self.of(&self.hellos, local, nth)
    }

    fn of(
        &self,
        asked: &BTreeMap<SocketAddr, Vec<Asked>>,
        local: SocketAddr,
        nth: usize,
    ) -> Option<OnWire> {
        let list = asked.get(&local).or_else(|| {
            match self.clients.get(&local.port()).map(Vec::as_slice) {
                Some([only]) => asked.get(only),
                _ => None,
            }
        });
        list?.get(nth).map(|a| a.seen)
    }

    fn record(&mut self, record: &Record<'_>, tcp_ports: &HashSet<u16>) {
        self.records += 1;
        if !matches!(record.link_type, LinkType::IEEE802_11 | LinkType::RADIOTAP) {
            if let Ok(packet) = network(record) {
                self.packet(&packet, Sight::of(record, None), tcp_ports);
            }
            return;
        }
        let Some(frame) = wifi::frame(record) else {
            return;
        };
        if frame.damaged {
            self.damaged += 1;
            return;
        }
        match wifi::packets(&frame) {
            Ok(packets) => {
                for packet in packets {
                    self.packet(&packet, Sight::of(record, Some(&frame)), tcp_ports);
                }
            }
            Err(wifi::Sealed) => self.sealed += 1,
        }
    }

    fn packet(&mut self, packet: &Network<'_>, sight: Sight, tcp_ports: &HashSet<u16>) {
        let Some(flow) = packet.flow else {
            return;
        };
        match flow.protocol {
            ICMP | ICMPV6 => self.icmp(&flow, packet, sight),
            UDP => self.udp(packet, sight),
            _ => {
                if let Some(segment) = tcp(packet) {
                    self.tcp(&flow, &segment, sight, tcp_ports);
                }
            }
        }
    }

    /// ICMP Echo (RFC 792; RFC 4443, section 4).
    fn icmp(&mut self, flow: &Flow, packet: &Network<'_>, sight: Sight) {
        let Some(message) = body(packet).filter(|m| m.len() >= 8) else {
            return;
        };
        let question = match message.first() {
            Some(8 | 128) => true,
            Some(0 | 129) => false,
            _ => return,
        };
        if let Some((run, number, _)) = own(message.get(8..).unwrap_or_default()) {
            let key = (Protocol::Icmp, run, number);
            return take(
                &mut self.numbered,
                key,
                &mut self.kept,
                &mut self.beyond,
                question,
                sight,
            );
        }
        let (identifier, number) = (u16_at(message, 4, true), u16_at(message, 6, true));
        let (asks, asked) = match question {
            true => (flow.source, flow.destination),
            false => (flow.destination, flow.source),
        };
        let key = (asks, asked, identifier, number);
        take(
            &mut self.pings,
            key,
            &mut self.kept,
            &mut self.beyond,
            question,
            sight,
        );
    }

    fn udp(&mut self, packet: &Network<'_>, sight: Sight) {
        let message = body(packet).and_then(|datagram| own(datagram.get(8..)?));
        if let Some((run, number, answer)) = message {
            let key = (Protocol::Udp, run, number);
            take(
                &mut self.numbered,
                key,
                &mut self.kept,
                &mut self.beyond,
                !answer,
                sight,
            );
        }
    }

    fn tcp(
        &mut self,
        flow: &Flow,
        segment: &TcpSegment<'_>,
        sight: Sight,
        tcp_ports: &HashSet<u16>,
    ) {
        let source = SocketAddr::new(flow.source, flow.source_port);
        let destination = SocketAddr::new(flow.destination, flow.destination_port);
        if tcp_ports.contains(&source.port()) {
            let opens = segment.syn && segment.acknowledged.is_none();
            let question = match segment.payload {
                _ if opens => Some(Question::Opens),
                payload if payload.starts_with(b"GET ") => Some(Question::Request),
                payload if is_client_hello(payload) => Some(Question::Hello),
                _ => None,
            };
            self.goes_on(source, destination, segment);
            if let Some(question) = question {
                let length = if opens { 1 } else { segment.bytes };
                let asked = Asked {
                    server: destination,
                    sequence: segment.sequence,
                    acknowledged: segment.sequence.wrapping_add(length),
                    end: None,
                    over: false,
                    seen: OnWire::default(),
                };
                self.asked(question, source, asked, sight);
            }
        }
        if tcp_ports.contains(&destination.port())
            && let Some(acknowledged) = segment.acknowledged
        {
            let lists = match segment.bytes {
                0 => &mut self.handshakes,
                _ => &mut self.requests,
            };
            let mut lists = lists.get_mut(&destination).into_iter().flatten();
            // The answer may arrive a second time; the latest request has the number.
            let asked = lists.rfind(|a| a.server == source && a.acknowledged == acknowledged);
            // An answer of several segments counts from the first.
            if let Some(asked) = asked
                && (asked.seen.answers == 0 || sight.air.is_some())
            {
                asked.seen.answered(sight);
            }
            if segment.bytes > 0 {
                self.flight(source, destination, segment, acknowledged, sight);
            }
        }
    }

    /// Data from the client after its ClientHello ends the server's flight.
    fn goes_on(&mut self, client: SocketAddr, server: SocketAddr, segment: &TcpSegment<'_>) {
        let hello = self
            .hellos
            .get_mut(&client)
            .and_then(|list| list.last_mut());
        if let Some(hello) = hello.filter(|h| h.server == server) {
            let later = is_before(hello.sequence, segment.sequence);
            hello.over |= segment.ends || (segment.bytes > 0 && later && hello.end.is_some());
        }
    }

    /// Adds a segment that may be part of the server's flight.
    fn flight(
        &mut self,
        server: SocketAddr,
        client: SocketAddr,
        segment: &TcpSegment<'_>,
        acknowledged: u32,
        sight: Sight,
    ) {
        let hello = self
            .hellos
            .get_mut(&client)
            .and_then(|list| list.last_mut());
        let Some(hello) = hello.filter(|h| h.server == server && !h.over) else {
            return;
        };
        if is_before(acknowledged, hello.acknowledged) {
            return;
        }
        let end = segment.sequence.wrapping_add(segment.bytes);
        let more = hello.end.is_none_or(|before| is_before(before, end));
        if more {
            hello.end = Some(end);
        }
        // The flight is complete with the last segment, retransmitted or not; only octets seen
        // before count as repeated.
        hello.seen.answer = Some(sight);
        let again = u32::from(!more || hello.seen.answers == 0);
        hello.seen.answers = hello.seen.answers.saturating_add(again);
    }

    fn asked(&mut self, question: Question, client: SocketAddr, mut asked: Asked, sight: Sight) {
        let lists = match question {
            Question::Opens => &mut self.handshakes,
            Question::Request => &mut self.requests,
            Question::Hello => &mut self.hellos,
        };
        // Numbers wrap after 4 GB: the latest counts.
        let again = lists
            .get_mut(&client)
            .and_then(|list| list.last_mut())
            .filter(|a| (a.server, a.sequence) == (asked.server, asked.sequence));
        if let Some(again) = again {
            return again.seen.asked(sight);
        }
        if self.kept >= MAX_PROBES {
            self.beyond += 1;
            return;
        }
        self.kept += 1;
        asked.seen.asked(sight);
        lists.entry(client).or_default().push(asked);
        let clients = self.clients.entry(client.port()).or_default();
        if !clients.contains(&client) {
            clients.push(client);
        }
    }
}

fn take<K: Ord>(
    all: &mut BTreeMap<K, OnWire>,
    key: K,
    kept: &mut usize,
    beyond: &mut u64,
    question: bool,
    sight: Sight,
) {
    if !all.contains_key(&key) {
        if *kept >= MAX_PROBES {
            *beyond += 1;
            return;
        }
        *kept += 1;
    }
    let seen = all.entry(key).or_default();
    match question {
        true => seen.asked(sight),
        false if seen.is_late(sight) => {}
        false => seen.answered(sight),
    }
}

/// Whether `a` precedes `b` in TCP sequence numbers, which wrap (RFC 9293, section 3.4).
fn is_before(a: u32, b: u32) -> bool {
    b.wrapping_sub(a) as i32 > 0
}

/// Whether a payload begins with a handshake record with a ClientHello (RFC 8446, sections 4 and
/// 5.1).
fn is_client_hello(payload: &[u8]) -> bool {
    matches!(payload, [22, 3, _, _, _, 1, ..])
}

/// Payload after the IP header; `None` for later fragments.
fn body<'a>(packet: &Network<'a>) -> Option<&'a [u8]> {
    let first = *packet.data.first()?;
    if first >> 4 != 4 {
        return packet.data.get(40..);
    }
    let fragment = u16_at(packet.data.get(..8)?, 6, true) & 0x1fff;
    let header = usize::from(first & 0xf) * 4;
    (fragment == 0).then(|| packet.data.get(header..)).flatten()
}

/// Run, number and whether it is an answer, for datagrams of `mpbond probe`.
fn own(datagram: &[u8]) -> Option<(u64, u32, bool)> {
    let head = datagram.get(..20)?;
    if !head.starts_with(&MAGIC) {
        return None;
    }
    let run = u64::from(u32_at(head, 8, true)) << 32 | u64::from(u32_at(head, 12, true));
    Some((run, u32_at(head, 16, true), head.get(5) == Some(&1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_after_more_than_a_minute_is_that_of_another_question() {
        let (mut all, mut kept, mut beyond) = (BTreeMap::new(), 0, 0);
        let mut packet = |number: u16, question: bool, at_s: u64| {
            let sight = Sight {
                at_ns: at_s * 1_000_000_000,
                tsft_us: None,
                interface: 0,
                air: None,
            };
            take(&mut all, number, &mut kept, &mut beyond, question, sight);
        };
        // Unanswered; its number comes again.
        packet(1, true, 100);
        packet(1, true, 1_000);
        packet(1, false, 1_001);
        packet(2, true, 1_000);
        packet(2, false, 1_060);
        assert_eq!((all[&1].times(), all[&1].answers), (None, 0));
        let times = all[&2].times().unwrap();
        assert_eq!(times.in_ns - times.out_ns, 60_000_000_000);
    }
}
