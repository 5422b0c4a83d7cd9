//! Loads whose use of the machine is measured.

use std::io::{BufRead, BufReader, Read};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mpbond_units::{BitRate, duration_text};
use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::bulk::{
    Copies, Datagrams, Files, ReceiveOptions, RelayBy, RelayOptions, SendOptions, Transport,
};
use crate::network::cable::{self, Cable, Units};
use crate::network::host::Host;

/// Period of a duty cycle.
const PERIOD: Duration = Duration::from_millis(20);
/// Name and size of the file that a transfer with copies sends; it stays in the page cache.
const SOURCE: &str = "source";
const SOURCE_BYTES: usize = 8 << 20;
/// The file that such a transfer writes, and its size.
const SINK: &str = "sink";
const RING: &str = "32 MiB";
/// Beginning of the name of a folder for files; the process's number follows.
const FOLDER: &str = "mpbond-cpu-";
/// Time for which a log of the processor runs beyond its load, so that the load ends first. If the
/// lab is killed, the log ends by itself.
const LOG_BEYOND: Duration = Duration::from_secs(60);
/// Size of a pipe: errors of a program beyond it are not read.
const MAX_ERRORS_BYTES: u64 = 64 * 1024;

/// Address of options that are checked only.
const ANY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Where loads run: a folder for files, and hosts on the links that loads need.
pub(super) struct Place {
    folder: tempfile::TempDir,
    cables: Vec<(Link, Cable)>,
}

impl Place {
    /// A folder in memory where there is one, since a disk takes its own time.
    pub(super) fn new(schemes: &[Scheme]) -> Result<Self, String> {
        let memory = Path::new("/dev/shm");
        remove_left(memory);
        let prefix = format!("{FOLDER}{}-", std::process::id());
        let mut named = tempfile::Builder::new();
        named.prefix(&prefix);
        let folder = named.tempdir_in(memory).or_else(|_| named.tempdir());
        let cables = cables_of(schemes).into_iter().map(|(link, units)| {
            let cable = Cable::new(units);
            let cable =
                cable.map_err(|e| format!("{e}; a veth pair needs root, or `unshare -Ur`"))?;
            Ok((link, cable))
        });
        Ok(Self {
            folder: folder.map_err(|e| e.to_string())?,
            cables: cables.collect::<Result<_, String>>()?,
        })
    }

    fn cable(&self, link: Link) -> Option<&Cable> {
        let (_, cable) = self.cables.iter().find(|(of, _)| *of == link)?;
        Some(cable)
    }
}

/// Removes folders of loads whose process has gone: a run that is interrupted leaves its own.
fn remove_left(memory: &Path) {
    let entries = std::fs::read_dir(memory).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name();
        let rest = name.to_str().and_then(|name| name.strip_prefix(FOLDER));
        let pid = rest.and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
        if pid.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists()) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// The cables over which some of the schemes run.
pub(super) fn cables_of(schemes: &[Scheme]) -> Vec<(Link, Units)> {
    let all = [
        (Link::Veth, Units::Large),
        (Link::VethPackets, Units::Packets),
    ];
    let is_used = |link| schemes.iter().any(|scheme| scheme.runs_over(link));
    all.into_iter().filter(|(link, _)| is_used(*link)).collect()
}

/// One scheme of a file: a load, at each of the file's rates.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Scheme {
    pub(super) name: String,
    /// Computes for this share of one processor's time: a load of known use.
    duty: Option<f64>,
    /// A transfer between two programs of this machine, of which both count.
    transfer: Option<Transfer>,
    /// Whether `mpbond cpulog` runs beside it.
    #[serde(default)]
    logger: bool,
}

/// A transfer by `mpbond traffic send` and `receive`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Transfer {
    #[serde(default = "tcp")]
    transport: Transport,
    #[serde(default)]
    datagrams: Datagrams,
    #[serde(default)]
    link: Link,
    /// Copies between files and sockets; memory when absent.
    copy: Option<Copies>,
    /// Interval of sending.
    #[serde(default = "tick", with = "duration_text")]
    tick: Duration,
    /// A relay between the two ends, over TCP; from the sender over frames with the transport `l2`.
    relay: Option<Relayed>,
}

