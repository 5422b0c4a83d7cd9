//! A person's program in an experiment's hosts and links.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;

use crate::error::{Error, Result};
use crate::experiment::{Experiment, Role, name_of};
use crate::network::foreground::{self, Beside};
use crate::network::links::played_links;
use crate::network::plan;
use crate::network::wiring::Network;
use crate::player::{Clock, Logs, Player};
use crate::program;
use crate::transfer::content::Content;
use crate::transfer::origin;
use crate::transfer::origin::ORIGIN_PORT;

/// Builds the hosts and links of the experiment at `path`, with its web server but without daemons,
/// and runs `command` (the person's shell when empty) in the host named `host`, with `mpbond` in
/// PATH. `beside` lists
/// hosts and shell commands that run there meanwhile; `logs`, the logs of packets to write. Returns
/// the program's exit code.
///
/// Recordings play from the start of the program on; scheduled changes of links do not happen.
///
/// Like [`crate::run()`], this runs the calling program a second time, isolated; see
/// [`crate::isolate::isolated`].
///
/// # Errors
/// [`Error::Experiment`] for a wrong file or host; other errors when hosts or links cannot be made.
pub fn shell(
    path: &Path,
    host: &str,
    beside: &[(String, String)],
    logs: &Logs,
    command: &[OsString],
) -> Result<u8> {
    let e = Experiment::load(path)?;
    let mut named = beside.iter().map(|(host, _)| host.as_str()).chain([host]);
    if let Some(host) = named.find(|host| e.role_of(host).is_none()) {
        let known: Vec<&str> = e.hosts.iter().map(|h| h.name.get_ref().as_str()).collect();
        return Err(Error::Experiment(format!(
            "{}: there is no host \"{host}\": {}",
            path.display(),
            known.join(", ")
        )));
    }
    if let Some(link) = e.links.iter().find(|l| l.bluetooth.is_some()) {
        let message = "a Bluetooth link joins sockets of daemons, and here are none";
        return Err(e.error_at(&link.name, message));
    }
    foreground::with_terminal(None, |_| {
        let mut network = Network::build(&e)?;
        if let Some(scheme) = e.schemes.first() {
            network.set_congestion(&scheme.congestion)?;
        }
        let links = played_links(&e, &mut network)?;
        let player = Player::start(links, Clock::start(), e.seed, logs)?;
        if let Some(address) = e.host(Role::Origin).address {
            let listen = SocketAddr::from((address, ORIGIN_PORT));
            origin::start(network.host_in(Role::Origin)?, listen, Content::new(e.seed))?;
        }
        eprint!("{}", describe(&e, host));
        player.begin(Vec::new())?;
        let env = [
            ("MPBOND_HOST", OsString::from(host)),
            ("PATH", program::path_for_people()?),
        ];
        let mut programs = Beside::default();
        for (host, command) in beside {
            programs.start(network.host(host)?, command, &[])?;
        }
        let code = foreground::run(network.host(host)?, command, &env);
        drop(programs);
        player.stop()?;
        Ok(code)
    })
}

/// A description of hosts, addresses and links, one line each.
fn describe(e: &Experiment, here: &str) -> String {
    let mut text = format!("hosts of {}:\n", e.name);
    for host in plan::plan(e) {
        let mark = if host.name == here { '>' } else { ' ' };
        let role = name_of(host.role);
        let _ = write!(text, "{mark} {:<15} {role:<8}", host.name);
        if let Some(address) = host.service {
            let _ = write!(text, " {address}");
        }
        for interface in &host.interfaces {
            let link = e.links.iter().find(|l| *l.name.get_ref() == interface.link);
            let other = link.map_or("", |link| {
                let near = link.from.get_ref();
                let far = link.to.get_ref();
                if *near == host.name { far } else { near }
            });
            let _ = write!(
                text,
                "  {} {} (to {other}, {})",
                interface.link, interface.address, interface.peer
            );
        }
        text.push('\n');
    }
    let origin = e.host(Role::Origin).address;
    if let Some(origin) = origin {
        let _ = writeln!(text, "web server: http://{origin}/bytes/1048576");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_described() {
        let file = Path::new(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../experiments/demo.toml"
        ));
        let e = Experiment::load(file).unwrap();
        let text = describe(&e, "phone");
        for words in [
            "\n> phone           helper ",
            "phone-lte 10.77.1.1 (to proxy, 10.77.1.2)",
            "phone-pipe 10.77.3.2 (to primary, 10.77.3.1)",
            "\n  origin          origin   198.51.100.1  core ",
            "web server: http://198.51.100.1/",
        ] {
            assert!(text.contains(words), "{words} is not in\n{text}");
        }
    }
}
