//! Isolation that leaves no traces.
//!
//! The lab runs its own command line a second time as the first process of
//! fresh mount, PID and network namespaces (and, for an ordinary user, a user
//! namespace in which it is root). When that process ends, by whatever means,
//! the kernel kills everything in its PID namespace, and with the last
//! process go all network namespaces, devices, rules and routes: nothing has
//! a name in the file system, so nothing needs cleaning up. When the outer
//! process ends first, even by SIGKILL, the inner one is killed with it.

use std::ffi::{CString, OsString};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use nix::mount::{MsFlags, mount};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill, sigprocmask};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, getegid, geteuid, getpid};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::{Doing, Error, Result};
use crate::sys::clone3;

/// Variable that marks the inner process: `life,answer,line`, three descriptor numbers.
const VARIABLE: &str = "MPBOND_LAB_INSIDE";

/// The inner process's side of the isolation.
pub struct Inside {
    scratch: PathBuf,
    answer: File,
    line: UnixStream,
    // Keeps the descriptor open for later checks.
    _life: OwnedFd,
}

impl Inside {
    /// Private folder in memory, which vanishes with the process.
    pub fn scratch(&self) -> &Path {
        &self.scratch
    }

    /// A connection to [`Outside::serve`] in the outer process.
    pub(crate) fn line(&self) -> &UnixStream {
        &self.line
    }

    /// Passes `bytes` to the outer process, as the result of [`rerun`].
    ///
    /// # Errors
    /// When memory runs out.
    pub fn answer(&mut self, bytes: &[u8]) -> Result<()> {
        self.answer.write_all(bytes).doing("cannot pass the result")
    }
}

/// Prepares this process if it is the inner one; `None` in the outer one.
///
/// # Errors
/// When the private mounts cannot be made.
pub fn inside() -> Result<Option<Inside>> {
    let Ok(text) = std::env::var(VARIABLE) else {
        return Ok(None);
    };
    if getpid() != Pid::from_raw(1) {
        return Ok(None); // a daemon that inherited the variable
    }
    let numbers: Vec<i32> = text.split(',').flat_map(str::parse).collect();
    let [life, answer, line] = numbers[..] else {
        return Err(Error::run(format!("{VARIABLE} is for the lab's own use")));
    };
    let life = clone3::inherited(life).doing("cannot take over the life line")?;
    let answer = clone3::inherited(answer).doing("cannot take over the answer file")?;
    let line = clone3::inherited(line).doing("cannot take over the line outside")?;

    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)
        .doing("cannot arrange to end with its parent")?;
    // The parent may have died before that call; then its end of the pipe is closed.
    let mut fds = [PollFd::new(life.as_fd(), PollFlags::POLLIN)];
    if poll(&mut fds, PollTimeout::ZERO).doing("cannot look at the life line")? != 0 {
        return Err(Error::run("the process that started the lab has ended"));
    }

    let none = None::<&str>;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)
        .doing("cannot make the mounts private")?;
    // In a container with parts of /proc hidden, a new mount is refused; the old one does, except
    // for the processor time of daemons.
    let quiet = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    let _ = mount(Some("proc"), "/proc", Some("proc"), quiet, none);
    let scratch = scratch_folder()?;
    let quiet = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    let options = Some("mode=0700");
    mount(Some("lab"), &scratch, Some("tmpfs"), quiet, options)
        .doing("cannot mount a private folder")?;
    Ok(Some(Inside {
        scratch,
        answer: File::from(answer),
        line: UnixStream::from(line),
        _life: life,
    }))
}

/// Runs `work` isolated. The outer process runs this program again with the same arguments, which
/// has to reach this call again; there, in the inner process, the call runs `work`, passes its
/// result to the outer process, and ends the process. `work` gets the private folder
/// ([`Inside::scratch`]).
///
/// # Errors
/// Errors of `work`; also when this machine allows no isolation.
pub fn isolated<T: Serialize + DeserializeOwned>(
    work: impl FnOnce(&Path) -> Result<T>,
) -> Result<T> {
    isolated_with(Outside::default(), |inside| work(inside.scratch()))
}

/// Tasks of the outer process meanwhile.
#[derive(Default)]
pub(crate) struct Outside {
    /// Whether Ctrl-C and Ctrl-\\ are left to a program inside, which gets them too, and do not end
    /// the lab.
    pub leave_interrupts: bool,
    /// Function that runs on a thread in the caller's own network, with the other end of
    /// [`Inside::line`], until the process ends.
    pub serve: Option<Box<dyn FnOnce(UnixStream) + Send>>,
}

