//! Tests of the relay between an HS-Path on loopback and a pipe of each kind.

use std::os::fd::AsFd as _;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use tokio::io::{AsyncReadExt, AsyncWriteExt, split};
use tokio::net::{TcpListener, TcpSocket, UnixStream};
use tokio::task::JoinHandle;

use super::*;

mod lent;
mod queue;
mod room;

async fn tcp_pair(recv_buffer: Option<u32>) -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let socket = TcpSocket::new_v4().unwrap();
    if let Some(bytes) = recv_buffer {
        socket.set_recv_buffer_size(bytes).unwrap();
        // Segments as long as the buffer would be acknowledged after 40 ms.
        SockRef::from(&socket).set_tcp_mss(1448).unwrap();
    }
    let far = socket
        .connect(listener.local_addr().unwrap())
        .await
        .unwrap();
    (far, listener.accept().await.unwrap().0)
}

/// Kinds of pipes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Tcp,
    Unix,
}

const KINDS: [Kind; 2] = [Kind::Tcp, Kind::Unix];

struct World {
    primary: PipeStream,
    proxy: TcpStream,
    handle: RelayHandle,
    end: JoinHandle<RelayEnd>,
}

async fn world(options: RelayOptions) -> World {
    world_over(Kind::Tcp, options).await
}

async fn world_over(kind: Kind, options: RelayOptions) -> World {
    let (primary, pipe): (PipeStream, PipeStream) = match kind {
        // A small buffer at the primary lets it stall the pipe early.
        Kind::Tcp => {
            let (far, near) = tcp_pair(Some(64 * 1024)).await;
            (far.into(), near.into())
        }
        Kind::Unix => {
            let (far, near) = UnixStream::pair().unwrap();
            (far.into(), near.into())
        }
    };
    let (proxy, hs) = tcp_pair(None).await;
    let relay = Relay::new(pipe, hs, options).unwrap();
    let handle = relay.handle();
    let end = tokio::spawn(relay.run());
    World {
        primary,
        proxy,
        handle,
        end,
    }
}

fn pattern(from: u64, len: usize) -> Vec<u8> {
    (from..from + len as u64)
        .map(|i| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8)
        .collect()
}

async fn send_pattern(to: &mut (impl tokio::io::AsyncWrite + Unpin), total: u64, piece: usize) {
    send_bytes(to, total, piece).await;
    to.shutdown().await.unwrap();
}

/// The same without an end.
async fn send_bytes(to: &mut (impl tokio::io::AsyncWrite + Unpin), total: u64, piece: usize) {
    let mut at = 0;
    while at < total {
        let len = piece.min((total - at) as usize);
        to.write_all(&pattern(at, len)).await.unwrap();
        at += len as u64;
    }
}

async fn expect_pattern(from: &mut (impl tokio::io::AsyncRead + Unpin), total: u64) {
    expect_bytes(from, total).await;
    assert_eq!(from.read(&mut [0; 1]).await.unwrap(), 0, "after {total}");
}

/// The same without an end.
async fn expect_bytes(from: &mut (impl tokio::io::AsyncRead + Unpin), total: u64) {
    let mut at = 0;
    let mut buf = vec![0; 100_000];
    while at < total {
        let most = buf.len().min((total - at) as usize);
        let n = from.read(&mut buf[..most]).await.unwrap();
        assert_ne!(n, 0, "the end after {at} of {total}");
        assert!(buf[..n] == pattern(at, n)[..], "between {at} and {n} more");
        at += n as u64;
    }
}

