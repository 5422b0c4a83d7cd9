//! Programs that measurements run.

use std::path::Path;
use std::process::{Command, Stdio};

/// Exit code of `mpbond lab` for a machine that was too busy to judge.
const TOO_BUSY: i32 = 4;

/// Where the kernel's tracer is.
const TRACEFS: &str = "/sys/kernel/tracing";

/// A command that runs the program in its further arguments with the kernel's tracer: where tracefs
/// is not mounted, in a mount namespace of its own in which it is.
pub(super) fn traced() -> Command {
    if Path::new(TRACEFS).join("instances").exists() {
        return Command::new("env");
    }
    let script = format!("mount -t tracefs tracefs {TRACEFS}; exec \"$@\"");
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &script, "sh"]);
    command
}

/// Outputs of a program that has ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) code: i32,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

/// Runs a command to its end, without input.
///
/// # Errors
/// When it cannot be run, or its exit code is not one of `codes`: the last line that it wrote to
/// standard error.
pub(super) fn run(command: &mut Command, codes: &[i32]) -> Result<Ended, String> {
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .output()
        .map_err(|e| e.to_string())?;
    let text = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    match output.status.code() {
        Some(code) if codes.contains(&code) => Ok(Ended {
            code,
            stdout,
            stderr,
        }),
        Some(TOO_BUSY) => Err("the machine was too busy".to_owned()),
        _ => Err(stderr.lines().last().unwrap_or("it failed").to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str, codes: &[i32]) -> Result<Ended, String> {
        run(Command::new("sh").args(["-c", script]), codes)
    }

    #[test]
    fn an_unexpected_exit_code_is_an_error_with_the_last_line() {
        let ended = sh("cat; echo out; echo err >&2; exit 1", &[0, 1]).unwrap();
        let (stdout, stderr) = (ended.stdout.as_str(), ended.stderr.as_str());
        assert_eq!((ended.code, stdout, stderr), (1, "out\n", "err\n"));
        assert_eq!(sh("echo a >&2; echo b >&2; exit 1", &[0]).unwrap_err(), "b");
        assert_eq!(sh("exit 1", &[0]).unwrap_err(), "it failed");
        let busy = sh("echo late >&2; exit 4", &[0]).unwrap_err();
        assert_eq!(busy, "the machine was too busy");
        assert_eq!(sh("exit 4", &[0, 4]).unwrap().code, 4);
    }
}
