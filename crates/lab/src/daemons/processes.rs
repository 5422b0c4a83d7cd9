//! Processes of the daemons of one scheme.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::config::{self, PathText, PipeText};
use super::setup::{Instance, Setup, identity_file, socket};
use super::status::Status;
use crate::baselines::tether::Tether;
use crate::error::{Doing, Error, Result};
use crate::experiment::{Experiment, Pipes, Role, Scheme};
use crate::isolate;
use crate::transfer::client::Way;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Time limit from the start of a daemon until its status socket answers.
const START_LIMIT: Duration = Duration::from_secs(10);
/// Time limit from the start of the primary until all subflows are up.
const JOIN_LIMIT: Duration = Duration::from_secs(15);
/// Time from SIGTERM to SIGKILL.
const STOP_LIMIT: Duration = Duration::from_secs(3);
pub(super) const POLL: Duration = Duration::from_millis(20);

/// The daemons of one scheme; dropping it stops them.
pub(crate) struct Daemons {
    binary: PathBuf,
    running: Vec<Daemon>,
    way: Way,
    /// Helpers that forward packets.
    tethers: Vec<Tether>,
}

/// The user of a helper's device, in dual mode.
struct SecondUser {
    host: String,
    id: String,
    /// The device's own link.
    path: PathText,
    /// Address on which the first user's device listens as a helper.
    helper_address: Ipv4Addr,
}

impl SecondUser {
    fn of(setup: &Setup, host: &str) -> Result<Self> {
        let e = setup.experiment;
        let missing = |what: &str| Error::run(format!("helper {host} has no {what}"));
        let primary = e.host(Role::Primary).name.get_ref();
        let uplink = e.uplink_of(host).ok_or_else(|| missing("HS-Path"))?;
        let pipe = e.pipe_of(host).ok_or_else(|| missing("pipe"))?;
        let address = setup.network.address(primary, pipe.name.get_ref());
        Ok(Self {
            host: host.to_owned(),
            id: identity(setup, host)?,
            path: PathText::of(uplink),
            helper_address: address.ok_or_else(|| missing("pipe"))?,
        })
    }
}

struct Daemon {
    host: String,
    role: Role,
    /// Expected number of subflows of a primary.
    subflows: usize,
    child: Child,
    socket: PathBuf,
    log: PathBuf,
}

impl Daemons {
    /// Starts proxy, helpers and primary for `scheme`, and waits until each answers.
    ///
    /// # Errors
    /// With the last lines of the log of a daemon that fails.
    pub fn start(setup: &Setup, scheme: &Scheme) -> Result<Self> {
        let mut daemons = Self {
            binary: setup.binary.to_owned(),
            running: Vec::new(),
            way: config::way_in(scheme.interception),
            tethers: Vec::new(),
        };
        let e = setup.experiment;
        let (primary, proxy) = (e.host(Role::Primary), e.host(Role::Proxy));
        let helpers: Vec<&str> = e
            .helpers()
            .take(scheme.devices - 1)
            .map(|h| h.name.get_ref().as_str())
            .collect();
        let mut paths: Vec<PathText> = scheme.direct_links(e).map(PathText::of).collect();
        let regular = |name: &&str| match scheme.pipes {
            Pipes::All => e.pipes_of(name).count(),
            Pipes::Best => 1,
        };
        let subflows = paths.len() + helpers.iter().map(regular).sum::<usize>();

        let primary_id = identity(setup, primary.name.get_ref())?;
        let proxy_id = identity(setup, proxy.name.get_ref())?;
        let proxy_address = address_of(e, Role::Proxy)?;
        let origin_address = address_of(e, Role::Origin)?;

        let mut users = vec![primary_id.clone()];
        let second = match helpers.first() {
            Some(name) if scheme.dual => Some(SecondUser::of(setup, name)?),
            _ => None,
        };
        users.extend(second.as_ref().map(|second| second.id.clone()));
        let at_proxy = Instance::first(proxy.name.get_ref());
        let text = config::proxy_config(setup, scheme, &at_proxy, &users, origin_address);
        daemons.launch(setup, Role::Proxy, &at_proxy, 0, &text)?;
        let mut peers = Vec::new();
        for name in helpers {
            if !scheme.split {
                let tether = Tether::set_up(e, setup.network, name)?;
                paths.push(PathText::tethered(name, tether.address));
                daemons.tethers.push(tether);
                continue;
            }
            let id = identity(setup, name)?;
            let links = e.pipes_of(name);
            let pipes: Option<Vec<_>> = links.map(|l| PipeText::of(setup, name, l)).collect();
            let pipes = pipes.ok_or_else(|| Error::run(format!("helper {name} has no pipe")))?;
            let at = Instance::first(name);
            let text = config::helper_config(setup, &at, &pipes, &primary_id, proxy_address);
            daemons.launch(setup, Role::Helper, &at, 0, &text)?;
            peers.push((name, pipes, id));
        }
        let proxy = (proxy_address, proxy_id.as_str());
        let at = Instance::first(primary.name.get_ref());
        if let Some(second) = &second {
            let at = Instance::second(primary.name.get_ref());
            let listen = [PipeText::at(second.helper_address)];
            let text = config::helper_config(setup, &at, &listen, &second.id, proxy_address);
            daemons.launch(setup, Role::Helper, &at, 0, &text)?;
        }
        daemons.wait_until_up()?;
        let names = peers.iter().map(|(name, ..)| *name);
        let policy = match config::policy(e, scheme, &paths, names) {
            Some(text) => {
                let file = setup.folder.join(format!("{}.policy.toml", at.name));
                std::fs::write(&file, text).at("write", &file)?;
                Some(file)
            }
            None => None,
        };
        let (links, policy) = ((&paths[..], &peers[..]), policy.as_deref());
        let text = config::primary_config(setup, scheme, &at, proxy, links, policy);
        daemons.launch(setup, Role::Primary, &at, subflows, &text)?;
        if let Some(second) = second {
            let at = Instance::second(&second.host);
            let paths = [second.path];
            let name = primary.name.get_ref().as_str();
            let pipe = PipeText::at(second.helper_address);
            let peers = [(name, vec![pipe], primary_id)];
            let links = (&paths[..], &peers[..]);
            let text = config::primary_config(setup, scheme, &at, proxy, links, None);
            daemons.launch(setup, Role::Primary, &at, 2, &text)?;
        }
        daemons.wait_until_up()?;
        Ok(daemons)
    }

