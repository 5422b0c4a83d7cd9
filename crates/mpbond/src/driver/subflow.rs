use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::rc::Weak;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use mpbond_net::tcp::{self, TcpInfo};
use mpbond_net::tls::{TlsError, TlsStream};
use mpbond_session::{CloseCode, PathInfo, SubflowId};
use mpbond_units::{BitRate, Timestamp};
use tokio::sync::oneshot;
use tracing::{debug, info, trace};

use super::turns::CALL;
use super::{Driver, Inner, Notice, say_close};

/// Facts on a path are asked from the kernel no more often than this while data flows: a fraction
/// of the shortest round trips of interest, and rare against the records of the fastest paths.
const PATH_INFO_EVERY: Duration = Duration::from_millis(1);

/// Octets given to a socket in one write(2): one record on ordinary paths, so that decisions are
/// made late; more on fast ones, where system calls are what costs.
const ROOM: u64 = 16 << 10;
const FAST_ROOM: u64 = 256 << 10;
const FAST: BitRate = BitRate::from_bps(300_000_000);

/// Unsent octets that the kernel keeps: what the path takes in this time, so that it never runs
/// dry while a wake-up is under way.
const LOWAT_TIME: Duration = Duration::from_millis(5);
const LOWAT: std::ops::RangeInclusive<u64> = (16 << 10)..=(1 << 20);

/// The connection of one subflow.
pub(super) struct SubflowIo {
    tls: TlsStream,
    /// Octets that `bytes_acked` of TCP_INFO is ahead of the TLS stream's.
    acked_base: Option<i128>,
    asked: Option<Timestamp>,
    lowat: u64,
    fast: bool,
    /// The socket takes no more; the task waits until it does.
    blocked: bool,
    room: u64,
    closing: bool,
    /// The other end has answered on it.
    pub(super) answered: bool,
    pub(super) waker: Option<Waker>,
    /// Dropped with the subflow, which tells whoever wants to join anew.
    _gone: oneshot::Sender<()>,
}

impl SubflowIo {
    pub(super) fn new(tls: TlsStream, gone: oneshot::Sender<()>) -> Self {
        let acked_base = acked_base(&tls);
        Self {
            tls,
            acked_base,
            asked: None,
            lowat: 0,
            fast: false,
            blocked: false,
            room: 0,
            closing: false,
            answered: false,
            waker: None,
            _gone: gone,
        }
    }

    /// The own address that it runs from.
    pub(super) fn local(&self) -> Option<IpAddr> {
        self.tls.tcp().local_addr().ok().map(|a| a.ip())
    }

    fn path_info(&self, info: &TcpInfo) -> Option<PathInfo> {
        let acked = i128::from(info.bytes_acked?) - self.acked_base?;
        Some(PathInfo {
            cwnd_bytes: info.cwnd_bytes,
            srtt: info.rtt.unwrap_or_default(),
            min_rtt: info.min_rtt.unwrap_or_default(),
            bytes_arrived: u64::try_from(acked).unwrap_or(0) + info.sacked_bytes,
            delivery_rate: info.delivery_rate.unwrap_or_default(),
            app_limited: info.delivery_rate_app_limited,
            slow_start: info.slow_start,
        })
    }

    /// Keeps the kernel's queue of unsent octets as short as the path's pace allows.
    fn tune(&mut self, rate: BitRate) {
        self.fast = rate > FAST;
        let wanted = rate
            .bytes_in(LOWAT_TIME)
            .clamp(*LOWAT.start(), *LOWAT.end());
        if wanted > self.lowat * 3 / 2 || wanted < self.lowat / 2 {
            let tuning =
                socket2::SockRef::from(self.tls.tcp()).set_tcp_notsent_lowat(wanted as u32);
            if let Err(e) = tuning {
                debug!(error = %e, "can't set TCP_NOTSENT_LOWAT");
            }
            self.lowat = wanted;
        }
    }
}

/// Octets that the peer's TCP had acknowledged when the TLS stream began: those of the SYN, and of
/// what went before TLS. Taken twice, until nothing moved in between.
fn acked_base(tls: &TlsStream) -> Option<i128> {
    for _ in 0..8 {
        let before = TcpInfo::read(tls.tcp()).ok()?.bytes_acked?;
        let queued = tcp::send_queue_bytes(tls.tcp()).ok()?;
        let after = TcpInfo::read(tls.tcp()).ok()?.bytes_acked?;
        if before == after {
            let written = tls.ciphertext_out() - tls.queued_bytes() as u64;
            return Some(i128::from(before) + i128::from(queued) - i128::from(written));
        }
    }
    None
}

