//! The sender.

use std::io;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use super::file::Source;
use super::options::{Datagrams, SendOptions, Transport};
use super::pace::Pace;
use super::{BUFFER_BYTES, Moved, end_of, frames, late};
use crate::error::{Doing, Result};
use crate::sys;

/// Maximum time of a connection attempt, and of waiting for the receiver to take data.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
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
    send_within(options, PATIENCE)
}

pub(super) fn send_within(options: &SendOptions, patience: Duration) -> Result<Moved> {
    options.check()?;
    let mut source = Source::open(options.file.as_ref(), options.transport)?;
    let what = format!("cannot send to {}", options.to);
    match options.transport {
        Transport::Tcp => {
            let to = TcpStream::connect_timeout(&options.to, PATIENCE).doing(&what)?;
            to.set_write_timeout(Some(patience)).doing(&what)?;
            let sent = stream(options, &mut source, to);
            sent.map_err(|e| untaken(e, patience)).doing(&what)
        }
        Transport::L2 => {
            let to = TcpStream::connect_timeout(&options.to, PATIENCE).doing(&what)?;
            to.set_read_timeout(Some(patience)).doing(&what)?;
            let sent = frames::send(options, &mut source, to, patience);
            sent.map_err(|e| untaken(e, patience)).doing(&what)
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

fn untaken(e: io::Error, patience: Duration) -> io::Error {
    let (silence, ask) = ("the receiver took nothing", "is it still running?");
    late(e, silence, patience, ask)
}

fn stream(options: &SendOptions, source: &mut Source, mut to: TcpStream) -> io::Result<Moved> {
    // What is due leaves at once, as in programs that stream.
    to.set_nodelay(true)?;
    let mut pace = Pace::new(options);
    let start = Instant::now();
    // The time is looked at before each call: a path slower than the rate does not prolong this.
    while let Some(due) = pace.due(start.elapsed()) {
        if due == 0 {
            std::thread::sleep(pace.until_tick(start.elapsed()));
            continue;
        }
        let most = usize::try_from(due).unwrap_or(usize::MAX).min(BUFFER_BYTES);
        pace.add(source.write_to(&mut to, most)?);
    }
    to.shutdown(std::net::Shutdown::Write)?;
    Ok(moved(&pace, start))
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
    let mut pace = Pace::new(options);
    let start = Instant::now();
    // Whole datagrams only.
    while pace.left() >= bytes as u64
        && let Some(due) = pace.due(start.elapsed())
    {
        let count = usize::try_from(due / bytes as u64).unwrap_or(usize::MAX);
        if count == 0 {
            std::thread::sleep(pace.until_tick(start.elapsed()));
            continue;
        }
        let data = source.next(count.min(batch) * bytes)?;
        let sent = match options.datagrams {
            Datagrams::Sendmmsg => sys::udp::send_many(to, data, bytes),
            Datagrams::Single | Datagrams::Gso => to.send(data),
        };
        match sent {
            Ok(sent) => pace.add(sent),
            // A full queue of the device, or a receiver that is not there (yet): datagrams are
            // lost.
            Err(e) if is_loss(&e) => pace.add(data.len()),
            Err(e) => return Err(e),
        }
    }
    Ok(moved(&pace, start))
}

fn moved(pace: &Pace, start: Instant) -> Moved {
    Moved {
        bytes: pace.sent(),
        seconds: start.elapsed().as_secs_f64(),
        lost_bytes: None,
    }
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
