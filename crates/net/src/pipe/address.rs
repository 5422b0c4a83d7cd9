//! Addresses of pipes as text.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Prefix of the path of a Unix socket.
const UNIX: &str = "unix:";
/// Longest path of a Unix socket: `sun_path` of unix(7) without its final zero octet.
const MAX_PATH_BYTES: usize = 107;

/// Ending of the socket for pairing.
const PAIRING: &str = ".pair";

/// Address of a helper on a pipe: `192.0.2.1:4434` or `unix:/run/pipe.sock`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PipeAddress {
    /// TCP.
    Tcp(SocketAddr),
    /// Path of a Unix socket, absolute.
    Unix(PathBuf),
}

impl PipeAddress {
    /// The address of TCP; `None` for another kind.
    pub fn tcp(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(address) => Some(*address),
            Self::Unix(_) => None,
        }
    }
}

/// Path of the socket for pairing that belongs to a pipe's, as a pairing has a port of its own.
///
/// # Errors
/// When the path is too long for one of a Unix socket.
pub fn pairing_socket(pipe: &Path) -> io::Result<PathBuf> {
    const MOST: usize = MAX_PATH_BYTES - PAIRING.len();
    let mut path = pipe.as_os_str().to_owned();
    if path.len() > MOST {
        let text = format!("for pairing, a path of at most {MOST} octets is needed");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    path.push(PAIRING);
    Ok(path.into())
}

impl From<SocketAddr> for PipeAddress {
    fn from(address: SocketAddr) -> Self {
        Self::Tcp(address)
    }
}

/// A text is no address of a pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("neither an address with a port nor \"unix:\" with an absolute path of at most 107 octets")]
pub struct ParsePipeAddressError;

impl FromStr for PipeAddress {
    type Err = ParsePipeAddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let Some(path) = text.strip_prefix(UNIX) else {
            let address = text.parse().map_err(|_| ParsePipeAddressError)?;
            return Ok(Self::Tcp(address));
        };
        let is_path = path.starts_with('/') && !path.ends_with('/') && !path.contains('\0');
        if !is_path || path.len() > MAX_PATH_BYTES {
            return Err(ParsePipeAddressError);
        }
        Ok(Self::Unix(path.into()))
    }
}

impl fmt::Display for PipeAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "{UNIX}{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_they_are_written() {
        for text in ["192.0.2.1:4434", "[2001:db8::1]:1", "unix:/run/pipe"] {
            let address: PipeAddress = text.parse().unwrap();
            assert_eq!(address.to_string(), text);
            assert_eq!(address.tcp().is_none(), text.starts_with("unix:"));
        }
        assert_eq!(
            pairing_socket(Path::new("/run/pipe.sock")).unwrap(),
            Path::new("/run/pipe.sock.pair")
        );
        let longest = format!("/{}", "x".repeat(101));
        assert!(pairing_socket(Path::new(&longest)).is_ok());
        assert!(pairing_socket(Path::new(&format!("{longest}x"))).is_err());
        let long = format!("unix:/{}", "x".repeat(106));
        assert!(long.parse::<PipeAddress>().is_ok());
        for text in [
            "",
            "192.0.2.1",
            "unix:",
            "unix:/",
            "unix:pipe",
            "unix:/run/",
            "unix:/a\0b",
            "/run/pipe",
            &format!("{long}x"),
        ] {
            assert_eq!(
                text.parse::<PipeAddress>(),
                Err(ParsePipeAddressError),
                "{text}"
            );
        }
    }
}
