//! Programs of a folder, run for an event.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::{Pid, geteuid};
use tracing::warn;

use super::follow::Event;

/// Time after which a program is killed: events wait for it.
const LIMIT: Duration = Duration::from_secs(60);

/// Interval of looks whether a program has ended.
const LOOK: Duration = Duration::from_millis(20);

/// A folder of programs.
pub(super) struct Folder(PathBuf);

impl Folder {
    /// A folder that nobody else can write to.
    ///
    /// # Errors
    /// It is none, or others can write to it.
    pub(super) fn new(path: PathBuf) -> Result<Self, String> {
        let wrong = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
        let meta = fs::metadata(&path).map_err(|e| wrong(&e))?;
        if !meta.is_dir() {
            return Err(wrong(&"not a folder"));
        }
        check(&meta).map_err(|e| wrong(&e))?;
        Ok(Self(path))
    }

    /// Runs all programs, one after another. A failure is logged, and the others are run.
    pub(super) fn run(&self, event: &Event) {
        let programs = match self.programs() {
            Ok(programs) => programs,
            Err(error) => return warn!(%error, "{}", self.0.display()),
        };
        for program in programs {
            let failure = match run(&program, event, LIMIT) {
                Ok(status) if status.success() => continue,
                Ok(status) => status.to_string(),
                Err(e) => e.to_string(),
            };
            warn!(event = event.kind, failure, "{}", program.display());
        }
    }

    /// Executable files, in the order of their names.
    fn programs(&self) -> io::Result<Vec<PathBuf>> {
        let mut programs = Vec::new();
        for entry in fs::read_dir(&self.0)? {
            let path = entry?.path();
            let meta = match fs::metadata(&path) {
                Ok(meta) => meta,
                // It has gone, or is a link to nothing.
                Err(error) => {
                    warn!(%error, "{} is left out", path.display());
                    continue;
                }
            };
            // Hidden files and copies of editors are none.
            let name = path.file_name().unwrap_or_default().as_encoded_bytes();
            let is_hidden = name.starts_with(b".") || name.ends_with(b"~");
            if !meta.is_file() || meta.mode() & 0o111 == 0 || is_hidden {
                continue;
            }
            match check(&meta) {
                Ok(()) => programs.push(path),
                Err(why) => warn!(why, "{} is left out", path.display()),
            }
        }
        programs.sort_unstable();
        Ok(programs)
    }
}

/// Checks that nobody but root and this user can change a file.
fn check(meta: &Metadata) -> Result<(), &'static str> {
    if meta.uid() != 0 && meta.uid() != geteuid().as_raw() {
        return Err("it belongs to another user: chown it to root");
    }
    if meta.mode() & 0o022 != 0 {
        return Err("others can write to it: chmod go-w");
    }
    Ok(())
}

/// Runs a program to its end, or kills it with the programs that it has started.
fn run(program: &Path, event: &Event, limit: Duration) -> io::Result<ExitStatus> {
    // Texts of peers may contain what no argument may.
    let plain = |text: &str| text.replace('\0', "?");
    let (kind, link) = (plain(&event.kind), plain(&event.link));
    let mut child = Command::new(program)
        .args([&kind, &link])
        .env("MPBOND_EVENT", &kind)
        .env("MPBOND_LINK", &link)
        .env("MPBOND_REASON", plain(&event.reason))
        .env("MPBOND_ID", event.id.to_string())
        .stdin(Stdio::null())
        .process_group(0)
        .spawn()?;
    end(&mut child, limit)
}

fn end(child: &mut Child, limit: Duration) -> io::Result<ExitStatus> {
    let until = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if Instant::now() >= until {
            let group = i32::try_from(child.id()).map_err(io::Error::other)?;
            killpg(Pid::from_raw(group), Signal::SIGKILL)?;
            child.wait()?;
            return Err(io::Error::other("it took too long, and was killed"));
        }
        sleep(LOOK);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn write(folder: &Path, name: &str, mode: u32, text: &str) -> PathBuf {
        let path = folder.join(name);
        mpbond_testing::write_script(&path, text);
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    #[test]
    fn programs_are_run_in_their_order_with_the_event() {
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("out");
        let echo = format!(
            "#!/bin/sh\necho \"$0 $1 $2 $MPBOND_EVENT $MPBOND_LINK $MPBOND_REASON $MPBOND_ID\" \
             >>{}\n",
            to.display()
        );
        let wrong = "#!/bin/sh\nexit 3\n";
        write(folder.path(), "20-b", 0o755, &echo);
        write(folder.path(), "10-a", 0o700, &echo);
        write(folder.path(), "15-fails", 0o755, wrong);
        std::os::unix::fs::symlink("/nowhere/x", folder.path().join("05-gone")).unwrap();
        for (name, mode) in [
            ("30-text", 0o644),
            ("40-open", 0o777),
            (".x", 0o755),
            ("50~", 0o755),
        ] {
            write(folder.path(), name, mode, &echo);
        }
        let event = Event {
            id: 7,
            kind: "link.down".into(),
            link: "$(touch x); a b".into(),
            reason: "g\0one".into(),
            ..Event::default()
        };
        Folder::new(folder.path().to_owned()).unwrap().run(&event);
        let line = |name: &str| {
            let program = folder.path().join(name);
            format!(
                "{} link.down $(touch x); a b link.down $(touch x); a b g?one 7\n",
                program.display()
            )
        };
        let text = fs::read_to_string(to).unwrap();
        assert_eq!(text, line("10-a") + &line("20-b"));
    }

    #[test]
    fn a_program_that_takes_too_long_is_killed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("child");
        let text = format!("#!/bin/sh\nsleep 60 &\necho $! >{}\nwait\n", file.display());
        let program = write(folder.path(), "slow", 0o755, &text);
        let begun = Instant::now();
        // Long enough for a shell on a busy machine to start its program.
        let error = run(&program, &Event::default(), Duration::from_secs(4)).unwrap_err();
        assert_eq!(error.to_string(), "it took too long, and was killed");
        assert!(begun.elapsed() < Duration::from_secs(30));
        // With the program that it runs, which nobody may have waited for yet.
        let child = fs::read_to_string(file).unwrap();
        assert!(child.ends_with('\n'), "no program was started: {child:?}");
        let runs = || {
            let stat = fs::read_to_string(format!("/proc/{}/stat", child.trim_end()));
            stat.is_ok_and(|stat| !stat.contains(") Z "))
        };
        while runs() {
            assert!(
                begun.elapsed() < Duration::from_secs(30),
                "its program runs on"
            );
            sleep(LOOK);
        }
    }

    #[test]
    fn a_folder_that_others_can_write_to_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_owned();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o775)).unwrap();
        let refused = |path: &Path| Folder::new(path.to_owned()).err().unwrap();
        assert!(refused(&path).ends_with("others can write to it: chmod go-w"));
        assert!(refused(&path.join("none")).contains("No such file"));
        let file = write(&path, "file", 0o644, "");
        assert!(refused(&file).ends_with("not a folder"));
    }
}
