//! The receiver.

use std::io::{self, Read};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, ppoll};

use super::file::Sink;
use super::options::{Datagrams, ReceiveOptions, Transport};
use super::{BUFFER_BYTES, Moved, frames, is_end, late};
use crate::error::{Doing, Result};
use crate::sys;

/// As `Receiver::patience`.
const PATIENCE: Duration = Duration::from_secs(10);
/// Size of a UDP socket's receive buffer, as far as the kernel allows it.
const RECEIVE_BUFFER: usize = 4 << 20;

/// A socket that waits for one transfer.
pub struct Receiver {
    socket: Socket,
    sink: Sink,
    /// Time without data after which the transfer has failed.
    pub(super) patience: Duration,
    /// Time within which the transfer has to begin; without end when absent.
    pub(super) begins_within: Option<Duration>,
}

enum Socket {
    Tcp(TcpListener),
    Udp(UdpSocket),
    /// For the offer of a channel.
    L2(TcpListener),
}

impl Receiver {
    /// Opens socket and file.
    ///
    /// # Errors
    /// [`crate::Error::Experiment`] for wrong options; other errors when file or socket fails.
    pub fn open(options: &ReceiveOptions) -> Result<Self> {
        options.check()?;
        let what = format!("cannot listen at {}", options.listen);
        let socket = match options.transport {
            Transport::Tcp => Socket::Tcp(TcpListener::bind(options.listen).doing(&what)?),
            Transport::L2 => Socket::L2(TcpListener::bind(options.listen).doing(&what)?),
            Transport::Udp(_) => {
                let socket = UdpSocket::bind(options.listen).doing(&what)?;
                let of = socket2::SockRef::from(&socket);
                of.set_recv_buffer_size(RECEIVE_BUFFER).doing(&what)?;
                if options.datagrams == Datagrams::Gso {
                    sys::udp::take_many(&socket).doing(&what)?;
                }
                Socket::Udp(socket)
            }
        };
        let sink = Sink::create(options.file.as_ref())?;
        Ok(Self {
            socket,
            sink,
            patience: PATIENCE,
            begins_within: None,
        })
    }

    /// Address of the socket.
    ///
    /// # Errors
    /// Errors of the kernel.
    pub fn address(&self) -> Result<SocketAddr> {
        let address = match &self.socket {
            Socket::Tcp(socket) | Socket::L2(socket) => socket.local_addr(),
            Socket::Udp(socket) => socket.local_addr(),
        };
        address.doing("no address of the socket")
    }

    /// Waits for the beginning of a transfer.
    fn wait(&self, longest: Duration) -> io::Result<()> {
        let socket = match &self.socket {
            Socket::Tcp(socket) | Socket::L2(socket) => socket.as_fd(),
            Socket::Udp(socket) => socket.as_fd(),
        };
        match ppoll(
            &mut [PollFd::new(socket, PollFlags::POLLIN)],
            Some(longest.into()),
            None,
        )? {
            0 => Err(io::ErrorKind::TimedOut.into()),
            _ => Ok(()),
        }
    }

    /// Takes one transfer, for whose beginning it waits without end.
    ///
    /// # Errors
    /// When the connection or the file fails, or nothing arrives for 10 s.
    pub fn receive(mut self) -> Result<Moved> {
        let patience = Some(self.patience);
        if let Some(longest) = self.begins_within {
            let late = |e| late(e, "nothing arrived", longest, "is the sender running?");
            self.wait(longest)
                .map_err(late)
                .doing("no transfer began")?;
        }
        let moved = match self.socket {
            Socket::Tcp(listener) => listener.accept().and_then(|(from, _)| {
                from.set_read_timeout(patience)?;
                stream(&from, &mut self.sink)
            }),
            Socket::L2(listener) => frames::receive(&listener, &mut self.sink, self.patience),
            Socket::Udp(socket) => datagrams(&socket, &mut self.sink, patience),
        };
        let late = |e| {
            late(
                e,
                "nothing arrived",
                self.patience,
                "is the sender running?",
            )
        };
        moved.map_err(late).doing("the transfer broke off")
    }
}

fn stream(mut from: &TcpStream, sink: &mut Sink) -> io::Result<Moved> {
    let start = Instant::now();
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut bytes = 0;
    loop {
        let taken = match sink.splice_from(from)? {
            Some(taken) => taken,
            None => {
                let taken = from.read(&mut buffer)?;
                sink.write(buffer.get(..taken).unwrap_or_default())?;
                taken
            }
        };
        if taken == 0 {
            break;
        }
        bytes += taken as u64;
    }
    Ok(Moved {
        bytes,
        seconds: start.elapsed().as_secs_f64(),
        lost_bytes: None,
    })
}

/// Counts the datagrams of the first socket that sends one.
pub(super) fn datagrams(
    from: &UdpSocket,
    sink: &mut Sink,
    patience: Option<Duration>,
) -> io::Result<Moved> {
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut begun = None;
    let (mut bytes, mut last) = (0, Duration::ZERO);
    loop {
        let (taken, of) = from.recv_from(&mut buffer)?;
        let (sender, start) = match begun {
            Some(begun) => begun,
            None => {
                // The kernel drops datagrams of others that come later.
                from.connect(of)?;
                from.set_read_timeout(patience)?;
                *begun.insert((of, Instant::now()))
            }
        };
        if of != sender {
            continue;
        }
        let data = buffer.get(..taken).unwrap_or_default();
        if let Some(sent) = is_end(data) {
            return Ok(Moved {
                bytes,
                seconds: last.as_secs_f64(),
                lost_bytes: Some(u64::saturating_sub(sent, bytes)),
            });
        }
        sink.write(data)?;
        bytes += taken as u64;
        last = start.elapsed();
    }
}
