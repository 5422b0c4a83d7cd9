//! `mpbond doctor`: errors in a device's set-up, with their remedies.

mod adjtimex;
mod clock;
mod families;
mod finding;
mod frames;
mod interfaces;
mod interrupts;
mod link_advice;
mod machine;
mod packets;
mod ports;
mod reach;
mod resolvers;
mod sandbox;
mod unix_pipes;
mod unreachable;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use mpbond::config::{HelperConfig, PrimaryConfig, ProxyAddress, ProxyConfig, Role, config_folder};
use mpbond::helper::budget_of;
use mpbond::primary::{FreshAddresses, Resolvers};
use mpbond::speed::Links;
use mpbond::status::Status;
use mpbond::status_socket::ask;
use mpbond::uplinks::interface_towards;
use mpbond_command::{Failure, print};
use mpbond_manager::{LinkId, SEGMENT_BYTES};
use mpbond_net::Identity;
use tokio::task::LocalSet;

use super::hints::{config_option, file_in_use, reload};
use super::status::RoleName;
use finding::{Findings, Verdict};
use interfaces::Interfaces;
use reach::Reached;

/// Time limit of a look-up: longer than that of the primary, which tries again.
const LOOK_UP_WITHIN: Duration = Duration::from_secs(5);

/// Find errors in a device's set-up, with their remedies.
///
/// It reads the configuration of each role and checks the daemon's prerequisites: interfaces are up
/// and have routes; the proxy and the helpers answer, have the expected ids and trust this device;
/// packets of full size pass in each direction of paths and pipes; each name server answers, by the
/// way by which it is asked; addresses are free; clock and kernel are fit; the adapter, the paired
/// device and the channel of a pipe over Bluetooth are there. It changes nothing,
/// except with --clean, and can run beside the daemon. What could not be checked is shown as
/// "skip", with the reason.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mpbond doctor                            every role that has a configuration
  mpbond doctor primary
  mpbond doctor proxy --config proxy.toml --json
  mpbond doctor primary --clean            remove what a killed primary left in the kernel

Exit code 0 when nothing fails, 1 when something does, 2 when the configuration is wrong.")]
pub(super) struct DoctorArgs {
    /// Role of this device. Otherwise every role that has a configuration.
    #[arg(value_enum)]
    role: Option<RoleName>,
    /// Its configuration. Otherwise ROLE.toml in /etc/mpbond (root) or ~/.config/mpbond.
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Remove interception rules that a primary left when it was killed. Those of one that runs
    /// stay.
    #[arg(long)]
    clean: bool,
    /// Print JSON, for programs.
    #[arg(long)]
    json: bool,
}

impl DoctorArgs {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let mut findings = Findings::default();
        for (role, file) in self.roles()? {
            findings.begin(role, &file);
            self.check(role, &file, &mut findings)?;
        }
        let text = if self.json {
            findings.to_json().map_err(Failure::run)?
        } else {
            findings.to_text()
        };
        print(&text)?;
        Ok(ExitCode::from(u8::from(findings.any(Verdict::Fail))))
    }

    /// The roles to be checked, with their configurations.
    fn roles(&self) -> Result<Vec<(Role, PathBuf)>, Failure> {
        if let Some(role) = self.role.map(Role::from) {
            let file = self.config.clone().unwrap_or_else(|| file_in_use(role));
            return Ok(vec![(role, file)]);
        }
        if let Some(file) = &self.config {
            let stem = file.file_stem().and_then(|s| s.to_str());
            let role = Role::ALL.into_iter().find(|r| Some(r.name()) == stem);
            let role = role.ok_or_else(|| {
                Failure::input(format_args!(
                    "{}: its name does not say which role this is: mpbond doctor ROLE --config FILE",
                    file.display()
                ))
            })?;
            return Ok(vec![(role, file.clone())]);
        }
        let roles = Role::ALL.map(|role| (role, file_in_use(role)));
        let there = roles
            .into_iter()
            .filter(|(role, file)| file.exists() && (!self.clean || *role == Role::Primary));
        let there: Vec<_> = there.collect();
        if there.is_empty() {
            return Err(Failure::input(format_args!(
                "no configuration in {}: `mpbond pair` begins one, and `mpbond ROLE --help` shows a \
                 complete one; `mpbond doctor proxy` checks a proxy, which needs none",
                config_folder().display()
            )));
        }
        Ok(there)
    }

    fn check(&self, role: Role, file: &Path, findings: &mut Findings) -> Result<(), Failure> {
        match role {
            Role::Primary => {
                let config = PrimaryConfig::load(file).map_err(Failure::input)?;
                machine::left_overs(findings, self.clean);
                primary(&config, file, findings)?;
            }
            _ if self.clean => {
                return Err(Failure::input(
                    "--clean is about a primary's interception rules: mpbond doctor primary --clean",
                ));
            }
            Role::Helper => {
                let config = HelperConfig::load(file).map_err(Failure::input)?;
                helper(&config, file, findings)?;
            }
            Role::Proxy => {
                let config = if self.config.is_none() && !file.exists() {
                    ProxyConfig::default()
                } else {
                    ProxyConfig::load(file).map_err(Failure::input)?
                };
                proxy(&config, file, findings)?;
            }
        }
        Ok(())
    }
}

