//! Installation of rules through a guard process that removes them when the daemon dies.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tracing::{debug, warn};

use super::owner::Owner;
use super::script::script;
use super::{Ipv6, Method, RulesConfig};

/// Preference of the routing rules: after the table `local` (0), so that this host's own addresses
/// stay local, and before the main table's.
pub(super) const RULE_PREFERENCE: &str = "9000";

/// Maximum length of an interface name in bytes (IFNAMSIZ without the terminating zero).
const MAX_INTERFACE_BYTES: usize = 15;

/// The guard. `$1` is the nftables table, `$2` the routing table and `$3` its mark, both empty
/// without TPROXY, `$4` the rule preference. It ignores signals, which are meant for the daemon,
/// and exits at the end of its standard input. A nonexistent home directory keeps `nft -i` from
/// writing a history file.
///
/// Only two lines of the input, the script and [`SENTINEL`], reach `nft`: later input of a daemon
/// that has dropped its privileges must not be executed with those of the guard. The end of the
/// input signals the end of the daemon; until then `cat` keeps the pipe to `nft` open as descriptor
/// 4. If `nft` exits first, the last line ends the guard, which the daemon notices.
const GUARD: &str = r#"
trap '' HUP INT TERM
exec 2>&1
{ head -n 2; exec cat 4>&1 >/dev/null; } | {
    HOME=/nonexistent nft -i
    nft delete table inet "$1" >/dev/null 2>&1
    if [ -n "$2" ]; then
        for family in -4 -6; do
            ip "$family" rule del pref "$4" fwmark "$3" lookup "$2" >/dev/null 2>&1
            ip "$family" route flush table "$2" >/dev/null 2>&1
        done
    fi
    kill -KILL $$
}
"#;

/// A command whose output contains text that no command before it prints: marks the completion of
/// the commands before it.
const SENTINEL: &str = "describe ip ttl\n";
const SENTINEL_ANSWER: &str = "payload expression";

/// Maximum time to wait for the guard to clean up.
const GUARD_TIME: Duration = Duration::from_secs(3);

/// Maximum length of a tool's error message in bytes.
const MAX_COMPLAINT_BYTES: u64 = 2000;

/// Error of installing or inspecting rules.
#[derive(Debug, thiserror::Error)]
pub enum RulesError {
    /// `nft`, `ip` or `sh` cannot be run.
    #[error("cannot run {tool}: {source}; transparent interception needs nftables and iproute2")]
    Missing {
        /// Name of the program.
        tool: &'static str,
        /// Error of the operating system.
        source: io::Error,
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
    /// `own_mark` and `route_mark` are the same, or one is zero.
    #[error("own_mark and route_mark must be two different marks, neither of them zero")]
    Marks,
    /// A routing table that is or may be the system's own (`rt_tables` names 0 and 253 to 255): the
    /// table is flushed.
    #[error("route_table must be 256 or more, not {0}")]
    RouteTable(u32),
    /// `/proc` or a pipe failed.
    #[error("cannot set up the rules: {0}")]
    Io(#[from] io::Error),
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
}

impl Rules {
    /// The nft commands that [`install`](Self::install) would execute, one per line, for display.
    ///
    /// # Errors
    /// When the configuration is invalid.
    pub fn script(config: &RulesConfig, owner: Owner) -> Result<String, RulesError> {
        check(config)?;
        Ok(script(config, &owner.table(), true))
    }

    /// Installs the rules. Blocks for some tens of milliseconds.
    ///
    /// # Errors
    /// [`RulesError`]; no rules remain then.
    pub fn install(config: &RulesConfig) -> Result<Self, RulesError> {
        check(config)?;
        let tables = Tables::read()?;
        if let Some(owner) = tables.living.first() {
            return Err(RulesError::Busy(*owner));
        }
        tables.remove_dead()?;
        remove_routing(config);
        let owner = Owner::current()?;
        let table = owner.table();
        let text = match check_script(&script(config, &table, true)) {
            Ok(()) => script(config, &table, true),
            // A kernel before 5.12 does not support owners. If that is not the reason, the error of
            // the simpler script is clearer.
            Err(_) => {
                let simple = script(config, &table, false);
                check_script(&simple)?;
                simple
            }
        };
        let mut rules = Self::start_guard(config, table)?;
        if config.method == Method::Tproxy {
            route_marked(config)?;
        }
        rules.load(&text)?;
        Ok(rules)
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

    /// Removes the rules and waits until they are removed, as dropping does.
    pub fn remove(self) {
        drop(self);
    }

    fn start_guard(config: &RulesConfig, table: String) -> Result<Self, RulesError> {
        let (route_table, mark) = match config.method {
            Method::Redirect => (String::new(), String::new()),
            Method::Tproxy => (config.route_table.to_string(), mark(config)),
        };
        let mut guard = Command::new("sh")
            .args(["-c", GUARD, "mpbond-rules", &table, &route_table, &mark])
            .arg(RULE_PREFERENCE)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // Ctrl-C at a terminal signals a whole process group.
            .process_group(0)
            .spawn()
            .map_err(|source| RulesError::Missing { tool: "sh", source })?;
        let broken = || RulesError::Io(io::ErrorKind::BrokenPipe.into());
        let commands = Some(guard.stdin.take().ok_or_else(broken)?);
        let answers = Some(BufReader::new(guard.stdout.take().ok_or_else(broken)?));
        Ok(Self {
            table,
            guard,
            commands,
            answers,
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
        drop(self.commands.take());
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
        0..=255 => Err(RulesError::RouteTable(config.route_table)),
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

/// A dry run in the kernel, whose error messages name the line.
fn check_script(text: &str) -> Result<(), RulesError> {
    run("nft", &["-c", "-f", "-"], Some(text)).map(drop)
}

/// Adds routes that deliver marked packets to this host.
fn route_marked(config: &RulesConfig) -> Result<(), RulesError> {
    let (table, mark) = (config.route_table.to_string(), mark(config));
    let families: &[(&str, &str)] = match config.ipv6 {
        Ipv6::Intercept => &[("-4", "0.0.0.0/0"), ("-6", "::/0")],
        Ipv6::Reject => &[("-4", "0.0.0.0/0")],
    };
    for (family, everything) in families {
        let route = ["route", "replace", "local", everything, "dev", "lo"];
        let route = [&[*family], &route[..], &["table", &table]].concat();
        run("ip", &route, None)?;
        run("ip", &routing_rule(family, "add", &mark, &table), None)?;
    }
    Ok(())
}

/// Removes the routing rules of an earlier process that was killed together with its guard.
pub(super) fn remove_routing(config: &RulesConfig) {
    let (table, mark) = (config.route_table.to_string(), mark(config));
    for family in ["-4", "-6"] {
        // Fails when none is left, or `ip` cannot be run.
        while run("ip", &routing_rule(family, "del", &mark, &table), None).is_ok() {}
        let _ = run("ip", &[family, "route", "flush", "table", &table], None);
    }
}

fn routing_rule<'a>(family: &'a str, verb: &'a str, mark: &'a str, table: &'a str) -> [&'a str; 9] {
    let (pref, fwmark) = (RULE_PREFERENCE, "fwmark");
    [
        family, "rule", verb, "pref", pref, fwmark, mark, "lookup", table,
    ]
}

pub(super) fn mark(config: &RulesConfig) -> String {
    format!("{:#x}", config.route_mark)
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
        .map_err(|source| RulesError::Missing { tool, source })?;
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
