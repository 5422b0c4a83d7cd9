//! Installation of rules through a guard process that removes them when the daemon dies.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::IpAddr;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tracing::{debug, warn};

use super::interface;
use super::owner::Owner;
use super::routing::{self, ALL_TABLES, Family, Slot};
use super::script::script;
use super::{Method, RulesConfig, stale};

/// Smallest number of the first routing table: smaller ones may be the system's.
const MIN_ROUTE_TABLE: u32 = 256;
/// Numbers from here on leave no room for all tables.
const NO_ROUTE_TABLE: u32 = u32::MAX - ALL_TABLES;
const MAX_ROUTE_TABLE: u32 = NO_ROUTE_TABLE - 1;

/// Maximum length of an interface name in bytes (IFNAMSIZ without the terminating zero).
const MAX_INTERFACE_BYTES: usize = 15;

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

/// Maximum time to wait for the guard to clean up.
pub(super) const GUARD_TIME: Duration = Duration::from_secs(3);

/// Interval at which the rules or the interface of an earlier guard are looked at.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Maximum length of a tool's error message in bytes.
const MAX_COMPLAINT_BYTES: u64 = 2000;

/// Error of installing or inspecting rules.
#[derive(Debug, thiserror::Error)]
pub enum RulesError {
    /// `nft`, `ip` or `sh` cannot be run.
    #[error("cannot run {tool}: {cause}; transparent interception needs nftables and iproute2")]
    Missing {
        /// Name of the program.
        tool: &'static str,
        /// Error of the operating system.
        cause: io::Error,
    },
    /// The tool failed; most often for lack of CAP_NET_ADMIN.
    #[error("{tool} failed: {complaint}")]
    Refused {
        /// Name of the program.
        tool: &'static str,
        /// Its error message, on one line.
        complaint: String,
    },
    /// Another daemon is intercepting this host's traffic.
    #[error("{0} is already intercepting connections on this host; stop it first")]
    Busy(Owner),
    /// Not a valid interface name.
    #[error("{0:?} is not a valid interface name")]
    Interface(String),
    /// The interface cannot be created.
    #[error("cannot create the interface {name}: {cause}")]
    Tun {
        /// Its name.
        name: &'static str,
        /// Error of the operating system.
        cause: io::Error,
    },
    /// `own_mark` and `route_mark` are the same, or one is zero.
    #[error("own_mark and route_mark must be two different marks, neither of them zero")]
    Marks,
    /// A routing table that is or may be the system's own (`rt_tables` names 0 and 253 to 255): the
    /// table is flushed.
    #[error("route_table must be 256 to {MAX_ROUTE_TABLE}, not {0}")]
    RouteTable(u32),
    /// `/proc` or a pipe failed.
    #[error("cannot set up the rules: {0}")]
    Io(io::Error),
}

impl From<io::Error> for RulesError {
    fn from(cause: io::Error) -> Self {
        Self::Io(cause)
    }
}

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

/// Rejects values that would alter the script or conflict with the system.
pub(super) fn check(config: &RulesConfig) -> Result<(), RulesError> {
    for name in &config.forwarded {
        let good = |b: u8| b.is_ascii_alphanumeric() || b"_-.@:".contains(&b);
        let fits = (1..=MAX_INTERFACE_BYTES).contains(&name.len());
        if !fits || !name.bytes().all(good) {
            return Err(RulesError::Interface(name.clone()));
        }
    }
    let marks = [config.own_mark, config.route_mark];
    if marks.contains(&0) || config.own_mark == config.route_mark {
        return Err(RulesError::Marks);
    }
    match config.route_table {
        ..MIN_ROUTE_TABLE | NO_ROUTE_TABLE.. => Err(RulesError::RouteTable(config.route_table)),
        _ => Ok(()),
    }
}

/// The tables of mpbond, found by name.
pub(super) struct Tables {
    pub(super) living: Vec<Owner>,
    pub(super) dead: Vec<Owner>,
}

impl Tables {
    pub(super) fn read() -> Result<Self, RulesError> {
        let text = run("nft", &["list", "tables", "inet"], None)?;
        let names = text
            .lines()
            .filter_map(|line| line.strip_prefix("table inet "));
        let (living, dead) = names
            .filter_map(Owner::from_table)
            .partition(Owner::is_alive);
        Ok(Self { living, dead })
    }

