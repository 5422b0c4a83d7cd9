//! Options of `mpbond setup`.

use std::path::Path;

use clap::Args;
use mpbond::config::Role;
use mpbond_command::Failure;
use mpbond_net::Endpoint;

use super::super::endpoint::endpoint;
use super::super::pair::name;

/// Configure this device: find its links, pair it, write its files, start its service.
///
/// Asks two questions: one for the role of this device, or on a laptop for the token that the
/// server shows; one for the other device, or on the server for its own address. Options answer
/// beforehand. Start with the server, then the devices that lend their links, then the laptop.
///
/// An existing configuration is kept: that of a proxy or helper unchanged, that of a primary with
/// the new devices and links added. Files are written whole, so that Ctrl-C leaves no part of one;
/// devices that were paired before it stay paired.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mpbond setup                           ask for everything
  mpbond setup --role proxy --server 203.0.113.1
                                         the server: prints a token for the laptop
  mpbond setup --role helper --server 203.0.113.1 --link usb0 --yes
                                         a phone: shows a code, waits for the laptop
  mpbond setup --role primary --pair MPBOND:ENROL/... --pair \"10.42.0.1 1234-5678\" --yes
                                         the laptop: with the server's token and the phone's code
  mpbond setup --role helper --server 203.0.113.1 --dry-run
                                         print the file, change nothing")]
pub(in crate::cli) struct SetupArgs {
    /// Role of this device. Asked for when neither this nor --pair is there.
    #[arg(long, value_name = "ROLE", value_parser = ["primary", "helper", "proxy"])]
    pub(super) role: Option<String>,
    /// Address or name of the server, with its port if that is not 4433. On the server, the one at
    /// which other devices reach it; on a helper, the only one that it relays to, whose name must
    /// have an address now. Asked for when left out.
    #[arg(long, value_name = "ADDRESS|NAME[:PORT]")]
    pub(super) server: Option<String>,
    /// On the primary, a device to pair with: a proxy's token, the text of a QR code, or address
    /// and code as the other device shows them. May be repeated. Asked for when left out.
    #[arg(long = "pair", value_name = "TOKEN|TEXT|\"ADDRESS CODE\"")]
    pub(super) with: Vec<String>,
    /// Interface of a link: on a helper, the link that it lends; on the primary, a link of its own,
    /// and the option may be repeated. Otherwise the interfaces with a default route are used.
    #[arg(long = "link", value_name = "INTERFACE")]
    pub(super) links: Vec<String>,
    /// Name of this device. Otherwise its host name.
    #[arg(long, value_parser = name)]
    pub(super) name: Option<String>,
    /// On the primary: carry the traffic of all programs, without settings in them, also where
    /// another front is set up already. Otherwise programs reach it as a SOCKS5 proxy.
    #[arg(long)]
    pub(super) transparent: bool,
    /// On a helper, time to wait for the primary in seconds, at most 600.
    #[arg(long, value_name = "SECONDS", default_value_t = 600,
        value_parser = clap::value_parser!(u64).range(1..=600))]
    pub(super) wait: u64,
    /// Trust the other devices without asking: for scripts.
    #[arg(long, short)]
    pub(super) yes: bool,
    /// Replace an existing configuration.
    #[arg(long)]
    pub(super) replace: bool,
    /// Do not enable and start the systemd service.
    #[arg(long)]
    pub(super) no_service: bool,
    /// Print the files instead of writing them; pair with no device.
    #[arg(long)]
    pub(super) dry_run: bool,
}

impl SetupArgs {
    /// Refuses options that mean nothing for this role.
    pub(super) fn check(&self, role: Role) -> Result<(), Failure> {
        let (server, pair) = (self.server.is_some(), !self.with.is_empty());
        let (link, transparent) = (!self.links.is_empty(), self.transparent);
        let spare = match role {
            Role::Primary => &[("--server", server)][..],
            Role::Helper => &[("--pair", pair), ("--transparent", transparent)],
            Role::Proxy => &[
                ("--pair", pair),
                ("--link", link),
                ("--transparent", transparent),
            ],
        };
        match spare.iter().find(|(_, is_given)| *is_given) {
            Some((option, _)) => Err(Failure::input(format_args!(
                "{option} is not for a {role}: leave it out"
            ))),
            None => Ok(()),
        }
    }

    /// Whether a file that is there stays as it is.
    pub(super) fn keeps(&self, file: &Path) -> bool {
        !self.replace && file.exists()
    }
}

/// The server as a person writes it; without a port it gets this one.
pub(super) fn server(text: &str, port: u16) -> Result<Endpoint, String> {
    endpoint(text, port).ok_or_else(|| {
        format!(
            "\"{}\" is no address such as 203.0.113.1 and no name such as proxy.example.org",
            text.escape_debug()
        )
    })
}
