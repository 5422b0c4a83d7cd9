//! The baseline `kibbutz`: the kernel's own Multipath TCP over tethering, which
//! MPBond's section 6 compares with.
//!
//! The helper forwards packets towards its own path and translates their
//! addresses. The primary has the pipe's address as a second end point, with
//! a routing table that leads over the pipe (see `plan`), and the origin
//! speaks Multipath TCP. A tether that is broken makes the kernel use one path
//! without a word, so every transfer is proven to have used both.

use std::io::Write;
use std::net::Ipv4Addr;
use std::process::Stdio;

use crate::client::Way;
use crate::error::{Doing, Error, Result};
use crate::experiment::{Direction, Experiment, Role, Scheme};
use crate::host::Host;
use crate::record::SubflowShare;
use crate::sys::mptcp::Subflow;
use crate::wiring::{Network, counters};

/// The name of our table among the helper's packet rules.
const TABLE: &str = "mpbond_lab_tether";
/// A subflow that carried less than one part in so many of a file was open at
/// most, not used.
const LEAST_SHARE: u64 = 50;

/// A tether between primary and helper; dropping it takes it down.
pub(crate) struct Tether {
    primary: Host,
    helper: Host,
    helper_name: String,
    pipe: String,
    pipe_address: Ipv4Addr,
    path: String,
    path_address: Ipv4Addr,
    congestion: String,
}

/// What the primary's kernel has counted so far.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counts {
    /// Answers to the joining of a subflow.
    joined: u64,
    /// Bytes that came over the pipe, with headers.
    pipe_in: u64,
    /// Bytes that left over it.
    pipe_out: u64,
}

/// What a subflow carried of one transfer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Used {
    /// The address that it leaves from.
    pub source: Ipv4Addr,
    /// Bytes that it brought.
    pub bytes_in: u64,
    /// Bytes that it took, each once.
    pub bytes_out: u64,
    /// When it brought the last of them, in seconds after the start.
    pub last_in_s: f64,
}

impl Tether {
    /// Sets up what `scheme` needs on its hosts.
    ///
    /// # Errors
    /// When the kernel, `ip` or `nft` refuses.
    pub fn set_up(e: &Experiment, network: &Network, scheme: &Scheme) -> Result<Self> {
        let missing = |what: &str| Error::run(format!("scheme kibbutz: no {what}"));
        let primary = e.host(Role::Primary).name.get_ref();
        let helper = scheme.helpers(e).next().ok_or_else(|| missing("helper"))?;
        let path = scheme
            .direct_links(e)
            .next()
            .ok_or_else(|| missing("path"))?;
        let pipe = e.pipe_of(helper).ok_or_else(|| missing("pipe"))?;
        let way_out = e.uplink_of(helper).ok_or_else(|| missing("HS-Path"))?;
        let address = |link: &str| network.address(primary, link).ok_or_else(|| missing(link));
        let (path, pipe) = (path.name.get_ref(), pipe.name.get_ref());
        let tether = Self {
            primary: network.host(primary)?.clone(),
            helper: network.host(helper)?.clone(),
            helper_name: helper.clone(),
            pipe: pipe.clone(),
            pipe_address: address(pipe)?,
            path: path.clone(),
            path_address: address(path)?,
            congestion: scheme.congestion.clone(),
        };
        tether.helper.sysctl("net.ipv4.ip_forward", "1")?;
        let way_out = way_out.name.get_ref();
        // Older nft wants closing braces on lines of their own.
        let rules = format!(
            "table ip {TABLE} {{\n\
             chain after {{\n\
             type nat hook postrouting priority srcnat;\n\
             oifname \"{way_out}\" masquerade\n\
             }}\n\
             }}\n"
        );
        told(&tether.helper, "nft", &["-f", "-"], &rules)?;
        let origin = network.host_in(Role::Origin)?;
        for host in [&tether.primary, origin] {
            let limits = "mptcp limits set subflow 2 add_addr_accepted 2";
            told(host, "ip", &words(limits), "")?;
        }
        // One lost SYN must not switch Multipath TCP off for what follows.
        let _ = tether.primary.sysctl("net.mptcp.blackhole_timeout", "0");
        let endpoint = format!(
            "mptcp endpoint add {} dev {} subflow",
            tether.pipe_address, tether.pipe
        );
        told(&tether.primary, "ip", &words(&endpoint), "")?;
        Ok(tether)
    }

