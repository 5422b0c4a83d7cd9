//! Tests of the control protocol: encoding, tickets, and both kinds of connection on one port.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use mpbond_units::BitRate;
use proptest::prelude::*;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

use super::*;
use crate::identity::{DeviceId, Identity};
use crate::l2::Mac;
use crate::pipe::PipeStream;
use crate::tls::{Label, Peeked, TlsError, TlsStream};

fn any_text() -> impl Strategy<Value = String> {
    // Texts change in decoding unless they are printable.
    proptest::collection::vec(any::<char>(), 0..60)
        .prop_map(|chars| mpbond_units::printable(&String::from_iter(chars), 256))
}

fn any_span() -> impl Strategy<Value = Option<Duration>> {
    proptest::option::of((0..u64::MAX / 2).prop_map(Duration::from_micros))
}

fn any_rate() -> impl Strategy<Value = Option<BitRate>> {
    proptest::option::of(any::<u64>().prop_map(BitRate::from_bps))
}

fn any_state() -> impl Strategy<Value = HelperState> {
    let link = (
        prop_oneof![
            Just(LinkKind::Ethernet),
            Just(LinkKind::Wifi),
            Just(LinkKind::Umts),
            Just(LinkKind::Lte),
            Just(LinkKind::Nr),
            Just(LinkKind::Other),
        ],
        any::<Option<i16>>(),
    )
        .prop_map(|(kind, signal_dbm)| LinkState { kind, signal_dbm });
    (
        any::<Option<u8>>(),
        any::<[Option<bool>; 2]>(),
        any::<Option<u64>>(),
        proptest::collection::vec(link, 0..4),
    )
        .prop_map(
            |(battery_percent, [charging, metered], bytes_left, links)| HelperState {
                battery_percent,
                charging,
                metered,
                bytes_left,
                links,
            },
        )
}

fn any_report() -> impl Strategy<Value = RelayReport> {
    (
        any::<[u64; 4]>(),
        (any_rate(), any_rate(), any_rate()),
        (any_rate(), any_rate()),
        any::<Option<u64>>(),
        (
            any_span(),
            any_span(),
            any_span(),
            any_span(),
            any_span(),
            any_span(),
            any_span(),
        ),
    )
        .prop_map(
            |([number, relay, down, up], rates, limits, bound_down_bytes, spans)| RelayReport {
                number,
                relay: RequestId(relay),
                th_p: rates.0,
                pipe_rtt: spans.0,
                level_down_bytes: down,
                level_up_bytes: up,
                th_hs: rates.1,
                hs_rtt: spans.1,
                since_hs_byte: spans.2,
                since_hs_down: spans.4,
                th_hs_down: rates.2,
                bound_down_bytes,
                limit_down: limits.0,
                limit_up: limits.1,
                held_back_down: limits.0.is_some(),
                held_back_up: number % 2 == 1,
                age: spans.3,
                sojourn_down: spans.5,
                sojourn_up: spans.6,
            },
        )
}

