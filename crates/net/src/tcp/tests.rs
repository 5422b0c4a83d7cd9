//! Tests of socket options and TCP statistics on loopback.

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

async fn pair(tuning: Tuning) -> (TcpStream, TcpStream) {
    let listener = listen("127.0.0.1:0".parse().unwrap(), None, &Tuning::default()).unwrap();
    let mut options = TcpOptions::to(listener.local_addr().unwrap());
    options.tuning = tuning;
    let (client, server) = tokio::join!(connect(&options), listener.accept());
    (client.unwrap(), server.unwrap().0)
}

#[tokio::test]
async fn options_are_set() {
    let (client, server) = pair(Tuning {
        nodelay: true,
        congestion: None,
        notsent_lowat_bytes: Some(16_384),
        user_timeout: Some(Duration::from_millis(7_000)),
        mark: None,
        keepalive: Some(Duration::from_secs(15)),
        max_segment_bytes: Some(1_000),
        recv_buffer_bytes: Some(100_000),
        send_buffer_bytes: Some(60_000),
    })
    .await;
    let s = SockRef::from(&client);
    assert!(s.tcp_nodelay().unwrap());
    for end in [&client, &server] {
        assert!(TcpInfo::read(end).unwrap().mss_bytes <= 1_000);
    }
    assert_eq!(s.tcp_notsent_lowat().unwrap(), 16_384);
    assert_eq!(
        s.tcp_user_timeout().unwrap(),
        Some(Duration::from_millis(7_000))
    );
    assert!(s.keepalive().unwrap());
    assert_eq!(s.tcp_keepalive_time().unwrap(), Duration::from_secs(15));
    assert_eq!(s.tcp_keepalive_interval().unwrap(), Duration::from_secs(5));
    // The kernel doubles both for its bookkeeping.
    assert_eq!(s.recv_buffer_size().unwrap(), 200_000);
    assert_eq!(s.send_buffer_size().unwrap(), 120_000);
}

#[tokio::test]
async fn congestion_control_is_chosen_or_refused_by_name() {
    let (client, _server) = pair(Tuning::default()).await;
    let now = SockRef::from(&client).tcp_congestion().unwrap();
    let name = String::from_utf8(now).unwrap();
    let name = name.trim_end_matches('\0').to_owned();
    let (client, _server) = pair(Tuning {
        congestion: Some(name.clone()),
        ..Tuning::default()
    })
    .await;
    let chosen = SockRef::from(&client).tcp_congestion().unwrap();
    assert!(chosen.starts_with(name.as_bytes()));
    let mut options = TcpOptions::to("127.0.0.1:9".parse().unwrap());
    options.tuning.congestion = Some("warp".to_owned());
    let said = connect(&options).await.unwrap_err().to_string();
    assert!(said.contains("\"warp\" is not available"), "{said}");
}

#[tokio::test]
async fn errors_name_the_cause() {
    let gone = mpbond_testing::free_address();
    let mut options = TcpOptions::to(gone);
    let error = connect(&options).await.unwrap_err();
    assert!(
        matches!(&error, TcpError::Connect { remote, cause }
            if *remote == gone && cause.kind() == io::ErrorKind::ConnectionRefused),
        "{error}"
    );
    options.interface = Some("no-such-if0".to_owned());
    let said = connect(&options).await.unwrap_err().to_string();
    assert!(said.contains("\"no-such-if0\""), "{said}");
    options.interface = None;
    options.source = Some("192.0.2.77".parse().unwrap());
    let said = connect(&options).await.unwrap_err().to_string();
    assert!(said.contains("source address 192.0.2.77"), "{said}");
    let taken = listen("127.0.0.1:0".parse().unwrap(), None, &Tuning::default()).unwrap();
    let address = taken.local_addr().unwrap();
    let said = listen(address, None, &Tuning::default()).unwrap_err();
    assert!(matches!(said, TcpError::Listen { .. }), "{said}");
}

