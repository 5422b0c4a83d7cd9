//! Tests of the DNS stub with real client sockets and in-memory resolvers.

// Helpers of tests may unwrap as the tests themselves do.
#![allow(clippy::unwrap_used)]

use std::collections::HashSet;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mpbond_intercept::Destination;
use mpbond_intercept::dns::{Dial, DnsConfig, DnsSockets, DnsStub};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::net::{TcpStream, UdpSocket};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// A query for `<label>.example A`.
fn query(id: u16, label: &str) -> Vec<u8> {
    let mut message = id.to_be_bytes().to_vec();
    message.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    message.push(label.len() as u8);
    message.extend(label.as_bytes());
    message.extend(b"\x07example\x00\x00\x01\x00\x01");
    message
}

/// A response to a query, with as many bytes after the question.
fn response(query: &[u8], data_bytes: usize) -> Vec<u8> {
    let mut message = query.to_vec();
    message[2..12].copy_from_slice(&[0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]);
    message.extend(vec![7; data_bytes]);
    message
}

async fn read_message(stream: &mut (impl AsyncReadExt + Unpin)) -> io::Result<Vec<u8>> {
    let mut message = vec![0; stream.read_u16().await?.into()];
    stream.read_exact(&mut message).await?;
    Ok(message)
}

async fn write_message(stream: &mut (impl AsyncWriteExt + Unpin), message: &[u8]) {
    stream.write_u16(message.len() as u16).await.unwrap();
    stream.write_all(message).await.unwrap();
}

/// Ends the stub with the test.
struct Stub {
    addr: SocketAddr,
    task: JoinHandle<()>,
    /// Tells it to stop.
    stop: Option<oneshot::Sender<()>>,
}

