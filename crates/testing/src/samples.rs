//! Recorded samples, which may not be redistributed and so are not in the repository.

use std::path::{Path, PathBuf};

use crate::Need;

/// Path of a file or folder below `shared/samples` beside the repository, if it exists.
pub fn sample(name: &str) -> Option<PathBuf> {
    find(&format!("samples/{name}"))
}

/// Path of a recording of a link or a device below `shared/traces`, if it exists.
pub fn recording(name: &str) -> Option<PathBuf> {
    find(&format!("traces/{name}"))
}

fn find(name: &str) -> Option<PathBuf> {
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let path = shared.join(name);
    if !path.exists() {
        Need::Samples.is_missing(format_args!("{} is not there", path.display()));
        return None;
    }
    Some(path)
}
