//! A helper's or a proxy's configuration, written by a program.

use std::path::Path;

use super::file;
use super::helper::HelperConfig;
use super::place::Role;
use super::primary::PrimaryConfig;
use super::proxy::ProxyConfig;
use super::source::{ConfigError, Source};

/// Checks that a daemon of this role could start with a configuration.
///
/// # Errors
/// One line naming the file, which need not exist, line, key and what is allowed.
pub fn check_config(role: Role, path: &Path, text: &str) -> Result<(), ConfigError> {
    let source = Source::of_text(path, text.to_owned());
    match role {
        Role::Primary => PrimaryConfig::of_source(&source).map(drop),
        Role::Helper => HelperConfig::of_source(&source).map(drop),
        Role::Proxy => ProxyConfig::of_source(&source).map(drop),
    }
}

/// Writes a complete configuration, whole or not at all. A file that is there is replaced, and
/// keeps its owner and permissions.
///
/// # Errors
/// When a daemon of this role could not start with it, or the file cannot be written. Nothing has
/// been changed then.
pub fn write_config(role: Role, path: &Path, text: &str) -> Result<(), ConfigError> {
    check_config(role, path, text)?;
    let written = file::lock(path).and_then(|_lock| file::replace(path, text));
    written.map_err(|e| ConfigError::unwritten(path, format_args!("cannot be written: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_daemon_could_start_with_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/helper.toml");
        let error = write_config(Role::Helper, &path, "name = \"phone\"\n").unwrap_err();
        assert!(error.to_string().contains("proxies: missing"), "{error}");
        assert!(!path.exists());
        let text = "proxies = \"203.0.113.1:4433\"\n";
        write_config(Role::Helper, &path, text).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        write_config(Role::Helper, &path, "proxy = 1\n").unwrap_err();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text, "kept");
    }
}
