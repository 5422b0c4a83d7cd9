//! Tests of SOCKS5 and HTTP fronts on loopback, with a simple pump in place of the session: raw
//! clients for the corner cases, and curl.

// Helpers of tests may unwrap as the tests themselves do.
#![allow(clippy::unwrap_used)]

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use mpbond_intercept::{
    Credentials, Destination, Front, FrontConfig, Intercepted, Protocol, Reception, Refusal, Via,
};
use mpbond_testing::Need;
use socket2::{Domain, Socket, Type};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

const ANY: &str = "127.0.0.1:0";

/// Ends the task with the test.
struct Task(JoinHandle<()>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn front(protocol: Protocol) -> Front {
    Front::bind(ANY.parse().unwrap(), FrontConfig::new(protocol)).unwrap()
}

/// Serves all connections of a front: `origin.example` is `origin`, addresses are themselves, other
/// names do not exist.
fn serve(mut front: Front, origin: SocketAddr, optimistic: bool) -> Task {
    Task(tokio::spawn(async move {
        loop {
            let intercepted = front.accept().await;
            tokio::spawn(pump(intercepted, origin, optimistic));
        }
    }))
}

async fn pump(intercepted: Intercepted, origin: SocketAddr, optimistic: bool) {
    let to = match intercepted.destination() {
        Destination::Name { host, .. } if host == "origin.example" => origin,
        Destination::Name { .. } => return intercepted.refused(Refusal::NameNotFound).await,
        Destination::Addr(addr) => *addr,
    };
    if optimistic {
        let mut client = intercepted.accepted().await.unwrap();
        match TcpStream::connect(to).await {
            Ok(mut far) => _ = tokio::io::copy_bidirectional(&mut client, &mut far).await,
            Err(_) => client.abort(),
        }
    } else {
        match TcpStream::connect(to).await {
            Ok(mut far) => {
                let mut client = intercepted.accepted().await.unwrap();
                _ = tokio::io::copy_bidirectional(&mut client, &mut far).await;
            }
            Err(_) => intercepted.refused(Refusal::ConnectionRefused).await,
        }
    }
}

/// An HTTP server that responds with the request as text and obeys `Connection: close`; it accepts
/// bodies with a length or in chunks.
async fn echo_origin() -> (SocketAddr, Task) {
    let listener = TcpListener::bind(ANY).await.unwrap();
    let addr = listener.local_addr().unwrap();
    let task = Task(tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(echo(stream));
        }
    }));
    (addr, task)
}

async fn echo(mut stream: TcpStream) {
    loop {
        let mut request = Vec::new();
        let complete = loop {
            if let Some(at) = request.windows(4).position(|w| w == b"\r\n\r\n") {
                let head = String::from_utf8_lossy(&request[..at]).to_ascii_lowercase();
                let length = head
                    .split("content-length: ")
                    .nth(1)
                    .map(|l| l.lines().next().unwrap().parse::<usize>().unwrap());
                let whole = match length {
                    Some(length) => request.len() >= at + 4 + length,
                    None if head.contains("chunked") => request.ends_with(b"0\r\n\r\n"),
                    None => true,
                };
                if whole {
                    break true;
                }
            }
            if stream.read_buf(&mut request).await.unwrap_or(0) == 0 {
                break false;
            }
        };
        if !complete {
            return;
        }
        let close = String::from_utf8_lossy(&request)
            .to_ascii_lowercase()
            .contains("connection: close");
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n{}\r\n",
            request.len(),
            if close { "Connection: close\r\n" } else { "" }
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(&request).await.unwrap();
        if close {
            return;
        }
    }
}

async fn connect(front: &Front) -> TcpStream {
    TcpStream::connect(front.local_addr()).await.unwrap()
}

async fn read_all(stream: &mut TcpStream) -> String {
    let mut all = Vec::new();
    stream.read_to_end(&mut all).await.unwrap();
    String::from_utf8_lossy(&all).into_owned()
}

