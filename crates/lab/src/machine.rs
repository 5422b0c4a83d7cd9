//! Facts about the machine for records, and checks of required programs.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::error::{Error, Result};
use crate::experiment::{Carrier, Client, Experiment, Interception};
use crate::transfer::client::{check_mptcp, curl};

/// Checks that the programs that `e` needs are installed.
///
/// # Errors
/// [`Error::Missing`] naming the package.
pub(crate) fn check(e: &Experiment) -> Result<()> {
    if e.client == Client::Curl {
        curl::check()?;
    }
    if needs_nft(e) && !answers("nft", "--version") {
        return Err(Error::Missing(
            "nft is missing, which transparent interception and tethering need: \
             install the package nftables (apt-get install nftables)"
                .into(),
        ));
    }
    let external = e
        .schemes
        .iter()
        .filter_map(|s| Some((s, s.external.as_ref()?)));
    for (scheme, external) in external {
        if let Some(program) = external.programs().find(|program| !is_in_path(program)) {
            return Err(Error::Missing(format!(
                "scheme \"{}\": the program {program} is not in PATH: install it, or select other \
                 schemes with --scheme",
                scheme.name.get_ref()
            )));
        }
    }
    if e.schemes.iter().any(|s| s.scheme == Carrier::Kibbutz) {
        check_mptcp()?;
        if !answers("ip", "-V") {
            return Err(Error::Missing(
                "ip is missing, which tethering needs: \
                 install the package iproute2 (apt-get install iproute2)"
                    .into(),
            ));
        }
    }
    Ok(())
}

/// Whether the experiment needs nft.
fn needs_nft(e: &Experiment) -> bool {
    e.schemes
        .iter()
        .any(|s| s.interception == Interception::Transparent || s.is_tethered())
}

/// Whether `program` is a path to an executable file, or the name of one in a folder of PATH.
fn is_in_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders = std::env::split_paths(&path);
    match program.contains('/') {
        true => is_executable(Path::new(program)),
        false => folders.any(|folder| is_executable(&folder.join(program))),
    }
}

fn is_executable(path: &Path) -> bool {
    let is_it = |of: std::fs::Metadata| of.is_file() && of.permissions().mode() & 0o111 != 0;
    path.metadata().is_ok_and(is_it)
}

fn answers(program: &str, argument: &str) -> bool {
    let mut command = Command::new(program);
    let asked = command.arg(argument).stdout(Stdio::null()).status();
    asked.is_ok_and(|status| status.success())
}

/// The time in UTC (RFC 3339), to the second.
pub fn date() -> String {
    let now = OffsetDateTime::now_utc();
    let now = now.replace_nanosecond(0).unwrap_or(now);
    now.format(&Rfc3339).unwrap_or_default()
}

/// The commit of the repository with `path`, if there is one.
pub(crate) fn commit(path: &Path) -> Option<String> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let output = Command::new("git")
        .current_dir(folder)
        .args([
            "describe",
            "--always",
            "--dirty",
            "--abbrev=12",
            "--exclude=*",
        ])
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}

/// The kernel's release.
pub(crate) fn kernel() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/osrelease");
    text.map(|t| t.trim().to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::fs::{File, Permissions};

    use super::*;

    #[test]
    fn a_program_is_an_executable_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        let text = path.to_str().unwrap();
        assert!(!is_in_path(text));
        let file = File::create(&path).unwrap();
        file.set_permissions(Permissions::from_mode(0o644)).unwrap();
        assert!(!is_in_path(text));
        file.set_permissions(Permissions::from_mode(0o755)).unwrap();
        assert!(is_in_path(text));
        assert!(!is_in_path(folder.path().to_str().unwrap()));
        assert!(is_in_path("sh"));
    }
}
