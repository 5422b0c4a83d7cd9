//! DNS look-ups of intercepted applications, over the session.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;

use mpbond_intercept::Destination;
use mpbond_intercept::dns::{DnsConfig, DnsSockets, DnsStub, LocalNames};
use mpbond_manager::Admission;
use mpbond_session::StreamClass;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, copy_bidirectional};
use tokio::sync::{mpsc, oneshot};

use super::local_names::LocalResolvers;
use crate::config::OnProxyLoss;
use crate::driver::Driver;
use crate::names;
use crate::primary::connections::{
    direct::connect,
    reach::Reach,
    rescue,
    room::{NO_EARLY, destination, usable_session},
};
use crate::primary::state::Primary;
use crate::upgrade::Listeners;

/// Resolvers for proxies that do not answer look-ups themselves, and for direct connections in a
/// network without any: two public ones of different operators.
pub const PUBLIC: [SocketAddr; 2] = [
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(9, 9, 9, 9)), 53),
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(1, 1, 1, 1)), 53),
];

/// Buffer for a DNS message in each direction.
const DUPLEX_BYTES: usize = 4 << 10;

type Call = (Destination, oneshot::Sender<io::Result<DuplexStream>>);

/// Opens the sockets of a stub at this address, or takes them over.
pub(super) async fn open(
    own: &mut Listeners,
    listen: SocketAddr,
    mark: Option<u32>,
) -> io::Result<DnsSockets> {
    let [of_udp, of_tcp] = ["UDP", "TCP"].map(|kind| format!("names {kind} {}", listen.ip()));
    let sockets = match (own.inherit_udp(&of_udp)?, own.inherit(&of_tcp)?) {
        (Some(udp), Some(tcp)) => DnsSockets { udp, tcp },
        _ => DnsSockets::bind(listen, mark).await?,
    };
    own.offer(of_udp, &sockets.udp)?;
    own.offer(of_tcp, &sockets.tcp)?;
    Ok(sockets)
}

/// Starts a stub, which answers until another process has taken over.
pub(super) fn start(
    primary: &Rc<Primary>,
    sockets: Vec<DnsSockets>,
    resolvers: &[SocketAddr],
    resolvers_here: &Arc<LocalResolvers>,
) {
    let mut config = DnsConfig {
        families: Arc::clone(&primary.families.carried),
        known: Arc::clone(&primary.known_names),
        is_here: |client| Reach::of(client) == Reach::Any,
        ..DnsConfig::default()
    };
    let used = match resolvers {
        [] => &PUBLIC,
        _ => resolvers,
    };
    config.resolvers = used.iter().map(of_address).collect();
    let of_proxy = resolvers.is_empty();
    let known = Arc::clone(resolvers_here);
    config.local = Some(LocalNames {
        resolver: local_resolver(),
        is_present: Arc::new(move || !known.find().is_empty()),
    });
    let stub = DnsStub::new(sockets, config);
    let mut handed_over = primary.handed_over.subscribe();
    // The stub's tasks may run on any thread, the session's only on this one: calls go over a
    // channel.
    let (calls, mut called) = mpsc::unbounded_channel::<Call>();
    let (primary, here) = (Rc::clone(primary), Arc::clone(resolvers_here));
    let service = Rc::new(names::NameService::new(&primary.resolver));
    crate::task::spawn_local(async move {
        // As long as the stub.
        let _busy = Rc::clone(&primary.busy);
        while let Some((to, answer)) = called.recv().await {
            if to == local_resolver() {
                let here = Arc::clone(&here);
                let served = look_up_at(&service, move || here.find());
                let _ = answer.send(served);
                continue;
            }
            let (primary, here) = (Rc::clone(&primary), Arc::clone(&here));
            let service = Rc::clone(&service);
            crate::task::spawn_local(async move {
                let dialled = match usable_session(&primary).await {
                    Some(driver) => dial(&primary, &driver, &to, of_proxy),
                    None => without_proxy(&primary, &service, &here, &to).await,
                };
                // The stub may have given the look-up up.
                let _ = answer.send(dialled);
            });
        }
    });
    let dial = move |to| {
        let calls = calls.clone();
        async move {
            let (answer, answered) = oneshot::channel();
            let gone = || io::Error::from(io::ErrorKind::NotConnected);
            calls.send((to, answer)).map_err(|_| gone())?;
            answered.await.map_err(|_| gone())?
        }
    };
    // The sender is there as long as the primary.
    let stop = async move { drop(handed_over.wait_for(|over| *over).await) };
    tokio::spawn(stub.run(dial, stop));
}

/// Stands for the resolvers of the local network.
fn local_resolver() -> Destination {
    Destination::from_ip(Ipv4Addr::UNSPECIFIED.into(), 53)
}

/// A stream to these resolvers of the network.
fn look_up_at(
    service: &names::NameService<()>,
    present: impl Fn() -> Vec<SocketAddr> + 'static,
) -> io::Result<DuplexStream> {
    let served = service.serve((), names::Servers::These(Rc::new(present)));
    served.ok_or(io::ErrorKind::QuotaExceeded.into())
}

