//! Installation of rules through a guard process that removes them when the daemon dies.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::IpAddr;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tracing::{debug, warn};

use super::check::check;
use super::config::{Method, RulesConfig};
use super::error::RulesError;
use super::family::Family;
use super::guard_time::{GUARD_TIME, LOOK_EVERY};
use super::interface;
use super::owner::Owner;
use super::routing::{self, Slot};
use super::script::script;
use super::stale::{self, remove_routing};
use super::tables::Tables;
use super::tools::{MAX_COMPLAINT_BYTES, batch, one_line, run};

/// The guard. `$1` is the nftables table; the others are batches of `ip`: `$2` (IPv4) and `$3`
/// (IPv6) remove the routing rules that lead to the interface, `$4` and `$5` all; `$6` is the
/// process that intercepted before, if this daemon has taken over. It ignores signals, which are
/// meant for the daemon, and exits at the end of its standard input. Its standard error is the
/// descriptor of the interface, which exists as long as the guard's processes. A nonexistent home
/// directory keeps `nft -i` from writing a history file.
///
/// Only two lines of the input, the script and [`SENTINEL`], reach `nft`: later input of a daemon
/// that has dropped its privileges must not be executed with those of the guard. The end of the
/// input signals the end of the daemon. Then the rules that lead to the interface go first, so
/// that it gets no connection that is not intercepted, and those of TPROXY last, so that marked
/// packets, which pass a kill switch, do not leave the host; the function `feed` keeps the pipe to
/// `nft` open meanwhile. Without [`STOPPED`] as the last line, the daemon has been killed: its last
/// packets reset applications' connections, as do those of the process before it, and the interface
/// has their address until both have ended. If `nft` exits first, USR1 ends `tail` and with it the
/// guard, which the daemon notices.
const GUARD: &str = r#"
trap '' HUP INT TERM
trap : USR1
exec 3>&2 2>&1
routing() {
    printf %s "$1" | ip -4 -force -batch - >/dev/null 2>&1
    printf %s "$2" | ip -6 -force -batch - >/dev/null 2>&1
}
runs() {
    case $(cat "/proc/$1/stat" 2>/dev/null) in
        '' | *') Z '*) false ;;
        *) true ;;
    esac
}
feed() {
    trap stopped=yes USR1
    head -n 2
    stopped=$(tail -n 1)
    routing "$2" "$3"
    tries=100
    until [ -n "$stopped" ] || [ "$tries" = 0 ] || ! { runs "$PPID" || runs "${6:-$PPID}"; }; do
        sleep 0.02
        tries=$((tries - 1))
    done
}
feed "$@" | {
    trap : USR1
    HOME=/nonexistent nft -i
    nft delete table inet "$1" >/dev/null 2>&1
    routing "$4" "$5"
    kill -USR1 0
}
"#;

/// Last line of the input of a daemon that is not killed.
const STOPPED: &[u8] = b"stopped\n";

/// A command whose output contains text that no command before it prints: marks the completion of
/// the commands before it.
const SENTINEL: &str = "describe ip ttl\n";
const SENTINEL_ANSWER: &str = "payload expression";

/// Installed rules. See the [module](super) for their lifetime.
#[derive(Debug)]
pub struct Rules {
    table: String,
    guard: Child,
    /// Closed to remove the rules.
    commands: Option<ChildStdin>,
    /// Kept open until then: `nft -i` must not be killed by a broken pipe.
    answers: Option<BufReader<ChildStdout>>,
    /// Addresses of the interface, or the reason why there is none.
    interface: Result<Vec<IpAddr>, RulesError>,
}

impl Rules {
    /// The nft commands that [`install`](Self::install) would execute, one per line, for display.
    ///
    /// # Errors
    /// When the configuration is invalid.
    pub fn script(config: &RulesConfig, owner: Owner) -> Result<String, RulesError> {
        check(config)?;
        Ok(script(config, &[], &owner.table(), true))
    }

    /// Installs the rules. Blocks for some tens of milliseconds.
    ///
    /// # Errors
    /// [`RulesError`]; no rules remain then.
    pub fn install(config: &RulesConfig) -> Result<Self, RulesError> {
        Self::install_with(config, None)
    }