/// Link between the ends of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Link {
    /// The loopback interface.
    #[default]
    Loopback,
    /// A veth pair between two network namespaces, with an MTU of 1500.
    Veth,
    /// The same without segmentation offload: TCP passes in single packets.
    VethPackets,
}

/// A relay by `mpbond traffic relay`: of calls with `copy`, or that of a helper with
/// `longest_tick`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Relayed {
    copy: Option<Copies>,
    /// Interval of moving bytes; at once when absent.
    #[serde(default, with = "duration_text::option")]
    tick: Option<Duration>,
    /// Longest interval at which a helper's relay looks for bytes; zero to look at every arrival.
    #[serde(default, with = "duration_text::option")]
    longest_tick: Option<Duration>,
}

impl Relayed {
    fn by(&self) -> Result<RelayBy, String> {
        match (self.copy, self.tick, self.longest_tick) {
            (Some(copies), tick, None) => Ok(RelayBy::Calls { copies, tick }),
            (None, None, Some(longest_tick)) => Ok(RelayBy::Helper { longest_tick }),
            _ => Err("a relay has copy, and tick if any, or longest_tick alone".to_owned()),
        }
    }

    /// Starts a relay at an address to `to`, and returns its address with the port.
    fn start(
        &self,
        host: Option<&Host>,
        transport: Transport,
        listen: &str,
        to: &str,
    ) -> Result<(Program, String), String> {
        let us = |tick: Duration| format!("{}us", tick.as_micros());
        let (how, value, tick) = match self.by()? {
            RelayBy::Calls { copies, tick } => ("--copy", name_of(copies).to_owned(), tick.map(us)),
            RelayBy::Helper { longest_tick } => ("--longest-tick", us(longest_tick), None),
        };
        let transport = transport.to_string();
        let mut relay = vec!["traffic", "relay", "--listen", listen, "--to", to];
        relay.extend(["--transport", &transport, how, &value, "--json"]);
        if let Some(tick) = &tick {
            relay.extend(["--tick", tick]);
        }
        let mut relay = Program::start(host, &relay)?;
        let address = relay.address()?;
        Ok((relay, address))
    }
}

/// `--seconds` of the log beside a load of this length.
fn log_seconds(length: Duration) -> String {
    (length + LOG_BEYOND).as_secs_f64().to_string()
}

fn name_of(copies: Copies) -> &'static str {
    match copies {
        Copies::Two => "two",
        Copies::One => "one",
    }
}

fn tcp() -> Transport {
    Transport::Tcp
}

fn tick() -> Duration {
    Duration::from_millis(1)
}

impl Scheme {
    /// The error in it, if there is one.
    pub(super) fn complaint(&self) -> Option<String> {
        match (self.duty, &self.transfer) {
            (Some(duty), None) if (0.01..=1.0).contains(&duty) => None,
            (Some(duty), None) => Some(format!("duty {duty} is not a share from 0.01 to 1")),
            (None, Some(transfer)) => transfer.complaint(),
            _ => Some("a load is one of duty and transfer".to_owned()),
        }
    }

    /// Whether it runs once at each rate.
    pub(super) fn has_rate(&self) -> bool {
        self.transfer.is_some()
    }

    fn runs_over(&self, link: Link) -> bool {
        (self.transfer.as_ref()).is_some_and(|transfer| transfer.link == link)
    }

    /// Starts the load for at least `length`.
    pub(super) fn start(
        &self,
        rate: Option<BitRate>,
        length: Duration,
        place: &Place,
    ) -> Result<Running, String> {
        let seconds = log_seconds(length);
        let log = ["cpulog", "--output", "/dev/null", "--seconds", &seconds];
        let logger = self.logger.then(|| Program::start(None, &log));
        let logger = logger.transpose()?;
        let duty = self.duty.map(Duty::start).transpose();
        let transfer = self.transfer.as_ref();
        let ends = transfer.map(|transfer| transfer.start(rate, length, place));
        Ok(Running {
            ends: ends.transpose()?,
            _duty: duty.map_err(|e| e.to_string())?,
            logger,
        })
    }
}

