//! Checks of this machine, without any network traffic.

use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use mpbond::config::{EnrolmentBook, KillSwitch, Role, TrustFile, folder_of};
use mpbond::reload::modified_s;
use mpbond::status::Status;
use mpbond_intercept::rules::kill_switch::is_installed;
use mpbond_intercept::rules::{find_stale, remove_stale};
use mpbond_net::{DeviceId, Identity};
use nix::sys::resource::{Resource, getrlimit, rlim_t};
use nix::unistd::geteuid;

use super::super::hints::{reload, start, sudo_for, word};
use super::finding::Findings;

/// Recommended number of descriptors: every stream is a socket, of which a session has up to
/// 16,384.
const FEW_DESCRIPTORS: rlim_t = 20_000;
/// Error of a time as a number of JSON, in seconds.
const ROUNDING_S: f64 = 1e-6;
/// Number of CAP_NET_ADMIN (linux/capability.h).
const CAP_NET_ADMIN: u32 = 12;

pub(super) fn daemon(findings: &mut Findings, running: bool, socket: &Path) {
    let socket = socket.display();
    if running {
        findings.ok("daemon", format!("runs and answers at {socket}"));
    } else {
        findings.ok("daemon", format!("is not running ({socket})"));
    }
}

/// Checks that the daemon that runs has read the configuration as it is now.
pub(super) fn is_read(findings: &mut Findings, role: Role, file: &Path, status: Option<&Status>) {
    let Some(status) = status else {
        return;
    };
    if let Some(theirs) = status.config_file.as_deref().map(Path::new)
        && !is_same(theirs, file)
    {
        let (theirs, file_name) = (word(theirs), file.display());
        findings.warn(
            "configuration",
            format!("the daemon that runs has {theirs}, and not {file_name}, which is checked"),
            format!(
                "`{}mpbond doctor {role} --config {theirs}` checks that one; move the other away \
                 if it is not used",
                sudo_for(file)
            ),
        );
        return;
    }
    if let (Some(read), Some(present)) = (status.config_modified_s, modified_s(file))
        && (read - present).abs() > ROUNDING_S
    {
        let file_name = file.display();
        findings.warn(
            "configuration",
            format!("{file_name} has changed since the daemon that runs has read it"),
            reload(role, file),
        );
    }
    if !status.needs_restart.is_empty() {
        let keys = status.needs_restart.join(", ");
        findings.warn(
            "configuration",
            format!("changes of {keys} are not in force yet"),
            start(role, file, true),
        );
    }
}

/// Whether two paths are of one file.
fn is_same(one: &Path, other: &Path) -> bool {
    let whole = |file: &Path| std::fs::canonicalize(file).ok();
    match (whole(one), whole(other)) {
        (Some(one), Some(other)) => one == other,
        // In a folder that this user cannot enter.
        _ => one == other,
    }
}

/// Checks that the daemon that runs can keep its account.
pub(super) fn account(findings: &mut Findings, status: Option<&Status>) {
    if let Some(problem) = status.and_then(|status| status.account_problem.as_ref()) {
        findings.fail(
            "account",
            problem,
            "free space on its disk, or make its folder writable for the daemon",
        );
    }
}

/// Checks that the user who owns the folder of the identity, as whom a service runs, can read the
/// files that the daemon keeps there.
pub(super) fn owners(findings: &mut Findings, identity: &Path) {
    let folder = folder_of(identity);
    let Ok((owner, group)) = std::fs::metadata(folder).map(|meta| (meta.uid(), meta.gid())) else {
        return;
    };
    let others = ["pem", "trusted", "enrol", "usage", "budget"].map(|e| identity.with_extension(e));
    for file in others {
        let Ok(meta) = std::fs::metadata(&file) else {
            continue;
        };
        let mode = meta.permissions().mode();
        let is_readable = mode & 0o004 != 0 || (mode & 0o040 != 0 && meta.gid() == group);
        // Root reads all files.
        if owner != 0 && meta.uid() != owner && !is_readable {
            let (of, folder) = (word(&file), word(folder));
            findings.fail(
                "owner",
                format!(
                    "{} belongs to user {}, and its folder to user {owner}, who cannot read it",
                    file.display(),
                    meta.uid()
                ),
                format!("`{}chown --reference={folder} {of}`", sudo_for(&file)),
            );
        }
    }
}

/// Checks that the file of the proxy's tokens can be read.
pub(super) fn tokens(findings: &mut Findings, identity: &Path) {
    let book = EnrolmentBook::beside(identity);
    if let Err(e) = book.is_open(0) {
        findings.fail("tokens", e.to_string(), "until then no token is accepted");
    }
}

