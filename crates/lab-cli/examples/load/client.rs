//! Many primaries in one process: real sessions over real connections, made with the primary's own
//! code, and controlled by commands on standard input.

use std::cell::Cell;
use std::io::{BufRead, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail};
use bytes::Bytes;
use mpbond::driver::{Clock, Driver, FairQueue, Notice, Seat, TransferLog};
use mpbond::memory::Memory;
use mpbond_net::tcp::{self, TcpOptions};
use mpbond_net::tls::TlsStream;
use mpbond_net::{DeviceId, Identity};
use mpbond_session::{Destination, Session, SessionConfig, StreamClass, SubflowSetup};
use serde::{Deserialize, Serialize};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;

use super::app::{App, Failure, pair};

/// Maximum number of handshakes of one process at a time: below a proxy's limit for a source.
const HANDSHAKES: usize = 24;

/// Command to a client process; each is one line of JSON.
#[derive(Debug, Serialize, Deserialize)]
pub enum Command {
    /// Addresses of proxy and origins.
    Setup {
        proxy: SocketAddr,
        id: String,
        origins: Vec<SocketAddr>,
        /// This process calls from 127.1.`number`.*.
        number: u8,
    },
    /// Opens sessions, one for each device; then further ones of the same devices.
    Connect { sessions: usize, subflows: usize },
    /// Opens `streams` on each of the first `sessions`. They stay open; each fetches a little.
    Open { sessions: usize, streams: usize },
    /// Every open stream fetches `bytes`, all at the same time.
    Bulk { bytes: u64 },
    /// Every open stream fetches a little, as a check that it works.
    Check,
    /// Ends all streams.
    CloseStreams,
    /// Opens streams at a fixed rate, each for a few bytes, whether or not earlier ones have ended,
    /// and sessions likewise.
    Churn {
        streams_per_s: f64,
        sessions_per_s: f64,
        seconds: f64,
        bytes: u64,
    },
    /// The first session fetches on `streams` streams as fast as possible.
    Flood { streams: usize, seconds: f64 },
    /// The first session fetches `bytes` repeatedly, each time on a new stream.
    Small { seconds: f64, bytes: u64 },
}

/// Result of a command.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Reply {
    pub done: u64,
    /// Requests that were refused, reset or cut short.
    pub failed: u64,
    /// Requests that were answered with wrong bytes.
    pub wrong: u64,
    pub bytes: u64,
    pub seconds: f64,
    /// Latency of each request that succeeded.
    pub latencies_us: Vec<u64>,
    /// Bytes of each session at the instant when half of all bytes had arrived.
    pub halfway: Vec<u64>,
    /// Time at which each session had finished.
    pub finished_s: Vec<f64>,
    /// Sessions that succeeded, and that failed.
    pub sessions: (u64, u64),
    /// The first failure as text.
    pub problem: Option<String>,
    /// Subflows that were lost and replaced during the command.
    pub rejoined: u64,
}

impl Reply {
    fn count(&mut self, result: Result<(), Failure>) {
        match result {
            Ok(()) => self.done += 1,
            Err(Failure::Reset) => self.failed += 1,
            Err(Failure::Wrong) => self.wrong += 1,
        }
    }
}

/// A session of a primary.
#[derive(Clone)]
struct Primary {
    driver: Driver,
    /// Lost subflows are no longer replaced.
    ended: Rc<Cell<bool>>,
    received: Rc<Cell<u64>>,
}

struct Client {
    devices: Vec<Identity>,
    proxy: SocketAddr,
    id: DeviceId,
    origins: Vec<SocketAddr>,
    number: u8,
    next: Cell<u64>,
    turns: FairQueue,
    /// Subflows that were lost and replaced.
    rejoined: Rc<Cell<u64>>,
    sessions: Vec<Primary>,
    /// Open streams, each with the index of its session.
    streams: Vec<(usize, App)>,
}

