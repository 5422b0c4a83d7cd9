//! `mpbond capture owd`: one-way delays in parts, and the phases of handovers.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use mpbond_capture::delay::{
    ClockBound, DelayReport, PhasesReport, Places, add_rssi, one_way, phases, proxy_log,
    rfcomm_stream, tcp_transfer,
};
use mpbond_command::{Failure, print};
use serde_json::{Map, Value};

use super::files::{ended, open};

/// Split one-way delays by place, and handovers into phases.
///
/// d1 is from server to phone, d2 in the phone's TCP, d3 in its proxy, d4 over Bluetooth; each
/// needs the logs of both places. Bytes are matched by TCP sequence numbers; the clocks of server
/// and phone by data and ACKs captured at both. Logs are described in docs/measurement.md.
///
/// Places are given as FILES, the client's first and the server's last, or by options.
#[derive(Debug, Args)]
#[command(after_help = "\
FILES, in the order along the path:
  PHONE SERVER
  PROXY PHONE SERVER
  WATCH PROXY PHONE SERVER

Examples:
  mpbond capture owd phone.pcap server.pcap --json
  mpbond capture owd --server zeek_206_example_b.pcap --phone zeek_206_example_b.pcap
  mpbond capture owd --server server.pcap --phone phone.pcap --proxy proxy.csv \\
    --watch btsnoop_hci.log --json
  mpbond capture owd --states states.csv --app-bytes app.csv")]
pub(crate) struct OwdArgs {
    /// Files of two to four places, the client's first, the server's last: [[WATCH] PROXY] PHONE
    /// SERVER, of the same kinds as those of the options; not together with these.
    #[arg(value_name = "FILES")]
    files: Vec<PathBuf>,
    /// Capture at the server (t_S).
    #[arg(long, value_name = "PCAP")]
    server: Option<PathBuf>,
    /// Capture in the phone's kernel (t_IR).
    #[arg(long, value_name = "PCAP")]
    phone: Option<PathBuf>,
    /// Log of the phone's proxy (t_A, t_BS): CSV `time_s,event,bytes`, event read or sent.
    #[arg(long, value_name = "CSV")]
    proxy: Option<PathBuf>,
    /// Bluetooth log of the watch (t_BR).
    #[arg(long, value_name = "LOG")]
    watch: Option<PathBuf>,
    /// Connectivity log: CSV `time_s,interface,state`, state off, available or connected.
    #[arg(long, value_name = "CSV", requires = "app_bytes")]
    states: Option<PathBuf>,
    /// Log of the application's data: CSV `time_s,interface,app_bytes`.
    #[arg(long, value_name = "CSV", requires = "states")]
    app_bytes: Option<PathBuf>,
    /// Signal strengths, shown beside the phases: CSV `time_s,interface,rssi_dbm`.
    #[arg(long, value_name = "CSV", requires = "states")]
    rssi: Option<PathBuf>,
    /// One line of JSON instead of text.
    #[arg(long)]
    json: bool,
}

impl OwdArgs {
    pub(crate) fn run(mut self) -> Result<ExitCode, Failure> {
        self.place_files()?;
        let delays = self.delays()?;
        let handovers = match (&self.states, &self.app_bytes) {
            (Some(states), Some(bytes)) => {
                let ((a, states), (b, bytes)) = (open(states)?, open(bytes)?);
                let mut report = phases((&a, states), (&b, bytes)).map_err(Failure::input)?;
                if let Some(path) = &self.rssi {
                    let (name, log) = open(path)?;
                    add_rssi(&mut report, &name, log).map_err(Failure::input)?;
                }
                Some(report)
            }
            _ => None,
        };
        if delays.is_none() && handovers.is_none() {
            return Err(Failure::input(
                "nothing to compare: give places (FILES, or --server, --phone, ...) or --states and \
                 --app-bytes",
            ));
        }
        if self.json {
            let mut all = Map::new();
            for part in [
                delays.as_ref().map(serde_json::to_value),
                handovers.as_ref().map(serde_json::to_value),
            ] {
                if let Some(Value::Object(part)) = part.transpose().map_err(Failure::run)? {
                    all.extend(part);
                }
            }
            print(&format!("{}\n", Value::Object(all)))?;
        } else {
            let mut out = String::new();
            if let Some(delays) = &delays {
                delay_text(&mut out, delays);
            }
            if let Some(handovers) = &handovers {
                phase_text(&mut out, handovers);
            }
            print(&out)?;
        }
        let incomplete = delays.as_ref().and_then(|d| d.incomplete.as_ref());
        Ok(ended("owd", incomplete))
    }

