//! Configuration files of the daemons. No other file of the lab knows their format.

use std::fmt::{Display, Write as _};
use std::net::Ipv4Addr;
use std::path::Path;

use super::setup::{Instance, Setup, identity_file, socket};
use crate::experiment::{Experiment, Interception, Link, Scheme, name_of};
use crate::network::links::bluetooth_sockets;
use crate::transfer::client::Way;

const PROXY_PORT: u16 = 4433;
const HELPER_PORT: u16 = 4434;
const SOCKS5: &str = "127.0.0.1:1080";
const HTTP: &str = "127.0.0.1:8080";

/// A `[[path]]` of a primary.
pub(super) struct PathText {
    name: String,
    /// Key and value that select its interface or source address.
    leaves: (&'static str, String),
}

impl PathText {
    /// A direct link of the primary.
    pub fn of(link: &Link) -> Self {
        let name = link.name.get_ref();
        Self {
            name: name.clone(),
            leaves: ("interface", name.clone()),
        }
    }

    /// A path through a helper that forwards packets from `address`. It has the helper's name, so
    /// that results with and without the split are comparable.
    pub fn tethered(helper: &str, address: Ipv4Addr) -> Self {
        Self {
            name: helper.to_owned(),
            leaves: ("source", address.to_string()),
        }
    }
}

/// Addresses of a pipe.
pub(super) struct PipeText {
    /// Name of its link.
    link: String,
    /// Where the helper listens.
    listen: String,
    /// Where the primary connects.
    address: String,
}

/// A helper as a primary knows it: its name, its pipes and its id.
pub(super) type Peer<'a> = (&'a str, Vec<PipeText>, String);

impl PipeText {
    /// The pipe of a helper over this link.
    pub fn of(setup: &Setup, helper: &str, link: &Link) -> Option<Self> {
        let name = link.name.get_ref();
        if link.bluetooth.is_none() {
            let address = setup.network.address(helper, name);
            let pipe = Self::at(address?);
            return Some(Self {
                link: name.clone(),
                ..pipe
            });
        }
        let [near, far] = bluetooth_sockets(setup.scratch, link);
        Some(Self {
            link: name.clone(),
            listen: unix(&far),
            address: unix(&near),
        })
    }

    /// A pipe over TCP to this address of the helper.
    pub fn at(helper: Ipv4Addr) -> Self {
        let address = quoted(format_args!("{helper}:{HELPER_PORT}"));
        Self {
            link: String::new(),
            listen: address.clone(),
            address,
        }
    }
}

/// Where a helper with these pipes listens. It has one address of TCP.
fn listen(pipes: &[PipeText]) -> String {
    let is_unix = |pipe: &&PipeText| pipe.listen.starts_with("\"unix:");
    let (unix, tcp): (Vec<&PipeText>, Vec<_>) = pipes.iter().partition(is_unix);
    let tcp = match tcp[..] {
        [] => quoted(format_args!("127.0.0.1:{HELPER_PORT}")),
        [one] => one.listen.clone(),
        _ => quoted(format_args!("0.0.0.0:{HELPER_PORT}")),
    };
    let unix = unix.into_iter().map(|pipe| pipe.listen.clone());
    let all: Vec<String> = std::iter::once(tcp).chain(unix).collect();
    format!("[{}]", all.join(", "))
}

fn unix(path: &Path) -> String {
    quoted(format_args!("unix:{}", path.display()))
}

/// The client's way into a session with these configurations.
pub(super) fn way_in(interception: Interception) -> Way {
    match interception {
        Interception::Socks5 => Way::Socks5(SOCKS5.into()),
        Interception::Http => Way::Http(HTTP.into()),
        Interception::None | Interception::Transparent => Way::Plain(None),
    }
}

/// Quotes a TOML string.
fn quoted(text: impl Display) -> String {
    toml::Value::String(text.to_string()).to_string()
}

fn common(setup: &Setup, at: &Instance) -> String {
    // A device has one key for all of its roles.
    let identity = identity_file(setup, at.host);
    let socket = socket(setup, at);
    format!(
        "identity = {}\nstatus_socket = {}\n",
        quoted(identity.display()),
        quoted(socket.display())
    )
}

