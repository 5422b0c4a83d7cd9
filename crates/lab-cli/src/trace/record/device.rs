//! An Android device, through adb: commands of its shell, and steps of a scenario.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use mpbond_command::{Failure, note};
use mpbond_systrace::Step;

use super::output::lacks;

/// A running adb with a command of the device; ended when dropped.
pub(super) struct Recorder(Child);

impl Recorder {
    fn of(command: &mut Command) -> Result<Self, Failure> {
        let child = command.spawn();
        child
            .map(Self)
            .map_err(|e| Failure::run(format_args!("adb: {e}")))
    }

    pub(super) fn wait(&mut self) -> Result<ExitStatus, Failure> {
        let status = self.0.wait();
        status.map_err(|e| Failure::run(format_args!("adb: {e}")))
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // Without effect on one that has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A connected device.
pub(super) struct Device {
    serial: Option<String>,
}

impl Device {
    pub(super) fn find(serial: Option<String>) -> Result<Self, Failure> {
        let device = Self { serial };
        let output = device
            .adb(&["get-state"])
            .output()
            .map_err(|e| lacks(format!("adb cannot be run ({e}); Debian has it in adb")))?;
        let state = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if state == "device" {
            return Ok(device);
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.lines().next().unwrap_or("").trim();
        Err(lacks(format!("adb reaches no device: {said}{state}")))
    }

    fn adb(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("adb");
        if let Some(serial) = &self.serial {
            command.args(["-s", serial]);
        }
        command.args(arguments).stdin(Stdio::null());
        command
    }

    pub(super) fn shell(&self, line: &str) -> Result<String, Failure> {
        let output = self
            .adb(&["shell", line])
            .output()
            .map_err(|e| Failure::run(format_args!("adb: {e}")))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.lines().next().unwrap_or("").to_owned();
        Err(Failure::run(format_args!(
            "adb shell {line}: {} {said}",
            output.status
        )))
    }

    /// Width and height in pixels; `wm size` may print an override last.
    pub(super) fn screen(&self) -> Result<(u32, u32), Failure> {
        let text = self.shell("wm size")?;
        let size = text.lines().rev().find_map(|line| {
            let (width, height) = line.rsplit_once(": ")?.1.split_once('x')?;
            Some((width.trim().parse().ok()?, height.trim().parse().ok()?))
        });
        size.ok_or_else(|| {
            Failure::run(format_args!(
                "adb shell wm size: no size in {}",
                text.trim()
            ))
        })
    }

    /// Starts the recorder, with its output unchanged into a file.
    pub(super) fn start(&self, line: &str, out: File) -> Result<Recorder, Failure> {
        Recorder::of(self.adb(&["exec-out", line]).stdout(out))
    }

    /// Starts a command in the device's shell.
    pub(super) fn spawn(&self, line: &str) -> Result<Recorder, Failure> {
        Recorder::of(self.adb(&["shell", line]).stdout(Stdio::null()))
    }

    /// Writes the output of a command, unchanged, into a file.
    pub(super) fn save(&self, line: &str, out: File) -> Result<(), Failure> {
        let status = self.start(line, out)?.wait()?;
        if status.success() {
            return Ok(());
        }
        Err(Failure::run(format_args!("adb exec-out {line}: {status}")))
    }

    pub(super) fn play(
        &self,
        steps: &[Step],
        width: u32,
        height: u32,
        wait: bool,
    ) -> Result<(), Failure> {
        for step in steps {
            match step {
                Step::WaitMs(ms) => std::thread::sleep(Duration::from_millis(*ms)),
                Step::Ask(what) if wait && io::stdin().is_terminal() => {
                    note!("mpbond trace: please {what}, then press Enter");
                    let mut line = String::new();
                    let _ = io::stdin().read_line(&mut line);
                }
                Step::Ask(what) => note!("mpbond trace: now please {what}"),
                other => {
                    if let Some(line) = other.command(width, height) {
                        self.shell(&line)?;
                    }
                }
            }
        }
        Ok(())
    }
}