/// Runtime for the checks that connect.
fn block_on(checks: impl Future<Output = ()>) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::run)?;
    LocalSet::new().block_on(&runtime, checks);
    Ok(())
}

fn primary(config: &PrimaryConfig, file: &Path, findings: &mut Findings) -> Result<(), Failure> {
    let status = ask(&config.status_socket).ok();
    let running = status.is_some();
    machine::daemon(findings, running, &config.status_socket);
    machine::is_read(findings, Role::Primary, file, status.as_ref());
    machine::account(findings, status.as_ref());
    machine::owners(findings, &config.identity);
    sandbox::check(findings, config.sandbox, status.as_ref());
    if let Some(note) = status.as_ref().and_then(Status::proxy_lacks_note) {
        let advice = "give the server an address of that family, if its network has it; \
                      otherwise there is nothing to do";
        findings.warn("families", note, advice);
    }
    clock::check(findings);
    let identity = machine::identity(findings, &config.identity);
    if let Some(name) = &config.congestion {
        machine::congestion(findings, name, running);
    }
    let transparent = config.transparent.as_ref();
    let kill_switch = transparent.map(|t| t.kill_switch).unwrap_or_default();
    machine::kill_switch(findings, kill_switch, running);
    let fronts = [("socks5", &config.socks5), ("http", &config.http)];
    for (name, front) in fronts {
        if let Some(front) = front {
            ports::listen(findings, name, front.listen, status.as_ref());
            if front.credentials.is_none() {
                machine::only_local(findings, name, front.listen);
            }
        }
    }
    if let Some(address) = config.metrics {
        ports::listen(findings, "metrics", address, status.as_ref());
        machine::only_local(findings, "metrics", address);
    }
    if let Some(transparent) = &config.transparent {
        machine::interception(findings, running);
        let interfaces = Interfaces::read();
        for name in &transparent.forwarded {
            interfaces.check_named(findings, &format!("forwarded {name}"), name);
        }
    }
    let interfaces = Interfaces::read();
    for path in &config.paths {
        let check = format!("path {}", path.name);
        let addresses = match path.proxy.as_slice() {
            [] => &config.proxy.addresses,
            own => own,
        };
        let fixed = addresses.iter().filter_map(ProxyAddress::fixed);
        let remotes: Vec<_> = fixed.map(|a| a.ip()).collect();
        let (interface, source) = (path.interface.as_deref(), path.source);
        if let Some(remote) = interfaces.choose(interface, source, &remotes) {
            interfaces.check(findings, &check, interface, source, remote);
        }
    }
    for helper in &config.helpers {
        let check = format!("helper {}", helper.name);
        if let Some(address) = helper.address.tcp() {
            interfaces.check(
                findings,
                &check,
                helper.interface.as_deref(),
                helper.source,
                address.ip(),
            );
        }
    }
    interfaces.check_ways(findings, config);
    small_segments(findings, config, status.as_ref());
    frames::of_primary(findings, status.as_ref());
    if running && config.transparent.is_some() && mpbond::own_mark::if_allowed().is_none() {
        findings.warn(
            "transparent",
            "the primary that runs intercepts this program's connections, too: results about the \
             proxy may be about the primary",
            format!(
                "run it as root: sudo mpbond doctor primary{}",
                config_option(Role::Primary, file)
            ),
        );
    }
    // A device without an identity can still check which devices answer.
    let known = identity.is_some();
    let Some(identity) = identity.or_else(|| Identity::generate().ok()) else {
        return Ok(());
    };
    block_on(async {
        let resolvers = Resolvers::new(config);
        let links = Links::new(config, &identity);
        resolvers::of_primary(findings, config, running).await;
        let (mut usable, mut small) = (None, None);
        let me = (&identity, known);
        for (link, path) in (0..).map(LinkId).zip(&config.paths) {
            let check = format!("path {}", path.name);
            let found = resolvers.addresses(config, link, LOOK_UP_WITHIN).await;
            let remotes = addresses(findings, &check, found);
            let reached = reach::proxy_over_path(findings, config, path, &remotes, me).await;
            usable = usable.or((reached == Reached::Proxy).then_some(link));
            small = small.or((reached == Reached::Small).then_some(link));
            packets::of_path(findings, &links, (link, path), reached).await;
        }
        for (link, helper) in (config.paths.len()..).map(LinkId).zip(&config.helpers) {
            let check = format!("helper {}", helper.name);
            let found = resolvers.addresses(config, link, LOOK_UP_WITHIN).await;
            let proxy = addresses(findings, &check, found);
            let reached = reach::helper(findings, config, (link, helper), &proxy, me).await;
            usable = usable.or((reached == Reached::Proxy).then_some(link));
            small = small.or((reached == Reached::Small).then_some(link));
            packets::of_helper(findings, &links, (link, helper), reached).await;
        }
        let (link, links) = match (usable, small) {
            (None, Some(small)) => {
                let [.., least] = SEGMENT_BYTES;
                (Some(small), links.with_max_segment_bytes(least))
            }
            _ => (usable, links),
        };
        resolvers::through_session(findings, config, &links, (link, running)).await;
    })
}

