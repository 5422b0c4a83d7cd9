//! How well the link player keeps rate and delay on this machine.
//!
//! One shaped link between two hosts, one speed after the other. For the rate
//! a UDP sender keeps the link's queue full and the receiver counts; for the
//! delay small packets cross the idle link. Both ends read the same clock.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mpbond_units::BitRate;
use serde::{Deserialize, Serialize};

use crate::error::{Doing, Result};
use crate::experiment::Experiment;
use crate::host::Host;
use crate::isolate;
use crate::links::played_links;
use crate::player::{Clock, Logs, Player};
use crate::wiring::{Network, counters};

/// Speeds that are tried, in Mbit/s.
const SPEEDS_MBPS: [u32; 6] = [1, 5, 10, 20, 50, 100];
/// One-way delay of the link.
const DELAY: Duration = Duration::from_millis(25);
/// How long the queue is given to fill, and how long it is kept full then.
const FILLING: Duration = Duration::from_millis(500);
const FULL_FOR: Duration = Duration::from_secs(4);
/// Name of the link and its devices.
const LINK: &str = "link";
/// Packets of the delay measurement, and how far apart they are.
const PROBES: u32 = 200;
const PROBE_EVERY: Duration = Duration::from_millis(10);
/// IPv4 and UDP headers.
const HEADER_BYTES: usize = 28;
/// What the project demands.
const MAX_RATE_ERROR: f64 = 0.01;
const MAX_DELAY_ERROR: Duration = Duration::from_micros(500);

/// Where packets are sent to: the near host's address on the first link.
const RECEIVER: (Ipv4Addr, u16) = (Ipv4Addr::new(10, 77, 0, 1), 7000);

/// What [`player_accuracy`] found.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AccuracyReport {
    /// One row a speed.
    pub rows: Vec<AccuracyRow>,
    /// Whether the player had real-time priority.
    pub realtime: bool,
}

/// The player at one speed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AccuracyRow {
    /// The link's rate.
    pub rate: BitRate,
    /// What came through, in IP bytes.
    pub measured: BitRate,
    /// Measured over nominal, less one.
    pub rate_error: f64,
    /// One-way delay beyond that of the link and of sending, median,
    /// milliseconds.
    pub delay_error_p50_ms: f64,
    /// Its 99th percentile.
    pub delay_error_p99_ms: f64,
    /// Release after due time while the link was full, 99th percentile,
    /// milliseconds.
    pub lateness_p99_ms: f64,
    /// Share of a core that the player used while the link was full.
    pub core_share: f64,
}

impl AccuracyRow {
    /// Rate within 1 %, and half the packets within 0.5 ms.
    pub fn holds(&self) -> bool {
        self.rate_error.abs() <= MAX_RATE_ERROR
            && self.delay_error_p50_ms.abs() <= MAX_DELAY_ERROR.as_secs_f64() * 1e3
    }
}

impl fmt::Display for AccuracyReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let priority = if self.realtime { "with" } else { "without" };
        writeln!(f, "link player, {priority} real-time priority")?;
        writeln!(
            f,
            "{:>12} {:>14} {:>9} {:>14} {:>9} {:>13} {:>7}",
            "link", "measured", "error", "delay error", "p99", "lateness p99", "core"
        )?;
        for row in &self.rows {
            writeln!(
                f,
                "{:>12} {:>14} {:>7.3} % {:>11.3} ms {:>6.3} ms {:>10.3} ms {:>5.1} %  {}",
                row.rate.to_string(),
                format!("{:.3}", row.measured),
                row.rate_error * 100.0,
                row.delay_error_p50_ms,
                row.delay_error_p99_ms,
                row.lateness_p99_ms,
                row.core_share * 100.0,
                if row.holds() { "ok" } else { "MISSED" }
            )?;
        }
        write!(f, "targets: rate within 1 %, delay within 0.5 ms")
    }
}

/// Measures the player's rate and delay at 1 to 100 Mbit/s; about 40 s.
///
/// Like [`crate::run()`], this runs the calling program a second time,
/// isolated; see [`isolate::isolated`].
///
/// # Errors
/// When hosts or links cannot be made here.
pub fn player_accuracy() -> Result<AccuracyReport> {
    isolate::isolated(|_| {
        let mut report = AccuracyReport {
            rows: Vec::new(),
            realtime: true,
        };
        for mbps in SPEEDS_MBPS {
            let (row, realtime) = measure(mbps)?;
            report.rows.push(row);
            report.realtime &= realtime;
        }
        Ok(report)
    })
}

