//! How well the link player keeps rate and delay on this machine.
//!
//! Shaped links between two hosts, one number of links and one speed after the
//! other. Their queues are kept full, all at the same time and in one direction
//! or both, and the receiving hosts count what comes; meanwhile single packets
//! cross one more link, which tells how the player's work for the others
//! changes a delay. Both ends read the same clock.

mod load;
mod probes;

use std::fmt;
use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use mpbond_units::BitRate;
use serde::{Deserialize, Serialize};

use crate::error::{Doing, Error, Result};
use crate::experiment::Experiment;
use crate::host::Host;
use crate::isolate;
use crate::links::played_links;
use crate::player::{Clock, Logs, Player};
use crate::wiring::Network;

/// Speeds of a link that are tried where nothing else is asked for, in Mbit/s.
pub const SPEEDS_MBPS: [u32; 4] = [5, 20, 50, 100];
/// Numbers of links at once that are tried.
pub const LINK_COUNTS: [usize; 4] = [1, 2, 4, 8];
/// One-way delay of the link.
const DELAY: Duration = Duration::from_millis(25);
/// Queue of a link: a sender that this machine holds up for less does not let
/// it run empty.
const QUEUE: Duration = Duration::from_secs(1);
/// IPv4 and UDP headers.
const HEADER_BYTES: usize = 28;
/// What the project demands.
const MAX_RATE_ERROR: f64 = 0.01;
const MAX_DELAY_ERROR: Duration = Duration::from_micros(500);

/// The far host, where packets up go.
const FAR: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 1);

/// The near host's address on a link.
fn near_address(link: usize) -> Ipv4Addr {
    // The plan of addresses counts links, of which there are few.
    Ipv4Addr::new(10, 77, u8::try_from(link).unwrap_or(u8::MAX), 1)
}

/// Name of a link and its devices.
fn name(link: usize) -> String {
    format!("link{link}")
}

/// One direction of all links.
struct Way<'n> {
    from: &'n Host,
    to: &'n Host,
    is_down: bool,
}

impl Way<'_> {
    /// A receiver that gives up after a while, and a sender to it over `link`.
    fn sockets(&self, link: usize) -> Result<(UdpSocket, UdpSocket)> {
        let port = 7000 + link as u16;
        let near = near_address(link);
        let [source, target] = match self.is_down {
            true => [(Ipv4Addr::UNSPECIFIED, 0), (near, port)],
            // What leaves from a link's address takes that link.
            false => [(near, 0), (FAR, port)],
        }
        .map(SocketAddr::from);
        let receiver = self.to.enter(|| -> std::io::Result<_> {
            let socket = UdpSocket::bind(target)?;
            socket.set_read_timeout(Some(Duration::from_secs(1)))?;
            Ok(socket)
        })?;
        let sender = self.from.enter(|| -> std::io::Result<_> {
            let socket = UdpSocket::bind(source)?;
            socket.connect(target)?;
            Ok(socket)
        })?;
        Ok((
            receiver.doing("cannot open a UDP socket")?,
            sender.doing("cannot open a UDP socket")?,
        ))
    }
}

/// What [`player_accuracy`] found.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AccuracyReport {
    /// One row a number of links and speed.
    pub rows: Vec<AccuracyRow>,
    /// Whether both directions of each link were full, or the one down.
    pub both_ways: bool,
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
    /// the median over a link that is idle while all the others are full.
    pub delay_error_p50_ms: f64,
    /// Its 99th percentile.
    pub delay_error_p99_ms: f64,
    /// Release after due time of every packet, median, milliseconds.
    pub lateness_p50_ms: f64,
    /// Its 99th percentile.
    pub lateness_p99_ms: f64,
    /// Share of a core that the player used.
    pub core_share: f64,
}

impl AccuracyRow {
    /// Rate within 1 %, and within 0.5 ms the delay of half the probes and the
    /// release of 99 % of all packets.
    pub fn holds(&self) -> bool {
        let limit_ms = MAX_DELAY_ERROR.as_secs_f64() * 1e3;
        self.rate_error.abs() <= MAX_RATE_ERROR
            && self.delay_error_p50_ms.abs() <= limit_ms
            && self.lateness_p99_ms <= limit_ms
    }
}

