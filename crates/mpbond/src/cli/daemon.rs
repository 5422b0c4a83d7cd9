//! `mpbond primary`, `mpbond helper`, `mpbond proxy`.

use std::cell::Cell;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Subcommand};
use mpbond::config::{
    HelperConfig, PrimaryConfig, ProxyConfig, Role, TrustFile, TrustStore, config_file, example,
};
use mpbond::reload::Configured;
use mpbond_command::{Failure, print};

use super::hints::{command, pair};

#[derive(Debug, Args)]
struct Which {
    /// The configuration. Otherwise ROLE.toml in /etc/mpbond (root) or ~/.config/mpbond.
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Only check the configuration.
    #[arg(long)]
    check: bool,
}

impl Which {
    fn file(&self, role: Role) -> PathBuf {
        self.config.clone().unwrap_or_else(|| config_file(role))
    }
}

/// Use all links: run on the device where the applications are.
///
/// Applications reach it as a SOCKS5 or HTTP proxy, or with no settings at all. Their traffic is
/// split over this device's own links and those of its helpers, and joined again at the proxy.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mpbond primary --config primary.toml
  curl --socks5-hostname 127.0.0.1:1080 -O https://example.org/file

`mpbond primary --help` shows a complete configuration.",
    after_long_help = primary_help())]
pub(super) struct PrimaryArgs {
    #[command(flatten)]
    which: Which,
    /// Take over from the primary that runs, without an interruption; see `mpbond upgrade`.
    #[arg(long)]
    take_over: bool,
}

/// Lend this device's link to primaries that its owner trusts.
///
/// A helper forwards bytes between a primary and the proxies that its configuration names, and
/// nowhere else. The bytes are encrypted between primary and proxy.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mpbond helper --config helper.toml
  mpbond helper --config helper.toml --check

`mpbond helper --help` shows a complete configuration.",
    after_long_help = helper_help())]
pub(super) struct HelperArgs {
    #[command(flatten)]
    which: Which,
    /// Take over from the helper that runs, without an interruption; see `mpbond upgrade`.
    #[arg(long)]
    take_over: bool,
}

/// Run the proxy: on a server that all paths reach.
///
/// It joins the streams that arrive over all paths of a primary and connects to the servers that
/// applications ask for, which need no change. It serves only devices that it trusts, and
/// connects only to public addresses unless its configuration says otherwise.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mpbond proxy --config proxy.toml
  mpbond proxy --serve 127.0.0.1:80      in front of one local service
  mpbond proxy enrol                     a token that lets a primary in

`mpbond proxy --help` shows a complete configuration.",
    after_long_help = proxy_help(), args_conflicts_with_subcommands = true)]
pub(super) struct ProxyArgs {
    #[command(subcommand)]
    command: Option<ProxyCommand>,
    #[command(flatten)]
    which: Which,
    /// End every stream at this one service, whatever destination it names: for a server that is
    /// its own proxy.
    #[arg(long, value_name = "ADDRESS:PORT")]
    serve: Option<SocketAddr>,
    /// Take over from the proxy that runs, without an interruption; see `mpbond upgrade`.
    #[arg(long)]
    take_over: bool,
}

#[derive(Debug, Subcommand)]
enum ProxyCommand {
    Enrol(super::enrol::EnrolArgs),
}

fn help(role: Role, example: &str, commands: &str) -> String {
    format!(
        "A complete {role}.toml:\n\n{}\nExamples:\n{commands}",
        indented(example)
    )
}

pub(super) fn indented(text: &str) -> String {
    text.lines()
        .map(|line| format!("{}{line}\n", if line.is_empty() { "" } else { "  " }))
        .collect()
}

fn primary_help() -> String {
    help(
        Role::Primary,
        example::PRIMARY,
        "  mpbond primary --config primary.toml\n  \
           curl --socks5-hostname 127.0.0.1:1080 -O https://example.org/file\n\n\
         Of all this, only [proxy] and one [[path]] or [[helper]] must be there.",
    )
}

fn helper_help() -> String {
    help(
        Role::Helper,
        example::HELPER,
        "  mpbond helper --config helper.toml\n  \
           mpbond helper --config helper.toml --check\n\n\
         Of all this, only `proxies` must be there.",
    )
}

