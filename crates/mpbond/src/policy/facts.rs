//! Facts of a client's connection on which rules depend.

use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use mpbond_intercept::{Destination, Via};
use mpbond_net::sock_diag::SocketOwner;
use mpbond_policy::{Claim, Class, DomainName, Fact, Flow, application_of};

/// Origin of facts of the client's socket.
const KERNEL: &str = "the kernel";

/// Origin of facts that a client states.
const CLIENT: &str = "the client";

/// Reason for which there are no facts of the client's socket.
const NO_SOCKET: &str = "the client has no socket on this host";

/// A client's connection.
pub struct Client<'a> {
    /// Way in which it was intercepted.
    pub via: Via,
    /// Address of the client.
    pub address: IpAddr,
    /// Its destination, as the client states it.
    pub destination: &'a Destination,
    /// Its socket, if it is one of this host.
    pub owner: Option<SocketOwner>,
    /// Path of the control group of its socket, where it was looked for.
    pub cgroup: Option<Rc<str>>,
    /// Class that it claims.
    pub claim: Option<Class>,
}

/// The program at the other end of a connection.
pub struct Program {
    /// Its identifier.
    pub app: Fact<String>,
    /// User id of the socket.
    pub uid: Fact<u32>,
    /// Path of the socket's control group.
    pub cgroup: Fact<String>,
}

/// The program that has this socket, in this control group.
pub fn program(owner: Option<SocketOwner>, cgroup: Option<&str>) -> Program {
    let cgroup = match (cgroup, owner) {
        (Some(path), _) => Fact::known(path.to_owned(), KERNEL),
        (None, Some(_)) => Fact::unknown("its control group was not found"),
        (None, None) => Fact::unknown(NO_SOCKET),
    };
    let app = match cgroup.get() {
        Some((path, _)) => application_of(path),
        None => Fact::unknown(cgroup.origin()),
    };
    let uid = of_socket(owner.map(|owner| owner.uid));
    Program { app, uid, cgroup }
}

/// The facts of a connection.
pub fn flow(client: &Client<'_>) -> Flow {
    let owner = client.owner;
    let Program { app, uid, cgroup } = program(owner, client.cgroup.as_deref());
    let (domain, ip, port) = match client.destination {
        Destination::Addr(to) => {
            let origin = match client.via {
                Via::Transparent => KERNEL,
                _ => CLIENT,
            };
            let ip = Fact::known(to.ip().to_canonical(), origin);
            (Fact::unknown("the client named an address"), ip, to.port())
        }
        Destination::Name { host, port } => {
            let domain = match DomainName::new(host) {
                Some(name) => Fact::known(vec![name], CLIENT),
                None => Fact::unknown("the client named no valid domain"),
            };
            (domain, Fact::unknown("the client named a domain"), *port)
        }
    };
    Flow {
        app,
        uid,
        cgroup,
        dscp: of_socket(owner.and_then(|owner| owner.dscp())),
        domain,
        ip,
        port,
        source: Fact::known(client.address.to_canonical(), KERNEL),
        claim: claim(client.claim),
    }
}

/// The name of the destination, by the ClientHello of an intercepted connection. With an encrypted
/// ClientHello it is that of the server which decrypts it, and nothing shows that.
pub fn stated(server_name: Option<&str>) -> Fact<Vec<DomainName>> {
    match server_name.and_then(DomainName::new) {
        Some(name) => Fact::guessed(vec![name], "the ClientHello"),
        None => Fact::unknown("the client sent no ClientHello with a name"),
    }
}

/// Names of the destination, by answers of the DNS stub. Servers share addresses, and any client
/// may have asked.
pub fn looked_up(names: &[Arc<str>]) -> Option<Fact<Vec<DomainName>>> {
    let names: Vec<DomainName> = names.iter().filter_map(|n| DomainName::new(n)).collect();
    (!names.is_empty()).then(|| Fact::guessed(names, "answers of the DNS stub"))
}

/// Claim of a class, and of nothing else.
pub(super) fn claim(class: Option<Class>) -> Claim {
    Claim {
        class,
        multipath: None,
    }
}

fn of_socket<T>(value: Option<T>) -> Fact<T> {
    value.map_or(Fact::unknown(NO_SOCKET), |value| Fact::known(value, KERNEL))
}
