//! A pipe over Bluetooth: connections between the sockets of a primary and a helper are channels of
//! one emulated link ([`Rfcomm`]), as in the lab's player of real time.

use std::collections::{BTreeMap, VecDeque};

use bytes::{Buf, Bytes};
use mpbond_radio::machine::{Band, BluetoothParameters, End};
use mpbond_units::Timestamp;

use super::relay_report::{REPORT_BYTES, Report};
use crate::link::{NEAR_DBM, Rfcomm, RfcommChannel, packet_loss};
use crate::stream::Stream;

/// Strength of the signal of devices out of range of each other, in dBm.
const OUT_OF_RANGE_DBM: f64 = -200.0;
const ENDS: [End; 2] = [End::Wearable, End::Phone];

/// Radios of an emulated Bluetooth link between the primary, as the watch, and a helper.
#[derive(Debug, Clone)]
pub struct Bluetooth {
    /// The primary's radio.
    pub watch: BluetoothParameters,
    /// The helper's radio.
    pub phone: BluetoothParameters,
}

/// A connection over the link.
#[derive(Debug)]
struct Channel {
    conn: usize,
    id: RfcommChannel,
    /// By sender: bytes that the link has, and the other program does not.
    held: [VecDeque<Bytes>; 2],
}

/// What a turn has done.
#[derive(Debug, Default)]
pub(super) struct Turn {
    /// Connections whose sockets have changed.
    pub(super) changed: Vec<usize>,
    /// Bytes that arrived: up, down.
    pub(super) arrived: [u64; 2],
    /// Reports that arrived.
    pub(super) reports: Vec<Report>,
}

/// The link with its channels.
#[derive(Debug)]
pub(super) struct Carried {
    rfcomm: Rfcomm,
    channels: Vec<Channel>,
    /// Channel of the control connection, once something was sent there.
    control: Option<RfcommChannel>,
    /// Reports that have not arrived, and bytes of them that the link has not taken.
    reports: VecDeque<Report>,
    unsent: u64,
    /// Bytes of the next report that have arrived.
    partly: u64,
    dbm: f64,
    up: bool,
}

impl Carried {
    pub(super) fn new(of: &Bluetooth, seed: u64) -> Self {
        Self {
            rfcomm: Rfcomm::new(&of.watch, &of.phone, seed),
            channels: Vec::new(),
            control: None,
            reports: VecDeque::new(),
            unsent: 0,
            partly: 0,
            dbm: NEAR_DBM,
            up: true,
        }
    }

    pub(super) fn next_event(&self) -> Option<Timestamp> {
        self.rfcomm.next_event()
    }

    /// Opens a channel for a connection; `false` if it is refused: the devices have lost each other
    /// and are out of range. Where they are silent for a short time, it is opened all the same.
    pub(super) fn open(&mut self, conn: usize) -> bool {
        if self.rfcomm.is_lost() {
            if self.is_silent() {
                return false;
            }
            self.rfcomm.reconnect();
        }
        self.channels.push(Channel {
            conn,
            id: self.rfcomm.open(),
            held: Default::default(),
        });
        true
    }

    /// The devices lose each other at once.
    pub(super) fn disconnect(&mut self) {
        self.rfcomm.disconnect();
    }

    /// Takes the link up, or down silently.
    pub(super) fn set_up(&mut self, now: Timestamp, up: bool, band: Option<&mut Band>) {
        self.up = up;
        self.set_signal(now, self.dbm, band);
    }

    /// Sets the strength of the signal.
    pub(super) fn set_signal(&mut self, now: Timestamp, dbm: f64, band: Option<&mut Band>) {
        self.dbm = dbm;
        self.rfcomm.handle(now, band);
        let dbm = if self.up { dbm } else { OUT_OF_RANGE_DBM };
        self.rfcomm.set_signal(now, dbm);
    }

    fn is_silent(&self) -> bool {
        packet_loss(self.rfcomm.signal_dbm()) >= 1.0
    }

    /// The helper sends a report on its control connection.
    pub(super) fn send_report(&mut self, report: Report) {
        if !self.rfcomm.is_lost() {
            self.reports.push_back(report);
            self.unsent += u64::from(REPORT_BYTES);
        }
    }

