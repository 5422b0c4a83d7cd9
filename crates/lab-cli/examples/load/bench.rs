//! `load bench`: load on one proxy.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde::Serialize;

use super::client::{Command, Reply};
use super::fleet::{Client, Origins, Proxy};
use super::isolate;
use super::table::{Table, jain, percentile};

/// Descriptors of a proxy besides connections: listening sockets, runtimes, files.
const RESERVE: u64 = 100;

/// Time limit for streams to end.
const QUIET_WITHIN: Duration = Duration::from_secs(60);

/// Descriptors that the full load would take.
const WANTED: u64 = 65_536;

#[derive(clap::Args)]
pub struct Args {
    /// The program under test.
    #[arg(long, default_value = "target/release/mpbond")]
    mpbond: PathBuf,
    /// Sessions, two subflows each; fewer where descriptors run out.
    #[arg(long, default_value_t = 10_000)]
    sessions: usize,
    /// Of these, so many become active.
    #[arg(long, default_value_t = 2_000)]
    active: usize,
    /// Streams open at a time, over all active sessions.
    #[arg(long, default_value_t = 20_000)]
    streams: usize,
    /// What each stream fetches, KiB.
    #[arg(long, default_value_t = 128)]
    kib: u64,
    /// New streams a second.
    #[arg(long, default_value_t = 1_000.0)]
    churn: f64,
    /// New sessions a second, meanwhile.
    #[arg(long, default_value_t = 20.0)]
    churn_sessions: f64,
    /// How long idleness and churn are watched, each.
    #[arg(long, default_value_t = 20.0)]
    seconds: f64,
    /// A tenth of everything, to see it run.
    #[arg(long)]
    quick: bool,
    /// Only these phases: idle, active, churn, share, limits.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Where the figures go as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
}

impl Args {
    fn includes(&self, phase: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|p| p == phase)
    }

    fn scaled(&self, n: usize) -> usize {
        if self.quick { n.div_ceil(10) } else { n }
    }

    fn seconds(&self) -> f64 {
        if self.quick {
            self.seconds.min(5.0)
        } else {
            self.seconds
        }
    }
}

#[derive(Serialize)]
struct Record<'a> {
    network: &'a str,
    descriptors: u64,
    quick: bool,
    #[serde(flatten)]
    table: &'a Table,
}

/// Runs all phases; returns whether all figures are within their bounds.
pub fn run(args: &Args) -> anyhow::Result<bool> {
    let network = isolate::own_network();
    let descriptors = isolate::descriptors(WANTED);
    println!("in {network}; {descriptors} descriptors a process");
    let folder = tempfile::tempdir()?;
    let mut table = Table::default();
    let begun = Instant::now();
    {
        // Two sessions that are compared do not share origins.
        let _origins = [Origins::start(0)?, Origins::start(1)?];
        if ["idle", "active", "churn"].iter().any(|p| args.includes(p)) {
            many(args, folder.path(), descriptors, &mut table)?;
        }
        if args.includes("share") {
            share(args, folder.path(), &mut table)?;
        }
        if args.includes("limits") {
            limits(args, folder.path(), &mut table)?;
        }
    }
    if let Some(file) = &args.json {
        let record = Record {
            network,
            descriptors,
            quick: args.quick,
            table: &table,
        };
        std::fs::write(file, serde_json::to_vec_pretty(&record)?)
            .with_context(|| format!("writing {}", file.display()))?;
    }
    let (promises, missed) = table.verdict();
    println!(
        "load: {} of {promises} promises hold, {:.0} s",
        promises - missed,
        begun.elapsed().as_secs_f64()
    );
    Ok(missed == 0)
}

/// Sends a command to all clients and waits for all results.
fn all(clients: &mut [Client], command: impl Fn() -> Command) -> anyhow::Result<Vec<Reply>> {
    for c in clients.iter_mut() {
        c.send(&command())?;
    }
    clients.iter_mut().map(Client::reply).collect()
}

fn sum(replies: &[Reply], of: impl Fn(&Reply) -> u64) -> f64 {
    replies.iter().map(of).sum::<u64>() as f64
}

fn longest(replies: &[Reply]) -> f64 {
    replies.iter().map(|r| r.seconds).fold(0.0, f64::max)
}

