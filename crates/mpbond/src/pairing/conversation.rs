//! One conversation of a pairing, over its connection.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use mpbond_net::pairing::{
    Attempts, ChannelBinding, End, Exchange, Message, PairingCode, PairingError, Peer, Step,
};
use mpbond_net::pipe::PipeAddress;
use mpbond_net::tls::{TlsError, TlsStream};
use tokio::sync::watch;
use tracing::error;

use super::book::Entry;
use super::{Own, Paired};
use crate::driver::Clock;

/// Time limit for the last message to reach the other end.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// The next record; `None` when the other end closed the stream. May be dropped and called again.
pub(super) async fn next(tls: &mut TlsStream) -> Result<Option<Bytes>, TlsError> {
    loop {
        if let Some(record) = tls.next_record()? {
            return Ok(Some(record.payload));
        }
        if tls.peer_closed() {
            return Ok(None);
        }
        poll_fn(|cx| tls.poll_fill(cx)).await?;
    }
}

/// Sends one message.
pub(super) async fn say(tls: &mut TlsStream, octets: &[u8]) -> Result<(), TlsError> {
    tls.queue_record(octets)?;
    Ok(poll_fn(|cx| tls.poll_flush(cx)).await?)
}

/// Closes a connection so that the last message is read: closing a socket with unread octets would
/// discard it.
pub(super) async fn part(tls: &mut TlsStream) {
    tls.close();
    let _ = tokio::time::timeout(LAST_WORDS, async {
        if poll_fn(|cx| tls.poll_flush(cx)).await.is_ok() {
            while let Ok(Some(_)) = next(tls).await {}
        }
    })
    .await;
}

/// Parameters of one end of a conversation, besides its connection.
pub(super) struct Parties<'a, A> {
    pub own: &'a Own,
    pub code: &'a PairingCode,
    pub attempts: &'a RefCell<Attempts>,
    pub clock: &'a Clock,
    /// Becomes true when the person cancels.
    pub quit: watch::Receiver<bool>,
    /// Asks the person for consent to the other device.
    pub ask: A,
}

/// Result of a conversation.
pub(super) struct Ending {
    /// Whether the other end has proven to have the code.
    pub proven: bool,
    pub result: Result<Paired, PairingError>,
}

/// Runs a conversation to its end. Afterwards both devices trust each other, or nothing has
/// changed.
pub(super) async fn hold<A: AsyncFn(&Peer) -> bool>(
    end: End,
    tls: &mut TlsStream,
    by: &PipeAddress,
    mut parties: Parties<'_, A>,
) -> Ending {
    let own = parties.own;
    let clock = parties.clock;
    let bounds = ChannelBinding {
        own: own.identity.id(),
        peer: tls.peer_id(),
        exporter: tls.exporter(ChannelBinding::EXPORTER_LABEL),
    };
    let introduction = own.introduction.clone();
    let (mut exchange, steps) = Exchange::new(end, parties.code, bounds, introduction, clock.now());
    let mut steps = VecDeque::from(steps);
    let mut entry: Option<Entry> = None;
    let ask = &parties.ask;
    let mut answer: Option<Pin<Box<dyn Future<Output = bool> + '_>>> = None;
    loop {
        while let Some(step) = steps.pop_front() {
            match step {
                Step::Send(octets) => {
                    // A peer that does not read is found by the next read, or by its deadline.
                    let _ = tokio::time::timeout(LAST_WORDS, say(tls, &octets)).await;
                }
                Step::Ask(peer) => answer = Some(Box::pin(async move { ask(&peer).await })),
                Step::Store(peer) => {
                    let result = own.book.enter(&peer, by);
                    let result = result.map(|e| entry = Some(e)).map_err(|e| e.to_string());
                    steps.extend(exchange.stored(result, clock.now()));
                }
                Step::Undo => {
                    if let Some(Err(e)) = entry.take().map(|e| e.undo()) {
                        error!("{e}");
                    }
                }
                Step::Done(peer) => {
                    part(tls).await;
                    let proven = exchange.is_proven();
                    let entry = entry.take().ok_or(PairingError::OutOfTurn);
                    let result = entry.map(|entry| Paired { peer, entry });
                    return Ending { proven, result };
                }
                Step::Failed(e) => {
                    part(tls).await;
                    let (proven, result) = (exchange.is_proven(), Err(e));
                    return Ending { proven, result };
                }
            }
        }
        let late = tokio::time::sleep_until(clock.instant(exchange.deadline()));
        let more = tokio::select! {
            record = next(tls) => match record {
                Ok(Some(octets)) => {
                    let mut attempts = parties.attempts.borrow_mut();
                    exchange.receive(&octets, &mut attempts, clock.now())
                }
                Ok(None) | Err(_) => exchange.gone(),
            },
            yes = given(&mut answer) => {
                answer = None;
                exchange.decide(yes, clock.now())
            }
            () = late => exchange.expire(clock.now()),
            true = quits(&mut parties.quit) => exchange.give_up(),
        };
        steps.extend(more);
    }
}

/// The person's answer, once there is a question.
async fn given(answer: &mut Option<Pin<Box<dyn Future<Output = bool> + '_>>>) -> bool {
    match answer {
        Some(answer) => answer.await,
        None => std::future::pending().await,
    }
}

/// Waits for the person to cancel.
pub(super) async fn quits(quit: &mut watch::Receiver<bool>) -> bool {
    match quit.wait_for(|quit| *quit).await {
        Ok(_) => true,
        // The sender is gone: no one can cancel any more.
        Err(_) => std::future::pending().await,
    }
}

/// Parses a message of the other end.
pub(super) async fn hear(tls: &mut TlsStream) -> Result<Message, PairingError> {
    match next(tls).await {
        Ok(Some(octets)) => Ok(Message::decode(&octets)?),
        Ok(None) | Err(_) => Err(PairingError::Gone),
    }
}
