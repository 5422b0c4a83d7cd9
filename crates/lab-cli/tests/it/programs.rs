//! The two programs that tests run.

use std::path::Path;
use std::process::{Command, Output};

use mpbond_testing::Program;

/// `mpbond-lab`.
pub const LAB: Program = Program::new(env!("CARGO_BIN_EXE_mpbond-lab"));

/// `mpbond-lab` in a folder.
pub fn lab_in(folder: &Path, args: &[&str]) -> Command {
    let mut command = LAB.command(args);
    command.current_dir(folder);
    command
}

/// The one line in which a program refused its input.
pub fn refusal(output: &Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert_eq!(errors.lines().count(), 1, "{errors}");
    errors
}

/// `mpbond`, which some of these tests start, and which the lab looks for beside itself.
pub fn mpbond() -> &'static Path {
    LAB.mpbond()
}
