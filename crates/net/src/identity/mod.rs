//! Device identities: a key, a self-signed certificate, and the id, which is the certificate's
//! hash.

mod device_id;
mod error;
mod new_key;

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, fchown};
use std::path::Path;
use std::sync::Arc;

use rustls::Error;
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use crate::tls::PROVIDER;

pub use device_id::{DeviceId, ParseDeviceIdError};
pub use error::IdentityError;

/// Maximum size of an identity file: two PEM sections of a few hundred bytes. Longer files are
/// rejected unread.
const MAX_FILE_BYTES: u64 = 16 * 1024;

/// A device's key and certificate, ready for TLS.
///
/// Cloning is cheap; the clones share one key.
#[derive(Clone)]
pub struct Identity {
    certified: Arc<CertifiedKey>,
    id: DeviceId,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

impl Identity {
    /// Generates an identity in memory.
    ///
    /// # Errors
    /// When the system's random source fails.
    pub fn generate() -> Result<Self, IdentityError> {
        let (certificate, key) = new_key::with_certificate()?;
        Self::from_parts(certificate, key.into()).map_err(IdentityError::Generate)
    }

    /// Loads the identity in `path`. When the file is missing, creates it with mode 0600, and its
    /// directories.
    ///
    /// Two processes that start at once load the same identity: the file is created atomically and
    /// never replaced.
    ///
    /// # Errors
    /// When the file cannot be read or written, may be read by other users, or does not hold a key
    /// and its certificate.
    pub fn load_or_create(path: impl AsRef<Path>) -> Result<Self, IdentityError> {
        let path = path.as_ref();
        match Self::load(path) {
            Err(IdentityError::Io { cause, .. }) if cause.kind() == io::ErrorKind::NotFound => {
                create(path)?;
                Self::load(path)
            }
            other => other,
        }
    }

    /// Loads the identity in `path`, which must exist.
    ///
    /// # Errors
    /// As [`Identity::load_or_create`], and when there is no such file.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, IdentityError> {
        let path = path.as_ref();
        let io_error = |cause| IdentityError::Io {
            path: path.to_owned(),
            cause,
        };
        let file = File::open(path).map_err(io_error)?;
        let meta = file.metadata().map_err(io_error)?;
        let mode = meta.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(IdentityError::Readable {
                path: path.to_owned(),
                mode,
            });
        }
        let malformed = |reason: String| IdentityError::Malformed {
            path: path.to_owned(),
            reason,
        };
        let mut pem = Vec::new();
        file.take(MAX_FILE_BYTES + 1)
            .read_to_end(&mut pem)
            .map_err(io_error)?;
        if pem.len() as u64 > MAX_FILE_BYTES {
            return Err(malformed(format!("longer than {MAX_FILE_BYTES} bytes")));
        }
        let certificate = CertificateDer::from_pem_slice(&pem)
            .map_err(|e| malformed(format!("no certificate found ({})", defect(&e))))?;
        let key = PrivateKeyDer::from_pem_slice(&pem)
            .map_err(|e| malformed(format!("no private key found ({})", defect(&e))))?;
        Self::from_parts(certificate, key).map_err(malformed)
    }

    /// Replaces the identity in `path` by a new one, or creates it. Returns the old id, if the old
    /// file could be read, and the new identity.
    ///
    /// The file is replaced atomically and keeps its owner, so that a daemon that runs as another
    /// user can still read it.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn rotate(path: impl AsRef<Path>) -> Result<(Option<DeviceId>, Self), IdentityError> {
        let path = path.as_ref();
        let io_error = |cause| IdentityError::Io {
            path: path.to_owned(),
            cause,
        };
        // An exposed or damaged key is a reason to rotate, not an error.
        let old = Self::load(path).ok().map(|old| old.id());
        // A symbolic link stays a link.
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let file = write_new(&target)?;
        if let Ok(before) = fs::metadata(&target) {
            let new = file.as_file().metadata().map_err(io_error)?;
            if (before.uid(), before.gid()) != (new.uid(), new.gid()) {
                fchown(file.as_file(), Some(before.uid()), Some(before.gid())).map_err(io_error)?;
            }
        }
        file.persist(&target).map_err(|e| io_error(e.error))?;
        Ok((old, Self::load(&target)?))
    }

    fn from_parts(
        certificate: CertificateDer<'static>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Self, String> {
        let id = DeviceId::of_certificate(&certificate);
        let certified =
            CertifiedKey::from_der(vec![certificate], key, &PROVIDER).map_err(|e| match e {
                Error::InconsistentKeys(_) => "key and certificate do not match".to_owned(),
                Error::General(reason) => reason,
                e => format!("unusable key ({e})"),
            })?;
        Ok(Self {
            certified: Arc::new(certified),
            id,
        })
    }

    /// This device's id.
    pub fn id(&self) -> DeviceId {
        self.id
    }

    /// An impostor: this device's certificate with another device's key.
    #[cfg(test)]
    pub(crate) fn certificate_with_key_of(&self, other: &Self) -> Self {
        let certified = CertifiedKey::new(self.certified.cert.clone(), other.certified.key.clone());
        Self {
            certified: Arc::new(certified),
            id: self.id,
        }
    }

    pub(crate) fn certified(&self) -> &Arc<CertifiedKey> {
        &self.certified
    }
}

/// The defect of a PEM file. The library shows lines as lists of numbers.
fn defect(e: &PemError) -> String {
    match e {
        PemError::MissingSectionEnd { .. } => "the file is cut: a section has no end".to_owned(),
        PemError::IllegalSectionStart { .. } => "a section begins with a wrong line".to_owned(),
        e => e.to_string(),
    }
}

fn create(path: &Path) -> Result<(), IdentityError> {
    let file = write_new(path)?;
    match file.persist_noclobber(path) {
        Ok(_) => Ok(()),
        // Another process was faster: its identity is used.
        Err(e) if e.error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(e) => Err(IdentityError::Io {
            path: path.to_owned(),
            cause: e.error,
        }),
    }
}

/// Writes a new key and certificate to a temporary file beside `path` and syncs it to disk.
fn write_new(path: &Path) -> Result<tempfile::NamedTempFile, IdentityError> {
    let io_error = |cause| IdentityError::Io {
        path: path.to_owned(),
        cause,
    };
    let folder = match path.parent() {
        Some(p) if !p.as_os_str().is_empty() => p,
        _ => Path::new("."),
    };
    if !folder.exists() {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(io_error)?;
    }
    let (certificate, key) = new_key::with_certificate()?;
    let mut file = tempfile::Builder::new()
        .prefix(".identity-")
        .permissions(fs::Permissions::from_mode(0o600))
        .tempfile_in(folder)
        .map_err(io_error)?;
    for (label, der) in [
        ("PRIVATE KEY", key.secret_pkcs8_der()),
        ("CERTIFICATE", &certificate[..]),
    ] {
        let lines = pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF);
        let section = pem::encode_config(&pem::Pem::new(label, der), lines);
        file.write_all(section.as_bytes()).map_err(io_error)?;
    }
    // A file that root creates for a daemon of another user gets the owner of its directory. In a
    // user namespace without that user, chown fails and root keeps the file.
    let owner = fs::metadata(folder).map_err(io_error)?;
    if file.as_file().metadata().map_err(io_error)?.uid() == 0 {
        let _ = fchown(file.as_file(), Some(owner.uid()), Some(owner.gid()));
    }
    file.as_file().sync_all().map_err(io_error)?;
    Ok(file)
}

#[cfg(test)]
mod tests;
