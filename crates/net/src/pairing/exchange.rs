use std::time::Duration;

use mpbond_units::Timestamp;
use ring::hmac;
use spake2::{Ed25519Group, Identity, Password, Spake2};

use super::attempts::NoAttempt;
use super::message::{Message, PROOF_BYTES, SPAKE_BYTES};
use super::{Attempts, Introduction, MAX_WRONG_CODES, MessageError, PairingCode, StopReason};
use crate::identity::DeviceId;

/// Until both have proven to have the code and said who they are: machines do that alone.
const PROOF_WITHIN: Duration = Duration::from_secs(10);
/// A person reads two lines and types a letter, on either side.
const ANSWER_WITHIN: Duration = Duration::from_secs(120);
/// Writing a short file.
const STORED_WITHIN: Duration = Duration::from_secs(10);

/// Which end of the connection this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It was given the code and calls.
    Caller,
    /// It shows the code and is called.
    Listener,
}

/// What the proof is bound to: this TLS session, between these two devices.
#[derive(Clone)]
pub struct Bounds {
    /// This device.
    pub own: DeviceId,
    /// Whose certificate the TLS handshake showed.
    pub peer: DeviceId,
    /// The TLS session's exporter ([`Bounds::EXPORTER`]).
    pub exporter: [u8; 32],
}

impl Bounds {
    /// The label of the exporter.
    pub const EXPORTER: &'static [u8] = b"EXPORTER-mpbond-pair-1";
}

/// The other device, as a person is asked about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// Its fingerprint: proven.
    pub id: DeviceId,
    /// What it says of itself.
    pub introduction: Introduction,
}

/// What is to be done next, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Send this, as one record.
    Send(Vec<u8>),
    /// Ask the person whether this is the device that is meant, then call [`Exchange::decide`].
    Ask(Peer),
    /// Write down that this device is trusted, then call [`Exchange::stored`].
    Store(Peer),
    /// Take back what was written down.
    Undo,
    /// Both trust each other.
    Done(Peer),
    /// Nothing came of it.
    Failed(PairingError),
}

/// Why nothing came of a pairing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PairingError {
    /// Seen by the listener: the caller could not prove that it has the code.
    #[error("a device called that does not have the code")]
    WrongCode,
    /// Seen by the caller: the listener could not prove it. It never comes to that by a slip of
    /// the finger, since a listener checks first.
    #[error(
        "the device that answered does not have the code, though it pretended to: somebody else may be in between"
    )]
    Impostor,
    /// The code is void.
    #[error("this code is void after {MAX_WRONG_CODES} wrong attempts, or because it was used")]
    Void,
    /// Too soon after a wrong attempt.
    #[error("another attempt has just failed: wait a few seconds")]
    TooSoon,
    /// The roles have no use for each other.
    #[error(
        "this device is a {own} and the other one a {peer}: one of the two has to be the primary, and only one (`--role` says what a device is)"
    )]
    Roles {
        /// Of this device.
        own: &'static str,
        /// Of the other one.
        peer: &'static str,
    },
    /// The person here said no.
    #[error("you declined")]
    Declined,
    /// The other end stopped.
    #[error("{}", stopped(*.0))]
    Stopped(StopReason),
    /// The connection ended.
    #[error("the other device has gone")]
    Gone,
    /// Not in time.
    #[error("the other device took too long")]
    Late,
    /// The person here gave it up.
    #[error("given up")]
    GivenUp,
    /// What was to be written down could not be.
    #[error("{0}")]
    NotStored(String),
    /// Octets that are no message.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// A message that has no place here.
    #[error("the other device sent a message out of turn")]
    OutOfTurn,
}

fn stopped(reason: StopReason) -> &'static str {
    match reason {
        StopReason::WrongCode => {
            "the other device says that the code is wrong (or somebody is in between)"
        }
        StopReason::Void => {
            "the other device says that the code is void: it was tried too often, or is used up; \
             run `mpbond pair` there again"
        }
        StopReason::TooSoon => {
            "another attempt has just failed on the other device: wait a few seconds"
        }
        StopReason::Declined => "it was declined on the other device",
        StopReason::Roles => {
            "the two roles do not fit: one of the two has to be the primary, and only one \
             (`--role` says what a device is)"
        }
        StopReason::NotStored => {
            "the other device could not write down whom it trusts; it says why"
        }
        StopReason::Late => "the other device has waited too long",
        StopReason::Protocol => "the other device understood a message differently",
        StopReason::GivenUp => "it was given up on the other device",
        StopReason::TokenUnknown => {
            "the proxy does not know this token: was it made there, by `mpbond proxy enrol`?"
        }
        StopReason::TokenExpired => {
            "this token has expired: `mpbond proxy enrol` on the proxy makes another one"
        }
        StopReason::TokenUsed => {
            "this token has been used: `mpbond proxy enrol` on the proxy makes another one"
        }
    }
}

/// Where a conversation is.
enum State {
    /// The other end's first message of SPAKE2 has to come.
    Start(Spake2<Ed25519Group>, Vec<u8>),
    /// Its proof has to come.
    Proof(Proofs),
    /// Its introduction.
    Introduction,
    /// Both persons have to agree.
    Deciding {
        own: bool,
        peer: bool,
    },
    /// We are writing.
    Storing,
    /// The other end is writing; `undo` when we have done so.
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

/// One conversation of two devices that pair, at one of its ends.
///
/// The caller starts and proves first: a listener says nothing that depends on the code to
/// somebody who has not shown to have it. Only then do they say who they are. When both persons
/// have agreed the listener writes first and takes it back unless the caller reports that it has
/// done the same.
pub struct Exchange {
    end: End,
    bounds: Bounds,
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
    /// Begins a conversation.
    pub fn new(
        end: End,
        code: &PairingCode,
        bounds: Bounds,
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

    /// Whether the other end has proven to have the code.
    pub fn is_proven(&self) -> bool {
        self.proven
    }

    /// When [`Exchange::expire`] is due.
    pub fn deadline(&self) -> Timestamp {
        self.deadline
    }

    /// Whether nothing more will come of it.
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Over)
    }

    /// Takes one record of the other end. `attempts` are those of the listener's code; at the
    /// caller they are not looked at.
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
        // An element that is none, or our own sent back.
        let Ok(key) = spake.finish(theirs) else {
            let e = MessageError("no first message of SPAKE2").into();
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

    /// Both proofs: HMACs, by two keys out of SPAKE2's, over what the conversation is bound to.
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
        // One end's proof, sent back to it, is not the other one's.
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
                attempts.was_right();
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

    /// What the person has said to [`Step::Ask`].
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

    /// What became of [`Step::Store`].
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

    /// The connection has ended.
    pub fn gone(&mut self) -> Vec<Step> {
        if self.is_over() {
            return Vec::new();
        }
        self.fail(PairingError::Gone)
    }

    /// The person gives it up.
    pub fn give_up(&mut self) -> Vec<Step> {
        if self.is_over() {
            return Vec::new();
        }
        self.stop(StopReason::GivenUp, PairingError::GivenUp)
    }

    /// Ends the conversation if its time is up.
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

/// The first message; SPAKE2's is of a fixed length.
fn start(spake: &[u8]) -> Option<Step> {
    let spake = spake.try_into().ok()?;
    Some(send(&Message::Start(spake)))
}
