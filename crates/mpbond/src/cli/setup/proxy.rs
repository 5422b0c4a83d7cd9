//! Setup of a server.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use mpbond::config::{ProxyConfig, Role, config_file};
use mpbond_command::{Failure, note, print};
use mpbond_net::Endpoint;

use super::super::enrol::{EnrolArgs, outward};
use super::args::{SetupArgs, server};
use super::files::{kept, write};
use super::questions::Questions;
use super::service;

/// Ports below this one are for privileged processes (Linux: net.ipv4.ip_unprivileged_port_start).
const FIRST_UNPRIVILEGED: u16 = 1024;

pub(super) fn set_up(args: &SetupArgs, questions: &Questions) -> Result<(), Failure> {
    let file = config_file(Role::Proxy);
    let keeps = args.keeps(&file);
    let config = match keeps {
        true => ProxyConfig::load(&file).map_err(Failure::input)?,
        false => ProxyConfig::default(),
    };
    let port = config.listen.first().map_or(0, SocketAddr::port);
    let address = address(args, questions, port)?;
    if keeps {
        kept(&file)?;
    } else {
        write(Role::Proxy, &text(&address), args.dry_run)?;
        if port_of(&address) < FIRST_UNPRIVILEGED {
            note!(
                "A port below {FIRST_UNPRIVILEGED} needs CAP_NET_BIND_SERVICE: where the proxy does \
                 not start, give it to the service by `sudo systemctl edit mpbond-proxy`, as a \
                 comment in that unit says, and run this again"
            );
        }
    }
    if args.dry_run {
        return Ok(());
    }
    service::bring_up(Role::Proxy, !args.no_service)?;
    print(&format!(
        "Open TCP port {} in the firewalls of this server and of its provider.\n\
         `mpbond setup` on the laptop asks for this token:\n",
        port_of(&address)
    ))?;
    EnrolArgs::for_one(&address).run().map(drop)
}

fn address(args: &SetupArgs, questions: &Questions, port: u16) -> Result<Endpoint, Failure> {
    let parsed = |text: &str| server(text, port);
    if let Some(text) = &args.server {
        return parsed(text).map_err(|e| Failure::input(format_args!("--server: {e}")));
    }
    let found = outward().map(|ip| ip.to_string());
    let default = found
        .as_ref()
        .map_or(String::new(), |ip| format!(" [{ip}]"));
    let question = format!("Public address or name of this server{default}");
    questions.ask(&question, "--server ADDRESS", |answer| {
        match (answer, &found) {
            ("", Some(ip)) => parsed(ip),
            _ => parsed(answer),
        }
    })
}

fn port_of(address: &Endpoint) -> u16 {
    match address {
        Endpoint::At(address) => address.port(),
        Endpoint::Name { port, .. } => *port,
    }
}

fn text(address: &Endpoint) -> String {
    // Both families, where the system's default is that of Linux (net.ipv6.bindv6only = 0).
    let any: IpAddr = match address {
        Endpoint::At(address) if address.is_ipv6() => Ipv6Addr::UNSPECIFIED.into(),
        _ => Ipv4Addr::UNSPECIFIED.into(),
    };
    let listen = SocketAddr::new(any, port_of(address));
    format!(
        "# Written by `mpbond setup`. Every key: mpbond-proxy.toml(5)\n\
         listen = \"{listen}\"\n"
    )
}