/// Creates `devices` identities, prints their ids, and executes commands until standard input ends.
pub fn run(devices: usize) -> anyhow::Result<()> {
    let devices = (0..devices)
        .map(|_| Identity::generate())
        .collect::<Result<Vec<_>, _>>()?;
    let ids: Vec<String> = devices.iter().map(|d| d.id().to_string()).collect();
    print_json(&ids)?;
    let (commands, mut received) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { return };
            if commands.send(line).is_err() {
                return;
            }
        }
    });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async move {
        let mut client = Client {
            devices,
            proxy: (Ipv4Addr::LOCALHOST, 0).into(),
            id: DeviceId::from_bytes([0; 32]),
            origins: Vec::new(),
            number: 0,
            next: Cell::new(0),
            turns: FairQueue::start(),
            rejoined: Rc::default(),
            sessions: Vec::new(),
            streams: Vec::new(),
        };
        while let Some(line) = received.recv().await {
            let command = serde_json::from_str(&line)?;
            let start = Instant::now();
            let mut reply = client.execute(command).await?;
            reply.seconds = start.elapsed().as_secs_f64();
            reply.rejoined = client.rejoined.take();
            print_json(&reply)?;
        }
        Ok(())
    })
}

fn print_json(value: &impl Serialize) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, value)?;
    out.write_all(b"\n")?;
    Ok(out.flush()?)
}

impl Client {
    async fn execute(&mut self, command: Command) -> anyhow::Result<Reply> {
        match command {
            Command::Setup {
                proxy,
                id,
                origins,
                number,
            } => {
                self.proxy = proxy;
                self.id = id.parse().map_err(|e| anyhow!("{e}"))?;
                self.origins = origins;
                self.number = number;
                Ok(Reply::default())
            }
            Command::Connect { sessions, subflows } => self.connect(sessions, subflows).await,
            Command::Open { sessions, streams } => self.open(sessions, streams).await,
            Command::Bulk { bytes } => self.bulk(bytes).await,
            Command::Check => self.all_fetch(1 << 10).await,
            Command::CloseStreams => {
                self.streams.clear();
                Ok(Reply::default())
            }
            Command::Churn {
                streams_per_s,
                sessions_per_s,
                seconds,
                bytes,
            } => {
                self.churn(streams_per_s, sessions_per_s, seconds, bytes)
                    .await
            }
            Command::Flood { streams, seconds } => self.flood(streams, seconds).await,
            Command::Small { seconds, bytes } => self.small(seconds, bytes).await,
        }
    }

    fn next(&self) -> u64 {
        let n = self.next.get();
        self.next.set(n + 1);
        n
    }

    /// A new seed, unique over all processes.
    fn seed(&self) -> u64 {
        u64::from(self.number) << 48 | self.next()
    }

    fn caller(&self, device: usize, subflows: usize) -> Caller {
        let last = 1 + (self.next() % 8) as u8;
        Caller {
            identity: self.devices[device % self.devices.len()].clone(),
            proxy: self.proxy,
            id: self.id,
            source: Ipv4Addr::new(127, 1, self.number, last).into(),
            subflows,
            turns: self.turns.clone(),
            rejoined: Rc::clone(&self.rejoined),
        }
    }

    async fn connect(&mut self, sessions: usize, subflows: usize) -> anyhow::Result<Reply> {
        let gate = Rc::new(Semaphore::new(HANDSHAKES));
        let mut tasks = JoinSet::new();
        for _ in 0..sessions {
            let caller = self.caller(self.sessions.len() + tasks.len(), subflows);
            let gate = Rc::clone(&gate);
            tasks.spawn_local(async move {
                let _permit = gate.acquire().await;
                caller.call().await
            });
        }
        let mut reply = Reply::default();
        while let Some(called) = tasks.join_next().await {
            match called? {
                Ok(primary) => {
                    self.sessions.push(primary);
                    reply.done += 1;
                }
                Err(e) => {
                    reply.failed += 1;
                    reply.problem.get_or_insert(format!("{e:#}"));
                }
            }
        }
        Ok(reply)
    }

    fn stream(&self, session: &Primary) -> anyhow::Result<App> {
        let (app, socket) = pair(Rc::clone(&session.received));
        let origin = self.origins[self.next() as usize % self.origins.len()];
        let to = Destination::Addr(origin);
        session
            .driver
            .open(to, StreamClass::Bulk, Bytes::new(), socket)?;
        Ok(app)
    }

