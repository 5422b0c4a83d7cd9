//! SOCKS5 client (RFC 1928) without a password.

use std::io::{self, Read, Write};
use std::net::IpAddr;

fn refused(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionRefused, why.to_owned())
}

/// Requests a connection from the proxy at the other end of `stream`.
pub(crate) fn connect(stream: &mut (impl Read + Write), host: &str, port: u16) -> io::Result<()> {
    stream.write_all(&[5, 1, 0])?;
    let mut choice = [0; 2];
    stream.read_exact(&mut choice)?;
    if choice != [5, 0] {
        return Err(refused("not a SOCKS5 proxy without a password"));
    }
    stream.write_all(&request(host, port)?)?;
    let mut reply = [0; 4];
    stream.read_exact(&mut reply)?;
    let [version, code, _, kind] = reply;
    if version != 5 {
        return Err(refused("not a SOCKS5 proxy"));
    }
    if code != 0 {
        let why = match code {
            2 => "not allowed",
            3 => "network unreachable",
            4 => "host unreachable",
            5 => "connection refused",
            _ => "failed",
        };
        return Err(refused(&format!(
            "the SOCKS5 proxy refuses: {why} ({code})"
        )));
    }
    // The bound address is unused, but must be read.
    let address = match kind {
        1 => 4,
        4 => 16,
        3 => {
            let mut length = [0];
            stream.read_exact(&mut length)?;
            usize::from(length.first().copied().unwrap_or_default())
        }
        _ => return Err(refused("malformed answer of the SOCKS5 proxy")),
    };
    let mut bound = vec![0; address + 2];
    stream.read_exact(&mut bound)
}

fn request(host: &str, port: u16) -> io::Result<Vec<u8>> {
    let mut all = vec![5, 1, 0];
    match host.parse() {
        Ok(IpAddr::V4(ip)) => {
            all.push(1);
            all.extend(ip.octets());
        }
        Ok(IpAddr::V6(ip)) => {
            all.push(4);
            all.extend(ip.octets());
        }
        Err(_) => {
            let length = u8::try_from(host.len()).map_err(|_| {
                io::Error::new(io::ErrorKind::InvalidInput, "host name is too long")
            })?;
            all.extend([3, length]);
            all.extend(host.bytes());
        }
    }
    all.extend(port.to_be_bytes());
    Ok(all)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    /// Request received by the proxy, and the client's result for its answers.
    fn exchange(host: &str, answers: &'static [u8]) -> (Vec<u8>, io::Result<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let front = std::thread::spawn(move || {
            let (mut s, _) = listener.accept().unwrap();
            s.write_all(answers).unwrap();
            // A client that refuses the answer may have left already.
            let _ = s.shutdown(std::net::Shutdown::Write);
            let mut heard = Vec::new();
            let _ = s.read_to_end(&mut heard);
            heard
        });
        let done = connect(&mut stream, host, 7008);
        drop(stream);
        (front.join().unwrap(), done)
    }

    #[test]
    fn a_front_is_asked_and_understood() {
        let good = b"\x05\x00\x05\x00\x00\x01\x7f\x00\x00\x01\x12\x34";
        let (heard, done) = exchange("192.0.2.1", good);
        done.unwrap();
        assert_eq!(
            heard,
            b"\x05\x01\x00\x05\x01\x00\x01\xc0\x00\x02\x01\x1b\x60"
        );
        let (heard, done) = exchange("a.example", b"\x05\x00\x05\x00\x00\x03\x01x\x12\x34");
        done.unwrap();
        assert!(heard.ends_with(b"\x03\x09a.example\x1b\x60"));
        let bad: [(&[u8], &str); 5] = [
            (b"\x05\xff", "password"),
            (b"HTTP/1.1 400", "password"),
            (b"\x05\x00\x05\x05\x00\x01", "connection refused"),
            (b"\x05\x00\x05\x00\x00\x09", "malformed"),
            (b"\x05\x00\x05\x00", "fill"),
        ];
        for (answers, words) in bad {
            let (_, done) = exchange("::1", answers);
            let e = done.unwrap_err().to_string();
            assert!(e.contains(words), "{e}");
        }
        assert!(request(&"x".repeat(256), 1).is_err());
    }
}
