//! A pipe over emulated Bluetooth, a byte stream with credits and Sniff mode, with whole sessions.

#![allow(clippy::unwrap_used, clippy::panic)] // of tests

use std::time::Duration;

use mpbond_radio::Profiles;
use mpbond_radio::machine::BluetoothParameters;
use mpbond_radio::profile::Radios;
use mpbond_session::Mechanism;
use mpbond_sim::link::{LinkChange, LinkConfig, Medium, RFCOMM_RATE, Rate, SharedMedium};
use mpbond_sim::world::{
    Bluetooth, Ending, Exchange, ExchangeOutcome, Fault, Happening, HelperId, Passed, Route,
    SNIFF_PAUSE, Scenario, TwoWay, When, World,
};
use mpbond_units::BitRate;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn radio(name: &str) -> BluetoothParameters {
    let profiles = Profiles::shipped().unwrap();
    match &profiles.radio(name).unwrap().radio {
        Radios::Bluetooth(parameters) => (**parameters).clone(),
        other => panic!("{name}: {other:?}"),
    }
}

fn link(name: &str, mbps: f64, delay: u64) -> TwoWay {
    let rate = Rate::Constant(BitRate::from_mbps(mbps));
    TwoWay::symmetric(name, LinkConfig::new(rate).with_delay(ms(delay)))
}

/// A watch whose phone has 10 Mbit/s, behind Bluetooth; with WiFi of 1 Mbit/s, or without.
fn watch(has_wifi: bool) -> Scenario {
    let mut bt = link("bt", 1.0, 0);
    bt.bluetooth = Some(Bluetooth {
        watch: radio("watch-bt"),
        phone: radio("phone-bt"),
    });
    let links = vec![bt, link("lte", 10.0, 25), link("wifi", 1.0, 15)];
    let mut routes = vec![Route::through("bt", HelperId(0), 0, 1)];
    routes[0].pause = SNIFF_PAUSE;
    if has_wifi {
        routes.push(Route::direct("wifi", 2));
    }
    Scenario {
        has_bounds: false,
        keeps_log: true,
        ..Scenario::new(links, routes)
    }
}

/// Its exchanges, and packets on links.
fn run(scenario: Scenario) -> (Vec<ExchangeOutcome>, Vec<Passed>) {
    let observed = World::new(scenario).observe();
    if let Some(failure) = observed.failure {
        panic!("{failure}");
    }
    let all: Option<_> = observed.exchanges.into_iter().collect();
    (all.unwrap(), observed.passed)
}

/// When the session is long idle, and the link in Sniff mode.
const START: When = When::At(Duration::from_secs(20));

#[test]
fn transfers_have_the_rate_of_the_stream_after_the_exit_from_sniff() {
    let bytes = 512 << 10;
    for exchange in [
        Exchange::download(START, bytes),
        Exchange::upload(START, bytes),
    ] {
        let (all, _) = run(watch(false).with_exchange(exchange));
        let x = &all[0];
        let least = RFCOMM_RATE.time_for(bytes);
        let took = x.took.unwrap();
        // At most 0.8 s for Active, records of TLS and frames of the session.
        assert!(took > least + ms(300), "{took:?}");
        assert!(took < least.mul_f64(1.08) + ms(1_200), "{took:?}");
    }
}

/// The watch leaves Sniff mode for longer than other paths may be silent. Where the manager did not
/// know it, another relay took 34 kB of the upload a second time.
#[test]
fn an_upload_from_sniff_makes_no_second_connection() {
    let scenario = watch(false).with_exchange(Exchange::upload(START, 512 << 10));
    let outcome = World::new(scenario).run();
    let outcome = outcome.unwrap_or_else(|failure| panic!("{failure}"));
    let upload = &outcome.exchanges[0];
    assert_eq!((outcome.joins, upload.redundant_bytes), (1, 0));
}

/// Acknowledgements of the session are data of the watch, which restart its timer; an upload is
/// itself such data. An exit from Sniff mode would take 0.3 s at least.
#[test]
fn transfers_keep_the_link_active() {
    for (exchange, most) in [
        (Exchange::download(START, 2 << 20), ms(100)),
        (Exchange::upload(START, 2 << 20), ms(200)),
    ] {
        let (all, _) = run(watch(false).with_exchange(exchange));
        let arrivals = &all[0].arrivals;
        let gaps = arrivals.windows(2).map(|pair| pair[1].0 - pair[0].0);
        let longest = gaps.max().unwrap();
        assert!(longest < most, "{longest:?}");
    }
}

