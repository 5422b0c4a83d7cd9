//! A network of one's own, and as many descriptors as there are.

use std::io::Write as _;
use std::process::Command;

use nix::sched::{CloneFlags, unshare};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::{getegid, geteuid};

/// Leaves the host's network, so that neither disturbs the other: all is on a loopback of its own,
/// which goes with the last process. Says where it is. Call it before there are threads.
pub fn own_network() -> &'static str {
    const HOST: &str = "the host's network";
    if unshare(CloneFlags::CLONE_NEWNET).is_err() && !as_root_of_nobody() {
        return HOST;
    }
    let up = Command::new("ip")
        .args(["link", "set", "lo", "up"])
        .status();
    match up {
        Ok(status) if status.success() => "a network namespace of its own",
        // Without an address nothing would run.
        _ => "a network namespace whose loopback does not come up (is `ip` installed?)",
    }
}

/// For ordinary users: root in a namespace in which they are alone.
fn as_root_of_nobody() -> bool {
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

/// Takes as many descriptors as the system gives, and says how many.
pub fn descriptors(wanted: u64) -> u64 {
    let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        return 1024;
    };
    // More than the hard limit is root's to take, and not every root's.
    if hard < wanted && setrlimit(Resource::RLIMIT_NOFILE, wanted, wanted).is_ok() {
        return wanted;
    }
    let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    hard
}