fn any_message() -> impl Strategy<Value = Message> {
    let proxy = || (any::<std::net::IpAddr>(), any::<u16>()).prop_map(SocketAddr::from);
    let others = || proptest::collection::vec(proxy(), 0..4);
    let request = || any::<u64>().prop_map(RequestId);
    prop_oneof![
        (any::<u32>(), any_text()).prop_map(|(version, name)| Message::Hello { version, name }),
        (request(), proxy(), others(), any::<Option<u16>>()).prop_map(
            |(request, proxy, others, max_segment_bytes)| Message::InitMp {
                request,
                proxy,
                others,
                max_segment_bytes,
            }
        ),
        (
            request(),
            proxy(),
            others(),
            any::<bool>(),
            any::<Option<u16>>()
        )
            .prop_map(|(request, proxy, others, express, max_segment_bytes)| {
                Message::InitMpJoin {
                    request,
                    proxy,
                    others,
                    express,
                    max_segment_bytes,
                }
            }),
        (request(), any::<bool>()).prop_map(|(request, down)| Message::MeasurePipe {
            request,
            direction: match down {
                true => Direction::Down,
                false => Direction::Up,
            },
        }),
        (request(), any::<[u8; 6]>(), any::<u32>(), any::<[u8; 16]>()).prop_map(
            |(request, mac, channel, key)| Message::L2Offer {
                request,
                mac: Mac(mac),
                channel,
                key: ChannelKey::from_bytes(key),
            }
        ),
        (request(), any::<[u8; 6]>()).prop_map(|(request, mac)| Message::L2Accept {
            request,
            mac: Mac(mac),
        }),
        (any::<u32>(), any_text())
            .prop_map(|(channel, reason)| Message::L2Closed { channel, reason }),
        (request(), any::<[u8; 32]>()).prop_map(|(request, t)| Message::Relay {
            request,
            ticket: Ticket::from_bytes(t),
        }),
        (request(), any_text()).prop_map(|(request, reason)| Message::Refused {
            request,
            code: RefusalCode::BudgetSpent,
            reason,
        }),
        any_state().prop_map(Message::HelperState),
        any_report().prop_map(Message::Report),
        any::<u64>().prop_map(|token| Message::Ping { token }),
        any::<u64>().prop_map(|token| Message::Pong { token }),
        any_text().prop_map(|reason| Message::Bye { reason }),
    ]
}

proptest! {
    #[test]
    fn messages_round_trip_in_any_pieces(
        messages in proptest::collection::vec(any_message(), 1..6),
        piece in 1_usize..40,
    ) {
        let octets: Vec<u8> = messages.iter().flat_map(|m| encode(m).unwrap()).collect();
        let mut decoder = Decoder::default();
        let mut got = Vec::new();
        for part in octets.chunks(piece) {
            decoder.push(part);
            while let Some(message) = decoder.next_message().unwrap() {
                got.push(message);
            }
        }
        prop_assert_eq!(got, messages);
        prop_assert!(!decoder.is_mid_message());
    }

    #[test]
    fn a_truncated_message_is_never_delivered(message in any_message()) {
        let octets = encode(&message).unwrap();
        for cut in 0..octets.len() {
            let mut decoder = Decoder::default();
            decoder.push(&octets[..cut]);
            prop_assert_eq!(decoder.next_message().unwrap(), None);
            prop_assert_eq!(decoder.is_mid_message(), cut > 0);
        }
    }

    #[test]
    fn garbage_is_refused_or_waits(octets in proptest::collection::vec(any::<u8>(), 0..300)) {
        let mut decoder = Decoder::default();
        decoder.push(&octets);
        while let Ok(Some(_)) = decoder.next_message() {}
    }
}

#[test]
fn lengths_are_bounded_both_ways() {
    let name = "x".repeat(MAX_MESSAGE_BYTES);
    let long = Message::Hello { version: 1, name };
    assert!(matches!(encode(&long), Err(EncodeError::TooLong(n)) if n > MAX_MESSAGE_BYTES));
    let mut decoder = Decoder::default();
    decoder.push(&[0x40, 0x01]);
    assert!(matches!(
        decoder.next_message(),
        Err(DecodeError::TooLong(16_385))
    ));
}

