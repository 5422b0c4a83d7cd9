//! `mpbond pair`.

mod qr;
mod screen;
mod target;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use mpbond::config::{
    HelperConfig, OnProxyLoss, PrimaryEdit, ProxyConfig, Role, TrustFile, config_file,
    config_file_to_write, device_file, host_name, identity, identity_and_trust,
};
use mpbond::pairing::{Book, DEFAULT_PORT, Listener, Own, PairError, Paired, call, enrol, find};
use mpbond_command::Failure;
use mpbond_net::identity::Identity;
use mpbond_net::pairing::{
    self as pairing, EnrolmentToken, Introduction, Invitation, MAX_NAME_BYTES, PairingCode,
    PairingError,
};
use mpbond_net::pipe::PipeAddress;

use super::hints::file_in_use;

pub(super) use qr::picture;
pub(super) use screen::{Screen, in_words};
pub(super) use target::Target;

/// Exit code of a program that was ended by Ctrl-C.
const INTERRUPTED: u8 = 130;

/// Make two devices trust each other: a primary and a helper, or a primary and a proxy.
///
/// Without arguments this device shows a QR code and a short code, and waits for the other one.
/// There, run `mpbond pair` with either code. Both show the other's name and fingerprint and ask
/// for consent. Then the primary's configuration names the other device, which trusts the primary
/// as by `mpbond trust`.
///
/// Where the other device's screen is out of sight, use a token from `mpbond proxy enrol` instead.
///
/// Two devices that share no network, but a pipe over Bluetooth, pair by its Unix sockets: the
/// helper waits at the one in its configuration, and the primary calls at its own.
///
/// A code has 8 digits and is void after 3 wrong attempts, after a correct one, or when its time is
/// over: guessing has 3 chances in 100,000,000.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mpbond pair                            on the helper: show a code, wait for the primary
  mpbond pair 10.42.0.1 1234-5678        on the primary: with the code that the helper shows
  mpbond pair proxy.example.org 1234-5678
                                         a proxy that is looked up by name from then on
  mpbond pair MPBOND:PAIR/10.42.0.1:4435/1234-5678/EYGTWYB-...
                                         the same, with the text of its QR code
  mpbond pair --listen unix:/run/mpbond/pipe.sock
                                         on the helper: over Bluetooth (`mpbond bluetooth listen`)
  mpbond pair unix:/run/mpbond/phone.sock 1234-5678
                                         on the primary: over Bluetooth (`mpbond bluetooth connect`)
  mpbond pair MPBOND:ENROL/...           on the primary: with a proxy's token")]
pub(super) struct PairArgs {
    /// Address or host name of the other device, or the text of its QR code, or a proxy's token; or
    /// unix:PATH, the Unix socket of this primary's pipe to a helper.
    #[arg(value_name = "ADDRESS|NAME|TEXT")]
    target: Option<String>,
    /// The code that the other device shows.
    #[arg(requires = "target")]
    code: Option<String>,
    /// Role of this device. Otherwise by its configuration, or a file of that name; without any, a
    /// device that waits is a helper and one that calls is the primary.
    #[arg(long, value_name = "ROLE", value_parser = ["primary", "helper", "proxy"])]
    role: Option<String>,
    /// Name of this device. Otherwise its host name.
    #[arg(long, value_parser = name)]
    name: Option<String>,
    /// This device's configuration: the primary's is written to. Otherwise ROLE.toml in
    /// /etc/mpbond (root) or ~/.config/mpbond.
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The file with the device's key. Otherwise as the configuration says.
    #[arg(long, value_name = "FILE")]
    identity: Option<PathBuf>,
    /// Listening address; or, at a helper, the Unix socket of a pipe. Otherwise every address, port
    /// 4435, and for callers from this device's own networks only.
    #[arg(long, value_name = "ADDRESS:PORT|unix:PATH", conflicts_with = "target")]
    listen: Option<PipeAddress>,
    /// Time to wait in seconds, at most 600.
    #[arg(long, value_name = "SECONDS", default_value_t = 120, conflicts_with = "target",
        value_parser = clap::value_parser!(u64).range(1..=600))]
    wait: u64,
    /// On the primary, with a proxy: what becomes of new connections while no path to the proxy
    /// works. They go direct, past the proxy, or fail. Otherwise asked with the first proxy, unless
    /// --yes is given; the default is direct.
    #[arg(long, value_name = "POLICY", value_parser = ["direct", "fail"])]
    on_proxy_loss: Option<String>,
    /// Trust the other device without asking: for scripts.
    #[arg(long, short)]
    yes: bool,
    /// Print events as JSON, one object per line.
    #[arg(long)]
    json: bool,
}