impl Transfer {
    /// By the checks of the programs. A relay sends over TCP to the receiver.
    fn complaint(&self) -> Option<String> {
        let file = self.copy.map(|copies| Files {
            path: SINK.into(),
            copies,
            ring_bytes: None,
        });
        let send = SendOptions {
            to: ANY,
            transport: self.transport,
            datagrams: self.datagrams,
            file: file.clone(),
            rate: None,
            tick: self.tick,
            bytes: None,
            duration: Some(PERIOD),
        };
        let receive = ReceiveOptions {
            listen: ANY,
            transport: self.taken_over(),
            datagrams: self.taken(),
            file,
        };
        let by = match self.relay.as_ref().map(Relayed::by).transpose() {
            Ok(by) => by,
            Err(why) => return Some(why),
        };
        let relay = by.map(|by| RelayOptions {
            listen: ANY,
            to: ANY,
            transport: self.transport,
            by,
        });
        match self.link {
            Link::Veth | Link::VethPackets
                if relay.is_some() && self.transport == Transport::Tcp =>
            {
                return Some("a relay of TCP runs over the loopback interface".to_owned());
            }
            Link::Loopback if self.transport == Transport::L2 => {
                return Some(
                    "the transport l2 needs link = \"veth\" or \"veth-packets\"".to_owned(),
                );
            }
            Link::Veth | Link::VethPackets | Link::Loopback => {}
        }
        let relay = relay.map_or(Ok(()), |relay| relay.check());
        let all = send.check().and(receive.check()).and(relay);
        all.err().map(|e| e.to_string())
    }

    /// Calls by which the receiver takes datagrams.
    fn taken(&self) -> Datagrams {
        match self.datagrams {
            Datagrams::Gso => Datagrams::Gso,
            Datagrams::Single | Datagrams::Sendmmsg => Datagrams::Single,
        }
    }

    /// Transport by which the receiver takes the transfer.
    fn taken_over(&self) -> Transport {
        match self.relay {
            Some(_) => Transport::Tcp,
            None => self.transport,
        }
    }

    fn start(
        &self,
        rate: Option<BitRate>,
        length: Duration,
        place: &Place,
    ) -> Result<Ends, String> {
        let (near, far, listen) = match (self.link, place.cable(self.link)) {
            (Link::Loopback, _) => (None, None, ANY.ip()),
            (_, Some(cable)) => (Some(&cable.near), Some(&cable.far), cable::FAR),
            (_, None) => return Err("there is no veth pair".to_owned()),
        };
        let listen = SocketAddr::new(listen, 0).to_string();
        let folder = place.folder.path();
        let [transport, taken_over] =
            [self.transport, self.taken_over()].map(|transport| transport.to_string());
        let name = |datagrams| match datagrams {
            Datagrams::Single => "single",
            Datagrams::Sendmmsg => "sendmmsg",
            Datagrams::Gso => "gso",
        };
        let [datagrams, taken] = [self.datagrams, self.taken()].map(name);
        let [source, sink] = [SOURCE, SINK].map(|name| folder.join(name).display().to_string());
        let copies = self.copy.map(name_of);
        let mut receive = vec!["traffic", "receive", "--listen", &listen];
        receive.extend(["--transport", &taken_over, "--datagrams", taken, "--json"]);
        if let Some(copies) = copies {
            receive.extend(["--file", &sink, "--ring", RING, "--copy", copies]);
            if !Path::new(&source).exists() {
                std::fs::write(&source, vec![0x5a; SOURCE_BYTES]).map_err(|e| e.to_string())?;
            }
        }
        let mut receiver = Program::start(far, &receive)?;
        let address = receiver.address()?;
        let (relay, address) = match &self.relay {
            Some(by) => {
                let (relay, at) = by.start(far, self.transport, &listen, &address)?;
                (Some(relay), at)
            }
            None => (None, address),
        };
        let duration = format!("{}ms", length.as_millis());
        let tick = format!("{}us", self.tick.as_micros());
        let rate = rate.map(|rate| format!("{} bit/s", rate.bps()));
        let mut send = vec!["traffic", "send", &address, "--duration", &duration];
        send.extend(["--transport", &transport, "--datagrams", datagrams]);
        send.extend(["--tick", &tick, "--json"]);
        if let Some(rate) = &rate {
            send.extend(["--rate", rate]);
        }
        if let Some(copies) = copies {
            send.extend(["--file", &source, "--copy", copies]);
        }
        let sender = Program::start(near, &send)?;
        Ok(Ends {
            sender,
            receiver,
            _relay: relay,
        })
    }
}

