//! `mpbond console` as a process, and a client of its server.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Stdio};
use std::time::Duration;

use mpbond_testing::Program;

pub const CONSOLE: Program = Program::new(env!("CARGO_BIN_EXE_mpbond-console"));

/// A running console; ended when dropped.
pub struct Console {
    pub child: Child,
    pub port: u16,
    pub token: String,
}

impl Console {
    /// Starts one for the daemon at `socket`.
    pub fn start(socket: &str) -> Self {
        Self::start_with(&["--socket", socket], &[])
    }

    /// Starts one with these options and environment variables.
    pub fn start_with(options: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut child = CONSOLE
            .command([&["console"], options].concat())
            .envs(variables.iter().copied())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
        let address = lines
            .map(|line| line.unwrap().trim().to_owned())
            .find(|line| line.starts_with("http://"))
            .unwrap();
        let rest = address.strip_prefix("http://127.0.0.1:").unwrap();
        let (port, token) = rest.split_once("/#").unwrap();
        Self {
            port: port.parse().unwrap(),
            token: token.to_owned(),
            child,
        }
    }

    /// Sends a request; returns head and body, up to the end of the connection.
    pub fn request(&self, text: &str) -> String {
        let mut stream = self.connect();
        stream.write_all(text.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// A GET request with these further lines of its head.
    pub fn get(&self, path: &str, more: &str) -> String {
        let host = format!("Host: localhost:{}", self.port);
        self.request(&format!(
            "GET {path} HTTP/1.1\r\n{host}\r\n{more}Connection: close\r\n\r\n"
        ))
    }

    /// A connection.
    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], self.port))).unwrap();
        stream
            // A diagnostic bundle may take 50 s.
            .set_read_timeout(Some(Duration::from_secs(120)))
            .unwrap();
        stream
    }

    /// The line of a head that shows the token.
    pub fn bearer(&self) -> String {
        format!("Authorization: Bearer {}\r\n", self.token)
    }

    /// The origin of the page.
    pub fn origin(&self) -> String {
        format!("http://127.0.0.1:{}/", self.port)
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
