//! nftables and routing rules for transparent interception, and their lifetime.
//!
//! [`Rules::install`] creates one nftables table, an interface for the addresses of connections,
//! and routing rules; [`Rules::remove`] or a drop removes them. They are also removed when the
//! daemon dies in any way, including SIGKILL:
//!
//! * The table has the flag `owner`: the kernel removes it when the netlink socket that created it
//!   closes, and rejects changes from other sockets. That socket belongs to `nft -i`, a child
//!   process that reads its commands from a pipe of the daemon and exits when the pipe closes.
//!   (Observed with nftables 1.0.6 on kernel 6.18: `nft -f` closes its socket at once, which
//!   removes the table; `nft -i` accepts a script of at least 23 kB as one line, hence as one
//!   transaction.)
//! * The daemon's child is a shell around `nft -i`, the *guard*. It forwards no input to `nft` once
//!   the rules are installed, so that a daemon can drop its privileges and leave them to the guard.
//!   When `nft -i` exits, the guard deletes the routing rules, which have no owner flag, and the
//!   table, in case the kernel (before 5.12) does not support the flag.
//! * The table's name contains the process id and start time of its owner. [`Rules::install`]
//!   removes tables of dead owners, and fails while a living owner has one.
//! * The interface is a TUN that the guard holds: the kernel removes it, and the routes through
//!   it, with the last process of the guard.
//!
//! A daemon that takes over from one that runs installs rules of its own beside the other's
//! ([`Rules::install_beside`]): another table, guard and interface, with other routing rules. For a
//! moment both sets intercept, and lead to the same listeners. Each guard removes its own.
//!
//! Only a SIGKILL of daemon *and* guard at the same moment leaves stale rules, and not the table:
//! the routing rules, which match nothing without its marks or lead to empty tables, stay until the
//! next start or a call of [`remove_stale`]. (On kernels before 5.12 the table stays as well.)
//!
//! Without the daemon, applications therefore reach the network directly, unless the rules of
//! [`kill_switch`] are installed: they stay.
//!
//! # What is intercepted
//!
//! TCP of this host, and of hosts behind the interfaces in [`RulesConfig::forwarded`], except:
//! sockets of the daemon (by [`RulesConfig::own_mark`] or [`RulesConfig::own_uid`]), traffic that
//! stays on this host, [`RulesConfig::endpoints`], link-local, multicast and broadcast addresses,
//! and [`RulesConfig::exclude`]. Existing connections are not affected.
//!
//! # Protection against leaks
//!
//! UDP is not carried by sessions. Therefore QUIC (UDP 443) and DNS over QUIC (UDP 853) are
//! rejected with port unreachable, which makes browsers use TCP; DNS (port 53, UDP and TCP) is
//! redirected to the stub ([`crate::dns`]), even if the resolver's address is excluded; IPv6 is
//! intercepted or rejected according to [`RulesConfig::ipv6`]; other UDP passes or is rejected
//! according to [`RulesConfig::udp`]. ICMP passes. (An application on this host sees a rejection
//! twice: its send fails with EPERM, and the ICMP message makes a connected socket report
//! ECONNREFUSED.) [`RulesConfig::notes`] describes the consequences for the user.

mod check;
mod config;
mod error;
mod family;
mod guard;
mod guard_time;
mod interface;
pub mod kill_switch;
mod owner;
mod routing;
mod script;
mod stale;
mod tables;
mod tools;
mod tun;

use std::net::IpAddr;

use family::Family;

pub use config::{Ipv6, Method, RulesConfig, Udp, private_networks};
pub use error::RulesError;
pub use guard::Rules;
pub use owner::Owner;
pub use stale::{StaleRules, find_stale, remove_stale};

/// Whether this is the own address of a socket whose connection is intercepted.
pub fn is_intercepted(own: IpAddr) -> bool {
    Family::BOTH.map(Family::address).contains(&own)
}
