//! Byte streams over Bluetooth between a watch and a phone, as RFCOMM carries them: Sniff mode,
//! retransmission, flow control by credits, and interference by WiFi.
//!
//! Streams are channels of one link. The ends exchange packets in turn, both with or without data,
//! while any has data. A lost packet is sent again. Modes and powers are those of
//! [`mpbond_radio::BluetoothLink`]: only packets with data restart its timers or end Sniff. Credits
//! and the baseband's acknowledgements do not; they are taken to arrive at once.
//!
//! Not modelled: other links of the two devices, adaptive frequency hopping, encryption, changes of
//! the packet type with the signal; the packets that open and close a channel, and paging.

mod baseband;
mod side;
mod signal;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::Duration;

use mpbond_radio::machine::{Band, BandUser, BluetoothParameters, End, LmpRequest, Mode};
use mpbond_radio::{Account, BluetoothLink, Summary};
use mpbond_units::{BitRate, Timestamp};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use super::draw;
use side::Side;

pub use side::Channel;
pub use signal::packet_loss;

/// Bytes that an end's socket of a channel holds (Android: 10 frames of 990 bytes).
pub const SOCKET_BYTES: u64 = 10 * side::FRAME_BYTES;
/// Rate of full frames in one direction, without losses and Sniff: 990 bytes in ten slots of
/// 625 µs.
pub const RFCOMM_RATE: BitRate = BitRate::from_bps(1_267_200);
/// Time without the other end after which the link is lost (default of the Link Supervision
/// Timeout, Bluetooth Core Specification, volume 4, part E, section 6.21).
pub const SUPERVISION_TIMEOUT: Duration = Duration::from_secs(20);
/// Strength of the signal of a new link, in dBm: a phone on the desk before the user (Wear OS
/// paper, section 3.3).
pub const NEAR_DBM: f64 = -50.0;
/// Requests kept for [`Rfcomm::poll_request`].
const MAX_REQUESTS: usize = 1024;

/// Packets of both ends that are being sent.
#[derive(Debug, Clone, Copy)]
struct Exchange {
    /// Start of the first packet: later than the request while the link leaves Sniff.
    start: Timestamp,
    /// End of the second one; `None` before the start.
    end: Option<Timestamp>,
    /// Payload of the watch's and the phone's packet.
    bytes: [u32; 2],
    slots: u32,
}

/// The link. Time must not decrease. Call [`Rfcomm::handle`] when [`Rfcomm::next_event`] is due.
#[derive(Debug, Clone)]
pub struct Rfcomm {
    link: BluetoothLink,
    accounts: [Account; 2],
    /// Bytes sent by the watch, and by the phone.
    sides: [Side; 2],
    channels: u64,
    exchange: Option<Exchange>,
    requests: VecDeque<LmpRequest>,
    dbm: f64,
    /// Since when the signal is too weak for any packet.
    silent_since: Option<Timestamp>,
    supervision_timeout: Duration,
    lost: bool,
    retransmitted_packets: u64,
    rng: ChaCha8Rng,
}

fn index(end: End) -> usize {
    match end {
        End::Wearable => 0,
        End::Phone => 1,
    }
}

impl Rfcomm {
    /// A link in Sniff mode, without a channel. `seed` fixes its losses.
    pub fn new(watch: &BluetoothParameters, phone: &BluetoothParameters, seed: u64) -> Self {
        let mut link = BluetoothLink::new(watch, phone);
        let [mut by_watch, mut by_phone] = <[Account; 2]>::default();
        link.begin(Timestamp::ZERO, &mut by_watch, &mut by_phone);
        Self {
            link,
            accounts: [by_watch, by_phone],
            sides: <[Side; 2]>::default(),
            channels: 0,
            exchange: None,
            requests: VecDeque::new(),
            dbm: NEAR_DBM,
            silent_since: None,
            supervision_timeout: SUPERVISION_TIMEOUT,
            lost: false,
            retransmitted_packets: 0,
            rng: ChaCha8Rng::seed_from_u64(seed),
        }
    }

