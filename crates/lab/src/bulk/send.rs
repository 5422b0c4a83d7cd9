//! The sender.

use std::io;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use super::file::Source;
use super::options::{Datagrams, SendOptions, Transport};
use super::{BUFFER_BYTES, Moved, end_of};
use crate::error::{Doing, Result};
use crate::sys;

/// Maximum time of a connection attempt, and of waiting for the receiver to take data.
const PATIENCE: Duration = Duration::from_secs(10);
/// Number of datagrams that end a transfer, as each may be lost, and the time between them.
const ENDS: u32 = 5;
const BETWEEN_ENDS: Duration = Duration::from_millis(20);
/// Maximum number of datagrams in one call: the kernel's `UDP_MAX_SEGMENTS` before Linux 6.7.
const MAX_BATCH: usize = 64;
/// Maximum bytes in one call with segmentation: less than an IPv4 packet.
const MAX_GSO_BYTES: usize = 65_000;

/// Sends until the given number of bytes or the given time, whichever comes first.
///
/// # Errors
/// [`crate::Error::Experiment`] for wrong options; other errors when files or sockets fail.
pub fn send(options: &SendOptions) -> Result<Moved> {
    options.check()?;
    let mut source = Source::open(options.file.as_ref(), options.transport)?;
    let what = format!("cannot send to {}", options.to);
    match options.transport {
        Transport::Tcp => {
            let to = TcpStream::connect_timeout(&options.to, PATIENCE).doing(&what)?;
            to.set_write_timeout(Some(PATIENCE)).doing(&what)?;
            stream(options, &mut source, to).doing(&what)
        }
        Transport::Udp(bytes) => {
            let local = match options.to {
                SocketAddr::V4(_) => SocketAddr::from(([0; 4], 0)),
                SocketAddr::V6(_) => SocketAddr::from(([0; 8], 0)),
            };
            let to = UdpSocket::bind(local).doing(&what)?;
            to.connect(options.to).doing(&what)?;
            if options.datagrams == Datagrams::Gso {
                sys::udp::cut_into(&to, bytes).doing(&what)?;
            }
            let moved = datagrams(options, &mut source, &to, bytes.into()).doing(&what)?;
            end(&to, options.to, moved.bytes).doing(&what)?;
            Ok(moved)
        }
    }
}

fn stream(options: &SendOptions, source: &mut Source, mut to: TcpStream) -> io::Result<Moved> {
    // What is due leaves at once, as in programs that stream.
    to.set_nodelay(true)?;
    let mut pace = Pace::start(options);
    while let Some(mut due) = pace.due() {
        while due > 0 {
            let most = usize::try_from(due).unwrap_or(usize::MAX).min(BUFFER_BYTES);
            let sent = source.write_to(&mut to, most)? as u64;
            pace.sent += sent;
            due = due.saturating_sub(sent);
        }
        pace.wait();
    }
    to.shutdown(std::net::Shutdown::Write)?;
    Ok(pace.moved())
}

fn datagrams(
    options: &SendOptions,
    source: &mut Source,
    to: &UdpSocket,
    bytes: usize,
) -> io::Result<Moved> {
    let batch = match options.datagrams {
        Datagrams::Single => 1,
        Datagrams::Sendmmsg => (BUFFER_BYTES / bytes).clamp(1, MAX_BATCH),
        Datagrams::Gso => (MAX_GSO_BYTES / bytes).clamp(1, MAX_BATCH),
    };
    let mut pace = Pace::start(options);
    while let Some(due) = pace.due() {
        let mut count = due / bytes as u64;
        while count > 0 {
            let now = usize::try_from(count).unwrap_or(usize::MAX).min(batch);
            let data = source.next(now * bytes)?;
            let sent = match options.datagrams {
                Datagrams::Sendmmsg => sys::udp::send_many(to, data, bytes),
                Datagrams::Single | Datagrams::Gso => to.send(data),
            };
            match sent {
                Ok(sent) => pace.sent += sent as u64,
                // A full queue of the device, or a receiver that is not there (yet): datagrams
                // are lost.
                Err(e) if is_loss(&e) => pace.sent += data.len() as u64,
                Err(e) => return Err(e),
            }
            count -= now as u64;
        }
        if due < bytes as u64 && pace.is_complete() {
            break;
        }
        pace.wait();
    }
    Ok(pace.moved())
}

fn is_loss(e: &io::Error) -> bool {
    e.raw_os_error() == Some(libc::ENOBUFS) || e.kind() == io::ErrorKind::ConnectionRefused
}

/// Ends a transfer of datagrams.
fn end(to: &UdpSocket, address: SocketAddr, bytes: u64) -> io::Result<()> {
    for _ in 0..ENDS {
        // Apart from the data, so that no receiver gets both by one call.
        std::thread::sleep(BETWEEN_ENDS);
        match to.send(&end_of(bytes)) {
            // The receiver has ended.
            Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => return Ok(()),
            Err(e) => return Err(io::Error::new(e.kind(), format!("{address}: {e}"))),
            Ok(_) => {}
        }
    }
    Ok(())
}

/// Bytes that are due at a constant rate, or all that fit.
struct Pace {
    start: Instant,
    sent: u64,
    rate_bps: Option<u64>,
    tick: Duration,
    /// Number of the next tick.
    next: u32,
    bytes: u64,
    duration: Duration,
}

impl Pace {
    fn start(options: &SendOptions) -> Self {
        Self {
            start: Instant::now(),
            sent: 0,
            rate_bps: options.rate.map(|rate| rate.bps()),
            tick: options.tick,
            next: 1,
            bytes: options.bytes.unwrap_or(u64::MAX),
            duration: options.duration.unwrap_or(Duration::MAX),
        }
    }

    /// Number of bytes to send now; `None` at the end.
    fn due(&self) -> Option<u64> {
        let elapsed = self.start.elapsed();
        if elapsed >= self.duration || self.sent >= self.bytes {
            return None;
        }
        let until_now = match self.rate_bps {
            Some(bps) => {
                let bytes = u128::from(bps) * elapsed.as_micros() / 8_000_000;
                u64::try_from(bytes).unwrap_or(u64::MAX)
            }
            // Little enough that the time is looked at often.
            None => self.sent + (1 << 20),
        };
        Some(until_now.min(self.bytes).saturating_sub(self.sent))
    }

    /// Whether all bytes are due.
    fn is_complete(&self) -> bool {
        self.due().is_none_or(|due| self.sent + due >= self.bytes)
    }

    /// Waits for the next tick, at a rate. A tick that is missed is left out: the next one sends
    /// what it should have sent.
    fn wait(&mut self) {
        if self.rate_bps.is_none() {
            return;
        }
        let elapsed = self.start.elapsed();
        let ticks = elapsed.as_nanos() / self.tick.as_nanos().max(1);
        self.next = u32::try_from(ticks).unwrap_or(u32::MAX).saturating_add(1);
        std::thread::sleep((self.tick * self.next).saturating_sub(elapsed));
    }

    fn moved(&self) -> Moved {
        Moved {
            bytes: self.sent,
            seconds: self.start.elapsed().as_secs_f64(),
            lost_bytes: None,
        }
    }
}