#[tokio::test]
async fn bytes_pass_both_ways_at_once_in_pieces_of_any_size() {
    let sizes = [(40_000_u64, 37_usize), (3 << 20, 1448), (32 << 20, 1 << 20)];
    for ((total, piece), kind) in sizes.into_iter().flat_map(|s| KINDS.map(|kind| (s, kind))) {
        let w = world_over(kind, RelayOptions::default()).await;
        let (mut primary_in, mut primary_out) = split(w.primary);
        let (mut proxy_in, mut proxy_out) = w.proxy.into_split();
        tokio::join!(
            send_bytes(&mut primary_out, total, piece),
            send_pattern(&mut proxy_out, total + 1, piece),
            expect_bytes(&mut proxy_in, total),
            expect_pattern(&mut primary_in, total + 1),
        );
        // The end of a Unix pipe is that of the relay, so it comes last.
        primary_out.shutdown().await.unwrap();
        assert_eq!(proxy_in.read(&mut [0; 1]).await.unwrap(), 0);
        assert!(matches!(w.end.await.unwrap(), RelayEnd::Finished));
        assert!(w.handle.stats().is_none(), "it has ended");
    }
}

#[tokio::test]
async fn a_half_close_leaves_the_other_half_open() {
    let mut w = world(RelayOptions::default()).await;
    w.primary.write_all(b"request").await.unwrap();
    w.primary.shutdown().await.unwrap();
    let mut request = Vec::new();
    w.proxy.read_to_end(&mut request).await.unwrap();
    assert_eq!(request, b"request");
    for _ in 0..3 {
        w.proxy.write_all(b"answer").await.unwrap();
        let mut answer = [0; 6];
        w.primary.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"answer");
    }
    assert!(!w.end.is_finished());
    drop(w.proxy);
    assert_eq!(w.primary.read(&mut [0; 1]).await.unwrap(), 0);
    assert!(matches!(w.end.await.unwrap(), RelayEnd::Finished));
}

#[tokio::test]
async fn what_a_unix_pipe_brought_before_its_end_is_delivered_and_what_comes_down_is_dropped() {
    for held in [false, true] {
        let mut w = world_over(Kind::Unix, RelayOptions::default()).await;
        if held {
            fill_up(&w.proxy, &w.handle, DEFAULT_BOUND_BYTES).await;
        }
        w.primary.write_all(&pattern(0, 1 << 20)).await.unwrap();
        w.primary.shutdown().await.unwrap();
        let delivered = expect_pattern(&mut w.proxy, 1 << 20);
        let in_time = tokio::time::timeout(Duration::from_secs(30), delivered).await;
        assert!(in_time.is_ok(), "the end does not come");
        w.proxy.write_all(&[0; 1000]).await.unwrap();
        assert!(!w.end.is_finished(), "the proxy's side is open");
        drop(w.proxy);
        let end = tokio::time::timeout(Duration::from_secs(30), w.end).await;
        let end = end.expect("the relay ends").unwrap();
        assert!(matches!(end, RelayEnd::Finished), "{end:?}");
    }
}

/// A closed socket refuses what comes down, before or after its end has been read.
/// A read ends behind octets with a descriptor, although more wait.
#[tokio::test]
async fn a_short_read_of_a_unix_pipe_is_not_its_last() {
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
    let mut w = world_over(Kind::Unix, RelayOptions::default()).await;
    // Afterwards the relay waits for an event.
    for _ in 0..3 {
        w.primary.write_all(b"first").await.unwrap();
        expect(&mut w.proxy, b"first").await;
    }
    let descriptors = [w.proxy.as_fd()];
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(control.push(SendAncillaryMessage::ScmRights(&descriptors)));
    let octets = [io::IoSlice::new(b"second")];
    sendmsg(&w.primary, &octets, &mut control, SendFlags::empty()).unwrap();
    let third = rustix::net::send(&w.primary, b"third", SendFlags::empty());
    assert_eq!(third, Ok(5));
    expect(&mut w.proxy, b"secondthird").await;
}

async fn expect(from: &mut TcpStream, octets: &[u8]) {
    let mut into = vec![0; octets.len()];
    let read = tokio::time::timeout(Duration::from_secs(30), from.read_exact(&mut into));
    read.await.expect("nothing arrives").unwrap();
    assert_eq!(into, octets);
}

