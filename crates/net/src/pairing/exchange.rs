//! The pairing state machine of one end: SPAKE2, proofs, introductions, consent and storage.

use std::time::Duration;

use mpbond_units::Timestamp;
use ring::hmac;
use spake2::{Ed25519Group, Identity, Password, Spake2};

use super::attempts::NoAttempt;
use super::message::{Message, PROOF_BYTES, SPAKE_BYTES};
use super::{Attempts, Introduction, MAX_WRONG_CODES, MessageError, PairingCode, StopReason};
use crate::identity::DeviceId;

/// Deadline of proofs and introductions, which need no person.
const PROOF_WITHIN: Duration = Duration::from_secs(10);
/// Deadline of consent: on each side a person reads two lines and types a letter.
const ANSWER_WITHIN: Duration = Duration::from_secs(120);
/// Deadline of storing: writing a short file.
const STORED_WITHIN: Duration = Duration::from_secs(10);

/// Which end of the connection this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Connects, with the code that was entered.
    Caller,
    /// Shows the code and accepts connections.
    Listener,
}

/// Channel binding of the proofs (RFC 5056): the TLS session and the ids of its two devices.
#[derive(Clone)]
pub struct ChannelBinding {
    /// This device.
    pub own: DeviceId,
    /// The device whose certificate the TLS handshake verified.
    pub peer: DeviceId,
    /// Exporter secret of the TLS session ([`ChannelBinding::EXPORTER_LABEL`]).
    pub exporter: [u8; 32],
}

impl ChannelBinding {
    /// Label of the TLS exporter.
    pub const EXPORTER_LABEL: &'static [u8] = b"EXPORTER-mpbond-pair-1";
}

/// The other device, as shown to the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// Its fingerprint, authenticated.
    pub id: DeviceId,
    /// Its introduction, not verified.
    pub introduction: Introduction,
}

/// An action for the caller of [`Exchange`], to be done in the order returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Send these octets as one record.
    Send(Vec<u8>),
    /// Ask the user whether to trust this device, then call [`Exchange::decide`].
    Ask(Peer),
    /// Store that this device is trusted, then call [`Exchange::stored`].
    Store(Peer),
    /// Remove what was stored.
    Undo,
    /// The pairing is complete: both devices trust each other.
    Done(Peer),
    /// The pairing failed.
    Failed(PairingError),
}

/// Error of a pairing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PairingError {
    /// At the listener: the caller's proof is wrong.
    #[error("a device connected with a wrong code")]
    WrongCode,
    /// At the caller: the listener's proof is wrong. A typing error cannot cause this, because the
    /// listener verifies first.
    #[error(
        "the device that answered could not prove knowledge of the code: \
         there may be a man in the middle"
    )]
    Impostor,
    /// The code is no longer valid.
    #[error("this code is void after {MAX_WRONG_CODES} wrong attempts, or has been used")]
    Void,
    /// Too soon after a wrong attempt at the code.
    #[error("another attempt has just failed: wait a few seconds and try again")]
    TooSoon,
    /// The roles do not match: exactly one device must be a primary.
    #[error(
        "this device is a {own} and the other one a {peer}: \
         one of the two has to be the primary, and only one (set the role with `--role`)"
    )]
    Roles {
        /// Role of this device.
        own: &'static str,
        /// Role of the other device.
        peer: &'static str,
    },
    /// The user of this device declined.
    #[error("you declined")]
    Declined,
    /// The other device stopped.
    #[error("{}", stopped(*.0))]
    Stopped(StopReason),
    /// The connection ended.
    #[error("the other device closed the connection")]
    Gone,
    /// A deadline has passed.
    #[error("the other device did not answer in time")]
    Late,
    /// The user of this device cancelled.
    #[error("cancelled")]
    GivenUp,
    /// The trust entry could not be stored.
    #[error("{0}")]
    NotStored(String),
    /// A message is malformed.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// A message that is not allowed in this state.
    #[error("the other device sent an unexpected message")]
    OutOfTurn,
}