    /// The client's way into the session.
    pub fn way(&self) -> &Way {
        &self.way
    }

    /// Waits until every subflow of every primary is up.
    ///
    /// # Errors
    /// After a time limit, with the last lines of every log.
    pub fn wait_until_joined(&mut self) -> Result<()> {
        let deadline = Instant::now() + JOIN_LIMIT;
        loop {
            self.check_alive()?;
            let (mut up, mut wanted) = (0, 0);
            for primary in self.running.iter().filter(|d| d.role == Role::Primary) {
                let sessions = self.status_of(primary)?.sessions;
                let subflows = sessions.iter().flat_map(|s| &s.subflows);
                up += subflows.filter(|s| s.state == "up").count();
                wanted += primary.subflows;
            }
            if up >= wanted {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(Error::run(format!(
                    "{up} of {wanted} subflows came up within {} s\n{}",
                    JOIN_LIMIT.as_secs(),
                    self.log_tails()
                )));
            }
            std::thread::sleep(POLL);
        }
    }

    /// The process of the daemon on `host`.
    pub fn pid(&self, host: &str) -> Option<Pid> {
        let daemon = self.running.iter().find(|d| d.host == host)?;
        Some(Pid::from_raw(daemon.child.id() as i32))
    }

    /// Processor time of the daemons on each host, in seconds.
    pub fn cpu_seconds(&self) -> BTreeMap<String, f64> {
        let mut all = BTreeMap::new();
        for daemon in &self.running {
            let pid = Pid::from_raw(daemon.child.id() as i32);
            let clock = nix::time::clock_getcpuclockid(pid);
            if let Ok(used) = clock.and_then(|clock| clock.now()) {
                let seconds: &mut f64 = all.entry(daemon.host.clone()).or_default();
                *seconds += Duration::from(used).as_secs_f64();
            }
        }
        all
    }

    /// Stops all daemons, the primary first so that it removes its rules.
    fn stop(&mut self) {
        for daemon in self.running.iter_mut().rev() {
            let pid = Pid::from_raw(daemon.child.id() as i32);
            let _ = kill(pid, Signal::SIGTERM);
        }
        let deadline = Instant::now() + STOP_LIMIT;
        for daemon in self.running.iter_mut().rev() {
            while matches!(daemon.child.try_wait(), Ok(None)) && Instant::now() < deadline {
                std::thread::sleep(POLL);
            }
            let _ = daemon.child.kill();
            let _ = daemon.child.wait();
        }
        self.running.clear();
    }

    /// The last lines of every daemon's log.
    pub fn log_tails(&self) -> String {
        let tails = self.running.iter().map(|d| log_tail(&d.host, &d.log));
        tails.collect()
    }

