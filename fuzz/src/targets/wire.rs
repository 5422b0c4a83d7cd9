//! What comes over the network: the session's frames and hellos, TLS's first flight, control
//! messages, a relay's opening.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use mpbond_net::control::{Decoder, MAX_MESSAGE_BYTES, Message, Opening, encode};
use mpbond_net::pairing::Message as PairingMessage;
use mpbond_net::tls::{TlsStream, Trust};
use mpbond_net::{DeviceId, Identity};
use mpbond_session::wire::Frame;
use mpbond_session::{Session, SessionConfig, SessionId, SubflowSetup, parse_hello};
use mpbond_units::Timestamp;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What a stranger says who wants to be paired: a message is written as it was read, and a name in
/// it can be shown.
pub fn pairing(octets: &[u8]) {
    match PairingMessage::decode(octets) {
        Ok(message) => assert_eq!(message.encode(), octets, "written as it was read"),
        Err(e) => super::one_line(&e),
    }
}

/// Either end of `mpbond traffic`, and its SOCKS5 client.
pub fn traffic(octets: &[u8]) {
    if let Some(said) = mpbond_probe::traffic::hear(octets) {
        super::one_line(&said);
    }
}

/// A record: its frames, and that a frame written anew is the same frame.
pub fn frames(octets: &[u8]) {
    let mut record = Bytes::copy_from_slice(octets);
    while !record.is_empty() {
        let before = record.len();
        let frame = match Frame::parse(&mut record) {
            Ok(frame) => frame,
            Err(e) => return super::one_line(&e),
        };
        assert!(record.len() < before, "a frame of no octets");
        let mut again = Vec::new();
        frame.encode(&mut again);
        let again = Frame::parse(&mut Bytes::from(again));
        assert_eq!(again.as_ref(), Ok(&frame), "written and read again");
    }
}

/// A connection's first record at a proxy, and what stands behind the hello.
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

/// A control connection's octets, in pieces as the first of them says.
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
    // What was read may be longer when written: escapes, and numbers in full.
    let Ok(octets) = encode(message) else {
        return;
    };
    assert!(octets.len() <= MAX_MESSAGE_BYTES + 2);
    let mut decoder = Decoder::default();
    decoder.push(&octets);
    match decoder.next_message() {
        Ok(Some(again)) => assert_eq!(&again, message, "written and read again"),
        other => panic!("{message:?} was written as {other:?}"),
    }
}

/// What a connection to a helper's port begins with: the same verdict, however many octets of it
/// have arrived.
pub fn opening(octets: &[u8]) {
    let whole = Opening::of(octets);
    for cut in 0..octets.len().min(40) {
        let part = Opening::of(octets.get(..cut).unwrap_or_default());
        match (part, &whole) {
            (Ok(None), _) | (Err(_), Err(_)) => {}
            (Ok(Some(part)), Ok(Some(whole))) => assert_eq!(&part, whole),
            (part, whole) => panic!("{part:?} after {cut} octets, then {whole:?}"),
        }
    }
}

/// A stranger's octets to a listening end of TLS.
pub fn tls_accept(octets: &[u8]) {
    #[derive(Debug)]
    struct Nobody;
    impl Trust for Nobody {
        fn trusts(&self, _: &DeviceId) -> bool {
            false
        }
    }
    let answered = block_on(TlsStream::accept(
        Script(octets),
        identity(),
        Arc::new(Nobody),
        far(),
    ));
    match answered {
        Ok(_) => panic!("an untrusted device was let in"),
        Err(e) => super::one_line(&e),
    }
}

/// What a calling end hears from whoever answers in its proxy's place.
pub fn tls_connect(octets: &[u8]) {
    let answered = block_on(TlsStream::connect(
        Script(octets),
        identity(),
        identity().id(),
        far(),
    ));
    match answered {
        Ok(_) => panic!("an answer without the key was taken"),
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

fn block_on<T>(future: impl Future<Output = T>) -> T {
    thread_local! {
        static RUNTIME: tokio::runtime::Runtime = match tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
        {
            Ok(runtime) => runtime,
            Err(e) => panic!("no runtime: {e}"),
        };
    }
    RUNTIME.with(|runtime| runtime.block_on(future))
}

/// A connection whose peer says these octets, listens to everything, and closes.
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
