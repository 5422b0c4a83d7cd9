//! `mpbond up`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;

use anyhow::Context as _;
use clap::Args;
use mpbond::config::{
    ConfigError, DeviceConfig, HelperConfig, PrimaryConfig, ProxyConfig, Role, device_file, example,
};
use mpbond::process::{Process, Stopped};
use mpbond::reload::Configured;
use mpbond_command::Failure;
use mpbond_net::Identity;

use super::daemon::{fine, indented, of_daemon, trust};

/// Run all roles of this device: lend its link and use those of others at once.
///
/// One process runs the roles that the configuration has sections for, each as its own command
/// would (`mpbond primary`, `mpbond helper`, `mpbond proxy`), with its own sockets for status, API
/// and metrics. They start together, or none does, and stop together.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mpbond up --config device.toml
  mpbond up --config device.toml --check

`mpbond up --help` shows a complete configuration.",
    after_long_help = help())]
pub(super) struct UpArgs {
    /// The configuration. Otherwise device.toml in /etc/mpbond (root) or ~/.config/mpbond.
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Only check the configuration.
    #[arg(long)]
    check: bool,
    /// Take over from the process that runs, without an interruption; see `mpbond upgrade`.
    #[arg(long)]
    take_over: bool,
}

fn help() -> String {
    format!(
        "A device.toml:\n\n{}\nEvery key of primary.toml, helper.toml and proxy.toml is a key of \
         its section; `identity` and\n`sandbox` are written before the sections.\n\nExamples:\n  \
         mpbond up --config device.toml\n  mpbond up --config device.toml --check",
        indented(example::DEVICE)
    )
}

impl UpArgs {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let file = self.config.unwrap_or_else(device_file);
        let device = DeviceConfig::load(&file).map_err(Failure::input)?;
        if self.check {
            return fine(&file);
        }
        let intercepts = device
            .primary
            .as_ref()
            .is_some_and(|p| p.transparent.is_some());
        let roles = device.roles();
        let up = Up {
            process: Process::new(roles.len(), intercepts),
            roles,
            file,
            take_over: self.take_over,
        };
        // Each role loads it, and none of them makes it then.
        Identity::load_or_create(up.identity(device)).map_err(|e| of_daemon(e.into()))?;
        up.run().map_err(of_daemon)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// The roles of a device, which run in this process.
struct Up {
    process: Process,
    roles: Vec<Role>,
    file: PathBuf,
    take_over: bool,
}

impl Up {
    /// The file with the key, which all roles have.
    fn identity(&self, device: DeviceConfig) -> PathBuf {
        let identities = [
            device.primary.map(|c| c.identity),
            device.helper.map(|c| c.identity),
            device.proxy.map(|c| c.identity),
        ];
        let first = identities.into_iter().flatten().next();
        first.unwrap_or_else(mpbond::config::identity)
    }

    /// Runs each role on a thread of its own, one of them on this one, until all have ended.
    fn run(&self) -> anyhow::Result<()> {
        let Some((first, others)) = self.roles.split_first() else {
            return Ok(());
        };
        let results = thread::scope(|scope| {
            let (mut started, mut results) = (Vec::new(), Vec::new());
            for role in others {
                let thread = thread::Builder::new().name(role.name().to_owned());
                // Where there is no thread for a role, the others stop.
                let spawned = self.process.run(|| {
                    started.push(thread.spawn_scoped(scope, || self.run_role(*role))?);
                    std::io::Result::Ok(())
                });
                results.push(spawned.map_err(anyhow::Error::from));
            }
            results.push(self.run_role(*first));
            for role in started {
                let ended = role.join();
                results.push(ended.unwrap_or_else(|_| Err(anyhow::anyhow!("a role panicked"))));
            }
            results
        });
        // The error of the role that has failed, and not that it stopped the others.
        let mut errors: Vec<_> = results.into_iter().filter_map(Result::err).collect();
        let cause = errors.iter().position(|e| !e.is::<Stopped>());
        match errors.is_empty() {
            true => Ok(()),
            false => Err(errors.swap_remove(cause.unwrap_or(0))),
        }
    }

    fn run_role(&self, role: Role) -> anyhow::Result<()> {
        let _role = tracing::error_span!("role", name = role.name()).entered();
        let run = || match role {
            Role::Primary => mpbond::primary::run(self.configured(|device, take_over| {
                let config = device.primary?;
                Some(PrimaryConfig {
                    take_over,
                    ..config
                })
            })?),
            Role::Helper => {
                let configured = self.configured(|device, take_over| {
                    let config = device.helper?;
                    Some(HelperConfig {
                        take_over,
                        ..config
                    })
                })?;
                let config = &configured.config;
                let trust = trust(role, &self.file, &config.identity, &config.trust);
                mpbond::helper::run(configured, trust)
            }
            Role::Proxy => {
                let configured = self.configured(|device, take_over| {
                    let config = device.proxy?;
                    Some(ProxyConfig {
                        take_over,
                        ..config
                    })
                })?;
                let config = &configured.config;
                let trust = trust(role, &self.file, &config.identity, &config.trust);
                mpbond::proxy::run(configured, trust)
            }
        };
        self.process.run(run).with_context(|| format!("the {role}"))
    }

    /// The configuration of a role, now and at each reload: if all sections are right, and those
    /// with which the process has started.
    fn configured<C: 'static>(
        &self,
        pick: fn(DeviceConfig, bool) -> Option<C>,
    ) -> Result<Configured<C>, ConfigError> {
        let (roles, take_over) = (self.roles.clone(), self.take_over);
        let read = move |file: &Path| {
            let device = DeviceConfig::load(file)?;
            let same = device.roles() == roles;
            let config = pick(device, take_over).filter(|_| same);
            config.ok_or_else(|| {
                ConfigError::about_file(
                    file,
                    "a section of a role was added or removed, which needs a restart",
                )
            })
        };
        let configured = Configured::from_file(self.file.clone(), read)?;
        Ok(configured.within(self.process.clone()))
    }
}
