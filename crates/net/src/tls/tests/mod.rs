//! Tests of TLS on loopback TCP. Some peers are buffered connections of rustls, which verify the
//! record layer and the exporter of this module.

mod label;
mod purposes;

use std::collections::HashSet;
use std::future::poll_fn;
use std::io::{Read, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

use super::config::{ExporterSecret, Pinned, Trusted};
use super::*;
use crate::blocks::KeptBlocks;
use crate::identity::{DeviceId, Identity};

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(10)
}

fn anyone() -> Arc<dyn Trust> {
    Arc::new(|_: &DeviceId| true)
}

async fn tcp_pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (client, server) = tokio::join!(TcpStream::connect(address), listener.accept());
    (client.unwrap(), server.unwrap().0)
}

async fn pair() -> (TlsStream, TlsStream) {
    let (a, b) = tcp_pair().await;
    let (ours, theirs) = (Identity::generate().unwrap(), Identity::generate().unwrap());
    let (client, server) = tokio::join!(
        TlsStream::connect(a, &ours, theirs.id(), soon()),
        TlsStream::accept(b, &theirs, anyone(), soon()),
    );
    let (client, server) = (client.unwrap(), server.unwrap());
    assert_eq!(client.peer_id(), theirs.id());
    assert_eq!(server.peer_id(), ours.id());
    (client, server)
}

async fn flush(s: &mut TlsStream) {
    poll_fn(|cx| s.poll_flush(cx)).await.unwrap();
}

async fn next(s: &mut TlsStream) -> Result<Option<Record>, TlsError> {
    loop {
        match s.next_record()? {
            Some(record) => return Ok(Some(record)),
            None if s.peer_closed() => return Ok(None),
            None => {
                poll_fn(|cx| s.poll_fill(cx)).await?;
            }
        }
    }
}

#[tokio::test]
async fn records_arrive_with_equal_counts_and_constant_overhead() {
    let (mut client, mut server) = pair().await;
    assert_eq!(client.ciphertext_out(), server.ciphertext_in());
    assert_eq!(server.ciphertext_out(), client.ciphertext_in());
    for size in [
        1,
        2,
        100,
        2047,
        2048,
        2049,
        8192,
        MAX_RECORD_PLAINTEXT_BYTES,
    ] {
        let plain = vec![size as u8; size];
        let before = client.ciphertext_out();
        let end = client.queue_record(&plain).unwrap();
        assert_eq!(end - before, size as u64 + 22);
        assert_eq!(client.queued_bytes(), size + RECORD_OVERHEAD_BYTES);
        flush(&mut client).await;
        assert_eq!(client.queued_bytes(), 0);
        let got = next(&mut server).await.unwrap().unwrap();
        assert_eq!(got.payload, plain);
        assert_eq!(got.ciphertext_end, end);
        assert_eq!(server.ciphertext_in(), end);
    }
    let end = server.queue_record_parts(&[b"head", b"", b"tail"]).unwrap();
    flush(&mut server).await;
    let got = next(&mut client).await.unwrap().unwrap();
    assert_eq!(
        (&got.payload[..], got.ciphertext_end),
        (&b"headtail"[..], end)
    );
}

#[tokio::test]
async fn a_record_is_never_empty_nor_too_long() {
    let (mut client, _server) = pair().await;
    for size in [0, MAX_RECORD_PLAINTEXT_BYTES + 1] {
        let before = client.ciphertext_out();
        let error = client.queue_record(&vec![0; size]).unwrap_err();
        assert!(matches!(error, TlsError::RecordSize(n) if n == size));
        assert_eq!(client.ciphertext_out(), before);
    }
}

