//! Pages beside an endless download (ADR 0034): how long they take, and what the download loses.

use std::time::Duration;

use mpbond_sim::application::page::{Begins, PageObject};
use mpbond_sim::link::{LinkConfig, Queue, Rate};
use mpbond_sim::world::{
    Ending, Exchange, HelperId, Mechanism, Program, Route, Scenario, StreamClass, TwoWay, Visit,
    When, World,
};
use mpbond_units::BitRate;

const START: Duration = Duration::from_secs(4);

/// The download goes on for so long before a page.
const AHEAD: Duration = Duration::from_secs(2);

/// Sizes of a page's objects in KiB, after a document of 30 KiB.
const OBJECTS: [u64; 24] = [
    2, 60, 5, 20, 110, 3, 40, 8, 15, 75, 1, 30, 4, 200, 12, 6, 55, 25, 2, 18, 90, 7, 35, 10,
];

fn page() -> Program {
    let object = |(n, kib): (usize, u64)| PageObject {
        bytes: kib << 10,
        host: n % 3,
        begins: match n {
            0 => Begins::At(Duration::ZERO),
            _ => Begins::After {
                object: (n - 1) / 6,
                delay: Duration::from_millis(10),
            },
        },
    };
    let sizes = [30].into_iter().chain(OBJECTS);
    Program::Page {
        objects: sizes.enumerate().map(object).collect(),
        connections: 6,
    }
}

fn page_bytes() -> u64 {
    (30 + OBJECTS.iter().sum::<u64>()) << 10
}

/// A helper only, with the rates of its own link and of the pipe in Mbit/s.
fn scenario((hs, pipe): (f64, f64)) -> Scenario {
    let link = |name: &str, mbps, ms| {
        let config = LinkConfig::new(Rate::Constant(BitRate::from_mbps(mbps)))
            .with_delay(Duration::from_millis(ms))
            .with_queue(Queue::Time(Duration::from_millis(100)));
        TwoWay::symmetric(name, config)
    };
    let links = vec![link("pipe", pipe, 2), link("hs", hs, 25)];
    let routes = vec![Route::through("phone", HelperId(0), 0, 1)];
    let mut scenario = Scenario::new(links, routes);
    scenario.has_bounds = false;
    scenario.stall_limit = Duration::from_secs(100);
    scenario
}

/// Time of each of so many pages, one after the other, and the bytes of the download until the end
/// of the last one.
fn run(rates: (f64, f64), pages: usize, beside: bool) -> (Vec<Duration>, u64) {
    let mut scenario = scenario(rates);
    if beside {
        scenario
            .exchanges
            .push(Exchange::download(When::At(START), 1 << 40));
    }
    scenario.visits = (0..pages)
        .map(|n| Visit {
            start: match n {
                0 => When::At(START + AHEAD),
                _ => When::AfterVisit(n - 1, Duration::ZERO),
            },
            program: page(),
            class: StreamClass::Bulk,
            stops: (beside && n + 1 == pages).then_some(0),
        })
        .collect();
    let observed = World::new(scenario).observe();
    assert!(observed.failure.is_none(), "{:?}", observed.failure);
    let took = observed
        .visits
        .iter()
        .map(|visit| visit.took.unwrap_or(Duration::MAX));
    let bytes = observed.exchanges.iter().flatten().next();
    (
        took.collect(),
        bytes.filter(|_| beside).map_or(0, |x| x.down_bytes),
    )
}

/// Bytes of a download alone in this time.
fn download_alone(rates: (f64, f64), length: Duration) -> u64 {
    let mut scenario = scenario(rates);
    let mut download = Exchange::download(When::At(START), 1 << 40);
    download.client.ending = Ending::StopAt(length);
    scenario.exchanges = vec![download];
    let observed = World::new(scenario).observe();
    let download = observed.exchanges.iter().flatten().next();
    download.map_or(u64::MAX, |x| x.down_bytes)
}