/// Whether there was neither a failure nor a wrong byte; prints the first problem otherwise.
fn clean(replies: &[Reply]) -> bool {
    for problem in replies.iter().filter_map(|r| r.problem.as_ref()) {
        println!("          {problem}");
    }
    sum(replies, |r| r.failed + r.wrong) == 0.0
}

/// Idle sessions, busy ones and churn at one proxy.
fn many(args: &Args, folder: &Path, descriptors: u64, table: &mut Table) -> anyhow::Result<()> {
    let free = descriptors.saturating_sub(RESERVE) as usize;
    let wanted = args.scaled(args.sessions);
    let sessions = wanted.min(free / 2) / 2 * 2;
    if sessions < wanted {
        println!("          fewer sessions than {wanted}: descriptors");
    }
    let mut clients = vec![Client::start(sessions / 2)?, Client::start(sessions / 2)?];
    let devices: Vec<String> = clients.iter().flat_map(|c| c.ids.clone()).collect();
    let mut proxy = Proxy::start(&args.mpbond, folder, "proxy", 4433, &devices, "", None)?;
    for (c, number) in clients.iter_mut().zip(1..) {
        c.execute(&proxy.setup(number, number % 2))?;
    }
    sleep(Duration::from_millis(500));
    let empty = proxy.daemon.usage()?;
    let active = args.scaled(args.active).min(sessions) / 2 * 2;
    let idle_wanted = args.includes("idle");
    let number = if idle_wanted { sessions } else { active };

    let connect = || Command::Connect {
        sessions: number / 2,
        subflows: 2,
    };
    let replies = all(&mut clients, connect)?;
    let there = sum(&replies, |r| r.done);
    ensure!(clean(&replies), "not all sessions came up: {there}");
    let full = proxy.daemon.usage()?;
    table.figure("connect", "sessions, two subflows each", there, "");
    table.figure(
        "connect",
        "sessions a second",
        there / longest(&replies),
        "",
    );
    let cpu = (full.cpu - empty.cpu).as_secs_f64() * 1e3 / there;
    table.figure(
        "connect",
        "processor time a session at the proxy",
        cpu,
        "ms",
    );
    if idle_wanted {
        sleep(Duration::from_secs(3));
        let idle = proxy.daemon.usage()?;
        let each = (idle.resident_kb - empty.resident_kb) as f64 / there;
        table.promise("idle", "memory a session", (each, "kB"), "48", each < 48.0);
        let whole = idle.resident_kb as f64 / 1e3;
        let fits = each * 10.0 + empty.resident_kb as f64 / 1e3;
        table.figure("idle", "memory in all", whole, "MB");
        table.promise(
            "idle",
            "for 10,000 sessions",
            (fits, "MB"),
            "500",
            fits < 500.0,
        );
        sleep(Duration::from_secs_f64(args.seconds()));
        let later = proxy.daemon.usage()?;
        let rate = (later.wakeups - idle.wakeups) as f64 / args.seconds();
        table.promise("idle", "wake-ups a second", (rate, ""), "1", rate < 1.0);
        let cpu = (later.cpu - idle.cpu).as_secs_f64() / args.seconds() * 100.0;
        table.figure("idle", "processor", cpu, "%");
        let status = proxy.daemon.status()?;
        let two = status.sessions.iter().filter(|s| s.subflows.len() == 2);
        let two = two.count() as f64;
        let holds = two == there;
        table.promise("idle", "sessions that have both", (two, ""), "all", holds);
    }
    if args.includes("active") {
        busy(args, free, active, &mut clients, &mut proxy, table)?;
    }
    if args.includes("churn") {
        churn(args, &mut clients, &mut proxy, table)?;
    }
    let runs = proxy.daemon.runs();
    table.promise(
        "end",
        "the proxy still runs",
        (f64::from(runs), ""),
        "1",
        runs,
    );
    Ok(())
}