/// Look-ups without the proxy, for connections that go direct: by the resolvers of the network, as
/// without mpbond. A captive portal often answers no other look-ups. Where the system knows none,
/// by this one.
async fn without_proxy(
    primary: &Rc<Primary>,
    service: &names::NameService<()>,
    here: &Arc<LocalResolvers>,
    to: &Destination,
) -> io::Result<DuplexStream> {
    if primary.on_proxy_loss.get() == OnProxyLoss::Fail {
        return Err(io::ErrorKind::NotConnected.into());
    }
    let (ours, theirs) = tokio::io::duplex(DUPLEX_BYTES);
    if here.all().is_empty() {
        // The configuration names the resolvers.
        let resolver = connect(&primary.resolver, to, Reach::Any).await?;
        join(primary, ours, resolver);
    } else {
        let here = Arc::clone(here);
        join(primary, ours, look_up_at(service, move || here.all())?);
    }
    Ok(theirs)
}

/// Joins both streams as long as connections go direct. The stub asks again over the session where
/// an answer is missing then.
fn join(
    primary: &Rc<Primary>,
    mut ours: DuplexStream,
    mut resolver: impl AsyncRead + AsyncWrite + Unpin + 'static,
) {
    let primary = Rc::clone(primary);
    // The local network may answer with any addresses.
    let paused = primary.known_names.pause();
    crate::task::spawn_local(async move {
        let _paused = paused;
        // Errors show at the stub.
        tokio::select! {
            _ = copy_bidirectional(&mut ours, &mut resolver) => {}
            () = proxy_is_back(&primary) => {}
        }
    });
}

async fn proxy_is_back(primary: &Primary) {
    let mut changed = primary.changed.subscribe();
    let is_lost =
        || primary.manager.borrow().admission(primary.clock.now()) == Admission::WithoutProxy;
    while is_lost() {
        // The sender is there as long as the primary.
        let _ = changed.changed().await;
    }
}

/// A stream to a resolver: with `of_proxy` to those of the proxy, if it answers look-ups, and to
/// this one otherwise.
fn dial(
    primary: &Rc<Primary>,
    driver: &Driver,
    to: &Destination,
    of_proxy: bool,
) -> io::Result<DuplexStream> {
    let proxy_answers = driver.inspect(|session, _, _| {
        let capabilities = session.peer_capabilities();
        capabilities.is_some_and(|c| c.answers_look_ups)
    });
    let asked = match of_proxy && proxy_answers {
        true => names::destination(),
        false => destination(to),
    };
    let (ours, theirs) = tokio::io::duplex(DUPLEX_BYTES);
    let stream = driver
        .open(asked, StreamClass::Interactive, NO_EARLY, ours)
        .map_err(io::Error::other)?;
    rescue::watch_look_ups(primary, stream, to.clone());
    Ok(theirs)
}

/// Note for the user about the resolvers.
pub(super) fn note(resolvers: &[SocketAddr]) -> String {
    let list = |resolvers: &[SocketAddr]| {
        let all: Vec<_> = resolvers.iter().map(|r| r.ip().to_string()).collect();
        all.join(" and ")
    };
    match resolvers {
        [] => format!(
            "names are looked up by the resolvers of the proxy, or by {} while it answers none \
             (`resolvers` under [transparent])",
            list(&PUBLIC)
        ),
        _ => format!(
            "names are looked up by {}, over the session (`resolvers` under [transparent])",
            list(resolvers)
        ),
    }
}

fn of_address(address: &SocketAddr) -> Destination {
    Destination::from_ip(address.ip(), address.port())
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;
    use crate::config::PrimaryConfig;
    use crate::primary::links::limits::Limits;

    /// A primary whose proxy does not exist.
    fn lonely(on_proxy_loss: &str) -> Rc<Primary> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("primary.toml");
        let id = mpbond_net::DeviceId::from_bytes([7; 32]);
        let text = format!(
            "on_proxy_loss = \"{on_proxy_loss}\"\n[[path]]\n[proxy]\n\
             address = \"127.0.0.1:9\"\nid = \"{id}\"\n"
        );
        std::fs::write(&file, text).unwrap();
        let identity = mpbond_net::Identity::generate().unwrap();
        let limits = Limits::load(&folder.path().join("identity.pem")).unwrap();
        Rc::new(Primary::new(
            PrimaryConfig::load(&file).unwrap(),
            identity,
            limits,
        ))
    }

    #[tokio::test(flavor = "current_thread")]
    async fn names_go_direct_where_connections_do() {
        let resolver = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let to = resolver.local_addr().unwrap();
        let to = Destination::from_ip(to.ip(), to.port());
        // No resolver of the network is known.
        let nowhere = Arc::new(LocalResolvers::of_files(&[""; 0], Vec::new()));
        let look_up = async |on_proxy_loss| {
            let primary = lonely(on_proxy_loss);
            assert!(usable_session(&primary).await.is_none());
            let service = names::NameService::new(&primary.resolver);
            without_proxy(&primary, &service, &nowhere, &to).await
        };
        let refused = look_up("fail").await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::NotConnected);
        let local = tokio::task::LocalSet::new();
        let talk = async {
            let mut stream = look_up("direct").await.unwrap();
            let (mut heard, _) = resolver.accept().await.unwrap();
            stream.write_all(b"who?").await.unwrap();
            let mut words = [0; 4];
            heard.read_exact(&mut words).await.unwrap();
            assert_eq!(&words, b"who?");
            heard.write_all(b"me").await.unwrap();
            drop(heard);
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            assert_eq!(answer, "me");
        };
        let talk = tokio::time::timeout(std::time::Duration::from_secs(30), talk);
        local.run_until(talk).await.unwrap();
    }
}
