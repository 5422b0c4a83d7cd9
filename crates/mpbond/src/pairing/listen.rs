//! The device that shows a code and waits to be called.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use ipnet::IpNet;
use mpbond_net::DeviceId;
use mpbond_net::pairing::{Attempts, End, Invitation, PairingCode, PairingError, Peer};
use mpbond_net::pipe::{PipeAddress, PipeStream, pairing_socket};
use mpbond_net::tls::{TlsError, TlsStream};
use nix::ifaddrs::{InterfaceAddress, getifaddrs};
use nix::net::if_::InterfaceFlags;
use nix::sys::socket::SockaddrStorage;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::conversation::{Ending, Parties, hold, quits};
use super::{Own, PairError, Paired};
use crate::driver::Clock;
use crate::quota::{Quota, source};
use crate::rate_limited_log::PeerLog;
use crate::socket_file::{self, PIPE_MODE, SocketFile};
use crate::stop::Stop;
use crate::uplinks::uplinks;

/// Maximum number of callers at a time; more wait in the kernel's queue.
const MAX_CALLERS: usize = 32;
/// Maximum number of these from one source, which must not keep out the device with the code.
const MAX_CALLERS_EACH: usize = 8;
/// Minimum time from the start of a handshake to the next: each takes about a millisecond of a
/// thread that may be that of a primary's sessions.
const HANDSHAKE_EVERY: Duration = Duration::from_millis(50);
/// Minimum time from a caller that is refused without a handshake to the next caller.
const REFUSAL_EVERY: Duration = Duration::from_millis(2);
/// Minimum time for which a caller counts as one of its source: a source whose handshakes fail at
/// once starts 8 of the 20 of a second.
const COUNTED_FOR: Duration = Duration::from_secs(1);
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(5);
/// Maximum number of addresses in an invitation.
const MAX_ADDRESSES: usize = 4;

/// Event while a device waits, to be shown to the person. Callers without a key cause few.
#[derive(Debug)]
pub enum Event {
    /// A caller was refused.
    Refused {
        /// Address of the caller.
        from: PipeAddress,
        /// Id of its key, if it has presented one.
        device: Option<DeviceId>,
        /// Reason.
        problem: String,
    },
}

/// A person's answer to the question whether to trust a device, and the one who asks.
pub(crate) type Answer = Pin<Box<dyn Future<Output = bool>>>;
pub(crate) type Ask = Box<dyn Fn(&Peer) -> Answer>;

/// A device that shows a code and waits to be called.
#[derive(Debug)]
pub struct Listener {
    socket: Socket,
    local_only: bool,
    code: PairingCode,
    /// Signals, handled from before the invitation is shown.
    stop: Stop,
}

/// A socket that listens, with its address.
#[derive(Debug)]
enum Socket {
    Tcp(TcpListener, SocketAddr),
    /// Beside that of a pipe, for a process that carries its connections.
    Unix {
        listener: UnixListener,
        pipe: PathBuf,
        /// Removed with this.
        _file: SocketFile,
    },
}

impl Socket {
    async fn bind(address: &PipeAddress) -> std::io::Result<Self> {
        match address {
            PipeAddress::Tcp(address) => {
                let listener = TcpListener::bind(address).await?;
                let address = listener.local_addr()?;
                Ok(Self::Tcp(listener, address))
            }
            PipeAddress::Unix(pipe) => {
                let path = pairing_socket(pipe)?;
                Ok(Self::Unix {
                    listener: socket_file::listen(&path, PIPE_MODE)?,
                    pipe: pipe.clone(),
                    _file: SocketFile(Some(path)),
                })
            }
        }
    }

    /// The next caller, not before an instant.
    async fn accept(&self, from: Instant) -> std::io::Result<(PipeStream, PipeAddress)> {
        tokio::time::sleep_until(from).await;
        match self {
            Self::Tcp(listener, _) => {
                let (tcp, from) = listener.accept().await?;
                Ok((tcp.into(), from.into()))
            }
            Self::Unix { listener, pipe, .. } => {
                let (unix, _) = listener.accept().await?;
                Ok((unix.into(), PipeAddress::Unix(pipe.clone())))
            }
        }
    }
}

/// Holder of a caller's share of the limits: all at a Unix socket are one.
fn holder(from: &PipeAddress) -> IpAddr {
    from.tcp().map_or(Ipv4Addr::UNSPECIFIED.into(), source)
}

