//! `mpbond traffic client`.

use std::io::IsTerminal;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use mpbond_command::{Failure, note, print, prompt};
use mpbond_probe::ProbeError;
use mpbond_probe::traffic::{ClientOptions, Direction, Event, Flow, Summary, Target, run};
use mpbond_units::{BitRate, duration_text};
use serde_json::json;

use super::logs::{AppBytes, Polled};
use super::server::PORT;
use super::text;

/// Exchange traffic with a server, and show the effects of the network.
///
/// Delays are one-way, from due time to arrival, with the error of the clock comparison, which is
/// printed. Exit code 1 if something that was sent never arrived.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mpbond traffic client 192.0.2.7
  mpbond traffic client 192.0.2.7 --workload cbr --rate '1.5 Mbit/s' --direction both --json
  mpbond traffic client 192.0.2.7 --workload chunks --duration 2min --svg handover.svg \\
    --app-bytes app.csv --states states.csv
  mpbond capture owd --states states.csv --app-bytes app.csv      the handovers' phases
  mpbond traffic client server.example --socks5 127.0.0.1:1080    through mpbond
  mpbond link --down 8 --up 2 --delay 25ms -- sh -c 'mpbond traffic client $MPBOND_GATEWAY'")]
pub(crate) struct ClientArgs {
    /// The server: a name or address, with a port where it is not 7008.
    #[arg(value_name = "HOST[:PORT]")]
    host: String,
    /// Kind of traffic.
    #[arg(long, value_enum, default_value_t = Workload::Bulk)]
    workload: Workload,
    /// Direction.
    #[arg(long, value_enum, default_value_t = Ways::Down)]
    direction: Ways,
    /// Rate of a constant-rate workload.
    #[arg(long, value_name = "RATE", default_value = "500 kbit/s")]
    rate: BitRate,
    /// Size of a chunk, with its header of 24 bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 3000)]
    chunk: u32,
    /// Interval between chunks.
    #[arg(long, value_name = "TIME", default_value = "160ms", value_parser = duration_text::parse)]
    every: Duration,
    /// Duration of the run.
    #[arg(short, long, value_name = "TIME", default_value = "10s", value_parser = duration_text::parse)]
    duration: Duration,
    /// Give up a connection after this long without data; at least 1.2s.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration_text::parse)]
    stall: Duration,
    /// Give up a connection attempt after this long, and start the next one.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration_text::parse)]
    attempt: Duration,
    /// Count a gap when nothing arrives for longer than this and than three intervals.
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = duration_text::parse)]
    gap: Duration,
    /// Wait this long after the end for missing data.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration_text::parse)]
    drain: Duration,
    /// Go through this SOCKS5 front, which resolves HOST.
    #[arg(long, value_name = "ADDRESS:PORT")]
    socks5: Option<SocketAddr>,
    /// IPv4 only.
    #[arg(short = '4', long, conflicts_with = "ipv6")]
    ipv4: bool,
    /// IPv6 only.
    #[arg(short = '6', long)]
    ipv6: bool,
    /// Print one line of JSON per record and event, and one with the summary.
    #[arg(long)]
    json: bool,
    /// Draw throughput, delays and gaps over time.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Log arrivals by interface, for `mpbond capture owd`.
    #[arg(long, value_name = "CSV")]
    app_bytes: Option<PathBuf>,
    /// Log states of interfaces (off, available, connected), for `mpbond capture owd`.
    #[arg(long, value_name = "CSV")]
    states: Option<PathBuf>,
    /// Log signals of WiFi interfaces every 0.2 s, for `mpbond capture owd`.
    #[arg(long, value_name = "CSV")]
    rssi: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Workload {
    /// As much as possible.
    Bulk,
    /// A constant rate, in packets.
    Cbr,
    /// 3 kB each 160 ms, as a camera, or as by --chunk and --every.
    Chunks,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Ways {
    /// From the server.
    Down,
    /// To the server.
    Up,
    /// Both ways at once.
    Both,
}

impl ClientArgs {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let flow = match self.workload {
            Workload::Bulk => Ok(Flow::bulk()),
            Workload::Cbr => Flow::constant(self.rate.bps()),
            Workload::Chunks => Flow::chunks(self.chunk, self.every),
        };
        let flow = flow.map_err(Failure::input)?;
        let options = ClientOptions {
            target: self.target()?,
            down: (self.direction != Ways::Up).then_some(flow),
            up: (self.direction != Ways::Down).then_some(flow),
            duration: self.duration,
            stall: self.stall,
            attempt: self.attempt,
            gap: self.gap,
            drain: self.drain,
        };
        let mut app_bytes = self
            .app_bytes
            .as_deref()
            .map(AppBytes::create)
            .transpose()?;
        let states = self.states.as_deref().map(Polled::states).transpose()?;
        let signals = self.rssi.as_deref().map(Polled::signals).transpose()?;
        let mut view = View::new(self.json);
        let mut failed = None;
        let summary = run(&options, |event| {
            let done = app_bytes
                .as_mut()
                .map_or(Ok(()), |log| log.take(event))
                .and_then(|()| view.show(event));
            match done {
                Ok(()) => true,
                Err(e) => {
                    failed = Some(e);
                    false
                }
            }
        })
        .map_err(|e| match e {
            ProbeError::Option(_) => Failure::input(e),
            e => Failure::run(format_args!("{}: {e}", self.host)),
        })?;
        view.end();
        if let Some(e) = failed {
            return Err(e);
        }
        for log in [states, signals].into_iter().flatten() {
            log.stop()?;
        }
        self.print_summary(&summary)?;
        // As ping: something is missing.
        Ok(ExitCode::from(u8::from(!summary.complete())))
    }

    fn print_summary(&self, summary: &Summary) -> Result<(), Failure> {
        if let Some(path) = &self.svg {
            let workload = format!("{:?}", self.workload).to_lowercase();
            let title = format!(
                "Throughput and delays over time: {workload} with {}",
                self.host
            );
            std::fs::write(path, summary.to_svg(&title))
                .map_err(|e| Failure::run(format_args!("{}: {e}", path.display())))?;
        }
        if self.json {
            return print(&format!("{}\n", json!({ "summary": summary })));
        }
        print(&text::text(summary))
    }

    fn target(&self) -> Result<Target, Failure> {
        let (host, port) = split(&self.host)?;
        if let Some(front) = self.socks5 {
            return Ok(Target::Socks5 {
                front,
                host: host.to_owned(),
                port,
            });
        }
        let found = (host, port)
            .to_socket_addrs()
            .map_err(|e| Failure::input(format_args!("{}: {e}", self.host)))?;
        let wanted = |a: &SocketAddr| (!self.ipv4 || a.is_ipv4()) && (!self.ipv6 || a.is_ipv6());
        match found.into_iter().find(wanted) {
            Some(address) => Ok(Target::Direct(address)),
            None => Err(Failure::input(format_args!(
                "{}: no such address",
                self.host
            ))),
        }
    }
}

