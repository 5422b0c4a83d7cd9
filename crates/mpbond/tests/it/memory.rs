//! The memory limit of a proxy: a real one on loopback with little memory, and primaries that use
//! more. The primaries are sessions driven by the test, step by step.

use std::future::poll_fn;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use mpbond::config::{Destinations, ProxyConfig};
use mpbond::driver::Clock;
use mpbond::status::MemoryStatus;
use mpbond_net::tls::TlsStream;
use mpbond_net::{DeviceId, Identity};
use mpbond_session::wire::Frame;
use mpbond_session::{
    CloseCode, Destination, EXPORTER, Event, PathInfo, Read, ResetCode, Session, SessionConfig,
    StreamClass, StreamId, SubflowError, SubflowId, SubflowSetup,
};
use mpbond_units::BitRate;

pub const PATIENCE: Duration = Duration::from_secs(60);

pub struct Proxy {
    listen: SocketAddr,
    id: DeviceId,
    socket: PathBuf,
    _folder: tempfile::TempDir,
}

impl Proxy {
    pub fn start(memory_bytes: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listen = mpbond_testing::free_address();
        let identity = folder.path().join("proxy.pem");
        let id = Identity::load_or_create(&identity).unwrap().id();
        let socket = folder.path().join("proxy.sock");
        let config = ProxyConfig {
            listen: vec![listen],
            identity,
            status_socket: socket.clone(),
            destinations: Destinations {
                allow: vec!["127.0.0.0/8".parse().unwrap()],
                deny: Vec::new(),
            },
            workers: Some(1),
            memory_bytes: Some(memory_bytes),
            ..ProxyConfig::default()
        };
        thread::spawn(move || mpbond::proxy::run(config, Arc::new(|_: &DeviceId| true)).unwrap());
        let deadline = Instant::now() + PATIENCE;
        while mpbond::status_socket::ask(&socket).is_err() {
            assert!(Instant::now() < deadline, "it does not come up");
            thread::sleep(Duration::from_millis(10));
        }
        Self {
            listen,
            id,
            socket,
            _folder: folder,
        }
    }

    fn memory(&self) -> MemoryStatus {
        let status = mpbond::status_socket::ask(&self.socket).unwrap();
        status.memory.unwrap()
    }
}

/// A primary with one subflow.
pub struct Peer {
    pub clock: Clock,
    pub tls: TlsStream,
    pub session: Session,
    subflow: SubflowId,
}

impl Peer {
    /// Opens a session; returns the refusal otherwise.
    pub async fn open(proxy: &Proxy) -> Result<Self, SubflowError> {
        let clock = Clock::start();
        let identity = Identity::generate().unwrap();
        let tcp = tokio::net::TcpStream::connect(proxy.listen).await.unwrap();
        let soon = tokio::time::Instant::now() + PATIENCE;
        let tls = TlsStream::connect(tcp, &identity, proxy.id, soon)
            .await
            .unwrap();
        let mut session = Session::client(SessionConfig::default(), [7; 32]);
        let setup = SubflowSetup {
            exporter: tls.exporter(EXPORTER),
            tx_octets: tls.ciphertext_out(),
            ..SubflowSetup::default()
        };
        let subflow = session.add_subflow(clock.now(), setup);
        let mut peer = Self {
            clock,
            tls,
            session,
            subflow,
        };
        peer.transmit().await;
        while !peer.session.is_established() {
            peer.receive().await?;
        }
        Ok(peer)
    }

    /// Writes the session's records, as far as its windows permit.
    pub async fn transmit(&mut self) {
        let mut record = Vec::new();
        loop {
            self.session.handle_room(self.subflow, 1 << 20);
            record.clear();
            let now = self.clock.now();
            // A path on which everything has arrived already.
            let path = PathInfo {
                cwnd_bytes: 1 << 30,
                srtt: Duration::from_millis(1),
                min_rtt: Duration::from_millis(1),
                bytes_arrived: self.tls.ciphertext_out(),
                delivery_rate: BitRate::from_bps(10_000_000_000),
                ..PathInfo::default()
            };
            self.session.handle_path(now, self.subflow, path);
            if self.session.poll_transmit(now, &mut record).is_none() {
                return;
            }
            self.tls.queue_record(&record).unwrap();
            poll_fn(|cx| self.tls.poll_flush(cx)).await.unwrap();
        }
    }

    /// Waits for the next record.
    async fn receive(&mut self) -> Result<(), SubflowError> {
        loop {
            if let Some(r) = self.tls.next_record().unwrap() {
                let now = self.clock.now();
                return self
                    .session
                    .handle_record(now, self.subflow, r.payload, r.ciphertext_end);
            }
            let n = poll_fn(|cx| self.tls.poll_fill(cx)).await.unwrap();
            assert!(n > 0, "closed without a word");
        }
    }

