//! Checks that proxy and helpers answer, and have the expected ids.

use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, Shutdown, SocketAddr};
use std::path::Path;
use std::time::Duration;

use mpbond::checks::packets::{Passed, Passes, through};
use mpbond::config::{HelperAddress, HelperConfig, HelperRef, PathConfig, PrimaryConfig};
use mpbond::discovery::find;
use mpbond::own_mark;
use mpbond::speed::Links;
use mpbond_intercept::rules::is_intercepted;
use mpbond_manager::{LinkId, SEGMENT_BYTES};
use mpbond_net::control::{
    ControlChannel, Message, RefusalCode, RequestId, VERSION, relay_preamble,
};
use mpbond_net::pipe::{PipeAddress, PipeStream, UnixPipe};
use mpbond_net::tcp::{self, TcpError, TcpInfo, TcpOptions, Tuning};
use mpbond_net::tls::{TlsError, TlsStream};
use mpbond_net::{DeviceId, Identity};
use socket2::SockRef;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};

use super::super::hints::sudo;
use super::finding::Findings;
use super::link_advice::{correct_mtu, correct_mtu_of_helper, no_route};
use super::unix_pipes;
use super::unreachable::{own_address, reason};
use mpbond_units::human;

/// Time limit of each step: longer than any useful path needs.
const PATIENCE: Duration = Duration::from_secs(5);
/// Time limit of TLS over a socket: the process that carries it may connect Bluetooth only then.
const SOCKET_PATIENCE: Duration = Duration::from_secs(15);
/// Segment size of a path with an MTU of 1280 bytes.
const SMALL_SEGMENT_BYTES: u64 = 1220;

/// The smallest segments, with which a primary joins a path where larger ones do not pass.
const LEAST: Option<u32> = SEGMENT_BYTES.last().copied();

const THROUGH: &str = "the proxy through the helper";

/// The part of a way that works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reached {
    Nothing,
    /// The helper trusts this device, over a pipe through a socket, which has no packets.
    OverSocket,
    /// The helper trusts this device, and the proxy is not reached through it.
    Helper,
    /// The proxy trusts this device, and packets of usual size do not pass.
    Small,
    /// The proxy trusts this device.
    Proxy,
}

/// The proxy over one of the primary's own paths: TCP, TLS, trust.
pub(super) async fn proxy_over_path(
    findings: &mut Findings,
    config: &PrimaryConfig,
    path: &PathConfig,
    remotes: &[SocketAddr],
    (identity, known): (&Identity, bool),
) -> Reached {
    let check = format!("path {}", path.name);
    let Some(first) = remotes.first() else {
        findings.fail(
            &check,
            "the proxy has no address that this path can reach",
            "write one of the family of the path's `source` into `address` under [proxy]",
        );
        return Reached::Nothing;
    };
    let options = options(
        *first,
        path.interface.as_deref(),
        path.source,
        config.congestion.as_deref(),
    );
    let Some(tcp) = connect(findings, &check, "the proxy", &options, remotes).await else {
        return Reached::Nothing;
    };
    let (id, at) = (config.proxy.id, tcp.peer_addr().unwrap_or(*first));
    let mut shaken = TlsStream::connect(tcp, identity, id, Instant::now() + PATIENCE).await;
    let mut reached = Reached::Proxy;
    if matches!(shaken, Err(TlsError::Deadline))
        && let Some(small) = again(options.clone(), at, (identity, id), LEAST).await
    {
        // After an outage, handshakes of either kind come through.
        if let Some(usual) = again(options, at, (identity, id), None).await {
            shaken = Ok(usual);
        } else {
            findings.warn(
                &check,
                "only small packets pass: the TLS handshake needs segments of 536 octets",
                correct_mtu(path.interface.as_deref()),
            );
            (shaken, reached) = (Ok(small), Reached::Small);
        }
    }
    let Some(tls) = report(findings, &check, "the proxy", shaken, identity) else {
        return Reached::Nothing;
    };
    match trusted(findings, &check, "the proxy", tls, identity, known).await {
        true => reached,
        false => Reached::Nothing,
    }
}

/// Another handshake, with segments of at most this size.
async fn again(
    mut options: TcpOptions,
    proxy: SocketAddr,
    (identity, expect): (&Identity, DeviceId),
    max_segment_bytes: Option<u32>,
) -> Option<TlsStream> {
    options.tuning.max_segment_bytes = max_segment_bytes;
    let tcp = tcp::connect_any(&options, &[proxy]).await.ok()?;
    let deadline = Instant::now() + PATIENCE;
    TlsStream::connect(tcp, identity, expect, deadline)
        .await
        .ok()
}