/// Device to call.
pub(super) enum Errand {
    /// None: wait to be called, at this address, so long.
    Listen(Option<PipeAddress>, Duration),
    /// A device that shows a code.
    Call(Vec<Target>, Option<mpbond_net::DeviceId>, PairingCode),
    /// A proxy that has made a token.
    Enrol(EnrolmentToken),
}

pub(super) fn name(name: &str) -> Result<String, String> {
    if pairing::is_name(name) {
        Ok(name.to_owned())
    } else {
        Err(format!(
            "a name is one line of 1 to {MAX_NAME_BYTES} octets, with no spaces around it"
        ))
    }
}

pub(super) fn default_name() -> String {
    let name = host_name();
    if pairing::is_name(&name) {
        name
    } else {
        "a device".to_owned()
    }
}

impl Errand {
    /// The device that a token, the text of a QR code, or an address with a code names.
    pub(super) fn parse(target: &str, code: Option<&str>) -> Result<Self, Failure> {
        let spare = || match code {
            Some(_) => Err(Failure::input(
                "the text holds the code already: leave it out",
            )),
            None => Ok(()),
        };
        if EnrolmentToken::is_meant(target) {
            spare()?;
            let token = target.parse();
            let token = token.map_err(|e| Failure::input(format_args!("the token: {e}")))?;
            return Ok(Self::Enrol(token));
        }
        if Invitation::is_meant(target) {
            spare()?;
            let invitation = target.parse::<Invitation>();
            let i = invitation.map_err(|e| Failure::input(format_args!("the text: {e}")))?;
            let targets = i.addresses.into_iter().map(Target::at).collect();
            return Ok(Self::Call(targets, Some(i.id), i.code));
        }
        let address = Target::parse(target)?;
        let Some(code) = code else {
            return Err(Failure::input(
                "the code is missing: `mpbond pair` on the other device shows one",
            ));
        };
        let code = code.parse().map_err(Failure::input)?;
        Ok(Self::Call(vec![address], None, code))
    }

    /// Host name by which the other device is called.
    pub(super) fn called(&self) -> Option<&str> {
        match self {
            Self::Listen(..) => None,
            Self::Call(targets, ..) => targets.first()?.name(),
            Self::Enrol(token) => target::name(&token.address),
        }
    }

    /// Whether it is over a Unix socket.
    fn is_over_unix(&self) -> bool {
        match self {
            Self::Listen(listen, _) => matches!(listen, Some(PipeAddress::Unix(_))),
            Self::Call(targets, ..) => targets.iter().any(|t| matches!(t, Target::Unix(_))),
            Self::Enrol(_) => false,
        }
    }

    /// Checks the role of this device in it.
    fn check(&self, role: Role) -> Result<(), Failure> {
        match (self, role) {
            (Self::Enrol(_), Role::Helper | Role::Proxy) => Err(Failure::input(format_args!(
                "a token is for the primary, and this device is a {role}: `--role primary`?"
            ))),
            (Self::Listen(..), Role::Helper) | (Self::Call(..), Role::Primary) => Ok(()),
            // Of pipes, the helper's end is the one that listens.
            (Self::Listen(..) | Self::Call(..), _) if self.is_over_unix() => {
                Err(Failure::input(format_args!(
                    "over a Unix socket the helper waits and the primary calls, and this device is \
                     a {role}: is `--role` missing?"
                )))
            }
            _ => Ok(()),
        }
    }
}