#[tokio::test]
async fn pipelined_socks5_bytes_become_early_data() {
    let mut front = front(Protocol::Socks5);
    let mut client = connect(&front).await;
    let all = b"\x05\x01\x00\x05\x01\x00\x03\x0eorigin.example\x00\x50hello";
    client.write_all(all).await.unwrap();
    let mut i = front.accept().await;
    assert_eq!(i.via(), Via::Socks);
    assert_eq!(i.destination().to_string(), "origin.example:80");
    assert_eq!(i.take_early(), "hello"[..]);

    let mut far = i.accepted().await.unwrap();
    client.write_all(b" world").await.unwrap();
    client.shutdown().await.unwrap();
    let mut rest = String::new();
    far.read_to_string(&mut rest).await.unwrap();
    assert_eq!(rest, " world");
    far.write_all(b"bye").await.unwrap();
    drop(far);
    let answer = read_all(&mut client).await;
    assert_eq!(
        answer.as_bytes(),
        b"\x05\x00\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00bye"
    );
}

#[tokio::test]
async fn early_data_that_was_not_taken_is_read_first() {
    let mut front = front(Protocol::Http);
    let mut client = connect(&front).await;
    client
        .write_all(b"CONNECT a.example:1 HTTP/1.1\r\nHost: a.example:1\r\n\r\nhello")
        .await
        .unwrap();
    let mut far = front.accept().await.accepted().await.unwrap();
    client.write_all(b" world").await.unwrap();
    client.shutdown().await.unwrap();
    let mut all = String::new();
    far.read_to_string(&mut all).await.unwrap();
    assert_eq!(all, "hello world");
}

#[tokio::test]
async fn refusals_are_reported_in_each_protocol() {
    for refusal in Refusal::ALL {
        let mut socks = front(Protocol::Socks5);
        let mut client = connect(&socks).await;
        // The bytes after the request are unread when the answer is sent, and must not turn it into
        // a reset.
        let request = b"\x05\x01\x00\x05\x01\x00\x01\xc0\x00\x02\x01\x00\x50xxxx";
        client.write_all(request).await.unwrap();
        let refused = socks.accept().await.refused(refusal);
        let (answer, ()) = tokio::join!(read_all_then_close(client), refused);
        assert_eq!(answer[..4], [5, 0, 5, refusal.socks5_reply()]);

        let mut http = front(Protocol::Http);
        let mut client = connect(&http).await;
        let request = b"GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\nxxxx";
        client.write_all(request).await.unwrap();
        let refused = http.accept().await.refused(refusal);
        let (answer, ()) = tokio::join!(read_all_then_close(client), refused);
        let answer = String::from_utf8(answer).unwrap();
        let (status, phrase) = refusal.http_status();
        let line = format!("HTTP/1.1 {status} {phrase}\r\n");
        assert!(answer.starts_with(&line), "{answer}");
        assert!(answer.contains(refusal.proxy_status()), "{answer}");
        assert!(answer.ends_with(&format!("{refusal}\n")), "{answer}");
    }
}

#[tokio::test]
async fn a_refused_client_that_does_not_close_is_let_go_after_2_s() {
    let mut front = front(Protocol::Socks5);
    let mut client = connect(&front).await;
    let request = b"\x05\x01\x00\x05\x01\x00\x01\xc0\x00\x02\x01\x00\x50";
    client.write_all(request).await.unwrap();
    let intercepted = front.accept().await;
    let begun = std::time::Instant::now();
    let refused = intercepted.refused(Refusal::TooMany);
    let in_time = tokio::time::timeout(Duration::from_secs(60), refused).await;
    assert!(in_time.is_ok() && begun.elapsed() >= Duration::from_secs(2));
}

async fn read_all_then_close(mut client: TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    client.read_to_end(&mut all).await.unwrap();
    all
}

