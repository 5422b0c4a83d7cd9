//! `mpbond proxy enrol`.

use std::io::IsTerminal;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use mpbond::config::{Enrolment, EnrolmentBook, ProxyConfig, Role, config_file};
use mpbond::pairing::now_s;
use mpbond_command::{Failure, note, print, prompt};
use mpbond_net::Endpoint;
use mpbond_net::dest::DestinationPolicy;
use mpbond_net::identity::Identity;
use mpbond_net::pairing::{EnrolmentSecret, EnrolmentToken};
use mpbond_units::duration_text;
use serde_json::json;

use super::endpoint::endpoint;
use super::hints::sudo;
use super::pair::picture;
use super::trust::one_line;
use mpbond_units::human::span;

/// Maximum validity: a forgotten token would stay a way in.
const VALID_S: std::ops::RangeInclusive<u64> = 1..=365 * 24 * 3600;

/// Make a token with which a primary becomes trusted by this proxy.
///
/// It is a secret: the first device that presents it is trusted. Give it to the primary's owner
/// over a private channel; there, run `mpbond pair TOKEN`. This device stores only a hash of it. A
/// running proxy accepts it at once.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mpbond proxy enrol --for \"Anna's laptop\"
  mpbond proxy enrol --address proxy.example.org
  mpbond proxy enrol --address 203.0.113.1:4433 --valid 1h --uses 3")]
pub(super) struct EnrolArgs {
    /// Name under which the device is trusted. Otherwise its own.
    #[arg(long = "for", value_name = "NAME", value_parser = one_line)]
    name: Option<String>,
    /// Validity of the token: a number with s, min, h or d.
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = valid)]
    valid: Duration,
    /// Number of devices that may use it.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    uses: u32,
    /// Address or host name at which primaries reach this proxy; without a port, the one that it
    /// listens at. A name is looked up at every connection. Otherwise the address that it listens
    /// at, or the one from which it reaches the Internet.
    #[arg(long, value_name = "ADDRESS|NAME[:PORT]")]
    address: Option<String>,
    /// The proxy's configuration. Otherwise proxy.toml in /etc/mpbond (root) or ~/.config/mpbond.
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print it as JSON.
    #[arg(long)]
    json: bool,
}

fn valid(text: &str) -> Result<Duration, String> {
    let days = text.trim().strip_suffix('d');
    let days = days.and_then(|days| days.trim_end().parse::<u16>().ok());
    let valid = match days {
        Some(days) => Duration::from_secs(u64::from(days) * 24 * 3600),
        None => duration_text::parse(text).map_err(|e| e.to_string())?,
    };
    if !VALID_S.contains(&valid.as_secs()) {
        return Err("from 1s to 365d, which is a year".to_owned());
    }
    Ok(valid)
}

/// Source address of packets to the Internet, over IPv4 where it has a route; none is sent.
pub(super) fn outward() -> Option<IpAddr> {
    /// Unassigned addresses for documents, reached by the default route (RFC 5737, RFC 3849).
    const ANYBODY: [IpAddr; 2] = [
        IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
        IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
    ];
    ANYBODY.into_iter().find_map(|anybody| {
        let any: IpAddr = match anybody {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind((any, 0)).ok()?;
        socket.connect((anybody, 9)).ok()?;
        let ip = socket.local_addr().ok()?.ip();
        (!ip.is_unspecified()).then_some(ip)
    })
}

impl EnrolArgs {
    /// A token for one device, with the proxy reached at this address or name.
    pub(super) fn for_one(address: &Endpoint) -> Self {
        Self {
            name: None,
            valid: Duration::from_secs(24 * 3600),
            uses: 1,
            address: Some(address.to_string()),
            config: None,
            json: false,
        }
    }

    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let file = self
            .config
            .clone()
            .unwrap_or_else(|| config_file(Role::Proxy));
        let config = if self.config.is_none() && !file.exists() {
            ProxyConfig::default()
        } else {
            ProxyConfig::load(&file).map_err(Failure::input)?
        };
        let address = self.reached(&config)?;
        let identity = Identity::load_or_create(&config.identity).map_err(Failure::run)?;
        let secret =
            EnrolmentSecret::generate().map_err(|_| Failure::run("cannot read random bytes"))?;
        let made_s = now_s();
        let expires_s = made_s + self.valid.as_secs();
        let book = EnrolmentBook::beside(&config.identity);
        let enrolment = Enrolment {
            hash: secret.hash(),
            made_s,
            expires_s,
            uses: self.uses,
            name: self.name.clone().unwrap_or_default(),
        };
        book.add(enrolment, now_s())
            .map_err(super::change::of_change)?;
        let token = EnrolmentToken {
            address,
            id: identity.id(),
            secret,
        };
        self.show(&token, expires_s)?;
        Ok(ExitCode::SUCCESS)
    }

    fn reached(&self, config: &ProxyConfig) -> Result<Endpoint, Failure> {
        let listen = config.listen.first().copied();
        if let Some(text) = &self.address {
            let port = listen.map_or(0, |listen| listen.port());
            return endpoint(text, port).ok_or_else(|| {
                Failure::input(format_args!(
                    "--address: \"{}\" is no address such as 203.0.113.1:4433 and no name such as \
                     proxy.example.org",
                    text.escape_debug()
                ))
            });
        }
        let (ip, port) = match listen {
            Some(listen) if !listen.ip().is_unspecified() => (Some(listen.ip()), listen.port()),
            Some(listen) => (outward(), listen.port()),
            None => (None, 0),
        };
        let Some(ip) = ip else {
            return Err(Failure::input(
                "which address do primaries reach this proxy at? Say it with \
                 `--address ADDRESS`",
            ));
        };
        let address = SocketAddr::new(ip, port);
        if DestinationPolicy::default().check(address).is_err() {
            note!(
                "mpbond: {address} is not a public address: if primaries reach this proxy at \
                 another one, use `--address`"
            );
        }
        Ok(Endpoint::At(address))
    }

    fn show(&self, token: &EnrolmentToken, expires_s: u64) -> Result<(), Failure> {
        let text = token.to_string();
        if self.json {
            let event = json!({
                "token": text,
                "address": token.address.to_string(),
                "id": token.id.to_string(),
                "expires_s": expires_s,
                "uses": self.uses,
                "for": self.name,
            });
            return print(&format!("{event}\n"));
        }
        if std::io::stderr().is_terminal()
            && let Some(picture) = picture(&text, true)
        {
            prompt!("{picture}");
        }
        note!(
            "Good for {} device{} within {}. On the primary: {}mpbond pair TOKEN",
            self.uses,
            if self.uses == 1 { "" } else { "s" },
            span(self.valid.as_secs_f64()),
            sudo()
        );
        // The token alone, so that it can be piped.
        print(&format!("{text}\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_validity_is_read_as_it_is_printed() {
        for (text, hours) in [("1 d", 24), ("1d", 24), ("365d", 8760), ("2 h", 2)] {
            let valid = valid(text).unwrap();
            assert_eq!(valid, Duration::from_secs(hours * 3600), "{text}");
            let printed = span(valid.as_secs_f64());
            assert!(super::valid(&printed).is_ok(), "{printed}");
        }
        for wrong in ["366d", "0d", "-1d", "1.5d", "d", "1 day"] {
            assert!(valid(wrong).is_err(), "{wrong}");
        }
    }
}
