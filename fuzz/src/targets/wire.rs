//! Targets for network input: session frames and hellos, the first TLS flight, control and pairing
//! messages, relay preambles.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use mpbond_net::control::{Decoder, MAX_MESSAGE_BYTES, Message, Opening, encode, label_of_opening};
use mpbond_net::pairing::Message as PairingMessage;
use mpbond_net::tls::{Peeked, Purpose, TlsStream, Trust};
use mpbond_net::{DeviceId, Identity};
use mpbond_session::wire::Frame;
use mpbond_session::{Session, SessionConfig, SessionId, SubflowSetup, parse_hello};
use mpbond_units::Timestamp;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::runtime::{Builder, Runtime};

/// A pairing message: an accepted message is encoded as it was read.
pub fn pairing(octets: &[u8]) {
    match PairingMessage::decode(octets) {
        Ok(message) => assert_eq!(message.encode(), octets, "encoded as it was read"),
        Err(e) => super::one_line(&e),
    }
}

/// Input of both ends of `mpbond traffic`, and of its SOCKS5 client.
pub fn traffic(octets: &[u8]) {
    if let Some(said) = mpbond_probe::traffic::hear(octets) {
        super::one_line(&said);
    }
}

/// The frames of a record, and their round trip.
pub fn frames(octets: &[u8]) {
    let mut record = Bytes::copy_from_slice(octets);
    while !record.is_empty() {
        let before = record.len();
        let frame = match Frame::parse(&mut record) {
            Ok(frame) => frame,
            Err(e) => return super::one_line(&e),
        };
        assert!(record.len() < before, "a frame without octets");
        let mut again = Vec::new();
        frame.encode(&mut again);
        let again = Frame::parse(&mut Bytes::from(again));
        assert_eq!(again.as_ref(), Ok(&frame), "round trip");
    }
}

/// The first record of a connection at a proxy: the hello and the frames after it.
pub fn hello(octets: &[u8]) {
    let now = Timestamp::from_millis(5);
    let (hello, rest) = match parse_hello(Bytes::copy_from_slice(octets)) {
        Ok(x) => x,
        Err(e) => return super::one_line(&e),
    };
    let id = SessionId([7; 16]);
    let mut session = Session::server(SessionConfig::default(), id, [2; 32], &hello);
    if let Ok(subflow) = session.accept_subflow(now, SubflowSetup::default(), &hello) {
        let _ = session.handle_record(now, subflow, rest, octets.len() as u64);
        session.handle_room(subflow, 1 << 20);
        let mut out = Vec::new();
        while session.poll_transmit(now, &mut out).is_some() {
            out.clear();
        }
    }
}

/// Octets of a control connection, in pieces of a length given by the first octet.
pub fn control(octets: &[u8]) {
    let Some((cut, octets)) = octets.split_first() else {
        return;
    };
    let mut decoder = Decoder::default();
    for piece in octets.chunks(usize::from(*cut) + 1) {
        decoder.push(piece);
        loop {
            match decoder.next_message() {
                Ok(Some(Message::Unknown)) => {}
                Ok(Some(message)) => written_again(&message),
                Ok(None) => break,
                Err(e) => return super::one_line(&e),
            }
        }
    }
}

fn written_again(message: &Message) {
    // A message may become longer when encoded: escapes, and numbers in full.
    let Ok(octets) = encode(message) else {
        return;
    };
    assert!(octets.len() <= MAX_MESSAGE_BYTES + 2);
    let mut decoder = Decoder::default();
    decoder.push(&octets);
    match decoder.next_message() {
        Ok(Some(again)) => assert_eq!(&again, message, "round trip"),
        other => panic!("{message:?} was written as {other:?}"),
    }
}

/// Classification of a connection to a helper's port: it must not depend on how many octets have
/// arrived. The label of a ticket is read in relays alone.
pub fn opening(octets: &[u8]) {
    let whole = Opening::of(octets);
    let is_relay = matches!(whole, Ok(None | Some(Opening::Relay(_))));
    let has_none = label_of_opening(octets) == Peeked::Whole(None);
    assert_ne!(is_relay, has_none);
    for cut in 0..octets.len().min(40) {
        let part = Opening::of(octets.get(..cut).unwrap_or_default());
        match (part, &whole) {
            (Ok(None), _) | (Err(_), Err(_)) => {}
            (Ok(Some(part)), Ok(Some(whole))) => assert_eq!(&part, whole),
            (part, whole) => panic!("{part:?} after {cut} octets, then {whole:?}"),
        }
    }
}

/// A TLS server with input from an unauthenticated client.
pub fn tls_accept(octets: &[u8]) {
    #[derive(Debug)]
    struct Nobody;
    impl Trust for Nobody {
        fn trusts(&self, _: &DeviceId) -> bool {
            false
        }
    }
    let answered = block_on(TlsStream::accept_over(
        Script(octets),
        identity(),
        Arc::new(Nobody),
        &[Purpose::Daemon],
        far(),
    ));
    match answered {
        Ok(_) => panic!("an untrusted device was accepted"),
        Err(e) => super::one_line(&e),
    }
}

/// A TLS client with input from an unauthenticated server.
pub fn tls_connect(octets: &[u8]) {
    let answered = block_on(TlsStream::connect_over(
        Script(octets),
        identity(),
        Some(identity().id()),
        Purpose::Daemon,
        None,
        far(),
    ));
    match answered {
        Ok(_) => panic!("a server without the private key was accepted"),
        Err(e) => super::one_line(&e),
    }
}

fn far() -> tokio::time::Instant {
    tokio::time::Instant::now() + Duration::from_secs(3600)
}

fn identity() -> &'static Identity {
    static OURS: OnceLock<Identity> = OnceLock::new();
    OURS.get_or_init(|| match Identity::generate() {
        Ok(identity) => identity,
        Err(e) => panic!("no identity: {e}"),
    })
}

pub(super) fn block_on<T>(future: impl Future<Output = T>) -> T {
    thread_local! {
        static RUNTIME: Runtime = match Builder::new_current_thread().enable_time().build() {
            Ok(runtime) => runtime,
            Err(e) => panic!("no runtime: {e}"),
        };
    }
    RUNTIME.with(|runtime| runtime.block_on(future))
}

/// A connection whose peer sends these octets, accepts all writes, and closes.
struct Script<'a>(&'a [u8]);

impl AsyncRead for Script<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let (now, later) = self.0.split_at(to.remaining().min(self.0.len()));
        to.put_slice(now);
        self.0 = later;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Script<'_> {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        octets: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(octets.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
