//! Sessions of a proxy that have ended, with slow origins, in paused time.

use mpbond_net::DeviceId;
use mpbond_net::blocks::Block;
use mpbond_session::{
    Destination, PathInfo, Session, SessionConfig, SessionId, StreamClass, StreamId, SubflowSetup,
    parse_hello,
};
use mpbond_units::{BitRate, Timestamp};
use tokio::io::{AsyncReadExt, DuplexStream, duplex};
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{advance, sleep, timeout};

use super::*;
use crate::driver::{Clock, FairQueue, Seat, TransferLog};
use crate::memory::Memory;

/// Bytes that an origin's connection keeps.
const KEPT: usize = 1_000;

/// More than the kernel would ever take, and less than the first window of a stream.
const UPLOAD: usize = 600_000;

/// The records of a session that wait to be written, and where each ends.
fn records(from: &mut Session, now: Timestamp) -> Vec<(Vec<u8>, u64)> {
    let mut records = Vec::new();
    let mut record = Vec::new();
    while let Some(sent) = from.poll_transmit(now, &mut record) {
        records.push((std::mem::take(&mut record), sent.octets_end));
    }
    records
}

/// The session of a proxy that has an upload for each of these streams. They are whole where true.
fn uploaded(uploads: &[bool]) -> Session {
    let mut client = Session::client(SessionConfig::default(), [1; 32]);
    let mut now = Timestamp::from_millis(1);
    let there = client.add_subflow(now, SubflowSetup::default());
    let room = u64::from(u32::MAX);
    client.handle_room(there, room);
    let (hello, end) = records(&mut client, now).remove(0);
    let (hello, rest) = parse_hello(hello.into()).unwrap();
    let id = SessionId([7; 16]);
    let mut server = Session::server(SessionConfig::default(), id, [2; 32], &hello);
    let setup = SubflowSetup {
        rx_octets: end,
        ..SubflowSetup::default()
    };
    let here = server.accept_subflow(now, setup, &hello).unwrap();
    server.handle_record(now, here, rest, end).unwrap();
    let mut streams: Option<Vec<StreamId>> = None;
    let mut arrived = 0;
    for _ in 0..1_000 {
        now += Duration::from_millis(1);
        client.handle_timeout(now);
        server.handle_timeout(now);
        server.handle_room(here, room);
        for (record, end) in records(&mut server, now) {
            client
                .handle_record(now, there, record.into(), end)
                .unwrap();
        }
        client.handle_room(there, room);
        let path = PathInfo {
            cwnd_bytes: room,
            srtt: Duration::from_millis(1),
            min_rtt: Duration::from_millis(1),
            bytes_arrived: arrived,
            delivery_rate: BitRate::from_mbps(1_000.0),
            app_limited: false,
            slow_start: false,
            bytes_acked: 0,
            all_acked: false,
        };
        client.handle_path(now, there, path);
        if streams.is_none() && client.streams_left() > 0 {
            let opened = uploads.iter().map(|whole| {
                let to = Destination::Addr(([192, 0, 2, 1], 80).into());
                let id = client.open(now, to, StreamClass::Bulk).unwrap();
                client.write(id, vec![b'u'; UPLOAD].into());
                if *whole {
                    client.finish(id);
                }
                id
            });
            streams = Some(opened.collect());
        }
        for (record, end) in records(&mut client, now) {
            server.handle_record(now, here, record.into(), end).unwrap();
            arrived = end;
        }
        while client.poll_event().is_some() {}
    }
    assert_eq!(server.unread_bytes(), (UPLOAD * uploads.len()) as u64);
    server
}

/// A driver of that session, and the origins' ends of its connections. Within a `LocalSet`.
async fn driven(
    uploads: &[bool],
    memory: &Memory,
) -> (Driver, mpsc::UnboundedReceiver<Notice>, Vec<DuplexStream>) {
    let session = uploaded(uploads);
    let clock = Clock::start();
    // The session's last instant is past.
    advance(Duration::from_secs(2)).await;
    let seat = Seat::take(&FairQueue::start(), memory).unwrap();
    let device = DeviceId::from_bytes([3; 32]);
    let log = TransferLog::default();
    let (driver, mut notices) = Driver::start(session, device, clock, log, seat);
    driver.with(|_| ());
    let mut origins = Vec::new();
    while let Ok(notice) = notices.try_recv() {
        if let Notice::Opened { stream, .. } = notice {
            let (origin, end) = duplex(KEPT);
            assert!(driver.admits(stream));
            driver.attach(stream, end);
            origins.push(origin);
        }
    }
    assert_eq!(origins.len(), uploads.len());
    sleep(Duration::from_millis(1)).await;
    (driver, notices, origins)
}

