//! The phone: connections to the server, the proxy's queue, Bluetooth to the watch.

use std::collections::VecDeque;

use mpbond_radio::machine::{Band, End};
use mpbond_radio::{Account, Packet, Placement, Radio, RadioProfile};
use mpbond_units::Timestamp;

use super::Path;
use super::carried::Stage;
use super::control::{SniffKeeper, VirtualQueue};
use super::flow::Flow;
use super::outcome::Joules;
use super::setup::Setup;
use crate::link::{LinkConfig, Rate, Rfcomm, RfcommChannel};
use crate::tcp::{self, Channel, Config, MSS, Socket};

/// Window of a connection that is worth opening: a smaller one is not announced.
const WORTH_OPENING: u64 = 2 * MSS;
/// Largest window of a phone with a virtual queue, for a rate of Bluetooth up to 1.5 Mbit/s.
const BOUNDED_WINDOW: u64 = 128 << 10;
/// Size of the keeper's and of other small packets of the watch.
const SMALL_BYTES: u64 = 20;

/// Bytes of a flow.
type Run = (usize, u64);

#[derive(Debug)]
pub(super) struct Phone {
    /// Connections from the server, one of each flow.
    pub(super) channels: Vec<Channel>,
    /// The proxy's queue.
    fifo: VecDeque<Run>,
    fifo_bytes: u64,
    fifo_limit: u64,
    pub(super) rfcomm: Rfcomm,
    channel: RfcommChannel,
    /// Written to Bluetooth, not read by the watch.
    on_air: VecDeque<Run>,
    pub(super) queue: VirtualQueue,
    is_bounded: bool,
    tokens: u64,
    tokens_at: Timestamp,
    acknowledged: u64,
    keeper: Option<SniffKeeper>,
    keeper_packets: u64,
    wifi: Meter,
    /// Both radios together.
    relaying: Meter,
}

/// Energy of a radio.
#[derive(Debug)]
struct Meter {
    radio: Radio,
    account: Account,
}

impl Meter {
    fn new(profile: &RadioProfile) -> Self {
        let mut meter = Self {
            radio: Radio::new(profile, Placement::Recorded),
            account: Account::default(),
        };
        meter.radio.advance(Timestamp::ZERO, &mut meter.account);
        meter
    }

    /// Received segments, and an acknowledgement of every second one.
    fn pay(&mut self, now: Timestamp, bytes: u64) {
        let segments = bytes.div_ceil(MSS) as u32;
        let down = bytes as u32 + segments * tcp::HEADER_BYTES;
        let up = segments.div_ceil(2) * tcp::HEADER_BYTES;
        for packet in [Packet::down(down), Packet::up(up)] {
            self.radio.packet(now, packet, &mut self.account);
        }
    }

    fn finish(mut self, end: Timestamp) -> f64 {
        self.radio.finish(end, &mut self.account);
        self.account.summary().joules
    }
}

impl Phone {
    pub(super) fn new(setup: &Setup) -> Self {
        let half = setup.phone.rtt / 2;
        let rate = Rate::Constant(setup.phone.rate);
        let link = LinkConfig::new(rate).with_delay(half);
        let server = Config::default();
        // A socket with a bounded window begins with a small one.
        let window = match setup.virtual_queue {
            true => setup.window_bytes.min(BOUNDED_WINDOW),
            false => setup.window_bytes,
        };
        let own = Config {
            recv_buffer_bytes: window,
            ..server
        };
        let channels = (1..).take(setup.flows.len());
        let channels = channels.map(|seed| {
            let sockets = Socket::pair(server, own);
            Channel::over(sockets, link.clone(), link.clone(), setup.seed ^ seed)
        });
        let Setup { radios, seed, .. } = setup;
        let timer = radios.watch.timer.duration();
        let mut rfcomm = Rfcomm::new(&radios.watch, &radios.phone, *seed);
        rfcomm.set_supervision_timeout(setup.lost_after);
        let channel = rfcomm.open();
        Self {
            channels: channels.collect(),
            fifo: VecDeque::new(),
            fifo_bytes: 0,
            fifo_limit: setup.proxy_bytes,
            rfcomm,
            channel,
            on_air: VecDeque::new(),
            queue: VirtualQueue::new(Timestamp::ZERO),
            is_bounded: setup.virtual_queue,
            tokens: 0,
            tokens_at: Timestamp::ZERO,
            acknowledged: 0,
            keeper: setup
                .keeper
                .then(|| SniffKeeper::new(timer, Timestamp::ZERO)),
            keeper_packets: 0,
            wifi: Meter::new(&radios.phone_wifi),
            relaying: Meter::new(&radios.relaying_phone),
        }
    }