/// The device's identity, if it has a valid one.
pub(super) fn identity(findings: &mut Findings, file: &Path) -> Option<Identity> {
    if !file.exists() {
        findings.warn(
            "identity",
            format!("{} is not there yet", file.display()),
            format!(
                "the daemon makes it when it first starts; \
                 `{}mpbond id --create --identity {}` does now",
                sudo_for(file),
                word(file)
            ),
        );
        return None;
    }
    match Identity::load(file) {
        Ok(identity) => {
            findings.ok("identity", identity.id().to_string());
            Some(identity)
        }
        Err(e) => {
            findings.fail(
                "identity",
                e.to_string(),
                "without its key the device cannot say who it is",
            );
            None
        }
    }
}

/// Checks that some device may connect.
pub(super) fn trusted(
    findings: &mut Findings,
    role: Role,
    identity: &Path,
    configured: &[DeviceId],
) {
    let file = TrustFile::beside(identity);
    match file.devices() {
        Err(e) => findings.fail("trust", e.to_string(), "repair the line, or remove it"),
        Ok(devices) if devices.is_empty() && configured.is_empty() => findings.warn(
            "trust",
            "no device is trusted, so none can connect",
            match role {
                Role::Proxy => format!(
                    "`{}` makes a token for a primary",
                    findings.command("proxy enrol")
                ),
                _ => format!("`{}` here and on the primary lets it in", findings.pair()),
            },
        ),
        Ok(devices) => {
            let count = devices.len() + configured.len();
            findings.ok("trust", format!("{count} may connect"));
        }
    }
    if let Ok(meta) = std::fs::metadata(file.path())
        && meta.permissions().mode() & 0o022 != 0
    {
        findings.fail(
            "trust",
            format!("others may write to {}", file.path().display()),
            format!("`{}chmod 600 {}`", sudo_for(file.path()), word(file.path())),
        );
    }
}

/// Checks that the kernel has congestion control `name`, and lets a daemon choose it. `running`:
/// the daemon runs, perhaps as another user with other rights.
pub(super) fn congestion(findings: &mut Findings, name: &str, running: bool) {
    let list = |which: &str| {
        std::fs::read_to_string(format!("/proc/sys/net/ipv4/tcp_{which}_congestion_control"))
            .unwrap_or_default()
    };
    let has = |list: &str| list.split_whitespace().any(|n| n == name);
    let (available, allowed) = (list("available"), list("allowed"));
    if !has(&available) {
        findings.fail(
            "congestion",
            format!(
                "this kernel has no \"{name}\" loaded; it has {}",
                available.trim()
            ),
            format!("`sudo modprobe tcp_{name}`, or choose another one"),
        );
    } else if !has(&allowed) && !may(CAP_NET_ADMIN) && running {
        let what = format!("the right to choose \"{name}\"");
        findings.skip(
            "congestion",
            &what,
            "the daemon that runs may be another user's",
        );
    } else if !has(&allowed) && !may(CAP_NET_ADMIN) {
        findings.fail(
            "congestion",
            format!("\"{name}\" is for root only"),
            format!(
                "`sudo sysctl net.ipv4.tcp_allowed_congestion_control=\"{} {name}\"`",
                allowed.trim()
            ),
        );
    } else {
        findings.ok("congestion", name);
    }
}

/// Warns of a listener without authentication (a front without credentials, metrics) that other
/// hosts can reach.
pub(super) fn only_local(findings: &mut Findings, name: &str, address: SocketAddr) {
    let inside = match address.ip() {
        IpAddr::V4(ip) => ip.is_loopback() || ip.is_private() || ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_loopback() || ip.is_unique_local() || ip.is_unicast_link_local(),
    };
    if !inside {
        findings.warn(
            name,
            format!("{address} can be reached by other hosts, without authentication"),
            "listen on 127.0.0.1, unless a firewall keeps others out",
        );
    }
}

