//! Statistics and budget of a relay, shared with the tasks that report them.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use mpbond_units::{BitRate, Sojourn};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::hop::{Hop, Other};
use super::waits::Waits;
use crate::control::{RelayReport, RequestId};
use crate::pipe::PipeStream;
use crate::tcp::TcpInfo;

/// Remaining bytes of `max_bytes_per_month`, shared by all relays of a helper.
#[derive(Debug)]
pub struct Budget(AtomicU64);

impl Budget {
    /// A budget of `bytes`.
    pub fn new(bytes: u64) -> Self {
        Self(AtomicU64::new(bytes))
    }

    /// Remaining bytes, both directions together.
    pub fn left_bytes(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// Sets the remaining bytes, as at the start of a month.
    pub fn set_left_bytes(&self, bytes: u64) {
        self.0.store(bytes, Relaxed);
    }

    /// Reserves up to `wanted` bytes; unused ones are returned with [`Budget::give_back`].
    pub(super) fn reserve(&self, wanted: u64) -> u64 {
        let take = |left: u64| Some(left - left.min(wanted));
        match self.0.fetch_update(Relaxed, Relaxed, take) {
            Ok(before) | Err(before) => before.min(wanted),
        }
    }

    pub(super) fn give_back(&self, bytes: u64) {
        self.0.fetch_add(bytes, Relaxed);
    }
}

/// Time without a byte after which a relay is idle.
const QUIET: Duration = Duration::from_millis(300);

/// The two sockets of a relay.
#[derive(Debug)]
pub(super) struct Sockets {
    pub pipe: PipeStream,
    pub hs: TcpStream,
}

/// State written by the running relay and read by its handles.
#[derive(Debug)]
pub(super) struct Shared {
    /// Most bytes that are buffered in each direction.
    bound_bytes: u64,
    pub stop: Notify,
    /// Notified by the first byte after an idle period.
    pub woken: Notify,
    pub bytes_down: AtomicU64,
    pub bytes_up: AtomicU64,
    pub held_down: AtomicU64,
    pub held_up: AtomicU64,
    tick_down_us: AtomicU64,
    tick_up_us: AtomicU64,
    waits_down: Waits,
    waits_up: Waits,
    // Uncontended: one thread runs a relay and reads its statistics.
    sojourn_down: Mutex<Sojourn>,
    sojourn_up: Mutex<Sojourn>,
    began: Instant,
    /// Microseconds since `began`, plus one; zero for never.
    last_hs_byte_us: AtomicU64,
    /// The same for received bytes only.
    last_hs_down_us: AtomicU64,
}

impl Shared {
    pub(super) fn new(bound_bytes: u64) -> Self {
        Self {
            bound_bytes,
            stop: Notify::new(),
            woken: Notify::new(),
            bytes_down: AtomicU64::new(0),
            bytes_up: AtomicU64::new(0),
            held_down: AtomicU64::new(0),
            held_up: AtomicU64::new(0),
            tick_down_us: AtomicU64::new(0),
            tick_up_us: AtomicU64::new(0),
            waits_down: Waits::default(),
            waits_up: Waits::default(),
            sojourn_down: Mutex::default(),
            sojourn_up: Mutex::default(),
            began: Instant::now(),
            last_hs_byte_us: AtomicU64::new(0),
            last_hs_down_us: AtomicU64::new(0),
        }
    }

    /// Updates both sojourn times: after every turn and on every read of the statistics. Bytes
    /// received by one socket and not sent by the other are at this host. No effect when a socket
    /// has failed.
    pub(super) fn stamp(&self, pipe: &impl Hop, hs: &TcpStream) {
        let tick = |us: &AtomicU64| Duration::from_micros(us.load(Relaxed));
        let [down, up] = [&self.tick_down_us, &self.tick_up_us].map(tick);
        let moved = (&self.bytes_down, &self.held_down);
        self.stamp_one(&self.sojourn_down, moved, (hs, pipe), down);
        let moved = (&self.bytes_up, &self.held_up);
        self.stamp_one(&self.sojourn_up, moved, (pipe, hs), up);
    }

    /// Notes the intervals at which the relay looks for bytes; zero for every arrival.
    pub(super) fn set_ticks(&self, down: Duration, up: Duration) {
        // A few milliseconds.
        let us = |tick: Duration| u64::try_from(tick.as_micros()).unwrap_or_default();
        self.tick_down_us.store(us(down), Relaxed);
        self.tick_up_us.store(us(up), Relaxed);
    }

