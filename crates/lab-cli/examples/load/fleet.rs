//! The processes of a run, and their configurations.

use std::io::{BufRead, BufReader, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::Context as _;
use mpbond_net::Identity;

use super::client::{Command as ClientCommand, Reply};
use super::daemon::Daemon;

/// Listening addresses of a process with origins: several, so that a proxy does not run out of
/// ports.
fn origin_addresses(process: u8) -> Vec<SocketAddr> {
    (1..=8)
        .map(|n| SocketAddr::from((Ipv4Addr::new(127, 2, process, n), 8000)))
        .collect()
}

/// Another process of this program; ended on drop.
struct Process(Child);

impl Process {
    fn start(args: &[String], talks: bool) -> anyhow::Result<Self> {
        let pipe = || if talks { Stdio::piped() } else { Stdio::null() };
        let child = Command::new(std::env::current_exe()?)
            .args(args)
            .stdin(pipe())
            .stdout(pipe())
            .spawn()
            .context("starting this program as a child")?;
        Ok(Self(child))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The origins.
pub struct Origins {
    _process: Process,
}

impl Origins {
    pub fn start(process: u8) -> anyhow::Result<Self> {
        let mut args = vec!["origin".to_owned()];
        args.extend(origin_addresses(process).iter().map(ToString::to_string));
        let _process = Process::start(&args, false)?;
        let first = origin_addresses(process)[0];
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while let Err(e) = std::net::TcpStream::connect(first) {
            if std::time::Instant::now() > deadline {
                return Err(e).context("the origins do not listen");
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        Ok(Self { _process })
    }
}

/// A process with many primaries.
pub struct Client {
    _process: Process,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    /// The ids of its devices.
    pub ids: Vec<String>,
}

impl Client {
    pub fn start(devices: usize) -> anyhow::Result<Self> {
        let args = ["client".to_owned(), devices.to_string()];
        let mut process = Process::start(&args, true)?;
        let stdin = process.0.stdin.take().context("its input")?;
        let stdout = process.0.stdout.take().context("its output")?;
        let mut client = Self {
            _process: process,
            stdin,
            stdout: BufReader::new(stdout),
            ids: Vec::new(),
        };
        client.ids = client.receive()?;
        Ok(client)
    }

    /// Sends a command; [`Client::reply`] waits for its result.
    pub fn send(&mut self, command: &ClientCommand) -> anyhow::Result<()> {
        let mut line = serde_json::to_vec(command)?;
        line.push(b'\n');
        self.stdin.write_all(&line).context("a client is gone")
    }

    pub fn reply(&mut self) -> anyhow::Result<Reply> {
        self.receive()
    }

    /// Sends a command and waits for its result.
    pub fn execute(&mut self, command: &ClientCommand) -> anyhow::Result<Reply> {
        self.send(command)?;
        self.reply()
    }

    fn receive<T: serde::de::DeserializeOwned>(&mut self) -> anyhow::Result<T> {
        let mut line = String::new();
        self.stdout.read_line(&mut line)?;
        serde_json::from_str(&line).context("a client ended early")
    }
}

/// A proxy with a folder of its own.
pub struct Proxy {
    pub daemon: Daemon,
    address: SocketAddr,
    id: String,
    trusted: PathBuf,
}

impl Proxy {
    /// Starts a proxy that trusts these devices. `extra` is added to its configuration.
    pub fn start(
        mpbond: &Path,
        folder: &Path,
        name: &str,
        port: u16,
        devices: &[String],
        extra: &str,
        descriptors: Option<u64>,
    ) -> anyhow::Result<Self> {
        let file = |ending: &str| -> PathBuf { folder.join(format!("{name}.{ending}")) };
        let id = Identity::load_or_create(file("pem"))?.id().to_string();
        std::fs::write(file("trusted"), devices.join("\n") + "\n")?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        std::fs::write(
            file("toml"),
            format!(
                "listen = \"{address}\"\nidentity = \"{name}.pem\"\n\
                 status_socket = \"{name}.sock\"\n{extra}\n\
                 [destinations]\nallow = [\"127.2.0.0/16\"]\n"
            ),
        )?;
        let daemon = Daemon::start(mpbond, "proxy", &file("toml"), &file("sock"), descriptors)?;
        Ok(Self {
            daemon,
            address,
            id,
            trusted: file("trusted"),
        })
    }

    /// Replaces the trusted devices.
    pub fn trust(&self, devices: &[String]) -> anyhow::Result<()> {
        Ok(std::fs::write(&self.trusted, devices.join("\n") + "\n")?)
    }

    /// The command that gives a client this proxy's address and the origins.
    pub fn setup(&self, number: u8, origins: u8) -> ClientCommand {
        ClientCommand::Setup {
            proxy: self.address,
            id: self.id.clone(),
            origins: origin_addresses(origins),
            number,
        }
    }
}