    /// Packets of the keeper so far.
    pub(super) fn keeper_packets(&self) -> u64 {
        self.keeper_packets
    }

    pub(super) fn next_event(&self) -> Option<Timestamp> {
        let channels = self.channels.iter().filter_map(Channel::next_event);
        let keeper = self.keeper.as_ref().and_then(SniffKeeper::poll_timeout);
        let missing = self.worth_opening().saturating_sub(self.tokens);
        let rate = self
            .queue
            .read_rate()
            .filter(|_| self.is_bounded && missing > 0);
        let tokens = rate.map(|rate| self.tokens_at + rate.time_for(missing + 1));
        let own = [self.rfcomm.next_event(), keeper, tokens];
        channels.chain(own.into_iter().flatten()).min()
    }

    /// A small packet of the watch.
    pub(super) fn small_packet(&mut self, now: Timestamp, band: Option<&mut Band>) {
        let watch = (self.channel, End::Wearable);
        self.rfcomm.write(now, watch, SMALL_BYTES, band);
        if let Some(keeper) = &mut self.keeper {
            keeper.handle_sent(now);
        }
    }

    /// Moves bytes from the server to the watch; returns whether any moved, and adds flows whose
    /// bytes have arrived to `arrived`.
    pub(super) fn pump(
        &mut self,
        now: Timestamp,
        flows: &mut [Flow],
        mut band: Option<&mut Band>,
        arrived: &mut Vec<Run>,
    ) -> bool {
        let mut moved = false;
        let from = (self.channel, End::Phone);
        for (channel, flow) in self.channels.iter_mut().zip(&mut *flows) {
            channel.handle(now);
            let sent = channel.info(tcp::End::A);
            let total = channel.info(tcp::End::B).bytes_received;
            let carried = &mut flow.carried[Path::Phone.index()];
            carried.pass(now, Stage::Sent, sent.bytes_sent - sent.bytes_retransmitted);
            let new = total - carried.passed(Stage::Received);
            if new > 0 {
                moved = true;
                carried.pass(now, Stage::Received, total);
                self.queue.handle_arrived(now, new);
                self.tokens = self.tokens.saturating_sub(new);
                self.wifi.pay(now, new);
                self.relaying.pay(now, new);
            }
        }
        moved |= self.read(now, flows);
        while let Some((flow, bytes)) = self.fifo.front_mut() {
            let taken = self.rfcomm.write(now, from, *bytes, band.as_deref_mut());
            if taken == 0 {
                break;
            }
            moved = true;
            self.fifo_bytes -= taken;
            self.on_air.push_back((*flow, taken));
            if let Some(f) = flows.get_mut(*flow) {
                let carried = &mut f.carried[Path::Phone.index()];
                carried.pass(now, Stage::Handed, carried.passed(Stage::Handed) + taken);
            }
            *bytes -= taken;
            if *bytes == 0 {
                self.fifo.pop_front();
            }
        }
        moved |= self.arrive(now, band.as_deref_mut(), arrived);
        if self
            .keeper
            .as_mut()
            .is_some_and(|keeper| keeper.is_due(now))
        {
            self.keeper_packets += 1;
            self.small_packet(now, band);
        }
        if self.is_bounded {
            self.bound(now);
        }
        moved
    }

