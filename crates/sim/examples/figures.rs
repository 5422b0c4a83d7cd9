//! The figures of the lab's main setting, in virtual time: ratio to the ideal, how far apart
//! subflows finish, redundant bytes.
//!
//! `figures [SCHEDULER] [--repeat N] [--no-rebalance] [--no-express] [--shares] [--rows TEXT]
//! [--trace]`
//!
//! Column `tcp` is what the congestion windows allow: the ratio at which a transfer that goes on
//! for much longer has brought as many bytes. What a row is above it, scheduling and the end of
//! the transfer cost.
//!
//! A row is the median of N runs (9) whose links differ by fractions of a millisecond: one run
//! alone says little, since a packet more or less decides what the next estimate is.
//! `--rows` picks rows whose label contains a text, `--trace` shows every 10 ms how the sender sees
//! its subflows: bytes given, B_s, B_p, Th, Th_far, PAD.

use std::process::ExitCode;
use std::time::Duration;

use mpbond_session::{SchedulerKind, Session};
use mpbond_sim::ideal::Direction;
use mpbond_sim::rows::{self, Row};
use mpbond_sim::world::{Exchange, ExchangeOutcome, Failure, Scenario, World};
use mpbond_units::{BitRate, Timestamp};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

struct Options {
    scheduler: SchedulerKind,
    rebalance: bool,
    express: bool,
    shares: bool,
    trace: bool,
    repeat: u32,
    rows: String,
}

fn main() -> ExitCode {
    let mut options = Options {
        scheduler: SchedulerKind::Mpbond,
        rebalance: true,
        express: true,
        shares: false,
        trace: false,
        repeat: 9,
        rows: String::new(),
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--no-rebalance" => options.rebalance = false,
            "--no-express" => options.express = false,
            "--trace" => options.trace = true,
            "--repeat" => {
                let number = args.next().and_then(|n| n.parse().ok()).filter(|n| *n > 0);
                let Some(number) = number else {
                    eprintln!("--repeat wants a number");
                    return ExitCode::FAILURE;
                };
                options.repeat = number;
            }
            "--rows" => options.rows = args.next().unwrap_or_default(),
            "--shares" => options.shares = true,
            name => match name.parse() {
                Ok(kind) => options.scheduler = kind,
                Err(e) => {
                    eprintln!("{e}");
                    return ExitCode::FAILURE;
                }
            },
        }
    }
    println!(
        "scheduler {}, rebalancing {}",
        options.scheduler, options.rebalance
    );
    println!(
        "{:<36}{:>8}{:>8}{:>8}{:>8}{:>8}{:>8}{:>8}{:>8}{:>8}",
        "", "seconds", "ideal", "tcp", "ratio", "worst", "target", "spread", "copies", "stall"
    );
    for row in rows::all() {
        print_row(&options, &row);
    }
    ExitCode::SUCCESS
}

/// The measured exchange of one run.
fn run(options: &Options, scenario: Scenario) -> Result<ExchangeOutcome, Failure> {
    let up = scenario.exchanges.last().map(Exchange::direction) == Some(Direction::Up);
    let mut shown = Timestamp::ZERO;
    let outcome = World::new(scenario).run_watched(|now, primary, proxy| {
        let sender = if up { primary } else { proxy };
        let due = options.trace && now.since(shown) >= Duration::from_millis(10);
        if let Some(s) = sender.filter(|s| due && s.is_sending()) {
            shown = now;
            show(now, s);
        }
    });
    let mut exchanges = outcome?.exchanges;
    // Every row has one.
    Ok(exchanges.remove(exchanges.len() - 1))
}

