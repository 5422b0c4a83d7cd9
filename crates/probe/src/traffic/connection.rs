//! A client's connection: made, greeted, and read and written by a thread each.

use std::io::{self, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use super::sender::{Work, Writer, prepare, send};
use super::socks5;
use super::wire::{Frame, Hello, Kind};
use super::{Flow, wire};
use crate::clock_offset::{Bounds, Exchange};
use crate::sys;

/// Pings before the first record: the clocks are compared while nothing waits in queues.
const PINGS: u32 = 8;
/// Frames that wait for the main thread.
const WAITING: usize = 1024;

/// Where the server is, and how to get there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// Directly.
    Direct(SocketAddr),
    /// Through a SOCKS5 front without a password, which resolves the name.
    Socks5 {
        /// The front.
        front: SocketAddr,
        /// The server: a name or an address.
        host: String,
        /// Its port.
        port: u16,
    },
}

/// How long parts of connecting may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    pub(crate) connect: Duration,
    pub(crate) answer: Duration,
}

/// What has come over a connection.
pub(crate) enum Heard {
    /// A frame, when it was there, and what it says that another was sent.
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

/// A greeted connection, before data.
pub(crate) struct Greeted {
    stream: TcpStream,
    /// The first record that the server wants.
    pub(crate) up_next: u64,
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

/// Connects and greets. With `start` (how long the run has been going, ns) data may come at once.
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
        _ => Err(wrong("the server's first frame is no welcome")),
    }
}

pub(crate) fn refused(reason: &[u8]) -> String {
    let text = String::from_utf8_lossy(reason);
    let plain: String = text.chars().filter(|c| !c.is_control()).collect();
    format!("the server refuses: {plain}")
}

impl Greeted {
    /// Compares clocks while nothing else is on its way.
    pub(crate) fn compare_clocks(&mut self, bounds: &mut Bounds) -> io::Result<()> {
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
            bounds.take(exchange(frame, back));
        }
        Ok(())
    }

    /// Lets data go, both ways.
    pub(crate) fn start(mut self, elapsed_ns: Option<u64>, up: Up) -> io::Result<Connection> {
        if let Some(elapsed) = elapsed_ns {
            self.stream
                .write_all(&Frame::bare(Kind::Start, elapsed, 0).to_bytes())?;
        }
        self.stream.set_read_timeout(None)?;
        // Whoever notices that nothing comes shuts the socket down, and with it this end's writes.
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
                // The reading thread notices a lost connection, too, and says why.
                let _ = send(&writes, work, &of_writer);
            }),
        )?);
        Ok(connection)
    }
}

/// What a client sends.
pub(crate) struct Up {
    pub(crate) flow: Option<Flow>,
    pub(crate) total: Arc<AtomicU64>,
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
}

/// A ping and its pong. Nothing says when the pong was sent: it was after the ping was there.
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
        // Unblocks a reader that has more to say than anybody hears.
        let (_, nobody) = sync_channel(0);
        drop(std::mem::replace(&mut self.heard, nobody));
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

/// A name for a run that no other has.
pub(crate) fn name() -> [u8; 16] {
    static COUNT: Mutex<u64> = Mutex::new(0);
    let mut count = COUNT
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    *count += 1;
    // Each hasher has keys of its own, from the system's random numbers.
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
