//! `load soak`: all daemons under steady mixed traffic for a long time, and whether anything grows.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use mpbond_net::Identity;
use mpbond_units::duration_text;
use serde::Serialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::daemon::{Daemon, Usage};
use super::origin::{self, RECEIPT_OCTETS, Request};
use super::pattern::Pattern;

/// Growth below this is ignored: allocators keep free memory in steps of this order.
const TOLERATED_KB: f64 = 4096.0;

/// Growth below this multiple of the scatter about the line is ignored, too.
const TOLERATED_NOISE: f64 = 3.0;

/// Connections of the fronts' and the origins' side may still be closing when descriptors are
/// counted for the last time, and paths are joined anew.
const TOLERATED_DESCRIPTORS: u64 = 8;

const PROXY: &str = "127.3.0.10:4433";
const SOCKS: &str = "127.3.0.1:1080";
const ORIGIN: &str = "127.2.3.1:8000";

#[derive(clap::Args)]
pub struct Args {
    /// The program under test.
    #[arg(long, default_value = "target/release/mpbond")]
    pub mpbond: PathBuf,
    /// How long: "30m", "90s".
    #[arg(long, default_value = "30m", value_parser = duration)]
    pub time: Duration,
    /// Where samples and verdicts go as JSON.
    #[arg(long)]
    pub json: Option<PathBuf>,
}

fn duration(text: &str) -> Result<Duration, String> {
    let allowed = Duration::from_secs(10)..=Duration::from_secs(864_000);
    let duration = duration_text::parse(text).ok();
    duration
        .filter(|d| allowed.contains(d))
        .ok_or_else(|| "a time from 10 seconds to 10 days, such as 30m or 90s".to_owned())
}

/// Results of the traffic.
#[derive(Debug, Default, Serialize)]
pub struct Traffic {
    pub bytes: u64,
    pub downloads: u64,
    pub uploads: u64,
    pub small: u64,
    /// Transfers that the application ended early, on purpose.
    pub broken_off: u64,
    pub helper_deaths: u64,
    /// Transfers that failed.
    pub errors: u64,
    pub first_error: Option<String>,
}

impl Traffic {
    fn count(&mut self, kind: Kind, request: Request, result: anyhow::Result<u64>) {
        match result {
            Ok(moved) => {
                self.bytes += moved;
                match kind {
                    Kind::Download => self.downloads += 1,
                    Kind::Upload => self.uploads += 1,
                    Kind::Small => self.small += 1,
                    Kind::BreakOff => self.broken_off += 1,
                }
            }
            Err(e) => {
                self.errors += 1;
                let what = format!("{request:?}: {e:#}");
                self.first_error.get_or_insert(what);
            }
        }
    }
}

/// Resources of one daemon over time.
#[derive(Debug, Serialize)]
pub struct Series {
    pub name: &'static str,
    /// Samples: seconds, and resident kB.
    samples: Vec<(f64, u64)>,
    /// Descriptors and threads before the traffic and after it.
    descriptors: (u64, u64),
    threads: (u64, u64),
    /// Over the last two thirds: kB a minute, and the scatter about that line in kB.
    slope_kb_per_min: f64,
    noise_kb: f64,
    /// Growth over these two thirds by the line.
    growth_kb: f64,
    grows: Option<String>,
}

/// Results of a run.
#[derive(Debug, Serialize)]
pub struct Outcome {
    pub seconds: f64,
    pub traffic: Traffic,
    pub daemons: Vec<Series>,
}

impl Outcome {
    /// Whether nothing grew and nothing failed.
    pub fn holds(&self) -> bool {
        self.traffic.errors == 0 && self.daemons.iter().all(|d| d.grows.is_none())
    }

    /// One line of text.
    pub fn summary(&self) -> String {
        let t = &self.traffic;
        let mut line = format!(
            "soak: {:.0} s, {:.2} GB, {} downloads, {} uploads, {} small, {} broken off, {} \
             helper deaths, {} errors",
            self.seconds,
            t.bytes as f64 / 1e9,
            t.downloads,
            t.uploads,
            t.small,
            t.broken_off,
            t.helper_deaths,
            t.errors
        );
        for d in &self.daemons {
            let last = d.samples.last().map_or(0, |s| s.1);
            let _ = write!(
                line,
                "; {} {:.1} MB {:+.1} kB/min (noise {:.0} kB) fds {}>{} threads {}>{}",
                d.name,
                last as f64 / 1e3,
                d.slope_kb_per_min,
                d.noise_kb,
                d.descriptors.0,
                d.descriptors.1,
                d.threads.0,
                d.threads.1
            );
        }
        line + if self.holds() { ": flat" } else { ": NOT FLAT" }
    }
}

