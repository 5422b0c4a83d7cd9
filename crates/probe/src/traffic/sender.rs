//! Writes records when they are due. Client and server do it alike.

use std::io::{self, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::flow::Flow;
use super::wire::{Frame, HEADER, Kind, MAX_RECORD};
use crate::sys;

/// Not known yet how many records there are.
pub(crate) const OPEN: u64 = u64::MAX;
/// How often a client pings: enough to notice a clock that drifts, and a path that is silent.
const PING: Duration = Duration::from_secs(1);

/// One end of a connection, written to by several threads, a frame at a time.
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

/// What a sender has to do on this connection.
pub(crate) struct Work<'a> {
    pub(crate) flow: Option<Flow>,
    pub(crate) next: u64,
    /// Records in all; set here when bulk ends with its time.
    pub(crate) total: &'a AtomicU64,
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
    pub(crate) pings: bool,
}

/// Sends until `gone`, or the connection fails.
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
                // How many there are is said once, whatever was sent again meanwhile.
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

/// Octets that no link can make shorter.
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

/// How much a socket holds that has not been sent: no more waits in this host, so that a delay is
/// the network's.
const UNSENT_BYTES: u32 = 64 * 1024;

pub(crate) fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    socket2::SockRef::from(stream).set_tcp_notsent_lowat(UNSENT_BYTES)
}