fn measure(mbps: u32) -> Result<(AccuracyRow, bool)> {
    let delay_ms = DELAY.as_millis();
    let text = format!(
        r#"
        name = "accuracy"
        host = [
            {{ name = "near", role = "primary" }},
            {{ name = "far", role = "proxy", address = "203.0.113.1" }},
            {{ name = "origin", role = "origin", address = "198.51.100.1" }},
        ]
        link = [
            {{ name = "{LINK}", from = "near", to = "far", down = {mbps}, up = {mbps}, delay = "{delay_ms}ms" }},
            {{ name = "core", from = "far", to = "origin" }},
        ]
        scheme = [{{ name = "none", scheme = "single" }}]
        workload = [{{ name = "none", direction = "down", bytes = 1 }}]
        "#
    );
    let experiment = Experiment::parse("accuracy", &text)?;
    let mut network = Network::build(&experiment)?;
    network.set_congestion("reno")?;
    let links = played_links(&experiment, &mut network)?;
    let player = Player::start(links, Clock::start(), 1, &Logs::default())?;
    let (near, far) = (network.host("near")?, network.host("far")?);
    let rate = BitRate::from_mbps(f64::from(mbps));

    player.begin(Vec::new())?;
    let errors_ms = delay_errors(near, far, rate)?;
    player.begin(Vec::new())?;
    let started = Instant::now();
    let measured = full_rate(near, far, rate)?;
    let conditions = player.conditions()?;
    let core_share = conditions.cpu.as_secs_f64() / started.elapsed().as_secs_f64();
    player.stop()?;

    let quantile = |q: f64| {
        let place = (errors_ms.len() as f64 * q) as usize;
        let last = errors_ms.len().saturating_sub(1);
        errors_ms.get(place.min(last)).copied().unwrap_or(f64::NAN)
    };
    let row = AccuracyRow {
        rate,
        measured,
        rate_error: measured.bps() as f64 / rate.bps() as f64 - 1.0,
        delay_error_p50_ms: quantile(0.5),
        delay_error_p99_ms: quantile(0.99),
        lateness_p99_ms: conditions.lateness_p99.as_secs_f64() * 1e3,
        core_share,
    };
    Ok((row, conditions.realtime))
}

/// A receiver that gives up after a while, and a sender to it.
fn sockets(near: &Host, far: &Host) -> Result<(UdpSocket, UdpSocket)> {
    let receiver = near.enter(|| -> std::io::Result<_> {
        let socket = UdpSocket::bind(RECEIVER)?;
        socket.set_read_timeout(Some(Duration::from_secs(1)))?;
        Ok(socket)
    })?;
    let sender = far.enter(|| -> std::io::Result<_> {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        socket.connect(SocketAddr::from(RECEIVER))?;
        Ok(socket)
    })?;
    Ok((
        receiver.doing("cannot open a UDP socket")?,
        sender.doing("cannot open a UDP socket")?,
    ))
}

/// One-way delays of single packets beyond the nominal one, sorted, in ms.
fn delay_errors(near: &Host, far: &Host, rate: BitRate) -> Result<Vec<f64>> {
    const PAYLOAD: usize = 100;
    let (receiver, sender) = sockets(near, far)?;
    let clock = Clock::start();
    let nominal = DELAY + rate.time_for((PAYLOAD + HEADER_BYTES) as u64);
    let mut errors_ms = std::thread::scope(|scope| -> std::io::Result<Vec<f64>> {
        let sending = scope.spawn(move || -> std::io::Result<()> {
            let mut packet = [0; PAYLOAD];
            for _ in 0..PROBES {
                let stamp = clock.now().as_nanos().to_be_bytes();
                for (to, from) in packet.iter_mut().zip(stamp) {
                    *to = from;
                }
                sender.send(&packet)?;
                std::thread::sleep(PROBE_EVERY);
            }
            Ok(())
        });
        let mut errors = Vec::new();
        let mut packet = [0; PAYLOAD];
        for _ in 0..PROBES {
            receiver.recv(&mut packet)?;
            let arrived = clock.now().as_nanos();
            let mut stamp = [0; 8];
            stamp.copy_from_slice(&packet[..8]);
            let took_ns = arrived.saturating_sub(u64::from_be_bytes(stamp)) as f64;
            errors.push((took_ns - nominal.as_nanos() as f64) / 1e6);
        }
        match sending.join() {
            Ok(sent) => sent?,
            Err(_) => return Err(std::io::Error::other("the sender panicked")),
        }
        Ok(errors)
    })
    .doing("the delay measurement failed")?;
    errors_ms.sort_by(f64::total_cmp);
    Ok(errors_ms)
}

/// What comes through a link whose queue never runs empty, by the near
/// device's own counter: a receiving program might be too slow.
fn full_rate(near: &Host, far: &Host, rate: BitRate) -> Result<BitRate> {
    const PACKET_BYTES: u64 = 1500;
    const PAYLOAD: usize = PACKET_BYTES as usize - HEADER_BYTES;
    let (_receiver, sender) = sockets(near, far)?;
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let over = &over;
        scope.spawn(move || {
            // A fifth more than fits, in bursts that the queue takes.
            let surplus = BitRate::from_bps(rate.bps() / 5 * 6);
            let packet = [0; PAYLOAD];
            let start = Instant::now();
            let mut sent = 0;
            while !over.load(Ordering::Relaxed) {
                while sent < surplus.bytes_in(start.elapsed()) {
                    // A full device queue is what is wanted.
                    let _ = sender.send(&packet);
                    sent += PACKET_BYTES;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let measured = near.enter(|| -> std::io::Result<BitRate> {
            std::thread::sleep(FILLING);
            let (start, before) = (Instant::now(), counters(LINK)?.received_packets);
            std::thread::sleep(FULL_FOR);
            let packets = counters(LINK)?.received_packets - before;
            Ok(BitRate::over(packets * PACKET_BYTES, start.elapsed()))
        });
        over.store(true, Ordering::Relaxed);
        measured?.doing("the rate measurement failed")
    })
}
