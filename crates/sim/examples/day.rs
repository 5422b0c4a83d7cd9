//! Days in the life of a laptop with a phone and a watch as helpers, on all cores.
//!
//! `day [--days N] [--seed FIRST] [--helpers 0|2] [--json FILE]`; `make day` is the long form. One
//! day prints a table, several a summary; a day that lost anything is a line with its seed, and the
//! exit code is 1.

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use mpbond_sim::day::{Day, LostDay, Report, quantile_of};

struct Options {
    days: u64,
    seed: u64,
    alone: bool,
    json: Option<String>,
}

fn options() -> Option<Options> {
    let mut options = Options {
        days: 1,
        seed: 1,
        alone: false,
        json: None,
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let value = args.next()?;
        match arg.as_str() {
            "--days" => options.days = value.parse().ok()?,
            "--seed" => options.seed = value.parse().ok()?,
            // The schedule has no day with only one of the helpers.
            "--helpers" if value == "0" => options.alone = true,
            "--helpers" if value == "2" => options.alone = false,
            "--json" => options.json = Some(value),
            _ => return None,
        }
    }
    Some(options)
}

fn main() -> ExitCode {
    let Some(options) = options() else {
        eprintln!("usage: day [--days N] [--seed FIRST] [--helpers 0|2] [--json FILE]");
        return ExitCode::from(2);
    };
    let start = Instant::now();
    let (reports, lost) = live(&options);
    for day in &lost {
        println!("{day}\n  replay: make day SEED={}", day.seed);
    }
    let took = start.elapsed().as_secs_f64();
    match (&reports[..], lost.is_empty()) {
        ([day], true) => print_day(day, took),
        _ => print_days(&reports, lost.len(), took),
    }
    if let Some(file) = &options.json {
        let written = serde_json::to_string_pretty(&reports)
            .map_err(|e| e.to_string())
            .and_then(|text| std::fs::write(file, text).map_err(|e| e.to_string()));
        if let Err(e) = written {
            eprintln!("{file} cannot be written: {e}");
            return ExitCode::from(2);
        }
    }
    match lost.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// Simulates days on all cores; results are in the order of the seeds.
fn live(options: &Options) -> (Vec<Report>, Vec<LostDay>) {
    let days = options.days;
    let next = AtomicU64::new(0);
    let results = Mutex::new((Vec::new(), Vec::new()));
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let day = next.fetch_add(1, Ordering::Relaxed);
                    if day >= days {
                        return;
                    }
                    let seed = options.seed.wrapping_add(day);
                    let lived = Day {
                        alone: options.alone,
                        ..Day::whole(seed)
                    }
                    .live();
                    let mut results = results
                        .lock()
                        .unwrap_or_else(std::sync::PoisonError::into_inner);
                    match lived {
                        Ok(report) => results.0.push(report),
                        Err(lost) => results.1.push(lost),
                    }
                    if days > 1 {
                        let done = results.0.len() + results.1.len();
                        eprint!("\r{done} of {days} days");
                    }
                }
            });
        }
    });
    if days > 1 {
        eprintln!();
    }
    let (mut reports, mut lost) = results
        .into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    reports.sort_by_key(|r| r.seed);
    lost.sort_by_key(|l| l.seed);
    (reports, lost)
}

