//! A network namespace for the run, and the limit of descriptors.

use std::io::Write as _;
use std::process::Command;

use nix::sched::{CloneFlags, unshare};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::{getegid, geteuid};

/// Moves this process to a network namespace of its own, which ends with its last process. Returns
/// a description of the network in use. Must be called before there are threads.
pub fn own_network() -> &'static str {
    const HOST: &str = "the host's network";
    if unshare(CloneFlags::CLONE_NEWNET).is_err() && !in_user_namespace() {
        return HOST;
    }
    let up = Command::new("ip")
        .args(["link", "set", "lo", "up"])
        .status();
    match up {
        Ok(status) if status.success() => "a network namespace of its own",
        // The loopback device has no address until it is up.
        _ => "a network namespace whose loopback does not come up (is `ip` installed?)",
    }
}

/// For users other than root: creates a user namespace, in which they are root.
fn in_user_namespace() -> bool {
    let (user, group) = (geteuid(), getegid());
    if unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET).is_err() {
        return false;
    }
    let write = |file: &str, text: String| {
        let mut file = std::fs::File::options().write(true).open(file)?;
        file.write_all(text.as_bytes())
    };
    write("/proc/self/setgroups", "deny".to_owned()).is_ok()
        && write("/proc/self/uid_map", format!("0 {user} 1")).is_ok()
        && write("/proc/self/gid_map", format!("0 {group} 1")).is_ok()
}

/// Raises the limit of descriptors towards `wanted`; returns the limit reached.
pub fn descriptors(wanted: u64) -> u64 {
    let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        return 1024;
    };
    // Only root may exceed the hard limit, and not in every namespace.
    if hard < wanted && setrlimit(Resource::RLIMIT_NOFILE, wanted, wanted).is_ok() {
        return wanted;
    }
    let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    hard
}