/// A load that is running. What is left of it ends when this is dropped.
#[derive(Debug)]
pub(super) struct Running {
    ends: Option<Ends>,
    _duty: Option<Duty>,
    logger: Option<Program>,
}

#[derive(Debug)]
struct Ends {
    sender: Program,
    receiver: Program,
    _relay: Option<Program>,
}

/// Rate at which data arrived, and the share of it that was lost.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize)]
pub(super) struct Arrived {
    bytes: u64,
    seconds: f64,
    #[serde(default)]
    lost_bytes: u64,
}

impl Arrived {
    pub(super) fn bytes_per_s(&self) -> f64 {
        if self.seconds > 0.0 {
            self.bytes as f64 / self.seconds
        } else {
            0.0
        }
    }

    pub(super) fn lost_share(&self) -> f64 {
        let all = (self.bytes + self.lost_bytes).max(1);
        self.lost_bytes as f64 / all as f64
    }
}

impl Running {
    /// Checks that the log still runs, waits for the end of a transfer, and returns what arrived.
    pub(super) fn finish(mut self) -> Result<Option<Arrived>, String> {
        if let Some(logger) = &mut self.logger
            && let Some(status) = logger.ended()?
        {
            let why = logger.reason(&status.to_string());
            return Err(format!("the processor log ended early: {why}"));
        }
        let Some(Ends {
            sender,
            receiver,
            _relay,
        }) = self.ends
        else {
            return Ok(None);
        };
        sender.rest().map_err(|why| format!("the sender: {why}"))?;
        let text = receiver
            .rest()
            .map_err(|why| format!("the receiver: {why}"))?;
        let arrived = serde_json::from_str(&text).map_err(|e| format!("the receiver: {e}"))?;
        Ok(Some(arrived))
    }
}

/// This program, run with other arguments, and killed when it goes out of scope.
#[derive(Debug)]
struct Program {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Program {
    /// Starts it, on a host of its own if one is given.
    fn start(host: Option<&Host>, arguments: &[&str]) -> Result<Self, String> {
        let own = std::env::current_exe().map_err(|e| e.to_string())?;
        let mut command = match host {
            Some(host) => host.command(own),
            None => Command::new(own),
        };
        Self::spawn(command.args(arguments))
    }