/// Many streams on many sessions at the same time.
fn busy(
    args: &Args,
    free: usize,
    active: usize,
    clients: &mut Vec<Client>,
    proxy: &mut Proxy,
    table: &mut Table,
) -> anyhow::Result<()> {
    // Idle sessions end first where descriptors are short.
    let wanted = args.scaled(args.streams);
    let before = proxy.daemon.usage()?;
    if before.descriptors as usize + wanted > free && before.descriptors as usize > 2 * active {
        println!("          without the idle sessions: descriptors");
        let devices = clients.iter().map(|c| c.ids.len()).collect::<Vec<_>>();
        clients.clear();
        sleep(Duration::from_secs(1));
        *clients = devices
            .iter()
            .map(|_| Client::start(active / 2))
            .collect::<anyhow::Result<_>>()?;
        let ids: Vec<String> = clients.iter().flat_map(|c| c.ids.clone()).collect();
        proxy.trust(&ids)?;
        for (c, number) in clients.iter_mut().zip(1..) {
            c.execute(&proxy.setup(number, number % 2))?;
        }
        let connect = || Command::Connect {
            sessions: active / 2,
            subflows: 2,
        };
        ensure!(clean(&all(clients, connect)?), "sessions do not come back");
    }
    let before = proxy.daemon.usage()?;
    let room = free.saturating_sub(before.descriptors as usize);
    let each = (wanted.min(room) / active.max(1)).max(1);
    if each * active < wanted {
        println!("          fewer streams than {wanted}: descriptors");
    }
    let open = || Command::Open {
        sessions: active / 2,
        streams: each,
    };
    let replies = all(clients, open)?;
    let streams = sum(&replies, |r| r.done);
    let holds = clean(&replies);
    let what = format!("streams open at a time, on {active} sessions");
    let target = (each * active).to_string();
    table.promise("active", what, (streams, ""), target, holds);
    sleep(Duration::from_secs(1));
    let open = proxy.daemon.usage()?;
    let kb = (open.resident_kb as f64 - before.resident_kb as f64) / streams;
    table.figure("active", "memory an open stream that is quiet", kb, "kB");
    let bytes = args.kib << 10;
    let replies = all(clients, || Command::Bulk { bytes })?;
    let after = proxy.daemon.usage()?;
    let right = sum(&replies, |r| r.done);
    let holds = clean(&replies) && right == streams;
    let what = format!("streams that brought {} KiB, every byte right", args.kib);
    table.promise("active", what, (right, ""), "all", holds);
    let rejoined = sum(&replies, |r| r.rejoined);
    table.figure("active", "subflows lost and joined anew", rejoined, "");
    let seconds = longest(&replies);
    table.figure("active", "time", seconds, "s");
    let mb = sum(&replies, |r| r.bytes) / 1e6;
    table.figure("active", "rate", mb / seconds, "MB/s");
    let cpu = (after.cpu - open.cpu).as_secs_f64() / (mb / 1e3);
    table.figure("active", "processor time at the proxy a gigabyte", cpu, "s");
    let worst = |f: &dyn Fn(&Reply) -> f64| replies.iter().map(f).fold(f64::INFINITY, f64::min);
    let index = worst(&|r| jain(&r.halfway));
    table.figure(
        "active",
        "fairness between sessions halfway (Jain)",
        index,
        "",
    );
    let mut ends: Vec<u64> = replies
        .iter()
        .flat_map(|r| r.finished_s.iter().map(|s| (s * 1e3) as u64))
        .collect();
    let (early, late) = (percentile(&mut ends, 0.05), percentile(&mut ends, 0.95));
    table.figure("active", "a session is done after, p5", early / 1e3, "s");
    table.figure("active", "a session is done after, p95", late / 1e3, "s");
    table.figure(
        "active",
        "memory at the most",
        after.peak_kb as f64 / 1e3,
        "MB",
    );
    let status = proxy.daemon.status()?;
    let (sent, twice) = status.sessions.iter().fold((0, 0), |(sent, twice), s| {
        (sent + s.bytes_out, twice + s.redundant_bytes_out)
    });
    let share = twice as f64 / sent as f64 * 100.0;
    table.figure("active", "sent more than once", share, "%");
    let causes = status.sessions.iter().flat_map(|s| s.copies_out.by_cause());
    let mut by_cause: BTreeMap<&str, u64> = BTreeMap::new();
    for (cause, bytes) in causes {
        *by_cause.entry(cause).or_default() += bytes;
    }
    for (cause, bytes) in by_cause {
        let share = bytes as f64 / sent as f64 * 100.0;
        table.figure(
            "active",
            format!("sent more than once: {cause}"),
            share,
            "%",
        );
    }
    let begun = Instant::now();
    all(clients, || Command::CloseStreams)?;
    let mut quiet = proxy.daemon.usage()?;
    while quiet.descriptors > before.descriptors && begun.elapsed() < QUIET_WITHIN {
        sleep(Duration::from_millis(100));
        quiet = proxy.daemon.usage()?;
    }
    let seconds = begun.elapsed().as_secs_f64();
    table.figure("active", "time until all streams have ended", seconds, "s");
    // The proxy gives free memory back every ten seconds.
    sleep(Duration::from_secs(12));
    let quiet = proxy.daemon.usage()?;
    let kept = quiet.resident_kb as f64 / 1e3;
    table.figure("active", "memory some seconds later", kept, "MB");
    let left = quiet.descriptors as f64 - before.descriptors as f64;
    table.promise(
        "active",
        "descriptors left behind",
        (left, ""),
        "0",
        left <= 0.0,
    );
    Ok(())
}

