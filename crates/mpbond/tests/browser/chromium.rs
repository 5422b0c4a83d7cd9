//! Chromium without a window, as a process in the primary's network namespace.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::daemons::until;

/// The program's name on Debian; other distributions call it differently.
const PROGRAM: &str = "chromium";

/// Why it cannot be run, if it cannot.
pub fn is_missing() -> Option<String> {
    // As the test runs it: the sandbox of a package may not start there.
    let version = Command::new("unshare")
        .args(["-Urnm", PROGRAM, "--version"])
        .output();
    match version {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(String::from_utf8_lossy(&output.stderr).into_owned()),
        Err(e) => Some(format!("{PROGRAM}: {e}")),
    }
}

/// The browser in the network namespace of a process, with its files in this folder.
fn command(pid: u32, folder: &Path) -> Command {
    let mut command = Command::new("nsenter");
    command
        .args(["-t", &pid.to_string(), "-n", PROGRAM])
        // Its sandbox is not allowed for root, nor needed with the test's own page.
        .args(["--headless=new", "--no-sandbox", "--disable-gpu"])
        .args(["--disable-dev-shm-usage", "--no-first-run"])
        // Its own connections: updates, reports, and searches for screens in the local network.
        .args(["--disable-background-networking"])
        .args(["--disable-component-update", "--disable-sync"])
        .args(["--disable-breakpad", "--disable-domain-reliability"])
        .args(["--disable-features=MediaRouter,OptimizationHints"])
        .arg(format!(
            "--user-data-dir={}",
            folder.join("profile").display()
        ))
        .env("HOME", folder)
        .env("TMPDIR", folder);
    command
}

/// The document that the browser has for a page; nothing if it gets none.
pub fn document(pid: u32, folder: &Path, page: &str) -> String {
    let output = command(pid, folder)
        .args(["--no-proxy-server", "--dump-dom", page])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A running browser; it is ended when dropped.
pub struct Chromium {
    child: Child,
    log: PathBuf,
}

impl Chromium {
    /// Starts it with `https://one.test/`, trusting the server's public key.
    ///
    /// # Panics
    /// When it does not start.
    pub fn start(pid: u32, folder: &Path, key: &str, proxy: &str) -> Self {
        let log = folder.join("chromium.log");
        let out = File::create(&log).unwrap();
        let child = command(pid, folder)
            .args(["--mute-audio", "--enable-logging=stderr", proxy])
            .args(["--autoplay-policy=no-user-gesture-required"])
            .arg(format!("--ignore-certificate-errors-spki-list={key}"))
            .arg("https://one.test/")
            .stdout(out.try_clone().unwrap())
            .stderr(out)
            .spawn()
            .unwrap();
        Self { child, log }
    }

    /// Its exit status, if it has ended.
    pub fn has_ended(&mut self) -> Option<String> {
        let status = self.child.try_wait().unwrap()?;
        Some(status.to_string())
    }

    /// Its log, without complaints about the desktop that is not there.
    pub fn log(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines = text
            .lines()
            .filter(|l| !l.contains("/dbus/") && !l.contains("ERROR:dbus"));
        lines.collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        // In order: it then ends its other processes, which use the profile.
        let _ = kill(Pid::from_raw(self.child.id() as i32), Signal::SIGTERM);
        let child = &mut self.child;
        let ended = || child.try_wait().is_ok_and(|status| status.is_some());
        if !std::thread::panicking() {
            return until("Chromium ends", ended);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
