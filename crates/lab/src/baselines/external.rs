//! Programs of a scheme `external` in their hosts: starting and stopping.

use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::daemons::log_tail;
use crate::error::{Doing, Error, Result};
use crate::experiment::{Experiment, External, Interception, Role, Scheme, with_addresses};
use crate::network::host::Host;
use crate::network::wiring::Network;
use crate::transfer::client::Way;

/// `{port}` of the next start.
static NEXT_PORT: AtomicU16 = AtomicU16::new(20_000);
/// Time limit from the start of a program until it listens.
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
    /// Starts the programs of `scheme`, with logs in `folder`, and waits until they listen: the
    /// proxy's before the primary's is started, which may connect to it at once.
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
        if let Some(command) = &external.proxy {
            programs.launch(e, network, Role::Proxy, command, port, folder)?;
            let uses_port = command.iter().any(|word| word.contains("{port}"));
            if let Some(address) = e.host(Role::Proxy).address.filter(|_| uses_port) {
                let address = SocketAddrV4::new(address, port);
                programs.wait_for_listener(network.host_in(Role::Proxy)?, address)?;
            }
        }
        programs.launch(e, network, Role::Primary, &external.primary, port, folder)?;
        programs.wait_for_listener(network.host_in(Role::Primary)?, to)?;
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
        let mut command = host.command(&program);
        command
            .args(words)
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(output.try_clone().at("write", &log)?)
            .stderr(output);
        let child = in_a_group(&mut command).doing(format_args!("cannot start {program}"))?;
        self.running.push(Program {
            host: host.name().to_owned(),
            child,
            log,
        });
        Ok(())
    }

    fn wait_for_listener(&mut self, host: &Host, address: SocketAddrV4) -> Result<()> {
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
                tables.any(|table| has_listener(&table, address))
            })?;
            if listens {
                return Ok(());
            }
            if Instant::now() > deadline {
                let tails = self.log_tails();
                return Err(Error::run(format!(
                    "nothing listens on {address} of {}\n{tails}",
                    host.name()
                )));
            }
            std::thread::sleep(POLL);
        }
    }
}

/// Starts a program in a process group of its own, with the processes that it starts.
fn in_a_group(command: &mut Command) -> io::Result<Child> {
    command.process_group(0).spawn()
}

/// Whether a table of the kernel's TCP sockets (`/proc/net/tcp`, `/proc/net/tcp6`) has a listener
/// to which connections to `address` lead: on this address or on all.
fn has_listener(table: &str, address: SocketAddrV4) -> bool {
    const LISTEN: &str = "0A";
    table.lines().skip(1).any(|line| {
        let mut columns = line.split_whitespace().skip(1);
        let (local, _, state) = (columns.next(), columns.next(), columns.next());
        let is_it = local.and_then(|local| {
            let (of, port) = local.split_once(':')?;
            let port = u16::from_str_radix(port, 16).ok()?;
            Some(port == address.port() && covers(of, *address.ip())?)
        });
        is_it == Some(true) && state == Some(LISTEN)
    })
}

/// Whether `local`, an address in hexadecimal digits as in `/proc/net/tcp`, is `address` or stands
/// for all; `None` when it is no address.
fn covers(local: &str, address: Ipv4Addr) -> Option<bool> {
    // 32 bits at a time, in the machine's order of octets.
    let word = |nth: usize| {
        let digits = local.get(8 * nth..8 * nth + 8)?;
        u32::from_str_radix(digits, 16).ok().map(u32::to_ne_bytes)
    };
    let own = match local.len() {
        8 => Ipv4Addr::from(word(0)?),
        32 => {
            let [a, b, c, d] = [word(0)?, word(1)?, word(2)?, word(3)?];
            let octets = [a, b, c, d].concat();
            let own = Ipv6Addr::from(<[u8; 16]>::try_from(octets).ok()?);
            if own.is_unspecified() {
                return Some(true);
            }
            own.to_ipv4_mapped()?
        }
        _ => return None,
    };
    Some(own == address || own.is_unspecified())
}

impl Drop for Programs {
    fn drop(&mut self) {
        let group = |program: &Program| Pid::from_raw(program.child.id() as i32);
        for program in &self.running {
            let _ = killpg(group(program), Signal::SIGTERM);
        }
        let deadline = Instant::now() + STOP_LIMIT;
        for program in &mut self.running {
            while matches!(program.child.try_wait(), Ok(None)) && Instant::now() < deadline {
                std::thread::sleep(POLL);
            }
            // Processes that it started may have survived it.
            let _ = killpg(group(program), Signal::SIGKILL);
            let _ = program.child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read};
    use std::net::TcpListener;
    use std::sync::mpsc;

    use super::*;

    /// A table with one socket, as the kernel of this machine writes it.
    fn table(local: [u8; 4], port: u16, state: &str) -> String {
        let local = u32::from_ne_bytes(local);
        format!("  sl  local_address st\n   0: {local:08X}:{port:04X} 00000000:0000 {state} 0\n")
    }

    #[test]
    fn a_listener_is_found_by_its_address() {
        let address = "127.0.0.1:8080".parse().unwrap();
        assert!(has_listener(&table([127, 0, 0, 1], 8080, "0A"), address));
        assert!(has_listener(&table([0; 4], 8080, "0A"), address));
        // A connection, another port, another address.
        assert!(!has_listener(&table([127, 0, 0, 1], 8080, "01"), address));
        assert!(!has_listener(&table([127, 0, 0, 1], 8081, "0A"), address));
        assert!(!has_listener(&table([10, 0, 0, 1], 8080, "0A"), address));
        assert!(!has_listener("", address));
    }

    /// The kernel's own tables.
    #[test]
    fn listeners_of_both_families_are_found() {
        let port = |listener: &TcpListener| listener.local_addr().unwrap().port();
        let found = |file: &str, address: [u8; 4], port: u16| {
            let table = std::fs::read_to_string(file).unwrap();
            has_listener(&table, SocketAddrV4::new(address.into(), port))
        };
        let one = TcpListener::bind("127.0.0.7:0").unwrap();
        assert!(found("/proc/self/net/tcp", [127, 0, 0, 7], port(&one)));
        assert!(!found("/proc/self/net/tcp", [127, 0, 0, 8], port(&one)));
        for (bound, other) in [("[::]:0", true), ("[::ffff:127.0.0.7]:0", false)] {
            let Ok(listener) = TcpListener::bind(bound) else {
                continue; // no IPv6
            };
            let port = port(&listener);
            assert!(
                found("/proc/self/net/tcp6", [127, 0, 0, 7], port),
                "{bound}"
            );
            let others = found("/proc/self/net/tcp6", [127, 0, 0, 8], port);
            assert_eq!(others, other, "{bound}");
        }
    }

    #[test]
    fn processes_that_a_program_started_end_with_it() {
        // Each holds the output open until it ends.
        let mut command = Command::new("sh");
        let script = "sleep 300 & (trap '' TERM; sleep 300) & echo started; wait";
        command.args(["-c", script]).stdout(Stdio::piped());
        let mut child = in_a_group(&mut command).unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert_eq!(line, "started\n");
        drop(Programs {
            running: vec![Program {
                host: "primary".to_owned(),
                child,
                log: PathBuf::new(),
            }],
            way: Way::Http(String::new()),
        });
        let (ended, all_ended) = mpsc::channel();
        std::thread::spawn(move || ended.send(output.read_to_end(&mut Vec::new()).is_ok()));
        let limit = Duration::from_secs(60);
        assert_eq!(all_ended.recv_timeout(limit), Ok(true));
    }
}