#[tokio::test]
async fn many_records_pass_both_ways_at_once_while_keys_change() {
    let (mut client, mut server) = pair().await;
    client.change_key_after(7);
    server.change_key_after(11);
    async fn drive(s: &mut TlsStream, seed: u8) -> (u64, u64, u64) {
        const TOTAL: u64 = 8 << 20;
        let (mut sent, mut got, mut last_out, mut last_in) = (0_u64, 0_u64, 0, 0);
        poll_fn(|cx| {
            loop {
                if s.queued_bytes() == 0 && sent < TOTAL {
                    for _ in 0..4 {
                        let size = 1 + (sent as usize * 7 + usize::from(seed)) % 16384;
                        let size = size.min((TOTAL - sent) as usize);
                        if size == 0 {
                            break;
                        }
                        let plain: Vec<u8> = (0..size)
                            .map(|i| seed.wrapping_add((sent as usize + i) as u8))
                            .collect();
                        last_out = s.queue_record(&plain).unwrap();
                        sent += size as u64;
                    }
                }
                let flushed = s.poll_flush(cx).map(|r| r.unwrap()).is_ready();
                while let Some(record) = s.next_record().unwrap() {
                    for (i, byte) in record.payload.iter().enumerate() {
                        let expected = (seed ^ 1).wrapping_add((got as usize + i) as u8);
                        assert_eq!(*byte, expected, "at {got}+{i}");
                    }
                    got += record.payload.len() as u64;
                    last_in = record.ciphertext_end;
                }
                if got == TOTAL && sent == TOTAL && s.queued_bytes() == 0 {
                    return std::task::Poll::Ready(());
                }
                let filled = match s.poll_fill(cx) {
                    std::task::Poll::Ready(n) => n.unwrap() > 0,
                    std::task::Poll::Pending => false,
                };
                let may_send = flushed && sent < TOTAL;
                if !filled && !may_send {
                    return std::task::Poll::Pending;
                }
            }
        })
        .await;
        (got, last_out, last_in)
    }
    let (a, b) = tokio::join!(drive(&mut client, 0), drive(&mut server, 1));
    assert_eq!((a.0, b.0), (8 << 20, 8 << 20));
    assert_eq!((a.1, a.2), (b.2, b.1), "both ends count the same octets");
}

#[tokio::test]
async fn another_device_than_expected_is_refused_by_name() {
    let (a, b) = tcp_pair().await;
    let [ours, theirs, other] = [(); 3].map(|()| Identity::generate().unwrap());
    let (client, server) = tokio::join!(
        TlsStream::connect(a, &ours, other.id(), soon()),
        TlsStream::accept(b, &theirs, anyone(), soon()),
    );
    let client = client.unwrap_err();
    assert!(
        matches!(client, TlsError::WrongPeer { expected, found }
            if expected == other.id() && found == theirs.id()),
        "{client}"
    );
    let server = server.unwrap_err();
    assert!(matches!(server, TlsError::NotTrusted { .. }), "{server}");
}