    /// Installs the rules beside those of another process, which goes on intercepting until its
    /// [`begin_removal`](Self::begin_removal).
    ///
    /// # Errors
    /// [`RulesError`]; none of these rules remain then, and the other ones are as they were.
    pub fn install_beside(config: &RulesConfig, other: u32) -> Result<Self, RulesError> {
        Self::install_with(config, Some(other))
    }

    fn install_with(config: &RulesConfig, other: Option<u32>) -> Result<Self, RulesError> {
        check(config)?;
        no_one_but(other)?;
        let mut slots = match other {
            Some(_) => Slot::BOTH.to_vec(),
            None => vec![Slot::First],
        };
        // The other process may have routing rules in a slot whose interface it lacks.
        if other.is_some() && stale::unused_slot(config)? == Slot::Second {
            slots.reverse();
        }
        // Both wait for the end of an earlier guard, which still removes rules.
        if config.interface && other.is_none() {
            interface::wait_until_free(Slot::Second);
        }
        let created = config.interface.then(|| interface::create(&slots));
        let (slot, created) = match created {
            Some(Ok((slot, held))) => (slot, Some(Ok(held))),
            Some(Err(e)) => (stale::unused_slot(config)?, Some(Err(e))),
            None => (stale::unused_slot(config)?, None),
        };
        Tables::read()?.remove_dead()?;
        match other {
            Some(_) => remove_routing(config, &[slot]),
            None => remove_routing(config, &Slot::BOTH),
        }
        let owner = Owner::current()?;
        let table = owner.table();
        let (interface, held) = match created {
            Some(Ok(held)) => (interface::set_up(config, slot), Some(held)),
            Some(Err(e)) => (Err(e), None),
            None => (Ok(Vec::new()), None),
        };
        let families = interface.as_deref().unwrap_or_default();
        let addresses: Vec<_> = families.iter().map(|family| family.address()).collect();
        let text = script(config, &addresses, &table, true);
        let text = match check_script(&text) {
            Ok(()) => text,
            // A kernel before 5.12 does not support owners. If that is not the reason, the error of
            // the simpler script is clearer.
            Err(_) => {
                let simple = script(config, &addresses, &table, false);
                check_script(&simple)?;
                simple
            }
        };
        let mut rules = Self::start_guard(config, slot, table, held, other)?;
        if config.method == Method::Tproxy {
            for family in Family::intercepted(config) {
                batch(*family, &routing::tproxy(config, slot, *family))?;
            }
        }
        rules.load(&text)?;
        rules.interface = interface.and_then(|families| {
            interface::lead_to(config, slot, &families)?;
            Ok(addresses)
        });
        Ok(rules)
    }

    /// Addresses of the interface, if one is configured: a stub and, unless
    /// [`Method::Tproxy`] is used, a front have to listen there for other hosts, with sockets that
    /// have the own mark: without it, their answers would be routed as those of applications.
    ///
    /// # Errors
    /// The reason why there is none: connections end when the address of another interface does.
    pub fn addresses(&self) -> Result<&[IpAddr], &RulesError> {
        self.interface.as_deref()
    }

    /// The table's name in nft's family `inet`.
    pub fn table(&self) -> &str {
        &self.table
    }

    /// Whether the guard is running. If it has been killed, drop these rules and install them
    /// again.
    pub fn in_force(&mut self) -> bool {
        matches!(self.guard.try_wait(), Ok(None))
    }

    /// Begins to remove the rules, and does not wait: for a process beside whose rules another one
    /// has [installed](Self::install_beside) its own.
    pub fn begin_removal(&mut self) {
        if let Some(mut commands) = self.commands.take() {
            // Fails where the guard has gone already.
            let _ = commands.write_all(STOPPED);
        }
    }

    /// Removes the rules and waits until they are removed, as dropping does.
    pub fn remove(self) {
        drop(self);
    }

