//! The device that calls: a pairing with a code, or an enrolment with a token.

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use mpbond_net::pairing::{
    Attempts, End, EnrolmentToken, Introduction, Message, PairingCode, PairingError, Peer, Role,
};
use mpbond_net::pipe::{PipeAddress, PipeStream, UnixPipe, pairing_socket};
use mpbond_net::resolve::LookupError;
use mpbond_net::tcp::{self, TcpError, TcpOptions, Tuning};
use mpbond_net::tls::{TlsError, TlsStream};
use mpbond_net::{DeviceId, Endpoint};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tracing::error;

use super::conversation::{Parties, hear, hold, part, say};
use super::{Book, Own, PairError, Paired};
use crate::config::{KillSwitch, PrimaryConfig};
use crate::driver::Clock;
use crate::own_mark;
use crate::primary::Resolvers;
use crate::stop::Stop;

/// Time limit of a connection attempt: a device on the same network answers at once, and one of
/// several addresses may be unreachable.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);
/// The same over a Unix socket, behind which a process may have to find the other device first: by
/// Bluetooth, 20 s at most.
const HANDSHAKE_BEHIND_WITHIN: Duration = Duration::from_secs(30);
/// Time limit of an enrolment: a distant proxy writes two short files.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);

/// Pairs with a device that shows a code, at the first of these addresses that answers. `expect` is
/// its id where the invitation names it. `ask` asks the person for consent.
///
/// # Errors
/// The reason of a failure; nothing is written then.
pub async fn call(
    own: &Own,
    addresses: &[PipeAddress],
    expect: Option<DeviceId>,
    code: &PairingCode,
    ask: impl AsyncFn(&Peer) -> bool,
) -> Result<Paired, PairError> {
    let stop = Stop::listen();
    let (give_up, quit) = watch::channel(false);
    let conversation = async {
        let (mut tls, address) = reach(own, addresses, expect).await?;
        let parties = Parties {
            own,
            code,
            // The listener limits attempts, not the caller.
            attempts: &RefCell::new(Attempts::default()),
            clock: &Clock::start(),
            quit,
            ask,
        };
        let ending = hold(End::Caller, &mut tls, &address, parties).await;
        Ok(ending.result?)
    };
    with_signals(stop, &give_up, conversation).await
}

/// Runs a conversation; at SIGINT or SIGTERM it is cancelled, with time to undo its changes.
async fn with_signals<T>(
    mut stop: Stop,
    give_up: &watch::Sender<bool>,
    conversation: impl Future<Output = Result<T, PairError>>,
) -> Result<T, PairError> {
    const UNDONE_WITHIN: Duration = Duration::from_secs(5);
    let mut conversation = std::pin::pin!(conversation);
    tokio::select! {
        result = &mut conversation => return result,
        _ = stop.wait() => {}
    }
    give_up.send_replace(true);
    match timeout(UNDONE_WITHIN, conversation).await {
        Ok(result) => result,
        // It was still connecting: there is nothing to undo.
        Err(_) => Err(PairingError::GivenUp.into()),
    }
}

/// The configuration of this device, if it is a primary and has one that is valid.
fn configuration(book: &Book) -> Option<PrimaryConfig> {
    match book {
        Book::Primary { path, .. } => PrimaryConfig::load(path).ok(),
        _ => None,
    }
}

/// The remedy where a kill switch may be in the way: this device is a primary whose configuration
/// has one, and this process may not pass it. Otherwise nothing.
fn kill_switch_note(book: &Book) -> &'static str {
    let transparent = configuration(book).and_then(|c| c.transparent);
    let has_one = transparent.is_some_and(|t| t.kill_switch != KillSwitch::Off);
    match has_one && own_mark::if_allowed().is_none() {
        true => " (behind the kill switch of this device, pair as root)",
        false => "",
    }
}

/// A connection to the first address that answers.
async fn reach(
    own: &Own,
    addresses: &[PipeAddress],
    expect: Option<DeviceId>,
) -> Result<(TlsStream, PipeAddress), PairError> {
    let mut last = PairingError::Gone.into();
    for address in addresses {
        let (connected, within) = match address {
            PipeAddress::Tcp(to) => (over_tcp(own, *to).await, HANDSHAKE_WITHIN),
            PipeAddress::Unix(path) => (over_unix(path).await, HANDSHAKE_BEHIND_WITHIN),
        };
        let address = address.clone();
        let stream = match connected {
            Ok(stream) => stream,
            Err(problem) => {
                last = PairError::Unreached { address, problem };
                continue;
            }
        };
        let deadline = Instant::now() + within;
        match TlsStream::connect_to_pair(stream, &own.identity, expect, deadline).await {
            Ok(tls) => return Ok((tls, address)),
            Err(problem) => last = PairError::Handshake { address, problem },
        }
    }
    Err(last)
}

