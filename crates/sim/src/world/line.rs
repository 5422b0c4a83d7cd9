//! Lines: one connection attempt on a route and the subflow made of it, with both ends' state.

use std::collections::VecDeque;
use std::net::IpAddr;

use bytes::{Buf, Bytes, BytesMut};
use mpbond_manager::{DialId, RequestId};
use mpbond_session::{PathInfo, SubflowId, driving};
use mpbond_units::{BitRate, Timestamp};

use super::reporting::Reporting;
use crate::hop::Hop;
use crate::relay::Relay;
use crate::tcp::End;

/// Octets that TLS 1.3 adds to a record: header 5, content type 1, tag 16.
pub(super) const RECORD_OVERHEAD: u32 = 22;
const HEADER: usize = 5;
const TRAILER: usize = RECORD_OVERHEAD as usize - HEADER;

/// Octets of a TLS 1.3 handshake with certificates of Ed25519 or P-256 keys on both sides:
/// ClientHello; the server's flight; the client's.
pub(super) const CLIENT_HELLO: u64 = 300;
pub(super) const SERVER_FLIGHT: u64 = 1_100;
pub(super) const CLIENT_FLIGHT: u64 = 900;

/// Attempt of connections that are not the manager's: those of a session that takes no new streams.
pub(super) const DIAL: DialId = DialId(u64::MAX);

/// Stage of an end's connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// TCP's and TLS's handshakes.
    Handshake,
    /// Proxy: the record of the hello is expected.
    AwaitHello,
    /// The session has the subflow.
    Up(SubflowId),
    /// Closed.
    Gone,
}

/// A driver's state of one end of a subflow.
#[derive(Debug)]
pub(super) struct Io {
    pub(super) conn: Option<usize>,
    pub(super) end: End,
    pub(super) stage: Stage,
    /// Whether its socket has changed since it was last serviced.
    pub(super) dirty: bool,
    input: BytesMut,
    pub(super) rx_octets: u64,
    pub(super) tx_octets: u64,
    output: VecDeque<Bytes>,
    pub(super) blocked: bool,
    pub(super) room: u64,
    /// When the kernel's view of the path was last read, and its delivery rate then.
    pub(super) asked: Option<Timestamp>,
    rate: BitRate,
    /// TCP_NOTSENT_LOWAT that was set by the path's rate; zero before.
    lowat: u64,
}

impl Io {
    fn new(conn: Option<usize>, end: End) -> Self {
        Self {
            conn,
            end,
            stage: Stage::Handshake,
            dirty: true,
            input: BytesMut::new(),
            rx_octets: 0,
            tx_octets: 0,
            output: VecDeque::new(),
            blocked: false,
            room: 0,
            asked: None,
            rate: BitRate::ZERO,
            lowat: 0,
        }
    }

    /// Reads arrived octets from the socket. Returns their number.
    pub(super) fn fill(&mut self, socket: &mut dyn Hop) -> u64 {
        let before = self.input.len();
        while let Some(bytes) = socket.read(usize::MAX) {
            self.input.extend_from_slice(&bytes);
        }
        (self.input.len() - before) as u64
    }

    /// Whether so many octets have arrived that were not taken yet.
    pub(super) fn holds(&self, octets: u64) -> bool {
        self.input.len() as u64 >= octets
    }

    /// Takes a flight of the handshake, if all of its octets have arrived.
    pub(super) fn take_flight(&mut self, octets: u64) -> bool {
        let there = self.holds(octets);
        if there {
            self.input.advance(octets as usize);
            self.rx_octets += octets;
        }
        there
    }

    /// Queues a flight of the handshake.
    pub(super) fn put_flight(&mut self, octets: u64) {
        self.output.push_back(vec![0; octets as usize].into());
        self.tx_octets += octets;
    }

    /// The plaintext of the next record, if it has arrived completely.
    pub(super) fn next_record(&mut self) -> Option<Bytes> {
        let header = self.input.first_chunk::<HEADER>()?;
        let body = usize::from(u16::from_be_bytes([header[3], header[4]]));
        if self.input.len() < HEADER + body {
            return None;
        }
        self.input.advance(HEADER);
        let mut record = self.input.split_to(body).freeze();
        record.truncate(body - TRAILER);
        self.rx_octets += (HEADER + body) as u64;
        Some(record)
    }

