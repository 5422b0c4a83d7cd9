//! Tests of simulated experiments.

mod bluetooth;
mod pipes;
mod price;
mod rows;
mod streams;
mod users;
mod visits;

use super::options::SimulateOptions;
use super::seeds::all_seeds;
use crate::experiment::{Experiment, Scope, leave_out, name_of};
use crate::figures::quantity::Quantity;
use crate::figures::summary;
use crate::record::{Simulated, Transfer};

const HEAD: &str = r#"
name = "tiny"
client = "fetch"
repetitions = 3
[[host]]
name = "primary"
role = "primary"
[[host]]
name = "phone"
role = "helper"
[[host]]
name = "proxy"
role = "proxy"
address = "203.0.113.1"
[[host]]
name = "origin"
role = "origin"
address = "198.51.100.1"
[[link]]
name = "core"
from = "proxy"
to = "origin"
[[energy]]
name = "lte"
wwan = "lte-2012"
pipe = "wifi-s4"
"#;

/// Rates in Mbit/s of PS-Path, HS-Path and pipe; more of each.
fn links(rates: [u32; 3], more: [&str; 3]) -> String {
    let ends = [
        ("ps", "primary", "proxy", "25ms"),
        ("hs", "phone", "proxy", "25ms"),
        ("pipe", "primary", "phone", "2ms"),
    ];
    let mut text = String::new();
    for (((name, from, to, delay), rate), more) in ends.into_iter().zip(rates).zip(more) {
        text += &format!(
            "[[link]]\nname = \"{name}\"\nfrom = \"{from}\"\nto = \"{to}\"\ndelay = \"{delay}\"\n\
             down = {rate}\nup = {rate}\n{more}\n"
        );
    }
    text
}

fn mpbond(name: &str, more: &str) -> String {
    format!(
        "[[scheme]]\nname = \"{name}\"\nscheme = \"mpbond\"\ndevices = 2\n\
         interception = \"socks5\"\n{more}\n"
    )
}

fn workload(name: &str, direction: &str, what: &str) -> String {
    format!("[[workload]]\nname = \"{name}\"\ndirection = \"{direction}\"\n{what}\n")
}

const SINGLE: &str = "[[scheme]]\nname = \"single\"\nscheme = \"single\"\n";
const NO_MORE: [&str; 3] = [""; 3];

fn experiment(rest: &str) -> Experiment {
    Experiment::parse("tiny.toml", &format!("{HEAD}{rest}")).unwrap()
}

/// One that runs in virtual time only.
fn virtual_only(rest: &str) -> crate::error::Result<Experiment> {
    let head = HEAD.replacen("client", "simulated = true\nclient", 1);
    Experiment::parse("tiny.toml", &format!("{head}{rest}"))
}

fn run(e: &Experiment, first_seed: u64, threads: usize) -> Vec<Transfer> {
    let simulated = Simulated {
        first_seed,
        seeds: e.repetitions,
        left_out: Vec::new(),
    };
    let options = SimulateOptions {
        threads: Some(threads),
        quiet: true,
        ..SimulateOptions::default()
    };
    all_seeds(e, &simulated, &options).unwrap()
}

fn of<'a>(all: &'a [Transfer], scheme: &str, workload: &str) -> Vec<&'a Transfer> {
    let mine = |d: &&Transfer| d.name == scheme && d.workload == workload;
    let found: Vec<&Transfer> = all.iter().filter(mine).collect();
    assert!(!found.is_empty(), "{scheme}, {workload}");
    for d in &found {
        assert!(d.fit && d.sha256_ok, "{:?}", d.unfit_because);
    }
    found
}

fn seconds(all: &[Transfer], scheme: &str, workload: &str) -> f64 {
    let mine = of(all, scheme, workload);
    mine.iter().map(|d| d.seconds).sum::<f64>() / mine.len() as f64
}

