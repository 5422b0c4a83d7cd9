//! Server of `mpbond traffic client`: sends and receives records, and keeps the progress of a run
//! when its connection is lost.

use std::collections::HashMap;
use std::io::{self, BufReader};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::hello::Hello;
use super::runs::{Receipt, Run, Runs, Taken};
use super::sender::{Work, Writer, prepare, send};
use super::wire::{Frame, Kind, receipt, refusal};
use crate::error::ProbeError;
use crate::sys;

/// Maximum number of connections.
const MAX_CONNECTIONS: usize = 64;
/// Interval at which the accepting thread checks whether to stop.
const LOOK: Duration = Duration::from_millis(100);

/// Options of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerOptions {
    /// TCP address.
    pub listen: SocketAddr,
    /// Time within which a client must send its hello.
    pub patience: Duration,
    /// Time without data after which a client is considered gone; clients ping each second.
    pub idle: Duration,
}

impl ServerOptions {
    /// Options with the default time limits of 5 s for the hello, and of 60 s without data.
    pub fn new(listen: SocketAddr) -> Self {
        Self {
            listen,
            patience: Duration::from_secs(5),
            idle: Duration::from_secs(60),
        }
    }
}

struct Shared {
    patience: Duration,
    idle: Duration,
    stop: AtomicBool,
    open: AtomicUsize,
    runs: Mutex<Runs>,
    /// Sockets of the connections, so that they can be closed.
    sockets: Mutex<HashMap<u64, TcpStream>>,
}

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A running server; dropping it closes its connections.
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts the server.
    ///
    /// # Errors
    /// When the address or port cannot be bound.
    pub fn start(options: ServerOptions) -> Result<Self, ProbeError> {
        let failed = ProbeError::io("listening");
        let listener = TcpListener::bind(options.listen).map_err(&failed)?;
        let address = listener.local_addr().map_err(&failed)?;
        listener.set_nonblocking(true).map_err(&failed)?;
        let shared = Arc::new(Shared {
            patience: options.patience,
            idle: options.idle,
            stop: AtomicBool::new(false),
            open: AtomicUsize::new(0),
            runs: Mutex::default(),
            sockets: Mutex::default(),
        });
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("traffic".to_owned())
            .spawn(move || accept(&listener, &of_thread))
            .map_err(ProbeError::io("a thread"))?;
        Ok(Self {
            address,
            shared,
            thread: Some(thread),
        })
    }

    /// Bound address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        for socket in locked(&self.shared.sockets).values() {
            let _ = socket.shutdown(Shutdown::Both);
        }
        // Threads end at once; wait for them, so that the next server can start.
        for _ in 0..100 {
            if self.shared.open.load(Ordering::SeqCst) == 0 {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    let mut name = 0_u64;
    while !shared.stop.load(Ordering::SeqCst) {
        if !matches!(sys::wait(listener, LOOK), Ok(true)) {
            continue;
        }
        let Ok((stream, _)) = listener.accept() else {
            // Probably out of descriptors: retry after a pause.
            std::thread::sleep(Duration::from_millis(10));
            continue;
        };
        let Ok(closer) = stream.try_clone() else {
            continue;
        };
        if shared.open.fetch_add(1, Ordering::SeqCst) >= MAX_CONNECTIONS {
            shared.open.fetch_sub(1, Ordering::SeqCst);
            continue;
        }
        name += 1;
        locked(&shared.sockets).insert(name, closer);
        let (of_thread, own) = (Arc::clone(shared), name);
        let started = std::thread::Builder::new()
            .name("traffic connection".to_owned())
            .spawn(move || {
                // The client detects the end; its reason does not matter here.
                let _ = serve(stream, &of_thread);
                locked(&of_thread.sockets).remove(&own);
                of_thread.open.fetch_sub(1, Ordering::SeqCst);
            });
        if started.is_err() {
            locked(&shared.sockets).remove(&name);
            shared.open.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

fn serve(stream: TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    prepare(&stream)?;
    stream.set_write_timeout(Some(shared.idle))?;
    let hello = match hello(&stream, shared.patience) {
        Ok(hello) => hello,
        Err(e) => {
            let told = Writer::new(stream.try_clone()?).write(&refusal(&e.to_string()));
            let _ = stream.shutdown(Shutdown::Both);
            return told;
        }
    };
    let closer = stream.try_clone()?;
    let taken = locked(&shared.runs).take(&hello, closer);
    let Taken { run, epoch } = match taken {
        Ok(taken) => taken,
        Err(reason) => return Writer::new(stream).write(&refusal(reason)),
    };
    let writer = Arc::new(Writer::new(stream.try_clone()?));
    let (want, receipts) = {
        let run = locked(&run);
        (run.up_next, run.receipts_from(hello.receipts_next))
    };
    writer.write(&Frame::bare(Kind::Welcome, want, sys::now_ns()).to_bytes())?;
    for r in receipts {
        writer.write(&receipt(r.number, r.at_ns, r.sent_ns))?;
    }
    let gone = Arc::new(AtomicBool::new(false));
    let connection = Connection {
        hello,
        run: &run,
        epoch,
        writer: &writer,
        gone: &gone,
    };
    let done = connection.listen(&stream, shared.idle);
    gone.store(true, Ordering::SeqCst);
    let _ = stream.shutdown(Shutdown::Both);
    locked(&run).left(epoch);
    done
}

fn hello(stream: &TcpStream, patience: Duration) -> io::Result<Hello> {
    // One time limit for the whole hello, so that sending it slowly gains nothing.
    let limit = std::time::Instant::now() + patience;
    let mut limited = Limited { stream, limit };
    let mut payload = Vec::new();
    let frame = Frame::read(&mut limited, &mut payload)?;
    if frame.kind != Kind::Hello {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "expected a hello",
        ));
    }
    Hello::parse(&payload).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))
}

