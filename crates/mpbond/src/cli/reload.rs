//! `mpbond reload`.

use std::fmt::Write as _;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use mpbond::config::{Changes, Role, config_file, status_sockets};
use mpbond::reload::Answer;
use mpbond::status_socket;
use mpbond_command::{Failure, print};
use serde_json::json;

use super::hints;
use super::socket::socket_of;
use super::status::RoleName;

/// Have a running daemon read its configuration again.
///
/// Changed paths, helpers, limits and destinations apply at once, and open connections go on. Other
/// changes need a restart, and are listed. A wrong configuration changes nothing. SIGHUP does the
/// same; the daemon's log has the result.
///
/// Only root and the daemon's own user may do this. The manual pages of the configuration files,
/// such as mpbond-primary.toml(5), name the keys that apply.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mpbond reload                      every daemon of this machine
  mpbond reload primary              after a change of /etc/mpbond/primary.toml
  mpbond reload helper --config helper.toml --json

Exit code 0 when the configuration was read, 1 when no daemon answers or it refuses, 2 when it is
wrong. Where several daemons fail, each has a line, and the code is that of the first.")]
pub(super) struct ReloadArgs {
    /// Role of the daemon; otherwise all that run here.
    #[arg(value_enum)]
    role: Option<RoleName>,
    /// Its configuration, which names its status socket. Otherwise ROLE.toml in /etc/mpbond (root)
    /// or ~/.config/mpbond.
    #[arg(long, short, value_name = "FILE", requires = "role")]
    config: Option<PathBuf>,
    /// Print JSON, for programs.
    #[arg(long)]
    json: bool,
}

/// A daemon that has read its configuration.
struct Reloaded {
    role: Role,
    file: PathBuf,
    changes: Changes,
}

impl ReloadArgs {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let (mut tried, mut any, mut failed) = (Vec::new(), false, None);
        let roles = match self.role {
            Some(role) => vec![Role::from(role)],
            None => Role::ALL.to_vec(),
        };
        for role in roles {
            for place in self.places(role)? {
                let Place { socket, only_of } = &place;
                if only_of.as_ref().is_some_and(|file| !has_file(socket, file)) {
                    continue;
                }
                match reload(role, socket) {
                    Ok(Some(reloaded)) => {
                        any = true;
                        print(&self.text(&reloaded))?;
                        break;
                    }
                    Ok(None) => tried.push(socket.display().to_string()),
                    // The daemons of other roles are not left out.
                    Err(e) => {
                        let code = e.report();
                        failed.get_or_insert(code);
                        break;
                    }
                }
            }
        }
        if let Some(code) = failed {
            return Ok(code);
        }
        if any {
            return Ok(ExitCode::SUCCESS);
        }
        Err(Failure::run(format_args!(
            "no daemon answers here (tried {}): is one running? --config names the configuration of \
             one that has a `status_socket`; one that has started with another `status_socket` than \
             its file has now can be sent SIGHUP",
            tried.join(", ")
        )))
    }

    /// Places where the daemon may have its status socket.
    fn places(&self, role: Role) -> Result<Vec<Place>, Failure> {
        let file = self.config.clone().unwrap_or_else(|| config_file(role));
        let usual = status_sockets(role).into_iter();
        if self.config.is_none() && !file.exists() {
            return Ok(usual.map(Place::any).collect());
        }
        match socket_of(role, &file) {
            Ok(socket) => {
                // A `status_socket` that is new in the file applies at the next start.
                let former = usual.filter(|usual| *usual != socket).map(|usual| Place {
                    socket: usual,
                    only_of: Some(file.clone()),
                });
                let former: Vec<_> = former.collect();
                Ok(std::iter::once(Place::any(socket)).chain(former).collect())
            }
            // The daemon itself says that its configuration is wrong, if one runs.
            Err(_) if self.role.is_none() => Ok(usual.map(Place::any).collect()),
            Err(e) => Err(Failure::input(e)),
        }
    }

    fn text(&self, reloaded: &Reloaded) -> String {
        let Reloaded {
            role,
            file,
            changes,
        } = reloaded;
        if self.json {
            let line = json!({
                "role": role.name(),
                "file": file.display().to_string(),
                "applied": changes.applied,
                "restart": changes.restart,
            });
            return format!("{line}\n");
        }
        let mut text = format!("{role}: {} is read\n", file.display());
        // Writing to a text cannot fail.
        for key in &changes.applied {
            let _ = writeln!(text, "  applied: {key}");
        }
        for key in &changes.restart {
            let _ = writeln!(text, "  not applied, needs a restart: {key}");
        }
        if changes.applied.is_empty() && changes.restart.is_empty() {
            text += "  no change\n";
        }
        if !changes.restart.is_empty() {
            let _ = writeln!(text, "{}", hints::start(*role, file, true));
        }
        text
    }
}

/// A status socket.
struct Place {
    socket: PathBuf,
    /// The daemon there is left out unless it has this configuration.
    only_of: Option<PathBuf>,
}

impl Place {
    fn any(socket: PathBuf) -> Self {
        let only_of = None;
        Self { socket, only_of }
    }
}

/// Whether the daemon at this socket has this configuration.
fn has_file(socket: &Path, file: &Path) -> bool {
    let theirs = status_socket::ask(socket).ok().and_then(|s| s.config_file);
    let whole = |file: &Path| std::fs::canonicalize(file).ok();
    theirs.is_some_and(|theirs| {
        let theirs = whole(Path::new(&theirs));
        theirs.is_some() && theirs == whole(file)
    })
}

/// Has the daemon at this socket read its configuration; `None` where there is no daemon.
fn reload(role: Role, socket: &Path) -> Result<Option<Reloaded>, Failure> {
    let at = socket.display();
    match status_socket::reload(socket) {
        Ok(Answer::Read { file, changes }) => Ok(Some(Reloaded {
            role,
            file,
            changes,
        })),
        Ok(Answer::Wrong(error)) => Err(Failure::input(format_args!(
            "{error} (the {role} goes on as before)"
        ))),
        Ok(Answer::Refused(reason)) => Err(Failure::run(format_args!("{role} at {at}: {reason}"))),
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {
            Ok(None)
        }
        Err(e) => Err(Failure::run(format_args!("{role} at {at}: {e}"))),
    }
}