/// The program behind `make soak`. Returns whether nothing grew and nothing failed.
pub fn run(args: &Args) -> anyhow::Result<bool> {
    let outcome = soak(&args.mpbond, args.time)?;
    if let Some(file) = &args.json {
        std::fs::write(file, serde_json::to_vec_pretty(&outcome)?)
            .with_context(|| format!("writing {}", file.display()))?;
    }
    for d in &outcome.daemons {
        if let Some(reason) = &d.grows {
            println!("{}: {reason}", d.name);
        }
    }
    if let Some(e) = &outcome.traffic.first_error {
        println!("first error: {e}");
    }
    println!("{}", outcome.summary());
    Ok(outcome.holds())
}

/// Runs all daemons for `time`.
pub fn soak(mpbond: &Path, time: Duration) -> anyhow::Result<Outcome> {
    let folder = tempfile::tempdir()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let local = tokio::task::LocalSet::new();
    let mut world = World::start(mpbond, folder.path(), &runtime)?;
    local.block_on(&runtime, async {
        world.settle().await?;
        world.endure(time).await
    })
}

struct World {
    mpbond: PathBuf,
    folder: PathBuf,
    proxy: Daemon,
    primary: Daemon,
    steady: Daemon,
    /// The helper that is killed at intervals.
    mortal: Option<Daemon>,
}

impl World {
    fn start(
        mpbond: &Path,
        folder: &Path,
        runtime: &tokio::runtime::Runtime,
    ) -> anyhow::Result<Self> {
        let origin: SocketAddr = ORIGIN.parse()?;
        runtime.spawn(async move { origin::serve(&[origin]).await });
        let id = |name: &str| -> anyhow::Result<String> {
            let identity = Identity::load_or_create(folder.join(format!("{name}.pem")))?;
            Ok(identity.id().to_string())
        };
        let (proxy, primary) = (id("proxy")?, id("primary")?);
        let common =
            |name: &str| format!("identity = \"{name}.pem\"\nstatus_socket = \"{name}.sock\"\n");
        let write = |name: &str, text: String| {
            std::fs::write(folder.join(format!("{name}.toml")), common(name) + &text)
        };
        write(
            "proxy",
            format!(
                "listen = \"{PROXY}\"\ntrust = [\"{primary}\"]\n\
                 [destinations]\nallow = [\"127.2.0.0/16\"]\n"
            ),
        )?;
        let mut helpers = String::new();
        for (n, name) in ["steady", "mortal"].into_iter().enumerate() {
            let address = format!("127.3.0.{}", 20 + n);
            write(
                name,
                format!(
                    "name = \"{name}\"\nlisten = \"{address}:4434\"\nproxies = [\"{PROXY}\"]\n\
                     trust = [\"{primary}\"]\nuplink = {{ source = \"{address}\" }}\n"
                ),
            )?;
            let _ = write!(
                helpers,
                "[[helper]]\nname = \"{name}\"\naddress = \"{address}:4434\"\nid = \"{}\"\n",
                id(name)?
            );
        }
        write(
            "primary",
            format!(
                "on_proxy_loss = \"fail\"\n[proxy]\naddress = \"{PROXY}\"\nid = \"{proxy}\"\n\
                 [[path]]\nname = \"own\"\nsource = \"127.3.0.1\"\n{helpers}\
                 [socks5]\nlisten = \"{SOCKS}\"\n"
            ),
        )?;
        let daemon = |role, name| start(mpbond, folder, role, name);
        Ok(Self {
            proxy: daemon("proxy", "proxy")?,
            steady: daemon("helper", "steady")?,
            mortal: Some(daemon("helper", "mortal")?),
            primary: daemon("primary", "primary")?,
            mpbond: mpbond.to_owned(),
            folder: folder.to_owned(),
        })
    }