    fn spawn(command: &mut Command) -> Result<Self, String> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| e.to_string())?;
        match child.stdout.take() {
            Some(output) => Ok(Self {
                child,
                output: BufReader::new(output),
            }),
            None => Err("no output".to_owned()),
        }
    }

    /// Its exit status, if it has ended.
    fn ended(&mut self) -> Result<Option<ExitStatus>, String> {
        self.child.try_wait().map_err(|e| e.to_string())
    }

    /// The address in its first line.
    fn address(&mut self) -> Result<String, String> {
        #[derive(Deserialize)]
        struct First {
            listening: String,
        }
        let mut line = String::new();
        let read = self.output.read_line(&mut line);
        read.map_err(|e| e.to_string())?;
        match serde_json::from_str::<First>(&line) {
            Ok(first) => Ok(first.listening),
            Err(_) => Err(self.reason("an end of the transfer could not start")),
        }
    }

    /// Waits for its end, and returns the rest of its output.
    fn rest(mut self) -> Result<String, String> {
        let mut text = String::new();
        let read = self.output.read_to_string(&mut text);
        read.map_err(|e| e.to_string())?;
        let status = self.child.wait().map_err(|e| e.to_string())?;
        match status.success() {
            true => Ok(text),
            false => Err(self.reason(&status.to_string())),
        }
    }

    /// The last line of its errors after it was ended, or `otherwise`. Each program writes few
    /// lines, which wait in the pipe until then.
    fn reason(&mut self, otherwise: &str) -> String {
        let _ = self.child.kill();
        let mut text = String::new();
        if let Some(errors) = self.child.stderr.take() {
            let _ = errors.take(MAX_ERRORS_BYTES).read_to_string(&mut text);
        }
        text.lines().last().unwrap_or(otherwise).to_owned()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A thread that uses a share of one processor until it is dropped.
#[derive(Debug)]
struct Duty {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Duty {
    fn start(share: f64) -> std::io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let end = stop.clone();
        let thread = std::thread::Builder::new()
            .name("duty".to_owned())
            .spawn(move || compute(share, &end))?;
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for Duty {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Uses `share` of one processor until `stop`, by this thread's own processor time: a period in
/// which other programs delay it is made up for in the next ones.
fn compute(share: f64, stop: &AtomicBool) {
    let used = || clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map(Duration::from);
    let start = Instant::now();
    let mut ends = PERIOD;
    while !stop.load(Ordering::Relaxed) {
        let due = ends.mul_f64(share);
        while used().is_ok_and(|used| used < due) && !stop.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
        std::thread::sleep(ends.saturating_sub(start.elapsed()));
        ends += PERIOD;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logged(script: &str) -> Running {
        Running {
            ends: None,
            _duty: None,
            logger: Some(Program::spawn(Command::new("sh").args(["-c", script])).unwrap()),
        }
    }

    #[test]
    fn a_log_that_ended_is_an_error() {
        let mut running = logged("exit 3");
        let logger = running.logger.as_mut().unwrap();
        logger.child.wait().unwrap();
        let why = running.finish().unwrap_err();
        assert_eq!(why, "the processor log ended early: exit status: 3");
        assert_eq!(logged("exec sleep 600").finish(), Ok(None));
    }

    #[test]
    fn a_log_ends_a_minute_after_its_load() {
        assert_eq!(log_seconds(Duration::from_millis(12_500)), "72.5");
    }

    #[test]
    fn a_folder_is_removed_after_its_process_has_gone() {
        let own = Place::new(&[]).unwrap();
        let name = own.folder.path().file_name().unwrap().to_str().unwrap();
        let begin = format!("mpbond-cpu-{}-", std::process::id());
        assert!(name.starts_with(&begin), "{name}");

        let memory = tempfile::tempdir().unwrap();
        // No process has the largest number.
        let names = [name, "mpbond-cpu-4294967295-x", "mpbond-cpu-", "mpbond-x"];
        for name in names {
            std::fs::create_dir(memory.path().join(name)).unwrap();
            std::fs::write(memory.path().join(name).join(SOURCE), "").unwrap();
        }
        remove_left(memory.path());
        let is_there = names.map(|name| memory.path().join(name).exists());
        assert_eq!(is_there, [true, false, true, true]);
    }

    #[test]
    fn the_reason_of_a_failure_is_the_last_error() {
        let program =
            |script: &str| Program::spawn(Command::new("sh").args(["-c", script])).unwrap();
        let failed = "echo a >&2; echo 'no port is free' >&2; exit 1";
        let why = program(failed).address().unwrap_err();
        assert_eq!(why, "no port is free");
        let why = program("exec sleep 600 >&2 >/dev/null").address();
        assert_eq!(why.unwrap_err(), "an end of the transfer could not start");
        assert_eq!(program(failed).rest().unwrap_err(), "no port is free");
        assert_eq!(program("exit 1").rest().unwrap_err(), "exit status: 1");
        assert_eq!(program("echo all").rest().unwrap(), "all\n");
    }
}
