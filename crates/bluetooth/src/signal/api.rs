//! The API of a primary, which takes the strength of a link's signal (docs/api.md).

use std::fmt::Write as _;
use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

/// Time for an answer.
const WITHIN: Duration = Duration::from_secs(2);

/// Octets of an answer that are read.
const MAX_ANSWER: u64 = 1 << 10;

/// A link of a primary on this device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LinkOfPrimary {
    /// Socket of the API.
    pub socket: PathBuf,
    /// Name of the link.
    pub name: String,
}

impl LinkOfPrimary {
    /// Tells the strength of its signal in dBm. The error is a line for the log.
    pub fn tell(&self, dbm: i16) -> Result<(), String> {
        let told = |line: &str| {
            let socket = self.socket.display();
            format!("the strength of the signal is not told to {socket}: {line}")
        };
        let answer = self.ask(dbm).map_err(|e| told(&e.to_string()))?;
        match status(&answer) {
            Some(200..=299) => Ok(()),
            Some(404) => Err(told(&format!("the primary has no link \"{}\"", self.name))),
            Some(403) => Err(told("run as the primary's user")),
            Some(status) => Err(told(&format!("the primary refuses it (status {status})"))),
            None => Err(told("this is not the API of a primary")),
        }
    }

    /// The beginning of the answer.
    fn ask(&self, dbm: i16) -> io::Result<String> {
        let mut api = UnixStream::connect(&self.socket)?;
        api.set_read_timeout(Some(WITHIN))?;
        api.set_write_timeout(Some(WITHIN))?;
        let body = format!("{{\"signal_dbm\": {dbm}}}");
        let head = format!(
            "PATCH /v1/links/{} HTTP/1.1\r\nHost: mpbond\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n",
            encoded(&self.name),
            body.len()
        );
        api.write_all((head + &body).as_bytes())?;
        let mut answer = Vec::new();
        api.take(MAX_ANSWER).read_to_end(&mut answer)?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }
}

/// Status of an answer of HTTP/1.
pub fn status(answer: &str) -> Option<u16> {
    let rest = answer.strip_prefix("HTTP/1.1 ")?;
    rest.get(..3)?.parse().ok()
}

/// A name as a part of a path (RFC 3986, section 2.1).
fn encoded(name: &str) -> String {
    let mut text = String::new();
    for octet in name.bytes() {
        if octet.is_ascii_alphanumeric() || b"-._~".contains(&octet) {
            text.push(char::from(octet));
        } else {
            let _ = write!(text, "%{octet:02X}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::thread;

    use super::*;

    /// Request that a primary with this answer receives, and the result of telling it.
    fn told(name: &str, answer: &'static str) -> (String, Result<(), String>) {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("primary.api");
        let listener = UnixListener::bind(&socket).unwrap();
        let primary = thread::spawn(move || {
            let (mut client, _) = listener.accept().unwrap();
            let mut asked = Vec::new();
            while !asked.ends_with(b"}") {
                let mut more = [0; 512];
                let octets = client.read(&mut more).unwrap();
                asked.extend_from_slice(&more[..octets]);
            }
            client.write_all(answer.as_bytes()).unwrap();
            String::from_utf8(asked).unwrap()
        });
        let name = name.to_owned();
        let result = LinkOfPrimary { socket, name }.tell(-63);
        (primary.join().unwrap(), result)
    }

    #[test]
    fn the_strength_is_a_request_and_a_refusal_is_a_line() {
        let (asked, result) = told("my bluetooth", "HTTP/1.1 200 OK\r\n\r\n{}");
        assert_eq!(result, Ok(()));
        let (head, body) = asked.split_once("\r\n\r\n").unwrap();
        assert!(
            head.starts_with("PATCH /v1/links/my%20bluetooth HTTP/1.1\r\n"),
            "{head}"
        );
        assert_eq!(body, "{\"signal_dbm\": -63}");
        assert!(
            head.contains(&format!("Content-Length: {}\r\n", body.len())),
            "{head}"
        );
        for (answer, part) in [
            ("HTTP/1.1 404 Not Found\r\n\r\n", "no link \"x\""),
            ("HTTP/1.1 403 Forbidden\r\n\r\n", "the primary's user"),
            ("HTTP/1.1 422 \r\n\r\n", "status 422"),
            ("HTTP/1.1 ", "not the API"),
            ("SSH-2.0-x", "not the API"),
            ("", "not the API"),
        ] {
            let (_, result) = told("x", answer);
            let line = result.unwrap_err();
            assert!(
                line.contains(part) && line.contains("primary.api"),
                "{line}"
            );
        }
        let nowhere = LinkOfPrimary {
            socket: PathBuf::from("/nowhere/primary.api"),
            name: "x".to_owned(),
        };
        assert!(
            nowhere
                .tell(-63)
                .unwrap_err()
                .contains("/nowhere/primary.api: ")
        );
    }
}
