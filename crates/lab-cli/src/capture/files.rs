//! Input and output files of the analyses.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::process::ExitCode;

use mpbond_command::{Failure, note};

/// Opens a file; its name is for errors.
pub(crate) fn open(path: &Path) -> Result<(String, BufReader<File>), Failure> {
    let name = path.display().to_string();
    match File::open(path) {
        Ok(file) => Ok((name, BufReader::new(file))),
        Err(e) => Err(Failure::input(format_args!("{name}: {e}"))),
    }
}

pub(crate) fn write(path: &Path, what: &[u8]) -> Result<(), Failure> {
    std::fs::write(path, what).map_err(|e| Failure::run(format_args!("{}: {e}", path.display())))
}

/// Exit code: 1 after the results of incomplete input.
pub(crate) fn ended(command: &str, incomplete: Option<&String>) -> ExitCode {
    match incomplete {
        None => ExitCode::SUCCESS,
        Some(reason) => {
            note!("mpbond capture {command}: incomplete: {reason}");
            ExitCode::from(1)
        }
    }
}
