//! Reading of the configuration while a daemon runs: on SIGHUP and by `mpbond reload`.

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::time::{Instant, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use tracing::{info, warn};

use crate::config::{Changes, ConfigError, Reload};
use crate::process::Process;
use crate::sandbox::{Access, Place};
use crate::status::Status;

/// A configuration, with the file that it can be read from again, if there is one, and the process
/// that its daemon runs in.
pub struct Configured<C> {
    /// The configuration.
    pub config: C,
    pub(crate) process: Process,
    source: Option<Source<C>>,
}

/// Reads a configuration from a file.
type Reader<C> = dyn Fn(&Path) -> Result<C, ConfigError>;

struct Source<C> {
    file: PathBuf,
    read: Box<Reader<C>>,
    /// Modification time of the file that was read last.
    modified_s: Cell<Option<f64>>,
}

/// Modification time of a file, as Unix time in seconds: what `config_modified_s` in a status is
/// compared with.
pub fn modified_s(file: &Path) -> Option<f64> {
    let modified = std::fs::metadata(file).and_then(|m| m.modified()).ok()?;
    let since = modified.duration_since(UNIX_EPOCH).ok()?;
    Some(since.as_secs_f64())
}

impl<C> From<C> for Configured<C> {
    fn from(config: C) -> Self {
        Self {
            config,
            process: Process::default(),
            source: None,
        }
    }
}

impl<C> Configured<C> {
    /// The configuration in a file, now and at each reload.
    ///
    /// # Errors
    /// Those of `read`.
    pub fn from_file(
        file: PathBuf,
        read: impl Fn(&Path) -> Result<C, ConfigError> + 'static,
    ) -> Result<Self, ConfigError> {
        // A change while the file is read is a later one.
        let modified_s = Cell::new(modified_s(&file));
        let config = read(&file)?;
        let source = Some(Source {
            file,
            read: Box::new(read),
            modified_s,
        });
        Ok(Self {
            config,
            process: Process::default(),
            source,
        })
    }

    /// The same for a daemon that is one of several in this process.
    #[must_use]
    pub fn within(self, process: Process) -> Self {
        Self { process, ..self }
    }
}

/// Answer of a daemon to `mpbond reload`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The configuration was read.
    Read {
        /// The file.
        file: PathBuf,
        /// Difference to the configuration in force before.
        changes: Changes,
    },
    /// The configuration is wrong, and nothing has changed: the error.
    Wrong(String),
    /// Nothing was read: the reason.
    Refused(String),
}

/// The configuration of a daemon that runs.
pub(crate) struct Reloader<C> {
    source: Option<Source<C>>,
    process: Process,
    in_force: RefCell<C>,
    /// Has the daemon use a configuration.
    apply: Box<dyn Fn(&C)>,
    read_at: Cell<Instant>,
    /// Keys of the file whose change applies at the next start.
    restart: RefCell<Vec<String>>,
}

impl<C: Reload> Reloader<C> {
    pub(crate) fn new(configured: Configured<C>, apply: impl Fn(&C) + 'static) -> Self {
        Self {
            source: configured.source,
            process: configured.process,
            in_force: RefCell::new(configured.config),
            apply: Box::new(apply),
            read_at: Cell::new(Instant::now()),
            restart: RefCell::default(),
        }
    }

    /// The file, if there is one.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.source.as_ref().map(|source| &*source.file)
    }

    /// A value of the configuration in force.
    pub(crate) fn get<T>(&self, value: impl FnOnce(&C) -> T) -> T {
        value(&self.in_force.borrow())
    }

    /// The file, which programs replace, for the sandbox.
    pub(crate) fn places(&self) -> Vec<Place> {
        let source = self.source.as_ref();
        source.map_or_else(Vec::new, |s| Place::around(&s.file, Access::Read))
    }

    /// Reads the configuration again and applies what has changed, as far as that needs no restart.
    pub(crate) fn reload(&self) -> Answer {
        let Some(Source {
            file,
            read,
            modified_s: last,
        }) = &self.source
        else {
            return Answer::Refused("this daemon has no configuration file".to_owned());
        };
        // A change while the file is read is a later one.
        let (now, modified) = (Instant::now(), modified_s(file));
        let new = match read(file) {
            Ok(new) => new,
            Err(e) => {
                warn!("configuration not applied, the one in force stays: {e}");
                return Answer::Wrong(e.to_string());
            }
        };
        let (in_force, changes) = self.in_force.borrow().reload(new);
        (self.apply)(&in_force);
        self.in_force.replace(in_force);
        self.read_at.set(now);
        last.set(modified);
        let (applied, restart) = (changes.applied.join(", "), changes.restart.join(", "));
        info!(file = %file.display(), applied, restart, "configuration read");
        self.restart.replace(changes.restart.clone());
        let file = file.clone();
        Answer::Read { file, changes }
    }

    /// Changes the configuration in force and applies it, until the next reload or restart.
    pub(crate) fn change(&self, change: impl FnOnce(&mut C)) {
        change(&mut self.in_force.borrow_mut());
        (self.apply)(&self.in_force.borrow());
    }

    /// Adds the state of the configuration to a status.
    pub(crate) fn describe(&self, status: &mut Status) {
        // As `mpbond reload` sees it, which runs in another folder.
        let file = self.source.as_ref().map(|s| std::path::absolute(&s.file));
        let file = file.and_then(Result::ok);
        status.roles = Some(self.process.daemons());
        status.config_file = file.and_then(|file| Some(file.to_str()?.to_owned()));
        status.config_age_s = Some(self.read_at.get().elapsed().as_secs_f64());
        status.config_modified_s = self.source.as_ref().and_then(|s| s.modified_s.get());
        status.needs_restart.clone_from(&self.restart.borrow());
        if !status.needs_restart.is_empty() {
            let keys = status.needs_restart.join(", ");
            let note = format!("the configuration has changes that need a restart: {keys}");
            status.notes.push(note);
        }
    }
}
