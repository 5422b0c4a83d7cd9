//! Short exchanges beside a transfer (ADR 0027): how long they take, and what the transfer loses.

use std::time::Duration;

use mpbond_sim::ideal::Direction;
use mpbond_sim::link::{LinkConfig, Queue, Rate};
use mpbond_sim::world::{
    Ending, Exchange, ExchangeOutcome, HelperId, Late, Rounds, Route, Scenario, StreamClass,
    TwoWay, When, World,
};
use mpbond_units::BitRate;

const MESSAGE_BYTES: u64 = 2 << 10;
const ECHO_BYTES: u64 = 48;
const EVERY: Duration = Duration::from_millis(200);
const LENGTH: Duration = Duration::from_secs(20);
const START: Duration = Duration::from_secs(4);

/// A helper only, a direct path and a helper, two direct paths.
const ALL_PATHS: [Paths; 8] = [
    Helper(50.0, 1.1),
    Helper(10.0, 5.0),
    Helper(30.0, 3.0),
    Both(8.0, 50.0, 1.1),
    Both(8.0, 10.0, 5.0),
    Both(4.0, 30.0, 3.0),
    Direct(8.0, 10.0),
    Direct(4.0, 10.0),
];

/// Paths of a session, with rates of direct path, HS-Path and pipe in Mbit/s.
#[derive(Debug, Clone, Copy)]
enum Paths {
    Helper(f64, f64),
    Both(f64, f64, f64),
    Direct(f64, f64),
}

use Paths::{Both, Direct, Helper};

impl Paths {
    fn scenario(self) -> Scenario {
        let link = |name: &str, mbps, ms| {
            let rate = Rate::Constant(BitRate::from_mbps(mbps));
            let config = LinkConfig::new(rate)
                .with_delay(Duration::from_millis(ms))
                .with_queue(Queue::Time(Duration::from_millis(100)));
            TwoWay::symmetric(name, config)
        };
        let through = |at| Route::through("phone", HelperId(0), at, at + 1);
        let (links, routes) = match self {
            Helper(hs, pipe) => (
                vec![link("pipe", pipe, 2), link("hs", hs, 25)],
                vec![through(0)],
            ),
            Both(ps, hs, pipe) => (
                vec![
                    link("lte", ps, 25),
                    link("pipe", pipe, 2),
                    link("hs", hs, 25),
                ],
                vec![Route::direct("lte", 0), through(1)],
            ),
            Direct(first, second) => (
                vec![link("lte", first, 25), link("second", second, 25)],
                vec![Route::direct("lte", 0), Route::direct("second", 1)],
            ),
        };
        let mut scenario = Scenario::new(links, routes);
        scenario.has_bounds = false;
        scenario.stall_limit = LENGTH * 2;
        scenario
    }

    /// Rate of the slowest hop in Mbit/s.
    fn slowest(self) -> f64 {
        match self {
            Helper(a, b) | Direct(a, b) => a.min(b),
            Both(a, b, c) => a.min(b).min(c),
        }
    }

    /// Time of two full packets at the slowest hop.
    fn two_packets(self) -> f64 {
        2.0 * 1_500.0 * 8e-6 / self.slowest()
    }

    /// Number of runs whose links differ by fractions of a millisecond. Where a packet takes 11 ms,
    /// the moment in which a message meets the pipe's queue decides on it, and few runs decide on a
    /// 95th percentile.
    fn variants(self) -> u32 {
        match self {
            Helper(..) if self.slowest() < 2.0 => 20,
            _ => 1,
        }
    }
}

/// Answers that a client asks for at a constant rate.
#[derive(Debug, Clone, Copy)]
struct Messages {
    bytes: u64,
    class: StreamClass,
    /// All over one stream, or one at a time, each on a stream of its own.
    kept: Option<Late>,
    /// When the first is due.
    first: Duration,
}

const MESSAGES: Messages = Messages {
    bytes: MESSAGE_BYTES,
    class: StreamClass::Bulk,
    kept: None,
    first: EVERY,
};

impl Messages {
    /// One exchange for each message, or one for all.
    fn exchanges(self) -> Vec<Exchange> {
        let exchange = |at| Exchange {
            by_length: true,
            class: self.class,
            ..Exchange::download(When::At(START + at), self.bytes)
        };
        if let Some(late) = self.kept {
            let begin = self.first - EVERY;
            let rounds = Rounds {
                first: EVERY,
                every: EVERY,
                length: LENGTH - begin,
                late,
            };
            return vec![Exchange {
                rounds: Some(rounds),
                ..exchange(begin)
            }];
        }
        let (mut all, mut due) = (Vec::new(), self.first);
        while due < LENGTH {
            all.push(Exchange {
                never_beside: 0..all.len(),
                ..exchange(due)
            });
            due += EVERY;
        }
        all
    }
}