    fn launch(
        &mut self,
        setup: &Setup,
        role: Role,
        at: &Instance,
        subflows: usize,
        config: &str,
    ) -> Result<()> {
        let name = &at.name;
        let path = setup.folder.join(format!("{name}.toml"));
        std::fs::write(&path, config).at("write", &path)?;
        let log = setup.folder.join(format!("{name}.log"));
        let output = File::create(&log).at("write", &log)?;
        let subcommand = match role {
            Role::Proxy => "proxy",
            Role::Helper => "helper",
            Role::Primary | Role::Origin => "primary",
        };
        // A socket left over from the last scheme would look like a new one.
        let _ = std::fs::remove_file(socket(setup, at));
        let child = setup
            .network
            .host(at.host)?
            .command(setup.binary)
            .args([subcommand, "--config"])
            .arg(&path)
            .stdin(Stdio::null())
            .stdout(output.try_clone().at("write", &log)?)
            .stderr(output)
            .spawn()
            .doing(format_args!("cannot start {}", setup.binary.display()))?;
        self.running.push(Daemon {
            host: at.host.to_owned(),
            role,
            subflows,
            child,
            socket: socket(setup, at),
            log,
        });
        Ok(())
    }

    /// Waits until every daemon's status socket answers.
    fn wait_until_up(&mut self) -> Result<()> {
        let deadline = Instant::now() + START_LIMIT;
        loop {
            self.check_alive()?;
            if self.running.iter().all(|d| d.socket.exists()) {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(Error::run(format!(
                    "a daemon did not start within {} s\n{}",
                    START_LIMIT.as_secs(),
                    self.log_tails()
                )));
            }
            std::thread::sleep(POLL);
        }
    }

    fn check_alive(&mut self) -> Result<()> {
        for daemon in &mut self.running {
            if let Some(status) = daemon.child.try_wait().doing("cannot wait for a daemon")? {
                let host = daemon.host.clone();
                return Err(Error::run(format!(
                    "the daemon on {host} ended: {status}\n{}",
                    self.log_tails()
                )));
            }
        }
        Ok(())
    }

    /// Status of the first daemon of a role; of two primaries, the first user's.
    pub(super) fn status(&self, role: Role) -> Result<Status> {
        let mut running = self.running.iter();
        let daemon = running.find(|d| d.role == role);
        self.status_of(daemon.ok_or_else(|| Error::run("no such daemon is running"))?)
    }

    fn status_of(&self, daemon: &Daemon) -> Result<Status> {
        let output = command(&self.binary)
            .args(["status", "--json", "--socket"])
            .arg(&daemon.socket)
            .output()
            .doing("cannot ask for the status")?;
        if !output.status.success() {
            return Err(Error::run(format!(
                "mpbond status failed for {}: {}",
                daemon.host,
                String::from_utf8_lossy(&output.stderr).trim()
            )));
        }
        serde_json::from_slice(&output.stdout)
            .map_err(|e| Error::run(format!("cannot read the status of {}: {e}", daemon.host)))
    }
}

impl Drop for Daemons {
    fn drop(&mut self) {
        self.stop();
    }
}

fn command(binary: &Path) -> Command {
    let mut command = Command::new(binary);
    isolate::unmark(&mut command);
    command
}

/// The last lines of the log of a program on `host`.
pub(crate) fn log_tail(host: &str, log: &Path) -> String {
    const LINES: usize = 12;
    let mut text = format!("--- end of the log on {host}:\n");
    let log = tail(log).unwrap_or_else(|e| format!("unreadable: {e}"));
    let lines: Vec<&str> = log.lines().collect();
    for line in lines.iter().skip(lines.len().saturating_sub(LINES)) {
        let _ = writeln!(text, "    {line}");
    }
    text
}

fn tail(log: &Path) -> std::io::Result<String> {
    const BYTES: u64 = 8 << 10;
    let mut file = File::open(log)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(BYTES)))?;
    let mut bytes = Vec::new();
    file.take(BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn address_of(e: &Experiment, role: Role) -> Result<Ipv4Addr> {
    let address = e.host(role).address;
    address.ok_or_else(|| Error::run("a host lacks an address that it needs"))
}

/// The device id of `host`; its identity is created when missing.
fn identity(setup: &Setup, host: &str) -> Result<String> {
    let output = command(setup.binary)
        .args(["id", "--create", "--identity"])
        .arg(identity_file(setup, host))
        .output()
        .doing(format_args!("cannot run {}", setup.binary.display()))?;
    if !output.status.success() {
        return Err(Error::run(format!(
            "{} id failed ({}): {}",
            setup.binary.display(),
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        )));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
