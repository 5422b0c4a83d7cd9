use std::cell::RefCell;
use std::net::SocketAddr;
use std::time::Duration;

use mpbond_net::DeviceId;
use mpbond_net::pairing::{
    Attempts, End, EnrolmentToken, Introduction, Message, PairingCode, PairingError, Peer, Role,
};
use mpbond_net::tls::{TlsError, TlsStream};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::conversation::{Parties, hear, hold, part, say};
use super::{Own, PairError, Paired};
use crate::driver::Clock;
use crate::stop::Stop;

/// A device on the same network answers at once; one of several addresses may lead nowhere.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);
/// A proxy far away writes two short files.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);

/// Calls a device that shows a code, at the first of these addresses that answers. `expect` is
/// its id where the invitation names it. `ask` asks the person about it.
///
/// # Errors
/// Why nothing came of it; nothing is written then.
pub async fn call(
    own: &Own,
    addresses: &[SocketAddr],
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
            // A caller's own proof is not limited: the listener does that.
            attempts: &RefCell::new(Attempts::default()),
            clock: &Clock::start(),
            quit,
            ask,
        };
        let ending = hold(End::Caller, &mut tls, address.ip(), parties).await;
        Ok(ending.result?)
    };
    with_signals(stop, &give_up, conversation).await
}

/// Runs a conversation; at SIGINT or SIGTERM it is told to end, and gets the time to undo what it
/// has done.
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
        // It was still connecting: nothing has been done.
        Err(_) => Err(PairingError::GivenUp.into()),
    }
}

/// A connection to the first address that answers.
async fn reach(
    own: &Own,
    addresses: &[SocketAddr],
    expect: Option<DeviceId>,
) -> Result<(TlsStream, SocketAddr), PairError> {
    let mut last = PairingError::Gone.into();
    for &address in addresses {
        let tcp = match timeout(CONNECT_WITHIN, TcpStream::connect(address)).await {
            Ok(Ok(tcp)) => tcp,
            Ok(Err(e)) => {
                let problem = e.to_string();
                last = PairError::Unreached { address, problem };
                continue;
            }
            Err(_) => {
                let problem = format!("no answer in {} s", CONNECT_WITHIN.as_secs());
                last = PairError::Unreached { address, problem };
                continue;
            }
        };
        let deadline = Instant::now() + HANDSHAKE_WITHIN;
        match TlsStream::connect_to_pair(tcp, &own.identity, expect, deadline).await {
            Ok(tls) => return Ok((tls, address)),
            Err(problem) => last = PairError::Handshake { address, problem },
        }
    }
    Err(last)
}

/// Presents an enrolment token to the proxy that it names, after asking the person about it.
///
/// # Errors
/// Why nothing came of it; then nothing is written here. A token may have been used all the same
/// if the connection broke at the last moment: presented again by the same device it is good.
pub async fn enrol(
    own: &Own,
    token: &EnrolmentToken,
    ask: impl AsyncFn(&Peer) -> bool,
) -> Result<Paired, PairError> {
    let mut stop = Stop::listen();
    let peer = Peer {
        id: token.id,
        introduction: Introduction {
            role: Role::Proxy,
            name: "proxy".to_owned(),
            service: Some(token.address),
        },
    };
    let conversation = async {
        let (mut tls, address) = reach(own, &[token.address], Some(token.id)).await?;
        if !ask(&peer).await {
            part(&mut tls).await;
            return Err(PairingError::Declined.into());
        }
        // Only the proxy that the token names is told its secret.
        let message = Message::Enrol {
            secret: token.secret.clone(),
            name: own.introduction.name.clone(),
        };
        let answer = timeout(ANSWER_WITHIN, async {
            let sent = say(&mut tls, &message.encode()).await;
            sent.map_err(|problem: TlsError| PairError::Handshake { address, problem })?;
            Ok::<_, PairError>(hear(&mut tls).await?)
        });
        let answer = answer.await.unwrap_or(Err(PairingError::Late.into()));
        part(&mut tls).await;
        match answer? {
            Message::Enrolled => {}
            Message::Stop(reason) => return Err(PairingError::Stopped(reason).into()),
            _ => return Err(PairingError::OutOfTurn.into()),
        }
        let entry = own.book.enter(&peer, address.ip());
        let entry = entry.map_err(|e| PairingError::NotStored(e.to_string()))?;
        Ok(Paired {
            peer: peer.clone(),
            entry,
        })
    };
    tokio::select! {
        result = conversation => result,
        _ = stop.wait() => Err(PairingError::GivenUp.into()),
    }
}