/// Host and port; an IPv6 address without brackets has colons, too.
pub(super) fn split(text: &str) -> Result<(&str, u16), Failure> {
    let wrong = || Failure::input(format_args!("{text}: not HOST or HOST:PORT"));
    let number = |port: &str| port.parse::<u16>().map_err(|_| wrong());
    if let Some(rest) = text.strip_prefix('[') {
        let (host, rest) = rest.split_once(']').ok_or_else(wrong)?;
        let port = match rest {
            "" => PORT,
            rest => number(rest.strip_prefix(':').ok_or_else(wrong)?)?,
        };
        return Ok((host, port));
    }
    match text.split_once(':') {
        None => Ok((text, PORT)),
        Some((_, rest)) if rest.contains(':') => Ok((text, PORT)),
        Some((host, port)) => Ok((host, number(port)?)),
    }
}

/// Progress display.
struct View {
    json: bool,
    /// Overwrites one line, at most five times a second.
    live: bool,
    shown: Option<Instant>,
    bytes: u64,
}

impl View {
    fn new(json: bool) -> Self {
        Self {
            json,
            live: !json && std::io::stderr().is_terminal(),
            shown: None,
            bytes: 0,
        }
    }

    fn show(&mut self, event: &Event) -> Result<(), Failure> {
        if self.json {
            let line = serde_json::to_string(event).map_err(Failure::run)?;
            return print(&(line + "\n"));
        }
        match event {
            Event::Record {
                bytes,
                at_s,
                delay_ms,
                direction,
                ..
            } => {
                self.bytes += u64::from(*bytes);
                let due = self
                    .shown
                    .is_none_or(|at| at.elapsed() >= Duration::from_millis(200));
                if self.live && due {
                    self.shown = Some(Instant::now());
                    let way = match direction {
                        Direction::Down => "down",
                        Direction::Up => "up",
                    };
                    prompt!(
                        "\r{at_s:.1} s: {} bytes, last {way} after {:.1} ms   ",
                        self.bytes,
                        delay_ms.unwrap_or_default()
                    );
                }
            }
            Event::Lost { at_s, reason } if self.live => {
                note!("\r\x1b[K{at_s:.1} s: connection lost: {reason}");
            }
            _ => {}
        }
        Ok(())
    }

    fn end(&self) {
        if self.shown.is_some() {
            prompt!("\r\x1b[K");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_ports_are_split() {
        for (text, host, port) in [
            ("a.example", "a.example", PORT),
            ("a.example:80", "a.example", 80),
            ("192.0.2.1:80", "192.0.2.1", 80),
            ("2001:db8::1", "2001:db8::1", PORT),
            ("[2001:db8::1]", "2001:db8::1", PORT),
            ("[2001:db8::1]:80", "2001:db8::1", 80),
        ] {
            assert_eq!(split(text).unwrap(), (host, port), "{text}");
        }
        for bad in ["a:b", "a:70000", "[::1", "[::1]80", "[::1]:x"] {
            assert!(split(bad).is_err(), "{bad}");
        }
    }
}