/// The paper's 8/10/5, both ways, with losses so that seeds matter.
fn small() -> Experiment {
    let loss = ["loss = 0.002\njitter = \"1ms\"", "", ""];
    experiment(
        &(links([8, 10, 5], loss)
            + &mpbond("mpbond", "")
            + &mpbond("min-rtt", "scheduler = \"min-rtt\"\nreinjection = \"none\"")
            + SINGLE
            + &workload("down", "down", "bytes = \"1 MiB\"")
            + &workload("up", "up", "bytes = \"1 MiB\"")),
    )
}

#[test]
fn a_seed_replays_to_the_byte_whatever_the_threads() {
    let e = small();
    let text = |all: &[Transfer]| serde_json::to_string(all).unwrap();
    let once = run(&e, 5, 1);
    assert_eq!(text(&once), text(&run(&e, 5, 3)));
    // A later run that begins with the second seed finds the same transfers.
    let later = run(&e, 6, 2);
    let seed_6 = |all: &[Transfer]| -> Vec<(String, u64)> {
        let mine = all.iter().filter(|d| d.seed == Some(6));
        mine.map(|d| (format!("{} {}", d.name, d.workload), d.seconds.to_bits()))
            .collect()
    };
    assert_eq!(seed_6(&once).len(), 6);
    assert_eq!(seed_6(&once), seed_6(&later));
    // Seeds do differ.
    let first = |seed| once.iter().find(|d| d.seed == Some(seed)).unwrap().seconds;
    assert_ne!(first(5), first(6));
    // In the order of the lab: repetitions, schemes, workloads.
    let names: Vec<(u32, &str)> = (once.iter().map(|d| (d.repetition, &*d.name))).collect();
    assert!(names.is_sorted_by_key(|(repetition, _)| *repetition));
    assert_eq!(names[0].1, "mpbond");
    assert_eq!(names[5].1, "single");
}

#[test]
fn two_paths_come_near_the_bound_and_one_does_not() {
    let all = run(&small(), 0, 2);
    for workload in ["down", "up"] {
        for d in of(&all, "mpbond", workload) {
            assert!((1.0..1.25).contains(&d.ratio), "{d:?}");
            let carried: u64 = d.subflows.iter().map(|s| s.bytes).sum();
            assert_eq!(carried, d.bytes + d.redundant_bytes.unwrap());
            assert_eq!(d.subflows.len(), 2);
            // What a simulation cannot know is absent.
            assert!(d.cpu_s.is_empty() && d.lateness_us.is_none());
            assert_eq!(Quantity::CpuPrimary.of(d, None), None);
            assert_eq!(d.progress.last().map(|p| p.1), Some(d.bytes));
            assert_eq!(d.links.len(), 3, "curves of all links");
            let joules = d.energy[0].joules_without_last_tail;
            assert!((1.0..20.0).contains(&joules), "{joules}");
        }
        let gain = seconds(&all, "mpbond", workload) / seconds(&all, "single", workload);
        assert!((0.5..0.85).contains(&gain), "{gain}");
    }
}

#[test]
fn changes_and_faults_happen_at_the_times_of_the_file() {
    let falls = "bytes = \"3 MB\"\n[[workload.change]]\nat = \"1s\"\nlink = \"ps\"\n\
                 down = 1\nup = 1";
    let dies = "bytes = \"3 MB\"\n[[workload.fault]]\nat = \"1s\"\nkill = \"phone\"";
    let silent = "bytes = \"3 MB\"\n[[workload.fault]]\nat = \"1s\"\nblackhole = \"hs\"";
    let e = experiment(
        &(links([8, 10, 5], NO_MORE)
            + &mpbond("mpbond", "")
            + SINGLE
            + &workload("stable", "down", "bytes = \"3 MB\"")
            + &workload("falls", "down", falls)
            + &workload("dies", "down", dies)
            + &workload("silent", "down", silent)),
    );
    let all = run(&e, 0, 2);
    let stable = seconds(&all, "mpbond", "stable");
    for name in ["falls", "dies", "silent"] {
        let took = seconds(&all, "mpbond", name);
        assert!(took > stable + 0.2 && took < 5.0, "{name}: {took}");
        for d in of(&all, "mpbond", name) {
            assert!((1.0..1.7).contains(&d.ratio), "{name}: {d:?}");
        }
    }
    // 24.9 Mbit with headers: 8 Mbit/s in the first second, of which two round trips and slow
    // start cost 0.1 to 0.2, the rest at 1 Mbit/s.
    let alone = seconds(&all, "single", "falls");
    assert!((18.6..19.5).contains(&alone), "{alone}");
}