    /// How the client reaches the origin.
    pub fn way(&self) -> Way {
        Way::Mptcp {
            source: self.path_address,
            congestion: self.congestion.clone(),
        }
    }

    /// What the primary's kernel has counted.
    ///
    /// # Errors
    /// When it does not say.
    pub fn counts(&self) -> Result<Counts> {
        let read = || -> std::io::Result<Counts> {
            let text = std::fs::read_to_string("/proc/thread-self/net/netstat")?;
            let joined = read_counter(&text, "MPTcpExt", "MPJoinSynAckRx");
            let pipe = counters(&self.pipe)?;
            Ok(Counts {
                joined: joined.unwrap_or(0),
                pipe_in: pipe.received_bytes,
                pipe_out: pipe.sent_bytes,
            })
        };
        let counts = self.primary.enter(read)?;
        counts.doing("cannot read the counters of Multipath TCP")
    }

    /// What each path carried.
    pub fn shares(&self, direction: Direction, used: &[Used]) -> Vec<SubflowShare> {
        let name = |source: Ipv4Addr| {
            if source == self.pipe_address {
                self.helper_name.clone()
            } else if source == self.path_address {
                self.path.clone()
            } else {
                source.to_string()
            }
        };
        let share = |used: &Used| SubflowShare {
            name: name(used.source),
            bytes: match direction {
                Direction::Down => used.bytes_in,
                Direction::Up => used.bytes_out,
            },
            // The sender is not told when the last byte of a path arrived.
            finished_s: match direction {
                Direction::Down if used.bytes_in > 0 => Some(used.last_in_s),
                _ => None,
            },
        };
        used.iter().map(share).collect()
    }
}

impl Drop for Tether {
    fn drop(&mut self) {
        // What fails is found by the next one that is set up.
        let _ = told(&self.primary, "ip", &words("mptcp endpoint flush"), "");
        let _ = told(&self.helper, "nft", &["delete", "table", "ip", TABLE], "");
        let _ = self.helper.sysctl("net.ipv4.ip_forward", "0");
    }
}

/// Why a transfer of `bytes` is not one over both paths, if it is not. The
/// connection was made after `before`, the transfer began at `start`.
pub(crate) fn one_path_only(
    direction: Direction,
    bytes: u64,
    before: Counts,
    start: Counts,
    end: Counts,
) -> Option<String> {
    if end.joined <= before.joined {
        return Some("Multipath TCP used one path: no subflow was joined".into());
    }
    let (carried, least) = match direction {
        Direction::Down => (end.pipe_in - start.pipe_in, bytes / LEAST_SHARE),
        Direction::Up => (end.pipe_out - start.pipe_out, bytes / LEAST_SHARE),
    };
    (carried < least).then(|| {
        format!("Multipath TCP used one path: the pipe carried {carried} of {bytes} bytes")
    })
}

/// What each subflow carried between two accounts, the second one taken `now_s`
/// seconds after the start.
pub(crate) fn used(before: &[Subflow], after: &[Subflow], now_s: f64) -> Vec<Used> {
    let difference = |subflow: &Subflow| {
        let same = |b: &&Subflow| b.source == subflow.source;
        let (bytes_in, bytes_out) = before
            .iter()
            .find(same)
            .map_or((0, 0), |b| (b.bytes_in, b.bytes_out));
        Used {
            source: subflow.source,
            bytes_in: subflow.bytes_in.saturating_sub(bytes_in),
            bytes_out: subflow.bytes_out.saturating_sub(bytes_out),
            last_in_s: (now_s - subflow.idle_in.as_secs_f64()).max(0.0),
        }
    };
    after.iter().map(difference).collect()
}

