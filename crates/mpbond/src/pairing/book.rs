//! Where a pairing is recorded: a trust file, or a primary's configuration.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use mpbond_net::pairing::{Peer, Role};

use crate::config::{ConfigError, FarEnd, PrimaryEdit, TrustFile, TrustedDevice};

/// Record of trusted devices: the same files that a person would edit.
#[derive(Clone, Debug)]
pub enum Book {
    /// Of a helper or proxy: primaries that may connect, as with `mpbond trust`.
    Trust(TrustFile),
    /// Of a primary: a section of its configuration for each proxy and helper.
    Primary(PathBuf),
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
}

/// Where a device is reached: at the address that it names, or else at the one that it was
/// reached by.
pub(super) fn service(peer: &Peer, by: IpAddr) -> Option<SocketAddr> {
    let service = peer.introduction.service?;
    let ip = if service.ip().is_unspecified() {
        by.to_canonical()
    } else {
        service.ip()
    };
    Some(SocketAddr::new(ip, service.port()))
}

impl Book {
    /// Records a device; `by` is the address of the conversation with it.
    pub(super) fn enter(&self, peer: &Peer, by: IpAddr) -> Result<Entry, ConfigError> {
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
            Self::Primary(path) => {
                let edit = PrimaryEdit::make(path, &far_end(path, peer, by)?)?;
                Ok(Entry {
                    path: path.clone(),
                    is_new: edit.is_change(),
                    undo: Undo::Primary(edit),
                })
            }
        }
    }
}

fn far_end(path: &Path, peer: &Peer, by: IpAddr) -> Result<FarEnd, ConfigError> {
    let id = peer.id;
    match (peer.introduction.role, service(peer, by)) {
        (Role::Proxy, Some(address)) => Ok(FarEnd::Proxy { address, id }),
        (Role::Helper, Some(address)) => Ok(FarEnd::Helper {
            name: peer.introduction.name.clone(),
            address,
            id,
        }),
        // The roles have been compared, and a called device names its address.
        _ => Err(ConfigError::about_file(
            path,
            "the other device is neither proxy nor helper",
        )),
    }
}

impl Entry {
    /// Undoes it.
    pub(super) fn undo(&self) -> Result<(), ConfigError> {
        match &self.undo {
            Undo::Trust(file, peer, before) => file.restore(&peer.id, before.as_ref()),
            Undo::Primary(edit) => edit.undo(),
        }
    }
}
