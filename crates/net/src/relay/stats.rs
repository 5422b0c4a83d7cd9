use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::Duration;

use mpbond_units::BitRate;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::control::{RelayReport, RequestId};
use crate::tcp::{self, TcpInfo};

/// Bytes that may still pass, shared by all relays of a helper: what is left
/// of `max_bytes_per_month`.
#[derive(Debug)]
pub struct Budget(AtomicU64);

impl Budget {
    /// `bytes` may pass.
    pub fn new(bytes: u64) -> Self {
        Self(AtomicU64::new(bytes))
    }

    /// Bytes that may still pass, both directions together.
    pub fn left_bytes(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// Sets what may still pass, as at the start of a month.
    pub fn set_left_bytes(&self, bytes: u64) {
        self.0.store(bytes, Relaxed);
    }

    /// Takes up to `wanted`; what is not used is given back.
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

/// A relay through which no byte has passed for so long is quiet.
const QUIET: Duration = Duration::from_millis(300);

/// The two sockets of a relay.
#[derive(Debug)]
pub(super) struct Sockets {
    pub pipe: TcpStream,
    pub hs: TcpStream,
}

/// What the running relay writes and others read.
#[derive(Debug)]
pub(super) struct Shared {
    pub stop: Notify,
    /// The first byte after a quiet time has passed.
    pub woken: Notify,
    pub bytes_down: AtomicU64,
    pub bytes_up: AtomicU64,
    pub held_down: AtomicU64,
    pub held_up: AtomicU64,
    began: Instant,
    /// Microseconds after `began`, plus one; zero for never.
    last_hs_byte_us: AtomicU64,
    /// The same, of bytes that came down alone.
    last_hs_down_us: AtomicU64,
}

impl Shared {
    pub(super) fn new() -> Self {
        Self {
            stop: Notify::new(),
            woken: Notify::new(),
            bytes_down: AtomicU64::new(0),
            bytes_up: AtomicU64::new(0),
            held_down: AtomicU64::new(0),
            held_up: AtomicU64::new(0),
            began: Instant::now(),
            last_hs_byte_us: AtomicU64::new(0),
            last_hs_down_us: AtomicU64::new(0),
        }
    }

    /// A byte has gone up the HS-Path.
    pub(super) fn hs_byte_went_up(&self) {
        self.hs_byte_passed();
    }

    /// A byte has come down the HS-Path.
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

/// Reads and stops a relay that runs elsewhere.
#[derive(Debug, Clone)]
pub struct RelayHandle {
    pub(super) shared: Arc<Shared>,
    pub(super) sockets: Weak<Sockets>,
}

/// How a relay is doing at this moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RelayStats {
    /// Bytes given to the pipe so far.
    pub bytes_down: u64,
    /// Bytes given to the HS-Path so far.
    pub bytes_up: u64,
    /// Bytes at this helper on their way to the primary: received and not
    /// sent. At most the relay's bound.
    pub level_down_bytes: u64,
    /// Bytes at this helper on their way to the proxy.
    pub level_up_bytes: u64,
    /// Time since a byte last passed the HS-Path, either way.
    pub since_hs_byte: Option<Duration>,
    /// Time since a byte last came down the HS-Path.
    pub since_hs_down: Option<Duration>,
    /// The kernel's view of the pipe.
    pub pipe: TcpInfo,
    /// The kernel's view of the HS-Path.
    pub hs: TcpInfo,
}

impl RelayHandle {
    /// Ends the relay: both connections are reset.
    pub fn stop(&self) {
        self.shared.stop.notify_one();
    }

    /// Waits for the first byte after a quiet time; whoever reports on the relay can sleep until
    /// then. One that passed while nobody waited counts.
    pub async fn woken(&self) {
        self.shared.woken.notified().await;
    }

    /// Asks the kernel how the relay is doing; costs the relay nothing. `None`
    /// when it has ended.
    pub fn stats(&self) -> Option<RelayStats> {
        let sockets = self.sockets.upgrade()?;
        let Sockets { pipe, hs } = &*sockets;
        let s = &self.shared;
        let level = |held: &AtomicU64, from: &TcpStream, to: &TcpStream| {
            let received = tcp::receive_queue_bytes(from).ok()?;
            Some(received + held.load(Relaxed) + tcp::unsent_bytes(to).ok()?)
        };
        Some(RelayStats {
            bytes_down: s.bytes_down.load(Relaxed),
            bytes_up: s.bytes_up.load(Relaxed),
            level_down_bytes: level(&s.held_down, hs, pipe)?,
            level_up_bytes: level(&s.held_up, pipe, hs)?,
            since_hs_byte: s.since(&s.last_hs_byte_us),
            since_hs_down: s.since(&s.last_hs_down_us),
            pipe: TcpInfo::read(pipe).ok()?,
            hs: TcpInfo::read(hs).ok()?,
        })
    }
}

impl RelayStats {
    /// These readings as the numbered report that the primary gets.
    pub fn report(&self, number: u64, relay: RequestId) -> RelayReport {
        RelayReport {
            number,
            relay,
            th_p: throughput(&self.pipe),
            pipe_rtt: self.pipe.min_rtt.or(self.pipe.rtt),
            level_down_bytes: self.level_down_bytes,
            level_up_bytes: self.level_up_bytes,
            th_hs: throughput(&self.hs),
            hs_rtt: self.hs.min_rtt.or(self.hs.rtt),
            since_hs_byte: self.since_hs_byte,
            since_hs_down: self.since_hs_down,
            age: Some(Duration::ZERO),
        }
    }
}

/// Throughput at a hop's sender: the measured delivery rate where it says
/// something about the path, else the congestion window per round trip
/// (MPBond section 4.2).
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
