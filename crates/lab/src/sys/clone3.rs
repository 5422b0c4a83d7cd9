//! `clone3(2)`: a copy of the running program in namespaces of its own.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use nix::unistd::Pid;

/// Argument of [`spawn`], prepared beforehand because nothing may allocate between the call and the
/// exec.
pub(crate) struct Program {
    /// The file to execute.
    pub exe: CString,
    /// Its arguments, the program name first.
    pub args: Vec<CString>,
    /// Its whole environment, `NAME=value`.
    pub env: Vec<CString>,
    /// Namespaces to make: `libc::CLONE_NEW*`.
    pub namespaces: libc::c_int,
    /// Files to write before anything else, such as `/proc/self/uid_map`.
    pub writes: Vec<(CString, CString)>,
    /// Descriptors that the program inherits under the same numbers.
    pub inherit: Vec<OwnedFd>,
}

/// A file of [`Program::writes`] that could not be written, or the exec.
#[repr(u8)]
#[derive(Clone, Copy)]
enum Step {
    Write = 1,
    Exec = 2,
}

/// Starts `program` as the first process of its new namespaces.
///
/// # Errors
/// Errors of `clone3`, of a write, or of `execve`; no process remains then.
pub(crate) fn spawn(program: &Program) -> io::Result<Pid> {
    let pointers = |list: &[CString]| {
        list.iter()
            .map(|s| s.as_ptr())
            .chain([std::ptr::null()])
            .collect::<Vec<_>>()
    };
    let (argv, envp) = (pointers(&program.args), pointers(&program.env));
    let (report_read, report_write) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC)?;

    // SAFETY: an all-zero `clone_args` asks for nothing.
    let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
    args.flags = program.namespaces as u64;
    args.exit_signal = libc::SIGCHLD as u64;
    // SAFETY: without CLONE_VM the child has a copy of this memory, as after
    // fork; `child` below makes async-signal-safe calls only and never
    // returns, so locks held by other threads do not matter.
    let pid = unsafe { libc::syscall(libc::SYS_clone3, &args, size_of_val(&args)) };
    match pid {
        -1 => return Err(io::Error::last_os_error()),
        0 => child(program, &argv, &envp, &report_write),
        _ => drop(report_write),
    }
    let pid = Pid::from_raw(pid as libc::pid_t);

    let mut report = [0u8; 5];
    let got = nix::unistd::read(&report_read, &mut report)?;
    if got < report.len() {
        return Ok(pid); // closed by a successful exec
    }
    let _ = nix::sys::wait::waitpid(pid, None);
    let [step, errno @ ..] = report;
    let errno = io::Error::from_raw_os_error(i32::from_ne_bytes(errno));
    let what = match step {
        s if s == Step::Exec as u8 => "cannot start itself in new namespaces",
        _ => "cannot become root of a user namespace",
    };
    Err(io::Error::new(errno.kind(), format!("{what}: {errno}")))
}

/// The child's side: system calls on prepared memory only.
fn child(
    program: &Program,
    argv: &[*const libc::c_char],
    envp: &[*const libc::c_char],
    report: &OwnedFd,
) -> ! {
    let fail = |step: Step| -> ! {
        let errno = nix::errno::Errno::last_raw().to_ne_bytes();
        let text = [step as u8, errno[0], errno[1], errno[2], errno[3]];
        // SAFETY: writes five bytes of a local array, then ends the process.
        unsafe {
            libc::write(report.as_raw_fd(), text.as_ptr().cast(), text.len());
            libc::_exit(127)
        }
    };
    for (path, text) in &program.writes {
        if !write_file(path, text) {
            fail(Step::Write);
        }
    }
    // SAFETY: plain system calls; every pointer outlives them, and both lists
    // end in a null pointer.
    unsafe {
        for fd in &program.inherit {
            libc::fcntl(fd.as_raw_fd(), libc::F_SETFD, 0);
        }
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
        libc::execve(program.exe.as_ptr(), argv.as_ptr(), envp.as_ptr());
    }
    fail(Step::Exec)
}

fn write_file(path: &CStr, text: &CStr) -> bool {
    let bytes = text.to_bytes();
    // SAFETY: system calls on C strings that outlive them.
    unsafe {
        let fd = libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        if fd < 0 {
            return false;
        }
        let written = libc::write(fd, bytes.as_ptr().cast(), bytes.len());
        libc::close(fd);
        written == bytes.len() as isize
    }
}

/// Takes over a descriptor that the parent process announced by number.
///
/// # Errors
/// `EBADF` where no such descriptor is open.
pub(crate) fn inherited(number: i32) -> io::Result<OwnedFd> {
    // SAFETY: duplicating checks that the number is open; the duplicate is
    // owned by nobody else. The original stays open and is closed below.
    unsafe {
        let original = BorrowedFd::borrow_raw(number);
        let owned = original.try_clone_to_owned()?;
        libc::close(number);
        Ok(owned)
    }
}
