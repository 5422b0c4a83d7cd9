//! Policies from files.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::tz::TimeZone;
use mpbond_policy::{MAX_FILE_BYTES, Policy};
use nix::unistd::{getegid, geteuid, getgroups};

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
                return Err(unreadable(&format_args!("{e}{}", reason(path))));
            }
            Err(e) => return Err(unreadable(&e)),
        };
        Self::of_text(path, text)
    }

    /// Checks a policy that is not read from a file; `name` stands for the file in errors.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn of_text(name: &Path, text: String) -> Result<Self, ConfigError> {
        let policy = Policy::parse(name, &text, &zone)?;
        Ok(Self {
            policy: Arc::new(policy),
            file: name.to_owned(),
            text,
        })
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.text
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

/// Reason for which the kernel refuses to open a file, if it can be seen.
fn reason(path: &Path) -> String {
    let Ok(meta) = fs::metadata(path) else {
        return String::new();
    };
    let user = geteuid().as_raw();
    let mut groups: Vec<u32> = getgroups().into_iter().flatten().map(u32::from).collect();
    groups.push(getegid().as_raw());
    match permits((meta.uid(), meta.gid(), meta.mode()), user, &groups) {
        // A program with a sandbox.
        true => "; a primary that runs reads it only in the folder of its configuration, or where \
                 it was when the primary started"
            .to_owned(),
        false => format!(
            "; it belongs to user {} and has mode {:03o}: make it readable for user {user}",
            meta.uid(),
            meta.mode() & 0o777
        ),
    }
}

/// Whether a file of this owner, group and mode may be read.
fn permits((owner, group, mode): (u32, u32, u32), user: u32, groups: &[u32]) -> bool {
    let bit = match () {
        () if owner == user => 0o400,
        () if groups.contains(&group) => 0o040,
        () => 0o004,
    };
    mode & bit != 0
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owner_group_and_mode_permit_reading() {
        for (owner, group, mode, expected) in [
            (0, 0, 0o600, false),
            (7, 0, 0o600, true),
            (7, 9, 0o044, false),
            (0, 9, 0o640, true),
            (0, 9, 0o604, false),
            (0, 0, 0o604, true),
        ] {
            assert_eq!(
                permits((owner, group, mode), 7, &[8, 9]),
                expected,
                "{mode:o}"
            );
        }
    }
}