    /// Sets the time without the other end after which the link is lost, in place of
    /// [`SUPERVISION_TIMEOUT`].
    pub fn set_supervision_timeout(&mut self, timeout: Duration) {
        self.supervision_timeout = timeout;
    }

    /// Opens a channel.
    pub fn open(&mut self) -> Channel {
        self.channels += 1;
        let channel = Channel(self.channels);
        for side in &mut self.sides {
            side.open(channel);
        }
        channel
    }

    /// Closes a channel at both ends; what it holds is dropped.
    pub fn close(&mut self, channel: Channel) {
        for side in &mut self.sides {
            side.close(channel);
        }
    }

    /// Ends the link at once, as if it had been lost.
    pub fn disconnect(&mut self) {
        self.lost = true;
        self.exchange = None;
    }

    /// Connects the ends of a lost link again. All channels are gone.
    pub fn reconnect(&mut self) {
        for side in &mut self.sides {
            side.clear();
        }
        self.lost = false;
    }

    /// Bytes that [`Rfcomm::write`] would take.
    pub fn room(&self, channel: Channel, from: End) -> u64 {
        match self.sides[index(from)].unacknowledged(channel) {
            Some(held) if !self.lost => SOCKET_BYTES.saturating_sub(held),
            _ => 0,
        }
    }

    /// Takes as many of `bytes` as the socket of `from` has room for, and returns their number.
    /// `band` is the band that WiFi of these devices uses, too.
    pub fn write(
        &mut self,
        now: Timestamp,
        (channel, from): (Channel, End),
        bytes: u64,
        band: Option<&mut Band>,
    ) -> u64 {
        let taken = bytes.min(self.room(channel, from));
        self.sides[index(from)].write(channel, taken);
        self.handle(now, band);
        taken
    }

    /// Takes at most `most` bytes that have arrived at `at`.
    pub fn read(
        &mut self,
        now: Timestamp,
        (channel, at): (Channel, End),
        most: u64,
        band: Option<&mut Band>,
    ) -> u64 {
        let from = index(other(at));
        let taken = self.sides[from].read(channel, most);
        // A sender without credits may go on.
        self.handle(now, band);
        taken
    }

    /// Bytes that [`Rfcomm::read`] would give.
    pub fn readable(&self, channel: Channel, at: End) -> u64 {
        self.sides[index(other(at))].readable(channel)
    }

    /// Bytes written by `from` and not acknowledged by the other end's baseband.
    pub fn unacknowledged(&self, channel: Channel, from: End) -> u64 {
        self.sides[index(from)]
            .unacknowledged(channel)
            .unwrap_or_default()
    }

    /// Bytes written by `from` that the other end's baseband has acknowledged, in whole frames.
    pub fn acknowledged(&self, channel: Channel, from: End) -> u64 {
        self.sides[index(from)].acknowledged(channel)
    }

    /// Sets the strength of the signal, in dBm.
    pub fn set_signal(&mut self, now: Timestamp, dbm: f64) {
        self.dbm = dbm;
        let silent = signal::packet_loss(dbm) >= 1.0;
        self.silent_since = silent.then(|| self.silent_since.unwrap_or(now));
    }

    /// Strength of the signal, in dBm.
    pub fn signal_dbm(&self) -> f64 {
        self.dbm
    }

    /// Whether the ends have lost each other. Nothing passes any more.
    pub fn is_lost(&self) -> bool {
        self.lost
    }

    /// Mode of the link; Sniff also while it leaves Sniff.
    pub fn mode(&self) -> Mode {
        self.link.mode()
    }

    /// The next request of either end for another mode, in order of time.
    pub fn poll_request(&mut self) -> Option<LmpRequest> {
        self.requests.pop_front()
    }

    /// Packets that were lost and sent again.
    pub fn retransmitted_packets(&self) -> u64 {
        self.retransmitted_packets
    }

