//! `mpbond probe` and `mpbond probe-server`.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use mpbond_command::{Failure, print, prompt};
use mpbond_probe::{
    ClockOffset, Distribution, Method, Options, Probe, ProbeError, Server, ServerOptions, Summary,
    run,
};
use mpbond_units::duration_text;
use serde_json::json;

/// Default port of `mpbond probe-server`.
const PORT: u16 = 7007;

/// Measure the delay to a host, and what this host adds to it.
///
/// Each probe has up to three clocks: user (d_u, around the system call), kernel (d_k) and wire
/// (d_n, where the network card stamps packets). Values of missing clocks are left out, never
/// estimated. docs/measurement.md explains the figures.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mpbond probe example.com                                 ICMP; needs root or a ping group
  mpbond probe example.com:443 --method syn --count 100 --interval 10ms
  mpbond probe example.com --method tls
  mpbond probe-server & mpbond probe localhost --method udp --json --svg delays.svg
  mpbond probe example.com:80 --method http --warm-up 20ms --background 20ms
  mpbond probe proxy.example:443 --method syn --interface wwan0     one path of several")]
pub(crate) struct ProbeArgs {
    /// Target: a name or address, with a port where the method needs one ([::1]:80).
    #[arg(value_name = "HOST[:PORT]")]
    host: String,
    /// Kind of probe.
    #[arg(long, value_enum, default_value_t = MethodArg::Icmp)]
    method: MethodArg,
    /// Number of probes.
    #[arg(short, long, value_name = "N", default_value_t = 10)]
    count: u32,
    /// Interval between probes or bursts; at least 1ms.
    #[arg(short, long, value_name = "TIME", default_value = "1s", value_parser = duration_text::parse)]
    interval: Duration,
    /// Number of probes sent at once (ICMP, UDP).
    #[arg(long, value_name = "N", default_value_t = 1)]
    burst: u32,
    /// Time after which an unanswered probe counts as lost.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = duration_text::parse)]
    timeout: Duration,
    /// Payload of ICMP and UDP probes.
    #[arg(long, value_name = "BYTES", default_value_t = 56)]
    size: usize,
    /// Send a packet that wakes sleeping hardware this long before each probe.
    #[arg(long, value_name = "TIME", value_parser = duration_text::parse)]
    warm_up: Option<Duration>,
    /// Send packets that keep hardware awake at this interval; they expire at the first router.
    #[arg(long, value_name = "TIME", value_parser = duration_text::parse)]
    background: Option<Duration>,
    /// Path requested by --method http; the reply must be short.
    #[arg(long, value_name = "PATH", default_value = "/")]
    path: String,
    /// IPv4 only.
    #[arg(short = '4', long, conflicts_with = "ipv6")]
    ipv4: bool,
    /// IPv6 only.
    #[arg(short = '6', long)]
    ipv6: bool,
    /// Send over this interface, without regard to routes: one path of several.
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
    /// Send from this address.
    #[arg(long, value_name = "ADDRESS")]
    source: Option<IpAddr>,
    /// Print one line of JSON per probe, and one with the summary.
    #[arg(long)]
    json: bool,
    /// Draw distribution functions and box plots.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum MethodArg {
    /// ICMP echo.
    Icmp,
    /// TCP handshake with an open port.
    Syn,
    /// TCP to a closed port, which refuses.
    Rst,
    /// HTTP GET on an open connection.
    Http,
    /// TLS 1.3 handshake: from ClientHello to the server's flight, TCP's own handshake left out.
    Tls,
    /// Datagrams to `mpbond probe-server`; also gives one-way delays.
    Udp,
}