    fn start_guard(
        config: &RulesConfig,
        slot: Slot,
        table: String,
        interface: Option<File>,
        other: Option<u32>,
    ) -> Result<Self, RulesError> {
        // One that adds no routing rules removes none: those of this slot may be a successor's.
        let adds_rules = interface.is_some() || config.method == Method::Tproxy;
        let if_any = |commands: String| if adds_rules { commands } else { String::new() };
        let first =
            Family::BOTH.map(|family| if_any(routing::away_from_interface(config, slot, family)));
        let last = Family::BOTH.map(|family| if_any(routing::removal(config, slot, family)));
        let mut guard = Command::new("sh")
            .args(["-c", GUARD, "mpbond-rules", &table])
            .args(first.iter().chain(&last))
            .arg(other.map(|process| process.to_string()).unwrap_or_default())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(interface.map_or_else(Stdio::null, Stdio::from))
            // Ctrl-C at a terminal signals a whole process group.
            .process_group(0)
            .spawn()
            .map_err(|cause| RulesError::Missing { tool: "sh", cause })?;
        let broken = || RulesError::Io(io::ErrorKind::BrokenPipe.into());
        let commands = Some(guard.stdin.take().ok_or_else(broken)?);
        let answers = Some(BufReader::new(guard.stdout.take().ok_or_else(broken)?));
        Ok(Self {
            table,
            guard,
            commands,
            answers,
            interface: Ok(Vec::new()),
        })
    }

    /// Sends the script to `nft -i`, which executes each line as a transaction.
    fn load(&mut self, text: &str) -> Result<(), RulesError> {
        let (Some(commands), Some(answers)) = (&mut self.commands, &mut self.answers) else {
            return Err(RulesError::Io(io::ErrorKind::BrokenPipe.into()));
        };
        let line = text.trim_end().replace('\n', "; ");
        commands.write_all(format!("{line}\n{SENTINEL}").as_bytes())?;
        let mut complaint = String::new();
        let mut answers = answers.take(MAX_COMPLAINT_BYTES + line.len() as u64 * 2);
        loop {
            let mut answer = String::new();
            let ended = answers.read_line(&mut answer)? == 0;
            if answer.contains(SENTINEL_ANSWER) && complaint.is_empty() {
                return Ok(());
            }
            if ended || answer.contains(SENTINEL_ANSWER) {
                return Err(RulesError::Refused {
                    tool: "nft -i",
                    complaint: one_line(complaint.as_bytes()),
                });
            }
            complaint.push_str(&answer);
        }
    }
}

impl Drop for Rules {
    fn drop(&mut self) {
        self.begin_removal();
        drop(self.answers.take());
        let deadline = Instant::now() + GUARD_TIME;
        loop {
            match self.guard.try_wait() {
                Ok(Some(_)) => return debug!(table = %self.table, "rules removed"),
                Ok(None) if Instant::now() < deadline => sleep(Duration::from_millis(5)),
                Ok(None) | Err(_) => break,
            }
        }
        warn!(table = %self.table, "the guard of the nft rules does not exit; no longer waiting");
    }
}

/// Fails while a process intercepts. With the exception of one, waits for others, which may be
/// those before that one: their guards still remove rules.
fn no_one_but(exception: Option<u32>) -> Result<(), RulesError> {
    let deadline = Instant::now() + GUARD_TIME;
    loop {
        let tables = Tables::read()?;
        let mut others = tables.living.iter();
        let Some(owner) = others.find(|owner| Some(owner.pid) != exception) else {
            return Ok(());
        };
        if exception.is_none() || Instant::now() > deadline {
            return Err(RulesError::Busy(*owner));
        }
        sleep(LOOK_EVERY);
    }
}

/// A dry run in the kernel, whose error messages name the line.
fn check_script(text: &str) -> Result<(), RulesError> {
    run("nft", &["-c", "-f", "-"], Some(text)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: Owner = Owner {
        pid: 1,
        start_ticks: 2,
    };

    #[test]
    fn scripts_are_shown_of_possible_configurations_only() {
        let text = Rules::script(&RulesConfig::new(1), OWNER).unwrap();
        assert!(text.starts_with("add table inet mpbond_1_2 { flags owner; }\n"));
        let mut config = RulesConfig::new(1);
        config.own_mark = 0;
        let error = Rules::script(&config, OWNER).unwrap_err();
        assert!(matches!(error, RulesError::Marks));
    }
}
