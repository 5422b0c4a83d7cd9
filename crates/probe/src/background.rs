//! Packets that wake hardware up and keep it awake ("Toward Accurate Network Delay Measurement on
//! Android Phones", section 6.1). They leave this host and end at the first router.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use socket2::{Domain, Protocol, Socket, Type};

use crate::error::ProbeError;
use crate::options::Options;
use crate::place;

/// The discard port, where nothing answers.
const DISCARD: u16 = 9;

/// Sender of packets that are not measured.
pub(crate) struct Waker(Socket);

impl Waker {
    pub(crate) fn new(options: &Options) -> Result<Self, ProbeError> {
        let target = options.target;
        let failed = ProbeError::io("a socket for packets that keep hardware awake");
        let socket = Socket::new(
            Domain::for_address(target),
            Type::DGRAM,
            Some(Protocol::UDP),
        )
        .map_err(&failed)?;
        match target {
            SocketAddr::V4(_) => socket.set_ttl_v4(1),
            SocketAddr::V6(_) => socket.set_unicast_hops_v6(1),
        }
        .map_err(&failed)?;
        place::bind_with_port(&socket, options)?;
        let to = SocketAddr::new(target.ip(), DISCARD);
        socket.connect(&to.into()).map_err(&failed)?;
        socket.set_nonblocking(true).map_err(&failed)?;
        Ok(Self(socket))
    }

    /// Sends a packet. Errors are ignored: the packet has passed the hardware, or that is busy.
    pub(crate) fn wake(&self) {
        let _ = self.0.send(&[0]);
    }
}

/// Background traffic until it is dropped.
pub(crate) struct Background {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    pub(crate) fn start(options: &Options) -> Result<Self, ProbeError> {
        let stop = Arc::new(AtomicBool::new(false));
        let Some(interval) = options.background else {
            return Ok(Self { stop, thread: None });
        };
        let waker = Waker::new(options)?;
        let seen = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("background".to_owned())
            .spawn(move || {
                while !seen.load(Ordering::Relaxed) {
                    waker.wake();
                    std::thread::park_timeout(interval);
                }
            })
            .map_err(ProbeError::io("a thread"))?;
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}
