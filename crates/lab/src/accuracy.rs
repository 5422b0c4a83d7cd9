//! How well the link player keeps rate and delay on this machine.
//!
//! Shaped links between two hosts, one number of links and one speed after the
//! other, all links busy at the same time. For the rate UDP senders keep the
//! links' queues full and the receiver counts; for the delay small packets
//! cross the idle links. Both ends read the same clock.

use std::fmt;
use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mpbond_units::BitRate;
use serde::{Deserialize, Serialize};

use crate::error::{Doing, Error, Result};
use crate::experiment::Experiment;
use crate::host::Host;
use crate::isolate;
use crate::links::played_links;
use crate::player::{Clock, Logs, Player};
use crate::wiring::{Network, counters};

/// Speeds of a link that are tried where nothing else is asked for, in Mbit/s.
pub const SPEEDS_MBPS: [u32; 6] = [1, 5, 10, 20, 50, 100];
/// Numbers of links at once that are tried.
pub const LINK_COUNTS: [usize; 4] = [1, 2, 4, 8];
/// One-way delay of the link.
const DELAY: Duration = Duration::from_millis(25);
/// Queue of a link: a sender that this machine holds up for less does not let
/// it run empty.
const QUEUE: Duration = Duration::from_secs(1);
/// How long the queue is given to fill, and how long it is kept full then.
const FILLING: Duration = Duration::from_millis(500);
const FULL_FOR: Duration = Duration::from_secs(4);
/// Packets of the delay measurement, and how far apart they are.
const PROBES: u32 = 200;
const PROBE_EVERY: Duration = Duration::from_millis(10);
/// IPv4 and UDP headers.
const HEADER_BYTES: usize = 28;
/// What the project demands.
const MAX_RATE_ERROR: f64 = 0.01;
const MAX_DELAY_ERROR: Duration = Duration::from_micros(500);

/// Where packets for a link are sent to: the near host's address on it.
fn receiver_address(link: usize) -> SocketAddr {
    // The plan of addresses counts links, of which there are few.
    let third = u8::try_from(link).unwrap_or(u8::MAX);
    SocketAddr::from((Ipv4Addr::new(10, 77, third, 1), 7000))
}

/// Name of a link and its devices.
fn name(link: usize) -> String {
    format!("link{link}")
}

/// What [`player_accuracy`] found.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AccuracyReport {
    /// One row a number of links and speed.
    pub rows: Vec<AccuracyRow>,
    /// Whether the player had real-time priority.
    pub realtime: bool,
}

/// The player at one speed of so many links at once.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AccuracyRow {
    /// How many links there are.
    pub links: usize,
    /// The rate of each.
    pub rate: BitRate,
    /// What came through that whose rate was most wrong, in IP bytes.
    pub measured: BitRate,
    /// Measured over nominal, less one.
    pub rate_error: f64,
    /// One-way delay beyond that of the link and of sending, milliseconds:
    /// the median of that link whose median is most wrong.
    pub delay_error_p50_ms: f64,
    /// The largest 99th percentile of a link.
    pub delay_error_p99_ms: f64,
    /// Release after due time while the links were full, median, milliseconds.
    pub lateness_p50_ms: f64,
    /// Its 99th percentile.
    pub lateness_p99_ms: f64,
    /// Share of a core that the player used while the links were full.
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
            "{:>5} {:>12} {:>9} {:>12} {:>9} {:>13} {:>9} {:>7}",
            "links", "each", "rate off", "delay off", "p99", "lateness p50", "p99", "core"
        )?;
        for row in &self.rows {
            writeln!(
                f,
                "{:>5} {:>12} {:>7.3} % {:>9.3} ms {:>6.3} ms {:>10.3} ms {:>6.3} ms {:>5.1} %  {}",
                row.links,
                row.rate.to_string(),
                row.rate_error * 100.0,
                row.delay_error_p50_ms,
                row.delay_error_p99_ms,
                row.lateness_p50_ms,
                row.lateness_p99_ms,
                row.core_share * 100.0,
                if row.holds() { "ok" } else { "MISSED" }
            )?;
        }
        write!(f, "targets: rate within 1 %, delay within 0.5 ms")
    }
}