    /// Time of the next call of [`Rfcomm::handle`]; `None` while nothing will happen.
    pub fn next_event(&self) -> Option<Timestamp> {
        if self.lost {
            return None;
        }
        let exchange = self.exchange.map(|e| e.end.unwrap_or(e.start));
        let lost = self
            .silent_since
            .map(|since| since + self.supervision_timeout);
        [exchange, self.link.next_event(), lost]
            .into_iter()
            .flatten()
            .min()
    }

    /// Handles everything that is due by `now`.
    pub fn handle(&mut self, now: Timestamp, mut band: Option<&mut Band>) {
        while let Some(at) = self.next_event().filter(|at| *at <= now) {
            self.advance(at);
            let lost_at = self
                .silent_since
                .map(|since| since + self.supervision_timeout);
            if lost_at.is_some_and(|lost_at| lost_at <= at) {
                self.lost = true;
                self.exchange = None;
                return;
            }
            self.step(at, band.as_deref_mut());
            self.begin(at, band.as_deref_mut());
        }
        if !self.lost {
            self.advance(now);
            self.begin(now, band);
        }
    }

    /// Ends the accounts, and returns the energy of the watch's and the phone's radio.
    pub fn finish(mut self, end: Timestamp) -> [Summary; 2] {
        let [watch, phone] = &mut self.accounts;
        self.link.finish(end, watch, phone);
        self.accounts.map(|account| account.summary())
    }

    fn advance(&mut self, now: Timestamp) {
        let [watch, phone] = &mut self.accounts;
        let request = self.link.advance(now, watch, phone);
        self.note(request);
    }

    fn note(&mut self, request: Option<LmpRequest>) {
        if self.requests.len() == MAX_REQUESTS {
            self.requests.pop_front();
        }
        self.requests.extend(request);
    }

    /// Starts the sending of an exchange that waited for Active, or ends one that was sent.
    fn step(&mut self, at: Timestamp, band: Option<&mut Band>) {
        let Some(mut exchange) = self.exchange else {
            return;
        };
        match exchange.end {
            None if exchange.start <= at => {
                let airtime = baseband::SLOT * exchange.slots;
                exchange.end = Some(match band {
                    Some(band) => band.packet(at, BandUser::Bluetooth, airtime),
                    None => at + airtime,
                });
                self.exchange = Some(exchange);
            }
            Some(end) if end <= at => {
                self.exchange = None;
                if band.is_some_and(|band| band.has_hit_bluetooth()) {
                    // Packets with data are sent again, whichever of the two was hit.
                    let lost = exchange.bytes.into_iter().filter(|bytes| *bytes > 0);
                    self.retransmitted_packets += lost.count() as u64;
                    return;
                }
                let loss = signal::packet_loss(self.dbm);
                for (side, bytes) in self.sides.iter_mut().zip(exchange.bytes) {
                    if bytes == 0 {
                        continue;
                    }
                    // Drawn only where there is loss, as for other links.
                    if loss > 0.0 && draw(&mut self.rng) < loss {
                        self.retransmitted_packets += 1;
                    } else {
                        side.passed(bytes);
                    }
                }
            }
            _ => {}
        }
    }

    /// Begins the next exchange, if there are data and none is under way.
    fn begin(&mut self, now: Timestamp, band: Option<&mut Band>) {
        if self.exchange.is_some() {
            return;
        }
        let [(up, up_slots), (down, down_slots)] = self.sides.each_mut().map(Side::packet);
        let bytes = [up, down];
        let mut start = now;
        for (from, bytes) in [End::Wearable, End::Phone].into_iter().zip(bytes) {
            if bytes > 0 {
                let [watch, phone] = &mut self.accounts;
                let (pass, request) = self.link.transmit(now, from, bytes, watch, phone);
                start = start.max(pass);
                self.note(request);
            }
        }
        if bytes != [0, 0] {
            self.exchange = Some(Exchange {
                start,
                end: None,
                bytes,
                slots: up_slots + down_slots,
            });
            self.step(now, band);
        }
    }
}

fn other(end: End) -> End {
    match end {
        End::Wearable => End::Phone,
        End::Phone => End::Wearable,
    }
}