/// A counter of /proc/net/netstat: of two lines that begin alike the first has
/// the names and the second the values.
fn read_counter(text: &str, group: &str, name: &str) -> Option<u64> {
    let mut lines = text
        .lines()
        .filter_map(|l| l.strip_prefix(group)?.strip_prefix(':'));
    let (names, values) = (lines.next()?, lines.next()?);
    let place = names.split_whitespace().position(|n| n == name)?;
    values.split_whitespace().nth(place)?.parse().ok()
}

fn words(text: &str) -> Vec<&str> {
    text.split(' ').collect()
}

/// Runs a program in `host` with `input`, and fails with its complaint.
fn told(host: &Host, program: &str, arguments: &[&str], input: &str) -> Result<()> {
    let mut child = host
        .command(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .doing(format_args!("cannot start {program}"))?;
    if let Some(mut stdin) = child.stdin.take() {
        // One that ends early says itself why.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child
        .wait_with_output()
        .doing(format_args!("cannot wait for {program}"))?;
    if output.status.success() {
        return Ok(());
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    let complaint = complaint.lines().next().unwrap_or("no complaint");
    Err(Error::run(format!(
        "{}: {program} {} failed: {complaint}",
        host.name(),
        arguments.join(" ")
    )))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn counters_are_found_by_name_within_their_group() {
        let text = "TcpExt: A MPJoinSynAckRx\nTcpExt: 1 2\n\
                    MPTcpExt: A B MPJoinSynAckRx C\nMPTcpExt: 3 4 5 6\n";
        let read = |group, name| read_counter(text, group, name);
        assert_eq!(read("MPTcpExt", "MPJoinSynAckRx"), Some(5));
        assert_eq!(read("TcpExt", "MPJoinSynAckRx"), Some(2));
        assert_eq!(read("MPTcpExt", "D"), None);
        assert_eq!(read("IpExt", "A"), None);
    }

    #[test]
    fn both_proofs_are_needed() {
        let counts = |joined, pipe_in, pipe_out| Counts {
            joined,
            pipe_in,
            pipe_out,
        };
        let down = |before, start, end| one_path_only(Direction::Down, 100_000, before, start, end);
        let before = counts(4, 1_000, 0);
        assert_eq!(down(before, before, counts(5, 50_000, 900)), None);
        // A subflow that a kept connection joined before the transfer counts.
        let start = counts(5, 9_000, 0);
        assert_eq!(down(before, start, counts(5, 50_000, 900)), None);
        let why = down(before, before, counts(4, 50_000, 900)).unwrap();
        assert!(why.contains("no subflow was joined"), "{why}");
        // What the warm-up carried is no proof, nor are acknowledgements.
        let why = down(before, start, counts(5, 10_000, 90_000)).unwrap();
        assert!(why.contains("carried 1000 of 100000"), "{why}");
        let up = one_path_only(
            Direction::Up,
            100_000,
            before,
            start,
            counts(5, 10_000, 90_000),
        );
        assert_eq!(up, None);
    }

    #[test]
    fn what_was_carried_before_is_taken_off() {
        let subflow = |last, bytes_in, bytes_out, idle_ms| Subflow {
            source: Ipv4Addr::new(10, 77, 0, last),
            bytes_in,
            bytes_out,
            idle_in: Duration::from_millis(idle_ms),
        };
        let before = [subflow(1, 100, 10, 0)];
        let after = [subflow(1, 350, 15, 250), subflow(2, 70, 5, 9_000)];
        let used = used(&before, &after, 2.0);
        let figures: Vec<_> = used
            .iter()
            .map(|u| (u.bytes_in, u.bytes_out, u.last_in_s))
            .collect();
        assert_eq!(figures, [(250, 5, 1.75), (70, 5, 0.0)]);
    }
}