#[test]
fn what_links_share_and_radios_hold_counts() {
    let medium = "[[medium]]\nname = \"air\"\n";
    let shared = ["", "", "medium = \"air\""];
    let both = "medium = \"air\"";
    let wakes = "radio = \"lte-2012\"";
    let rest = |more: [&str; 3], idle: &str| {
        let text = links([20, 20, 20], more)
            + medium
            + &mpbond("mpbond", &format!("idle = \"{idle}\""))
            + &workload("down", "down", "bytes = \"2 MB\"");
        seconds(&run(&experiment(&text), 0, 2), "mpbond", "down")
    };
    let free = rest(NO_MORE, "5s");
    // Half-duplex: acknowledgments take airtime.
    let alone = rest(shared, "5s");
    // PS-Path and pipe in one cell: together no more than one of them.
    let in_one = rest([both, "", both], "5s");
    assert!(
        alone > free && in_one > 1.5 * free,
        "{free} {alone} {in_one}"
    );
    // Of LTE at rest, the first packet waits for a quarter of a second.
    let asleep = rest([wakes, "", ""], "30s");
    assert!(asleep > free + 0.02, "{free} {asleep}");
}

#[test]
fn a_helper_may_only_forward() {
    let falls = "bytes = \"4 MB\"\n[[workload.change]]\nat = \"2s\"\nlink = \"hs\"\n\
                 down = 1\nup = 1";
    let share = "scheduler = \"fixed-ratio=0.4\"\nreinjection = \"none\"";
    let e = experiment(
        &(links([5, 10, 5], NO_MORE)
            + &mpbond("split", share)
            + &mpbond("no split", &format!("{share}\nsplit = false"))
            + &workload("falls", "down", falls)),
    );
    let all = run(&e, 0, 2);
    // What the helper had buffered by then is the paper's point (Fig. 6).
    let (split, forwards) = (
        seconds(&all, "split", "falls"),
        seconds(&all, "no split", "falls"),
    );
    assert!(split < 0.6 * forwards, "{split} {forwards}");
    for d in of(&all, "no split", "falls") {
        assert_eq!(d.subflows.len(), 2, "{d:?}");
        assert!(d.subflows.iter().any(|s| s.name == "phone"), "{d:?}");
    }
}

#[test]
fn chunks_and_downloads_of_a_time_run() {
    let chunks =
        "chunks = { bytes = \"64 KiB\", count = 5, least_gap = \"1s\", most_gap = \"2s\" }";
    let e = experiment(
        &(links([8, 10, 5], NO_MORE)
            + &mpbond("mpbond", "connection = \"kept\"")
            + SINGLE
            + &workload("chunks", "down", chunks)
            + &workload("timed", "down", "for = \"20s\"")),
    );
    let all = run(&e, 0, 2);
    for scheme in ["mpbond", "single"] {
        for d in of(&all, scheme, "chunks") {
            assert_eq!(d.bytes, 5 * (64 << 10));
            let chunk = d.noticed.get(&Quantity::ChunkS).copied().unwrap();
            assert!((0.05..0.4).contains(&chunk), "{chunk}");
            assert!((4.0..10.0).contains(&d.seconds), "{}", d.seconds);
        }
        for d in of(&all, scheme, "timed") {
            assert_eq!(d.seconds, 20.0);
            // What a helper is ahead by cannot be read yet when time is over.
            assert!((1.0..1.2).contains(&d.ratio), "{}", d.ratio);
        }
    }
    let bytes = |scheme| of(&all, scheme, "timed")[0].bytes as f64;
    assert!(bytes("mpbond") > 1.4 * bytes("single"));
}