#[tokio::test]
async fn bad_requests_get_their_answer_from_the_front() {
    let front = front(Protocol::Http);
    let addr = front.local_addr();
    let _task = serve(front, addr, false);
    for (request, status) in [
        ("GET / HTTP/1.1\r\nHost: x\r\n\r\n", "400"),
        ("\x05\x01\x00\r\n\r\n", "400"),
        ("CONNECT 2130706433:80 HTTP/1.1\r\nHost: x\r\n\r\n", "400"),
        (
            "POST http://a.b/ HTTP/1.1\r\nHost: a.b\r\nContent-Length: 1\r\n\
             Transfer-Encoding: chunked\r\n\r\n",
            "400",
        ),
    ] {
        let mut client = TcpStream::connect(addr).await.unwrap();
        client.write_all(request.as_bytes()).await.unwrap();
        let answer = read_all(&mut client).await;
        let want = format!("HTTP/1.1 {status} ");
        assert!(answer.starts_with(&want), "{request:?} got {answer:?}");
    }
    let mut client = TcpStream::connect(addr).await.unwrap();
    client.write_all(&[b'x'; 40_000]).await.unwrap();
    let answer = read_all(&mut client).await;
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer:?}");
}

/// A second request that names another host must reach neither host.
#[tokio::test]
async fn a_second_request_does_not_go_to_the_first_host() {
    let listener = TcpListener::bind(ANY).await.unwrap();
    let front = front(Protocol::Http);
    let addr = front.local_addr();
    let _task = serve(front, listener.local_addr().unwrap(), true);
    let mut client = TcpStream::connect(addr).await.unwrap();
    client
        .write_all(
            b"POST http://origin.example/one HTTP/1.1\r\nHost: origin.example\r\n\
              Content-Length: 4\r\n\r\nbodyGET http://secret.example/ HTTP/1.1\r\n\
              Host: secret.example\r\nCookie: secret\r\n\r\n",
        )
        .await
        .unwrap();
    client
        .write_all(b"GET http://secret.example/2 HTTP/1.1\r\nHost: secret.example\r\n\r\n")
        .await
        .unwrap();
    client.shutdown().await.unwrap();
    let (mut origin, _) = listener.accept().await.unwrap();
    assert_eq!(
        read_all(&mut origin).await,
        "POST /one HTTP/1.1\r\nHost: origin.example\r\nContent-Length: 4\r\n\
         Connection: close\r\n\r\nbody"
    );
}

#[tokio::test]
async fn an_aborted_client_sees_a_reset() {
    let mut front = front(Protocol::Socks5);
    let mut client = connect(&front).await;
    let request = b"\x05\x01\x00\x05\x01\x00\x01\xc0\x00\x02\x01\x00\x50";
    client.write_all(request).await.unwrap();
    front.accept().await.accepted().await.unwrap().abort();
    let mut all = Vec::new();
    let error = client.read_to_end(&mut all).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
}

/// Silent clients neither block others permanently nor stay.
#[tokio::test]
async fn handshakes_are_limited_in_number_and_time() {
    let mut config = FrontConfig::new(Protocol::Socks5);
    config.max_handshakes = 2;
    assert_eq!(config.handshake_timeout, Duration::from_secs(10));
    config.handshake_timeout = Duration::from_millis(300);
    let mut front = Front::bind(ANY.parse().unwrap(), config).unwrap();
    let mut silent = Vec::new();
    for _ in 0..3 {
        silent.push(connect(&front).await);
    }
    let mut good = connect(&front).await;
    let request = b"\x05\x01\x00\x05\x01\x00\x01\xc0\x00\x02\x01\x00\x50";
    good.write_all(request).await.unwrap();
    let i = front.accept().await;
    assert_eq!(i.destination().to_string(), "192.0.2.1:80");
    assert_eq!(i.peer(), good.local_addr().unwrap());
    let mut end = [0];
    assert_eq!(silent[0].read(&mut end).await.unwrap(), 0);
}

