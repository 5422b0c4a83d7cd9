//! Role of the device that is set up: by options, or by the first question.

use std::fs::DirEntry;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::ffi::OsStrExt as _;

use mpbond::config::{Role, config_file};
use mpbond_command::Failure;
use mpbond_net::dest::DestinationPolicy;

use super::super::enrol::outward;
use super::super::pair::Errand;
use super::args::SetupArgs;
use super::primary;
use super::questions::Questions;

/// What the question is about.
const CHOICES: &str = "\
1  laptop: uses its own links and those of other devices (primary)
2  phone or second device: lends its link (helper)
3  server: joins the traffic of all links (proxy)
Number, or on the laptop the token that the server shows";

/// The role, and a device to pair with where its token was the answer.
pub(super) fn find(
    args: &SetupArgs,
    questions: &Questions,
) -> Result<(Role, Option<Errand>), Failure> {
    if let Some(name) = &args.role
        && let Some(role) = Role::ALL.into_iter().find(|r| r.name() == name)
    {
        return Ok((role, None));
    }
    if !args.with.is_empty() {
        return Ok((Role::Primary, None));
    }
    let usual = usual();
    let default = usual.map_or("", |role| match role {
        Role::Primary => " [1]",
        Role::Helper => " [2]",
        Role::Proxy => " [3]",
    });
    let question = format!("{CHOICES}{default}");
    questions.ask(&question, "--role primary, helper or proxy", |answer| {
        match (answer.to_ascii_lowercase().as_str(), usual) {
            ("", Some(role)) => Ok((role, None)),
            ("1" | "laptop" | "primary", _) => Ok((Role::Primary, None)),
            ("2" | "phone" | "helper", _) => Ok((Role::Helper, None)),
            ("3" | "server" | "proxy", _) => Ok((Role::Proxy, None)),
            // A single word that is no token is a wrong number.
            _ if !answer.contains(' ') && !answer.starts_with("MPBOND:") => {
                Err("1, 2 or 3, or a token, which begins with MPBOND:ENROL/".to_owned())
            }
            _ => primary::errand(answer).map(|errand| (Role::Primary, Some(errand))),
        }
    })
}

/// The role that this machine has, or most probably will have.
fn usual() -> Option<Role> {
    let mut set_up = Role::ALL.into_iter().filter(|r| config_file(*r).exists());
    match (set_up.next(), set_up.next()) {
        (Some(role), None) => Some(role),
        (Some(_), Some(_)) => None,
        (None, _) => is_server().then_some(Role::Proxy),
    }
}

/// Whether this machine has a public address, and no radio: neither Wi-Fi nor a modem.
fn is_server() -> bool {
    let interfaces = std::fs::read_dir("/sys/class/net").into_iter().flatten();
    let is_radio = |interface: DirEntry| {
        let has = |entry| interface.path().join(entry).exists();
        let is_modem = interface.file_name().as_bytes().starts_with(b"ww");
        has("wireless") || has("phy80211") || is_modem
    };
    outward().is_some_and(is_public) && !interfaces.flatten().any(is_radio)
}

/// Whether an address is one of the Internet, to which a proxy connects by default.
fn is_public(ip: IpAddr) -> bool {
    let any = SocketAddr::new(ip, 443);
    DestinationPolicy::default().check(any).is_ok()
}
