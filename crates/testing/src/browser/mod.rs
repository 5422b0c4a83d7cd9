//! Chromium without a window: [`Chromium`] is its process, [`Page`] a page of it, driven by the
//! Chrome DevTools Protocol.

mod page;
mod pipe;

pub use page::Page;

use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The program's name on Debian; other distributions call it differently.
const PROGRAM: &str = "chromium";

/// Time for it to end, or to load a page; each takes a second on an idle machine.
const TO_END: Duration = Duration::from_secs(180);

/// Why it cannot be run, if it cannot.
pub fn is_missing() -> Option<String> {
    // As tests run it: the sandbox of a package may not start there.
    let version = Command::new("unshare")
        .args(["-Urnm", PROGRAM, "--version"])
        .output();
    match version {
        Ok(output) if output.status.success() => {
            let fonts = Command::new("fc-list").output();
            let none = fonts.is_ok_and(|fonts| fonts.stdout.is_empty());
            none.then(|| "there is no font".to_owned())
        }
        Ok(output) => Some(String::from_utf8_lossy(&output.stderr).into_owned()),
        Err(e) => Some(format!("{PROGRAM}: {e}")),
    }
}

/// The browser behind the command `before`, with its files in `folder`.
fn command(before: &[&str], folder: &Path) -> Command {
    let mut command = Command::new(before[0]);
    command
        .args(&before[1..])
        .arg(PROGRAM)
        // Its sandbox is not allowed for root, nor needed with the test's own page.
        .args(["--headless=new", "--no-sandbox", "--disable-gpu"])
        .args(["--disable-dev-shm-usage", "--no-first-run", "--mute-audio"])
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

/// The document that a browser has for `page`, without a proxy; nothing if it gets none. `before`
/// and `folder` are as in [`Chromium::start`].
///
/// # Panics
/// When the browser fails.
pub fn document(before: &[&str], folder: &Path, page: &str) -> String {
    let limit = TO_END.as_secs().to_string();
    let before = [before, &["timeout", limit.as_str()]].concat();
    let output = command(&before, folder)
        .args(["--no-proxy-server", "--dump-dom", page])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A running browser; it is ended when dropped.
#[derive(Debug)]
pub struct Chromium {
    child: Child,
    log: PathBuf,
}

impl Chromium {
    /// Starts it with `args` behind the command `before`, such as one that enters a namespace. Its
    /// profile and its log are in `folder`.
    ///
    /// # Panics
    /// When it does not start.
    pub fn start<A: AsRef<OsStr>>(
        before: &[&str],
        folder: &Path,
        args: impl IntoIterator<Item = A>,
    ) -> Self {
        Self::spawn(before, folder, args, |command, out| {
            command.stdin(Stdio::null()).stdout(out);
        })
    }

    fn spawn<A: AsRef<OsStr>>(
        before: &[&str],
        folder: &Path,
        args: impl IntoIterator<Item = A>,
        input_and_output: impl FnOnce(&mut Command, File),
    ) -> Self {
        let log = folder.join("chromium.log");
        let out = File::create(&log).unwrap();
        let mut command = command(before, folder);
        input_and_output(&mut command, out.try_clone().unwrap());
        let child = command
            .arg("--enable-logging=stderr")
            .args(args)
            .stderr(out)
            .spawn()
            .unwrap();
        Self { child, log }
    }

    /// Its exit status, if it has ended.
    ///
    /// # Panics
    /// When the process cannot be waited for.
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
        let id = self.child.id().to_string();
        let _ = Command::new("kill").arg(id).status();
        let deadline = Instant::now() + TO_END;
        while !thread::panicking() && Instant::now() < deadline {
            if self.child.try_wait().is_ok_and(|status| status.is_some()) {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        assert!(thread::panicking(), "Chromium does not end");
    }
}
