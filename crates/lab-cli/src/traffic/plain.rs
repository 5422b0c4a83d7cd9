//! `mpbond traffic send`, `receive` and `relay`: plain transfers, to measure their cost.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use mpbond_command::{Failure, print};
use mpbond_lab::bulk::{
    Copies, Datagrams, Files, Moved, ReceiveOptions, Receiver, Relay, RelayBy, RelayOptions,
    SendOptions, Transport, send,
};
use mpbond_units::{BitRate, Size, duration_text};

use super::client::split;
use super::server::PORT;
use crate::lab::failed;

/// Send plain data, by TCP, UDP or Ethernet frames, from memory or a file.
///
/// There is no protocol but the transport's, so that processors do nothing else. Ends after --bytes
/// or --duration, whichever comes first.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mpbond traffic send 192.0.2.7 --bytes '100 MB' --file photo.raw --copy one
  mpbond traffic send 192.0.2.7 --transport udp:1472 --rate '24 Mbit/s' --duration 20s
  mpbond traffic send 192.0.2.7 --transport udp:1472 --datagrams gso --duration 20s
  mpbond traffic send 192.0.2.7 --transport l2 --rate '24 Mbit/s' --duration 20s       as root")]
pub(crate) struct SendArgs {
    /// The receiver: a name or address, with a port where it is not 7008.
    #[arg(value_name = "HOST[:PORT]")]
    host: String,
    #[command(flatten)]
    common: Common,
    /// Calls by which datagrams are sent: one for each, sendmmsg for many, or gso for many that
    /// pass through the kernel as one.
    #[arg(long, value_enum, default_value_t = How::Single)]
    datagrams: How,
    /// Rate of the payload; as fast as possible when not given.
    #[arg(long, value_name = "RATE")]
    rate: Option<BitRate>,
    /// Interval at which a sender with a rate sends what is due.
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = duration_text::parse)]
    tick: Duration,
    /// End after this much data.
    #[arg(long, value_name = "SIZE")]
    bytes: Option<Size>,
    /// End after this time.
    #[arg(short, long, value_name = "TIME", value_parser = duration_text::parse)]
    duration: Option<Duration>,
}

/// Receive one transfer of `mpbond traffic send`, and discard it or write it to a file.
///
/// There is no authentication: listen where only the sender can connect.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mpbond traffic receive --file photo.raw --copy one
  mpbond traffic receive --transport udp:1472 --datagrams gso --json
  mpbond traffic receive --transport l2                                  as root")]
pub(crate) struct ReceiveArgs {
    /// Listening address.
    #[arg(long, value_name = "ADDRESS", default_value_t = SocketAddr::from(([0; 8], PORT)))]
    listen: SocketAddr,
    #[command(flatten)]
    common: Common,
    /// Calls by which datagrams are received: one for each, or gso for many (GRO).
    #[arg(long, value_enum, default_value_t = How::Single)]
    datagrams: How,
    /// Continue at the beginning of the file after this much data.
    #[arg(long, value_name = "SIZE", requires = "file")]
    ring: Option<Size>,
}

/// Relay one TCP connection or what comes over Ethernet frames, as a helper does.
///
/// Bytes go from the one who connects to the receiver only. There is no authentication: listen
/// where only the sender can connect.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mpbond traffic relay --to 192.0.2.7:7008 --copy one --tick 5ms
  mpbond traffic relay --to 192.0.2.7:7008 --longest-tick 5ms
  mpbond traffic relay --to 192.0.2.7:7008 --longest-tick 5ms --transport l2     as root")]
pub(crate) struct RelayArgs {
    /// Listening address.
    #[arg(long, value_name = "ADDRESS", default_value_t = SocketAddr::from(([0; 8], PORT)))]
    listen: SocketAddr,
    /// Address of the receiver.
    #[arg(long, value_name = "ADDRESS:PORT")]
    to: SocketAddr,
    /// Transport from the sender: tcp; or l2 with --longest-tick, Ethernet frames as in the L2
    /// pipe, between hosts of one link and with CAP_NET_RAW. To the receiver it is TCP.
    #[arg(long, default_value = "tcp")]
    transport: Transport,
    /// Copies in the relay: two, by read and write; or one, by splice.
    #[arg(long, value_enum, default_value_t = CopyCount::Two)]
    copy: CopyCount,
    /// Relay by the code of `mpbond helper`, which looks for bytes of a flow in intervals of at
    /// most this: 1ms to 5ms, or 0ms to look at every arrival.
    #[arg(long, value_name = "TIME", value_parser = duration_text::parse,
        conflicts_with_all = ["copy", "tick"])]
    longest_tick: Option<Duration>,
    /// Move bytes at most once in this time; at once when not given.
    #[arg(long, value_name = "TIME", value_parser = duration_text::parse)]
    tick: Option<Duration>,
    /// Print JSON: a line with the listening address, and at the end one with the result.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct Common {
    /// tcp; udp:BYTES with the payload of a datagram; or l2, Ethernet frames as in the L2 pipe,
    /// between hosts of one link and with CAP_NET_RAW.
    #[arg(long, default_value = "tcp")]
    transport: Transport,
    /// File that data comes from (again from its beginning after its end) or goes into.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Copies between file and socket: two, by read and write; or one, by sendfile and splice.
    #[arg(long, value_enum, default_value_t = CopyCount::Two, requires = "file")]
    copy: CopyCount,
    /// Print JSON: the result in one line. A receiver prints a line with its address first.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CopyCount {
    Two,
    One,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum How {
    Single,
    Sendmmsg,
    Gso,
}

