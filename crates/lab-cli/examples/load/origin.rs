//! The server at the end of streams: sends the bytes requested, and checks uploads.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::pattern::Pattern;

/// Request of a client, 17 octets. A connection carries any number of them, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// An upload to the origin; otherwise a download.
    pub upload: bool,
    pub seed: u64,
    pub bytes: u64,
}

pub const REQUEST_OCTETS: usize = 17;

/// Answer to an upload: the number of correct bytes.
pub const RECEIPT_OCTETS: usize = 8;

impl Request {
    pub fn encode(self) -> [u8; REQUEST_OCTETS] {
        let mut out = [0; REQUEST_OCTETS];
        out[0] = u8::from(self.upload);
        out[1..9].copy_from_slice(&self.seed.to_be_bytes());
        out[9..].copy_from_slice(&self.bytes.to_be_bytes());
        out
    }

    fn decode(octets: [u8; REQUEST_OCTETS]) -> Self {
        let number = |from: usize| {
            let mut eight = [0; 8];
            eight.copy_from_slice(&octets[from..from + 8]);
            u64::from_be_bytes(eight)
        };
        Self {
            upload: octets[0] == 1,
            seed: number(1),
            bytes: number(9),
        }
    }
}

/// Serves these addresses until the process ends.
pub async fn serve(addresses: &[SocketAddr]) -> io::Result<()> {
    for address in addresses {
        let socket = socket2::Socket::new(
            socket2::Domain::for_address(*address),
            socket2::Type::STREAM.nonblocking().cloexec(),
            None,
        )?;
        socket.set_reuse_address(true)?;
        socket.bind(&(*address).into())?;
        socket.listen(4096)?;
        let listener = TcpListener::from_std(socket.into())?;
        tokio::spawn(async move {
            loop {
                match listener.accept().await {
                    Ok((tcp, _)) => drop(tokio::spawn(converse(tcp))),
                    Err(_) => tokio::time::sleep(std::time::Duration::from_millis(10)).await,
                }
            }
        });
    }
    std::future::pending().await
}

async fn converse(mut tcp: TcpStream) -> io::Result<()> {
    tcp.set_nodelay(true)?;
    let mut octets = [0; REQUEST_OCTETS];
    loop {
        // No buffer while no request is under way: there are thousands of connections.
        match tcp.read_exact(&mut octets).await {
            Ok(_) => {}
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(e) => return Err(e),
        }
        let request = Request::decode(octets);
        let mut pattern = Pattern::new(request.seed);
        let mut left = request.bytes;
        let mut block = vec![0; left.min(64 << 10) as usize];
        let mut right = 0u64;
        while left > 0 {
            let n = left.min(block.len() as u64) as usize;
            if request.upload {
                let n = tcp.read(&mut block[..n]).await?;
                if n == 0 {
                    return Ok(());
                }
                right += if pattern.check(&block[..n]) {
                    n as u64
                } else {
                    0
                };
                left -= n as u64;
            } else {
                pattern.fill(&mut block[..n]);
                tcp.write_all(&block[..n]).await?;
                left -= n as u64;
            }
            // Long answers yield to others: the origin is not the subject of the measurement.
            tokio::task::yield_now().await;
        }
        if request.upload {
            tcp.write_all(&right.to_be_bytes()).await?;
        }
    }
}
