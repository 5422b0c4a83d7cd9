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
  mpbond status --socket /run/mpbond/proxy.sock --json

Exit code 0 when all daemons that run here have answered, 1 otherwise; one that does not answer
within 5 s is named.")]
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
        // Places whose daemons do not answer.
        let mut silent: Vec<Silent> = Vec::new();
        if !self.json {
            (before, silent) = self.ask_all(&[])?;
            // Where nothing has a connection, nothing moves.
            let idle = |s: &Status| s.sessions.is_empty() && s.relays.is_empty();
            if self.watch || !before.iter().all(idle) {
                std::thread::sleep(EVERY);
            }
        }
        loop {
            // One that was waited for just now is not waited for again.
            let (now, others) = self.ask_all(&silent)?;
            silent.extend(others);
            if self.json {
                let lines: Result<String, _> = now.iter().map(json_line).collect();
                print(&lines.map_err(Failure::run)?)?;
            } else {
                self.show(&now, &before)?;
            }
            // The line goes on a screen that was cleared.
            for Silent { failure, .. } in &silent {
                failure.report();
            }
            if !self.watch {
                return Ok(ExitCode::from(u8::from(!silent.is_empty())));
            }
            silent.clear();
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

    /// The daemons that answer, and those that do not, but for the places that are left out.
    fn ask_all(&self, left_out: &[Silent]) -> Result<(Vec<Status>, Vec<Silent>), Failure> {
        if let Some(socket) = &self.socket {
            return Ok((vec![ask_at(socket)?], Vec::new()));
        }
        let roles = match self.role {
            Some(role) => vec![Role::from(role)],
            None => Role::ALL.to_vec(),
        };
        let mut asked = Asked::default();
        for role in roles {
            asked.ask(role, left_out);
        }
        let Asked {
            answers,
            silent,
            tried,
        } = asked;
        if answers.is_empty() && silent.is_empty() && left_out.is_empty() {
            return Err(no_answer(tried));
        }
        Ok((answers, silent))
    }
}

/// A daemon that does not answer.
struct Silent {
    place: PathBuf,
    failure: Failure,
}

/// What has come of asking.
#[derive(Default)]
struct Asked {
    answers: Vec<Status>,
    silent: Vec<Silent>,
    /// Places without a daemon, with the reasons.
    tried: Vec<String>,
}

impl Asked {
    /// Asks the daemon of this role, at the first place where one answers.
    fn ask(&mut self, role: Role, left_out: &[Silent]) {
        for place in status_sockets(role) {
            if left_out.iter().any(|silent| silent.place == place) {
                continue;
            }
            let at = place.display();
            match ask(&place) {
                Ok(answer) => return self.answers.push(answer),
                Err(e) => match e.kind() {
                    ErrorKind::NotFound => self.tried.push(at.to_string()),
                    // Nobody listens there, or it is another user's.
                    ErrorKind::ConnectionRefused | ErrorKind::PermissionDenied => {
                        self.tried.push(format!("{at}: {e}"));
                    }
                    _ => {
                        let failure = Failure::run(format_args!("{role} at {at}: {e}"));
                        self.silent.push(Silent { place, failure });
                    }
                },
            }
        }
    }
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
