//! Quantities of a run.

use std::time::Duration;

use mpbond_radio::machine::Mode;
use mpbond_sim::wear::{Delivery, Joules, Outcome, Path};
use mpbond_statistics::Sample;
use mpbond_units::{BitRate, Timestamp};

/// Bin of throughput (Wear OS paper, section 3.3).
const BIN_S: f64 = 0.2;
/// Delay above the shortest one from which on a chunk counts as delayed.
const DELAYED_S: f64 = 0.1;

/// A quantity of a run; `None` where it has none.
pub(super) type Of = fn(&Outcome) -> Option<f64>;

/// Quantities by name, whose last part is the unit. All but `message_s`, `wifi_mbps` and
/// `phone_mbps` are of the first flow.
pub(super) const QUANTITIES: [(&str, Of); 33] = [
    ("goodput_mbps", |o| rate(o, first(o))),
    ("phone_mbps", |o| rate(o, on(o, Path::Phone))),
    ("wifi_mbps", |o| rate(o, on(o, Path::Wifi))),
    ("time_s", time),
    ("silent_share", silent_share),
    ("delay_mean_s", |o| delays(o).mean()),
    ("delay_sd_s", |o| delays(o).standard_deviation()),
    ("delay_median_s", |o| delays(o).median()),
    ("delay_most_s", |o| delays(o).max()),
    ("delayed_share", delayed_share),
    ("d1_s", |o| part(o, 0).mean()),
    ("d2_s", |o| part(o, 1).mean()),
    ("d3_s", |o| part(o, 2).mean()),
    ("d4_s", |o| part(o, 3).mean()),
    ("d2_share", d2_share),
    ("d4_median_s", |o| part(o, 3).median()),
    ("d4_most_s", |o| part(o, 3).max()),
    ("message_s", message),
    ("gap_s", gap),
    ("p1_s", |o| phase(o, 0)),
    ("p2_s", |o| phase(o, 1)),
    ("p3_s", |o| phase(o, 2)),
    ("p4_s", |o| phase(o, 3)),
    ("sniff_every_s", sniff_every),
    ("sniffs_count", |o| Some(sniffs(o).len() as f64)),
    ("keeper_count", |o| Some(o.keeper_packets as f64)),
    ("switches_count", |o| Some(o.switches as f64)),
    ("watch_bluetooth_J", |o| Some(o.joules.watch_bluetooth)),
    ("watch_wifi_J", |o| Some(o.joules.watch_wifi)),
    ("watch_J", |o| {
        Some(o.joules.watch_bluetooth + o.joules.watch_wifi)
    }),
    ("watch_device_J", |o| {
        let Joules {
            watch_bluetooth,
            watch_wifi,
            watch_base,
            ..
        } = o.joules;
        Some(watch_bluetooth + watch_wifi + watch_base)
    }),
    ("phone_J", |o| {
        Some(o.joules.phone_bluetooth + o.joules.phone_wifi)
    }),
    ("phone_together_J", |o| Some(o.joules.relaying_phone)),
];

fn first(o: &Outcome) -> impl Iterator<Item = &Delivery> {
    o.deliveries.iter().filter(|d| d.flow == 0)
}

fn on(o: &Outcome, path: Path) -> impl Iterator<Item = &Delivery> {
    o.deliveries.iter().filter(move |d| d.path == path)
}

fn rate<'a>(o: &Outcome, some: impl Iterator<Item = &'a Delivery>) -> Option<f64> {
    let bytes = some.map(|d| d.bytes).sum();
    Some(BitRate::over(bytes, o.end.since(o.start)).mbps())
}

/// Time of a transfer that was completed.
fn time(o: &Outcome) -> Option<f64> {
    let last = first(o).map(|d| d.delivered).max()?;
    (o.undelivered == 0).then(|| last.since(o.start).as_secs_f64())
}

/// Share of bins without an arrival.
fn silent_share(o: &Outcome) -> Option<f64> {
    let seconds = o.end.since(o.start).as_secs_f64();
    let mut bins = vec![true; (seconds / BIN_S) as usize];
    for d in first(o) {
        let bin = (d.arrived.since(o.start).as_secs_f64() / BIN_S) as usize;
        if let Some(silent) = bins.get_mut(bin) {
            *silent = false;
        }
    }
    let silent = bins.iter().filter(|silent| **silent).count();
    (!bins.is_empty()).then(|| silent as f64 / bins.len() as f64)
}

fn delays(o: &Outcome) -> Sample {
    Sample::new(first(o).map(|d| d.delay.as_secs_f64()).collect())
}

fn delayed_share(o: &Outcome) -> Option<f64> {
    let delays = delays(o);
    let least = delays.min()?;
    let delayed = delays.values().iter().filter(|d| **d > least + DELAYED_S);
    Some(delayed.count() as f64 / delays.len() as f64)
}

/// A part of the delays.
fn part(o: &Outcome, n: usize) -> Sample {
    let parts = first(o).filter_map(|d| d.parts);
    Sample::new(parts.map(|p| p[n].as_secs_f64()).collect())
}

/// The share of d2 in the sum of the parts' means.
fn d2_share(o: &Outcome) -> Option<f64> {
    let means: Option<Vec<f64>> = (0..4).map(|n| part(o, n).mean()).collect();
    let means = means?;
    let sum: f64 = means.iter().sum();
    (sum > 0.0).then(|| means[1] / sum)
}

/// Mean time of a message of the second flow, from the server's application to the watch's.
fn message(o: &Outcome) -> Option<f64> {
    let messages = o.deliveries.iter().filter(|d| d.flow == 1);
    let times = messages.map(|d| d.delivered.since(d.due).as_secs_f64());
    Sample::new(times.collect()).mean()
}

/// Longest time without a delivery to the application.
fn gap(o: &Outcome) -> Option<f64> {
    let times: Vec<Timestamp> = first(o).map(|d| d.delivered).collect();
    let gaps = times.windows(2).map(|pair| match pair {
        [before, after] => after.since(*before),
        _ => Duration::ZERO,
    });
    gaps.max().map(|gap| gap.as_secs_f64())
}

/// A phase of a handover that followed the loss of Bluetooth.
fn phase(o: &Outcome, n: usize) -> Option<f64> {
    o.phases.map(|phases| phases[n].as_secs_f64())
}

/// Requests for Sniff after the begin of the traffic.
fn sniffs(o: &Outcome) -> Vec<Timestamp> {
    let sniffs = o.requests.iter().filter(|r| r.mode == Mode::Sniff);
    sniffs.map(|r| r.at).filter(|at| *at > o.start).collect()
}

/// Mean time between requests for Sniff.
fn sniff_every(o: &Outcome) -> Option<f64> {
    let sniffs = sniffs(o);
    let span = sniffs.last()?.since(*sniffs.first()?);
    (sniffs.len() > 1).then(|| span.as_secs_f64() / (sniffs.len() - 1) as f64)
}