/// Short streams at a fixed rate.
fn churn(
    args: &Args,
    clients: &mut [Client],
    proxy: &mut Proxy,
    table: &mut Table,
) -> anyhow::Result<()> {
    let before = proxy.daemon.usage()?;
    let number = clients.len() as f64;
    let rate = if args.quick {
        args.churn / 4.0
    } else {
        args.churn
    };
    let replies = all(clients, || Command::Churn {
        streams_per_s: rate / number,
        sessions_per_s: args.churn_sessions / number,
        seconds: args.seconds(),
        bytes: 2 << 10,
    })?;
    let after = proxy.daemon.usage()?;
    let holds = clean(&replies);
    let done = sum(&replies, |r| r.done);
    let lost = sum(&replies, |r| r.failed + r.wrong);
    table.figure(
        "churn",
        "new streams a second",
        done / longest(&replies),
        "",
    );
    table.promise("churn", "of these failed", (lost, ""), "0", holds);
    let (made, refused) = replies
        .iter()
        .fold((0, 0), |(a, b), r| (a + r.sessions.0, b + r.sessions.1));
    table.figure("churn", "new sessions meanwhile", made as f64, "");
    let holds = refused == 0;
    table.promise("churn", "of these failed", (refused as f64, ""), "0", holds);
    let mut latencies: Vec<u64> = replies
        .iter()
        .flat_map(|r| r.latencies_us.clone())
        .collect();
    for (name, share) in [("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("most", 1.0)] {
        let ms = percentile(&mut latencies, share) / 1e3;
        table.figure(
            "churn",
            format!("a stream from OPEN to its 2 KiB, {name}"),
            ms,
            "ms",
        );
    }
    let cpu = (after.cpu - before.cpu).as_secs_f64() / longest(&replies) * 100.0;
    table.figure("churn", "processor at the proxy", cpu, "%");
    let rejoined = sum(&replies, |r| r.rejoined);
    table.figure("churn", "subflows lost and joined anew", rejoined, "");
    table.figure("churn", "memory then", after.resident_kb as f64 / 1e3, "MB");
    Ok(())
}

/// Throughput of two sessions, of two devices, on one worker.
fn share(args: &Args, folder: &Path, table: &mut Table) -> anyhow::Result<()> {
    let seconds = args.seconds().min(5.0);
    let mut clients = vec![Client::start(1)?, Client::start(1)?];
    let devices: Vec<String> = clients.iter().flat_map(|c| c.ids.clone()).collect();
    let one = "workers = 1";
    let proxy = Proxy::start(&args.mpbond, folder, "share", 4434, &devices, one, None)?;
    for (c, number) in clients.iter_mut().zip(0..) {
        c.execute(&proxy.setup(11 + number, number))?;
    }
    let connect = || Command::Connect {
        sessions: 1,
        subflows: 2,
    };
    ensure!(clean(&all(&mut clients, connect)?), "no sessions");
    let small = || Command::Small {
        seconds,
        bytes: 1 << 10,
    };
    let mut alone = clients[0].execute(&small())?.latencies_us;
    let flood = |streams| Command::Flood { streams, seconds };
    for streams in [1, 100] {
        clients[0].send(&flood(1))?;
        clients[1].send(&flood(streams))?;
        let (few, many) = (clients[0].reply()?, clients[1].reply()?);
        sleep(Duration::from_secs(1));
        let ratio = few.bytes as f64 / many.bytes as f64;
        let what = format!("bytes of one stream to those of {streams} of another session");
        table.figure("share", what, ratio, "");
        let rate = (few.bytes + many.bytes) as f64 / 1e6 / seconds;
        table.figure("share", "rate of both", rate, "MB/s");
    }
    clients[0].send(&small())?;
    clients[1].send(&flood(100))?;
    let mut beside = clients[0].reply()?.latencies_us;
    clients[1].reply()?;
    for (name, share) in [("p50", 0.5), ("p99", 0.99)] {
        let what = format!("a small request alone, {name}");
        table.figure("share", what, percentile(&mut alone, share) / 1e3, "ms");
        let what = format!("a small request beside 100 streams of another, {name}");
        table.figure("share", what, percentile(&mut beside, share) / 1e3, "ms");
    }
    Ok(())
}

/// Load beyond the limits: it is refused, the proxy does not crash, accepted sessions are served.
fn limits(args: &Args, folder: &Path, table: &mut Table) -> anyhow::Result<()> {
    const DESCRIPTORS: u64 = 400;
    let mut inside = Client::start(1)?;
    let mut greedy = Client::start(1)?;
    let devices: Vec<String> = [&inside, &greedy]
        .iter()
        .flat_map(|c| c.ids.clone())
        .collect();
    let mut proxy = Proxy::start(
        &args.mpbond,
        folder,
        "limits",
        4435,
        &devices,
        "",
        Some(DESCRIPTORS),
    )?;
    inside.execute(&proxy.setup(21, 0))?;
    greedy.execute(&proxy.setup(22, 1))?;
    let connect = |sessions| Command::Connect {
        sessions,
        subflows: 1,
    };
    let in_before = |r: &Reply| r.done == 10 && r.failed == 0 && r.wrong == 0;
    ensure!(inside.execute(&connect(1))?.done == 1, "no session");
    let ten = Command::Open {
        sessions: 1,
        streams: 10,
    };
    ensure!(in_before(&inside.execute(&ten)?), "no streams");
    // One device opens as many sessions as it is allowed.
    let reply = greedy.execute(&connect(40))?;
    let holds = reply.done == 16 && reply.failed == 24;
    let done = reply.done as f64;
    table.promise(
        "limits",
        "of 40 sessions a device gets",
        (done, ""),
        "16",
        holds,
    );
    if let Some(problem) = &reply.problem {
        println!("          {problem}");
    }
    // Streams until there are no descriptors.
    let reply = greedy.execute(&Command::Open {
        sessions: 16,
        streams: 40,
    })?;
    let (done, failed) = (reply.done as f64, reply.failed as f64);
    let holds = reply.done > 0 && reply.failed > 0 && reply.wrong == 0;
    let what = format!("of 640 streams at {DESCRIPTORS} descriptors opened");
    table.figure("limits", what, done, "");
    table.promise("limits", "of these refused", (failed, ""), ">0", holds);
    let served = inside.execute(&Command::Check)?;
    let holds = in_before(&served);
    let what = "streams of another session that go on meanwhile";
    table.promise("limits", what, (served.done as f64, ""), "10", holds);
    table.figure("limits", "time of that", served.seconds * 1e3, "ms");
    let busy = greedy.execute(&Command::Check)?;
    let holds = busy.done == reply.done;
    table.promise(
        "limits",
        "own streams that go on",
        (busy.done as f64, ""),
        "all",
        holds,
    );
    greedy.execute(&Command::CloseStreams)?;
    sleep(Duration::from_secs(1));
    let again = greedy.execute(&Command::Open {
        sessions: 16,
        streams: 5,
    })?;
    let holds = again.done == 80;
    let what = "new streams after the others have ended";
    table.promise("limits", what, (again.done as f64, ""), "80", holds);
    let runs = proxy.daemon.runs();
    table.promise(
        "limits",
        "the proxy still runs",
        (f64::from(runs), ""),
        "1",
        runs,
    );
    Ok(())
}