/// Reader with a deadline.
struct Limited<'a> {
    stream: &'a TcpStream,
    limit: std::time::Instant,
}

impl io::Read for Limited<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let left = self
            .limit
            .saturating_duration_since(std::time::Instant::now());
        if left.is_zero() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "no hello in time"));
        }
        self.stream.set_read_timeout(Some(left))?;
        let mut stream = self.stream;
        stream.read(to).map_err(|e| match e.kind() {
            io::ErrorKind::WouldBlock => {
                io::Error::new(io::ErrorKind::TimedOut, "no hello in time")
            }
            _ => e,
        })
    }
}

struct Connection<'a> {
    hello: Hello,
    run: &'a Arc<Mutex<Run>>,
    epoch: u64,
    writer: &'a Arc<Writer>,
    gone: &'a Arc<AtomicBool>,
}

impl Connection<'_> {
    fn listen(&self, stream: &TcpStream, idle: Duration) -> io::Result<()> {
        stream.set_read_timeout(Some(idle))?;
        let mut from = BufReader::with_capacity(64 * 1024, stream.try_clone()?);
        let mut payload = Vec::new();
        let mut started = false;
        let wrong = |what: &str| {
            let _ = self.writer.write(&refusal(what));
            Err(io::Error::new(io::ErrorKind::InvalidData, what.to_owned()))
        };
        loop {
            let frame = Frame::read(&mut from, &mut payload)?;
            let now = sys::now_ns();
            match frame.kind {
                Kind::Ping => self
                    .writer
                    .write(&Frame::bare(Kind::Pong, frame.number, now).to_bytes())?,
                Kind::Start if !started => {
                    started = true;
                    self.start(frame.number)?;
                }
                Kind::Data => {
                    let size = self.hello.up.map_or(0, |f| f.record_bytes as usize);
                    if size != frame.length + super::wire::HEADER {
                        return wrong("record of unexpected size");
                    }
                    let came = Receipt {
                        number: frame.number,
                        at_ns: now,
                        sent_ns: frame.stamp_ns,
                    };
                    if !locked(self.run).record(self.epoch, came) {
                        return wrong("record out of sequence");
                    }
                    self.writer
                        .write(&receipt(came.number, came.at_ns, came.sent_ns))?;
                }
                Kind::End => {}
                _ => return wrong("unexpected frame"),
            }
        }
    }

    /// Starts data to the client, whose run is `elapsed_ns` old.
    fn start(&self, elapsed_ns: u64) -> io::Result<()> {
        let start_ns = locked(self.run).start(elapsed_ns);
        let Some(flow) = self.hello.down else {
            return Ok(());
        };
        let (run, writer) = (Arc::clone(self.run), Arc::clone(self.writer));
        let (gone, next) = (Arc::clone(self.gone), self.hello.down_next);
        let duration = u64::try_from(self.hello.duration.as_nanos()).unwrap_or(u64::MAX);
        let total: Arc<AtomicU64> = Arc::clone(&locked(&run).down_total);
        std::thread::Builder::new()
            .name("traffic down".to_owned())
            .spawn(move || {
                let work = Work {
                    flow: Some(flow),
                    next,
                    total: &total,
                    start_ns,
                    end_ns: start_ns.saturating_add(duration),
                    pings: false,
                };
                // The reading thread also detects a lost connection.
                let _ = send(&writer, work, &gone);
            })?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::time::Instant;

    use super::*;
    use crate::traffic::Flow;

    #[test]
    fn a_client_that_falls_silent_is_gone_after_the_idle_time() {
        let options = ServerOptions::new("127.0.0.1:0".parse().unwrap());
        assert_eq!(options.idle, Duration::from_secs(60));
        let idle = Duration::from_millis(300);
        let server = Server::start(ServerOptions { idle, ..options }).unwrap();
        let mut client = TcpStream::connect(server.address()).unwrap();
        let hello = Hello {
            run: [7; 16],
            duration: Duration::from_secs(3_600),
            down: None,
            up: Some(Flow::chunks(3_000, Duration::from_millis(10)).unwrap()),
            down_next: 0,
            receipts_next: 0,
        };
        let begun = Instant::now();
        client.write_all(&hello.to_bytes()).unwrap();
        client
            .set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        // Its welcome, and the end.
        let mut said = Vec::new();
        client.read_to_end(&mut said).unwrap();
        assert_eq!(said.len(), super::super::wire::HEADER);
        assert!(begun.elapsed() >= idle);
    }
}