/// All places are taken by clients that say nothing: the oldest of them makes room after a second,
/// long before its own time is up. No client lingers for ever that has vanished.
#[tokio::test]
async fn silent_clients_give_way_to_new_ones() {
    let mut config = FrontConfig::new(Protocol::Socks5);
    config.max_handshakes = 2;
    config.handshake_timeout = Duration::from_secs(600);
    let mut front = Front::bind(ANY.parse().unwrap(), config).unwrap();
    let mut silent = [connect(&front).await, connect(&front).await];
    let mut good = connect(&front).await;
    let request = b"\x05\x01\x00\x05\x01\x00\x01\xc0\x00\x02\x01\x00\x50";
    good.write_all(request).await.unwrap();
    let accepted = tokio::time::timeout(Duration::from_secs(60), front.accept()).await;
    let i = accepted.unwrap();
    assert_eq!(i.peer(), good.local_addr().unwrap());
    assert_eq!(silent[0].read(&mut [0]).await.unwrap(), 0);
    let socket = socket2::SockRef::from(i.socket());
    assert!(socket.keepalive().unwrap());
    let times = [socket.tcp_keepalive_time(), socket.tcp_keepalive_interval()];
    assert_eq!(times.map(|time| time.unwrap().as_secs()), [120, 40]);
    assert_eq!(socket.tcp_keepalive_retries().unwrap(), 3);
    // The other one goes on.
    silent[1].write_all(request).await.unwrap();
    let i = front.accept().await;
    assert_eq!(i.peer(), silent[1].local_addr().unwrap());
}

/// Without a processor for longer than that, a front has had no turn to read what has come.
#[tokio::test]
async fn clients_that_have_said_everything_do_not_give_way() {
    let mut config = FrontConfig::new(Protocol::Socks5);
    config.max_handshakes = 1;
    let mut front = Front::bind(ANY.parse().unwrap(), config).unwrap();
    let mut clients = [connect(&front).await, connect(&front).await];
    for client in &mut clients {
        let request = b"\x05\x01\x00\x05\x01\x00\x01\xc0\x00\x02\x01\x00\x50";
        client.write_all(request).await.unwrap();
    }
    // The listener is readable from now on.
    tokio::task::yield_now().await;
    tokio::select! {
        biased;
        _ = front.accept() => panic!("the first one has had no turn"),
        () = std::future::ready(()) => {}
    }
    std::thread::sleep(Duration::from_millis(1_100));
    for client in clients {
        let accepted = tokio::time::timeout(Duration::from_secs(60), front.accept()).await;
        assert_eq!(accepted.unwrap().peer(), client.local_addr().unwrap());
    }
}

#[tokio::test]
async fn a_front_that_refuses_keeps_its_address_and_what_is_open() {
    let mut front = front(Protocol::Socks5);
    let addr = front.local_addr();
    let mut open = connect(&front).await;
    let request = [&[5, 1, 0][..], &[5, 1, 0, 1, 127, 0, 0, 1, 0, 80]].concat();
    open.write_all(&request).await.unwrap();
    let intercepted = front.accept().await;
    for _ in 0..3 {
        // Twice, as two processes with the same listener may do.
        front.set_reception(Reception::Refuse).unwrap();
        front.set_reception(Reception::Refuse).unwrap();
        let refused = TcpStream::connect(addr).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        let other = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        other.set_reuse_address(true).unwrap();
        let taken = other.bind(&addr.into()).unwrap_err();
        assert_eq!(taken.kind(), ErrorKind::AddrInUse);

        front.set_reception(Reception::Accept).unwrap();
        assert_eq!(front.local_addr(), addr);
        let mut client = connect(&front).await;
        client.write_all(&request).await.unwrap();
        let mut accepted = front.accept().await.accepted().await.unwrap();
        accepted.write_all(b"hello").await.unwrap();
        drop(accepted);
        assert!(read_all(&mut client).await.ends_with("hello"));
    }
    let mut intercepted = intercepted.accepted().await.unwrap();
    intercepted.write_all(b"still here").await.unwrap();
    drop(intercepted);
    assert!(read_all(&mut open).await.ends_with("still here"));
}