/// As [`isolated`], with tasks for the outer process.
pub(crate) fn isolated_with<T: Serialize + DeserializeOwned>(
    outside: Outside,
    work: impl FnOnce(&Inside) -> Result<T>,
) -> Result<T> {
    if let Some(mut inside) = inside()? {
        let answer = match work(&inside) {
            Ok(result) => Answer::Done(result),
            Err(e) => Answer::Failed(e.exit_code(), e.to_string()),
        };
        let bytes = serde_json::to_vec(&answer)
            .map_err(|e| Error::run(format!("cannot pass the result: {e}")))?;
        inside.answer(&bytes)?;
        std::process::exit(0);
    }
    let (code, bytes) = rerun_with(std::env::args_os().skip(1), outside)?;
    match serde_json::from_slice(&bytes) {
        Ok(Answer::Done(result)) => Ok(result),
        Ok(Answer::Failed(2, text)) => Err(Error::Experiment(text)),
        Ok(Answer::Failed(3, text)) => Err(Error::Missing(text)),
        Ok(Answer::Failed(_, text)) => Err(Error::Run(text)),
        // The inner process has reported why on its standard error stream.
        Err(_) => Err(Error::run(format!("the lab ended with code {code}"))),
    }
}

/// Result that the inner process passes to the outer one.
#[derive(Serialize, Deserialize)]
enum Answer<T> {
    Done(T),
    /// Exit code and text of an error.
    Failed(u8, String),
}

/// Runs this program again, isolated, with `args` (without the program's name), and returns its
/// exit code and the bytes passed to [`Inside::answer`].
///
/// SIGINT, SIGTERM, SIGHUP and SIGQUIT kill the inner process with all it started, and then this
/// one, as if they had not been caught.
///
/// # Errors
/// When this machine allows the user no namespaces, with the remedy.
pub fn rerun(args: impl IntoIterator<Item = OsString>) -> Result<(i32, Vec<u8>)> {
    rerun_with(args, Outside::default())
}

fn rerun_with(
    args: impl IntoIterator<Item = OsString>,
    outside: Outside,
) -> Result<(i32, Vec<u8>)> {
    match rerun_until_ended(args, outside)? {
        Ended::Exit(code, answer) => Ok((code, answer)),
        Ended::Interrupted(signal) => {
            let _ = nix::sys::signal::raise(signal);
            Err(Error::run(format!("interrupted by {signal}")))
        }
    }
}

enum Ended {
    Exit(i32, Vec<u8>),
    Interrupted(Signal),
}

fn rerun_until_ended(args: impl IntoIterator<Item = OsString>, outside: Outside) -> Result<Ended> {
    let (life_read, life_write) =
        nix::unistd::pipe2(OFlag::O_CLOEXEC).doing("cannot make a pipe")?;
    let answer =
        memfd_create("lab-answer", MFdFlags::MFD_CLOEXEC).doing("cannot make the answer file")?;
    let (line, line_outside) = UnixStream::pair().doing("cannot make a socket pair")?;
    let mut reader = File::from(answer.try_clone().doing("cannot copy a descriptor")?);

    let exe = std::env::current_exe().doing("cannot find its own executable")?;
    let name = std::env::args_os()
        .next()
        .unwrap_or_else(|| exe.clone().into());
    let (life_fd, answer_fd) = (life_read.as_raw_fd(), answer.as_raw_fd());
    let mark = format!("{life_fd},{answer_fd},{}", line.as_raw_fd());
    let mut env: Vec<CString> = Vec::new();
    for (key, value) in std::env::vars_os().filter(|(k, _)| k != VARIABLE) {
        env.push(c_string(&[key.as_bytes(), b"=", value.as_bytes()])?);
    }
    env.push(c_string(&[VARIABLE.as_bytes(), b"=", mark.as_bytes()])?);

    let mut program = clone3::Program {
        exe: c_string(&[exe.as_os_str().as_bytes()])?,
        args: std::iter::once(name)
            .chain(args)
            .map(|a| c_string(&[a.as_bytes()]))
            .collect::<Result<_>>()?,
        env,
        namespaces: libc::CLONE_NEWNS | libc::CLONE_NEWPID | libc::CLONE_NEWNET,
        writes: Vec::new(),
        inherit: vec![life_read, answer, line.into()],
    };

    // Blocked instead of handled: the loop below waits for them.
    let mut awaited = SigSet::empty();
    for signal in [
        Signal::SIGINT,
        Signal::SIGTERM,
        Signal::SIGHUP,
        Signal::SIGQUIT,
        Signal::SIGCHLD,
    ] {
        awaited.add(signal);
    }
    let mut before = SigSet::empty();
    sigprocmask(SigmaskHow::SIG_BLOCK, Some(&awaited), Some(&mut before))
        .doing("cannot block signals")?;
    let ended = start(&mut program).and_then(|pid| {
        if let Some(serve) = outside.serve {
            // Signals stay blocked there and arrive in the loop below.
            std::thread::Builder::new()
                .name("outside".into())
                .spawn(move || serve(line_outside))
                .doing("cannot start a thread")?;
        }
        wait_for(pid, &awaited, outside.leave_interrupts)
    });
    let _ = sigprocmask(SigmaskHow::SIG_SETMASK, Some(&before), None);
    drop((life_write, program));

    Ok(match ended? {
        Ok(code) => {
            let mut bytes = Vec::new();
            reader
                .seek(SeekFrom::Start(0))
                .and_then(|_| reader.read_to_end(&mut bytes))
                .doing("cannot read the result")?;
            Ended::Exit(code, bytes)
        }
        Err(signal) => Ended::Interrupted(signal),
    })
}

