//! The far end of speed tests: streams at a proxy, connections at a helper.
//!
//! Only trusted devices reach either. Tests are bounded in number and in time; nothing is kept.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::time::Duration;

use mpbond_net::DeviceId;
use mpbond_net::control::Direction;
use mpbond_session::Destination;
use socket2::SockRef;
use tokio::net::TcpStream;
use tokio::task::coop::consume_budget;
use tokio::time::{Instant, timeout};

use super::endless::Endless;
use crate::driver::AppSocket;

/// Name of the destination; `invalid` is never a name of the Internet (RFC 6761, section 6.4).
const HOST: &str = "speed.mpbond.invalid";

/// Port of the service that sends (RFC 864), and of the one that discards (RFC 863).
const CHARGEN: u16 = 19;
const DISCARD: u16 = 9;

/// Time after which a test ends.
const TEST_WITHIN: Duration = Duration::from_secs(30);

/// Maximum number of tests at a time: of a proxy's thread or a helper, and of one device.
const MAX_TESTS: usize = 16;
const MAX_TESTS_EACH: usize = 2;

/// Octets of one read(2) or write(2).
const BLOCK_BYTES: usize = 64 << 10;

/// The destination of a test.
pub(crate) fn destination(direction: Direction) -> Destination {
    Destination::Name {
        host: HOST.to_owned(),
        port: match direction {
            Direction::Down => CHARGEN,
            Direction::Up => DISCARD,
        },
    }
}

/// The direction of the test whose destination this is.
pub(crate) fn asked(to: &Destination) -> Option<Direction> {
    match to {
        Destination::Name { host, port } if host == HOST => match *port {
            CHARGEN => Some(Direction::Down),
            DISCARD => Some(Direction::Up),
            _ => None,
        },
        _ => None,
    }
}

/// The tests on one thread.
#[derive(Default)]
pub(crate) struct SpeedTests(RefCell<Vec<Running>>);

struct Running {
    device: DeviceId,
    until: Instant,
    /// Its stream has ended.
    ended: Rc<Cell<bool>>,
}

impl SpeedTests {
    /// The proxy's end of a device's test; `None` when there are too many of others. One more than
    /// a device may have ends its first one.
    pub(crate) fn start(
        &self,
        device: DeviceId,
        direction: Direction,
    ) -> Option<impl AppSocket + use<>> {
        let now = Instant::now();
        let mut running = self.0.borrow_mut();
        // One whose time is over carries nothing, though its stream may last.
        running.retain(|test| !test.ended.get() && test.until > now);
        let is_own = |test: &Running| test.device == device;
        let own = running.iter().filter(|test| is_own(test)).count();
        if own >= MAX_TESTS_EACH
            && let Some(first) = running.iter().position(is_own)
        {
            // The device may have left it behind on a connection that hangs.
            running.remove(first).ended.set(true);
        }
        if running.len() >= MAX_TESTS {
            return None;
        }
        let (until, ended) = (now + TEST_WITHIN, Rc::new(Cell::new(false)));
        let end = Endless::new(direction == Direction::Down, until, Rc::clone(&ended));
        running.push(Running {
            device,
            until,
            ended,
        });
        Some(end)
    }
}

/// The helper's end of a test of its pipe, until the primary closes the connection or the time is
/// over.
pub(crate) async fn measured_pipe(tcp: TcpStream, direction: Direction) {
    // Also where this is cancelled.
    reset_on_close(&tcp);
    // Its error is the end of the connection.
    let _ = timeout(
        TEST_WITHIN,
        fill_or_drain(&tcp, direction == Direction::Down, |_| ()),
    )
    .await;
}

/// Sends octets, or discards those that arrive, until the connection ends; tells the number of each
/// call.
pub(super) async fn fill_or_drain(
    tcp: &TcpStream,
    sends: bool,
    moved: impl Fn(usize),
) -> io::Error {
    let mut block = vec![0; BLOCK_BYTES];
    loop {
        // A peer that keeps up would leave no turn to time limits and other tasks.
        consume_budget().await;
        let done = match sends {
            true => match tcp.writable().await {
                Ok(()) => tcp.try_write(&block),
                Err(e) => Err(e),
            },
            false => match tcp.readable().await {
                Ok(()) => tcp.try_read(&mut block),
                Err(e) => Err(e),
            },
        };
        match done {
            Ok(0) => return io::ErrorKind::UnexpectedEof.into(),
            Ok(n) => moved(n),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            Err(e) => return e,
        }
    }
}

/// What waits in the kernel is of no use, and would delay the next test.
pub(crate) fn reset_on_close(tcp: &TcpStream) {
    let _ = SockRef::from(tcp).set_linger(Some(Duration::ZERO));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn destinations_are_told_apart() {
        for direction in [Direction::Down, Direction::Up] {
            assert_eq!(asked(&destination(direction)), Some(direction));
        }
        let other = |host: &str, port| Destination::Name {
            host: host.to_owned(),
            port,
        };
        assert_eq!(asked(&other(HOST, 80)), None);
        assert_eq!(asked(&other("example.com", DISCARD)), None);
    }

    #[tokio::test]
    async fn a_peer_that_keeps_up_does_not_delay_the_time_limit() {
        use std::io::Write as _;
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let to = listener.local_addr().unwrap();
        let writer = std::thread::spawn(move || {
            let mut peer = std::net::TcpStream::connect(to).unwrap();
            let block = vec![0; 1 << 20];
            while peer.write_all(&block).is_ok() {}
        });
        let (tcp, _) = listener.accept().await.unwrap();
        let (limit, begun) = (Duration::from_millis(100), Instant::now());
        let discarding = timeout(limit, fill_or_drain(&tcp, false, |_| ())).await;
        assert!(discarding.is_err() && begun.elapsed() < Duration::from_secs(10));
        drop(tcp);
        writer.join().unwrap();
    }

    #[test]
    fn a_device_has_two_tests_and_a_thread_sixteen() {
        let tests = SpeedTests::default();
        let start = |device| tests.start(DeviceId::from_bytes([device; 32]), Direction::Down);
        let mut running: Vec<_> = (0..16).map(|n| start(n / 2).unwrap()).collect();
        assert!(start(9).is_none());
        running.pop();
        running.push(start(9).unwrap());
        // A third one ends the first.
        let ended = || {
            tests
                .0
                .borrow()
                .iter()
                .map(|t| t.ended.clone())
                .collect::<Vec<_>>()
        };
        let before = ended();
        running.push(start(3).unwrap());
        let changed: Vec<_> = (0..).zip(&before).filter(|(_, e)| e.get()).collect();
        assert_eq!(changed.iter().map(|(n, _)| *n).collect::<Vec<u32>>(), [6]);
        assert_eq!(ended().len(), 16);
        // Those whose time is over do not count.
        for test in &mut *tests.0.borrow_mut() {
            test.until = Instant::now();
        }
        assert!(start(0).is_some());
    }
}
