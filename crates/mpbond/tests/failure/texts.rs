//! Texts of other devices in logs and status: names and reasons that would move a cursor, set a
//! title, begin a line or hide what follows.

use std::net::SocketAddr;
use std::thread;

use mpbond::driver::refuse;
use mpbond_net::Identity;
use mpbond_net::control::{ControlChannel, Message, Opening, RefusalCode, VERSION, read_opening};
use mpbond_net::tls::TlsStream;
use mpbond_session::wire::{Frame, Secret};
use mpbond_session::{
    Capabilities, CloseCode, Destination, Limits, PathLabel, StreamClass, StreamId, SubflowError,
    SubflowId,
};
use mpbond_units::is_printable;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

use crate::daemons::{Bond, Daemon, WITHIN, Ways, until};
use crate::visitor::runtime;

/// A title, a cleared screen, a line of its own, right-to-left order and nothing.
const TEXT: &str = "gone\u{1b}]0;owned\u{7}\u{1b}[2J\r\nok \u{202e}txt\u{200b}\u{9b}2J";
/// The same where control characters are an error.
const NAME: &str = "wifi\u{202e}txt\u{200b}";
/// The beginning of both as they are shown.
const SHOWN: [&str; 2] = ["gone�]0;owned��[2J��ok �txt��2J", "wifi�txt�"];

pub fn soon() -> Instant {
    Instant::now() + WITHIN
}

/// Runs the other end of a connection on a thread of its own, on its own runtime.
pub fn play(part: impl AsyncFnOnce() + Send + 'static) {
    thread::spawn(move || {
        tokio::task::LocalSet::new().block_on(&runtime(), part());
    });
}

pub fn identity(bond: &Bond, name: &str) -> Identity {
    Identity::load_or_create(bond.file(&format!("{name}.pem"))).unwrap()
}

/// A helper that greets with such a name, and refuses every relay with such a reason.
fn helper(bond: &Bond) {
    let (listen, identity) = (bond.helper, identity(bond, "helper"));
    let listener = std::net::TcpListener::bind(listen).unwrap();
    listener.set_nonblocking(true).unwrap();
    play(async move || {
        let listener = TcpListener::from_std(listener).unwrap();
        loop {
            let (tcp, _) = listener.accept().await.unwrap();
            let mut tcp = tcp.into();
            let Ok(Opening::Control) = read_opening(&mut tcp, soon()).await else {
                continue;
            };
            let anyone = std::sync::Arc::new(|_: &mpbond_net::DeviceId| true);
            let tls = TlsStream::accept(tcp, &identity, anyone, soon()).await;
            let mut control = ControlChannel::new(tls.unwrap());
            let name = TEXT.to_owned();
            let version = VERSION;
            let _ = control.send(&Message::Hello { version, name }).await;
            while let Ok(Some(message)) = control.receive().await {
                let (Message::InitMp { request, .. } | Message::InitMpJoin { request, .. }) =
                    message
                else {
                    continue;
                };
                let (code, reason) = (RefusalCode::Other, TEXT.to_owned());
                let refused = Message::Refused {
                    request,
                    code,
                    reason,
                };
                let _ = control.send(&refused).await;
            }
        }
    });
}

/// A proxy that refuses every session with such a reason.
fn proxy(bond: &Bond) {
    let (listen, identity) = (bond.proxy, identity(bond, "proxy"));
    let listener = std::net::TcpListener::bind(listen).unwrap();
    listener.set_nonblocking(true).unwrap();
    play(async move || {
        let listener = TcpListener::from_std(listener).unwrap();
        loop {
            let (tcp, _) = listener.accept().await.unwrap();
            let anyone = std::sync::Arc::new(|_: &mpbond_net::DeviceId| true);
            let tls = TlsStream::accept(tcp, &identity, anyone, soon()).await;
            let e = SubflowError {
                code: CloseCode::TooMuch,
                reason: TEXT.to_owned(),
                by_peer: false,
            };
            refuse(tls.unwrap(), e).await;
        }
    });
}

/// A primary whose path has such a name; it opens a stream to such a host, and leaves for such a
/// reason.
fn primary(bond: &Bond, to: SocketAddr) {
    let (identity, proxy) = (identity(bond, "primary"), identity(bond, "proxy").id());
    play(async move || {
        let tcp = TcpStream::connect(to).await.unwrap();
        let tls = TlsStream::connect(tcp, &identity, proxy, soon()).await;
        let mut tls = tls.unwrap();
        let windows = Limits {
            max_data: 1 << 20,
            max_stream_data: 1 << 20,
            max_streams: 8,
        };
        let hello = Frame::MpCapable {
            random: Secret([1; 32]),
            subflow: SubflowId(0),
            limits: windows,
            path: PathLabel {
                name: NAME.to_owned(),
                ..PathLabel::default()
            },
            capabilities: Capabilities::of_this_version(None),
        };
        let open = Frame::Open {
            stream: StreamId(0),
            treatment: StreamClass::Bulk.into(),
            max_stream_data: 1 << 20,
            destination: Destination::Name {
                host: NAME.to_owned(),
                port: 80,
            },
            confirm: false,
        };
        let close = Frame::Close {
            code: CloseCode::Done,
            reason: TEXT.to_owned(),
        };
        for frame in [hello, open, close] {
            let mut record = Vec::new();
            frame.encode(&mut record);
            tls.queue_record(&record).unwrap();
            std::future::poll_fn(|cx| tls.poll_flush(cx)).await.unwrap();
        }
        // The session goes on without subflows.
        std::future::pending::<()>().await;
    });
}

/// Nothing but line ends is left in what people read.
fn is_clean(text: &str) -> bool {
    text.chars().all(|c| c == '\n' || is_printable(c))
}

/// Waits until a daemon has logged a text and shows none of what it must not.
fn shows(bond: &Bond, role: &str, daemon: &Daemon, shown: &str) {
    daemon.logs(shown);
    let log = daemon.log();
    assert!(is_clean(&log), "{log:?}");
    let status = format!("{:?}", bond.status(role).unwrap());
    // `Debug` writes what is not printable as `\u{..}`.
    assert!(!status.contains("\\u{"), "{status}");
}

#[test]
fn a_helpers_texts_reach_log_and_status_printable() {
    let bond = Bond::new(Ways::Helper, "", "");
    helper(&bond);
    let daemon = bond.start("primary");
    until("status has the helper's reason", || {
        let status = bond.status("primary");
        status.is_some_and(|s| {
            let errors = s.links.iter().filter_map(|l| l.error.as_deref());
            errors.into_iter().any(|e| e.contains(SHOWN[0]))
        })
    });
    shows(&bond, "primary", &daemon, SHOWN[0]);
}

#[test]
fn texts_of_a_proxy_and_a_primary_reach_logs_and_status_printable() {
    let bond = Bond::new(Ways::Own, "", "");
    proxy(&bond);
    let daemon = bond.start("primary");
    shows(&bond, "primary", &daemon, SHOWN[0]);
    drop(daemon);

    let bond = Bond::new(Ways::Own, "", "");
    let daemon = bond.start("proxy");
    primary(&bond, bond.proxy);
    for shown in SHOWN {
        shows(&bond, "proxy", &daemon, shown);
    }
    until("status has the stream's destination", || {
        let status = bond.status("proxy").unwrap();
        let mut transfers = status.transfers.iter();
        transfers.any(|t| t.destination.starts_with(SHOWN[1]))
    });
    shows(&bond, "proxy", &daemon, SHOWN[1]);
}
