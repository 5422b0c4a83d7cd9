//! The logs from which `mpbond capture owd` derives the phases of handovers (Wear OS paper, section
//! 6.3): arrivals by interface, states of interfaces, and strengths of signals.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{LineWriter, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mpbond_command::Failure;
use mpbond_probe::traffic::Event;
use nix::ifaddrs::{InterfaceAddress, getifaddrs};
use nix::net::if_::InterfaceFlags;

use super::signals::signals;

/// Polling interval of interfaces; phases take seconds.
const LOOK: Duration = Duration::from_millis(50);
/// Polling interval of signals (Wear OS paper, Table 3).
const LISTEN: Duration = Duration::from_millis(200);

struct Log {
    path: PathBuf,
    file: LineWriter<File>,
}

impl Log {
    fn create(path: &Path, header: &str) -> Result<Self, Failure> {
        let failed = |e| Failure::run(format_args!("{}: {e}", path.display()));
        let mut log = Self {
            path: path.to_owned(),
            file: LineWriter::new(File::create(path).map_err(failed)?),
        };
        log.line(header)?;
        Ok(log)
    }

    fn line(&mut self, line: &str) -> Result<(), Failure> {
        writeln!(self.file, "{line}")
            .map_err(|e| Failure::run(format_args!("{}: {e}", self.path.display())))
    }

    fn now(&mut self, interface: &str, what: impl std::fmt::Display) -> Result<(), Failure> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let at = since.unwrap_or_default().as_secs_f64();
        // A comma would separate fields.
        let interface = interface.replace(',', "_");
        self.line(&format!("{at:.6},{interface},{what}"))
    }
}

/// `time_s,interface,app_bytes`, s since 1970.
pub(crate) struct AppBytes {
    log: Log,
    interface: String,
}

impl AppBytes {
    pub(crate) fn create(path: &Path) -> Result<Self, Failure> {
        Ok(Self {
            log: Log::create(path, "time_s,interface,app_bytes")?,
            interface: "unknown".to_owned(),
        })
    }

    pub(crate) fn take(&mut self, event: &Event) -> Result<(), Failure> {
        match event {
            Event::Connected { local, .. } => {
                let name = interface_of(local.ip());
                self.interface = name.unwrap_or_else(|| "unknown".to_owned());
                Ok(())
            }
            Event::Record { bytes, .. } => self.log.now(&self.interface, bytes),
            Event::Lost { .. } => Ok(()),
        }
    }
}

fn ip(address: &InterfaceAddress) -> Option<IpAddr> {
    let address = address.address.as_ref()?;
    let v4 = address.as_sockaddr_in().map(|a| IpAddr::V4(a.ip()));
    v4.or_else(|| address.as_sockaddr_in6().map(|a| IpAddr::V6(a.ip())))
}

fn interface_of(local: IpAddr) -> Option<String> {
    // A dual-stack socket has IPv4-mapped addresses.
    let local = local.to_canonical();
    let mut all = getifaddrs().ok()?;
    let found = all.find(|a| ip(a).is_some_and(|ip| ip == local))?;
    Some(found.interface_name)
}

/// A log that a thread writes at intervals, until it is stopped; s since 1970.
pub(crate) struct Polled {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<(), Failure>>,
}

impl Polled {
    /// `time_s,interface,state`: changes of states.
    pub(crate) fn states(path: &Path) -> Result<Self, Failure> {
        let log = Log::create(path, "time_s,interface,state")?;
        let mut before: BTreeMap<String, &str> = BTreeMap::new();
        Self::start(log, LOOK, move |log| {
            let now = states();
            for (interface, state) in &now {
                if before.get(interface) != Some(state) {
                    log.now(interface, state)?;
                }
            }
            for interface in before.keys().filter(|i| !now.contains_key(*i)) {
                log.now(interface, "off")?;
            }
            before = now;
            Ok(())
        })
    }

    /// `time_s,interface,rssi_dbm`: the signals of WiFi.
    pub(crate) fn signals(path: &Path) -> Result<Self, Failure> {
        // Before anything runs: this kernel may have no signals.
        signals()?;
        let log = Log::create(path, "time_s,interface,rssi_dbm")?;
        Self::start(log, LISTEN, |log| {
            for (interface, dbm) in signals()? {
                log.now(&interface, dbm)?;
            }
            Ok(())
        })
    }

    fn start(
        mut log: Log,
        every: Duration,
        mut poll: impl FnMut(&mut Log) -> Result<(), Failure> + Send + 'static,
    ) -> Result<Self, Failure> {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("interfaces".to_owned())
            .spawn(move || {
                while !seen.load(Ordering::Relaxed) {
                    poll(&mut log)?;
                    std::thread::park_timeout(every);
                }
                Ok(())
            })
            .map_err(|e| Failure::run(format_args!("a thread: {e}")))?;
        Ok(Self { stop, thread })
    }

    pub(crate) fn stop(self) -> Result<(), Failure> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        self.thread.join().unwrap_or(Ok(()))
    }
}

/// Off; available (up, but without carrier or address); or connected.
fn states() -> BTreeMap<String, &'static str> {
    let mut all = BTreeMap::new();
    for a in getifaddrs().into_iter().flatten() {
        if a.flags.contains(InterfaceFlags::IFF_LOOPBACK) {
            continue;
        }
        let up = a.flags.contains(InterfaceFlags::IFF_UP);
        let carries = a.flags.contains(InterfaceFlags::IFF_RUNNING);
        let reaches = ip(&a).is_some_and(|ip| match ip {
            IpAddr::V4(ip) => !ip.is_link_local(),
            IpAddr::V6(ip) => !ip.is_unicast_link_local(),
        });
        let state = all.entry(a.interface_name).or_insert("off");
        match (up, carries && reaches) {
            (true, true) => *state = "connected",
            (true, false) if *state == "off" => *state = "available",
            _ => {}
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_known_by_its_address_and_no_network() {
        assert_eq!(interface_of([127, 0, 0, 1].into()).as_deref(), Some("lo"));
        assert_eq!(interface_of([192, 0, 2, 99].into()), None);
        assert!(!states().contains_key("lo"));
    }
}