    async fn open(&mut self, sessions: usize, streams: usize) -> anyhow::Result<Reply> {
        // Sessions in turn, and few unanswered streams at a time: opening is measured by churn.
        let mut reply = Reply::default();
        for _ in 0..streams {
            for batch in 0..sessions.div_ceil(100) {
                let mut tasks = JoinSet::new();
                for n in batch * 100..sessions.min(batch * 100 + 100) {
                    let Some(session) = self.sessions.get(n) else {
                        bail!("there is no session {n}");
                    };
                    match self.stream(session) {
                        Ok(app) => {
                            let seed = self.seed();
                            tasks.spawn_local(async move {
                                let result = app.fetch(seed, 1 << 10).await;
                                (n, app, result)
                            });
                        }
                        Err(e) => {
                            reply.failed += 1;
                            reply.problem.get_or_insert(format!("{e:#}"));
                        }
                    }
                }
                while let Some(opened) = tasks.join_next().await {
                    let (n, app, result) = opened?;
                    reply.count(result);
                    if result.is_ok() {
                        self.streams.push((n, app));
                    }
                }
            }
        }
        Ok(reply)
    }

    /// Has every open stream fetch `bytes`; streams that fail are dropped.
    async fn all_fetch(&mut self, bytes: u64) -> anyhow::Result<Reply> {
        let mut reply = Reply::default();
        let start = Instant::now();
        let mut tasks = JoinSet::new();
        for (n, app) in std::mem::take(&mut self.streams) {
            let seed = self.seed();
            tasks.spawn_local(async move {
                let result = app.fetch(seed, bytes).await;
                (n, app, result, start.elapsed())
            });
        }
        let mut finished = vec![0f64; self.sessions.len()];
        while let Some(fetched) = tasks.join_next().await {
            let (n, app, result, after) = fetched?;
            reply.count(result);
            if result.is_ok() {
                reply.bytes += bytes;
                finished[n] = finished[n].max(after.as_secs_f64());
                self.streams.push((n, app));
            }
        }
        finished.retain(|s| *s > 0.0);
        reply.finished_s = finished;
        Ok(reply)
    }