impl fmt::Display for AccuracyReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let priority = if self.realtime { "with" } else { "without" };
        let ways = if self.both_ways { "both ways" } else { "down" };
        writeln!(
            f,
            "link player, {priority} real-time priority, links full {ways}"
        )?;
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
        write!(
            f,
            "targets: rate within 1 %, delay and p99 of lateness within 0.5 ms"
        )
    }
}

/// Measures the player's rate, delay and lateness with so many links at once,
/// each of so many Mbit/s and full down or both ways; 5 s for each of them.
///
/// Like [`crate::run()`], this runs the calling program a second time,
/// isolated; see [`isolate::isolated`].
///
/// # Errors
/// When hosts or links cannot be made here.
pub fn player_accuracy(
    link_counts: &[usize],
    speeds_mbps: &[u32],
    both_ways: bool,
) -> Result<AccuracyReport> {
    isolate::isolated(|_| {
        let mut report = AccuracyReport {
            rows: Vec::new(),
            both_ways,
            realtime: true,
        };
        for links in link_counts {
            for mbps in speeds_mbps {
                let (row, realtime) = measure(*links, *mbps, both_ways)?;
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

fn measure(links: usize, mbps: u32, both_ways: bool) -> Result<(AccuracyRow, bool)> {
    // The last one is for single packets.
    let experiment = experiment(links + 1, mbps)?;
    let mut network = Network::build(&experiment)?;
    network.set_congestion("reno")?;
    let played = played_links(&experiment, &mut network)?;
    let player = Player::start(played, Clock::start(), 1, &Logs::default())?;
    let (near, far) = (network.host("near")?, network.host("far")?);
    let rate = BitRate::from_mbps(f64::from(mbps));
    let mut ways = vec![Way {
        from: far,
        to: near,
        is_down: true,
    }];
    if both_ways {
        ways.push(Way {
            from: near,
            to: far,
            is_down: false,
        });
    }

    let mut started = Instant::now();
    let (measured, errors_ms) = std::thread::scope(|scope| {
        let ways = &ways;
        let probing = scope.spawn(|| probes::delay_errors(&ways[0], links, rate));
        // What it took to fill the queues at once is not what is measured.
        let measured = load::rates(ways, links, rate, || {
            started = Instant::now();
            player.begin(Vec::new())
        });
        let errors_ms = probing
            .join()
            .map_err(|_| Error::run("a thread of the measurement panicked"))?;
        Ok::<_, Error>((measured?, errors_ms?))
    })?;
    let conditions = player.conditions()?;
    let core_share = conditions.cpu.as_secs_f64() / started.elapsed().as_secs_f64();
    player.stop()?;

    let error_of = |measured: &BitRate| measured.bps() as f64 / rate.bps() as f64 - 1.0;
    let measured = worst(measured, error_of).unwrap_or(BitRate::ZERO);
    let row = AccuracyRow {
        links,
        rate,
        measured,
        rate_error: error_of(&measured),
        delay_error_p50_ms: quantile(&errors_ms, 0.5),
        delay_error_p99_ms: quantile(&errors_ms, 0.99),
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
    fn each_limit_counts() {
        let good = AccuracyRow {
            links: 8,
            rate: BitRate::from_mbps(100.0),
            measured: BitRate::from_mbps(99.5),
            rate_error: -0.005,
            delay_error_p50_ms: 0.4,
            delay_error_p99_ms: 3.0,
            lateness_p50_ms: 0.1,
            lateness_p99_ms: 0.4,
            core_share: 0.5,
        };
        assert!(good.holds());
        let too_slow = AccuracyRow {
            rate_error: -0.011,
            ..good.clone()
        };
        let too_early = AccuracyRow {
            delay_error_p50_ms: -0.6,
            ..good.clone()
        };
        let too_late = AccuracyRow {
            lateness_p99_ms: 0.6,
            ..good
        };
        assert!(
            ![too_slow, too_early, too_late]
                .iter()
                .any(AccuracyRow::holds)
        );
    }

    #[test]
    fn links_are_told_apart() {
        let e = experiment(8, 20).unwrap();
        assert_eq!(e.direct_links().count(), 8);
        let plans = crate::plan::plan(&e);
        for link in 0..8 {
            let interface = &plans[0].interfaces[link];
            assert_eq!(interface.link, name(link));
            assert_eq!(interface.address, near_address(link));
        }
    }
}