    /// Queues a record with the overhead of its encryption.
    pub(super) fn queue_record(&mut self, plaintext: &[u8]) {
        let body = plaintext.len() + TRAILER;
        let mut record = Vec::with_capacity(HEADER + body);
        record.extend_from_slice(&[23, 3, 3]);
        record.extend_from_slice(&(body as u16).to_be_bytes());
        record.extend_from_slice(plaintext);
        record.resize(HEADER + body, 0);
        self.tx_octets += record.len() as u64;
        self.room = self.room.saturating_sub(plaintext.len() as u64);
        self.output.push_back(record.into());
    }

    /// Reads the kernel's view of the path, if that is due, and keeps its queue of unsent octets as
    /// short as the path's rate allows.
    pub(super) fn read_path(
        &mut self,
        now: Timestamp,
        socket: &mut dyn Hop,
        sending: bool,
    ) -> Option<PathInfo> {
        if !driving::is_path_info_due(now, self.asked, sending) {
            return None;
        }
        self.asked = Some(now);
        let path = socket.path_info(now);
        self.rate = path.delivery_rate;
        if let Some(bytes) = driving::tuned_lowat_bytes(self.lowat, self.rate) {
            socket.set_notsent_lowat(bytes);
            self.lowat = bytes;
        }
        Some(path)
    }

    /// Writes as much as the socket takes. Returns whether anything was written.
    pub(super) fn write(&mut self, socket: &mut dyn Hop) -> bool {
        let mut any = false;
        while let Some(first) = self.output.front_mut() {
            let taken = socket.write(first);
            if taken == 0 {
                break;
            }
            any = true;
            first.advance(taken);
            if first.is_empty() {
                self.output.pop_front();
            }
        }
        any
    }

    pub(super) fn is_drained(&self) -> bool {
        self.output.is_empty()
    }

    pub(super) fn open_room(&mut self) {
        self.blocked = false;
        self.room = driving::room_bytes(self.rate);
    }
}

/// TCP_NOTSENT_LOWAT of a subflow's socket before its path's rate is known.
pub(super) fn endpoint_lowat_bytes() -> u64 {
    driving::notsent_lowat_bytes(BitRate::ZERO)
}

/// The path manager's attempt from which a line comes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Attempt {
    pub(super) dial: DialId,
    /// The request for the relay, through a helper.
    pub(super) request: Option<RequestId>,
    /// It is an express: a second subflow through a helper, for urgent copies.
    pub(super) express: bool,
    /// The primary's own address.
    pub(super) local: IpAddr,
}

/// A subflow from its first SYN to its close.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) route: usize,
    pub(super) attempt: Attempt,
    /// The primary's session, by number.
    pub(super) session: u64,
    /// Label in the ClientHello.
    pub(super) label: Option<u32>,
    /// The proxy's process that has accepted it.
    pub(super) process: Option<u32>,
    /// The pipe, or the PS-Path.
    pub(super) first: usize,
    /// The HS-Path, once the helper has connected.
    pub(super) second: Option<usize>,
    pub(super) relay: Option<Relay>,
    /// The primary's end and the proxy's.
    pub(super) ends: [Io; 2],
    /// Its number in the primary's session.
    pub(super) subflow: Option<SubflowId>,
    pub(super) dialled: Timestamp,
    /// When TCP's handshake was done at the primary.
    pub(super) established: Option<Timestamp>,
    pub(super) reporting: Reporting,
}

impl Line {
    pub(super) fn new(
        now: Timestamp,
        route: usize,
        first: usize,
        relay: Option<Relay>,
        (session, attempt): (u64, Attempt),
    ) -> Self {
        let server = relay.is_none().then_some(first);
        Self {
            route,
            attempt,
            session,
            label: None,
            process: None,
            first,
            second: None,
            relay,
            ends: [Io::new(Some(first), End::A), Io::new(server, End::B)],
            subflow: None,
            dialled: now,
            established: None,
            reporting: Reporting::default(),
        }
    }

    /// Bytes relayed so far.
    pub(super) fn relayed_bytes(&self) -> u64 {
        self.relay.as_ref().map_or(0, |r| {
            r.forward_relayed_bytes() + r.backward_relayed_bytes()
        })
    }

    pub(super) fn is_over(&self) -> bool {
        self.ends.iter().all(|e| e.stage == Stage::Gone)
    }
}
