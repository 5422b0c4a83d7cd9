//! Secrets in the logs of daemons that log everything: tickets of relays, shares of session keys.

use std::future::poll_fn;
use std::sync::Arc;

use bytes::Bytes;
use mpbond_net::DeviceId;
use mpbond_net::control::{
    ControlChannel, Message, Opening, RequestId, Ticket, VERSION, read_opening, relay_preamble,
};
use mpbond_net::tls::TlsStream;
use mpbond_session::wire::{Frame, Secret};
use mpbond_session::{Capabilities, Limits, PathLabel, SubflowId};
use tokio::net::TcpListener;

use crate::daemons::{Bond, Daemon, Ways};
use crate::texts::{identity, play, soon};
use crate::visitor;

const TICKET: [u8; 32] = *b"a ticket that nobody writes down";
const SHARE: [u8; 32] = *b"a share of the key of a session ";

/// Starts a daemon that logs all that its code and its libraries log.
fn start(bond: &Bond, role: &str) -> Daemon {
    bond.start_by(role, "exec \"$0\" \"$1\" --log trace --config \"$5\"")
}

/// Asserts that a log has octets in none of the forms in which logs show them.
fn is_absent(log: &str, what: &str, octets: &[u8]) {
    let all = |show: &dyn Fn(&u8) -> String, between: &str| {
        let shown: Vec<String> = octets[..8].iter().map(show).collect();
        shown.join(between)
    };
    for shown in [
        all(&|o| format!("{o:02x}"), ""),
        all(&|o| format!("{o:02X}"), ""),
        all(&|o| format!("{o:02x}"), " "),
        all(&|o| format!("{o}"), ", "),
        octets[..8].escape_ascii().to_string(),
    ] {
        assert!(!log.contains(&shown), "{what} as {shown}");
    }
}

async fn send(tls: &mut TlsStream, frame: &Frame) {
    let mut record = Vec::new();
    frame.encode(&mut record);
    tls.queue_record(&record).unwrap();
    poll_fn(|cx| tls.poll_flush(cx)).await.unwrap();
}

/// The share of the session's key in the first frame from the other end.
async fn share(tls: &mut TlsStream) -> [u8; 32] {
    loop {
        if let Some(record) = tls.next_record().unwrap() {
            let mut frames = Bytes::copy_from_slice(&record.payload);
            match Frame::parse(&mut frames).unwrap() {
                Frame::MpCapable { random, .. } | Frame::MpOk { random, .. } => return random.0,
                other => panic!("{other:?}"),
            }
        }
        poll_fn(|cx| tls.poll_fill(cx)).await.unwrap();
    }
}

fn hello() -> Frame {
    Frame::MpCapable {
        random: Secret(SHARE),
        subflow: SubflowId(0),
        limits: Limits {
            max_data: 1 << 20,
            max_stream_data: 1 << 20,
            max_streams: 8,
        },
        path: PathLabel {
            name: "helper".to_owned(),
            ..PathLabel::default()
        },
        capabilities: Capabilities::of_this_version(None),
    }
}

/// A relay through a helper, and a session over it: the ticket, and the proxy's share of the key.
async fn relay(bond: &Bond) -> ([u8; 32], [u8; 32]) {
    let [own, proxy] = ["primary", "proxy"].map(|name| identity(bond, name));
    let mut control = visitor::control(bond).await;
    let request = RequestId(1);
    // A helper logs messages that it does not expect.
    let unexpected = Message::Relay {
        request,
        ticket: Ticket::from_bytes(TICKET),
    };
    control.send(&unexpected).await.unwrap();
    let asked = Message::InitMp {
        request,
        proxy: bond.proxy,
        others: Vec::new(),
        max_segment_bytes: None,
    };
    let ticket = visitor::ticket(&mut control, &asked).await.unwrap();
    let tcp = visitor::open(bond, &ticket).await;
    let tls = TlsStream::connect(tcp, &own, proxy.id(), soon()).await;
    let mut tls = tls.unwrap();
    send(&mut tls, &hello()).await;
    let share = share(&mut tls).await;
    let ticket = *relay_preamble(&ticket).last_chunk().unwrap();
    (ticket, share)
}

#[test]
fn a_helper_and_a_proxy_do_not_log_tickets_and_shares_of_session_keys() {
    let bond = Bond::new(Ways::Helper, "", "");
    let (proxy, helper) = (start(&bond, "proxy"), start(&bond, "helper"));
    let (ticket, share) = visitor::runtime().block_on(relay(&bond));
    helper.logs("message ignored other=Relay");
    helper.logs("relay opened");
    proxy.logs("hello");
    for (daemon, log) in [("helper", helper.log()), ("proxy", proxy.log())] {
        assert!(log.contains("TRACE") || log.contains("DEBUG"), "{log}");
        for (what, octets) in [
            ("a ticket that was given", ticket),
            ("a ticket that was received", TICKET),
            ("the primary's share", SHARE),
            ("the proxy's share", share),
        ] {
            is_absent(&log, &format!("{daemon}: {what}"), &octets);
        }
    }
}

/// A helper that gives a known ticket, and is the other end of the session itself; the primary's
/// share of the key goes to `found`.
fn other_end(bond: &Bond, found: std::sync::mpsc::Sender<[u8; 32]>) {
    let (listen, helper, proxy) = (
        bond.helper,
        identity(bond, "helper"),
        identity(bond, "proxy"),
    );
    let listener = std::net::TcpListener::bind(listen).unwrap();
    listener.set_nonblocking(true).unwrap();
    play(async move || {
        let listener = TcpListener::from_std(listener).unwrap();
        let anyone = || Arc::new(|_: &DeviceId| true);
        let mut controls = Vec::new();
        loop {
            let (tcp, _) = listener.accept().await.unwrap();
            let mut tcp = tcp.into();
            match read_opening(&mut tcp, soon()).await.unwrap() {
                Opening::Control => {
                    let tls = TlsStream::accept(tcp, &helper, anyone(), soon()).await;
                    let mut control = ControlChannel::new(tls.unwrap());
                    let (version, name) = (VERSION, "helper".to_owned());
                    let hello = Message::Hello { version, name };
                    control.send(&hello).await.unwrap();
                    let request = loop {
                        if let Some(Message::InitMp { request, .. }) =
                            control.receive().await.unwrap()
                        {
                            break request;
                        }
                    };
                    let ticket = Ticket::from_bytes(TICKET);
                    let relay = Message::Relay { request, ticket };
                    control.send(&relay).await.unwrap();
                    controls.push(control);
                }
                Opening::Relay(ticket) => {
                    assert!(ticket == Ticket::from_bytes(TICKET));
                    let tls = TlsStream::accept(tcp, &proxy, anyone(), soon()).await;
                    let share = share(&mut tls.unwrap()).await;
                    let _ = found.send(share);
                }
            }
        }
    });
}

#[test]
fn a_primary_does_not_log_tickets_and_its_share_of_a_session_key() {
    let bond = Bond::new(Ways::Helper, "", "");
    let (found, shares) = std::sync::mpsc::channel();
    other_end(&bond, found);
    let primary = start(&bond, "primary");
    let share = shares.recv_timeout(crate::daemons::WITHIN).unwrap();
    primary.logs("subflow connected");
    let log = primary.log();
    is_absent(&log, "a ticket", &TICKET);
    is_absent(&log, "the primary's share", &share);
}
