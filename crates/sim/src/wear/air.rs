//! WiFi of the watch: one medium for both directions, which Bluetooth may share, and the
//! connections on it.

use std::collections::VecDeque;
use std::time::Duration;

use mpbond_radio::machine::{Band, BandUser};
use mpbond_radio::{Account, Hint, Packet, Placement, Radio, RadioProfile};
use mpbond_units::{BitRate, Timestamp};

use super::setup::{Network, Wifi};
use crate::tcp::{self, Config, Segment, Socket, State};

/// Packets that wait in each direction.
const QUEUE_PACKETS: usize = 200;

#[derive(Debug)]
struct Sent {
    flow: usize,
    /// From the server to the watch.
    down: bool,
    /// None: a keep-alive or its answer.
    segment: Option<Segment>,
}

impl Sent {
    fn ip_bytes(&self) -> u32 {
        let segment = self.segment.as_ref();
        segment.map_or(tcp::HEADER_BYTES, Segment::ip_bytes)
    }
}

/// The medium, with a connection of each flow from the server to the watch.
#[derive(Debug)]
pub(super) struct Air {
    network: Network,
    /// Rate of packets on the air.
    on_air: BitRate,
    sockets: Vec<(Socket, Socket)>,
    /// Packets of the server's side and of the watch, which send in turn.
    queues: [VecDeque<Sent>; 2],
    /// Which of them is sending, or was last.
    turn: usize,
    /// End of the packet that is being sent.
    ends: Option<Timestamp>,
    flight: VecDeque<(Timestamp, Sent)>,
    radio: Radio,
    account: Account,
    up: bool,
}

impl Air {
    pub(super) fn new(wifi: &Wifi, profile: &RadioProfile) -> Self {
        Self {
            network: wifi.network,
            on_air: wifi.on_air.unwrap_or(wifi.network.rate),
            sockets: Vec::new(),
            queues: <[VecDeque<Sent>; 2]>::default(),
            turn: 0,
            ends: None,
            flight: VecDeque::new(),
            radio: Radio::new(profile, Placement::Recorded),
            account: Account::default(),
            up: false,
        }
    }

    /// The watch is associated.
    pub(super) fn join(&mut self, now: Timestamp, flows: usize) {
        self.up = true;
        self.radio.advance(now, &mut self.account);
        self.connect(flows);
    }

    /// A connection of each flow begins, if none has begun before. Its packets before the watch
    /// is associated are lost.
    pub(super) fn connect(&mut self, flows: usize) {
        if !self.sockets.is_empty() {
            return;
        }
        // The paper's watches are of 2018 and before.
        let config = Config {
            syn_linear_timeouts: 0,
            ..Config::default()
        };
        self.sockets = (0..flows)
            .map(|_| (Socket::connect(config), Socket::listen(config)))
            .collect();
    }

    /// The watch switches WiFi off. What was on its way is lost.
    pub(super) fn leave(&mut self, now: Timestamp) {
        self.up = false;
        self.radio.hint(now, Hint::Off, &mut self.account);
        self.sockets.clear();
        self.queues = <[VecDeque<Sent>; 2]>::default();
        self.flight.clear();
        self.ends = None;
    }

    /// The watch sends a keep-alive (RFC 9293, section 3.8.4), which the server answers.
    pub(super) fn keep_alive(&mut self) {
        self.empty_packet(false);
    }

    fn empty_packet(&mut self, down: bool) {
        let sent = Sent {
            flow: 0,
            down,
            segment: None,
        };
        self.queues[usize::from(!down)].push_back(sent);
    }

    /// Whether the connections of all flows are established.
    pub(super) fn is_established(&self) -> bool {
        let established = |s: &Socket| s.state() == State::Established;
        self.up && self.sockets.iter().all(|(server, _)| established(server))
    }

    /// The server's and the watch's end of a flow's connection, while WiFi is joined.
    pub(super) fn sockets(&mut self, flow: usize) -> Option<&mut (Socket, Socket)> {
        self.sockets.get_mut(flow)
    }

    /// The server's end of a flow's connection.
    pub(super) fn server(&self, flow: usize) -> Option<&Socket> {
        self.sockets.get(flow).map(|(server, _)| server)
    }

    pub(super) fn next_event(&self) -> Option<Timestamp> {
        let timers = self.sockets.iter();
        let timers = timers.flat_map(|(a, b)| [a.next_timeout(), b.next_timeout()]);
        let flight = self.flight.front().map(|(at, _)| *at);
        timers.flatten().chain(self.ends).chain(flight).min()
    }

    /// Handles everything that is due by `now`; returns whether a segment arrived.
    pub(super) fn handle(&mut self, now: Timestamp, mut band: Option<&mut Band>) -> bool {
        let mut arrived = false;
        for (a, b) in &mut self.sockets {
            a.handle_timeout(now);
            b.handle_timeout(now);
        }
        loop {
            self.transmit(now);
            if self.ends.is_some_and(|at| at <= now) {
                self.depart(now);
            }
            if self.ends.is_none()
                && let Some(bytes) = self.next_bytes()
            {
                let through = now + self.network.rate.time_for(bytes.into());
                let airtime = self.on_air.time_for(bytes.into());
                let band = band.as_deref_mut();
                let sent = band.map(|band| band.packet(now, BandUser::Wifi, airtime));
                self.ends = Some(sent.map_or(through, |sent| sent.max(through)));
            }
            let Some((_, sent)) = self.flight.pop_front_if(|(at, _)| *at <= now) else {
                return arrived;
            };
            arrived = true;
            match (sent.segment, self.sockets.get_mut(sent.flow)) {
                (Some(segment), Some((a, b))) => {
                    let to = if sent.down { b } else { a };
                    to.handle_segment(now, segment);
                }
                (None, _) if !sent.down => self.empty_packet(true),
                _ => {}
            }
        }
    }

    /// Size of the packet that is sent next.
    fn next_bytes(&mut self) -> Option<u32> {
        if !self.queues[1 - self.turn].is_empty() {
            self.turn = 1 - self.turn;
        }
        let first = self.queues[self.turn].front()?;
        Some(first.ip_bytes())
    }

    fn transmit(&mut self, now: Timestamp) {
        for (flow, (a, b)) in self.sockets.iter_mut().enumerate() {
            for (down, socket) in [(true, a), (false, b)] {
                while let Some(segment) = socket.poll_transmit(now) {
                    if !self.up {
                        continue;
                    }
                    let queue = &mut self.queues[usize::from(!down)];
                    if queue.len() < QUEUE_PACKETS {
                        queue.push_back(Sent {
                            flow,
                            down,
                            segment: Some(segment),
                        });
                    }
                }
            }
        }
    }

    fn depart(&mut self, now: Timestamp) {
        self.ends = None;
        if let Some(sent) = self.queues[self.turn].pop_front() {
            let bytes = sent.ip_bytes();
            let packet = match sent.down {
                true => Packet::down(bytes),
                false => Packet::up(bytes),
            };
            self.radio.packet(now, packet, &mut self.account);
            let half: Duration = self.network.rtt / 2;
            self.flight.push_back((now + half, sent));
        }
    }

    /// Energy of the watch's radio until `end`, in J.
    pub(super) fn finish(mut self, end: Timestamp) -> f64 {
        self.radio.finish(end, &mut self.account);
        self.account.summary().joules
    }
}