impl PairArgs {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let errand = self.errand()?;
        let role = self.role(&errand)?;
        errand.check(role)?;
        let own = self.own(role, &errand)?;
        let screen = Screen::new(own.clone(), self.json, self.yes);
        // The policy is asked for when everything else has succeeded.
        let then = async |paired: &Paired| self.policy(role, paired, &screen).await;
        let (paired, policy) = carry_out(&own, errand, &screen, then)?;
        screen.paired(role, &paired)?;
        policy?;
        Ok(ExitCode::SUCCESS)
    }

    /// Writes the policy for new connections without a path to the proxy.
    async fn policy(&self, role: Role, paired: &Paired, screen: &Screen) -> Result<(), Failure> {
        let is_proxy = paired.peer.introduction.role == pairing::Role::Proxy;
        if role != Role::Primary || !is_proxy {
            return Ok(());
        }
        let file = &paired.entry.path;
        let policy = match self.on_proxy_loss.as_deref() {
            Some("fail") => Some(OnProxyLoss::Fail),
            Some(_) => Some(OnProxyLoss::Direct),
            None if PrimaryEdit::has_on_proxy_loss(file).map_err(Failure::input)? => None,
            None => screen.asker().policy().await,
        };
        if let Some(policy) = policy {
            PrimaryEdit::set_on_proxy_loss(file, policy).map_err(super::change::of_change)?;
        }
        Ok(())
    }

    fn errand(&self) -> Result<Errand, Failure> {
        match &self.target {
            None => {
                let within = Duration::from_secs(self.wait);
                Ok(Errand::Listen(self.listen.clone(), within))
            }
            Some(target) => Errand::parse(target, self.code.as_deref()),
        }
    }

    fn role(&self, errand: &Errand) -> Result<Role, Failure> {
        let named = |name: &str| Role::ALL.into_iter().find(|r| r.name() == name);
        if let Some(role) = self.role.as_deref().and_then(named) {
            return Ok(role);
        }
        if let Some(file) = &self.config {
            let stem = file
                .file_stem()
                .and_then(|s| s.to_str())
                .unwrap_or_default();
            return named(stem).ok_or_else(|| {
                Failure::input(format_args!(
                    "{}: its name does not say what this device is: add `--role`",
                    file.display()
                ))
            });
        }
        if matches!(errand, Errand::Enrol(_)) {
            return Ok(Role::Primary);
        }
        let mut there = Role::ALL.into_iter().filter(|r| config_file(*r).exists());
        match (there.next(), there.next(), errand) {
            (Some(role), None, _) => Ok(role),
            (Some(one), Some(other), _) => Err(Failure::input(format_args!(
                "this device has configurations of a {one} and a {other}: `--role` says which \
                 one pairs"
            ))),
            (None, _, Errand::Listen(..)) => Ok(Role::Helper),
            (None, ..) => Ok(Role::Primary),
        }
    }

    fn own(&self, role: Role, errand: &Errand) -> Result<Own, Failure> {
        let file = match (&self.config, role) {
            (Some(file), _) => file.clone(),
            (None, Role::Primary) => match file_in_use(role) {
                used if used == device_file() => used,
                _ => config_file_to_write(role).map_err(Failure::input)?,
            },
            // These only write the trust file.
            (None, Role::Helper | Role::Proxy) => file_in_use(role),
        };
        // A primary's configuration may not exist yet.
        let there = file.exists() || (self.config.is_some() && role != Role::Primary);
        let (key, service, configured_name) = match role {
            Role::Primary => (primary_key(there, &file)?, None, None),
            Role::Helper if there => {
                let config = HelperConfig::load(&file).map_err(Failure::input)?;
                if let Some(PipeAddress::Unix(pipe)) = &self.listen
                    && !config.listen_unix.contains(pipe)
                {
                    return Err(Failure::input(format_args!(
                        "{}: `listen` has no \"unix:{}\": add it, since the primary is to reach \
                         the helper there",
                        file.display(),
                        pipe.display()
                    )));
                }
                (config.identity, Some(config.listen), Some(config.name))
            }
            Role::Helper => {
                if let Some(PipeAddress::Unix(pipe)) = &self.listen {
                    return Err(Failure::input(format_args!(
                        "this device has no configuration of a helper yet: it needs one with \
                         \"unix:{}\" in `listen`, since the primary is to reach the helper there",
                        pipe.display()
                    )));
                }
                (key_without_file()?, Some(HelperConfig::LISTEN), None)
            }
            Role::Proxy => {
                let config = if there {
                    ProxyConfig::load(&file).map_err(Failure::input)?
                } else {
                    ProxyConfig {
                        identity: key_without_file()?,
                        ..ProxyConfig::default()
                    }
                };
                let listen = config.listen.first().copied();
                (config.identity, listen, None)
            }
        };
        let key = self.identity.clone().unwrap_or(key);
        let identity = Identity::load_or_create(&key).map_err(Failure::run)?;
        let configured_name = configured_name.filter(|n| pairing::is_name(n));
        let name = self.name.clone().or(configured_name);
        let introduction = introduction(role, name.unwrap_or_else(default_name), service);
        let book = match role {
            Role::Primary => Book::Primary {
                path: file,
                called: errand.called().map(str::to_owned),
                links: None,
                anew: false,
            },
            Role::Helper | Role::Proxy => Book::Trust(TrustFile::beside(&key)),
        };
        Ok(Own {
            identity,
            introduction,
            book,
        })
    }
}

