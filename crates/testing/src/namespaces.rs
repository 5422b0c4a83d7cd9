//! Tests that need namespaces of their own.
//!
//! The test that cargo runs starts its binary again under `unshare`, with an ignored test, the
//! *role*. A role does nothing when it is started by hand on a host.

use std::os::fd::AsRawFd as _;
use std::process::Command;

use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, sendto, socket,
};

use crate::Need;

/// Environment variable that is set for a role.
const ROLE: &str = "MPBOND_TEST_ROLE";

/// A command `unshare` with new namespaces of these kinds (its own short options); `None`, and a
/// line on standard error, where they cannot be created.
pub fn unshare(namespaces: &str) -> Option<Command> {
    let args = [namespaces, "--kill-child"];
    let tried = Command::new("unshare").args(args).arg("true").output();
    if !tried.is_ok_and(|o| o.status.success()) {
        Need::Namespaces.is_missing(format_args!("unshare {namespaces} is not allowed here"));
        return None;
    }
    let mut command = Command::new("unshare");
    command.args(args);
    Some(command)
}

/// Runs the ignored test `role` in new namespaces, where they can be created; prints its output.
pub fn play(namespaces: &str, role: &str) {
    passes(run(namespaces, role));
}

/// The same up to three times, while the output of a role that fails has the word `disturbed`: the
/// error of a peer whose thread got no processor for a while.
pub fn play_again(namespaces: &str, role: &str, disturbed: &str) {
    let mut played = run(namespaces, role);
    for _ in 0..2 {
        match &played {
            Some((false, text)) if text.contains(disturbed) => eprintln!("{text}"),
            _ => break,
        }
        played = run(namespaces, role);
    }
    passes(played);
}

/// Whether a role succeeds in new namespaces, and its output; `None` where these cannot be created.
fn run(namespaces: &str, role: &str) -> Option<(bool, String)> {
    let output = unshare(namespaces)?
        .arg(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", role, "--nocapture"])
        .env(ROLE, "1")
        .env("RUST_BACKTRACE", "0")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    Some((output.status.success(), text.into_owned()))
}

/// Prints the output of a role, which has succeeded.
fn passes(played: Option<(bool, String)>) {
    let Some((succeeded, text)) = played else {
        return;
    };
    assert!(succeeded, "{text}");
    assert!(text.contains("1 passed"), "{text}");
    eprintln!("{text}");
}

/// Whether this process was started as a role.
pub fn is_called_for() -> bool {
    std::env::var_os(ROLE).is_some()
}

/// Runs lines of shell; returns their output.
///
/// # Panics
/// When one of them fails.
pub fn sh(lines: &str) -> String {
    let output = Command::new("sh").args(["-ec", lines]).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{lines}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

/// Has the kernel send an event of a device of this subsystem to the sockets of this network
/// namespace, as it does when a device changes (`uevent_net_rcv` in lib/kobject_uevent.c). Needs a
/// network namespace of one's own.
///
/// # Panics
/// When the kernel refuses it.
pub fn uevent(subsystem: &str) {
    let path = format!("/devices/test/{subsystem}/device");
    let text = format!("change@{path}\0ACTION=change\0DEVPATH={path}\0SUBSYSTEM={subsystem}\0");
    // A header of netlink(7): length, a type above those that the kernel has for itself, a request.
    let length = u32::try_from(16 + text.len()).unwrap();
    let mut message = length.to_ne_bytes().to_vec();
    message.extend([0x10_u16.to_ne_bytes(), 1_u16.to_ne_bytes()].concat());
    message.extend([0; 8]);
    message.extend(text.as_bytes());
    let socket = socket(
        AddressFamily::Netlink,
        SockType::Datagram,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::NetlinkKObjectUEvent,
    )
    .unwrap();
    let kernel = NetlinkAddr::new(0, 0);
    let sent = sendto(socket.as_raw_fd(), &message, &kernel, MsgFlags::empty());
    assert_eq!(sent.unwrap(), message.len());
}
