//! Sender of records at their due times, used by client and server.

use std::io::{self, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::flow::Flow;
use super::wire::{Frame, HEADER, Kind, MAX_RECORD};
use crate::sys;

/// Number of records is not known yet.
pub(crate) const OPEN: u64 = u64::MAX;
/// Interval of a client's pings: short enough to detect clock drift and silent paths.
const PING: Duration = Duration::from_secs(1);

/// Writing end of a connection, shared by several threads, one frame at a time.
pub(crate) struct Writer(Mutex<TcpStream>);

impl Writer {
    pub(crate) fn new(stream: TcpStream) -> Self {
        Self(Mutex::new(stream))
    }

    pub(crate) fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let mut stream = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        stream.write_all(bytes)
    }
}

/// Task of a sender on this connection.
pub(crate) struct Work<'a> {
    pub(crate) flow: Option<Flow>,
    pub(crate) next: u64,
    /// Number of records; set here when bulk ends.
    pub(crate) total: &'a AtomicU64,
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
    pub(crate) pings: bool,
}

/// Sends until `gone` is set, or the connection fails.
pub(crate) fn send(writer: &Writer, work: Work<'_>, gone: &AtomicBool) -> io::Result<()> {
    let mut record = noise();
    let mut next = work.next;
    let mut ended = work.flow.is_none();
    let mut ping = Instant::now();
    while !gone.load(Ordering::Relaxed) {
        if work.pings && Instant::now() >= ping {
            let now = sys::now_ns();
            writer.write(&Frame::bare(Kind::Ping, now, now).to_bytes())?;
            ping = Instant::now() + PING;
        }
        let mut wait = if work.pings {
            ping.saturating_duration_since(Instant::now())
        } else {
            PING
        };
        if let (Some(flow), false) = (work.flow, ended) {
            let now = sys::now_ns();
            let bulk = flow.interval.is_zero();
            if bulk && now >= work.end_ns {
                // The number of records is set once, also after retransmissions.
                let _ = work
                    .total
                    .compare_exchange(OPEN, next, Ordering::SeqCst, Ordering::SeqCst);
            }
            let due = flow.due_ns(work.start_ns, next);
            if next >= work.total.load(Ordering::SeqCst) {
                let total = work.total.load(Ordering::SeqCst);
                writer.write(&Frame::bare(Kind::End, total, now).to_bytes())?;
                ended = true;
            } else if bulk || due <= now {
                let length = flow.record_bytes as usize;
                let frame = Frame {
                    kind: Kind::Data,
                    length: length.saturating_sub(HEADER),
                    number: next,
                    stamp_ns: if bulk { now } else { due },
                };
                for (to, from) in record.iter_mut().zip(frame.to_bytes()) {
                    *to = from;
                }
                writer.write(record.get(..length).unwrap_or_default())?;
                next += 1;
                continue;
            } else {
                wait = wait.min(Duration::from_nanos(due - now));
            }
        }
        std::thread::park_timeout(wait);
    }
    Ok(())
}

/// Incompressible octets.
fn noise() -> Vec<u8> {
    let mut x = 0x9e37_79b9_7f4a_7c15_u64;
    let words = std::iter::repeat_with(|| {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x.to_ne_bytes()
    });
    words.take(MAX_RECORD / 8).flatten().collect()
}

/// Maximum number of unsent bytes in a socket: bounds queueing in this host, so that delays are
/// those of the network.
const UNSENT_BYTES: u32 = 64 * 1024;

pub(crate) fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    socket2::SockRef::from(stream).set_tcp_notsent_lowat(UNSENT_BYTES)
}