impl Listener {
    /// Opens the socket. With `local_only` only those are served that are on one of this
    /// machine's own networks; it is for addresses of networks.
    ///
    /// # Errors
    /// When the address cannot be bound, or no code can be made.
    pub async fn bind(address: &PipeAddress, local_only: bool) -> Result<Self, PairError> {
        let socket = Socket::bind(address).await.map_err(|e| {
            PairError::Listen(std::io::Error::new(e.kind(), format!("{address}: {e}")))
        })?;
        let code = PairingCode::generate()
            .map_err(|_| PairError::Listen(std::io::Error::other("cannot read random bytes")))?;
        Ok(Self {
            socket,
            local_only,
            code,
            stop: Stop::listen(),
        })
    }

    /// Data for the other device: addresses, code, id.
    pub fn invitation(&self, own: &Own) -> Invitation {
        Invitation {
            addresses: match self.socket {
                Socket::Tcp(_, address) => addresses(address, own.introduction.service),
                Socket::Unix { .. } => Vec::new(),
            },
            code: self.code.clone(),
            id: own.identity.id(),
        }
    }

    /// Waits for a device that has the code, within a time limit, and pairs with it. `ask` asks the
    /// person for consent; `tell` gets the events of other callers.
    ///
    /// # Errors
    /// The reason of a failure; nothing has changed then.
    pub async fn serve<A>(
        self,
        own: &Own,
        within: Duration,
        ask: A,
        tell: impl Fn(Event),
    ) -> Result<Paired, PairError>
    where
        A: AsyncFn(&Peer) -> bool + 'static,
    {
        let local = tokio::task::LocalSet::new();
        let (_never, cancel) = watch::channel(false);
        let ask = Rc::new(ask);
        let ask = move |peer: &Peer| -> Answer {
            let (ask, peer) = (Rc::clone(&ask), peer.clone());
            Box::pin(async move { ask(&peer).await })
        };
        let wait = self.wait(own, within, cancel, Box::new(ask), &tell);
        local.run_until(wait).await
    }

    /// The same within a `LocalSet`, until `cancel` becomes true.
    pub(crate) async fn wait(
        self,
        own: &Own,
        within: Duration,
        mut cancel: watch::Receiver<bool>,
        ask: Ask,
        tell: &dyn Fn(Event),
    ) -> Result<Paired, PairError> {
        let room = Rc::new(Room {
            own: own.clone(),
            code: self.code,
            attempts: RefCell::default(),
            clock: Clock::start(),
            ask,
        });
        // `callers` and the rate limit all of them.
        let callers_of = Quota::new(usize::MAX, MAX_CALLERS_EACH);
        let mut counted = VecDeque::new();
        let lines = PeerLog::default();
        let tell = |from: PipeAddress, device: Option<DeviceId>, problem: String| {
            // A caller with a key has made a handshake: a person may try again and again.
            if device.is_some() || lines.line(holder(&from), room.clock.now()).is_some() {
                tell(Event::Refused {
                    from,
                    device,
                    problem,
                });
            }
        };
        let (give_up, quit) = watch::channel(false);
        let mut stop = self.stop;
        let mut given_up = false;
        let mut callers: JoinSet<Visit> = JoinSet::new();
        let late = Instant::now() + within;
        let mut next = Instant::now();
        loop {
            let taken = room.attempts.borrow().is_used();
            if taken && callers.is_empty() {
                // The caller with the code has reported, which returned above.
                return Err(PairingError::Void.into());
            }
            // Only the caller with the code may have made changes to undo.
            if given_up && (!taken || callers.is_empty()) {
                return Err(PairingError::GivenUp.into());
            }
            tokio::select! {
                accepted = self.socket.accept(next),
                    if !taken && !given_up && callers.len() < MAX_CALLERS =>
                {
                    let Ok((stream, from)) = accepted else {
                        // Probably out of descriptors, which lasts: do not spin.
                        tokio::time::sleep(Duration::from_millis(100)).await;
                        continue;
                    };
                    next = Instant::now() + REFUSAL_EVERY;
                    if self.local_only && from.tcp().is_some_and(|from| !is_local(from.ip())) {
                        let problem = "it is not on a network of this machine".to_owned();
                        tell(from, None, problem);
                        continue;
                    }
                    let now = Instant::now();
                    while counted.pop_front_if(|(until, _)| *until <= now).is_some() {}
                    let Ok(share) = callers_of.take(holder(&from)) else {
                        let problem = "too many calls at a time from this address".to_owned();
                        tell(from, None, problem);
                        continue;
                    };
                    next = now + HANDSHAKE_EVERY;
                    let share = Rc::new(share);
                    counted.push_back((now + COUNTED_FOR, Rc::clone(&share)));
                    let (room, quit) = (Rc::clone(&room), quit.clone());
                    callers.spawn_local(async move {
                        let _share = share;
                        room.visit(stream, from, quit).await
                    });
                }
                Some(visit) = callers.join_next() => {
                    let Ok(Visit { from, device, end }) = visit else {
                        continue;
                    };
                    let problem = match end {
                        // The caller with the code ends the wait.
                        Ok(Ending { proven: true, result }) => return Ok(result?),
                        Ok(Ending { result: Ok(_), .. }) => continue,
                        Ok(Ending { result: Err(e), .. }) => e.to_string(),
                        Err(e) => e.to_string(),
                    };
                    tell(from, device, problem);
                    let attempts = room.attempts.borrow();
                    if attempts.is_void() && !attempts.is_used() {
                        return Err(PairingError::Void.into());
                    }
                }
                () = tokio::time::sleep_until(late), if !taken && !given_up => {
                    return Err(PairError::NobodyCame);
                }
                _ = stop.wait(), if !given_up => {
                    given_up = true;
                    give_up.send_replace(true);
                }
                true = quits(&mut cancel), if !given_up => {
                    given_up = true;
                    give_up.send_replace(true);
                }
            }
        }
    }
}

