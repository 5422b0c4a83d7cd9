//! Files with the user name and password of a front.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use mpbond_intercept::Credentials;

use super::source::ConfigError;

/// Maximum size of such a file: two parts of 255 octets, a colon and a line end.
const MAX_FILE_BYTES: u64 = 513;

/// Permissions of others than the owner.
const OTHERS: u32 = 0o077;

/// Reads `user:password` from a file that only its owner may access.
///
/// # Errors
/// When the file cannot be read, others may access it, or it has another form.
pub fn read_credentials(path: &Path) -> Result<Credentials, ConfigError> {
    let wrong = |problem: &dyn std::fmt::Display| ConfigError::about_file(path, problem);
    let unreadable = |e: std::io::Error| wrong(&format_args!("cannot be read: {e}"));
    let file = File::open(path).map_err(unreadable)?;
    let mode = file.metadata().map_err(unreadable)?.permissions().mode() & 0o777;
    if mode & OTHERS != 0 {
        return Err(wrong(&format_args!(
            "others may access this password (mode {mode:03o}): chmod 600 {}",
            path.display()
        )));
    }
    let mut text = String::new();
    let mut file = file.take(MAX_FILE_BYTES + 1);
    file.read_to_string(&mut text).map_err(unreadable)?;
    let credentials = Credentials::from_line(&text);
    credentials.ok_or_else(|| {
        wrong(
            &"not one line `user:password`, both of 1 to 255 octets without control characters, \
              the user name without a comma",
        )
    })
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};

    use super::*;

    #[test]
    fn a_password_is_its_owners_alone_and_never_shown() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socks.password");
        let write = |text: &str, mode| {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            read_credentials(&path)
        };
        assert!(write("anna:s3cret\n", 0o600).is_ok());
        assert!(write("anna:s3cret\n", 0o400).is_ok());
        for mode in [0o640, 0o604, 0o620, 0o602] {
            let error = write("anna:s3cret\n", mode).unwrap_err().to_string();
            assert!(error.contains("chmod 600"), "{error}");
        }
        for text in ["s3cret\n", "", "anna:s3cret\nsecond\n"] {
            let error = write(text, 0o600).unwrap_err().to_string();
            assert!(error.contains("user:password"), "{error}");
            assert!(!error.contains("s3cret"), "{error}");
        }
        let long = format!("anna:{}", "x".repeat(600));
        assert!(write(&long, 0o600).is_err());
        fs::remove_file(&path).unwrap();
        assert!(read_credentials(&path).is_err());
    }
}
