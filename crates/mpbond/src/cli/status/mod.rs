//! `mpbond status`.

mod text;

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use mpbond::config::{Role, status_socket};
use mpbond::status::Status;
use mpbond::status_socket::ask;
use mpbond_command::{Failure, print};

/// Show the state of a running daemon.
///
/// PAD is the delay of a byte given to the path now (pipe-aware: it includes waiting at this end
/// and at the helper). B_s is the number of bytes waiting at the sender, B_p at a helper.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mpbond status                      every daemon of this machine
  mpbond status primary --watch      once a second
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
    /// Repeat once a second, with the rates of that second.
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
        loop {
            let now = self.ask_all()?;
            let text = if self.json {
                let lines: Result<String, _> = now.iter().map(json_line).collect();
                lines.map_err(Failure::run)?
            } else {
                let clear = self.watch && std::io::stdout().is_terminal();
                let head = if clear { "\x1b[H\x1b[2J" } else { "" };
                let blocks: Vec<String> = now
                    .iter()
                    .map(|status| {
                        let last = before.iter().find(|b| b.role == status.role);
                        text::render(status, last)
                    })
                    .collect();
                format!("{head}{}", blocks.join("\n"))
            };
            print(&text)?;
            if !self.watch {
                return Ok(ExitCode::SUCCESS);
            }
            before = now;
            std::thread::sleep(EVERY);
        }
    }

    fn ask_all(&self) -> Result<Vec<Status>, Failure> {
        if let Some(socket) = &self.socket {
            return Ok(vec![ask_at(socket)?]);
        }
        if let Some(role) = self.role {
            return Ok(vec![ask_at(&status_socket(role.into()))?]);
        }
        let sockets = Role::ALL.map(status_socket);
        let answers: Vec<Status> = sockets.iter().filter_map(|s| ask(s).ok()).collect();
        if answers.is_empty() {
            let places: Vec<String> = sockets.iter().map(|s| s.display().to_string()).collect();
            return Err(Failure::run(format_args!(
                "no daemon answers here (tried {}); with `status_socket` in its configuration, \
                 use --socket",
                places.join(", ")
            )));
        }
        Ok(answers)
    }
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