/// The helper holds up to 4 MiB of the download, 1.5 to 30 s of its pipe. The page has half of the
/// pipe, and the queue of the pipe is full.
#[test]
fn a_page_does_not_wait_for_what_a_helper_holds() {
    for rates in [(50.0, 1.1), (10.0, 5.0), (30.0, 3.0), (40.0, 15.0)] {
        let alone = run(rates, 1, false).0[0];
        let (beside, bytes) = run(rates, 1, true);
        let ratio = beside[0].as_secs_f64() / alone.as_secs_f64();
        assert!(ratio <= 2.75, "{rates:?}: {beside:?}, {alone:?}");
        // The download loses what the page takes, and 3 %.
        let full = download_alone(rates, AHEAD + beside[0]);
        let share = (bytes + page_bytes()) as f64 / full as f64;
        assert!(share >= 0.97, "{rates:?}: {share}");
    }
}

/// With a record of one object in the helper's store, a page takes 12 s instead of 6. Whether an
/// express takes the record instead may depend on the instant: delays differ by fractions of a
/// millisecond.
#[test]
fn no_part_of_a_page_stands_behind_what_a_helper_holds() {
    let rates = (30.0, 3.0);
    let alone = run(rates, 1, false).0[0];
    for variant in 1..6 {
        let mut scenario = scenario(rates);
        scenario.exchanges = vec![Exchange::download(When::At(START), 1 << 40)];
        scenario.visits = vec![Visit {
            start: When::At(START + AHEAD),
            program: page(),
            class: StreamClass::Bulk,
            stops: Some(0),
        }];
        let observed = World::new(scenario.varied(variant)).observe();
        let took = observed.visits[0].took.unwrap_or(Duration::MAX);
        assert!(took <= alone.mul_f64(2.75), "{variant}: {took:?}");
    }
}

/// Parts of a page beside younger ones are no download: with queues as short for them, a page takes
/// 4 % longer.
#[test]
fn parts_of_a_page_fill_direct_paths() {
    // As a light page of today: most parts are of 10 to 60 KiB, from six hosts.
    let object = |n: usize| PageObject {
        bytes: (1 + n as u64 * 37 % 61) << 10,
        host: n % 6,
        begins: match n {
            0 => Begins::At(Duration::ZERO),
            _ => Begins::After {
                object: n / 12,
                delay: Duration::from_millis(10),
            },
        },
    };
    let page_over = |without: Option<Mechanism>, variant| {
        let link = |name: &str, mbps| {
            let config = LinkConfig::new(Rate::Constant(BitRate::from_mbps(mbps)))
                .with_delay(Duration::from_millis(25))
                .with_queue(Queue::Time(Duration::from_millis(100)));
            TwoWay::symmetric(name, config)
        };
        let links = vec![link("lte", 8.0), link("second", 10.0)];
        let routes = vec![Route::direct("lte", 0), Route::direct("second", 1)];
        let mut scenario = Scenario::new(links, routes).without(without);
        scenario.visits = vec![Visit {
            start: When::At(START),
            program: Program::Page {
                objects: (0..42).map(object).collect(),
                connections: 6,
            },
            class: StreamClass::Bulk,
            stops: None,
        }];
        let observed = World::new(scenario.varied(variant)).observe();
        observed.visits[0].took.unwrap_or(Duration::MAX)
    };
    let pages = |without| (0..8).map(move |variant| page_over(without, variant));
    let took: Duration = pages(None).sum();
    let long: Duration = pages(Some(Mechanism::ShortQueues)).sum();
    assert!(took <= long.mul_f64(1.02), "{took:?}, {long:?}");
}

/// Somebody loads one page after the other. The last ones are hardly longer than alone.
#[test]
fn many_pages_do_not_stop_a_download() {
    for rates in [(10.0, 5.0), (30.0, 3.0)] {
        let alone = run(rates, 1, false).0[0];
        let pages = 15;
        let (took, bytes) = run(rates, pages, true);
        assert!(took[pages - 1] <= alone.mul_f64(1.25), "{took:?}");
        let full = download_alone(rates, AHEAD + took.iter().sum::<Duration>());
        let share = bytes as f64 / full as f64;
        assert!(share >= 0.125, "{rates:?}: {share}");
        let with_pages = (bytes + page_bytes() * pages as u64) as f64 / full as f64;
        assert!(with_pages >= 0.96, "{rates:?}: {with_pages}");
    }
}
