//! The program `mpbond`, for tests of programs that start it.
//!
//! Cargo builds the programs of the package under test alone. `cargo test --workspace` has built
//! `mpbond` before the first test runs; where only one package is tested, it is built here, if it
//! is missing or one of its sources is newer.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::SystemTime;

use crate::Program;

impl Program {
    /// `mpbond` beside this program, and not older than its sources.
    ///
    /// # Panics
    /// When it cannot be built.
    pub fn mpbond(self) -> &'static Path {
        static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
        PROGRAM.get_or_init(|| {
            let program = self.path().with_file_name("mpbond");
            if !is_fresh(&program) {
                build(&program);
            }
            program
        })
    }
}

fn modified(file: &Path) -> Option<SystemTime> {
    std::fs::metadata(file).and_then(|m| m.modified()).ok()
}

/// By the list of sources that cargo leaves beside a program: `PROGRAM: SOURCE SOURCE ...`, with
/// spaces in names behind a backslash.
fn is_fresh(program: &Path) -> bool {
    let list = std::fs::read_to_string(program.with_extension("d")).unwrap_or_default();
    let Some((_, sources)) = list.split_once(": ") else {
        return false;
    };
    let sources = sources.replace("\\ ", "\0");
    let mut sources = sources.split_whitespace().map(|s| s.replace('\0', " "));
    let built = modified(program);
    built.is_some() && sources.all(|s| modified(Path::new(&s)).is_none_or(|m| Some(m) <= built))
}

/// In the folder and profile that the test was built in.
fn build(program: &Path) {
    let folder = program.parent().unwrap();
    let profile = match folder.file_name().and_then(|n| n.to_str()) {
        Some("debug") | None => "dev",
        Some(name) => name,
    };
    let status = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--locked", "--package", "mpbond"])
        .args(["--bin", "mpbond", "--profile", profile, "--target-dir"])
        .arg(folder.parent().unwrap())
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status();
    assert!(status.unwrap().success(), "mpbond cannot be built");
    assert!(program.is_file(), "{} is missing", program.display());
}