/// Results of messages, a transfer, or both, of all variants together.
#[derive(Debug, Default)]
struct Ran {
    /// Times of the first messages of all variants in seconds, ascending.
    first: Vec<f64>,
    /// Times of the messages in seconds, ascending.
    times: Vec<f64>,
    /// Bytes of the transfers.
    bytes: u64,
    /// Their length in seconds.
    seconds: f64,
}

impl Ran {
    fn quantile(&self, share: f64) -> f64 {
        self.times[(self.times.len() as f64 * share) as usize]
    }
}

/// Messages beside a transfer from the start on, in all variants; either may be left out.
fn run(paths: Paths, messages: Option<Messages>, transfer: Option<&Exchange>) -> Ran {
    let mut scenario = paths.scenario();
    if let Some(messages) = messages {
        scenario.exchanges = messages.exchanges();
    }
    let messages = scenario.exchanges.len();
    scenario.exchanges.extend(transfer.cloned());
    let mut all = Ran::default();
    for variant in 0..paths.variants() {
        run_one(scenario.clone().varied(variant), messages, &mut all);
    }
    all.first.sort_by(f64::total_cmp);
    all.times.sort_by(f64::total_cmp);
    all
}

/// One variant, whose first exchanges are so many messages.
fn run_one(scenario: Scenario, messages: usize, into: &mut Ran) {
    let observed = World::new(scenario).observe();
    assert!(observed.failure.is_none(), "{:?}", observed.failure);
    let times_of = |x: &ExchangeOutcome| match &x.rounds[..] {
        [] => x.took.into_iter().collect::<Vec<_>>(),
        rounds => rounds.iter().map(|round| round.took).collect(),
    };
    let of_messages = observed.exchanges[..messages].iter();
    let all = of_messages.map(|x| x.as_ref().map(times_of).unwrap_or_default());
    let all: Vec<Vec<Duration>> = all.collect();
    let first = all.first().and_then(|x| x.first());
    into.first.extend(first.map(Duration::as_secs_f64));
    into.times
        .extend(all.iter().flatten().map(Duration::as_secs_f64));
    let transfer = observed.exchanges[messages..].iter().flatten().next();
    into.bytes += transfer.map_or(0, |x| x.down_bytes.max(x.up_bytes));
    into.seconds += transfer.map_or(0.0, |x| x.took.unwrap_or(LENGTH).as_secs_f64());
}

fn endless_download() -> Exchange {
    let mut download = Exchange::download(When::At(START), 1 << 40);
    download.client.ending = Ending::StopAt(LENGTH);
    download
}

/// At the median 20 ms and two full packets at the slowest hop later than alone, at the 95th
/// percentile another 80 ms; the transfer and the messages in its direction get 97 % of what it
/// gets alone.
fn hardly_later_than_alone(paths: Paths, messages: Messages, transfer: &Exchange) {
    let alone = run(paths, Some(messages), None);
    let bulk = run(paths, None, Some(transfer));
    let beside = run(paths, Some(messages), Some(transfer));
    assert!(
        beside.times.len() * 100 >= alone.times.len() * 85,
        "{paths:?}: {}",
        beside.times.len()
    );
    let median = alone.quantile(0.5) + 0.020 + paths.two_packets();
    assert!(
        beside.quantile(0.5) <= median,
        "{paths:?}: {beside:?}, not {median}"
    );
    let late = alone.quantile(0.95) + 0.100 + paths.two_packets();
    assert!(
        beside.quantile(0.95) <= late,
        "{paths:?}: {beside:?}, not {late}"
    );
    // Messages are downloads, and take nothing from an upload.
    let own = match transfer.direction() {
        Direction::Down => messages.bytes * beside.times.len() as u64,
        Direction::Up => 0,
    };
    let rate = (beside.bytes + own) as f64 / beside.seconds;
    let share = rate / (bulk.bytes as f64 / bulk.seconds);
    assert!(share >= 0.97, "{paths:?}: {share}");
}

#[test]
fn messages_beside_a_download_are_hardly_later_than_alone() {
    for paths in ALL_PATHS {
        hardly_later_than_alone(paths, MESSAGES, &endless_download());
    }
}

/// All over one stream, which has carried much in the end. Each request makes it young again.
#[test]
fn messages_over_one_stream_beside_a_download_are_hardly_later_than_alone() {
    let kept = Messages {
        kept: Some(Late::LeftOut),
        ..MESSAGES
    };
    for paths in ALL_PATHS {
        hardly_later_than_alone(paths, kept, &endless_download());
    }
}

