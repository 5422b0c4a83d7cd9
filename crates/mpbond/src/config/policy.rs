//! Policies from files.

use std::fs::File;
use std::io::{self, ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::tz::TimeZone;
use mpbond_policy::{MAX_FILE_BYTES, Policy};

use super::file;
use super::source::ConfigError;

/// Folder of the time zones (tzfile(5)).
pub const ZONES: &str = "/usr/share/zoneinfo";

/// Maximum size of the file of a zone; those of the system have some 4 kB.
const MAX_ZONE_BYTES: u64 = 64 << 10;

/// A policy that was read from a file. Two are equal if file and text are.
#[derive(Clone, Debug)]
pub struct PolicySource {
    file: PathBuf,
    text: String,
    policy: Arc<Policy>,
}

impl PartialEq for PolicySource {
    fn eq(&self, other: &Self) -> bool {
        (&self.file, &self.text) == (&other.file, &other.text)
    }
}

impl PolicySource {
    /// Reads and checks a policy, without names of links.
    ///
    /// # Errors
    /// One line naming file, line, key and what is wrong.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let unreadable = |problem: &dyn std::fmt::Display| {
            ConfigError::about_file(path, format_args!("the policy cannot be read: {problem}"))
        };
        let text = match file::read(path, MAX_FILE_BYTES as u64) {
            Ok(Some(text)) => text,
            Ok(None) => return Err(unreadable(&"there is no such file")),
            Err(e) if e.kind() == ErrorKind::PermissionDenied => {
                let advice = "a primary that runs reads it only in the folder of its \
                              configuration, or where it was when the primary started";
                return Err(unreadable(&format_args!("{e}; {advice}")));
            }
            Err(e) => return Err(unreadable(&e)),
        };
        let policy = Policy::parse(path, &text, &zone)?;
        Ok(Self {
            policy: Arc::new(policy),
            file: path.to_owned(),
            text,
        })
    }

    /// The file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The policy.
    pub const fn policy(&self) -> &Arc<Policy> {
        &self.policy
    }
}

/// A time zone of the system by its name, which is a relative path without "..".
fn zone(name: &str) -> Option<TimeZone> {
    let read = || -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let file = File::open(Path::new(ZONES).join(name))?;
        file.take(MAX_ZONE_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    TimeZone::tzif(name, &read().ok()?).ok()
}
