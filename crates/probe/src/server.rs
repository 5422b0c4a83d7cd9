//! Server that answers probes: datagrams with its two time stamps, and short HTTP responses.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::error::ProbeError;
use crate::message::Message;
use crate::stamping;
use crate::sys;

/// Maximum number of connections.
const MAX_CONNECTIONS: usize = 64;
/// Maximum length of a request.
const MAX_REQUEST: usize = 4096;
/// Interval at which threads check whether to stop.
const LOOK: Duration = Duration::from_millis(200);
/// Idle time after which a connection is closed.
const IDLE: Duration = Duration::from_secs(60);
/// Number of attempts when the kernel chooses the port: a port that is free for TCP may be in use
/// for UDP.
const PORT_TRIES: usize = 16;
const REPLY: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Type: text/plain\r\n\r\nok\n";

/// Options of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerOptions {
    /// Address of both UDP and HTTP.
    pub listen: SocketAddr,
}

/// A running server; stops when dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Server {
    /// Starts the server.
    ///
    /// # Errors
    /// When the address or port cannot be bound.
    pub fn start(options: ServerOptions) -> Result<Self, ProbeError> {
        let failed = ProbeError::io("listening");
        let (tcp, udp) = bind_both(options.listen).map_err(&failed)?;
        let address = tcp.local_addr().map_err(&failed)?;
        tcp.set_nonblocking(true).map_err(&failed)?;
        udp.set_nonblocking(true).map_err(&failed)?;
        // Clients that know the address may send at once, before the thread below runs.
        sys::make_room(&udp);
        sys::ask_for_receive_stamps(&udp).map_err(&failed)?;
        stamping::wait_for_receive_stamps();
        let stop = Arc::new(AtomicBool::new(false));
        let (of_udp, of_tcp) = (Arc::clone(&stop), Arc::clone(&stop));
        let spawn = |name: &str, work: Box<dyn FnOnce() + Send>| {
            std::thread::Builder::new()
                .name(name.to_owned())
                .spawn(work)
                .map_err(ProbeError::io("a thread"))
        };
        let threads = vec![
            spawn("udp", Box::new(move || answer_datagrams(&udp, &of_udp)))?,
            spawn("http", Box::new(move || accept(&tcp, &of_tcp)))?,
        ];
        Ok(Self {
            address,
            stop,
            threads,
        })
    }

    /// Bound address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Binds TCP and UDP sockets to the same address and port.
fn bind_both(listen: SocketAddr) -> io::Result<(TcpListener, UdpSocket)> {
    let tries = if listen.port() == 0 { PORT_TRIES } else { 1 };
    let mut last = io::Error::from(io::ErrorKind::AddrInUse);
    for _ in 0..tries {
        let tcp = TcpListener::bind(listen)?;
        match UdpSocket::bind(tcp.local_addr()?) {
            Ok(udp) => return Ok((tcp, udp)),
            Err(e) if e.kind() == io::ErrorKind::AddrInUse => last = e,
            Err(e) => return Err(e),
        }
    }
    Err(last)
}

fn answer_datagrams(socket: &UdpSocket, stop: &AtomicBool) {
    let mut buffer = vec![0; 66_000];
    while !stop.load(Ordering::Relaxed) {
        if !matches!(sys::wait(socket, LOOK), Ok(true)) {
            continue;
        }
        // Peek first for the sender's address; the stamps come with the message itself.
        let Ok((_, from)) = socket.peek_from(&mut buffer) else {
            continue;
        };
        let Ok(Some(got)) = sys::receive(socket, &mut buffer, false) else {
            continue;
        };
        let Some(packet) = buffer.get_mut(..got.bytes) else {
            continue;
        };
        if answer(packet, got.software_ns) {
            // Errors are ignored: a client that left does not need the answer.
            let _ = socket.send_to(packet, from);
        }
    }
}

/// Turns a request, received at this time by the kernel's clock if that is known, into its answer;
/// returns `false` for anything else.
pub(crate) fn answer(packet: &mut [u8], received_ns: Option<u64>) -> bool {
    let now = sys::now_ns();
    let Some(question) = Message::read(packet).filter(|m| !m.is_answer) else {
        return false;
    };
    let mut answer = Message {
        is_answer: true,
        t2_ns: received_ns.unwrap_or(now),
        ..question
    };
    answer.t3_ns = sys::now_ns();
    answer.write(packet);
    true
}

fn accept(listener: &TcpListener, stop: &Arc<AtomicBool>) {
    let open = Arc::new(AtomicUsize::new(0));
    while !stop.load(Ordering::Relaxed) {
        if !matches!(sys::wait(listener, LOOK), Ok(true)) {
            continue;
        }
        let Ok((stream, _)) = listener.accept() else {
            // Probably out of descriptors: retry after a pause.
            std::thread::sleep(Duration::from_millis(10));
            continue;
        };
        if open.fetch_add(1, Ordering::Relaxed) >= MAX_CONNECTIONS {
            open.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        let (count, stop) = (Arc::clone(&open), Arc::clone(stop));
        let started = std::thread::Builder::new()
            .name("http connection".to_owned())
            .spawn(move || {
                let _ = serve(stream, &stop);
                count.fetch_sub(1, Ordering::Relaxed);
            });
        if started.is_err() {
            open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

fn serve(mut stream: TcpStream, stop: &AtomicBool) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(LOOK))?;
    stream.set_write_timeout(Some(Duration::from_secs(5)))?;
    let mut request: Vec<u8> = Vec::new();
    let mut idle = Duration::ZERO;
    let mut buffer = [0; 1024];
    while !stop.load(Ordering::Relaxed) && idle < IDLE {
        let n = match stream.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(n) => n,
            Err(e)
                if matches!(
                    e.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
                ) =>
            {
                idle += LOOK;
                continue;
            }
            Err(e) => return Err(e),
        };
        idle = Duration::ZERO;
        request.extend_from_slice(buffer.get(..n).unwrap_or_default());
        while let Some(end) = request.windows(4).position(|w| w == b"\r\n\r\n") {
            request.drain(..end + 4);
            stream.write_all(REPLY)?;
        }
        if request.len() > MAX_REQUEST {
            return Ok(());
        }
    }
    Ok(())
}
