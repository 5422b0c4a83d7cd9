//! Errors of loading and creating identities.

use std::io;
use std::path::PathBuf;

use mpbond_units::shell_word;

/// Remedy for an error of the operating system.
fn advice(cause: &io::Error) -> &'static str {
    match cause.kind() {
        io::ErrorKind::PermissionDenied => "; run this as its owner, or as root",
        _ => "",
    }
}

/// Error of loading or creating an identity.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// The file or its directory could not be read or written.
    #[error("identity file {path}: {cause}{}", advice(cause))]
    Io {
        /// The file.
        path: PathBuf,
        /// Error of the operating system.
        cause: io::Error,
    },
    /// Other users may read the key.
    #[error(
        "identity file {path} may be read by others (mode {mode:03o}): \
         run `chmod 600 {}`, or remove it to get a new identity",
        shell_word(&path.display().to_string())
    )]
    Readable {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The content is not an identity.
    #[error("identity file {path}: {reason}; restore it, or remove it to get a new identity")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The defect.
        reason: String,
    },
    /// No key or certificate could be generated.
    #[error("cannot generate an identity: {0}")]
    Generate(String),
}