    async fn bulk(&mut self, bytes: u64) -> anyhow::Result<Reply> {
        let busy: Vec<usize> = {
            let mut busy: Vec<usize> = self.streams.iter().map(|(n, _)| *n).collect();
            busy.sort_unstable();
            busy.dedup();
            busy
        };
        let counters: Vec<Rc<Cell<u64>>> = busy
            .iter()
            .map(|n| Rc::clone(&self.sessions[*n].received))
            .collect();
        for c in &counters {
            c.set(0);
        }
        let all = self.streams.len() as u64 * bytes;
        let watch = async move {
            loop {
                let now: Vec<u64> = counters.iter().map(|c| c.get()).collect();
                if now.iter().sum::<u64>() >= all / 2 {
                    return now;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let watch = tokio::task::spawn_local(watch);
        let mut reply = self.all_fetch(bytes).await?;
        watch.abort();
        if let Ok(halfway) = watch.await {
            reply.halfway = halfway;
        }
        Ok(reply)
    }

    async fn churn(
        &mut self,
        streams_per_s: f64,
        sessions_per_s: f64,
        seconds: f64,
        bytes: u64,
    ) -> anyhow::Result<Reply> {
        let start = tokio::time::Instant::now();
        let mut tasks = JoinSet::new();
        let mut calls = JoinSet::new();
        let (mut streams, mut sessions) = (0u64, 0u64);
        let mut reply = Reply::default();
        let mut tally = |done: (Result<(), Failure>, Duration)| {
            reply.count(done.0);
            if done.0.is_ok() {
                reply.latencies_us.push(done.1.as_micros() as u64);
                reply.bytes += bytes;
            }
        };
        let whole = streams_per_s * seconds;
        while (streams as f64) < whole {
            // Latency counts from the instant at which the stream was due.
            let due = start + Duration::from_secs_f64(streams as f64 / streams_per_s);
            tokio::time::sleep_until(due).await;
            while let Some(done) = tasks.try_join_next() {
                tally(done?);
            }
            let session = &self.sessions[streams as usize % self.sessions.len()];
            match self.stream(session) {
                Ok(app) => {
                    let seed = self.seed();
                    tasks.spawn_local(async move {
                        let result = app.fetch(seed, bytes).await;
                        (result, due.elapsed())
                    });
                }
                Err(_) => tally((Err(Failure::Reset), Duration::ZERO)),
            }
            streams += 1;
            let wanted = due.duration_since(start).as_secs_f64() * sessions_per_s;
            if (sessions as f64) < wanted {
                sessions += 1;
                let caller = self.caller(sessions as usize, 2);
                calls.spawn_local(async move {
                    // It ends at once.
                    caller.call().await.map(|primary| {
                        primary.ended.set(true);
                        primary.driver.shut_down();
                    })
                });
            }
        }
        while let Some(done) = tasks.join_next().await {
            tally(done?);
        }
        while let Some(called) = calls.join_next().await {
            match called? {
                Ok(()) => reply.sessions.0 += 1,
                Err(e) => {
                    reply.sessions.1 += 1;
                    reply.problem.get_or_insert(format!("{e:#}"));
                }
            }
        }
        Ok(reply)
    }

    async fn flood(&mut self, streams: usize, seconds: f64) -> anyhow::Result<Reply> {
        let session = self.sessions.first().context("no session")?.clone();
        session.received.set(0);
        let until = Instant::now() + Duration::from_secs_f64(seconds);
        let mut tasks = JoinSet::new();
        for _ in 0..streams {
            let app = self.stream(&session)?;
            let seed = self.seed();
            // More than can arrive in that time.
            tasks.spawn_local(async move { app.fetch(seed, 1 << 40).await });
        }
        tokio::time::sleep_until(until.into()).await;
        let mut reply = Reply {
            bytes: session.received.get(),
            ..Reply::default()
        };
        while let Some(ended) = tasks.try_join_next() {
            reply.count(ended?);
        }
        reply.done = streams as u64 - reply.failed - reply.wrong;
        tasks.shutdown().await;
        Ok(reply)
    }

    async fn small(&mut self, seconds: f64, bytes: u64) -> anyhow::Result<Reply> {
        let session = self.sessions.first().context("no session")?.clone();
        let until = Instant::now() + Duration::from_secs_f64(seconds);
        let mut reply = Reply::default();
        while Instant::now() < until {
            let begun = Instant::now();
            let app = self.stream(&session)?;
            let result = app.fetch(self.seed(), bytes).await;
            reply.count(result);
            if result.is_ok() {
                reply.latencies_us.push(begun.elapsed().as_micros() as u64);
                reply.bytes += bytes;
            }
        }
        Ok(reply)
    }
}

/// Parameters of a new session.
#[derive(Clone)]
struct Caller {
    identity: Identity,
    proxy: SocketAddr,
    id: DeviceId,
    source: IpAddr,
    subflows: usize,
    turns: FairQueue,
    rejoined: Rc<Cell<u64>>,
}

impl Caller {
    async fn call(self) -> anyhow::Result<Primary> {
        let mut random = [0; 32];
        getrandom::fill(&mut random).map_err(std::io::Error::other)?;
        let session = Session::client(SessionConfig::default(), random);
        let (clock, log) = (Clock::start(), TransferLog::default());
        let seat = Seat::take(&self.turns, &Memory::unbounded())?;
        let (driver, mut notices) = Driver::start(session, self.id, clock, log, seat);
        for n in 0..self.subflows {
            self.join(&driver).await?;
            if n > 0 {
                continue;
            }
            loop {
                match notices.recv().await {
                    Some(Notice::Established(_)) => break,
                    Some(Notice::SubflowGone(_)) | None => bail!("the proxy refuses the session"),
                    Some(_) => {}
                }
            }
        }
        let ended = Rc::new(Cell::new(false));
        tokio::task::spawn_local(self.keep(driver.clone(), notices, Rc::clone(&ended)));
        Ok(Primary {
            driver,
            ended,
            received: Rc::default(),
        })
    }

    async fn join(&self, driver: &Driver) -> anyhow::Result<()> {
        let options = TcpOptions {
            source: Some(self.source),
            ..TcpOptions::to(self.proxy)
        };
        let tcp = tcp::connect(&options).await?;
        let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
        let tls = TlsStream::connect(tcp, &self.identity, self.id, deadline).await?;
        let setup = SubflowSetup {
            name: "path".to_owned(),
            ..SubflowSetup::default()
        };
        driver.add_subflow(tls, setup);
        Ok(())
    }

    /// Replaces lost subflows, as a primary does.
    async fn keep(
        self,
        driver: Driver,
        mut notices: mpsc::UnboundedReceiver<Notice>,
        ended: Rc<Cell<bool>>,
    ) {
        while let Some(notice) = notices.recv().await {
            match notice {
                Notice::Lost(_) => ended.set(true),
                Notice::SubflowGone(_) if !ended.get() => {
                    self.rejoined.set(self.rejoined.get() + 1);
                    while !ended.get() && self.join(&driver).await.is_err() {
                        tokio::time::sleep(Duration::from_millis(500)).await;
                    }
                }
                _ => {}
            }
            if ended.get() {
                return;
            }
        }
    }
}
