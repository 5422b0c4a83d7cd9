//! What the daemons are told and what they tell, as text: their configuration
//! files and the answer to `mpbond status --json`. Nothing else in the lab
//! knows these formats.

use std::fmt::{Display, Write as _};
use std::net::Ipv4Addr;

use serde::Deserialize;

use super::{Instance, Setup, identity_file, socket};
use crate::client::Way;
use crate::experiment::{Interception, Link, Scheme, name_of};

const PROXY_PORT: u16 = 4433;
const HELPER_PORT: u16 = 4434;
const SOCKS5: &str = "127.0.0.1:1080";
const HTTP: &str = "127.0.0.1:8080";

/// A `[[path]]` of the primary.
pub(super) struct PathText {
    name: String,
    /// The key that says where it leaves, and its value.
    leaves: (&'static str, String),
}

impl PathText {
    /// A link of the primary's own.
    pub fn of(link: &Link) -> Self {
        let name = link.name.get_ref();
        Self {
            name: name.clone(),
            leaves: ("interface", name.clone()),
        }
    }

    /// Through a helper that forwards what comes from `address`. Named as the
    /// helper, so that results with it and without stand side by side.
    pub fn tethered(helper: &str, address: Ipv4Addr) -> Self {
        Self {
            name: helper.to_owned(),
            leaves: ("source", address.to_string()),
        }
    }
}

/// How the client gets into a session that is set up as below.
pub(super) fn way_in(interception: Interception) -> Way {
    match interception {
        Interception::Socks5 => Way::Socks5(SOCKS5.into()),
        Interception::Http => Way::Http(HTTP.into()),
        Interception::None | Interception::Transparent => Way::Plain(None),
    }
}

/// One daemon's answer to `mpbond status --json`, as far as the lab reads it.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Status {
    #[serde(default)]
    pub sessions: Vec<Session>,
    #[serde(default)]
    pub transfers: Vec<Transfer>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Session {
    #[serde(default)]
    pub subflows: Vec<Subflow>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Subflow {
    pub state: String,
}

/// One user connection, as a daemon accounts for it.
#[derive(Debug, Deserialize)]
pub(super) struct Transfer {
    pub destination: String,
    pub state: String,
    /// Since the daemon started.
    #[serde(default)]
    pub opened_s: f64,
    #[serde(default)]
    pub redundant_bytes: u64,
    #[serde(default)]
    pub subflows: Vec<Share>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Share {
    pub name: String,
    #[serde(default)]
    pub bytes_in: u64,
    #[serde(default)]
    pub finished_in_s: Option<f64>,
}

/// A TOML string.
fn quoted(text: impl Display) -> String {
    toml::Value::String(text.to_string()).to_string()
}

fn common(setup: &Setup, at: &Instance) -> String {
    // A device is its key, whatever it does.
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
         buffer_delay = {}\n\
         congestion = {}\n\
         [destinations]\n\
         allow = [\"{origin}/32\"]\n",
        common(setup, at),
        users.join(", "),
        quoted(scheme.scheduler_text()),
        scheme.reinjection,
        quoted(name_of(scheme.buffer_delay)),
        quoted(&scheme.congestion),
    )
}

pub(super) fn helper_config(
    setup: &Setup,
    at: &Instance,
    pipe: Ipv4Addr,
    primary_id: &str,
    proxy: Ipv4Addr,
) -> String {
    format!(
        "name = {}\n\
         listen = \"{pipe}:{HELPER_PORT}\"\n{}\
         trust = [{}]\n\
         proxies = [\"{proxy}:{PROXY_PORT}\"]\n",
        quoted(at.host),
        common(setup, at),
        quoted(primary_id),
    )
}

pub(super) fn primary_config(
    setup: &Setup,
    scheme: &Scheme,
    at: &Instance,
    (proxy, proxy_id): (Ipv4Addr, &str),
    paths: &[PathText],
    helpers: &[(&str, Ipv4Addr, String)],
) -> String {
    // What is measured goes over the session, or not at all.
    let mut text = format!(
        "{}\
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
        quoted(scheme.scheduler_text()),
        scheme.reinjection,
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
    for (name, pipe, id) in helpers {
        let _ = writeln!(
            text,
            "[[helper]]\nname = {}\naddress = \"{pipe}:{HELPER_PORT}\"\nid = {}",
            quoted(name),
            quoted(id)
        );
    }
    text.push_str(&match scheme.interception {
        Interception::None => String::new(),
        Interception::Socks5 => format!("[socks5]\nlisten = \"{SOCKS5}\"\n"),
        Interception::Http => format!("[http]\nlisten = \"{HTTP}\"\n"),
        Interception::Transparent => "[transparent]\nenabled = true\nmode = \"redirect\"\n".into(),
    });
    text
}