/// The same beside WiFi, which has the acknowledgements otherwise: the link went to Sniff mode 5 s
/// after it had woken, and the application waited for 0.45 s.
#[test]
fn a_download_over_wifi_as_well_keeps_the_link_active() {
    for variant in 0..3 {
        let download = Exchange::download(START, 2 << 20);
        let (all, _) = run(watch(true).with_exchange(download).varied(variant));
        // Exit from Sniff mode at the start.
        let arrivals = all[0].arrivals.iter().filter(|(at, _)| *at > ms(2_000));
        let times: Vec<_> = arrivals.map(|(at, _)| *at).collect();
        let gaps = times.windows(2).map(|pair| pair[1] - pair[0]);
        let longest = gaps.max().unwrap();
        assert!(longest < ms(200), "{longest:?}");
    }
}

/// The devices lose each other for 2 s: the channels end at both ends, and are made again.
#[test]
fn a_download_goes_on_over_wifi_while_the_devices_are_apart() {
    let mut scenario = watch(true).with_exchange(Exchange::download(START, 3 << 20));
    let mut fault = |after, what| {
        scenario.faults.push(Fault {
            when: When::AfterStart(0, after),
            what,
        });
    };
    let set = |change: LinkChange| Happening::Link {
        link: 0,
        up: Some(change.clone()),
        down: Some(change),
    };
    fault(ms(2_000), set(LinkChange::down()));
    fault(ms(2_000), Happening::Disconnect { link: 0 });
    fault(ms(4_000), set(LinkChange::up()));
    let (all, passed) = run(scenario);
    let shares = &all[0].shares;
    let bt = shares.iter().find(|share| share.route == "bt").unwrap();
    assert!(bt.finished.unwrap() > ms(4_000), "{shares:?}");
    let apart = passed.iter().filter(|p| p.link == 0);
    let start = all[0].started;
    let mut apart = apart.filter(|p| {
        let since = p.arrived.since(start);
        since > ms(2_010) && since < ms(4_000)
    });
    assert_eq!(apart.next(), None);
}

/// A download over both: WiFi has a bound of 1 Mbit/s, and is on the air for a thirtieth of the
/// time. With the same antenna, exchanges of Bluetooth that it meets are lost (by hand 0.55 to 0.6
/// of the rate are left).
#[test]
fn wifi_of_the_same_antenna_slows_the_pipe_down() {
    let bytes = |shares_antenna: bool| {
        let mut scenario = watch(true);
        scenario.links[2].shared.medium = Some(SharedMedium {
            name: "air".to_owned(),
            medium: Medium {
                rate: Some(BitRate::from_mbps(31.0)),
                shares_antenna,
                ..Medium::default()
            },
            half_duplex: true,
            retries: 0,
        });
        let mut download = Exchange::download(START, 1 << 30);
        download.client.ending = Ending::StopAt(ms(20_000));
        let (all, passed) = run(scenario.with_exchange(download));
        [0, 2].map(|link| {
            let late = passed.iter().filter(|p| {
                let since = p.arrived.since(all[0].started);
                p.link == link && since > ms(2_000) && since < ms(20_000)
            });
            late.map(|p| u64::from(p.bytes)).sum::<u64>() as f64
        })
    };
    let [apart, wifi_apart] = bytes(false);
    let [beside, wifi_beside] = bytes(true);
    let left = beside / apart;
    assert!((0.4..0.8).contains(&left), "{left}");
    let left = wifi_beside / wifi_apart;
    assert!(left > 0.9, "WiFi goes first: {left}");
}

/// The helper holds seconds of a download that has just stopped. It knows no throughput of the
/// pipe; how long bytes have waited there tells that an express is worthwhile.
#[test]
fn a_stream_after_a_download_does_not_wait_for_what_the_helper_holds() {
    let message = |scenario: Scenario| {
        let mut download = Exchange::download(START, 1 << 30);
        download.client.ending = Ending::StopAt(ms(10_000));
        let after = Exchange::download(When::AfterStart(0, ms(10_050)), 2_048);
        let (all, _) = run(scenario.with_exchange(download).with_exchange(after));
        all[1].took.unwrap()
    };
    let with = message(watch(false));
    let without = message(watch(false).without([Mechanism::Express]));
    assert!(with < ms(1_000), "{with:?}; without an express {without:?}");
    assert!(
        without > 5 * with,
        "{with:?}; without an express {without:?}"
    );
}