    pub(super) fn remove_dead(&self) -> Result<(), RulesError> {
        for owner in &self.dead {
            warn!(%owner, "removing stale nft rules of a dead process");
            run("nft", &["delete", "table", "inet", &owner.table()], None)?;
        }
        Ok(())
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

/// Runs a batch of `ip`.
pub(super) fn batch(family: Family, text: &str) -> Result<(), RulesError> {
    run("ip", &[family.option(), "-batch", "-"], Some(text)).map(drop)
}

/// Removes the routing rules of earlier processes that were killed together with their guards.
pub(super) fn remove_routing(config: &RulesConfig, slots: &[Slot]) {
    for slot in slots {
        for family in Family::BOTH {
            try_batch(family, &routing::removal(config, *slot, family));
        }
    }
}

/// Runs a batch of `ip`, each command of which may fail: where there is nothing to be removed.
pub(super) fn try_batch(family: Family, text: &str) {
    let arguments = [family.option(), "-force", "-batch", "-"];
    let _ = run("ip", &arguments, Some(text));
}

/// Runs a tool and returns its standard output.
pub(super) fn run(
    tool: &'static str,
    arguments: &[&str],
    input: Option<&str>,
) -> Result<String, RulesError> {
    let stdin = match input {
        Some(_) => Stdio::piped(),
        None => Stdio::null(),
    };
    let mut child = Command::new(tool)
        .args(arguments)
        .stdin(stdin)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|cause| RulesError::Missing { tool, cause })?;
    if let (Some(text), Some(mut stdin)) = (input, child.stdin.take()) {
        // If a tool fails early, its own error message is better than EPIPE. Scripts are much
        // shorter than the pipe's capacity.
        if let Err(error) = stdin.write_all(text.as_bytes()) {
            debug!(tool, %error, "tool did not read all of its input");
        }
    }
    let output = child.wait_with_output()?;
    if !output.status.success() {
        let complaint = one_line(&output.stderr);
        return Err(RulesError::Refused { tool, complaint });
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Joins an error message of several lines, without the markers under its words.
fn one_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<_> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.chars().all(|c| "^~ ".contains(c)))
        .collect();
    let mut line = lines.join(" / ");
    if line.len() > MAX_COMPLAINT_BYTES as usize {
        line = line.chars().take(MAX_COMPLAINT_BYTES as usize).collect();
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: Owner = Owner {
        pid: 1,
        start_ticks: 2,
    };

    #[test]
    fn impossible_configurations() {
        for name in ["", "a b", "x\"; drop", "lan0\n", "sixteen-letters-"] {
            let mut config = RulesConfig::new(1);
            config.forwarded = vec![name.into()];
            let error = Rules::script(&config, OWNER).unwrap_err();
            assert!(matches!(error, RulesError::Interface(n) if n == name));
        }
        for (own_mark, route_mark) in [(0, 1), (1, 0), (7, 7)] {
            let mut config = RulesConfig::new(1);
            (config.own_mark, config.route_mark) = (own_mark, route_mark);
            let error = Rules::script(&config, OWNER).unwrap_err();
            assert!(matches!(error, RulesError::Marks));
        }
        let mut config = RulesConfig::new(1);
        config.route_table = 254;
        let error = Rules::script(&config, OWNER).unwrap_err();
        assert!(matches!(error, RulesError::RouteTable(254)));
        let text = Rules::script(&RulesConfig::new(1), OWNER).unwrap();
        assert!(text.starts_with("add table inet mpbond_1_2 { flags owner; }\n"));
    }

    #[test]
    fn complaints_fit_a_line() {
        let text = b"/dev/stdin:3:1-4: Error: No such file\nadd rule\n   ^^^^~~\n\n";
        assert_eq!(
            one_line(text),
            "/dev/stdin:3:1-4: Error: No such file / add rule"
        );
        assert_eq!(one_line(&[b'x'; 9000]).len(), MAX_COMPLAINT_BYTES as usize);
    }
}
