//! `mpbond console`.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode, Stdio};
use std::thread;

use clap::Args;
use mpbond_command::{Failure, print};
use tempfile::NamedTempFile;
use tokio::signal::unix::{SignalKind, signal};

use crate::client::DaemonArgs;
use crate::server::{Hub, Sockets, Token};

/// Show the traffic of a running daemon as a page in a browser.
///
/// Prints the address of the page, and serves it to this machine until Ctrl-C. The address contains
/// a secret of this start, without which no data are given and nothing is changed. The daemon is
/// asked once a second while a page is open.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mpbond console --open              in the browser of the desktop
  mpbond console --role proxy        where several daemons run
  ssh -t -L 7070:127.0.0.1:7070 server mpbond console --port 7070
                                     the console of a server: open the address that it prints")]
pub(crate) struct ConsoleArgs {
    #[command(flatten)]
    daemon: DaemonArgs,
    /// Port of the page at 127.0.0.1 and ::1; otherwise one that is free.
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1024..))]
    port: Option<u16>,
    /// Open the page in the browser of the desktop (xdg-open).
    #[arg(long)]
    open: bool,
    /// Show no controls and change nothing: the address then gives only a view.
    #[arg(long)]
    read_only: bool,
}

impl ConsoleArgs {
    pub fn run(self) -> Result<ExitCode, Failure> {
        let (client, first) = self.daemon.find()?;
        let sockets = Sockets::bind(self.port.unwrap_or_default()).map_err(|e| self.taken(&e))?;
        let token = Token::new().map_err(Failure::run)?;
        let address = format!("http://127.0.0.1:{}/#{}", sockets.port(), token.text());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(1)
            .build()
            .map_err(Failure::run)?;
        runtime.block_on(async {
            let mut signals = [
                SignalKind::interrupt(),
                SignalKind::terminate(),
                SignalKind::hangup(),
                SignalKind::quit(),
            ]
            .map(signal);
            let [Ok(interrupt), Ok(terminate), Ok(hangup), Ok(quit)] = &mut signals else {
                return Err(Failure::run("signals cannot be received"));
            };
            print(&format!(
                "The traffic of {} is at\n  {address}\nCtrl-C ends this program.\n",
                client.socket().display()
            ))?;
            // Removed when this ends.
            let _forwarder = self.open.then(|| open(&address)).flatten();
            let hub = Hub::new(client, first, self.read_only);
            tokio::spawn(Hub::run(hub.clone()));
            tokio::select! {
                served = sockets.serve(hub, token) => {
                    let Err(e) = served;
                    Err(Failure::run(e))
                }
                _ = interrupt.recv() => Ok(()),
                _ = terminate.recv() => Ok(()),
                _ = hangup.recv() => Ok(()),
                _ = quit.recv() => Ok(()),
            }
        })?;
        runtime.shutdown_background();
        Ok(ExitCode::SUCCESS)
    }

    fn taken(&self, e: &io::Error) -> Failure {
        match (e.kind(), self.port) {
            (ErrorKind::AddrInUse, Some(port)) => Failure::run(format_args!(
                "port {port} is in use by another program: choose another --port, or none for one \
                 that is free"
            )),
            (_, port) => Failure::run(format_args!("port {}: {e}", port.unwrap_or_default())),
        }
    }
}

/// Opens the address in the desktop's browser, by a file that only this user can read: the command
/// lines of programs, in which the address itself would be, are shown to every user.
fn open(address: &str) -> Option<NamedTempFile> {
    let opened = forwarder(address).and_then(|file| {
        let mut browser = Command::new("xdg-open")
            .arg(file.path())
            // Ctrl-C in this terminal ends the console, and no browser.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        thread::spawn(move || match browser.wait() {
            Ok(code) if !code.success() => no_browser(&code),
            _ => {}
        });
        Ok(file)
    });
    match opened {
        Ok(file) => Some(file),
        Err(e) => {
            no_browser(&e);
            None
        }
    }
}

fn no_browser(why: &dyn Display) {
    let _ = writeln!(io::stderr(), "no browser can be opened (xdg-open: {why})");
}

fn forwarder(address: &str) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("mpbond-console-").suffix(".html");
    let runtime = std::env::var_os("XDG_RUNTIME_DIR");
    let mut file = match runtime {
        Some(folder) => builder.tempfile_in(folder)?,
        None => builder.tempfile()?,
    };
    // The address has digits, letters and ":/#." only.
    writeln!(
        file,
        "<!doctype html><meta charset=\"utf-8\"><title>mpbond</title>\
         <meta http-equiv=\"refresh\" content=\"0; url={address}\">"
    )?;
    Ok(file)
}