/// Callers print errors alone as well as with their chain of causes.
#[tokio::test]
async fn a_cause_is_printed_and_not_returned() {
    let gone = mpbond_testing::free_address();
    let error = connect(&TcpOptions::to(gone)).await.unwrap_err();
    let cause = io::Error::from_raw_os_error(rustix::io::Errno::CONNREFUSED.raw_os_error());
    assert_eq!(error.to_string(), format!("connecting to {gone}: {cause}"));
    assert!(std::error::Error::source(&error).is_none());
}

#[tokio::test]
async fn the_source_address_is_the_one_asked_for() {
    let listener = listen("127.0.0.1:0".parse().unwrap(), None, &Tuning::default()).unwrap();
    let mut options = TcpOptions::to(listener.local_addr().unwrap());
    options.source = Some("127.0.0.5".parse().unwrap());
    options.interface = Some("lo".to_owned());
    let (client, server) = tokio::join!(connect(&options), listener.accept());
    let client = client.unwrap();
    assert_eq!(client.local_addr().unwrap().ip(), options.source.unwrap());
    assert_eq!(server.unwrap().1.ip(), options.source.unwrap());
}

#[tokio::test]
async fn the_kernels_counts_are_octets() {
    let (mut client, mut server) = pair(Tuning::default()).await;
    let before = TcpInfo::read(&client).unwrap();
    assert_eq!(before.state, TcpState::Established);
    client.write_all(&[7; 3000]).await.unwrap();
    let mut got = vec![0; 1000];
    server.read_exact(&mut got).await.unwrap();
    // Loopback delivers within write(2), so all octets have arrived.
    assert_eq!(receive_queue_bytes(&server).unwrap(), 2000);
    let mut rest = vec![0; 2000];
    server.read_exact(&mut rest).await.unwrap();
    assert_eq!(receive_queue_bytes(&server).unwrap(), 0);
    // The response carries the acknowledgement.
    server.write_all(&[1]).await.unwrap();
    client.read_exact(&mut got[..1]).await.unwrap();
    let after = TcpInfo::read(&client).unwrap();
    assert_eq!(
        after.bytes_acked.unwrap() - before.bytes_acked.unwrap(),
        3000
    );
    assert_eq!(after.bytes_sent, Some(3000));
    assert_eq!(after.bytes_received, Some(1));
    assert_eq!(after.notsent_bytes, Some(0));
    assert_eq!(after.unacked_bytes, 0);
    assert_eq!(send_queue_bytes(&client).unwrap(), 0);
    assert!(after.rtt.unwrap() < Duration::from_secs(1));
    assert!(after.min_rtt.unwrap() <= after.rtt.unwrap());
    assert!(after.cwnd_bytes >= after.mss_bytes && after.mss_bytes > 500);
    assert!(after.snd_wnd_bytes.unwrap() > 3000);
    assert_eq!((after.retransmits, after.backoff), (0, 0));
    drop(server);
}

#[tokio::test]
async fn a_full_path_shows_in_the_queues() {
    let (client, server) = pair(Tuning {
        send_buffer_bytes: Some(64 * 1024),
        ..Tuning::default()
    })
    .await;
    let mut written = 0_u64;
    loop {
        client.writable().await.unwrap();
        match client.try_write(&[0; 65_536]) {
            Ok(n) => written += n as u64,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
            Err(e) => panic!("{e}"),
        }
        if written > 64 << 20 {
            panic!("nothing held the writer back");
        }
    }
    // Data may still be moving, so the order of the readings matters: octets
    // that move on between two of them are counted twice, or not at all.
    let queued = send_queue_bytes(&client).unwrap();
    let received = receive_queue_bytes(&server).unwrap();
    let unsent = unsent_bytes(&client).unwrap();
    let notsent = TcpInfo::read(&client).unwrap().notsent_bytes.unwrap();
    assert!(received > 0 && notsent > 0, "{received} {notsent}");
    assert!(received + queued >= written);
    assert!(received + unsent <= written);
    assert!(notsent <= unsent && unsent <= queued);
}

#[test]
fn other_sockets_have_no_tcp_info() {
    let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    assert!(TcpInfo::read(&udp).is_err());
}