#[test]
fn a_transfer_without_end_names_its_seed() {
    let lost = "bytes = \"1 MiB\"\n[[workload.fault]]\nat = \"100ms\"\nblackhole = \"ps\"";
    let e = experiment(&(links([8, 10, 5], NO_MORE) + SINGLE + &workload("lost", "down", lost)));
    // The bound knows that it never ends.
    let simulated = Simulated {
        first_seed: 0,
        seeds: 1,
        left_out: Vec::new(),
    };
    let error_text = all_seeds(&e, &simulated, &SimulateOptions::default()).unwrap_err();
    assert!(
        error_text.to_string().contains("within a day"),
        "{error_text}"
    );
    // Of one that gets nowhere, the seed is said.
    let all_lost = ["loss = 1.0", "", ""];
    let text = links([8, 10, 5], all_lost) + SINGLE + &workload("w", "down", "bytes = 1000");
    let all = run(&experiment(&text), 7, 1);
    let why = all[1].unfit_because.as_deref().unwrap();
    assert!(why.starts_with("seed 8: at "), "{why}");
    assert!(!all[1].sha256_ok && !all[1].fit);
}

#[test]
fn what_needs_the_kernel_is_left_out_and_named() {
    let baselines = "[[scheme]]\nname = \"k\"\nscheme = \"kibbutz\"\ndevices = 2\n\
        workloads = [\"file\"]\n\
        [[scheme]]\nname = \"c\"\nscheme = \"combine\"\ndevices = 2\nworkloads = [\"file\"]\n";
    let asserts = "[[assert]]\nscheme = \"mpbond\"\nmax_seconds = 100\n\
        [[assert]]\nscheme = \"mpbond\"\nversus = \"k\"\nquantity = \"seconds\"\nat_most = 1.0\n\
        [[assert]]\nquantity = \"cpu-primary\"\nat_most = 10.0\n";
    let loud = "bytes = 1000\n[[workload.fault]]\nat = \"1s\"\ndown_with_error = \"ps\"";
    let text = links([8, 10, 5], NO_MORE)
        + &mpbond("mpbond", "")
        + &mpbond("bbr", "congestion = \"bbr\"")
        + baselines
        + &workload("file", "down", "bytes = 1000")
        + &workload("loud", "down", loud)
        + asserts;
    let mut e = experiment(&text);
    assert_eq!(Scope::of(experiment(&text)), Scope::Part);
    let said = leave_out(&mut e).join("\n");
    for part in [
        "scheme \"k\": kibbutz needs",
        "scheme \"c\": combine needs",
        "scheme \"bbr\": congestion control bbr",
        "workload \"loud\": the loss of a carrier",
        "2 of 3 asserts",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let left: Vec<String> = e.schemes.iter().map(|s| name_of(s.scheme)).collect();
    assert_eq!(
        (left, e.workloads.len(), e.asserts.len()),
        (vec!["mpbond".into()], 1, 1)
    );
    let all = run(&e, 0, 1);
    let summaries = summary::summaries(&e, &all);
    let judged = summary::judge(&e, &all, &summaries);
    assert!(judged.iter().all(|j| j.holds == Some(true)), "{judged:?}");

    let whole = links([8, 10, 5], NO_MORE) + SINGLE + &workload("w", "down", "bytes = 1");
    assert_eq!(Scope::of(experiment(&whole)), Scope::All);
    let nothing = links([8, 10, 5], NO_MORE)
        + "[[scheme]]\nname = \"k\"\nscheme = \"kibbutz\"\ndevices = 2\n"
        + &workload("w", "down", "bytes = 1");
    assert_eq!(Scope::of(experiment(&nothing)), Scope::Nothing);
}

/// A fault of the model would show here: sessions carry one workload after the other, each over
/// links as they are at the start.
#[test]
fn schedules_begin_anew_with_each_transfer() {
    // Fast for a second, then nothing for a while: whoever is late meets the gap.
    let schedule = "[[link.change]]\nat = \"1s\"\ndown = 0.1\nup = 0.1";
    let e = experiment(
        &(links([8, 10, 5], [schedule, "", ""])
            + SINGLE
            + &mpbond("direct", "paths = [\"ps\"]").replace("devices = 2", "devices = 1")
            + &workload("one", "down", "bytes = \"256 KiB\"")
            + &workload("two", "down", "bytes = \"256 KiB\"")),
    );
    let all = run(&e, 0, 1);
    for scheme in ["single", "direct"] {
        for name in ["one", "two"] {
            let took = seconds(&all, scheme, name);
            assert!(took < 0.8, "{scheme}, {name}: {took}");
        }
    }
}

/// Messages beside a download, and alone.
fn messages(connection: &str) -> String {
    let with = |more: &str| {
        let message = "bytes = \"2 KiB\", every = \"200ms\", length = \"6s\"";
        format!("messages = {{ {message}, connection = \"{connection}\"{more} }}")
    };
    workload("beside", "down", &with("")) + &workload("alone", "down", &with(", bulk = false"))
}

#[test]
fn messages_run_beside_a_download_and_alone() {
    let links = links([8, 10, 5], NO_MORE);
    let run_all = |connection| {
        let file = workload("file", "down", "bytes = \"1 MiB\"");
        let text = links.clone() + &mpbond("mpbond", "") + SINGLE + &messages(connection) + &file;
        let e = experiment(&text);
        assert_eq!(Scope::of(experiment(&text)), Scope::All);
        run(&e, 0, 2)
    };
    let kept = run_all("kept");
    for scheme in ["mpbond", "single"] {
        // A round trip, and 2 KiB at 5 to 10 Mbit/s.
        let alone = figure(&kept, scheme, "alone", Quantity::MessageS);
        assert!((0.05..0.07).contains(&alone), "{scheme}: {alone}");
        let beside = figure(&kept, scheme, "beside", Quantity::MessageS);
        let p95 = figure(&kept, scheme, "beside", Quantity::MessageP95S);
        assert!(beside > alone && p95 >= beside, "{scheme}: {beside} {p95}");
        for d in of(&kept, scheme, "alone") {
            assert_eq!(d.bytes, 29 * 2048);
            assert!(!d.noticed.contains_key(&Quantity::BulkMbps));
            // From one interval before the first request to the last byte.
            assert!((5.85..5.87).contains(&d.seconds), "{}", d.seconds);
            assert!((0.25..0.27).contains(&d.first_byte_s.unwrap()), "{d:?}");
        }
        for d in of(&kept, scheme, "beside") {
            let bulk_bytes = d.noticed[&Quantity::BulkMbps] * 6e6 / 8.0;
            let messages = (d.bytes as f64 - bulk_bytes) / 2048.0;
            assert!((10.0..29.5).contains(&messages), "{scheme}: {messages}");
            assert_eq!(d.progress.last().map(|p| p.1), Some(d.bytes), "{scheme}");
            assert!(d.seconds >= 6.0 && d.ratio >= 1.0, "{d:?}");
        }
    }
    let rate = |scheme| figure(&kept, scheme, "beside", Quantity::BulkMbps);
    assert!((7.0..7.8).contains(&rate("single")), "{}", rate("single"));
    assert!(rate("mpbond") > 1.1 * rate("single"), "{}", rate("mpbond"));
    // A connection for each message costs TCP a round trip, and a session nothing.
    let new = run_all("new");
    let more = |scheme| {
        let alone = |all| figure(all, scheme, "alone", Quantity::MessageS);
        alone(&new) - alone(&kept)
    };
    assert!(
        (0.045..0.06).contains(&more("single")),
        "{}",
        more("single")
    );
    assert!(more("mpbond").abs() < 0.001, "{}", more("mpbond"));
    let text = |all: &[Transfer]| serde_json::to_string(all).unwrap();
    assert_eq!(text(&new), text(&run_all("new")), "seeds replay");
}

#[test]
fn messages_behind_a_full_queue_are_fewer() {
    // Messages wait for longer than their interval in a queue that may hold a second.
    let slow = ["queue = \"1s\"", "", ""];
    let text = links([2, 10, 5], slow) + SINGLE + &messages("kept");
    for d in of(&run(&experiment(&text), 0, 2), "single", "beside") {
        assert!(d.noticed[&Quantity::MessageS] > 0.2, "{:?}", d.noticed);
        let bulk_bytes = d.noticed[&Quantity::BulkMbps] * 6e6 / 8.0;
        let messages = (d.bytes as f64 - bulk_bytes) / 2048.0;
        assert!((4.0..20.0).contains(&messages), "{messages}");
        let times = &d.messages;
        assert_eq!(times.answered.len() as f64, messages.round());
        assert_eq!(times.answered.len() + times.left_out.len(), 29);
    }
}

#[test]
fn messages_that_begin_later_find_a_download_that_was_alone() {
    let later =
        "messages = { bytes = \"2 KiB\", every = \"200ms\", length = \"6s\", after = \"4s\" }";
    let links = links([2, 10, 5], ["queue = \"1s\"", "", ""]);
    for connection in ["kept", "new"] {
        let later = later.replace("after", &format!("connection = \"{connection}\", after"));
        let text = links.clone() + SINGLE + &mpbond("mpbond", "") + &workload("w", "down", &later);
        let all = run(&experiment(&text), 0, 1);
        for scheme in ["single", "mpbond"] {
            let d = of(&all, scheme, "w")[0];
            // Due from 4.2 to 5.8 s.
            let due = d.messages.answered.len() + d.messages.left_out.len();
            assert_eq!(due, 9, "{scheme}, {connection}: {:?}", d.messages);
            let bulk_bytes = d.noticed[&Quantity::BulkMbps] * 6e6 / 8.0;
            let messages = (d.bytes as f64 - bulk_bytes) / 2048.0;
            assert_eq!(messages.round(), d.messages.answered.len() as f64);
        }
        // The queue has filled: a message alone takes 0.06 s.
        let first = of(&all, "single", "w")[0].messages.answered[0];
        assert!(first > 0.2, "{connection}: {first}");
    }
}

#[test]
fn classes_of_messages_and_of_all_connections_reach_the_session() {
    let median = |scheme, of_all: &str, of_messages: &str| {
        let message = "bytes = \"2 KiB\", every = \"200ms\", length = \"6s\", connection = \"new\"";
        let more = format!("{of_all}\nmessages = {{ {message}{of_messages} }}");
        let schemes = mpbond("mpbond", "") + SINGLE;
        let text = links([8, 10, 5], NO_MORE) + &schemes + &workload("w", "down", &more);
        let all = run(&experiment(&text), 0, 2);
        of(&all, scheme, "w")[0].noticed[&Quantity::MessageS]
    };
    let (realtime, background) = ("class = \"realtime\"", ", class = \"background\"");
    let undeclared = median("mpbond", "", "");
    // A realtime download is no transfer for which queues are kept short, and goes before.
    for (of_all, of_messages) in [(realtime, ""), ("", background), (realtime, background)] {
        let later = median("mpbond", of_all, of_messages);
        assert!(later > 1.2 * undeclared, "{of_all}{of_messages}: {later}");
    }
    let early = median("mpbond", "class = \"background\"", ", class = \"realtime\"");
    assert!(early < 1.1 * undeclared, "{early}, not {undeclared}");
    // Plain TCP has no classes.
    let single = median("single", "", "");
    assert_eq!(median("single", realtime, background), single);
}

/// Mean of a quantity over the fit transfers.
fn figure(all: &[Transfer], scheme: &str, workload: &str, quantity: Quantity) -> f64 {
    let mine = of(all, scheme, workload);
    let values = mine.iter().map(|d| d.noticed[&quantity]);
    values.sum::<f64>() / mine.len() as f64
}
