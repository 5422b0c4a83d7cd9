//! `mpbond bluetooth connect`: from a Unix socket to a device.

use std::fmt;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use mpbond_command::Failure;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, poll};
use socket2::Socket;
use tracing::warn;

use crate::activity::Activity;
use crate::address::DeviceAddress;
use crate::carry::until;
use crate::channels::{Channels, Lease, Pool};
use crate::connections::Connections;
use crate::radio::RadioArgs;
use crate::reason::reason;
use crate::signal::{LinkOfPrimary, Signal};
use crate::socket_file;
use crate::sys::rfcomm::{self, Security};

/// Time for a connection: a page takes 5 s, authentication some more. The daemon usually gives up
/// earlier, which ends the attempt.
const DIAL_LIMIT: Duration = Duration::from_secs(20);

/// Carry each connection at a Unix socket as one to a device, by RFCOMM.
///
/// On the primary's device: the primary has `address = "unix:PATH"` for the pipe to this helper,
/// and `mpbond bluetooth listen` runs on the helper's device.
///
/// With --link, the primary is told the strength of the pipe's signal while bytes move. With
/// `pipes = "best"` in the helper's section, the primary leaves this pipe for another one before
/// the signal is lost.
///
/// A second socket, whose name ends in .pair, carries `mpbond pair unix:PATH` to the other device.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mpbond bluetooth connect --device 00:1A:7D:DA:71:13 --socket /run/mpbond/phone.sock
  mpbond bluetooth connect --device 00:1A:7D:DA:71:13 --socket /run/mpbond/phone.sock --link phone
                                     the pipe is called phone in primary.toml")]
pub(crate) struct ConnectArgs {
    /// Address of the helper's device (`bluetoothctl devices`).
    #[arg(long, value_name = "ADDRESS")]
    pub device: DeviceAddress,
    /// Unix socket to listen at; it is made, for this user alone.
    #[arg(long, value_name = "PATH")]
    pub socket: PathBuf,
    /// Name of this pipe in primary.toml; has an effect with `pipes = "best"` or `"app"` only.
    #[arg(long, value_name = "NAME")]
    link: Option<String>,
    /// Socket of the primary's API; the default is that of the service mpbond-primary.
    #[arg(
        long,
        value_name = "PATH",
        requires = "link",
        default_value = "/run/mpbond/primary.api"
    )]
    api: PathBuf,
    #[command(flatten)]
    pub radio: RadioArgs,
}

impl ConnectArgs {
    /// Connects to the device for a moment, on a channel that no pipe uses now, from the adapter
    /// with this address. Returns the channel, or the reason why none can be had.
    pub fn try_a_channel(&self, source: DeviceAddress) -> Result<u8, String> {
        // Nobody gives up meanwhile.
        let (near, _kept) = UnixStream::pair().map_err(|e| e.to_string())?;
        let (_, lease) = self.dialer(source).connect(&near.into())?;
        Ok(lease.channel)
    }

    fn dialer(&self, source: DeviceAddress) -> Dialer {
        Dialer {
            device: self.device,
            source,
            security: self.radio.security(),
            pool: Pool::new(self.radio.channels),
        }
    }

    pub fn run(self) -> Result<ExitCode, Failure> {
        let dialer = self.dialer(self.radio.start()?);
        let failed = |e: io::Error| Failure::run(format_args!("{}: {e}", self.socket.display()));
        let listener = socket_file::listen(&self.socket).map_err(failed)?;
        let pairing = socket_file::of_pairing(&self.socket)
            .and_then(|path| Ok((socket_file::listen(&path)?, path)))
            .inspect_err(|e| warn!("no pairing over {}: {e}", self.socket.display()))
            .ok();
        let mut files = vec![self.socket.clone()];
        files.extend(pairing.as_ref().map(|(_, path)| path.clone()));
        socket_file::remove_at_end(files).map_err(failed)?;
        tracing::info!(
            "connections at {} are carried to {} by channels {}",
            self.socket.display(),
            self.device,
            self.radio.channels
        );
        let (signal, activity) = (Signal::default(), Activity::default());
        if let Some(name) = self.link {
            let socket = self.api;
            (signal.clone())
                .tell(LinkOfPrimary { socket, name }, activity.clone())
                .map_err(|e| Failure::run(format_args!("a thread cannot be made: {e}")))?;
        }
        if let Some((listener, _)) = pairing {
            let dialer = Dialer {
                pool: Pool::new(Channels::only(self.radio.pairing_channel)),
                ..dialer.clone()
            };
            thread::Builder::new()
                .spawn(move || {
                    let connections = Connections::new(1, Activity::default());
                    serve(&listener, &connections, move |near| dialer.dial(near))
                })
                .map_err(|e| Failure::run(format_args!("a thread cannot be made: {e}")))?;
        }
        let connections = Connections::new(dialer.pool.channels().count(), activity);
        serve(&listener, &connections, move |near| {
            let (far, line) = dialer.dial(near)?;
            signal.connected(&far);
            Ok((far, line))
        })
    }
}

