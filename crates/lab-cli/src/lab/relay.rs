//! `mpbond lab relay`: a phone's proxy as in the Wear OS paper, with a log of its traffic.

use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use mpbond_command::{Failure, note};

/// Bytes read at once: the buffer of a phone's proxy.
const BUFFER: usize = 16 * 1024;
/// Bytes sent at once, so that one timestamp is right for all of them.
const PART: usize = 1400;

/// Relay TCP connections, one at a time, and log the times of bytes read and sent.
///
/// The log is input for `mpbond capture owd --proxy`. It has bytes from the far end: event `read`
/// when they were read, `sent` when TCP accepted them for the near end.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  mpbond lab relay --listen 0.0.0.0:7008 --to 192.0.2.7:7008 --times proxy.csv")]
pub(crate) struct RelayArgs {
    /// Listening address for the near end.
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: SocketAddr,
    /// Address of the far end.
    #[arg(long, value_name = "ADDRESS:PORT")]
    to: SocketAddr,
    /// File of the log.
    #[arg(long, value_name = "CSV")]
    times: PathBuf,
    /// TCP send buffer towards the near end: a Bluetooth socket has a small one.
    #[arg(long, value_name = "BYTES", default_value_t = 16 * 1024)]
    send_buffer: usize,
    /// TCP receive buffer towards the far end; the kernel decides when not given.
    #[arg(long, value_name = "BYTES")]
    receive_buffer: Option<usize>,
}

impl RelayArgs {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let failed = |e| Failure::run(format_args!("{}: {e}", self.listen));
        let listener = TcpListener::bind(self.listen).map_err(failed)?;
        let log = File::create(&self.times).map_err(|e| at(&self.times, &e))?;
        let mut log = BufWriter::new(log);
        writeln!(log, "time_s,event,bytes").map_err(|e| at(&self.times, &e))?;
        loop {
            let (near, _) = listener.accept().map_err(failed)?;
            // A missing or failing end ends its connection, not the relay.
            match self.far() {
                Ok(far) => {
                    let _ = self.hand_on(near, far, &mut log);
                }
                Err(e) => note!("mpbond: {}: {e}", self.to),
            }
            log.flush().map_err(|e| at(&self.times, &e))?;
        }
    }

    /// The window scale is negotiated when a connection begins, so the buffer is set before.
    fn far(&self) -> std::io::Result<TcpStream> {
        let domain = socket2::Domain::for_address(self.to);
        let socket = socket2::Socket::new(domain, socket2::Type::STREAM, None)?;
        if let Some(bytes) = self.receive_buffer {
            socket.set_recv_buffer_size(bytes)?;
        }
        socket.connect_timeout(&self.to.into(), Duration::from_secs(10))?;
        socket.set_tcp_nodelay(true)?;
        Ok(socket.into())
    }

    fn hand_on(
        &self,
        mut near: TcpStream,
        mut far: TcpStream,
        log: &mut impl Write,
    ) -> std::io::Result<()> {
        near.set_nodelay(true)?;
        let socket = socket2::SockRef::from(&near);
        socket.set_send_buffer_size(self.send_buffer)?;
        socket.set_tcp_notsent_lowat(self.send_buffer as u32)?;
        let (mut from_near, mut to_far) = (near.try_clone()?, far.try_clone()?);
        std::thread::spawn(move || {
            let mut buffer = vec![0; BUFFER];
            while let Ok(n @ 1..) = from_near.read(&mut buffer) {
                if to_far
                    .write_all(buffer.get(..n).unwrap_or_default())
                    .is_err()
                {
                    break;
                }
            }
            let _ = to_far.shutdown(std::net::Shutdown::Write);
        });
        let mut buffer = vec![0; BUFFER];
        loop {
            let n = far.read(&mut buffer)?;
            if n == 0 {
                return near.shutdown(std::net::Shutdown::Write);
            }
            writeln!(log, "{:.6},read,{n}", now_s())?;
            let mut left = buffer.get(..n).unwrap_or_default();
            while !left.is_empty() {
                // A longer write returns when its last byte is accepted, long after its first.
                let part = left.get(..left.len().min(PART)).unwrap_or_default();
                let sent = near.write(part)?;
                if sent == 0 {
                    return Ok(());
                }
                writeln!(log, "{:.6},sent,{sent}", now_s())?;
                left = left.get(sent..).unwrap_or_default();
            }
            log.flush()?;
        }
    }
}

fn at(path: &Path, e: &std::io::Error) -> Failure {
    Failure::run(format_args!("{}: {e}", path.display()))
}

fn now_s() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_secs_f64()
}