/// Two terminals of class interactive: somebody types in one, the other shows a long file.
#[test]
fn echoes_beside_the_output_of_another_terminal_are_hardly_later_than_alone() {
    let echoes = Messages {
        bytes: ECHO_BYTES,
        class: StreamClass::Interactive,
        kept: Some(Late::SentAhead),
        // A helper whose rate is not known yet was given too much.
        first: Duration::from_secs(1),
    };
    let output = Exchange {
        class: StreamClass::Interactive,
        ..endless_download()
    };
    for paths in ALL_PATHS {
        hardly_later_than_alone(paths, echoes, &output);
    }
}

#[test]
fn messages_beside_an_upload_are_hardly_later_than_alone() {
    // About 20 s each.
    for (paths, bytes) in [
        (Helper(10.0, 5.0), 12_000_000),
        (Both(8.0, 10.0, 5.0), 30_000_000),
        (Direct(8.0, 10.0), 42_000_000),
    ] {
        let upload = Exchange::upload(When::At(START), bytes);
        hardly_later_than_alone(paths, MESSAGES, &upload);
    }
}

/// A helper that has run ahead for ten seconds holds 30 s of its pipe. An express carries messages
/// past it. One of which the pipe's full queue drops a packet takes some round trips longer.
#[test]
fn the_first_message_after_a_long_download_passes_the_helpers_store() {
    let paths = Helper(50.0, 1.1);
    let messages = Some(Messages {
        first: LENGTH / 2,
        ..MESSAGES
    });
    let alone = run(paths, messages, None);
    let late = run(paths, messages, Some(&endless_download()));
    let variants = paths.variants() as usize;
    assert!(late.times.len() > 30 * variants, "{late:?}");
    assert_eq!(late.first.len(), variants, "{late:?}");
    assert!(late.first.iter().all(|first| *first < 1.3), "{late:?}");
    assert!(late.quantile(0.5) < alone.quantile(0.5) + 0.1, "{late:?}");
}

/// Once the helper has seen messages, it keeps the pipe's queue short, whatever it holds.
#[test]
fn messages_after_a_long_download_are_hardly_later_than_alone() {
    let later = Messages {
        first: LENGTH / 2,
        ..MESSAGES
    };
    for paths in ALL_PATHS {
        hardly_later_than_alone(paths, later, &endless_download());
    }
}

/// A download of 23 s, soon after a short exchange.
#[test]
fn a_helper_runs_ahead_for_a_transfer_alone() {
    let mut scenario = Helper(50.0, 1.1).scenario();
    let soon = Duration::from_millis(100);
    scenario.exchanges = vec![
        Exchange::download(When::At(START), MESSAGE_BYTES),
        Exchange::download(When::AfterEnd(0, soon), 3 << 20),
    ];
    let mut most = 0;
    let outcome = World::new(scenario).run_watched(|now, _, proxy| {
        let subflows = proxy.map(|s| s.subflows(now)).unwrap_or_default();
        most = most.max(subflows.iter().map(|s| s.b_far_bytes).max().unwrap_or(0));
    });
    assert!(outcome.is_ok(), "{outcome:?}");
    assert!(most > 2 << 20, "{most}");
}

/// An upload beside a download, alone or not: its time in seconds, and bytes sent twice.
fn upload(paths: Paths, bytes: u64, beside: Option<Exchange>) -> (f64, u64) {
    let mut scenario = paths.scenario();
    scenario.exchanges = vec![Exchange::upload(When::At(START + LENGTH / 4), bytes)];
    scenario.exchanges.extend(beside);
    match World::new(scenario).run() {
        Ok(outcome) => {
            let took = outcome.exchanges[0].took.unwrap_or(Duration::MAX);
            (took.as_secs_f64(), outcome.client.reinjected_bytes_out)
        }
        Err(_) => (f64::INFINITY, 0),
    }
}

/// Acknowledgements of the upload pass what the helper holds of the download. Without them, it
/// counts as lost, is sent again, and its window stays closed.
#[test]
fn an_upload_over_a_helper_beside_a_download_is_not_sent_twice() {
    for paths in [Helper(50.0, 1.1), Helper(10.0, 5.0), Helper(30.0, 3.0)] {
        for bytes in [64 << 10, 256 << 10, 1 << 20] {
            let (alone, _) = upload(paths, bytes, None);
            let (beside, again) = upload(paths, bytes, Some(endless_download()));
            // Its packets, and the acknowledgements of TCP, wait up to 0.1 s in the links' queues.
            let at_most = alone * 1.1 + 0.5;
            assert!(
                beside < at_most,
                "{paths:?}, {bytes}: {beside}, {alone} alone"
            );
            assert_eq!(again, 0, "{paths:?}, {bytes}");
        }
    }
}