/// A device as it introduces itself.
pub(super) fn introduction(role: Role, name: String, service: Option<SocketAddr>) -> Introduction {
    let role = match role {
        Role::Primary => pairing::Role::Primary,
        Role::Helper => pairing::Role::Helper,
        Role::Proxy => pairing::Role::Proxy,
    };
    Introduction {
        role,
        name,
        service,
    }
}

/// Pairs, and then does what `then` does, which may ask as well.
pub(super) fn carry_out<T>(
    own: &Own,
    errand: Errand,
    screen: &Screen,
    then: impl AsyncFnOnce(&Paired) -> T,
) -> Result<(Paired, T), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::run)?;
    let by_token = matches!(errand, Errand::Enrol(_));
    let result = runtime.block_on(async {
        let paired = pair(own, errand, screen).await?;
        let done = then(&paired).await;
        Ok((paired, done))
    });
    // An unanswered question blocks a thread.
    runtime.shutdown_background();
    match result {
        Ok(done) => Ok(done),
        Err(e) if e.is_given_up() => Err(Failure::with_code(e, INTERRUPTED)),
        Err(PairError::Pairing(PairingError::Declined)) if screen.asker().is_unanswered() => {
            Err(Failure::run(
                "not paired: nobody could be asked, since standard input has ended: run it in a \
                 terminal, or use --yes",
            ))
        }
        Err(e) => Err(Failure::run(explained(&e, by_token))),
    }
}

async fn pair(own: &Own, errand: Errand, screen: &Screen) -> Result<Paired, PairError> {
    let asker = screen.asker();
    let ask = async move |peer: &pairing::Peer| asker.agrees(peer).await;
    match errand {
        Errand::Listen(listen, within) => {
            let anywhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, DEFAULT_PORT));
            let local_only = listen.is_none();
            let address = listen.unwrap_or(anywhere.into());
            let listener = Listener::bind(&address, local_only).await?;
            screen.invite(&listener.invitation(own), within);
            listener
                .serve(own, within, ask, |event| screen.event(&event))
                .await
        }
        Errand::Call(targets, expect, code) => {
            let mut addresses = Vec::new();
            for target in targets {
                match target {
                    Target::Network(endpoint) => {
                        let found = find(&own.book, &endpoint).await?;
                        addresses.extend(found.into_iter().map(PipeAddress::Tcp));
                    }
                    Target::Unix(path) => addresses.push(PipeAddress::Unix(path)),
                }
            }
            call(own, &addresses, expect, &code, ask).await
        }
        Errand::Enrol(token) => enrol(own, &token, ask).await,
    }
}

/// A primary's key, by a configuration that may be incomplete.
pub(super) fn primary_key(there: bool, file: &Path) -> Result<PathBuf, Failure> {
    PrimaryEdit::check(file).map_err(Failure::input)?;
    if there {
        Ok(identity_and_trust(file).map_err(Failure::input)?.0)
    } else {
        Ok(identity())
    }
}

/// The key of a helper or proxy without a configuration: that of the device's file, if it is there.
fn key_without_file() -> Result<PathBuf, Failure> {
    let device = device_file();
    match device.exists() {
        true => Ok(identity_and_trust(&device).map_err(Failure::input)?.0),
        false => Ok(identity()),
    }
}

/// The error, with advice where the remedy is not obvious.
fn explained(e: &PairError, by_token: bool) -> String {
    use mpbond_net::tls::TlsError;
    let advice = match e {
        PairError::Unreached {
            address: PipeAddress::Unix(_),
            ..
        } => "; does `mpbond bluetooth connect` run here, with this --socket?",
        PairError::Handshake {
            address: PipeAddress::Unix(_),
            problem: TlsError::Truncated | TlsError::Io(_) | TlsError::Deadline,
        } => {
            "; does `mpbond pair --listen unix:...` wait on the other device, within range? The \
             log of `mpbond bluetooth` has the reason"
        }
        PairError::Handshake { problem, .. } => match problem {
            TlsError::WrongPeer { .. } => {
                "; it is not the device that showed the code or made the token"
            }
            TlsError::WrongProtocol | TlsError::Alert { .. } => {
                "; does `mpbond pair` wait there, or, for a token, has it been made on this very \
                 proxy and not yet been used up?"
            }
            _ => "",
        },
        PairError::Unreached { .. } if by_token => {
            "; does the proxy run there, and does a firewall let this port through?"
        }
        PairError::Unreached { .. } => {
            "; does the other device still wait (`mpbond pair` or `mpbond setup` there)?"
        }
        _ => "",
    };
    format!("not paired: {e}{advice}")
}