/// Measures the player's rate, delay and lateness with so many links at once,
/// each of so many Mbit/s; 7 s for each of them.
///
/// Like [`crate::run()`], this runs the calling program a second time,
/// isolated; see [`isolate::isolated`].
///
/// # Errors
/// When hosts or links cannot be made here.
pub fn player_accuracy(link_counts: &[usize], speeds_mbps: &[u32]) -> Result<AccuracyReport> {
    isolate::isolated(|_| {
        let mut report = AccuracyReport {
            rows: Vec::new(),
            realtime: true,
        };
        for links in link_counts {
            for mbps in speeds_mbps {
                let (row, realtime) = measure(*links, *mbps)?;
                report.rows.push(row);
                report.realtime &= realtime;
            }
        }
        Ok(report)
    })
}

fn experiment(links: usize, mbps: u32) -> Result<Experiment> {
    let (delay_ms, queue_ms) = (DELAY.as_millis(), QUEUE.as_millis());
    let mut shaped = String::new();
    for link in (0..links).map(name) {
        let _ = write!(
            shaped,
            r#"{{ name = "{link}", from = "near", to = "far", down = {mbps}, up = {mbps}, delay = "{delay_ms}ms", queue = "{queue_ms}ms" }}, "#
        );
    }
    let text = format!(
        r#"
        name = "accuracy"
        host = [
            {{ name = "near", role = "primary" }},
            {{ name = "far", role = "proxy", address = "203.0.113.1" }},
            {{ name = "origin", role = "origin", address = "198.51.100.1" }},
        ]
        link = [{shaped} {{ name = "core", from = "far", to = "origin" }}]
        scheme = [{{ name = "none", scheme = "single" }}]
        workload = [{{ name = "none", direction = "down", bytes = 1 }}]
        "#
    );
    Experiment::parse("accuracy", &text)
}

fn measure(links: usize, mbps: u32) -> Result<(AccuracyRow, bool)> {
    let experiment = experiment(links, mbps)?;
    let mut network = Network::build(&experiment)?;
    network.set_congestion("reno")?;
    let played = played_links(&experiment, &mut network)?;
    let player = Player::start(played, Clock::start(), 1, &Logs::default())?;
    let (near, far) = (network.host("near")?, network.host("far")?);
    let rate = BitRate::from_mbps(f64::from(mbps));

    player.begin(Vec::new())?;
    let errors_ms = on_each(links, |link| delay_errors(near, far, link, rate))?;
    player.begin(Vec::new())?;
    let started = Instant::now();
    let measured = on_each(links, |link| full_rate(near, far, link, rate))?;
    let conditions = player.conditions()?;
    let core_share = conditions.cpu.as_secs_f64() / started.elapsed().as_secs_f64();
    player.stop()?;

    let error_of = |measured: &BitRate| measured.bps() as f64 / rate.bps() as f64 - 1.0;
    let measured = worst(measured, error_of).unwrap_or(BitRate::ZERO);
    let quantiles = |q: f64| errors_ms.iter().map(move |sorted| quantile(sorted, q));
    let row = AccuracyRow {
        links,
        rate,
        measured,
        rate_error: error_of(&measured),
        delay_error_p50_ms: worst(quantiles(0.5), |e| *e).unwrap_or(f64::NAN),
        delay_error_p99_ms: worst(quantiles(0.99), |e| *e).unwrap_or(f64::NAN),
        lateness_p50_ms: conditions.lateness_p50.as_secs_f64() * 1e3,
        lateness_p99_ms: conditions.lateness_p99.as_secs_f64() * 1e3,
        core_share,
    };
    Ok((row, conditions.realtime))
}

/// That of which `error` is largest, whatever its sign.
fn worst<T>(all: impl IntoIterator<Item = T>, error: impl Fn(&T) -> f64) -> Option<T> {
    let all = all.into_iter();
    all.max_by(|a, b| error(a).abs().total_cmp(&error(b).abs()))
}

fn quantile(sorted: &[f64], q: f64) -> f64 {
    let place = (sorted.len() as f64 * q) as usize;
    let last = sorted.len().saturating_sub(1);
    sorted.get(place.min(last)).copied().unwrap_or(f64::NAN)
}