    /// Writes, and reads a record or waits until time has something to do.
    async fn step(&mut self) -> Result<(), SubflowError> {
        self.transmit().await;
        match tokio::time::timeout(Duration::from_millis(30), self.receive()).await {
            Ok(result) => result,
            Err(_) => {
                self.session.handle_timeout(self.clock.now());
                Ok(())
            }
        }
    }

    pub fn stream(&mut self, to: SocketAddr) -> StreamId {
        let now = self.clock.now();
        self.session
            .open(now, Destination::Addr(to), StreamClass::Bulk)
            .unwrap()
    }

    /// Runs until a stream is readable.
    async fn hear(&mut self, stream: StreamId) -> Read {
        loop {
            match self.session.read(self.clock.now(), stream) {
                Read::Pending => {}
                said => return said,
            }
            while self.session.poll_event().is_some() {}
            self.step().await.unwrap();
        }
    }
}

/// An origin that sends without end, and reads nothing.
fn fountain() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for tcp in listener.incoming() {
            let mut tcp = tcp.unwrap();
            thread::spawn(move || {
                let block = vec![7; 64 << 10];
                while std::io::Write::write_all(&mut tcp, &block).is_ok() {}
            });
        }
    });
    address
}

/// An origin that takes connections and neither reads nor sends.
fn silent() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    // Accepted connections inherit it: what they do not read stays at the proxy.
    let small = socket2::SockRef::from(&listener).set_recv_buffer_size(4 << 10);
    small.unwrap();
    thread::spawn(move || {
        let _kept: Vec<_> = listener.incoming().collect();
    });
    address
}

/// What one read of a subflow may bring before it is counted, and counts double.
const ONE_READ: u64 = 512 << 10;

