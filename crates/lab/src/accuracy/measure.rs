//! Measurement of the player at each number of links and speed.

use std::fmt::Write as _;
use std::time::Instant;

use mpbond_statistics::Sample;
use mpbond_units::BitRate;

use super::report::{AccuracyReport, AccuracyRow};
use super::way::{DELAY, QUEUE, Way, name};
use super::{load, probes};
use crate::error::{Error, Result};
use crate::experiment::Experiment;
use crate::isolate;
use crate::network::links::played_links;
use crate::network::wiring::Network;
use crate::player::{Clock, Logs, Player};

/// Default speeds of a link, in Mbit/s.
pub const SPEEDS_MBPS: [u32; 4] = [5, 20, 50, 100];
/// Default numbers of simultaneous links.
pub const LINK_COUNTS: [usize; 4] = [1, 2, 4, 8];
/// Measures rate, delay and lateness of the player for each number of links and each speed, with
/// one or both directions full; 5 s each.
///
/// Like [`crate::run()`], this runs the calling program a second time, isolated; see
/// [`isolate::isolated`].
///
/// # Errors
/// When hosts or links cannot be created here.
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
            "{{ name = \"{link}\", from = \"near\", to = \"far\", down = {mbps}, up = {mbps}, \
             delay = \"{delay_ms}ms\", queue = \"{queue_ms}ms\" }}, "
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
    // The last link is for probes.
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
        // Filling the queues is not part of the measurement.
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
    let errors_ms = Sample::new(errors_ms);
    let quantile = |share| errors_ms.quantile(share).unwrap_or(f64::NAN);
    let row = AccuracyRow {
        links,
        rate,
        measured,
        rate_error: error_of(&measured),
        delay_error_p50_ms: quantile(0.5),
        delay_error_p99_ms: quantile(0.99),
        lateness_p50_ms: conditions.lateness_p50.as_secs_f64() * 1e3,
        lateness_p99_ms: conditions.lateness_p99.as_secs_f64() * 1e3,
        core_share,
    };
    Ok((row, conditions.realtime))
}

/// The element with the largest absolute `error`.
fn worst<T>(all: impl IntoIterator<Item = T>, error: impl Fn(&T) -> f64) -> Option<T> {
    let all = all.into_iter();
    all.max_by(|a, b| error(a).abs().total_cmp(&error(b).abs()))
}

#[cfg(test)]
mod tests {
    use super::super::way::near_address;
    use super::*;

    #[test]
    fn the_worst_link_is_reported() {
        assert_eq!(worst([0.1, -0.3, 0.2], |e| *e), Some(-0.3));
        assert_eq!(worst([], |e: &f64| *e), None);
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
    fn links_are_distinguished() {
        let e = experiment(8, 20).unwrap();
        assert_eq!(e.direct_links().count(), 8);
        let plans = crate::network::plan::plan(&e);
        for link in 0..8 {
            let interface = &plans[0].interfaces[link];
            assert_eq!(interface.link, name(link));
            assert_eq!(interface.address, near_address(link));
        }
    }
}