    /// A connection carries nothing any more, and neither end learns of it.
    pub(super) fn sever(&mut self, conn: usize) {
        for channel in self.channels.extract_if(.., |channel| channel.conn == conn) {
            self.rfcomm.close(channel.id);
        }
    }

    /// Does everything that is due by `now`. `sockets` are the two of each connection: the
    /// primary's and the helper's. `band` is the one that WiFi of the same antenna uses.
    pub(super) fn turn(
        &mut self,
        now: Timestamp,
        sockets: &mut BTreeMap<usize, [Stream; 2]>,
        mut band: Option<&mut Band>,
    ) -> Turn {
        let mut turn = Turn::default();
        self.rfcomm.handle(now, band.as_deref_mut());
        while self.rfcomm.poll_request().is_some() {}
        self.carry_reports(now, &mut turn, band.as_deref_mut());
        let (is_lost, is_silent) = (self.rfcomm.is_lost(), self.is_silent());
        let rfcomm = &mut self.rfcomm;
        self.channels.retain_mut(|channel| {
            let Some(ends) = sockets.get_mut(&channel.conn) else {
                return true;
            };
            let band = band.as_deref_mut();
            let mut moved = !is_lost && channel.carry(now, rfcomm, ends, &mut turn.arrived, band);
            // Devices out of range of each other cannot tell that a channel is closed.
            let stays = !is_lost && (is_silent || !channel.is_finished(ends));
            if !stays {
                ends.iter_mut().for_each(Stream::end);
                rfcomm.close(channel.id);
                moved = true;
            }
            if moved {
                turn.changed.push(channel.conn);
            }
            stays
        });
        turn
    }

    fn carry_reports(&mut self, now: Timestamp, turn: &mut Turn, mut band: Option<&mut Band>) {
        if self.rfcomm.is_lost() {
            (self.control, self.unsent, self.partly) = (None, 0, 0);
            return self.reports.clear();
        }
        if self.reports.is_empty() {
            return;
        }
        let rfcomm = &mut self.rfcomm;
        let control = *self.control.get_or_insert_with(|| rfcomm.open());
        let from = (control, End::Phone);
        self.unsent -= rfcomm.write(now, from, self.unsent, band.as_deref_mut());
        let read = rfcomm.read(now, (control, End::Wearable), u64::MAX, band);
        turn.arrived[1] += read;
        self.partly += read;
        while self.partly >= u64::from(REPORT_BYTES) {
            self.partly -= u64::from(REPORT_BYTES);
            turn.reports.extend(self.reports.pop_front());
        }
    }
}

impl Channel {
    /// Moves bytes from the sockets to the link, and from the link to the sockets; whether any
    /// moved.
    fn carry(
        &mut self,
        now: Timestamp,
        rfcomm: &mut Rfcomm,
        ends: &mut [Stream; 2],
        arrived: &mut [u64; 2],
        mut band: Option<&mut Band>,
    ) -> bool {
        let mut any = false;
        loop {
            let mut moved = false;
            for from in [0, 1] {
                let to = 1 - from;
                while let Some(bytes) = ends[from].take(rfcomm.room(self.id, ENDS[from])) {
                    let len = bytes.len() as u64;
                    self.held[from].push_back(bytes);
                    rfcomm.write(now, (self.id, ENDS[from]), len, band.as_deref_mut());
                    moved = true;
                }
                let ready = rfcomm.readable(self.id, ENDS[to]).min(ends[to].takes());
                let at = (self.id, ENDS[to]);
                let mut left = rfcomm.read(now, at, ready, band.as_deref_mut());
                arrived[from] += left;
                moved |= left > 0;
                while let Some(first) = self.held[from].front_mut().filter(|_| left > 0) {
                    let bytes = first.split_to(first.len().min(left as usize));
                    left -= bytes.len() as u64;
                    if !first.has_remaining() {
                        self.held[from].pop_front();
                    }
                    ends[to].give(bytes);
                }
            }
            if !moved {
                return any;
            }
            any = true;
        }
    }

    /// Whether one end has closed it, and the other has got all that it sent or takes no more.
    fn is_finished(&self, ends: &[Stream; 2]) -> bool {
        let over = |by: usize| {
            let got_all = self.held[by].is_empty() || ends[1 - by].is_closed();
            ends[by].is_over() && got_all
        };
        over(0) || over(1) || ends.iter().all(Stream::is_closed)
    }
}
