//! Ends of a proxy's attempts to connect to origins. The primaries are sessions driven by the test.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use mpbond_session::{CloseCode, ResetCode, StreamId, close_record};
use socket2::{Domain, Socket, Type};

use crate::memory::{PATIENCE, Peer, Proxy};

/// An origin whose queue is full: the kernel answers no SYN for it.
struct Origin {
    at: SocketAddr,
    _listener: Socket,
    _queued: TcpStream,
}

impl Origin {
    fn new() -> Self {
        let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        listener.bind(&any.into()).unwrap();
        listener.listen(0).unwrap();
        let at = listener.local_addr().unwrap().as_socket().unwrap();
        Self {
            at,
            _listener: listener,
            _queued: TcpStream::connect(at).unwrap(),
        }
    }

    /// Local ports of the connections to it that are being made (proc_pid_net(5): state 2 is
    /// SYN_SENT).
    fn dials(&self) -> BTreeSet<String> {
        let to = format!("0100007F:{:04X}", self.at.port());
        let text = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
        let lines = text.lines().skip(1);
        let columns = lines.map(|line| line.split_whitespace().collect::<Vec<_>>());
        let made = columns.filter(|c| c[2] == to && c[3] == "02");
        made.map(|c| c[1].to_owned()).collect()
    }

    async fn dials_when(&self, is_so: impl Fn(&BTreeSet<String>) -> bool) -> BTreeSet<String> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let dials = self.dials();
            if is_so(&dials) {
                return dials;
            }
            assert!(Instant::now() < deadline, "{dials:?}");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

/// Two devices have a stream to the origin each. One of them does something, after which its dial
/// is the one that has ended, and not the older one, whose time is over first.
async fn ends_by(give_up: impl AsyncFn(&mut Peer, StreamId)) {
    let proxy = Proxy::start(64 << 20);
    let origin = Origin::new();
    let mut patient = Peer::open(&proxy).await.unwrap();
    patient.stream(origin.at);
    patient.transmit().await;
    let older = origin.dials_when(|dials| dials.len() == 1).await;
    let mut peer = Peer::open(&proxy).await.unwrap();
    let stream = peer.stream(origin.at);
    peer.transmit().await;
    let both = origin.dials_when(|dials| dials.len() == 2).await;
    give_up(&mut peer, stream).await;
    let left = origin.dials_when(|dials| *dials != both).await;
    assert_eq!(left, older);
}

#[tokio::test]
async fn a_dial_ends_with_its_stream() {
    ends_by(async |peer, stream| {
        let now = peer.clock.now();
        peer.session.reset(now, stream, ResetCode::Cancelled);
        peer.session.stop(now, stream, ResetCode::Cancelled);
        peer.transmit().await;
    })
    .await;
}

#[tokio::test]
async fn a_dial_ends_with_its_session() {
    ends_by(async |peer, _| {
        let record = close_record(CloseCode::GoingAway, "over");
        peer.tls.queue_record(&record).unwrap();
        poll_fn(|cx| peer.tls.poll_flush(cx)).await.unwrap();
    })
    .await;
}
