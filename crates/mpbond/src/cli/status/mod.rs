//! `mpbond status`.

mod rates;
mod table;
mod text;

use std::io::{ErrorKind, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anstream::adapter::strip_str;
use anstream::{AutoStream, ColorChoice};
use clap::Args;
use mpbond::config::{Role, status_sockets};
use mpbond::status::Status;
use mpbond::status_socket::ask;
use mpbond_command::{Failure, print};

/// Show the state of a running daemon.
///
/// IN/s and OUT/s are the bytes that each path moved within a second, which the command waits for.
/// TH is its throughput in the direction that this end sends, if load has shown it within the last
/// 10 s. PAD is the delay of a byte given to the path now (pipe-aware: it includes waiting at this
/// end and at the helper). What is not known is shown as "-".
///
/// Every user may ask; destinations are shown to root and to the daemon's own user and group.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mpbond status                      every daemon of this machine
  mpbond status primary --watch      once a second
  mpbond status --json               at once; docs/metrics.md explains every field
  mpbond status --socket /run/mpbond/proxy.sock --json")]
pub(super) struct StatusArgs {
    /// Role of the daemon; otherwise all that run here.
    #[arg(value_enum, conflicts_with = "socket")]
    role: Option<RoleName>,
    /// Ask at this socket (`status_socket` in the configuration).
    #[arg(long, value_name = "FILE")]
    socket: Option<PathBuf>,
    /// Print JSON, for programs. Sizes are in bytes, spans in seconds.
    #[arg(long)]
    json: bool,
    /// Repeat once a second.
    #[arg(long)]
    watch: bool,
}

/// A role on the command line.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(super) enum RoleName {
    /// The device with the applications.
    Primary,
    /// A device that lends its link.
    Helper,
    /// The end point in the network.
    Proxy,
}

impl From<RoleName> for Role {
    fn from(name: RoleName) -> Self {
        match name {
            RoleName::Primary => Self::Primary,
            RoleName::Helper => Self::Helper,
            RoleName::Proxy => Self::Proxy,
        }
    }
}

const EVERY: Duration = Duration::from_secs(1);

impl StatusArgs {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let mut before: Vec<Status> = Vec::new();
        if !self.json {
            before = self.ask_all()?;
            // Where nothing has a connection, nothing moves.
            let idle = |s: &Status| s.sessions.is_empty() && s.relays.is_empty();
            if self.watch || !before.iter().all(idle) {
                std::thread::sleep(EVERY);
            }
        }
        loop {
            let now = self.ask_all()?;
            if self.json {
                let lines: Result<String, _> = now.iter().map(json_line).collect();
                print(&lines.map_err(Failure::run)?)?;
            } else {
                self.show(&now, &before)?;
            }
            if !self.watch {
                return Ok(ExitCode::SUCCESS);
            }
            before = now;
            std::thread::sleep(EVERY);
        }
    }

    fn show(&self, now: &[Status], before: &[Status]) -> Result<(), Failure> {
        let blocks = now.iter().map(|status| {
            let last = before.iter().find(|b| b.role == status.role);
            text::render(status, last, self.socket.as_deref())
        });
        let text = blocks.collect::<Vec<_>>().join("\n");
        let stdout = std::io::stdout();
        // The library knows NO_COLOR, CLICOLOR_FORCE and terminals without colours.
        let text = match AutoStream::choice(&stdout) {
            ColorChoice::Never => strip_str(&text).to_string(),
            _ => text,
        };
        let clear = self.watch && stdout.is_terminal();
        let head = if clear { "\x1b[H\x1b[2J" } else { "" };
        print(&format!("{head}{text}"))
    }

    fn ask_all(&self) -> Result<Vec<Status>, Failure> {
        if let Some(socket) = &self.socket {
            return Ok(vec![ask_at(socket)?]);
        }
        if let Some(role) = self.role {
            return ask_role(role.into())
                .map(|answer| vec![answer])
                .map_err(no_answer);
        }
        let (mut answers, mut tried) = (Vec::new(), Vec::new());
        for role in Role::ALL {
            match ask_role(role) {
                Ok(answer) => answers.push(answer),
                Err(places) => tried.extend(places),
            }
        }
        if answers.is_empty() {
            return Err(no_answer(tried));
        }
        Ok(answers)
    }
}

/// The daemon of this role, or the places tried, with the reasons of failures.
fn ask_role(role: Role) -> Result<Status, Vec<String>> {
    let mut tried = Vec::new();
    for place in status_sockets(role) {
        match ask(&place) {
            Ok(answer) => return Ok(answer),
            Err(e) if e.kind() == ErrorKind::NotFound => tried.push(place.display().to_string()),
            Err(e) => tried.push(format!("{}: {e}", place.display())),
        }
    }
    Err(tried)
}

fn no_answer(tried: Vec<String>) -> Failure {
    Failure::run(format_args!(
        "no daemon answers here (tried {}): is one running? With `status_socket` in its \
         configuration, use --socket",
        tried.join(", ")
    ))
}

fn ask_at(socket: &Path) -> Result<Status, Failure> {
    ask(socket).map_err(|e| {
        let why = match e.kind() {
            std::io::ErrorKind::NotFound => "there is no such socket: is the daemon running?",
            std::io::ErrorKind::ConnectionRefused => "nobody listens there: the daemon has ended",
            std::io::ErrorKind::PermissionDenied => "permission denied: it is another user's",
            _ => return Failure::run(format_args!("{}: {e}", socket.display())),
        };
        Failure::run(format_args!("{}: {why}", socket.display()))
    })
}

fn json_line(status: &Status) -> Result<String, serde_json::Error> {
    serde_json::to_string(status).map(|line| line + "\n")
}