/// How long it takes to bring as many bytes as the last exchange has, when there are always more.
fn floor(scenario: &Scenario) -> Option<Duration> {
    let mut scenario = scenario.clone();
    let x = scenario.exchanges.last_mut()?;
    let up = x.direction() == Direction::Up;
    let bytes = if up {
        &mut x.up_bytes
    } else {
        &mut x.down_bytes
    };
    let wanted = *bytes;
    *bytes += 4 * MIB;
    let before: u64 = scenario
        .exchanges
        .iter()
        .rev()
        .skip(1)
        .map(|x| if up { x.up_bytes } else { x.down_bytes })
        .sum();
    let answer = scenario.links.first()?.down.delay;
    let mut reached = None;
    let outcome = World::new(scenario).run_watched(|now, primary, proxy| {
        if let Some(s) = if up { proxy } else { primary } {
            let stats = s.stats();
            if stats.bytes_in - stats.redundant_bytes_in >= before + wanted {
                reached.get_or_insert(now);
            }
        }
    });
    let started = outcome.ok()?.exchanges.pop()?.started;
    let took = reached?.since(started);
    Some(if up { took + answer } else { took })
}

/// How a sender sees its subflows.
fn show(now: Timestamp, session: &Session) {
    let kib = |bytes: u64| bytes / KIB;
    print!("{now} left {:>5}K", kib(session.unscheduled_bytes()));
    for s in session.subflows(now) {
        print!(
            " | {}: {:>5}K +{}K, B {:>3}K {:>3}K, Th {:>5.2} {:>5.2}, PAD {:>3}",
            s.name,
            kib(s.bytes_out),
            kib(s.redundant_bytes_out),
            kib(s.b_near_bytes),
            kib(s.b_far_bytes),
            s.throughput.mbps(),
            s.far_throughput.map_or(f64::NAN, BitRate::mbps),
            s.pad.as_millis()
        );
    }
    println!();
}

fn print_row(options: &Options, row: &Row) {
    let label = &row.label;
    if !label.contains(&options.rows) {
        return;
    }
    let mut scenario = row.scenario.clone().with_scheduler(options.scheduler);
    if !options.express {
        scenario.express_at = None;
    }
    scenario.client.reinjection.rebalance = options.rebalance;
    scenario.server.reinjection.rebalance = options.rebalance;
    let mut runs = Vec::new();
    let mut floors = Vec::new();
    for variant in 0..options.repeat {
        let scenario = scenario.clone().varied(variant);
        floors.extend(floor(&scenario));
        match run(options, scenario) {
            Ok(exchange) => runs.push(exchange),
            Err(failure) => {
                println!("{label:<34} {failure}");
                return;
            }
        }
    }
    let of = |f: &dyn Fn(&ExchangeOutcome) -> f64| {
        let mut all: Vec<f64> = runs.iter().map(f).collect();
        all.sort_by(f64::total_cmp);
        all
    };
    let median = |all: &[f64]| all.get(all.len() / 2).copied().unwrap_or(f64::NAN);
    let mut tcp: Vec<f64> = floors
        .iter()
        .zip(&runs)
        .filter_map(|(floor, x)| Some(floor.as_secs_f64() / x.ideal?.as_secs_f64()))
        .collect();
    tcp.sort_by(f64::total_cmp);
    let ratios = of(&|x| x.ratio().unwrap_or(f64::NAN));
    let copies = of(&|x| x.redundant_share() * 100.0);
    let target = row.target.map_or(String::new(), |t| format!("{t:.2}"));
    println!(
        "{label:<36}{:>8.3}{:>8.3}{:>8.3}{:>8.3}{:>8.3}{target:>8}{:>8.3}{:>7.2}%{:>8.3}",
        median(&of(&|x| x.took.unwrap_or_default().as_secs_f64())),
        median(&of(&|x| x.ideal.map_or(f64::NAN, |d| d.as_secs_f64()))),
        median(&tcp),
        median(&ratios),
        ratios.last().copied().unwrap_or(f64::NAN),
        median(&of(&|x| x.spread().as_secs_f64())),
        copies.iter().sum::<f64>() / copies.len() as f64,
        median(&of(&|x| x.longest_stall.as_secs_f64())),
    );
    let Some(x) = runs.first() else {
        return;
    };
    if options.shares {
        for share in &x.shares {
            println!(
                "    {:<12}{:>10} bytes, last after {:.3} s",
                share.route,
                share.bytes,
                share.finished.unwrap_or_default().as_secs_f64()
            );
        }
    }
}