fn print_day(day: &Report, took: f64) {
    println!(
        "day {}: {:.0} h, {} packets, simulated in {took:.1} s; nothing was lost\n",
        day.seed, day.hours, day.packets
    );
    println!(
        "requests       number  repeated        MB  longest wait each: median    99 %   longest"
    );
    for k in &day.kinds {
        println!(
            "{:<14} {:>6} {:>9} {:>9.1} {:>23.2} s {:>5.2} s {:>7.1} s",
            k.kind,
            k.waits_s.len(),
            k.repeated,
            k.bytes as f64 / 1e6,
            k.wait_s(0.5),
            k.wait_s(0.99),
            k.wait_s(1.0),
        );
    }
    println!("\nlongest wait of");
    for k in &day.kinds {
        if let Some(wait) = &k.longest {
            let minutes = (wait.at_s / 60.0) as u64;
            let (kind, hour, minute) = (k.kind, minutes / 60, minutes % 60);
            let cause = &wait.cause;
            println!(
                "  a {kind}, {:.1} s at {hour:02}:{minute:02}: {cause}",
                wait.seconds
            );
        }
    }
    println!(
        "sessions lost: {}; connections forgotten by a NAT: {}",
        day.sessions_lost, day.forgotten,
    );
    print_forgotten("requests", &day.forgotten_requests_s);
    print_forgotten("answers", &day.forgotten_answers_s);
    println!(
        "\n{:.1} quiet hours        packets    least     joules    least  whole day, J",
        day.quiet_hours
    );
    for l in &day.links {
        println!(
            "{:<22} {:>9} {:>8} {:>10.1} {:>8.1} {:>13.0}",
            l.link, l.packets, l.least_packets, l.joules, l.least_joules, l.day_joules
        );
    }
}

fn print_forgotten(what: &str, waits: &[f64]) {
    println!(
        "{what} on a connection that a NAT had forgotten, no other cause: median {:.2} s, 95 % \
         {:.2} s, longest {:.2} s, of {}",
        quantile_of(waits, 0.5),
        quantile_of(waits, 0.95),
        quantile_of(waits, 1.0),
        waits.len(),
    );
}

fn print_days(days: &[Report], lost: usize, took: f64) {
    let count = days.len() + lost;
    println!("{count} days, {lost} lost something; {took:.0} s");
    let Some(first) = days.first() else {
        return;
    };
    println!("\nrequests       number  repeated  longest wait each: median    99 %   longest");
    for (i, kind) in first.kinds.iter().enumerate() {
        let of_kind = || days.iter().filter_map(|d| d.kinds.get(i));
        let waits: Vec<f64> = of_kind().flat_map(|k| k.waits_s.clone()).collect();
        println!(
            "{:<14} {:>6} {:>9} {:>23.2} s {:>5.2} s {:>7.1} s",
            kind.kind,
            waits.len(),
            of_kind().map(|k| k.repeated).sum::<usize>(),
            quantile_of(&waits, 0.5),
            quantile_of(&waits, 0.99),
            quantile_of(&waits, 1.0),
        );
    }
    println!("\nlongest wait of");
    for (i, kind) in first.kinds.iter().enumerate() {
        let all = days
            .iter()
            .filter_map(|d| Some((d.kinds.get(i)?.longest.as_ref()?, d.seed)));
        if let Some((wait, seed)) = all.max_by(|a, b| a.0.seconds.total_cmp(&b.0.seconds)) {
            let (kind, cause) = (kind.kind, &wait.cause);
            println!("  a {kind}, {:.1} s on day {seed}: {cause}", wait.seconds);
        }
    }
    let of_days = |waits: fn(&Report) -> &Vec<f64>| -> Vec<f64> {
        days.iter().flat_map(|d| waits(d).iter().copied()).collect()
    };
    print_forgotten("requests", &of_days(|d| &d.forgotten_requests_s));
    print_forgotten("answers", &of_days(|d| &d.forgotten_answers_s));
    println!("\nquiet hours            packets    least     joules    least  (of all days)");
    for (i, link) in first.links.iter().enumerate() {
        let of_link = || days.iter().filter_map(|d| d.links.get(i));
        println!(
            "{:<22} {:>7} {:>8} {:>10.0} {:>8.0}",
            link.link,
            of_link().map(|l| l.packets).sum::<u64>(),
            of_link().map(|l| l.least_packets).sum::<u64>(),
            of_link().map(|l| l.joules).sum::<f64>(),
            of_link().map(|l| l.least_joules).sum::<f64>(),
        );
    }
}
