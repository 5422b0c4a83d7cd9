//! Rights of a program at a daemon's Unix sockets, by its credentials (unix(7), SO_PEERCRED) and
//! its supplementary groups.

use std::os::fd::AsFd as _;

use nix::unistd::{Uid, getegid, geteuid};
use tokio::net::UnixStream;

use crate::peer_groups::peer_groups;

/// What a client may do; each includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rights {
    /// Any user: reads the status without destinations of applications.
    Status,
    /// A process of the daemon's group: reads everything.
    Read,
    /// Root, and the user of the daemon: changes the daemon.
    Change,
}

/// A program at a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    /// What it may do.
    pub(crate) rights: Rights,
    /// Its user; `None` where the kernel does not tell.
    pub(crate) user: Option<u32>,
}

impl Caller {
    /// The program that has made this connection.
    pub(crate) fn of(client: &UnixStream) -> Self {
        Self {
            rights: Rights::of(client),
            user: client.peer_cred().ok().map(|who| who.uid()),
        }
    }
}

impl Rights {
    /// Those of the process that has made this connection.
    pub(crate) fn of(client: &UnixStream) -> Self {
        let Ok(who) = client.peer_cred() else {
            return Self::Status;
        };
        let user = Uid::from_raw(who.uid());
        let own = getegid().as_raw();
        let has_group = || {
            // An old kernel tells only the primary group.
            let others = || peer_groups(client.as_fd()).unwrap_or_default();
            who.gid() == own || others().contains(&own)
        };
        if user.is_root() || user == geteuid() {
            Self::Change
        } else if has_group() {
            Self::Read
        } else {
            Self::Status
        }
    }
}