/// Checks the needs of transparent interception.
pub(super) fn interception(findings: &mut Findings, running: bool) {
    let check = "transparent";
    if running && !may(CAP_NET_ADMIN) {
        let what = "the right to write the kernel's rules";
        findings.skip(check, what, "the primary that runs may be another user's");
    } else if !may(CAP_NET_ADMIN) {
        findings.fail(
            check,
            "the kernel's rules are for root only",
            "run the primary as root or with CAP_NET_ADMIN, or use socks5 or http instead",
        );
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/sbin", "/sbin"].map(Into::into);
    let nft = std::env::split_paths(&folders)
        .chain(usual)
        .map(|folder| folder.join("nft"))
        .find(|program| program.is_file());
    match nft {
        Some(program) => findings.ok(check, format!("nft is {}", program.display())),
        None => findings.fail(
            check,
            "nft is not installed",
            "`sudo apt-get install nftables`, or use socks5 or http instead",
        ),
    }
}

/// Checks that the kill switch is in the state that the configuration asks for.
pub(super) fn kill_switch(findings: &mut Findings, configured: KillSwitch, running: bool) {
    let check = "kill switch";
    // Without the right to list rules nothing is known about them.
    let Ok(installed) = is_installed() else {
        return;
    };
    let install = findings.command("kill-switch on");
    match (installed, configured) {
        (true, KillSwitch::Off) => findings.warn(
            check,
            "on, though the configuration has none: applications have no network while no primary \
             runs",
            "`sudo mpbond kill-switch off` removes it",
        ),
        (true, _) if running => findings.ok(check, "on"),
        (true, _) => findings.warn(
            check,
            "on, and the primary does not run: applications have no network",
            "start it, or `sudo mpbond kill-switch off`",
        ),
        (false, KillSwitch::Off) => {}
        (false, _) if running => findings.fail(
            check,
            "the configuration has one, and the kernel does not",
            format!("restart the primary, or `{install}`"),
        ),
        (false, _) => findings.warn(
            check,
            "off until the primary starts: applications reach the network directly",
            format!("`{install}` installs it now"),
        ),
    }
}

/// Checks for interception rules of dead primaries.
pub(super) fn left_overs(findings: &mut Findings, clean: bool) {
    let check = "rules";
    let found = match clean {
        true => remove_stale(),
        false => find_stale(),
    };
    let found = match found {
        Ok(found) => found,
        Err(e) if clean => {
            return findings.fail(check, format!("not cleaned: {e}"), "run it as root");
        }
        // Without the right to list rules there is none to make them either.
        Err(_) => return,
    };
    let what = format!(
        "{} nft tables and {} routing rules of a primary that was killed",
        found.tables.len(),
        found.routing_rules
    );
    match (found.is_empty(), clean) {
        (true, _) => findings.ok(check, "nothing is left of earlier runs"),
        (false, true) => findings.ok(check, format!("removed {what}")),
        (false, false) => findings.warn(
            check,
            format!("{what} are left"),
            format!(
                "`{}` removes them, and so does the primary's next start",
                findings.command("doctor primary --clean")
            ),
        ),
    }
}

/// Checks the number of connections that a proxy can have.
pub(super) fn descriptors(findings: &mut Findings) {
    // A daemon takes its own hard limit, which is that of this process where both are started from
    // one shell; a systemd unit sets another one.
    let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        return;
    };
    if hard < FEW_DESCRIPTORS {
        findings.warn(
            "descriptors",
            format!(
                "{hard} open files at most for a daemon that is started from this shell: about as many \
                 connections"
            ),
            "`ulimit -n 524288` as root before it starts; nothing if it is started by a systemd unit \
             with LimitNOFILE=524288",
        );
    } else {
        findings.ok("descriptors", format!("{hard} open files"));
    }
}

/// Whether this process has a capability.
fn may(capability: u32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    match effective_capabilities(&status) {
        Some(mask) => mask & (1 << capability) != 0,
        None => geteuid().is_root(),
    }
}

fn effective_capabilities(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|l| l.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::doctor::finding::Verdict;

    #[test]
    fn an_identity_that_others_may_read_fails() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("identity.pem");
        let mut findings = Findings::default();
        assert!(identity(&mut findings, &file).is_none());
        assert!(findings.any(Verdict::Warn) && !findings.any(Verdict::Fail));
        Identity::load_or_create(&file).unwrap();
        assert!(identity(&mut Findings::default(), &file).is_some());
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        let mut findings = Findings::default();
        assert!(identity(&mut findings, &file).is_none());
        assert!(
            findings.to_text().contains("chmod 600"),
            "{}",
            findings.to_text()
        );
    }

    #[test]
    fn fronts_open_to_all_hosts_are_reported() {
        for (address, open) in [
            ("127.0.0.1:1080", false),
            ("192.168.7.1:1080", false),
            ("[::1]:1080", false),
            ("0.0.0.0:1080", true),
            ("198.51.100.7:1080", true),
        ] {
            let mut findings = Findings::default();
            only_local(&mut findings, "socks5", address.parse().unwrap());
            assert_eq!(findings.any(Verdict::Warn), open, "{address}");
        }
    }

    #[test]
    fn capabilities_are_read() {
        let text = "Name:\tx\nCapEff:\t0000000000001000\n";
        assert_eq!(effective_capabilities(text), Some(1 << CAP_NET_ADMIN));
        assert_eq!(effective_capabilities("CapEff:\tzz\n"), None);
    }
}
