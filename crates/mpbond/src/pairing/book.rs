//! Where a pairing is recorded: a trust file, or a primary's configuration.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use mpbond_net::DeviceId;
use mpbond_net::pairing::{Introduction, Peer, Role};
use mpbond_net::pipe::PipeAddress;

use super::running::RunningBook;
use crate::config::{ConfigError, FarEnd, PrimaryEdit, ProxyAddress, TrustFile, TrustedDevice};
use crate::uplinks::{self, Uplink};

/// Record of trusted devices: the same files that a person would edit.
#[derive(Clone, Debug)]
pub enum Book {
    /// Of a helper or proxy: primaries that may connect, as with `mpbond trust`.
    Trust(TrustFile),
    /// Of a primary: a section of its configuration for each proxy and helper.
    Primary {
        /// The configuration.
        path: PathBuf,
        /// Host name by which a person has called the other device: a proxy is written by it.
        called: Option<String>,
        /// Interfaces of its own paths; otherwise all [`own_links`].
        links: Option<Vec<String>>,
        /// Whether a file that is there is replaced, rather than added to.
        anew: bool,
    },
    /// Of a primary that runs: its configuration in force.
    Running(RunningBook),
}

/// A recorded device.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The file.
    pub path: PathBuf,
    /// Whether the file was changed.
    pub is_new: bool,
    undo: Undo,
}

#[derive(Clone, Debug)]
enum Undo {
    Trust(TrustFile, Peer, Option<TrustedDevice>),
    Primary(PrimaryEdit),
    Running(RunningBook, Option<DeviceId>),
}

/// Where a device is reached: a helper at the Unix socket by which it was; otherwise at the address
/// that it names, or else at the one that it was reached by.
fn service(peer: &Peer, by: &PipeAddress) -> Option<PipeAddress> {
    let Introduction { role, service, .. } = &peer.introduction;
    let service = (*service)?;
    match by {
        PipeAddress::Unix(_) if *role == Role::Helper => Some(by.clone()),
        _ if !service.ip().is_unspecified() => Some(service.into()),
        PipeAddress::Tcp(by) => {
            Some(SocketAddr::new(by.ip().to_canonical(), service.port()).into())
        }
        PipeAddress::Unix(_) => None,
    }
}

impl Book {
    /// Records a device; `by` is the address of the conversation with it.
    pub(super) fn enter(&self, peer: &Peer, by: &PipeAddress) -> Result<Entry, ConfigError> {
        match self {
            Self::Trust(file) => {
                let before = file.devices()?.into_iter().find(|d| d.id == peer.id);
                let device = TrustedDevice {
                    id: peer.id,
                    name: peer.introduction.name.clone(),
                };
                file.add(&device)?;
                Ok(Entry {
                    path: file.path().to_owned(),
                    is_new: before.is_none(),
                    undo: Undo::Trust(file.clone(), peer.clone(), before),
                })
            }
            Self::Primary {
                path,
                called,
                links,
                anew,
            } => {
                let far = far_end(path, called.as_deref(), peer, by)?;
                let links = links.clone().unwrap_or_else(|| own_links(by));
                let edit = match anew {
                    true => PrimaryEdit::make_anew(path, &far, &links)?,
                    false => PrimaryEdit::make(path, &far, &links)?,
                };
                Ok(Entry {
                    path: path.clone(),
                    is_new: edit.is_change(),
                    undo: Undo::Primary(edit),
                })
            }
            Self::Running(book) => {
                let far = far_end(book.path(), None, peer, by)?;
                let is_new = book.enter(&far)?;
                Ok(Entry {
                    path: book.path().to_owned(),
                    is_new,
                    undo: Undo::Running(book.clone(), is_new.then_some(peer.id)),
                })
            }
        }
    }
}

/// Own links that may be paths: not that on which the other device, met there, is the router, since
/// a helper's link would be used twice. None for a device that is met on this machine, unless by a
/// Unix socket: the process behind it may be carrying the bytes to anywhere.
pub fn own_links(by: &PipeAddress) -> Vec<String> {
    let usable = uplinks::uplinks().into_iter().filter(Uplink::is_usable);
    let Some(by) = by.tcp().map(|by| by.ip().to_canonical()) else {
        return usable.map(|u| u.interface).collect();
    };
    let Some(met) = uplinks::interface_towards(by) else {
        return Vec::new();
    };
    let is_met_as_router = |u: &Uplink| u.interface == met && u.gateways.contains(&by);
    usable
        .filter(|u| !is_met_as_router(u))
        .map(|u| u.interface)
        .collect()
}

fn far_end(
    path: &Path,
    called: Option<&str>,
    peer: &Peer,
    by: &PipeAddress,
) -> Result<FarEnd, ConfigError> {
    let id = peer.id;
    match (peer.introduction.role, service(peer, by)) {
        (Role::Proxy, Some(PipeAddress::Tcp(address))) => {
            let named = called.and_then(|host| ProxyAddress::named(host, address.port()));
            let address = named.unwrap_or(ProxyAddress::At(address));
            Ok(FarEnd::Proxy { address, id })
        }
        (Role::Helper, Some(address)) => Ok(FarEnd::Helper {
            name: peer.introduction.name.clone(),
            address,
            id,
            interface: (by.tcp()).and_then(|by| uplinks::interface_towards(by.ip().to_canonical())),
        }),
        // The roles have been compared: it is a proxy.
        _ => Err(ConfigError::about_file(
            path,
            "the proxy names no address: pair with it over a network",
        )),
    }
}

impl Entry {
    /// Undoes it.
    pub(super) fn undo(&self) -> Result<(), ConfigError> {
        match &self.undo {
            Undo::Trust(file, peer, before) => file.restore(&peer.id, before.as_ref()),
            Undo::Primary(edit) => edit.undo(),
            Undo::Running(book, added) => {
                added.iter().for_each(|id| book.remove(id));
                Ok(())
            }
        }
    }
}
