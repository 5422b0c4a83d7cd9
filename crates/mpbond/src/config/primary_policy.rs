//! Checks of a policy against the configuration of a primary.

use super::policy::PolicySource;
use super::primary::{KillSwitch, PrimaryConfig};
use super::source::ConfigError;

impl PrimaryConfig {
    /// Checks whether this primary can apply a policy.
    ///
    /// # Errors
    /// A name that no path or helper has; a flow that goes direct past a kill switch; something
    /// that has no effect.
    pub fn check_policy(&self, source: &PolicySource) -> Result<(), ConfigError> {
        let policy = source.policy();
        let paths = self.paths.iter().map(|path| &*path.name);
        let helpers = self.helpers.iter().map(|helper| &*helper.name);
        let names: Vec<&str> = paths.chain(helpers).collect();
        let known = policy.check_paths(&names);
        let kill_switch = self.transparent.as_ref().map(|t| t.kill_switch);
        let direct = match kill_switch.unwrap_or_default() {
            KillSwitch::Off => Ok(()),
            KillSwitch::UntilStop | KillSwitch::Permanent => policy.check_no_direct(
                "\"direct\" contradicts transparent.kill_switch: write \"refuse\", or leave \
                 the kill switch out",
            ),
        };
        known.and(direct)?;
        policy.check_effect()
    }
}