#[tokio::test]
async fn a_listener_that_another_process_has_shut_down_is_taken_over() {
    let mut first = front(Protocol::Socks5);
    let copy = first.socket().unwrap().try_clone_to_owned().unwrap();
    first.set_reception(Reception::Refuse).unwrap();
    let listener = TcpListener::from_std(copy.into()).unwrap();
    let config = FrontConfig::new(Protocol::Socks5);
    let mut second = Front::with_listener(listener, config).unwrap();
    let addr = second.local_addr();
    assert!(TcpStream::connect(addr).await.is_err());
    second.set_reception(Reception::Accept).unwrap();
    let mut client = TcpStream::connect(addr).await.unwrap();
    let request = [&[5, 1, 0][..], &[5, 1, 0, 1, 127, 0, 0, 1, 0, 80]].concat();
    client.write_all(&request).await.unwrap();
    assert_eq!(
        second.accept().await.destination().to_string(),
        "127.0.0.1:80"
    );
}

#[tokio::test]
async fn http_clients_need_the_right_credentials() {
    let mut config = FrontConfig::new(Protocol::Http);
    config.credentials = Credentials::from_line("anna:s3cret\n");
    let mut front = Front::bind(ANY.parse().unwrap(), config).unwrap();
    let addr = front.local_addr();
    let request = |field: &str| {
        format!("CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n{field}\r\n")
    };
    // A front answers these itself: none of them is accepted before the last.
    let mut refused = Vec::new();
    for field in [
        "",
        "Proxy-Authorization: Basic YW5uYTp3cm9uZw==\r\n",
        "Authorization: Basic YW5uYTpzM2NyZXQ=\r\n",
    ] {
        let mut client = TcpStream::connect(addr).await.unwrap();
        client.write_all(request(field).as_bytes()).await.unwrap();
        refused.push(tokio::spawn(read_all_then_close(client)));
    }
    let mut good = TcpStream::connect(addr).await.unwrap();
    let field = "Proxy-Authorization: Basic YW5uYTpzM2NyZXQ=\r\n";
    let accepted = tokio::spawn(async move { front.accept().await.peer() });
    for answer in refused {
        let answer = String::from_utf8(answer.await.unwrap()).unwrap();
        assert!(answer.starts_with("HTTP/1.1 407 "), "{answer}");
        assert!(
            answer.contains("\r\nProxy-Authenticate: Basic "),
            "{answer}"
        );
    }
    good.write_all(request(field).as_bytes()).await.unwrap();
    assert_eq!(accepted.await.unwrap(), good.local_addr().unwrap());
}

async fn curl(arguments: &[&str]) -> Option<(bool, String)> {
    let output = tokio::process::Command::new("curl")
        .args(["-sS", "--max-time", "10", "--noproxy", ""])
        .args(arguments)
        .output()
        .await;
    match output {
        Ok(output) => Some((
            output.status.success(),
            String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned(),
        )),
        Err(error) => {
            Need::Curl.is_missing(format_args!("cannot run curl: {error}"));
            None
        }
    }
}

#[tokio::test]
async fn curl_over_socks5() {
    let (origin, _origin) = echo_origin().await;
    for optimistic in [false, true] {
        let front = front(Protocol::Socks5);
        let proxy = format!("socks5h://{}", front.local_addr());
        let _task = serve(front, origin, optimistic);
        let Some((ok, answer)) = curl(&["-x", &proxy, "http://origin.example/x"]).await else {
            return;
        };
        assert!(ok && answer.starts_with("GET /x HTTP/1.1\r\n"), "{answer}");

        let by_address = format!("http://{origin}/y");
        let (ok, answer) = curl(&["-x", &proxy, &by_address]).await.unwrap();
        assert!(ok && answer.starts_with("GET /y HTTP/1.1\r\n"), "{answer}");

        let (ok, answer) = curl(&["-x", &proxy, "http://nowhere.example/"])
            .await
            .unwrap();
        assert!(!ok && answer.contains("(4)"), "{answer}");
    }
}