/// Watches until more than expected is held, and then until that has not risen for a while.
async fn settled(proxy: &Proxy, expected: u64, sessions: u64) {
    let deadline = Instant::now() + PATIENCE;
    let (mut most, mut since) = (0, Instant::now());
    while most <= expected || since.elapsed() < Duration::from_secs(1) {
        assert!(
            Instant::now() < deadline,
            "it never comes to rest: {most} bytes, {expected} expected"
        );
        let memory = proxy.memory();
        // Each session may count a read before the one that has to end gives back what it holds.
        assert!(
            memory.used_bytes <= memory.most_bytes + sessions * ONE_READ,
            "{memory:?}"
        );
        if memory.used_bytes > most {
            (most, since) = (memory.used_bytes, Instant::now());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Streams that no OPEN has told of, and those that were refused: no connection is left of them.
/// The peer acknowledges nothing.
#[tokio::test]
async fn streams_without_a_connection_are_counted() {
    const STREAMS: u64 = 1_000;
    let nobody = mpbond_testing::free_address();
    for is_open in [false, true] {
        let proxy = Proxy::start(64 << 20);
        let mut peer = Peer::open(&proxy).await.unwrap();
        let before = proxy.memory().used_bytes;
        let mut record = Vec::new();
        for stream in (0..STREAMS).map(StreamId) {
            let frame = match is_open {
                true => Frame::Open {
                    stream,
                    treatment: StreamClass::Bulk.into(),
                    max_stream_data: 10,
                    destination: Destination::Addr(nobody),
                    confirm: false,
                },
                false => Frame::Data {
                    stream,
                    offset: 1,
                    fin: false,
                    chunk_end: false,
                    bytes: Bytes::from_static(b"x"),
                },
            };
            frame.encode(&mut record);
            if record.len() > 8 << 10 {
                peer.tls.queue_record(&record).unwrap();
                record.clear();
            }
        }
        peer.tls.queue_record(&record).unwrap();
        poll_fn(|cx| peer.tls.poll_flush(cx)).await.unwrap();
        // 2 KiB each for as long as they are kept; one with a connection takes 8.
        let counted = before + (STREAMS << 11)..before + (STREAMS << 12);
        let deadline = Instant::now() + PATIENCE;
        let mut looks = 0;
        while looks < 10 {
            tokio::time::sleep(Duration::from_millis(20)).await;
            let memory = proxy.memory();
            let is_so = counted.contains(&memory.used_bytes);
            looks = if is_so { looks + 1 } else { 0 };
            assert!(Instant::now() < deadline, "{before}, then {memory:?}");
        }
    }
}

/// Single bytes with gaps between them: what they cost is the bookkeeping.
#[tokio::test]
async fn pieces_that_wait_are_counted() {
    const PIECES: u64 = 15_000;
    let proxy = Proxy::start(64 << 20);
    let mut peer = Peer::open(&proxy).await.unwrap();
    let stream = peer.stream(silent());
    peer.transmit().await;
    let before = proxy.memory().used_bytes;
    let offsets: Vec<u64> = (0..PIECES).map(|n| 2 * n + 1).collect();
    for some in offsets.chunks(1_000) {
        let mut record = Vec::new();
        for offset in some {
            let byte = Frame::Data {
                stream,
                offset: *offset,
                fin: false,
                chunk_end: false,
                bytes: Bytes::from_static(b"x"),
            };
            byte.encode(&mut record);
        }
        peer.tls.queue_record(&record).unwrap();
        poll_fn(|cx| peer.tls.poll_flush(cx)).await.unwrap();
    }
    let deadline = Instant::now() + PATIENCE;
    while proxy.memory().used_bytes < before + PIECES * 128 {
        let memory = proxy.memory();
        assert!(Instant::now() < deadline, "{before}, then {memory:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn new_sessions_and_streams_are_refused_while_others_go_on() {
    let proxy = Proxy::start(1 << 20);
    let fountain = fountain();
    let mut inside = Vec::new();
    let refused = loop {
        match Peer::open(&proxy).await {
            Ok(peer) => inside.push(peer),
            Err(e) => break e,
        }
        assert!(inside.len() < 100, "nobody is refused");
    };
    assert!(inside.len() > 10, "{}", inside.len());
    assert_eq!(refused.code, CloseCode::TooMuch);
    assert!(
        refused.by_peer && refused.reason.contains("memory"),
        "{refused}"
    );

    let peer = &mut inside[0];
    let mut streams = Vec::new();
    let code = loop {
        let stream = peer.stream(fountain);
        match peer.hear(stream).await {
            Read::Data(_) => streams.push(stream),
            Read::Reset(code) => break code,
            other => panic!("{other:?}"),
        }
        assert!(streams.len() < 100, "no stream is refused");
    };
    assert_eq!(code, ResetCode::Overloaded);
    // Those that are in go on.
    for stream in &streams {
        for _ in 0..10 {
            assert!(matches!(peer.hear(*stream).await, Read::Data(_)));
        }
    }
    // Room that is given back is there for others. Sessions last a while without their subflows;
    // what those held is free at once.
    inside.truncate(1);
    let deadline = Instant::now() + PATIENCE;
    while let Err(e) = Peer::open(&proxy).await {
        assert!(Instant::now() < deadline, "nothing is given back: {e}");
    }
}

#[tokio::test]
async fn bytes_for_peers_that_do_not_read_stay_below_the_bound() {
    let proxy = Proxy::start(4 << 20);
    let fountain = fountain();
    let mut peers = Vec::new();
    for _ in 0..4 {
        let mut peer = Peer::open(&proxy).await.unwrap();
        let streams: Vec<_> = (0..10).map(|_| peer.stream(fountain)).collect();
        // It sends requests and never reads: its session alone could hold 8 MiB.
        peer.transmit().await;
        peers.push((peer, streams));
    }
    // It is used, too.
    settled(&proxy, 2 << 20, 4).await;
    // Who begins to read gets all of it, although others hold what they have.
    let (reader, streams) = &mut peers[0];
    let mut read = 0;
    while read < 4 << 20 {
        let Read::Data(bytes) = reader.hear(streams[0]).await else {
            panic!("the stream ended");
        };
        read += bytes.len();
        for stream in &streams[1..] {
            while let Read::Data(_) = reader.session.read(reader.clock.now(), *stream) {}
        }
    }
}

#[tokio::test]
async fn bytes_for_origins_that_do_not_read_stay_below_the_bound() {
    let proxy = Proxy::start(8 << 20);
    let (silent, fountain) = (silent(), fountain());
    let mut peers = Vec::new();
    for _ in 0..6 {
        let mut peer = Peer::open(&proxy).await.unwrap();
        // As much as the windows allow, which would be 32 MiB a session.
        for _ in 0..8 {
            let stream = peer.stream(silent);
            peer.session.write(stream, Bytes::from(vec![7; 8 << 20]));
        }
        let task = tokio::spawn(async move {
            loop {
                while let Some(event) = peer.session.poll_event() {
                    if let Event::Lost { reason } = event {
                        return reason;
                    }
                }
                if let Err(e) = peer.step().await {
                    return e.to_string();
                }
            }
        });
        peers.push(task);
    }
    settled(&proxy, 1 << 20, 6).await;
    // A session that reads is still served, if not at every moment.
    let deadline = Instant::now() + PATIENCE;
    let mut modest = loop {
        match Peer::open(&proxy).await {
            Ok(peer) => break peer,
            Err(e) => assert!(Instant::now() < deadline, "no room for anybody: {e}"),
        }
    };
    let stream = loop {
        let stream = modest.stream(fountain);
        match modest.hear(stream).await {
            Read::Data(_) => break stream,
            Read::Reset(ResetCode::Overloaded) => {}
            other => panic!("{other:?}"),
        }
        assert!(Instant::now() < deadline, "no room for a stream");
    };
    for _ in 0..100 {
        assert!(matches!(modest.hear(stream).await, Read::Data(_)));
    }
    for p in peers {
        p.abort();
    }
}