impl Inner {
    /// Fetches records from the session and writes them; whether there was any.
    pub(super) fn transmit(&mut self) -> bool {
        self.refresh_paths();
        let now = self.clock.now();
        let mut any = false;
        let mut flush = Vec::new();
        loop {
            self.record.clear();
            let Some(t) = self.session.poll_transmit(now, &mut self.record) else {
                // What a full batch left over goes out now, and may make room for more.
                if flush.is_empty() {
                    return any;
                }
                for id in flush.drain(..) {
                    self.flush(id);
                }
                continue;
            };
            any = true;
            let Some(io) = self.subflows.get_mut(&t.subflow) else {
                continue;
            };
            match io.tls.queue_record(&self.record) {
                Ok(end) => {
                    if end != t.octets_end {
                        self.session.handle_octets(t.subflow, end);
                    }
                }
                Err(e) => {
                    debug!(subflow = %t.subflow, error = %e, "can't write a record");
                    self.close_subflow(t.subflow);
                    continue;
                }
            }
            io.room = io.room.saturating_sub(self.record.len() as u64);
            if io.room == 0 {
                flush.retain(|id| *id != t.subflow);
                self.flush(t.subflow);
            } else if !flush.contains(&t.subflow) {
                flush.push(t.subflow);
            }
        }
    }

    /// Writes what is queued on a subflow; a socket that takes no more is left to its task.
    fn flush(&mut self, id: SubflowId) {
        let Some(io) = self.subflows.get_mut(&id) else {
            return;
        };
        if io.blocked {
            return;
        }
        let mut cx = Context::from_waker(Waker::noop());
        match io.tls.poll_flush(&mut cx) {
            Poll::Ready(Ok(())) => self.give_room(id),
            Poll::Ready(Err(e)) => self.broken(id, &e),
            Poll::Pending => {
                io.blocked = true;
                io.room = 0;
                self.session.handle_room(id, 0);
                if let Some(w) = io.waker.take() {
                    self.wake.push(w);
                }
            }
        }
    }

    fn give_room(&mut self, id: SubflowId) {
        if let Some(io) = self.subflows.get_mut(&id) {
            io.blocked = false;
            io.room = if io.fast { FAST_ROOM } else { ROOM };
            self.session.handle_room(id, io.room);
        }
    }

    /// Asks the kernel about paths while data flows.
    fn refresh_paths(&mut self) {
        let now = self.clock.now();
        if self
            .subflows
            .values()
            .all(|io| io.asked.is_some_and(|at| now.since(at) < PATH_INFO_EVERY))
        {
            return;
        }
        let sending = self.session.is_sending();
        for (id, io) in &mut self.subflows {
            let due = match io.asked {
                None => true,
                Some(at) => sending && now.since(at) >= PATH_INFO_EVERY,
            };
            if !due {
                continue;
            }
            io.asked = Some(now);
            let Ok(info) = TcpInfo::read(io.tls.tcp()) else {
                continue;
            };
            if let Some(path) = io.path_info(&info) {
                self.session.handle_path(now, *id, path);
                io.tune(path.delivery_rate);
                trace!(subflow = %id, ?path, "path");
            }
        }
    }

    /// A connection failed on its own.
    fn broken(&mut self, id: SubflowId, e: &dyn std::fmt::Display) {
        let name = self.name(id);
        info!(subflow = %id, name, error = %e, "subflow's connection is gone");
        self.close_subflow(id);
    }

    /// Lets a subflow go, here and in the session.
    pub(super) fn close_subflow(&mut self, id: SubflowId) {
        let now = self.clock.now();
        self.session.handle_subflow_closed(now, id);
        let Some(mut io) = self.subflows.remove(&id) else {
            return;
        };
        self.account.give_back(crate::memory::SUBFLOW);
        // A reset, not a farewell: a helper then discards what it holds in both directions.
        if io.tls.queued_bytes() > 0 || io.blocked || !io.closing {
            let _ = socket2::SockRef::from(io.tls.tcp()).set_linger(Some(Duration::ZERO));
        }
        if let Some(w) = io.waker.take() {
            self.wake.push(w);
        }
        self.notice(Notice::SubflowGone(id));
    }