#[tokio::test]
async fn curl_over_socks4_and_4a() {
    let (origin, _origin) = echo_origin().await;
    for optimistic in [false, true] {
        let front = front(Protocol::Socks5);
        let addr = front.local_addr();
        let _task = serve(front, origin, optimistic);
        let by_address = format!("http://{origin}/y");
        for (scheme, url) in [
            ("socks4", &*by_address),
            ("socks4a", &by_address),
            ("socks4a", "http://origin.example/y"),
        ] {
            let proxy = format!("{scheme}://{addr}");
            let Some((ok, answer)) = curl(&["-x", &proxy, url]).await else {
                return;
            };
            assert!(ok && answer.starts_with("GET /y HTTP/1.1\r\n"), "{answer}");
        }
        let proxy = format!("socks4a://{addr}");
        let (ok, answer) = curl(&["-x", &proxy, "http://nowhere.example/"])
            .await
            .unwrap();
        assert!(!ok && answer.contains("(91)"), "{answer}");
    }
}

#[tokio::test]
async fn curl_over_socks5_with_password() {
    let (origin, _origin) = echo_origin().await;
    let mut config = FrontConfig::new(Protocol::Socks5);
    config.credentials = Credentials::new("anna", "s3cret");
    let front = Front::bind(ANY.parse().unwrap(), config).unwrap();
    let addr = front.local_addr();
    let _task = serve(front, origin, false);
    let good = format!("socks5h://anna:s3cret@{addr}");
    let Some((ok, answer)) = curl(&["-x", &good, "http://origin.example/"]).await else {
        return;
    };
    assert!(ok, "{answer}");
    for bad in [
        format!("socks5h://anna:wrong@{addr}"),
        format!("socks5h://{addr}"),
    ] {
        let (ok, answer) = curl(&["-x", &bad, "http://origin.example/"]).await.unwrap();
        assert!(!ok, "{answer}");
    }
}

#[tokio::test]
async fn curl_over_http() {
    let (origin, _origin) = echo_origin().await;
    for optimistic in [false, true] {
        let front = front(Protocol::Http);
        let proxy = format!("http://{}", front.local_addr());
        let _task = serve(front, origin, optimistic);

        // Absolute form, twice on one connection if it were kept, to two names of the same origin.
        let by_address = format!("http://{origin}/two");
        let Some((ok, answer)) =
            curl(&["-x", &proxy, "http://origin.example/one", &by_address]).await
        else {
            return;
        };
        assert!(ok, "{answer}");
        assert!(answer.contains("GET /one HTTP/1.1\r\nHost: origin.example\r\n"));
        assert!(answer.contains(&format!("GET /two HTTP/1.1\r\nHost: {origin}\r\n")));
        assert!(!answer.to_ascii_lowercase().contains("proxy-"), "{answer}");

        let post = ["-x", &proxy, "-d", "field=1", "http://origin.example/post"];
        let (ok, answer) = curl(&post).await.unwrap();
        assert!(ok && answer.ends_with("\r\n\r\nfield=1"), "{answer}");

        let chunked = [
            &post[..],
            &["-H", "Transfer-Encoding: chunked", "-H", "Content-Length:"],
        ]
        .concat();
        let (ok, answer) = curl(&chunked).await.unwrap();
        assert!(
            ok && answer.contains("\r\n7\r\nfield=1\r\n0\r\n\r\n"),
            "{answer}"
        );

        let tunnel = ["-x", &proxy, "-p", "http://origin.example/t"];
        let (ok, answer) = curl(&tunnel).await.unwrap();
        assert!(ok && answer.contains("GET /t HTTP/1.1\r\n"), "{answer}");

        let nowhere = ["-x", &proxy, "-p", "http://nowhere.example/"];
        let (ok, answer) = curl(&nowhere).await.unwrap();
        assert!(!ok && answer.contains("502"), "{answer}");
        let nowhere = ["-x", &proxy, "-i", "http://nowhere.example/"];
        let (ok, answer) = curl(&nowhere).await.unwrap();
        assert!(ok && answer.contains("error=dns_error"), "{answer}");
    }
}
