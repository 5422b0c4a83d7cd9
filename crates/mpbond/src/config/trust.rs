//! Devices that may connect: those in the configuration, and those in the trust file.
//!
//! The trust file is beside the identity: `identity.trusted` beside `identity.pem`. It has one line
//! per device: its id, then a name for people; `#` begins a comment line. `mpbond trust` and
//! `mpbond untrust` write it; a running daemon notices at the next handshake.

use std::collections::HashSet;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use mpbond_net::DeviceId;
use mpbond_net::tls::Trust;

use super::file;
use super::source::ConfigError;

const EXTENSION: &str = "trusted";
/// Maximum size of a trust file: about 15,000 devices.
const MAX_FILE_BYTES: u64 = 1 << 20;
const HEADER: &str = "\
# Devices that may connect: an id and a name on every line.
# `mpbond trust` and `mpbond untrust` change this file; a running daemon notices by itself.
";

/// A line of the trust file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustedDevice {
    /// Id of the device.
    pub id: DeviceId,
    /// Name shown to people; may be empty.
    pub name: String,
}

/// The trust file beside an identity.
#[derive(Clone, Debug)]
pub struct TrustFile {
    path: PathBuf,
}

impl TrustFile {
    /// The trust file of the device whose identity is in this file.
    pub fn beside(identity: &Path) -> Self {
        Self {
            path: identity.with_extension(EXTENSION),
        }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The devices in it; none when it does not exist.
    ///
    /// # Errors
    /// When it cannot be read, or a line of it is not a device.
    pub fn devices(&self) -> Result<Vec<TrustedDevice>, ConfigError> {
        let mut devices = Vec::new();
        for line in self.lines()? {
            if let Line::Device(device) = line? {
                devices.push(device);
            }
        }
        Ok(devices)
    }

    /// Adds a device, or gives it another name. Returns whether it is new.
    ///
    /// # Errors
    /// When the file cannot be read or written, or a line of it is not a device.
    pub fn add(&self, device: &TrustedDevice) -> Result<bool, ConfigError> {
        let _lock = self.lock()?;
        let mut lines = self.lines()?.into_iter().collect::<Result<Vec<_>, _>>()?;
        let known = lines.iter_mut().find_map(|line| match line {
            Line::Device(d) if d.id == device.id => Some(d),
            _ => None,
        });
        let new = known.is_none();
        match known {
            Some(d) if !device.name.is_empty() => d.name.clone_from(&device.name),
            Some(_) => return Ok(false),
            None => lines.push(Line::Device(device.clone())),
        }
        self.write(&lines)?;
        Ok(new)
    }

    /// Removes a device. Returns whether it was there.
    ///
    /// # Errors
    /// As [`TrustFile::add`].
    pub fn remove(&self, id: &DeviceId) -> Result<bool, ConfigError> {
        if !self.path.exists() {
            return Ok(false);
        }
        let _lock = self.lock()?;
        let lines = self.lines()?.into_iter().collect::<Result<Vec<_>, _>>()?;
        let before = lines.len();
        let lines: Vec<Line> = lines
            .into_iter()
            .filter(|line| !matches!(line, Line::Device(d) if d.id == *id))
            .collect();
        if lines.len() == before {
            return Ok(false);
        }
        self.write(&lines)?;
        Ok(true)
    }

    /// Undoes a change: the device gets the name that it had before, or is removed.
    ///
    /// # Errors
    /// As [`TrustFile::add`].
    pub fn restore(
        &self,
        id: &DeviceId,
        before: Option<&TrustedDevice>,
    ) -> Result<(), ConfigError> {
        match before {
            Some(device) => self.add(device).map(|_| ()),
            None => self.remove(id).map(|_| ()),
        }
    }

    fn unread(&self, e: &io::Error) -> ConfigError {
        ConfigError::about_file(&self.path, format_args!("cannot be read: {e}"))
    }

    fn unwritten(&self, what: &str, e: &io::Error) -> ConfigError {
        ConfigError::unwritten(&self.path, format_args!("cannot be {what}: {e}"))
    }

    fn lock(&self) -> Result<File, ConfigError> {
        file::lock(&self.path).map_err(|e| self.unwritten("locked", &e))
    }

    fn lines(&self) -> Result<Vec<Result<Line, ConfigError>>, ConfigError> {
        let text = file::read_guarded(&self.path, MAX_FILE_BYTES);
        let text = text.map_err(|e| self.unread(&e))?;
        let text = text.unwrap_or_default();
        let lines = text.lines().zip(1..).map(|(line, number)| {
            Line::parse(line).map_err(|problem| ConfigError::at_line(&self.path, number, problem))
        });
        Ok(lines.collect())
    }

    fn write(&self, lines: &[Line]) -> Result<(), ConfigError> {
        let mut text = String::new();
        if !matches!(lines.first(), Some(Line::Comment(_))) {
            text.push_str(HEADER);
        }
        for line in lines {
            line.append_to(&mut text);
        }
        file::replace(&self.path, &text).map_err(|e| self.unwritten("written", &e))
    }
}

enum Line {
    Comment(String),
    Device(TrustedDevice),
}

impl Line {
    fn parse(line: &str) -> Result<Self, String> {
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with('#') {
            return Ok(Self::Comment(line.to_owned()));
        }
        let (id, name) = trimmed
            .split_once(char::is_whitespace)
            .unwrap_or((trimmed, ""));
        let id = id.parse::<DeviceId>().map_err(|e| {
            format!("{e}; a line is a device id, or a device id and a name, or a # comment")
        })?;
        Ok(Self::Device(TrustedDevice {
            id,
            name: name.trim().to_owned(),
        }))
    }