#[tokio::test]
async fn a_unix_pipe_that_is_closed_still_delivers() {
    let mut w = world_over(Kind::Unix, RelayOptions::default()).await;
    w.primary.write_all(&pattern(0, 50_000)).await.unwrap();
    drop(w.primary);
    w.proxy.write_all(&[0; 1000]).await.unwrap();
    expect_pattern(&mut w.proxy, 50_000).await;
    drop(w.proxy);
    let end = w.end.await.unwrap();
    assert!(matches!(end, RelayEnd::Finished), "{end:?}");
}

#[tokio::test]
async fn a_proxy_that_ends_lets_a_unix_pipe_deliver_first() {
    let mut w = world_over(Kind::Unix, RelayOptions::default()).await;
    w.proxy.write_all(&pattern(0, 300_000)).await.unwrap();
    w.proxy.shutdown().await.unwrap();
    expect_pattern(&mut w.primary, 300_000).await;
    w.primary.write_all(b"last").await.unwrap();
    drop(w.primary);
    let mut last = Vec::new();
    w.proxy.read_to_end(&mut last).await.unwrap();
    assert_eq!(last, b"last");
    assert!(matches!(w.end.await.unwrap(), RelayEnd::Finished));
}

fn reset(stream: &impl std::os::fd::AsFd) {
    SockRef::from(stream)
        .set_linger(Some(Duration::ZERO))
        .unwrap();
}

