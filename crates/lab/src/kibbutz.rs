//! The baseline `kibbutz`: the kernel's own Multipath TCP over tethering, which
//! MPBond's section 6 compares with.
//!
//! The helper forwards packets (see `tether`). The primary has the pipe's
//! address as a second end point, and the origin speaks Multipath TCP. Without
//! a helper it is Multipath TCP over two of the primary's own links, as in the
//! paper's section 6.7. A path that is broken makes the kernel use the other
//! one without a word, so every transfer is proven to have used both.

use std::net::Ipv4Addr;

use crate::client::Way;
use crate::error::{Doing, Error, Result};
use crate::experiment::{Direction, Experiment, Role, Scheme};
use crate::host::Host;
use crate::record::SubflowShare;
use crate::sys::mptcp::Subflow;
use crate::tether::{Tether, told};
use crate::wiring::{Network, counters};

/// A subflow that carried less than one part in so many of a file was open at
/// most, not used.
const LEAST_SHARE: u64 = 50;

/// Multipath TCP between primary and origin; dropping it takes it down.
pub(crate) struct Kibbutz {
    primary: Host,
    first: End,
    second: End,
    congestion: String,
    /// Of the helper, where there is one.
    _tether: Option<Tether>,
}

/// One of the primary's two ends.
struct End {
    /// The path's name, or the helper's.
    name: String,
    /// The device on the primary.
    device: String,
    address: Ipv4Addr,
}

/// What the primary's kernel has counted so far.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counts {
    /// Answers to the joining of a subflow.
    joined: u64,
    /// Bytes that came over the second path, with headers.
    second_in: u64,
    /// Bytes that left over it.
    second_out: u64,
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

impl Kibbutz {
    /// Sets up what `scheme` needs on its hosts.
    ///
    /// # Errors
    /// When the kernel, `ip` or `nft` refuses.
    pub fn set_up(e: &Experiment, network: &Network, scheme: &Scheme) -> Result<Self> {
        let missing = |what: &str| Error::run(format!("scheme kibbutz: no {what}"));
        let primary = e.host(Role::Primary).name.get_ref();
        let mut paths = scheme.direct_links(e).map(|link| link.name.get_ref());
        let mut path = || -> Result<End> {
            let name = paths.next().ok_or_else(|| missing("path"))?;
            let address = network.address(primary, name);
            Ok(End {
                name: name.clone(),
                device: name.clone(),
                address: address.ok_or_else(|| missing(name))?,
            })
        };
        let first = path()?;
        let (second, tether) = match scheme.helpers(e).next() {
            Some(helper) => {
                let tether = Tether::set_up(e, network, helper)?;
                let end = End {
                    name: helper.clone(),
                    device: tether.pipe.clone(),
                    address: tether.address,
                };
                (end, Some(tether))
            }
            None => (path()?, None),
        };
        let kibbutz = Self {
            primary: network.host(primary)?.clone(),
            first,
            second,
            congestion: scheme.congestion.clone(),
            _tether: tether,
        };
        let origin = network.host_in(Role::Origin)?;
        for host in [&kibbutz.primary, origin] {
            let limits = "mptcp limits set subflow 2 add_addr_accepted 2";
            told(host, "ip", &words(limits), "")?;
        }
        // One lost SYN must not switch Multipath TCP off for what follows.
        let _ = kibbutz.primary.sysctl("net.mptcp.blackhole_timeout", "0");
        let End {
            address, device, ..
        } = &kibbutz.second;
        let endpoint = format!("mptcp endpoint add {address} dev {device} subflow");
        told(&kibbutz.primary, "ip", &words(&endpoint), "")?;
        Ok(kibbutz)
    }

    /// How the client reaches the origin.
    pub fn way(&self) -> Way {
        Way::Mptcp {
            source: self.first.address,
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
            let second = counters(&self.second.device)?;
            Ok(Counts {
                joined: joined.unwrap_or(0),
                second_in: second.received_bytes,
                second_out: second.sent_bytes,
            })
        };
        let counts = self.primary.enter(read)?;
        counts.doing("cannot read the counters of Multipath TCP")
    }

    /// What each path carried.
    pub fn shares(&self, direction: Direction, used: &[Used]) -> Vec<SubflowShare> {
        let name = |source: Ipv4Addr| {
            let ends = [&self.first, &self.second];
            let end = ends.into_iter().find(|end| end.address == source);
            end.map_or_else(|| source.to_string(), |end| end.name.clone())
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

impl Drop for Kibbutz {
    fn drop(&mut self) {
        // What fails is found by the next one that is set up.
        let _ = told(&self.primary, "ip", &words("mptcp endpoint flush"), "");
    }
}

/// Why a transfer of `bytes` is not one over both paths, if it is not. The
/// connection was made after `before`, the transfer began at `start`. Where
/// both were not `needed`, it is enough that both were open.
pub(crate) fn one_path_only(
    direction: Direction,
    bytes: u64,
    needed: bool,
    before: Counts,
    start: Counts,
    end: Counts,
) -> Option<String> {
    if end.joined <= before.joined {
        return Some("Multipath TCP used one path: no subflow was joined".into());
    }
    let (carried, least) = match direction {
        Direction::Down => (end.second_in - start.second_in, bytes / LEAST_SHARE),
        Direction::Up => (end.second_out - start.second_out, bytes / LEAST_SHARE),
    };
    (needed && carried < least).then(|| {
        format!("Multipath TCP used one path: the other one carried {carried} of {bytes} bytes")
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
        let counts = |joined, second_in, second_out| Counts {
            joined,
            second_in,
            second_out,
        };
        let down =
            |before, start, end| one_path_only(Direction::Down, 100_000, true, before, start, end);
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
            true,
            before,
            start,
            counts(5, 10_000, 90_000),
        );
        assert_eq!(up, None);
        // What little an application fetches may all come over the first path,
        // but the other one has to be there.
        let little = |end| one_path_only(Direction::Down, 100_000, false, before, before, end);
        assert_eq!(little(counts(5, 1_000, 0)), None);
        assert!(little(counts(4, 1_000, 0)).is_some());
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