    /// Waits until all three paths are up.
    async fn settle(&self) -> anyhow::Result<()> {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let status = self.primary.status()?;
            let paths = status.sessions.iter().map(|s| s.subflows.len()).max();
            if paths == Some(3) {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "not all paths come up");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    fn watched(&self) -> [(&'static str, &Daemon); 3] {
        [
            ("proxy", &self.proxy),
            ("primary", &self.primary),
            ("helper", &self.steady),
        ]
    }

    fn usages(&self) -> anyhow::Result<Vec<Usage>> {
        self.watched().iter().map(|(_, d)| d.usage()).collect()
    }

    async fn endure(&mut self, time: Duration) -> anyhow::Result<Outcome> {
        let before = self.warm_up().await?;
        let begun = Instant::now();
        let traffic = Rc::new(RefCell::new(Traffic::default()));
        let workers: Vec<_> = [
            Kind::Download,
            Kind::Download,
            Kind::Download,
            Kind::Upload,
            Kind::Small,
            Kind::Small,
            Kind::BreakOff,
        ]
        .into_iter()
        .zip(1..)
        .map(|(kind, seed)| {
            let traffic = Rc::clone(&traffic);
            tokio::task::spawn_local(work(kind, seed, begun + time, traffic))
        })
        .collect();
        let mut samples = vec![Vec::new(); before.len()];
        let every = time / 120;
        let lifetime = (time / 6).min(Duration::from_secs(20));
        let mut next_death = lifetime;
        while begun.elapsed() < time {
            tokio::time::sleep(every).await;
            for (series, usage) in samples.iter_mut().zip(self.usages()?) {
                series.push((begun.elapsed().as_secs_f64(), usage.resident_kb));
            }
            if begun.elapsed() > next_death {
                next_death += lifetime / 2;
                if self.mortal.take().is_some() {
                    traffic.borrow_mut().helper_deaths += 1;
                } else {
                    // Blocks this thread for milliseconds only.
                    self.mortal = Some(start(&self.mpbond, &self.folder, "helper", "mortal")?);
                }
            }
        }
        for w in workers {
            w.await?;
        }
        // No transfer is under way any more; both helpers are up, as before the traffic.
        if self.mortal.is_none() {
            self.mortal = Some(start(&self.mpbond, &self.folder, "helper", "mortal")?);
        }
        let after = self.quiet(&before).await?;
        let traffic =
            Rc::try_unwrap(traffic).map_or_else(|_| Traffic::default(), RefCell::into_inner);
        let daemons = self
            .watched()
            .iter()
            .zip(samples)
            .zip(before.iter().zip(&after))
            .map(|((watched, samples), (before, after))| judge(watched.0, samples, before, after))
            .collect();
        Ok(Outcome {
            seconds: begun.elapsed().as_secs_f64(),
            traffic,
            daemons,
        })
    }

    /// Usages after each kind of traffic was used once, so that resources allocated at first use
    /// are included.
    async fn warm_up(&self) -> anyhow::Result<Vec<Usage>> {
        let seeds = [1, 2, 3, 4];
        let transfers: Vec<_> = seeds
            .into_iter()
            .flat_map(|seed| [(seed, false), (seed + 10, true)])
            .map(|(seed, upload)| {
                let bytes = 4 << 20;
                let request = Request {
                    upload,
                    seed,
                    bytes,
                };
                tokio::task::spawn_local(transfer(request, true))
            })
            .collect();
        for t in transfers {
            t.await?.context("the first transfers")?;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        self.usages()
    }

    /// Usages when resources of the traffic have been released, or after a time limit.
    async fn quiet(&self, before: &[Usage]) -> anyhow::Result<Vec<Usage>> {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            let now = self.usages()?;
            let mut pairs = before.iter().zip(&now);
            let back = pairs.all(|(b, n)| n.descriptors <= b.descriptors);
            if back || Instant::now() > deadline {
                return Ok(now);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

fn start(mpbond: &Path, folder: &Path, role: &str, name: &str) -> anyhow::Result<Daemon> {
    let file = |ending: &str| folder.join(format!("{name}.{ending}"));
    Daemon::start(mpbond, role, &file("toml"), &file("sock"), None)
}

/// Judges growth: memory grows if the line through the last two thirds rises by more than scatter
/// and allocator steps explain; descriptors and threads grow if they are not released.
fn judge(name: &'static str, samples: Vec<(f64, u64)>, before: &Usage, after: &Usage) -> Series {
    let late = &samples[samples.len() / 3..];
    let (slope, noise) = line(late);
    let span = late.last().map_or(0.0, |l| l.0 - late[0].0);
    let growth_kb = slope * span;
    let grows = if growth_kb > TOLERATED_KB && growth_kb > TOLERATED_NOISE * noise {
        Some(format!(
            "memory grew by {growth_kb:.0} kB in {span:.0} s; {TOLERATED_KB} kB and \
             {TOLERATED_NOISE} times the noise of {noise:.0} kB are tolerated"
        ))
    } else if after.descriptors > before.descriptors + TOLERATED_DESCRIPTORS {
        Some(format!(
            "{} descriptors before and {} after",
            before.descriptors, after.descriptors
        ))
    } else if after.threads > before.threads {
        Some(format!(
            "{} threads before and {} after",
            before.threads, after.threads
        ))
    } else {
        None
    };
    Series {
        name,
        samples,
        descriptors: (before.descriptors, after.descriptors),
        threads: (before.threads, after.threads),
        slope_kb_per_min: slope * 60.0,
        noise_kb: noise,
        growth_kb,
        grows,
    }
}

/// Least squares: the slope, and the standard deviation about the line.
fn line(points: &[(f64, u64)]) -> (f64, f64) {
    let n = points.len() as f64;
    let mean = |of: &dyn Fn(&(f64, u64)) -> f64| points.iter().map(of).sum::<f64>() / n;
    let (x, y) = (mean(&|p| p.0), mean(&|p| p.1 as f64));
    let xx: f64 = points.iter().map(|p| (p.0 - x).powi(2)).sum();
    let xy: f64 = points.iter().map(|p| (p.0 - x) * (p.1 as f64 - y)).sum();
    let slope = if xx > 0.0 { xy / xx } else { 0.0 };
    let off = |p: &(f64, u64)| (p.1 as f64 - y - slope * (p.0 - x)).powi(2);
    (slope, mean(&off).sqrt())
}

#[derive(Clone, Copy)]
enum Kind {
    Download,
    Upload,
    Small,
    BreakOff,
}

/// One application that repeats a transfer, with pauses.
async fn work(kind: Kind, seed: u64, until: Instant, traffic: Rc<RefCell<Traffic>>) {
    let mut dice = Pattern::new(seed);
    let mut number = seed << 32;
    while Instant::now() < until {
        let mut eight = [0; 8];
        dice.fill(&mut eight);
        let random = u64::from_le_bytes(eight);
        number += 1;
        let bytes = match kind {
            Kind::Small => 2 << 10,
            _ => (64 << 10) + random % (2 << 20),
        };
        let request = Request {
            upload: matches!(kind, Kind::Upload),
            seed: number,
            bytes,
        };
        let whole = !matches!(kind, Kind::BreakOff);
        let limit = Duration::from_secs(60);
        let result = match tokio::time::timeout(limit, transfer(request, whole)).await {
            Ok(result) => result,
            Err(_) => Err(anyhow::anyhow!("not done within {limit:?}")),
        };
        traffic.borrow_mut().count(kind, request, result);
        let pause = match kind {
            Kind::Small => 10,
            _ => 20 + random % 80,
        };
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }
}

/// One transfer through the SOCKS5 front; ended in the middle unless `whole`.
async fn transfer(request: Request, whole: bool) -> anyhow::Result<u64> {
    let mut tcp = TcpStream::connect(SOCKS).await?;
    tcp.write_all(&[5, 1, 0]).await?;
    let mut two = [0; 2];
    tcp.read_exact(&mut two).await?;
    ensure!(two == [5, 0], "SOCKS5 greeting {two:?}");
    let SocketAddr::V4(origin) = ORIGIN.parse::<SocketAddr>()? else {
        bail!("the origin has an IPv4 address");
    };
    let mut connect = vec![5, 1, 0, 1];
    connect.extend_from_slice(&origin.ip().octets());
    connect.extend_from_slice(&origin.port().to_be_bytes());
    tcp.write_all(&connect).await?;
    let mut ten = [0; 10];
    tcp.read_exact(&mut ten).await?;
    ensure!(ten[1] == 0, "SOCKS5 answer {}", ten[1]);
    tcp.write_all(&request.encode()).await?;
    let mut pattern = Pattern::new(request.seed);
    let mut block = vec![0; 64 << 10];
    let mut left = request.bytes;
    while left > 0 {
        if !whole && left < request.bytes / 2 {
            socket2::SockRef::from(&tcp).set_linger(Some(Duration::ZERO))?;
            return Ok(request.bytes - left);
        }
        let n = left.min(block.len() as u64) as usize;
        if request.upload {
            pattern.fill(&mut block[..n]);
            tcp.write_all(&block[..n]).await?;
            left -= n as u64;
        } else {
            let n = tcp.read(&mut block[..n]).await?;
            ensure!(n > 0, "ended {left} bytes early");
            ensure!(
                pattern.check(&block[..n]),
                "other bytes than were asked for"
            );
            left -= n as u64;
        }
    }
    if request.upload {
        let mut receipt = [0; RECEIPT_OCTETS];
        tcp.read_exact(&mut receipt).await?;
        let right = u64::from_be_bytes(receipt);
        ensure!(right == request.bytes, "{right} bytes arrived as they were");
    }
    Ok(request.bytes)
}