pub(super) fn proxy_config(
    setup: &Setup,
    scheme: &Scheme,
    at: &Instance,
    users: &[String],
    origin: Ipv4Addr,
) -> String {
    let users: Vec<String> = users.iter().map(quoted).collect();
    format!(
        "listen = \"0.0.0.0:{PROXY_PORT}\"\n{}\
         trust = [{}]\n\
         scheduler = {}\n\
         reinjection = {}\n\
         feedback = {}\n\
         buffer_delay = {}\n\
         congestion = {}\n\
         [destinations]\n\
         allow = [\"{origin}/32\"]\n",
        common(setup, at),
        users.join(", "),
        quoted(scheme.scheduler),
        quoted(name_of(scheme.reinjection)),
        quoted(name_of(scheme.feedback)),
        quoted(name_of(scheme.buffer_delay)),
        quoted(&scheme.congestion),
    )
}

pub(super) fn helper_config(
    setup: &Setup,
    at: &Instance,
    pipes: &[PipeText],
    primary_id: &str,
    proxy: Ipv4Addr,
) -> String {
    format!(
        "name = {}\n\
         listen = {}\n{}\
         trust = [{}]\n\
         proxies = [\"{proxy}:{PROXY_PORT}\"]\n",
        quoted(at.host),
        listen(pipes),
        common(setup, at),
        quoted(primary_id),
    )
}

/// The policy of a primary whose scheme has a price of energy: it names the radio of each link.
pub(super) fn policy<'a>(
    e: &Experiment,
    scheme: &Scheme,
    paths: &'a [PathText],
    helpers: impl Iterator<Item = &'a str>,
) -> Option<String> {
    let price = scheme.energy_price.as_ref()?;
    let model = e.energy.iter().find(|m| m.name == price.model)?;
    let mut text = format!("[policy]\nmode = {}\n", quoted(name_of(price.mode)));
    for name in paths.iter().map(|path| &*path.name).chain(helpers) {
        let (name, radio) = (quoted(name), quoted(model.wwan.get_ref()));
        let _ = writeln!(text, "[[link]]\nname = {name}\nradio = {radio}");
    }
    Some(text)
}

pub(super) fn primary_config(
    setup: &Setup,
    scheme: &Scheme,
    at: &Instance,
    (proxy, proxy_id): (Ipv4Addr, &str),
    (paths, helpers): (&[PathText], &[Peer<'_>]),
    policy: Option<&Path>,
) -> String {
    let policy = policy.map(|file| format!("policy = {}\n", quoted(file.display())));
    // Connections fail without a session, so that nothing else is measured.
    let mut text = format!(
        "{}{}\
         on_proxy_loss = \"fail\"\n\
         scheduler = {}\n\
         reinjection = {}\n\
         feedback = {}\n\
         buffer_delay = {}\n\
         congestion = {}\n\
         [proxy]\n\
         address = \"{proxy}:{PROXY_PORT}\"\n\
         id = {}\n",
        common(setup, at),
        policy.unwrap_or_default(),
        quoted(scheme.scheduler),
        quoted(name_of(scheme.reinjection)),
        quoted(name_of(scheme.feedback)),
        quoted(name_of(scheme.buffer_delay)),
        quoted(&scheme.congestion),
        quoted(proxy_id),
    );
    for path in paths {
        let (key, value) = &path.leaves;
        let (name, value) = (quoted(&path.name), quoted(value));
        let _ = writeln!(text, "[[path]]\nname = {name}\n{key} = {value}");
    }
    for (name, pipes, id) in helpers {
        let (name, id) = (quoted(name), quoted(id));
        let _ = writeln!(text, "[[helper]]\nname = {name}\nid = {id}");
        if let [pipe] = &pipes[..] {
            let _ = writeln!(text, "address = {}", pipe.address);
            continue;
        }
        let _ = writeln!(text, "pipes = {}", quoted(name_of(scheme.pipes)));
        for pipe in pipes {
            let (link, address) = (quoted(&pipe.link), &pipe.address);
            let _ = writeln!(text, "[[helper.pipe]]\nname = {link}\naddress = {address}");
            if !address.starts_with("\"unix:") {
                let _ = writeln!(text, "interface = {link}");
            }
        }
    }
    text.push_str(&match scheme.interception {
        Interception::None => String::new(),
        Interception::Socks5 => format!("[socks5]\nlisten = \"{SOCKS5}\"\n"),
        Interception::Http => format!("[http]\nlisten = \"{HTTP}\"\n"),
        Interception::Transparent => "[transparent]\nenabled = true\nmode = \"redirect\"\n".into(),
    });
    text
}