fn stopped(reason: StopReason) -> &'static str {
    match reason {
        StopReason::WrongCode => {
            "the other device says that the code is wrong (or there is a man in the middle)"
        }
        StopReason::Void => {
            "the other device says that the code is void, because it was tried too often or has \
             been used: run `mpbond pair` there again"
        }
        StopReason::TooSoon => {
            "another attempt has just failed on the other device: wait a few seconds and try again"
        }
        StopReason::Declined => "the user of the other device declined",
        StopReason::Roles => {
            "the two roles do not match: one of the two has to be the primary, and only one \
             (set the role with `--role`)"
        }
        StopReason::NotStored => {
            "the other device could not store the trust entry; it shows the reason"
        }
        StopReason::Late => "the other device gave up waiting",
        StopReason::Protocol => {
            "the other device rejected a message: do both run the same version of mpbond?"
        }
        StopReason::GivenUp => "the user of the other device cancelled",
        StopReason::TokenUnknown => {
            "the proxy does not know this token: was it created there with `mpbond proxy enrol`?"
        }
        StopReason::TokenExpired => {
            "this token has expired: run `mpbond proxy enrol` on the proxy to create another one"
        }
        StopReason::TokenUsed => {
            "this token has been used: run `mpbond proxy enrol` on the proxy to create another one"
        }
    }
}

/// State of an exchange.
enum State {
    /// Waiting for the other end's SPAKE2 message.
    Start(Spake2<Ed25519Group>, Vec<u8>),
    /// Waiting for its proof.
    Proof(Proofs),
    /// Waiting for its introduction.
    Introduction,
    /// Waiting for the consent of both users.
    Deciding {
        own: bool,
        peer: bool,
    },
    /// This device is storing.
    Storing,
    /// The other device is storing; `undo` if this device has stored already.
    PeerStores {
        undo: bool,
    },
    Over,
}

struct Proofs {
    own: [u8; PROOF_BYTES],
    peer: hmac::Key,
    peer_text: Vec<u8>,
}

/// One end of a pairing.
///
/// The caller proves first, so that a listener sends nothing derived from the code to a device that
/// has not proven knowledge of it. Introductions follow. After the consent of both users the
/// listener stores first, and undoes it unless the caller reports that it has stored, too.
pub struct Exchange {
    end: End,
    bounds: ChannelBinding,
    introduction: Introduction,
    peer: Option<Peer>,
    state: State,
    proven: bool,
    deadline: Timestamp,
}

impl std::fmt::Debug for Exchange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Exchange")
            .field("end", &self.end)
            .field("peer", &self.peer)
            .finish_non_exhaustive()
    }
}

impl Exchange {
    /// Starts an exchange.
    pub fn new(
        end: End,
        code: &PairingCode,
        bounds: ChannelBinding,
        introduction: Introduction,
        now: Timestamp,
    ) -> (Self, Vec<Step>) {
        let password = Password::new(code.secret());
        let own = Identity::new(bounds.own.as_bytes());
        let peer = Identity::new(bounds.peer.as_bytes());
        let (spake, message) = match end {
            End::Caller => Spake2::<Ed25519Group>::start_a(&password, &own, &peer),
            End::Listener => Spake2::<Ed25519Group>::start_b(&password, &peer, &own),
        };
        let exchange = Self {
            end,
            bounds,
            introduction,
            peer: None,
            state: State::Start(spake, message.clone()),
            proven: false,
            deadline: now + PROOF_WITHIN,
        };
        let steps = match end {
            End::Caller => start(&message).into_iter().collect(),
            End::Listener => Vec::new(),
        };
        (exchange, steps)
    }

    /// Whether the other end has proven knowledge of the code.
    pub fn is_proven(&self) -> bool {
        self.proven
    }

    /// Instant at which [`Exchange::expire`] is due.
    pub fn deadline(&self) -> Timestamp {
        self.deadline
    }