    /// Notes which directions wait for the rate of the link.
    pub(super) fn set_waits(&self, down: bool, up: bool) {
        self.waits_down.set(down, || self.began.elapsed());
        self.waits_up.set(up, || self.began.elapsed());
    }

    fn stamp_one(
        &self,
        sojourn: &Mutex<Sojourn>,
        (written, held): (&AtomicU64, &AtomicU64),
        (from, to): (&impl Hop, &impl Hop),
        tick: Duration,
    ) {
        let (Ok(received), Ok(unsent)) = (from.unread_bytes(), to.unsent_bytes()) else {
            return;
        };
        let (written, held) = (written.load(Relaxed), held.load(Relaxed));
        let now = self.began.elapsed();
        let mut sojourn = sojourn.lock().unwrap_or_else(PoisonError::into_inner);
        sojourn.came(written + held + received, now, tick);
        sojourn.left(written.saturating_sub(unsent), now);
    }

    /// Records a byte sent on the HS-Path.
    pub(super) fn hs_byte_went_up(&self) {
        self.hs_byte_passed();
    }

    /// Records a byte received on the HS-Path.
    pub(super) fn hs_byte_came_down(&self) {
        let now = self.hs_byte_passed();
        self.last_hs_down_us.store(now, Relaxed);
    }

    fn hs_byte_passed(&self) -> u64 {
        let us = u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX - 1);
        let before = self.last_hs_byte_us.swap(us + 1, Relaxed);
        if u128::from(us.saturating_sub(before)) > QUIET.as_micros() {
            self.woken.notify_one();
        }
        us + 1
    }

    fn since(&self, stamp: &AtomicU64) -> Option<Duration> {
        let at = Duration::from_micros(stamp.load(Relaxed).checked_sub(1)?);
        Some(self.began.elapsed().saturating_sub(at))
    }
}

/// Handle of a running relay: reads its statistics and stops it.
#[derive(Debug, Clone)]
pub struct RelayHandle {
    pub(super) shared: Arc<Shared>,
    pub(super) sockets: Weak<Sockets>,
}

/// Statistics of a relay at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RelayStats {
    /// Total bytes written to the pipe.
    pub bytes_down: u64,
    /// Total bytes written to the HS-Path.
    pub bytes_up: u64,
    /// Bytes buffered at this helper for the primary: received and not sent (B_p). At most the
    /// relay's bound.
    pub level_down_bytes: u64,
    /// Bytes buffered at this helper for the proxy (B_h).
    pub level_up_bytes: u64,
    /// Most bytes that are buffered in each direction.
    pub bound_bytes: u64,
    /// Time since the last byte on the HS-Path, either direction.
    pub since_hs_byte: Option<Duration>,
    /// Time since the last byte received on the HS-Path.
    pub since_hs_down: Option<Duration>,
    /// Time for which it has waited until the rate of its link let it read for the primary.
    pub waited_down: Duration,
    /// The same for the proxy.
    pub waited_up: Duration,
    /// Sojourn time of the last byte sent to the primary.
    pub sojourn_down: Option<Duration>,
    /// Sojourn time of the last byte sent to the proxy.
    pub sojourn_up: Option<Duration>,
    /// TCP statistics of the pipe, if it is a TCP connection.
    pub pipe: Option<TcpInfo>,
    /// TCP statistics of the HS-Path.
    pub hs: TcpInfo,
}

impl RelayHandle {
    /// Stops the relay: both connections are reset.
    pub fn stop(&self) {
        self.shared.stop.notify_one();
    }

    /// Waits for the first byte after an idle period, so that reporting can pause meanwhile. A byte
    /// that passed before the call completes it at once.
    pub async fn woken(&self) {
        self.shared.woken.notified().await;
    }

    /// Bytes moved down and up, also when it has ended.
    pub fn moved(&self) -> (u64, u64) {
        let s = &self.shared;
        (s.bytes_down.load(Relaxed), s.bytes_up.load(Relaxed))
    }