/// A proxy over TCP alone, as a helper reaches it.
pub(super) async fn proxy_from_helper(
    findings: &mut Findings,
    config: &HelperConfig,
    proxy: SocketAddr,
) {
    let options = options(
        proxy,
        config.uplink.interface.as_deref(),
        config.uplink.source,
        config.congestion.as_deref(),
    );
    let check = format!("proxy {proxy}");
    connect(findings, &check, "the proxy", &options, &[proxy]).await;
}

/// A helper: TCP, TLS and trust of its control connection, then a relay to the proxy.
pub(super) async fn helper(
    findings: &mut Findings,
    config: &PrimaryConfig,
    (link, helper): (LinkId, &HelperRef),
    proxy: &[SocketAddr],
    me: (&Identity, bool),
) -> Reached {
    let (identity, _) = me;
    let check = format!("helper {}", helper.name);
    let address = match &helper.address {
        HelperAddress::At(PipeAddress::Tcp(address)) => *address,
        HelperAddress::At(PipeAddress::Unix(path)) => {
            return match unix_pipes::of_primary(findings, &check, path) {
                true => over_socket(findings, &check, path, helper.id, me).await,
                false => Reached::Nothing,
            };
        }
        HelperAddress::Discover => match find(&identity.id(), &helper.id).await {
            Ok(address) => {
                findings.ok(&check, format!("found at {address}"));
                address
            }
            Err(e) => {
                findings.fail(
                    &check,
                    format!("{e}"),
                    "is it on the same network, does it trust this device, does a firewall let \
                     UDP port 5353 through? Or write its address instead of \"discover\"",
                );
                return Reached::Nothing;
            }
        },
    };
    let options = options(
        address,
        helper.interface.as_deref(),
        helper.source,
        config.congestion.as_deref(),
    );
    let Some(tcp) = connect(findings, &check, "the helper", &options, &[address]).await else {
        return Reached::Nothing;
    };
    let Some(tls) = shake(findings, &check, "the helper", tcp, identity, helper.id).await else {
        return Reached::Nothing;
    };
    let Some(mut control) = greeted(findings, &check, tls, me).await else {
        return Reached::Nothing;
    };
    let mut reached = relay(findings, &check, config, &options, &mut control, proxy, me).await;
    leave(&mut control).await;
    if let Err(shaken) = reached {
        reached = match small_through(config, identity, (link, helper)).await {
            true => {
                findings.warn(
                    &check,
                    "only small packets pass behind the helper: the TLS handshake with the proxy \
                     needs segments of 536 octets",
                    correct_mtu_of_helper(),
                );
                Ok(Reached::Small)
            }
            false => {
                report(findings, &check, THROUGH, Err(shaken), identity);
                Ok(Reached::Helper)
            }
        };
    }
    reached.unwrap_or(Reached::Helper)
}

/// A helper over a pipe through a socket: TLS, and trust of its control connection. A relay is not
/// asked for.
async fn over_socket(
    findings: &mut Findings,
    check: &str,
    path: &Path,
    helper: DeviceId,
    me: (&Identity, bool),
) -> Reached {
    let socket = match timeout(PATIENCE, UnixPipe::connect(path)).await {
        Ok(Ok(socket)) => PipeStream::Unix(socket),
        Ok(Err(e)) => {
            let advice = "look into the log of the process that carries it";
            findings.fail(check, format!("unix:{}: {e}", path.display()), advice);
            return Reached::Nothing;
        }
        Err(_) => {
            let advice = "is the process that carries it stopped?";
            let detail = format!("unix:{}: no connection for 5 s", path.display());
            findings.fail(check, detail, advice);
            return Reached::Nothing;
        }
    };
    let deadline = Instant::now() + SOCKET_PATIENCE;
    let shaken = TlsStream::connect(socket, me.0, helper, deadline).await;
    let Some(tls) = report(findings, check, "the helper", shaken, me.0) else {
        return Reached::Nothing;
    };
    let Some(mut control) = greeted(findings, check, tls, me).await else {
        return Reached::Nothing;
    };
    leave(&mut control).await;
    Reached::OverSocket
}