#[tokio::test]
async fn an_untrusted_caller_is_refused_with_the_reason() {
    let trusted = Arc::new(Mutex::new(HashSet::new()));
    let book = trusted.clone();
    let trust: Arc<dyn Trust> = Arc::new(move |id: &DeviceId| book.lock().unwrap().contains(id));
    let [ours, theirs] = [(); 2].map(|()| Identity::generate().unwrap());
    // Granted and revoked trust applies from the next handshake on.
    for welcome in [false, true, false] {
        if welcome {
            trusted.lock().unwrap().insert(ours.id());
        } else {
            trusted.lock().unwrap().remove(&ours.id());
        }
        let (a, b) = tcp_pair().await;
        let (client, server) = tokio::join!(
            async {
                let mut client = TlsStream::connect(a, &ours, theirs.id(), soon())
                    .await
                    .unwrap();
                // Data right after the handshake must not hide the alert.
                client.queue_record(&[0; 16384]).unwrap();
                flush(&mut client).await;
                if welcome {
                    None
                } else {
                    Some(next(&mut client).await)
                }
            },
            TlsStream::accept(b, &theirs, trust.clone(), soon()),
        );
        match (client, server) {
            (None, Ok(mut server)) if welcome => {
                let got = next(&mut server).await.unwrap().unwrap();
                assert_eq!(got.payload.len(), 16384);
            }
            (Some(client), Err(server)) if !welcome => {
                let client = client.unwrap_err();
                assert!(matches!(client, TlsError::NotTrusted { .. }), "{client}");
                assert!(
                    matches!(server, TlsError::UntrustedPeer { found } if found == ours.id()),
                    "{server}"
                );
            }
            other => panic!("welcome {welcome}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn closing_is_distinguished_from_truncation() {
    let (mut client, mut server) = pair().await;
    client.queue_record(b"last words").unwrap();
    client.close();
    client.close();
    assert!(matches!(client.queue_record(b"x"), Err(TlsError::Closed)));
    flush(&mut client).await;
    let counted = client.ciphertext_out();
    drop(client);
    assert_eq!(
        next(&mut server).await.unwrap().unwrap().payload,
        "last words"
    );
    assert_eq!(next(&mut server).await.unwrap(), None);
    assert!(server.peer_closed());
    assert_eq!(server.ciphertext_in(), counted);

    let (mut client, mut server) = pair().await;
    client.queue_record(b"last words").unwrap();
    flush(&mut client).await;
    drop(client);
    assert!(next(&mut server).await.unwrap().is_some());
    assert!(matches!(next(&mut server).await, Err(TlsError::Truncated)));
}

#[tokio::test]
async fn a_record_cut_in_half_is_never_delivered() {
    let (mut client, server) = pair().await;
    client.queue_record(&[7; 5000]).unwrap();
    let whole = client.to_send_for_tests();
    for cut in [1, 4, 5, 6, 2500, whole.len() - 1] {
        let (mut client, mut server) = pair().await;
        client.queue_record(&[7; 5000]).unwrap();
        let octets = client.to_send_for_tests();
        let mut tcp = client.into_io_for_tests();
        tcp.write_all(&octets[..cut]).await.unwrap();
        drop(tcp);
        let error = next(&mut server).await.unwrap_err();
        assert!(matches!(error, TlsError::Truncated), "{cut}: {error}");
        assert!(matches!(server.next_record(), Err(TlsError::Closed)));
    }
    drop(server);
}

#[tokio::test]
async fn a_damaged_or_strange_record_ends_the_stream() {
    // Position in the record and the bits to flip there. Ciphertext is random: a bit that is
    // flipped changes it whatever it is, a value that is written does not.
    for (change, expected) in [
        (Some((3_usize, 0x7f_u8)), "too long"),
        (Some((0, 0x17 ^ 0x16)), "not encrypted"),
        (Some((0, 0x17 ^ 0x41)), "not a TLS record"),
        (Some((1, 0x03 ^ 0x04)), "not a TLS record"),
        (Some((2, 0x03 ^ 0x01)), "damaged or forged"),
        (Some((5, 0x01)), "damaged or forged"),
        (Some((121, 0x80)), "damaged or forged"),
        (None, ""),
    ] {
        let (mut client, mut server) = pair().await;
        client.queue_record(&[7; 100]).unwrap();
        let mut octets = client.to_send_for_tests();
        let mut client_tcp = client.into_io_for_tests();
        if let Some((at, flipped)) = change {
            octets[at] ^= flipped;
        }
        client_tcp.write_all(&octets).await.unwrap();
        let result = next(&mut server).await;
        if change.is_none() {
            assert_eq!(result.unwrap().unwrap().payload, vec![7; 100]);
            continue;
        }
        let error = result.unwrap_err().to_string();
        assert!(error.contains(expected), "{change:?}: {error}");
        assert!(server.queued_bytes() > 0, "an alert for the peer");
        assert!(server.queue_record(b"x").is_err());
    }
}

#[tokio::test]
async fn replayed_and_reordered_records_are_refused() {
    let (mut client, mut server) = pair().await;
    client.queue_record(b"one").unwrap();
    let one = client.to_send_for_tests();
    let mut tcp = client.into_io_for_tests();
    tcp.write_all(&one).await.unwrap();
    tcp.write_all(&one).await.unwrap();
    assert!(next(&mut server).await.unwrap().is_some());
    assert!(matches!(
        next(&mut server).await,
        Err(TlsError::BadRecord(_))
    ));
}

#[tokio::test]
async fn garbage_is_no_handshake() {
    let long_garbage = [&[0x16, 3, 1, 0x40, 0][..], &[0xaa; 0x4000]].concat();
    for garbage in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        &[0x16, 3, 1, 0xff, 0xff],
        &[0x16, 3, 1, 0, 4, 1, 2, 3, 4],
        &[0x17, 3, 3, 0, 0],
        &long_garbage,
        b"",
    ] {
        let (mut a, b) = tcp_pair().await;
        let theirs = Identity::generate().unwrap();
        let (_, server) = tokio::join!(
            async {
                a.write_all(garbage).await.unwrap();
                a.shutdown().await.unwrap();
                let mut answer = Vec::new();
                let _ = a.read_to_end(&mut answer).await;
            },
            TlsStream::accept(b, &theirs, anyone(), soon()),
        );
        server.unwrap_err();
    }
}

#[tokio::test]
async fn a_silent_peer_meets_the_deadline() {
    let ours = Identity::generate().unwrap();
    let deadline = || Instant::now() + Duration::from_millis(20);
    let (a, _silent) = tcp_pair().await;
    let error = TlsStream::connect(a, &ours, ours.id(), deadline())
        .await
        .unwrap_err();
    assert!(matches!(error, TlsError::Deadline), "{error}");
    let (_silent, b) = tcp_pair().await;
    let error = TlsStream::accept(b, &ours, anyone(), deadline())
        .await
        .unwrap_err();
    assert!(matches!(error, TlsError::Deadline), "{error}");
}

/// Single octets do not extend the deadline.
#[tokio::test(start_paused = true)]
async fn a_peer_that_trickles_meets_the_deadline() {
    let ours = Identity::generate().unwrap();
    let hello = client_hello().await;
    let (mut slow, far) = tokio::io::duplex(4096);
    let begun = Instant::now();
    let trickle = tokio::spawn(async move {
        for octet in hello {
            tokio::time::sleep(Duration::from_millis(900)).await;
            if slow.write_all(&[octet]).await.is_err() {
                break;
            }
        }
    });
    let deadline = begun + Duration::from_secs(10);
    let error = TlsStream::accept_over(far, &ours, anyone(), &[Purpose::Daemon], deadline)
        .await
        .unwrap_err();
    assert!(matches!(error, TlsError::Deadline), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(12));
    trickle.abort();
}

/// Result of the buffered server of rustls.
struct Foreign {
    exported: [u8; 32],
    read: Vec<u8>,
}

/// Runs a server of rustls on a thread: reads `expect` bytes, requests a key update half-way, then
/// echoes them.
fn foreign_server(
    tcp: std::net::TcpStream,
    identity: &Identity,
    expect: usize,
) -> std::thread::JoinHandle<Foreign> {
    let verifier = Arc::new(Trusted::new(anyone()));
    let config = config::server(
        identity,
        verifier,
        Arc::new(ExporterSecret::default()),
        &[Purpose::Daemon],
    )
    .unwrap();
    std::thread::spawn(move || {
        let mut tcp = tcp;
        let mut conn = rustls::ServerConnection::new(config).unwrap();
        while conn.is_handshaking() {
            conn.complete_io(&mut tcp).unwrap();
        }
        let exported = conn
            .export_keying_material([0; 32], b"EXPORTER-test", Some(b""))
            .unwrap();
        let mut read = vec![0; expect];
        let (first, second) = read.split_at_mut(expect / 2);
        let mut stream = rustls::Stream::new(&mut conn, &mut tcp);
        stream.read_exact(first).unwrap();
        stream.conn.refresh_traffic_keys().unwrap();
        stream.write_all(first).unwrap();
        stream.flush().unwrap();
        stream.read_exact(second).unwrap();
        stream.write_all(second).unwrap();
        stream.conn.send_close_notify();
        stream.flush().unwrap();
        Foreign { exported, read }
    })
}

#[tokio::test]
async fn rustls_itself_understands_us_and_derives_the_same_secrets() {
    let (a, b) = tcp_pair().await;
    let b = b.into_std().unwrap();
    b.set_nonblocking(false).unwrap();
    let [ours, theirs] = [(); 2].map(|()| Identity::generate().unwrap());
    let thread = foreign_server(b, &theirs, 100_000);
    let mut client = TlsStream::connect(a, &ours, theirs.id(), soon())
        .await
        .unwrap();
    let data: Vec<u8> = (0..100_000_u32).map(|i| (i % 251) as u8).collect();
    let mut echoed = Vec::new();
    for half in data.chunks(50_000) {
        for part in half.chunks(10_000) {
            client.queue_record(part).unwrap();
        }
        flush(&mut client).await;
        let until = echoed.len() + 50_000;
        while echoed.len() < until {
            echoed.extend_from_slice(&next(&mut client).await.unwrap().unwrap().payload);
        }
    }
    assert_eq!(next(&mut client).await.unwrap(), None);
    let foreign = thread.join().unwrap();
    assert_eq!(foreign.read, data);
    assert_eq!(echoed, data);
    assert_eq!(client.exporter(b"EXPORTER-test"), foreign.exported);
    assert_ne!(client.exporter(b"EXPORTER-other"), foreign.exported);
}

#[tokio::test]
async fn both_ends_export_the_same_and_no_two_sessions_do() {
    let (a, b) = pair().await;
    let (c, d) = pair().await;
    assert_eq!(a.exporter(b"label"), b.exporter(b"label"));
    assert_eq!(c.exporter(b"label"), d.exporter(b"label"));
    assert_ne!(a.exporter(b"label"), c.exporter(b"label"));
    assert_ne!(a.exporter(&[b'x'; 300]), a.exporter(&[b'x'; 301]));
    assert_eq!(a.exporter(&[b'x'; 300]), b.exporter(&[b'x'; 300]));
}

#[tokio::test]
async fn a_stolen_certificate_without_its_key_proves_nothing() {
    // The impostor presents the certificate of the expected device, but signs with its own key.
    let [ours, theirs, impostor] = [(); 3].map(|()| Identity::generate().unwrap());
    let forged = theirs.certificate_with_key_of(&impostor);
    assert_eq!(forged.id(), theirs.id());
    let (a, b) = tcp_pair().await;
    let (client, server) = tokio::join!(
        TlsStream::connect(a, &ours, theirs.id(), soon()),
        TlsStream::accept(b, &forged, anyone(), soon()),
    );
    let client = client.unwrap_err();
    assert!(
        matches!(
            client,
            TlsError::Handshake(rustls::Error::InvalidCertificate(
                rustls::CertificateError::BadSignature
            ))
        ),
        "{client:?}"
    );
    server.unwrap_err();

    let (a, b) = tcp_pair().await;
    let (_, server) = tokio::join!(
        async {
            let mut client = TlsStream::connect(a, &forged, ours.id(), soon()).await?;
            next(&mut client).await
        },
        TlsStream::accept(b, &ours, anyone(), soon()),
    );
    assert!(
        matches!(
            server,
            Err(TlsError::Handshake(rustls::Error::InvalidCertificate(
                rustls::CertificateError::BadSignature
            )))
        ),
        "{server:?}"
    );
}

/// The answer to a stolen certificate does not depend on whether its device is trusted.
#[tokio::test]
async fn trust_is_asked_for_after_the_proof_of_possession() {
    let [ours, theirs, impostor] = [(); 3].map(|()| Identity::generate().unwrap());
    let forged = theirs.certificate_with_key_of(&impostor);
    for trusted in [true, false] {
        let asked = Arc::new(Mutex::new(0));
        let count = Arc::clone(&asked);
        let trust = Arc::new(move |_: &DeviceId| {
            *count.lock().unwrap() += 1;
            trusted
        });
        let (a, b) = tcp_pair().await;
        let (client, server) = tokio::join!(
            async {
                let mut client = TlsStream::connect(a, &forged, ours.id(), soon()).await?;
                next(&mut client).await
            },
            TlsStream::accept(b, &ours, trust, soon()),
        );
        let alert = client.unwrap_err().to_string();
        assert!(alert.contains("decrypt_error"), "{trusted}: {alert}");
        assert!(
            matches!(
                server,
                Err(TlsError::Handshake(rustls::Error::InvalidCertificate(
                    rustls::CertificateError::BadSignature
                )))
            ),
            "{trusted}: {server:?}"
        );
        assert_eq!(*asked.lock().unwrap(), 0, "{trusted}");
    }
}

#[tokio::test]
async fn a_peer_with_another_protocol_name_is_refused() {
    let (a, b) = tcp_pair().await;
    let [ours, theirs] = [(); 2].map(|()| Identity::generate().unwrap());
    let mut config = config::client(
        &ours,
        Arc::new(Pinned::new(Some(theirs.id()))),
        Arc::new(ExporterSecret::default()),
        Purpose::Daemon,
        false,
    )
    .unwrap();
    Arc::make_mut(&mut config).alpn_protocols = vec![b"h2".to_vec()];
    let a = a.into_std().unwrap();
    a.set_nonblocking(false).unwrap();
    let thread = std::thread::spawn(move || {
        let mut tcp = a;
        let name = rustls::pki_types::ServerName::try_from("x.invalid").unwrap();
        let mut conn = rustls::ClientConnection::new(config, name).unwrap();
        conn.complete_io(&mut tcp).unwrap_err().to_string()
    });
    let server = TlsStream::accept(b, &theirs, anyone(), soon()).await;
    assert!(matches!(server, Err(TlsError::WrongProtocol)), "{server:?}");
    thread.join().unwrap();
}

#[tokio::test]
async fn buffers_are_given_back_and_payloads_do_not_pin_them() {
    let (mut client, mut server) = pair().await;
    for _ in 0..8 {
        client.queue_record(&[1; 16384]).unwrap();
    }
    client.queue_record(&[2; 100]).unwrap();
    flush(&mut client).await;
    let mut small = None;
    for _ in 0..9 {
        small = next(&mut server).await.unwrap();
    }
    let small = small.unwrap().payload;
    assert_eq!(small, vec![2; 100]);
    assert!(small.is_unique(), "a short payload has memory of its own");
    // No more data: the poll that finds that frees the block.
    let pending = poll_fn(|cx| std::task::Poll::Ready(server.poll_fill(cx).is_pending())).await;
    assert!(pending);
    assert_eq!(server.buffer_bytes_for_tests(), 0);
    assert_eq!(client.buffer_bytes_for_tests(), 0);
}

#[tokio::test]
async fn blocks_that_a_payload_keeps_are_counted() {
    let (mut client, mut server) = pair().await;
    let kept = KeptBlocks::default();
    server.count_blocks(&kept);
    client.queue_record(&[1; 5_000]).unwrap();
    client.queue_record(&[2; 5_000]).unwrap();
    flush(&mut client).await;
    let first = next(&mut server).await.unwrap();
    let second = next(&mut server).await.unwrap();
    assert_eq!(kept.bytes(), 0, "the block is read into");
    let pending = poll_fn(|cx| std::task::Poll::Ready(server.poll_fill(cx).is_pending())).await;
    assert!(pending);
    assert_eq!(kept.bytes(), 32 << 10);
    drop(first);
    assert_eq!(kept.bytes(), 32 << 10);
    drop(second);
    assert_eq!(kept.bytes(), 0);
}

#[tokio::test]
async fn an_undrained_buffer_stops_growing() {
    let (mut client, mut server) = pair().await;
    let mut most = 0;
    for _ in 0..200 {
        client.queue_record(&[1; 16384]).unwrap();
        let _ = poll_fn(|cx| std::task::Poll::Ready(client.poll_flush(cx))).await;
        let filled = poll_fn(|cx| server.poll_fill(cx)).await.unwrap();
        assert!(filled > 0);
        most = most.max(server.buffer_bytes_for_tests());
    }
    assert!(most <= 600 * 1024, "{most}");
}

/// The octets of a ClientHello.
async fn client_hello() -> Vec<u8> {
    let (near, mut far) = tokio::io::duplex(1 << 16);
    let [ours, theirs] = [(); 2].map(|()| Identity::generate().unwrap());
    let calling = tokio::spawn(async move {
        let (expect, purpose) = (Some(theirs.id()), Purpose::Daemon);
        let _ = TlsStream::connect_over(near, &ours, expect, purpose, None, soon()).await;
    });
    let mut hello = vec![0; 4096];
    let n = far.read(&mut hello).await.unwrap();
    hello.truncate(n);
    drop(far);
    calling.await.unwrap();
    hello
}

#[tokio::test]
async fn a_damaged_hello_is_refused_at_every_octet() {
    let hello = client_hello().await;
    let theirs = Identity::generate().unwrap();
    for at in 0..hello.len() {
        let mut damaged = hello.clone();
        damaged[at] ^= 0x55;
        for octets in [&damaged[..], &hello[..at]] {
            let (mut near, far) = tokio::io::duplex(1 << 16);
            near.write_all(octets).await.unwrap();
            // The octets may still form a valid hello: then no data follows.
            near.shutdown().await.unwrap();
            let (server, _) = tokio::join!(
                TlsStream::accept_over(far, &theirs, anyone(), &[Purpose::Daemon], soon()),
                async move {
                    let mut answer = Vec::new();
                    let _ = near.read_to_end(&mut answer).await;
                }
            );
            server.unwrap_err();
        }
    }
}