    fn append_to(&self, text: &mut String) {
        match self {
            Self::Comment(line) => text.push_str(line),
            Self::Device(d) => {
                text.push_str(&d.id.to_string());
                if !d.name.is_empty() {
                    text.push(' ');
                    text.push_str(&d.name);
                }
            }
        }
        text.push('\n');
    }
}

/// Devices that may connect, checked at every handshake. Clones share the cached trust file.
#[derive(Clone, Debug)]
pub struct TrustStore(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    configured: HashSet<DeviceId>,
    file: TrustFile,
    seen: Mutex<Seen>,
}

/// Content of the trust file when it was last read.
#[derive(Debug, Default)]
struct Seen {
    stamp: Option<Stamp>,
    devices: HashSet<DeviceId>,
}

/// Version of a file: replacing it makes a new inode, editing it in place changes its times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl From<Metadata> for Stamp {
    fn from(m: Metadata) -> Self {
        Self {
            inode: m.ino(),
            bytes: m.len(),
            modified: (m.mtime(), m.mtime_nsec()),
            changed: (m.ctime(), m.ctime_nsec()),
        }
    }
}

impl TrustStore {
    /// Trusts the devices that the configuration names, and those in the trust file beside
    /// `identity`, which need not exist yet.
    pub fn new(identity: &Path, configured: impl IntoIterator<Item = DeviceId>) -> Self {
        let store = Self(Arc::new(Shared {
            configured: configured.into_iter().collect(),
            file: TrustFile::beside(identity),
            seen: Mutex::default(),
        }));
        // Errors in the file are reported at the start, not at the first connection.
        store.count();
        store
    }

    /// How many devices are trusted now.
    pub fn count(&self) -> usize {
        let seen = self.refresh();
        self.0.configured.union(&seen.devices).count()
    }

    /// Reads the trust file again if it has changed. An unreadable file or line trusts no device,
    /// so that a mistake never lets one in.
    fn refresh(&self) -> std::sync::MutexGuard<'_, Seen> {
        let shared = &*self.0;
        let mut seen = shared.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = fs::metadata(shared.file.path()).ok().map(Stamp::from);
        if stamp != seen.stamp {
            seen.stamp = stamp;
            seen.devices.clear();
            match shared.file.lines() {
                Ok(lines) => {
                    for line in lines {
                        match line {
                            Ok(Line::Device(device)) => drop(seen.devices.insert(device.id)),
                            Ok(Line::Comment(_)) => {}
                            Err(error) => tracing::warn!("{error}; this line is ignored"),
                        }
                    }
                }
                Err(error) => tracing::error!("{error}; no device in it is trusted"),
            }
        }
        seen
    }
}