#[test]
fn unknown_fields_and_messages_are_ignored() {
    let frame = |text: &str| [&(text.len() as u16).to_be_bytes()[..], text.as_bytes()].concat();
    let mut decoder = Decoder::default();
    decoder.push(&frame(r#"{"type":"dance","speed":3}"#));
    decoder.push(&frame(r#"{"type":"ping","token":7,"colour":"red"}"#));
    decoder.push(&frame(
        r#"{"type":"refused","request":1,"code":"bored","reason":""}"#,
    ));
    decoder.push(&frame(r#"{"type":"ping"}"#));
    assert_eq!(decoder.next_message().unwrap(), Some(Message::Unknown));
    assert_eq!(
        decoder.next_message().unwrap(),
        Some(Message::Ping { token: 7 })
    );
    assert!(matches!(
        decoder.next_message().unwrap(),
        Some(Message::Refused {
            code: RefusalCode::Other,
            ..
        })
    ));
    let said = decoder.next_message().unwrap_err().to_string();
    assert!(
        said.contains("message 4") && said.contains("token"),
        "{said}"
    );
}

const LABEL: Label = Label(*b"self");

/// A helper of version 0.1.0 reports less than one of today, and a primary of that version skips
/// what it does not know.
#[test]
fn reports_of_older_helpers_are_read() {
    let text = r#"{"type":"report","number":4,"relay":1,"th_p":5000000,"pipe_rtt":4000,
        "level_down_bytes":70000,"level_up_bytes":0,"th_hs":null,"hs_rtt":50000,
        "since_hs_byte":100,"since_hs_down":100,"sojourn_down":9000,"sojourn_up":null,"age":0}"#;
    let Ok(Message::Report(old)) = serde_json::from_str(text) else {
        panic!("no report");
    };
    assert_eq!((old.th_hs_down, old.bound_down_bytes), (None, None));
    assert_eq!((old.limit_down, old.limit_up), (None, None));
    assert!(!old.held_back_down && !old.held_back_up);
    let new = RelayReport {
        th_hs_down: Some(BitRate::from_mbps(10.0)),
        bound_down_bytes: Some(4 << 20),
        limit_up: Some(BitRate::from_mbps(2.0)),
        held_back_up: true,
        ..old
    };
    let new = serde_json::to_string(&Message::Report(new)).unwrap();
    assert!(
        new.contains(r#""th_hs_down":10000000,"bound_down_bytes":4194304,"limit_up":2000000,"held_back_up":true,"#),
        "{new}"
    );
}

/// The same of states.
#[test]
fn states_of_older_helpers_are_read() {
    let old = r#"{"type":"helper_state","battery_percent":40,"links":[]}"#;
    let state = HelperState {
        battery_percent: Some(40),
        ..HelperState::default()
    };
    assert_eq!(
        serde_json::from_str::<Message>(old).unwrap(),
        Message::HelperState(state.clone())
    );
    assert_eq!(
        serde_json::to_string(&Message::HelperState(state.clone())).unwrap(),
        old,
        "what is not known is absent"
    );
    let new = HelperState {
        charging: Some(true),
        metered: Some(false),
        ..state
    };
    let new = serde_json::to_string(&Message::HelperState(new)).unwrap();
    assert!(
        new.contains(r#""battery_percent":40,"charging":true,"metered":false,"#),
        "{new}"
    );
    let wrong = old.replace("40", "40,\"charging\":\"yes\"");
    assert!(serde_json::from_str::<Message>(&wrong).is_err());
}

#[test]
fn a_tickets_first_octets_are_the_label_of_its_process() {
    let mut book = TicketBook::new(LABEL);
    let ticket = book.issue((), Instant::now()).unwrap();
    let opening = [&relay_preamble(&ticket)[..], b"payload"].concat();
    for n in 0..=opening.len() {
        let expected = match n < LABELLED_BYTES {
            true => Peeked::Incomplete,
            false => Peeked::Whole(Some(LABEL)),
        };
        assert_eq!(label_of_opening(&opening[..n]), expected, "{n}");
    }
    for other in [&[0x16, 3, 1][..], b"MPR2self", b"GET"] {
        assert_eq!(label_of_opening(other), Peeked::Whole(None));
    }
}

#[test]
fn a_ticket_opens_one_relay_within_its_time() {
    let now = Instant::now();
    let mut book = TicketBook::new(LABEL);
    let a = book.issue("a", now).unwrap();
    let b = book.issue("b", now).unwrap();
    assert_ne!(a, b);
    assert_eq!(book.redeem(&Ticket::from_bytes([0; 32]), now), None);
    assert_eq!(book.redeem(&b, now), Some("b"));
    assert_eq!(book.redeem(&b, now), None, "used up");
    let almost = now + TICKET_LIFETIME - Duration::from_millis(1);
    let c = book.issue("c", almost).unwrap();
    assert_eq!(book.redeem(&a, now + TICKET_LIFETIME), None, "too late");
    assert_eq!(book.redeem(&c, now + TICKET_LIFETIME), Some("c"));
    let d = book.issue("d", now).unwrap();
    book.revoke(|what| *what == "d");
    assert_eq!(book.redeem(&d, now), None);
    assert_eq!(format!("{a:?}"), "Ticket(..)");
}

#[test]
fn outstanding_tickets_are_bounded() {
    let now = Instant::now();
    let mut book = TicketBook::new(LABEL);
    let given = (0..1000).filter(|_| book.issue((), now).is_some()).count();
    assert_eq!(given, 64);
    assert!(book.issue((), now + TICKET_LIFETIME).is_some());
}

async fn tcp_pair() -> (PipeStream, PipeStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (client, server) = tokio::join!(TcpStream::connect(address), listener.accept());
    (client.unwrap().into(), server.unwrap().0.into())
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(10)
}

#[tokio::test]
async fn one_port_serves_control_and_relays() {
    let (mut near, mut far) = tcp_pair().await;
    near.write_all(&[0x16, 3, 1]).await.unwrap();
    let opening = read_opening(&mut far, soon()).await.unwrap();
    assert_eq!(opening, Opening::Control);
    let mut still_there = [0; 3];
    assert_eq!(far.peek(&mut still_there).await.unwrap(), 3);

    let (mut near, mut far) = tcp_pair().await;
    let ticket = Ticket::from_bytes([9; 32]);
    near.write_all(&relay_preamble(&ticket)).await.unwrap();
    near.write_all(b"own bytes").await.unwrap();
    let opening = read_opening(&mut far, soon()).await.unwrap();
    assert_eq!(opening, Opening::Relay(ticket.clone()));
    let mut rest = [0; 9];
    tokio::io::AsyncReadExt::read_exact(&mut far, &mut rest)
        .await
        .unwrap();
    assert_eq!(&rest, b"own bytes");

    for strange in [&b"GET / HTTP/1.1"[..], b"MPX1abc", b""] {
        let (mut near, mut far) = tcp_pair().await;
        near.write_all(strange).await.unwrap();
        drop(near);
        read_opening(&mut far, soon()).await.unwrap_err();
    }
    let preamble = relay_preamble(&ticket);
    for cut in 0..preamble.len() {
        let (mut near, mut far) = tcp_pair().await;
        near.write_all(&preamble[..cut]).await.unwrap();
        drop(near);
        let error = read_opening(&mut far, soon()).await.unwrap_err();
        assert!(matches!(error, OpeningError::Io(_)), "{cut}: {error}");
    }
    let (_silent, mut far) = tcp_pair().await;
    let error = read_opening(&mut far, Instant::now() + Duration::from_millis(10))
        .await
        .unwrap_err();
    assert!(matches!(error, OpeningError::Deadline));
}

async fn channels() -> (ControlChannel, ControlChannel) {
    let (a, b) = tcp_pair().await;
    let [primary, helper] = [(); 2].map(|()| Identity::generate().unwrap());
    let (a, b) = tokio::join!(
        TlsStream::connect(a, &primary, helper.id(), soon()),
        TlsStream::accept(b, &helper, Arc::new(|_: &DeviceId| true), soon()),
    );
    (
        ControlChannel::new(a.unwrap()),
        ControlChannel::new(b.unwrap()),
    )
}

#[tokio::test]
async fn a_channel_carries_messages_both_ways_and_ends_cleanly() {
    let (mut a, mut b) = channels().await;
    // Near the maximum, so that it takes more than one record with its length.
    let link = LinkState {
        kind: LinkKind::Wifi,
        signal_dbm: None,
    };
    let each = serde_json::to_string(&link).unwrap().len() + 1;
    let long = Message::HelperState(HelperState {
        links: vec![link; (MAX_MESSAGE_BYTES - 64) / each],
        ..HelperState::default()
    });
    for message in [Message::Ping { token: 1 }, long] {
        a.send(&message).await.unwrap();
        assert_eq!(b.receive().await.unwrap(), Some(message.clone()));
        b.queue(&message).unwrap();
        b.flush().await.unwrap();
        assert_eq!(a.receive().await.unwrap(), Some(message));
    }
    a.close().await.unwrap();
    assert_eq!(b.receive().await.unwrap(), None);
    drop(b);
    assert!(
        a.receive().await.is_err(),
        "cut off without a closing message"
    );
}

/// Callers print errors alone as well as with their chain of causes.
#[test]
fn a_cause_is_printed_and_not_returned() {
    let cause = || std::io::Error::from(std::io::ErrorKind::ConnectionReset);
    let not_json = serde_json::from_str::<Message>("?").unwrap_err();
    let errors = [
        ChannelError::from(cause()),
        ChannelError::from(TlsError::from(cause())),
        ChannelError::from(EncodeError::from(not_json)),
        ChannelError::from(DecodeError::Json {
            number: 1,
            cause: serde_json::from_str::<Message>("?").unwrap_err(),
        }),
    ];
    let causes = [
        "connection reset",
        "connection reset",
        "column 1",
        "column 1",
    ];
    for (error, cause) in errors.iter().zip(causes) {
        assert!(error.to_string().contains(cause), "{error}");
        let source = std::error::Error::source(error);
        assert!(source.is_none(), "{error}: {source:?}");
    }
}

/// A peer that asks and never reads costs a bounded queue, and nobody waits for it.
#[tokio::test]
async fn answers_that_are_not_read_are_bounded() {
    let (mut a, _b) = channels().await;
    let pong = Message::Pong { token: 1 };
    let mut queued = 0;
    let error = loop {
        match a.queue(&pong) {
            Ok(()) => queued += 1,
            Err(e) => break e,
        }
        assert!(queued < 10_000, "the queue grows on");
    };
    assert!(
        matches!(error, ChannelError::NotRead(n) if n < 80 << 10),
        "{error}"
    );
    // What the socket takes makes room.
    a.flush().await.unwrap();
    a.queue(&pong).unwrap();
}

/// A peer's text is shown on terminals: it must not move the cursor, set a title or hide.
#[test]
fn texts_of_peers_are_printable() {
    let text = "no\u{1b}]0;owned\u{7}\u{1b}[2J\r\nok \u{202e}txt\u{200b}\u{9b}2J";
    let shown = "no�]0;owned��[2J��ok �txt��2J";
    let long = "ü".repeat(4_000);
    for (sent, expected) in [
        (text, shown),
        (long.as_str(), &long[..256]),
        ("fine", "fine"),
    ] {
        for message in [
            Message::Hello {
                version: 1,
                name: sent.to_owned(),
            },
            Message::Refused {
                request: RequestId(1),
                code: RefusalCode::Other,
                reason: sent.to_owned(),
            },
            Message::Bye {
                reason: sent.to_owned(),
            },
        ] {
            let mut decoder = Decoder::default();
            decoder.push(&encode(&message).unwrap());
            let decoded = decoder.next_message().unwrap().unwrap();
            let (Message::Hello { name: got, .. }
            | Message::Refused { reason: got, .. }
            | Message::Bye { reason: got }) = decoded
            else {
                panic!("{decoded:?}");
            };
            assert_eq!(got, expected);
        }
    }
}