#[tokio::test]
async fn a_reset_of_one_side_resets_the_other() {
    for from_proxy in [true, false] {
        let w = world(RelayOptions::default()).await;
        let (resetting, mut other) = if from_proxy {
            (w.proxy.into(), w.primary)
        } else {
            (w.primary, w.proxy.into())
        };
        reset(&resetting);
        drop(resetting);
        let error = other.read(&mut [0; 1]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        let end = w.end.await.unwrap();
        let expected = if from_proxy {
            RelaySide::HsPath
        } else {
            RelaySide::Pipe
        };
        assert!(
            matches!(&end, RelayEnd::Failed { side, error }
                if *side == expected && error.kind() == io::ErrorKind::ConnectionReset),
            "{end:?}"
        );
    }
}

/// Fills the relay from the proxy until nothing more is taken.
async fn fill_up(proxy: &TcpStream, handle: &RelayHandle, bound: u64) -> u64 {
    let chunk = vec![0x5a; 64 * 1024];
    let mut sent = 0_u64;
    let mut most = 0;
    let mut still = 0;
    while still < 20 {
        match proxy.try_write(&chunk) {
            Ok(n) => {
                sent += n as u64;
                still = 0;
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                still += 1;
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            Err(e) => panic!("{e}"),
        }
        tokio::task::yield_now().await;
        let level = handle.stats().unwrap().level_down_bytes;
        assert!(level <= bound, "{level} bytes held, the bound is {bound}");
        most = most.max(level);
        assert!(sent < 100 << 20);
    }
    most
}

#[tokio::test]
async fn the_buffer_reaches_the_bound_and_never_exceeds_it() {
    let bounds = [256 << 10, 1 << 20, 4 << 20];
    for (bound, kind) in bounds.into_iter().flat_map(|b| KINDS.map(|kind| (b, kind))) {
        let options = RelayOptions {
            bound_bytes: bound,
            ..RelayOptions::default()
        };
        let mut w = world_over(kind, options).await;
        let most = fill_up(&w.proxy, &w.handle, bound).await;
        // The kernel's buffers fill by packets, not by bytes.
        assert!(most >= bound / 10 * 6, "only {most} of {bound} were used");
        // The other direction is not blocked.
        w.primary.write_all(b"up").await.unwrap();
        let mut up = [0; 2];
        w.proxy.read_exact(&mut up).await.unwrap();
        w.proxy.shutdown().await.unwrap();
        let mut buf = vec![0; 1 << 20];
        let mut got = 0;
        loop {
            let n = w.primary.read(&mut buf).await.unwrap();
            if n == 0 {
                break;
            }
            assert!(buf[..n].iter().all(|b| *b == 0x5a));
            got += n as u64;
        }
        assert!(got >= most);
        drop(w.primary);
        assert!(matches!(w.end.await.unwrap(), RelayEnd::Finished));
    }
}

#[tokio::test]
async fn a_reset_is_detected_while_the_relay_is_full() {
    for (from_proxy, kind) in [true, false]
        .into_iter()
        .flat_map(|p| KINDS.map(|kind| (p, kind)))
    {
        let w = world_over(kind, RelayOptions::default()).await;
        fill_up(&w.proxy, &w.handle, DEFAULT_BOUND_BYTES).await;
        let (resetting, _kept): (PipeStream, PipeStream) = if from_proxy {
            (w.proxy.into(), w.primary)
        } else {
            (w.primary, w.proxy.into())
        };
        // With bytes unread, a Unix socket is reset in any case.
        reset(&resetting);
        drop(resetting);
        let end = w.end.await.unwrap();
        assert!(matches!(end, RelayEnd::Failed { .. }), "{end:?}");
    }
}

#[tokio::test]
async fn stopping_resets_both_sides() {
    let mut w = world(RelayOptions::default()).await;
    w.handle.stop();
    assert!(matches!(w.end.await.unwrap(), RelayEnd::Stopped));
    for side in [&mut w.primary, &mut w.proxy.into()] {
        let error = side.read(&mut [0; 1]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    }
}

#[tokio::test]
async fn a_spent_budget_ends_the_relay_at_the_byte() {
    for kind in KINDS {
        spend_a_budget(kind).await;
    }
}

async fn spend_a_budget(kind: Kind) {
    let budget = Arc::new(Budget::new(100_000));
    let options = RelayOptions {
        budget: Some(budget.clone()),
        ..RelayOptions::default()
    };
    let mut w = world_over(kind, options).await;
    w.primary.write_all(&[1; 30_000]).await.unwrap();
    let mut got = vec![0; 30_000];
    w.proxy.read_exact(&mut got).await.unwrap();
    assert_eq!(budget.left_bytes(), 70_000);
    w.proxy.write_all(&[2; 69_999]).await.unwrap();
    let mut got = vec![0; 69_999];
    w.primary.read_exact(&mut got).await.unwrap();
    assert_eq!(budget.left_bytes(), 1);
    w.proxy.write_all(&[3; 2]).await.unwrap();
    assert!(matches!(w.end.await.unwrap(), RelayEnd::BudgetSpent));
    assert_eq!(budget.left_bytes(), 0);
}

#[tokio::test]
async fn the_handle_reports_statistics() {
    for kind in KINDS {
        read_statistics(kind).await;
    }
}

async fn read_statistics(kind: Kind) {
    let mut w = world_over(kind, RelayOptions::default()).await;
    let before = w.handle.stats().unwrap();
    assert_eq!(before.since_hs_byte, None);
    w.proxy.write_all(&[0; 5000]).await.unwrap();
    let mut got = vec![0; 5000];
    w.primary.read_exact(&mut got).await.unwrap();
    w.primary.write_all(&[0; 70]).await.unwrap();
    w.proxy.read_exact(&mut got[..70]).await.unwrap();
    let stats = w.handle.stats().unwrap();
    assert_eq!((stats.bytes_down, stats.bytes_up), (5000, 70));
    assert_eq!((stats.level_down_bytes, stats.level_up_bytes), (0, 0));
    assert!(stats.since_hs_byte.unwrap() < Duration::from_secs(5));
    assert!(stats.since_hs_down.unwrap() >= stats.since_hs_byte.unwrap());
    let report = stats.report(
        3,
        crate::control::RequestId(9),
        None,
        ([None; 2], [false; 2]),
    );
    assert_eq!((report.number, report.relay.0), (3, 9));
    match kind {
        Kind::Tcp => {
            assert!(report.th_p.unwrap().bps() > 0);
            assert!(report.pipe_rtt.unwrap() > Duration::ZERO);
        }
        Kind::Unix => assert_eq!((report.th_p, report.pipe_rtt), (None, None)),
    }
    // What the other end has not read is at this host.
    if kind == Kind::Unix {
        w.proxy.write_all(&[0; 5000]).await.unwrap();
        while w.handle.stats().unwrap().bytes_down < 10_000 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(w.handle.stats().unwrap().level_down_bytes, 5000);
        w.primary.read_exact(&mut got).await.unwrap();
        assert_eq!(w.handle.stats().unwrap().level_down_bytes, 0);
    }
}

#[tokio::test]
async fn sojourn_times_are_measured() {
    const WAIT: Duration = Duration::from_millis(200);
    let begun = Instant::now();
    let mut w = world(RelayOptions::default()).await;
    assert_eq!(w.handle.stats().unwrap().sojourn_down, None);
    // More than the primary's socket accepts, so that the last bytes stay in the relay.
    let most = fill_up(&w.proxy, &w.handle, DEFAULT_BOUND_BYTES).await;
    tokio::time::sleep(WAIT).await;
    let mut buf = vec![0; 1 << 16];
    let mut got = 0;
    let mut longest = Duration::ZERO;
    while got < most {
        got += w.primary.read(&mut buf).await.unwrap() as u64;
        // The first bytes to leave have waited; later ones may have come from the proxy's socket
        // since.
        let stats = w.handle.stats().unwrap();
        longest = longest.max(stats.sojourn_down.unwrap());
        assert_eq!(stats.sojourn_up, None);
    }
    assert!(
        longest >= WAIT && longest <= begun.elapsed(),
        "{longest:?} of {:?}",
        begun.elapsed()
    );
    // The uplink is free.
    let sent = Instant::now();
    w.primary.write_all(b"up").await.unwrap();
    w.proxy.read_exact(&mut buf[..2]).await.unwrap();
    let stats = w.handle.stats().unwrap();
    let report = stats.report(
        1,
        crate::control::RequestId(1),
        None,
        ([None; 2], [false; 2]),
    );
    assert!(report.sojourn_up.unwrap() <= sent.elapsed(), "{report:?}");
    assert_eq!(report.sojourn_down, stats.sojourn_down);
}

/// Steady small packets start batching; none may be delayed beyond the limit. A busy machine delays
/// packets in some attempts, a relay that batches for too long in all.
#[tokio::test]
async fn batching_has_a_bounded_delay() {
    const MOST: Duration = Duration::from_millis(3);
    const ATTEMPTS: u32 = 20;
    let mut w = world(RelayOptions::default()).await;
    w.proxy.set_nodelay(true).unwrap();
    let mut medians = Vec::new();
    for _ in 0..ATTEMPTS {
        let median = median_delay(&mut w).await;
        if median < MOST {
            return;
        }
        medians.push(median);
    }
    panic!("{medians:?}");
}

/// A flow towards a slower hop is looked at seldom. Where this thread has to wait for a processor,
/// in some attempts, there is less time to look.
#[tokio::test]
async fn a_flow_wakes_the_relay_seldom() {
    const ATTEMPTS: u32 = 10;
    let mut seen = Vec::new();
    for _ in 0..ATTEMPTS {
        let fixed = polls_of_a_flow(Duration::from_millis(1)).await;
        let adaptive = polls_of_a_flow(LONGEST_TICK).await;
        if 3 * adaptive <= 2 * fixed {
            return;
        }
        seen.push((fixed, adaptive));
    }
    panic!("polls at intervals of 1 and of up to 5 ms: {seen:?}");
}

/// Polls of a relay while 1 KiB come each 250 us, for 0.3 s, which its primary does not read yet.
async fn polls_of_a_flow(longest_tick: Duration) -> u64 {
    const EACH: Duration = Duration::from_micros(250);
    let options = RelayOptions {
        longest_tick,
        ..RelayOptions::default()
    };
    let mut w = world(options).await;
    w.proxy.set_nodelay(true).unwrap();
    let before = turns();
    let start = Instant::now();
    for n in 0..1200 {
        // On the thread of the relay, and never asleep: each write is an arrival of its own.
        while start.elapsed() < EACH * n {
            tokio::task::yield_now().await;
        }
        w.proxy.write_all(&[0x5a; 1024]).await.unwrap();
    }
    let polls = turns() - before;
    drop(w.proxy);
    let mut into = vec![0; 64 * 1024];
    let mut got = 0;
    loop {
        match w.primary.read(&mut into).await.unwrap() {
            0 => break,
            n => got += n,
        }
    }
    assert_eq!(got, 1200 * 1024);
    drop(w.primary);
    assert!(matches!(w.end.await.unwrap(), RelayEnd::Finished));
    polls
}

async fn median_delay(w: &mut World) -> Duration {
    let mut delays = Vec::new();
    for round in 0..400_u32 {
        let sent = Instant::now();
        w.proxy.write_all(&round.to_be_bytes()).await.unwrap();
        let mut got = [0; 4];
        w.primary.read_exact(&mut got).await.unwrap();
        assert_eq!(u32::from_be_bytes(got), round);
        delays.push(sent.elapsed());
    }
    delays.sort();
    delays[delays.len() / 2]
}

#[tokio::test]
async fn an_idle_relay_makes_no_turns() {
    for kind in KINDS {
        rest(kind).await;
    }
}

async fn rest(kind: Kind) {
    let mut w = world_over(kind, RelayOptions::default()).await;
    // Enough to start batching, which must then end by itself.
    send_some(&mut w).await;
    let before = rested().await;
    send_some(&mut w).await;
    assert!(turns() > before);
}

/// Waits until no turn is made. A busy machine may stretch the last ticks; a relay that never
/// becomes idle fails in any case.
async fn rested() -> u64 {
    for _ in 0..50 {
        let before = turns();
        tokio::time::sleep(Duration::from_millis(100)).await;
        if turns() == before {
            return before;
        }
    }
    panic!("the relay goes on making turns");
}

/// The timer of the bound ends when the primary has read nothing for a while.
#[tokio::test]
async fn one_of_several_pipes_that_takes_nothing_rests() {
    let several = RelayOptions::default();
    several.is_one_of_several.store(true, Relaxed);
    let mut w = world(several).await;
    let pump = tokio::spawn(async move {
        send_pattern(&mut w.proxy, 6 << 20, 100_000).await;
        w.proxy
    });
    let mut got = vec![0; 1 << 20];
    let mut read = 0;
    for pieces in [10, 42] {
        for _ in 0..pieces {
            let n = got.len().min(120_000).min((6 << 20) - read);
            w.primary.read_exact(&mut got[..n]).await.unwrap();
            assert!(got[..n] == pattern(read as u64, n)[..]);
            read += n;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        rested().await;
    }
    while read < 6 << 20 {
        let n = got.len().min((6 << 20) - read);
        w.primary.read_exact(&mut got[..n]).await.unwrap();
        assert!(got[..n] == pattern(read as u64, n)[..]);
        read += n;
    }
    drop(pump.await.unwrap());
}

async fn send_some(w: &mut World) {
    let mut got = vec![0; 1448];
    for _ in 0..300 {
        w.proxy.write_all(&[0; 1448]).await.unwrap();
        w.primary.read_exact(&mut got).await.unwrap();
    }
}

/// Polls of relays on this thread; a test's runtime has one thread.
fn turns() -> u64 {
    super::POLLS.with(std::cell::Cell::get)
}