/// The proxy's addresses, of which names may lack.
fn addresses(findings: &mut Findings, check: &str, found: FreshAddresses) -> Vec<SocketAddr> {
    for host in found.unknown {
        findings.warn(
            check,
            format!("no address is found for {host}"),
            "is the name right, and does a name server answer? An IP address beside it needs none",
        );
    }
    found.addresses
}

fn helper(config: &HelperConfig, file: &Path, findings: &mut Findings) -> Result<(), Failure> {
    let status = ask(&config.status_socket).ok();
    let running = status.is_some();
    machine::daemon(findings, running, &config.status_socket);
    machine::is_read(findings, Role::Helper, file, status.as_ref());
    machine::account(findings, status.as_ref());
    machine::owners(findings, &config.identity);
    sandbox::check(findings, config.sandbox, status.as_ref());
    clock::check(findings);
    machine::identity(findings, &config.identity);
    machine::trusted(findings, Role::Helper, &config.identity, &config.trust);
    if let Some(name) = &config.congestion {
        machine::congestion(findings, name, running);
    }
    let budget = match &status {
        Some(status) => status.budget.clone(),
        None => config
            .max_bytes_per_month
            .and_then(|max| budget_of(&config.identity, max).ok()),
    };
    if let Some(budget) = budget.filter(|b| b.max_bytes.is_some_and(|max| b.used_bytes >= max)) {
        findings.warn(
            "budget",
            format!(
                "the budget of {} is used up: no relay is opened",
                budget.month
            ),
            format!(
                "raise `max_bytes_per_month`, or wait for the next month. {}",
                reload(Role::Helper, file)
            ),
        );
    }
    if !config.enabled {
        findings.warn(
            "switch",
            "lending is switched off",
            format!(
                "set `enabled = true` in the configuration to lend this device's link. {}",
                reload(Role::Helper, file)
            ),
        );
    }
    frames::of_helper(findings, status.as_ref());
    ports::listen(findings, "listen", config.listen, status.as_ref());
    for path in &config.listen_unix {
        unix_pipes::of_helper(findings, path, running);
    }
    if let Some(address) = config.metrics {
        ports::listen(findings, "metrics", address, status.as_ref());
        machine::only_local(findings, "metrics", address);
    }
    let interfaces = Interfaces::read();
    block_on(async {
        let found = mpbond::helper::proxy_addresses(config).await;
        let proxies = addresses(findings, "proxies", found);
        let uplink = config.uplink.interface.clone();
        let towards = || interface_towards(proxies.first()?.ip());
        if let Some(uplink) = uplink.or_else(towards) {
            interrupts::check(findings, &uplink);
        }
        for proxy in &proxies {
            interfaces.check(
                findings,
                "uplink",
                config.uplink.interface.as_deref(),
                config.uplink.source,
                proxy.ip(),
            );
        }
        for proxy in proxies {
            reach::proxy_from_helper(findings, config, proxy).await;
        }
    })
}

fn proxy(config: &ProxyConfig, file: &Path, findings: &mut Findings) -> Result<(), Failure> {
    let status = ask(&config.status_socket).ok();
    let running = status.is_some();
    machine::daemon(findings, running, &config.status_socket);
    machine::is_read(findings, Role::Proxy, file, status.as_ref());
    machine::owners(findings, &config.identity);
    machine::tokens(findings, &config.identity);
    sandbox::check(findings, config.sandbox, status.as_ref());
    clock::check(findings);
    machine::identity(findings, &config.identity);
    machine::trusted(findings, Role::Proxy, &config.identity, &config.trust);
    if let Some(name) = &config.congestion {
        machine::congestion(findings, name, running);
    }
    for address in &config.listen {
        ports::listen(findings, "listen", *address, status.as_ref());
    }
    if let Some(address) = config.metrics {
        ports::listen(findings, "metrics", address, status.as_ref());
        machine::only_local(findings, "metrics", address);
    }
    machine::descriptors(findings);
    families::check(findings);
    block_on(resolvers::of_system(findings))
}

/// Warns of links on which the primary that runs has found that large packets do not pass.
fn small_segments(findings: &mut Findings, config: &PrimaryConfig, status: Option<&Status>) {
    for link in status.into_iter().flat_map(|s| &s.links) {
        if let Some(octets) = link.max_segment_bytes {
            let mut paths = config.paths.iter();
            let path = paths.find(|path| link.kind == "path" && path.name == link.name);
            findings.warn(
                &format!("{} {}", link.kind, link.name),
                format!(
                    "large packets do not seem to pass: the primary uses segments of {octets} octets"
                ),
                link_advice::correct_mtu(path.and_then(|path| path.interface.as_deref())),
            );
        }
    }
}