/// Result of one caller.
struct Visit {
    from: PipeAddress,
    device: Option<DeviceId>,
    end: Result<Ending, TlsError>,
}

/// State shared by all callers, among it the number of attempts left.
struct Room {
    own: Own,
    code: PairingCode,
    attempts: RefCell<Attempts>,
    clock: Clock,
    ask: Ask,
}

impl Room {
    async fn visit(
        &self,
        stream: PipeStream,
        from: PipeAddress,
        quit: watch::Receiver<bool>,
    ) -> Visit {
        let deadline = Instant::now() + HANDSHAKE_WITHIN;
        let accepted = TlsStream::accept_to_pair(stream, &self.own.identity, deadline).await;
        let mut tls = match accepted {
            Ok(tls) => tls,
            Err(e) => {
                let (device, end) = (None, Err(e));
                return Visit { from, device, end };
            }
        };
        let device = Some(tls.peer_id());
        let parties = Parties {
            own: &self.own,
            code: &self.code,
            attempts: &self.attempts,
            clock: &self.clock,
            quit,
            ask: async |peer: &Peer| (self.ask)(peer).await,
        };
        let end = Ok(hold(End::Listener, &mut tls, &from, parties).await);
        Visit { from, device, end }
    }
}

fn ip(address: Option<&SockaddrStorage>) -> Option<IpAddr> {
    let address = address?;
    let v4 = address.as_sockaddr_in().map(|a| IpAddr::V4(a.ip()));
    v4.or_else(|| address.as_sockaddr_in6().map(|a| IpAddr::V6(a.ip())))
}

/// Addresses of this machine's interfaces that are up, with their networks.
fn networks() -> Vec<(IpAddr, IpNet, InterfaceAddress)> {
    let all = getifaddrs().into_iter().flatten();
    let up = all.filter(|i| i.flags.contains(InterfaceFlags::IFF_UP));
    up.filter_map(|i| {
        let own = ip(i.address.as_ref())?;
        let mask = ip(i.netmask.as_ref())?;
        Some((own, IpNet::with_netmask(own, mask).ok()?, i))
    })
    .collect()
}

/// Whether an address is on one of this machine's own networks.
fn is_local(ip: IpAddr) -> bool {
    let ip = ip.to_canonical();
    networks()
        .iter()
        .any(|(_, network, _)| network.contains(&ip))
}

/// Addresses at which others reach a socket that listens here: that of the service first, which
/// callers need as well, then private networks that are no uplink, then other private ones.
fn addresses(listen: SocketAddr, service: Option<SocketAddr>) -> Vec<SocketAddr> {
    if !listen.ip().is_unspecified() {
        return vec![listen];
    }
    let up = networks()
        .into_iter()
        .filter(|(ip, _, i)| ip.is_ipv4() && !i.flags.contains(InterfaceFlags::IFF_LOOPBACK));
    let up: Vec<(IpAddr, String)> = up.map(|(ip, _, i)| (ip, i.interface_name)).collect();
    let uplinks = uplinks()
        .into_iter()
        .map(|u| u.interface)
        .collect::<Vec<_>>();
    let port = listen.port();
    let ips = ordered(up, &uplinks, service.map(|s| s.ip()));
    ips.into_iter()
        .map(|ip| SocketAddr::new(ip, port))
        .collect()
}

