//! Probes over TCP, one at a time: handshakes, refusals, HTTP on an open connection, TLS.

use std::io;
use std::time::{Duration, Instant};

use crate::asking::Asking;
use crate::background::Waker;
use crate::error::ProbeError;
use crate::options::{Method, Options};
use crate::record::{Pair, Probe, Stamps, UserSource};
use crate::tcp::{self, local_address, timed_out};
use crate::{sys, tls};

/// Maximum length of a response in one segment.
const REPLY: usize = 16 * 1024;

pub(crate) fn run(
    options: &Options,
    each: &mut impl FnMut(Probe) -> bool,
) -> Result<(), ProbeError> {
    let waker = match options.warm_up {
        Some(_) => Some(Waker::new(options)?),
        None => None,
    };
    let mut connection = None;
    let start = Instant::now();
    let lead = options.warm_up.unwrap_or_default();
    for seq in 0..options.count {
        // A slow answer delays the next probe; missed ones are not sent in a burst.
        sleep_until(start + options.interval * seq);
        if let Some(waker) = &waker {
            waker.wake();
            sleep_until(Instant::now() + lead);
        }
        let probe = match options.method {
            Method::Http => {
                let mut open = match connection.take() {
                    Some(open) => open,
                    None => Connection::open(options)?,
                };
                let probe = open.probe(seq, options)?;
                // A late response would be mistaken for the next one.
                if !probe.lost && !open.closing {
                    connection = Some(open);
                }
                probe
            }
            Method::Tls => tls::probe(seq, options, tcp::socket(options)?)?,
            _ => handshake(seq, options)?,
        };
        if !each(probe) {
            break;
        }
    }
    Ok(())
}

fn sleep_until(at: Instant) {
    std::thread::sleep(at.saturating_duration_since(Instant::now()));
}

fn handshake(seq: u32, options: &Options) -> Result<Probe, ProbeError> {
    let socket = tcp::socket(options)?;
    let to = options.target.into();
    let out_ns = sys::now_ns();
    let done = socket.connect(&to);
    let in_ns = sys::now_ns();
    let refused = match &done {
        Ok(()) => false,
        Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => true,
        Err(e) if timed_out(e) => return Ok(Probe::lost(seq, options.method)),
        Err(_) => {
            return Err(ProbeError::io("connecting")(
                done.err().unwrap_or_else(|| io::ErrorKind::Other.into()),
            ));
        }
    };
    let unfit = |reason: &str| {
        Err(ProbeError::Target {
            target: options.target,
            reason: reason.to_owned(),
        })
    };
    match (options.method, refused) {
        (Method::Syn, true) => return unfit("the port is closed: use method rst"),
        (Method::Rst, false) => return unfit("the port is open: use method syn"),
        _ => {}
    }
    // A refused socket has lost its address and still has its port.
    let local = local_address(&socket);
    let mut kernel_us = None;
    if !refused {
        kernel_us = sys::handshake_us(&socket).ok().map(f64::from);
        // Reset instead of close: no state remains at either end.
        let _ = socket.set_linger(Some(Duration::ZERO));
    }
    let stamps = Stamps {
        user: Some(Pair {
            source: UserSource::ClockGettime,
            out_ns,
            in_ns,
        }),
        ..Stamps::default()
    };
    let mut probe = Probe::answered(seq, options.method, stamps, kernel_us);
    probe.local = local;
    Ok(probe)
}

/// Open connection to an HTTP server.
struct Connection {
    asking: Asking,
    request: String,
    closing: bool,
}

impl Connection {
    fn open(options: &Options) -> Result<Self, ProbeError> {
        let socket = tcp::socket(options)?;
        socket
            .connect(&options.target.into())
            .map_err(|e| match timed_out(&e) {
                true => ProbeError::Target {
                    target: options.target,
                    reason: "does not answer".to_owned(),
                },
                false => ProbeError::io("connecting")(e),
            })?;
        let host = options.target;
        let request = format!(
            "GET {} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: mpbond-probe\r\n\r\n",
            options.http_path
        );
        Ok(Self {
            asking: Asking::new(socket),
            request,
            closing: false,
        })
    }

    fn probe(&mut self, seq: u32, options: &Options) -> Result<Probe, ProbeError> {
        let mut reply = Vec::new();
        let closing = &mut self.closing;
        let whole = |bytes: &[u8]| {
            reply.extend_from_slice(bytes);
            match http_end(&reply) {
                Reply::Partial if reply.len() < REPLY => Ok(false),
                Reply::Whole { closing: c } => {
                    *closing = c;
                    Ok(true)
                }
                Reply::Partial | Reply::Unfit => {
                    Err("its HTTP response has no Content-Length or exceeds one segment".to_owned())
                }
            }
        };
        let asked = self.asking.ask(self.request.as_bytes(), options, whole)?;
        // The response is one segment; later data of the server is not awaited.
        let Some(times) = asked else {
            return Ok(Probe::lost(seq, options.method));
        };
        let mut probe = Probe::answered(seq, options.method, times.first(), None);
        probe.local = local_address(self.asking.socket());
        Ok(probe)
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Reply {
    Partial,
    Whole { closing: bool },
    Unfit,
}

/// Whether an HTTP/1.1 response is complete (RFC 9112, section 6.3).
fn http_end(reply: &[u8]) -> Reply {
    let Some(end) = reply.windows(4).position(|w| w == b"\r\n\r\n") else {
        return Reply::Partial;
    };
    let head = String::from_utf8_lossy(reply.get(..end).unwrap_or_default()).to_ascii_lowercase();
    let mut lines = head.split("\r\n");
    let status = lines.next().unwrap_or_default();
    if !status.starts_with("http/1.") {
        return Reply::Unfit;
    }
    let (mut length, mut closing) = (None, status.starts_with("http/1.0"));
    for line in lines {
        match line.split_once(':') {
            Some(("content-length", n)) => length = n.trim().parse::<usize>().ok(),
            Some(("connection", how)) => closing = how.contains("close"),
            _ => {}
        }
    }
    if ["204", "304"]
        .iter()
        .any(|s| status.split(' ').nth(1) == Some(s))
    {
        length = Some(0);
    }
    match length {
        None => Reply::Unfit,
        Some(n) if reply.len() - end - 4 >= n => Reply::Whole { closing },
        Some(_) => Reply::Partial,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_end_where_they_say() {
        let ok = b"HTTP/1.1 200 OK\r\ncontent-LENGTH: 3\r\n\r\nabc";
        for end in 0..ok.len() {
            assert_eq!(http_end(&ok[..end]), Reply::Partial, "{end}");
        }
        assert_eq!(http_end(ok), Reply::Whole { closing: false });
        let closing = b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n";
        assert_eq!(http_end(closing), Reply::Whole { closing: true });
        assert_eq!(http_end(b"HTTP/1.1 200 OK\r\n\r\n"), Reply::Unfit);
        assert_eq!(http_end(b"SSH-2.0\r\n\r\n"), Reply::Unfit);
        let endless = b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\n";
        assert_eq!(http_end(endless), Reply::Unfit);
    }
}