    /// Reads the statistics without disturbing the relay. `None` when it has ended.
    pub fn stats(&self) -> Option<RelayStats> {
        let sockets = self.sockets.upgrade()?;
        match &sockets.pipe {
            PipeStream::Tcp(pipe) => self.stats_over(pipe, &sockets.hs),
            PipeStream::Unix(pipe) => self.stats_over(&Other::Unix(pipe), &sockets.hs),
            PipeStream::L2(pipe) => self.stats_over(&Other::L2(pipe), &sockets.hs),
        }
    }

    /// Kind of the pipe; `None` when the relay has ended.
    pub fn pipe_kind(&self) -> Option<&'static str> {
        Some(self.sockets.upgrade()?.pipe.kind())
    }

    fn stats_over(&self, pipe: &impl Hop, hs: &TcpStream) -> Option<RelayStats> {
        fn level(held: &AtomicU64, from: &impl Hop, to: &impl Hop) -> Option<u64> {
            let received = from.unread_bytes().ok()?;
            Some(received + held.load(Relaxed) + to.unsent_bytes().ok()?)
        }
        let s = &self.shared;
        s.stamp(pipe, hs);
        let last = |sojourn: &Mutex<Sojourn>| {
            let sojourn = sojourn.lock().unwrap_or_else(PoisonError::into_inner);
            sojourn.last()
        };
        Some(RelayStats {
            bytes_down: s.bytes_down.load(Relaxed),
            bytes_up: s.bytes_up.load(Relaxed),
            level_down_bytes: level(&s.held_down, hs, pipe)?,
            level_up_bytes: level(&s.held_up, pipe, hs)?,
            bound_bytes: s.bound_bytes,
            since_hs_byte: s.since(&s.last_hs_byte_us),
            since_hs_down: s.since(&s.last_hs_down_us),
            waited_down: s.waits_down.total(s.began.elapsed()),
            waited_up: s.waits_up.total(s.began.elapsed()),
            sojourn_down: last(&s.sojourn_down),
            sojourn_up: last(&s.sojourn_up),
            pipe: pipe.tcp_info().ok()?,
            hs: TcpInfo::read(hs).ok()?,
        })
    }
}

impl RelayStats {
    /// Whether the buffer for the primary is so full that it limits what comes over the HS-Path.
    pub fn is_held_up(&self) -> bool {
        self.level_down_bytes > self.bound_bytes / 2
    }

    /// These statistics as a report to the primary, with the rate at which bytes come over the
    /// HS-Path; of the link, down and up, the rates of all relays where they are limited, and
    /// whether they have held this one back.
    pub fn report(
        &self,
        number: u64,
        relay: RequestId,
        th_hs_down: Option<BitRate>,
        ([limit_down, limit_up], [held_back_down, held_back_up]): ([Option<BitRate>; 2], [bool; 2]),
    ) -> RelayReport {
        RelayReport {
            number,
            relay,
            th_p: self.pipe.as_ref().and_then(throughput),
            pipe_rtt: self.pipe.and_then(|pipe| pipe.min_rtt.or(pipe.rtt)),
            level_down_bytes: self.level_down_bytes,
            level_up_bytes: self.level_up_bytes,
            th_hs: throughput(&self.hs),
            hs_rtt: self.hs.min_rtt.or(self.hs.rtt),
            since_hs_byte: self.since_hs_byte,
            since_hs_down: self.since_hs_down,
            sojourn_down: self.sojourn_down,
            sojourn_up: self.sojourn_up,
            th_hs_down,
            bound_down_bytes: Some(self.bound_bytes),
            limit_down,
            limit_up,
            held_back_down,
            held_back_up,
            age: Some(Duration::ZERO),
        }
    }
}

/// Throughput at a hop's sender: the measured delivery rate unless it was limited by the
/// application, else the congestion window per round trip (MPBond section 4.3.2).
fn throughput(hop: &TcpInfo) -> Option<BitRate> {
    if !hop.delivery_rate_app_limited
        && let Some(rate) = hop.delivery_rate
    {
        return Some(rate);
    }
    hop.rtt.map(|rtt| BitRate::over(hop.cwnd_bytes, rtt))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_never_overdrawn() {
        let budget = Budget::new(100);
        assert_eq!(budget.reserve(60), 60);
        assert_eq!(budget.reserve(60), 40);
        assert_eq!(budget.reserve(60), 0);
        budget.give_back(25);
        assert_eq!(budget.left_bytes(), 25);
        budget.set_left_bytes(7);
        assert_eq!(budget.reserve(u64::MAX), 7);
    }
}