impl Drop for Stub {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn stub(dial: impl Dial) -> Stub {
    start(config(), dial).await
}

fn config() -> DnsConfig {
    DnsConfig {
        resolvers: vec![resolver(1), resolver(2)],
        ..DnsConfig::default()
    }
}

async fn start(config: DnsConfig, dial: impl Dial) -> Stub {
    let sockets = DnsSockets::bind("127.0.0.1:0".parse().unwrap(), None);
    let sockets = sockets.await.unwrap();
    let addr = sockets.udp.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel();
    let stub = DnsStub::new(vec![sockets], config);
    let task = tokio::spawn(stub.run(dial, async { drop(stopped.await) }));
    Stub {
        addr,
        task,
        stop: Some(stop),
    }
}

fn resolver(n: u8) -> Destination {
    Destination::from_ip([192, 0, 2, n].into(), 53)
}

/// Dials in-memory pipes and logs the destinations.
fn dialled<F>(serve: impl Fn(DuplexStream) -> F + Send + Sync + 'static) -> (impl Dial, Log)
where
    F: Future<Output = ()> + Send + 'static,
{
    let log = Log::default();
    let write = Arc::clone(&log);
    let dial = move |to: Destination| {
        write.lock().unwrap().push(to);
        let (near, far) = duplex(1 << 16);
        tokio::spawn(serve(far));
        std::future::ready(io::Result::Ok(near))
    };
    (dial, log)
}

type Log = Arc<Mutex<Vec<Destination>>>;

async fn client(stub: &Stub) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    socket.connect(stub.addr).await.unwrap();
    socket
}

async fn ask(client: &UdpSocket, query: &[u8]) -> Vec<u8> {
    client.send(query).await.unwrap();
    receive(client).await
}

async fn receive(client: &UdpSocket) -> Vec<u8> {
    let mut buffer = vec![0; 65_535];
    let n = timeout(Duration::from_secs(60), client.recv(&mut buffer));
    let n = n.await.unwrap().unwrap();
    buffer.truncate(n);
    buffer
}

#[tokio::test]
async fn one_connection_carries_look_ups_in_any_order() {
    let (dial, log) = dialled(|mut far| async move {
        let mut queries = Vec::new();
        while let Ok(query) = read_message(&mut far).await {
            queries.push(query);
            if queries.len() == 3 {
                // A response to no query, one to another question, then the three in reverse.
                write_message(&mut far, &response(&query_like(&queries[0], "xxx"), 4)).await;
                write_message(&mut far, &[0xff; 12]).await;
                for query in queries.drain(..).rev() {
                    write_message(&mut far, &response(&query, 4)).await;
                }
            }
        }
    });
    let stub = stub(dial).await;
    let (one, two) = (client(&stub).await, client(&stub).await);
    // The same id from two clients, and twice from one.
    one.send(&query(7, "aaa")).await.unwrap();
    one.send(&query(7, "bbb")).await.unwrap();
    assert_eq!(
        ask(&two, &query(7, "ccc")).await,
        response(&query(7, "ccc"), 4)
    );
    let mut got = [receive(&one).await, receive(&one).await];
    got.sort();
    let want = ["aaa", "bbb"].map(|label| response(&query(7, label), 4));
    assert_eq!(got, want);
    assert_eq!(*log.lock().unwrap(), [resolver(1)]);
}

/// Another question under the same id.
fn query_like(other: &[u8], label: &str) -> Vec<u8> {
    query(u16::from_be_bytes([other[0], other[1]]), label)
}

#[tokio::test]
async fn long_answers_go_over_tcp() {
    let (dial, log) = dialled(|mut far| async move {
        while let Ok(query) = read_message(&mut far).await {
            write_message(&mut far, &response(&query, 20_000)).await;
        }
    });
    let stub = stub(dial).await;
    let query = query(9, "long");
    let cut = ask(&client(&stub).await, &query).await;
    assert_eq!(cut.len(), query.len());
    assert_eq!(cut[2] & 0x82, 0x82, "response, truncated");

    let mut tcp = TcpStream::connect(stub.addr).await.unwrap();
    for _ in 0..2 {
        write_message(&mut tcp, &query).await;
        let answer = read_message(&mut tcp).await.unwrap();
        assert_eq!(answer, response(&query, 20_000));
    }
    assert_eq!(log.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn malformed_queries() {
    let (dial, log) = dialled(|_far| async {});
    let stub = stub(dial).await;
    let client = client(&stub).await;
    client.send(b"short").await.unwrap();
    let mut bad = query(5, "a");
    bad.truncate(14);
    assert_eq!(ask(&client, &bad).await[..4], [0, 5, 0x81, 0x81]);
    assert!(log.lock().unwrap().is_empty());
    // Over TCP, a message that is not a query ends the connection.
    let mut tcp = TcpStream::connect(stub.addr).await.unwrap();
    write_message(&mut tcp, b"short").await;
    assert_eq!(tcp.read(&mut [0]).await.unwrap(), 0);
}

#[tokio::test]
async fn the_next_resolver_is_tried() {
    // The first connection closes after the query.
    let first = Arc::new(Mutex::new(true));
    let (dial, log) = dialled(move |mut far| {
        let fails = std::mem::take(&mut *first.lock().unwrap());
        async move {
            while let Ok(query) = read_message(&mut far).await {
                if fails {
                    return;
                }
                write_message(&mut far, &response(&query, 4)).await;
            }
        }
    });
    let stub = stub(dial).await;
    let query = query(3, "a");
    assert_eq!(ask(&client(&stub).await, &query).await, response(&query, 4));
    assert_eq!(*log.lock().unwrap(), [resolver(1), resolver(2)]);
}

#[tokio::test]
async fn no_resolver_means_servfail_at_once() {
    let dial = |_| std::future::ready(Err::<DuplexStream, _>(io::ErrorKind::NotConnected.into()));
    let stub = stub(dial).await;
    let client = client(&stub).await;
    for id in 0..3 {
        let answer = ask(&client, &query(id, "a")).await;
        assert_eq!(answer[..4], [0, id as u8, 0x81, 0x82]);
    }
}

#[tokio::test]
async fn silence_means_servfail() {
    // Kept open, never answered.
    let (dial, _log) = dialled(|far| async move {
        std::future::pending::<()>().await;
        drop(far);
    });
    let mut config = config();
    assert_eq!(config.timeout, Duration::from_secs(4));
    config.timeout = Duration::from_millis(50);
    let stub = start(config, dial).await;
    let answer = ask(&client(&stub).await, &query(1, "a")).await;
    assert_eq!(answer[..4], [0, 1, 0x81, 0x82]);
}

#[tokio::test]
async fn a_listener_has_64_tcp_clients_and_the_next_one_waits_until_one_of_these_is_gone() {
    let dial = |_| std::future::ready(Err::<DuplexStream, _>(io::ErrorKind::NotConnected.into()));
    let stub = stub(dial).await;
    let connect = async || TcpStream::connect(stub.addr).await.unwrap();
    let mut clients = Vec::new();
    for id in 0..64 {
        let mut tcp = connect().await;
        write_message(&mut tcp, &query(id, "a")).await;
        let answer = read_message(&mut tcp).await.unwrap();
        assert_eq!(answer[..4], [0, id as u8, 0x81, 0x82]);
        clients.push(tcp);
    }
    let mut next = connect().await;
    write_message(&mut next, &query(64, "a")).await;
    let early = timeout(Duration::from_millis(300), read_message(&mut next));
    assert!(early.await.is_err(), "one more than 64");
    clients.pop();
    let answer = timeout(Duration::from_secs(60), read_message(&mut next));
    assert_eq!(answer.await.unwrap().unwrap()[..4], [0, 64, 0x81, 0x82]);
}

#[tokio::test]
async fn a_stub_has_512_look_ups_under_way_and_drops_one_more() {
    let (sender, mut asked) = mpsc::unbounded_channel();
    let answers = Arc::new(Notify::new());
    let there = Arc::clone(&answers);
    let (dial, _log) = dialled(move |mut far| {
        let (asked, answers) = (sender.clone(), Arc::clone(&there));
        async move {
            let mut first = None;
            loop {
                tokio::select! {
                    query = read_message(&mut far) => {
                        let Ok(query) = query else { return };
                        asked.send(query[12..].to_vec()).unwrap();
                        first.get_or_insert(query);
                    }
                    () = answers.notified() => {
                        let query = first.clone().unwrap();
                        write_message(&mut far, &response(&query, 4)).await;
                    }
                }
            }
        }
    });
    // It ends with none of them.
    let config = DnsConfig {
        timeout: Duration::from_secs(3_600),
        ..config()
    };
    let stub = start(config, dial).await;
    let client = client(&stub).await;
    let question = |n: u16| query(n, &format!("name{n}"))[12..].to_vec();
    let mut known = HashSet::new();
    for n in 0..512 {
        client.send(&query(n, &format!("name{n}"))).await.unwrap();
        // Some may be asked for twice.
        while !known.contains(&question(n)) {
            let question = timeout(Duration::from_secs(60), asked.recv()).await;
            known.insert(question.expect("a look-up reaches the resolver").unwrap());
        }
    }
    client.send(&query(512, "name512")).await.unwrap();
    // This one is answered when that was looked at: it has two questions.
    let mut malformed = query(513, "name513");
    malformed[5] = 2;
    assert_eq!(ask(&client, &malformed).await[..2], [2, 1]);
    answers.notify_one();
    assert_eq!(receive(&client).await[..2], [0, 0], "the first");
    client.send(&query(514, "name514")).await.unwrap();
    while !known.contains(&question(514)) {
        let question = timeout(Duration::from_secs(60), asked.recv()).await;
        known.insert(question.expect("a look-up reaches the resolver").unwrap());
    }
    assert!(!known.contains(&question(512)), "one more than 512");
}

/// As at an upgrade, when another process has the same sockets.
#[tokio::test]
async fn a_stub_that_is_told_to_stop_answers_what_it_has_received_and_ends() {
    let (asked, answers) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (here, there) = (Arc::clone(&asked), Arc::clone(&answers));
    let (dial, _log) = dialled(move |mut far| {
        let (asked, answers) = (Arc::clone(&here), Arc::clone(&there));
        async move {
            while let Ok(query) = read_message(&mut far).await {
                asked.notify_one();
                answers.notified().await;
                write_message(&mut far, &response(&query, 4)).await;
            }
        }
    });
    let mut stub = stub(dial).await;
    let (client, query) = (client(&stub).await, query(3, "a"));
    client.send(&query).await.unwrap();
    asked.notified().await;
    drop(stub.stop.take());
    // It waits for this answer, and receives nothing more.
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    assert!(!stub.task.is_finished());
    client.send(&query).await.unwrap();
    answers.notify_one();
    assert_eq!(receive(&client).await, response(&query, 4));
    let end = timeout(Duration::from_secs(60), &mut stub.task).await;
    end.unwrap().unwrap();
    // The second query was not passed on.
    let passed_on = timeout(Duration::from_millis(20), asked.notified()).await;
    assert!(passed_on.is_err());
}

#[tokio::test]
async fn all_addresses_at_once_are_refused() {
    let error = DnsSockets::bind("0.0.0.0:0".parse().unwrap(), None);
    let error = error.await.unwrap_err();
    assert!(error.to_string().contains("0.0.0.0:0"), "{error}");
}
