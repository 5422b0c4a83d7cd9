//! A client's connection: establishing, greeting, and one thread each for reading and writing.

use std::io::{self, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use mpbond_statistics::clock::ClockFit;

use super::hello::Hello;
use super::sender::{Work, Writer, prepare, send};
use super::socks5;
use super::wire::{Frame, Kind};
use super::{Flow, wire};
use crate::clock_offset::Exchange;
use crate::sys;

/// Number of pings before the first record: clocks are compared while queues are empty.
const PINGS: u32 = 8;
/// Maximum number of frames queued for the main thread.
const WAITING: usize = 1024;

/// Server, and the way to reach it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// Directly.
    Direct(SocketAddr),
    /// Through a SOCKS5 proxy without a password, which resolves the name.
    Socks5 {
        /// SOCKS5 proxy.
        front: SocketAddr,
        /// Name or address of the server.
        host: String,
        /// Port of the server.
        port: u16,
    },
}

/// Timeouts of establishing a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    pub(crate) connect: Duration,
    pub(crate) answer: Duration,
}

/// Event of a connection.
pub(crate) enum Heard {
    /// Frame, its arrival time, and the time at which the frame that it answers was sent.
    Frame(Frame, u64, u64),
    Lost(String),
}

pub(crate) struct Connection {
    pub(crate) heard: Receiver<Heard>,
    pub(crate) local: SocketAddr,
    stream: TcpStream,
    gone: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

/// Connection after the greeting, before data.
pub(crate) struct Greeted {
    stream: TcpStream,
    /// First record that the server expects.
    pub(crate) up_next: u64,
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

/// Connects and exchanges greetings. With `start` (time since the run's start, in ns) data may
/// follow at once.
pub(crate) fn greet(
    target: &Target,
    patience: Patience,
    hello: &Hello,
    start: Option<u64>,
) -> io::Result<Greeted> {
    let to = match target {
        Target::Direct(to) => to,
        Target::Socks5 { front, .. } => front,
    };
    let mut stream = TcpStream::connect_timeout(to, patience.connect)?;
    prepare(&stream)?;
    stream.set_read_timeout(Some(patience.answer))?;
    stream.set_write_timeout(Some(patience.answer))?;
    if let Target::Socks5 { host, port, .. } = target {
        socks5::connect(&mut stream, host, *port)?;
    }
    let mut first = hello.to_bytes();
    if let Some(elapsed) = start {
        first.extend(Frame::bare(Kind::Start, elapsed, 0).to_bytes());
    }
    stream.write_all(&first)?;
    let mut payload = Vec::new();
    let frame = Frame::read(&mut stream, &mut payload).map_err(|e| match e.kind() {
        io::ErrorKind::WouldBlock => io::Error::new(io::ErrorKind::TimedOut, "no answer in time"),
        _ => e,
    })?;
    match frame.kind {
        Kind::Welcome if frame.number >= hello.receipts_next => Ok(Greeted {
            stream,
            up_next: frame.number,
        }),
        Kind::Refused => Err(wrong(&refused(&payload))),
        _ => Err(wrong("the server's first frame is not a welcome")),
    }
}

pub(crate) fn refused(reason: &[u8]) -> String {
    let text = String::from_utf8_lossy(reason);
    let plain: String = text.chars().filter(|c| !c.is_control()).collect();
    format!("the server refuses: {plain}")
}

impl Greeted {
    /// Compares clocks while the connection is idle.
    pub(crate) fn compare_clocks(&mut self, clock: &mut ClockFit) -> io::Result<()> {
        let mut payload = Vec::new();
        for _ in 0..PINGS {
            let now = sys::now_ns();
            self.stream
                .write_all(&Frame::bare(Kind::Ping, now, now).to_bytes())?;
            let frame = Frame::read(&mut self.stream, &mut payload)?;
            let back = sys::now_ns();
            if frame.kind != Kind::Pong {
                return Err(wrong("the server does not answer a ping"));
            }
            clock.exchange(exchange(frame, back).stamps());
        }
        Ok(())
    }

