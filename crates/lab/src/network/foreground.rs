//! A person's program in a host, in the foreground.

use std::ffi::{OsStr, OsString};
use std::io::IsTerminal;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Stdio};

use crate::error::{Doing, Result};
use crate::isolate::{self, Inside, Outside};
use crate::network::host::Host;
use crate::sys;

/// Does `work` isolated, as [`isolate::isolated`] does, for a program that uses the terminal:
/// Ctrl-C goes to that program only.
///
/// # Errors
/// Errors of `work`; also when this machine allows no isolation.
pub(crate) fn with_terminal(
    serve: Option<Box<dyn FnOnce(std::os::unix::net::UnixStream) + Send>>,
    work: impl FnOnce(&Inside) -> Result<u8>,
) -> Result<u8> {
    let outside = Outside {
        // Without a terminal, SIGINT is sent to this process on purpose, and has to end it.
        leave_interrupts: std::io::stdin().is_terminal(),
        serve,
    };
    let done = isolate::isolated_with(outside, work);
    sys::terminal::take_back();
    done
}

/// Shell commands that run beside the program and end with this value, even when the lab is killed.
#[derive(Default)]
pub(crate) struct Beside(Vec<Child>);

impl Beside {
    /// Starts a command in `host`. Its output is discarded, but not its errors.
    ///
    /// # Errors
    /// When there is no shell.
    pub fn start(&mut self, host: &Host, command: &str, env: &[(String, String)]) -> Result<()> {
        let child = host
            .command("/bin/sh")
            .args(["-c", &format!("exec {command}")])
            .envs(env.iter().cloned())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .doing(format_args!("cannot run \"{command}\""))?;
        self.0.push(child);
        Ok(())
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Runs `program`, or the person's shell when it is empty, in `host`, and returns its exit code as
/// shells do: 128 plus the number of the signal that ended it, 127 when there is no such program,
/// 126 when it cannot be run.
pub(crate) fn run(host: &Host, program: &[OsString], env: &[(&str, impl AsRef<OsStr>)]) -> u8 {
    let shell = std::env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into());
    let (name, args) = match program {
        [name, args @ ..] => (name, args),
        [] => (&shell, &[][..]),
    };
    let mut command = host.command(name);
    command.args(args);
    for (key, value) in env {
        command.env(key, value);
    }
    match command.status() {
        Ok(status) => {
            let signal = status.signal().map(|signal| 128 + signal);
            let code = status.code().or(signal).unwrap_or(1);
            u8::try_from(code).unwrap_or(1)
        }
        Err(e) => {
            eprintln!("mpbond: cannot run {}: {e}", name.display());
            match e.kind() {
                std::io::ErrorKind::NotFound => 127,
                _ => 126,
            }
        }
    }
}