impl ProbeArgs {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let (method, port) = match self.method {
            MethodArg::Icmp => (Method::Icmp, 0),
            MethodArg::Syn => (Method::Syn, 80),
            // Echo, as Inet ping in the delay measurement paper.
            MethodArg::Rst => (Method::Rst, 7),
            MethodArg::Http => (Method::Http, 80),
            MethodArg::Tls => (Method::Tls, 443),
            MethodArg::Udp => (Method::Udp, PORT),
        };
        let target = self.resolve(port)?;
        let options = Options {
            count: self.count,
            interval: self.interval,
            burst: self.burst,
            timeout: self.timeout,
            size_bytes: self.size,
            warm_up: self.warm_up,
            background: self.background,
            http_path: self.path.clone(),
            server_name: self.name(),
            interface: self.interface.clone(),
            source: self.source,
            ..Options::new(target, method)
        };
        let mut view = View::new(self.json);
        let interrupted = interruption();
        let mut failed = None;
        let summary = run(&options, |probe| match view.show(probe) {
            Ok(()) => !interrupted.load(Ordering::Relaxed),
            Err(e) => {
                failed = Some(e);
                false
            }
        })
        .map_err(|e| match e {
            ProbeError::Option(_) | ProbeError::Place { .. } => Failure::input(e),
            e => Failure::run(e),
        })?;
        if let Some(e) = failed {
            return Err(e);
        }
        if let Some(path) = &self.svg {
            let title = format!(
                "Round-trip times and their overheads: {} to {}, {} probes",
                method.name(),
                self.host,
                summary.sent
            );
            std::fs::write(path, summary.to_svg(&title))
                .map_err(|e| Failure::run(format_args!("cannot write {}: {e}", path.display())))?;
        }
        view.end()?;
        if self.json {
            let line = json!({ "summary": summary });
            print(&format!("{line}\n"))?;
        } else {
            print(&text(&summary, target))?;
        }
        // As ping: no answers.
        Ok(ExitCode::from(u8::from(summary.lost == summary.sent)))
    }

    /// The host without its port, where it is a name.
    fn name(&self) -> Option<String> {
        let host = self.host.rsplit_once(':').map_or(&*self.host, |(h, _)| h);
        (!host.contains([':', '['])).then(|| host.to_owned())
    }

    fn resolve(&self, port: u16) -> Result<SocketAddr, Failure> {
        let host = self.host.as_str();
        // An IPv6 address without brackets has colons, too.
        let bare = host.parse().ok().map(|ip| SocketAddr::new(ip, port));
        let with_port = || host.to_socket_addrs().map(Iterator::collect::<Vec<_>>);
        let without = || (host, port).to_socket_addrs().map(Iterator::collect);
        let found = match bare {
            Some(address) => Ok(vec![address]),
            None if host.contains(':') => with_port(),
            None => without(),
        };
        let found = found.map_err(|e| Failure::input(format_args!("{host}: {e}")))?;
        let wanted = |a: &&SocketAddr| (!self.ipv4 || a.is_ipv4()) && (!self.ipv6 || a.is_ipv6());
        match found.iter().find(wanted) {
            Some(address) => Ok(*address),
            None => Err(Failure::input(format_args!("{host}: no such address"))),
        }
    }
}

/// Becomes true at Ctrl-C: results so far are printed after the next answer. At the
/// second one the program ends at once.
fn interruption() -> Arc<AtomicBool> {
    let interrupted = Arc::new(AtomicBool::new(false));
    let interrupt = Arc::clone(&interrupted);
    // Without a handler Ctrl-C ends the program.
    let _ = std::thread::Builder::new()
        .name("interrupt".to_owned())
        .spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_io()
                .build();
            let Ok(runtime) = runtime else { return };
            runtime.block_on(async {
                while tokio::signal::ctrl_c().await.is_ok() {
                    if interrupt.swap(true, Ordering::Relaxed) {
                        std::process::exit(130);
                    }
                }
            });
        });
    interrupted
}

/// Progress display.
struct View {
    json: bool,
    /// Overwrites one line, at most ten times a second.
    live: bool,
    shown: Option<Instant>,
    answered: u64,
    lost: u64,
}

impl View {
    fn new(json: bool) -> Self {
        Self {
            json,
            live: !json && std::io::stderr().is_terminal(),
            shown: None,
            answered: 0,
            lost: 0,
        }
    }

    fn show(&mut self, probe: &Probe) -> Result<(), Failure> {
        if self.json {
            let line = serde_json::to_string(probe).map_err(Failure::run)?;
            return print(&(line + "\n"));
        }
        self.lost += u64::from(probe.lost);
        self.answered += u64::from(!probe.lost && !probe.duplicate);
        let due = self
            .shown
            .is_none_or(|at| at.elapsed() >= Duration::from_millis(100));
        if self.live && due {
            self.shown = Some(Instant::now());
            prompt!(
                "\r{} answered, {} lost; last: user {}, kernel {}, wire {}   ",
                self.answered,
                self.lost,
                shown_us(probe.d_u_us),
                shown_us(probe.d_k_us),
                shown_us(probe.d_n_us)
            );
            let _ = std::io::stderr().flush();
        }
        Ok(())
    }

    fn end(&self) -> Result<(), Failure> {
        if self.shown.is_some() {
            prompt!("\r\x1b[K");
        }
        Ok(())
    }
}