/// Does `work` for each link at the same time.
fn on_each<T: Send>(links: usize, work: impl Fn(usize) -> Result<T> + Sync) -> Result<Vec<T>> {
    std::thread::scope(|scope| {
        let work = &work;
        let started: Vec<_> = (0..links)
            .map(|link| scope.spawn(move || work(link)))
            .collect();
        started
            .into_iter()
            .map(|thread| {
                thread
                    .join()
                    .map_err(|_| Error::run("a thread of the measurement panicked"))?
            })
            .collect()
    })
}

/// A receiver that gives up after a while, and a sender to it.
fn sockets(near: &Host, far: &Host, link: usize) -> Result<(UdpSocket, UdpSocket)> {
    let receiver = near.enter(|| -> std::io::Result<_> {
        let socket = UdpSocket::bind(receiver_address(link))?;
        socket.set_read_timeout(Some(Duration::from_secs(1)))?;
        Ok(socket)
    })?;
    let sender = far.enter(|| -> std::io::Result<_> {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        socket.connect(receiver_address(link))?;
        Ok(socket)
    })?;
    Ok((
        receiver.doing("cannot open a UDP socket")?,
        sender.doing("cannot open a UDP socket")?,
    ))
}

/// One-way delays of single packets beyond the nominal one, sorted, in ms.
fn delay_errors(near: &Host, far: &Host, link: usize, rate: BitRate) -> Result<Vec<f64>> {
    const PAYLOAD: usize = 100;
    let (receiver, sender) = sockets(near, far, link)?;
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
fn full_rate(near: &Host, far: &Host, link: usize, rate: BitRate) -> Result<BitRate> {
    const PACKET_BYTES: u64 = 1500;
    const PAYLOAD: usize = PACKET_BYTES as usize - HEADER_BYTES;
    let (_receiver, sender) = sockets(near, far, link)?;
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let over = &over;
        scope.spawn(move || {
            // A tenth more than fits, after as much as the queue takes.
            let surplus = BitRate::from_bps(rate.bps() / 10 * 11);
            let packet = [0; PAYLOAD];
            let start = Instant::now();
            let mut sent = 0;
            while !over.load(Ordering::Relaxed) {
                while sent < surplus.bytes_in(start.elapsed() + QUEUE) {
                    // A full device queue is what is wanted.
                    let _ = sender.send(&packet);
                    sent += PACKET_BYTES;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let measured = near.enter(|| -> std::io::Result<BitRate> {
            std::thread::sleep(FILLING);
            let (start, before) = received(link)?;
            std::thread::sleep(FULL_FOR);
            let (end, after) = received(link)?;
            Ok(BitRate::over((after - before) * PACKET_BYTES, end - start))
        });
        over.store(true, Ordering::Relaxed);
        measured?.doing("the rate measurement failed")
    })
}

/// Packets that the near device of `link` has received, and when that was; in
/// the near host.
fn received(link: usize) -> std::io::Result<(Instant, u64)> {
    // Counters that this machine took long to read were read at no known time.
    const AT_ONCE: Duration = Duration::from_millis(1);
    const TRIES: u32 = 50;
    let mut last = None;
    for _ in 0..TRIES {
        let before = Instant::now();
        let packets = counters(&name(link))?.received_packets;
        let took = before.elapsed();
        last = Some((before + took / 2, packets));
        if took < AT_ONCE {
            break;
        }
    }
    last.ok_or_else(|| std::io::Error::other("the counters were not read"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_link_is_told() {
        assert_eq!(worst([0.1, -0.3, 0.2], |e| *e), Some(-0.3));
        assert_eq!(worst([], |e: &f64| *e), None);
        let sorted: Vec<f64> = (0..200).map(f64::from).collect();
        assert_eq!(quantile(&sorted, 0.5), 100.0);
        assert_eq!(quantile(&sorted, 0.99), 198.0);
        assert_eq!(quantile(&sorted, 1.0), 199.0);
        assert!(quantile(&[], 0.5).is_nan());
    }

    #[test]
    fn links_are_told_apart() {
        let e = experiment(8, 20).unwrap();
        assert_eq!(e.direct_links().count(), 8);
        let plans = crate::plan::plan(&e);
        for link in 0..8 {
            let interface = &plans[0].interfaces[link];
            assert_eq!(interface.link, name(link));
            assert_eq!(interface.address, receiver_address(link).ip());
        }
    }
}