    /// Takes in what a subflow has received.
    fn receive(&mut self, id: SubflowId, cx: &mut Context<'_>) -> Received {
        let now = self.clock.now();
        let Some(io) = self.subflows.get_mut(&id) else {
            return Received::Gone;
        };
        let eof = match io.tls.poll_fill(cx) {
            Poll::Pending => return Received::Nothing,
            Poll::Ready(Ok(n)) => {
                self.session.handle_arrival(now, id, n as u64);
                self.turn.spend(CALL + n as u64);
                n == 0
            }
            Poll::Ready(Err(e)) => {
                self.broken(id, &e);
                return Received::Gone;
            }
        };
        loop {
            let Some(io) = self.subflows.get_mut(&id) else {
                return Received::Gone;
            };
            match io.tls.next_record() {
                Ok(Some(record)) => {
                    let result =
                        self.session
                            .handle_record(now, id, record.payload, record.ciphertext_end);
                    if let Err(e) = result {
                        self.misbehaved(id, &e);
                        return Received::Gone;
                    }
                }
                Ok(None) if eof => {
                    self.broken(id, &"closed by the other end");
                    return Received::Gone;
                }
                Ok(None) => return Received::Something,
                Err(e) => {
                    self.tls_failed(id, &e);
                    return Received::Gone;
                }
            }
        }
    }

    fn misbehaved(&mut self, id: SubflowId, e: &mpbond_session::SubflowError) {
        let name = self.name(id);
        let who = if e.by_peer { "the other end" } else { "we" };
        info!(subflow = %id, name, code = %e.code, reason = e.reason, "{who} closed the subflow");
        if e.by_peer && e.code == CloseCode::NotTrusted {
            self.notice(Notice::Distrusted);
        }
        self.say_last(id, e);
    }

    /// Tells the other end why, and closes.
    pub(super) fn say_last(&mut self, id: SubflowId, e: &mpbond_session::SubflowError) {
        if let Some(io) = self.subflows.get_mut(&id) {
            say_close(&mut io.tls, e);
            io.closing = true;
        }
        self.close_subflow(id);
    }

    fn tls_failed(&mut self, id: SubflowId, e: &TlsError) {
        if let Some(io) = self.subflows.get_mut(&id) {
            let mut cx = Context::from_waker(Waker::noop());
            let _: Poll<io::Result<()>> = io.tls.poll_flush(&mut cx);
        }
        // From the proxy itself: no one else can say so once the handshake is done.
        if matches!(e, TlsError::NotTrusted { .. }) {
            self.notice(Notice::Distrusted);
            self.session.handle_distrust();
        }
        self.broken(id, e);
    }
}

enum Received {
    Something,
    Nothing,
    Gone,
}

/// Reads records and waits for a socket that takes no more; ends with the subflow.
pub(super) async fn run(shared: Weak<RefCell<Inner>>, id: SubflowId) {
    // The hello, and what came with the handshake.
    if let Some(shared) = shared.upgrade() {
        Driver { shared }.with(|inner| inner.give_room(id));
    }
    poll_fn(|cx| {
        let Some(shared) = shared.upgrade() else {
            return Poll::Ready(());
        };
        Driver { shared }.with(|inner| {
            let Some(io) = inner.subflows.get_mut(&id) else {
                return Poll::Ready(());
            };
            io.waker = Some(cx.waker().clone());
            if io.blocked {
                match io.tls.poll_flush(cx) {
                    Poll::Ready(Ok(())) => inner.give_room(id),
                    Poll::Ready(Err(e)) => {
                        inner.broken(id, &e);
                        return Poll::Ready(());
                    }
                    Poll::Pending => {}
                }
            }
            let mut worked = false;
            while !inner.turn.is_over(cx.waker(), worked) {
                match inner.receive(id, cx) {
                    // Results go out before more comes in.
                    Received::Something => inner.settle(),
                    Received::Nothing => return Poll::Pending,
                    Received::Gone => return Poll::Ready(()),
                }
                worked = true;
            }
            Poll::Pending
        })
    })
    .await;
}