/// A connection over a network; else the reason in words.
async fn over_tcp(own: &Own, to: SocketAddr) -> Result<PipeStream, String> {
    let options = TcpOptions {
        connect_timeout: CONNECT_WITHIN,
        tuning: Tuning {
            // Past interception and kill switch: the proxy may be a new one, which no rule names.
            mark: own_mark::if_allowed(),
            ..Tuning::default()
        },
        ..TcpOptions::to(to)
    };
    tcp::connect(&options)
        .await
        .map(PipeStream::from)
        .map_err(|e| {
            let mut problem = match e {
                TcpError::Connect { cause, .. } => cause.to_string(),
                _ => format!("no answer in {} s", CONNECT_WITHIN.as_secs()),
            };
            problem.push_str(kill_switch_note(&own.book));
            problem
        })
}

/// A connection to the process that carries the pairings of a pipe; else the reason in words.
async fn over_unix(pipe: &Path) -> Result<PipeStream, String> {
    let path = pairing_socket(pipe).map_err(|e| e.to_string())?;
    let connected = match timeout(CONNECT_WITHIN, UnixPipe::connect(&path)).await {
        Ok(connected) => connected,
        Err(_) => return Err(format!("{}: it accepts nobody", path.display())),
    };
    connected.map(PipeStream::Unix).map_err(|e| {
        let problem = match e.kind() {
            io::ErrorKind::NotFound => "there is no such socket".to_owned(),
            io::ErrorKind::ConnectionRefused => "its process has ended".to_owned(),
            _ => e.to_string(),
        };
        format!("{}: {problem}", path.display())
    })
}

/// The addresses of an end point, looked up as the primary with the configuration in `book` does.
///
/// # Errors
/// No address is found for its name.
pub async fn find(book: &Book, endpoint: &Endpoint) -> Result<Vec<SocketAddr>, PairError> {
    let (host, port) = match endpoint {
        Endpoint::At(address) => return Ok(vec![*address]),
        Endpoint::Name { host, port } => (host, *port),
    };
    let config = configuration(book);
    let resolver = Resolvers::routed(config.as_ref());
    let found = timeout(CONNECT_WITHIN, resolver.addresses(host, ())).await;
    let found = found.unwrap_or(Err(LookupError::NoAnswer));
    let found = found.map_err(|problem| PairError::Unknown {
        name: host.clone(),
        problem: format!("{problem}{}", kill_switch_note(book)),
    })?;
    Ok(found
        .into_iter()
        .map(|ip| SocketAddr::new(ip, port))
        .collect())
}

/// Presents an enrolment token to the proxy that it names, with the person's consent.
///
/// # Errors
/// The reason of a failure; nothing is written here then. If the connection broke at the last
/// moment the token may have been used; the same device can present it again. A process that is
/// killed in between leaves the proxy in `primary.toml`, without trust at the proxy: the same call
/// again completes it.
pub async fn enrol(
    own: &Own,
    token: &EnrolmentToken,
    ask: impl AsyncFn(&Peer) -> bool,
) -> Result<Paired, PairError> {
    let mut stop = Stop::listen();
    let mut entered = None;
    let conversation = async {
        let addresses = find(&own.book, &token.address).await?;
        let addresses: Vec<PipeAddress> = addresses.into_iter().map(Into::into).collect();
        let (mut tls, address) = reach(own, &addresses, Some(token.id)).await?;
        let peer = Peer {
            id: token.id,
            introduction: Introduction {
                role: Role::Proxy,
                name: "proxy".to_owned(),
                service: address.tcp(),
            },
        };
        if !ask(&peer).await {
            part(&mut tls).await;
            return Err(PairingError::Declined.into());
        }
        // First, since a token that was sent is used up, also where the proxy cannot be stored.
        match own.book.enter(&peer, &address) {
            Ok(entry) => entered = Some(entry),
            Err(problem) => {
                part(&mut tls).await;
                return Err(PairingError::NotStored(problem.to_string()).into());
            }
        }
        // The secret is sent only to the proxy that the token names.
        let message = Message::Enrol {
            secret: token.secret.clone(),
            name: own.introduction.name.clone(),
        };
        let answer = timeout(ANSWER_WITHIN, async {
            let sent = say(&mut tls, &message.encode()).await;
            sent.map_err(|problem: TlsError| PairError::Handshake {
                address: address.clone(),
                problem,
            })?;
            Ok::<_, PairError>(hear(&mut tls).await?)
        });
        let answer = answer.await.unwrap_or(Err(PairingError::Late.into()));
        part(&mut tls).await;
        match answer? {
            Message::Enrolled => Ok(peer),
            Message::Stop(reason) => Err(PairingError::Stopped(reason).into()),
            _ => Err(PairingError::OutOfTurn.into()),
        }
    };
    let result = tokio::select! {
        result = conversation => result,
        _ = stop.wait() => Err(PairingError::GivenUp.into()),
    };
    match (result, entered) {
        (Ok(peer), Some(entry)) => Ok(Paired { peer, entry }),
        (Ok(_), None) => Err(PairingError::OutOfTurn.into()),
        (Err(reason), entered) => {
            if let Some(Err(problem)) = entered.map(|entry| entry.undo()) {
                error!("{problem}");
            }
            Err(reason)
        }
    }
}