/// The control connection of a helper that trusts this device.
async fn greeted(
    findings: &mut Findings,
    check: &str,
    tls: TlsStream,
    (identity, known): (&Identity, bool),
) -> Option<ControlChannel> {
    let mut control = ControlChannel::new(tls);
    let greeted = timeout(PATIENCE, greet(&mut control, identity)).await;
    match greeted {
        Ok(Ok(Some(Message::Hello { name, .. }))) => {
            findings.ok(
                check,
                format!("trusts this device, and calls itself \"{name}\""),
            );
        }
        Ok(Err(mpbond_net::control::ChannelError::Tls(TlsError::NotTrusted { .. }))) => {
            not_trusted(findings, check, "the helper", identity, known);
            return None;
        }
        other => {
            let what = match other {
                Ok(Ok(Some(message))) => format!("begins with {message:?}"),
                Ok(Ok(None)) => "closes the connection".to_owned(),
                Ok(Err(e)) => format!("breaks off: {e}"),
                Err(_) => "says nothing".to_owned(),
            };
            findings.fail(
                check,
                format!("the helper {what}"),
                "look into its log; is it the same version of mpbond?",
            );
            return None;
        }
    }
    Some(control)
}

async fn leave(control: &mut ControlChannel) {
    let bye = Message::Bye {
        reason: "a doctor's visit".to_owned(),
    };
    let _ = timeout(PATIENCE, control.send(&bye)).await;
}

/// Whether the proxy is reached through a helper with the smallest segments.
async fn small_through(
    config: &PrimaryConfig,
    identity: &Identity,
    (link, helper): (LinkId, &HelperRef),
) -> bool {
    let [.., least] = SEGMENT_BYTES;
    let links = Links::new(config, identity).with_max_segment_bytes(least);
    let Passes { up, down } = through(&links, link, helper).await;
    matches!((up, down), (Passed::In(_), Passed::In(_)))
}

async fn greet(
    control: &mut ControlChannel,
    identity: &Identity,
) -> Result<Option<Message>, mpbond_net::control::ChannelError> {
    let hello = Message::Hello {
        version: VERSION,
        name: identity.id().short(),
    };
    control.send(&hello).await?;
    control.receive().await
}

/// Asks the helper for a relay, and for the proxy through it. The error is a handshake that has
/// stalled.
async fn relay(
    findings: &mut Findings,
    check: &str,
    config: &PrimaryConfig,
    options: &TcpOptions,
    control: &mut ControlChannel,
    remotes: &[SocketAddr],
    (identity, known): (&Identity, bool),
) -> Result<Reached, TlsError> {
    let Some((proxy, others)) = remotes.split_first() else {
        findings.warn(
            check,
            "no relay is asked for: no address of the proxy is known",
            "an IP address in `address` under [proxy] needs no name server",
        );
        return Ok(Reached::Helper);
    };
    let ask = Message::InitMpJoin {
        request: RequestId(1),
        proxy: *proxy,
        others: others.to_vec(),
        express: false,
        max_segment_bytes: None,
    };
    let deadline = Instant::now() + PATIENCE;
    let answer = timeout_at(deadline, async {
        control.send(&ask).await?;
        loop {
            match control.receive().await? {
                Some(Message::HelperState(_) | Message::Report(_) | Message::Ping { .. }) => {}
                other => break Ok::<_, mpbond_net::control::ChannelError>(other),
            }
        }
    })
    .await;
    let ticket = match answer {
        Ok(Ok(Some(Message::Relay { ticket, .. }))) => ticket,
        Ok(Ok(Some(Message::Refused { reason, code, .. }))) => {
            let advice = match code {
                RefusalCode::BudgetSpent => {
                    "wait for the next month, or raise `max_bytes_per_month` there".to_owned()
                }
                RefusalCode::ProxyNotAllowed => format!("there, `proxies` must name {proxy}"),
                // Before a ticket, only the look-up of its own proxies fails.
                RefusalCode::Unreachable => {
                    "there, `mpbond doctor helper` checks the names in `proxies`; an IP address \
                     needs no name server"
                        .to_owned()
                }
                RefusalCode::SwitchedOff => "there, set `enabled = true`".to_owned(),
                _ => "look into its log".to_owned(),
            };
            findings.fail(
                check,
                format!("the helper opens no relay: {reason}"),
                advice,
            );
            return Ok(Reached::Helper);
        }
        _ => {
            findings.fail(
                check,
                "the helper does not answer when asked for a relay",
                "look into its log",
            );
            return Ok(Reached::Helper);
        }
    };
    let remote = options.remote;
    let whom = "the helper's relay";
    let Some(mut tcp) = connect(findings, check, whom, options, &[remote]).await else {
        return Ok(Reached::Helper);
    };
    if let Err(e) = tcp.write_all(&relay_preamble(&ticket)).await {
        findings.fail(
            check,
            format!("the relay breaks off: {e}"),
            "look into the helper's log",
        );
        return Ok(Reached::Helper);
    }
    let deadline = Instant::now() + PATIENCE;
    let shaken = TlsStream::connect(tcp, identity, config.proxy.id, deadline).await;
    if matches!(shaken, Err(TlsError::Deadline)) {
        return shaken.map(|_| Reached::Helper);
    }
    let Some(tls) = report(findings, check, THROUGH, shaken, identity) else {
        return Ok(Reached::Helper);
    };
    match trusted(findings, check, THROUGH, tls, identity, known).await {
        true => Ok(Reached::Proxy),
        false => Ok(Reached::Helper),
    }
}