impl From<CopyCount> for Copies {
    fn from(count: CopyCount) -> Self {
        match count {
            CopyCount::Two => Self::Two,
            CopyCount::One => Self::One,
        }
    }
}

impl From<How> for Datagrams {
    fn from(how: How) -> Self {
        match how {
            How::Single => Self::Single,
            How::Sendmmsg => Self::Sendmmsg,
            How::Gso => Self::Gso,
        }
    }
}

impl Common {
    fn files(&self, ring: Option<Size>) -> Option<Files> {
        let path = self.file.clone()?;
        let copies = self.copy.into();
        let ring_bytes = ring.map(|size| size.0);
        Some(Files {
            path,
            copies,
            ring_bytes,
        })
    }

    fn show(&self, done: &str, moved: &Moved) -> Result<(), Failure> {
        show(self.json, done, moved)
    }
}

/// Prints the address that the system has chosen where none was given.
fn show_address(json: bool, does: &str, address: SocketAddr) -> Result<(), Failure> {
    match json {
        true => print(&format!(
            "{}\n",
            serde_json::json!({ "listening": address })
        )),
        false => print(&format!("{does} at {address}\n")),
    }
}

fn show(json: bool, done: &str, moved: &Moved) -> Result<(), Failure> {
    if json {
        let line = serde_json::to_string(moved).map_err(Failure::run)?;
        return print(&(line + "\n"));
    }
    let rate = BitRate::over(moved.bytes, Duration::from_secs_f64(moved.seconds));
    let lost = match moved.lost_bytes {
        Some(lost) if lost > 0 => format!(", {lost} bytes lost"),
        _ => String::new(),
    };
    print(&format!(
        "{done} {} bytes in {:.3} s, {:.3} Mbit/s{lost}\n",
        moved.bytes,
        moved.seconds,
        rate.mbps()
    ))
}

impl SendArgs {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let mut to = split(&self.host)?
            .to_socket_addrs()
            .map_err(|e| Failure::input(format_args!("{}: {e}", self.host)))?;
        let Some(to) = to.next() else {
            return Err(Failure::input(format_args!(
                "{}: no such address",
                self.host
            )));
        };
        let moved = send(&SendOptions {
            to,
            transport: self.common.transport,
            datagrams: self.datagrams.into(),
            file: self.common.files(None),
            rate: self.rate,
            tick: self.tick,
            bytes: self.bytes.map(|size| size.0),
            duration: self.duration,
        })
        .map_err(failed)?;
        self.common.show("sent", &moved)?;
        Ok(ExitCode::SUCCESS)
    }
}

impl ReceiveArgs {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let receiver = Receiver::open(&ReceiveOptions {
            listen: self.listen,
            transport: self.common.transport,
            datagrams: self.datagrams.into(),
            file: self.common.files(self.ring),
        })
        .map_err(failed)?;
        let address = receiver.address().map_err(failed)?;
        show_address(self.common.json, "receives", address)?;
        let moved = receiver.receive().map_err(failed)?;
        self.common.show("received", &moved)?;
        Ok(ExitCode::SUCCESS)
    }
}

impl RelayArgs {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let by = match self.longest_tick {
            Some(longest_tick) => RelayBy::Helper { longest_tick },
            None => RelayBy::Calls {
                copies: self.copy.into(),
                tick: self.tick,
            },
        };
        let relay = Relay::open(RelayOptions {
            listen: self.listen,
            to: self.to,
            transport: self.transport,
            by,
        })
        .map_err(failed)?;
        let address = relay.address().map_err(failed)?;
        show_address(self.json, "relays", address)?;
        let moved = relay.relay().map_err(failed)?;
        show(self.json, "relayed", &moved)?;
        Ok(ExitCode::SUCCESS)
    }
}