fn proxy_help() -> String {
    help(
        Role::Proxy,
        example::PROXY,
        "  mpbond proxy --config proxy.toml\n  \
           mpbond proxy --serve 127.0.0.1:80      in front of one local service\n  \
           mpbond proxy enrol                     a token that lets a primary in\n\n\
         Nothing of this must be there: `mpbond proxy` runs without a file, and\n\
         `mpbond trust ID` says who may connect.",
    )
}

/// The error of a daemon. Its service starts it again, unless that changes nothing: files that are
/// damaged are as wrong as a configuration, and where another daemon runs, that one stays.
pub(super) fn of_daemon(e: anyhow::Error) -> Failure {
    match mpbond::is_lasting(&e) {
        true => Failure::bad_input(e),
        false => e.into(),
    }
}

pub(super) fn fine(file: &Path) -> Result<ExitCode, Failure> {
    print(&format!("{}: fine\n", file.display()))?;
    Ok(ExitCode::SUCCESS)
}

/// The devices that may connect. There may be none: trust takes effect while running.
pub(super) fn trust(
    role: Role,
    file: &Path,
    identity: &Path,
    configured: &[mpbond_net::DeviceId],
) -> Arc<TrustStore> {
    let store = TrustStore::new(identity, configured.iter().copied());
    if store.count() == 0 {
        let way = match role {
            Role::Proxy => {
                let enrol = command("proxy enrol", role, file);
                format!("`{enrol}` makes a token for one")
            }
            _ => format!("`{}` here and on the primary lets it in", pair(role, file)),
        };
        tracing::warn!(
            "no device is trusted yet, so none can connect: {way}, and so does `{}` with a \
             primary's id ({} is read at once)",
            command("trust ID", role, file),
            TrustFile::beside(identity).path().display()
        );
    }
    Arc::new(store)
}

impl PrimaryArgs {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let file = self.which.file(Role::Primary);
        let configured = Configured::from_file(file.clone(), move |file| {
            Ok(PrimaryConfig {
                take_over: self.take_over,
                ..PrimaryConfig::load(file)?
            })
        });
        let configured = configured.map_err(Failure::input)?;
        if self.which.check {
            return fine(&file);
        }
        mpbond::primary::run(configured).map_err(of_daemon)?;
        Ok(ExitCode::SUCCESS)
    }
}

impl HelperArgs {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let file = self.which.file(Role::Helper);
        let configured = Configured::from_file(file.clone(), move |file| {
            Ok(HelperConfig {
                take_over: self.take_over,
                ..HelperConfig::load(file)?
            })
        });
        let configured = configured.map_err(Failure::input)?;
        if self.which.check {
            return fine(&file);
        }
        let config = &configured.config;
        let trust = trust(Role::Helper, &file, &config.identity, &config.trust);
        mpbond::helper::run(configured, trust).map_err(of_daemon)?;
        Ok(ExitCode::SUCCESS)
    }
}

impl ProxyArgs {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        if let Some(ProxyCommand::Enrol(args)) = self.command {
            return args.run();
        }
        let file = self.which.file(Role::Proxy);
        // Without a file at the start there is none at a reload, either, unless it has come since.
        // One that was there and cannot be found is an error: its limits would be lost.
        let may_be_missing = Cell::new(self.which.config.is_none());
        let configured = Configured::from_file(file.clone(), move |file| {
            let is_missing = may_be_missing.get() && matches!(file.try_exists(), Ok(false));
            may_be_missing.set(is_missing);
            let config = match is_missing {
                true => ProxyConfig::default(),
                false => ProxyConfig::load(file)?,
            };
            Ok(ProxyConfig {
                take_over: self.take_over,
                serve: self.serve.or(config.serve),
                ..config
            })
        });
        let configured = configured.map_err(Failure::input)?;
        if self.which.check {
            return fine(&file);
        }
        let config = &configured.config;
        let trust = trust(Role::Proxy, &file, &config.identity, &config.trust);
        mpbond::proxy::run(configured, trust).map_err(of_daemon)?;
        Ok(ExitCode::SUCCESS)
    }
}