/// Accepts connections, and has `open` make the other end of each.
fn serve<T: fmt::Display>(
    listener: &UnixListener,
    connections: &Connections,
    open: impl Fn(&Socket) -> Result<(Socket, T), String> + Clone + Send + 'static,
) -> ! {
    loop {
        match listener.accept() {
            Ok((near, _)) => {
                let open = open.clone();
                connections.start(near.into(), move |near| open(near));
            }
            Err(e) => connections.not_accepted(&e),
        }
    }
}

/// Connections to one device.
#[derive(Clone, Debug)]
struct Dialer {
    device: DeviceAddress,
    /// Address of the adapter to use.
    source: DeviceAddress,
    security: Security,
    pool: Pool,
}

/// A connection to a device, for log lines; its channel is free when this is dropped.
#[derive(Debug)]
struct Line {
    device: DeviceAddress,
    lease: Lease,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, channel {}", self.device, self.lease.channel)
    }
}

impl Dialer {
    /// Connects on the first channel on which it is possible, unless the daemon closes `near`
    /// meanwhile. Errors are lines for the log.
    fn dial(&self, near: &Socket) -> Result<(Socket, Line), String> {
        let device = self.device;
        self.connect(near)
            .map(|(far, lease)| (far, Line { device, lease }))
            .map_err(|line| format!("{device}: {line}"))
    }

    /// The same without the device's address in errors.
    fn connect(&self, near: &Socket) -> Result<(Socket, Lease), String> {
        let device = self.device;
        let deadline = Instant::now() + DIAL_LIMIT;
        first_free(&self.pool, |channel| {
            let far = rfcomm::socket(self.security)?;
            if self.source != DeviceAddress::ANY {
                far.bind(&rfcomm::address(self.source, 0)?)?;
            }
            match far.connect(&rfcomm::address(device, channel)?) {
                Err(e) if is_under_way(&e) => wait(&far, near, deadline)?,
                connected => connected?,
            }
            Ok(far)
        })
    }
}

fn is_under_way(e: &io::Error) -> bool {
    matches!(e.raw_os_error(), Some(libc::EINPROGRESS | libc::EAGAIN))
}

/// Tries channels that are free, until one connects, or fails for a reason that is not the
/// channel's: it is still closing (EBUSY), or nobody listens there (ECONNREFUSED).
fn first_free(
    pool: &Pool,
    connect: impl Fn(u8) -> io::Result<Socket>,
) -> Result<(Socket, Lease), String> {
    let mut error = None;
    for channel in pool.order() {
        let Some(lease) = pool.take(channel) else {
            continue;
        };
        match connect(channel) {
            Ok(far) => return Ok((far, lease)),
            Err(e) if matches!(e.raw_os_error(), Some(libc::EBUSY | libc::ECONNREFUSED)) => {
                error = Some(e);
            }
            Err(e) => return Err(reason(&e)),
        }
    }
    Err(match error {
        Some(e) => reason(&e),
        None => format!(
            "all channels ({}) carry a connection: give both devices more of them by --channels",
            pool.channels()
        ),
    })
}

/// Waits for a connection that is being made.
fn wait(far: &Socket, near: &Socket, deadline: Instant) -> io::Result<()> {
    let gone = PollFlags::POLLHUP | PollFlags::POLLERR;
    while Instant::now() < deadline {
        let mut ends = [
            PollFd::new(far.as_fd(), PollFlags::POLLOUT),
            PollFd::new(near.as_fd(), PollFlags::empty()),
        ];
        match poll(&mut ends, until(deadline)) {
            Ok(_) => {}
            Err(Errno::EINTR) => continue,
            Err(e) => return Err(e.into()),
        }
        let [far_has, near_has] = ends.map(|end| end.revents().unwrap_or(PollFlags::empty()));
        if far_has.intersects(gone | PollFlags::POLLOUT) {
            return match far.take_error()? {
                Some(e) => Err(e),
                None if far_has.intersects(gone) => Err(Errno::ECONNREFUSED.into()),
                None => Ok(()),
            };
        }
        if near_has.intersects(gone) {
            let text = "the daemon closed the connection before the device answered";
            return Err(io::Error::other(text));
        }
    }
    Err(Errno::EHOSTDOWN.into())
}

#[cfg(test)]
mod tests;
