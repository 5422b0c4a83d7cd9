//! Tests of the two purposes of a connection: only pairing accepts devices that are not trusted.

use super::*;

fn nobody() -> Arc<dyn Trust> {
    Arc::new(|_: &DeviceId| false)
}

/// The outcome at both ends: the purpose, or the first error.
async fn door(
    connect: impl AsyncFn(TcpStream, &Identity, DeviceId) -> Result<TlsStream, TlsError>,
    accept: impl AsyncFn(TcpStream, &Identity) -> Result<TlsStream, TlsError>,
) -> (Result<Purpose, TlsError>, Result<Purpose, TlsError>) {
    let (a, b) = tcp_pair().await;
    let [ours, theirs] = [(); 2].map(|()| Identity::generate().unwrap());
    let calling = async {
        let mut stream = connect(a, &ours, theirs.id()).await?;
        // A refusal arrives after the handshake, as does the first record of the other end.
        match next(&mut stream).await? {
            Some(_) => Ok(stream.purpose()),
            None => Err(TlsError::Closed),
        }
    };
    let called = async {
        let mut stream = accept(b, &theirs).await?;
        assert_eq!(stream.peer_id(), ours.id());
        stream.queue_record(b"welcome").unwrap();
        flush(&mut stream).await;
        Ok(stream.purpose())
    };
    tokio::join!(calling, called)
}

/// An unknown device is accepted only where pairing is offered, and only for pairing.
#[tokio::test]
async fn strangers_may_pair_and_no_more() {
    let to_pair =
        async |tcp, me: &Identity, _| TlsStream::connect_to_pair(tcp, me, None, soon()).await;
    let to_work = async |tcp, me: &Identity, id| TlsStream::connect(tcp, me, id, soon()).await;
    let daemon = async |tcp, me: &Identity| TlsStream::accept(tcp, me, nobody(), soon()).await;
    let pairing = async |tcp, me: &Identity| TlsStream::accept_to_pair(tcp, me, soon()).await;
    let either =
        async |tcp, me: &Identity| TlsStream::accept_either(tcp, me, nobody(), soon()).await;

    for (caller, called) in [door(to_pair, pairing).await, door(to_pair, either).await] {
        assert_eq!(
            (caller.unwrap(), called.unwrap()),
            (Purpose::Pairing, Purpose::Pairing)
        );
    }
    let (caller, called) = door(to_work, either).await;
    assert!(
        matches!(called, Err(TlsError::UntrustedPeer { .. })),
        "{called:?}"
    );
    assert!(
        matches!(caller, Err(TlsError::NotTrusted { .. })),
        "{caller:?}"
    );
    for (caller, called) in [door(to_pair, daemon).await, door(to_work, pairing).await] {
        assert!(matches!(called, Err(TlsError::WrongProtocol)), "{called:?}");
        assert!(caller.is_err(), "{caller:?}");
    }
    let friends =
        async |tcp, me: &Identity| TlsStream::accept_either(tcp, me, anyone(), soon()).await;
    let (caller, called) = door(to_work, friends).await;
    assert_eq!(
        (caller.unwrap(), called.unwrap()),
        (Purpose::Daemon, Purpose::Daemon)
    );
}

/// A client that offers both protocols must not be verified for pairing and served as trusted.
#[tokio::test]
async fn clients_that_offer_both_protocols_must_be_trusted() {
    let [ours, theirs] = [(); 2].map(|()| Identity::generate().unwrap());
    for names in [[ALPN, PAIRING_ALPN], [PAIRING_ALPN, ALPN]] {
        let (a, b) = tcp_pair().await;
        let mut config = config::client(
            &ours,
            Arc::new(Pinned::new(None)),
            Arc::new(ExporterSecret::default()),
            Purpose::Pairing,
            false,
        )
        .unwrap();
        Arc::make_mut(&mut config).alpn_protocols = names.map(<[u8]>::to_vec).to_vec();
        let mut tcp = a.into_std().unwrap();
        tcp.set_nonblocking(false).unwrap();
        let thread = std::thread::spawn(move || {
            let name = rustls::pki_types::ServerName::try_from("x.invalid").unwrap();
            let mut conn = rustls::ClientConnection::new(config, name).unwrap();
            let _ = conn.complete_io(&mut tcp);
        });
        let server = TlsStream::accept_either(b, &theirs, nobody(), soon()).await;
        assert!(
            matches!(server, Err(TlsError::UntrustedPeer { .. })),
            "{server:?}"
        );
        thread.join().unwrap();
    }
}

/// With an invitation, only its device is accepted.
#[tokio::test]
async fn pairing_with_a_given_device_refuses_others() {
    let (a, b) = tcp_pair().await;
    let [ours, theirs] = [(); 2].map(|()| Identity::generate().unwrap());
    let expect = Some(ours.id());
    let (client, _) = tokio::join!(
        TlsStream::connect_to_pair(a, &ours, expect, soon()),
        TlsStream::accept_to_pair(b, &theirs, soon()),
    );
    assert!(
        matches!(client, Err(TlsError::WrongPeer { .. })),
        "{client:?}"
    );
}