fn options(
    remote: SocketAddr,
    interface: Option<&str>,
    source: Option<IpAddr>,
    congestion: Option<&str>,
) -> TcpOptions {
    TcpOptions {
        source,
        interface: interface.map(str::to_owned),
        connect_timeout: PATIENCE,
        tuning: Tuning {
            congestion: congestion.map(str::to_owned),
            // Past interception and kill switch.
            mark: own_mark::if_allowed(),
            ..Tuning::default()
        },
        ..TcpOptions::to(remote)
    }
}

async fn connect(
    findings: &mut Findings,
    check: &str,
    whom: &str,
    options: &TcpOptions,
    remotes: &[SocketAddr],
) -> Option<TcpStream> {
    // Routes lead intercepted connections to an interface of their own.
    let own = |to: &SocketAddr| own_address(to.ip(), options.interface.as_deref());
    if options.tuning.mark.is_none() && remotes.iter().filter_map(own).any(is_intercepted) {
        let why = "a primary that runs here intercepts this probe; root's are let through";
        findings.skip(check, whom, why);
        return None;
    }
    let begin = Instant::now();
    match tcp::connect_any(options, remotes).await {
        Ok(tcp) => {
            let took = human::millis(begin.elapsed().as_secs_f64() * 1e3);
            let remote = tcp.peer_addr().unwrap_or(options.remote);
            let from = tcp.local_addr().map(|a| a.ip()).ok();
            let nat = match from {
                Some(ip) if is_inside(ip) && !is_inside(remote.ip()) => {
                    format!("{ip}, a private address: a NAT on the way needs no port opened")
                }
                Some(ip) => ip.to_string(),
                None => "an unknown address".to_owned(),
            };
            findings.ok(
                check,
                format!("{whom} answers at {remote} in {took}, from {nat}"),
            );
            segment(findings, check, &tcp);
            Some(tcp)
        }
        Err(e) => {
            let advice = advice(&e, options);
            findings.fail(check, format!("{whom}: {e}"), advice);
            None
        }
    }
}

/// Checks the segment size that both ends have agreed on.
fn segment(findings: &mut Findings, check: &str, tcp: &TcpStream) {
    if let Ok(info) = TcpInfo::read(tcp)
        && (1..SMALL_SEGMENT_BYTES).contains(&info.mss_bytes)
    {
        findings.warn(
            check,
            format!(
                "segments have {} bytes only: a small MTU on the way",
                info.mss_bytes
            ),
            "tunnels do that; it costs speed, not correctness",
        );
    }
}

/// Remedy for a connection that fails.
fn advice(e: &TcpError, options: &TcpOptions) -> String {
    let remote = match e {
        TcpError::Connect { remote, .. } | TcpError::TimedOut { remote, .. } => *remote,
        _ => options.remote,
    };
    let interface = options.interface.as_deref();
    let link = match (&options.interface, options.source) {
        (Some(interface), _) => interface.clone(),
        (None, Some(source)) => format!("the interface of {source}"),
        (None, None) => "any interface".to_owned(),
    };
    match e {
        TcpError::Interface { cause, .. } if cause.kind() == io::ErrorKind::PermissionDenied => {
            "binding to an interface needs root here: run as root, or use `source`".to_owned()
        }
        TcpError::Interface { .. } => "`ip link` lists the interfaces there are".to_owned(),
        TcpError::Source { .. } => "`ip address` lists the addresses there are".to_owned(),
        TcpError::TimedOut { .. } => format!(
            "nobody answers: is {remote} right, does {link} have Internet, and does the firewall \
             there let TCP port {} in?",
            remote.port()
        ),
        TcpError::Connect { cause, .. } => match cause.kind() {
            io::ErrorKind::ConnectionRefused => format!(
                "the host is there, but nothing listens on port {}, or a firewall refuses: start \
                 mpbond there, or correct the port",
                remote.port()
            ),
            io::ErrorKind::NetworkUnreachable => no_route(interface),
            io::ErrorKind::HostUnreachable => reason(remote.ip(), interface).unwrap_or_else(|| {
                format!(
                    "nobody on {link} has the address {}, or a firewall refuses",
                    remote.ip()
                )
            }),
            io::ErrorKind::PermissionDenied => {
                "a firewall on this device forbids it (`nft list ruleset`)".to_owned()
            }
            _ => format!("does {link} have Internet?"),
        },
        _ => "correct it in the configuration".to_owned(),
    }
}