async fn read(origin: &mut DuplexStream) -> usize {
    let mut got = Vec::new();
    let all = timeout(Duration::from_secs(1), origin.read_to_end(&mut got));
    all.await.expect("it ends").unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_origin_that_reads_slowly_keeps_none_that_does_not_read() {
    let play = async {
        let (driver, mut notices, mut origins) = driven(&[true; 2], &Memory::unbounded()).await;
        driver.stop("over");
        let delivery = spawn_local({
            let driver = driver.clone();
            async move { driver.deliver_rest(&mut notices).await }
        });
        for _ in 0..3 {
            sleep(Duration::from_secs(100)).await;
            origins[0].read_exact(&mut [0; 10]).await.unwrap();
        }
        assert_eq!(read(&mut origins[1]).await, KEPT, "it is reset");
        assert!(!delivery.is_finished());
        assert_eq!(read(&mut origins[0]).await, UPLOAD - 30);
        delivery.await.unwrap();
        assert!(driver.is_drained());
    };
    LocalSet::new().run_until(play).await;
}

#[tokio::test(start_paused = true)]
async fn an_ended_session_that_nobody_reads_is_given_up_after_four_minutes() {
    let play = async {
        let (driver, mut notices, mut origins) = driven(&[true], &Memory::unbounded()).await;
        driver.stop("over");
        let mut delivery = std::pin::pin!(driver.deliver_rest(&mut notices));
        let most = STALLS_WITHIN - Duration::from_secs(1);
        assert!(timeout(most, &mut delivery).await.is_err());
        timeout(Duration::from_secs(2), delivery).await.unwrap();
        assert_eq!(read(&mut origins[0]).await, KEPT);
    };
    LocalSet::new().run_until(play).await;
}

#[tokio::test(start_paused = true)]
async fn an_ended_session_is_given_up_when_memory_becomes_short() {
    let play = async {
        let memory = Memory::new(3 << 19);
        let (driver, mut notices, _origins) = driven(&[true], &memory).await;
        driver.stop("over");
        let mut delivery = std::pin::pin!(driver.deliver_rest(&mut notices));
        assert!(
            timeout(Duration::from_secs(9), &mut delivery)
                .await
                .is_err()
        );
        let mut other = memory.session().unwrap();
        other.holds(400_000, 0);
        assert!(memory.is_short());
        timeout(Duration::from_secs(2), delivery).await.unwrap();
    };
    LocalSet::new().run_until(play).await;
}

/// The share of a session shrinks while memory is short.
#[tokio::test(start_paused = true)]
async fn an_ended_session_looks_again_while_memory_is_short() {
    let play = async {
        let memory = Memory::new(3 << 19);
        let (driver, mut notices, _origins) = driven(&[true], &memory).await;
        driver.stop("over");
        let mut delivery = std::pin::pin!(driver.deliver_rest(&mut notices));
        let held = memory.used();
        assert!(!memory.is_short(), "{held}");
        memory.set_most(held / 83 * 100);
        assert!(memory.is_short());
        assert!(
            timeout(Duration::from_secs(9), &mut delivery)
                .await
                .is_err()
        );
        let _other = memory.session().unwrap();
        timeout(Duration::from_secs(2), delivery).await.unwrap();
    };
    LocalSet::new().run_until(play).await;
}

/// One upload has not arrived completely.
#[tokio::test(start_paused = true)]
async fn only_what_has_arrived_completely_is_left() {
    let play = async {
        for (uploads, is_left) in [(&[false][..], false), (&[false, true], true)] {
            let (driver, mut notices, _origins) = driven(uploads, &Memory::unbounded()).await;
            driver.stop("over");
            assert_eq!(driver.has_rest(), is_left, "{uploads:?}");
            let rest = driver.deliver_rest(&mut notices);
            assert_eq!(
                timeout(Duration::from_secs(9), rest).await.is_err(),
                is_left
            );
        }
    };
    LocalSet::new().run_until(play).await;
}

/// The answer to an upload is cut off.
#[tokio::test(start_paused = true)]
async fn a_stream_of_which_one_direction_has_arrived_is_cut_off() {
    let play = async {
        let (driver, ..) = driven(&[true], &Memory::unbounded()).await;
        driver.stop("over");
        assert!(driver.has_rest());
        assert!(driver.with(|inner| inner.cuts_streams()));
    };
    LocalSet::new().run_until(play).await;
}

/// Of a block that is otherwise free, some bytes wait for the other end, and as many for an
/// application.
#[tokio::test(start_paused = true)]
async fn bytes_that_wait_keep_no_far_larger_block() {
    const BLOCK: usize = 16 << 20;
    let play = async {
        for (slice, left) in [(BLOCK / 4, BLOCK as u64), (100, 0)] {
            let (driver, _notices, mut origins) = driven(&[true], &Memory::unbounded()).await;
            driver.with(|inner| {
                let block = Block::new(&inner.kept, BLOCK);
                let slice = block.slice(vec![b'd'; slice].into());
                let (id, io) = inner.streams.iter_mut().next().unwrap();
                inner.session.write(*id, slice.clone());
                io.pending_bytes += slice.len();
                io.counted_bytes += slice.len();
                inner.pending += slice.len() as u64;
                io.pending.push_back(slice);
            });
            assert_eq!(driver.with(|inner| inner.kept.bytes()), left, "{slice}");
            driver.stop("over");
            assert_eq!(read(&mut origins[0]).await, UPLOAD + slice);
        }
    };
    LocalSet::new().run_until(play).await;
}
