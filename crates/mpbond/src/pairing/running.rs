//! Record of a pairing at a primary that runs: its configuration in force. Its file is the client's
//! to write, since the daemon cannot.

use std::fmt;
use std::path::Path;
use std::rc::Rc;

use mpbond_net::DeviceId;

use crate::config::{ConfigError, FarEnd, PrimaryConfig, Role, has_section};
use crate::reload::Reloader;

/// The helpers of a primary that runs.
#[derive(Clone)]
pub struct RunningBook(Rc<Reloader<PrimaryConfig>>);

impl fmt::Debug for RunningBook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RunningBook")
    }
}

impl RunningBook {
    pub(crate) fn new(reloader: &Rc<Reloader<PrimaryConfig>>) -> Self {
        Self(Rc::clone(reloader))
    }

    /// Name of the file in errors.
    pub(super) fn path(&self) -> &Path {
        self.0.file().unwrap_or(Path::new("primary.toml"))
    }

    /// Takes a helper into use. Returns whether it is a new one.
    pub(super) fn enter(&self, far: &FarEnd) -> Result<bool, ConfigError> {
        let mut config = self.0.get(PrimaryConfig::clone);
        let is_new = config
            .add_helper(far)
            .map_err(|problem| ConfigError::about_file(self.path(), problem))?;
        if is_new {
            self.0.change(|in_force| in_force.helpers = config.helpers);
        }
        Ok(is_new)
    }

    /// Takes a helper out of use.
    pub(super) fn remove(&self, id: &DeviceId) {
        self.0
            .change(|config| config.helpers.retain(|h| h.id != *id));
    }

    /// The section with which a helper is written to the configuration.
    pub(crate) fn section(&self, id: &DeviceId) -> String {
        let is_device = self
            .0
            .file()
            .is_some_and(|file| has_section(Role::Primary, file));
        let header = if is_device {
            "primary.helper"
        } else {
            "helper"
        };
        self.0.get(|config| config.helper_sections(id, header))
    }
}
