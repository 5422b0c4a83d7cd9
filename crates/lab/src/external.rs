//! Programs of a scheme `external` in their hosts: starting and stopping.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::client::Way;
use crate::daemons::log_tail;
use crate::error::{Doing, Error, Result};
use crate::experiment::{Experiment, External, Interception, Role, Scheme, with_addresses};
use crate::host::Host;
use crate::wiring::Network;

/// `{port}` of the next start.
static NEXT_PORT: AtomicU16 = AtomicU16::new(20_000);
/// Time limit from the start of the programs until they listen.
const START_LIMIT: Duration = Duration::from_secs(10);
/// Time from SIGTERM to SIGKILL.
const STOP_LIMIT: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_millis(20);

/// Running programs; dropping it stops them.
pub(crate) struct Programs {
    running: Vec<Program>,
    way: Way,
}

struct Program {
    host: String,
    child: Child,
    log: PathBuf,
}

impl Programs {
    /// Starts the programs of `scheme`, with logs in `folder`, and waits until they listen.
    ///
    /// # Errors
    /// With the last lines of the log of a program that fails.
    pub fn start(
        e: &Experiment,
        network: &Network,
        scheme: &Scheme,
        external: &External,
        folder: &Path,
    ) -> Result<Self> {
        let to = external.listens;
        let port = NEXT_PORT.fetch_add(1, Ordering::Relaxed);
        let mut programs = Self {
            running: Vec::new(),
            way: match scheme.interception {
                Interception::Socks5 => Way::Socks5(to.to_string()),
                Interception::Http => Way::Http(to.to_string()),
                Interception::None | Interception::Transparent => Way::Forwarded(to),
            },
        };
        let commands = [
            (Role::Proxy, external.proxy.as_ref()),
            (Role::Primary, Some(&external.primary)),
        ];
        for (role, command) in commands {
            if let Some(command) = command {
                programs.launch(e, network, role, command, port, folder)?;
            }
        }
        let uses_port = |command: &Vec<String>| command.iter().any(|w| w.contains("{port}"));
        if external.proxy.as_ref().is_some_and(uses_port) {
            programs.wait_for_listener(network.host_in(Role::Proxy)?, port)?;
        }
        programs.wait_for_listener(network.host_in(Role::Primary)?, to.port())?;
        Ok(programs)
    }

    /// The client's way into the programs.
    pub fn way(&self) -> &Way {
        &self.way
    }

    /// The last lines of every program's log.
    pub fn log_tails(&self) -> String {
        let tails = self.running.iter().map(|p| log_tail(&p.host, &p.log));
        tails.collect()
    }

    fn launch(
        &mut self,
        e: &Experiment,
        network: &Network,
        role: Role,
        command: &[String],
        port: u16,
        folder: &Path,
    ) -> Result<()> {
        let host = network.host_in(role)?;
        let primary = e.host(Role::Primary).name.get_ref();
        let address = |name: &str| {
            let address = match name {
                "port" => return Some(port.to_string()),
                "proxy" => e.host(Role::Proxy).address,
                "origin" => e.host(Role::Origin).address,
                link => network.address(primary, link),
            };
            address.map(|address| address.to_string())
        };
        let mut words = command.iter().map(|word| with_addresses(word, address));
        let program = words.next().unwrap_or_default();
        let log = folder.join(format!("{}.log", host.name()));
        let output = File::create(&log).at("write", &log)?;
        let child = host
            .command(&program)
            .args(words)
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(output.try_clone().at("write", &log)?)
            .stderr(output)
            .spawn()
            .doing(format_args!("cannot start {program}"))?;
        self.running.push(Program {
            host: host.name().to_owned(),
            child,
            log,
        });
        Ok(())
    }

    fn wait_for_listener(&mut self, host: &Host, port: u16) -> Result<()> {
        let deadline = Instant::now() + START_LIMIT;
        loop {
            let ended = self.running.iter_mut().find_map(|program| {
                let status = program.child.try_wait().ok()??;
                Some((program.host.clone(), status))
            });
            if let Some((host, status)) = ended {
                let tails = self.log_tails();
                return Err(Error::run(format!(
                    "the program on {host} ended: {status}\n{tails}"
                )));
            }
            let listens = host.enter(|| {
                let tables = ["/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"];
                let mut tables = tables.iter().flat_map(std::fs::read_to_string);
                tables.any(|table| has_listener(&table, port))
            })?;
            if listens {
                return Ok(());
            }
            if Instant::now() > deadline {
                let tails = self.log_tails();
                return Err(Error::run(format!(
                    "nothing listens on port {port} of {}\n{tails}",
                    host.name()
                )));
            }
            std::thread::sleep(POLL);
        }
    }
}

/// Whether a table of the kernel's TCP sockets (`/proc/net/tcp`) has a listener on `port`.
fn has_listener(table: &str, port: u16) -> bool {
    const LISTEN: &str = "0A";
    table.lines().skip(1).any(|line| {
        let mut columns = line.split_whitespace().skip(1);
        let (local, _, state) = (columns.next(), columns.next(), columns.next());
        let own = local.and_then(|local| u16::from_str_radix(local.rsplit(':').next()?, 16).ok());
        own == Some(port) && state == Some(LISTEN)
    })
}

impl Drop for Programs {
    fn drop(&mut self) {
        for program in &self.running {
            let pid = Pid::from_raw(program.child.id() as i32);
            let _ = kill(pid, Signal::SIGTERM);
        }
        let deadline = Instant::now() + STOP_LIMIT;
        for program in &mut self.running {
            while matches!(program.child.try_wait(), Ok(None)) && Instant::now() < deadline {
                std::thread::sleep(POLL);
            }
            let _ = program.child.kill();
            let _ = program.child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_is_found_by_its_port() {
        let table = "  sl  local_address rem_address   st\n   \
                     0: 0100007F:1F90 00000000:0000 0A 0\n   \
                     1: 0100007F:1F91 0100007F:1F90 01 0\n";
        assert!(has_listener(table, 8080));
        // A connection is none.
        assert!(!has_listener(table, 8081));
        assert!(!has_listener("", 8080));
    }
}