    /// The proxy reads a segment of each connection in turn while its queue has room.
    fn read(&mut self, now: Timestamp, flows: &mut [Flow]) -> bool {
        let mut moved = false;
        loop {
            let mut any = false;
            for (n, (channel, flow)) in self.channels.iter_mut().zip(&mut *flows).enumerate() {
                let room = self.fifo_limit.saturating_sub(self.fifo_bytes).min(MSS);
                let room = usize::try_from(room).unwrap_or(usize::MAX);
                let Some(bytes) = channel.read(now, tcp::End::B, room) else {
                    continue;
                };
                any = true;
                let bytes = bytes.len() as u64;
                self.fifo_bytes += bytes;
                self.fifo.push_back((n, bytes));
                let carried = &mut flow.carried[Path::Phone.index()];
                carried.pass(now, Stage::Read, carried.passed(Stage::Read) + bytes);
            }
            if !any {
                return moved;
            }
            moved = true;
        }
    }

    /// The watch reads all that has arrived.
    fn arrive(
        &mut self,
        now: Timestamp,
        mut band: Option<&mut Band>,
        arrived: &mut Vec<Run>,
    ) -> bool {
        let [watch, phone] = [End::Wearable, End::Phone].map(|end| (self.channel, end));
        self.rfcomm.handle(now, band.as_deref_mut());
        self.rfcomm.read(now, phone, u64::MAX, band.as_deref_mut());
        let mut left = self.rfcomm.read(now, watch, u64::MAX, band);
        let acknowledged = self.rfcomm.acknowledged(self.channel, End::Phone);
        if acknowledged > self.acknowledged {
            self.queue
                .handle_acknowledged(now, acknowledged - self.acknowledged);
            self.acknowledged = acknowledged;
        }
        let moved = left > 0;
        if moved {
            // Bluetooth has carried it.
            self.relaying.pay(now, left);
        }
        if moved && let Some(keeper) = &mut self.keeper {
            keeper.handle_received(now);
        }
        while left > 0
            && let Some((flow, bytes)) = self.on_air.front_mut()
        {
            let part = left.min(*bytes);
            arrived.push((*flow, part));
            left -= part;
            *bytes -= part;
            if *bytes == 0 {
                self.on_air.pop_front();
            }
        }
        moved
    }

    /// Tokens that make the windows of all connections worth opening.
    fn worth_opening(&self) -> u64 {
        WORTH_OPENING * self.channels.len() as u64
    }

    /// Bounds the windows as the virtual queue decides: each connection gets an equal share.
    fn bound(&mut self, now: Timestamp) {
        let connections = (self.channels.len() as u64).max(1);
        let window = match self.queue.read_rate() {
            None => {
                self.tokens = 0;
                (self.queue.window_bytes() / connections).max(WORTH_OPENING)
            }
            Some(rate) => {
                let worth = self.worth_opening();
                let new = rate.bytes_in(now.since(self.tokens_at));
                self.tokens = (self.tokens + new).min(2 * worth);
                match self.tokens >= worth {
                    true => self.tokens / connections,
                    false => 0,
                }
            }
        };
        self.tokens_at = now;
        for channel in &mut self.channels {
            channel.socket_mut(tcp::End::B).limit_window(window);
            channel.handle(now);
        }
    }

    /// Energy of the phone and of the watch's Bluetooth until `end`.
    pub(super) fn finish(self, end: Timestamp) -> Joules {
        let [watch, phone] = self.rfcomm.finish(end);
        Joules {
            watch_bluetooth: watch.joules,
            phone_bluetooth: phone.joules,
            phone_wifi: self.wifi.finish(end),
            relaying_phone: self.relaying.finish(end),
            ..Joules::default()
        }
    }
}