    /// Assigns FILES, the client's first, to their places.
    fn place_files(&mut self) -> Result<(), Failure> {
        let places = [
            &mut self.server,
            &mut self.phone,
            &mut self.proxy,
            &mut self.watch,
        ];
        let files = std::mem::take(&mut self.files);
        if files.is_empty() {
            return Ok(());
        }
        if places.iter().any(|p| p.is_some()) {
            return Err(Failure::input(
                "FILES together with --server, --phone, --proxy or --watch: give all places in one \
                 form",
            ));
        }
        if !(2..=places.len()).contains(&files.len()) {
            return Err(Failure::input(format_args!(
                "FILES are two to four places, not {}: [[WATCH] PROXY] PHONE SERVER",
                files.len()
            )));
        }
        for (place, file) in places.into_iter().zip(files.into_iter().rev()) {
            *place = Some(file);
        }
        Ok(())
    }

    fn delays(&self) -> Result<Option<DelayReport>, Failure> {
        if self.phone.is_some() && self.server.is_none() {
            return Err(Failure::input(
                "--phone without --server: give both, or both as FILES",
            ));
        }
        let mut places = Places::default();
        let mut incomplete = None;
        if let Some(path) = &self.server {
            let (name, from) = open(path)?;
            places.server = Some(tcp_transfer(&name, from, None).map_err(Failure::input)?);
        }
        if let Some(path) = &self.phone {
            let (name, from) = open(path)?;
            let found = tcp_transfer(&name, from, places.server.as_ref());
            places.phone = Some(found.map_err(Failure::input)?);
        }
        if let Some(path) = &self.proxy {
            let (name, from) = open(path)?;
            let (read, sent) = proxy_log(&name, from).map_err(Failure::input)?;
            (places.proxy_read, places.proxy_sent) = (Some(read), Some(sent));
        }
        if let Some(path) = &self.watch {
            let (name, from) = open(path)?;
            let (arrivals, cut) = rfcomm_stream(&name, from, true).map_err(Failure::input)?;
            places.watch = Some(arrivals);
            incomplete = cut;
        }
        let any = [&self.server, &self.phone, &self.proxy, &self.watch];
        if any.iter().all(|p| p.is_none()) {
            return Ok(None);
        }
        let mut report = one_way(&places).map_err(Failure::input)?;
        report.incomplete = report.incomplete.or(incomplete);
        Ok(Some(report))
    }
}

fn delay_text(out: &mut String, r: &DelayReport) {
    let _ = writeln!(
        out,
        "{:<28} {:>12} {:>10} {:>10} {:>10} {:>10} {:>10}",
        "s, over bytes", "bytes", "min", "mean", "median", "p95", "max"
    );
    let s = &r.segments;
    for (name, segment) in [
        ("d1 server to phone", &s.d1),
        ("d2 phone's TCP", &s.d2),
        ("d3 phone's proxy", &s.d3),
        ("d4 Bluetooth", &s.d4),
        ("first place to last", &r.total),
    ] {
        if let Some(d) = segment {
            let _ = writeln!(
                out,
                "{name:<28} {:>12} {:>10.6} {:>10.6} {:>10.6} {:>10.6} {:>10.6}",
                d.bytes, d.min_s, d.mean_s, d.median_s, d.p95_s, d.max_s
            );
        }
    }
    if let Some(clock) = &r.clock {
        clock_text(out, clock);
    }
    let _ = writeln!(out, "{} bytes were sent again", r.retransmitted_bytes);
    for note in &r.notes {
        let _ = writeln!(out, "note: {note}");
    }
}

/// Relation of the clocks, a line for each segment.
fn clock_text(out: &mut String, clock: &ClockBound) {
    for s in &clock.segments {
        let part = match clock.drifted {
            true => format!(" from {:.3} to {:.3} s", s.from_s, s.to_s),
            false => String::new(),
        };
        let _ = writeln!(
            out,
            "the phone's clock against the server's{part}: {:+.1} us in the middle, ± {:.1} us; \
             {:+.2} ± {:.2} ppm; taken off d1",
            s.out.offset_us, s.out.offset_error_us, s.out.skew_ppm, s.skew_error_ppm
        );
    }
}

fn phase_text(out: &mut String, r: &PhasesReport) {
    for h in &r.handovers {
        let p = &h.phases;
        let _ = writeln!(
            out,
            "{} to {}: last data {:.3} s, first data {:.3} s: P1 {:.3} s (connected, no data), \
             P2 {:.3} s (no network), P3 {:.3} s (there, not connected), P4 {:.3} s (connected, no \
             data)",
            h.from, h.to, h.last_data_s, h.first_data_s, p.p1_s, p.p2_s, p.p3_s, p.p4_s
        );
        if let Some(rssi) = h.rssi {
            let dbm = |v: Option<f64>| v.map_or("not known".to_owned(), |v| format!("{v:.0} dBm"));
            let _ = writeln!(
                out,
                "  {}: {} at its last data, {} when it was lost, {} at least between; {}: {} at its \
                 first data",
                h.from,
                dbm(rssi.at_last_data_dbm),
                dbm(rssi.at_loss_dbm),
                dbm(rssi.lowest_in_p1_dbm),
                h.to,
                dbm(rssi.new_at_first_data_dbm)
            );
        }
    }
    let _ = writeln!(
        out,
        "{} handovers, {} losses of a connection without one",
        r.handovers.len(),
        r.unfinished
    );
}