    /// Whether the exchange has ended.
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Over)
    }

    /// Handles one record of the other end. `attempts` belong to the listener's code; the caller
    /// does not use them.
    pub fn receive(&mut self, octets: &[u8], attempts: &mut Attempts, now: Timestamp) -> Vec<Step> {
        if self.is_over() {
            return Vec::new();
        }
        if now > self.deadline {
            return self.stop(StopReason::Late, PairingError::Late);
        }
        let message = match Message::decode(octets) {
            Ok(message) => message,
            Err(e) => return self.stop(StopReason::Protocol, e.into()),
        };
        let state = std::mem::replace(&mut self.state, State::Over);
        match (state, message) {
            (state, Message::Stop(reason)) => {
                self.state = state;
                self.fail(PairingError::Stopped(reason))
            }
            (State::Start(spake, sent), Message::Start(theirs)) => {
                self.on_start(spake, &sent, &theirs)
            }
            (State::Proof(proofs), Message::Proof(theirs)) => {
                self.on_proof(&proofs, &theirs, attempts, now)
            }
            (State::Introduction, Message::Introduction(theirs)) => {
                self.on_introduction(theirs, now)
            }
            (State::Deciding { own, peer: false }, Message::Agreed) => {
                self.on_agreement(own, true, now)
            }
            (State::PeerStores { undo }, Message::Stored) => self.on_peer_stored(undo, now),
            (state, _) => {
                self.state = state;
                self.stop(StopReason::Protocol, PairingError::OutOfTurn)
            }
        }
    }

    fn on_start(
        &mut self,
        spake: Spake2<Ed25519Group>,
        sent: &[u8],
        theirs: &[u8; SPAKE_BYTES],
    ) -> Vec<Step> {
        // Not a group element, or a reflection of our own message.
        let Ok(key) = spake.finish(theirs) else {
            let e = MessageError("invalid SPAKE2 element").into();
            return self.stop(StopReason::Protocol, e);
        };
        let proofs = self.proofs(&key);
        let steps = match self.end {
            End::Caller => vec![send(&Message::Proof(proofs.own))],
            End::Listener => start(sent).into_iter().collect(),
        };
        self.state = State::Proof(proofs);
        steps
    }

    /// Both proofs: HMACs under SPAKE2's key over a label and the channel binding.
    fn proofs(&self, spake_key: &[u8]) -> Proofs {
        let (caller, listener) = match self.end {
            End::Caller => (self.bounds.own, self.bounds.peer),
            End::Listener => (self.bounds.peer, self.bounds.own),
        };
        let text = |label: &[u8]| {
            [
                label,
                &self.bounds.exporter,
                caller.as_bytes(),
                listener.as_bytes(),
            ]
            .concat()
        };
        // Different labels, so that a reflected proof is not valid.
        let by_caller = text(b"mpbond pair 1: caller");
        let by_listener = text(b"mpbond pair 1: listener");
        let key = hmac::Key::new(hmac::HMAC_SHA256, spake_key);
        let (own, peer_text) = match self.end {
            End::Caller => (by_caller, by_listener),
            End::Listener => (by_listener, by_caller),
        };
        let mut proof = [0; PROOF_BYTES];
        proof.copy_from_slice(hmac::sign(&key, &own).as_ref());
        Proofs {
            own: proof,
            peer: key,
            peer_text,
        }
    }

    fn on_proof(
        &mut self,
        proofs: &Proofs,
        theirs: &[u8],
        attempts: &mut Attempts,
        now: Timestamp,
    ) -> Vec<Step> {
        let right = || hmac::verify(&proofs.peer, &proofs.peer_text, theirs).is_ok();
        let mut steps = Vec::new();
        match self.end {
            End::Caller => {
                if !right() {
                    return self.stop(StopReason::WrongCode, PairingError::Impostor);
                }
            }
            End::Listener => {
                match attempts.take(now) {
                    Ok(()) => {}
                    Err(NoAttempt::Void) => {
                        return self.stop(StopReason::Void, PairingError::Void);
                    }
                    Err(NoAttempt::TooSoon) => {
                        return self.stop(StopReason::TooSoon, PairingError::TooSoon);
                    }
                }
                if !right() {
                    return self.stop(StopReason::WrongCode, PairingError::WrongCode);
                }
                attempts.succeeded();
                steps.push(send(&Message::Proof(proofs.own)));
            }
        }
        self.proven = true;
        let introduction = Message::Introduction(self.introduction.clone());
        steps.push(send(&introduction));
        self.state = State::Introduction;
        steps
    }

    fn on_introduction(&mut self, theirs: Introduction, now: Timestamp) -> Vec<Step> {
        let (own, peer) = (self.introduction.role, theirs.role);
        if !own.fits(peer) {
            let (own, peer) = (own.name(), peer.name());
            return self.stop(StopReason::Roles, PairingError::Roles { own, peer });
        }
        let peer = Peer {
            id: self.bounds.peer,
            introduction: theirs,
        };
        self.peer = Some(peer.clone());
        self.state = State::Deciding {
            own: false,
            peer: false,
        };
        self.deadline = now + ANSWER_WITHIN;
        vec![Step::Ask(peer)]
    }

    /// The user's answer to [`Step::Ask`].
    pub fn decide(&mut self, yes: bool, now: Timestamp) -> Vec<Step> {
        let State::Deciding { own: false, peer } = self.state else {
            return Vec::new();
        };
        if !yes {
            return self.stop(StopReason::Declined, PairingError::Declined);
        }
        let mut steps = vec![send(&Message::Agreed)];
        steps.extend(self.on_agreement(true, peer, now));
        steps
    }

    fn on_agreement(&mut self, own: bool, peer: bool, now: Timestamp) -> Vec<Step> {
        if !(own && peer) {
            self.state = State::Deciding { own, peer };
            return Vec::new();
        }
        self.deadline = now + STORED_WITHIN;
        match (self.end, &self.peer) {
            (End::Listener, Some(peer)) => {
                self.state = State::Storing;
                vec![Step::Store(peer.clone())]
            }
            _ => {
                self.state = State::PeerStores { undo: false };
                Vec::new()
            }
        }
    }

    /// The result of [`Step::Store`].
    pub fn stored(&mut self, result: Result<(), String>, now: Timestamp) -> Vec<Step> {
        let State::Storing = self.state else {
            return Vec::new();
        };
        if let Err(problem) = result {
            return self.stop(StopReason::NotStored, PairingError::NotStored(problem));
        }
        let mut steps = vec![send(&Message::Stored)];
        match (self.end, self.peer.take()) {
            (End::Caller, Some(peer)) => {
                self.state = State::Over;
                steps.push(Step::Done(peer));
            }
            (_, peer) => {
                self.peer = peer;
                self.state = State::PeerStores { undo: true };
                self.deadline = now + STORED_WITHIN;
            }
        }
        steps
    }

    fn on_peer_stored(&mut self, both: bool, now: Timestamp) -> Vec<Step> {
        let Some(peer) = self.peer.clone() else {
            return self.stop(StopReason::Protocol, PairingError::OutOfTurn);
        };
        if both {
            self.state = State::Over;
            return vec![Step::Done(peer)];
        }
        self.state = State::Storing;
        self.deadline = now + STORED_WITHIN;
        vec![Step::Store(peer)]
    }

    /// Handles the end of the connection.
    pub fn gone(&mut self) -> Vec<Step> {
        if self.is_over() {
            return Vec::new();
        }
        self.fail(PairingError::Gone)
    }

    /// Cancels the exchange on behalf of the user.
    pub fn give_up(&mut self) -> Vec<Step> {
        if self.is_over() {
            return Vec::new();
        }
        self.stop(StopReason::GivenUp, PairingError::GivenUp)
    }

    /// Ends the exchange if its deadline has passed.
    pub fn expire(&mut self, now: Timestamp) -> Vec<Step> {
        if self.is_over() || now < self.deadline {
            return Vec::new();
        }
        self.stop(StopReason::Late, PairingError::Late)
    }

    fn stop(&mut self, reason: StopReason, error: PairingError) -> Vec<Step> {
        let mut steps = vec![send(&Message::Stop(reason))];
        steps.extend(self.fail(error));
        steps
    }

    fn fail(&mut self, error: PairingError) -> Vec<Step> {
        let undo = matches!(self.state, State::PeerStores { undo: true });
        self.state = State::Over;
        let undo = undo.then_some(Step::Undo);
        undo.into_iter().chain([Step::Failed(error)]).collect()
    }
}

fn send(message: &Message) -> Step {
    Step::Send(message.encode())
}

/// The first message; a SPAKE2 message has a fixed length.
fn start(spake: &[u8]) -> Option<Step> {
    let spake = spake.try_into().ok()?;
    Some(send(&Message::Start(spake)))
}