impl Trust for TrustStore {
    fn trusts(&self, id: &DeviceId) -> bool {
        self.0.configured.contains(id) || self.refresh().devices.contains(id)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn id(n: u8) -> DeviceId {
        DeviceId::from_bytes([n; 32])
    }

    fn device(n: u8, name: &str) -> TrustedDevice {
        TrustedDevice {
            id: id(n),
            name: name.to_owned(),
        }
    }

    #[test]
    fn an_untrusted_device_is_refused_the_next_time() {
        let folder = tempfile::tempdir().unwrap();
        let identity = folder.path().join("identity.pem");
        let file = TrustFile::beside(&identity);
        let store = TrustStore::new(&identity, [id(1)]);
        assert!(store.trusts(&id(1)) && !store.trusts(&id(2)));

        assert!(file.add(&device(2, "my phone")).unwrap());
        assert!(store.trusts(&id(2)));
        assert_eq!(store.count(), 2);
        assert!(!file.add(&device(2, "")).unwrap(), "known already");
        assert_eq!(file.devices().unwrap(), [device(2, "my phone")]);

        assert!(file.remove(&id(2)).unwrap());
        assert!(!store.trusts(&id(2)));
        assert!(!file.remove(&id(2)).unwrap());
        assert!(store.trusts(&id(1)), "the configuration still names it");
    }

    #[test]
    fn only_the_owner_may_read_it_and_comments_stay() {
        let folder = tempfile::tempdir().unwrap();
        let file = TrustFile::beside(&folder.path().join("deep/identity.pem"));
        file.add(&device(1, "")).unwrap();
        let mode = fs::metadata(file.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let text = fs::read_to_string(file.path()).unwrap();
        fs::write(file.path(), format!("{text}# the tablets\n")).unwrap();
        file.add(&device(2, "tablet")).unwrap();
        let text = fs::read_to_string(file.path()).unwrap();
        assert!(text.contains("# the tablets\n"), "{text}");
        assert_eq!(text.matches("# Devices that may connect").count(), 1);
    }

    #[test]
    fn a_file_that_others_may_write_lets_nobody_in() {
        let folder = tempfile::tempdir().unwrap();
        let identity = folder.path().join("identity.pem");
        let file = TrustFile::beside(&identity);
        file.add(&device(1, "")).unwrap();
        let store = TrustStore::new(&identity, []);
        assert!(store.trusts(&id(1)));
        for mode in [0o666, 0o620, 0o602] {
            let permissions = fs::Permissions::from_mode(mode);
            fs::set_permissions(file.path(), permissions).unwrap();
            assert!(!store.trusts(&id(1)), "{mode:o}");
            let error = file.add(&device(2, "")).unwrap_err().to_string();
            assert!(error.contains("chmod go-w"), "{error}");
        }
        let permissions = fs::Permissions::from_mode(0o644);
        fs::set_permissions(file.path(), permissions).unwrap();
        assert!(store.trusts(&id(1)));
    }

    #[test]
    fn an_invalid_line_trusts_no_device_and_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let identity = folder.path().join("identity.pem");
        let file = TrustFile::beside(&identity);
        fs::write(file.path(), format!("nonsense\n{}\n", id(2))).unwrap();
        let store = TrustStore::new(&identity, []);
        assert!(store.trusts(&id(2)) && !store.trusts(&id(1)));
        let error = file.add(&device(1, "")).unwrap_err().to_string();
        assert!(error.contains("identity.trusted:1: "), "{error}");
        fs::write(file.path(), [0xff, 0xfe]).unwrap();
        assert!(!store.trusts(&id(2)), "unreadable: nobody is trusted");
    }
}
