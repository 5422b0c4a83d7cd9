//! Configuration files of a setup: written, printed, or kept.

use std::path::Path;

use mpbond::config::{Role, check_config, config_file, write_config};
use mpbond_command::{Failure, print};

use super::super::change::of_change;

/// Writes a complete configuration, or prints it.
pub(super) fn write(role: Role, text: &str, dry_run: bool) -> Result<(), Failure> {
    let file = config_file(role);
    if dry_run {
        check_config(role, &file, text).map_err(Failure::input)?;
        return print(&shown(&file, text));
    }
    write_config(role, &file, text).map_err(of_change)?;
    print(&format!("Written: {}\n", file.display()))
}

/// Says that a file is kept.
pub(super) fn kept(file: &Path) -> Result<(), Failure> {
    print(&format!(
        "Kept as it is: {} (--replace writes it anew)\n",
        file.display()
    ))
}

/// A file with its name above it.
pub(super) fn shown(file: &Path, text: &str) -> String {
    format!("# {}\n{text}", file.display())
}
