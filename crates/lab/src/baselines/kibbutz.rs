//! The baseline `kibbutz`: the kernel's Multipath TCP over tethering (MPBond section 6.1).
//!
//! The helper forwards packets (`tether`). The primary has the pipe's address as a second endpoint,
//! and the origin speaks Multipath TCP. Without a helper, it is Multipath TCP over two of the
//! primary's own links (MPBond section 6.7). With a broken path the kernel silently uses the other
//! one, so every transfer is checked to have used both.

use std::net::Ipv4Addr;

use crate::baselines::tether::{Tether, told};
use crate::error::{Doing, Error, Result};
use crate::experiment::{Direction, Experiment, Role, Scheme};
use crate::network::host::Host;
use crate::network::wiring::{Network, counters};
use crate::record::SubflowShare;
use crate::transfer::client::{Used, Way};

/// A subflow with less than this part of a file counts as open but unused.
const LEAST_SHARE: u64 = 50;

/// Multipath TCP between primary and origin; removed on drop.
pub(crate) struct Kibbutz {
    primary: Host,
    first: End,
    second: End,
    congestion: String,
    /// Forwarding on the helper, if there is one.
    _tether: Option<Tether>,
}

/// One of the two endpoints of the primary.
struct End {
    /// Name of the path or helper.
    name: String,
    /// Device on the primary.
    device: String,
    address: Ipv4Addr,
}

/// Counters of the primary's kernel.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counts {
    /// Responses to joins of subflows.
    joined: u64,
    /// Bytes received over the second path, headers included.
    second_in: u64,
    /// Bytes sent over the second path.
    second_out: u64,
}

impl Kibbutz {
    /// Sets up endpoints and tethering for `scheme`.
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
        // One lost SYN must not disable Multipath TCP for later connections.
        let _ = kibbutz.primary.sysctl("net.mptcp.blackhole_timeout", "0");
        let End {
            address, device, ..
        } = &kibbutz.second;
        let endpoint = format!("mptcp endpoint add {address} dev {device} subflow");
        told(&kibbutz.primary, "ip", &words(&endpoint), "")?;
        Ok(kibbutz)
    }

    /// The client's way to the origin.
    pub fn way(&self) -> Way {
        Way::Mptcp {
            source: self.first.address,
            congestion: self.congestion.clone(),
        }
    }

    /// Reads the counters of the primary's kernel.
    ///
    /// # Errors
    /// When they cannot be read.
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

    /// Bytes of each path.
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
            // The arrival of a path's last byte is unknown to the sender.
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
        // The next setup reports what fails here.
        let _ = told(&self.primary, "ip", &words("mptcp endpoint flush"), "");
    }
}

/// Reason why a transfer of `bytes` did not use both paths, if so. The connection was opened after
/// `before`; the transfer began at `start`. Without `needed`, it is enough that both paths were
/// open.
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

/// A counter of /proc/net/netstat, where of two lines with the same prefix the first has the names
/// and the second the values.
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
    fn a_join_and_bytes_on_the_pipe_are_needed() {
        let counts = |joined, second_in, second_out| Counts {
            joined,
            second_in,
            second_out,
        };
        let down =
            |before, start, end| one_path_only(Direction::Down, 100_000, true, before, start, end);
        let before = counts(4, 1_000, 0);
        assert_eq!(down(before, before, counts(5, 50_000, 900)), None);
        // A subflow joined by a kept connection before the transfer counts.
        let start = counts(5, 9_000, 0);
        assert_eq!(down(before, start, counts(5, 50_000, 900)), None);
        let why = down(before, before, counts(4, 50_000, 900)).unwrap();
        assert!(why.contains("no subflow was joined"), "{why}");
        // Bytes of the warm-up prove nothing, nor do acknowledgements.
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
        // A few bytes of an application may all take the first path, but the other one has to be
        // open.
        let little = |end| one_path_only(Direction::Down, 100_000, false, before, before, end);
        assert_eq!(little(counts(5, 1_000, 0)), None);
        assert!(little(counts(4, 1_000, 0)).is_some());
    }
}
