//! Owner of a client's socket, which the kernel is asked for at most once for each connection.

use std::cell::{OnceCell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;

use mpbond_intercept::{Destination, Intercepted, Via};
use mpbond_net::sock_diag::{SockDiag, SocketOwner};
use mpbond_policy::FactLine;
use tokio::time::Instant;

use crate::policy::{Cgroups, Program, program};
use crate::status::ApplicationStatus;

/// Ends of a client's connection, as its own socket has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::primary) struct Ends {
    pub(in crate::primary) client: SocketAddr,
    pub(super) remote: Option<SocketAddr>,
    pub(in crate::primary) via: Via,
}

impl Ends {
    pub(in crate::primary) fn of(connection: &Intercepted) -> Self {
        let via = connection.via();
        // A redirected socket goes on naming the destination that it was to reach.
        let remote = match (via, connection.destination()) {
            (Via::Transparent, Destination::Addr(address)) => Some(*address),
            _ => connection.socket().local_addr().ok(),
        };
        Self {
            client: connection.peer(),
            remote,
            via,
        }
    }
}

/// Connection to the kernel by which owners of clients' sockets are looked up. It is opened at the
/// first look-up, and all clones share it.
#[derive(Clone, Default)]
pub(in crate::primary) struct Owners(Rc<RefCell<Option<SockDiag>>>);

impl Owners {
    /// Owner of the client's socket, if it is one of this host that still exists, and the kernel
    /// can be asked.
    pub(in crate::primary) fn of(&self, ends: Ends) -> Option<SocketOwner> {
        let mut diag = self.0.borrow_mut();
        if diag.is_none() {
            *diag = SockDiag::open().ok();
        }
        diag.as_ref()?
            .find(ends.client, ends.remote?)
            .ok()
            .flatten()
    }
}

/// Identity of a client.
pub(in crate::primary) struct Identity {
    ends: Ends,
    owners: Owners,
    owner: OnceCell<Option<SocketOwner>>,
    /// Kept, since ids of control groups that have gone come back with other paths.
    group: OnceCell<Option<Rc<str>>>,
}

impl Identity {
    pub(in crate::primary) fn of(owners: &Owners, connection: &Intercepted) -> Self {
        Self {
            ends: Ends::of(connection),
            owners: owners.clone(),
            owner: OnceCell::new(),
            group: OnceCell::new(),
        }
    }

    pub(in crate::primary) const fn ends(&self) -> Ends {
        self.ends
    }

    /// Whether the kernel has been asked for the owner of its socket.
    pub(in crate::primary) fn has_asked(&self) -> bool {
        self.owner.get().is_some()
    }

    /// Owner of its socket. The kernel is asked at the first call.
    pub(in crate::primary) fn owner(&self) -> Option<SocketOwner> {
        *self.owner.get_or_init(|| self.owners.of(self.ends))
    }

    /// Path of the control group of its socket, if it is one of this host and the group is there.
    /// It is looked for at the first call, and stays what was found then.
    pub(in crate::primary) async fn group(&self, groups: &Cgroups) -> Option<Rc<str>> {
        if let Some(path) = self.group.get() {
            return path.clone();
        }
        let path = match self.owner().and_then(|owner| owner.cgroup) {
            Some(id) => groups.path_of(id).await,
            None => None,
        };
        // Another task may have found it meanwhile.
        self.group.get_or_init(|| path).clone()
    }

    /// Looks for the same without reading folders, for one who has asked at this time; whether the
    /// answer is known.
    pub(in crate::primary) fn find_group(&self, groups: &Cgroups, asked: Instant) -> bool {
        if self.group.get().is_none() {
            let path = match self.owner().and_then(|owner| owner.cgroup) {
                Some(id) => groups.known(id, asked),
                None => Some(None),
            };
            let Some(path) = path else { return false };
            self.group.get_or_init(|| path);
        }
        true
    }

    /// Its application, once the control group of its socket has been looked for.
    pub(in crate::primary) fn application(&self) -> Option<ApplicationStatus> {
        let group = self.group.get()?;
        let Program { app, uid, .. } = program(self.owner(), group.as_deref());
        let app = FactLine::of("app", &app);
        Some(ApplicationStatus {
            name: app.value,
            certainty: app.certainty.name().to_owned(),
            uid: uid.get().map(|(uid, _)| *uid),
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::fs;
    use std::os::unix::fs::MetadataExt as _;
    use std::time::Duration;

    use super::*;

    /// A client of user 1000 whose socket is in this control group.
    pub(in crate::primary) fn client(cgroup: u64) -> Identity {
        let owner = SocketOwner {
            uid: 1000,
            cgroup: Some(cgroup),
            tos: None,
        };
        Identity {
            owner: OnceCell::from(Some(owner)),
            ..unasked()
        }
    }

    /// One whose socket has not been looked for; it is not on this host.
    pub(in crate::primary) fn unasked() -> Identity {
        Identity {
            ends: Ends {
                client: ([127, 0, 0, 1], 4000).into(),
                remote: None,
                via: Via::Socks,
            },
            owners: Owners::default(),
            owner: OnceCell::new(),
            group: OnceCell::new(),
        }
    }

    /// Any folder has an inode.
    #[tokio::test(start_paused = true)]
    async fn the_application_that_was_found_first_stays_when_its_control_group_has_gone() {
        let folder = tempfile::tempdir().unwrap();
        let slice = folder.path().join("system.slice");
        let group = slice.join("restic.service");
        fs::create_dir_all(&group).unwrap();
        let id = fs::metadata(&group).unwrap().ino();
        let groups = Cgroups::at(Some(folder.path().to_owned()));
        let (first, second) = (client(id), client(id));
        assert!(!first.find_group(&groups, Instant::now()));
        assert_eq!(first.application(), None, "it has not been looked for");
        assert_eq!(
            first.group(&groups).await.as_deref(),
            Some("/system.slice/restic.service")
        );
        fs::rename(&group, slice.join("other.service")).unwrap();
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(
            second.group(&groups).await.as_deref(),
            Some("/system.slice/other.service")
        );
        assert_eq!(
            first.group(&groups).await.as_deref(),
            Some("/system.slice/restic.service")
        );
        assert!(first.find_group(&groups, Instant::now()));
        let found = first.application().unwrap();
        assert_eq!(found.name.as_deref(), Some("restic.service"));
        assert_eq!((&*found.certainty, found.uid), ("known", Some(1000)));
        // One that had gone at the first look-up has no name later either.
        let gone = client(id + 1_000_000);
        assert_eq!(gone.group(&groups).await, None);
        let unknown = gone.application().unwrap();
        assert_eq!((unknown.name, &*unknown.certainty), (None, "unknown"));
    }
}