/// Addresses in the order in which a caller should try them, with their interfaces.
fn ordered(
    mut own: Vec<(IpAddr, String)>,
    uplinks: &[String],
    service: Option<IpAddr>,
) -> Vec<IpAddr> {
    own.sort_by_key(|(ip, interface)| {
        let is_private = matches!(ip, IpAddr::V4(ip) if ip.is_private());
        (
            Some(*ip) != service,
            !is_private,
            uplinks.contains(interface),
        )
    });
    let mut ips: Vec<IpAddr> = own.into_iter().map(|(ip, _)| ip).collect();
    ips.dedup();
    ips.truncate(MAX_ADDRESSES);
    if ips.is_empty() {
        ips.push(IpAddr::from([127, 0, 0, 1]));
    }
    ips
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use mpbond_net::Identity;
    use mpbond_net::pairing::{Introduction, Role};

    use super::*;
    use crate::config::TrustFile;
    use crate::pairing::Book;

    #[tokio::test]
    async fn callers_are_bounded_in_rate() {
        const CALLERS: u8 = 6;
        let folder = tempfile::tempdir().unwrap();
        let key = folder.path().join("key.pem");
        let own = Own {
            identity: Identity::load_or_create(&key).unwrap(),
            introduction: Introduction {
                role: Role::Helper,
                name: "phone".to_owned(),
                service: None,
            },
            book: Book::Trust(TrustFile::beside(&key)),
        };
        let any = "127.0.0.1:0".parse().unwrap();
        let listener = Listener::bind(&any, false).await.unwrap();
        let address = listener.invitation(&own).addresses[0];
        let within = Duration::from_secs(600);
        // Each is dropped when it has sent what is no handshake.
        let callers = std::thread::spawn(move || {
            let begun = std::time::Instant::now();
            let call = |_| std::net::TcpStream::connect(address).unwrap();
            let callers: Vec<_> = (0..CALLERS).map(call).collect();
            for mut caller in callers {
                let _ = caller.write_all(&[0; 100]);
                let _ = caller.read_to_end(&mut Vec::new());
            }
            begun.elapsed()
        });
        let (cancel, cancelled) = watch::channel(false);
        let waiting = async {
            let ask: Ask = Box::new(|_| Box::pin(async { true }));
            let (waits, over) = (
                listener.wait(&own, within, cancelled, ask, &|_| ()),
                tokio::task::spawn_blocking(move || {
                    let took = callers.join().unwrap();
                    cancel.send_replace(true);
                    took
                }),
            );
            let (end, took) = tokio::join!(waits, over);
            assert!(end.is_err());
            took.unwrap()
        };
        let took = tokio::task::LocalSet::new().run_until(waiting).await;
        assert!(took >= HANDSHAKE_EVERY * u32::from(CALLERS - 1), "{took:?}");
    }

    #[test]
    fn the_address_of_the_service_comes_first_then_networks_that_are_no_uplink() {
        let own = [
            ("203.0.113.7", "wwan0"),
            ("192.168.1.5", "wlan0"),
            ("192.168.49.1", "usb0"),
        ];
        let own = own.map(|(ip, name)| (ip.parse().unwrap(), name.to_owned()));
        let uplinks = ["wlan0", "wwan0"].map(str::to_owned);
        let order = |service: Option<&str>| {
            let service = service.map(|ip| ip.parse().unwrap());
            let ips = ordered(own.to_vec(), &uplinks, service);
            ips.iter().map(IpAddr::to_string).collect::<Vec<_>>()
        };
        assert_eq!(order(None), ["192.168.49.1", "192.168.1.5", "203.0.113.7"]);
        let listen = order(Some("203.0.113.7"));
        assert_eq!(listen, ["203.0.113.7", "192.168.49.1", "192.168.1.5"]);
        assert_eq!(order(Some("0.0.0.0")), order(None));
        assert_eq!(ordered(Vec::new(), &[], None).len(), 1);
    }
}