fn shown_us(us: Option<f64>) -> String {
    us.map_or("-".to_owned(), |us| format!("{:.3} ms", us / 1e3))
}

fn text(s: &Summary, target: SocketAddr) -> String {
    let out = format!(
        "{} to {}: {} sent, {} lost ({:.1} %), {} doubled, {} reordered\n",
        s.method.name(),
        target.ip(),
        s.sent,
        s.lost,
        s.lost as f64 / s.sent.max(1) as f64 * 100.0,
        s.duplicates,
        s.reordered
    );
    out + &table(s)
}

/// Delays as a table, and the offset of the server's clock.
pub(crate) fn table(s: &Summary) -> String {
    let mut out = String::new();
    if s.d_u_us.is_some() || s.d_n_us.is_some() {
        let _ = writeln!(
            out,
            "us          {:>10} {:>10} {:>8} {:>10} {:>10} {:>10} {:>10} {:>8}",
            "min", "mean", "± 95 %", "median", "p95", "p99", "max", "jitter"
        );
    }
    for (name, d) in [
        ("d_u", &s.d_u_us),
        ("d_k", &s.d_k_us),
        ("d_n", &s.d_n_us),
        ("Δd_u", &s.delta_d_u_us),
        ("  out", &s.delta_d_u_out_us),
        ("  in", &s.delta_d_u_in_us),
        ("Δd_k", &s.delta_d_k_us),
        ("Δd", &s.delta_d_us),
        ("to server", &s.one_way_out_us),
        ("back", &s.one_way_in_us),
    ] {
        if let Some(d) = d {
            row(&mut out, name, d);
        }
    }
    if s.d_u_us.is_some() && s.d_k_us.is_none() {
        out.push_str("d_k: the kernel gave no timestamps for this method\n");
    }
    if let Some(clock) = &s.clock {
        out.push_str(&clock_text(clock, "one-way delays"));
    }
    out
}

/// Relation of the server's clock to this host's, a line for each segment. `delays` have its error.
pub(crate) fn clock_text(clock: &ClockOffset, delays: &str) -> String {
    let mut out = String::new();
    for s in &clock.segments {
        let part = match clock.drifted {
            true => format!(" from {:.3} to {:.3} s", s.from_s, s.to_s),
            false => String::new(),
        };
        let _ = writeln!(
            out,
            "the server's clock{part}: {:+.1} us in the middle, ± {:.1} us; {:+.2} ± {:.2} ppm; \
             {delays} have the same error",
            s.out.offset_us, s.out.offset_error_us, s.out.skew_ppm, s.skew_error_ppm
        );
    }
    if clock.drifted {
        let _ = writeln!(
            out,
            "note: no line relates the clocks over the whole run: one was set, changed its rate, \
             or its stamps are wrong"
        );
    }
    if clock.crossed > 0 {
        let _ = writeln!(
            out,
            "note: {} exchanges left out of the clocks' relation: by the server's stamps it \
             answered before the question came, or kept it longer than the round trip",
            clock.crossed
        );
    }
    out
}

fn row(out: &mut String, name: &str, d: &Distribution) {
    let optional = |v: Option<f64>| v.map_or("-".to_owned(), |v| format!("{v:.1}"));
    let _ = writeln!(
        out,
        "{name:<11} {:>10.1} {:>10.1} {:>8} {:>10.1} {:>10.1} {:>10.1} {:>10.1} {:>8}",
        d.min,
        d.mean,
        optional(d.mean_ci95),
        d.median,
        d.p95,
        d.p99,
        d.max,
        optional(d.jitter)
    );
}

/// Answer probes: datagrams with this host's timestamps, and HTTP with a few octets.
///
/// Answers are never longer than requests. Runs until it is stopped.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mpbond probe-server
  mpbond probe-server --listen 192.0.2.7:7007
  mpbond probe HOST --method udp          from elsewhere
  mpbond probe HOST:7007 --method http")]
pub(crate) struct ProbeServerArgs {
    /// UDP and TCP address.
    #[arg(long, value_name = "ADDRESS", default_value_t = SocketAddr::from(([0; 8], PORT)))]
    listen: SocketAddr,
}

impl ProbeServerArgs {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let options = ServerOptions {
            listen: self.listen,
        };
        let server = Server::start(options).map_err(Failure::run)?;
        print(&format!("answers at {} (UDP and HTTP)\n", server.address()))?;
        loop {
            std::thread::park();
        }
    }
}
