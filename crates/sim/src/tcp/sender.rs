//! Sender: send buffer, scoreboard, loss recovery, choice of the next segment.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use mpbond_units::Timestamp;

use super::cubic::Cubic;
use super::hystart::HyStart;
use super::rate::{DeliveryRate, Stamp};
use super::rtt::Rtt;
use super::{Config, Info, MSS, Segment};

/// A segment is lost when one that was sent this many later has arrived. The
/// three duplicates of RFC 5681, counted in order of sending as RFC 9002 does,
/// so that lost retransmissions are found too. Our links don't reorder.
const REORDERING: u64 = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    InFlight,
    Sacked,
    Lost,
}

#[derive(Debug, Clone)]
struct Sent {
    seq: u64,
    payload: Bytes,
    fin: bool,
    fate: Fate,
    /// Number of its last transmission.
    transmission: u64,
    at: Timestamp,
    retransmitted: bool,
    stamp: Stamp,
}

impl Sent {
    fn len(&self) -> u64 {
        self.payload.len() as u64
    }

    fn end(&self) -> u64 {
        self.seq + self.len() + u64::from(self.fin)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Open,
    /// Repairing losses; ends when everything before this offset has arrived.
    Recovery(u64),
    /// Starting over after a timeout, likewise.
    Loss(u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fin {
    No,
    Wanted,
    Sent,
}

/// A segment to be sent.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) seq: u64,
    pub(super) payload: Bytes,
    pub(super) fin: bool,
}

#[derive(Debug)]
pub(super) struct Sender {
    config: Config,
    /// Written and not sent.
    unsent: VecDeque<u8>,
    fin: Fin,
    /// Sent and not acknowledged, by offset.
    sent: VecDeque<Sent>,
    una: u64,
    next: u64,
    window_end: u64,
    transmissions: u64,
    /// The highest number of a transmission known to have arrived, and when that was sent.
    arrived: (u64, Timestamp),
    in_flight: u64,
    lost: usize,
    phase: Phase,
    /// The first retransmission is sent regardless of the window (RFC 6675, section 5).
    repair_now: bool,
    cubic: Cubic,
    hystart: HyStart,
    rtt: Rtt,
    rate: DeliveryRate,
    /// Retransmission timer, or persist timer when the peer's window is shut.
    timer: Option<Timestamp>,
    probe: bool,
    /// Time of the next tail loss probe (RFC 8985, section 7); end of the data sent at the last
    /// probe; whether a probe with new data is due.
    tail_timer: Option<Timestamp>,
    tail_probed: Option<u64>,
    probe_new: bool,
    last_sent: Timestamp,
    /// Whether the window limited sending, and the most that was in flight,
    /// since `round_end` was not acknowledged.
    window_limited: bool,
    max_in_flight: u64,
    round_end: u64,
    bytes_sent: u64,
    bytes_retransmitted: u64,
}

impl Sender {
    pub(super) fn new(config: Config, peer_window: u64) -> Self {
        Self {
            config,
            unsent: VecDeque::new(),
            fin: Fin::No,
            sent: VecDeque::new(),
            una: 0,
            next: 0,
            window_end: peer_window,
            transmissions: 0,
            arrived: (0, Timestamp::ZERO),
            in_flight: 0,
            lost: 0,
            phase: Phase::Open,
            repair_now: false,
            cubic: Cubic::new(config.initial_window_segments),
            hystart: HyStart::default(),
            rtt: Rtt::default(),
            rate: DeliveryRate::default(),
            timer: None,
            probe: false,
            tail_timer: None,
            tail_probed: None,
            probe_new: false,
            last_sent: Timestamp::ZERO,
            window_limited: false,
            max_in_flight: 0,
            round_end: 0,
            bytes_sent: 0,
            bytes_retransmitted: 0,
        }
    }

    pub(super) fn notsent(&self) -> u64 {
        self.unsent.len() as u64
    }

    pub(super) fn notsent_lowat(&self) -> u64 {
        self.config.notsent_lowat_bytes
    }

    pub(super) fn set_notsent_lowat(&mut self, bytes: u64) {
        self.config.notsent_lowat_bytes = bytes;
    }

    /// Number of bytes that [`Sender::write`] would take.
    pub(super) fn room(&self) -> u64 {
        if self.fin != Fin::No {
            return 0;
        }
        let unsent = self.unsent.len() as u64;
        let held = self.next - self.una + unsent;
        let lowat = self.config.notsent_lowat_bytes.saturating_sub(unsent);
        lowat.min(self.config.send_buffer_bytes.saturating_sub(held))
    }

    pub(super) fn write(&mut self, data: &[u8]) -> usize {
        // As Linux checks it: the application comes when nothing was left to
        // send and the window had room.
        let starved = (self.unsent.len() as u64) < MSS && self.lost == 0;
        if starved && self.in_flight < self.cubic.window_bytes() {
            self.rate.on_app_limited(self.in_flight);
        }
        let taken = data
            .len()
            .min(usize::try_from(self.room()).unwrap_or(usize::MAX));
        self.unsent.extend(&data[..taken]);
        taken
    }

    pub(super) fn finish(&mut self) {
        if self.fin == Fin::No {
            self.fin = Fin::Wanted;
        }
    }

    pub(super) fn has_finished(&self) -> bool {
        self.fin != Fin::No
    }

    /// Whether the end of the stream has been acknowledged.
    pub(super) fn is_finished(&self) -> bool {
        self.fin == Fin::Sent && self.sent.is_empty()
    }

    /// Offset of the next new byte.
    pub(super) fn next_offset(&self) -> u64 {
        self.next
    }

    pub(super) fn sample_rtt(&mut self, sent: Timestamp, now: Timestamp) {
        self.rtt.sample(sent, now);
        self.rtt.progress();
    }

    pub(super) fn rtt_timeout(&self) -> Duration {
        self.rtt.timeout()
    }

    pub(super) fn back_off(&mut self) {
        self.rtt.back_off();
    }

    pub(super) fn timer(&self) -> Option<Timestamp> {
        [self.timer, self.tail_timer].into_iter().flatten().min()
    }

    pub(super) fn on_ack(&mut self, now: Timestamp, segment: &Segment) {
        self.window_end = self.window_end.max(segment.window_end);
        if segment.ack > self.next {
            return;
        }
        let window_limited = self.is_window_limited();
        let mut sample: Option<Timestamp> = None;
        let mut newest: Option<Timestamp> = None;
        let mut newly_acked = 0;
        while let Some(first) = self.sent.pop_front_if(|first| first.end() <= segment.ack) {
            newly_acked += first.len();
            if !first.retransmitted && first.fate == Fate::InFlight {
                sample.get_or_insert(first.at);
                newest = Some(first.at);
            }
            self.arrive(now, &first);
        }
        for (start, end) in segment.sack.into_iter().flatten() {
            let from = self.sent.partition_point(|sent| sent.seq < start);
            let mut index = from;
            while let Some(sent) = self.sent.get_mut(index).filter(|sent| sent.end() <= end) {
                index += 1;
                if sent.fate == Fate::Sacked {
                    continue;
                }
                if !sent.retransmitted && sent.fate == Fate::InFlight {
                    sample.get_or_insert(sent.at);
                }
                let before = sent.clone();
                sent.fate = Fate::Sacked;
                self.arrive(now, &before);
            }
        }
        if let Some(sent) = sample {
            self.rtt.sample(sent, now);
        }
        if let (Some(sent), Some(min)) = (newest, self.rtt.min())
            && self.cubic.in_slow_start()
        {
            let offsets = (segment.ack, self.next);
            let window = self.cubic.window_segments();
            // The newest segment of an ACK has waited for nothing.
            let rtt = now.since(sent);
            if self.hystart.on_ack(now, offsets, window, rtt, min.min(rtt)) {
                self.cubic.end_slow_start();
            }
        }
        self.rate.on_ack_done(now, self.rtt.min());
        let progress = segment.ack > self.una;
        if progress {
            self.una = segment.ack;
            self.rtt.progress();
            self.tail_probed.take_if(|probed| *probed <= segment.ack);
            self.arm(now);
            if let Phase::Recovery(until) | Phase::Loss(until) = self.phase
                && self.una >= until
            {
                self.phase = Phase::Open;
            }
        } else if let (Some(sent), Some(head)) = (sample, self.sent.front())
            && sent < head.at
        {
            // The head was sent again later than what arrives now, and may still be on its way
            // (RFC 6675, section 6; Linux likewise).
            self.arm(now);
        }
        self.detect_losses();
        if newly_acked > 0 && window_limited && !matches!(self.phase, Phase::Recovery(_)) {
            let srtt = self.rtt.smoothed().unwrap_or_default();
            self.cubic.on_ack(now, newly_acked, srtt);
        }
    }

    /// A segment is newly known to have arrived.
    fn arrive(&mut self, now: Timestamp, sent: &Sent) {
        match sent.fate {
            Fate::Sacked => return,
            Fate::InFlight => self.in_flight -= sent.len(),
            Fate::Lost => self.lost -= 1,
        }
        self.arrived = self.arrived.max((sent.transmission, sent.at));
        self.rate.on_delivered(now, sent.len(), sent.at, sent.stamp);
    }

    fn detect_losses(&mut self) {
        let (arrived, arrived_at) = self.arrived;
        // Or one that was sent a good deal later, however few (RFC 8985).
        let window = self.rtt.min().unwrap_or_default() / 4;
        let mut found = false;
        for sent in &mut self.sent {
            let late = sent.transmission + REORDERING <= arrived
                || (sent.transmission < arrived && sent.at + window < arrived_at);
            if sent.fate == Fate::InFlight && late {
                sent.fate = Fate::Lost;
                self.in_flight -= sent.len();
                self.lost += 1;
                found = true;
            }
        }
        if found && self.phase == Phase::Open {
            self.tail_timer = None;
            self.cubic.on_loss();
            self.phase = Phase::Recovery(self.next);
            self.repair_now = true;
        }
    }

    pub(super) fn handle_timeout(&mut self, now: Timestamp) {
        if self.tail_timer.is_some_and(|at| at <= now) {
            self.probe_tail(now);
            return;
        }
        if self.timer.is_none_or(|at| at > now) {
            return;
        }
        self.rtt.back_off();
        if self.sent.is_empty() {
            // The peer's window is closed: send a window probe.
            self.probe = true;
            self.arm(now);
            return;
        }
        for sent in &mut self.sent {
            if sent.fate == Fate::InFlight {
                sent.fate = Fate::Lost;
                self.lost += 1;
            }
        }
        self.in_flight = 0;
        // Data that is being repaired has taken its share of the window already
        // (RFC 5681, equation 4 and what follows).
        match self.phase {
            Phase::Open => self.cubic.on_timeout(),
            Phase::Recovery(_) | Phase::Loss(_) => self.cubic.start_over(),
        }
        self.phase = Phase::Loss(self.next);
        self.repair_now = true;
        self.arm(now);
    }

    /// No ACK for two round trips: sends a tail loss probe, new data if there is any, else the last
    /// segment again.
    fn probe_tail(&mut self, now: Timestamp) {
        self.tail_probed = Some(self.next);
        self.tail_timer = None;
        self.timer = Some(now + self.rtt.timeout());
        if !self.unsent.is_empty() && self.window_end > self.next {
            self.probe_new = true;
        } else if let Some(last) = self.sent.back_mut()
            && last.fate == Fate::InFlight
        {
            last.fate = Fate::Lost;
            self.in_flight -= last.len();
            self.lost += 1;
            self.repair_now = true;
        }
    }

    /// The next segment to put on the wire.
    pub(super) fn poll_transmit(&mut self, now: Timestamp) -> Option<Outgoing> {
        if self.probe {
            self.probe = false;
            return Some(Outgoing {
                // Old data, which the peer answers with an ACK.
                seq: self.una.saturating_sub(1),
                payload: Bytes::new(),
                fin: false,
            });
        }
        if self.lost > 0 {
            return self.retransmit(now);
        }
        self.send_new(now)
    }

    fn retransmit(&mut self, now: Timestamp) -> Option<Outgoing> {
        let room = self.cubic.window_bytes().saturating_sub(self.in_flight);
        let force = std::mem::take(&mut self.repair_now) || self.in_flight == 0;
        let idle = self.in_flight == 0;
        let sent = self.sent.iter_mut().find(|sent| sent.fate == Fate::Lost)?;
        if sent.len() > room && !force {
            return None;
        }
        self.transmissions += 1;
        sent.fate = Fate::InFlight;
        sent.transmission = self.transmissions;
        sent.at = now;
        sent.retransmitted = true;
        sent.stamp = self.rate.on_send(now, idle);
        let outgoing = Outgoing {
            seq: sent.seq,
            payload: sent.payload.clone(),
            fin: sent.fin,
        };
        self.lost -= 1;
        self.account(now, &outgoing);
        self.bytes_retransmitted += outgoing.payload.len() as u64;
        Some(outgoing)
    }

    /// The first `len` unsent bytes, copied as blocks: byte by byte it is a quarter of a
    /// simulation's CPU time.
    fn take_unsent(&mut self, len: usize) -> Bytes {
        let (front, back) = self.unsent.as_slices();
        let from_front = len.min(front.len());
        let payload = [&front[..from_front], &back[..len - from_front]].concat();
        self.unsent.drain(..len);
        payload.into()
    }

    fn send_new(&mut self, now: Timestamp) -> Option<Outgoing> {
        let waiting = self.unsent.len() as u64;
        let fin_waits = self.fin == Fin::Wanted;
        if waiting == 0 && !fin_waits {
            return None;
        }
        if self.sent.is_empty() {
            self.restart(now);
        }
        let len = waiting.min(MSS);
        let window = self.cubic.window_bytes();
        let probe = std::mem::take(&mut self.probe_new);
        if self.in_flight + len > window && self.in_flight > 0 && !probe {
            self.window_limited = true;
            return None;
        }
        let allowed = self.window_end.saturating_sub(self.next);
        // A full segment or nothing, but for the last one, and where nothing
        // else would wake us (RFC 9293, 3.8.6.2.1).
        let len = if allowed >= len {
            len
        } else if self.sent.is_empty() {
            allowed
        } else {
            0
        };
        let fin = fin_waits && len == waiting;
        if len == 0 && !fin {
            if self.sent.is_empty() && self.timer.is_none() {
                self.arm_persist(now);
            }
            return None;
        }
        self.transmissions += 1;
        let payload = self.take_unsent(len as usize);
        if fin {
            self.fin = Fin::Sent;
        }
        let idle = self.in_flight == 0;
        let stamp = self.rate.on_send(now, idle);
        let outgoing = Outgoing {
            seq: self.next,
            payload,
            fin,
        };
        self.sent.push_back(Sent {
            seq: outgoing.seq,
            payload: outgoing.payload.clone(),
            fin,
            fate: Fate::InFlight,
            transmission: self.transmissions,
            at: now,
            retransmitted: false,
            stamp,
        });
        self.next += len + u64::from(fin);
        self.account(now, &outgoing);
        Some(outgoing)
    }

    fn account(&mut self, now: Timestamp, outgoing: &Outgoing) {
        let bytes = outgoing.payload.len() as u64;
        self.in_flight += bytes;
        self.bytes_sent += bytes;
        self.last_sent = now;
        if self.una >= self.round_end {
            self.round_end = self.next;
            self.max_in_flight = 0;
            self.window_limited = false;
        }
        self.max_in_flight = self.max_in_flight.max(self.in_flight);
        if self.timer.is_none() || self.sent.len() == 1 {
            self.arm(now);
        } else {
            self.arm_tail(now);
        }
    }

    /// The window may grow only while it is what limits (RFC 7661 as Linux has
    /// it: in slow start, when at least half of it was used).
    fn is_window_limited(&self) -> bool {
        self.window_limited
            || (self.cubic.in_slow_start()
                && self.cubic.window_bytes() < 2 * self.max_in_flight.max(1))
    }

    /// Sending begins again with nothing under way.
    fn restart(&mut self, now: Timestamp) {
        let idle = now.since(self.last_sent);
        if self.bytes_sent == 0 || idle.is_zero() {
            return;
        }
        self.cubic.on_restart(idle);
        let rto = self.rtt.timeout();
        if self.config.slow_start_after_idle && idle > rto {
            self.cubic.decay(idle, rto);
        }
        // So that the same pause is counted once.
        self.last_sent = now;
    }

    fn arm(&mut self, now: Timestamp) {
        let waits_for_window =
            self.sent.is_empty() && !self.unsent.is_empty() && self.window_end <= self.next;
        self.timer = if self.sent.is_empty() && !waits_for_window {
            None
        } else {
            Some(now + self.rtt.timeout())
        };
        self.arm_tail(now);
    }

    fn arm_tail(&mut self, now: Timestamp) {
        let orderly = self.phase == Phase::Open
            && self.lost == 0
            && self.tail_probed.is_none()
            && self.sent.iter().all(|sent| sent.fate == Fate::InFlight);
        let Some(srtt) = self.rtt.smoothed().filter(|_| orderly) else {
            self.tail_timer = None;
            return;
        };
        self.tail_timer = match self.sent.len() {
            0 => None,
            // A single segment's ACK may be delayed.
            1 => Some(now + srtt * 2 + Duration::from_millis(200)),
            _ => Some(now + srtt * 2 + Duration::from_millis(2)),
        };
        // Not when the timeout comes first.
        self.tail_timer
            .take_if(|tail| self.timer.is_some_and(|at| at <= *tail));
    }

    fn arm_persist(&mut self, now: Timestamp) {
        self.timer = Some(now + self.rtt.timeout());
    }

    pub(super) fn fill_info(&self, info: &mut Info) {
        info.cwnd_bytes = self.cubic.window_bytes();
        info.ssthresh_bytes = self.cubic.threshold_bytes();
        info.srtt = self.rtt.smoothed();
        info.min_rtt = self.rtt.min();
        info.rto = self.rtt.timeout();
        // The end of the stream is an offset, but no byte.
        let fin = u64::from(self.fin == Fin::Sent);
        info.bytes_acked = self.una.min(self.next - fin);
        info.bytes_sent = self.bytes_sent;
        info.bytes_retransmitted = self.bytes_retransmitted;
        let sacked = self.sent.iter().filter(|s| s.fate == Fate::Sacked);
        info.sacked_bytes = sacked.map(Sent::len).sum();
        info.unacked_bytes = self.next - fin - info.bytes_acked;
        info.notsent_bytes = self.notsent();
        info.delivery_rate = self.rate.rate();
        info.app_limited = self.rate.is_app_limited();
    }
}
