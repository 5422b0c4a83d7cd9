//! Capabilities (capabilities(7)) that a daemon keeps: those that this kernel requires for the
//! daemon's remaining operations, found by trying them before the others are dropped.

use std::io;
use std::net::{TcpListener, UdpSocket};

use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set,
    clear_ambient_capability_set, remove_capability_from_bounding_set, set_capabilities,
};
use socket2::{Domain, SockRef, Socket, Type};

use super::files::Place;

/// Operation that a kernel may reserve for privileged processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Need {
    /// Marks of own sockets (SO_MARK), which keep them from being intercepted: CAP_NET_RAW since
    /// Linux 5.17, CAP_NET_ADMIN before.
    Mark,
    /// Sockets bound to interfaces (SO_BINDTODEVICE): CAP_NET_RAW before Linux 5.7.
    Interface,
    /// This congestion control: CAP_NET_ADMIN where it is none of `tcp_allowed_congestion_control`.
    Congestion(String),
}

impl Need {
    /// Capabilities that may allow it, the weakest first.
    fn choices(&self) -> &'static [CapabilitySet] {
        match self {
            Self::Mark => &[CapabilitySet::NET_RAW, CapabilitySet::NET_ADMIN],
            Self::Interface => &[CapabilitySet::NET_RAW],
            Self::Congestion(_) => &[CapabilitySet::NET_ADMIN],
        }
    }

    fn works(&self) -> io::Result<()> {
        match self {
            Self::Mark => {
                let socket = UdpSocket::bind("127.0.0.1:0")?;
                SockRef::from(&socket).set_mark(1)
            }
            Self::Interface => {
                let socket = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
                socket.bind_device(Some(b"lo"))
            }
            Self::Congestion(name) => {
                let socket = TcpListener::bind("127.0.0.1:0")?;
                SockRef::from(&socket).set_tcp_congestion(name.as_bytes())
            }
        }
    }
}

/// Effective capabilities of this thread.
pub(super) fn held() -> CapabilitySet {
    capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.permitted)
}

/// Names as people write them.
pub(super) fn names(set: CapabilitySet) -> Vec<String> {
    let names = set.iter_names();
    names.map(|(name, _)| format!("CAP_{name}")).collect()
}

/// Drops all capabilities of this thread and those that it will start, except those that one of
/// these needs; returns the names of the rest.
///
/// # Errors
/// When the kernel refuses; the resulting set is then unknown.
pub(super) fn drop_all_but(needs: &[Need], places: &[Place]) -> io::Result<Vec<String>> {
    let before = capabilities(None)?;
    if before.permitted.is_empty() {
        clear_ambient_capability_set().or_else(unknown_is_none)?;
        return Ok(Vec::new());
    }
    let mut keep = CapabilitySet::empty();
    for need in needs {
        keep = with_least(before, keep, need.choices(), || need.works().is_ok())?;
    }
    // For example of root, where the files are another user's: it may read them and keep their
    // owner.
    let owners = CapabilitySet::DAC_OVERRIDE | CapabilitySet::CHOWN;
    keep = with_least(before, keep, &[owners], || {
        places.iter().all(Place::in_reach)
    })?;
    // Nothing is executed any more that could regain them; dropping them is a second barrier. It
    // needs CAP_SETPCAP, which a service that starts with few capabilities may lack.
    for (_, capability) in CapabilitySet::all().iter_names() {
        if !keep.contains(capability) && capability_is_in_bounding_set(capability).unwrap_or(false)
        {
            let _ = remove_capability_from_bounding_set(capability);
        }
    }
    set_capabilities(
        None,
        CapabilitySets {
            effective: keep,
            permitted: keep,
            inheritable: CapabilitySet::empty(),
        },
    )?;
    clear_ambient_capability_set().or_else(unknown_is_none)?;
    Ok(names(keep))
}

/// Kernels before 4.3 know no ambient set.
fn unknown_is_none(e: rustix::io::Errno) -> rustix::io::Result<()> {
    match e {
        rustix::io::Errno::INVAL => Ok(()),
        e => Err(e),
    }
}

/// The set so far, with the first capability that makes the operation work, if it needs one. If
/// none does, capabilities are not the cause.
fn with_least(
    before: CapabilitySets,
    keep: CapabilitySet,
    choices: &[CapabilitySet],
    works: impl Fn() -> bool,
) -> io::Result<CapabilitySet> {
    let more = choices.iter().map(|choice| keep | *choice);
    for effective in std::iter::once(keep).chain(more) {
        if !before.permitted.contains(effective) {
            continue;
        }
        set_capabilities(
            None,
            CapabilitySets {
                effective,
                ..before
            },
        )?;
        let works = works();
        set_capabilities(None, before)?;
        if works {
            return Ok(effective);
        }
    }
    Ok(keep)
}