/// Starts as root without a user namespace; otherwise, or where root lacks the privilege, in one
/// that maps the caller to root.
fn start(program: &mut clone3::Program) -> Result<Pid> {
    if geteuid().is_root() {
        match clone3::spawn(program) {
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {}
            other => return other.doing("cannot isolate the lab"),
        }
    }
    program.namespaces |= libc::CLONE_NEWUSER;
    program.writes = vec![
        (c"/proc/self/setgroups".into(), c"deny".into()),
        (
            c"/proc/self/uid_map".into(),
            c_string(&[format!("0 {} 1", geteuid()).as_bytes()])?,
        ),
        (
            c"/proc/self/gid_map".into(),
            c_string(&[format!("0 {} 1", getegid()).as_bytes()])?,
        ),
    ];
    clone3::spawn(program).map_err(|e| {
        Error::Missing(format!(
            "cannot isolate the lab ({e}): run it as root, or allow ordinary users \
             namespaces: sysctl -w kernel.unprivileged_userns_clone=1 (Debian), \
             kernel.apparmor_restrict_unprivileged_userns=0 (Ubuntu), \
             user.max_user_namespaces=10000"
        ))
    })
}

/// Waits for the end of the inner process, or kills it after a signal.
fn wait_for(pid: Pid, awaited: &SigSet, leave_interrupts: bool) -> Result<Result<i32, Signal>> {
    let mut interrupted = None;
    loop {
        match waitpid(pid, Some(WaitPidFlag::WNOHANG)).doing("cannot wait for the lab")? {
            WaitStatus::Exited(_, code) => return Ok(interrupted.map_or(Ok(code), Err)),
            WaitStatus::Signaled(_, signal, _) => {
                return Ok(Err(interrupted.unwrap_or(signal)));
            }
            _ => {}
        }
        match awaited.wait().doing("cannot wait for signals")? {
            Signal::SIGCHLD => {}
            Signal::SIGINT | Signal::SIGQUIT if leave_interrupts => {}
            signal => {
                interrupted = Some(signal);
                let _ = kill(pid, Signal::SIGKILL);
            }
        }
    }
}

/// Mount point of the private folder: an existing empty folder, so that nothing is hidden and
/// nothing remains. Where there is none, a new folder, which remains empty.
fn scratch_folder() -> Result<PathBuf> {
    const USUALLY_EMPTY: [&str; 6] = [
        "/mnt",
        "/media",
        "/srv",
        "/var/opt",
        "/var/local",
        "/dev/mqueue",
    ];
    let is_empty = |folder: &&Path| {
        std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none())
    };
    if let Some(folder) = USUALLY_EMPTY
        .map(Path::new)
        .iter()
        .copied()
        .find(|f| is_empty(f))
    {
        return Ok(folder.to_owned());
    }
    let template = std::env::temp_dir().join("mpbond-lab-XXXXXX");
    nix::unistd::mkdtemp(&template).at("make a folder like", &template)
}

fn c_string(parts: &[&[u8]]) -> Result<CString> {
    CString::new(parts.concat())
        .map_err(|_| Error::run("an argument or variable contains a zero byte"))
}

/// Removes the mark of the inner process from the environment of `command`.
pub(crate) fn unmark(command: &mut std::process::Command) {
    command.env_remove(VARIABLE);
}