    /// Starts data in both directions.
    pub(crate) fn start(mut self, elapsed_ns: Option<u64>, up: Up) -> io::Result<Connection> {
        if let Some(elapsed) = elapsed_ns {
            self.stream
                .write_all(&Frame::bare(Kind::Start, elapsed, 0).to_bytes())?;
        }
        self.stream.set_read_timeout(None)?;
        // The side that detects silence shuts the socket down, which also ends writes here.
        self.stream.set_write_timeout(None)?;
        let local = self.stream.local_addr()?;
        let gone = Arc::new(AtomicBool::new(false));
        let (to, heard) = sync_channel(WAITING);
        let reads = self.stream.try_clone()?;
        let writes = Writer::new(self.stream.try_clone()?);
        let spawn = |name: &str, work: Box<dyn FnOnce() + Send>| {
            std::thread::Builder::new()
                .name(name.to_owned())
                .spawn(work)
        };
        let of_writer = Arc::clone(&gone);
        let next = self.up_next;
        let mut connection = Connection {
            heard,
            local,
            stream: self.stream,
            gone,
            threads: Vec::new(),
        };
        connection
            .threads
            .push(spawn("traffic in", Box::new(move || read(&reads, &to)))?);
        connection.threads.push(spawn(
            "traffic out",
            Box::new(move || {
                let work = Work {
                    flow: up.flow,
                    next,
                    total: &up.total,
                    start_ns: up.start_ns,
                    end_ns: up.end_ns,
                    pings: true,
                };
                // The reading thread also detects a lost connection, and reports the reason.
                let _ = send(&writes, work, &of_writer);
            }),
        )?);
        Ok(connection)
    }
}

/// Data from the client.
pub(crate) struct Up {
    pub(crate) flow: Option<Flow>,
    pub(crate) total: Arc<AtomicU64>,
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
}

/// Exchange of a ping and its pong. The pong has no send time; it was after the arrival of the
/// ping.
pub(crate) fn exchange(pong: Frame, back_ns: u64) -> Exchange {
    Exchange {
        t1_ns: pong.number,
        t2_ns: pong.stamp_ns,
        t3_ns: pong.stamp_ns,
        t4_ns: back_ns,
    }
}

fn read(stream: &TcpStream, to: &SyncSender<Heard>) {
    let mut from = BufReader::with_capacity(wire::MAX_RECORD, stream);
    let mut payload = Vec::new();
    loop {
        let heard = match Frame::read(&mut from, &mut payload) {
            Ok(frame) if frame.kind == Kind::Refused => Heard::Lost(refused(&payload)),
            Ok(frame) => Heard::Frame(frame, sys::now_ns(), wire::sent_ns(&payload)),
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => {
                Heard::Lost("the other end closed".to_owned())
            }
            Err(e) => Heard::Lost(e.to_string()),
        };
        let last = matches!(heard, Heard::Lost(_));
        if to.send(heard).is_err() || last {
            return;
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.gone.store(true, Ordering::SeqCst);
        let _ = self.stream.shutdown(Shutdown::Both);
        // Unblocks a reader whose frames are no longer received.
        let (_, nobody) = sync_channel(0);
        drop(std::mem::replace(&mut self.heard, nobody));
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

/// Random identifier of a run.
pub(crate) fn name() -> [u8; 16] {
    static COUNT: Mutex<u64> = Mutex::new(0);
    let mut count = COUNT
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    *count += 1;
    // Each hasher has its own keys, from the system's random numbers.
    use std::hash::{BuildHasher, RandomState};
    let words = [0, 1].map(|i| RandomState::new().hash_one((*count, i, sys::now_ns())));
    let mut name = [0; 16];
    for (to, from) in name
        .iter_mut()
        .zip(words.iter().flat_map(|w| w.to_be_bytes()))
    {
        *to = from;
    }
    name
}