async fn shake(
    findings: &mut Findings,
    check: &str,
    whom: &str,
    io: impl Into<PipeStream>,
    identity: &Identity,
    expect: DeviceId,
) -> Option<TlsStream> {
    let shaken = TlsStream::connect(io, identity, expect, Instant::now() + PATIENCE).await;
    report(findings, check, whom, shaken, identity)
}

fn report(
    findings: &mut Findings,
    check: &str,
    whom: &str,
    shaken: Result<TlsStream, TlsError>,
    identity: &Identity,
) -> Option<TlsStream> {
    match shaken {
        Ok(tls) => {
            findings.ok(check, format!("{whom} is the device that it should be"));
            Some(tls)
        }
        Err(e) => {
            let advice = match &e {
                TlsError::WrongPeer { found, .. } => format!(
                    "if that is the device you mean, write its id: {found}; if not, somebody is \
                     in between"
                ),
                TlsError::Deadline | TlsError::Truncated | TlsError::Io(_) => {
                    "it takes connections, but does not finish the TLS handshake: is mpbond \
                     behind this port, and can it reach on? Or does a captive portal answer, until \
                     somebody logs in?"
                        .to_owned()
                }
                TlsError::NotTrusted { .. } => own_id_advice(identity),
                _ => "something else than mpbond answers: another service, or a captive portal until \
                      somebody logs in"
                    .to_owned(),
            };
            findings.fail(check, format!("{whom}: {e}"), advice);
            None
        }
    }
}

fn own_id_advice(identity: &Identity) -> String {
    format!("there, run: {}mpbond trust {}", sudo(), identity.id())
}

fn not_trusted(findings: &mut Findings, check: &str, whom: &str, identity: &Identity, known: bool) {
    if known {
        let text = format!("{whom} does not trust this device");
        findings.fail(check, text, own_id_advice(identity));
    } else {
        findings.warn(
            check,
            format!("{whom} cannot trust this device, which has no identity yet"),
            "run `mpbond id` here, and `mpbond trust ID` there",
        );
    }
}

/// Checks trust: a server refuses after the handshake, so this closes the stream and reads how the
/// server ends it. Whether this device is trusted.
async fn trusted(
    findings: &mut Findings,
    check: &str,
    whom: &str,
    mut tls: TlsStream,
    identity: &Identity,
    known: bool,
) -> bool {
    tls.close();
    let answer = timeout(PATIENCE, async {
        let _ = poll_fn(|cx| tls.poll_flush(cx)).await;
        // Nothing more is sent, so that the server does not wait for it.
        let _ = SockRef::from(tls.get_ref()).shutdown(Shutdown::Write);
        loop {
            match tls.next_record() {
                Ok(Some(_)) => continue,
                Ok(None) if tls.peer_closed() => return None,
                Ok(None) => {}
                Err(e) => return Some(e),
            }
            if let Err(e) = poll_fn(|cx| tls.poll_fill(cx)).await {
                return Some(TlsError::Io(e));
            }
        }
    })
    .await;
    match answer {
        Ok(Some(TlsError::NotTrusted { .. })) => {
            not_trusted(findings, check, whom, identity, known);
            false
        }
        // Any other end means trust: refusals are always sent.
        _ => {
            findings.ok(check, format!("{whom} trusts this device"));
            true
        }
    }
}

/// Whether an address is not routed in the Internet.
fn is_inside(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => {
            let [a, b, ..] = ip.octets();
            // RFC 6598: shared by carriers' NATs.
            let carrier = a == 100 && (64..128).contains(&b);
            ip.is_private() || ip.is_loopback() || ip.is_link_local() || carrier
        }
        IpAddr::V6(ip) => ip.is_loopback() || ip.is_unique_local() || ip.is_unicast_link_local(),
    }
}
