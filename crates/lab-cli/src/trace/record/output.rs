//! Output file of a recording, and the error of a machine that cannot record.

use std::fs::File;
use std::path::Path;

use mpbond_command::Failure;

use crate::trace::form::make_folder;

/// Exit code where the machine lacks something.
const LACKS: u8 = 3;

pub(crate) fn lacks(what: String) -> Failure {
    Failure::with_code(what, LACKS)
}

pub(crate) fn create(path: &Path) -> Result<File, Failure> {
    if let Some(folder) = path.parent().filter(|f| !f.as_os_str().is_empty()) {
        make_folder(folder)?;
    }
    File::create(path)
        .map_err(|e| Failure::run(format_args!("cannot write {}: {e}", path.display())))
}
